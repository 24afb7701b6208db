"""Folds of a validation: which cells are held out, how far predictions of them are off, and how that is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.energy.energy import Energy
from ...core.fitting.parametrizations import Stacked
from ...core.judging.baselines import Cloud
from ...core.judging.metrics import Distance, difference_error, distance
from ...core.judging.names import FLOOR, JUDGED
from ...core.judging.verdict import Errors, Verdict, judge
from ...core.timeline import time_text
from ...core.transport import Coupling
from ..options import FitOptions
from ..snapshots import Snapshots
from .shares import Labelled

#: The level of the prediction regions that are checked.
LEVEL = 0.9


@dataclass(frozen=True)
class Fold:
    """One fit of a validation."""

    split: int
    train: NDArray[np.bool_]
    """Whether each cell takes part in the fit."""
    seed: int


class Row(NamedTuple):
    """The error of one method at one time of one split."""

    protocol: str
    split: int
    time: float
    method: str
    emd: float
    n_source: int
    n_target: int
    noise: float
    """Standard error of the difference from the energy's error, due to the sample of cells."""
    untrusted: int
    """Cells of the energy's prediction that were not solved or left the range of the data."""
    share_error: float = float("nan")
    """The largest error of the share of a cell type; NaN if no types are known."""
    coverage: float = float("nan")
    """The fraction of held-out pairs, coupled by themselves, that prediction regions of level 0.9 hold."""
    sharpness: float = float("nan")
    """The mean radius of these regions; NaN, as the coverage, if there are none."""


class Predicted(NamedTuple):
    """Predictions of one population by method, that of the energy first."""

    time: float
    target: Cloud
    clouds: dict[str, Cloud]
    paired: frozenset[str]
    """Methods that move the same cells as the energy, in the same order."""
    untrusted: int
    floor: tuple[Cloud, Cloud]
    """Two samples of the target's population."""
    held: Held | None = None
    """Of the energy's prediction regions, if it has any."""


class Held(NamedTuple):
    """What prediction regions of level :data:`LEVEL` hold."""

    coverage: float
    sharpness: float


class Trained(NamedTuple):
    """A fold after its fit: the energy, the cells it has seen, and those it has not."""

    energy: Energy
    train: Snapshots
    test: Snapshots
    couplings: Sequence[Coupling]
    """Couplings of the training cells, for the baselines."""
    labelled: Labelled | None = None
    """Training cells with their types, if those are known."""
    observed: NDArray[np.float64] | None = None
    """The shares of the types among held-out cells of each time point."""


