"""The report: what it has, what it leaves out, and that nothing in it can do harm."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import anndata
import matplotlib.pyplot as plt
import numpy as np
import pytest

import scjko as sj
from scjko.cli.main import main
from scjko.reporting.parts.repeat import call

ALL = ["data", "verdict", "landscape", "velocities", "fates", "genes", "growth", "uncertainty", "diagnostics", "repeat"]
ELEMENTS = """html head meta title style body header main footer section nav h1 h2 h3 p a div dl dt dd ul li strong
code pre table thead tbody tr th td figure figcaption img"""
OPTIONS = {"use_rep": "X_latent", "progress": False}


class Reader(HTMLParser):
    """What a browser would find in a page: elements, attributes and text."""

    def __init__(self, page: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    @property
    def sections(self) -> list[str]:
        return [str(attributes["id"]) for tag, attributes in self.elements if tag == "section"]


@pytest.fixture(scope="module")
def bare():
    """A linear fit and nothing else."""
    adata = sj.datasets.simulated(200)
    model = sj.Linear(degree=2, n_centers=5)
    sj.tl.fit_energy(adata, "day", parametrization=model, **OPTIONS)
    return adata


def read(path) -> Reader:
    return Reader(path.read_text(encoding="utf-8"))


def test_a_report_has_every_part_with_figures_that_are_in_the_file(full, page):
    found = read(page)
    assert found.sections == ALL
    assert full.uns["jko_validation_verdict"]["last"] in found.text
    assert "90 more" not in found.text and "10 more in" in found.text, "tables have their first rows"
    images = [attributes for tag, attributes in found.elements if tag == "img"]
    assert len(images) >= 7
    assert all(str(image["src"]).startswith("data:image/png;base64,") and image["alt"] for image in images)
    assert page.stat().st_size < 5e6
    assert [path.name for path in page.parent.iterdir()] == [page.name]


def test_hostile_names_are_text(page, hostile):
    found = read(page)
    assert {tag for tag, _ in found.elements} <= set(ELEMENTS.split())
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    shown = [name.replace("\x00", "\ufffd") for name in hostile]
    assert all(name in found.text for name in shown) and "\x00" not in found.text
    assert any("default-src 'none'" in str(attributes.get("content")) for tag, attributes in found.elements)


def test_the_same_cells_give_the_same_file_also_from_disk_and_in_a_dark_style(full, page, tmp_path):
    kept = full.copy()
    del kept.uns["jko_drivers"], kept.obs["jko_fate"]  # null characters and such cannot be stored
    kept.obs = kept.obs.rename(columns={"<b>type<b>": "type"})
    kept.obs["type"] = full.obs["fate"].to_numpy()
    del kept.obsm["jko_fates"], kept.obsm["jko_fates_std"], kept.uns["jko_fates"], kept.obs["jko_terminal"]
    del kept.uns["jko_landscape"], kept.obs["jko_basin"]
    kept.uns = {name: value for name, value in kept.uns.items() if not name.endswith("_colors")}
    kept.write_h5ad(tmp_path / "fit.h5ad")
    before = plt.get_fignums()
    one = sj.report(kept, tmp_path / "one.html", cluster_key="type")
    with plt.style.context("dark_background"):
        two = sj.report(anndata.read_h5ad(tmp_path / "fit.h5ad"), tmp_path / "two.html", cluster_key="type")
    assert one.read_bytes() == two.read_bytes()
    assert plt.get_fignums() == before, "figures are closed"


def test_parts_that_were_not_computed_are_left_out_and_their_calls_listed(bare, tmp_path):
    found = read(sj.report(bare, tmp_path / "fit.html", title="A <title>", basis="latent"))
    assert found.sections == ["data", "landscape", "velocities", "diagnostics", "repeat"]
    assert f"scjko {sj.__version__}, " in found.text and f"numpy {np.__version__}, " in found.text
    assert "A <title>" in found.text
    line = found.text[found.text.index("Not computed") :]
    for tool in ("validate", "landscape", "fates", "fit_energy"):
        assert f"sj.tl.{tool}(" in line
    assert all(name in sj.tl.__all__ for name in re.findall(r"sj\.tl\.(\w+)", line))


def test_the_call_in_a_report_repeats_the_fit(bare, tmp_path):
    text = sj.report(bare, tmp_path / "fit.html").read_text(encoding="utf-8")
    code = unescape(re.search(r"<pre[^>]*><code>(.*?)</code>", text, re.S)[1])
    again = sj.datasets.simulated(200)
    exec(code, {"adata": again})
    np.testing.assert_array_equal(again.obs["jko_potential"], bare.obs["jko_potential"])


def test_calls_have_objects_labels_and_couplings_as_python_has_them():
    params = {
        "time_key": "d'ay",
        "time_values": {"early": 0.0, "late": 1.5},
        "terms": ("potential", sj.Internal(n_components=3)),
        "parametrization": sj.Stacked(
            share=0.5, network=sj.Neural(layers=(8,), epochs=3), kantorovich=sj.Kantorovich()
        ),
        "coupling": "ready-made",
    }
    seen = {}
    code = call(params).replace("sj.tl.fit_energy", "fit")
    exec(code, {"adata": None, "couplings": "mine", "fit": lambda adata, **given: seen.update(given)})
    assert seen == {**params, "coupling": "mine"}
    assert max(map(len, code.splitlines())) <= 80


def test_one_dimension_has_no_maps(tmp_path):
    adata = sj.datasets.simulated(200)
    sj.tl.fit_energy(adata, "day", 1, parametrization=sj.Linear(degree=2, n_centers=3), **OPTIONS)
    found = read(sj.report(adata, tmp_path / "fit.html", cluster_key="fate"))
    assert found.sections == ["data", "velocities", "diagnostics", "repeat"]
    assert "img" not in {tag for tag, _ in found.elements}


def test_an_embedding_without_velocities_is_drawn_on_where_it_can_be(bare, tmp_path):
    adata = bare.copy()
    adata.obsm["X_umap"] = adata.obsm["X_latent"][:, ::-1].copy()
    found = read(sj.report(adata, tmp_path / "fit.html", basis="umap"))
    assert "sj.tl.velocity_embedding(adata, 'umap')" in found.text
    assert "velocities" in found.sections


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"key": "other"}, KeyError, "No fitted energy at adata.uns\\['other'\\]"),
        ({"path": "fit.pdf"}, ValueError, "must end in .html"),
        ({"path": "none/fit.html"}, FileNotFoundError, "does not exist"),
        ({"path": "folder.html"}, IsADirectoryError, "is a folder"),
        ({"path": "there.html", "overwrite": False}, FileExistsError, "overwrite=True replaces it"),
        ({"basis": "umap"}, KeyError, "No basis='umap'"),
        ({"cluster_key": "kind"}, KeyError, "No cluster_key='kind'"),
        ({"title": 3}, TypeError, "title must be"),
        ({"uns": {"jko_validation": 1}}, ValueError, "not the result of sj.tl.validate"),
        ({"uns": {"jko_drivers": [1]}}, ValueError, "not a table"),
    ],
)
def test_bad_input_is_an_error_and_nothing_is_written(bare, tmp_path, options, error, said):
    adata = bare.copy()
    adata.uns |= options.pop("uns", {})
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "there.html").write_text("precious")
    with pytest.raises(error, match=said):
        sj.report(adata, **{"path": tmp_path / options.pop("path", "fit.html"), **options})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html", "there.html"]
    assert (tmp_path / "there.html").read_text() == "precious"


def test_the_command_line_writes_it_too(bare, tmp_path, capsys):
    bare.write_h5ad(tmp_path / "<fit>.h5ad")
    out = tmp_path / "report.html"
    arguments = ["report", str(tmp_path / "<fit>.h5ad"), "-o", str(out), "--cluster-key", "fate"]
    assert main(arguments) == 0
    assert str(out) in capsys.readouterr().out
    assert "<fit>.h5ad" in read(out).text
    for wrong, said in ((arguments, "--force"), ([*arguments, "--force", "--basis", "umap"], "No --basis 'umap'")):
        with pytest.raises(SystemExit) as stop:
            main(wrong)
        assert stop.value.code == 2 and said in capsys.readouterr().err
