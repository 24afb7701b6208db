"""What must not change a fit, or change it in a known way, and how exactly that holds.

Where it can be exact it is asserted to the bit. Coordinates here are multiples of 2⁻¹⁰ and there are 2⁵ cells a time
point, so that sums, means and moves of them have no rounding: what is left to differ would be an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.stats import ortho_group

import scjko as sj
from scjko.core.judging.baselines import best_transport, kantorovich, linear_map, midpoint, transport
from scjko.core.judging.metrics import emd
from scjko.core.transport import exact

N_TIMES, N_CELLS = 4, 32
#: Coefficients in closed form are solved in float64, of features in float32, and shrunk by the ridge in units of the
#: fit: such differences are of that order.
CLOSED_FORM = 1e-4
NEURAL = {"parametrization": sj.Neural(epochs=20, layers=(8,))}
LINEAR = {"parametrization": sj.Linear(ridge=1e-8, degree=2, n_centers=0)}
BUMPS = {"parametrization": sj.Linear(ridge=1e-8, degree=2, n_centers=4)}
FITS = pytest.mark.parametrize("options", [NEURAL, LINEAR], ids=["neural", "linear"])


def course(change: Any = lambda x: x, times: Any = lambda t: t, **obs: Any) -> AnnData:
    """Cells that contract and drift, on a dyadic grid."""
    rng = np.random.default_rng(0)
    x = np.rint(1024 * rng.normal(size=(N_TIMES * N_CELLS, 2))) / 1024
    when = np.repeat(np.arange(N_TIMES), N_CELLS)
    x = np.rint(1024 * (x * 0.75 ** when[:, None] + when[:, None])) / 1024
    frame = pd.DataFrame({"time": times(when.astype(np.float64)), **obs}, index=[f"cell {i}" for i in range(len(x))])
    return AnnData(obs=frame, obsm={"X_pca": change(x)})


def fit(adata: AnnData, options: dict[str, Any], **more: Any) -> AnnData:
    sj.tl.fit_energy(adata, "time", progress=False, **options, **more)
    return adata


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def close(one: Any, other: Any, tolerance: float = CLOSED_FORM) -> None:
    one, other = np.asarray(one), np.asarray(other)
    assert np.abs(one - other).max() <= tolerance * np.abs(one).max()


@FITS
@pytest.mark.parametrize(
    "coupling",
    ["exact", sj.Batched(size=8), "multiscale", sj.Partial(price=2)],
    ids=["exact", "batched", "multiscale", "partial"],
)
def test_rows_in_another_order(options, coupling, rng):
    """To the bit: every field, and everything that is made of them."""
    options = {**options, "coupling": coupling}
    order = rng.permutation(N_TIMES * N_CELLS)
    one, other = fit(course(), options), fit(course()[order].copy(), options)
    back = other[np.argsort(order)]
    same(back.obs["jko_potential"], one.obs["jko_potential"])
    for name in ("jko_velocity", "jko_predicted"):
        same(back.obsm[name], one.obsm[name])
    for adata in (one, other):
        sj.tl.transition_matrix(adata, 5)
    same(other.obsp["jko_transition"][np.ix_(*[np.argsort(order)] * 2)].toarray(), one.obsp["jko_transition"].toarray())
    for made in (sj.tl.predict, lambda adata: sj.tl.interpolate(adata, 1.5)):
        first, second = made(one), made(other)
        same(second[first.obs_names].obsm["X_jko"], first.obsm["X_jko"])
    plans = [sj.get.couplings(adata) for adata in (one, back.copy())]
    for interval, plan in plans[0].items():
        same(plans[1][interval].toarray(), plan.toarray())


@FITS
def test_another_unit_of_time(options):
    """To the bit for a factor of two, which floats know exactly, and for another beginning."""
    one, slower, later = (fit(course(times=f), options) for f in (lambda t: t, lambda t: 4 * t, lambda t: t + 128))
    for other, factor in ((slower, 4), (later, 1)):
        same(other.obs["jko_potential"] * factor, one.obs["jko_potential"])
        same(other.obsm["jko_velocity"] * factor, one.obsm["jko_velocity"])
        same(other.obsm["jko_predicted"], one.obsm["jko_predicted"])
    between = [
        sj.tl.interpolate(adata, t, density_prior=0.5) for adata, t in ((one, 1.25), (slower, 5), (later, 129.25))
    ]
    for other in between[1:]:
        same(other.obsm["X_jko"], between[0].obsm["X_jko"])


def test_hours_for_days():
    """A factor that floats round changes the closed form by rounding only."""
    days, hours = fit(course(), LINEAR), fit(course(times=lambda t: 24 * t), LINEAR)
    close(hours.obsm["jko_velocity"] * 24, days.obsm["jko_velocity"])
    close(hours.obsm["jko_predicted"], days.obsm["jko_predicted"])


@FITS
def test_another_unit_of_length(options):
    """To the bit for a factor of two; potentials go with its square."""
    one, other = fit(course(), options), fit(course(lambda x: 1024 * x), options)
    same(other.obs["jko_potential"], one.obs["jko_potential"] * 1024**2)
    same(other.obsm["jko_velocity"], one.obsm["jko_velocity"] * 1024)
    same(other.obsm["jko_predicted"], one.obsm["jko_predicted"] * 1024)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_tiny_and_huge_units(scale):
    one, other = fit(course(), LINEAR), fit(course(lambda x: scale * x), LINEAR)
    close(other.obsm["jko_predicted"] / scale, one.obsm["jko_predicted"])
    close(other.obs["jko_potential"] / scale**2, one.obs["jko_potential"])


@FITS
def test_another_origin(options):
    """To the bit for forces; positions are rounded where they now are."""
    one, other = fit(course(), options), fit(course(lambda x: x + 64), options)
    same(other.obs["jko_potential"], one.obs["jko_potential"])
    same(other.obsm["jko_velocity"], one.obsm["jko_velocity"])
    close(other.obsm["jko_predicted"] - 64, one.obsm["jko_predicted"], 1e-12)


def test_far_from_the_origin():
    """Ten thousand spreads away, what float64 keeps of the coordinates is enough."""
    one, other = fit(course(), LINEAR), fit(course(lambda x: x + 1e4), LINEAR)
    close(other.obsm["jko_velocity"], one.obsm["jko_velocity"])


def test_rotated_coordinates():
    """Of couplings, distances and predictors without training exactly; of the closed form with all products of
    coordinates, up to its ridge. A network's random weights, and clusters, know the axes."""
    turn = ortho_group(2, seed=0).rvs()
    x, y, held_out = (course().obsm["X_pca"][k * N_CELLS : (k + 1) * N_CELLS] for k in range(3))
    plan, turned = exact(x, y), exact(x @ turn, y @ turn)
    same(turned.source, plan.source)
    same(turned.target, plan.target)
    assert emd(x @ turn, y @ turn) == pytest.approx(emd(x, y), rel=1e-12)
    for n_neighbours in (1, 5):
        moved = transport(held_out, x, y, plan, n_neighbours)
        close(transport(held_out @ turn, x @ turn, y @ turn, turned, n_neighbours) @ turn.T, moved, 1e-12)
    for predict in (best_transport, kantorovich, linear_map):
        close(predict(held_out @ turn, x @ turn, y @ turn, turned) @ turn.T, predict(held_out, x, y, plan), 1e-12)
    close(midpoint(x @ turn, y @ turn, turned, 0.3).points @ turn.T, midpoint(x, y, plan, 0.3).points, 1e-12)
    one, other = fit(course(), LINEAR), fit(course(lambda x: x @ turn), LINEAR)
    close(other.obsm["jko_velocity"] @ turn.T, one.obsm["jko_velocity"])
    close(other.obs["jko_potential"], one.obs["jko_potential"])


