"""Words that read as if translated, in pages, docstrings, messages and comments: there is a plain one for each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MADE = ("_build", "generated", "tutorials")
#: What to look for, and what to write in its place.
HOUSE_WORDS = {
    r"(?<!half-)(?<!under )(?<!one )(?<!either )(?<!all the )(?<!of the )(?<!which )(?<!any )(?<!same )\bways?\b"
    r"(?! (?:from|of) a)": "trajectory, path, or how it is done",
    r"\bask(?:s|ed)? (?:of|for)\b": "request, require, evaluate",
    r"\bveil(?:s|ed)?\b": "fade, mask",
    r"\bwhat needs? no training\b": "baseline",
    r"\b(?:tell|tells|told|telling) (?:\w+ )?apart\b": "distinguish",
    r"\bmend(?:s|ed|ing)?\b": "fix, refine",
    r"\bmade up for\b": "compensated",
    r"\bin \w+'s manners?\b": "as scanpy does",
}
HOUSE_WORD = re.compile("|".join(f"(?:{word})" for word in HOUSE_WORDS), re.IGNORECASE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


PAGES = [path for path in (ROOT / "docs").rglob("*.md") if path.relative_to(ROOT / "docs").parts[0] not in MADE]
NOTEBOOKS = (ROOT / "tutorials").glob("*.ipynb")
CODE = [path for folder in ("src", "docs", "tutorials") for path in (ROOT / folder).rglob("*.py")]
FILES = sorted([ROOT / "README.md", *PAGES, *NOTEBOOKS, *(path for path in CODE if "_build" not in path.parts)])


def prose_of(path: Path) -> str:
    """A page without code, the Markdown of a notebook, or the strings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = " ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    elif path.suffix == ".md":
        text = re.sub(r"^```(?!\{).*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)
    else:
        text = re.sub(r'"\n\s*f?"', "", text)  # strings and comments over several lines in one
        text = re.sub(r"\n\s*#:?", " #", text)
        text = "\n".join(re.findall(r'"{3}.*?"{3}|"[^"\n]*"|#[^\n]*', text, re.S)).replace("#", "")
    return " ".join(text.split())


def test_no_house_words():
    found = {
        f"{name_of(path)}: '{text[max(0, word.start() - 40) : word.end() + 30]}'": word[0]
        for path in FILES
        for text in [prose_of(path)]
        for word in HOUSE_WORD.finditer(text)
    }
    plain = {
        where: next(plain for word, plain in HOUSE_WORDS.items() if re.search(word, said, re.I))
        for where, said in found.items()
    }
    assert not plain, "\n".join(f"{where}: write {instead}" for where, instead in plain.items())


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("simulated ways of cells", False),
        ("an energy that can be asked\n    for its value", False),
        ("the field tells them apart", False),
        ("fitted half-way", True),
        ("at most four are under way", True),
        ("tell a fate from a state", True),
        ("an amendment", True),
    ],
)
def test_the_words_are_found(text, plain):
    assert bool(HOUSE_WORD.search(" ".join(text.split()))) != plain
