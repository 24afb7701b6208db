"""Associations of genes against brute force: permutations that are drawn, and correlations written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from scjko.core.genes.association import Slopes, associated, by_chance, deflated, false_discovery, tail
from scjko.core.genes.sums import Cells, sums


@pytest.fixture
def made(rng):
    """Sparse skewed genes of cells at two times, one that is constant, and a number with a gradient between times."""
    stratum = np.repeat([0, 1, -1], [30, 40, 5])
    x = rng.poisson(0.6, size=(75, 6)) * rng.lognormal(size=(75, 6))
    x[:, 5] = 2.0
    values = np.column_stack([rng.gamma(1.0, size=75) + 3 * stratum, rng.normal(size=75)])
    fold = np.arange(75) % 5
    return x, Cells(stratum, fold, values, rng.normal(size=(75, 3)))


def blocks(x, size=20):
    return ((slice(start, start + size), x[start : start + size]) for start in range(0, len(x.toarray()), size))


def within(x, stratum):
    out = x[stratum >= 0].astype(float).copy()
    kept = stratum[stratum >= 0]
    for s in (0, 1):
        out[kept == s] -= out[kept == s].mean(axis=0)
    return out


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_effects_are_correlations_of_what_is_left_of_each_time(made, kind):
    x, cells = made
    found = associated(cells, sums(blocks(kind(x)), cells, 6))
    a, b = within(x, cells.stratum), within(cells.values, cells.stratum)
    expected = (b.T @ a) / np.sqrt(np.outer((b**2).sum(axis=0), (a**2).sum(axis=0)) + 1e-300)
    np.testing.assert_allclose(found.effect[:, :5], expected[:, :5], rtol=1e-9)
    assert np.isnan(found.effect[:, 5]).all() and np.isnan(found.p[:, 5]).all()
    dense = associated(cells, sums([(slice(0, 75), x)], cells, 6))
    for one, other in zip(found, dense, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_p_values_are_those_of_drawn_permutations(made, rng):
    """Within 0.04: four standard errors of 10 000 draws are 0.02, and the rest is the fourth moment of skewed genes."""
    x, cells = made
    found = associated(cells, sums([(slice(0, 75), x)], cells, 6))
    a, b = within(x, cells.stratum)[:, :5], within(cells.values, cells.stratum)
    strata = [np.flatnonzero(cells.stratum[cells.stratum >= 0] == s) for s in (0, 1)]
    order = np.empty((10_000, 70), dtype=int)
    for rows in strata:
        order[:, rows] = rng.permuted(np.tile(rows, (10_000, 1)), axis=1)
    drawn = np.einsum("biq,ig->bqg", b[order], a)
    total = b.T @ a
    both = 2 * np.minimum((drawn >= total).mean(axis=0), (drawn <= total).mean(axis=0))
    np.testing.assert_allclose(found.p[:, :5], np.minimum(both, 1), atol=0.04)


def test_leaving_out_parts_is_the_jackknife(made):
    x, cells = made
    found = associated(cells, sums([(slice(0, 75), x)], cells, 6))
    left = []
    for f in range(5):
        kept = cells.fold != f
        part = Cells(cells.stratum[kept], np.zeros(kept.sum(), dtype=int), cells.values[kept], cells.null[kept])
        left.append(associated(part, sums([(slice(0, int(kept.sum())), x[kept])], part, 6)).effect)
    each = np.stack(left)[..., :5]
    expected = np.sqrt(4 / 5 * ((each - each.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(found.error[:, :5], expected, rtol=1e-6)


def test_what_coordinates_have_of_a_gene_is_taken_out(rng):
    """A number that is a coordinate, of two hundred genes of pure noise: without their own part nothing is left."""
    x = rng.normal(size=(400, 200))
    loadings = rng.normal(size=(200, 1)) / np.sqrt(200)
    z = x @ loadings
    cells = Cells(np.zeros(400, dtype=int), np.arange(400) % 5, z, np.zeros((400, 0)))
    found = sums([(slice(0, 400), x)], cells, 200)
    slopes = Slopes(np.ones((1, 1, 1)), loadings)
    with_it, without = associated(cells, found), associated(cells, found, slopes)
    # z² of a normal variable is 1 on average, with a standard error of 0.1 over 200 genes.
    z2 = [np.mean(stats.norm.isf(made.p[0] / 2) ** 2) for made in (with_it, without)]
    assert z2[0] > 2 and abs(z2[1] - 1) < 0.3


def test_chance_and_false_discovery(rng):
    null = rng.normal(size=(50, 4000)) * 3
    p = by_chance(rng.normal(size=4000) * 3, null)
    assert stats.kstest(p, "uniform").pvalue > 0.01
    p[:40] = 1e-6
    q = false_discovery(np.append(p, np.nan))
    assert np.isnan(q[-1]) and (q[:40] < 0.05).all() and (q[:-1] < 0.05).sum() < 55
    inflated = 2 * stats.norm.sf(np.abs(2 * rng.normal(size=4000)))
    assert stats.kstest(deflated(inflated), "uniform").pvalue > 0.01
    np.testing.assert_allclose(deflated(np.linspace(0.01, 1, 100)), np.linspace(0.01, 1, 100), rtol=1e-6)


def test_a_tail_with_no_spread_is_not_known():
    assert np.isnan(tail(np.array([1.0, np.nan]), np.array([0.0, 1.0]), np.zeros(2))).all()
