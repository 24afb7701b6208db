"""Keywords of a plot: its own, those of what draws it, and a clear answer to any other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from matplotlib.artist import Artist
from matplotlib.cbook import normalize_kwargs
from matplotlib.colors import is_color_like

Drawer = Callable[..., Any] | type[Artist]
"""What takes the extra keywords of a plot: a function or method, or the class of the artist that it makes."""

#: Keywords of the page of every plot, as scanpy has them.
PAGE = ("figsize", "ncols", "title", "save")
_COLUMN = "put the values into a column of adata.obs and name that as color"
#: Keywords of scanpy's plots that ours do not have, and what to do instead.
REMEDIES = {
    "save": "name the file as path=...",
    "ncols": "it has one panel",
    "layer": _COLUMN,
    "use_raw": _COLUMN,
    "gene_symbols": _COLUMN,
}

COLOURS = ("color", "colors", "c")


def check_options(
    plot: Callable[..., Any],
    given: Mapping[str, Any],
    *drawers: Drawer,
    also: tuple[str, ...] = (),
    but: tuple[str, ...] = (),
) -> None:
    """Raise unless each extra keyword of ``plot`` is one of a drawer or of ``also``, and has an effect: not in ``but``.

    Before anything is drawn: matplotlib raises an AttributeError that names none of our parameters, and scanpy ignores
    some keywords in silence.
    """
    theirs = set(also).union(*map(_keywords, drawers)).difference(REMEDIES, but) if given else set()
    for name, value in given.items():
        if name not in theirs:
            raise TypeError(_refusal(plot, name, sorted(theirs), drawers[0]))
        if name in COLOURS:
            _check_colours(name, value)


def merged(look: Mapping[str, Any], given: Mapping[str, Any], artist: type[Artist]) -> dict[str, Any]:
    """The keywords given, and those of ``look`` that are not given under any of their names (``lw``, ``linewidth``)."""
    named = {_canonical(name, artist) for name in given}
    return {name: value for name, value in look.items() if _canonical(name, artist) not in named} | dict(given)


def listed(names: Any, last: str = "and") -> str:
    """Names as a sentence lists them."""
    *most, final = map(str, names)
    return f"{', '.join(most)} {last} {final}" if most else final


def _keywords(drawer: Drawer) -> set[str]:
    """The keywords that a function has a default for, or that an artist is made with or has a setter for."""
    makers = [c for c in drawer.__mro__ if issubclass(c, Artist)] if isinstance(drawer, type) else [drawer]
    parameters = [p for maker in makers for p in inspect.signature(maker).parameters.values()]
    setters = {name.removeprefix("set_") for name in dir(drawer) if name.startswith("set_")}
    return {p.name for p in parameters if p.default is not p.empty} | setters


def _own(plot: Callable[..., Any]) -> list[str]:
    """The parameters of a plot after ``adata``."""
    return [p.name for p in inspect.signature(plot).parameters.values() if p.kind is not p.VAR_KEYWORD][1:]


def _refusal(plot: Callable[..., Any], name: str, theirs: list[str], drawer: Drawer) -> str:
    """What a user reads who gave a keyword that nobody takes."""
    own, others = _own(plot), list(_plots_with(name))
    near = [*get_close_matches(name, own, 1, 0.7), *get_close_matches(name, theirs, 1, 0.7)]
    if name in REMEDIES:
        remedy = f"; {REMEDIES[name]}."
    elif near:
        remedy = f"; did you mean {near[0]!r}?"
    else:
        remedy = f", which {listed(others)} {'take' if len(others) > 1 else 'takes'}." if others else "."
    passed_on = f"{drawer.__qualname__} of {drawer.__module__.partition('.')[0]}"
    page = listed(PAGE)
    return (
        f"{plot.__name__} takes no {name!r}{remedy} It takes {listed(own)}; {page} as scanpy's plots; "
        f"other keywords go to {passed_on}."
    )


def _plots_with(name: str) -> Iterator[str]:
    """The plots that have a parameter of this name."""
    from .. import pl  # not before all plots are defined

    return (plot for plot in pl.__all__ if name in _own(getattr(pl, plot)))


def _check_colours(name: str, value: Any) -> None:
    """Raise for text that is no colour: as a rule the name of a column."""
    for colour in value if isinstance(value, list | tuple) else [value]:
        if isinstance(colour, str) and not is_color_like(colour):
            raise ValueError(
                f"{name}={colour!r} is no colour that matplotlib knows, such as 'black' or '#0072B2'. Cells are "
                f"coloured by a column of obs or a gene in {listed(_plots_with('color'))}."
            )


def _canonical(name: str, artist: type[Artist]) -> str:
    """The one name of a property that has several."""
    return "color" if name in COLOURS else next(iter(normalize_kwargs({name: None}, artist)))
