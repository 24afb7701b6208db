from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import ArrayLike, NDArray

from ..core.energy.models import Weights
from ..core.motion.proximal import proximal
from ..edge.checks import check_integer, check_option, check_positive
from ._functionals import Functional, functionals

Array = NDArray[np.float64]
Function = Callable[..., jax.Array]

#: Particles start uniformly between minus this and this in every coordinate.
BOUND = 4.0
#: Root mean square of a coordinate at the start: the unit of length in which implicit steps are solved.
LENGTH = BOUND / np.sqrt(3)


def generate(
    potential: str | Functional | Function | None = None,
    interaction: str | Functional | Function | None = None,
    beta: float = 0.0,
    *,
    n_particles: int = 1000,
    n_dims: int = 2,
    n_steps: int = 5,
    tau: float = 0.01,
    start: ArrayLike | None = None,
    scheme: str = "explicit",
    random_state: int = 0,
) -> AnnData:
    r"""Particles that follow a known energy, as the paper generates them.

    Twice ``n_particles`` start uniformly in [−4, 4]\ :sup:`d` and move by Euler–Maruyama steps

        x ← x − τ ∇V(x) − τ ∫ ∇U(x − y) dμ(y) + √(2βτ) n,    n standard normal,

    or, with ``scheme="implicit"``, by x ← argmin of τ V(z) + ½‖z − x‖². Half of them are for training and half are held
    out. The order of rows says nothing of which particle went where.

    Parameters
    ----------
    potential
        V: the name of a functional, a functional, or any function of one point for JAX; of a point and the time, if it
        takes two arguments. ``None`` for no potential.
    interaction
        U, in the same way, but without time.
    beta
        Strength of the noise.
    n_particles
        Number of particles for training, and again as many held out.
    n_dims
        Number of dimensions.
    n_steps
        Number of steps: one less than there are snapshots.
    tau
        Length of a step.
    start
        Where the particles start, (2 × n_particles, n_dims), the held-out ones last; by default uniform.
    scheme
        ``"explicit"`` or, for a potential alone, ``"implicit"``.
    random_state
        Seed of the start, the noise and the order.

    Returns
    -------
    AnnData without genes, with

    ``obsm["X_latent"]``
        Positions.
    ``obs["time"]``
        The time of each particle.
    ``obs["split"]``
        ``"train"`` or ``"test"``.
    ``obs["true_potential"]``, ``obsm["true_velocity"]``
        V and −∇V − ∫∇U dμ where the particle is.
    ``uns["truth"]``
        Names of the functionals, ``beta``, ``tau`` and ``scheme``.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.benchmarks.generate("styblinski_tang", n_particles=100)
    >>> adata.obs["split"].value_counts().to_dict()
    {'train': 600, 'test': 600}
    """
    check_option("scheme", scheme, ["explicit", "implicit"])
    for name, value in (("n_particles", n_particles), ("n_dims", n_dims), ("n_steps", n_steps)):
        check_integer(name, value)
    check_positive("tau", tau)
    check_integer("random_state", random_state, minimum=0)
    if not (isinstance(beta, Real) and not isinstance(beta, bool) and np.isfinite(float(beta)) and beta >= 0):
        raise ValueError(f"beta={beta!r} must be a number of at least zero.")
    if scheme == "implicit" and (interaction is not None or beta > 0):
        raise ValueError("An implicit step is defined here for a potential alone; leave out interaction and beta.")
    truth = _Truth(_resolve(potential, n_dims, may_vary=True), _resolve(interaction, n_dims, may_vary=False))
    rng = np.random.default_rng(random_state)
    x = rng.uniform(-BOUND, BOUND, (2 * n_particles, n_dims)) if start is None else np.array(start, dtype=np.float64)
    if x.shape != (2 * n_particles, n_dims):
        raise ValueError(f"start has shape {x.shape}, not (2 × n_particles, n_dims) = {(2 * n_particles, n_dims)}.")
    if not np.isfinite(x).all():
        raise ValueError("start holds NaN or infinite coordinates.")

    times = tau * np.arange(n_steps + 1, dtype=np.float64)
    snapshots, velocities = [x], [truth.velocity(x, times[0])]
    for k in range(n_steps):
        if scheme == "implicit":
            x = truth.implicit_step(x, times[k + 1], tau)
        else:
            x = x + tau * velocities[-1] + np.sqrt(2 * beta * tau) * rng.standard_normal(x.shape)
        velocity = truth.velocity(x, times[k + 1])
        if not (np.isfinite(x).all() and np.isfinite(velocity).all()):
            raise FloatingPointError(
                f"Step {k + 1} with potential {truth.potential.name} and interaction {truth.interaction.name} took "
                f"particles to infinity; use a smaller tau (now {tau:g})."
            )
        snapshots.append(x)
        velocities.append(velocity)
    return _to_adata(snapshots, velocities, times, truth, rng, {"beta": beta, "tau": tau, "scheme": scheme})


