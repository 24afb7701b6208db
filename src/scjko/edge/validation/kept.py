"""Results of validations in ``uns``: those of every protocol side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
from anndata import AnnData

from ..checks import check_new_key

COLUMNS = ["protocol", "split", "time", "method", "emd", "n_source", "n_target"]


class Kept(NamedTuple):
    """What earlier validations stored."""

    frame: pd.DataFrame | None
    verdicts: Mapping[str, str]


def kept(adata: AnnData, key: str) -> Kept:
    """What stands where the result is to be stored, if that is an earlier one."""
    check_new_key(key)
    frame, verdicts = adata.uns.get(key), adata.uns.get(_verdict_key(key), {})
    table = frame is None or (isinstance(frame, pd.DataFrame) and set(COLUMNS) <= set(frame.columns))
    texts = isinstance(verdicts, Mapping) and all(isinstance(text, str) for text in verdicts.values())
    if not table or not texts:
        name = key if not table else _verdict_key(key)
        raise ValueError(
            f"key_added={key!r} would overwrite adata.uns[{name!r}], which is not the result of sj.tl.validate; choose "
            "another name."
        )
    return Kept(frame, {str(name): str(text) for name, text in verdicts.items()})


def side_by_side_with(held: Kept, key: str, frame: pd.DataFrame, protocol: str, verdict: str) -> dict[str, Any]:
    """Fields of ``uns`` with this result and those of other protocols."""
    if held.frame is not None:
        others = held.frame[held.frame["protocol"].astype(str) != protocol]
        frame = pd.concat([others, frame], ignore_index=True) if len(others) else frame
    return {key: frame.copy(), _verdict_key(key): {**held.verdicts, protocol: verdict}}


def _verdict_key(key: str) -> str:
    return f"{key}_verdict"
