"""A grid of trials whose results are kept: what is finished is not computed twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from ..edge.checks import check_option
from ..edge.logging import logger, progress_bar
from ..edge.storage.files import write_text

Cell = dict[str, Any]
Row = dict[str, Any]


def run_grid(
    name: str,
    cells: Sequence[Cell],
    compute: Callable[..., Row | list[Row]],
    folder: str | Path | None,
    *,
    progress: bool = True,
) -> pd.DataFrame:
    """The rows that ``compute(**cell)`` gives for all cells, each with the cell's own entries in front.

    With a ``folder`` they are kept in ``<name>.json`` after every cell, and read from there the next time.
    """
    store = None if folder is None else _Store(Path(folder) / f"{name}.json")
    rows: list[Row] = []
    with progress_bar(len(cells), name, enabled=progress) as bar:
        for cell in cells:
            found = store.get(cell) if store is not None else None
            if found is None:
                computed = compute(**cell)
                found = computed if isinstance(computed, list) else [computed]
                if store is not None:
                    store.put(cell, found)
            rows += [{**cell, **row} for row in found]
            bar.update()
    return pd.DataFrame(rows)


def write(name: str, frame: pd.DataFrame, figure: Figure, folder: str | Path | None) -> None:
    """The table as ``<name>.csv`` (columns of lists left out) and the figure as ``<name>.png``."""
    if folder is None:
        return
    flat = [column for column in frame if not frame[column].map(lambda value: isinstance(value, list)).any()]
    frame[flat].to_csv(Path(folder) / f"{name}.csv", index=False)
    figure.savefig(Path(folder) / f"{name}.png", dpi=150)


def chosen(name: str, asked: Iterable[str] | None, known: Iterable[str], default: Iterable[str]) -> list[str]:
    """The requested names, or the default ones; an unknown one is an error that lists the known."""
    if asked is None:
        return list(default)
    known, asked = list(known), [asked] if isinstance(asked, str) else list(asked)
    for one in asked:
        check_option(name, one, known)
    return asked


class _Store:
    """Finished cells in a JSON file that is replaced as a whole, so that an interrupt leaves no half of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.finished: dict[str, list[Row]] = self._read()
        self._write()  # a folder that cannot be written to is an error now, not after the first hour

    def get(self, cell: Cell) -> list[Row] | None:
        return self.finished.get(_identity(cell))

    def put(self, cell: Cell, rows: list[Row]) -> None:
        self.finished[_identity(cell)] = rows
        self._write()

    def _read(self) -> dict[str, list[Row]]:
        if not self.path.exists():
            return {}
        try:
            content = json.loads(self.path.read_text())
            made_by, finished = content["version"], content["finished"]
        except (ValueError, KeyError, TypeError):
            made_by, finished = "something else", {}
        if made_by != version("scjko") or not isinstance(finished, dict):
            logger.warning(
                "%s was written by %s, not by this version of scjko (%s); its results are computed anew.",
                self.path,
                made_by if made_by == "something else" else f"version {made_by}",
                version("scjko"),
            )
            return {}
        return finished

    def _write(self) -> None:
        write_text(json.dumps({"version": version("scjko"), "finished": self.finished}, indent=0), self.path)


def _identity(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)
