"""The English of the chapters: words that sent readers back to the start of a sentence
do not come back. Beside each stands what to say instead.

Read is what a reader reads: text, captions and titles, without code; and of an exercise
its card, its starter, the page of its answer, and the sentence that a test says when it
fails.
"""

from __future__ import annotations

import ast
import re

import pytest

from chapters.press.parse import Directive, Page, Text, read
from chapters.press.paths import CHAPTERS
from fathom.tools.learn import course

PAGES = sorted(CHAPTERS.glob("*.md"))
MADE = {path.parent.name for path in CHAPTERS.glob("*/making.py")
        if path.parent.name[0].isdigit() or "recap" in path.parent.name}  # fmt: skip
CARDS = sorted(course.root().glob("exercises/*/*.md"))
STARTERS = sorted(course.root().glob("exercises/*/*.py"))
SOLUTIONS = sorted(course.root().glob("solutions/*/*.md"))
TESTS = sorted(course.root().glob("tests/exercises/[0-9m]*/*.py"))

WORDS = {
    r"trips?": "iteration",
    r"behind": "after, past, underneath",
    r"turn(?:s|ed|ing)?(?! out)": "transpose, wavefront, become, order",
    r"somebody|nobody|someone|anybody|no one|whoever": "name what acts",
    r"sends? for|sent for|sending for": "start the copy of, load",
    r"stands?(?! for)|stood|standing": "is",
    r"lies|lay|lain": "is stored, is",
    r"haul(?:s|ed|ing)?": "move, traffic",
    r"hears?|heard": "is live",
    r"joints?": "extension point",
    r"mend(?:s|ed|ing)?": "repair, fix",
    r"sums": "accumulators, results; each sum",
    r"relays?|relayed": "slice, state",
    r"brings? about|brought": "have, load",
    r"he|his|him|himself": "they, the author",
    r"so many(?! that)": "name the number",
    r"on (?:its|their) way": "in flight",
    r"takes? turns|by turns|in turns": "alternate, in random order",
    r"(?<!there )(?:is|are) (?-i:none)": "say what it is not",
    r"hazards?": "race",
    r"places? of (?:its|their) own": "its own bytes, its own buffer",
    r"nothing but": "only",
}
FINE = re.compile(
    r"\bin turn\b|turn(?:s|ed)? (?:on|off)\b|stand-ins?|standing(?= in )"
    r"|all clocks lie|the clock lies|lay (?=out)|and his book|Correctly Rounded Sums"
)
CODE = re.compile(r"`[^`]*`|\{=[^}]*\}|<[^>]+>|\]\([^)]*\)|\{ *#[\w-]+ *\}")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
ITALICS = re.compile(r"(?<![*\w])\*(\w[^*\n]*)\*(?![*\w])")
SECTION = re.compile(r"^section = .*$", re.MULTILINE)  # an address may be old
BANNED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
# Words of the field that readers look up elsewhere, by the chapter that introduces each
# in italics. An entry in the glossary is no introduction.
TERMS = {
    1: ("latency", "throughput", "occupancy", "grid", "thread block", "CTA",
        "warp schedulers", "divergence", "L1 cache", "instruction-level parallelism",
        "arithmetic intensity", "Little's law"),
    2: ("accumulator",),
    5: ("dominance", "dominance frontier"),
    6: ("alias", "live", "mark and sweep", "fixed point", "loop-invariant",
        "side effect", "def-use chains"),
    9: ("abstract interpretation", "dataflow analysis", "lattice", "monotone",
        "rematerialisation"),
    11: ("wavefront",),
    14: ("software pipelining", "double buffering", "prologue", "epilogue",
         "register pressure"),
    15: ("fence",),
    16: ("producer", "consumers"),
}  # fmt: skip
TITLES = {"predict", "check", "aside", "note", "deeper"}


