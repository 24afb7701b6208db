"""The paper's rivals: JKOnet and its variants, which learn an energy by differentiating through a solved JKO step.

For snapshots x_0 … x_K, the inner problem moves a batch of x_k by the energy E (``_maps.py``), the outer one compares
where it arrives with x_{k+1} by the Sinkhorn divergence, and E follows the gradient of that through the whole inner
descent. Bunne et al., Proximal optimal transport modeling of population dynamics (AISTATS 2022).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from ..core.energy import models
from ..core.energy.interactions import NO_INPUT
from ..core.energy.models import NeuralPotential, Weights
from ..edge.checks import check_integer, check_option, check_positive
from . import _maps
from ._batches import SPREAD, Units, batches, checked, units_of
from ._maps import MAPS, Inner, Step

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rival:
    """A variant of JKOnet with its settings.

    "Appendix" is the paper's on baseline settings, which gives JKOnet's defaults; "code" is JKOnet's base configuration
    where the paper is silent.
    """

    name: str
    map: str = "icnn"
    """``"icnn"``: the gradient of an input-convex network. ``"mlp"``: a perceptron, in JKOnet-vanilla."""
    teacher_forcing: bool = False
    """Start each step from the observed snapshot, not from where the step before arrived. Appendix: without."""
    monge_gap: float = 0.0
    """λ, the weight of the Monge gap in the inner problem, per unit of time. Appendix: 1."""
    layers: tuple[int, ...] = (64, 64)
    """Of the map and of the energy. Appendix."""
    epochs: int = 100
    """Appendix."""
    batch_size: int = 250
    """Cells of each snapshot in a batch. Appendix."""
    learning_rate: float = 1e-3
    """Of the energy; Adam with a constant rate. The paper's appendix on training."""
    n_inner: int = 100
    """Updates of the map in each inner problem. Appendix."""
    inner_learning_rate: float = 1e-2
    """Of the map. Appendix."""
    inner_decay: bool = True
    """Let the rate of the map fall to zero along a cosine. Appendix: constant.

    With a constant rate the last updates circle the solution, and the gradient through them is noise: on a quadratic
    potential its cosine with the exact one (by the implicit function theorem) was −0.5 to 0.8, its norm 3 to 400 times
    too large. With the decay the cosine is 0.99 or more and the norm within 8 %. The rivals get the better of the two.
    """
    epsilon: float = 1.0
    """Regularisation of the Sinkhorn divergence, with coordinates of standard deviation ``SPREAD``. Appendix."""
    random_state: int = 0

    def __post_init__(self) -> None:
        check_option("map", self.map, MAPS)
        for name in ("epochs", "batch_size", "n_inner"):
            check_integer(name, getattr(self, name))
        for name in ("learning_rate", "inner_learning_rate", "epsilon"):
            check_positive(name, getattr(self, name))
        if self.monge_gap != 0:
            check_positive("monge_gap", self.monge_gap)

    @property
    def inner(self) -> Inner:
        """The settings of its inner problem."""
        return Inner(
            map=self.map,
            has_gap=self.monge_gap > 0,
            layers=self.layers,
            n_updates=self.n_inner,
            learning_rate=self.inner_learning_rate,
            decays=self.inner_decay,
        )


rivals = {
    rival.name: rival
    for rival in (
        Rival("jkonet", teacher_forcing=True),
        Rival("jkonet_no_teacher_forcing"),
        Rival("jkonet_vanilla", map="mlp"),
        Rival("jkonet_monge_gap", map="mlp", monge_gap=1.0),
    )
}
"""The paper's rivals by name. Those it reports are without teacher forcing: ``"jkonet"`` is the one with it."""

RIVALS = tuple(rivals)