def snapshots_of(adata: AnnData, split: str) -> list[Array]:
    """The positions of the training or held-out particles at each time."""
    chosen = adata.obs["split"].to_numpy() == split
    time, x = adata.obs["time"].to_numpy(), np.asarray(adata.obsm["X_latent"])
    return [x[chosen & (time == t)] for t in np.unique(time)]


@dataclass(frozen=True)
class _Term:
    """A named function of a point and the time, None if there is none."""

    name: str
    value: Function | None


class _Truth:
    """The energy that particles are generated with."""

    def __init__(self, potential: _Term, interaction: _Term) -> None:
        self.potential, self.interaction = potential, interaction

    def velocity(self, x: Array, time: float) -> Array:
        """−∇V − ∫∇U dμ at each particle, μ being all of them."""
        points, force = jnp.asarray(x, jnp.float32), np.zeros_like(x)
        if self.potential.value is not None:
            force -= np.asarray(_slopes(self.potential.value, points, time), dtype=np.float64)
        if self.interaction.value is not None:
            force -= np.asarray(_mean_slopes(self.interaction.value, points), dtype=np.float64)
        return force

    def values(self, x: Array, time: float) -> Array:
        """V at each particle."""
        if self.potential.value is None:
            return np.zeros(len(x))
        return np.asarray(_values(self.potential.value, jnp.asarray(x, jnp.float32), time), dtype=np.float64)

    def implicit_step(self, x: Array, time: float, tau: float) -> Array:
        """argmin over z of τ V(z) + ½‖z − x‖² for each particle."""
        if self.potential.value is None:
            return x
        times = jnp.full((len(x), 1), time, jnp.float32)
        z = jnp.asarray(x / LENGTH, jnp.float32)
        solved = proximal(_Scaled(self.potential.value), {}, z, z, times, tau)
        if not bool(solved.converged.all()):
            raise FloatingPointError(
                f"The implicit step to time {time:g} with potential {self.potential.name} has no solution nearby for "
                f"{int((~solved.converged).sum())} particles; use a smaller tau (now {tau:g})."
            )
        return np.asarray(solved.points, dtype=np.float64) * LENGTH


@dataclass(frozen=True)
class _Scaled:
    """A function as a model of points in units of ``LENGTH``, for the proximal step."""

    function: Function

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        return self.function(z * LENGTH, c[0]) / LENGTH**2


def _resolve(given: str | Functional | Function | None, n_dims: int, may_vary: bool) -> _Term:
    if given is None:
        return _Term("none", None)
    if isinstance(given, str):
        given = functionals[given]
    if isinstance(given, Functional):
        given.check(n_dims)
        return _Term(given.name, _Timeless(given.value))
    parameters = inspect.signature(given).parameters.values()
    takes_time = sum(p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in parameters) > 1
    if takes_time and not may_vary:
        raise ValueError("An interaction does not vary in time: it is a function of one point alone.")
    return _Term(getattr(given, "__name__", "custom"), given if takes_time else _Timeless(given))


class _Timeless:
    """A function of a point as one of a point and the time; equal if the functions are, so that programs are reused."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def __call__(self, v: jax.Array, time: jax.Array) -> jax.Array:
        return self.function(v)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Timeless) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


@partial(jax.jit, static_argnums=0)
def _values(function: Function, x: jax.Array, time: jax.Array) -> jax.Array:
    return jax.vmap(function, (0, None))(x, time)


@partial(jax.jit, static_argnums=0)
def _slopes(function: Function, x: jax.Array, time: jax.Array) -> jax.Array:
    return jax.vmap(jax.grad(function), (0, None))(x, time)


@partial(jax.jit, static_argnums=0)
def _mean_slopes(function: Function, x: jax.Array) -> jax.Array:
    # One particle after the other, so that memory grows with their number and not its square.
    return jax.lax.map(lambda one: jnp.mean(_slopes(function, one[None, :] - x, jnp.zeros(())), axis=0), x)


def _to_adata(
    snapshots: list[Array],
    velocities: list[Array],
    times: Array,
    truth: _Truth,
    rng: np.random.Generator,
    settings: dict[str, Any],
) -> AnnData:
    n = len(snapshots[0]) // 2
    # Unpaired: a row of one snapshot has nothing to do with the same row of another.
    orders = [np.concatenate([rng.permutation(n), n + rng.permutation(n)]) for _ in times]
    x, velocity = (
        np.concatenate([part[order] for part, order in zip(parts, orders, strict=True)])
        for parts in (snapshots, velocities)
    )
    values = np.concatenate([truth.values(s[order], t) for s, order, t in zip(snapshots, orders, times, strict=True)])
    obs = pd.DataFrame(
        {
            "time": np.repeat(times, 2 * n),
            "split": pd.Categorical(np.tile(np.repeat(["train", "test"], n), len(times)), ["train", "test"]),
            "true_potential": values,
        },
        index=np.arange(len(x)).astype(str),
    )
    names = {"potential": truth.potential.name, "interaction": truth.interaction.name}
    return AnnData(obs=obs, obsm={"X_latent": x, "true_velocity": velocity}, uns={"truth": {**names, **settings}})
