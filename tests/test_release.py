"""What a release and the scverse list of ecosystem packages ask for, as far as it can be judged without a network."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY = yaml.safe_load((ROOT / "meta.yaml").read_text())
#: What the list's schema requires, and what it allows beside it.
REQUIRED = {"name", "description", "project_home", "documentation_home", "license", "tags", "primary_category"} | {
    *("language", "category", "install")
}
OPTIONAL = {"tutorials_home", "publications", "contact", "logo", "test_command"}
#: The part of the list's vocabulary that says something of this package.
TAGS = {"scRNA-seq", "trajectory inference", "pseudotime", "RNA velocity", "lineage tracing", "perturbation"} | {
    *("benchmarking", "deep learning", "optimal transport", "interoperability", "gene regulatory networks")
}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def test_the_entry_for_the_ecosystem_list_has_what_its_schema_requires():
    assert set(ENTRY) >= REQUIRED
    assert set(ENTRY) <= REQUIRED | OPTIONAL, "versions are read from PyPI and must not be given"
    assert 1 <= len(ENTRY["tags"]) == len(set(ENTRY["tags"])) <= 10 and set(ENTRY["tags"]) <= TAGS
    assert (
        ENTRY["primary_category"] == "scRNA-seq" and ENTRY["category"] == "ecosystem" and ENTRY["language"] == "Python"
    )


def test_the_entry_agrees_with_the_package():
    assert (ENTRY["name"], ENTRY["install"]["pypi"], ENTRY["license"]) == (*[PROJECT["name"]] * 2, PROJECT["license"])
    assert (ENTRY["project_home"], ENTRY["documentation_home"]) == (
        PROJECT["urls"]["Source"],
        PROJECT["urls"]["Documentation"],
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_have_no_more_rights_than_they_need(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for used in re.findall(r"uses: (.*)", path.read_text()):
        assert re.fullmatch(r"\./\S+|\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    for step in (step for job in workflow["jobs"].values() for step in job.get("steps", ())):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def check_release():
    spec = importlib.util.spec_from_file_location("check_release", ROOT / ".github" / "check_release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.problems


@pytest.fixture
def released(tmp_path):
    """A project that can be released as 1.2.0."""
    (tmp_path / "tests" / "files").mkdir(parents=True)
    (tmp_path / "tests" / "files" / "fit_1.2.0.h5ad").touch()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("title: x\nversion: 1.2.0\nlicense: x\n")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.0] - 2026-01-31\n\n- x\n")
    return tmp_path


def test_a_tag_that_names_the_version_everywhere_can_be_released(released):
    assert check_release()("v1.2.0", released) == []


@pytest.mark.parametrize("tag", ["v1.2.1", "1.2.0", "v1.2"])
def test_another_tag_cannot(released, tag):
    assert "the tag must be v1.2.0" in check_release()(tag, released)[0]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("CITATION.cff", "title: x\nversion: 1.1.0\n"),
        ("CHANGELOG.md", "## [Unreleased]\n\n## [1.1.0] - 2026-01-31\n"),
        ("CHANGELOG.md", "## [Unreleased]\n\n### Added\n\n- y\n\n## [1.2.0] - 2026-01-31\n"),
        ("tests/files/fit_1.2.0.h5ad", None),
    ],
    ids=["citation", "change log", "unreleased", "file of a fit"],
)
def test_nor_one_that_something_else_does_not_name(released, file, text):
    (released / file).unlink() if text is None else (released / file).write_text(text)
    (problem,) = check_release()("v1.2.0", released)
    assert Path(file).name in problem


def test_the_versions_of_the_project_agree():
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M)
