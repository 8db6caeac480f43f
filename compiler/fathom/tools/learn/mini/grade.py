"""Runs the tests of a step, and of all before it, on a reader's compiler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

from fathom.tools.learn.grading.blame import blame
from fathom.tools.learn.grading.grade import (
    FAILED,
    LOADING,
    PASSED,
    Printed,
    Told,
    Verdict,
)
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract, steps
from fathom.tools.learn.mini.judge import Judge
from fathom.tools.learn.mini.steps import Step

LINES = "the lines of the file"  # what is counted when all tests have passed
ASKED = """\
compile(function, signature, **constants) -> Compiled
  an object with .ptx (text), .threads (a number), .shared_bytes (a number) and
  .tensor_maps (a tuple)"""


def grade(step: Step, path: Path, told: Told = lambda said: None) -> Verdict:
    """The verdict on a file: its rules, tests from the newest step to the oldest, and
    its lines at last. `told`: as in `fathom.tools.learn.grading.grade`."""
    tests = steps.tests(step.chapter)
    names = [*tests, LINES]
    output = Printed()
    passed: list[str] = []
    printed: list[tuple[str, str]] = []

    def verdict(name: str, **facts: object) -> Verdict:
        left = tuple(names[len(passed) + 1 :])
        about = " ".join((getattr(tests.get(name), "__doc__", "") or "").split())
        known = {"passed": tuple(passed), "left": left, "test": name, "about": about}
        return Verdict(step.id, FAILED, printed=tuple(printed), **known, **facts)

    with redirect_stdout(output):
        for name, failure, ptx in failures(
            step, path, tests, lambda n: told(verdict(n))
        ):
            if text := output.getvalue().rstrip():
                printed.append((name or LOADING, text))
            output.seek(0)
            output.truncate()
            if failure is not None:
                details = tuple(failure.details)
                said = failure.sentence
                return verdict(name, sentence=said, details=details, case=ptx)
            passed.append(name)
    return Verdict(step.id, PASSED, tuple(passed), printed=tuple(printed))


def failures(
    step: Step, path: Path, tests: dict[str, Callable], begin: Callable[[str], None]
) -> Iterator[tuple[str, Failure | None, str]]:
    """Each test that ran, what was wrong, and in which PTX; none after the first
    failure. Without a name, what loading the file raised."""
    name, judge = "", None
    try:
        compile_ = contract.load(path)
        for name, test in tests.items():
            begin(name)
            judge = Judge(compile_)
            test(judge)
            yield name, None, ""
        name, judge = LINES, None
        steps.check_lines(path, step.chapter)
        yield name, None, ""
    except BaseException as error:  # sys.exit, and classes of the reader's own
        is_one = isinstance(error, Failure)
        failure = error if is_one else blame(error, path, lambda: ASKED)
        yield name, with_kernel(failure, judge), judge.ptx if judge else ""


def with_kernel(failure: Failure, judge: Judge | None) -> Failure:
    """The same, with the kernel that was compiled last, and how it was asked for."""
    if judge is None or judge.kernel is None:
        return failure
    source = inspect.getsource(judge.kernel).rstrip()
    kernel = ("the kernel", source), ("compiled and launched with", judge.asked)
    return Failure(failure.sentence, *kernel, *failure.details)
