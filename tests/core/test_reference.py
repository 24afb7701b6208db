"""Everything an energy says, against an implementation in plain numpy and float64 that shares no code with it.

Values, gradients and Hessians of the potential, the force of the interaction, the score, the velocity and the loss, in
the user's units, of a network and of a linear energy with all terms; and the conditions of optimality of the proximal
step at what it gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from scjko.core.condition import conditions
from scjko.core.energy.density import Mixture
from scjko.core.energy.energies import Energy
from scjko.core.energy.features import linear_potential
from scjko.core.energy.interactions import population
from scjko.core.energy.models import NeuralPotential
from scjko.core.fitting.fit import _explained
from scjko.core.motion.proximal import TOLERANCE
from scjko.core.timeline import Intervals
from scjko.core.transport.couplings import couple

TIMES = np.array([0.0, 0.5, 2.0])


@dataclass
class Reference:
    """An energy with the numbers of another, evaluated point by point."""

    energy: Any
    neural: bool

    def labels(self, k, end):
        e = self.energy
        if e.mixing == "constant":
            return np.ones(1)
        middle = (TIMES[k] + TIMES[k + 1]) / 2
        label = 2 * (middle - TIMES[0]) / (TIMES[-1] - TIMES[0]) - 1
        if self.neural:
            return np.array([label, 2 * end - 1.0])
        both = np.zeros((len(TIMES) - 1, 2))
        both[k] = 1 - end, end
        return both.ravel()

    def value_and_slope(self, term, z, c):
        """By hand: layer by layer and back, or feature by feature."""
        weights = self.energy.weights[term]
        if self.neural:
            return network(weights, z, c)
        model = self.energy.model if term == "potential" else self.energy.interaction_model
        return features(weights, model.exponents, z, c)

    def kernel(self, z):
        """U(z) and ∇U(z) in the units of the fit, as they were fitted."""
        return self.value_and_slope("interaction", z, np.ones(1))

    def felt(self, z, snapshot):
        """∫U(z − z')dμ(z') and its slope, in the units of the fit."""
        among = self.energy.populations[snapshot]
        parts = [self.kernel(z - other.astype(np.float64)) for other in among.points]
        mass = among.weight.astype(np.float64)
        return sum(w * v for w, (v, _) in zip(mass, parts, strict=True)), sum(
            w * s for w, (_, s) in zip(mass, parts, strict=True)
        )

    def score(self, z, snapshot):
        """∇log ρ by the densities themselves, not by their logarithms."""
        mixture = self.energy.mixtures[snapshot]
        density, slope = 0.0, np.zeros(len(z))
        for log_weight, mean, precision in zip(mixture.log_weights, mixture.means, mixture.precisions, strict=True):
            one = np.exp(log_weight - (z - mean) @ precision @ (z - mean) / 2) * np.sqrt(np.linalg.det(precision))
            density, slope = density + one, slope - one * precision @ (z - mean)
        return slope / density

    def potential(self, x, k, end):
        e, z = self.energy, self.inner(x)
        push = self.kernel(np.zeros(len(z)))[1] * e.speed
        value = self.value_and_slope("potential", z, self.labels(k, end))[0] * e.length * e.speed
        return value + (x - e.center) @ push + (1 - end) * e.offsets[k, 0] + end * e.offsets[k, 1]

    def gradient(self, x, k, end):
        e, z = self.energy, self.inner(x)
        push = self.kernel(np.zeros(len(z)))[1]
        return e.speed * (self.value_and_slope("potential", z, self.labels(k, end))[1] + push)

    def slope(self, x, k, end):
        """∇J(x) = ∇V + ∫∇U dμ + β∇log ρ in the user's units."""
        e, z, snapshot = self.energy, self.inner(x), k + end
        beta = float(e.weights["internal"]["beta"])
        alone = self.value_and_slope("potential", z, self.labels(k, end))[1]
        return e.speed * (alone + self.felt(z, snapshot)[1] + beta * self.score(z, snapshot))

    def inner(self, x):
        return (x - self.energy.center) / self.energy.length


