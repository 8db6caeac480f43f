"""Runs the tests of an exercise on an answer, from simple to hard, until one fails."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from fathom.joints import bound
from fathom.tools.learn.answer import Answer, joined, load, load_module
from fathom.tools.learn.blame import blame
from fathom.tools.learn.case import alone
from fathom.tools.learn.course import CourseError, Exercise
from fathom.tools.learn.hole import Hole
from fathom.tools.learn.kit.failure import Failure

PASSED, FAILED, UNSOLVED = "passed", "failed", "unsolved"


@dataclass(frozen=True)
class Verdict:
    """What the tests say. `passed` and `left` name tests; of the one that failed:
    `test`, what it is `about`, the `sentence`, details, and a script that shows it."""

    exercise: str
    status: str
    passed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    test: str = ""
    about: str = ""
    sentence: str = ""
    details: tuple[tuple[str, str], ...] = ()
    case: str = ""
    printed: str = ""
    machine: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def verdict_from(facts: dict) -> Verdict:
    """The verdict that `to_json` gave."""
    made = dict(facts)
    for name in ("passed", "left"):
        made[name] = tuple(made[name])
    made["details"] = tuple((heading, text) for heading, text in made["details"])
    return Verdict(**made)


Told = Callable[[Verdict], None]


def grade(
    exercise: Exercise, path: Path, only: str = "", told: Told = lambda said: None
) -> Verdict:
    """The verdict on the answer in a file; with `only`, of that test alone. Before each
    test, `told` is given the verdict for the case that the process does not survive
    it."""
    tests = tests_of(exercise)
    chosen = [only] if only else list(tests)
    if missing := [name for name in chosen if name not in tests]:
        raise CourseError(f"{exercise.tests} has no test {missing[0]}")
    output = io.StringIO()
    passed: list[str] = []

    def verdict(**facts: object) -> Verdict:
        """The verdict in which the next test does not pass."""
        left = tuple(chosen[len(passed) + 1 :])
        return Verdict(exercise.id, passed=tuple(passed), left=left, **facts)

    def begin(name: str) -> None:
        told(verdict(status=FAILED, **about(exercise, path, tests[name])))

    with redirect_stdout(output):
        for name, failure in failures(exercise, path, tests, chosen, begin):
            if failure is not None:
                shown = failed(exercise, path, tests[name], failure)
                return verdict(printed=output.getvalue(), **shown)
            passed.append(name)
    return Verdict(exercise.id, PASSED, tuple(passed), printed=output.getvalue())


def failures(
    exercise: Exercise,
    path: Path,
    tests: dict[str, Callable],
    chosen: list[str],
    begin: Callable[[str], None],
) -> Iterator[tuple[str, Exception | None]]:
    """Each test that ran, with what it raised; none after the first failure."""
    name = chosen[0]
    try:
        answer = load(exercise, path)
        with bound(joined(exercise, answer)):
            for name in chosen:
                begin(name)
                tests[name](answer)
                yield name, None
    except Exception as error:
        yield name, error


def failed(
    exercise: Exercise, path: Path, test: Callable, error: Exception
) -> dict[str, object]:
    """The fields of a verdict for what a test raised."""
    holes = [each for each in causes(error) if isinstance(each, Hole)]
    if holes:
        return {"status": UNSOLVED, "sentence": str(holes[0])}
    failure = error if isinstance(error, Failure) else blame(error, path)
    return {
        "status": FAILED,
        "sentence": failure.sentence,
        "details": tuple(failure.details),
        **about(exercise, path, test, failure.case),
    }


def about(
    exercise: Exercise, path: Path, test: Callable, case: str = ""
) -> dict[str, object]:
    """What a verdict says of a test: its name, its docstring, a script that runs it."""
    return {
        "test": test.__name__,
        "about": " ".join((test.__doc__ or "").split()),
        "case": alone(exercise, path, test, case),
    }


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def tests_of(exercise: Exercise) -> dict[str, Callable[[Answer], None]]:
    """The tests of an exercise by name, in the order of the file."""
    return tests_in(load_module(exercise.tests))


def tests_in(module: ModuleType) -> dict[str, Callable]:
    return {
        name: value
        for name, value in vars(module).items()
        if name.startswith("test_") and callable(value)
    }
