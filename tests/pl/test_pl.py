"""What all plots have in common: scanpy's manners, and words for what cannot be drawn."""

from __future__ import annotations

import inspect
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scanpy as sc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import scjko as sj

FUNCTIONS = {name: getattr(sj.pl, name) for name in sj.pl.__all__} | {
    "sankey": partial(sj.pl.sankey, cluster_key="fate")
}
#: Plots that need no more than one fit with a potential, and those that need what is computed from it.
COMPUTED = {"fates", "ancestry", "sankey", "barriers", "drivers", "trends"}
OF_A_POTENTIAL = sorted(set(FUNCTIONS) - {"interaction", "validation", "animation", "growth"} - COMPUTED)


@pytest.fixture(autouse=True)
def _closed():
    before = sc.settings.autoshow
    yield
    sc.settings.autoshow = before
    plt.close("all")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_plot_takes_what_scanpys_take(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    assert {"ax", "show", "return_fig", "key"} <= set(parameters)
    assert any(p.kind is p.VAR_KEYWORD for p in parameters.values()), "extra keywords are passed on"


@pytest.mark.parametrize("name", OF_A_POTENTIAL)
def test_axes_figure_or_nothing_comes_back_as_asked(name, fitted, monkeypatch):
    shown = []
    sc.settings.autoshow = True
    monkeypatch.setattr(plt, "show", lambda: shown.append(True))
    draw = FUNCTIONS[name]
    axes = draw(fitted, show=False)
    assert isinstance(axes, Axes) or all(isinstance(one, Axes) for one in axes)
    assert isinstance(draw(fitted, return_fig=True), Figure) and not shown
    assert draw(fitted) is None and shown
    sc.settings.autoshow = False
    assert draw(fitted) is not None and len(shown) == 1


@pytest.mark.parametrize("name", OF_A_POTENTIAL)
def test_a_fit_under_another_key_is_drawn_and_nothing_is_written(name, fitted):
    fitted.uns["other"] = fitted.uns.pop("jko")
    for slot in ("X_jko", "jko_velocity", "jko_predicted"):
        fitted.obsm[slot.replace("jko", "other")] = fitted.obsm.pop(slot)
    before = (set(fitted.obs), set(fitted.obsm), set(fitted.uns))
    assert FUNCTIONS[name](fitted, key="other", show=False) is not None
    assert (set(fitted.obs), set(fitted.obsm), set(fitted.uns)) == before


@pytest.mark.parametrize("name", [*OF_A_POTENTIAL, *sorted(COMPUTED), "interaction", "animation"])
def test_before_a_fit_the_message_says_what_to_run(name, adata):
    with pytest.raises(KeyError, match=r"run sj\.tl\.fit_energy"):
        FUNCTIONS[name](adata, show=False)


@pytest.mark.parametrize("name", [*OF_A_POTENTIAL, *sorted(COMPUTED), "interaction", "animation"])
def test_a_key_of_something_else_is_named(name, fitted):
    fitted.uns["paga"] = {"groups": "day"}
    with pytest.raises(ValueError, match="is not a fitted energy"):
        FUNCTIONS[name](fitted, key="paga", show=False)


@pytest.mark.parametrize("name", ["level_curves", "predictions", "couplings", "velocity", "trajectories", "landscape"])
@pytest.mark.parametrize("components", [(1, 3), (0, 1), (1, 1), "1", "a,b", 2])
def test_components_that_are_not_there_are_named(name, components, fitted):
    with pytest.raises(ValueError, match=r"components=.*(from 1 to 2|counted from 1)"):
        FUNCTIONS[name](fitted, components=components, show=False)


@pytest.mark.parametrize("name", ["level_curves", "velocity", "landscape"])
def test_an_embedding_that_is_not_there_is_named(name, fitted):
    with pytest.raises(KeyError, match=r"No basis='umap' in adata.obsm, which has 'X_latent'"):
        FUNCTIONS[name](fitted, basis="umap", show=False)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("level_curves", {"times": [0, 9]}),
        ("level_curves", {"times": []}),
        ("landscape", {"time": -1}),
        ("trajectories", {"stop": 9}),
        ("trajectories", {"start": 0.5}),
        ("couplings", {"times": 7}),
        ("couplings", {"times": 0.5}),
        ("predictions", {"times": -1}),
        ("predictions", {"times": []}),
        ("level_curves", {"times": "tomorrow"}),
    ],
)
def test_times_without_a_fit_are_named(name, options, fitted):
    with pytest.raises(ValueError, match=r"time|start="):
        FUNCTIONS[name](fitted, show=False, **options)


def test_as_many_axes_as_panels_are_needed(fitted):
    _, given = plt.subplots(1, 2)
    with pytest.raises(ValueError, match="ax must be 5 matplotlib Axes, one for each panel, not 2"):
        sj.pl.level_curves(fitted, ax=given)
    with pytest.raises(ValueError, match="projection='3d'"):
        sj.pl.landscape(fitted, ax=given[0])
    drawn = sj.pl.level_curves(fitted, times=[0, 7], ax=given)
    assert drawn == list(given), "the user's axes are drawn on, handed back, and not shown"


def test_labels_do_not_overlap_in_one_column_of_a_page(fitted):
    """Titles, axis labels and tick labels of the figure that has most of them."""
    figure = sj.pl.level_curves(fitted, return_fig=True)
    figure.canvas.draw()
    texts = [t for axes in figure.axes for t in (axes.title, axes.xaxis.label, axes.yaxis.label) if t.get_text()]
    texts += [t for axes in figure.axes for t in axes.get_yticklabels() if t.get_text() and t.get_visible()]
    boxes = [text.get_window_extent() for text in texts]
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:k]), texts[k].get_text()
    assert min(text.get_fontsize() for text in texts) >= 6.5


def test_the_palette_is_told_apart_without_red_or_green():
    """Colours of observed, predicted and interpolated cells, as a reader without red or green cones sees them."""
    from matplotlib.colors import to_rgb

    from scjko.pl._canvas import INTERPOLATED, OBSERVED, PREDICTED

    # Viénot, Brettel and Mollon 1999: what is left of linear RGB without long (protan) or middle (deutan) cones.
    protan = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
    deutan = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
    colours = np.array([to_rgb(c) for c in (OBSERVED, PREDICTED, INTERPOLATED)]) ** 2.2
    for blindness in (np.eye(3), protan, deutan):
        seen = np.clip(colours @ blindness.T, 0, 1) ** (1 / 2.2)
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)[np.triu_indices(3, 1)]
        assert apart.min() > 0.15  # red and green of matplotlib's default cycle: 0.05 for a deuteranope
