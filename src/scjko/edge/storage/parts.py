"""Parts of a fit that comes from a file: groups and numbers of the required kind and shape, or an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Unreadable(Exception):
    """What is wrong with a stored fit."""


def _there(value: Any, where: str) -> None:
    if value is None:
        raise Unreadable(f"it lacks {where}")


def mapping(value: Any, where: str, names: Sequence[str] = (), only: bool = False) -> Mapping[str, Any]:
    """``value``, if it is a mapping that has these names (``only`` these)."""
    _there(value, where)
    if not isinstance(value, Mapping):
        raise Unreadable(f"{where} is {type(value).__name__}, not a group of entries")
    missing = [name for name in names if name not in value]
    if missing:
        raise Unreadable(f"{where} lacks {', '.join(missing)}")
    strange = [str(name) for name in value if only and name not in names]
    if strange:
        raise Unreadable(f"{where} has {', '.join(strange[:5])}, which no fit writes")
    return value


def numbers(value: Any, where: str, shape: tuple[int | None, ...] | None, *, whole: bool = False) -> NDArray[Any]:
    """``value`` as finite numbers of this shape, in which None stands for any length; of any shape if that is None."""
    _there(value, where)
    try:
        found = np.shape(value)
    except ValueError:  # lists of different lengths
        raise Unreadable(f"{where} is not an array") from None
    # Before it is read: what claims to be huge is not.
    if shape is not None and not _fits(found, shape):
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise Unreadable(f"{where} has the shape {found}, where the rest of the fit requires ({expected})")
    values = np.asarray(value)
    if values.dtype.kind not in ("iu" if whole and values.size else "fiu"):
        raise Unreadable(f"{where} is of type {values.dtype}, not {'whole numbers' if whole else 'numbers'}")
    if not np.isfinite(values).all():
        raise Unreadable(f"{where} holds NaN or infinite numbers")
    return values


def float32(value: Any, where: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """As :func:`numbers`, and finite in single precision too."""
    values = numbers(value, where, shape)
    if values.size and np.abs(values).max() > np.finfo(np.float32).max:
        raise Unreadable(f"{where} holds numbers beyond single precision")
    return values


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(found) == len(shape) and all(n is None or n == m for n, m in zip(shape, found, strict=True))
