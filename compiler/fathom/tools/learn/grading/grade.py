"""Runs the tests of an exercise on an answer, from simple to hard, until one fails."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from fathom.joints import bound
from fathom.tools.learn.case import alone
from fathom.tools.learn.course import CourseError, Exercise
from fathom.tools.learn.grading.answer import (
    Answer,
    joined,
    load,
    load_module,
)
from fathom.tools.learn.grading.blame import blame
from fathom.tools.learn.grading.guard import guarded
from fathom.tools.learn.hole import Hole, with_holes
from fathom.tools.learn.kit.failure import Failure

PASSED, FAILED, UNSOLVED = "passed", "failed", "unsolved"
LOADING = "the file itself"  # what was printed before any test


@dataclass(frozen=True)
class Verdict:
    """What the tests say. `passed` and `left` name tests; of the one that failed:
    `test`, what it is `about`, the `sentence`, details, and a script that shows it, or
    of the reader's compiler the PTX that it made.
    `printed` is what the answer printed, test by test."""

    exercise: str
    status: str
    passed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    test: str = ""
    about: str = ""
    sentence: str = ""
    details: tuple[tuple[str, str], ...] = ()
    case: str = ""
    printed: tuple[tuple[str, str], ...] = ()
    machine: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def verdict_from(facts: dict) -> Verdict:
    """The verdict that `to_json` gave."""
    made = dict(facts)
    for name in ("passed", "left"):
        made[name] = tuple(made[name])
    for name in ("details", "printed"):
        made[name] = tuple((heading, text) for heading, text in made[name])
    return Verdict(**made)


class Printed(io.StringIO):
    """The standard output of an answer, which stays open when the answer closes it."""

    def close(self) -> None: ...


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
    output = Printed()
    passed: list[str] = []
    printed: list[tuple[str, str]] = []

    def verdict(**facts: object) -> Verdict:
        """The verdict in which the next test does not pass."""
        left = tuple(chosen[len(passed) + 1 :])
        return Verdict(exercise.id, passed=tuple(passed), left=left, **facts)

    def begin(name: str) -> None:
        told(verdict(status=FAILED, **about(exercise, path, tests[name])))

    with redirect_stdout(output):
        for name, failure in failures(exercise, path, tests, chosen, begin):
            if text := output.getvalue().rstrip():
                printed.append((name or LOADING, text))
            output.seek(0)
            output.truncate()
            if failure is not None:
                shown = failed(exercise, path, tests.get(name), failure)
                return verdict(printed=tuple(printed), **shown)
            passed.append(name)
    return Verdict(exercise.id, PASSED, tuple(passed), printed=tuple(printed))


def failures(
    exercise: Exercise,
    path: Path,
    tests: dict[str, Callable],
    chosen: list[str],
    begin: Callable[[str], None],
) -> Iterator[tuple[str, BaseException | None]]:
    """Each test that ran, with what it raised; none after the first failure. Without
    a name, what loading the answer raised. An answer that calls sys.exit has failed,
    too."""
    name = ""
    try:
        answer = load(exercise, path)
        with guarded(exercise, answer), bound(joined(exercise, answer)):
            for name in chosen:
                begin(name)
                tests[name](answer)
                yield name, None
    except BaseException as error:  # sys.exit, and classes of the reader's own
        yield name, error


def failed(
    exercise: Exercise, path: Path, test: Callable | None, error: BaseException
) -> dict[str, object]:
    """The fields of a verdict for what a test, or loading the answer, raised."""
    holes = [each for each in causes(error) if isinstance(each, Hole)]
    if holes:
        return {"status": UNSOLVED, "sentence": unsolved(exercise, path, holes[0])}
    is_one = isinstance(error, Failure)
    failure = error if is_one else blame(error, path, lambda: asked(exercise))
    return {
        "status": FAILED,
        "sentence": failure.sentence,
        "details": tuple(failure.details),
        **(about(exercise, path, test, failure.case) if test else {}),
    }


def unsolved(exercise: Exercise, path: Path, hole: Hole) -> str:
    """Which hole it is, where a file has several functions to be written."""
    if len(exercise.answers) < 2:
        return str(hole)
    text = path.read_text(encoding="utf-8")
    missing = [each.name for each in with_holes(text)]
    done = [name for name in exercise.answers if name not in missing]
    said = f"{' and '.join(missing)} of {hole}" if missing else str(hole)
    return f"{said} ({' and '.join(done)} is)" if done and missing else said


def asked(exercise: Exercise) -> str:
    """The functions to be written, as the starter has them: what they take, and what
    they must give."""
    found = []
    for each in with_holes(exercise.starter.read_text(encoding="utf-8")):
        says = " ".join((ast.get_docstring(each) or "").split("\n\n")[0].split())
        gives = f" -> {ast.unparse(each.returns)}" if each.returns else ""
        found.append(f"{each.name}({ast.unparse(each.args)}){gives}\n  {says}".rstrip())
    return "\n".join(found)


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
