"""Check that a tag can be released: python .github/check_release.py v0.2.0.

The tag, pyproject.toml, CITATION.cff, the change log and the file of a fit in tests/files must name the same version.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What stands between the tag and a release."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        return [f"The tag is {tag}, but pyproject.toml has version {version}: the tag must be v{version}."]
    found = []
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        found.append(f"CITATION.cff does not have version {version}.")
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", log, re.M):
        found.append(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'.")
    if re.search(r"^## \[Unreleased\]\n+(?!## )\S", log, re.M):
        found.append(f"CHANGELOG.md still has entries under Unreleased: move them to {version}.")
    if not (root / "tests" / "files" / f"fit_{version}.h5ad").exists():
        found.append(f"tests/files/fit_{version}.h5ad is missing: run tests/files/write_fit.py.")
    return found


if __name__ == "__main__":
    found = problems(sys.argv[1])
    print("\n".join(found) or f"{sys.argv[1]} can be released.")
    sys.exit(bool(found))
