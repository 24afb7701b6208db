"""Prints the lowest versions that pyproject.toml allows, as constraints for pip: what ``make test-lowest`` installs."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
needed = project["dependencies"] + project["optional-dependencies"]["test"]
print("\n".join(entry.replace(">=", "==") for entry in needed if ">=" in entry and "[" not in entry))