def network(weights, z, c):
    hidden, slopes = np.concatenate([z, c]), []
    names = sorted(weights)
    for name in names[:-1]:
        kernel, bias = (np.asarray(weights[name][part], np.float64) for part in ("kernel", "bias"))
        before = hidden @ kernel + bias
        hidden, slopes = np.logaddexp(0, before), [*slopes, (kernel, 1 / (1 + np.exp(-before)))]
    last = np.asarray(weights[names[-1]]["kernel"], np.float64)[:, 0]
    value, back = hidden @ last + float(weights[names[-1]]["bias"][0]), last
    for kernel, sigmoid in slopes[::-1]:
        back = kernel @ (sigmoid * back)
    return value, back[: len(z)]


def features(weights, exponents, z, c):
    values, slopes = [], []
    for powers in exponents:
        values.append(np.prod([x**p for x, p in zip(z, powers, strict=True)]))
        slopes.append(
            [
                p * z[i] ** max(p - 1, 0) * np.prod([z[j] ** q for j, q in enumerate(powers) if j != i])
                for i, p in enumerate(powers)
            ]
        )
    width = float(weights["width"])
    for center in np.asarray(weights["centers"], np.float64):
        values.append(np.exp(-np.sum((z - center) ** 2) / width))
        slopes.append(-2 / width * values[-1] * (z - center))
    theta = c @ np.asarray(weights["theta"], np.float64)
    return theta @ np.array(values), theta @ np.array(slopes)


def random_network(rng, n_inputs):
    widths = (n_inputs, 8, 8, 1)
    return {
        f"Dense_{i}": {
            "kernel": (rng.normal(size=(m, n)) / np.sqrt(m)).astype(np.float32),
            "bias": rng.normal(size=n).astype(np.float32),
        }
        for i, (m, n) in enumerate(zip(widths[:-1], widths[1:], strict=True))
    }


def random_features(rng, n_mixed):
    model, weights = linear_potential(rng.normal(size=(100, 2)), degree=3, n_centers=4, random_state=0)
    theta = 0.03 * rng.normal(size=(n_mixed, len(model.exponents) + len(weights["centers"])))
    return model, {**weights, "theta": theta.astype(np.float32)}


def random_mixture(rng):
    factors = rng.normal(size=(2, 2, 2))
    precisions = factors @ factors.transpose(0, 2, 1) + np.eye(2)
    return Mixture(np.log([0.6, 0.4]), rng.normal(size=(2, 2)), precisions)


@pytest.fixture(scope="module", params=["neural", "linear"])
def case(request):
    """Snapshots far from zero and of a size other than one, their couplings, an energy of all terms, its reference."""
    rng = np.random.default_rng(0)
    points = [
        50 + 5 * (rng.normal(size=(n, 2)) * np.exp(-t / 3) + [t, 0]) for n, t in zip((10, 14, 12), TIMES, strict=True)
    ]
    center, length, neural = np.array([53.0, 50.0]), 5.0, request.param == "neural"
    inner = [(x - center) / length for x in points]
    if neural:
        model = kernel = NeuralPotential((8, 8))
        potential, interaction = random_network(rng, 2 + 2), random_network(rng, 2 + 1)
    else:
        (model, potential), (kernel, interaction) = random_features(rng, 4), random_features(rng, 1)
    energy = Energy(
        model=model,
        weights={"potential": potential, "interaction": interaction, "internal": {"beta": np.float32(0.3)}},
        intervals=Intervals(TIMES),
        scheme="both",
        mixing="label" if neural else "interval",
        center=center,
        length=length,
        speed=2.0,
        offsets=rng.normal(size=(2, 2)),
        interaction_model=kernel,
        populations=tuple(population(z, rng.uniform(size=len(z)), 0) for z in inner),
        mixtures=tuple(random_mixture(rng) for _ in inner),
    )
    return points, couple(points), energy, Reference(energy, neural)


def ends(points):
    for k in range(len(points) - 1):
        for end in (0, 1):
            yield k, end, points[k + end]


#: Float32 against float64, as a fraction of the largest value: sums of tens of terms that partly cancel.
ROUNDING = 3e-5


def close(found, expected, tolerance=ROUNDING):
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_potential_and_gradient(case):
    points, _, energy, reference = case
    for k, end, x in ends(points):
        place = x, np.full(len(x), k), np.full(len(x), float(end))
        close(energy.potential_at(*place), [reference.potential(p, k, end) for p in x], 1e-4)
        close(energy.gradient_at(*place), [reference.gradient(p, k, end) for p in x])


