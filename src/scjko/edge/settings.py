"""What a user asks of a fit: every option checked, and handed to the core as its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anndata import AnnData

from ..core.condition import SCHEMES
from ..core.fitting.descent import Training, device_mesh
from ..core.fitting.fit import ClosedForm
from ..core.fitting.problem import TERMS
from ..core.timeline import TIME_LABELS
from ..core.transport.couplings import SOLVERS
from .checks import check_adata, check_bool, check_integer, check_list, check_option, check_positive


def check_options(adata: AnnData, asked: Mapping[str, Any], copy: bool) -> None:
    """Raise if an option of :func:`scjko.tl.fit_energy` is not one, or if ``adata`` cannot be written to."""
    check_adata(adata)
    if adata.isbacked and adata.is_view and not copy:
        raise ValueError("adata is a view of a backed AnnData and cannot be written to; call .to_memory() on it first.")
    terms = check_list("terms", asked["terms"])
    for term in terms:
        check_option("terms", term, TERMS)
    if "potential" not in terms or len(set(terms)) < len(terms):
        raise ValueError(f"terms={terms} must have 'potential', and every term once.")
    check_option("parametrization", asked["parametrization"], ["neural", "linear"])
    check_option("scheme", asked["scheme"], SCHEMES)
    check_option("time_label", asked["time_label"], TIME_LABELS)
    if isinstance(asked["coupling"], Mapping):
        raise TypeError("coupling names a solver; pass ready-made couplings as couplings={(t0, t1): matrix}.")
    if asked["coupling"] != "ready-made":
        check_option("coupling", asked["coupling"], ("auto", *SOLVERS))
    elif asked["couplings"] is None:
        raise ValueError(
            "coupling='ready-made' is that of a fit which was handed its couplings and does not keep them; pass them "
            "again as couplings={(t0, t1): matrix}."
        )
    kinds = [None, True, False] + ["smooth"] * (asked["parametrization"] == "linear")
    check_option("time_varying", asked["time_varying"], kinds)
    check_integer("coupling_batch", asked["coupling_batch"], minimum=2)
    check_positive("epsilon", asked["epsilon"])
    if asked["memory_limit"] is not None:
        check_positive("memory_limit", asked["memory_limit"])
    check_integer("n_components", asked["n_components"])
    check_bool("whiten", asked["whiten"])
    settings = settings_of(asked)  # checks those of the parametrisation
    if isinstance(settings, Training):
        device_mesh(settings.n_devices)  # raises if there are not as many


def settings_of(asked: Mapping[str, Any]) -> Training | ClosedForm:
    """The settings of the parametrisation that is asked for."""
    seed = check_integer("random_state", asked["random_state"], minimum=0)
    training = Training(
        layers=tuple(check_integer("layers", width) for width in check_list("layers", asked["layers"])),
        epochs=None if asked["epochs"] is None else check_integer("epochs", asked["epochs"]),
        batch_size=check_integer("batch_size", asked["batch_size"]),
        learning_rate=check_positive("learning_rate", asked["learning_rate"]),
        random_state=seed,
        n_devices=None if asked["n_devices"] is None else check_integer("n_devices", asked["n_devices"]),
    )
    degree, n_centers, ridge = asked["degree"], asked["n_centers"], asked["ridge"]
    closed_form = ClosedForm(
        degree=None if degree is None else check_integer("degree", degree),
        n_centers=None if n_centers is None else check_integer("n_centers", n_centers, minimum=0),
        ridge="auto" if ridge == "auto" else check_positive("ridge", ridge),
        random_state=seed,
    )
    return training if asked["parametrization"] == "neural" else closed_form
