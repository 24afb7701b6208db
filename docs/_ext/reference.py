"""Reference pages made from the code, and links to them.

Every name in the ``__all__`` of the package and of every namespace gets a page in ``docs/generated``, so that a new
function, object or namespace needs no further word here. Names that pages write as code, such as ``sj.tl.fit_energy``,
become links, so that the Markdown reads the same with Sphinx and without. The page of a function begins with what it
does, and with the picture of a plot; its signature and its parameters follow.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy.typing
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx


class ArrayLike:
    """What numpy takes for an array. numpy's own definition is a union that fills half a page."""


ArrayLike.__module__ = "numpy.typing"
numpy.typing.ArrayLike = ArrayLike  # type: ignore[misc]  # before the package is imported, and for the site only

import scjko  # noqa: E402

FOLDER = "generated"
ENERGY = "scjko.core.energy.energy.Energy"
#: The order of the namespaces; others follow.
ORDER = ["tl", "pl", "get", "external", "datasets", "benchmarks"]

NAMESPACES: dict[str, ModuleType] = {
    name: getattr(scjko, name)
    for name in sorted(scjko.__all__, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    if inspect.ismodule(getattr(scjko, name))
}
#: Objects with options of a fit, such as ``sj.Neural``, and functions of the package itself, such as ``sj.report``.
OBJECTS = [name for name in scjko.__all__ if name not in NAMESPACES]
PUBLIC = {f"{namespace}.{name}" for namespace, module in NAMESPACES.items() for name in module.__all__}


def setup(app: Sphinx) -> dict[str, Any]:
    """Hook into the build."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", list_pages)
    app.connect("doctree-read", link_names)
    app.connect("autodoc-process-docstring", drop_description, priority=498)
    app.connect("doctree-read", shorten_types)
    # Before and after napoleon (500), which takes all before a colon in the words of an attribute for its type.
    words: dict[str, list[str]] = {}
    app.connect("autodoc-process-docstring", partial(keep_words, words), priority=499)
    app.connect("autodoc-process-docstring", partial(restore_words, words), priority=501)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def keep_words(words: dict[str, list[str]], app: Sphinx, what: str, name: str, *rest: Any) -> None:
    """Keep the docstring of an attribute, the last argument, as it is."""
    if what in ("attribute", "data", "property"):
        words[name] = list(rest[-1])


def restore_words(words: dict[str, list[str]], app: Sphinx, what: str, name: str, *rest: Any) -> None:
    """Put it back."""
    rest[-1][:] = words.pop(name, rest[-1])


def description(docstring: str) -> str:
    """What a docstring says before its first section."""
    lines = docstring.splitlines()
    ends = [i for i, line in enumerate(lines[1:]) if line and set(line) == {"-"}]
    return "\n".join(lines[: ends[0] if ends else len(lines)]).strip()


def drop_description(app: Sphinx, what: str, name: str, *rest: Any) -> None:
    """Take the description out of the docstring of a public function: its page begins with it."""
    if what == "function" and name.removeprefix("scjko.") in PUBLIC:
        lines = rest[-1]
        del lines[: len(description("\n".join(lines)).splitlines())]


def shorten_types(app: Sphinx, doctree: nodes.document) -> None:
    """Types that are too long for links are text, with a tilde and the module before each name: leave the name."""
    if not app.env.docname.startswith(f"{FOLDER}/"):
        return
    for text in list(doctree.findall(nodes.Text)):
        if re.search(r"~\w+\.", text):
            text.parent.replace(text, nodes.Text(re.sub(r"~(?:\w+\.)+(\w+)", r"\1", text)))


def write_pages(app: Sphinx) -> None:
    """Write a page for each public name, namespace, object and the energy; remove those of names that are gone."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    methods = energy_members((Path(app.srcdir) / "api.md").read_text(encoding="utf-8"))
    pages = dict(_pages(app, methods))
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # what is unchanged is not built again
            path.write_text(text, encoding="utf-8")


def energy_members(page: str) -> list[str]:
    """The members of ``Energy`` that are public: those in the table of the API page."""
    rows = re.findall(r"^\| (`\..*?) \|", page, re.M)
    return [name for row in rows for name in re.findall(r"`\.(\w+)", row)]


def _pages(app: Sphinx, methods: list[str]) -> Iterator[tuple[str, str]]:
    for namespace, module in NAMESPACES.items():
        names = module.__all__
        title = f"``sj.{namespace}``"
        yield (
            f"{namespace}.rst",
            _titled(
                title,
                f"{inspect.getdoc(module) or ''}\n",
                _directive("autosummary", "", [":nosignatures:"], [f"~scjko.{namespace}.{name}" for name in names]),
                _directive("toctree", "", [":hidden:"], [f"{name} <{namespace}.{name}>" for name in names]),
            ),
        )
        for name in names:
            full, value = f"scjko.{namespace}.{name}", getattr(module, name)
            picture = Path(app.srcdir) / "_static" / namespace / f"{name}.png"
            yield f"{namespace}.{name}.rst", _titled(f"{namespace}.{name}", *_documented(full, value, picture))
    for name in OBJECTS:
        # Without members: what a fit does with an object is no concern of who makes it.
        kind = "autoclass" if inspect.isclass(getattr(scjko, name)) else "autofunction"
        yield f"{name}.rst", _titled(f"``sj.{name}``", _directive(kind, f"scjko.{name}", [], []))
    # Empty brackets: users get an energy from a fit, and do not make one of its parts.
    members = _directive("autoclass", f"{ENERGY}()", [f":members: {', '.join(methods)}"], [])
    yield "Energy.rst", _titled("Energy", "What :func:`sj.get.energy <scjko.get.energy>` gives.\n", members)


def _documented(full: str, value: Any, picture: Path) -> Iterator[str]:
    if inspect.ismodule(value):
        # Not its constants, nor the values of what it has by name.
        named = re.findall(r"^([a-z]\w*)(?::.*?)? = ", inspect.getsource(value), re.M)
        constants = re.findall(r"^([A-Z]\w*)(?::.*?)? = ", inspect.getsource(value), re.M)
        left_out = [f":exclude-members: {', '.join([*named, *constants])}"] if named or constants else []
        yield _directive("automodule", full, [":members:", *left_out], [])
        yield from (_directive("autodata", f"{full}.{name}", [":no-value:"], []) for name in named)
    elif inspect.isclass(value):
        yield _directive("autoclass", full, [":members:"], [])
    elif inspect.isroutine(value):
        yield f"{description(inspect.getdoc(value) or '')}\n"
        if picture.exists():
            drawn = f"/_static/{picture.parent.name}/{picture.name}"
            yield _directive("image", drawn, [f":alt: What {full.removeprefix('scjko.')} draws", ":class: drawn"], [])
        yield _directive("autofunction", full, [], [])
    else:
        yield _directive("autodata", full, [":no-value:"], [])
        if isinstance(value, Mapping) and all(hasattr(entry, "formula") for entry in value.values()):
            rows = [f"* - ``{name}``\n     - {entry.formula}".replace("|", r"\|") for name, entry in value.items()]
            yield _directive("list-table", "", [":header-rows: 1"], ["* - name\n     - formula", *rows])


def _titled(title: str, *parts: str) -> str:
    return "\n".join([title, "=" * len(title), "", *parts])


def _directive(name: str, argument: str, options: list[str], content: list[str]) -> str:
    lines = [f".. {name}:: {argument}".rstrip(), *(f"   {line}" for line in options), ""]
    return "\n".join([*lines, *(f"   {line}" for line in content), ""])


def list_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the reference pages below the API page, which is read anew in every build."""
    if docname == "api":
        app.env.note_reread()
        names = [*NAMESPACES, *OBJECTS, "Energy"]
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *(f"{FOLDER}/{name}" for name in names), "```", ""])


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Make links of public names that a page writes as code."""
    docname = app.env.docname
    if docname.startswith(f"{FOLDER}/"):
        return
    members = energy_members((Path(app.srcdir) / "api.md").read_text(encoding="utf-8"))
    for literal in list(doctree.findall(nodes.literal)):
        target = _target(literal.astext(), _title_above(literal) if docname == "api" else "", members)
        if target is None or _inside(literal, (nodes.title, nodes.reference, addnodes.pending_xref)):
            continue
        link = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True, refdoc=docname
        )
        literal.replace_self(link)
        link += literal


def _target(text: str, title: str, members: list[str]) -> str | None:
    """What a name stands for; one with a dot in front belongs to what the title above it names."""
    if text == "Energy":
        return ENERGY
    made = re.match(r"sj\.(\w+)(\(|$)", text)
    if made and made[1] in OBJECTS:
        return f"scjko.{made[1]}"
    found = re.match(r"\.(\w+)", text)
    if found and title == "Energy":
        return f"{ENERGY}.{found[1]}" if found[1] in members else None
    owner = re.search(r"sj\.(\w+)$", title)
    full = f"{owner[1]}.{found[1]}" if found and owner else re.sub(r"^(?:sj\.)?(\w+\.\w+).*$", r"\1", text, flags=re.S)
    return f"scjko.{full}" if full in PUBLIC else None


def _title_above(node: nodes.Node) -> str:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.section):
            return node[0].astext()
    return ""


def _inside(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    while node is not None:
        if isinstance(node, kinds):
            return True
        node = node.parent
    return False
