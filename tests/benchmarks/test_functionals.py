"""The test functions against formulas written out once more, in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.benchmarks import functionals, gallery


def split(v):
    half = len(v) // 2
    return sum(v[:half]) / half, sum(v[half:]) / (len(v) - half)


def watershed(v):
    return sum(0.1 * (v[i] + v[i] ** 2 * (v[i + 1] + 4)) for i in range(len(v) - 1))


def zigzag_ridge(v):
    return sum(
        abs(v[i] - v[i + 1]) ** 2 + np.cos(v[i]) * (v[i] + v[i + 1]) + v[i] ** 2 * v[i + 1] for i in range(len(v) - 1)
    )


def holder_table(v):
    a, b = split(v)
    return 10 * abs(np.sin(a) * np.cos(b) * np.exp(abs(1 - np.linalg.norm(v) / np.pi)))


def ishigami(v):
    a, b = split(v)
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * ((a + b) / 2) ** 4 * np.sin(a)


def friedman(v):
    a, b = split(v)
    first = 10 * np.sin(2 * np.pi * (a - 7) * (b - 7))
    second = 20 * (2 * (a - 7) * np.sin(b - 7) - 0.5) ** 2
    third = 10 * (2 * (a - 7) * np.cos(b - 7) - 1) ** 2
    return (first + second + third + 0.1 * (b - 7) * np.sin(2 * (a - 7))) / 100


def bohachevsky(v):
    a, b = split(v)
    return 10 * (a**2 + 2 * b**2 - 0.3 * np.cos(3 * np.pi * a) - 0.4 * np.cos(4 * np.pi * b))


def rotational(v):
    a, b = split(v)
    return 10 * max(0.0, np.arctan2(b + 5, a + 5) + np.pi)


ORACLES = {
    "styblinski_tang": lambda v: 0.5 * sum(c**4 - 16 * c**2 + 5 * c for c in v),
    "holder_table": holder_table,
    "flowers": lambda v: sum(c + 2 * np.sin(abs(c) ** 1.2) for c in v),
    "oakley_ohagan": lambda v: 5 * sum(np.sin(c) + np.cos(c) + c**2 + c for c in v),
    "watershed": watershed,
    "ishigami": ishigami,
    "friedman": friedman,
    "sphere": lambda v: -10 * np.linalg.norm(v) ** 2,
    "bohachevsky": bohachevsky,
    "wavy_plateau": lambda v: sum(np.cos(np.pi * c) + 0.5 * c**4 - 3 * c**2 + 1 for c in v),
    "zigzag_ridge": zigzag_ridge,
    "double_exp": lambda v: 200 * np.exp(-(np.linalg.norm(v - 3) ** 2) / 20) + np.exp(-np.linalg.norm(v + 3) / 20),
    "relu": lambda v: -50 * sum(max(0.0, c) for c in v),
    "rotational": rotational,
    "flat": lambda v: 0.0,
}


def test_all_fifteen_are_there():
    assert list(functionals) == list(ORACLES)


@pytest.mark.parametrize("name", functionals)
@pytest.mark.parametrize("n_dims", [2, 3, 10])
def test_values_and_gradients(name, n_dims, rng):
    x = rng.uniform(-4, 4, (40, n_dims))
    value = [ORACLES[name](v) for v in x]
    # Single precision, of sums whose terms reach a thousand.
    np.testing.assert_allclose(functionals[name](x), value, rtol=2e-5, atol=2e-3)
    step = 1e-5 * np.eye(n_dims)
    slope = np.array([[(ORACLES[name](v + h) - ORACLES[name](v - h)) / 2e-5 for h in step] for v in x])
    np.testing.assert_allclose(functionals[name].gradient(x), slope, rtol=1e-3, atol=5e-3)


@pytest.mark.parametrize("name", functionals)
def test_gradients_are_finite_at_kinks(name):
    kinks = np.array([[0.0, 0.0], [-3.0, -3.0], [0.0, 4.0], [np.pi / 2, np.pi / 2], [-4.0, -4.0], [np.pi, 0.0]])
    assert np.isfinite(functionals[name].gradient(kinks)).all()


def test_bad_points_and_names():
    with pytest.raises(KeyError, match="'stiblinski' is not a functional; choose one of styblinski_tang, holder_table"):
        functionals["stiblinski"]
    with pytest.raises(ValueError, match="watershed needs at least 2 dimensions, not 1"):
        functionals["watershed"](np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"x has shape \(3,\)"):
        functionals["sphere"](np.zeros(3))


def test_those_of_any_dimension_take_one():
    assert functionals["sphere"](np.array([[2.0]])) == pytest.approx(-40)


def test_the_gallery_shows_all_but_the_flat_one_as_level_curves():
    figure = gallery(30)
    assert [axes.get_title() for axes in figure.axes] == list(functionals)
    assert [len(axes.collections) for axes in figure.axes] == [2] * 14 + [0]
