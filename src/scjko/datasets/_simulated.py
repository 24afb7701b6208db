from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp, softmax

from ..edge.checks import check_integer, check_option
from ._programs import Programs, programs

Array = NDArray[np.float64]

#: Time of relaxation into a fate, in days: the landscape's forces are distances divided by this.
RELAXATION = 2.5
#: Strength β of the noise dX = −∇V dt + √(2β) dW.
NOISE = 0.02
STEP = 0.02
#: Largest net growth rate per day: a cell cycle of eight hours.
MAX_RATE = 2
#: Largest additional depth of a fate: deeper ones would need shorter steps.
MAX_TILT = 10


@dataclass(frozen=True)
class Landscape:
    """A potential in the plane that falls from a stem state at the origin, and forks, into a fan of fates.

    V(x) = −(w²/r) log Σ_j exp(−‖x − m_j‖² / 2w²): around each fate m_j the well ‖x − m_j‖² / 2r, and between wells a
    ridge whose softness is w. A fate that is deeper by b_j has −b_j exp(−‖x − m_j‖² / 2w²) besides, which is felt
    little where cells choose.
    """

    fates: Array
    width: float = 1.2
    tilt: Array | None = None
    pull: Array | None = None
    """The log of the strength with which each fate pulls, all equal by default."""

    @classmethod
    def fan(
        cls,
        n_fates: int,
        radius: float = 4.0,
        spread: float = np.pi / 3,
        tilt: Array | None = None,
        pull: Array | None = None,
    ) -> Landscape:
        """Fates at equal distance from the stem state, at angles from −spread to spread."""
        angles = np.linspace(-spread, spread, n_fates)
        return cls(radius * np.stack([np.cos(angles), np.sin(angles)], axis=1), tilt=tilt, pull=pull)

    def potential(self, x: Array) -> Array:
        """V at points ``x`` (n, 2)."""
        fan = -(self.width**2) / RELAXATION * logsumexp(self._pulled(x), axis=1)
        return fan if self.tilt is None else fan - np.exp(self._closeness(x)) @ self.tilt

    def velocity(self, x: Array) -> Array:
        """−∇V at points ``x`` (n, 2): towards the fates, each by its share in the sum."""
        fan = (softmax(self._pulled(x), axis=1) @ self.fates - x) / RELAXATION
        if self.tilt is None:
            return fan
        pull = np.exp(self._closeness(x)) * self.tilt / self.width**2
        return np.asarray(fan + pull @ self.fates - pull.sum(axis=1, keepdims=True) * x)

    def fate(self, x: Array) -> NDArray[np.int64]:
        """The fate that each point reaches when it rolls down without noise."""
        for _ in range(int(10 * RELAXATION / 0.1)):
            x = x + 0.1 * self.velocity(x)
        return np.argmax(self._closeness(x), axis=1)

    @property
    def depth(self) -> Array:
        """How far each fate is below the stem state."""
        return self.potential(np.zeros((1, 2))) - self.potential(self.fates)

    def rate(self, x: Array, growth: Array) -> Array:
        """The net growth rate at points ``x``: that of each fate in ``growth`` by its share in the pull."""
        return np.asarray(self.share(x) @ growth)

    def commitment(self, x: Array) -> Array:
        """The largest share of a fate in the pull on each point, from 1 / n_fates to 1."""
        return self.share(x).max(axis=1)

    def share(self, x: Array) -> Array:
        """The share of each fate in the pull on each point (n, n_fates)."""
        return np.asarray(softmax(self._pulled(x), axis=1))

    def _pulled(self, x: Array) -> Array:
        return self._closeness(x) if self.pull is None else self._closeness(x) + self.pull

    def _closeness(self, x: Array) -> Array:
        return -np.sum((x[:, None, :] - self.fates) ** 2, axis=2) / (2 * self.width**2)


