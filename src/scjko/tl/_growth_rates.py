from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scanpy as sc
from anndata import AnnData
from numpy.typing import NDArray
from scipy.special import expit

from ..edge.checks import (
    check_bool,
    check_integer,
    check_list,
    check_new_key,
    check_option,
    check_positive,
    check_writable,
)
from ..edge.genes import APOPTOSIS, PROLIFERATION
from ..edge.keys import GROWTH_PRIOR
from ..edge.logging import logger
from ..edge.storage.fields import write_fields

#: Fewer genes than this are no score.
FEWEST = 5
#: Births and deaths per day, from the least to the most, and the score half-way between and its width: the
#: Waddington-OT tutorial (Schiebinger et al. 2019, Cell 176), from which moscot has them too.
LEAST, MOST = 0.3, 1.7
BIRTH, DEATH = (0.25, 0.5), (0.1, 0.2)


def growth_rates(
    adata: AnnData,
    proliferation: Sequence[str] | None = None,
    apoptosis: Sequence[str] | None = None,
    *,
    organism: Literal["human", "mouse"] = "human",
    birth: tuple[float, float] = BIRTH,
    death: tuple[float, float] = DEATH,
    day: float = 1.0,
    layer: str | None = None,
    key_added: str = GROWTH_PRIOR,
    random_state: int = 0,
    copy: bool = False,
) -> AnnData | None:
    """Growth rates from genes of proliferation and apoptosis, by a birth–death model.

    Cells are scored by :func:`scanpy.tl.score_genes`. Births per day rise with the score s of proliferation as
    0.3 + 1.4 / (1 + exp(−4 (s − c) / w)), deaths likewise with that of apoptosis, and the rate is births minus deaths
    (Schiebinger et al. 2019; moscot has the same model and parameters). Pass the column to
    :func:`scjko.tl.fit_energy` as ``growth``, or let ``growth="auto"`` start from it.

    Parameters
    ----------
    adata
        Annotated data with normalised, logarithmised expression.
    proliferation
        Genes of proliferation, as in ``var_names``. Defaults to 97 genes of the S and G2/M phases (Tirosh et al. 2016).
    apoptosis
        Genes of apoptosis. Defaults to the hallmark gene set of MSigDB (Liberzon et al. 2015, CC BY 4.0).
    organism
        Species of the default gene lists.
    birth
        The centre c of the logistic function of births, and its width w, in units of the score.
    death
        The same for deaths.
    day
        The length of a day in units of the time column: 24 if that is in hours.
    layer
        The layer with the expression. Defaults to ``X``.
    key_added
        Name of the column. :func:`scjko.tl.fit_energy` looks for the default one.
    random_state
        Seed of the control genes of the scores.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with these fields:

    ``obs["jko_growth_prior"]``
        The growth rate of each cell, per unit of the time column.
    ``obs["jko_growth_prior_proliferation"]``, ``obs["jko_growth_prior_apoptosis"]``
        The scores.

    Examples
    --------
    >>> import scanpy as sc, scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sc.pp.normalize_total(adata)
    >>> sc.pp.log1p(adata)
    >>> sj.tl.growth_rates(adata, [f"gene {g}" for g in range(20)], [f"gene {g}" for g in range(20, 40)])
    >>> bool(abs(adata.obs["jko_growth_prior"]).max() < 1.4)
    True
    """
    check_writable(adata, copy)
    check_option("organism", organism, PROLIFERATION)
    check_new_key(key_added)
    check_bool("copy", copy)
    check_integer("random_state", random_state, minimum=0)
    length = check_positive("day", day)
    shapes = {"birth": _shape("birth", birth), "death": _shape("death", death)}
    lists = {"proliferation": (proliferation, PROLIFERATION), "apoptosis": (apoptosis, APOPTOSIS)}
    found = {name: _present(adata, name, *lists[name], organism) for name in lists}
    scores = {name: _score(adata, genes, layer, random_state) for name, genes in found.items()}
    births = _logistic(scores["proliferation"], *shapes["birth"])
    rates = (births - _logistic(scores["apoptosis"], *shapes["death"])) / length
    if copy:
        adata = adata.copy()
    write_fields(adata, obs={key_added: rates, **{f"{key_added}_{name}": score for name, score in scores.items()}})
    return adata if copy else None


def _shape(name: str, value: Any) -> tuple[float, float]:
    """The centre and the width of a logistic function."""
    both = check_list(name, value)
    if len(both) != 2 or not np.isfinite(np.asarray(both, dtype=np.float64)).all():
        raise ValueError(f"{name}={value!r} must be a centre and a width, in units of the score.")
    return float(both[0]), check_positive(f"the width in {name}", both[1])


def _logistic(score: NDArray[np.float64], center: float, width: float) -> NDArray[np.float64]:
    return np.asarray(LEAST + (MOST - LEAST) * expit(4 * (score - center) / width))


def _present(
    adata: AnnData, name: str, given: Sequence[str] | None, defaults: dict[str, list[str]], organism: str
) -> list[str]:
    """Those of the genes that there are, if they suffice for a score."""
    genes = list(dict.fromkeys(map(str, defaults[organism] if given is None else check_list(name, given))))
    here = [gene for gene in genes if gene in adata.var_names]
    if len(here) < FEWEST:
        (other,) = set(defaults) - {organism}
        hint = "pass genes as they are called in adata.var_names"
        if given is None and sum(gene in adata.var_names for gene in defaults[other]) >= FEWEST:
            hint = f"the genes are called as those of {other}: use organism={other!r}"
        lacking = ", ".join(map(repr, [gene for gene in genes if gene not in here][:3]))
        raise ValueError(
            f"Only {len(here)} of the {len(genes)} genes of {name} are in adata.var_names, for instance not {lacking}; "
            f"a score needs at least {FEWEST}. "
            f"If genes were filtered, score all of them first; otherwise {hint}."
        )
    share = len(here) / len(genes)
    (logger.info if share >= 0.5 else logger.warning)("%d of %d genes of %s are present.", len(here), len(genes), name)
    return here


def _score(adata: AnnData, genes: list[str], layer: str | None, random_state: int) -> NDArray[np.float64]:
    """The score of every cell, without writing to ``adata``."""
    if layer is not None and layer not in adata.layers:
        raise KeyError(f"No layer={layer!r} in adata.layers, which has {', '.join(map(repr, adata.layers)) or 'none'}.")
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise ValueError("adata.X is empty; name the layer with the expression by layer=...")
    cells = AnnData(values, obs=adata.obs[[]].copy(), var=adata.var[[]].copy())
    sc.tl.score_genes(cells, genes, score_name="score", random_state=random_state, use_raw=False)
    return cells.obs["score"].to_numpy(dtype=np.float64)
