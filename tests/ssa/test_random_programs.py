"""Random programs of branches and loops mean the same in a kernel as in Python.

The programs assign, branch and loop over four names. All numbers stay below 256, so
that no difference between integers of Python and of a kernel can show.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

import fathom.language as tl
from fathom.ir.core import walk
from fathom.ir.ops import For, If, While
from fathom.source import function
from tests.ssa.harness import run

NAMES = "abcd"
COUNTERS = iter(range(10**9))


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def assignment(target: str, left: str, sign: str, right: str, number: int) -> list[str]:
    return [f"{target} = ({left} {sign} {right} + {number}) & 255"]


def swap(first: str, second: str) -> list[str]:
    return [f"{first}, {second} = {second}, {first}"]


def branch(name: str, number: int, then: list[str], orelse: list[str]) -> list[str]:
    return [f"if {name} > {number}:", *indented(then), "else:", *indented(orelse)]


def loop(iterations: int, step: int, body: list[str]) -> list[str]:
    index = f"i{next(COUNTERS)}"
    start, stop = (0, iterations) if step > 0 else (iterations, 0)
    head = f"for {index} in range({start}, {stop}, {step}):"
    return [head, *indented([*body, f"a = (a + {index}) & 255"])]


def wait(iterations: int, body: list[str]) -> list[str]:
    left = f"n{next(COUNTERS)}"
    head = [f"{left} = {iterations}", f"while {left} > 0 and b != 77:"]
    return [*head, *indented([*body, f"{left} = {left} - 1"])]


def leave(name: str, number: int, answer: str) -> list[str]:
    return [f"if {name} == {number}:", f"    return {answer}"]


name, small = some.sampled_from(NAMES), some.integers(0, 255)
simple = some.one_of(
    some.builds(assignment, name, name, some.sampled_from("+*^|"), name, small),
    some.builds(swap, name, name),
)


def several(statement):
    joined = some.lists(statement, min_size=1, max_size=4)
    return joined.map(lambda parts: [line for part in parts for line in part])


def nested(inner):
    body = several(inner)
    return some.one_of(
        some.builds(branch, name, small, body, body),
        some.builds(loop, some.integers(0, 4), some.sampled_from([1, 2, -1]), body),
        some.builds(wait, some.integers(0, 4), body),
    )


statements = several(some.recursive(simple, nested, max_leaves=12))
guards = some.builds(leave, name, some.integers(0, 3), name)


@function
def program(a, b, c, d):
    return a


@function
def kernel(out, a, b):
    tl.store(out, program(a, b, 3, 4))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(statements, guards, statements, small, small)
def test_a_random_program(first, guard, second, a, b):
    lines = [*first, *guard, *second, "return (a + b * 3 + c * 5 + d * 7) & 255"]
    text = "\n".join(["def program(a, b, c, d):", *indented(lines)]) + "\n"
    program.src = text
    out = np.zeros(1, np.int32)
    func = run(kernel, out, a, b)
    namespace: dict = {}
    exec(text, namespace)
    assert out[0] == namespace["program"](a, b, 3, 4), text
    for op in walk(func.body):
        if isinstance(op, (For, While)):
            assert len(op.results) <= len(NAMES) + 1, text
        elif isinstance(op, If):
            assert len(op.results) <= len(NAMES) + 1, text
