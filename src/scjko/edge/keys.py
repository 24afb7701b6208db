"""Every name written into or looked up in an AnnData, once."""

from __future__ import annotations

from dataclasses import dataclass

#: Where a representation is looked for when the user names none: scanpy 1 writes the first, scanpy 2 the second.
PCA = ("X_pca", "pca")
#: ``obs``: growth rates that are expected from genes.
GROWTH_PRIOR = "jko_growth_prior"


@dataclass(frozen=True)
class Keys:
    """The fields that belong to one fit, identified by its ``key_added``."""

    key: str = "jko"

    @property
    def uns(self) -> str:
        """``uns``: parameters, times, weights, history, couplings' summary, diagnostics, version."""
        return self.key

    @property
    def potential(self) -> str:
        """``obs``: the potential at each cell and its own time."""
        return f"{self.key}_potential"

    @property
    def potential_std(self) -> str:
        """``obs``: the standard deviation of that potential."""
        return f"{self.potential}_std"

    @property
    def growth(self) -> str:
        """``obs``: the growth rate at each cell and its own time, by the growth field."""
        return f"{self.key}_growth"

    @property
    def growth_coupled(self) -> str:
        """``obs``: the growth rate of each cell that its coupling has; NaN in the last snapshot, which has none."""
        return f"{self.key}_growth_coupled"

    @property
    def forecast(self) -> str:
        """``obs``: whether the predicted position lies beyond the last snapshot."""
        return f"{self.key}_forecast"

    @property
    def converged(self) -> str:
        """``obs`` of a prediction: whether the step of this cell was solved."""
        return f"{self.key}_converged"

    @property
    def source(self) -> str:
        """``obs`` of a prediction: the name of the cell it started from."""
        return f"{self.key}_source"

    @property
    def source_time(self) -> str:
        """``obs`` of a prediction: the time it started from."""
        return f"{self.key}_source_time"

    @property
    def side(self) -> str:
        """``obs`` of an interpolation: whether the cell was observed before or after the requested time."""
        return f"{self.key}_side"

    @property
    def weight(self) -> str:
        """``obs`` of a prediction or an interpolation: the weight of the cell, one in all for each time."""
        return f"{self.key}_weight"

    @property
    def coordinates(self) -> str:
        """``obsm``: the coordinates that were fitted."""
        return f"X_{self.key}"

    @property
    def velocity(self) -> str:
        """``obsm``: minus the gradient of the energy at each cell."""
        return f"{self.key}_velocity"

    @property
    def velocity_std(self) -> str:
        """``obsm``: the standard deviation of that velocity."""
        return f"{self.velocity}_std"

    @property
    def predicted(self) -> str:
        """``obsm``: each cell moved to the next snapshot."""
        return f"{self.key}_predicted"

    @property
    def transition(self) -> str:
        """``obsp``: the probability of each cell to become each other cell."""
        return f"{self.key}_transition"

    @property
    def fates(self) -> str:
        """``obsm`` and ``uns``: the probability of each fate, and how they were computed."""
        return f"{self.key}_fates"

    @property
    def fates_std(self) -> str:
        """``obsm``: the standard deviation of the probability of each fate over the members of the energy."""
        return f"{self.key}_fates_std"

    @property
    def fate(self) -> str:
        """``obs``: the most probable fate."""
        return f"{self.key}_fate"

    @property
    def terminal(self) -> str:
        """``obs``: the terminal set of each cell that is in one."""
        return f"{self.key}_terminal"

    @property
    def commitment(self) -> str:
        """``obs``: how certain the fate of a cell is, from 0 to 1."""
        return f"{self.key}_commitment"

    @property
    def unassigned(self) -> str:
        """``obs``: the share of the descendants of a cell that reaches no fate."""
        return f"{self.key}_unassigned"

    @property
    def descendants(self) -> str:
        """``obs`` and ``uns``: the share of the descendants of a set of cells that each cell is, time by time."""
        return f"{self.key}_descendants"

    @property
    def ancestors(self) -> str:
        """``obs`` and ``uns``: the share of the ancestors of a set of cells that each cell is, time by time."""
        return f"{self.key}_ancestors"

    @property
    def time(self) -> str:
        """``obs``: the time of each cell as a category of numbers, which CellRank requires."""
        return f"{self.key}_time"

    @property
    def landscape(self) -> str:
        """``uns``: wells, saddles, barriers and paths of the landscape."""
        return f"{self.key}_landscape"

    @property
    def basin(self) -> str:
        """``obs``: the well that each cell rolls into at its own time."""
        return f"{self.key}_basin"

    @property
    def drivers(self) -> str:
        """``uns``: the table of genes that are associated with a fate or with the potential."""
        return f"{self.key}_drivers"

    @property
    def trends(self) -> str:
        """``uns``: the table of expression along a pseudo-time."""
        return f"{self.key}_trends"

    @property
    def perturb(self) -> str:
        """``uns``: the table of what knock-outs change."""
        return f"{self.key}_perturb"

    @property
    def gene_mean(self) -> str:
        """``var`` of a prediction: the mean of each gene, around which the loadings go back to genes."""
        return f"{self.key}_mean"

    def velocity_on(self, basis: str) -> str:
        """``obsm``: the velocity on an embedding."""
        return f"{self.velocity}_{basis.removeprefix('X_')}"
