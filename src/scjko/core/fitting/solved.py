"""What fitting an energy gives: models and their weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..energy.models import Model, Weights
from .closed_form import Solution


class Solved(NamedTuple):
    """The models of the terms, and how they were found."""

    weights: Weights
    """Of the potential, and of the interaction kernel if there is one."""
    model: Model
    kernel: Model | None
    losses: NDArray[np.float64] | None = None
    """Of networks: the mean loss of each epoch, relative to a zero energy."""
    solution: Solution | None = None
    """Of features: how well their coefficients are determined."""
