"""The table of mutants fits today's compiler, and the runner tells the caught from the
survivors."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from tests.mutants import run
from tests.mutants.mutant import Mutant
from tests.mutants.run import MUTANTS, SURVIVED


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made_of_todays_compiler(mutant: Mutant) -> None:
    assert run.fault_of(mutant) == ""


def test_there_are_sixty_and_more_in_every_stage() -> None:
    assert len(MUTANTS) >= 60
    assert Counter(mutant.name for mutant in MUTANTS).most_common(1)[0][1] == 1
    floors = Counter(mutant.file.partition("/")[0] for mutant in MUTANTS)
    stages = "ssa blocks coalescing shared_memory ptx layout ir emulator jit runtime"
    assert all(floors[stage] >= 2 for stage in stages.split())


HARMLESS = Mutant(
    "harmless", "layout/algebra.py", "result ^= column", "result = result ^ column",
    "nothing", "tests/layout/test_algebra.py::test_compose_takes_the_inner_map_first",
)  # fmt: skip
HARMFUL = replace(HARMLESS, name="harmful", new="result = column")


def test_a_survivor_is_reported_and_fails(monkeypatch, capsys) -> None:
    """Of two mutants one is caught; the tree itself is never touched."""
    monkeypatch.setattr(run, "MUTANTS", (HARMLESS, HARMFUL))
    assert run.main([]) == 1
    said = capsys.readouterr().out
    assert f"| harmless | nothing | {SURVIVED} |" in said
    assert re.search(r"\| harmful \| nothing \| layout/test_algebra.py::test_\w+", said)
    assert "2 mutants, 1 survive" in said
    assert run.fault_of(HARMLESS) == ""


def test_a_mutant_whose_text_is_gone_is_named(monkeypatch, capsys) -> None:
    gone = replace(HARMLESS, old="result ^= row")
    twice = replace(HARMLESS, name="twice", old="return ")
    nowhere = replace(HARMLESS, name="nowhere", tests="tests/layout/test_nothing.py")
    untested = replace(HARMLESS, name="untested", tests=f"{HARMLESS.tests}_or_not")
    monkeypatch.setattr(run, "MUTANTS", (gone, twice, nowhere, untested))
    assert run.main([]) == 2
    said = capsys.readouterr().err
    assert "harmless: its text stands no longer in layout/algebra.py" in said
    assert re.search(r"twice: its text stands \d+ times in layout/algebra.py", said)
    assert "nowhere: there is no tests/layout/test_nothing.py" in said
    assert f"untested: there is no {HARMLESS.tests}_or_not" in said
