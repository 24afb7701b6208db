"""The embryoid bodies: from a local file of the same form, and over a local server."""

from __future__ import annotations

import hashlib
import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

import numpy as np
import pytest

import scjko as sj
from scjko.datasets import _embryoid_body


@pytest.fixture
def small(tmp_path, rng):
    path = tmp_path / "served" / "eb_velocity_v5.npz"
    path.parent.mkdir()
    np.savez(path, pcs=rng.normal(size=(20, 7)).astype(np.float32), sample_labels=np.arange(20) % 5)
    return path


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(small, tmp_path, monkeypatch):
    """The small file served over HTTP, with an empty cache."""
    with HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=small.parent)) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        monkeypatch.setattr(_embryoid_body, "URL", f"http://127.0.0.1:{http.server_port}/{small.name}")
        monkeypatch.setattr(_embryoid_body, "SHA256", hashlib.sha256(small.read_bytes()).hexdigest())
        monkeypatch.setattr(_embryoid_body.pooch, "os_cache", lambda name: tmp_path / "cache" / name)
        yield small
        http.shutdown()


def test_days_and_labels(small):
    adata = sj.datasets.embryoid_body(small)
    assert adata.obsm["X_pca"].shape == (20, 7)
    assert list(adata.obs["day"][:5]) == [1.5, 7.5, 13.5, 19.5, 25.5]
    assert list(adata.obs["label"].cat.categories)[:2] == ["Day 00-03", "Day 06-09"]
    # The label column reads as the same times.
    sj.tl.fit_energy(adata, "label", 2, parametrization="linear", progress=False)
    np.testing.assert_allclose(adata.uns["jko"]["times"], [1.5, 7.5, 13.5, 19.5, 25.5])


def test_it_is_downloaded_once(server):
    first = sj.datasets.embryoid_body()
    server.unlink()
    np.testing.assert_array_equal(sj.datasets.embryoid_body().obsm["X_pca"], first.obsm["X_pca"])


def test_a_truncated_download_is_refused_and_not_kept(server, tmp_path):
    server.write_bytes(server.read_bytes()[:-40])
    with pytest.raises(OSError, match="its checksum differs, so the download was cut short"):
        sj.datasets.embryoid_body()
    assert not list((tmp_path / "cache").rglob("*.npz"))


def test_without_network_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(_embryoid_body, "URL", "http://127.0.0.1:9/eb_velocity_v5.npz")
    monkeypatch.setattr(_embryoid_body.pooch, "os_cache", lambda name: tmp_path / name)
    with pytest.raises(OSError, match=r"could not be downloaded .* Without network, get the file elsewhere"):
        sj.datasets.embryoid_body()


def test_what_is_not_the_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        sj.datasets.embryoid_body(tmp_path / "none.npz")
    text, other, wrong = (tmp_path / name for name in ("text.npz", "other.npz", "wrong.npz"))
    text.write_text("day,cell")
    np.savez(other, x=np.zeros(3))
    np.savez(wrong, pcs=np.zeros((3, 2)), sample_labels=np.array([0, 1, 7]))
    for path in (text, other):
        with pytest.raises(ValueError, match="is not an embryoid-body file"):
            sj.datasets.embryoid_body(path)
    with pytest.raises(ValueError, match="for each cell a label from 0 to 4"):
        sj.datasets.embryoid_body(wrong)
