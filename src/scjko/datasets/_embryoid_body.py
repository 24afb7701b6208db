from __future__ import annotations

import zipfile
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pooch
from anndata import AnnData

URL = "https://github.com/KrishnaswamyLab/TrajectoryNet/raw/master/data/eb_velocity_v5.npz"
SHA256 = "17623d16dd4fe7b679aad80916d130cb2863a4cd4ee742f139a3c2eed91ba230"
#: The days that the cells of each sample were taken on.
DAYS = ((0, 3), (6, 9), (12, 15), (18, 21), (24, 27))


def embryoid_body(path: str | Path | None = None) -> AnnData:
    """Human embryonic stem cells that differentiate as embryoid bodies over 27 days.

    The data of Moon et al. (Nature Biotechnology 2019) as processed by Tong et al. (ICML 2020) and used by the paper:
    16819 cells of five samples, by their first principal components. They are downloaded on first use from the
    repository of TrajectoryNet, whose licence is for non-commercial use, and kept in the user's cache.

    Parameters
    ----------
    path
        A copy of ``eb_velocity_v5.npz``, or a file of the same form: an ``npz`` with ``pcs`` (cells by components) and
        ``sample_labels`` (0 to 4). By default the public file.

    Returns
    -------
    AnnData without genes, with

    ``obsm["X_pca"]``
        Principal components.
    ``obs["day"]``
        The middle of the days that the cell's sample spans: 1.5, 7.5, 13.5, 19.5 or 25.5.
    ``obs["label"]``
        Those days, as ``"Day 00-03"``.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.embryoid_body("eb_velocity_v5.npz")  # doctest: +SKIP
    """
    file = _download() if path is None else Path(path)
    pcs, labels = _read(file)
    days = np.array(DAYS)[labels]
    names = [f"Day {first:02d}-{last:02d}" for first, last in DAYS]
    obs = pd.DataFrame(
        {"day": days.mean(axis=1), "label": pd.Categorical.from_codes(labels, pd.Index(names))},
        index=np.arange(len(pcs)).astype(str),
    )
    return AnnData(obs=obs, obsm={"X_pca": pcs})


def _download() -> Path:
    try:
        return Path(pooch.retrieve(URL, f"sha256:{SHA256}", fname="eb_velocity_v5.npz", path=pooch.os_cache("scjko")))
    except (URLError, OSError) as error:  # requests' errors are OSErrors
        raise OSError(
            f"The embryoid-body data could not be downloaded from {URL} ({type(error).__name__}). Without network, "
            "get the file elsewhere and pass its path: embryoid_body(path='eb_velocity_v5.npz')."
        ) from error
    except ValueError as error:  # pooch's word for a wrong checksum; it keeps nothing of the file
        raise OSError(
            f"What was downloaded from {URL} is not the file it should be: its checksum differs, so the download was "
            "cut short or the file was changed. Try again, or pass the path of a copy."
        ) from error


def _read(file: Path) -> tuple[np.ndarray, np.ndarray]:
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {str(file)!r}.")
    try:
        with np.load(file) as content:
            pcs, labels = content["pcs"], content["sample_labels"]
    except (KeyError, ValueError, EOFError, OSError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise ValueError(
            f"{str(file)!r} is not an embryoid-body file: an npz with 'pcs' and 'sample_labels' is expected ({error})."
        ) from None
    if pcs.ndim != 2 or labels.shape != pcs.shape[:1] or not np.isin(labels, np.arange(len(DAYS))).all():
        raise ValueError(
            f"{str(file)!r} has 'pcs' of shape {pcs.shape} and 'sample_labels' of shape {labels.shape}; expected are "
            f"cells by components, and for each cell a label from 0 to {len(DAYS) - 1}."
        )
    return np.asarray(pcs, dtype=np.float64), labels.astype(np.int64)
