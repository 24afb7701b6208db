from __future__ import annotations

from importlib import import_module
from typing import Any


def package(name: str) -> Any:
    """An optional package; if it cannot be imported, an ImportError that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} cannot be imported ({error}); run pip install 'scjko[interop]'.") from error