@dataclass(frozen=True)
class FittedRival:
    """A rival's energy, learned."""

    rival: Rival
    losses: Array
    """The mean Sinkhorn divergence of each epoch, in units in which coordinates have standard deviation ``SPREAD``."""
    seconds_per_epoch: Array
    """Wall time of each epoch, without compilation."""
    seconds_compiling: float
    _weights: Weights
    _initial: Weights
    _units: Units
    _batch_size: int

    def step(self, x: ArrayLike, t0: float, t1: float) -> Array:
        """Where cells at ``x`` (n, d) are at time ``t1`` if they were there at ``t0``, as an array (n, d).

        By one JKO step of the learned energy. A map is found for each random batch of cells, of the size of those in
        training; the last is filled up with cells that were moved before.
        """
        check_positive("t1 - t0", float(t1) - float(t0))
        x = np.asarray(x, np.float64)
        size = self._batch_size
        order = np.random.default_rng(self.rival.random_state).permutation(len(x))
        filled = np.resize(order, -(-len(x) // size) * size)
        cells = self._units.inward(x)[filled].reshape(-1, size, x.shape[1])
        step = self._units.step(t1 - t0, self.rival.monge_gap)
        moved = [np.asarray(_move(self.rival.inner, self._weights, self._initial, batch, step)) for batch in cells]
        arrived = np.empty_like(x)
        arrived[order] = np.concatenate(moved)[: len(x)] * self._units.length + self._units.centre
        return arrived

    def gradient(self, x: ArrayLike) -> Array:
        """∇E at the points ``x`` (n, d), as an array (n, d) in the units of the coordinates per time."""
        z = self._units.inward(x)
        labels = np.ones((len(z), len(NO_INPUT)), np.float32)
        slope = models.gradients(NeuralPotential(self.rival.layers), self._weights, z, labels)
        return np.asarray(slope, np.float64) * self._units.length / self._units.time


def fit_rival(
    points: Sequence[ArrayLike],
    times: ArrayLike,
    rival: Rival,
    *,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> FittedRival:
    """The energy that a rival learns from unpaired snapshots.

    Parameters
    ----------
    points
        The cells of each snapshot (n_k, d).
    times
        The time of each snapshot, increasing.
    rival
        Which rival, with its settings; see :data:`rivals`.
    on_progress
        Called after each epoch with the fraction of the work that it was.

    Raises
    ------
    ImportError
        Without OTT's networks, which the extra ``scjko[baselines]`` installs.
    FloatingPointError
        If the loss is not finite, or in the end so large that predictions have left the data.
    """
    _maps.require_ott_neural()
    snapshots, durations = checked(points, times)
    units = units_of(snapshots, durations)
    scaled = [units.inward(x) for x in snapshots]
    n_dims, size = scaled[0].shape[1], min(rival.batch_size, *map(len, scaled))
    steps, forced = units.step(durations, rival.monge_gap), np.asarray(rival.teacher_forcing)
    # What the compiled program does not depend on is left out of it, so that it serves every seed.
    program = replace(rival, name="", teacher_forcing=False, epochs=1, batch_size=size, random_state=0)
    state, initial = _start(program, n_dims, np.uint32(rival.random_state % 2**32))
    rng = np.random.default_rng(rival.random_state)
    clock = [time.perf_counter()]
    run = _epoch.lower(program, state, initial, batches(scaled, size, rng), steps, forced).compile()
    clock.append(time.perf_counter())
    losses: list[float] = []
    for _ in range(rival.epochs):
        state, loss = run(state, initial, batches(scaled, size, rng), steps, forced)
        losses.append(float(loss))  # waits for the result
        clock.append(time.perf_counter())
        _check(rival, losses, state[0], n_dims)
        on_progress(1 / rival.epochs)
    compiling, *seconds = np.diff(clock)
    weights = jax.tree.map(np.asarray, state[0])
    return FittedRival(rival, np.array(losses), np.array(seconds), float(compiling), weights, initial, units, size)


def _check(rival: Rival, losses: list[float], weights: Weights, n_dims: int) -> None:
    """Raise if something is not finite, or the last loss is above four times the variance of the data."""
    if not (np.isfinite(losses[-1]) and all(np.isfinite(w).all() for w in jax.tree.leaves(weights))):
        what = "is not finite"
    elif len(losses) == rival.epochs and losses[-1] > 4 * n_dims * SPREAD**2:
        what = "moves cells out of the data"
    else:
        return
    raise FloatingPointError(
        f"The fit of {rival.name} diverged: the energy of epoch {len(losses)} {what} (loss {losses[-1]:.3g}). Lower "
        f"learning_rate (now {rival.learning_rate:g}) or inner_learning_rate (now {rival.inner_learning_rate:g}), and "
        "check the points for extreme values."
    )


def _optimizer(rival: Rival) -> Any:
    """That of the energy, with the β₁, β₂, ε and bound on the gradient of the paper's appendix on training."""
    return optax.chain(optax.clip_by_global_norm(10.0), optax.adam(rival.learning_rate, b1=0.9, b2=0.999, eps=1e-8))


@partial(jax.jit, static_argnums=(0, 1))
def _start(rival: Rival, n_dims: int, seed: jax.Array) -> tuple[Any, Weights]:
    """Random weights of the energy with the optimizer's memory of nothing yet, and of the map."""
    key = jax.random.key(seed)
    weights = NeuralPotential(rival.layers).start(key, n_dims, len(NO_INPUT))
    return (weights, _optimizer(rival).init(weights)), _maps.start(rival.inner, jax.random.fold_in(key, 1), n_dims)


_move = jax.jit(_maps.solve, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _epoch(
    rival: Rival, state: Any, initial: Weights, cells: jax.Array, steps: Step, forced: jax.Array
) -> tuple[Any, jax.Array]:
    """One pass through the batches, the energy updated after each step of each (as in JKOnet's code)."""
    from ott.tools.sinkhorn_divergence import sinkdiv

    def loss(weights: Weights, x: jax.Array, y: jax.Array, step: Step) -> tuple[jax.Array, jax.Array]:
        # Every map starts from the same weights, so that a prediction repeats what training has differentiated.
        arrived = _maps.solve(rival.inner, weights, initial, x, step)
        return sinkdiv(arrived, y, epsilon=rival.epsilon)[0], arrived

    def advance(carry: Any, at: tuple[jax.Array, jax.Array, Step]) -> tuple[Any, jax.Array]:
        (weights, memory), arrived = carry
        x, y, step = at
        x = jnp.where(forced, x, arrived)
        (value, arrived), slope = jax.value_and_grad(loss, has_aux=True)(weights, x, y, step)
        direction, memory = _optimizer(rival).update(slope, memory)
        return ((optax.apply_updates(weights, direction), memory), arrived), value

    def through_time(state: Any, snapshots: jax.Array) -> tuple[Any, jax.Array]:
        (state, _), values = jax.lax.scan(advance, (state, snapshots[0]), (snapshots[:-1], snapshots[1:], steps))
        return state, jnp.mean(values)

    state, values = jax.lax.scan(through_time, state, cells)
    return state, jnp.mean(values)
