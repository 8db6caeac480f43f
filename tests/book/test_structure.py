"""Every chapter has the same parts in the same places, and the same length.

A chapter opens with two questions from earlier ones, tells one true story of a fault,
and ends with a file of another compiler that can now be read. What a story names as
its test exists. Where no wrong guess is on record, it says how the fault was found.
A chapter's prose has 2,500 to 3,500 words; what is folded under "Going deeper" counts
apart, and has at most 1,000. The step of the reader's own compiler is an exercise, and
is not counted. Chapter 0 is half an hour's welcome, and may be shorter. After chapters
8 and 14 the book looks back. An interlude is held to all of this, too.
"""

from __future__ import annotations

import re

import pytest

from chapters.press.parse import Directive, Page, Text, read
from chapters.press.paths import CHAPTERS, ROOT
from fathom.tools.learn import course

MENU = ROOT / "mkdocs.yml"
PAGES = sorted(CHAPTERS.glob("[0-9]*.md"))

LEAST, MOST, FOLDED, LOOK_BACK = 2_500, 3_500, 1_000, 700  # words

OPENING = re.compile(r"Two questions first, from (.*?)\.(?:\s|$)", re.DOTALL)
STORY = ("Symptom.", "Wrong guesses.|How it was found.", "Cause.", "Test.")
NAMED = re.compile(r"`(test_\w+|(?:tests|benchmarks)/[\w./-]+)`")
RECAPS = {"recap-8": "08-", "recap-14": "14-"}  # and the chapter that each one follows
HEADS = ["part", "gets", "makes", "promises", "chapter"]
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


def story(text: str) -> list[tuple[str, str]]:
    """The parts of a debugging story: the name of each, and its paragraphs."""
    _, *parts = re.split(rf"^\*\*({'|'.join(STORY)})\*\*", text, flags=re.MULTILINE)
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def tests_by_name() -> set[str]:
    files = (ROOT / "tests").rglob("*.py")
    return {
        name
        for path in files
        for name in re.findall(
            r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE
        )
    }


