"""Fitting on cases whose answer is known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scjko.core.energy.features import linear_potential
from scjko.core.fitting import closed_form, descent, schedule
from scjko.core.fitting.descent import resolved
from scjko.core.fitting.fit import fit
from scjko.core.fitting.linear import Features, normal_equations
from scjko.core.fitting.parametrizations import Linear, Neural
from scjko.core.fitting.problem import Course, Formulation
from scjko.core.fitting.schedule import n_batches
from scjko.core.judging.metrics import emd
from scjko.core.schemes import BOTH, IMPLICIT, MIDPOINT
from scjko.core.timeline import Timeline
from scjko.core.transport import couple
from scjko.core.variation import Labelled, Separate, Static

CURVATURE = 0.4


def contracting(rng, scheme, n=300, times=(0.0, 0.5, 1.5)):
    """Snapshots that roll down V = ½ a‖x‖² by the steps of ``scheme``, shuffled."""
    x = rng.normal(size=(n, 2)) * [2, 1]
    points = [x]
    for gap in np.diff(times):
        x = x * (1 - CURVATURE * gap) if scheme == "explicit" else x / (1 + CURVATURE * gap)
        points.append(rng.permutation(x))
    return points, Timeline(np.array(times))


@pytest.mark.parametrize("scheme", ["explicit", "implicit"])
def test_a_quadratic_potential_is_recovered(rng, scheme):
    points, timeline = contracting(rng, scheme)
    fitted = fit(
        points, couple(points), timeline, scheme=scheme, time_varying=False, parametrization=Neural(epochs=300)
    )
    x = points[0]
    inside = np.linalg.norm(x, axis=1) < 2.5
    slope = fitted.energy.gradient(x, 0)
    # Forces of size up to one, by a network after 300 epochs.
    assert np.abs(slope - CURVATURE * x)[inside].max() < 0.03
    value = fitted.energy.potential(x, 0)
    expected = CURVATURE / 2 * np.sum(x**2, axis=1)
    assert np.abs((value - value.mean()) - (expected - expected.mean()))[inside].max() < 0.05
    assert (fitted.explained > 0.99).all()
    assert fitted.losses[-1] < 0.01 < fitted.losses[0]
    assert emd(fitted.energy.step(x, 0.0, 0.5), points[1]) < 0.01


def test_normal_equations_are_the_same_in_blocks(rng, monkeypatch):
    """Memory does not grow with the number of cells, and the sums are what they were."""
    points, timeline = contracting(rng, "explicit", n=100)
    course = Course(points, [np.full(100, 0.01)] * 3, couple(points), timeline)
    formulation = Formulation.of(course, BOTH, Separate())
    felt = formulation.populations(course, 0), formulation.densities(course, 10, 0)
    problem = formulation.problem(formulation.conditions(course), *felt)
    potential = linear_potential(points[0], degree=2, n_centers=4, random_state=0)
    features = Features(*potential, *potential)
    whole = normal_equations(problem, features)
    monkeypatch.setattr(closed_form, "BLOCK_ENTRIES", 1000)
    blocks = normal_equations(problem, features)
    np.testing.assert_allclose(blocks.gram, whole.gram, rtol=1e-9, atol=1e-12 * abs(whole.gram).max())
    np.testing.assert_allclose(blocks.moment, whole.moment, rtol=1e-9, atol=1e-12 * abs(whole.moment).max())
    assert blocks.square == pytest.approx(whole.square) and blocks.n_rows == whole.n_rows


def test_potentials_of_different_intervals_are_comparable(rng):
    """The mean potential falls over time as it does on the landscape itself, although every interval has its own."""
    points, timeline = contracting(rng, "implicit", times=(0.0, 0.5, 1.5, 2.5))
    fitted = fit(points, couple(points), timeline, scheme="both", parametrization=Neural(epochs=200))
    means = [fitted.energy.potential(p, t).mean() for p, t in zip(points, timeline.times, strict=True)]
    true = [CURVATURE / 2 * np.sum(p**2, axis=1).mean() for p in points]
    assert means[0] == pytest.approx(0, abs=1e-6)
    # Steps this long are first-order accurate only: a quarter of the whole fall.
    np.testing.assert_allclose(np.array(means) - means[0], np.array(true) - true[0], atol=0.25 * (true[0] - true[-1]))


def test_snapshots_meet_at_the_same_mean_potential(rng):
    points, timeline = contracting(rng, "implicit", times=(0.0, 0.5, 1.5, 2.5))
    for scheme in ("both", "explicit"):
        fitted = fit(points, couple(points), timeline, scheme=scheme, parametrization=Neural(epochs=5))
        for k in (1, 2):
            n = len(points[k])
            met = [
                fitted.energy.potential_at(points[k], np.full(n, interval), np.full(n, end)).mean()
                for interval, end in ((k - 1, 1.0), (k, 0.0))
            ]
            assert met[0] == pytest.approx(met[1], abs=1e-5)


def test_small_data_get_as_many_updates_as_large():
    for n_rows in (10, 330, 3000, 20000):
        for scheme, variation, updates in (
            (BOTH, Labelled(), descent.UPDATES),
            (MIDPOINT, Static(), descent.UPDATES),
            (IMPLICIT, Static(), descent.UPDATES),
            (IMPLICIT, Labelled(), descent.UPDATES_INVERTED),
        ):
            training = resolved(Neural(), n_rows, scheme, variation)
            assert updates <= training.epochs * n_batches(n_rows, training.batch_size) < 1.3 * updates + 80
    assert resolved(Neural(epochs=7), 1000, BOTH, Labelled()).epochs == 7


def test_cells_that_do_not_move_are_explained(rng):
    x = rng.normal(size=(100, 2))
    points = [x, x + 1e-15, x]
    fitted = fit(points, couple(points), Timeline(np.arange(3.0)), parametrization=Neural(epochs=50))
    assert (fitted.explained > 0.9).all()


def test_padding_is_at_most_an_eighth():
    for n_rows in range(1, 40000, 137):
        batches = n_batches(n_rows, 250)
        exact = -(-n_rows // 250)
        assert exact <= batches <= max(exact + 1, 1.125 * exact)


def test_a_second_fit_of_the_same_shape_is_not_compiled_again(rng):
    points, timeline = contracting(rng, "explicit")
    again, _ = contracting(rng, "explicit")
    options = {"scheme": "both"}
    couplings = couple(points)
    fit(points, couplings, timeline, parametrization=Neural(epochs=10), **options)
    compiled = descent._run_piece._cache_size()
    fit(again, couple(again), timeline, parametrization=Neural(epochs=10, learning_rate=1e-3), **options)
    assert descent._run_piece._cache_size() == compiled


def test_fits_of_different_sizes_share_few_programs(rng):
    """What users wait for on small data is compilation, and so do tests of many shapes."""
    compiled = descent._run_piece._cache_size()
    for n, epochs in ((5, 2), (12, 3), (30, 4), (60, 5), (90, 10), (150, 6)):
        points = [rng.normal(size=(n, 4)), rng.normal(size=(n, 4))]
        fit(points, couple(points), Timeline(np.arange(2.0)), parametrization=Neural(epochs=epochs, layers=(4,)))
    assert descent._run_piece._cache_size() - compiled == 3  # for 32 rows and fewer, for 128, and for all others


def test_filling_up_changes_nothing(rng, monkeypatch):
    points = [rng.normal(size=(20, 3)) + k for k in range(3)]

    def fitted() -> Any:
        return fit(points, couple(points), Timeline(np.arange(3.0)), parametrization=Neural(epochs=40, layers=(4,)))

    filled = fitted()
    for name, sizes in (("ROWS", ()), ("WIDTHS", ()), ("PIECE", 1)):
        monkeypatch.setattr(schedule, name, sizes)
    monkeypatch.setattr(descent, "ROWS", ())
    bare = fitted()
    np.testing.assert_allclose(bare.losses, filled.losses, rtol=1e-4)
    moved = [fit.energy.step(points[0], 0, 1) for fit in (filled, bare)]
    np.testing.assert_allclose(*moved, atol=1e-4)  # sums over other numbers of rows may round otherwise


def test_a_diverging_fit_is_an_error_that_names_the_setting(rng):
    points, timeline = contracting(rng, "explicit")
    with pytest.raises(FloatingPointError, match="learning_rate"):
        fit(
            points,
            couple(points),
            timeline,
            scheme="explicit",
            time_varying=False,
            parametrization=Neural(epochs=20, learning_rate=1e30),
        )


def test_progress_adds_up_to_one(rng):
    points, timeline = contracting(rng, "explicit")
    parts: list[float] = []
    fit(
        points,
        couple(points),
        timeline,
        scheme="explicit",
        time_varying=False,
        parametrization=Neural(epochs=21),
        on_progress=parts.append,
    )
    assert sum(parts) == pytest.approx(1)
    assert len(parts) > 1


def test_cells_that_do_not_move_give_a_flat_potential(rng):
    x = rng.normal(size=(50, 2))
    points, timeline = [x, x[::-1]], Timeline(np.array([0.0, 1.0]))
    fitted = fit(points, couple(points), timeline, scheme="both", parametrization=Neural(epochs=200))
    assert np.abs(fitted.energy.gradient(x, 0)).max() < 0.02


def test_the_unit_of_time_scales_only_the_velocity(rng):
    """Days or hours: the same predictions, velocities 24 times smaller, potentials too."""
    points, timeline = contracting(rng, "explicit", n=100)
    couplings, x = couple(points), points[0]
    for parametrization, tolerance in ((Neural(epochs=30), 1e-2), (Linear(degree=2, n_centers=0), 1e-4)):
        days, hours = (
            fit(points, couplings, Timeline(unit * timeline.times), parametrization=parametrization).energy
            for unit in (1, 24)
        )
        # Rounding of the scaled inputs, amplified by training.
        np.testing.assert_allclose(hours.step(x, 0, 24), days.step(x, 0, 1), atol=tolerance)
        np.testing.assert_allclose(24 * hours.velocity(x, 12), days.velocity(x, 0.5), atol=tolerance)
        np.testing.assert_allclose(24 * hours.potential(x, 12), days.potential(x, 0.5), atol=tolerance)


SHIFTS = {"neural": Neural(epochs=100), "linear": Linear(degree=1, n_centers=0)}


@pytest.mark.parametrize("parametrization", SHIFTS.values(), ids=SHIFTS)
def test_intervals_of_very_unequal_length_are_distinguished(rng, parametrization):
    """Shifts of 2, −2, 2 over gaps of 0.1, 0.1, 23.8: velocities of 20, −20, 0.08, each to five per cent."""
    x, timeline = rng.normal(size=(150, 2)), Timeline(np.array([0.0, 0.1, 0.2, 24.0]))
    points = [rng.permutation(x + [shift, 0]) for shift in (0, 2, 0, 2)]
    fitted = fit(points, couple(points), timeline, parametrization=parametrization)
    for k, (shift, t0, t1) in enumerate(zip((2, -2, 2), timeline.times[:-1], timeline.times[1:], strict=True)):
        forward = fitted.energy.step(points[k], t0, t1) - points[k]
        back = fitted.energy.step(points[k + 1], t1, t0) - points[k + 1]
        np.testing.assert_allclose([forward.mean(axis=0), -back.mean(axis=0)], [[shift, 0]] * 2, atol=0.1)
        assert np.sqrt(np.mean((forward - [shift, 0]) ** 2)) < 0.1
    assert (fitted.explained > 0.99).all()


FLOWS = {"neural": Neural(epochs=150), "linear": Linear(), "quadratic": Linear(degree=2, n_centers=0)}


@pytest.mark.parametrize("parametrization", FLOWS.values(), ids=FLOWS)
def test_an_ornstein_uhlenbeck_flow_by_the_default_scheme_of_a_static_energy(rng, parametrization):
    """a = 1, Δ = 1: cells contract by e⁻¹ = 0.368 in an interval; averaging both ends would give 0.24."""
    x = rng.normal(size=(200, 2))
    points = [rng.permutation(x * np.exp(-t)) for t in (0, 1, 2)]
    energy = fit(
        points, couple(points), Timeline(np.arange(3.0)), parametrization=parametrization, time_varying=False
    ).energy
    y = energy.step(x, 0, 1)
    assert np.sum(x * y) / np.sum(x * x) == pytest.approx(np.exp(-1), abs=0.01)
    assert np.sqrt(np.mean((y - x * np.exp(-1)) ** 2)) < 0.01
    back = energy.step(x * np.exp(-1), 1, 0)
    assert np.sum(x * back) / np.sum(x * x) == pytest.approx(1, abs=0.01)


def test_far_cells_of_no_weight_do_not_widen_the_range_of_the_data(rng):
    points = [rng.normal(size=(50, 2)) for _ in range(2)]
    points[0][0] = 1e3
    weights = [np.append(0.0, np.full(49, 1 / 49)), np.full(50, 1 / 50)]
    shift = Linear(degree=1, n_centers=0)
    timeline = Timeline(np.arange(2.0))
    energy = fit(points, couple(points, weights), timeline, parametrization=shift, point_weights=weights).energy
    assert energy.reach < 6
    assert energy.reach == pytest.approx(
        max(np.linalg.norm(x[w > 0] - energy.units.center, axis=1).max() for x, w in zip(points, weights, strict=True))
    )
