"""Expression of genes: which matrix, which genes, and blocks of cells of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy import sparse

from .checks import check_bool, check_list, check_name

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Numbers of a block that are in memory at a time, some 100 MB with their indices.
BLOCK = 1 << 23


@dataclass(frozen=True, eq=False)
class Expression:
    """The expression of genes, in memory or in a file."""

    matrix: Any
    names: pd.Index
    """The genes, one for each column."""
    label: str
    """What the matrix is called in messages."""

    @property
    def n_genes(self) -> int:
        """The number of genes."""
        return len(self.names)

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Rows and what stands there, as a sparse or a dense matrix of one block of cells."""
        n_cells = int(self.matrix.shape[0])
        size = max(1, BLOCK // max(1, self.n_genes))
        if sparse.issparse(self.matrix):  # in memory: blocks of as many numbers
            size = max(1, int(BLOCK * n_cells / max(1, self.matrix.nnz)))
            if self.matrix.format != "csr":
                yield slice(0, n_cells), self.matrix.tocsr()
                return
        for start in range(0, n_cells, size):
            rows = slice(start, min(start + size, n_cells))
            yield rows, self.matrix[rows]

    def columns(self, which: Index) -> Array:
        """The expression of some genes, dense."""
        order = np.argsort(which, kind="stable")
        parts = [_dense(block[:, np.asarray(which)[order]]) for _, block in self.blocks()]
        found = np.concatenate(parts)
        return found[:, np.argsort(order, kind="stable")]

    def lowest(self) -> float:
        """The smallest number."""
        return min(float(block.min()) for _, block in self.blocks())


def expression(adata: AnnData, layer: str | None = None, use_raw: bool = False) -> Expression:
    """The matrix that a tool is to take: ``X``, a layer, or that of ``raw``."""
    check_bool("use_raw", use_raw)
    if use_raw:
        if layer is not None:
            raise ValueError(f"use_raw=True and layer={layer!r} name two matrices; leave one out.")
        if adata.raw is None:
            raise ValueError("use_raw=True, but adata.raw is empty; leave it out to take adata.X.")
        return _unique(Expression(adata.raw.X, adata.raw.var_names, "raw.X"))
    if layer is None:
        if adata.X is None:
            raise ValueError("adata.X is empty; name the matrix with the expression by layer=...")
        return _unique(Expression(adata.X, adata.var_names, "X"))
    check_name("layer", layer)
    if layer not in adata.layers:
        there = ", ".join(map(repr, adata.layers)) or "none"
        raise KeyError(f"No layer={layer!r} in adata.layers, which has {there}.")
    return _unique(Expression(adata.layers[layer], adata.var_names, f"layers[{layer!r}]"))


def _unique(found: Expression) -> Expression:
    if not found.names.is_unique:
        raise ValueError("Genes by name need unique var_names; run adata.var_names_make_unique().")
    return found


def genes_at(names: pd.Index, genes: Iterable[str] | str | None, where: str = "adata.var_names") -> Index:
    """Where genes stand, all by default; an error names those that are nowhere, and what they may be called."""
    if genes is None:
        return np.arange(len(names))
    wanted = [genes] if isinstance(genes, str) else list(check_list("genes", genes))
    if not wanted:
        raise KeyError(f"Not in {where}: none at all; name at least one gene, or leave genes out for all.")
    found = names.get_indexer(pd.Index(wanted, dtype=object))
    unknown = [str(gene) for gene, at in zip(wanted, found, strict=True) if at < 0]
    if unknown:
        hints = [hint for gene in unknown[:5] for hint in closest(gene, names)]
        hint = (
            f"; did you mean {', '.join(map(repr, dict.fromkeys(hints)))}?" if hints else "; genes are named as there."
        )
        raise KeyError(f"Not in {where}: {', '.join(map(repr, unknown[:5]))}{hint}")
    return np.asarray(found, dtype=np.int64)


def closest(gene: str, names: pd.Index) -> list[str]:
    """The gene in another spelling of capitals, or up to two names that are near it."""
    folded = {str(name).casefold(): str(name) for name in names}
    if gene.casefold() in folded:
        return [folded[gene.casefold()]]
    return [folded[near] for near in get_close_matches(gene.casefold(), list(folded), n=2, cutoff=0.75)]


def _dense(block: Any) -> Array:
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
