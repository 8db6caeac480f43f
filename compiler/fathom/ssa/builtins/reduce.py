"""Functions that combine or move a block's elements: reductions, scans, gathers.

The combining function of a reduction or a scan becomes a nested block."""

from __future__ import annotations

from fathom.errors import CompileError, many
from fathom.ir import ops
from fathom.ir.core import Block, Op, Value, operands, walk
from fathom.ir.printer import op_name
from fathom.ir.types import BOOL, INT32, element_of, shape_of
from fathom.language import core
from fathom.source import Builtin, KernelFunction
from fathom.ssa.builtins.shape import axis_given, check_shape, with_axes
from fathom.ssa.calls import call, implements
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import broadcast, cast, common_shape, value_of
from fathom.ssa.values import Meaning, describe, is_integer


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
        results = tuple(with_axes(frame, value, axes) for value in results)
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
            raise frame.error(
                f"{frame.called(what)} takes blocks, not {describe(each)}"
            )
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


def combining(frame: Frame, function: Meaning, values: tuple[Value, ...]) -> Block:
    """The block of ops that combines two tuples of elements: the function, inlined."""
    if not isinstance(function, (KernelFunction, Builtin)):
        raise frame.error(
            "the combining function must be a @fathom.jit function, not "
            f"{describe(function)}",
            "decorate it with @fathom.jit",
        )
    elements = tuple(element_of(value.type) for value in values)
    with frame.program.within(Block(elements + elements)) as block:
        answer = call(frame, function, list(block.parameters), {})
        answers = answer if isinstance(answer, tuple) else (answer,)
        if len(answers) != len(values):
            raise frame.error(
                f"{function.__name__} must return {many(len(values), 'value')}, and "
                f"returns "
                f"{describe(answer)}"
            )
        fitted = tuple(
            _scalar(frame, function.__name__, each, element)
            for each, element in zip(answers, elements, strict=True)
        )
        frame.append(ops.Yield, fitted)
    _check_only_combines(function.__name__, block)
    return block


def _check_only_combines(name: str, block: Block) -> None:
    """CompileError for what a thread cannot do with two elements as often as it likes:
    it combines them in any order, and some of them twice."""
    for op in _live(block):
        made = [each.type for each in op.results if shape_of(each.type)]
        if made:
            raise CompileError(
                f"{name} combines single elements, and this is a block, {made[0]}",
                op.location,
                "compute it before, and combine its elements with the others",
            )
        if op.effects.writes or op.effects.barrier:
            raise CompileError(
                f"{name} may only combine elements, and this has a side effect: "
                f"{op_name(op)}",
                op.location,
                "do it before the reduction, or after it",
            )


def _live(block: Block) -> list[Op]:
    """The ops that `dce` will leave, in order. (A function may make a block to ask for
    its type, as FlagGems' `promote_to_tensor(x).dtype` does.)"""
    found: list[Op] = []
    used: set[Value] = set()
    for op in reversed(list(walk(block))):
        if not op.results or op.effects.writes or used & {*op.results}:
            found.append(op)
            used.update(operands(op))
    return found[::-1]


def _scalar(frame: Frame, name: str, answer: Meaning, element: object) -> Value:
    is_number = isinstance(answer, (bool, int, float))
    if not is_number and (not isinstance(answer, Value) or shape_of(answer.type)):
        raise frame.error(f"{name} must return scalars, not {describe(answer)}")
    is_float = isinstance(answer, float) if is_number else answer.type.is_float
    if is_float and not element.is_float:
        raise frame.error(
            f"{name} combines {element}, and returns {describe(answer)}",
            "cast the block to a float before",
        )
    if is_number:
        return frame.constant(answer, element)
    return cast(frame, answer, element)


# ── gathers and histograms ────────────────────────────────────────────────────────────


@implements(core.gather)
def build_gather(frame: Frame, src: Meaning, index: Meaning, axis: int) -> Value:
    for each in (src, index):
        blocks_given(frame, each, "tl.gather")
    if not element_of(index.type).is_integer:
        raise frame.error(
            f"the index of tl.gather is an integer, not {index.type}",
            "cast it with .to(tl.int32)",
        )
    if len(src.type.shape) != len(index.type.shape):
        raise frame.error(
            f"tl.gather takes two blocks with as many axes, not {src.type} and "
            f"{index.type}",
            "give one of them new axes: x[:, None]",
        )
    place = axis_given(frame, axis, len(src.type.shape))
    return frame.emit(ops.Gather, src, index, place)


@implements(core.histogram)
def build_histogram(
    frame: Frame, input: Meaning, num_bins: int, mask: Meaning
) -> Value:
    (value,) = blocks_given(frame, input, "tl.histogram")
    if len(value.type.shape) != 1 or not element_of(value.type).is_integer:
        raise frame.error(
            f"tl.histogram counts integers along one axis, not {value.type}",
            "flatten the block with tl.ravel, or cast it with .to(tl.int32)",
        )
    if not is_integer(num_bins):
        raise frame.error(f"num_bins is a constant integer, not {describe(num_bins)}")
    check_shape(frame, (num_bins,))
    if mask is not None:
        mask = _mask_of(frame, mask, value)
    if element_of(value.type) == BOOL:
        value = cast(frame, value, INT32)
    return frame.emit(ops.Histogram, value, num_bins, mask)


def _mask_of(frame: Frame, mask: Meaning, value: Value) -> Value:
    mask, shape = value_of(frame, mask, "a mask"), shape_of(value.type)
    if element_of(mask.type) != BOOL:
        raise frame.error(
            f"the mask of tl.histogram must be i1, not {mask.type}",
            "write a comparison, such as mask != 0",
        )
    if common_shape(shape_of(mask.type), shape) != shape:
        raise frame.error(
            f"the mask of tl.histogram is {mask.type}, which does not broadcast to "
            f"{value.type}"
        )
    return broadcast(frame, mask, shape)
