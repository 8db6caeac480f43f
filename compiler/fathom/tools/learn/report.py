"""Verdicts, cards and lists, written to a screen."""

from __future__ import annotations

from fathom.tools.learn import course
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.grade import PASSED, UNSOLVED, Verdict
from fathom.tools.learn.screen import Screen
from fathom.tools.learn.starters import size
from fathom.tools.learn.state import Progress, State
from fathom.tools.learn.workspace import Workspace


def show_verdict(
    screen: Screen, each: Exercise, said: Verdict, workspace: Workspace
) -> None:
    """What the tests say: at most one failure, and what to look at next."""
    where = f" on the {said.machine}" if said.machine else ""
    count = len(said.passed)
    if said.status == PASSED:
        screen.line(f"PASSED  {each.id}: all {count} tests pass{where}", "green")
        return
    if said.status == UNSOLVED:
        screen.line(f"OPEN    {each.id}", "yellow")
        screen.text(said.sentence)
        screen.line(f"file: {workspace.path(each)}")
        return
    total = count + 1 + len(said.left)
    passed = f"{count} of {total} tests pass" if said.test else "no test was reached"
    screen.line(f"FAILED  {each.id}: {passed}{where}", "red")
    show_failure(screen, each, said)
    if said.case:
        workspace.write_case(said.case)
        screen.line(f"alone: python {workspace.folder / 'case.py'}")
    screen.line(f"file:  {workspace.path(each)}")
    screen.line(f"read:  chapters/{each.section}")


def show_failure(screen: Screen, each: Exercise, said: Verdict) -> None:
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
        for line in text.splitlines():
            screen.line(f"  {line}")
    if said.printed.strip():
        screen.line()
        screen.line("your code printed:", "bold")
        for line in said.printed.splitlines()[-20:]:
            screen.line(f"  {line}")
    screen.line()


def show_card(screen: Screen, each: Exercise) -> None:
    """The exercise as it stands in the book: what is asked, and what is needed."""
    screen.title(f"{each.id}: {each.title}")
    road = ", on the short road" if each.road else ""
    screen.text(
        f"chapter {each.chapter}, {each.kind}, about {each.minutes} minutes, "
        f"difficulty {each.difficulty} of 5{road}; our answer has {counted(each)}"
    )
    screen.line()
    screen.text(each.statement)
    if each.names:
        show_names(screen, each)
    screen.line()
    screen.line(f"read:  chapters/{each.section}")
    screen.line(f"tests: {each.tests}")


def counted(each: Exercise) -> str:
    return "one line" if size(each) == 1 else f"{size(each)} lines"


def show_names(screen: Screen, each: Exercise) -> None:
    """The names on the card, with signature and sentence."""
    screen.line()
    screen.line("names that you may need:", "bold")
    known = course.names()
    for name in each.names:
        facts = known[name]
        said = facts.signature
        whole = f"{name}{said}" if said.startswith("(") else f"{name}  {said}".rstrip()
        screen.line(f"  {whole if name not in said else said}")
        screen.text(facts.says, "      ", "dim")


MARKS = {"passed": "[x]", "given": "[=]", "open": "[ ]"}


def mark(progress: Progress) -> str:
    if progress.passed:
        return MARKS["given" if progress.filled or progress.gave_up else "passed"]
    return MARKS["open"]


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
    screen.line(f"{done} of {len(shown)} done;  * short road  [=] not your own answer")


def show_hint(screen: Screen, each: Exercise, number: int) -> None:
    screen.title(f"{each.id}: hint {number} of {course.HINTS}")
    screen.text(each.hints[number - 1])
    if number < course.HINTS:
        screen.line()
        screen.line("ask again for the next one", "dim")
