"""Fields of an AnnData: read where they are a fit, and written all or none."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
from anndata import AnnData, ImplicitModificationWarning

from ..checks import check_adata, check_name, check_new_key
from ..keys import Keys
from ..snapshots import Whitening
from .stored import FIELDS, check_stored

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


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a fit is computed with."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def time_values_from_uns(stored: Mapping[str, Any]) -> dict[str, float] | None:
    """What the user said that the time labels stand for, by the text of the label."""
    told = stored["params"].get("time_values")
    return None if told is None else dict(zip(map(str, told["labels"]), map(float, told["times"]), strict=True))


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


def write_fields(adata: AnnData, **slots: Mapping[str, Any]) -> None:
    """Write fields into slots such as ``obs`` and ``obsm``, all or, if anything goes wrong or is interrupted, none."""
    with restored_on_error(adata, **slots), warnings.catch_warnings():
        # A view becomes data of its own when written to, which is what the caller requested.
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
