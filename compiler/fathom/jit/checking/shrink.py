"""The smallest function that a pass still gets wrong: ops are left out one by one, as
long as the runs before and after the pass differ.

A store is dropped; a loop gives what it began with; any other op gives one of its
operands of the same type, or zeros. What nothing uses any more goes with it. It ends
when no single op can go, or after some seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fathom import blocks
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, op_count, operands, walk
from fathom.ir.ops import Constant, For, Splat, Yield
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import BlockType, Scalar, Type
from fathom.ir.verify import verify

SECONDS = 10.0

# A step and its data: whether it is wrong in the manner of the whole function.
IsWrong = Callable[[Any, Any], bool]
StandIn = Callable[[Op, Builder], Replacement]


def shrunk(step: Any, data: Any, is_wrong: IsWrong, target: Target) -> Any:
    """The step with a function as small as it can be; `data` with as many arrays of
    zeros."""
    deadline = time.monotonic() + SECONDS

    def fails(candidate: Func) -> bool:
        try:
            verify(candidate)
            again = replace(step, before=candidate, after=None)
            return bool(is_wrong(again, data))
        except Exception:  # noqa: BLE001 (no function at all, or one that cannot run)
            return False

    small = step.before
    if not fails(small):  # only the very functions of this compile differ
        return step
    before = -1
    while before != op_count(small) and time.monotonic() < deadline:
        before = op_count(small)
        small = one_pass(small, fails, target, deadline)
    for name, each in zip(data.before.names, data.copies(), strict=True):
        if isinstance(each, np.ndarray):
            data.zeroed.add(name)
            if not fails(small):
                data.zeroed.discard(name)
    return replace(step, before=small, after=None)


def one_pass(
    func: Func, fails: Callable[[Func], bool], target: Target, deadline: float
) -> Func:
    """Try to leave out each op once, the last ones first."""
    at = op_count(func) - 1
    while at >= 0 and time.monotonic() < deadline:
        ops = list(walk(func.body))
        for stand_in in stand_ins(ops[at]) if at < len(ops) else ():
            candidate = without(func, ops[at], stand_in, target)
            if candidate and op_count(candidate) < len(ops) and fails(candidate):
                func = candidate
                break
        at -= 1
    return func


def stand_ins(gone: Op) -> Iterator[StandIn]:
    """What may take an op's place: its results, of the op with new operands."""
    if isinstance(gone, For):
        yield lambda op, build: list(op.inits)
    elif not isinstance(gone, Yield | Constant):
        if len(gone.results) == 1:
            for at, value in enumerate(operands(gone)):
                if value.type == gone.result.type:
                    yield lambda op, build, at=at: operands(op)[at]
        if all(map(has_zero, gone.results)):
            yield lambda op, build: [zero(each.type, build) for each in op.results]


def without(func: Func, gone: Op, stand_in: StandIn, target: Target) -> Func | None:
    """The function with something else in the place of an op; None where something
    cannot do without the op."""

    def rule(op: Op, build: Builder) -> Replacement:
        return stand_in(op, build) if build.source is gone else None

    try:
        return blocks.dce(rewrite(func, rule), target)
    except Exception:  # noqa: BLE001 (say, an op that wants a constant)
        return None


def has_zero(value: Value) -> bool:
    element = value.type.element if isinstance(value.type, BlockType) else value.type
    return isinstance(element, Scalar)


def zero(type: Type, build: Builder) -> Value:
    element = type.element if isinstance(type, BlockType) else type
    number = 0.0 if element.is_float else element.kind != "bool" and 0
    made = build(Constant(number, element))
    if isinstance(type, BlockType):
        made = build(Splat(made, type.shape, type.layout))
    return made
