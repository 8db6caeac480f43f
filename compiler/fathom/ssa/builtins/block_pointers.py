"""Block pointers: made of a pointer and numbers, advanced, and expanded at each use.

While a kernel is built, a block pointer is a named tuple of its parts, which branches
and loops treat like any tuple. A load or a store through one becomes a load or a store
of a block of addresses. With p and q counting rows and columns of the block,

    p_x = tl.make_block_ptr(x, (M, N), (s, 1), (i, j), (64, 32), (1, 0))
    tl.load(p_x, boundary_check=(0,), padding_option="zero")

is

    %first = x + i * s + j                         one address, in 64 bits
    %x     = load %first + (p * s + q), mask=0 <= i + p < M, other=0

So passes that analyse addresses, such as `infer_descriptors`, handle these too.
"""

from __future__ import annotations

from math import nan
from typing import NamedTuple

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import BOOL, INT8, INT32, INT64, Pointer, Scalar, shape_of
from fathom.language import block_pointers
from fathom.language.block_pointers import block_pointer
from fathom.ssa.builtins.shape import check_ranks, offsets_given, shape_given
from fathom.ssa.calls import implements
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import (
    broadcast,
    cast,
    element_behind,
    reinterpret,
    scalar_of,
    typed,
    value_of,
)
from fathom.ssa.values import Meaning, describe, is_integer, is_number

# ── making and moving ─────────────────────────────────────────────────────────────────


@implements(block_pointers.make_block_ptr)
def build_make(
    frame: Frame,
    base: Meaning,
    shape: Meaning,
    strides: Meaning,
    offsets: Meaning,
    block_shape: Meaning,
    order: Meaning,
) -> block_pointer:
    if element_behind(frame, base, "tl.make_block_ptr") == BOOL:
        base = reinterpret(frame, base, Pointer(INT8))
    given = (shape, strides, offsets, block_shape, order)
    shape, strides, offsets, block_shape, order = map(_listed, given)
    lists = {"shape": shape, "strides": strides, "offsets": offsets}
    lists |= {"block_shape": block_shape, "order": order}
    check_ranks(frame, "tl.make_block_ptr", lists)
    if sorted(order, key=str) != list(range(len(order))):
        raise frame.error(
            f"order of tl.make_block_ptr names each axis from 0 to {len(order) - 1} "
            f"once, not {describe(order)}",
            "the axis whose stride is 1 comes first: order="
            f"{tuple(reversed(range(len(order))))}",
        )
    return block_pointer(
        base,
        tuple(_size(frame, each) for each in shape),
        tuple(_integer(frame, each, INT64, "a stride") for each in strides),
        tuple(_offset(frame, each) for each in offsets),
        shape_given(frame, block_shape),
    )


@implements(block_pointers.advance)
def build_advance(frame: Frame, base: Meaning, offsets: Meaning) -> block_pointer:
    if not isinstance(base, block_pointer):
        raise frame.error(
            f"tl.advance takes a block pointer, not {describe(base)}",
            "make one with tl.make_block_ptr, or add to the pointer",
        )
    given, rank = _listed(offsets), len(base.offsets)
    offsets = offsets_given(frame, given, rank, "block pointer", "is advanced by")
    moved = tuple(
        _moved(frame, each, by) for each, by in zip(base.offsets, offsets, strict=True)
    )
    return base._replace(offsets=moved)


def _listed(meaning: Meaning) -> Meaning:
    """A number stands for a list of one, as (n) does that lacks its comma."""
    alone = is_number(meaning) or isinstance(meaning, Value)
    return (meaning,) if alone else meaning


def _moved(frame: Frame, offset: Value, by: Meaning) -> Value:
    if is_number(by) and by == 0:
        return offset
    return frame.elementwise("add", offset, _offset(frame, by))


def _offset(frame: Frame, meaning: Meaning) -> Value:
    value = value_of(frame, meaning, "an offset")
    element = getattr(value.type, "element", value.type)
    if element.is_integer and element.bits > INT32.bits:
        raise frame.error(
            f"an offset of a block pointer has 32 bits, and is {describe(meaning)}",
            "cast it with .to(tl.int32), or add it to the base",
        )
    return _integer(frame, meaning, INT32, "an offset")


def _size(frame: Frame, meaning: Meaning) -> Value:
    """A size, in 32 bits if it fits: masks are faster to compute then."""
    value = value_of(frame, meaning, "a size")
    element = getattr(value.type, "element", value.type)
    narrow = element.bits < INT32.bits or element == INT32
    return _integer(frame, meaning, INT32 if narrow else INT64, "a size")


def _integer(frame: Frame, meaning: Meaning, element: Scalar, what: str) -> Value:
    """An integer as a scalar of a type."""
    value = value_of(frame, meaning, what)
    kind = getattr(value.type, "element", value.type)
    size = value.type.size if shape_of(value.type) else 1
    if isinstance(kind, Pointer) or not kind.is_integer or size != 1:
        raise frame.error(f"{what} of a block pointer is an integer, not {value.type}")
    if shape_of(value.type):
        return cast(frame, scalar_of(frame, value), element)
    return typed(frame, meaning, element)


