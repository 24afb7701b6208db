"""Whether the energy predicts cells that it has not seen: the verdict of a validation."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ... import pl
from ...core.judging.names import FLOOR, JUDGED, spoken
from ...edge.validation.kept import COLUMNS
from ..figures import figure
from ..markup import Html, code, element, joined, paragraph, table
from ..subject import Part, Subject

#: What each protocol holds out, in the order of the report.
HELD_OUT = {
    "cells": "Held-out cells, moved one step",
    "times": "Time points left out, interpolated",
    "last": "Last time point, forecast",
    "clones": "Fates against clones",
}
#: Further columns of a validation, in words.
FURTHER = {
    "share_error": "error of cell type shares",
    "top1": "sisters with the most probable fate",
    "correlation": "correlation",
    "auroc": "AUROC",
    "calibration": "calibration error",
}


def verdict(subject: Subject) -> Part:
    """Verdicts in words, with the errors behind them."""
    key = f"{subject.keys.key}_validation"
    added = [] if key == "jko_validation" else [f"key_added={key!r}"]
    part = Part("verdict", "Does it predict?", missing={"a validation": subject.call("validate", *added)})
    if key not in subject.adata.uns:
        return part
    frame, texts = subject.adata.uns[key], subject.adata.uns.get(f"{key}_verdict", {})
    if not isinstance(frame, pd.DataFrame) or not set(COLUMNS) <= set(frame.columns) or not len(frame):
        raise ValueError(
            f"adata.uns[{key!r}] is not the result of sj.tl.validate; validate again, or delete it to leave it out."
        )
    frame = frame.astype({"protocol": str, "method": str})
    run = [
        *(name for name in HELD_OUT if name in set(frame["protocol"])),
        *sorted(set(frame["protocol"]) - set(HELD_OUT)),
    ]
    body = [_said(name, texts[name]) for name in run if isinstance(texts, Mapping) and name in texts]
    if frame["emd"].notna().any():
        body.append(
            figure(
                "Error of the energy and of baselines for each predicted time: lower is better. The floor is the "
                "distance of two samples of one population. Bars have the range over splits.",
                "Errors on held-out cells by time and method",
                pl.validation,
                subject.adata,
                key=key,
            )
        )
    body += [_errors(name, frame[frame["protocol"] == name]) for name in run]
    return Part(part.name, part.title, body)


def _said(protocol: str, text: object) -> Html:
    """A verdict, its claim before its figures."""
    claim, colon, figures = str(text).partition(": ")
    title = element("h3", HELD_OUT.get(protocol, protocol))
    return element("div", title, paragraph(element("strong", claim), colon, figures), class_="verdict")


def _errors(protocol: str, frame: pd.DataFrame) -> Html:
    """Means of every measure by method, the best method first."""
    wanted = {"emd": "earth mover's distance", **FURTHER}
    # Regions are those of the energy alone, and in the verdict.
    known = [name for name in wanted if name in frame.columns]
    measures = [name for name in known if frame.loc[frame[name].notna(), "method"].nunique() > 1]
    # Of clones every cell counts as much, as in the verdict.
    weight = frame["n_source"] if measures[0] != "emd" else pd.Series(1.0, frame.index)
    total = frame[measures].notna().mul(weight, axis=0).groupby(frame["method"]).sum()
    means = frame[measures].mul(weight, axis=0).groupby(frame["method"]).sum() / total.where(total > 0)
    means = means.sort_values(measures[0], ascending=measures[0] == "emd", kind="stable")
    means = pd.concat([means.drop(FLOOR, errors="ignore"), means.loc[means.index == FLOOR]])
    rows = [[_method(str(name)), *map(float, row)] for name, row in zip(means.index, means.to_numpy(), strict=True)]
    over = "splits and times" if measures[0] == "emd" else "cells"
    caption = f"{HELD_OUT.get(protocol, protocol)}: means over {over}"
    return table(caption, ["method", *(wanted[name] for name in measures)], rows, digits=4)


def _method(name: str) -> Html:
    """A method in words, and by the name that figures have."""
    words = {JUDGED: element("strong", "the fitted energy"), FLOOR: "two samples of one population"}
    return joined([words.get(name, spoken(name)), " ", code(name)])
