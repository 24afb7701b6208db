"""Methods of a validation by name, and in words."""

from __future__ import annotations

from collections.abc import Sequence

#: The method that is judged, and what is no prediction but the distance of two samples of one population.
JUDGED, FLOOR = "scjko", "floor"
#: The prediction without any move.
UNMOVED = "persistence"
#: Baselines in words.
SPOKEN = {
    UNMOVED: "not moving",
    "ot_nearest": "the transport of the nearest cell",
    "ot_neighbours": "the transport of five neighbours",
    "ot_neighbours_best": "the transport of the best number of neighbours",
    "kernel_ridge": "kernel ridge on the displacements",
    "linear_map": "a linear map",
    "kantorovich": "the Kantorovich potential",
    "ot_midpoint": "the OT midpoint",
    "ot_midpoint_prior": "the OT midpoint with the density prior",
    "ot_asynchronous": "asynchronous OT paths with the density prior",
    "mixture": "the mixture of both neighbours",
    "mean_shift": "the last mean shift",
    "neighbours": "neighbours on the pooled graph",
    "couplings": "the couplings alone",
    "frequency": "the most frequent fate",
}
#: Baselines that a sentence names at most; the others are counted.
MAX_NAMED = 3


def spoken(method: str) -> str:
    """A method in words, or its name if there are none for it."""
    return SPOKEN.get(method, method)


def named(methods: Sequence[str], joined: str = "and") -> str:
    """The first methods in words, and how many more there are."""
    n_more = len(methods) - MAX_NAMED
    if n_more < 2:  # a single one is named as briefly as counted
        return listed([spoken(method) for method in methods], joined)
    return listed([*(spoken(method) for method in methods[:MAX_NAMED]), f"{n_more} other baselines"], joined)


def listed(words: Sequence[str], joined: str = "and") -> str:
    """Words with commas between them, and ``joined`` before the last."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joined} {words[-1]}"
