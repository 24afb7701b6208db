"""``get.energy``: what was fitted comes back, and nothing else is taken for it."""

from __future__ import annotations

import numpy as np
import pytest

import scjko as sj


def test_the_energy_is_not_tied_to_the_data(fitted):
    energy = sj.get.energy(fitted)
    x = fitted.obsm["X_jko"][:10]
    before = energy.gradient(x, 1)
    fitted.uns["jko"]["weights"]["potential"]["part0"]["Dense_0"]["kernel"][:] = 0
    np.testing.assert_array_equal(energy.gradient(x, 1), before)


def test_asking_before_fitting_says_what_to_run(adata):
    with pytest.raises(KeyError, match="fit_energy"):
        sj.get.energy(adata)


@pytest.mark.parametrize("foreign", [3, {"params": {}}, {"connectivities_key": "x"}])
def test_something_else_under_that_name_is_not_taken_for_a_fit(adata, foreign):
    adata.uns["jko"] = foreign
    with pytest.raises(ValueError, match="not a fitted energy: it lacks .*weights"):
        sj.get.energy(adata)
