"""Fits to and from ``uns``: plain numpy, numbers and strings, which h5ad and zarr keep bit for bit. No pickle."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from anndata import AnnData, ImplicitModificationWarning

from ._keys import Keys
from ._snapshots import Whitening
from .core.energies import Energy
from .core.intervals import Intervals
from .core.models import NeuralPotential


def energy_to_uns(energy: Energy) -> dict[str, Any]:
    """The entries of ``uns[key]`` from which :func:`energy_from_uns` rebuilds ``energy``, next to ``params``."""
    return {
        "times": energy.times,
        "weights": _copied(energy.weights),
        "scaling": {
            "center": energy.center,
            "length": energy.length,
            "speed": energy.speed,
            "offsets": energy.offsets,
        },
    }


def energy_from_uns(stored: Mapping[str, Any]) -> Energy:
    """The energy kept in ``uns[key]``."""
    params, scaling = stored["params"], stored["scaling"]
    return Energy(
        model=NeuralPotential(tuple(int(width) for width in np.atleast_1d(params["layers"]))),
        weights=_copied(stored["weights"]),
        intervals=Intervals(np.asarray(stored["times"], np.float64), str(params["time_label"])),
        scheme=str(params["scheme"]),
        time_varying=bool(params["time_varying"]),
        center=np.asarray(scaling["center"], np.float64),
        length=float(scaling["length"]),
        speed=float(scaling["speed"]),
        offsets=np.asarray(scaling["offsets"], np.float64),
    )


def recorded(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a call as h5ad and zarr take them: no None, no tuples, no keys that are not names."""
    kept = {name: value for name, value in params.items() if value is not None}
    for name in ("terms", "layers"):
        kept[name] = np.array([kept[name]] if isinstance(kept[name], str) else list(kept[name]))
    if "time_values" in kept:
        told = kept["time_values"]
        kept["time_values"] = {
            "labels": np.array([str(label) for label in told]),
            "times": np.array(list(told.values()), np.float64),
        }
    return kept


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
    """``uns[key]``, if it holds a fit."""
    if key not in adata.uns:
        raise KeyError(f"No fitted energy at adata.uns[{key!r}]; run sj.tl.fit_energy(adata, ..., key_added={key!r}).")
    stored = adata.uns[key]
    needed = ("params", "times", "weights", "scaling", "version")
    missing = [name for name in needed if not isinstance(stored, Mapping) or name not in stored]
    if missing:
        raise ValueError(
            f"adata.uns[{key!r}] is not a fitted energy: it lacks {', '.join(missing)}. Something else was stored "
            "under that name; fit again with another key_added."
        )
    return stored


def _copied(tree: Any) -> Any:
    """A nested mapping of arrays as plain dicts of float32 arrays of its own."""
    if isinstance(tree, Mapping):
        return {str(name): _copied(branch) for name, branch in tree.items()}
    return np.array(tree, dtype=np.float32)


def write_fit(adata: AnnData, keys: Keys, *, obs: Mapping[str, Any], obsm: Mapping[str, Any], uns: Any) -> None:
    """Write all fields of a fit, or, if anything goes wrong or is interrupted, none."""
    with _restored_on_error(adata, obs=obs, obsm=obsm, uns=[keys.uns]), warnings.catch_warnings():
        # A view becomes data of its own when written to, which is what the caller asked for.
        warnings.simplefilter("ignore", ImplicitModificationWarning)
        for name, column in obs.items():
            adata.obs[name] = column
        for name, values in obsm.items():
            adata.obsm[name] = values
        adata.uns[keys.uns] = uns


@contextmanager
def _restored_on_error(adata: AnnData, **names: Iterable[str]) -> Iterator[None]:
    """Put back what stood at these names of each slot if the body fails."""
    before = {slot: dict(getattr(adata, slot)) for slot in names}
    try:
        yield
    except BaseException:
        for slot, written in names.items():
            held = getattr(adata, slot)
            for name in written:
                if name in before[slot]:
                    held[name] = before[slot][name]
                elif name in held:
                    del held[name]
        raise
