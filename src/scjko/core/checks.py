"""Checks of single arguments; each error names the argument, the value and the remedy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def check_option(name: str, value: Any, options: Iterable[Any]) -> None:
    """Raise unless ``value`` is one of ``options``; the message lists them."""
    options = tuple(options)
    if not isinstance(value, Hashable) or value not in options:
        raise ValueError(f"{name}={value!r} is not an option; choose one of {', '.join(map(repr, options))}.")


def check_integer(name: str, value: Any, minimum: int = 1) -> int:
    """``value`` as an int of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number of at least {minimum}, not {value!r}.")
    if value < minimum:
        raise ValueError(f"{name}={value} is too small; it must be at least {minimum}.")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """``value`` as a finite float above zero."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number above zero, not {value!r}.")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name}={value} must be finite and above zero.")
    return number


def check_fraction(name: str, value: Any) -> float:
    """``value`` as a float from zero to below one."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number from 0 to below 1, not {value!r}.")
    if not 0 <= float(value) < 1:
        raise ValueError(f"{name}={value} must be from 0 to below 1.")
    return float(value)


def check_bool(name: str, value: Any) -> bool:
    """``value``, if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def check_list(name: str, value: Any) -> tuple[Any, ...]:
    """``value`` as a tuple, if it is a list of things."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list, not {value!r}.")
    return tuple(value)
