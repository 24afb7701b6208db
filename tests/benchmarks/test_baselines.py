"""The rivals learn what can be learned, and say so when they cannot."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from scjko.benchmarks.baselines import RIVALS, Rival, fit_rival, rivals

STEEPNESS, TAU = 2.0, 0.1
# Small networks, and fewer but larger updates than the paper's, so that a fit takes seconds.
QUICK = {"layers": (32, 32), "epochs": 25, "learning_rate": 6e-3, "n_inner": 50, "inner_learning_rate": 3e-2}
TINY = {"layers": (8,), "epochs": 2, "n_inner": 15}


@pytest.fixture(autouse=True)
def _ott(mixed_ranks):
    pytest.importorskip("diffrax", reason="the rivals need ott-jax[neural]")


def down_a_bowl(n_cells=60, n_snapshots=3):
    """Cells that fall by exact JKO steps in V(x) = ½ a ‖x‖², x ↦ x / (1 + aτ), each snapshot in an order of its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_cells, 2)) + [0.5, 0.0]
    points = [x / (1 + STEEPNESS * TAU) ** k for k in range(n_snapshots)]
    return [rng.permutation(p) for p in points], TAU * np.arange(n_snapshots)


# The gap is a regulariser of the same network, and takes longest.
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.nightly] * ("gap" in name)) for name in RIVALS])
def test_the_drift_of_a_quadratic_potential_is_recovered(name):
    points, times = down_a_bowl()
    fitted = fit_rival(points, times, replace(rivals[name], **QUICK))
    assert fitted.losses[-1] < 0.1 * fitted.losses[0]

    # Where cells arrive, because only there is the energy of a JKO step felt. It is felt through a map of few updates,
    # which follows its slope at large (right to 3 %) and not its every bend: over three seeds the errors were 16 to
    # 25 % point by point, and those of the steps below 2 to 11 %.
    arrivals = np.concatenate(points[1:])
    slope, truth = fitted.gradient(arrivals), STEEPNESS * arrivals
    assert np.sum(slope * truth) / np.linalg.norm(slope) / np.linalg.norm(truth) > 0.95
    assert np.linalg.norm(slope - truth) < 0.35 * np.linalg.norm(truth)

    # More cells than are in a batch, given back in their order.
    x = np.concatenate([points[0], points[0][:30]])
    moved, expected = fitted.step(x, 0.0, TAU), x / (1 + STEEPNESS * TAU)
    assert np.linalg.norm(moved - expected) < 0.2 * np.linalg.norm(x - expected)


def test_units_do_not_matter():
    points, times = down_a_bowl()
    rival = replace(rivals["jkonet_vanilla"], **TINY)
    plain, scaled = (fit_rival([u * p + v for p in points], w * times, rival) for u, v, w in [(1, 0, 1), (1000, 7, 24)])
    np.testing.assert_allclose(scaled.losses, plain.losses, rtol=1e-3)
    slope = plain.gradient(points[0])
    np.testing.assert_allclose(scaled.gradient(1000 * points[0] + 7), slope * 1000 / 24, atol=1e-3 * 1000 / 24)


def test_the_same_seed_gives_the_same_energy_and_another_another():
    (points, times), rival = down_a_bowl(), replace(rivals["jkonet_vanilla"], **TINY)
    progress: list[float] = []
    first = fit_rival(points, times, rival, on_progress=progress.append)
    second, other = (fit_rival(points, times, replace(rival, random_state=seed)) for seed in (0, 1))
    assert sum(progress) == pytest.approx(1)
    assert first.losses.shape == first.seconds_per_epoch.shape == (2,)
    np.testing.assert_array_equal(first.losses, second.losses)
    np.testing.assert_array_equal(first.gradient(points[0]), second.gradient(points[0]))
    np.testing.assert_array_equal(first.step(points[0], 0, TAU), second.step(points[0], 0, TAU))
    assert np.abs(first.gradient(points[0]) - other.gradient(points[0])).max() > 1e-3


def test_snapshots_of_unequal_size_and_spacing_can_be_fitted():
    points, _ = down_a_bowl()
    points = [points[0], points[1][:30], points[2][:50]]
    fitted = fit_rival(points, [0.0, 0.1, 0.4], replace(rivals["jkonet_vanilla"], **TINY))
    assert np.isfinite(fitted.losses).all()
    assert fitted.step(points[0][:7], 0.0, 0.1).shape == (7, 2)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [("learning_rate", 1e30, "not finite"), ("inner_learning_rate", 10.0, "out of the data")],
)
def test_a_fit_that_diverges_says_which_and_why(setting, value, words):
    points, times = down_a_bowl()
    rival = replace(rivals["jkonet_vanilla"], **{**TINY, setting: value})
    with pytest.raises(FloatingPointError, match=f"jkonet_vanilla diverged: .* {words} ") as raised:
        fit_rival(points, times, rival)
    assert f"{setting} (now {value:g})" in str(raised.value)


@pytest.mark.parametrize("missing", ["diffrax", "ott.neural.networks.icnn"])
def test_missing_networks_are_named_with_the_remedy(monkeypatch, missing):
    for name in [name for name in sys.modules if name == "ott.neural" or name.startswith("ott.neural.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"{missing} is missing.*pip install 'scjko\[baselines\]'"):
        fit_rival(*down_a_bowl(), rivals["jkonet"])


def test_settings_and_data_are_checked():
    points, times = down_a_bowl()
    with pytest.raises(ValueError, match="map='spline'"):
        Rival("mine", map="spline")
    with pytest.raises(ValueError, match="n_inner=0"):
        Rival("mine", n_inner=0)
    with pytest.raises(ValueError, match="monge_gap=-1"):
        Rival("mine", monge_gap=-1)
    for broken, when, words in [
        (points[:1], times[:1], "two snapshots"),
        (points, times[:2], "a time for each"),
        (points, times[::-1], "increasing"),
        ([points[0], points[1][:, :1]], times[:2], "one dimension"),
        ([points[0], np.full((5, 2), np.nan)], times[:2], "not finite"),
    ]:
        with pytest.raises(ValueError, match=words):
            fit_rival(broken, when, rivals["jkonet"])
