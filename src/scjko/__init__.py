"""Learn the energy behind a time-course single-cell experiment."""

from importlib.metadata import version

from . import benchmarks, datasets, external, get, pl, tl

__all__ = ["benchmarks", "datasets", "external", "get", "pl", "tl"]

__version__ = version("scjko")
