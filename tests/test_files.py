"""Files are written whole or not at all, whatever stops the writing, and what was there is kept until then."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pytest
from anndata import AnnData

from scjko.cli.main import main
from scjko.edge.storage import files

#: Runs ``scjko fit -o`` (without the fit) over and over and kills it with SIGKILL at one of its calls to the file
#: system; then looks what is there, as another process, and writes once more.
KILL = """
import json, os, shutil, signal, sys
from pathlib import Path
import h5py
from scjko.cli import commands
from scjko.edge.storage import files
from scjko.cli.main import main

source, old, folder, n_moments = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
out = folder / f"fit{old.suffix}"

def command(moment):
    ticks = [0]
    def tick():
        if ticks[0] == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        ticks[0] += 1
    def heard(event, arguments):
        if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir") and str(folder) in str(arguments[0]):
            tick()
    create = h5py.Group.create_dataset
    h5py.Group.create_dataset = lambda *a, **k: (tick(), create(*a, **k))[1]
    sys.addaudithook(heard)
    fitted = {"times": [], "diagnostics": {"explained": []}}
    commands.tl.fit_energy = lambda adata, *a, **k: adata.uns.update(jko=fitted)
    main(["fit", str(source), "--time-key", "day", "-o", str(out), "--force"])
    return ticks[0]

def look():
    if not out.exists():
        return "nothing"
    return "new" if "jko" in files.read(out).uns else "old"

def write_again():
    files.write(files.read(source), out)
    return sorted(path.name for path in folder.iterdir())

