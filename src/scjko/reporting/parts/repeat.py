"""How to repeat the fit: its call and its versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ... import get
from ...edge.options import READY_MADE
from ..markup import element, paragraph
from ..subject import Part, Subject

#: Characters of a line of code, at most where it can be broken.
WIDTH = 80


def repeat(subject: Subject) -> Part:
    """The call that repeats the fit bit for bit, on the same cells and machine and with the same versions."""
    params = get.params(subject.adata, subject.keys.key)
    stored = subject.stored.get("versions", {"scjko": subject.stored["version"]})
    versions = [f"{name} {stored[name]}" for name in sorted(stored, key=lambda name: (name != "scjko", name.lower()))]
    body = [
        paragraph("This call gives the same fit, bit for bit on the same machine with the same versions:"),
        element("pre", element("code", call(params)), tabindex="0"),
        paragraph("Versions of the fit: ", ", ".join(versions), ".", class_="note"),
    ]
    if params["coupling"] == READY_MADE:
        note = "The fit was given its couplings, which it does not keep: couplings stands for these matrices."
        body.insert(2, paragraph(note, class_="note"))
    return Part("repeat", "Repeat it", body)


def call(params: Mapping[str, Any]) -> str:
    """The fit with these parameters, as Python."""
    lines = [
        f"    {name}={'couplings' if name == 'coupling' and value == READY_MADE else _broken(value, len(name) + 6)},"
        for name, value in params.items()
    ]
    return "\n".join(["import scjko as sj", "", "sj.tl.fit_energy(", "    adata,", *lines, ")"])


def _broken(value: Any, used: int) -> str:
    """A value in one line, or an object with options in several if that is too long."""
    line = source(value)
    if used + len(line) <= WIDTH or not is_dataclass(value):
        return line
    told = "".join(f"        {name}={source(own)},\n" for name, own in _options(value))
    return f"sj.{type(value).__name__}(\n{told}    )"


def _options(value: Any) -> list[tuple[str, Any]]:
    """The options of an object that differ from their defaults."""
    plain = type(value)()
    pairs = [(field.name, getattr(value, field.name)) for field in fields(value)]
    return [(name, own) for name, own in pairs if own != getattr(plain, name)]


def source(value: Any) -> str:
    """A value as Python writes it; objects with options as those that differ from their defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        return f"sj.{type(value).__name__}({', '.join(f'{name}={source(own)}' for name, own in _options(value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{source(k)}: {source(v)}' for k, v in value.items())}}}"
    return repr(value)
