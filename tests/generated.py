"""Generated time courses: ordinary ones, and ones as strange as real data can be."""

from __future__ import annotations

import logging
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from helpers import assert_same
from hypothesis import settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist, pdist

import scjko as sj

PACKAGE = Path(sj.__file__).parent
#: What a call may raise, if our code raises it and the data explain it: everything else has to give a result.
ERRORS = (ValueError, KeyError, TypeError, FloatingPointError, MemoryError, RuntimeError)
EXPLAINED = (
    "holds NaN or infinite|fewer than two cells|at least four|two and one are needed|leaves out a time point|"
    "is larger than the smallest snapshot|did not converge with epsilon|if it was cut short, raise epochs|"
    "needs an energy that knows where cells came from"
)
#: Cases that were tried and that failed, told at the end of a run.
CASES: Counter[str] = Counter()


@contextmanager
def case() -> Iterator[None]:
    """Count what is done inside as one case."""
    try:
        yield
    except Exception:  # what hypothesis itself stops is no case
        CASES.update(["tried", "failed"])
        raise
    CASES["tried"] += 1


def nightly() -> bool:
    """Whether many cases are asked for, of all shapes; each new shape is compiled, which takes a second or two."""
    return settings.get_current_profile_name() == "nightly"


@dataclass(frozen=True)
class Course:
    """A recipe of a time course; the numbers are drawn from its seed, so that recipes are small and shrink well."""

    sizes: tuple[int, ...]
    n_dims: int
    seed: int
    gaps: tuple[float, ...]
    scale: float = 1.0
    shift: float = 0.0
    motion: float = 1.0
    oddities: frozenset[str] = frozenset()
    dtype: str = "float64"
    container: str = "array"
    time_kind: str = "float"
    weighted: bool = False

    def points(self) -> np.ndarray:
        """The coordinates of all cells, snapshot after snapshot, as they are stored."""
        rng = np.random.default_rng(self.seed)
        drift = rng.normal(size=(len(self.sizes), self.n_dims)).cumsum(axis=0) * self.motion
        x = rng.normal(size=(sum(self.sizes), self.n_dims)) + np.repeat(drift, self.sizes, axis=0)
        if "duplicates" in self.oddities:
            x = x[rng.integers(0, max(1, len(x) // 3), len(x))]
        if "same" in self.oddities:
            x[:] = x[0]
        if "collinear" in self.oddities:
            x[:, 1:] = x[:, :1] * np.arange(1, self.n_dims)
        if "constant" in self.oddities:
            x[:, -1] = 1.0
        if "outlier" in self.oddities:
            x[0] = 1e4
        x = x * self.scale + self.shift * self.scale
        if self.dtype.startswith("float"):
            with np.errstate(over="ignore"):  # of float16: the infinite cells are there to be found
                return x.astype(self.dtype)
        most = np.iinfo(self.dtype)
        return np.clip(np.rint(x), most.min, most.max).astype(self.dtype)

    def times(self) -> pd.Series:
        """The time column of all cells."""
        numbers = np.repeat(np.concatenate([[0.0], np.cumsum(self.gaps)]), self.sizes)
        whole = np.rint(numbers).astype(int)
        return {
            "float": lambda: pd.Series(numbers),
            "float32": lambda: pd.Series(numbers.astype(np.float32)),
            "int": lambda: pd.Series(whole),
            "str": lambda: pd.Series([f"day {t}" for t in whole], dtype=object),
            "categorical": lambda: pd.Series(pd.Categorical([f"{t}h" for t in whole])),
            "timedelta": lambda: pd.Series(pd.to_timedelta(numbers, unit="D")),
        }[self.time_kind]()

    def anndata(self) -> AnnData:
        """The time course with its representation, rows in random order."""
        rng = np.random.default_rng(self.seed + 1)
        x, times = self.points(), self.times()
        order = rng.permutation(len(x))
        obs = pd.DataFrame({"time": times.iloc[order].array, "note": rng.integers(0, 9, len(x))})
        obs["weight"] = rng.choice([0.0 if "weightless" in self.oddities else 0.5, 1.0, 2.0], len(x))
        obs.index = [f"cell {i // 2 if 'names' in self.oddities else i}" for i in range(len(x))]
        kept: Any = x[order]
        if self.container == "sparse":
            kept = sparse.csr_matrix(kept.astype(np.float32) if self.dtype == "float16" else kept)
        elif self.container == "frame":
            kept = pd.DataFrame(kept, index=obs.index, columns=[f"c{i}" for i in range(self.n_dims)])
        elif self.container == "fortran":
            kept = np.asfortranarray(kept)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Observation names are not unique")
            adata = AnnData(obs=obs, obsm={"X_pca": kept}, uns={"theirs": {"a": np.arange(3)}})
            return adata[:] if "view" in self.oddities else adata


def cases(few: int, many: int) -> settings:
    """As many cases of a property: few in `make test`, and in a nightly run many."""
    return settings(max_examples=many if nightly() else few)


@st.composite
def courses(draw: Callable[..., Any], smallest: int = 2, most_dims: int = 60) -> Course:
    """Recipes of a few shapes or, in a nightly run, of many."""
    n_times = draw(st.integers(2, 12) if nightly() else st.sampled_from([2, 4]))
    # The number of dimensions first: hypothesis draws what comes first most evenly.
    n_dims = draw(st.sampled_from([d for d in (1, 2, 5, 17, 60) if d <= most_dims] if nightly() else [2]))
    sizes = draw(st.lists(st.integers(smallest, 60 if nightly() else 10), min_size=n_times, max_size=n_times))
    if nightly() and draw(st.integers(0, 19)) == 19:
        sizes[:2] = draw(st.permutations([3, 3000]))
    odd = ["duplicates", "same", "collinear", "constant", "outlier", "names", "view", "weightless"]
    return Course(
        sizes=tuple(sizes),
        n_dims=n_dims,
        seed=draw(st.integers(0, 10**6)),
        gaps=tuple(draw(st.lists(st.sampled_from([1.0, 2.0, 10.0]), min_size=n_times - 1, max_size=n_times - 1))),
        scale=10.0 ** draw(st.integers(-6, 6)),
        shift=draw(st.sampled_from([0.0, 0.0, 10.0, 1e4])),
        motion=draw(st.sampled_from([1.0, 1.0, 0.0, 30.0])),
        oddities=frozenset(draw(st.lists(st.sampled_from(odd), max_size=3))),
        dtype=draw(st.sampled_from(["float64", "float32", "float16", "int64", "int8", "uint16"])),
        container=draw(st.sampled_from(["array", "sparse", "frame", "fortran"])),
        time_kind=draw(st.sampled_from(["float", "float32", "int", "str", "categorical", "timedelta"])),
        weighted=draw(st.booleans()),
    )


def outcome(call: Callable[..., Any], adata: AnnData, *arguments: Any, **options: Any) -> Any:
    """What ``call(adata, ...)`` gives, or the error it raises, which must be ours and leave ``adata`` as it was."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Observation names are not unique")
        before = adata.copy()
    said: list[str] = []
    try:
        with heard() as said:
            return call(adata, *arguments, **options)
    except ERRORS as error:
        raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        assert raised_in.is_relative_to(PACKAGE), f"{error!r} comes from {raised_in}"
        assert re.search(EXPLAINED, str(error)), f"{error!r} is nothing that these data explain"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Observation names are not unique")
            assert_same(adata.copy(), before)
        return error
    finally:
        assert len(said) <= 4, "a storm of warnings"


@contextmanager
def heard() -> Iterator[list[str]]:
    """The warnings that scjko logs inside."""
    listener = _Listener()
    logging.getLogger("scjko").addHandler(listener)
    try:
        yield listener.said
    finally:
        logging.getLogger("scjko").removeHandler(listener)


class _Listener(logging.Handler):
    """Keeps warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def far(positions: Any, data: Any) -> np.ndarray:
    """Which positions are further from all data than three times the diameter of the data."""
    data = np.asarray(data, dtype=np.float64)
    diameter = pdist(data).max() or 1.0
    return cdist(np.asarray(positions, dtype=np.float64), data).min(axis=1) > 3 * diameter


def assert_finite(values: Any, where: str = "", *, but: tuple[str, ...] = ()) -> None:
    """Assert that all numbers in a nested mapping, frame or array are finite, but for entries of these names."""
    if hasattr(values, "items"):
        for name, part in values.items():
            if name not in but:
                assert_finite(part, f"{where}/{name}", but=but)
        return
    array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if np.issubdtype(array.dtype, np.inexact):
        assert np.isfinite(array).all(), f"{where} is not finite"
