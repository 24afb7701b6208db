"""The fitted energy: a function one can evaluate anywhere, and move cells with."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..growth.field import GrowthField
from ..motion import paths
from ..motion.forecast import Forecast
from ..motion.paths import Step
from ..schemes import Parts, Scheme
from ..timeline import Timeline, time_text
from .envelopes import KantorovichPotential, MeanPotential
from .models import EnsemblePotential, LinearPotential, Model, NeuralPotential
from .spread import Spread, Uncertain
from .terms import InteractionTerm, InternalTerm, PotentialTerm, Units

logger = logging.getLogger("scjko")

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: What a user calls a potential that is written like this.
KINDS: dict[type[Model], str] = {
    NeuralPotential: "neural",
    EnsemblePotential: "neural",
    LinearPotential: "linear",
    KantorovichPotential: "Kantorovich",
    MeanPotential: "stacked",
}


@dataclass(frozen=True, eq=False, repr=False)
class Energy(Uncertain):
    """A fitted energy. Coordinates are in the units of ``obsm["X_jko"]``, times in those of the time column.

    Arrays go in and numpy arrays come out. ``potential``, ``gradient``, ``velocity`` and ``hessian`` read the *field*:
    the slope of the landscape at one time, of second order at inner snapshots if both ends of intervals were fitted.
    ``step`` and ``simulate`` read the *maps*: the displacement of a cell over an interval, which the fit makes exact. A
    stacked energy has a network for the field, and for the maps the choice that predicts populations best.
    """

    potential_term: PotentialTerm
    interaction_term: InteractionTerm | None = None
    internal_term: InternalTerm | None = None
    reach: float = np.inf
    """The largest distance of a fitted cell from the centre of all: cells moved beyond twice that are not trusted."""
    forecast: Forecast | None = Forecast(1.0, float("nan"), 0)
    """How far cells go on after the last snapshot; ``None`` in fits of version 0.1, which repeat the last step."""
    growth_field: GrowthField | None = None
    """The rate at which the mass of cells grows; ``None`` if the fit has no growth."""
    spread: Spread | None = None
    """How sure the members of a mean are of it; ``None`` if there are none."""

    def __repr__(self) -> str:
        kind = KINDS[type(self.potential_term.model)]
        first, last = map(time_text, self.times[[0, -1]])
        return (
            f"Energy({kind} {', '.join(self.terms)}; {self.n_dims} dimensions, {len(self.times)} time points from "
            f"{first} to {last}, scheme={self.scheme.name!r})"
        )

    @property
    def timeline(self) -> Timeline:
        """The times of the snapshots that were fitted, and the intervals between them."""
        return self.potential_term.timeline

    @property
    def scheme(self) -> Scheme:
        """Where the first-order condition holds, and the steps that this makes exact."""
        return self.potential_term.scheme

    @property
    def units(self) -> Units:
        """The units of the fit."""
        return self.potential_term.units

    @property
    def times(self) -> Array:
        """The times of the snapshots that were fitted."""
        return self.timeline.times

    @property
    def n_dims(self) -> int:
        """The number of dimensions of the coordinates."""
        return len(self.units.center)

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that were fitted."""
        present = ("interaction", self.interaction_term), ("internal", self.internal_term)
        return ("potential", *(name for name, term in present if term is not None))

    @property
    def beta(self) -> float:
        """The strength β of the noise, in squared units of the coordinates per unit of time."""
        if self.internal_term is None:
            raise self._lacks("internal", "beta")
        return self.internal_term.beta

    @cached_property
    def field(self) -> Energy:
        """The energy of the field alone, whose maps belong to it too."""
        smooth = self.potential_term.field
        return self if smooth is self.potential_term else replace(self, potential_term=smooth)

    def interaction(self, z: ArrayLike) -> Array:
        """The interaction kernel U at differences ``z`` (n, d) of two cells, as an array (n,).

        It is zero and flat at z = 0: a slope there would push all cells alike, and counts as potential.
        """
        return self._interaction.kernel(self.points(z))

    def interaction_gradient(self, z: ArrayLike) -> Array:
        """∇U at differences ``z`` (n, d), as an array (n, d): minus the force of the second cell on the first."""
        return self._interaction.kernel_gradient(self.points(z))

    def potential(self, x: ArrayLike, t: ArrayLike) -> Array:
        """V at points ``x`` (n, d) and time ``t`` (a number, or one for each point), as an array (n,).

        Its constant is chosen so that the mean over the first snapshot is zero, and so that from one snapshot to the
        next the population loses potential only by moving. Times outside the measured range use the nearest snapshot.
        """
        x, read = self._read(x, t)
        values = self.field.potential_at(x[read.row], read.interval, read.anchor)
        return np.bincount(read.row, read.weight * values, len(x)).astype(np.float64)

    def gradient(self, x: ArrayLike, t: ArrayLike) -> Array:
        """∇V at points ``x`` (n, d) and time ``t``, as an array (n, d)."""
        x, read = self._read(x, t)
        return _summed(self.field.gradient_at(x[read.row], read.interval, read.anchor), read, x.shape)

    def hessian(self, x: ArrayLike, t: ArrayLike) -> Array:
        """∇²V at points ``x`` (n, d) and time ``t``, as an array (n, d, d)."""
        x, read = self._read(x, t)
        values = self.field.potential_term.hessian(x[read.row], read.interval, read.anchor)
        return _summed(values, read, (len(x), self.n_dims, self.n_dims))

    def velocity(self, x: ArrayLike, t: ArrayLike) -> Array:
        """−∇J at points ``x`` (n, d) and time ``t``: −∇V, and −∫∇U dμ − β∇log ρ where those terms were fitted.

        Between two snapshots the population μ and its density ρ are those of either, the nearer with more weight.
        """
        points = self.points(x)
        slope = self.gradient(points, t)
        interval, fraction = self._place(points, t)
        for side, share in self.scheme.sides(fraction):
            place = interval + side
            for k in np.unique(place[share > 0]):
                here = (place == k) & (share > 0)
                slope[here] += share[here, None] * self._among(points[here], float(k))
        return -slope

    def growth(self, x: ArrayLike, t: ArrayLike) -> Array:
        """The rate per unit of time at which mass at points ``x`` (n, d) and time ``t`` grows, as an array (n,).

        A fit without growth has none: zero everywhere. Only differences between cells are determined by proportions.
        """
        points = self.points(x)
        place = self._place(points, t)
        return np.zeros(len(points)) if self.growth_field is None else self.growth_field.at(points, *place)

    def potential_at(self, x: Array, interval: Index, anchor: Array) -> Array:
        """V at the anchor of an interval."""
        value = self.potential_term.value(x, interval, anchor)
        return (
            value
            if self.interaction_term is None
            else value + (x - self.units.center) @ self.interaction_term.common_push
        )

    def gradient_at(self, x: Array, interval: Index, anchor: Array) -> Array:
        """∇V at the anchor of an interval: minus the mean velocity over that interval."""
        slope = self.potential_term.gradient(x, interval, anchor)
        return slope if self.interaction_term is None else slope + self.interaction_term.common_push

    def slope_at(self, x: Array, interval: Index, anchor: Array, *, noise: bool = False) -> Array:
        """∇J at the anchor of an interval, as the first-order condition has it.

        With ``noise`` the internal energy is left out: cells that move feel it as noise instead.
        """
        slope = self.gradient_at(x, interval, anchor)
        place = interval + anchor
        for k in np.unique(place):
            slope[place == k] += self._among(x[place == k], float(k), noise)
        return slope

    def _among(self, x: Array, place: float, noise: bool = False) -> Array:
        """∫∇U dμ + β∇log ρ in the population at a place."""
        slope = np.zeros(x.shape)
        if self.interaction_term is not None:
            slope += self.interaction_term.slope(x, self.interaction_term.populations[place])
        if self.internal_term is not None and not noise:
            slope += self.internal_term.slope(x, place)
        return slope

    def step(self, x: ArrayLike, t0: float, t1: float, *, scheme: str | None = None, random_state: int = 0) -> Array:
        """Cells at ``x`` (n, d) moved from time ``t0`` to ``t1``, as an array (n, d).

        Within the measured range cells go along the straight line of one step per interval, by the scheme of the fit
        unless another is named; steps over parts of an interval compose. Beyond the last snapshot the field there is
        followed, damped as the fit found best; with ``t1 < t0`` the cells are moved back. An internal energy adds
        Brownian noise of variance 2βΔ to steps forward, drawn with ``random_state``. Cells whose step is not solved, or
        that leave the range of the data, are counted in a warning.
        """
        moved = self.move(x, t0, t1, scheme=scheme, random_state=random_state)
        self.warn_of(moved, t0, t1)
        return moved.positions

    def move(self, x: ArrayLike, t0: float, t1: float, *, scheme: str | None = None, random_state: int = 0) -> Step:
        """As :meth:`step`, with a flag for each cell that says whether its position can be trusted, and its mass."""
        return paths.move(self, self.points(x), t0, t1, scheme, random_state)

    def simulate(self, x: ArrayLike, times: ArrayLike, *, scheme: str | None = None, random_state: int = 0) -> Array:
        """Cells at ``x`` (n, d) and ``times[0]``, followed through all ``times``: an array (n_times, n, d).

        Noise, if the energy has any, is Brownian: its increments over disjoint times are independent.
        """
        path, mass, trusted = paths.simulate(self, self.points(x), times, scheme, random_state)
        asked = np.asarray(times, dtype=np.float64)
        self.warn_of(Step(path[-1], trusted, mass[-1]), float(asked[0]), float(asked[-1]))
        return path

    def mass(self, x: ArrayLike, times: ArrayLike, *, scheme: str | None = None, random_state: int = 0) -> Array:
        """The mass at all ``times`` of the cells that :meth:`simulate` follows, one each at first, as (n_times, n)."""
        return paths.simulate(self, self.points(x), times, scheme, random_state)[1]

    def warn_of(self, moved: Step, t0: float, t1: float) -> None:
        """Warn of cells whose position at ``t1`` cannot be trusted, and announce a forecast."""
        failed = int((~moved.converged).sum())
        if failed:
            logger.warning(
                "%d of %d cells moved from %s to %s left the range of the data or were not solved; do not trust their "
                "positions.",
                failed,
                len(moved.converged),
                time_text(t0),
                time_text(t1),
            )
        self.announce_forecast(t1)

    def announce_forecast(self, times: ArrayLike) -> None:
        """Say which of these times are forecasts, and warn if the data have not earned one."""
        late = np.unique(np.asarray(times, dtype=np.float64))
        late = late[late > self.times[-1]]
        if not len(late):
            return
        last = time_text(self.times[-1])
        said = f"Forecast to {', '.join(map(time_text, late))}, beyond the last time point ({last})"
        doubt = None if self.forecast is None else self.forecast.doubt
        if doubt is None:
            logger.info("%s.", said)
        else:
            logger.warning("%s: do not rely on it, %s.", said, doubt)

    @property
    def _interaction(self) -> InteractionTerm:
        if self.interaction_term is None:
            raise self._lacks("interaction", "interaction")
        return self.interaction_term

    def _lacks(self, term: str, wanted: str) -> ValueError:
        return ValueError(
            f"This energy has no {wanted}: it was fitted with terms={self.terms}. Fit with {term!r} among the terms."
        )

    def _read(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Parts]:
        """The points, and what the field at each of them is made of."""
        points = self.points(x)
        interval, fraction = self._place(points, t)
        return points, self.scheme.field(self.timeline, interval, fraction)

    def _place(self, x: Array, t: ArrayLike) -> tuple[Index, Array]:
        times = np.asarray(t, dtype=np.float64)
        if times.shape not in ((), (len(x),)):
            raise ValueError(f"t must be one time, or one for each of the {len(x)} points, not {times.shape}.")
        if not np.isfinite(times).all():
            raise ValueError(f"t must be finite, not {times[~np.isfinite(times)].flat[0]}.")
        return self.timeline.locate(np.broadcast_to(times, len(x)))

    def points(self, x: ArrayLike) -> Array:
        """``x`` as float64 coordinates, if they are ones that this energy takes."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.n_dims:
            raise ValueError(f"x has shape {points.shape}; this energy takes points of shape (n, {self.n_dims}).")
        if not np.isfinite(points).all():
            raise ValueError("x holds NaN or infinite coordinates.")
        return points


def _summed(values: Array, read: Parts, shape: tuple[int, ...]) -> Array:
    """The readings of each point added up."""
    total = np.zeros(shape)
    np.add.at(total, read.row, read.weight.reshape(-1, *[1] * (values.ndim - 1)) * values)
    return total
