"""The inner problem of JKOnet: a transport map that makes one JKO step, found by gradient descent on its weights.

With a batch x of cells, a step τ and an energy E, the map T minimises mean E(T(x)) + mean ‖T(x) − x‖² / 2τ, plus the
Monge gap of T where requested. The descent has a fixed number of updates, so that it can be differentiated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from ..core.energy import models
from ..core.energy.interactions import NO_INPUT
from ..core.energy.models import NeuralPotential, Weights

#: The gradient of an input-convex network, or a perceptron that gives the displacement.
MAPS = ("icnn", "mlp")


class Inner(NamedTuple):
    """Settings of the inner problem: the kind of map, the layers of map and energy, and the descent."""

    map: str
    has_gap: bool
    layers: tuple[int, ...]
    n_updates: int
    learning_rate: float
    decays: bool


class Step(NamedTuple):
    """The numbers of one inner problem: the length of the step, and the weight of the Monge gap."""

    tau: jax.Array
    gap: jax.Array


def require_ott_neural() -> None:
    """Raise an ImportError that names the missing piece and the remedy unless OTT's networks can be imported."""
    try:
        import ott.neural.methods.monge_gap
        import ott.neural.networks.icnn  # noqa: F401
    except ImportError as error:
        missing = f" ({error.name} is missing)" if error.name else ""
        raise ImportError(
            f"The JKOnet baselines need the networks of ott-jax[neural]{missing}: pip install 'scjko[baselines]'."
        ) from error


def start(inner: Inner, key: jax.Array, n_dims: int) -> Weights:
    """Random weights of a map of ``n_dims`` dimensions."""
    return _network(inner, n_dims).init(key, jnp.zeros(n_dims))["params"]


def solve(inner: Inner, energy: Weights, initial: Weights, x: jax.Array, step: Step) -> jax.Array:
    """T(x) for the cells ``x`` (n, d), with T from the ``initial`` weights on by the descent; differentiable."""
    rate = optax.cosine_decay_schedule(inner.learning_rate, inner.n_updates) if inner.decays else inner.learning_rate
    # JKOnet's β₁, β₂ and ε (the paper's appendix on baselines). ε is inside the root too: a weight without a gradient
    # has a second moment of zero, where the root has no derivative and the unrolled descent would give NaN.
    optimizer = optax.adam(rate, b1=0.5, b2=0.9, eps=1e-8, eps_root=1e-16)

    def objective(weights: Weights) -> jax.Array:
        return _objective(inner, energy, x, _transport(inner, weights, x), step)

    # Checkpoints: only the weights of each update are kept, not what every cell was worth in every layer.
    @jax.checkpoint
    def update(state: Any, _: None) -> tuple[Any, None]:
        weights, memory = state
        direction, memory = optimizer.update(jax.grad(objective)(weights), memory)
        return (optax.apply_updates(weights, direction), memory), None

    (weights, _), _ = jax.lax.scan(update, (initial, optimizer.init(initial)), None, length=inner.n_updates)
    return _transport(inner, weights, x)


def _objective(inner: Inner, energy: Weights, x: jax.Array, y: jax.Array, step: Step) -> jax.Array:
    """mean E(y) + mean ‖y − x‖² / 2τ, plus λ times the Monge gap of x ↦ y."""
    labels = jnp.ones((len(y), len(NO_INPUT)), y.dtype)
    felt = jnp.mean(models.potentials(NeuralPotential(inner.layers), energy, y, labels))
    value = felt + jnp.mean(jnp.sum((y - x) ** 2, axis=1)) / (2 * step.tau)
    return value + step.gap * _gap(x, y) if inner.has_gap else value


def _gap(x: jax.Array, y: jax.Array) -> jax.Array:
    """A stand-in for the Monge gap of x ↦ y that has its gradient (its value means nothing).

    Linear in y, that is with the transport plan held fixed when the descent is differentiated. OTT's second derivative
    holds the dual potentials fixed instead, and the gradient through the descent explodes: with λτ = 0.1 its cosine
    with the exact one (Sinkhorn unrolled, 20 times as slow) was 0.33, with λτ = 1 it was infinite. With the plan fixed
    the cosines were 0.997 and 0.999, the norms 5 and 8 % too large.
    """
    from ott.neural.methods.monge_gap import monge_gap_from_samples

    # OTT's defaults, as in the paper: ε is a twentieth of the standard deviation of the costs.
    slope = jax.grad(lambda moved: monge_gap_from_samples(x, moved))(jax.lax.stop_gradient(y))
    return jnp.sum(slope * y)


def _transport(inner: Inner, weights: Weights, x: jax.Array) -> jax.Array:
    """T(x) with these weights."""
    network = _network(inner, x.shape[1])
    if not network.is_potential:
        return jnp.asarray(network.apply({"params": weights}, x))
    # The gradient of the sum has the gradient of each cell in its row, and is several times as fast as one by one.
    return jax.grad(lambda x: jnp.sum(network.apply({"params": weights}, x)))(x)


def _network(inner: Inner, n_dims: int) -> Any:
    """The network of the map; both kinds start near the identity."""
    from ott.neural.networks.icnn import ICNN
    from ott.neural.networks.potentials import PotentialMLP

    if inner.map == "icnn":
        # Positive weights and a Gaussian start (the paper's appendix), leaky ReLU (JKOnet's code). JKOnet's own network
        # does not start near the identity; OTT's does, with the small weights that are flax's default.
        init, act = nn.initializers.normal(0.01), nn.leaky_relu
        return ICNN(n_dims, inner.layers, init_fn=init, act_fn=act, pos_weights=True)
    return PotentialMLP(inner.layers, is_potential=False, act_fn=nn.leaky_relu)
