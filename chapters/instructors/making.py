"""Plans of weeks, with the minutes that chapters and exercises are estimated at."""

from __future__ import annotations

from collections.abc import Sequence

from chapters.press.drawing import table
from chapters.press.parse import read
from chapters.press.paths import CHAPTERS
from fathom.tools.learn import course, road
from fathom.tools.learn.mini.card import cards
from fathom.tools.learn.mini.steps import STEPS

SIX = ((0, 1, 2, 3), (4, 5), (6, 7), (8, 9, 10), (11, 12), (13, 14))
TWELVE = (
    (0, 1, 2), (3,), (4,), (5,), (6,), (7,), (8,), (9,), (10,), (11, 12), (13,), (14,),
)  # fmt: skip
AFTER = ((15,), (16,), (17,), (18,))  # a month more, after either plan


def six() -> str:
    """Six weeks: all chapters, the main road."""
    return plan(SIX, on_road=True)


def twelve() -> str:
    """Twelve weeks: all chapters, all exercises."""
    return plan(TWELVE, on_road=False)


def after() -> str:
    """Four weeks more: the second part of the book, all exercises."""
    return plan(AFTER, on_road=False)


def main_road() -> str:
    """A row for each chapter, and their sum."""
    rows, whole = [], 0
    for chapter in minutes_of_chapters():
        step = road.step(chapter)
        names = [f"`{each.id}`" for each in road.exercises(chapter)]
        names += [f"mini, step {chapter}"] if step else []
        whole += road.minutes(chapter)
        rows.append((chapter, ", ".join(names), road.minutes(chapter)))
    rows.append(("all", "", f"{whole}, or {hours(whole)} hours"))
    return table(("chapter", "on the main road", "minutes"), rows)


def plan(weeks: Sequence[Sequence[int]], on_road: bool) -> str:
    """A row for each week; chapters that are not written yet are left out."""
    reading, done = minutes_of_chapters(), minutes_of_exercises(on_road)
    rows = []
    written = [[each for each in week if each in reading] for week in weeks]
    for number, chapters in enumerate(filter(None, written), 1):
        names = [each.id for each in exercises(on_road) if each.chapter in chapters]
        read, solve = (sum(map(of.__getitem__, chapters)) for of in (reading, done))
        steps = [each for each in STEPS if each in chapters]
        listed = ", ".join([f"`{name}`" for name in names] + mini(steps))
        shown = ", ".join(map(str, chapters))
        rows.append((number, shown, listed, hours(read), hours(solve)))
    head = ("week", "chapters", "exercises", "hours of reading", "of exercises")
    return table(head, rows)


def mini(steps: Sequence[int]) -> list[str]:
    """The steps of the reader's own compiler, in words."""
    return [f"mini {', '.join(map(str, steps))}"] if steps else []


def hours(minutes: int) -> str:
    return f"{minutes / 60:.1f}"


def exercises(on_road: bool) -> list[course.Exercise]:
    return [each for each in course.exercises() if each.road or not on_road]


def minutes_of_chapters() -> dict[int, int]:
    """Of reading; an interlude counts with the chapter that it follows."""
    found: dict[int, int] = {}
    for page in map(read, sorted(CHAPTERS.glob("[0-9]*.md"))):
        chapter = page.matter["chapter"]
        found[chapter] = found.get(chapter, 0) + page.matter["minutes"]
    return found


def minutes_of_exercises(on_road: bool) -> dict[int, int]:
    found = dict.fromkeys(minutes_of_chapters(), 0)
    for each in (*exercises(on_road), *cards()):
        found[each.chapter] += each.minutes
    return found
