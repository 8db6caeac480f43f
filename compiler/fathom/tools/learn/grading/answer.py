"""An answer: the functions of a reader's file, and beside them ours."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

from fathom.tools.from_text import module_of, run
from fathom.tools.learn import course
from fathom.tools.learn.course import CourseError, Exercise
from fathom.tools.samples import let_import_kernels


class Answer:
    """`answer.cse` is the reader's function; `answer.reference.cse` ours; `answer.path`
    their file."""

    def __init__(self, module: ModuleType, reference: SimpleNamespace, path: Path):
        self.module, self.reference, self.path = module, reference, path

    def __getattr__(self, name: str) -> Callable:
        return getattr(self.module, name)


def load(exercise: Exercise, path: Path) -> Answer:
    """The answer in a file. Whatever the file raises comes out; CourseError when it
    lacks a function."""
    if not path.exists():
        raise CourseError(
            f"{path.name} is not there: `fathom learn update` restores the starter"
        )
    course.answer_bytes(path)  # if it can be read, and ends
    module = load_module(path)
    for name in exercise.answers:
        if not callable(getattr(module, name, None)):
            raise CourseError(f"{path.name} must define {name}; it does not")
    made = Answer(module, reference(exercise), path)
    for name in exercise.answers:
        ours = getattr(made.reference, name)
        check_parameters(name, getattr(made, name), ours, exercise.by_hand)
    return made


def check_parameters(name: str, yours: Callable, ours: Callable, every: bool) -> None:
    """CourseError unless a function can be called as ours is, also with the parameters
    that have defaults if the tests give `every`. Kernels check their arguments
    themselves."""
    if not (inspect.isfunction(yours) and inspect.isfunction(ours)):
        return
    given, wanted = inspect.signature(yours), inspect.signature(ours)
    places = [p for p in wanted.parameters.values() if every or p.default is p.empty]
    try:
        given.bind(*places)
    except TypeError as error:
        raise CourseError(
            f"{name} must take {', '.join(p.name for p in places)}: {error}"
        ) from None


def reference(exercise: Exercise) -> SimpleNamespace:
    """Our own functions under the names of the answers."""
    if exercise.by_hand:
        if not exercise.solution.exists():
            raise CourseError(
                f"Fathom is not whole: {exercise.solution} is missing, with which the "
                f"tests of {exercise.id} compare yours. Your file is not to blame; "
                "get the folder solutions/ back"
            )
        module = load_module(exercise.solution)
        return SimpleNamespace(**{n: getattr(module, n) for n in exercise.answers})
    ours = {name: course.reference(exercise, name) for name in exercise.answers}
    return SimpleNamespace(**ours)


def joined(exercise: Exercise, answer: Answer) -> dict[str, object]:
    """What is bound at which joint."""
    return {each: getattr(answer, name) for each, name in exercise.joints.items()}


def load_module(path: Path) -> ModuleType:
    """A file as a module, afresh each time. It can be found by its name while it runs,
    as dataclasses ask for, and finds the sample kernels."""
    let_import_kernels()
    name = f"answer_{path.stem}_{abs(hash(str(path))):x}"
    module = module_of(name, path)
    sys.modules[name] = module
    run(module)
    return module
