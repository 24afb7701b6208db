from __future__ import annotations

from pathlib import Path

from anndata import AnnData

from ..edge.checks import check_bool
from ..edge.storage import files
from .page import page
from .subject import Subject, check_title

ENDINGS = (".html", ".htm")


def report(
    adata: AnnData,
    path: str | Path,
    *,
    key: str = "jko",
    title: str | None = None,
    basis: str | None = None,
    cluster_key: str | None = None,
    overwrite: bool = True,
) -> Path:
    """Write what is known of a fit into one HTML file, to send to a colleague.

    The file has words, tables and figures: the data, the verdict of a validation, the landscape, velocities, fates,
    genes, growth, standard deviations, diagnostics, and the call that repeats the fit. It loads nothing from elsewhere
    and has no scripts. Parts that were not computed are left out, and a line lists the calls that would add them. The
    same ``adata`` gives the same file.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`, and what other tools added to it.
    path
        The file to write, which ends in ``.html`` or ``.htm``.
    key
        The ``key_added`` of the fit. Its validation is the one at ``uns["jko_validation"]`` with this name for "jko".
    title
        The title of the report.
    basis
        An embedding to draw cells on, such as ``"umap"``. Defaults to the first two components that were fitted.
    cluster_key
        Column of ``adata.obs`` with cell types, to colour cells and to group tables by. Defaults to that of
        :func:`scjko.tl.fates` or :func:`scjko.tl.landscape`.
    overwrite
        Whether to replace a file that exists.

    Returns
    -------
    The path of the file. It appears there when it is complete.

    Examples
    --------
    >>> import tempfile
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization="linear", progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(sj.report(adata, f"{folder}/fit.html", cluster_key="fate").name)
    fit.html
    """
    check_bool("overwrite", overwrite)
    check_title(title)
    target = _target(path, overwrite)
    subject = Subject.of(adata, key, basis, cluster_key)
    files.write_text(page(subject, title), target)
    return target


def _target(path: str | Path, overwrite: bool) -> Path:
    """The file to write, if it may be written there: known before anything is drawn."""
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise ValueError(f"path={str(path)!r} must end in {' or '.join(ENDINGS)}.")
    if target.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder; name a file in it.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"path={str(path)!r} exists; overwrite=True replaces it.")
    files.check_free(target, force=True)
    return target