def apart(function, *arguments):
    # Every step in a process of its own, which may be killed.
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        sys.stdout = open(os.devnull, "w")
        try:
            said = function(*arguments)
        except BaseException as error:
            said = f"broken: {error!r}"
        with open(theirs, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(theirs)
    with open(ours) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else "killed"

def fresh():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copytree(old, out) if old.is_dir() else shutil.copy(old, out)

fresh()
total = apart(command, -1)
spread = {k * total // n_moments for k in range(n_moments)}
for moment in sorted(spread | set(range(max(0, total - 6), total))):  # the last are those that put it in its place
    fresh()
    ended = apart(command, moment)
    print(json.dumps([moment, ended, apart(look), os.listdir(folder), apart(write_again)]), flush=True)
"""


@pytest.fixture
def cells():
    adata = AnnData(np.ones((4, 2), np.float32))
    adata.obs["day"] = [0.0, 0.0, 1.0, 1.0]
    return adata


def write(adata, path):
    adata.write_zarr(path) if path.suffix == ".zarr" else adata.write_h5ad(path)


def kill(cells, tmp_path, kind, n_moments):
    write(cells, tmp_path / "cells.h5ad")
    write(AnnData(np.zeros((3, 3), np.float32), uns={"old": 1}), tmp_path / f"old{kind}")
    arguments = [tmp_path / "cells.h5ad", tmp_path / f"old{kind}", tmp_path / "out", n_moments]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILL, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(ended == "killed" for _, ended, *_ in found) and len(found) >= min(n_moments, 8)
    seen = {state for _, _, state, *_ in found}
    for moment, _, state, there, left in found:
        # A store is out of its place for the moment between two renames; it is whole beside it.
        aside = kind == ".zarr" and f".fit.old{kind}" in there
        assert state in ("old", "new") or (state == "nothing" and aside), (moment, state, there)
        assert left == [f"fit{kind}"], "the next write takes away what was left"
    return seen


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed, which Windows cannot")


@forks
@pytest.mark.parametrize("kind", files.ENDINGS)
def test_a_process_killed_at_some_moment_leaves_the_old_file_or_the_new_one(cells, tmp_path, kind):
    assert kill(cells, tmp_path, kind, 2) >= {"old", "new"}


@forks
@pytest.mark.nightly
@pytest.mark.parametrize("kind", files.ENDINGS)
def test_and_at_many_more(cells, tmp_path, kind):
    """At every call that writes an h5ad file, and at 150 of the 850 that write a store."""
    assert kill(cells, tmp_path, kind, 150) >= {"old", "new"}


FAULTS = {
    "full disk": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "read-only folder": PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    "interrupt": KeyboardInterrupt(),
}


@pytest.mark.parametrize("kind", files.ENDINGS)
@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("when", ["half written", "at the first rename", "at the second rename"])
def test_a_write_that_fails_leaves_what_was_there(cells, tmp_path, monkeypatch, kind, there, fault, when):
    out = tmp_path / f"fit{kind}"
    if there:
        write(AnnData(uns={"old": 1}), out)
    name = "write_zarr" if kind == ".zarr" else "write_h5ad"
    whole, renames = getattr(AnnData, name), []

    def half(self, path, **options):
        whole(self, path, **options)
        raise fault

    def rename(source, target):
        if Path(target).parent == tmp_path:  # and not one within the store
            renames.append(target)
            if len(renames) == (1 if when == "at the first rename" else 2):
                raise fault
        os.rename(source, target)

    if when == "half written":
        monkeypatch.setattr(AnnData, name, half)
    else:
        monkeypatch.setattr(os, "replace", rename)
    # A file is replaced by one rename, and so is a store where there is none yet.
    fails = when != "at the second rename" or (there and kind == ".zarr")
    if fails:
        with pytest.raises(type(fault)):
            files.write(cells, out)
    else:
        files.write(cells, out)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == [out.name] * (there or not fails)
    if there or not fails:
        assert ("old" in files.read(out).uns) == fails


def test_a_store_that_a_killed_process_put_aside_is_put_back(cells, tmp_path, monkeypatch):
    """And not lost if the next write fails too."""
    write(AnnData(uns={"old": 1}), tmp_path / ".fit.old.zarr")
    monkeypatch.setattr(AnnData, "write_zarr", lambda *_, **__: (_ for _ in ()).throw(FAULTS["full disk"]))
    with pytest.raises(OSError, match="No space left"):
        files.write(cells, tmp_path / "fit.zarr")
    assert "old" in files.read(tmp_path / "fit.zarr").uns
    assert [path.name for path in tmp_path.iterdir()] == ["fit.zarr"]


def test_a_link_to_a_store_is_replaced_and_the_store_is_kept(cells, tmp_path):
    write(AnnData(uns={"old": 1}), tmp_path / "elsewhere.zarr")
    (tmp_path / "fit.zarr").symlink_to(tmp_path / "elsewhere.zarr")
    files.write(cells, tmp_path / "fit.zarr")
    assert "old" in files.read(tmp_path / "elsewhere.zarr").uns and "old" not in files.read(tmp_path / "fit.zarr").uns
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere.zarr", "fit.zarr"]


def test_a_file_in_place_of_a_store_is_replaced(cells, tmp_path):
    (tmp_path / "fit.zarr").write_text("no store")
    files.write(cells, tmp_path / "fit.zarr")
    assert files.read(tmp_path / "fit.zarr").n_obs == 4
    assert [path.name for path in tmp_path.iterdir()] == ["fit.zarr"]


@pytest.mark.parametrize("fault", [FAULTS["full disk"], FAULTS["read-only folder"]], ids=["full disk", "read-only"])
def test_the_command_line_says_so_in_one_line(cells, tmp_path, monkeypatch, capsys, fault):
    write(cells, tmp_path / "cells.h5ad")
    fitted = {"times": [], "diagnostics": {"explained": []}}
    monkeypatch.setattr("scjko.tl.fit_energy", lambda adata, *a, **k: adata.uns.update(jko=fitted))
    monkeypatch.setattr(AnnData, "write_h5ad", lambda *_, **__: (_ for _ in ()).throw(fault))
    with pytest.raises(SystemExit) as stop:
        main(["fit", str(tmp_path / "cells.h5ad"), "--time-key", "day", "-o", str(tmp_path / "fit.h5ad")])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and fault.strerror in said and "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["cells.h5ad"]


def test_text_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    out = tmp_path / "errors.csv"
    out.write_text("precious")

    def fail(*_):
        raise FAULTS["full disk"]

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        files.write_text("half", out)
    assert out.read_text() == "precious" and [path.name for path in tmp_path.iterdir()] == ["errors.csv"]


def test_reading_a_damaged_file_is_an_error_of_ours(cells, tmp_path):
    write(cells, tmp_path / "cells.h5ad")
    whole = (tmp_path / "cells.h5ad").read_bytes()
    (tmp_path / "half.h5ad").write_bytes(whole[: len(whole) // 2])
    write(cells, tmp_path / "cells.zarr")
    shutil.rmtree(tmp_path / "cells.zarr" / "obs")
    for name in ("half.h5ad", "cells.zarr"):
        with pytest.raises(ValueError, match="is not an AnnData file"):
            files.read(tmp_path / name)
    assert anndata.read_h5ad(tmp_path / "cells.h5ad").n_obs == 4
