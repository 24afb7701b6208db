"""The page: its parts in order, what is left out, and its look."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files

from .markup import Html, code, element, joined, paragraph
from .parts.brief import brief
from .parts.diagnostics import diagnostics
from .parts.fates import fates
from .parts.genes import genes
from .parts.growth import growth
from .parts.landscape import landscape
from .parts.repeat import repeat
from .parts.uncertainty import uncertainty
from .parts.velocities import velocities
from .parts.verdict import verdict
from .subject import Part, Subject

PARTS = (brief, verdict, landscape, velocities, fates, genes, growth, uncertainty, diagnostics, repeat)
#: Nothing runs and nothing is loaded, whatever stands in the text.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
TITLE = "Energy landscape of a time course"
#: What a reader has to know who has not heard of the method.
INTRODUCTION = (
    "Cells were measured at several time points. An energy was fitted that moves the cells of one time point to those "
    "of the next: its potential is a landscape on which cells go downhill, and its slope is their velocity."
)


def page(subject: Subject, title: str | None) -> str:
    """The whole file."""
    title = TITLE if title is None else title
    parts = [make(subject) for make in PARTS]
    shown = [part for part in parts if part.body]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"scjko {version('scjko')}"),
        element("title", title),
        element("style", Html(_style())),
    )
    body = element(
        "body",
        element("header", element("h1", title), paragraph(INTRODUCTION, class_="lead"), _contents(shown)),
        element("main", *(_section(part) for part in shown)),
        element("footer", *_left_out(parts), paragraph(f"Written by scjko {version('scjko')}.")),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def _contents(parts: list[Part]) -> Html:
    links = [element("a", part.title, href=f"#{part.name}") for part in parts]
    return element("nav", joined(links, " "), aria_label="Contents")


def _section(part: Part) -> Html:
    return element("section", element("h2", part.title), *part.body, id=part.name)


def _left_out(parts: list[Part]) -> list[Html]:
    """One line with the calls that would add what was not computed."""
    calls = [joined([what, ": ", code(call)]) for part in parts for what, call in part.missing.items()]
    return (
        [paragraph("Not computed, with the calls that add it: ", joined(calls, "; "), ".", class_="left-out")]
        if calls
        else []
    )
