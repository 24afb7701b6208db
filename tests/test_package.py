"""Rules of the house that no single module can hold."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
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
] + [
    ("benchmarks.generate", sj.benchmarks.generate),
    ("benchmarks.gallery", sj.benchmarks.gallery),
    ("report", sj.report),
]
#: Their examples need other packages; tests/external runs them.
EXTERNAL = [
    ("external.cellrank.velocity_kernel", sj.external.cellrank.velocity_kernel),
    ("external.cellrank.realtime_kernel", sj.external.cellrank.realtime_kernel),
    ("external.cellrank.lineages", sj.external.cellrank.lineages),
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
            base = [*base, *(node.module.split(".") if node.module else [])]
            folder = SOURCE.joinpath(*base[1:])
            modules = {a.name for a in node.names if (folder / f"{a.name}.py").exists() or (folder / a.name).is_dir()}
            names |= {".".join([*base, name]) for name in modules if base[0] == "scjko"}
            if base[0] != "scjko" or len(modules) < len(node.names):
                names.add(".".join(base))
    return names


CORE = SOURCE / "core"
#: Rooms of the core, and modules that are a room by themselves, from the ground up: each imports those named for it.
ROOMS = {
    "checks": set(),
    "compute": set(),
    "timeline": set(),
    "variation": {"timeline"},
    "schemes": {"timeline"},
    "transport": {"checks", "compute"},
    "fates": {"checks", "compute", "transport"},
    "genes": {"fates"},
    "condition": {"timeline", "schemes", "transport"},
    "landscape": {"compute"},
    "growth": {"compute", "timeline", "schemes", "transport"},
    "energy": {"checks", "compute", "timeline", "variation", "schemes", "growth"},
    "motion": {"compute", "timeline", "schemes", "transport", "energy"},
    "fitting": {
        *("checks", "compute", "timeline", "variation", "schemes"),
        *("transport", "condition", "growth", "energy", "motion"),
    },
    "judging": {"compute", "timeline", "variation", "transport", "energy", "fitting"},
}
#: Files that import from a room above theirs, and why.
UPWARD = {
    # An energy offers motion as methods, energy.step and energy.simulate, which belong to what a user holds in hand.
    "energy/energy.py": {"motion.paths", "motion.forecast"},
    # A prior and a forecast are chosen by the distance that judges them, and beside an interpolation without training.
    "motion/interpolation.py": {"judging.baselines", "judging.metrics"},
    "motion/forecast.py": {"judging.metrics"},
    # Settings are chosen by the distance of predicted populations, which judges them later.
    "fitting/stacked/choice.py": {"judging.metrics"},
}
#: The rest of the package, and what each part imports beside itself. Nothing imports the command line.
PARTS = {
    "core": set(),
    "edge": {"core"},
    "datasets": {"core", "edge"},
    "get": {"core", "edge"},
    "tl": {"core", "edge"},
    "pl": {"core", "edge"},
    "external": {"core", "edge"},
    "benchmarks": {"core", "edge", "datasets", "get", "pl", "tl"},
    "reporting": {"core", "edge", "get", "pl", "tl"},
    "cli": {"reporting", "core", "edge", "benchmarks", "datasets", "get", "pl", "tl"},
}
#: The plot of interpolated cells draws what the tool makes.
DRAWN = {"pl/_predictions.py": {"scjko.tl", "scjko.tl.interpolate"}}
every_file = pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
every_core_file = pytest.mark.parametrize(
    "path", sorted(CORE.rglob("*.py")), ids=lambda path: str(path.relative_to(CORE))
)


@every_core_file
def test_the_core_knows_nothing_of_anndata_plots_or_the_rest_of_the_package(path):
    for name in imported(path):
        assert name.split(".")[0] not in {"anndata", "scanpy", "matplotlib", "tqdm", "pandas"}
        if name.startswith("scjko"):
            assert name.startswith("scjko.core")
    assert "print(" not in path.read_text()


@every_core_file
def test_rooms_of_the_core_import_those_below_them(path):
    where = path.relative_to(CORE)
    room = where.parts[0].removesuffix(".py")
    if room == "__init__":
        return
    for name in imported(path):
        if name.startswith("scjko.core."):
            there = name.removeprefix("scjko.core.")
            allowed = {room} | ROOMS[room]
            known = UPWARD.get(where.as_posix(), set())
            assert there.split(".")[0] in allowed or there in known, f"{where} imports {there}"


def test_the_table_of_rooms_is_that_of_the_core():
    """In an order in which each has only rooms above it in the table, and with no exception that is none any more."""
    there = {path.stem for path in CORE.iterdir() if path.name not in ("__init__.py", "__pycache__")}
    assert set(ROOMS) == there
    known: set[str] = set()
    for room, below in ROOMS.items():
        assert below <= known, room
        known.add(room)
    for name, rooms in UPWARD.items():
        assert {f"scjko.core.{room}" for room in rooms} <= imported(CORE / name), name


@every_file
def test_parts_of_the_package_import_in_one_direction(path):
    part = path.relative_to(SOURCE).parts[0]
    if part in ("__init__.py", "__main__.py"):
        return
    for name in imported(path):
        if name.startswith("scjko."):
            known = DRAWN.get(path.relative_to(SOURCE).as_posix(), set())
            assert name.split(".")[1] in {part} | PARTS[part] or name in known, f"{path} imports {name}"


@every_file
def test_files_stay_small_and_run_no_code_from_data(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    assert not re.search(r"import pickle|\beval\(|\bexec\(|allow_pickle|jax\.config|\blocals\(", text)


@pytest.mark.parametrize(
    "room",
    [
        SOURCE,
        CORE,
        SOURCE / "reporting",
        SOURCE / "reporting/parts",
        *(path for path in sorted(CORE.iterdir()) if path.is_dir() and path.name != "__pycache__"),
    ],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_rooms_stay_small(room):
    assert len([path for path in room.glob("*.py") if path.name != "__init__.py"]) <= 12


def test_a_fit_has_few_parameters():
    assert len(inspect.signature(sj.tl.fit_energy).parameters) <= 18


#: Words that name a scheme, a label of time or a variation in time: classes say what they mean.
WORDS = {
    *("both", "explicit", "implicit", "midpoint", "smooth"),
    *("interval", "target", "label", "ranks", "midpoints", "targets", "start", "end"),
}
#: Other things of the same name: which cells a plot shows.
OTHERS = {("pl/_predictions.py", "both")}
#: Where these words are read, once. Benchmarks run named settings side by side.
READERS = (
    *("core/schemes.py", "core/variation.py", "core/fitting/parametrizations.py", "core/transport/"),
    *("edge/options.py", "edge/storage/serialized.py", "edge/storage/stored.py", "benchmarks/"),
)


@every_file
def test_no_module_branches_on_the_names_of_schemes_or_labels(path):
    where = path.relative_to(SOURCE).as_posix()
    if where.startswith(READERS):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            compared = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            words = {part.value for part in compared if isinstance(part, ast.Constant)} & WORDS
            words = {word for word in words if (where, word) not in OTHERS}
            assert not words, f"{where}:{node.lineno} compares with {', '.join(sorted(words))}"
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
            assert node.value.value not in WORDS, f"{where}:{node.value.lineno}"


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
