"""How an energy is written: networks trained by gradient descent, or features with coefficients in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from ..checks import check_integer, check_list, check_option, check_positive
from ..growth.chance import BUDGET
from ..variation import Joined, Labelled, Separate, Smooth, Static, Variation

#: What a network is told of an interval, and the labels of the timeline that this is.
TIME_LABELS = {"interval": "ranks", "target": "targets"}


def check_members(n_members: int | None) -> None:
    """Raise unless this is a number of members that go two by two, or none."""
    if n_members is not None and check_integer("n_members", n_members) % 2:
        raise ValueError(
            f"n_members={n_members} must be even: members are fitted to halves of the cells, two by two of all of "
            "them. Without n_members there is one fit of all cells, and no standard errors."
        )


class Parametrization:
    """How the potential and the interaction kernel are written."""

    name: ClassVar[str]
    #: What ``time_varying`` may be, beside None.
    variations: ClassVar[tuple[bool | str, ...]] = (True, False)

    @property
    def trained(self) -> bool:
        """Whether there is a network, whose training has a history."""
        return False

    def variation(self, time_varying: bool | str) -> Variation:
        """How the potential varies in time."""
        raise NotImplementedError

    @classmethod
    def names(cls) -> list[str]:
        """The names of its options."""
        return [field.name for field in fields(cls)]  # type: ignore[arg-type]

    @property
    def left_open(self) -> tuple[str, ...]:
        """Names of the options that held-out cells decide on."""
        return ()

    def reopened(self, names: Sequence[str]) -> Parametrization:
        """The same with these options left open again, for a fit to other cells."""
        return self

    def options(self) -> dict[str, Any]:
        """Its options by name, without those that are None."""
        values = {name: getattr(self, name) for name in self.names()}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Neural(Parametrization):
    """Multi-layer perceptrons, trained by gradient descent.

    Parameters
    ----------
    layers
        Widths of the hidden layers.
    epochs
        Passes over the data. Defaults to about 4000 updates (3000 for an implicit, time-varying fit).
    batch_size
        Cells per update.
    learning_rate
        Peak of the one-cycle schedule.
    time_label
        What the network is told of an interval: ``"interval"``, its rank, or ``"target"``, the time it leads to, as in
        the paper.
    n_devices
        JAX devices that share each batch, or the members. Defaults to all; the fit is the same up to rounding.
    n_members
        Networks that are averaged, trained side by side on halves of the cells that are coupled anew; an even number,
        two by two of all cells. Their spread gives standard errors, ``energy.std``. Defaults to one network of all
        cells, without.
    """

    name: ClassVar[str] = "neural"
    layers: Sequence[int] = (64, 64)
    epochs: int | None = None
    batch_size: int = 250
    learning_rate: float = 2e-2
    time_label: str = "interval"
    n_devices: int | None = None
    n_members: int | None = None

    def __post_init__(self) -> None:
        layers = tuple(check_integer("layers", width) for width in check_list("layers", self.layers))
        object.__setattr__(self, "layers", layers)
        for name in ("epochs", "n_devices"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))
        check_integer("batch_size", self.batch_size)
        check_members(self.n_members)
        check_positive("learning_rate", self.learning_rate)
        check_option("time_label", self.time_label, TIME_LABELS)

    @property
    def trained(self) -> bool:
        """There is a network."""
        return True

    def variation(self, time_varying: bool | str) -> Variation:
        """One network for all times, or one that reads a label of the interval."""
        return Labelled(TIME_LABELS[self.time_label]) if time_varying else Static()


@dataclass(frozen=True, kw_only=True)
class Linear(Parametrization):
    """Sums of monomials and radial basis functions, solved in closed form.

    Parameters
    ----------
    degree
        Highest degree of the monomials. Defaults to 4; with more than 500 monomials, single-coordinate powers plus the
        pairwise products selected from the data.
    n_centers
        Number of radial basis functions, at the centres of clusters of cells. Defaults to a tenth of the cells, at most
        50 in one dimension, 600 in two and 300 in more.
    ridge
        Regularisation, on features of unit mean square. ``"auto"`` chooses it by the error on cells that are held out
        and coupled separately.
    n_members
        Solutions that are averaged, for halves of the cells that are coupled anew; an even number, two by two of all
        cells. Their spread gives standard errors, ``energy.std``. Defaults to one of all cells, without.
    """

    name: ClassVar[str] = "linear"
    variations: ClassVar[tuple[bool | str, ...]] = (True, False, "smooth")
    degree: int | None = None
    n_centers: int | None = None
    ridge: float | str = "auto"
    n_members: int | None = None

    def __post_init__(self) -> None:
        if self.degree is not None:
            check_integer("degree", self.degree)
        if self.n_centers is not None:
            check_integer("n_centers", self.n_centers, minimum=0)
        check_members(self.n_members)
        if self.ridge != "auto":
            check_positive("ridge", self.ridge)

    def variation(self, time_varying: bool | str) -> Variation:
        """One set of coefficients, one for each interval, or coefficients that are quadratic in time."""
        return Smooth() if time_varying == "smooth" else Separate() if time_varying else Static()


@dataclass(frozen=True, kw_only=True)
class Kantorovich(Parametrization):
    """The dual potentials of couplings of resampled cells, without training.

    A cell goes where the coupled cells go that it would share a partner with; see
    :mod:`scjko.core.energy.envelopes`.

    Parameters
    ----------
    n_members
        Couplings of half of the cells whose potentials are averaged; of large snapshots there are fewer. With 1 it is
        that of all cells. Chosen by the error on held-out cells unless given, as 1 or 8.
    softness
        Over how much of the mean squared distance travelled the potential is smoothed. Chosen by the error on held-out
        cells unless given.
    """

    name: ClassVar[str] = "kantorovich"
    variations: ClassVar[tuple[bool | str, ...]] = (True,)
    n_members: int | None = None
    softness: float | None = None

    def __post_init__(self) -> None:
        if self.n_members is not None:
            check_integer("n_members", self.n_members)
        if self.softness is not None:
            check_positive("softness", self.softness)

    @property
    def left_open(self) -> tuple[str, ...]:
        """Those of both options that are not given."""
        return tuple(name for name in self.names() if getattr(self, name) is None)

    def reopened(self, names: Sequence[str]) -> Kantorovich:
        """The same with these options left open again."""
        return replace(self, **{name: None for name in self.names() if name in names})

    def variation(self, time_varying: bool | str) -> Variation:
        """A potential of its own for each interval."""
        return Separate()


@dataclass(frozen=True, kw_only=True)
class Stacked(Parametrization):
    """A network for the field; for the maps its mean with a Kantorovich potential, by how it predicts held-out cells.

    Parameters
    ----------
    share
        The share of the Kantorovich potential in what moves cells: with 0 that is a network, with 1 the Kantorovich
        potential alone. Chosen by the error on held-out cells unless given. The field, velocities and heights, is read
        off the network, which is smooth. A potential that does not vary in time, an implicit scheme, other terms than a
        potential, and couplings without dual potentials have a network only.
    kantorovich
        Options of the one.
    network
        Options of the other.
    chance
        How much of a difference in proportions between time points counts as chance, as n̄ KL of masses to weights; see
        :mod:`scjko.core.growth.chance`. The network of the field is trained without it, so that equal wells are
        equally deep, and the maps with it. 0 for one network of both, as of fits with growth, partial couplings or
        less than 8 cells at a time point.
    """

    name: ClassVar[str] = "stacked"
    share: float | None = None
    kantorovich: Kantorovich = Kantorovich()
    network: Neural = Neural()
    chance: float = BUDGET

    def __post_init__(self) -> None:
        if self.share is not None and not 0 <= self.share <= 1:
            raise ValueError(f"share={self.share!r} must be between zero and one.")
        if self.chance != 0:
            object.__setattr__(self, "chance", check_positive("chance", self.chance))
        for name, kind in (("kantorovich", Kantorovich), ("network", Neural)):
            given = getattr(self, name)
            if isinstance(given, Mapping):  # as files and the command line have it
                object.__setattr__(self, name, kind(**given))
            elif not isinstance(given, kind):
                raise TypeError(f"{name} must be sj.{kind.__name__}(...), not {given!r}.")
        numbers = self.kantorovich.n_members, self.network.n_members
        if None not in numbers and numbers[0] != numbers[1]:
            raise ValueError(
                f"n_members={numbers[0]} of the Kantorovich potential and n_members={numbers[1]} of the network must "
                "be the same: members stand side by side."
            )

    @property
    def trained(self) -> bool:
        """There is a network."""
        return True

    @property
    def left_open(self) -> tuple[str, ...]:
        """What of the shares, of the Kantorovich potential and of the length of training is not given."""
        own = () if self.share == 0 else self.kantorovich.left_open
        epochs = ("epochs",) if self.share != 1 and self.network.epochs is None else ()
        return (*(("share",) if self.share is None else ()), *own, *(epochs if own or self.share is None else ()))

    def reopened(self, names: Sequence[str]) -> Stacked:
        """The same with these options left open again."""
        return replace(
            self,
            share=None if "share" in names else self.share,
            kantorovich=self.kantorovich.reopened(names),
            network=replace(self.network, epochs=None) if "epochs" in names else self.network,
        )

    @property
    def parts(self) -> list[tuple[Parametrization, float]]:
        """The network of the field, that of the maps if it is another, and the envelope, with their shares in maps."""
        share = 0.5 if self.share is None else self.share
        field = [(self.network, 0.0)] if self.chance or share == 1 else []
        maps = [(self.network, 1 - share)] if share < 1 else []
        return [*field, *maps, *([(self.kantorovich, share)] if share > 0 else [])]

    def variation(self, time_varying: bool | str) -> Variation:
        """What the parts are told, side by side; a network alone has no parts."""
        if not time_varying or len(self.parts) == 1:
            return self.network.variation(time_varying)
        return Joined(tuple(part.variation(time_varying) for part, _ in self.parts))

    def options(self) -> dict[str, Any]:
        """Its options by name, those of its parts in groups."""
        parts = {"kantorovich": self.kantorovich.options(), "network": self.network.options(), "chance": self.chance}
        return parts if self.share is None else {"share": self.share, **parts}


PARAMETRIZATIONS: dict[str, type[Parametrization]] = {
    kind.name: kind for kind in (Neural, Linear, Kantorovich, Stacked)
}


def as_parametrization(value: Any) -> Parametrization:
    """A parametrisation from its name, or itself; ``"auto"`` leaves the choice to the fit."""
    if isinstance(value, Parametrization):
        return value
    check_option("parametrization", value, (*PARAMETRIZATIONS, "auto"))
    return Stacked() if value == "auto" else PARAMETRIZATIONS[value]()
