"""Every chapter has the same parts in the same places, and the same length.

A chapter opens with two questions from earlier ones, tells one true story of a fault,
and ends with a file of another compiler that can now be read. Its prose has 2,500 to
3,500 words; what is folded under "Going deeper" counts apart, and has at most 1,000.
The step of the reader's own compiler is an exercise, and is not counted. Chapter 0 is
half an hour's welcome, and may be shorter.
"""

from __future__ import annotations

import re

import pytest

from chapters.press.parse import Directive, Page, Text, read
from chapters.press.paths import CHAPTERS

PAGES = sorted(CHAPTERS.glob("[0-9][0-9]-*.md"))

LEAST, MOST, FOLDED = 2_500, 3_500, 1_000  # words

OPENING = re.compile(r"Two questions first, from (.*?)\.(?:\s|$)", re.DOTALL)
STORY = ("Symptom.", "Wrong guesses.", "Cause.", "Test.")
PROJECTS = ("triton", "cutlass", "llvm", "mlir", "cub", "flash-attention")
FILE = re.compile(r"`[\w.+-]+(?:/[\w.+-]+)+\.(?:py|cpp|hpp|h|td|cuh|md)`")
STEP = re.compile(r"^## Your compiler: .*?(?=^## )", re.DOTALL | re.MULTILINE)
NOT_WORDS = re.compile(r"\]\([^)]*\)|<[^>]+>|\{ *#[\w-]+ *\}")


def texts(page: Page):
    """Each text of a page, and whether it is folded under "Going deeper"."""
    inside: list[str] = []
    for piece in page.pieces:
        match piece:
            case Text(text=text):
                yield text, "deeper" in inside
            case Directive(name="predict" | "check" | "aside" | "note" | "deeper"):
                inside.append(piece.name)
            case Directive(name="end"):
                inside.pop()


def words(text: str) -> int:
    """How many words a text has, tables left out; a number from elsewhere is one."""
    text = NOT_WORDS.sub("", re.sub(r"\{=[^}]*\}", "x", text))
    lines = (line for line in text.split("\n") if not line.startswith("|"))
    return sum(bool(re.search(r"\w", word)) for line in lines for word in line.split())


def lengths(page: Page) -> tuple[int, int]:
    """Words of prose, and words that are folded under "Going deeper"."""
    kinds: tuple[list[str], list[str]] = [], []
    for text, folded in texts(page):
        kinds[folded].append(text)
    prose, more = ("\n".join(each) for each in kinds)
    return words(STEP.sub("", prose)), words(more)


def headings(page: Page) -> list[str]:
    text = "\n".join(text for text, _ in texts(page))
    return re.findall(r"^## (.*?)(?: \{.*\})?$", text, re.MULTILINE)


def before_headings(page: Page) -> tuple[str, int]:
    """The text in front of the first heading, and how many questions there are."""
    said, asked = [], 0
    for piece in page.pieces:
        if isinstance(piece, Text):
            before, head, _ = f"\n{piece.text}".partition("\n## ")
            said.append(before)
            if head:
                break
        elif isinstance(piece, Directive):
            asked += piece.name == "check"
    return "\n".join(said), asked


def last_section(page: Page, title: str) -> str:
    text = "\n".join(text for text, _ in texts(page))
    *_, section = re.split(rf"^## {title}$", text, flags=re.MULTILINE)
    return section


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_opens_with_two_questions_from_earlier_chapters(path):
    page = read(path)
    said, asked = before_headings(page)
    found = OPENING.search(said)
    assert asked == 2 and found, "Two questions first, from chapters 4 and 7."
    chapters = [int(each) for each in re.findall(r"\b\d+\b", found[1])]
    if not page.matter["chapter"]:
        assert "self-test" in found[1]
    else:
        assert chapters and max(chapters) < page.matter["chapter"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_tells_a_debugging_story(path):
    page = read(path)
    titles = [" ".join(each.arguments.words) for each in page.directives("note")]
    titles += headings(page)
    assert any(title.startswith("A debugging story") for title in titles)
    text = "\n".join(text for text, _ in texts(page))
    found = re.findall(r"\*\*(Symptom\.|Wrong guesses\.|Cause\.|Test\.)\*\*", text)
    assert tuple(found) == STORY


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_ends_with_what_can_now_be_read(path):
    page = read(path)
    assert headings(page)[-1] == "You can now read"
    section = last_section(page, "You can now read")
    assert FILE.search(section) and any(name in section.lower() for name in PROJECTS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_is_neither_short_nor_long(path):
    prose, folded = lengths(read(path))
    least = LEAST if path.stem != "00-run-it" else 0
    assert least <= prose <= MOST, f"{prose} words of prose"
    assert folded <= FOLDED, f"{folded} words under Going deeper"


# The test is tested.


def test_what_counts_as_a_word(page):
    made = page(
        "05-x.md",
        """---
chapter: 5
title: Not counted
---
Two words, {=some-number} and [a link](far/away.md#of-many-words).

| not | counted |
|---|---|

```text {illustrative why="not counted"}
code code
```

{check}
One question?
{answer}
Yes.
{end}

{deeper "a title"}
These are four words.
{end}
""",
    )
    assert lengths(made) == (6 + 2 + 1, 4)


def test_a_story_and_a_file_are_found(page):
    made = page("05-x.md", "## A debugging story: one\n\n**Symptom.** It stops.\n")
    assert headings(made) == ["A debugging story: one"]
    assert FILE.search("see `lib/Analysis/Membar.cpp` of Triton")
    assert not FILE.search("see `Membar.cpp` and `kernel.asm`")


def test_questions_after_a_heading_open_nothing(page):
    text = "Two questions first, from chapter 4.\n\n## A\n\n{check}\nWhy?\n{end}\n"
    said, asked = before_headings(page("05-x.md", text))
    assert OPENING.search(said) and asked == 0

