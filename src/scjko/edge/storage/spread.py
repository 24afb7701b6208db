"""The spread of members to and from ``uns``: plain arrays and numbers, checked before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ...core.energy.spread import Radii, Spread
from ...core.fitting.parametrizations import Stacked
from .parts import Unreadable, mapping, numbers


def spread_to_uns(spread: Spread) -> dict[str, Any]:
    """The constants of every member, the factors of their deviations, and the radii of prediction regions."""
    return asdict(spread)


def spread_from_uns(kept: Mapping[str, Any]) -> Spread:
    """The spread kept in ``uns[key]["spread"]``."""
    factors = float(kept["potential"]), float(kept["velocity"])
    radii = Radii(*(np.array(kept["radii"][name], np.float64) for name in RADII))
    return Spread(np.array(kept["offsets"], np.float64), *factors, radii)


def members_in(params: Mapping[str, Any]) -> int | None:
    """The number of networks or solutions that are averaged, if there are members."""
    kind = params["parametrization"]
    own = params.get(kind, {}).get("network", {}) if kind == Stacked.name else params.get(kind, {})
    if "n_members" not in own:
        return None
    n = int(numbers(own["n_members"], "params/n_members", (), whole=True))
    if n < 1:
        raise Unreadable(f"params/n_members is {n}, below 1")
    return n


def check_spread(stored: Mapping[str, Any]) -> None:
    """Raise unless there are constants of every member that the weights have, factors, and radii of every interval."""
    spread = mapping(stored["spread"], "spread", ("offsets", "potential", "velocity", "radii"), only=True)
    potential, n_intervals = stored["weights"]["potential"], len(stored["times"]) - 1
    last = potential.get(max((name for name in potential if name.startswith("part")), default=""), potential)
    envelopes = last.get("0")  # of several parts they are the last
    n = len(envelopes["heights"]) if isinstance(envelopes, Mapping) else members_in(stored["params"])
    numbers(spread["offsets"], "spread/offsets", (n or 0, n_intervals, 2))
    for name in ("potential", "velocity"):
        if not numbers(spread[name], f"spread/{name}", ()) > 0:
            raise Unreadable(f"spread/{name} is not above zero")
    radii = mapping(spread["radii"], "spread/radii", RADII, only=True)
    levels = numbers(radii["levels"], "spread/radii/levels", (None,))
    if not len(levels) or levels[0] <= 0 or levels[-1] >= 1 or (np.diff(levels) <= 0).any():
        raise Unreadable("spread/radii/levels are not increasing numbers between zero and one")
    radius = numbers(radii["radius"], "spread/radii/radius", (n_intervals, len(levels)))
    if (radius < 0).any() or (np.diff(radius, axis=1) < 0).any():
        raise Unreadable("spread/radii/radius does not increase from zero on")
    if not (numbers(radii["n_cells"], "spread/radii/n_cells", (n_intervals,)) > 0).all():
        raise Unreadable("spread/radii/n_cells is not above zero")


RADII = ("levels", "radius", "n_cells")
