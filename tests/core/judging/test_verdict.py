from __future__ import annotations

import numpy as np
import pytest

from scjko.core.judging.verdict import Errors, judge

TIMES = (3.0, 6.0, 12.0)


def _cells(rng, offsets, *, n_splits=5, noise=0.01, times=TIMES):
    """Errors of ``n_splits`` splits of every time: 1 + offset of the method (a number, or one a time) + noise."""
    split, time = np.repeat(np.arange(n_splits), len(times)), np.tile(times, n_splits)
    columns = [1 + np.tile(np.broadcast_to(offset, len(times)), n_splits) for offset in offsets.values()]
    common = rng.normal(size=(len(split), 1))  # how hard a split is, for every method
    values = np.stack(columns, axis=1) + 0.1 * common + noise * rng.normal(size=(len(split), len(offsets)))
    return Errors(tuple(offsets), values, split, time)


def _cells_verdict(errors):
    return judge(errors, what="held-out cells", part="split", test_share=0.4)


def test_a_clear_win_over_every_baseline_is_called_better(rng):
    errors = _cells(rng, {"scjko": 0.0, "persistence": 1.0, "ot_nearest": 0.3, "ot_neighbours": 0.2, "floor": -0.1})
    verdict = _cells_verdict(errors)
    assert verdict.better
    assert not verdict.worse
    assert verdict.rival == "ot_neighbours"
    assert verdict.gain == pytest.approx(0.2, abs=0.02)
    assert verdict.lost_times == ()
    assert verdict.text.startswith("The fitted energy predicts held-out cells better than every baseline: EMD ")
    means = dict(zip(errors.methods, errors.values.mean(axis=0), strict=True))
    rival = "the transport of five neighbours"
    assert f"{means['scjko']:.4g} against {means['ot_neighbours']:.4g} of {rival}" in verdict.text
    assert f"and {means['persistence']:.4g} without moving" in verdict.text
    by = f"lower than {rival} by {verdict.gain:.2g} ± {verdict.error:.2g} (standard error over 5 splits)"
    assert by in verdict.text
    assert verdict.text.endswith(f"Two samples of one population are {means['floor']:.4g} apart.")


def test_a_clear_loss_is_called_worse(rng):
    verdict = _cells_verdict(_cells(rng, {"scjko": 0.0, "persistence": 1.0, "kernel_ridge": -0.2}))
    assert verdict.worse
    assert not verdict.better
    assert verdict.lost_times == TIMES
    assert "predicts held-out cells worse than kernel ridge on the displacements:" in verdict.text
    assert f"higher than kernel ridge on the displacements by {-verdict.gain:.2g} ±" in verdict.text
    assert "Baselines win at 3 of 3 times: kernel ridge on the displacements at 3, 6, 12." in verdict.text
    assert "ot moving does" not in verdict.text


def test_of_many_baselines_the_best_are_named_and_the_others_counted(rng):
    names = ["kernel_ridge", "linear_map", "kantorovich", "ot_neighbours_best", "ot_neighbours", "ot_nearest"]
    for n, last in ((4, "the transport of the best number of neighbours"), (6, "3 other baselines")):
        offsets = {"scjko": 0.0, "persistence": 1.0, **{name: 0.1 * k - 1 for k, name in enumerate(names[:n])}}
        said = f"kernel ridge on the displacements, a linear map, the Kantorovich potential and {last}: EMD"
        assert f"predicts held-out cells worse than {said}" in _cells_verdict(_cells(rng, offsets)).text


def test_better_needs_every_baseline_to_be_beaten_beyond_its_own_uncertainty(rng):
    """The rival is beaten, but another baseline, worse on average, varies too much to be called beaten."""
    errors = _cells(rng, {"scjko": 0.0, "persistence": 1.0, "steady": 0.1, "shaky": 0.2})
    errors.values[:, 3] += np.repeat([2.0, -2.0, 1.0, -1.0, 0.0], 3)
    verdict = _cells_verdict(errors)
    assert verdict.rival == "steady"
    assert verdict.gain > 2 * verdict.error
    assert not verdict.better
    assert not verdict.worse
    assert "no difference between the fitted energy and shaky:" in verdict.text


@pytest.mark.parametrize("n_baselines", [1, 4, 7])
@pytest.mark.parametrize("protocol", ["cells", "times"])
def test_noise_is_rarely_called_a_difference(protocol, n_baselines):
    """On errors of equal methods. Of 1000 cases at most 8 % are called better and 9 % worse, ± 3 in 100 cases."""
    better = worse = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        offsets = {"scjko": 0.0, **{f"baseline {k}": 0.0 for k in range(n_baselines)}}
        if protocol == "cells":
            verdict = _cells_verdict(_cells(rng, offsets))
        else:
            one = _cells(rng, offsets, n_splits=1, times=(1.0, 2.0, 3.0, 4.0))
            folds = Errors(one.methods, one.values, np.arange(4), one.time)
            verdict = judge(folds, what="left-out time points", part="time point")
        better, worse = better + verdict.better, worse + verdict.worse
    assert better <= 10
    assert worse <= 15


