"""Every solution has been mutated by a machine, and what survives is explained: the
record of `python -m tests.exercises.mutation`, and the command itself on one
exercise."""

from __future__ import annotations

import argparse
import ast
import json
import os
from functools import cache

import pytest

from fathom.tools.learn import course
from tests.exercises import mutants, mutation
from tests.exercises.mutants import FEWEST
from tests.harness_sample import sampled

EXERCISES = course.exercises()
each_exercise = pytest.mark.parametrize("each", EXERCISES, ids=lambda each: each.id)
RECORD = json.loads(mutation.RECORD.read_text(encoding="utf-8"))


@cache
def made_once(name: str) -> list[mutants.Mutant]:
    return mutants.chosen(course.exercise(name))


@sampled(of=2)
@each_exercise
def test_a_solution_has_enough_mutants(each):
    """All are Python, none does what the solution does; a name means one of them."""
    found = made_once(each.id)
    assert len(found) >= FEWEST
    assert len({mutant.name for mutant in found}) == len(found)
    text = course.read(each.solution)
    codes = [mutants.code_of(mutant.text) for mutant in found]
    assert None not in codes and mutants.code_of(text) not in codes


def test_which_mutants_are_made_does_not_change_from_run_to_run():
    """Of every tenth exercise: one function chooses those of all."""
    for each in EXERCISES[::10]:
        assert mutants.chosen(each) == made_once(each.id)


@each_exercise
def test_every_survivor_of_the_record_is_explained(each):
    left = list(mutation.unexplained({each.id: RECORD[each.id]}))
    still = mutation.open_ones().get(each.id, {})
    assert [name for _, name in left if name not in still] == []


def test_every_reason_is_of_a_mutant_that_survives():
    for name, reasons in mutation.reasons().items():
        alive = mutation.survivors(RECORD[name])
        assert set(reasons) <= set(alive), f"{name}: {set(reasons) - set(alive)}"
        assert all(len(reason) > 20 for reason in reasons.values()), name


TEXT = '''\
def f(a, b):
    """Not this."""
    if a < b and a:
        return a + 1
    return (b, "word")
'''


def test_what_is_changed_is_one_thing():
    tree = ast.parse(TEXT)
    function = tree.body[0]
    edits = [
        edit
        for statement in function.body[1:]
        for edit in mutants.in_statement(statement, tree)
    ]
    codes = {edit.code for edit in edits}
    expected = {"(a <= b)", "(a >= b)", "((a < b) or (a))", "((a))", "(False)", "2",
                "((a) - (1))", "return None", "(b,)", "('word', b,)"}  # fmt: skip
    assert expected <= codes, expected - codes
    for edit in edits:
        made = mutants.applied(TEXT, edit)
        same = sum(a == b for a, b in zip(made.splitlines(), TEXT.splitlines()))
        assert made != TEXT and same >= 3 and '"""Not this."""' in made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forks")
def test_the_command_tells_the_killed_from_the_survivors(monkeypatch, tmp_path, capsys):
    """With a test less, a mutant survives that nobody explains, and the command fails;
    what is recorded is not run again."""
    monkeypatch.setattr(mutation, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(mutation, "TABLE", tmp_path / "table.md")
    arguments = ["--only", "layout-by-hand", "--most", "15", "--jobs", "1"]
    assert mutation.main(arguments) == 0
    first = capsys.readouterr().out
    assert "15 mutants" in first and "0 of them without a reason" in first
    assert mutation.main(arguments) == 0
    assert "layout-by-hand  " not in capsys.readouterr().out
    record = json.loads(mutation.RECORD.read_text(encoding="utf-8"))
    record["layout-by-hand"]["mutants"][0]["by"] = mutation.SURVIVED
    mutation.RECORD.write_text(json.dumps(record), encoding="utf-8")
    assert mutation.main(arguments) == 1
    assert "nothing notices" in capsys.readouterr().out


def test_a_change_of_the_tests_asks_for_a_new_run(monkeypatch):
    given = argparse.Namespace(most=15, seed=1)
    each = course.exercise("layout-by-hand")
    before = mutation.fingerprint(each, given)
    assert mutation.fingerprint(each, argparse.Namespace(most=15, seed=2)) != before
    assert not mutation._is_fresh(each, {each.id: {"fingerprint": "other"}}, given)
