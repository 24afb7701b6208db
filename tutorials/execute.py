"""Execute the tutorials from clean kernels and keep their outputs: python tutorials/execute.py [NAME ...].

A notebook may name packages that it needs in its metadata, ``"scjko": {"needs": ["cellrank"]}``. Where one of them is
not installed, the notebook is left as it is, and a line says so.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
#: Seconds for a cell. Most take a few; those that validate have minutes on a busy machine.
TIMEOUT = 1800
WIDGET = "application/vnd.jupyter.widget-view+json"


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
        missing = [name for name in notebook.metadata.get("scjko", {}).get("needs", ()) if find_spec(name) is None]
        if missing:
            print(f"{path.name}: left as it is, because {', '.join(missing)} is not installed here", flush=True)
            continue
        # Without times of execution, so that a notebook changes only where its outputs do.
        client = NotebookClient(
            notebook, timeout=TIMEOUT, record_timing=False, resources={"metadata": {"path": FOLDER}}
        )
        client.execute()
        notebook.metadata["language_info"] = {"name": "python"}
        notebook.metadata.pop("widgets", None)
        for cell in notebook.cells:
            if cell.cell_type == "code":  # progress bars are dead without their kernel
                cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.perf_counter() - begun:.0f} s", flush=True)
    print(f"all: {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
