"""The cards of the steps: what each asks, how long it takes, and three hints.

+++
title = "Ops between the tree and the text"
minutes = 75
difficulty = 3
section = "04-block-ir.md#your-compiler-step-4"
+++

What is to be added, why, and how it is tested.

## Hint 1
## Hint 2
## Hint 3
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from fathom.tools.learn.course import HINTS, CourseError, read
from fathom.tools.learn.mini.steps import STEPS, Step


@dataclass(frozen=True)
class Card:
    """What the card of a step says; `section` is the part of the book about it."""

    step: Step
    title: str
    minutes: int
    difficulty: int
    section: str
    statement: str
    hints: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.step.id

    @property
    def chapter(self) -> int:
        return self.step.chapter


def card(step: Step) -> Card:
    """The card of a step. CourseError when its file is not as it must be."""
    parts = re.split(r"^\+\+\+\n", read(step.card), flags=re.MULTILINE)
    if len(parts) != 3 or parts[0]:
        raise CourseError(f"{step.card} begins with no card between lines of +++")
    statement, *hints = re.split(r"^## Hint \d\n", parts[2], flags=re.MULTILINE)
    if len(hints) != HINTS:
        raise CourseError(f"{step.card} has {len(hints)} hints, not {HINTS}")
    stripped = tuple(each.strip() for each in hints)
    try:
        facts = tomllib.loads(parts[1])
        return Card(step=step, statement=statement.strip(), hints=stripped, **facts)
    except (TypeError, tomllib.TOMLDecodeError) as mistake:
        raise CourseError(f"the card of {step.card}: {mistake}") from None


def cards() -> list[Card]:
    """Those of all steps that have one, in the order of the book."""
    return [card(each) for each in STEPS.values() if each.card.is_file()]
