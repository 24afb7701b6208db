"""Options of a fit on the command line: flags, and ``--set NAME=VALUE`` for any other."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from .. import tl
from ..core.energy.specification import Interaction, Internal, Term, Terms
from ..core.fitting.parametrizations import PARAMETRIZATIONS, as_parametrization
from ..core.schemes import SCHEMES
from ..core.transport import SOLVERS, as_solver
from ..edge.options import FitOptions

#: Options of a fit with a flag of their own; others go through ``--set``.
FLAGS: dict[str, dict[str, Any]] = {
    "n_pcs": {"type": int, "metavar": "N", "help": "components to use (default: all)"},
    "use_rep": {"metavar": "NAME", "help": "representation in obsm (default: the PCA)"},
    "weight_key": {"metavar": "NAME", "help": "column of obs with the weight of each cell"},
    "terms": {"nargs": "+", "metavar": "TERM", "help": "potential, interaction, internal (default: potential)"},
    "parametrization": {"choices": (*PARAMETRIZATIONS, "auto"), "help": "default: auto"},
    "scheme": {"choices": SCHEMES, "help": "default: both"},
    "whiten": {"action": "store_true", "default": None, "help": "standardise each component"},
    "coupling": {"choices": tuple(SOLVERS), "help": "default: auto"},
    "memory_limit": {
        "type": float,
        "metavar": "GB",
        "help": "memory for couplings (default: a quarter of what this process may use)",
    },
    "epochs": {
        "type": int,
        "metavar": "N",
        "help": "passes of a neural fit over the data (default: about 4000 updates)",
    },
    "random_state": {"type": int, "metavar": "SEED", "help": "default: 0"},
}
#: Arguments of a fit that make no sense from file to file.
NOT_HERE = ("adata", "progress", "copy", "client")
#: What has options of its own, by the argument of a fit that takes it, and the names that this argument may have.
KINDS: dict[str, dict[str, type[Any]]] = {
    "parametrization": dict(PARAMETRIZATIONS),
    "coupling": dict(SOLVERS),
    "terms": {kind.name: kind for kind in (Interaction, Internal)},
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags for the options of a fit."""
    for name, options in FLAGS.items():
        parser.add_argument(_flag(name), **options)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other option of a fit, or of its parametrization, coupling or terms; values are JSON",
    )


def check_names(parsed: argparse.Namespace) -> None:
    """Raise for a ``--set`` that nothing takes, before anything is read."""
    _named(parsed)


def fit_options(parsed: argparse.Namespace, earlier: FitOptions | None = None) -> dict[str, Any]:
    """The options that the command line names, as arguments of :func:`scjko.tl.fit_energy`.

    Options of a parametrisation, solver or term go into that object: the one named, that of an earlier fit, or the
    default.
    """
    named = _named(parsed)
    base = earlier if earlier is not None else FitOptions(time_key="")
    told = {name: named.pop(name) for name in tuple(named) if _takers(name)}
    chosen: dict[str, list[Any]] = {
        "parametrization": [as_parametrization(named.get("parametrization", base.parametrization))],
        "coupling": [as_solver(named.get("coupling", base.solver))],
        "terms": _terms(Terms.of(named["terms"]) if "terms" in named else base.terms),
    }
    for name, value in told.items():
        argument = _takers(name)[0]
        made = chosen[argument]
        place = next((k for k, each in enumerate(made) if name in _fields(type(each))), None)
        if place is None:
            raise ValueError(_misplaced(parsed, name, argument, [each.name for each in made]))
        made[place] = replace(made[place], **{name: value})
        named[argument] = ("potential", *made) if argument == "terms" else made[0]
    return named


def _named(parsed: argparse.Namespace) -> dict[str, Any]:
    """All options with a value, by flag or ``--set``."""
    named = {name: getattr(parsed, name) for name in FLAGS if getattr(parsed, name) is not None}
    flags = {*FLAGS, "time_key", "key_added"}
    own = set(inspect.signature(tl.fit_energy).parameters) - set(NOT_HERE)
    known = {*own, *(name for kinds in KINDS.values() for kind in kinds.values() for name in _fields(kind))} - flags
    for one in parsed.set:
        said, _, value = one.partition("=")
        name = said.replace("-", "_")
        if name in flags:
            raise ValueError(f"--set {one}: it has a flag of its own, {_flag(name)}")
        if name not in known or not value:
            raise ValueError(f"--set {one}: give NAME=VALUE, with one of {', '.join(sorted(known))}")
        try:
            named[name] = json.loads(value)
        except ValueError:
            named[name] = value
    return named


def _terms(terms: Terms) -> list[Term]:
    """The terms that may have options."""
    return [term for term in (terms.interaction, terms.internal) if term is not None]


def _fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _takers(name: str) -> list[str]:
    """The arguments of a fit whose objects have an option of this name."""
    return [argument for argument, kinds in KINDS.items() if any(name in _fields(kind) for kind in kinds.values())]


def _misplaced(parsed: argparse.Namespace, name: str, argument: str, chosen: Iterable[str]) -> str:
    """What is said of an option of something that was not chosen."""
    owners = [owner for owner, kind in KINDS[argument].items() if name in _fields(kind)]
    given = next(
        (f"--set {one}" for one in parsed.set if one.startswith((f"{name}=", name.replace("_", "-") + "="))), ""
    )
    said = given or f"{_flag(name)} {getattr(parsed, name)}"
    belongs = f"{said}: it belongs to {_flag(argument)} {' or '.join(owners)}"
    if argument == "terms":
        return f"{belongs}, which is not among the terms: {' '.join(('potential', *chosen))}"
    return f"{belongs}, and this fit has {_flag(argument)} {' '.join(chosen)}"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
