"""Densities of snapshots by Gaussian mixtures, and their score ∇ log ρ in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.mixture import GaussianMixture

from ..compute.parallel import one_thread

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Mixture:
    """A Gaussian mixture ρ(x) = Σ_j p_j N(x; m_j, P_j⁻¹), kept by its precisions P_j.

    Everything is done with log-densities: no component is dropped and nothing is clipped, so that the score holds far
    out and in many dimensions.
    """

    log_weights: Array
    means: Array
    precisions: Array

    def log_density(self, x: Array) -> Array:
        """log ρ at points (n, d)."""
        return np.asarray(logsumexp(self._log_joint(x), axis=1))

    def score(self, x: Array) -> Array:
        """∇ log ρ = Σ_j r_j(x) P_j (m_j − x) at points (n, d), with r_j the share of component j in the density."""
        share = softmax(self._log_joint(x), axis=1)
        towards = self.means[None] - x[:, None]
        return np.einsum("nj,jab,njb->na", share, self.precisions, towards)

    @property
    def single(self) -> dict[str, NDArray[np.float32]]:
        """The arrays of the mixture in single precision, for :func:`log_density`."""
        names = ("log_weights", "means", "precisions")
        return {name: getattr(self, name).astype(np.float32) for name in names}

    def _log_joint(self, x: Array) -> Array:
        away = x[:, None] - self.means[None]
        squared = np.einsum("nja,jab,njb->nj", away, self.precisions, away)
        _, log_det = np.linalg.slogdet(self.precisions)
        return self.log_weights + (log_det - x.shape[1] * np.log(2 * np.pi) - squared) / 2


def scores(mixtures: Mapping[float, Mixture], z: Array, place: Array) -> Array:
    """∇ log ρ at each point, of the mixture of the place that it belongs to."""
    score = np.empty(z.shape)
    for k in np.unique(place):
        score[place == k] = mixtures[float(k)].score(z[place == k])
    return score


def log_density(mixture: Mapping[str, jax.Array], z: jax.Array) -> jax.Array:
    """log ρ at one point up to a constant, of the arrays of a mixture, for JAX."""
    away = z[None, :] - mixture["means"]
    squared = jnp.einsum("ja,jab,jb->j", away, mixture["precisions"], away)
    _, log_det = jnp.linalg.slogdet(mixture["precisions"])
    return jax.scipy.special.logsumexp(mixture["log_weights"] + (log_det - squared) / 2)


def fit_mixture(x: Array, weight: Array, n_components: int, random_state: int) -> Mixture:
    """A mixture of full Gaussians fitted to weighted cells, as many as the Bayesian information criterion selects.

    At most ``n_components``, and fewer for small snapshots. More than needed would be harmful: each adds noise to the
    score, and noise in the score draws the estimate of β to zero.
    """
    x, weight = x[weight > 0], weight[weight > 0]
    n, d = x.shape
    # A full covariance in d dimensions wants a few times d cells.
    n_components = max(1, min(n_components, n // (5 * (d + 1))))
    if np.ptp(weight) > 1e-12 * weight.max():  # scikit-learn's mixtures know no weights: cells are drawn by them
        x = x[np.random.default_rng(random_state).choice(n, size=2 * n, p=weight / weight.sum())]
    # Copies of one cell are indistinguishable, so no more Gaussians than places are fitted.
    n_components = min(n_components, len(np.unique(np.round(x, 6), axis=0)))
    floor = 1e-6 * max(float(np.mean(np.var(x, axis=0))), 1e-3)
    # Threads gain nothing on matrices this small, and on a busy machine they wait for each other: 6 s in place of 0.2.
    with one_thread():
        best, lowest, worse = None, np.inf, 0
        for k in sorted({1, 2, 3, 5, n_components}):
            # Two in a row that are worse than fewer: still more would not be better, and large ones take longest.
            if k > n_components or worse == 2:
                break
            found = GaussianMixture(k, reg_covar=floor, max_iter=1000, random_state=random_state).fit(x)
            criterion = found.bic(x)
            worse = 0 if criterion < lowest else worse + 1
            if criterion < lowest:
                best, lowest = found, criterion
    assert best is not None
    return Mixture(np.log(best.weights_), best.means_, best.precisions_)
