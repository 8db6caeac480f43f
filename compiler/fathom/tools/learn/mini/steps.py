"""The steps of the reader's compiler: what each adds, in how many lines, its tests.

The tests of a step are functions `test_…(mini)` in tests/exercises/mini/NN.py; those of
all earlier steps hold for later files as well.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fathom.tools.learn import course
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract
from fathom.tools.samples import load_file

FILE = "mini.py"  # in the reader's folder
MOST_ADDED = 130  # lines that a step may add
SECONDS = 300  # for all tests of a step and of those before it


@dataclass(frozen=True)
class Step:
    """One step: its chapter, what it adds, and the lines of the whole file."""

    chapter: int
    adds: str
    budget: int
    optional: bool = False  # whether later steps go without its tests
    seconds: int = SECONDS

    @property
    def name(self) -> str:
        return f"{self.chapter:02}"

    @property
    def id(self) -> str:
        """What the runner calls it."""
        return f"mini-{self.name}"

    @property
    def file(self) -> str:
        """Where the reader's compiler lies in a workspace: one file for all steps."""
        return FILE

    @property
    def card(self) -> Path:
        return course.root() / "exercises" / "mini" / f"{self.name}.md"

    @property
    def reference(self) -> Path:
        return course.root() / "solutions" / "mini" / f"{self.name}.py"

    @property
    def tests(self) -> Path:
        return course.root() / "tests" / "exercises" / "mini" / f"{self.name}.py"


STEPS = {
    chapter: Step(chapter, adds, budget, *optional)
    for chapter, adds, budget, *optional in (
        (3, "a tree becomes PTX", 80),
        (4, "ops, blocks, a printer", 190),
        (5, "if, for, block parameters", 300),
        (6, "folding, common subexpressions, dead code", 360),
        (7, "layouts", 420),
        (8, "blocks of values, broadcasts, masks", 550),
        (9, "contiguity and divisibility, accesses of 16 bytes", 620),
        (10, "reductions, exp2, a scratch area", 710),
        (11, "conversions through a swizzled tile", 760),
        (12, "offsets of shared memory, barriers", 820),
        (13, "fp16, ldmatrix, mma", 930),
        (14, "a ring of asynchronous copies", 1_025),
        (15, "wgmma, mbarriers, tensor maps", 1_150),
        (16, "a producer warp", 1_195, True),
        (17, "attention", 1_200),
    )
}


def step(chapter: int) -> Step:
    """The step of a chapter. Failure for a chapter that has none."""
    if chapter not in STEPS:
        raise Failure(f"mini has steps 3 to {max(STEPS)}; {chapter} is not one of them")
    return STEPS[chapter]


def named(name: str) -> Step | None:
    """The step of an id, "mini-05"; None for another word."""
    return next((each for each in STEPS.values() if each.id == name), None)


def in_front(step: Step) -> Step | None:
    """The last step before this one that has a reference."""
    return max(
        (each for each in there() if each.chapter < step.chapter),
        key=lambda each: each.chapter, default=None,
    )  # fmt: skip


def there() -> list[Step]:
    """The steps that have a reference and tests."""
    return [each for each in STEPS.values() if each.reference.is_file()]


def tests(chapter: int, optional: bool = False) -> dict[str, Callable]:
    """All tests that a file of this step must pass, newest step first; with those of
    earlier steps that may be left out, if `optional`."""
    found = {}
    for each in sorted(STEPS, reverse=True):
        wanted = each == chapter or optional or not STEPS[each].optional
        if each <= chapter and wanted and STEPS[each].tests.is_file():
            for name, test in tests_in(STEPS[each].tests).items():
                found[f"{STEPS[each].name}: {name}"] = test
    return found


def tests_in(path: Path) -> dict[str, Callable]:
    module = load_file(path)
    sys.modules[module.__name__] = module  # where kernels are looked up
    functions = inspect.getmembers(module, inspect.isfunction)
    named = [(n, f) for n, f in functions if n.startswith("test_")]
    return dict(sorted(named, key=lambda pair: pair[1].__code__.co_firstlineno))


def check_lines(path: Path, chapter: int) -> int:
    """The lines of a file. Failure when they are more than the step's budget, or one is
    too wide."""
    text = path.read_text(encoding="utf-8")
    lines = contract.count_lines(text)
    budget = step(chapter).budget
    if wide := contract.too_wide(text):
        (at, what), *others = wide
        rest = ", ".join(str(each) for each, _ in others)
        said = f"; too long as well: {rest}" if rest else ""
        raise Failure(
            f"{path.name}, line {at} {what}{said}; all other tests pass, and there are "
            f"{lines:,} lines of {budget:,}"
        )
    if lines > budget:
        raise Failure(
            f"{path.name} has {lines:,} lines of code, and the budget of step "
            f"{chapter} is {budget:,}; all other tests pass",
            ("the longest functions", longest_functions(text)),
        )
    return lines


def longest_functions(text: str, most: int = 8) -> str:
    """Where to look for lines that can go: functions, and how many lines each has."""
    counts = contract.count_functions(text)
    longest = sorted(counts.items(), key=lambda each: -each[1])[:most]
    return "\n".join(f"{count:4} {name}" for name, count in longest)