def test_overlapping_splits_are_less_sure(rng):
    """The standard error by Nadeau and Bengio: s √(1/n + test/train)."""
    errors = _cells(rng, {"scjko": 0.0, "persistence": 0.5})
    gains = (errors.of("persistence") - errors.of("scjko")).reshape(5, 3).mean(axis=1)
    plain = judge(errors, what="held-out cells", part="split").error
    assert plain == pytest.approx(gains.std(ddof=1) / np.sqrt(5))
    assert _cells_verdict(errors).error == pytest.approx(gains.std(ddof=1) * np.sqrt(1 / 5 + 0.4 / 0.6))


def test_folds_over_times_and_single_splits_are_judged_over_time_points(rng):
    times = (1.0, 2.0, 3.0, 4.0)
    one = _cells(rng, {"scjko": 0.0, "ot_midpoint": 0.2}, n_splits=1, times=times)
    gains = one.of("ot_midpoint") - one.of("scjko")
    for split in (one.split, np.arange(4)):
        errors = Errors(one.methods, one.values, split, one.time)
        verdict = judge(errors, what="left-out time points", part="time point", test_share=0.4)
        assert verdict.error == pytest.approx(gains.std(ddof=1) / 2)
        assert verdict.better
        assert "standard error over 4 time points" in verdict.text


def test_one_split_of_two_times_cannot_be_judged(rng):
    errors = _cells(rng, {"scjko": 0.0, "persistence": 1.0, "ot_nearest": 0.5}, n_splits=1, times=(1.0, 2.0))
    verdict = _cells_verdict(errors)
    assert not verdict.better
    assert not verdict.worse
    assert verdict.error == float("inf")
    assert "cannot be determined" in verdict.text
    assert "±" not in verdict.text
    assert "Not moving" not in verdict.text


def test_the_sample_of_cells_judges_a_single_forecast():
    """One time point, forecast once: the standard error is that of the cells, if it is given."""
    methods, values = ("scjko", "persistence", "mean_shift", "floor"), np.array([[1.0, 1.5, 1.2, 0.5]])
    judged = {}
    for noise in (0.05, 0.3):
        table = np.array([[0.0, noise, noise, np.nan]])
        errors = Errors(methods, values, np.array([0]), np.array([9.0]), table)
        judged[noise] = judge(errors, what="the last time point", part="split")
    assert judged[0.05].better
    assert "± 0.05 (standard error from the sample of cells)" in judged[0.05].text
    assert not judged[0.3].better
    # Better on average, though not beyond doubt: nothing speaks for not moving.
    assert "Not moving" not in judged[0.3].text


def test_times_at_which_a_baseline_wins_are_named(rng):
    errors = _cells(rng, {"scjko": 0.0, "persistence": 1.0, "near": [0.5, 0.5, -0.1], "ridge": [0.5, 0.5, 0.5]})
    verdict = _cells_verdict(errors)
    assert verdict.better
    assert verdict.lost_times == (12.0,)
    assert "A baseline wins at time 12 (near)." in verdict.text
    errors = _cells(rng, {"scjko": 0.0, "near": [0.5, 0.5, -0.1], "ridge": [-0.1, 0.5, 0.5]})
    assert "Baselines win at 2 of 3 times: ridge at 3; near at 12." in _cells_verdict(errors).text


def test_not_moving_is_mentioned_where_it_does_as_well(rng):
    tie = _cells_verdict(_cells(rng, {"scjko": 0.0, "persistence": 0.0, "ot_nearest": 0.5}))
    assert "Not moving does as well or better." in tie.text
    loss = _cells_verdict(_cells(rng, {"scjko": 0.0, "persistence": -0.3, "ot_nearest": 0.5}))
    assert "Not moving does better." in loss.text
    assert " without moving" in loss.text


def test_rounding_is_no_difference():
    """A tie in every row but for the last digit, always with the same sign."""
    errors = Errors(("scjko", "persistence"), np.tile([1.0, 1 + 1e-15], (5, 1)), np.arange(5), np.zeros(5))
    verdict = _cells_verdict(errors)
    assert not verdict.better
    flipped = Errors(("persistence", "scjko"), errors.values, errors.split, errors.time)
    assert _cells_verdict(flipped).lost_times == ()


def test_a_long_table_is_paired_by_split_and_time(rng):
    errors = _cells(rng, {"scjko": 0.0, "persistence": 1.0, "floor": -0.5}, n_splits=2)
    row, column = (each.ravel() for each in np.indices(errors.values.shape))
    order = rng.permutation(len(row))
    row, column = row[order], column[order]
    names = [errors.methods[k] for k in column]
    values = errors.values[row, column]
    again = Errors.from_columns(errors.split[row], errors.time[row], names, values, noise=2 * values)
    for method in errors.methods:
        np.testing.assert_array_equal(again.of(method), errors.of(method))
    np.testing.assert_array_equal(again.split, errors.split)
    np.testing.assert_array_equal(again.time, errors.time)
    np.testing.assert_array_equal(again.noise, 2 * again.values)


@pytest.mark.parametrize(
    ("methods", "values", "match"),
    [
        (("scjko", "floor"), np.ones((2, 2)), "at least one baseline"),
        (("persistence", "floor"), np.ones((2, 2)), "must have 'scjko'"),
        (("scjko", "persistence"), np.array([[1.0, np.nan], [1.0, 1.0]]), "values of persistence"),
        (("scjko", "persistence"), np.ones((3, 2)), r"shape \(3, 2\)"),
    ],
)
def test_tables_that_cannot_be_judged_are_refused(methods, values, match):
    with pytest.raises(ValueError, match=match):
        Errors(methods, values, np.arange(2), np.arange(2.0))
