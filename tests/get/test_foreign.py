"""Fits that others wrote, changed or damaged: a clear error, before anything is computed or allocated from them."""

from __future__ import annotations

import copy
from pathlib import Path

import anndata
import numpy as np
import pytest
from files import write_fit
from helpers import assert_same

import scjko as sj

FILES = sorted((Path(__file__).parents[1] / "files").glob("fit_*.h5ad"))


@pytest.fixture(scope="module")
def released():
    """Version 0.1.0: one AnnData with fits of every part that a fit can have, see tests/files/write_fit.py."""
    return anndata.read_h5ad(FILES[0])


@pytest.fixture(scope="module")
def current(tmp_path_factory):
    """The same as this version writes it."""
    path = tmp_path_factory.mktemp("fits") / "fit.h5ad"
    write_fit.fitted().write_h5ad(path)
    return anndata.read_h5ad(path)


@pytest.fixture(params=["released", "current"])
def fits(request):
    """Fits of both."""
    return request.getfixturevalue(request.param)


def put(value, *path):
    """A change that puts ``value``, or what it makes of the old one, at a place in ``uns[key]``."""

    def change(stored):
        for name in path[:-1]:
            stored = stored[name]
        stored[path[-1]] = value(stored[path[-1]]) if callable(value) else value

    return change


def drop(*path):
    def change(stored):
        for name in path[:-1]:
            stored = stored[name]
        del stored[path[-1]]

    return change


def nan(array):
    array = np.array(array, dtype=np.float32)
    array[...] = np.nan
    return array


