"""Snapshots to couple: clouds, simulated arms, and real cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..datasets import embryoid_body
from ..edge.snapshots import Whitening, collect

Array = NDArray[np.float64]

CLOUDS = ("overlapping", "separated")
ARMS = "arms"
EMBRYOID = "embryoid bodies"
#: Clonal haematopoiesis (Weinreb et al. 2020), by interval.
LARRY = {"LARRY, day 2 to 4": (2, 4), "LARRY, day 4 to 6": (4, 6)}
#: Where the files are in a folder of data.
FILES = {
    EMBRYOID: ("embryoid_body/eb_pca5.npz", "eb_velocity_v5.npz"),
    **dict.fromkeys(LARRY, ("clones/larry_2d.npz", "larry_2d.npz")),
}


class Interval(NamedTuple):
    """Two snapshots and the weights of their cells."""

    x: Array
    y: Array
    a: Array
    b: Array


def files(path: str | Path) -> dict[str, Path]:
    """The file of each real shape: the embryoid bodies if ``path`` is a file, else all that are in the folder.

    Raises
    ------
    ValueError
        If the folder has none.
    """
    path = Path(path)
    if not path.is_dir():
        return {EMBRYOID: path}
    candidates = {shape: [path / name for name in names if (path / name).is_file()] for shape, names in FILES.items()}
    found = {shape: present[0] for shape, present in candidates.items() if present}
    if not found:
        expected = ", ".join(dict.fromkeys(names[0] for names in FILES.values()))
        raise ValueError(f"There are no data in {str(path)!r}; expected is at least one of {expected}.")
    return found


def intervals(shape: str, **options: Any) -> list[Interval]:
    """The intervals of a problem: one of simulated cells, or those of a file at ``path``."""
    if shape == EMBRYOID:
        return embryoid(**options)
    if shape in LARRY:
        return [larry(shape, **options)]
    return [simulated(shape, **options)]


def simulated(shape: str, n_source: int, n_target: int, n_dims: int, weighted: bool) -> Interval:
    """Two clouds or two sets of arms, with equal or with random weights."""
    x, y = arms(n_source, n_target) if shape == ARMS else two_clouds(shape, n_source, n_target, n_dims)
    rng = np.random.default_rng(1)
    a, b = (rng.random(len(z)) if weighted else np.ones(len(z)) for z in (x, y))
    return Interval(x, y, a / a.sum(), b / b.sum())


def two_clouds(kind: str, n: int, m: int, n_dims: int, random_state: int = 0) -> tuple[Array, Array]:
    """Two mixtures of Gaussians with variances that fall off as those of principal components do."""
    rng = np.random.default_rng(random_state)
    spread = 1 / np.sqrt(1 + np.arange(n_dims))
    centers = 3 * rng.normal(size=(6, n_dims)) * spread
    x, y = (centers[rng.integers(6, size=k)] + rng.normal(size=(k, n_dims)) * spread for k in (n, m))
    return x, y * (1.2 if kind == "overlapping" else 1.0) + (0.5 if kind == "overlapping" else 4.0) * spread


def arms(n: int, m: int, random_state: int = 0) -> tuple[Array, Array]:
    """Three curved arms in the plane. Early cells are near their common stem, late ones near the tips.

    Arms gain and lose cells between the snapshots, so that some mass has to go from one arm to another.
    """
    rng = np.random.default_rng(random_state)

    def cells(size: int, shares: tuple[float, ...], progress: tuple[float, float]) -> Array:
        arm = rng.choice(3, size=size, p=shares)
        t = rng.beta(*progress, size=size)
        angle = 2 * np.pi / 3 * arm + 0.8 * t
        along = 10 * t[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        return along + rng.normal(size=(size, 2)) * (0.2 + 0.4 * t[:, None])

    return cells(n, (0.5, 0.3, 0.2), (1.2, 3.0)), cells(m, (0.3, 0.3, 0.4), (3.0, 1.5))


def embryoid(path: str) -> list[Interval]:
    """All cells of the embryoid bodies, in five whitened components."""
    adata = embryoid_body(path)
    x = adata.obsm["X_pca"][:, :5]
    points = collect(Whitening.of(x)(x), adata.obs["day"].to_numpy()).points
    return [equal(x, y) for x, y in zip(points[:-1], points[1:], strict=True)]


def larry(shape: str, path: str, n_cells: int | None = None) -> Interval:
    """Cells on the neutrophil/monocyte trajectory in the published layout: all, or at most ``n_cells`` a day."""
    with np.load(path) as content:
        x, day, chosen = (content[name] for name in ("X", "day", "neu_mon"))
    rng = np.random.default_rng(0)
    rows = [rng.permutation(np.flatnonzero(chosen.astype(bool) & (day == time)))[:n_cells] for time in LARRY[shape]]
    return equal(*(x[part].astype(np.float64) for part in rows))


def equal(x: Array, y: Array) -> Interval:
    """Two snapshots of cells of equal weight."""
    return Interval(x, y, np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)))
