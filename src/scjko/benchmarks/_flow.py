"""OT-CFM, a rival that learns a velocity field by flow matching along couplings of batches (Tong et al. 2024).

By the authors' package ``torchcfm``, where that is installed, with the network and optimizer of their experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Points (n, d), the time they are at, and the time they are moved to.
Move = Callable[[Array, float, float], Array]

NAME = "OT-CFM"
#: Of the authors' experiments: units of a layer, noise around the lines, and the optimizer AdamW.
WIDTH, SIGMA, LEARNING_RATE, WEIGHT_DECAY = 64, 0.1, 1e-3, 1e-5
#: Cells of each interval in a batch, of their single-cell example.
BATCH = 256
#: Steps of the Runge-Kutta method of fourth order in an interval.
STEPS = 50


def installed() -> bool:
    """Whether its package can be imported."""
    return find_spec("torchcfm") is not None


def fit_flow(points: Sequence[Array], times: Array, *, n_batches: int, random_state: int = 0) -> Move:
    """A field of velocities that takes each snapshot to the next, learned from ``n_batches`` couplings of batches.

    Every update sees a batch of each interval, as in the authors' example. Coordinates are scaled as a whole to
    variance one, and times to a mean gap of one.
    """
    import torch
    from torchcfm.conditional_flow_matching import ExactOptimalTransportConditionalFlowMatcher
    from torchcfm.models import MLP

    every = np.concatenate(points)
    centre, unit = every.mean(axis=0), float(np.sqrt(np.var(every, axis=0).mean())) or 1.0
    origin, gap = float(times[0]), float(np.mean(np.diff(times)))
    scaled = [torch.as_tensor((x - centre) / unit, dtype=torch.float32) for x in points]
    clock = (np.asarray(times, np.float64) - origin) / gap
    generator = torch.Generator().manual_seed(random_state)
    matcher = ExactOptimalTransportConditionalFlowMatcher(sigma=SIGMA)

    def batch(k: int) -> tuple[Any, Any]:
        """Points of one interval with their time, and velocities."""
        ends = [x[torch.randint(len(x), (BATCH,), generator=generator)] for x in scaled[k : k + 2]]
        t, x, v = matcher.sample_location_and_conditional_flow(*ends)
        length = clock[k + 1] - clock[k]
        return torch.cat([x, (clock[k] + t * length)[:, None]], dim=1), v / length

    n_intervals, before = len(points) - 1, np.random.get_state()
    with torch.random.fork_rng():
        # The package draws from the generators of the process: seeded here, and put back as they were.
        torch.manual_seed(random_state)
        np.random.seed(random_state)
        try:
            network = MLP(dim=every.shape[1], w=WIDTH, time_varying=True)
            optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
            for _ in range(max(1, n_batches // n_intervals)):
                inputs, velocities = (torch.cat(parts) for parts in zip(*map(batch, range(n_intervals)), strict=True))
                optimizer.zero_grad()
                torch.mean((network(inputs) - velocities) ** 2).backward()
                optimizer.step()
        finally:
            np.random.set_state(before)

    def field(x: Any, t: float) -> Any:
        return network(torch.cat([x, torch.full((len(x), 1), t)], dim=1))

    def move(x: Array, start: float, stop: float) -> Array:
        z = torch.as_tensor((x - centre) / unit, dtype=torch.float32)
        t, h = (start - origin) / gap, (stop - start) / gap / STEPS
        with torch.no_grad():
            for _ in range(STEPS):
                z, t = _runge_kutta(field, z, t, h), t + h
        return np.asarray(z.numpy(), np.float64) * unit + centre

    return move


def _runge_kutta(field: Callable[[Any, float], Any], z: Any, t: float, h: float) -> Any:
    """One step of the classical method."""
    a = field(z, t)
    b = field(z + h / 2 * a, t + h / 2)
    c = field(z + h / 2 * b, t + h / 2)
    return z + h / 6 * (a + 2 * b + 2 * c + field(z + h * c, t + h))