def grown(adata: AnnData, rows: Any, weight: Any) -> AnnData:
    """Cells of these rows, with weights."""
    obs = adata.obs.iloc[rows].set_axis([f"cell {i}" for i in range(len(rows))])
    return AnnData(obs=obs.assign(weight=weight), obsm={"X_pca": adata.obsm["X_pca"][rows]})


@pytest.mark.parametrize("n_centers", [0, 25], ids=["monomials", "grid"])
def test_every_cell_twice(n_centers):
    """The closed form is one of the population, whatever number of cells stands for it."""
    options = {"parametrization": sj.Linear(ridge=1e-6, degree=2, n_centers=n_centers)}
    n = N_TIMES * N_CELLS
    one, other = fit(course(), options), fit(grown(course(), np.tile(np.arange(n), 2), 1.0), options)
    for half in (other[:n], other[n:]):
        close(half.obsm["jko_velocity"], one.obsm["jko_velocity"])
        close(half.obsm["jko_predicted"], one.obsm["jko_predicted"])


def test_the_weight_of_a_cell_in_parts():
    """A cell of weight two is two cells of weight one, or of any two weights of that sum."""
    n, weight = N_TIMES * N_CELLS, np.tile([2.0, 1.0], N_TIMES * N_CELLS // 2)
    whole = fit(grown(course(), np.arange(n), weight), LINEAR, weight_key="weight")
    for part in (1.0, 0.5):
        rows = np.append(np.arange(n), np.arange(0, n, 2))
        weights = np.append(np.where(weight == 2, 2 - part, weight), np.full(n // 2, part))
        split = fit(grown(course(), rows, weights), LINEAR, weight_key="weight")
        close(split[:n].obsm["jko_velocity"], whole.obsm["jko_velocity"])
        close(split[:n].obs["jko_potential"], whole.obs["jko_potential"])


@pytest.mark.parametrize(
    "options",
    [NEURAL, LINEAR, {**LINEAR, "whiten": True}, {**BUMPS, "terms": ["potential", "interaction"]}],
    ids=["neural", "linear", "whitened", "interaction"],
)
def test_a_cell_without_weight_is_not_there(options):
    """Wherever it stands. The forces to the bit; the constant of the potential is a sum over cells."""
    n = N_TIMES * N_CELLS
    weight = np.tile([1.0, 2.0, 1.0, 4.0], n // 4)
    one = fit(grown(course(), np.arange(n), weight), options, weight_key="weight")
    other = grown(course(), np.append(np.arange(n), [0, 40]), np.append(weight, [0.0, 0.0]))
    other.obsm["X_pca"][n:] = [[1e3, -1e3], [-500.0, 0.0]]
    fit(other, options, weight_key="weight")
    same(other[:n].obsm["jko_velocity"], one.obsm["jko_velocity"])
    close(other[:n].obs["jko_potential"], one.obs["jko_potential"], 1e-12)


def test_validation_in_other_units():
    """Distances go with the unit of length, and know neither origin nor unit of time."""

    def validated(*changes: Any) -> pd.Series:
        return sj.tl.validate(course(*changes), "time", n_splits=1, progress=False, **LINEAR)["emd"]

    usual = validated()
    for changes, factor in (((lambda x: x + 64,), 1), ((lambda x: 8 * x,), 8), ((lambda x: x, lambda t: t / 2 + 1), 1)):
        close(validated(*changes) / factor, usual, 1e-9)
