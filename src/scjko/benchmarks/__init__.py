"""The paper's experiments, its test functions and its rivals; real data, and speed."""

from . import (
    baselines,
    couplings,
    data,
    embryoid,
    failure_modes,
    general,
    lightspeed,
    scaling,
    solvers,
    speed,
    time_varying,
)
from ._functionals import Functional, functionals
from ._gallery import gallery
from ._generate import generate

__all__ = [
    "Functional",
    "baselines",
    "couplings",
    "data",
    "embryoid",
    "experiments",
    "failure_modes",
    "functionals",
    "gallery",
    "general",
    "generate",
    "lightspeed",
    "scaling",
    "solvers",
    "speed",
    "time_varying",
]

#: Every experiment by the name it has on the command line: modules with ``run``, ``table`` and ``draw``.
experiments = {
    "lightspeed": lightspeed,
    "scaling": scaling,
    "general": general,
    "couplings": couplings,
    "time-varying": time_varying,
    "failure-modes": failure_modes,
    "embryoid": embryoid,
    "data": data,
    "speed": speed,
    "solvers": solvers,
}
