"""Checks of single arguments; each error names the argument, the value and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anndata import AnnData

from ..core.checks import check_bool, check_fraction, check_integer, check_list, check_option, check_positive

__all__ = [
    "check_adata",
    "check_bool",
    "check_fraction",
    "check_integer",
    "check_list",
    "check_name",
    "check_new_key",
    "check_option",
    "check_positive",
]


def check_name(name: str, value: Any) -> None:
    """Raise unless ``value`` is text, as keys of an AnnData are."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be the name of a field, as text, not {value!r}.")


def check_new_key(key: Any) -> None:
    """Raise unless results can be stored under this ``key_added``."""
    if not isinstance(key, str) or not key or "/" in key:
        raise ValueError(f"key_added={key!r} must be a name without '/', which h5ad and zarr files reserve.")


def check_adata(adata: Any) -> None:
    """Raise unless ``adata`` is one."""
    if isinstance(getattr(adata, "mod", None), Mapping):  # MuData
        parts = ", ".join(map(repr, adata.mod))
        raise TypeError(f"adata must be an AnnData, not {type(adata).__name__}; pass one of its modalities: {parts}.")
    if not isinstance(adata, AnnData):
        raise TypeError(f"adata must be an AnnData, not {type(adata).__name__}.")


def check_writable(adata: Any, copy: bool) -> None:
    """Raise unless results can be written into ``adata``, or into a copy of it."""
    check_adata(adata)
    if adata.isbacked and adata.is_view and not copy:
        raise ValueError("adata is a view of a backed AnnData and cannot be written to; call .to_memory() on it first.")
