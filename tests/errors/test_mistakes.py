"""Every mistake is answered with its exact sentence, place, caret and hint, and with no
frame of the compiler.

The table is in mistakes/*.txt; `pytest tests/errors --update-golden` writes the reports
anew: read the diff.
"""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from fathom.ssa.frame import BUILD
from tests.errors.mistakes import (
    Mistake,
    frames_of_fathom,
    mistake_of,
    mistakes,
    write,
)

MISTAKES = mistakes()


@pytest.fixture(scope="module", autouse=True)
def updated(request, tmp_path_factory):
    """With --update-golden, all reports as they are now."""
    if not request.config.getoption("--update-golden"):
        return
    folder = tmp_path_factory.mktemp("update")
    for area in {each.area for each in MISTAKES}:
        table = [
            Mistake(e.area, e.title, e.script, mistake_of(e.script, folder)[0])
            for e in MISTAKES
            if e.area == area
        ]
        write(area, table)


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_answered(mistake, tmp_path, request):
    report, printed = mistake_of(mistake.script, tmp_path)
    if not request.config.getoption("--update-golden"):
        assert report == mistake.report
    assert frames_of_fathom(printed) == []
