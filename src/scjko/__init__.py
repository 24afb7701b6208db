"""Learn the energy behind a time-course single-cell experiment."""

from importlib.metadata import version

from . import benchmarks, datasets, get, tl

__all__ = ["benchmarks", "datasets", "get", "tl"]

__version__ = version("scjko")
