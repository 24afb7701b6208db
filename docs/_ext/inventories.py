"""Inventories for intersphinx from ``docs/inventories.toml``, so that links to other projects need no network."""

from __future__ import annotations

import tomllib
import zlib
from pathlib import Path

HEADER = (
    "# Sphinx inventory version 2\n# Project: {name}\n# Version: \n"
    "# The remainder of this file is compressed using zlib.\n"
)


def mapping(table: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Write an inventory for each project of the table into a folder, and give ``intersphinx_mapping``."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for project in tomllib.loads(table.read_text(encoding="utf-8"))["project"]:
        path = folder / f"{project['name']}.inv"
        lines = [
            f"{name} py:{entry['kind']} 1 {_place(entry['page'], name)} -\n"
            for entry in project["pages"]
            for name in entry["names"]
        ]
        path.write_bytes(HEADER.format(name=project["name"]).encode() + zlib.compress("".join(lines).encode()))
        found[project["name"]] = (project["url"], str(path))
    return found


def _place(page: str, name: str) -> str:
    """The page and the anchor, by default the name itself."""
    return page if "#" in page else f"{page.format(name=name)}#$"