KERNEL = ("weights", "potential", "Dense_0", "kernel")
HUGE = 10**12
#: The fit that is changed, the change, and what the error says; in files of every version.
TAMPERED = {
    "NaN weights": ("jko", put(nan, *KERNEL), "weights/potential/Dense_0/kernel holds NaN"),
    "infinite bias": ("jko", put(lambda b: b + np.inf, *KERNEL[:3], "bias"), "Dense_0/bias holds NaN or infinite"),
    "weights beyond float32": ("jko", put(lambda k: k + np.float64(1e300), *KERNEL), "beyond single precision"),
    "wrong shape": ("jko", put(lambda k: k[:-1], *KERNEL), r"Dense_0/kernel has the shape \(3, 8\).*requires \(4, 8\)"),
    "text for weights": ("jko", put("np.ones(8)", *KERNEL), r"Dense_0/kernel has the shape \(\)"),
    "texts for weights": ("jko", put(lambda k: k.astype(str), *KERNEL), "Dense_0/kernel is of type <U"),
    "objects for weights": ("jko", put(lambda k: k.astype(object), *KERNEL), "Dense_0/kernel is of type object"),
    "ragged weights": ("jko", put([[1.0], [1.0, 2.0]], *KERNEL), "Dense_0/kernel is not an array"),
    "a layer missing": ("jko", drop("weights", "potential", "Dense_1"), "weights/potential lacks Dense_1"),
    "a layer too many": ("jko", put({}, "weights", "potential", "Dense_7"), "has Dense_7, which no fit writes"),
    "a layer of something else": ("jko", put(3, "weights", "potential", "Dense_1"), "Dense_1 is int, not a group"),
    "no potential": ("jko", drop("weights", "potential"), "weights lacks potential"),
    "a strange term": ("jko", put({}, "weights", "gravity"), "weights has 'gravity'"),
    "huge dimension": ("jko", put(HUGE, "params", "n_pcs"), rf"scaling/center has the shape \(2,\).*\({HUGE}\)"),
    "negative dimension": ("jko", put(-2, "params", "n_pcs"), "params/n_pcs is -2, below 1"),
    "no time key": ("jko", drop("params", "time_key"), "params/time_key is None"),
    "numbers for names": ("jko", put(3, "params", "use_rep"), "params/use_rep is 3"),
    "no scheme": ("jko", drop("params", "scheme"), "params/scheme is None, none of 'both'"),
    "unknown parametrization": ("jko", put("cubic", "params", "parametrization"), "'cubic', none of 'neural'"),
    "array as scheme": ("jko", put(np.array(["both"]), "params", "scheme"), "params/scheme is array"),
    "smooth network": ("jko", put("smooth", "params", "time_varying"), "a neural potential cannot be"),
    "seed as text": ("jko", put("0", "params", "random_state"), "params/random_state is of type <U1"),
    "one time": ("jko", put(lambda t: t[:1], "times"), "times are not two or more increasing"),
    "times that fall": ("jko", put(lambda t: t[::-1], "times"), "times are not two or more increasing"),
    "a time too many": (
        "jko",
        put(lambda t: np.append(t, 99.0), "times"),
        r"scaling/(offsets|speed) has the shape \(4",
    ),
    "NaN time": ("jko", put(lambda t: t * np.nan, "times"), "times holds NaN"),
    "times as text": ("jko", put("0 1 2", "times"), r"times has the shape \(\)"),
    "no length": ("jko", drop("scaling", "length"), "scaling lacks length"),
    "length of zero": ("jko", put(0.0, "scaling", "length"), "scaling/length is not above zero"),
    "scaling as a list": ("jko", put([1, 2], "scaling"), "scaling is list, not a group"),
    "params as text": ("jko", put("{}", "params"), "params is str, not a group"),
    "whitening by zero": ("jko", put(lambda s: 0 * s, "whitening", "std"), "whitening/std is not above zero"),
    "whitening of other data": ("jko", put(np.zeros(5), "whitening", "mean"), r"whitening/mean has the shape \(5,\)"),
    "no couplings": ("jko", drop("couplings"), "it lacks couplings"),
    "unknown solver": (
        "jko",
        put(np.array(["os.system"] * 4), "couplings", "solver"),
        "couplings/solver does not name",
    ),
    "too few solvers": ("jko", put(np.array(["exact"]), "couplings", "solver"), "for each of 4 intervals"),
    "history as text": ("jko", put("falling", "history", "loss"), "history/loss is of type <U7"),
    "a later major version": ("jko", put("17.0.1", "version"), "written by scjko 17.0.1, and this is"),
    "no version at all": ("jko", put("newest", "version"), "version is 'newest'"),
    "labels without times": ("neural", drop("params", "time_values", "times"), "params/time_values lacks times"),
    "more labels than times": ("neural", put(np.zeros(2), "params", "time_values", "times"), "time_values/times has"),
    "negative beta": ("neural", put(-1.0, "weights", "internal", "beta"), "beta is below zero"),
    "a population missing": ("neural", drop("populations", "2"), "populations lacks 2"),
    "a population too many": ("neural", put({}, "populations", "9"), "populations are of 6 snapshots"),
    "populations of no term": ("neural", drop("weights", "interaction"), "one of populations and weights/interaction"),
    "no populations": ("neural", drop("populations"), "one of populations and weights/interaction"),
    "a population without weights": ("neural", drop("populations", "0", "weight"), "populations/0 lacks weight"),
    "a population of other cells": ("neural", put(nan, "populations", "0", "points"), "populations/0/points holds NaN"),
    "a mixture of another size": ("neural", put(np.eye(3), "mixtures", "1", "means"), "mixtures/1/means has the shape"),
    "a strange field": ("neural", put("print()", "mixtures", "1", "code"), "mixtures/1 has code, which no fit writes"),
    "huge powers": ("linear", put(lambda e: e * HUGE, "weights", "potential", "exponents"), "powers from 0 to 1000"),
    "negative powers": ("linear", put(lambda e: e - 3, "weights", "potential", "exponents"), "powers from 0"),
    "fractional powers": ("linear", put(lambda e: e / 2, "weights", "potential", "exponents"), "not whole numbers"),
    "too few coefficients": ("linear", put(lambda t: t[:, 1:], "weights", "potential", "theta"), "theta has the shape"),
    "no width of bumps": ("linear", put(0.0, "weights", "interaction", "width"), "interaction/width is not above zero"),
    "centres elsewhere": ("linear", put(np.zeros((4, 3)), "weights", "potential", "centers"), "centers has the shape"),
}
#: In those of 0.1.0 only, whose parameters stand side by side.
FLAT = {
    "huge layers": ("jko", put([HUGE], "params", "layers"), rf"requires \(4, {HUGE}\)"),
    "layers as text": ("jko", put("64", "params", "layers"), "params/layers is of type <U2"),
    "no width": ("jko", put([0], "params", "layers"), "params/layers are not widths"),
    "no epsilon": ("jko", put(0.0, "params", "epsilon"), "params/epsilon is not above zero"),
    "a batch of one": ("jko", put(1, "params", "coupling_batch"), "params/coupling_batch is 1, below 2"),
    "no label": ("jko", drop("params", "time_label"), "params/time_label is None"),
    "speeds of intervals": ("jko", put(np.ones(4), "scaling", "speed"), r"scaling/speed has the shape \(4,\)"),
}
#: In those of this version only.
GROUPED = {
    "huge layers": ("jko", put([HUGE], "params", "neural", "layers"), rf"requires \(4, {HUGE}\)"),
    "layers as text": ("jko", put("64", "params", "neural", "layers"), "params/layers is of type <U2"),
    "no width": ("jko", put([0], "params", "neural", "layers"), "params/layers are not widths"),
    "no layers": ("jko", drop("params", "neural", "layers"), "it lacks params/layers"),
    "options as text": ("jko", put("{}", "params", "neural"), "params/neural is str, not a group"),
    "an impossible option": ("jko", put(0, "params", "neural", "epochs"), "params are not those of a fit .*epochs=0"),
    "an impossible ridge": ("linear", put(-1.0, "params", "linear", "ridge"), "not those of a fit .*ridge=-1"),
    "a strange option": ("static", put(1, "params", "interaction", "odd"), "params are not those of a fit"),
    "a strange coupling": ("jko", put("closest", "params", "coupling"), "params/coupling is 'closest'"),
    "one speed for all": ("jko", put(1.0, "scaling", "speed"), r"scaling/speed has the shape \(\).*requires \(4\)"),
    "a speed of zero": ("jko", put(lambda v: 0 * v, "scaling", "speed"), "scaling/speed is not above zero"),
    "no reach": ("jko", drop("scaling", "reach"), "it lacks scaling/reach"),
    "a negative reach": ("jko", put(-1.0, "scaling", "reach"), "scaling/reach is not above zero"),
    "no forecast": ("jko", drop("forecast"), "it lacks forecast"),
    "a forecast that grows": ("jko", put(2.0, "forecast", "damping"), "forecast/damping is not between zero and one"),
    "a midpoint missing": ("static", drop("populations", "1.5"), "populations lacks 1.5"),
    "a density missing": ("static", drop("mixtures", "0.5"), "mixtures lacks 0.5"),
    "midpoints of a fit without": ("neural", put({}, "populations", "0.5"), "populations are of 6 snapshots"),
    "a later format": ("jko", put(3, "format"), "it has format 3, .* which reads formats up to 2; update scjko"),
    "format as text": ("jko", put("2", "format"), "format is of type <U1"),
    "half a format": ("jko", put(2.5, "format"), "format is of type float64, not whole"),
}
CASES = [
    pytest.param(made, *case, id=f"{made}: {name}")
    for made, cases in (("released", TAMPERED | FLAT), ("current", TAMPERED | GROUPED))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("made", "key", "change", "said"), CASES)
