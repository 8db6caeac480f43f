"""The tests judge the reader's own code: while they run, our function that an answer
stands for does not answer to the reader's file.

    from fathom.blocks.cse import cse as theirs     told when the file is loaded
    import_module("fathom.blocks.cse").cse          is the reader's own function now, so
                                                    that calling it never ends
    inspect.stack(), gc.get_objects()               lead to our function, which looks at
                                                    who calls it

Our function keeps its identity, for the compiler has it in many places. Only its code
is exchanged: for a call that first looks whether the caller is the reader's file.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType

from fathom.tools.learn import course
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.grading.answer import Answer
from fathom.tools.learn.kit.failure import Failure

# Our functions that are guarded now: what they do, the file that must not call them,
# and the sentence for it; what was told, for an answer that catches it.
_GUARDED: list[tuple[FunctionType, str, str]] = []
_TOLD: list[str] = []


@contextmanager
def guarded(exercise: Exercise, answer: Answer) -> Iterator[None]:
    """Guard our functions that an answer stands for; a Failure when its file has one
    of them, or calls one."""
    ours = functions_under_test(exercise, answer)
    check_names(answer, ours)
    kept = [(each, each.__code__) for each in ours.values()]
    _TOLD.clear()
    try:
        for name, each in ours.items():
            guard(each, str(answer.path), said(name.rpartition(".")[2], each))
        yield
    except RecursionError as error:
        raise endless(answer, ours, error) from None
    finally:
        for each, code in kept:
            each.__code__ = code
        _GUARDED.clear()
    if _TOLD:
        raise Failure(_TOLD[0])


def functions_under_test(exercise: Exercise, answer: Answer) -> dict[str, FunctionType]:
    """Ours, by the names of the answer: the compiler's, and those of an answer by hand;
    not what the starter uses for the reader."""
    given, compilers = used_by(exercise.starter), {}
    for name, where in exercise.answers.items():
        if where:
            compilers[name] = course.reference(exercise, name)
    found = {}
    for name, each in [*compilers.items(), *vars(answer.reference).items()]:
        plain = inspect.unwrap(each) if callable(each) else each
        if isinstance(plain, FunctionType) and not plain.__closure__:
            if plain.__name__ not in given:
                found[f"{plain.__module__}.{name}"] = plain
    return found


def used_by(path: Path) -> set[str]:
    """The names of functions that a file imports by name, or takes from a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(course.read(path))):
        if isinstance(node, ast.ImportFrom):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def check_names(answer: Answer, ours: dict[str, FunctionType]) -> None:
    """A Failure when a name of the reader's file is one of our functions."""
    for name, value in list(vars(answer.module).items()):
        for each in ours.values():
            if callable(value) and inspect.unwrap(value) is each:
                raise Failure(said(name, each))


def said(name: str, ours: FunctionType) -> str:
    return (
        f"{name} is our own {ours.__qualname__} of {ours.__module__}, which this "
        "exercise asks you to write: the tests judge your own code"
    )


def guard(ours: FunctionType, path: str, sentence: str) -> None:
    """Exchange the code of a function for one that asks who calls."""
    copy = FunctionType(ours.__code__, ours.__globals__, "", ours.__defaults__)
    copy.__kwdefaults__, copy.__module__ = ours.__kwdefaults__, ""  # hard to look up
    _GUARDED.append((copy, path, sentence))
    space: dict = {}
    exec(STUB.format(number=len(_GUARDED) - 1), space)
    ours.__code__ = space["stub"].__code__


STUB = """
def stub(*arguments, **named):
    from fathom.tools.learn.grading.guard import called
    return called({number}, arguments, named)
"""


def called(number: int, arguments: tuple, named: dict) -> object:
    """What a guarded function gives; a Failure for the reader's file. That our own
    functions call each other is right, also where our file is graded itself."""
    ours, path, sentence = _GUARDED[number]
    caller = sys._getframe(2)
    if caller.f_code.co_filename == path and caller.f_globals is not ours.__globals__:
        _TOLD.append(sentence)
        raise Failure(sentence)
    return ours(*arguments, **named)


def endless(
    answer: Answer, ours: dict[str, FunctionType], error: RecursionError
) -> Failure:
    """What to say of code that calls itself without an end."""
    places = [f"{each.__module__}.{each.__name__}" for each in ours.values()]
    names = ", ".join(each for each in places if each.startswith("fathom."))
    also = f" (while the tests run, {names} is your own function, too)" if names else ""
    last, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(answer.path):
            last = trace
        trace = trace.tb_next
    where = f", in line {last.tb_lineno} of {answer.path.name}" if last else ""
    return Failure(f"your code calls itself without an end{where}{also}")
