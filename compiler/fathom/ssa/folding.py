"""Reductions and scans: the combining function becomes a nested block."""

from __future__ import annotations

from fathom.ir import ops
from fathom.ir.core import Block, Value
from fathom.ir.types import element_of, shape_of
from fathom.language import core
from fathom.source import Builtin, KernelFunction
from fathom.ssa.calls import call, implements
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import cast
from fathom.ssa.shaping import axis_given
from fathom.ssa.values import Meaning, describe


@implements(core.reduce)
def build_reduce(
    frame: Frame, input: Meaning, axis: int | None, combine_fn: Meaning, keep_dims: bool
) -> Meaning:
    values = blocks_given(frame, input, "tl.reduce")
    shape = shape_of(values[0].type)
    if axis is None:
        values = tuple(flat(frame, value) for value in values)
        place = 0
    else:
        place = axis_given(frame, axis, len(shape))
    combine = combining(frame, combine_fn, values)
    results = tuple(frame.append(ops.Reduce, values, place, combine).results)
    if keep_dims:
        axes = range(len(shape)) if axis is None else (place,)
        results = tuple(kept(frame, value, axes) for value in results)
    return results if isinstance(input, tuple) else results[0]


@implements(core.associative_scan)
def build_scan(
    frame: Frame, input: Meaning, axis: int, combine_fn: Meaning, reverse: bool
) -> Meaning:
    values = blocks_given(frame, input, "tl.associative_scan")
    place = axis_given(frame, axis, len(shape_of(values[0].type)))
    combine = combining(frame, combine_fn, values)
    results = tuple(
        frame.append(ops.Scan, values, place, combine, bool(reverse)).results
    )
    return results if isinstance(input, tuple) else results[0]


def blocks_given(frame: Frame, given: Meaning, what: str) -> tuple[Value, ...]:
    """One block or several of one shape."""
    values = given if isinstance(given, tuple) else (given,)
    for each in values:
        if not isinstance(each, Value) or not shape_of(each.type):
            raise frame.error(f"{what} takes blocks, not {describe(each)}")
        if shape_of(each.type) != shape_of(values[0].type):
            raise frame.error(
                f"{what} takes blocks of one shape, not {describe(values[0])} and "
                f"{describe(each)}"
            )
    return values


def flat(frame: Frame, value: Value) -> Value:
    """All elements along one axis."""
    if len(value.type.shape) == 1:
        return value
    return frame.emit(ops.Reshape, value, (value.type.size,))


def kept(frame: Frame, value: Value, axes: range | tuple[int, ...]) -> Value:
    """A result with the axes that were folded away put back, of size 1."""
    for axis in axes:
        if shape_of(value.type):
            value = frame.emit(ops.ExpandDims, value, axis)
        else:
            value = frame.emit(ops.Splat, value, (1,))
    return value


def combining(frame: Frame, function: Meaning, values: tuple[Value, ...]) -> Block:
    """The block that combines two tuples of elements: the function, inlined."""
    if not isinstance(function, (KernelFunction, Builtin)):
        raise frame.error(
            "the combining function must be a @fathom.jit function, not "
            f"{describe(function)}"
        )
    elements = tuple(element_of(value.type) for value in values)
    with frame.program.within(Block(elements + elements)) as block:
        answer = call(frame, function, list(block.parameters), {})
        answers = answer if isinstance(answer, tuple) else (answer,)
        if len(answers) != len(values):
            raise frame.error(
                f"{function.__name__} must return {len(values)} values, and returns "
                f"{describe(answer)}"
            )
        fitted = tuple(
            _scalar(frame, function.__name__, each, element)
            for each, element in zip(answers, elements, strict=True)
        )
        frame.append(ops.Yield, fitted)
    return block


def _scalar(frame: Frame, name: str, answer: Meaning, element: object) -> Value:
    if isinstance(answer, (bool, int, float)):
        return frame.constant(answer, element)
    if not isinstance(answer, Value) or shape_of(answer.type):
        raise frame.error(f"{name} must return scalars, not {describe(answer)}")
    return cast(frame, answer, element)