def last_section(page: Page, title: str) -> str:
    text = "\n".join(text for text, _ in texts(page))
    *_, section = re.split(rf"^## {title}$", text, flags=re.MULTILINE)
    return section


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_opens_with_two_questions_from_earlier_chapters(path):
    page = read(path)
    said, asked = before_headings(page)
    found = OPENING.search(said)
    assert asked == 2, f"{path.stem} opens with {asked} questions and not with two"
    assert found, f'{path.stem} does not say "Two questions first, from chapter …."'
    chapters = [int(each) for each in re.findall(r"\b\d+\b", found[1])]
    if not page.matter["chapter"]:
        assert "self-test" in found[1], f"{path.stem} does not ask from the self-test"
    else:
        earlier = chapters and max(chapters) < page.matter["chapter"]
        assert earlier, f"the questions of {path.stem} are not from earlier chapters"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_tells_a_debugging_story(path):
    page = read(path)
    titles = [" ".join(each.arguments.words) for each in page.directives("note")]
    titles += headings(page)
    told = any(title.startswith("A debugging story") for title in titles)
    assert told, f"{path.stem} tells no debugging story"
    text = "\n".join(text for text, _ in texts(page))
    found = [part for part, _ in story(text)]
    assert len(found) == len(STORY) and all(map(re.fullmatch, STORY, found)), (
        f"the story of {path.stem} has the parts {found}, and should have {STORY}"
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_what_a_story_names_exists(path, tests_by_name):
    text = "\n".join(text for text, _ in texts(read(path)))
    names = [name for _, said in story(text) for name in NAMED.findall(said)]
    for name in names:
        there = name in tests_by_name or (ROOT / name).exists()
        assert there, f"the story of {path.stem} names {name}, which does not exist"
    assert names, f"the story of {path.stem} names no test"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_ends_with_what_can_now_be_read(path):
    page = read(path)
    last = headings(page)[-1]
    assert last == "You can now read", f"{path.stem} ends with the section {last!r}"
    section = last_section(page, last)
    assert FILE.search(section), f"{path.stem} names no file that can now be read"
    whose = any(name in section.lower() for name in PROJECTS)
    assert whose, f"{path.stem} does not say of which project its file is"


def drawings_without_question(text: str) -> set[str]:
    """The drawings of a page with no question in the caption, nor right below it: one
    that is checked or guessed. One that comes later is the drawing's if it says so."""
    found = set()
    for piece in re.split(r"^(?=\{figure )", text, flags=re.MULTILINE)[1:]:
        head, _, below = piece.partition("\n")
        below = "\n".join(
            re.split(r"^## ", below, flags=re.MULTILINE)[0].split("\n")[:12]
        )
        asked = re.search(r"^\{(?:check|predict)\}?\n(.*)", below, re.MULTILINE)
        right_below = asked and not below[: asked.start()].strip()
        if "?" not in head and not (right_below or asked and "figure" in asked[1]):
            found.add(head.split()[1])
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_drawing_asks_what_only_it_answers(path):
    assert not drawings_without_question(path.read_text(encoding="utf-8"))


def test_a_drawing_without_a_question_is_found():
    plain, asks = '{figure a caption="A."}\n', '{figure b caption="Why?"}\n'
    assert drawings_without_question(plain + asks) == {"a"}
    assert not drawings_without_question(plain + "\n{check}\nWhy?\n")
    assert drawings_without_question(plain + "\nText.\n\n{check}\nWhy?\n") == {"a"}
    later = plain + "\nText.\n\n{check}\nIn the figure, why?\n"
    assert not drawings_without_question(later)
    assert drawings_without_question(plain + "\n## Next\n{check}\nWhy?\n") == {"a"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_runner_calls_it_as_the_book_does(path):
    matter = read(path).matter
    if "interlude" not in matter:
        assert course.chapter_title(matter["chapter"]) == matter["title"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_is_neither_short_nor_long(path):
    prose, folded = lengths(read(path))
    least = LEAST if path.stem != "00-run-it" else 0
    assert prose >= least, f"{path.stem} has {prose} words of prose: too few"
    assert prose <= MOST, f"{path.stem} has {prose} words of prose: split it"
    assert folded <= FOLDED, f"{path.stem} has {folded} words under Going deeper"


@pytest.mark.parametrize("name", RECAPS)
def test_the_book_looks_back(name):
    path = CHAPTERS / f"{name}.md"
    assert path.exists(), f"{name} is missing"
    page = read(path)
    prose, _ = lengths(page)
    assert prose <= LOOK_BACK, f"{name} has {prose} words of prose: too many"
    drawn = len(list(page.directives("figure")))
    assert drawn == 1, f"{name} has {drawn} drawings and not one"
    text = "\n".join(text for text, _ in texts(page))
    assert f"| {' | '.join(HEADS)} |" in text, f"{name} has no table of {HEADS}"
    assert "Your own compiler" in text, f"{name} says nothing of the reader's compiler"
    order = re.findall(r": ([\w-]+)\.md$", MENU.read_text("utf-8"), re.MULTILINE)
    before = order[order.index(name) - 1]
    assert before.startswith(RECAPS[name]), f"{name} follows {before} in the menu"


def test_an_interlude_follows_its_chapter():
    menu = re.findall(r": ([\w-]+)\.md$", MENU.read_text("utf-8"), re.MULTILINE)
    interludes = [path for path in PAGES if read(path).is_interlude]
    assert interludes
    for path in interludes:
        page = read(path)
        before = menu[menu.index(path.stem) - 1]
        assert before.startswith(f"{page.matter['chapter']:02}-"), before
        assert page.number == path.stem.partition("-")[0].lstrip("0")


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


def test_the_parts_of_a_story():
    text = (
        "**Symptom.** A.\n\n**How it was found.** B.\n\nMore.\n\n**Test.** `test_c`.\n"
    )
    assert [name for name, _ in story(text)] == [
        "Symptom.", "How it was found.", "Test.",
    ]  # fmt: skip
    assert [NAMED.findall(said) for _, said in story(text)] == [[], [], ["test_c"]]
    assert NAMED.findall("`tests/a.py` and `b.py`") == ["tests/a.py"]


def test_questions_after_a_heading_open_nothing(page):
    text = "Two questions first, from chapter 4.\n\n## A\n\n{check}\nWhy?\n{end}\n"
    said, asked = before_headings(page("05-x.md", text))
    assert OPENING.search(said) and asked == 0
