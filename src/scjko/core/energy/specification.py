"""What a user says of the terms of an energy: which there are, and their options."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..checks import check_bool, check_integer, check_list, check_option

TERMS = ("potential", "interaction", "internal")


@dataclass(frozen=True, kw_only=True)
class Potential:
    """The potential V: where cells go on their own."""

    name: ClassVar[str] = "potential"


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """The interaction U: how cells attract or repel each other.

    Parameters
    ----------
    even
        Whether the kernel is even, U(−z) = U(z): two cells then push each other equally, in opposite directions.
    """

    name: ClassVar[str] = "interaction"
    even: bool = False

    def __post_init__(self) -> None:
        check_bool("even", self.even)


@dataclass(frozen=True, kw_only=True)
class Internal:
    """The internal energy β: how strongly cells spread at random.

    Parameters
    ----------
    n_components
        The largest number of Gaussians in the density of a snapshot; small snapshots have fewer.
    """

    name: ClassVar[str] = "internal"
    n_components: int = 10

    def __post_init__(self) -> None:
        check_integer("n_components", self.n_components)


Term = Potential | Interaction | Internal
_KINDS: dict[str, type[Term]] = {"potential": Potential, "interaction": Interaction, "internal": Internal}


@dataclass(frozen=True)
class Terms:
    """The terms of an energy; there is always a potential."""

    interaction: Interaction | None = None
    internal: Internal | None = None

    @classmethod
    def of(cls, terms: Iterable[str | Term]) -> Terms:
        """Terms from names, or from objects that carry options."""
        given = check_list("terms", terms)
        for term in given:
            if not isinstance(term, Term):
                check_option("terms", term, TERMS)
        found: list[Term] = [_KINDS[term]() if isinstance(term, str) else term for term in given]
        names = [term.name for term in found]
        if "potential" not in names or len(set(names)) < len(names):
            raise ValueError(f"terms={tuple(names)} must contain 'potential', and every term once.")
        options: dict[str, Any] = {term.name: term for term in found if not isinstance(term, Potential)}
        return cls(**options)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the terms, in the order of the equation."""
        return tuple(name for name in TERMS if name == "potential" or getattr(self, name) is not None)
