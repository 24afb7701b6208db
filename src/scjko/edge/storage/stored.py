"""Checks of a fit that comes from a file: every part has the kind and shape that the others require.

Files are written by others, by other versions, and by hand. What is wrong with one is said here, before anything is
computed from it or allocated by its numbers. Nothing in a fit is code: it is arrays, numbers and text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.energy.models import MEMBERS
from ...core.energy.specification import TERMS
from ...core.fitting.parametrizations import (
    PARAMETRIZATIONS,
    TIME_LABELS,
    Kantorovich,
    Linear,
    Neural,
    Parametrization,
    Stacked,
)
from ...core.schemes import SCHEMES
from ...core.timeline import Timeline
from ...core.transport import REPLACED, SOLVERS
from ...core.variation import Joined
from ..options import READY_MADE, FitOptions
from .growth import check_growth
from .parts import Unreadable, float32, mapping, numbers
from .serialized import FORMAT, layout
from .spread import check_spread, members_in

#: What ``uns[key]`` of a fit always has.
FIELDS = ("params", "times", "weights", "scaling", "version")
#: The sums beside the layers of a network, and what each of their terms has.
SUMS, SUM = ("unit", "ridge"), ("slope", "shift", "height")
#: Monomials of a higher degree overflow for every population: no fit has them.
HIGHEST_DEGREE = 1000


def check_stored(stored: Any, key: str) -> None:
    """Raise unless ``stored``, which stands at ``uns[key]``, is a whole fit that this version can read."""
    missing = [name for name in FIELDS if not isinstance(stored, Mapping) or name not in stored]
    if missing:
        raise ValueError(
            f"adata.uns[{key!r}] is not a fitted energy: it lacks {', '.join(missing)}. Something else was stored "
            "under that name; fit again with another key_added."
        )
    try:
        _check_version(stored["version"], stored.get("format", 1))
        _check_fit(stored)
    except Unreadable as error:
        raise ValueError(
            f"The fit at adata.uns[{key!r}] cannot be read: {error}. It was changed or damaged after it was written, "
            "or is of another version; fit again with sj.tl.fit_energy."
        ) from None


def _check_version(written: Any, form: Any) -> None:
    """Files of earlier versions open; those of a later format or major version need not."""
    ours, theirs = (re.match(r"(\d+)\.", str(text)) for text in (version("scjko"), written))
    if theirs is None:
        raise Unreadable(f"version is {written!r}, no number of a version")
    if ours is not None and int(theirs[1]) > int(ours[1]):
        raise Unreadable(f"it was written by scjko {written}, and this is {version('scjko')}, which is older")
    if numbers(form, "format", (), whole=True) not in (1, FORMAT):
        raise Unreadable(
            f"it has format {form}, written by scjko {written}, and this is {version('scjko')}, which reads formats up "
            f"to {FORMAT}; update scjko"
        )


def _check_fit(stored: Mapping[str, Any]) -> None:
    times = numbers(stored["times"], "times", (None,))
    if len(times) < 2 or not (np.diff(times) > 0).all():
        raise Unreadable("times are not two or more increasing numbers")
    params = _check_params(mapping(stored["params"], "params"), "format" in stored)
    n_dims = int(params["n_pcs"])
    scaling = mapping(stored["scaling"], "scaling", ("center", "length", "speed", "offsets"))
    numbers(scaling["center"], "scaling/center", (n_dims,))
    current = "format" in stored
    speeds = (len(times) - 1,) if current else ()
    shapes: dict[str, tuple[int | None, ...]] = {"length": (), "speed": speeds, **({"reach": ()} if current else {})}
    for name, shape in shapes.items():
        if not (numbers(scaling.get(name), f"scaling/{name}", shape) > 0).all():
            raise Unreadable(f"scaling/{name} is not above zero")
    if current:
        _check_forecast(mapping(stored.get("forecast"), "forecast", ("damping", "ratio", "n_judged")))
    numbers(scaling["offsets"], "scaling/offsets", (len(times) - 1, 2))
    _check_weights(stored, params, times, n_dims)
    if "spread" in stored:
        check_spread(stored)
    if "growth" in stored:
        check_growth(stored["growth"], n_dims, len(times) - 1)
    if "whitening" in stored:
        whitening = mapping(stored["whitening"], "whitening", ("mean", "std"))
        numbers(whitening["mean"], "whitening/mean", (n_dims,))
        if not (numbers(whitening["std"], "whitening/std", (n_dims,)) > 0).all():
            raise Unreadable("whitening/std is not above zero")
    couplings = mapping(stored.get("couplings"), "couplings", ("solver", "n_source", "n_target"))
    for name in ("n_source", "n_target"):
        numbers(couplings[name], f"couplings/{name}", (len(times) - 1,), whole=True)
    solvers = np.atleast_1d(couplings["solver"])
    if solvers.shape != (len(times) - 1,) or not {str(name) for name in solvers} <= {
        *SOLVERS,
        *REPLACED,
        READY_MADE,
    } - {"auto"}:
        raise Unreadable(f"couplings/solver does not name a solver for each of {len(times) - 1} intervals")
    for name, losses in mapping(stored.get("history", {}), "history").items():
        numbers(losses, f"history/{name}", None)


def _check_forecast(forecast: Mapping[str, Any]) -> None:
    if not 0 <= numbers(forecast["damping"], "forecast/damping", ()) <= 1:
        raise Unreadable("forecast/damping is not between zero and one")
    if numbers(forecast["n_judged"], "forecast/n_judged", (), whole=True) > 0:
        numbers(forecast["ratio"], "forecast/ratio", ())  # of none judged it is NaN


def _check_params(params: Mapping[str, Any], current: bool) -> Mapping[str, Any]:
    choices: dict[str, Any] = {
        "parametrization": PARAMETRIZATIONS,
        "scheme": SCHEMES,
        "time_varying": (True, False, "smooth"),
    }
    if not current:
        choices["time_label"] = TIME_LABELS
    for name, options in choices.items():
        _check_choice(params.get(name), f"params/{name}", options)
    kind = PARAMETRIZATIONS[params["parametrization"]]
    if params["time_varying"] not in kind.variations:
        raise Unreadable("params/time_varying is 'smooth', which a neural potential cannot be")
    for name in ("time_key", "use_rep", "coupling", *(name for name in ("weight_key", "growth") if name in params)):
        if not isinstance(params.get(name), str):
            raise Unreadable(f"params/{name} is {params.get(name)!r}, no name of a field")
    _check_choice(params["coupling"], "params/coupling", (*SOLVERS, READY_MADE))
    least = {"n_pcs": 1, "random_state": 0} | ({} if current else {"coupling_batch": 2})
    for name, lowest in least.items():
        value = numbers(params.get(name), f"params/{name}", (), whole=True)
        if value < lowest:
            raise Unreadable(f"params/{name} is {value}, below {lowest}")
    if not current and not numbers(params.get("epsilon"), "params/epsilon", ()) > 0:
        raise Unreadable("params/epsilon is not above zero")
    if "time_values" in params:
        told = mapping(params["time_values"], "params/time_values", ("labels", "times"))
        numbers(told["times"], "params/time_values/times", (len(np.atleast_1d(told["labels"])),))
    layers = np.atleast_1d(numbers(_layers(params), "params/layers", None, whole=True))
    if layers.ndim > 1 or (layers < 1).any():
        raise Unreadable("params/layers are not widths of layers")
    try:
        FitOptions.read(params)
    except (TypeError, ValueError, KeyError) as error:
        raise Unreadable(f"params are not those of a fit ({error})") from None
    return params


def _check_choice(value: Any, where: str, options: Iterable[Any]) -> None:
    if not isinstance(value, str | bool | np.bool_) or value not in tuple(options):
        raise Unreadable(f"{where} is {value!r}, none of {', '.join(map(repr, options))}")


def _layers(params: Mapping[str, Any]) -> Any:
    """The widths of the layers of a network; of other energies there are none."""
    kind = params["parametrization"]
    if kind == Stacked.name:
        own = mapping(params.get(kind), f"params/{kind}", ("share", "network", "chance"))
        return mapping(own["network"], f"params/{kind}/network").get("layers")
    if kind != Neural.name:
        return np.zeros(0, np.int64) + 1
    return mapping(params.get(Neural.name, params), "params/neural").get("layers")


def _check_model(
    kind: Parametrization, model: Mapping[str, Any], where: str, n_dims: int, told: int, params: Mapping[str, Any]
) -> None:
    if isinstance(kind, Linear):
        _check_features(model, where, n_dims, told, params)
    elif isinstance(kind, Kantorovich):
        _check_envelopes(model, where, n_dims, told)
    else:
        _check_network(model, where, n_dims, told, params)


def _check_weights(stored: Mapping[str, Any], params: Mapping[str, Any], times: NDArray[Any], n_dims: int) -> None:
    weights = mapping(stored["weights"], "weights", ("potential",))
    strange = [term for term in weights if term not in TERMS]
    if strange:
        raise Unreadable(f"weights has {strange[0]!r}, none of {', '.join(map(repr, TERMS))}")
    form = layout(stored)
    n_inputs = form.variation.n_inputs(Timeline(times), form.scheme.anchors)
    for term, told in (("potential", n_inputs), ("interaction", 1)):
        if term in weights:
            kind = FitOptions.read(params).parametrization
            model, where = mapping(weights[term], f"weights/{term}"), f"weights/{term}"
            if not isinstance(kind, Stacked) or not isinstance(form.variation, Joined):
                _check_model(kind, model, where, n_dims, told, params)
                continue
            mapping(model, where, [f"part{k}" for k in range(len(kind.parts))], only=True)
            for number, ((one, _), variation) in enumerate(zip(kind.parts, form.variation.parts, strict=True)):
                own, told = f"{where}/part{number}", variation.n_inputs(Timeline(times), form.scheme.anchors)
                _check_model(one, mapping(model[f"part{number}"], own), own, n_dims, told, params)
    if "internal" in weights:
        beta = mapping(weights["internal"], "weights/internal", ("beta",))["beta"]
        if float32(beta, "weights/internal/beta", ()) < 0:
            raise Unreadable("weights/internal/beta is below zero")
    for name, term in (("populations", "interaction"), ("mixtures", "internal")):
        if (term in weights) != (name in stored):
            raise Unreadable(f"it has one of {name} and weights/{term} without the other")
    inner = {k + anchor for k in range(len(times) - 1) for anchor in form.scheme.anchors}
    places = [f"{place:g}" for place in sorted({*range(len(times)), *inner})]
    for k in places:
        if "populations" in stored:
            part = _part(stored, "populations", k, places, ("points", "weight"))
            n = len(float32(part["points"], f"populations/{k}/points", (None, n_dims)))
            float32(part["weight"], f"populations/{k}/weight", (n,))
        if "mixtures" in stored:
            part = _part(stored, "mixtures", k, places, ("log_weights", "means", "precisions"))
            n = len(numbers(part["log_weights"], f"mixtures/{k}/log_weights", (None,)))
            numbers(part["means"], f"mixtures/{k}/means", (n, n_dims))
            numbers(part["precisions"], f"mixtures/{k}/precisions", (n, n_dims, n_dims))


def _part(stored: Mapping[str, Any], name: str, k: str, places: list[str], fields: Sequence[str]) -> Mapping[str, Any]:
    parts = mapping(stored[name], name, places)
    if len(parts) > len(places):
        raise Unreadable(f"{name} are of {len(parts)} snapshots, and there are {len(places)}")
    return mapping(parts[k], f"{name}/{k}", fields, only=True)


def _check_network(model: Mapping[str, Any], where: str, n_dims: int, told: int, params: Mapping[str, Any]) -> None:
    layers = np.atleast_1d(_layers(params))
    members = members_in(params)
    first = () if members is None else (members,)
    widths = [n_dims + told, *map(int, layers), 1]
    names = [f"Dense_{i}" for i in range(len(widths) - 1)]
    # Networks in few dimensions, and those of earlier versions, have nothing beside the layers.
    sums = [f"{kind}_{part}" for kind in SUMS if any(f"{kind}_{p}" in model for p in SUM) for part in SUM]
    mapping(model, where, [*names, *sums], only=True)
    if "unit_height" in sums:
        n = float32(model["unit_height"], f"{where}/unit_height", (*first, None, n_dims)).shape[-2]
        for part in SUM:
            float32(model[f"unit_{part}"], f"{where}/unit_{part}", (*first, n, n_dims))
    if "ridge_height" in sums:
        n = float32(model["ridge_height"], f"{where}/ridge_height", (*first, None)).shape[-1]
        float32(model["ridge_slope"], f"{where}/ridge_slope", (*first, n_dims + told, n))
        float32(model["ridge_shift"], f"{where}/ridge_shift", (*first, n))
    for name, n, m in zip(names, widths[:-1], widths[1:], strict=True):
        dense = mapping(model[name], f"{where}/{name}", ("kernel", "bias"), only=True)
        float32(dense["kernel"], f"{where}/{name}/kernel", (*first, n, m))
        float32(dense["bias"], f"{where}/{name}/bias", (*first, m))


def _check_envelopes(model: Mapping[str, Any], where: str, n_dims: int, n_places: int) -> None:
    mapping(model, where, names := [str(place) for place in range(n_places)], only=True)
    for name in names:
        own = mapping(model[name], f"{where}/{name}", ("points", "heights", "softness", "scale"), only=True)
        shape = float32(own["heights"], f"{where}/{name}/heights", (None, None)).shape
        float32(own["points"], f"{where}/{name}/points", (*shape, n_dims))
        float32(own["scale"], f"{where}/{name}/scale", ())
        if not shape[0] or not shape[1]:
            raise Unreadable(f"{where}/{name}/heights is empty")
        if not float32(own["softness"], f"{where}/{name}/softness", ()) > 0:
            raise Unreadable(f"{where}/{name}/softness is not above zero")


def _check_features(model: Mapping[str, Any], where: str, n_dims: int, n_mixed: int, params: Mapping[str, Any]) -> None:
    together = [MEMBERS] if MEMBERS in model else []
    mapping(model, where, ["exponents", "centers", "width", "theta", *together], only=True)
    exponents = numbers(model["exponents"], f"{where}/exponents", (None, n_dims), whole=True)
    if exponents.size and (exponents.min() < 0 or exponents.sum(axis=1).max() > HIGHEST_DEGREE):
        raise Unreadable(f"{where}/exponents are not powers from 0 to {HIGHEST_DEGREE}")
    n_centers = len(float32(model["centers"], f"{where}/centers", (None, n_dims)))
    if not float32(model["width"], f"{where}/width", ()) > 0:
        raise Unreadable(f"{where}/width is not above zero")
    shape = n_mixed, len(exponents) + n_centers
    float32(model["theta"], f"{where}/theta", shape)
    if together:
        float32(model[MEMBERS], f"{where}/{MEMBERS}", (members_in(params), *shape))
