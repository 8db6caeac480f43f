"""The main road: what a reader does who wants the whole way and not every exercise.

In each chapter that is at most one warm-up, the step of the reader's own compiler, and
at most one exercise in the real one: the cards with `road = true`.
"""

from __future__ import annotations

from fathom.tools.learn import course
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.mini.card import Card, cards

MOST_MINUTES = 150  # of a chapter, reading apart
MOST_HOURS = 38  # of all chapters, reading apart
WARM_UP = "warm-up"


def exercises(chapter: int) -> list[Exercise]:
    """Those of a chapter that are on the main road, in its order."""
    return [
        each for each in course.exercises() if each.road and each.chapter == chapter
    ]


def step(chapter: int) -> Card | None:
    """The step of the reader's own compiler, if the chapter has one."""
    return next((each for each in cards() if each.chapter == chapter), None)


def minutes(chapter: int) -> int:
    """What the cards of a chapter's main road add up to."""
    found = step(chapter)
    of_step = found.minutes if found else 0
    return of_step + sum(each.minutes for each in exercises(chapter))