def simulated(
    n_cells: int = 2000,
    n_genes: int = 500,
    n_fates: int = 3,
    *,
    times: Sequence[float] = (0, 1, 2, 4, 7),
    growth: Sequence[float] | None = None,
    tilt: Sequence[float] | None = None,
    n_drivers: int = 0,
    knock_out: Sequence[str] = (),
    random_state: int = 0,
) -> AnnData:
    """A differentiation with known truth: from one stem state into two or three fates.

    Cells roll down a known landscape in a plane, with noise (β = 0.02), from a stem state into its wells. Every cell is
    measured once, at unequally spaced times with unequal numbers of cells, through negative-binomial counts of genes
    whose log-expression is a random linear function of the plane.

    Parameters
    ----------
    n_cells
        Number of cells in all, at least 4 for each time.
    n_genes
        Number of genes.
    n_fates
        Number of fates, 2 or 3.
    times
        Days at which cells are measured, increasing from 0.
    growth
        Net growth rate of each fate per day, births minus deaths, at most 2 in absolute value; cells between fates have
        a weighted mean. A sample is drawn from the population that has grown: the numbers of cells do not depend on
        growth, the proportions of fates do. By default no cell divides or dies.
    tilt
        How much deeper the well of each fate is, from 0 to 10; without, the wells are 2.6 below the stem state. A
        deeper one draws more cells. By default all are equally deep.
    n_drivers
        Number of genes that drive each fate. They are the first genes, those of the first fate before those of the
        second. Their expression rises with the share of their fate in the pull on a cell, and all other genes are
        inert. By default the expression of every gene is a function of the plane, and none drives anything.
    knock_out
        Drivers that are turned off: their fate pulls less, by their share in its program. The noise is that of the same
        seed without the knock-out, so that differences are its effect.
    random_state
        Seed.

    Returns
    -------
    AnnData of raw counts in ``X`` (sparse) and ``layers["counts"]``, with

    ``obs["day"]``
        The time of measurement.
    ``obs["fate"]``
        The fate that the cell reaches from its position without further noise (categorical).
    ``obs["commitment"]``
        How committed the cell is to that fate, up to 1.
    ``obs["true_potential"]``
        The landscape at the cell.
    ``obs["true_growth"]``
        The net growth rate of the cell per day, zero without ``growth``.
    ``obsm["X_latent"]``, ``obsm["true_velocity"]``
        Position in the plane, and −∇V there in plane units per day.
    ``uns["landscape"]``
        The positions of the fates, their ``growth``, the ``depth`` of each well below the stem state, and the strength
        of the noise ``beta``.
    ``var["program"]``, ``var["drive"]``
        With ``n_drivers``, the fate that each gene drives, or ``"none"``, and its share in the program of that fate.

    Examples
    --------
    >>> import scjko as sj
    >>> sj.datasets.simulated(300).obs["day"].value_counts().sort_index().tolist()
    [28, 57, 88, 85, 42]
    """
    check_option("n_fates", n_fates, [2, 3])
    days = np.asarray(times, dtype=np.float64)
    if len(days) < 2 or days[0] != 0 or (np.diff(days) <= 0).any() or not np.isfinite(days).all():
        raise ValueError(f"times={list(times)} must be two or more days, increasing from 0.")
    check_integer("n_cells", n_cells, minimum=4 * len(days))
    check_integer("n_genes", n_genes)
    rates = _rates(growth, n_fates)
    genes = [f"gene {g}" for g in range(n_genes)]
    driven = programs(n_drivers, knock_out, genes, n_fates)
    rng = np.random.default_rng(random_state)
    landscape = Landscape.fan(n_fates, tilt=_tilt(tilt, n_fates), pull=None if driven is None else driven.pull)
    day = np.repeat(days, _sizes(n_cells, len(days)))
    latent = _roll(landscape, day, rng)[0] if growth is None else _sampled(landscape, day, rates, rng)
    counts = _counts(latent, n_genes, rng) if driven is None else _driven(landscape, latent, driven, rng)
    names = np.array([f"fate {j + 1}" for j in range(n_fates)])
    obs = pd.DataFrame(
        {
            "day": day,
            "fate": pd.Categorical(names[landscape.fate(latent)], categories=names),
            "commitment": landscape.commitment(latent),
            "true_potential": landscape.potential(latent),
            "true_growth": landscape.rate(latent, rates),
        },
        index=[f"cell {i}" for i in range(n_cells)],
    )
    return AnnData(
        counts,
        obs=obs,
        var=pd.DataFrame({} if driven is None else driven.table(names), index=genes),
        obsm={"X_latent": latent, "true_velocity": landscape.velocity(latent)},
        layers={"counts": counts.copy()},
        uns={"landscape": {"fates": landscape.fates, "growth": rates, "depth": landscape.depth, "beta": NOISE}},
    )


