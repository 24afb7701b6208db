"""Growth: rates at which cells divide and die."""

from __future__ import annotations

import numpy as np

from ... import pl
from ..figures import figure
from ..markup import Html, beside, paragraph, stacked, table
from ..subject import Part, Subject, by_group


def growth(subject: Subject) -> Part:
    """Rates before and after the fit, and by time point and cell type."""
    part = Part("growth", "Growth")
    cells, keys = subject.cells, subject.keys
    if cells.energy.growth_field is None:
        part.missing["growth rates"] = 'sj.tl.fit_energy(..., growth="auto")'
        return part
    rates = np.asarray(cells.energy.growth(cells.coordinates, cells.times), dtype=np.float64)
    part.body.append(
        paragraph(
            f"Growth rates are births minus deaths per cell and unit of {cells.time_key}. Only differences between "
            "cells of one time point are determined."
        )
    )
    shown, tables = list[Html](), list[Html]()
    if keys.growth_coupled in subject.adata.obs or str(cells.params["growth"]) in subject.adata.obs:
        said = "Growth rates before the fit, and those of the growth field, on which halves of the cells agree."
        shown.append(
            figure(
                said,
                "Growth rates before and after the fit",
                pl.growth,
                subject.adata,
                subject.cluster_key,
                key=keys.key,
            )
        )
    for what, groups in (("time point", cells.times), ("cell type", subject.types())):
        if groups is not None:
            means = by_group(np.stack([rates, rates**2], axis=1), groups)
            rows = [
                [
                    subject.time(g) if what == "time point" else g,
                    int(n),
                    float(mean),
                    float(np.sqrt(max(square - mean**2, 0))),
                ]
                for g, n, mean, square in zip(means.index, means["cells"], means[0], means[1], strict=True)
            ]
            columns = [what, "cells", "mean rate", "std. among cells"]
            tables.append(table(f"Fitted growth rates by {what}", columns, rows))
    part.body.append(beside(*shown, stacked(*tables)))
    return part
