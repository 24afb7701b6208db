from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ._functionals import functionals
from ._generate import BOUND


def gallery(n_points: int = 200) -> Figure:
    """Level curves of all functionals in two dimensions, where particles start.

    Parameters
    ----------
    n_points
        Points along each side of the grid.

    Returns
    -------
    The figure.

    Examples
    --------
    >>> import scjko as sj
    >>> len(sj.benchmarks.gallery(20).axes)
    15
    """
    side = np.linspace(-BOUND, BOUND, n_points)
    grid = np.meshgrid(side, side, indexing="ij")
    points = np.stack([axis.ravel() for axis in grid], axis=1)
    figure = Figure(figsize=(12, 7.4), layout="constrained")
    for axes, (name, functional) in zip(figure.subplots(3, 5).ravel(), functionals.items(), strict=True):
        height = functional(points).reshape(n_points, n_points)
        if np.ptp(height) > 0:
            axes.contourf(*grid, height, levels=20, cmap="viridis")
            axes.contour(*grid, height, levels=20, colors="white", linewidths=0.4)
        axes.set(title=name, xticks=[], yticks=[], aspect="equal")
    return figure
