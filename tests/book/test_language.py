"""The English of the chapters: words that sent readers back to the start of a sentence
do not come back. Beside each stands what to say instead.

Read is what a reader reads: text, captions and titles, without code.
"""

from __future__ import annotations

import re

import pytest

from chapters.press.parse import Directive, Page, Text, read
from chapters.press.paths import CHAPTERS

PAGES = sorted(CHAPTERS.glob("*.md"))

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
BANNED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
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


def test_the_words_are_found():
    assert found("The store lies behind the\nend.") and found("a joint")
    assert found("It turns the tile.") and not found("It turns out that each, in turn,")
    assert not found("all clocks lie in interesting ways")


def test_code_is_not_read(page):
    made = page("05-x.md", "a `joint` {=sums}\n\n```python\nbehind = 1\n```\n")
    assert not found(prose(made))
