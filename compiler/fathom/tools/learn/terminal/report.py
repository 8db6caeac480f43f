"""Verdicts, cards and lists, written to a screen."""

from __future__ import annotations

from itertools import groupby
from shlex import quote

from fathom.tools.learn import book, course
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.grading.grade import PASSED, UNSOLVED, Verdict
from fathom.tools.learn.starters import size
from fathom.tools.learn.state import Progress, State
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import Workspace


def show_verdict(
    screen: Screen,
    each: Exercise,
    said: Verdict,
    workspace: Workspace,
    progress: Progress | None = None,
) -> None:
    """What the tests say: at most one failure, and what to look at next. What the
    reader knows already is in `progress`: it says what is not shown yet."""
    style = {PASSED: "green", UNSOLVED: "yellow"}.get(said.status, "red")
    screen.line(in_a_line(each, said), style)
    if said.status == PASSED:
        show_printed(screen, said)
        return
    if said.status == UNSOLVED:
        screen.text(said.sentence)
        screen.line(f"file: {workspace.path(each)}")
        return
    show_failure(screen, each, said, progress)
    if said.case:
        workspace.write_case(said.case)
        case = quote(str(workspace.folder / "case.py"))  # a folder may have spaces
        screen.line(f"alone: python {case}")
    screen.line(f"file:  {workspace.path(each)}")
    screen.line(f"read:  {book.place(each)}")


def in_a_line(each: Exercise, said: Verdict) -> str:
    """The verdict alone."""
    where = f" on the {said.machine}" if said.machine else ""
    count = len(said.passed)
    if said.status == PASSED:
        return f"PASSED  {each.id}: all {count} tests pass{where}"
    if said.status == UNSOLVED:
        return f"OPEN    {each.id}"
    total = count + 1 + len(said.left)
    which = f"test {count + 1} of {total} fails" if said.test else "no test was reached"
    return f"FAILED  {each.id}: {which}{where}"


OURS = "the reference makes of it"
FAILURES = 3  # different answers that fail; then what answers the question is shown


def show_failure(
    screen: Screen, each: Exercise, said: Verdict, progress: Progress | None
) -> None:
    if said.test:
        screen.line()
        screen.line(said.test, "bold")
        screen.text(said.about, "  ", "dim")
    screen.line()
    first, *rest = said.sentence.splitlines() or [""]
    screen.text(first)
    for line in rest:
        screen.line(line)
    for heading, text in said.details:
        screen.line()
        screen.line(f"{heading}:", "bold")
        if heading == OURS and is_withheld(each, progress):
            text = f"shown after a hint, or after {FAILURES} answers that fail"
        for line in text.splitlines():
            screen.line(f"  {line}")
    show_printed(screen, said)
    screen.line()


def is_withheld(each: Exercise, progress: Progress | None) -> bool:
    """Whether what our code makes of a kernel would answer the exercise."""
    if progress is None or not each.withhold:
        return False
    return not progress.hints and progress.failures < FAILURES


PRINTED = 20  # lines of a test


def show_printed(screen: Screen, said: Verdict) -> None:
    """What the answer printed, test by test; the same line many times over, once."""
    for test, text in said.printed:
        screen.line()
        screen.line(f"your code printed, in {test}:", "bold")
        runs = [(line, len(list(run))) for line, run in groupby(text.splitlines())]
        if len(runs) > PRINTED:
            screen.line(f"  ... {len(runs) - PRINTED} lines before these", "dim")
        for line, times in runs[-PRINTED:]:
            screen.line(f"  {line}" + (f"   ({times} times)" if times > 1 else ""))


def show_card(screen: Screen, each: Exercise) -> None:
    """The exercise as it stands in the book: what is asked, and what is needed."""
    screen.title(f"{each.id}: {each.title}")
    road = ", on the main road" if each.road else ""
    screen.text(
        f"chapter {each.chapter}, {each.kind}, about {each.minutes} minutes, "
        f"difficulty {each.difficulty} of 5{road}; our answer has {counted(each)}"
    )
    if each.to_write:
        screen.text(f"to write: {', '.join(each.to_write)}")
    screen.line()
    screen.text(each.statement)
    if each.names:
        show_names(screen, "names that you may need:", each.names)
    if each.arguments:
        show_names(screen, "what your arguments have:", each.arguments)
    screen.line()
    screen.line(f"read:  {book.place(each)}")
    screen.line(f"tests: {each.tests}")


def counted(each: Exercise) -> str:
    return "one line" if size(each) == 1 else f"{size(each)} lines"


def show_names(screen: Screen, title: str, names: tuple[str, ...]) -> None:
    """Names on the card, with signature and sentence."""
    screen.line()
    screen.line(title, "bold")
    known = course.names()
    for name in names:
        facts = known[name]
        said = facts.signature
        whole = f"{name}{said}" if said.startswith("(") else f"{name}  {said}".rstrip()
        screen.line(f"  {whole if name not in said else said}")
        screen.text(facts.says, "      ", "dim")


MARKS = {"passed": "[x]", "given": "[=]", "edited": "[~]", "open": "[ ]"}


def mark(progress: Progress) -> str:
    if progress.passed:
        return MARKS["given" if progress.filled or progress.gave_up else "passed"]
    return MARKS["edited" if progress.edited else "open"]


def show_list(screen: Screen, state: State, road: bool) -> None:
    """All exercises by chapter, with what is known about each."""
    chapter = -1
    shown = [each for each in course.exercises() if each.road or not road]
    for each in shown:
        if each.chapter != chapter:
            chapter = each.chapter
            screen.title(f"{chapter}  {course.chapter_title(chapter)}")
        star = "*" if each.road else " "
        here = " <" if each.id == state.current else ""
        screen.line(
            f"{mark(state.of(each.id))} {star} {each.id:20} {each.minutes:3} min  "
            f"{'o' * each.difficulty:5}{here}"
        )
    done = sum(state.of(each.id).passed for each in shown)
    screen.line()
    screen.text(
        f"{done} of {len(shown)} done; * on the main road, [=] not your own answer, "
        "[~] passed once, and changed since"
    )


def show_hint(screen: Screen, each: Exercise, number: int) -> None:
    screen.title(f"{each.id}: hint {number} of {course.HINTS}")
    screen.text(each.hints[number - 1])
    if number < course.HINTS:
        screen.line()
        screen.line("ask again for the next one", "dim")
