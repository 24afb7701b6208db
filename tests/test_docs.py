"""The site, as far as it can be judged without building it."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path

import pytest

import scjko as sj
from scjko.edge.options import MOVED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = ("_build", "generated", "tutorials")
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in MADE)
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)


def below(page: Path) -> list[Path]:
    """The pages in the toctrees of a page."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.M | re.S)
    entries = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    return [page.parent / f"{entry}.md" for entry in entries]


def test_every_page_can_be_reached_from_the_home_page():
    reached, queue = set(), [DOCS / "index.md"]
    while queue:
        page = queue.pop()
        assert page.exists(), f"a toctree names {name_of(page)}, which does not exist"
        reached.add(page)
        queue += [other for other in below(page) if other not in reached]
    assert {name_of(page) for page in PAGES} == {name_of(page) for page in reached}


NAMESPACES = [name for name in sj.__all__ if inspect.ismodule(getattr(sj, name))]
OBJECTS = [name for name in sj.__all__ if inspect.isclass(getattr(sj, name))]
FUNCTIONS = [name for name in sj.__all__ if inspect.isfunction(getattr(sj, name))]


def test_every_function_of_the_package_is_in_the_api_page_as_it_is_called():
    page = (DOCS / "api.md").read_text()
    assert len(NAMESPACES) + len(OBJECTS) + len(FUNCTIONS) == len(sj.__all__)
    for name in FUNCTIONS:
        signature = inspect.signature(getattr(sj, name))
        plain = [part.replace(annotation=inspect.Parameter.empty) for part in signature.parameters.values()]
        called = str(inspect.Signature(plain)).replace("'", '"')
        assert f"| `sj.{name}{called}` |" in page, f"sj.{name}{called} is not in docs/api.md"


@pytest.mark.parametrize("name", OBJECTS)
def test_every_object_is_in_the_api_page_with_all_its_options(name):
    row = re.search(rf"^\| `sj\.{name}\(.*$", (DOCS / "api.md").read_text(), re.M)
    assert row, f"sj.{name} is not in docs/api.md"
    for option in inspect.signature(getattr(sj, name)).parameters.values():
        made = type(option.default).__name__  # options may be objects with options of their own
        written = f"sj.{made}()" if made in OBJECTS else repr(option.default).replace("'", '"')
        known = "" if option.default is None else f"={written}"
        assert f"`{option.name}{known}`" in row[0], f"{option.name} of sj.{name}, or its default, is not in docs/api.md"


@pytest.mark.parametrize("name", [*sorted(MOVED)])
def test_every_moved_option_is_in_the_change_log(name):
    """Who is told that an option has moved finds it in the table, with what to write in its place."""
    assert re.search(rf"^\| `{name}=", (ROOT / "CHANGELOG.md").read_text(), re.M)


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_pages_name_no_option_that_has_moved(path):
    """Calls on pages are checked below; this is for options in running text. Those of an object are not meant."""
    if path.name == "CHANGELOG.md":
        return
    text = re.sub(r"sj\.\w+\([^`]*\)|--set [^`]*", "", path.read_text())
    for call in re.findall(r"(?:fit_energy|validate)\([^`]*?\)", text):
        assert not re.search(rf"\b({'|'.join(MOVED)})=", call), f"{name_of(path)}: {call}"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_name_of_every_namespace_is_in_the_api_page(namespace):
    page = (DOCS / "api.md").read_text()
    for name in getattr(sj, namespace).__all__:
        # `sj.benchmarks.lightspeed`, `.scaling`: a row may name the namespace once.
        row = rf"^\| [^|]*(`sj\.{namespace}\.{name}\b|`sj\.{namespace}\.[^|]*`\.{name}\b)"
        assert re.search(row, page, re.M), f"sj.{namespace}.{name} is not in docs/api.md"


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_links_and_images_lead_to_files(path):
    text = without_code(path.read_text())
    images = re.findall(r"^```\{image\} (\S+)", path.read_text(), re.M)
    for target in [*images, *re.findall(r"\]\(([^)\s]+)\)", text)]:
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file) if file else path
        assert there.exists(), f"{name_of(path)} links to {target}, which does not exist"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", there.read_text(), re.M)
            assert anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles], target


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_code_on_pages_calls_functions_as_they_are(path):
    """Names exist, and so do the parameters that are named."""
    for block in re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.M | re.S):
        for node in ast.walk(ast.parse(block)):
            called = ast.unparse(node.func).split(".") if isinstance(node, ast.Call) else [""]
            if called[0] != "sj":
                continue
            function = sj
            for part in called[1:]:
                function = getattr(function, part)
            parameters = dict(inspect.signature(function).parameters)
            if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                parameters |= inspect.signature(sj.tl.fit_energy).parameters
            for keyword in node.keywords:
                assert keyword.arg in parameters, f"{'.'.join(called)} takes no {keyword.arg}"


@pytest.mark.parametrize("path", [*TEXTS, *sorted(DOCS.rglob("*.py")), *NOTEBOOKS], ids=name_of)
def test_nothing_shows_the_machine_it_was_written_on(path):
    found = re.search(r"(?<![\w.])(/(home|root|tmp|work|mnt|Users|private)/\w+|[A-Z]:\\\\?Users)", path.read_text())
    assert not found, f"{name_of(path)} has {found[0]}"


@pytest.mark.parametrize("path", [DOCS / "conf.py", *DOCS.glob("_ext/*.py"), *DOCS.glob("_static/*.css")], ids=name_of)
def test_the_site_fetches_nothing(path):
    assert not re.search(r"https?://|(?<!:)//\w+\.\w+/", path.read_text())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebooks_fetch_nothing(path):
    outputs = [cell["outputs"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not re.search(r"<script[^>]*src=.{0,2}https?:|cdn\.|cdnjs\.", json.dumps(outputs))
