"""Networks on resampled cells, trained side by side in one compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from ...compute.blocks import room
from ...compute.limits import machine_memory
from ...energy.models import EnsemblePotential, NeuralPotential
from ...transport import Solver
from ..descent import descend, device_mesh, network, start, train
from ..halves import half_problem
from ..parametrizations import Neural
from ..problem import Course, Formulation, Problem, Solved
from ..schedule import ROWS, Rows, n_batches, others_of, rows_of
from .resampling import check_resampling, resampled

#: Copies of the weights that training holds: themselves, their gradient, and two of the optimizer.
COPIES = 4


def train_network(
    course: Course,
    problem: Problem,
    formulation: Formulation,
    training: Neural,
    solver: Solver | None,
    random_state: int,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> Solved:
    """One network of all cells, or the mean of members on resampled cells."""
    if training.n_members is None:
        return descend(problem, training, random_state, on_progress)
    check_resampling(course)
    parts = resampled(course, training.n_members, random_state, solver)
    posed = [half_problem(part, problem, formulation) for part in parts]
    return descend_together(problem, posed, training, random_state, on_progress)._replace(parts=parts)


def descend_together(
    whole: Problem,
    problems: Sequence[Problem],
    training: Neural,
    random_state: int = 0,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> Solved:
    """The mean of networks that are trained on one problem each, as many epochs as one network on the ``whole``.

    Each starts from weights of its own. Half of the cells make half as many updates in an epoch.

    Raises
    ------
    FloatingPointError
        If the loss of a member is not finite, or in the end above that of a zero energy.
    """
    first, n = problems[0], len(problems)
    model, kernel = network(training, *whole.z.shape), NeuralPotential(tuple(training.layers), first.even)
    felt = kernel if first.populations else None
    most = max(len(problem.z) for problem in problems)
    n_rows = room(n_batches(most, training.batch_size) * training.batch_size, ROWS)
    check_memory(n, n_rows, first)
    rows = Rows(*(jax.numpy.stack(column) for column in zip(*(rows_of(p, n_rows) for p in problems), strict=True)))
    keys = np.random.SeedSequence(random_state).generate_state(n).astype(np.uint32)
    state, others = start(model, felt, first.n_dims, first.inputs.shape[1], keys), others_of(first)
    mesh = _divisor(device_mesh(training.n_devices), n)
    if mesh is not None:  # every device has its share of the members
        rows, state = jax.device_put((rows, state), NamedSharding(mesh, PartitionSpec("cells")))
        others = jax.device_put(others, NamedSharding(mesh, PartitionSpec()))
    weights, losses = train(model, kernel, None, state, rows, others, keys, training, most, on_progress)
    return Solved(weights, EnsemblePotential(model), felt and EnsemblePotential(felt), losses.mean(axis=1))


def check_memory(n_members: int, n_rows: int, problem: Problem) -> None:
    """Raise if the rows of all members do not fit into memory."""
    need = 4 * n_members * n_rows * (2 * problem.n_dims + problem.inputs.shape[1] + 3)
    if need > machine_memory() // 2:
        raise ValueError(
            f"n_members={n_members} takes {need / 1e9:.2g} GB for the cells of all members, more than half of the "
            f"{machine_memory() / 1e9:.2g} GB that this process may use; use fewer members."
        )


def _divisor(mesh: Mesh | None, n_members: int) -> Mesh | None:
    """As many of the devices as can have the same number of members each."""
    if mesh is None:
        return None
    devices: NDArray[np.object_] = mesh.devices.ravel()
    n = max(k for k in range(1, len(devices) + 1) if n_members % k == 0)
    return None if n == 1 else Mesh(devices[:n], mesh.axis_names)
