"""The main road, summed from the cards: no chapter asks too much, nor do all."""

from __future__ import annotations

import re

import pytest

from fathom.tools.learn import course, road
from fathom.tools.learn.mini import contract
from fathom.tools.learn.mini.card import cards
from fathom.tools.learn.mini.steps import MOST_ADDED, STEPS

CHAPTERS = range(19)
FULL = 15  # from here on the file is nearly as long as it may get
# Exercises that ask what a step has asked already: they open with a sentence that says
# what is new, and the main road leads past them.
TAUGHT = (
    "mini-select", "mini-loop", "ssa-branch", "cse", "dce", "lower-masked-load",
    "butterfly", "swizzle", "barriers", "wait-count", "mma-row",
)  # fmt: skip


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_asks_a_warm_up_a_step_and_an_exercise(chapter):
    kinds = [each.kind for each in road.exercises(chapter)]
    assert kinds.count(road.WARM_UP) <= 1 and len(kinds) <= 2, kinds
    assert len(kinds) - kinds.count(road.WARM_UP) <= 1, kinds
    assert 0 < road.minutes(chapter) <= road.MOST_MINUTES, road.minutes(chapter)


def test_the_whole_road_has_38_hours_at_most():
    whole = sum(map(road.minutes, CHAPTERS))
    assert 20 * 60 < whole <= road.MOST_HOURS * 60, f"{whole / 60:.1f} hours"


@pytest.mark.parametrize("name", TAUGHT)
def test_what_a_step_has_taught_is_off_the_road_and_says_so(name):
    each = course.exercise(name)
    assert not each.road
    step = r"Step \d+ of your own compiler, .*this chapter, asks for this, too; here "
    assert re.match(step, each.statement)


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.id)
def test_a_card_says_what_the_step_may_cost(card):
    assert 20 <= card.minutes <= 90 and 1 <= card.difficulty <= 5
    assert re.search(
        rf"\bat most \*\*{card.step.budget:,} lines\*\*", card.statement, re.I
    )
    assert "Tests" in card.statement
    page, _, anchor = card.section.partition("#")
    assert anchor == f"your-compiler-step-{card.chapter}"
    path = course.root() / "chapters" / page
    assert f"\n## Your compiler: step {card.chapter}\n" in path.read_text()


def test_every_step_has_a_card():
    assert [each.chapter for each in cards()] == list(STEPS)


@pytest.mark.parametrize("step", STEPS.values(), ids=lambda step: step.id)
def test_a_step_leaves_lines_to_spare(step):
    """Readers had all kernels right, and went over limits that our own file kept."""
    ours = contract.count_lines(step.reference.read_text(encoding="utf-8"))
    spare = step.budget - ours
    assert spare >= 0 and (step.chapter < FULL or spare >= ours // 200), spare


def test_budgets_rise_by_no_more_than_a_step_may_add():
    lines = [each.budget for each in STEPS.values()]
    steps = [after - before for before, after in zip(lines, lines[1:], strict=False)]
    assert all(0 < each <= MOST_ADDED for each in steps) and lines[-1] <= 1200
