"""Agreement with clones, by numpy's definitions, and the verdict on it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from scjko.core.judging.clones import agreement, auroc, hits, judge_clones, parts_of_correlation, standard_error


def some(rng, n=300, strength=2.0):
    """Clonal shares of three fates, predictions that know of them, and clones of three cells."""
    truth = rng.dirichlet([0.3, 0.3, 0.3], size=n)
    predicted = np.exp(strength * truth + 0.3 * rng.normal(size=(n, 3)))
    return predicted / predicted.sum(axis=1, keepdims=True), truth, np.arange(n) // 3


def test_agreement_is_what_its_names_say(rng):
    predicted, truth, _ = some(rng)
    found = agreement(predicted, truth)
    np.testing.assert_allclose(found.top1, truth[np.arange(300), predicted.argmax(axis=1)].mean())
    areas = [roc_auc_score(truth[:, j] > 0.5, predicted[:, j]) for j in range(3)]
    np.testing.assert_allclose(found.auroc, np.mean(areas))
    two = agreement(predicted[:, :2] / predicted[:, :2].sum(axis=1, keepdims=True), _pair(truth))
    p = predicted[:, 0] / predicted[:, :2].sum(axis=1)
    np.testing.assert_allclose(two.correlation, np.corrcoef(p, _pair(truth)[:, 0])[0, 1])
    assert agreement(truth, truth).calibration == 0


def _pair(truth):
    return truth[:, :2] / truth[:, :2].sum(axis=1, keepdims=True)


def test_calibration_sees_overconfidence():
    truth = np.tile([[1.0, 0.0], [0.0, 1.0]], (50, 1))
    sure = np.tile([0.95, 0.05], (100, 1))
    np.testing.assert_allclose(agreement(sure, truth).calibration, 0.45)
    assert agreement(np.full((100, 2), 0.5), truth).calibration < 1e-12


def test_equally_probable_fates_count_as_their_mean_and_one_class_has_no_area():
    truth = np.array([[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(hits(np.full((1, 3), 1 / 3), truth), 1 / 3)
    assert np.isnan(auroc(np.array([0.2, 0.4]), np.array([True, True])))


def test_cells_of_one_clone_are_one_observation(rng):
    values = rng.normal(size=200)
    apart = standard_error(values, np.arange(200))
    np.testing.assert_allclose(apart, np.std(values, ddof=1) / np.sqrt(200))
    np.testing.assert_allclose(standard_error(np.repeat(values, 3), np.repeat(np.arange(200), 3)), apart)
    assert np.isinf(standard_error(values[:5], np.arange(5)))


def test_the_error_of_a_correlation_is_its_spread_over_samples_of_clones():
    """Of 300 samples of 100 clones; their own number leaves 4 % of chance in the spread."""
    rng, found, errors = np.random.default_rng(0), [], []
    for _ in range(300):
        truth = np.repeat(rng.dirichlet([0.3, 0.3, 0.3], size=100), 3, axis=0)
        predicted = np.exp(truth + 0.8 * np.repeat(rng.normal(size=(100, 3)), 3, axis=0))
        predicted /= predicted.sum(axis=1, keepdims=True)
        parts = parts_of_correlation(predicted, truth)
        np.testing.assert_allclose(parts.mean(), agreement(predicted, truth).correlation)
        found.append(parts.mean())
        errors.append(standard_error(parts, np.arange(300) // 3))
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.15)
    assert np.isnan(parts_of_correlation(np.full((4, 2), 0.5), np.eye(4)[:, :2])).all()


def test_good_fates_are_better_than_every_baseline(rng):
    predicted, truth, clone = some(rng)
    worse = {"persistence": rng.permutation(predicted), "frequency": np.tile(truth.mean(axis=0), (300, 1))}
    verdict = judge_clones({"scjko": predicted, **worse}, truth, clone)
    assert verdict.better and "better than every baseline" in verdict.text
    assert "± " in verdict.text and "of 100 clones" in verdict.text
    r, other = (agreement(each, truth).correlation for each in (predicted, worse["persistence"]))
    assert f"sisters is {r:.3f}, higher than that of not moving by {r - other:.3f} ± " in verdict.text


@pytest.mark.parametrize("seed", range(5))
def test_with_shuffled_clones_nothing_is_better(seed):
    rng = np.random.default_rng(seed)
    predicted, truth, clone = some(rng)
    other = predicted + 0.1 * rng.random((300, 3))
    base = np.tile(truth.mean(axis=0), (300, 1))
    shuffled = rng.permutation(truth)
    verdict = judge_clones({"scjko": predicted, "persistence": other, "frequency": base}, shuffled, clone)
    assert not verdict.better
    assert "no better than" in verdict.text and "not moving" in verdict.text


def test_few_clones_are_said(rng):
    predicted, truth, clone = some(rng, n=12)
    verdict = judge_clones({"scjko": predicted, "persistence": predicted[::-1]}, truth, clone)
    assert not verdict.better and "4 clones are too few" in verdict.text
