"""Programs of genes that drive the simulated fates, among genes that have no part in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..edge.checks import check_integer, check_list

Array = NDArray[np.float64]

#: Pull that a fate loses with its whole program, as a logarithm: some 20 times less.
STRENGTH = 3.0
#: Rise of the log-expression of the strongest driver from where no fate has a share in the pull to where one has all.
AMPLITUDE = 2.0
#: Weight of the weakest driver of a program in that of the strongest.
WEAKEST = 0.2
#: The program of genes that have none.
NONE = "none"


@dataclass(frozen=True)
class Programs:
    """Which gene drives which fate, and how much."""

    weight: Array
    """The weight of each gene in each fate (n_fates, n_genes), 1 for the strongest driver of a fate."""
    lost: NDArray[np.bool_]
    """Whether a gene is knocked out (n_genes,)."""

    @property
    def pull(self) -> Array:
        """The log of the strength with which each fate pulls: it falls with the share of its program that is lost."""
        return -STRENGTH * (self.weight @ self.lost) / self.weight.sum(axis=1)

    def rate(self, share: Array, rng: np.random.Generator) -> Array:
        """Expression of each gene (n_cells, n_genes), by the share of each fate in the pull on a cell."""
        base: Array = np.asarray(rng.normal(scale=0.7, size=self.weight.shape[1]))
        # Programs of all fates have as much expression: depth is shared, and otherwise inert genes would fall with the
        # fates of large programs.
        n_drivers = int(np.count_nonzero(self.weight[0]))
        base[: n_drivers * len(self.weight)] = np.tile(base[:n_drivers], len(self.weight))
        rate = np.exp(base + AMPLITUDE * share @ self.weight)
        return np.where(self.lost, 0.0, rate)

    def table(self, names: Iterable[str]) -> dict[str, Any]:
        """Columns of ``var``: the fate that each gene drives, and its share in the program of that fate."""
        labels = [*map(str, names), NONE]
        drives = self.weight.any(axis=0)
        fate = np.where(drives, self.weight.argmax(axis=0), len(self.weight))
        share = (self.weight / self.weight.sum(axis=1, keepdims=True)).sum(axis=0)
        return {"program": pd.Categorical.from_codes(fate, pd.Index(labels)), "drive": share}


def programs(n_drivers: int, knock_out: Any, genes: Sequence[str], n_fates: int) -> Programs | None:
    """The programs of ``n_drivers`` genes for each fate, the first genes of all; None without drivers."""
    check_integer("n_drivers", n_drivers, minimum=0)
    lost = [knock_out] if isinstance(knock_out, str) else [str(name) for name in check_list("knock_out", knock_out)]
    if n_drivers == 0:
        if lost:
            raise ValueError(f"knock_out={knock_out!r} has no effect without drivers; pass n_drivers=10 or so.")
        return None
    if n_drivers * n_fates > len(genes):
        raise ValueError(f"n_drivers={n_drivers} for each of {n_fates} fates are more than n_genes={len(genes)}.")
    unknown = [name for name in lost if name not in genes]
    if unknown:
        raise KeyError(f"knock_out names {unknown[0]!r}; genes are called {genes[0]!r} to {genes[-1]!r}.")
    weight = np.zeros((n_fates, len(genes)))
    for j in range(n_fates):
        weight[j, j * n_drivers : (j + 1) * n_drivers] = np.linspace(1.0, WEAKEST, n_drivers)
    return Programs(weight, np.isin(genes, lost))
