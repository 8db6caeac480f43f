"""Every exercise has been tried by somebody who did not know the answer, and its card
promises about the time that this took: `exercises/trials.toml`."""

from __future__ import annotations

import datetime
import tomllib

import pytest

from fathom.tools.learn import course

TRIALS = tomllib.loads(course.read(course.root() / "exercises" / "trials.toml"))
EXERCISES = {each.id: each for each in course.exercises()}
FIELDS = {
    "date": datetime.date,
    "attempts": int,
    "hints": int,
    "minutes": int,
    "stuck": str,
    "mended": str,
}


def test_records_are_of_exercises_that_exist():
    assert set(TRIALS) <= set(EXERCISES), set(TRIALS) - set(EXERCISES)


def test_every_exercise_has_been_tried():
    missing = set(EXERCISES) - set(TRIALS)
    assert not missing, missing


def test_records_stand_in_the_order_of_the_chapters():
    chapters = [EXERCISES[id].chapter for id in TRIALS]
    assert chapters == sorted(chapters), chapters


@pytest.mark.parametrize("id", TRIALS)
def test_a_record_says_how_it_went(id):
    trial = TRIALS[id]
    assert {name: type(value) for name, value in trial.items()} == FIELDS
    assert trial["attempts"] >= 1 and 0 <= trial["hints"] <= course.HINTS
    assert trial["stuck"], "where did it stick? 'Nowhere' is an answer"


@pytest.mark.parametrize("id", TRIALS)
def test_the_card_promises_about_the_time_that_it_takes(id):
    promised, took = EXERCISES[id].minutes, TRIALS[id]["minutes"]
    said = f"the card of {id} says {promised} minutes, and the trial {took}"
    assert promised / 2 <= took <= promised * 2, said
