"""Baselines: predictions without an energy, which a fitted one has to beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lstsq
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.stats import beta
from sklearn.kernel_ridge import KernelRidge

from ..compute.neighbours import nearest
from ..transport import Coupling, exact
from .metrics import emd

Array = NDArray[np.float64]

#: Source cells that kernel ridge regression is fitted to, and those that its settings are chosen on: a solve takes
#: time by the cube of their number. The choice hardly depends on it (embryoid bodies: 400, 600 and 900 cells agree).
MAX_CELLS = 2000
MAX_CHOICE_CELLS = 500
#: Bandwidths that are tried, as multiples of the median distance of two cells.
BANDWIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
#: Ridges that are tried: the variance of the noise of a cell's displacement relative to that of the signal.
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
#: Rows of the kernel matrix that are evaluated at a time.
BLOCK = 4096
#: Numbers of neighbours that are tried. Chosen by the earth mover's distance of halves they were at most 2 % worse than
#: the best number in hindsight on ten real data sets (three splits each), 0.6 % on average; by the squared error of
#: displacements 10 and 3 %.
NEIGHBOURS = (1, 2, 3, 5, 8, 15, 30)
#: The choice couples and predicts as many cells of a half at most, and halves few cells as often: a second's work.
MAX_COUPLED, MAX_PREDICTED, MAX_HALVINGS = 1000, 500, 5
#: Directions in which cells spread less than this fraction of the widest have no slope in a linear map.
FLAT = 1e-8
#: Pairs of cells whose scores are computed at a time: 64 MB.
PAIRS = 8_000_000


class Cloud(NamedTuple):
    """Weighted points; the weights sum to one."""

    points: Array
    weight: Array


def transport(x: Array, source: Array, target: Array, coupling: Coupling, n_neighbours: int) -> Array:
    """Points ``x`` moved by the mean displacement of the nearest cells of ``source``, weighted by their mass.

    The displacement of a cell of ``source`` is that to the mean of its partners in ``target`` under the coupling.
    """
    (moved,) = _by_neighbours(x, source, target, coupling, [n_neighbours])
    return moved


def best_transport(x: Array, source: Array, target: Array, coupling: Coupling) -> Array:
    """As :func:`transport`, with the number of neighbours that serves best among the cells of the coupling."""
    return transport(x, source, target, coupling, best_n_neighbours(source, target, coupling))


def best_n_neighbours(source: Array, target: Array, coupling: Coupling, random_state: int = 0) -> int:
    """The number of neighbours by which either half of the cells best predicts the other half.

    The cells of both snapshots are halved at random and each half is coupled by itself. The source cells of one are
    moved by the neighbours in the other, and compared with the target cells of their own half by earth mover's
    distance. Few cells are halved repeatedly, many are sampled.
    """
    rng, errors = np.random.default_rng(random_state), np.zeros(len(NEIGHBOURS))
    masses = coupling.source_weight, coupling.target_weight
    largest = max(int(np.count_nonzero(mass)) for mass in masses)
    for _ in range(min(max(MAX_COUPLED // largest, 1), MAX_HALVINGS)):
        (x, a), (y, b) = (_halved(*cloud, rng) for cloud in zip((source, target), masses, strict=True))
        plans = [(x[half], y[half], exact(x[half], y[half], a[half], b[half])) for half in (0, 1)]
        few = slice(MAX_PREDICTED)
        for here, other in ((0, 1), (1, 0)):
            predicted = _by_neighbours(x[here][few], *plans[other], NEIGHBOURS)
            errors += [emd(moved, y[here][few], a[here][few], b[here][few]) for moved in predicted]
    return NEIGHBOURS[int(np.argmin(errors))]


def _by_neighbours(
    x: Array, source: Array, target: Array, coupling: Coupling, numbers: Sequence[int]
) -> Iterator[Array]:
    """Points moved by each of these numbers of neighbours with mass."""
    mass = coupling.source_weight
    cells = np.flatnonzero(mass > 0)
    _, near = nearest(source[cells], x, max(numbers))
    displacement = (coupling.partners(target) - source)[cells]
    for n in numbers:
        few = near[:, :n]
        share = mass[cells][few] / mass[cells][few].sum(axis=1, keepdims=True)
        starts = np.arange(len(x) + 1) * few.shape[1]
        yield x + csr_array((share.ravel(), few.ravel(), starts), shape=(len(x), len(cells))) @ displacement


def _halved(points: Array, mass: Array, rng: np.random.Generator) -> tuple[list[Array], list[Array]]:
    """Points and masses of the cells in either half; of fewer than four cells with mass both halves have all."""
    order = rng.permutation(np.flatnonzero(mass > 0))
    halves = [order, order] if len(order) < 4 else [order[half::2][:MAX_COUPLED] for half in (0, 1)]
    return [points[half] for half in halves], [mass[half] for half in halves]


def mean_shift(x: Array, source: Array, target: Array, coupling: Coupling) -> Array:
    """Points ``x`` moved by the mean displacement of all cells of ``source``, weighted by their mass."""
    return x + coupling.source_weight @ (coupling.partners(target) - source)


def linear_map(x: Array, source: Array, target: Array, coupling: Coupling) -> Array:
    """Points ``x`` moved by the affine map that best takes the cells of ``source`` to the means of their partners.

    By least squares weighted by mass. Where cells do not determine it, as in more dimensions than there are cells, the
    displacement has the smallest slope: in directions without spread points move as their projection does.
    """
    mass, displacement = coupling.source_weight, coupling.partners(target) - source
    centre, shift = mass @ source, mass @ displacement
    root = np.sqrt(mass)[:, None]
    slope = lstsq(root * (source - centre), root * (displacement - shift), cond=FLAT)[0]
    return np.asarray(x + shift + (x - centre) @ slope)


def kantorovich(x: Array, source: Array, target: Array, coupling: Coupling) -> Array:
    """Points ``x`` moved by the Kantorovich potential of the coupling, extended from its cells to all of space.

    With f_i the potential of source cell x_i and ȳ_i the mean of its partners, f is the lower envelope of parabolas
    f(x) = min_i ‖x − ȳ_i‖² − (‖x_i − ȳ_i‖² − f_i), and x − ∇f(x)/2 is the ȳ_i at which the minimum is: every point goes
    where the partners of one cell are. The coupling must have its duals.
    """
    if coupling.duals is None:
        raise ValueError("The coupling has no Kantorovich potentials; an exact or multiscale one has.")
    cells = np.flatnonzero(coupling.source_weight > 0)
    centre = source[cells].mean(axis=0)  # squares are expanded below, and cancel if cells are far from the origin
    here, there = source[cells] - centre, coupling.partners(target)[cells] - centre
    # Without ‖x‖², which is common to all i, and halved: the largest of x·ȳ_i − h_i.
    height = np.sum(there * here, axis=1) - (np.sum(here**2, axis=1) - coupling.duals[0][cells]) / 2
    blocks = np.array_split(x - centre, max(1, -(-len(x) * len(cells) // PAIRS)))
    chosen = np.concatenate([np.argmax(block @ there.T - height, axis=1) for block in blocks])
    return np.asarray(there[chosen] + centre)


def kernel_ridge(x: Array, source: Array, target: Array, coupling: Coupling) -> Array:
    """Points ``x`` moved by a kernel ridge regression of the displacements of the cells of ``source``.

    The kernel is Gaussian; bandwidth and ridge have the smallest leave-one-out error. If no setting has a smaller one
    than the mean displacement, or all cells are in one place, this is :func:`mean_shift`. Of more than ``MAX_CELLS``
    cells a random sample is used, always the same.
    """
    mass = coupling.source_weight
    cells = np.random.default_rng(0).permutation(np.flatnonzero(mass > 0))[:MAX_CELLS]
    # Brute-force kernels expand (x − y)², which cancels if the cells are far from the origin.
    centre, weight = source[cells].mean(axis=0), mass[cells] / mass[cells].mean()
    points, shift = source[cells] - centre, mass @ (coupling.partners(target) - source)
    rest = (coupling.partners(target) - source)[cells] - shift
    few = slice(MAX_CHOICE_CELLS)
    settings = best_settings(points[few], rest[few], weight[few])
    if settings is None:
        return x + shift
    bandwidth, ridge = settings
    model = KernelRidge(kernel="rbf", gamma=1 / (2 * bandwidth**2), alpha=ridge).fit(points, rest, weight)
    blocks = np.array_split(x - centre, max(1, -(-len(x) // BLOCK)))
    return x + shift + np.concatenate([model.predict(block) for block in blocks])


def best_settings(points: Array, values: Array, weight: Array) -> tuple[float, float] | None:
    """Bandwidth and ridge of the kernel ridge regression with the smallest weighted leave-one-out error.

    ``None`` if none has a smaller one than zero everywhere. The weights have mean one. With K the kernel matrix, S the
    diagonal matrix of weights and G = (S^½ K S^½ + ridge)⁻¹, the error left at cell i without it is
    (G S^½ values)ᵢ / Gᵢᵢ, so that one eigendecomposition serves every ridge.
    """
    squared = cdist(points, points, "sqeuclidean")
    typical = np.median(squared[np.triu_indices(len(points), 1)]) if len(points) > 1 else 0.0
    typical = typical or squared.mean()  # more than half of the pairs may be duplicates
    if typical == 0:
        return None
    root = np.sqrt(weight)[:, None]
    scaled, best, smallest = root * values, None, float(np.sum(weight[:, None] * values**2))
    for multiple in BANDWIDTHS:
        eigenvalues, vectors = eigh(root * np.exp(-squared / (2 * multiple**2 * typical)) * root.T)
        projected, shares = vectors.T @ scaled, vectors**2
        for ridge in RIDGES:
            inverse = 1 / (np.maximum(eigenvalues, 0) + ridge)
            error = np.sum((vectors @ (inverse[:, None] * projected) / (shares @ inverse)[:, None]) ** 2)
            if error < smallest:
                best, smallest = (float(multiple * np.sqrt(typical)), ridge), float(error)
    return best


def last_mean_shift(before: Cloud, last: Cloud, gap_before: float, gap: float) -> Cloud:
    """The last known snapshot, moved on by the mean velocity of the interval before it.

    ``gap_before`` is the time from ``before`` to ``last``, ``gap`` that from ``last`` to the forecast.
    """
    velocity = (last.weight @ last.points - before.weight @ before.points) / gap_before
    return last._replace(points=last.points + gap * velocity)


def midpoint(
    source: Array, target: Array, coupling: Coupling, fraction: float, asynchrony: float = 0.0, random_state: int = 0
) -> Cloud:
    """The displacement interpolation of two snapshots (McCann 1997): every pair part of the way along its line.

    How far each pair has come is the ``fraction`` on average, and differs if cells are asynchronous (:func:`progress`).
    """
    ahead = progress(len(coupling.weight), fraction, asynchrony, random_state)[:, None]
    points = (1 - ahead) * source[coupling.source] + ahead * target[coupling.target]
    return Cloud(points, coupling.weight)


def progress(n_cells: int, fraction: float, asynchrony: float, random_state: int = 0) -> Array:
    """How far each cell has come, as a fraction of its path, where they have come as far as ``fraction`` on average.

    Cells of one snapshot stand at different developmental times. The fractions follow a beta distribution whose
    variance is ``asynchrony`` times the largest, fraction · (1 − fraction): with 0 all cells are half-way together, as
    in McCann's interpolation, and with 1 each is at one of the ends, as in the mixture of both snapshots. They are
    quantiles in random order, so that few cells follow the distribution too.
    """
    if asynchrony == 0:
        return np.full(n_cells, fraction)
    levels = (np.random.default_rng(random_state).permutation(n_cells) + 0.5) / n_cells
    concentration = 1 / asynchrony - 1
    return np.asarray(beta.ppf(levels, fraction * concentration, (1 - fraction) * concentration))


def mixture(source: Cloud, target: Cloud, fraction: float) -> Cloud:
    """Both snapshots as they are, the nearer one in time with the larger weight."""
    return Cloud(
        np.concatenate([source.points, target.points]),
        np.concatenate([(1 - fraction) * source.weight, fraction * target.weight]),
    )