class Protocol(ABC):
    """What a validation holds out and predicts."""

    name: ClassVar[str]
    #: What is predicted, and what one repeat of it is called, in the words of the verdict.
    what: ClassVar[str]
    part: ClassVar[str]
    #: Cells of a population that take part in a distance, at most. All do unless a benchmark says otherwise.
    max_compared: int | None = None
    #: Whether predictions read the field, as forecasts do. Others read the maps alone.
    reads_field: ClassVar[bool] = False

    def fitted_with(self, options: FitOptions, fold: Fold) -> FitOptions:
        """The options of the fit of a fold: its seed, and no network of its own for a field that is not read."""
        options, own = options.seeded(fold.seed), options.parametrization
        if self.reads_field or not isinstance(own, Stacked):
            return options
        return replace(options, parametrization=replace(own, chance=0.0))

    @property
    def test_share(self) -> float | None:
        """The fraction of the cells held out in random splits, None if there are none."""
        return None

    @abstractmethod
    def folds(self, snapshots: Snapshots, time_key: str, scheme: str, random_state: int) -> list[Fold]:
        """The fits to make; raises if these data or this scheme do not allow them."""

    @abstractmethod
    def compared(self, known: NDArray[np.int64], held_out: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The sizes of the largest populations compared, from the training and held-out cells of each time point."""

    @abstractmethod
    def predicted(self, fold: Trained) -> Iterator[Predicted]:
        """Every population that one fold predicts."""

    def pairs(self, snapshots: Snapshots, fold: Fold) -> list[tuple[int, int]]:
        """The sizes of the populations whose distance a fold takes."""
        known = np.array([np.count_nonzero(fold.train[rows]) for rows in snapshots.rows_by_time])
        pairs = self.compared(known, snapshots.sizes - known)
        most = self.max_compared
        return pairs if most is None else [(min(n, most), min(m, most)) for n, m in pairs]

    def rows(self, fold: Trained, split: int) -> list[Row]:
        """The errors of one fold."""
        found = []
        for predicted in self.predicted(fold):
            made = predicted if self.max_compared is None else _thinned(predicted, self.max_compared)
            place = self.name, split, float(made.time)
            ours = _distance(made.clouds[JUDGED], made.target, JUDGED, made.time)
            for method, cloud in made.clouds.items():
                error = ours if method == JUDGED else _distance(cloud, made.target, method, made.time)
                noise = difference_error(ours, error, same_cells=method in made.paired)
                sizes = len(cloud.weight), len(made.target.weight)
                row = Row(*place, method, error.value, *sizes, noise, made.untrusted * (method == JUDGED))
                row = row._replace(share_error=_share_error(fold, cloud, made.time))
                told = made.held if method == JUDGED else None
                found.append(row if told is None else row._replace(**told._asdict()))
            one, other = made.floor
            apart = _distance(one, other, FLOOR, made.time).value
            found.append(Row(*place, FLOOR, apart, len(one.weight), len(other.weight), float("nan"), 0))
        return found

    def judged(self, rows: Sequence[Row]) -> Verdict:
        """What the errors of all folds say."""
        errors = Errors.from_columns(
            [row.split for row in rows],
            [row.time for row in rows],
            [row.method for row in rows],
            [row.emd for row in rows],
            [row.noise for row in rows],
        )
        verdict = judge(errors, what=self.what, part=self.part, test_share=self.test_share)
        covered = [row.coverage for row in rows if np.isfinite(row.coverage)]
        if not covered:
            return verdict
        found = f"{100 * LEVEL:g} % prediction regions hold {100 * np.mean(covered):.0f} % of held-out cells."
        return replace(verdict, text=f"{verdict.text} {found}")


def _share_error(fold: Trained, cloud: Cloud, time: float) -> float:
    """By how much the share of a cell type is off, at most."""
    if fold.labelled is None or fold.observed is None:
        return float("nan")
    observed = fold.observed[int(np.flatnonzero(fold.test.times == time)[0])]
    return float(np.abs(fold.labelled.shares(cloud) - observed).max())


def clouds(snapshots: Snapshots) -> list[Cloud]:
    """Every snapshot as weighted points."""
    return [Cloud(x, w) for x, w in zip(snapshots.points, snapshots.weights, strict=True)]


def thinned(cloud: Cloud, most: int) -> Cloud:
    """A random sample of a population, with equal weights; the same cells of clouds of one size and weight."""
    most = min(most, int(np.count_nonzero(cloud.weight)))
    share = cloud.weight / cloud.weight.sum()
    rows = np.random.default_rng(0).choice(len(share), most, replace=False, p=share)
    return Cloud(cloud.points[rows], np.full(most, 1 / most))


def _thinned(made: Predicted, most: int) -> Predicted:
    """The same predictions with fewer cells of each population."""
    one, other = made.floor
    return made._replace(
        target=thinned(made.target, most),
        clouds={method: thinned(cloud, most) for method, cloud in made.clouds.items()},
        floor=(thinned(one, most), thinned(other, most)),
    )


def _distance(cloud: Cloud, target: Cloud, method: str, time: float) -> Distance:
    """The distance of a prediction from what was observed."""
    finite = np.isfinite(cloud.points).all(axis=1)
    if not finite.all():
        raise FloatingPointError(
            f"The prediction of {method} at time {time_text(time)} is not a number for {np.sum(~finite)} of "
            f"{len(cloud.weight)} cells; check the representation for extreme values."
        )
    return distance(cloud.points, target.points, cloud.weight, target.weight)
