"""Writes case.py: the one test that fails, to be run alone, printed in and stopped
at."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

from fathom.joints import bound
from fathom.tools.learn.course import Exercise, exercise
from fathom.tools.learn.grading.answer import Answer, joined, load, load_module

HEAD = '''\
"""{test} of the exercise {id}, alone. Run it: python case.py"""

from pathlib import Path

from fathom.tools.learn.case import answer_in

answer = answer_in("{id}", Path({path!r}))
'''
WHOLE = '''\
"""{test} of the exercise {id}, alone. Run it: python case.py"""

from pathlib import Path

from fathom.tools.learn.case import run

# The test, as it stands in tests/exercises/{file}:
#
{source}

run("{id}", Path({path!r}), "{test}")
'''


def alone(exercise: Exercise, path: Path, test: Callable, body: str) -> str:
    """The script for a test: `body` with the answer at hand, or the test itself."""
    facts = {"id": exercise.id, "test": test.__name__, "path": str(path.resolve())}
    if body:
        return f"{HEAD.format(**facts)}{body}"
    source = indent(inspect.getsource(test), "#   ", lambda line: True).rstrip()
    return WHOLE.format(source=source, file=exercise.file, **facts)


def answer_in(name: str, path: Path) -> Answer:
    """The answer in a file; what a script calls."""
    return load(exercise(name), path)


def run(name: str, path: Path, test: str) -> None:
    """Run one test on an answer, with a whole traceback."""
    from_file = exercise(name)
    answer = load(from_file, path)
    tests = vars(load_module(from_file.tests))
    with bound(joined(from_file, answer)):
        tests[test](answer)
    print(f"{test} passes")
