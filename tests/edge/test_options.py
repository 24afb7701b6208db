"""The options of a fit: objects with impossible settings, options that moved, and what is recorded of them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import scjko as sj
from scjko.core.energy.specification import Terms
from scjko.edge.options import MOVED, FitOptions

#: What is made, and what the error says.
IMPOSSIBLE = {
    "layers as a number": (lambda: sj.Neural(layers=64), TypeError, ["layers", "64"]),
    "no layer": (lambda: sj.Neural(layers=(64, 0)), ValueError, ["layers=0"]),
    "no epochs": (lambda: sj.Neural(epochs=0), ValueError, ["epochs=0"]),
    "half an epoch": (lambda: sj.Neural(epochs=0.5), TypeError, ["epochs", "0.5"]),
    "fractional batch": (lambda: sj.Neural(batch_size=0.5), TypeError, ["batch_size", "0.5"]),
    "negative rate": (lambda: sj.Neural(learning_rate=-1.0), ValueError, ["learning_rate=-1.0"]),
    "unknown label": (lambda: sj.Neural(time_label="source"), ValueError, ["'source'", "'interval', 'target'"]),
    "no devices": (lambda: sj.Neural(n_devices=0), ValueError, ["n_devices=0"]),
    "layers of a linear energy": (lambda: sj.Linear(layers=(8,)), TypeError, ["layers"]),
    "degree of a network": (lambda: sj.Neural(degree=2), TypeError, ["degree"]),
    "degree zero": (lambda: sj.Linear(degree=0), ValueError, ["degree=0"]),
    "negative centres": (lambda: sj.Linear(n_centers=-1), ValueError, ["n_centers=-1"]),
    "negative ridge": (lambda: sj.Linear(ridge=-1.0), ValueError, ["ridge=-1.0"]),
    "ridge as text": (lambda: sj.Linear(ridge="much"), TypeError, ["ridge", "'much'"]),
    "negative epsilon": (lambda: sj.Sinkhorn(epsilon=-0.1), ValueError, ["epsilon=-0.1"]),
    "epsilon of an exact coupling": (lambda: sj.Exact(epsilon=0.1), TypeError, ["epsilon"]),
    "batch of one": (lambda: sj.Batched(size=1), ValueError, ["size=1", "at least 2"]),
    "no memory": (lambda: sj.Auto(memory_limit=0), ValueError, ["memory_limit=0"]),
    "even as text": (lambda: sj.Interaction(even="yes"), TypeError, ["even", "'yes'"]),
    "no components": (lambda: sj.Internal(n_components=0), ValueError, ["n_components=0"]),
    "settings without a name": (lambda: sj.Neural((8,)), TypeError, ["positional"]),
}


@pytest.mark.parametrize(("make", "kind", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_settings_are_named_when_the_object_is_made(make, kind, said):
    with pytest.raises(kind) as error:
        make()
    for words in said:
        assert words in str(error.value)


def test_objects_are_values():
    """They can be compared, shared between calls, and not changed."""
    assert sj.Neural(layers=[8]) == sj.Neural(layers=(8,)) and sj.Exact() == sj.Exact()
    assert sj.Sinkhorn(epsilon=0.1) != sj.Sinkhorn()
    with pytest.raises(AttributeError):
        sj.Linear().ridge = 1.0


#: Everything that ``fit_energy`` of version 0.1 took beside what it takes today.
OLD = {
    **dict.fromkeys(["layers", "epochs", "batch_size", "learning_rate", "time_label", "n_devices"], sj.Neural),
    **dict.fromkeys(["degree", "n_centers", "ridge"], sj.Linear),
    **{"epsilon": sj.Sinkhorn, "coupling_batch": sj.Batched, "memory_limit": sj.Auto, "couplings": None},
    "n_components": sj.Internal,
}


@pytest.mark.parametrize("name", OLD)
def test_options_of_version_0_1_say_what_to_write_instead(adata, name):
    with pytest.raises(TypeError, match=f"fit_energy takes no '{name}'; write ") as error:
        sj.tl.fit_energy(adata, "day", **{name: 3})
    kind, new = OLD[name], {"coupling_batch": "size"}.get(name, name)
    if kind is None:
        assert "write coupling={(t0, t1): matrix}" in str(error.value)
    else:
        assert f"sj.{kind.__name__}({new}=...)" in str(error.value)
        assert new in inspect.signature(kind).parameters, "what it says to write exists"


def test_all_options_that_moved_are_known_and_none_that_stayed():
    assert set(MOVED) == set(OLD)
    assert not set(MOVED) & set(inspect.signature(sj.tl.fit_energy).parameters)


def test_a_misspelt_option_is_an_error_of_python(adata):
    with pytest.raises(TypeError, match="unexpected keyword argument 'time_varing'"):
        sj.tl.fit_energy(adata, "day", time_varing=False)


FITS = {
    "defaults": {},
    "network": {"parametrization": sj.Neural(layers=(8, 4), epochs=7, batch_size=3, learning_rate=0.1, n_devices=1)},
    "label": {"parametrization": sj.Neural(time_label="target"), "time_varying": True},
    "linear": {"parametrization": sj.Linear(degree=3, n_centers=0, ridge=0.5), "time_varying": "smooth"},
    "automatic ridge": {"parametrization": sj.Linear(), "time_varying": False, "whiten": True},
    "terms": {"terms": ("potential", sj.Interaction(even=True), sj.Internal(n_components=3))},
    "names of terms": {"terms": ("potential", "internal")},
    "sinkhorn": {"coupling": sj.Sinkhorn(epsilon=0.5, memory_limit=2.0)},
    "batched": {"coupling": sj.Batched(size=7), "scheme": "implicit", "random_state": 3},
    "labels": {"time_values": {"a/b": 0.0, "late": 7.0}, "weight_key": "mass", "n_pcs": 4, "use_rep": "X_pca"},
}


def options(**given):
    plain = {"time_key": "day", "terms": ("potential",), "parametrization": "neural", "coupling": "auto"}
    return FitOptions.of(**{**plain, **given})


@pytest.mark.parametrize("given", FITS.values(), ids=FITS.keys())
def test_what_is_recorded_is_read_back(given):
    """As arguments of a fit, equal to those that were given, objects and all."""
    one = options(**given)
    again = FitOptions.read(one.recorded())
    assert again.arguments() == one.arguments()
    for name, value in given.items():
        assert again.arguments()[name] == value
    assert options(**again.arguments()).arguments() == one.arguments()


@pytest.mark.parametrize("given", FITS.values(), ids=FITS.keys())
def test_what_is_recorded_are_numbers_texts_and_arrays(given):
    """Files take nothing else."""

    def check(value):
        if isinstance(value, dict):
            for part in value.values():
                check(part)
        else:
            assert isinstance(value, str | bool | int | float | np.ndarray), value
            assert not isinstance(value, np.ndarray) or value.dtype.kind in "iufbU"

    check(options(**given).recorded())


def test_ready_made_couplings_are_recorded_as_such_and_not_kept():
    given = {(0, 1): np.ones((2, 2))}
    made = options(coupling=given)
    assert made.couplings is given
    recorded = made.recorded()
    assert recorded["coupling"] == "ready-made" and "auto" not in recorded
    assert FitOptions.read(recorded).couplings is None


def test_a_cluster_has_nothing_to_do_for_ready_made_couplings():
    with pytest.raises(ValueError, match="client has no effect with ready-made couplings"):
        options(coupling={(0, 1): np.ones((2, 2))}).check_client(object())
    options().check_client(object())


def test_parameters_of_version_0_1_are_read_flat():
    """Without groups, and with options of solvers and networks that were not used."""
    flat = {
        **{"time_key": "day", "n_pcs": 2, "use_rep": "X_pca", "terms": np.array(["potential", "internal"])},
        **{"parametrization": "linear", "layers": np.array([8]), "epochs": 30, "batch_size": 250, "degree": 2},
        **{"learning_rate": 0.02, "ridge": "auto", "time_label": "interval", "scheme": "both", "time_varying": True},
        **{"coupling": "sinkhorn", "epsilon": 0.3, "coupling_batch": 1000, "whiten": False, "random_state": 1},
    }
    read = FitOptions.read(flat)
    assert read.parametrization == sj.Linear(degree=2)
    assert read.solver == sj.Sinkhorn(epsilon=0.3)
    assert read.terms == Terms.of(("potential", "internal"))
    assert FitOptions.read({**flat, "parametrization": "neural"}).parametrization == sj.Neural(layers=(8,), epochs=30)
