"""Plots: the landscape, the cells on it, and how far to trust them."""

from ._ancestry import ancestry
from ._animation import animation
from ._barriers import barriers
from ._couplings import couplings
from ._drivers import drivers
from ._energy_over_time import energy_over_time
from ._fates import fates
from ._growth import growth
from ._history import history
from ._interaction import interaction
from ._landscape import landscape
from ._level_curves import level_curves
from ._predictions import predictions
from ._sankey import sankey
from ._trajectories import trajectories
from ._trends import trends
from ._validation import validation
from ._velocity import velocity
from ._waddington import waddington

__all__ = [
    "ancestry",
    "animation",
    "barriers",
    "couplings",
    "drivers",
    "energy_over_time",
    "fates",
    "growth",
    "history",
    "interaction",
    "landscape",
    "level_curves",
    "predictions",
    "sankey",
    "trajectories",
    "trends",
    "validation",
    "velocity",
    "waddington",
]