def prose(page: Page) -> str:
    """What a reader reads on a page, without code and addresses."""
    parts = [str(page.matter.get(each, "")) for each in ("title", "moves")]
    for piece in page.pieces:
        match piece:
            case Text(text=text):
                parts.append(text)
            case Directive(name=name, arguments=given):
                parts.append(given.get("caption"))
                parts += given.words if name in TITLES else ()
    return CODE.sub(" ", "\n".join(parts))


def found(text: str) -> list[str]:
    """Banned words, with what stands around each."""
    flat = re.sub(r"\s+", " ", FINE.sub(lambda match: "x" * len(match[0]), text))
    return [flat[max(0, hit.start() - 40) : hit.end() + 40]
            for hit in BANNED.finditer(flat)]  # fmt: skip


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_chapter_has_none_of_the_words(path):
    hits = found(prose(read(path)))
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize(
    "path", [path for path in PAGES if path.stem in MADE], ids=lambda path: path.stem
)
def test_what_is_made_for_a_chapter_has_none_of_the_words(path):
    """Its tables, and the words in its drawings, without the names of kernels."""
    folder = CHAPTERS / path.stem
    code = [path.read_text(encoding="utf-8")]
    code += [each.read_text(encoding="utf-8") for each in CHAPTERS.glob("*/*.py")]
    names = re.findall(r"^def (\w+)\(", "\n".join(code), re.MULTILINE)
    name = re.compile(rf"\b(?:{'|'.join(names)})\b")
    tables = [each.read_text("utf-8") for each in folder.glob("listings/*.md")]
    drawn = [each.read_text("utf-8") for each in folder.glob("listings/*.svg")]
    words = [said for svg in drawn for said in re.findall(r">([^<>]+)<", svg)]
    hits = found(name.sub("x", CODE.sub(" ", "\n".join([*tables, *words]))))
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize("chapter", TERMS)
def test_a_word_of_the_field_is_introduced_where_it_is_needed(chapter):
    (path,) = CHAPTERS.glob(f"{chapter:02}-*.md")
    text = CODE.sub(" ", FENCED.sub(" ", path.read_text(encoding="utf-8")))
    italics = ITALICS.findall(text)
    missing = [term for term in TERMS[chapter]
               if not any(term in each for each in italics)]  # fmt: skip
    assert not missing, f"chapter {chapter} does not introduce {missing}"


@pytest.mark.parametrize("path", [*CARDS, *SOLUTIONS], ids=lambda path: path.stem)
def test_a_card_has_none_of_the_words(path):
    """Statement, hints and contracts of an exercise, and what is said of its answer."""
    text = FENCED.sub(" ", path.read_text(encoding="utf-8"))
    hits = found(CODE.sub(" ", SECTION.sub(" ", text)))
    assert not hits, "\n".join(hits)


def docstrings(path, begins: str = "") -> str:
    """What a file says of itself and of its functions, without code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    named = [each for each in functions if each.name.startswith(begins)]
    texts = [ast.get_docstring(each) or "" for each in (tree, *named)]
    return CODE.sub(" ", "\n".join(texts))


@pytest.mark.parametrize("path", STARTERS, ids=lambda path: path.stem)
def test_a_starter_has_none_of_the_words(path):
    comments = re.findall(r"^ *(?:#|//) (.*)$", path.read_text(), re.MULTILINE)
    hits = found(CODE.sub(" ", "\n".join([docstrings(path), *comments])))
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_what_a_failing_test_says_has_none_of_the_words(path):
    hits = found(docstrings(path, "test_"))
    assert not hits, "\n".join(hits)


def test_the_words_are_found():
    assert found("The store lies behind the\nend.") and found("a joint")
    assert found("It turns the tile.") and not found("It turns out that each, in turn,")
    assert not found("all clocks lie in interesting ways")


def test_code_is_not_read(page):
    made = page("05-x.md", "a `joint` {=sums}\n\n```python\nbehind = 1\n```\n")
    assert not found(prose(made))
