"""Growth from transport: marginals that may change, at a price, where that saves cells a long path.

Of two snapshots with weights a and b, masses r of the sources are sought that make

    min_γ ∫ ‖T(x) − y‖² dγ + λ KL(r | a),        γ with marginals r and b,

smallest. A cell that would have to cross from one fate to another, for no reason but their proportions, leaves more or
fewer descendants instead. The map T is affine: motion that all cells share is not taken for growth. It comes from a
first solution without it, at a price that is larger by the squared shift of the mean. With Kantorovich potentials f and
h the solution has

    log r(x) / a(x) = −f(x) / λ + const,

so that growth is a smooth function of position, known everywhere through the c-transform of h (semi-unbalanced
transport; Chizat et al. 2018, Math. Comp. 87). The c-transform is a soft minimum of width ε = λ / 20, and the concave
dual in h alone is maximised by a quasi-Newton method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.cluster import KMeans

Array = NDArray[np.float64]

#: Cells, or clusters of them, that are coupled, at most.
MAX_POINTS = 400
#: Softness of the minimum, relative to the price.
SOFTNESS = 0.05
#: Directions in which cells spread less than this fraction of the widest have no slope in the map.
FLAT = 1e-6
#: Marginals are solved to this, in all, or in so many steps.
TOLERANCE, MAX_STEPS = 1e-3, 300
#: Cells whose c-transform is computed at a time.
BLOCK = 8192


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Gains of mass from one snapshot to the next."""

    move: Callable[[Array], Array]
    """T, the motion that all cells share."""
    y: Array
    """Targets, or clusters of them."""
    b: Array
    h: Array
    price: float
    x: Array
    """Sources, or clusters of them."""
    a: Array
    constant: float

    def gain(self, x: Array) -> Array:
        """log r / a of cells at ``x``: by how much the log of their mass grows until the next snapshot."""
        blocks = np.array_split(x, max(1, -(-len(x) // BLOCK)))
        return np.concatenate([self._gain(part) for part in blocks])

    def _gain(self, x: Array) -> Array:
        cost = cdist(self.move(x), self.y, "sqeuclidean")
        return self.constant - _soft_minimum(cost, self.h, self.b, self.price) / self.price

    def plan(self) -> Array:
        """The coupling of all sources with all targets."""
        cost = cdist(self.move(self.x), self.y, "sqeuclidean")
        f, width = _soft_minimum(cost, self.h, self.b, self.price), SOFTNESS * self.price
        mass = self.a * np.exp(self.constant - f / self.price)
        return np.asarray(mass[:, None] * self.b * np.exp((self.h + f[:, None] - cost) / width))


def relaxed(x: Array, y: Array, a: Array, b: Array, price: float) -> Relaxed:
    """The gains of mass of sources ``x`` with weights ``a`` at the price λ."""
    x, a, y, b = *condensed(x, a), *condensed(y, b)
    # Cells that lag behind would be left to die if the motion that all share were dear in comparison with the price.
    dear = price + float(np.sum((b @ y - a @ x) ** 2))
    first = _solved(x, y, a, b, dear, lambda z: z, np.zeros(len(y)))
    return _solved(x, y, a, b, price, _shared_motion(first), first.h)


def condensed(x: Array, weight: Array) -> tuple[Array, Array]:
    """The cells with weight, or the means and weights of clusters of them where they are many."""
    x, weight = x[weight > 0], weight[weight > 0]
    if len(x) > MAX_POINTS:
        label = KMeans(MAX_POINTS, n_init=1, max_iter=10, init="random", random_state=0).fit(x).labels_
        label = np.unique(label, return_inverse=True)[1]
        total = np.bincount(label, weight).astype(np.float64)
        x = np.stack([np.bincount(label, weight * column) for column in x.T], axis=1) / total[:, None]
        weight = total
    return x, weight / weight.sum()


def _soft_minimum(cost: Array, h: Array, b: Array, price: float) -> Array:
    """f = −ε log Σ_j b_j exp((h_j − c_j) / ε)."""
    width = SOFTNESS * price
    return np.asarray(-width * logsumexp((h - cost) / width, axis=1, b=b))


def _solved(
    x: Array, y: Array, a: Array, b: Array, price: float, move: Callable[[Array], Array], start: Array
) -> Relaxed:
    cost, width = cdist(move(x), y, "sqeuclidean"), SOFTNESS * price
    log_a, log_b = np.log(a), np.log(b)

    def loss(h: Array) -> tuple[float, Array]:
        """Minus the dual, −λ log Σ a e^{−f/λ} + Σ b h, and its slope: by how much the targets' masses are off."""
        score = (h - cost) / width + log_b
        top = score.max(axis=1, keepdims=True)
        share = np.exp(score - top)
        total = share.sum(axis=1)
        log_mass = log_a + width / price * (top[:, 0] + np.log(total))
        norm = logsumexp(log_mass)
        arrived = (np.exp(log_mass - norm) / total) @ share
        return float(price * norm - b @ h), arrived - b

    options = {"maxiter": MAX_STEPS, "gtol": TOLERANCE / len(y), "maxcor": 20}
    h = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    f = _soft_minimum(cost, h, b, price)
    return Relaxed(move, y, b, h, price, x, a, -float(logsumexp(-f / price, b=a)))


def _shared_motion(solution: Relaxed) -> Callable[[Array], Array]:
    """The affine map that best takes sources to the means of their partners."""
    plan, x = solution.plan(), solution.x
    mass = plan.sum(axis=1)
    mass = np.maximum(mass, 1e-300)
    partners = plan @ solution.y / mass[:, None]
    here, there = mass @ x / mass.sum(), mass @ partners / mass.sum()
    root = np.sqrt(mass)[:, None]
    slope = lstsq(root * (x - here), root * (partners - there), cond=FLAT)[0]
    return lambda z: there + (z - here) @ slope