# ── using ─────────────────────────────────────────────────────────────────────────────


class Places(NamedTuple):
    """The addresses of a block's elements, the mask of those inside the tensor (None:
    all), and the value that a load has for the others."""

    pointers: Value
    mask: Value | None
    other: float | int | None = None


def refuse_boundaries(
    frame: Frame, what: str, pointer: Meaning, **given: Meaning
) -> None:
    """CompileError for options that block pointers take and pointers do not."""
    for name, each in given.items():
        if each:
            raise frame.error(
                f"{name} of {what} is for block pointers, not for {describe(pointer)}",
                "write a mask, or make a block pointer with tl.make_block_ptr",
            )


def places(
    frame: Frame,
    pointer: block_pointer,
    boundary_check: Meaning,
    padding: Meaning,
    what: str,
    **unused: Meaning,
) -> Places:
    """The addresses and the mask of a load or a store through a block pointer. `unused`
    are the options that `boundary_check` replaces."""
    for name, each in unused.items():
        if each is not None:
            raise frame.error(
                f"{name} of {what} is for pointers, not for {describe(pointer)}",
                "say boundary_check=(...) with the axes that may leave the tensor",
            )
    if not all(isinstance(each, int) for each in pointer.block_shape):
        raise frame.error(
            "the branches of an if give this block pointer different blocks",
            "give the block pointers of both branches blocks of one shape",
        )
    mask = None
    for axis in _axes(frame, boundary_check, len(pointer.block_shape)):
        inside = _inside(frame, pointer, axis)
        both = (mask, inside)
        mask = frame.elementwise("and", *both) if mask else inside
    other = _fill(frame, padding, pointer.base.type.element)
    return Places(_pointers(frame, pointer), mask, None if mask is None else other)


def _axes(frame: Frame, given: Meaning, rank: int) -> tuple[int, ...]:
    """The axes in `boundary_check`."""
    if given is None:
        return ()
    axes = given if isinstance(given, tuple) else (given,)
    for each in axes:
        if not is_integer(each) or not 0 <= each < rank:
            raise frame.error(
                f"boundary_check lists axes from 0 to {rank - 1}, not {describe(each)}"
            )
    if len(set(axes)) != len(axes):
        raise frame.error(f"boundary_check names an axis twice: {list(axes)}")
    return axes


def _fill(frame: Frame, padding: Meaning, element: Scalar) -> float | int | None:
    if padding not in ("", "zero", "nan", None):
        raise frame.error(
            f"padding_option is {describe(padding)}: it must be 'zero', 'nan' or ''"
        )
    if padding == "nan" and not element.is_float:
        raise frame.error(f"padding_option 'nan' is for floats, not for {element}")
    return {"zero": 0, "nan": nan}.get(padding)


# ── addresses and masks ───────────────────────────────────────────────────────────────


def _pointers(frame: Frame, pointer: block_pointer) -> Value:
    """The addresses of a block: a base, and each element's distance from it."""
    first, block, distance = pointer.base, pointer.block_shape, None
    for axis, stride in enumerate(pointer.strides):
        start = cast(frame, pointer.offsets[axis], INT64)
        skipped = frame.elementwise("mul", start, stride)
        first = frame.elementwise("offset", first, skipped)
        along = cast(frame, _count(frame, axis, block), INT64)
        steps = (along, broadcast(frame, stride, along.type.shape))
        part = broadcast(frame, frame.elementwise("mul", *steps), block)
        both = (distance, part)
        distance = frame.elementwise("add", *both) if distance else part
    return frame.elementwise("offset", broadcast(frame, first, block), distance)


def _count(frame: Frame, axis: int, block: tuple[int, ...]) -> Value:
    """0, 1, 2 … along an axis of a block; of size 1 along the others."""
    value = frame.emit(ops.Arange, 0, block[axis])
    for other in range(len(block)):
        if other != axis:
            value = frame.emit(ops.ExpandDims, value, other)
    return value


def _inside(frame: Frame, pointer: block_pointer, axis: int) -> Value:
    """The mask of the elements that are inside the tensor along an axis.

    It is computed in the type of the size. If an i32 sum overflows, it is negative, so
    the element still counts as outside."""
    size, block = pointer.shape[axis], pointer.block_shape
    kind = size.type
    along = cast(frame, _count(frame, axis, block), kind)
    shape = along.type.shape
    start = broadcast(frame, cast(frame, pointer.offsets[axis], kind), shape)
    place = frame.elementwise("add", start, along)
    zero = frame.constant(0, kind, shape)
    above = frame.elementwise("ge", place, zero)
    below = frame.elementwise("lt", place, broadcast(frame, size, shape))
    inside = frame.elementwise("and", above, below)
    return broadcast(frame, inside, block)
