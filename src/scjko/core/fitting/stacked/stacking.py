"""Stacked energies: the mean of a network and a Kantorovich potential, each with its share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...energy.envelopes import MeanPotential
from ...energy.specification import Terms
from ...schemes import Scheme
from ...transport import Coupling, Solver
from ...variation import Joined
from ..descent import UPDATES, resolved
from ..ensembles.resampling import check_resampling, resampled
from ..ensembles.training import train_network
from ..parametrizations import Kantorovich, Stacked
from ..problem import Course, Formulation, Problem, Solved
from .choice import Choice, choose
from .envelopes import members, solve_kantorovich
from .field import freed, trained_field
from .networks import Trained, trained, usual_updates

logger = logging.getLogger("scjko")

#: A doubling of the training that lowers the error by more than this fraction is worth a warning.
STILL_FALLING = 0.02
#: Cells of the smallest snapshot from which on some are held out to choose by, and what is taken below that.
FEWEST, UNJUDGED = 8, 0.1


def settled(
    course: Course,
    asked: Kantorovich | Stacked,
    scheme: Scheme,
    time_varying: bool | str,
    terms: Terms,
    random_state: int,
) -> tuple[Kantorovich | Stacked, Choice | None]:
    """The parametrisation with all that it leaves open chosen, and the errors by which it was."""
    stacked = asked if isinstance(asked, Stacked) else Stacked(share=1.0, kantorovich=asked)
    obstacle = _obstacle(course, scheme, time_varying, terms)
    if obstacle is not None:
        if stacked.share:
            raise ValueError(f"A Kantorovich potential {obstacle}; use parametrization='neural' or 'linear'.")
        return replace(stacked, share=0.0, kantorovich=Kantorovich(), chance=0.0), None
    choice = None
    if stacked.left_open:
        smallest = min(int(np.count_nonzero(weight)) for weight in course.weights)
        if smallest < FEWEST:
            logger.info(
                "The smallest snapshot has %d cells, too few to hold some out: the energy is a Kantorovich potential "
                "of softness %g.",
                smallest,
                UNJUDGED,
            )
            own = stacked.kantorovich
            kantorovich = replace(own, softness=own.softness or UNJUDGED, n_members=own.n_members or 1)
            share = 1.0 if stacked.share is None else stacked.share
            stacked = replace(stacked, share=share, kantorovich=kantorovich)
        else:
            formulation = Formulation.of(course, scheme, Kantorovich().variation(True))
            choice = choose(course, formulation, stacked, random_state)
            stacked = choice.settled(stacked, course.points[0].shape[1])
            logger.info("Held-out cells are predicted best by %s.", _words(stacked))
            _warn_of_short_training(choice)
            if choice.diverged:
                logger.warning(
                    "Networks diverge on a part of the cells, so the field is read off the Kantorovich potential."
                )
                return stacked.kantorovich, choice
    return (freed(stacked, course) if isinstance(asked, Stacked) else stacked.kantorovich), choice


def _warn_of_short_training(choice: Choice) -> None:
    """Warn if a network stops at the most updates there are while its error is falling."""
    if choice.updates == UPDATES and choice.falling > STILL_FALLING:
        logger.warning(
            "Training stops after %d updates, and the error on held-out cells is still falling: by %.1f %% with the "
            "last doubling that was tried. parametrization=sj.Stacked(network=sj.Neural(epochs=...)) trains longer.",
            choice.updates,
            100 * choice.falling,
        )


def _words(stacked: Stacked) -> str:
    own = stacked.kantorovich
    plans = "one plan" if own.n_members == 1 else f"{own.n_members} plans"
    envelope = f"a Kantorovich potential of {plans}, softness {own.softness:.2g}"
    return {0.0: "a network", 1.0: envelope}.get(stacked.share or 0.0, f"the mean of a network and {envelope}")


def _obstacle(course: Course, scheme: Scheme, time_varying: bool | str, terms: Terms) -> str | None:
    """Why there can be no Kantorovich potential, if so."""
    if not time_varying:
        return "belongs to one interval, and time_varying=False requires one potential for all"
    if scheme.forward != 0:
        return f"sends cells to their partners, which scheme={scheme.name!r} would have to invert"
    if terms.names != ("potential",):
        return f"has no other terms, and terms={terms.names}"
    if any(not isinstance(coupling, Coupling) or coupling.duals is None for coupling in course.couplings):
        return "needs the dual potentials of its couplings, which only optimal or partial transport have"
    return None


def stack(
    course: Course,
    problem: Problem,
    formulation: Formulation,
    stacked: Stacked,
    updates: int | None,
    solver: Solver | None,
    random_state: int,
    on_progress: Callable[[float], object],
) -> tuple[Stacked, Solved]:
    """A network alone, or a mean of networks and a Kantorovich potential; so many updates of it if they are left open.

    Without a share a network moves no cells, but the field is read off it: envelopes have edges.
    """
    share, own = stacked.share, stacked.kantorovich
    assert share is not None
    if own.n_members is None:  # a network alone, which nothing was compared with
        network = resolved(stacked.network, len(problem.z), formulation.scheme, formulation.variation)
        solved = train_network(course, problem, formulation, network, solver, random_state, on_progress)
        return replace(stacked, network=network), solved
    together = stacked.network.n_members
    if together is not None:
        check_resampling(course)
    if share == 0 and together is not None:  # no parabolas to evaluate, so that members may have all cells
        parts = resampled(course, together, random_state)
    else:
        parts = members(course, own.n_members, random_state)
    updates = usual_updates(len(problem.z)) if updates is None else updates
    found: list[Trained] = []
    networks = [part for part, _ in stacked.parts if part is stacked.network]

    def told(fraction: float) -> None:
        on_progress(fraction / len(networks))

    if stacked.chance:
        found.append(trained_field(course, formulation, stacked, updates, random_state, told))
    if len(found) < len(networks):
        asked = stacked.network
        found.append(trained(course, parts, formulation, asked, updates, random_state, told, problem))
    solved = found[-1].solved
    settled = replace(stacked, network=found[-1].network)
    each = [one.solved for one in found]
    if share > 0:
        each.append(solve_kantorovich(course, parts, formulation, own))
    if len(each) == 1:
        return settled, solved
    weights = {f"part{k}": one.weights["potential"] for k, one in enumerate(each)}
    assert isinstance(formulation.variation, Joined)
    anchors = formulation.scheme.anchors
    widths = tuple(part.n_inputs(course.timeline, anchors) for part in formulation.variation.parts)
    model = MeanPotential(tuple(one.model for one in each), tuple(part for _, part in stacked.parts), widths)
    return settled, solved._replace(weights={"potential": weights}, model=model, parts=parts)
