"""The notebooks of the project's ``tutorials`` folder, brought into the site while it is built."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = "tutorials"


def setup(app: Sphinx) -> dict[str, Any]:
    """Hook into the build."""
    app.connect("builder-inited", copy_notebooks)
    app.connect("source-read", list_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def notebooks(app: Sphinx) -> list[Path]:
    """The notebooks of the project, in the order of their names."""
    return sorted((Path(app.srcdir).parent / FOLDER).glob("*.ipynb"))


def copy_notebooks(app: Sphinx) -> None:
    """Copy the notebooks to where Sphinx finds them; remove copies of those that are gone."""
    folder, here = Path(app.srcdir) / FOLDER, notebooks(app)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.ipynb"):
        if old.name not in {path.name for path in here}:
            old.unlink()
    for path in here:
        shutil.copy2(path, folder / path.name)


def list_notebooks(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the notebooks below the page of tutorials, which is rebuilt as soon as there are others."""
    if docname != "tutorials":
        return
    app.env.note_reread()
    names = [f"{FOLDER}/{path.stem}" for path in notebooks(app)]
    below = ["```{toctree}", ":maxdepth: 1", "", *names, "```"] if names else ["There are none yet."]
    source[0] += "\n".join(["", *below, ""])
