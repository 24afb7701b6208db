"""AnnData files for the command line: read whatever the format, written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import anndata
from anndata import AnnData

#: Formats by the ending of the name.
ENDINGS = (".h5ad", ".zarr")
#: One of these is in every zarr store, of the third and of the second version of the format.
STORE = ("zarr.json", ".zgroup")


def read(path: Path) -> AnnData:
    """The AnnData in an h5ad file or a zarr store."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    _check_ending(path)
    try:
        return anndata.read_zarr(path) if path.suffix == ".zarr" else anndata.read_h5ad(path)
    except MemoryError:
        raise
    except Exception as error:  # h5py, zarr and anndata have many names for it
        raise ValueError(f"{path} is not an AnnData file ({type(error).__name__}: {_first_line(error)})") from error


def check_output(path: Path, source: Path, force: bool) -> None:
    """Raise unless ``path`` may be written: a format we have, not the input, and not there unless that is forced."""
    _check_ending(path)
    if path.resolve() == source.resolve():
        raise ValueError(f"{path} is the input, which is never changed; choose another output")
    if source.resolve() in path.resolve().parents:
        raise ValueError(f"{path} lies in the input, which is never changed; choose another output")
    check_free(path, force)


def check_free(path: Path, force: bool) -> None:
    """Raise unless a file may be written there."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} is there already; --force replaces it")
    if path.is_dir() and any(path.iterdir()) and not any((path / name).exists() for name in STORE):
        raise FileExistsError(f"{path} is a folder, but no zarr store; it is not replaced")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"the folder {path.resolve().parent} does not exist")
    try:  # before anything is computed
        tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise OSError(f"the folder {path.resolve().parent} cannot be written to ({error.strerror})") from error


def write(adata: AnnData, path: Path) -> None:
    """Write an AnnData beside its place and put it there when it is whole: a killed process leaves no half file.

    What was there is kept until then. A folder cannot be replaced by another in one step, so it is put aside for a
    moment; a process killed in that moment leaves it there, and the next write puts it back.
    """
    beside, aside = (path.with_name(f".{path.stem}.{word}{path.suffix}") for word in ("part", "old"))
    _put_back(aside, path)
    _remove(beside)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Writing zarr v2 data")  # which version it is, anndata decides
            adata.write_zarr(beside) if path.suffix == ".zarr" else adata.write_h5ad(beside)
        if path.is_dir() or path.exists() and beside.is_dir():
            os.replace(path, aside)
        os.replace(beside, path)
    finally:
        _put_back(aside, path)
        _remove(beside)


def write_text(text: str, path: Path) -> None:
    """Write a text file, whole or not at all."""
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        _remove(beside)


def _check_ending(path: Path) -> None:
    if path.suffix not in ENDINGS:
        raise ValueError(f"{path} must end in {' or '.join(ENDINGS)}")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _put_back(aside: Path, path: Path) -> None:
    """What was put aside in its place again, or removed if something stands there now."""
    if aside.exists() and not path.exists():
        os.replace(aside, path)
    else:
        _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
