"""Energies to and from ``uns``: plain numpy, numbers and strings, which h5ad and zarr keep bit for bit. No pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from ...core.energy.density import Mixture
from ...core.energy.energy import Energy
from ...core.energy.envelopes import KantorovichPotential, MeanPotential
from ...core.energy.interactions import Population
from ...core.energy.models import EnsemblePotential, LinearPotential, Model, NeuralPotential
from ...core.energy.terms import InteractionTerm, InternalTerm, PotentialTerm, Units
from ...core.fitting.parametrizations import Kantorovich, Neural, Stacked
from ...core.fitting.problem import common_speed
from ...core.motion.forecast import Forecast
from ...core.schemes import Scheme, scheme_of, secant_of
from ...core.timeline import Timeline
from ...core.variation import Joined, Labelled, Separate, Smooth, Variation
from ..options import FitOptions
from .growth import growth_from_uns, growth_to_uns
from .spread import spread_from_uns, spread_to_uns

#: The format of a stored fit; those of version 0.1 have no number.
FORMAT = 2


def energy_to_uns(energy: Energy) -> dict[str, Any]:
    """The entries of ``uns[key]`` from which :func:`energy_from_uns` rebuilds ``energy``, next to ``params``."""
    potential, interaction, internal = energy.potential_term, energy.interaction_term, energy.internal_term
    units = energy.units
    weights: dict[str, Any] = {"potential": _with_exponents(potential.model, potential.weights, energy.n_dims)}
    stored: dict[str, Any] = {
        "format": FORMAT,
        "times": energy.times,
        "weights": weights,
        "scaling": {
            "center": units.center,
            "length": units.length,
            "speed": units.speed,
            "offsets": potential.offsets,
            "reach": energy.reach,
        },
    }
    if energy.growth_field is not None:
        stored["growth"] = growth_to_uns(energy.growth_field)
    if energy.spread is not None:
        stored["spread"] = spread_to_uns(energy.spread)
    if energy.forecast is not None:
        stored["forecast"] = asdict(energy.forecast)
    # One entry for each place, by its number: lists of arrays of different length cannot be written to files.
    if interaction is not None:
        weights["interaction"] = _with_exponents(interaction.model, interaction.weights, energy.n_dims)
        stored["populations"] = {f"{place:g}": part._asdict() for place, part in interaction.populations.items()}
    if internal is not None:
        weights["internal"] = {"beta": internal.beta}
        stored["mixtures"] = {f"{place:g}": dict(vars(part)) for place, part in internal.mixtures.items()}
    return stored


def energy_from_uns(stored: Mapping[str, Any]) -> Energy:
    """The energy kept in ``uns[key]``, by this version or by 0.1."""
    options, scaling, weights = FitOptions.read(stored["params"]), stored["scaling"], _copied(stored["weights"])
    form, timeline = layout(stored), Timeline(np.asarray(stored["times"], np.float64))
    speed = np.broadcast_to(np.asarray(scaling["speed"], np.float64), timeline.n_intervals)
    units = Units(np.asarray(scaling["center"], np.float64), float(scaling["length"]), speed)
    model = _potential(options, weights["potential"], form, timeline)
    offsets = np.asarray(scaling["offsets"], np.float64)
    potential = PotentialTerm(model, weights["potential"], units, timeline, form.scheme, form.variation, offsets)
    interaction, internal = None, None
    if options.terms.interaction is not None:
        kernel = _model(options, weights["interaction"], options.terms.interaction.even)
        populations = _parts(Population, stored["populations"])
        interaction = InteractionTerm(kernel, weights["interaction"], units, common_speed(units), populations)
    if options.terms.internal is not None:
        beta = float(stored["weights"]["internal"]["beta"]) * form.beta_unit
        internal = InternalTerm(beta, units, _parts(Mixture, stored["mixtures"]))
    reach, told = float(scaling.get("reach", np.inf)), stored.get("forecast")
    forecast = None
    if told is not None:
        forecast = Forecast(float(told["damping"]), float(told["ratio"]), int(told["n_judged"]))
    growth = growth_from_uns(stored["growth"], timeline) if "growth" in stored else None
    spread = spread_from_uns(stored["spread"]) if "spread" in stored else None
    return Energy(potential, interaction, internal, reach, forecast, growth, spread)


class Layout(NamedTuple):
    """What differs between the formats of a stored fit."""

    scheme: Scheme
    variation: Variation
    beta_unit: float


def layout(stored: Mapping[str, Any]) -> Layout:
    """How a stored fit is to be read."""
    options, params = FitOptions.read(stored["params"]), stored["params"]
    variation = options.parametrization.variation(params["time_varying"])
    if "format" in stored:
        return Layout(scheme_of(options.scheme, static=variation.static), variation, 1.0)
    # Version 0.1: one unit of velocities, labels by time, and the secant of an interval as the field.
    label = {"interval": "midpoints", "target": "targets"}[str(params["time_label"])]
    if not variation.static:
        kinds = {Labelled: Labelled(label, True), Separate: Separate(True), Smooth: Smooth(label)}
        variation = kinds[type(variation)]
    scaling = stored["scaling"]
    return Layout(secant_of(options.scheme), variation, float(np.mean(scaling["speed"])) * float(scaling["length"]))


def _with_exponents(model: Any, weights: Any, n_dims: int) -> dict[str, Any]:
    """The weights of a model as plain arrays, with the powers of a linear one."""
    kept: dict[str, Any] = _copied(weights)
    if isinstance(model, LinearPotential):
        kept["exponents"] = np.array(model.exponents, dtype=np.int64).reshape(-1, n_dims)
    return kept


def _potential(options: FitOptions, weights: dict[str, Any], form: Layout, timeline: Timeline) -> Model:
    """The model of a potential with these weights."""
    kind = options.parametrization
    if isinstance(kind, Kantorovich):
        return KantorovichPotential()
    if not isinstance(kind, Stacked) or not isinstance(form.variation, Joined):
        return _model(options, weights)
    widths = tuple(part.n_inputs(timeline, form.scheme.anchors) for part in form.variation.parts)
    models = (
        KantorovichPotential() if isinstance(part, Kantorovich) else _model(options, weights[f"part{k}"])
        for k, (part, _) in enumerate(kind.parts)
    )
    return MeanPotential(tuple(models), tuple(share for _, share in kind.parts), widths)


def _model(
    options: FitOptions, weights: dict[str, Any], even: bool = False
) -> NeuralPotential | EnsemblePotential | LinearPotential:
    kind = options.parametrization
    network = kind.network if isinstance(kind, Stacked) else kind
    if isinstance(network, Neural):
        # Members stand one after the other along a first axis.
        first, together = (0, False) if network.n_members is None else (1, True)
        sizes = (np.shape(weights[n])[first] if n in weights else 0 for n in ("unit_height", "ridge_height"))
        single = NeuralPotential(tuple(network.layers), even, *sizes)
        return EnsemblePotential(single) if together else single
    return LinearPotential(tuple(tuple(int(power) for power in powers) for powers in weights.pop("exponents")))


def _parts(kind: Any, stored: Mapping[str, Any]) -> dict[float, Any]:
    return {float(k): kind(**{n: np.asarray(v) for n, v in part.items()}) for k, part in stored.items()}


def _copied(tree: Any) -> Any:
    """A nested mapping of arrays as plain dicts of arrays of its own, float32 or whole numbers."""
    if isinstance(tree, Mapping):
        return {str(name): _copied(branch) for name, branch in tree.items()}
    values = np.array(tree)
    return values if np.issubdtype(values.dtype, np.integer) else values.astype(np.float32)