def _sizes(n_cells: int, n_times: int) -> NDArray[np.int64]:
    """Unequal numbers of cells: few at first, most in the middle."""
    share = 1.0 + np.minimum(np.arange(n_times), 1.5 * (n_times - 1 - np.arange(n_times)) + 0.5)
    sizes = np.maximum(2, np.floor(n_cells * share / share.sum())).astype(np.int64)
    sizes[np.argmax(sizes)] += n_cells - sizes.sum()
    return sizes


def _rates(growth: Sequence[float] | None, n_fates: int) -> Array:
    """The net growth rate of each fate."""
    rates = np.zeros(n_fates) if growth is None else np.asarray(growth, dtype=np.float64)
    if rates.shape != (n_fates,) or not (np.abs(rates) <= MAX_RATE).all():
        raise ValueError(
            f"growth={growth!r} must be a rate for each of the {n_fates} fates, from −{MAX_RATE} to {MAX_RATE}."
        )
    return rates


def _tilt(tilt: Sequence[float] | None, n_fates: int) -> Array | None:
    """How much deeper each fate is."""
    if tilt is None:
        return None
    depth = np.asarray(tilt, dtype=np.float64)
    if depth.shape != (n_fates,) or not ((depth >= 0) & (depth <= MAX_TILT)).all():
        raise ValueError(f"tilt={tilt!r} must be a depth for each of the {n_fates} fates, from 0 to {MAX_TILT}.")
    return depth


def _roll(
    landscape: Landscape, day: Array, rng: np.random.Generator, growth: Array | None = None
) -> tuple[Array, Array]:
    """Where cells are on their day, by the Euler–Maruyama scheme from the stem state, and the log of their mass."""
    x, mass = 0.35 * rng.standard_normal((len(day), 2)), np.zeros(len(day))
    left = day.copy()
    while (left > 0).any():
        dt = np.minimum(left, STEP)
        if growth is not None:
            mass += dt * landscape.rate(x, growth)
        x = x + dt[:, None] * landscape.velocity(x) + np.sqrt(2 * NOISE * dt)[:, None] * rng.standard_normal(x.shape)
        left = np.maximum(left - STEP, 0.0)
    return x, mass


def _sampled(landscape: Landscape, day: Array, growth: Array, rng: np.random.Generator) -> Array:
    """Cells drawn at random from the population of their day, in which lineages have grown and died out.

    A lineage founded by one stem cell has e^{∫g dt} cells on average. Founders are drawn one after the other, and kept
    with a probability proportional to that number: what is kept is a sample of the cells that are alive.
    """
    latent, missing = np.empty((len(day), 2)), np.arange(len(day))
    while len(missing):
        x, mass = _roll(landscape, day[missing], rng, growth)
        kept = np.log(rng.random(len(missing))) < mass - growth.max() * day[missing]
        latent[missing[kept]] = x[kept]
        missing = missing[~kept]
    return latent


def _counts(latent: Array, n_genes: int, rng: np.random.Generator) -> sparse.csr_matrix:
    """Negative-binomial counts, dispersion 0.1, about four a gene, of cells that differ in sequencing depth."""
    loading = rng.normal(scale=0.25, size=(2, n_genes))
    return _sequenced(np.exp(rng.normal(scale=0.7, size=n_genes) + (latent - latent.mean(axis=0)) @ loading), rng)


def _driven(landscape: Landscape, latent: Array, driven: Programs, rng: np.random.Generator) -> sparse.csr_matrix:
    """Counts of genes of which some drive the fates."""
    return _sequenced(driven.rate(replace(landscape, pull=None).share(latent), rng), rng)


def _sequenced(rate: Array, rng: np.random.Generator) -> sparse.csr_matrix:
    """Counts of genes expressed at these rates."""
    n_cells, n_genes = rate.shape
    depth = 4 * n_genes * rng.lognormal(sigma=0.25, size=(n_cells, 1))
    mean = depth * rate / rate.sum(axis=1, keepdims=True)
    return sparse.csr_matrix(rng.poisson(rng.gamma(10.0, mean / 10.0)).astype(np.float32))
