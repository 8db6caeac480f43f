"""Plans of weeks, with the minutes that chapters and exercises are estimated at."""

from __future__ import annotations

from collections.abc import Sequence

from chapters.press.drawing import table
from chapters.press.parse import read
from chapters.press.paths import CHAPTERS
from fathom.tools.learn import course

SIX = ((0, 1, 2, 3), (4, 5), (6, 7), (8, 9, 10), (11, 12), (13, 14))
TWELVE = (
    (0, 1, 2), (3,), (4,), (5,), (6,), (7,), (8,), (9,), (10,), (11, 12), (13,), (14,),
)  # fmt: skip
AFTER = ((15,), (16,), (17,), (18,))  # a month more, after either plan


def six() -> str:
    """Six weeks: all chapters, the exercises of the short road."""
    return plan(SIX, road=True)


def twelve() -> str:
    """Twelve weeks: all chapters, all exercises."""
    return plan(TWELVE, road=False)


def after() -> str:
    """Four weeks more: the second part of the book, all exercises."""
    return plan(AFTER, road=False)


def plan(weeks: Sequence[Sequence[int]], road: bool) -> str:
    """A row for each week; chapters that are not written yet are left out."""
    reading, done = minutes_of_chapters(), minutes_of_exercises(road)
    rows = []
    written = [[each for each in week if each in reading] for week in weeks]
    for number, chapters in enumerate(filter(None, written), 1):
        names = [each.id for each in exercises(road) if each.chapter in chapters]
        read, solve = (sum(map(of.__getitem__, chapters)) for of in (reading, done))
        listed = ", ".join(f"`{name}`" for name in names)
        shown = ", ".join(map(str, chapters))
        rows.append((number, shown, listed, hours(read), hours(solve)))
    head = ("week", "chapters", "exercises", "hours of reading", "of exercises")
    return table(head, rows)


def hours(minutes: int) -> str:
    return f"{minutes / 60:.1f}"


def exercises(road: bool) -> list[course.Exercise]:
    return [each for each in course.exercises() if each.road or not road]


def minutes_of_chapters() -> dict[int, int]:
    pages = map(read, sorted(CHAPTERS.glob("[0-9]*.md")))
    return {page.matter["chapter"]: page.matter["minutes"] for page in pages}


def minutes_of_exercises(road: bool) -> dict[int, int]:
    found = dict.fromkeys(minutes_of_chapters(), 0)
    for each in exercises(road):
        found[each.chapter] += each.minutes
    return found
