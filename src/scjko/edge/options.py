"""The options of a fit: typed, checked once, recorded in ``uns`` and read back from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np

from ..core.energy.specification import Interaction, Internal, Term, Terms
from ..core.fitting.descent import device_mesh
from ..core.fitting.parametrizations import (
    PARAMETRIZATIONS,
    Kantorovich,
    Neural,
    Parametrization,
    Stacked,
    as_parametrization,
)
from ..core.schemes import SCHEMES
from ..core.transport import REPLACED, SOLVERS, Auto, Solver, as_solver
from .checks import check_bool, check_integer, check_option
from .times import by_text

#: The name under which couplings that a user handed in are recorded.
READY_MADE = "ready-made"
#: Growth that is estimated.
AUTO = "auto"
#: Options of version 0.1 that belong to an object now.
MOVED = {
    **dict.fromkeys(
        ("layers", "epochs", "batch_size", "learning_rate", "time_label", "n_devices"),
        "parametrization=sj.Neural({0}=...)",
    ),
    **dict.fromkeys(("degree", "n_centers", "ridge"), "parametrization=sj.Linear({0}=...)"),
    "epsilon": "coupling=sj.Sinkhorn(epsilon=...)",
    "coupling_batch": "coupling=sj.Batched(size=...)",
    "memory_limit": "coupling=sj.Auto(memory_limit=...)",
    "couplings": "coupling={{(t0, t1): matrix}}",
    "n_components": "terms=('potential', sj.Internal(n_components=...))",
}


Function = TypeVar("Function", bound=Callable[..., Any])


def explains_moved_options(function: Function) -> Function:
    """``function`` with an error for options of version 0.1 that says what to write in their place."""

    @wraps(function)
    def explained(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name in MOVED and name not in parameters:
                raise TypeError(f"{function.__name__} takes no {name!r}; write {MOVED[name].format(name)}.")
        return function(*args, **kwargs)

    parameters = signature(function).parameters
    return explained  # type: ignore[return-value]


@dataclass(frozen=True, eq=False, kw_only=True)
class FitOptions:
    """What a user says of a fit, beside the data: see :func:`scjko.tl.fit_energy`."""

    time_key: str
    n_pcs: int | None = None
    use_rep: str | None = None
    time_values: Mapping[Any, float] | None = None
    weight_key: str | None = None
    terms: Terms = Terms()
    parametrization: Parametrization = Stacked()
    time_varying: bool | str | None = None
    scheme: str = "both"
    solver: Solver = Auto()
    couplings: Mapping[tuple[Any, Any], Any] | None = None
    """Ready-made couplings, in place of a solver."""
    growth: str | None = None
    """A column of growth rates, or ``"auto"``."""
    whiten: bool = False
    random_state: int = 0

    @classmethod
    def of(
        cls,
        *,
        terms: Iterable[str | Term],
        parametrization: str | Parametrization,
        coupling: str | Solver | Mapping[tuple[Any, Any], Any],
        **others: Any,
    ) -> FitOptions:
        """The options as a user gives them, checked one by one and against each other."""
        if isinstance(coupling, str) and coupling == READY_MADE:
            raise ValueError(
                "coupling='ready-made' is that of a fit which was given its couplings and does not keep them; pass "
                "them again as coupling={(t0, t1): matrix}."
            )
        options = cls(
            terms=Terms.of(terms),
            parametrization=as_parametrization(parametrization),
            solver=Auto() if isinstance(coupling, Mapping) else as_solver(coupling),
            couplings=coupling if isinstance(coupling, Mapping) else None,
            **others,
        )
        options._check()
        return options

    def _check(self) -> None:
        check_option("scheme", self.scheme, SCHEMES)
        check_option("time_varying", self.time_varying, (None, *self.parametrization.variations))
        check_bool("whiten", self.whiten)
        check_integer("random_state", self.random_state, minimum=0)
        if self.growth is not None and not isinstance(self.growth, str):
            raise TypeError(f"growth must be the name of a column of adata.obs, 'auto' or None, not {self.growth!r}.")
        if self.couplings is not None and self.growth not in (None, AUTO):
            raise ValueError(
                f"growth={self.growth!r} has no effect on ready-made couplings, whose masses are what they are; use "
                "growth='auto' to read rates from them, or leave it out."
            )
        kind = self.parametrization
        network = kind.network if isinstance(kind, Stacked) else kind
        n_members = getattr(network, "n_members", None)
        if n_members is not None and self.couplings is not None and not isinstance(network, Kantorovich):
            raise ValueError(
                f"n_members={n_members} couples resampled cells anew, and ready-made couplings are those of all cells; "
                "leave out one of them."
            )
        if isinstance(network, Neural):
            device_mesh(network.n_devices)  # raises if there are not as many
            if self.time_varying is False and network.time_label != Neural.time_label:
                raise ValueError(
                    f"time_label={network.time_label!r} has no effect with time_varying=False; leave out one of them."
                )

    def check_client(self, client: Any) -> None:
        """Raise if a Dask client is given that nothing would use."""
        if client is not None and self.couplings is not None:
            raise ValueError("client has no effect with ready-made couplings: there is nothing to solve; leave it out.")

    def varies(self, n_snapshots: int) -> bool | str:
        """Whether the potential varies in time: as given, or by default."""
        if self.time_varying is None:
            return self.scheme == "both" or n_snapshots > 2
        return self.time_varying

    def recorded(self) -> dict[str, Any]:
        """The options as h5ad and zarr files take them: plain values, and a group for each object with options."""
        params: dict[str, Any] = {
            "time_key": self.time_key,
            "n_pcs": self.n_pcs,
            "use_rep": self.use_rep,
            "weight_key": self.weight_key,
            "terms": np.array(self.terms.names),
            "parametrization": self.parametrization.name,
            "time_varying": self.time_varying,
            "scheme": self.scheme,
            "coupling": self.solver.name if self.couplings is None else READY_MADE,
            "growth": self.growth,
            "whiten": self.whiten,
            "random_state": self.random_state,
        }
        parts = [self.parametrization.options(), self.solver.options() if self.couplings is None else {}]
        for name, part in zip((self.parametrization.name, self.solver.name), parts, strict=True):
            if part:
                params[name] = _storable(part)
        for term in (self.terms.interaction, self.terms.internal):
            if term is not None:
                params[term.name] = asdict(term)
        if self.time_values is not None:
            labels, times = zip(*by_text(self.time_values).items(), strict=True)
            params["time_values"] = {"labels": np.array(labels), "times": np.array(times)}
        return {name: value for name, value in params.items() if value is not None}

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> FitOptions:
        """The options recorded in ``uns``, by this version or by 0.1; ready-made couplings are not kept."""
        values = {name: _plain(value) for name, value in params.items()}
        told = values.get("time_values")
        kind = PARAMETRIZATIONS[values["parametrization"]]
        solver = REPLACED.get(values["coupling"], values["coupling"])
        flat = kind.name not in values  # version 0.1 had no groups
        if flat:
            values |= {
                "batched": {"size": values.get("coupling_batch", 1000)},
                "sinkhorn": {"epsilon": values.get("epsilon", 0.01)},
            }
        own = values if flat else values[kind.name]
        terms: dict[str, Any] = {}
        for term in (Interaction, Internal):
            if term.name in values["terms"]:
                terms[term.name] = term(**values.get(term.name, {}))
        return cls(
            time_key=values["time_key"],
            n_pcs=values.get("n_pcs"),
            use_rep=values.get("use_rep"),
            weight_key=values.get("weight_key"),
            time_varying=values.get("time_varying"),
            scheme=values["scheme"],
            random_state=values["random_state"],
            growth=values.get("growth"),
            whiten=values.get("whiten", False),
            time_values=None if told is None else dict(zip(told["labels"], told["times"], strict=True)),
            terms=Terms(**terms),
            parametrization=kind(**{name: own[name] for name in kind.names() if name in own}),
            solver=Auto() if solver == READY_MADE else SOLVERS[solver](**values.get(solver, {})),
        )

    def arguments(self) -> dict[str, Any]:
        """The options as arguments of :func:`scjko.tl.fit_energy`; those that are None are left out."""
        terms = tuple(
            name if (term := getattr(self.terms, name, None)) is None or term == type(term)() else term
            for name in self.terms.names
        )
        found = {
            "time_key": self.time_key,
            "n_pcs": self.n_pcs,
            "use_rep": self.use_rep,
            "time_values": self.time_values,
            "weight_key": self.weight_key,
            "terms": terms,
            "parametrization": self.parametrization,
            "time_varying": self.time_varying,
            "scheme": self.scheme,
            "coupling": self.solver if self.couplings is None else self.couplings,
            "growth": self.growth,
            "whiten": self.whiten,
            "random_state": self.random_state,
        }
        return {name: value for name, value in found.items() if value is not None}

    def seeded(self, random_state: int) -> FitOptions:
        """The same options with another seed."""
        return replace(self, random_state=random_state)


def _storable(value: Any) -> Any:
    """Tuples as arrays, also in groups."""
    if isinstance(value, Mapping):
        return {name: _storable(part) for name, part in value.items()}
    return np.array(value) if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    """Arrays as tuples and numpy's numbers as Python's, also in groups."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