def test_a_fit_that_was_tampered_with_is_refused_and_what_is_wrong_is_said(request, made, key, change, said):
    adata = request.getfixturevalue(made).copy()
    adata.uns[key] = copy.deepcopy(dict(adata.uns[key]))
    change(adata.uns[key])
    with pytest.raises(ValueError, match=said) as error:
        sj.get.energy(adata, key)
    assert f"The fit at adata.uns[{key!r}] cannot be read" in str(error.value) and "fit again" in str(error.value)


def test_an_array_that_claims_to_be_huge_is_not_read(fits):
    """Four terabytes, of which there is one number: reading them would be a MemoryError, or worse."""
    adata = fits.copy()
    adata.uns["jko"] = copy.deepcopy(dict(adata.uns["jko"]))
    put(np.broadcast_to(np.float32(0), (HUGE, 1)), *KERNEL)(adata.uns["jko"])
    with pytest.raises(ValueError, match=rf"Dense_0/kernel has the shape \({HUGE}, 1\)"):
        sj.get.energy(adata)


READERS = {
    "energy": lambda a: sj.get.energy(a),
    "params": lambda a: sj.get.params(a),
    "couplings": lambda a: sj.get.couplings(a),
    "predict": lambda a: sj.tl.predict(a, 3),
    "interpolate": lambda a: sj.tl.interpolate(a, 3),
    "transition_matrix": lambda a: sj.tl.transition_matrix(a),
    "velocity_embedding": lambda a: sj.tl.velocity_embedding(a, "latent"),
    "project_genes": lambda a: sj.tl.project_genes(a),
    "plot of potential": lambda a: sj.pl.level_curves(a, show=False),
    "plot of history": lambda a: sj.pl.history(a, show=False),
    "plot of couplings": lambda a: sj.pl.couplings(a, show=False),
    "plot of velocity": lambda a: sj.pl.velocity(a, show=False),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_every_reader_goes_through_the_same_check(fits, read):
    adata = fits.copy()
    adata.uns["jko"] = copy.deepcopy(dict(adata.uns["jko"]))
    put(nan, *KERNEL)(adata.uns["jko"])
    before = adata.copy()
    with pytest.raises(ValueError, match=r"The fit at adata.uns\['jko'\] cannot be read"):
        read(adata)
    assert_same(adata, before)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("key", ["jko", "neural", "linear"])
def test_files_of_released_versions_open_and_say_what_they_said(path, key):
    adata = anndata.read_h5ad(path)
    energy = sj.get.energy(adata, key)
    x, t = adata.obsm[f"X_{key}"], adata.obs["day"].to_numpy()
    # Other versions of JAX may add up in another order: float32 rounding of values of order one to ten.
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(energy.potential(x, t), adata.obs[f"{key}_potential"], **close)
    np.testing.assert_allclose(energy.velocity(x, t), adata.obsm[f"{key}_velocity"], **close)
    there = sj.get.params(adata, key)
    assert there["key_added"] == key
    expected = sj.Linear(n_centers=4, degree=2) if key == "linear" else sj.Neural(epochs=30, layers=(8,))
    assert there["parametrization"] == expected
    if key != "neural":  # whose steps are noisy, by numbers that are drawn again
        # A proximal step is solved to 1e-4 of the spread of the cells, about three.
        np.testing.assert_allclose(
            sj.tl.predict(adata, key=key).obsm[f"X_{key}"], adata.obsm[f"{key}_predicted"], atol=1e-3
        )
    assert len(sj.get.couplings(adata, key)) == 4


def test_a_damaged_fit_can_be_replaced(adata):
    """What the error says to do works."""
    options = {"parametrization": sj.Neural(epochs=3), "progress": False}
    sound = sj.tl.fit_energy(adata, "day", copy=True, **options)
    adata.uns["jko"] = {**sound.uns["jko"], "times": "gone"}
    sj.tl.fit_energy(adata, "day", **options)
    np.testing.assert_array_equal(adata.obsm["jko_predicted"], sound.obsm["jko_predicted"])


@pytest.mark.parametrize("key", ["jko", "neural", "linear", "static"])
def test_a_fit_read_back_gives_what_it_gave(current, key):
    """Whatever the parametrisation and terms: values, and steps without noise, to the bit."""
    energy = sj.get.energy(current, key)
    x, t = current.obsm[f"X_{key}"], current.obs["day"].to_numpy()
    np.testing.assert_array_equal(energy.potential(x, t), current.obs[f"{key}_potential"])
    np.testing.assert_array_equal(energy.velocity(x, t), current.obsm[f"{key}_velocity"])
    if "internal" not in energy.terms:
        np.testing.assert_array_equal(
            sj.tl.predict(current, key=key).obsm[f"X_{key}"], current.obsm[f"{key}_predicted"]
        )


@pytest.mark.parametrize("written", ["0.0.1", "0.1.0.dev3+g1234567", "0.99.0"])
def test_versions_up_to_the_next_major_one_open(fits, written):
    adata = fits.copy()
    adata.uns["jko"] = {**adata.uns["jko"], "version": written}
    assert sj.get.energy(adata).n_dims == 2
