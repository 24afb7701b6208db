"""Fits to and from ``uns``: plain numpy, numbers and strings, which h5ad and zarr keep bit for bit. No pickle."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
from anndata import AnnData, ImplicitModificationWarning

from ..core.energy.density import Mixture
from ..core.energy.energies import Energy
from ..core.energy.interactions import Population
from ..core.energy.models import LinearPotential, NeuralPotential
from ..core.fitting.problem import TERMS
from ..core.timeline import Intervals
from .checks import check_adata, check_name, check_new_key
from .keys import Keys
from .snapshots import Whitening
from .stored import FIELDS, check_stored, mixing
from .times import by_text

#: What decides the numbers of a fit, beside its parameters.
PACKAGES = ("scjko", "flax", "jax", "jaxlib", "numpy", "optax", "ott-jax", "POT", "scikit-learn", "scipy")


def check_free(adata: AnnData, key: str, use_rep: str) -> None:
    """Raise if a fit stored under ``key`` would overwrite something that is not an earlier fit."""
    check_new_key(key)
    held = adata.uns.get(key)
    foreign = held is not None and not (isinstance(held, Mapping) and all(name in held for name in FIELDS))
    if foreign or Keys(key).coordinates == use_rep:
        where = f"adata.uns[{key!r}]" if foreign else f"adata.obsm[{use_rep!r}], which is fitted"
        raise ValueError(f"key_added={key!r} would overwrite {where}; choose another name.")


def energy_to_uns(energy: Energy) -> dict[str, Any]:
    """The entries of ``uns[key]`` from which :func:`energy_from_uns` rebuilds ``energy``, next to ``params``."""
    stored = {
        "times": energy.times,
        "weights": _copied(energy.weights),
        "scaling": {
            "center": energy.center,
            "length": energy.length,
            "speed": energy.speed,
            "offsets": energy.offsets,
        },
    }
    # One entry for each snapshot, by its number: lists of arrays of different length cannot be written to files.
    for name in ("populations", "mixtures"):
        if getattr(energy, name):
            stored[name] = {str(k): _fields(part) for k, part in enumerate(getattr(energy, name))}
    for name, model in (("potential", energy.model), ("interaction", energy.interaction_model)):
        if isinstance(model, LinearPotential):
            stored["weights"][name]["exponents"] = np.array(model.exponents, dtype=np.int64).reshape(-1, energy.n_dims)
    return stored


def energy_from_uns(stored: Mapping[str, Any]) -> Energy:
    """The energy kept in ``uns[key]``."""
    params, scaling, weights = stored["params"], stored["scaling"], _copied(stored["weights"])
    models = {name: _model(params, weights[name]) for name in ("potential", "interaction") if name in weights}
    # Terms in the order of the fit: files sort them by name.
    weights = {term: weights[term] for term in TERMS if term in weights}
    return Energy(
        model=models["potential"],
        weights=weights,
        intervals=Intervals(np.asarray(stored["times"], np.float64), str(params["time_label"])),
        scheme=str(params["scheme"]),
        mixing=mixing(str(params["parametrization"]), params["time_varying"]),
        center=np.asarray(scaling["center"], np.float64),
        length=float(scaling["length"]),
        speed=float(scaling["speed"]),
        offsets=np.asarray(scaling["offsets"], np.float64),
        interaction_model=models.get("interaction"),
        populations=tuple(_parts(Population, stored.get("populations", {}))),
        mixtures=tuple(_parts(Mixture, stored.get("mixtures", {}))),
    )


def _model(params: Mapping[str, Any], weights: dict[str, Any]) -> NeuralPotential | LinearPotential:
    if params["parametrization"] == "neural":
        return NeuralPotential(tuple(int(width) for width in np.atleast_1d(params["layers"])))
    return LinearPotential(tuple(tuple(int(power) for power in powers) for powers in weights.pop("exponents")))


def _fields(part: Population | Mixture) -> dict[str, Any]:
    return part._asdict() if isinstance(part, Population) else dict(vars(part))


def _parts(kind: Any, stored: Mapping[str, Any]) -> list[Any]:
    return [kind(**{n: np.asarray(v) for n, v in stored[str(k)].items()}) for k in range(len(stored))]


def recorded(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a call as h5ad and zarr take them: no None, no tuples, no keys that are not names."""
    kept = {name: value for name, value in params.items() if value is not None and name != "couplings"}
    if params.get("couplings") is not None:
        kept["coupling"] = "ready-made"
    for name in ("terms", "layers"):
        kept[name] = np.array([kept[name]] if isinstance(kept[name], str) else list(kept[name]))
    if "time_values" in kept:
        labels, times = zip(*by_text(kept["time_values"]).items(), strict=True)
        kept["time_values"] = {"labels": np.array(labels), "times": np.array(times)}
    return kept


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a fit is computed with."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def time_values_from_uns(stored: Mapping[str, Any]) -> dict[str, float] | None:
    """What the user said that the time labels stand for, by the text of the label."""
    told = stored["params"].get("time_values")
    if told is None:
        return None
    return dict(zip(map(str, told["labels"]), map(float, told["times"]), strict=True))


def whitening_from_uns(stored: Mapping[str, Any]) -> Whitening | None:
    """The whitening kept in ``uns[key]``, None if the coordinates were fitted as they are."""
    kept = stored.get("whitening")
    return None if kept is None else Whitening(np.asarray(kept["mean"]), np.asarray(kept["std"]))


def fitted(adata: AnnData, key: str) -> Mapping[str, Any]:
    """``uns[key]``, if it holds a fit that can be read: every reader comes through here."""
    check_adata(adata)
    check_name("key", key)
    if key not in adata.uns:
        raise KeyError(f"No fitted energy at adata.uns[{key!r}]; run sj.tl.fit_energy(adata, ..., key_added={key!r}).")
    stored = adata.uns[key]
    check_stored(stored, key)
    return stored


def _copied(tree: Any) -> Any:
    """A nested mapping of arrays as plain dicts of arrays of its own, float32 or whole numbers."""
    if isinstance(tree, Mapping):
        return {str(name): _copied(branch) for name, branch in tree.items()}
    values = np.array(tree)
    return values if np.issubdtype(values.dtype, np.integer) else values.astype(np.float32)


def write_fields(adata: AnnData, **slots: Mapping[str, Any]) -> None:
    """Write fields into slots such as ``obs`` and ``obsm``, all or, if anything goes wrong or is interrupted, none."""
    with restored_on_error(adata, **slots), warnings.catch_warnings():
        # A view becomes data of its own when written to, which is what the caller asked for.
        warnings.simplefilter("ignore", ImplicitModificationWarning)
        for slot, fields in slots.items():
            for name, values in fields.items():
                getattr(adata, slot)[name] = values


@contextmanager
def restored_on_error(adata: AnnData, **names: Iterable[str]) -> Iterator[None]:
    """Put back what stood at these names of each slot if the body fails."""
    before = {slot: dict(getattr(adata, slot)) for slot in names if slot != "obs"}
    frame = adata.obs.copy(deep=False)
    try:
        yield
    except BaseException:
        if "obs" in names:  # whole: pandas may have been stopped with a column half inserted
            adata.obs = frame
        for slot, fields in before.items():
            held = getattr(adata, slot)
            for name in names[slot]:
                if name in fields:
                    held[name] = fields[name]
                elif name in held:
                    del held[name]
        raise
