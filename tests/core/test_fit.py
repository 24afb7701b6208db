"""Fitting on cases whose answer is known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scjko.core import descent, linear, schedule
from scjko.core.energy.features import linear_potential
from scjko.core.fitting.descent import Training
from scjko.core.fitting.fit import ClosedForm, fit, normal_equations
from scjko.core.fitting.schedule import n_batches
from scjko.core.judging.metrics import emd
from scjko.core.timeline import Intervals
from scjko.core.transport.couplings import couple

CURVATURE = 0.4


def contracting(rng, scheme, n=300, times=(0.0, 0.5, 1.5)):
    """Snapshots that roll down V = ½ a‖x‖² by the steps of ``scheme``, shuffled."""
    x = rng.normal(size=(n, 2)) * [2, 1]
    points = [x]
    for gap in np.diff(times):
        x = x * (1 - CURVATURE * gap) if scheme == "explicit" else x / (1 + CURVATURE * gap)
        points.append(rng.permutation(x))
    return points, Intervals(np.array(times))


@pytest.mark.parametrize("scheme", ["explicit", "implicit"])
def test_a_quadratic_potential_is_recovered(rng, scheme):
    points, intervals = contracting(rng, scheme)
    fitted = fit(points, couple(points), intervals, scheme=scheme, mixing="constant", settings=Training(epochs=300))
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
    points, intervals = contracting(rng, "explicit")
    terms = ("potential", "interaction", "internal")
    settings = ClosedForm(degree=2, n_centers=4)
    fitted = fit(points, couple(points), intervals, terms=terms, mixing="interval", settings=settings)
    features = linear_potential(points[0], degree=2, n_centers=4, random_state=0)
    whole = normal_equations(fitted.problem, features, features)
    monkeypatch.setattr(linear, "BLOCK_ENTRIES", 1000)
    blocks = normal_equations(fitted.problem, features, features)
    np.testing.assert_allclose(blocks.gram, whole.gram, rtol=1e-9, atol=1e-12 * abs(whole.gram).max())
    np.testing.assert_allclose(blocks.moment, whole.moment, rtol=1e-9, atol=1e-12 * abs(whole.moment).max())
    assert blocks.square == pytest.approx(whole.square) and blocks.n_rows == whole.n_rows


def test_potentials_of_different_intervals_are_comparable(rng):
    """The mean potential falls over time as it does on the landscape itself, although every interval has its own."""
    points, intervals = contracting(rng, "implicit", times=(0.0, 0.5, 1.5, 2.5))
    fitted = fit(points, couple(points), intervals, scheme="both", mixing="label", settings=Training(epochs=200))
    means = [fitted.energy.potential(p, t).mean() for p, t in zip(points, intervals.times, strict=True)]
    true = [CURVATURE / 2 * np.sum(p**2, axis=1).mean() for p in points]
    assert means[0] == pytest.approx(0, abs=1e-6)
    # Steps this long are first-order accurate only: a quarter of the whole fall.
    np.testing.assert_allclose(np.array(means) - means[0], np.array(true) - true[0], atol=0.25 * (true[0] - true[-1]))


def test_snapshots_meet_at_the_same_mean_potential(rng):
    points, intervals = contracting(rng, "implicit", times=(0.0, 0.5, 1.5, 2.5))
    for scheme in ("both", "explicit"):
        fitted = fit(points, couple(points), intervals, scheme=scheme, mixing="label", settings=Training(epochs=5))
        for k in (1, 2):
            n = len(points[k])
            met = [
                fitted.energy.potential_at(points[k], np.full(n, interval), np.full(n, end)).mean()
                for interval, end in ((k - 1, 1.0), (k, 0.0))
            ]
            assert met[0] == pytest.approx(met[1], abs=1e-5)


def test_small_data_get_as_many_updates_as_large():
    for n_rows in (10, 330, 3000, 20000):
        for kind, updates in {
            ("both", "label"): descent.UPDATES,
            ("implicit", "constant"): descent.UPDATES,
            ("implicit", "label"): descent.UPDATES_IMPLICIT_VARYING,
        }.items():
            training = Training().resolved(n_rows, *kind)
            assert updates <= training.epochs * n_batches(n_rows, training.batch_size) < 1.3 * updates + 80
    assert Training(epochs=7).resolved(1000, "both", "label").epochs == 7


def test_cells_that_do_not_move_are_explained(rng):
    x = rng.normal(size=(100, 2))
    points = [x, x + 1e-15, x]
    fitted = fit(points, couple(points), Intervals(np.arange(3.0), "interval"), settings=Training(epochs=50))
    assert (fitted.explained > 0.9).all()


def test_padding_is_at_most_an_eighth():
    for n_rows in range(1, 40000, 137):
        batches = n_batches(n_rows, 250)
        exact = -(-n_rows // 250)
        assert exact <= batches <= max(exact + 1, 1.125 * exact)


def test_a_second_fit_of_the_same_shape_is_not_compiled_again(rng):
    points, intervals = contracting(rng, "explicit")
    again, _ = contracting(rng, "explicit")
    options = {"scheme": "both", "mixing": "label"}
    couplings = couple(points)
    fit(points, couplings, intervals, settings=Training(epochs=10), **options)
    compiled = descent._run_piece._cache_size()
    fit(again, couple(again), intervals, settings=Training(epochs=10, learning_rate=1e-3), **options)
    assert descent._run_piece._cache_size() == compiled


def test_fits_of_different_sizes_share_few_programs(rng):
    """What users wait for on small data is compilation, and so do tests of many shapes."""
    compiled = descent._run_piece._cache_size()
    for n, epochs in ((5, 2), (12, 3), (30, 4), (60, 5), (90, 10), (150, 6)):
        points = [rng.normal(size=(n, 4)), rng.normal(size=(n, 4))]
        fit(points, couple(points), Intervals(np.arange(2.0)), settings=Training(epochs=epochs, layers=(4,)))
    assert descent._run_piece._cache_size() - compiled == 3  # for 32 rows and fewer, for 128, and for all others


def test_filling_up_changes_nothing(rng, monkeypatch):
    points = [rng.normal(size=(20, 3)) + k for k in range(3)]

    def fitted() -> Any:
        return fit(points, couple(points), Intervals(np.arange(3.0)), settings=Training(epochs=40, layers=(4,)))

    filled = fitted()
    for name, sizes in (("ROWS", ()), ("WIDTHS", ()), ("PIECE", 1)):
        monkeypatch.setattr(schedule, name, sizes)
    monkeypatch.setattr(descent, "ROWS", ())
    bare = fitted()
    np.testing.assert_allclose(bare.losses, filled.losses, rtol=1e-4)
    moved = [fit.energy.step(points[0], 0, 1) for fit in (filled, bare)]
    np.testing.assert_allclose(*moved, atol=1e-4)  # sums over other numbers of rows may round otherwise


def test_a_diverging_fit_is_an_error_that_names_the_setting(rng):
    points, intervals = contracting(rng, "explicit")
    with pytest.raises(FloatingPointError, match="learning_rate"):
        fit(
            points,
            couple(points),
            intervals,
            scheme="explicit",
            mixing="constant",
            settings=Training(epochs=20, learning_rate=1e30),
        )


def test_progress_adds_up_to_one(rng):
    points, intervals = contracting(rng, "explicit")
    parts: list[float] = []
    fit(
        points,
        couple(points),
        intervals,
        scheme="explicit",
        mixing="constant",
        settings=Training(epochs=21),
        on_progress=parts.append,
    )
    assert sum(parts) == pytest.approx(1)
    assert len(parts) > 1


def test_cells_that_do_not_move_give_a_flat_potential(rng):
    x = rng.normal(size=(50, 2))
    points, intervals = [x, x[::-1]], Intervals(np.array([0.0, 1.0]))
    fitted = fit(points, couple(points), intervals, scheme="both", mixing="label", settings=Training(epochs=200))
    assert np.abs(fitted.energy.gradient(x, 0)).max() < 0.02
