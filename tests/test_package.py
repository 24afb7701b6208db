"""Rules of the house that no single module can hold."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import scjko as sj

ROOT = Path(__file__).parents[1]
SOURCE = Path(sj.__file__).parent
NAMESPACES = ("datasets", "get", "pl", "tl")
PUBLIC = [
    (f"{namespace}.{name}", getattr(getattr(sj, namespace), name))
    for namespace in NAMESPACES
    for name in getattr(sj, namespace).__all__
] + [("benchmarks.generate", sj.benchmarks.generate), ("benchmarks.gallery", sj.benchmarks.gallery)]
#: Their examples need other packages; tests/external runs them.
EXTERNAL = [
    ("external.cellrank.velocity_kernel", sj.external.cellrank.velocity_kernel),
    ("external.cellrank.realtime_kernel", sj.external.cellrank.realtime_kernel),
    ("external.moscot.couplings", sj.external.moscot.couplings),
]


def imported(path: Path) -> set[str]:
    """The modules that a file imports, relative ones by their full name."""
    package = ["scjko", *path.relative_to(SOURCE).parts[:-1]]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names.add(".".join([*base, *([node.module] if node.module else [])]))
    return names


@pytest.mark.parametrize("path", sorted((SOURCE / "core").glob("*.py")), ids=lambda path: path.stem)
def test_the_core_knows_nothing_of_anndata_plots_or_the_rest_of_the_package(path):
    for name in imported(path):
        assert name.split(".")[0] not in {"anndata", "scanpy", "matplotlib", "tqdm", "pandas"}
        if name.startswith("scjko"):
            assert name.startswith("scjko.core")
    assert "print(" not in path.read_text()


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_stay_small_and_run_no_code_from_data(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    assert not re.search(r"import pickle|\beval\(|\bexec\(|allow_pickle|jax\.config", text)


def test_importing_sets_nothing_up_and_needs_no_optional_package():
    optional = {"cellrank", "scvelo", "moscot", "distributed", "mudata"}
    code = (
        "import logging, sys, scjko; print(logging.getLogger('scjko').handlers, logging.root.handlers);"
        f"print(sorted({optional} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] []", "[]"]


@pytest.mark.parametrize(("name", "function"), PUBLIC + EXTERNAL)
def test_public_functions_follow_scanpys_manners(name, function):
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= 3
    assert all(p.annotation is not p.empty for p in parameters)
    if not name.startswith(("datasets", "benchmarks", "external.moscot")):
        assert positional[0].name == "adata"
    document = inspect.getdoc(function)
    assert document is not None and "Returns\n-------" in document and "Examples\n--------" in document
    for parameter in parameters:
        assert re.search(rf"^{parameter.name}$", document, re.M), f"{parameter.name} is not documented"


@pytest.mark.parametrize(("name", "function"), PUBLIC)
def test_examples_in_docstrings_run(name, function):
    module = importlib.import_module(function.__module__)
    (case,) = (c for c in doctest.DocTestFinder(recurse=False).find(function, name, module=module))
    assert case.examples
    assert doctest.DocTestRunner().run(case).failed == 0


def test_every_public_name_is_in_the_api_page():
    page = (ROOT / "docs" / "api.md").read_text()
    for name, _ in PUBLIC + EXTERNAL:
        assert f"`sj.{name}" in page, f"{name} is not in docs/api.md"
    for name in sj.benchmarks.__all__:
        assert re.search(rf"`(sj\.benchmarks)?\.{name}\b", page), f"benchmarks.{name} is not in docs/api.md"
    for method in ("potential", "gradient", "hessian", "step", "simulate"):
        assert f"`.{method}(" in page


def test_every_module_has_its_place_in_the_architecture():
    page = (ROOT / "docs" / "architecture.md").read_text()
    for path in SOURCE.rglob("*.py"):
        if path.name != "__init__.py":
            assert f"`{path.relative_to(SOURCE)}`" in page, f"{path} is not in docs/architecture.md"


def test_the_change_log_knows_this_version():
    log = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{sj.__version__}]" in log or "## [Unreleased]" in log


def test_the_entry_for_the_ecosystem_list_is_that_of_this_version():
    entry = (ROOT / "meta.yaml").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in (f"name: {project['name']}", f"version: v{project['version']}", f"license: {project['license']}"):
        assert f"\n{line}\n" in entry