def test_gradient_and_hessian_are_derivatives(case):
    """Central differences of the float64 potential and gradient."""
    points, _, energy, reference = case
    x, h = points[1], 1e-3
    steps = h * np.eye(2)
    slope = [
        [(reference.potential(p + s, 1, 0) - reference.potential(p - s, 1, 0)) / (2 * h) for s in steps] for p in x
    ]
    close(energy.gradient(x, TIMES[1]), slope)
    curvature = [
        [(reference.gradient(p + s, 1, 0) - reference.gradient(p - s, 1, 0)) / (2 * h) for s in steps] for p in x
    ]
    close(energy.hessian(x, TIMES[1]), curvature, 1e-4)


def test_interaction(case, rng):
    _, _, energy, reference = case
    z = rng.normal(size=(20, 2)) * 5
    zero, push = reference.kernel(np.zeros(2))
    found = [reference.kernel(away / energy.length) for away in z]
    close(energy.interaction_gradient(z), [energy.speed * (slope - push) for _, slope in found])
    unit = energy.speed * energy.length
    close(
        energy.interaction(z),
        [unit * (v - zero - push @ a / energy.length) for (v, _), a in zip(found, z, strict=True)],
    )


def test_velocity_of_all_terms(case):
    points, _, energy, reference = case
    for k, end, x in ends(points):
        place = x, np.full(len(x), k), np.full(len(x), float(end))
        close(energy.velocity_at(*place), [-reference.slope(p, k, end) for p in x])


def test_the_loss_is_that_of_all_pairs(case):
    """Σ_k ∫‖Δ(∇J(z) + v)‖² dγ pair by pair, less what no energy can change, over the same of an energy of nothing."""
    points, couplings, energy, reference = case
    left = total = 0.0
    for k, end, z in ends(points):
        plan, gap = couplings[k], TIMES[k + 1] - TIMES[k]
        pairs = points[k + 1][plan.target] - points[k][plan.source]
        here = plan.target if end else plan.source
        slope = np.array([reference.slope(p, k, end) for p in z])
        mean = np.array([np.average(pairs[here == i], axis=0, weights=plan.weight[here == i]) for i in range(len(z))])
        spread = plan.weight @ np.sum((pairs - mean[here]) ** 2, axis=1)
        left += plan.weight @ np.sum((gap * slope[here] + pairs) ** 2, axis=1) - spread
        total += plan.weight @ np.sum(pairs**2, axis=1) - spread
    rows = conditions(points, couplings, np.diff(TIMES), "both")
    assert _explained(energy, rows)[1] == pytest.approx(left / total, rel=1e-4)


def test_a_proximal_step_ends_where_its_conditions_of_optimality_hold(case):
    """At w: the slope of Δ(V + ∫U dμ)(w) + ½‖w − z‖² is zero, its curvature positive, and it is below its start."""
    points, _, energy, reference = case
    still = replace(energy, mixtures=())  # the step alone, without the noise that follows it
    moved = still.move(points[0], *TIMES[:2], scheme="implicit")
    assert moved.converged.mean() > 0.9
    rate = (TIMES[1] - TIMES[0]) * energy.speed / energy.length
    labels = reference.labels(0, 1)

    def value_and_slope(w, z):
        (alone, down), (among, felt) = reference.value_and_slope("potential", w, labels), reference.felt(w, 1)
        return rate * (alone + among) + np.sum((w - z) ** 2) / 2, rate * (down + felt) + w - z

    h = 1e-4 * np.eye(2)
    for x, y in zip(points[0][moved.converged], moved.positions[moved.converged], strict=True):
        z, w = reference.inner(x), reference.inner(y)
        value, slope = value_and_slope(w, z)
        # Up to what float32 makes of the slope that the solver saw.
        assert np.linalg.norm(slope) < 2 * TOLERANCE
        assert value <= value_and_slope(z, z)[0] + 1e-6
        curvature = np.array([(value_and_slope(w + e, z)[1] - value_and_slope(w - e, z)[1]) / 2e-4 for e in h])
        assert np.linalg.eigvalsh((curvature + curvature.T) / 2).min() > 0
