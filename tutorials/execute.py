"""Execute the tutorials from clean kernels and keep their outputs: python tutorials/execute.py [NAME ...]."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def main(names: list[str]) -> None:
    """Execute the notebooks whose names start with one of ``names``, all by default."""
    data = Path(os.environ.get("SCJKO_DATA", FOLDER.parents[1] / "shared" / "data")) / "embryoid_body" / "eb_pca5.npz"
    if data.is_file():
        os.environ.setdefault("SCJKO_EMBRYOID_BODY", str(data))
    started = time.perf_counter()
    for path in sorted(FOLDER.glob("*.ipynb")):
        if names and not path.name.startswith(tuple(names)):
            continue
        begun = time.perf_counter()
        notebook = nbformat.read(path, as_version=4)
        # Without times of execution, so that a notebook changes only where its outputs do.
        NotebookClient(notebook, timeout=600, record_timing=False, resources={"metadata": {"path": FOLDER}}).execute()
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.perf_counter() - begun:.0f} s", flush=True)
    print(f"all: {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
