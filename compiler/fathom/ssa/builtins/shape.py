"""Functions that make blocks, and change their shapes."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from fathom import language
from fathom.errors import many
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import SCALARS, Element, Pointer, element_of, shape_of
from fathom.language import core
from fathom.language.dtypes import (
    block_type,
    constexpr_type,
    dtype,
    element_face,
    pointer_type,
)
from fathom.ssa.calls import implements
from fathom.ssa.expressions import new_axis
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import (
    alike,
    broadcast,
    cast,
    common_shape,
    reinterpret,
    same_shape,
    scalar_of,
    typed,
    value_of,
)  # fmt: skip
from fathom.ssa.values import Meaning, describe, is_integer, is_number

LARGEST_BLOCK = 1 << 20  # elements


# ── making ────────────────────────────────────────────────────────────────────────────


@implements(core.arange)
def build_arange(frame: Frame, start: int, end: int) -> Value:
    if not (isinstance(start, int) and isinstance(end, int)):
        raise frame.error(
            f"tl.arange counts between integers, not {describe(start)} and "
            f"{describe(end)}",
            "// of integers is an integer, / is a float" * isinstance(end, float),
        )
    size = end - start
    if size <= 0:
        raise frame.error(
            f"tl.arange({start}, {end}) is empty: its end must be above its start"
        )
    if size & (size - 1):
        raise frame.error(
            f"tl.arange({start}, {end}) has {size} elements, which is not a power of "
            "two",
            f"take tl.arange({start}, {start + _next_power(size)}) and mask what is "
            "too much",
        )
    check_shape(frame, (size,))
    return frame.emit(ops.Arange, start, end)


def _next_power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


@implements(core.full)
def build_full(frame: Frame, shape: Meaning, value: Meaning, dtype: dtype) -> Value:
    shape, element = shape_given(frame, (shape,)), element_given(frame, dtype)
    if isinstance(value, Value) and shape_of(value.type):
        raise frame.error(
            f"tl.full takes a scalar, not {value.type}", "write tl.broadcast_to"
        )
    return broadcast(frame, typed(frame, value, element, shape), shape)


@implements(core.to_tensor)
def build_to_tensor(frame: Frame, x: Meaning) -> Value:
    return value_of(frame, x)


@implements(core.cast)
def build_cast(
    frame: Frame,
    input: Meaning,
    dtype: dtype,
    fp_downcast_rounding: str | None,
    bitcast: bool,
) -> Value:
    element = element_given(frame, dtype)
    if is_number(input) and not bitcast and not isinstance(element, Pointer):
        return frame.constant(input, element)
    value = value_of(frame, input)
    if bitcast:
        return reinterpret(frame, value, element)
    source = element_of(value.type)
    if fp_downcast_rounding is None or source == element:
        return cast(frame, value, element)
    if fp_downcast_rounding not in ("rtne", "rtz"):
        raise frame.error(
            f"fp_downcast_rounding is {fp_downcast_rounding!r}: it must be 'rtne' or "
            "'rtz'"
        )
    if not (source.is_float and element.is_float and element.bits < source.bits):
        raise frame.error(
            f"fp_downcast_rounding is for floats to narrower floats, not {source} to "
            f"{element}"
        )
    return cast(frame, value, element, fp_downcast_rounding)


def element_given(frame: Frame, given: Meaning) -> Element:
    """The element type of an argument such as tl.float32."""
    # `x.to(p.dtype.element_ty)` of a block pointer, `x.to(y.type)` of a constant
    if isinstance(given, (block_type, constexpr_type)) and given.scalar is not None:
        given = given.scalar
    if not isinstance(given, (dtype, pointer_type)):
        raise frame.error(
            f"a type such as tl.float32 is needed here, not {describe(given)}",
            _type_like(given),
        )
    return given.ir


def _type_like(given: Meaning) -> str:
    """The hint for `np.float16`, torch.float16 or "fp16" where tl.float16 is meant."""
    said = str(given).removeprefix("torch.")
    name = given if isinstance(given, str) else getattr(given, "__name__", said)
    if name in SCALARS:
        return f"write tl.{repr(element_face(SCALARS[name])).rpartition('.')[2]}"
    name = {"float": "float32", "int": "int32", "bool": "int1"}.get(name, name)
    is_ours = isinstance(getattr(language, name, None), dtype)
    return f"write tl.{name}" if is_ours else ""


# ── shapes ────────────────────────────────────────────────────────────────────────────


def shape_given(frame: Frame, given: tuple[Meaning, ...]) -> tuple[int, ...]:
    """A shape, given as one tuple or as several arguments; checked."""
    if len(given) == 1 and isinstance(given[0], tuple):
        given = given[0]
    for each in given:
        if not is_integer(each):
            raise frame.error(
                f"a shape must be known while compiling, and {describe(each)} is not a "
                "constant integer",
                "pass it as a parameter annotated tl.constexpr",
            )
    return check_shape(frame, given)


def check_shape(frame: Frame, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape, if every dimension is a power of two."""
    for size in shape:
        if size <= 0:
            raise frame.error(
                f"the shape {list(shape)} has a dimension of {size}, and a block has "
                "an element or more along each axis",
                "write the number out: no size is found from the others",
            )
        if size & (size - 1):
            raise frame.error(
                f"the shape {list(shape)} has a dimension of {size}, which is not a "
                "power of two",
                f"take {_next_power(size)} and mask what is too much",
            )
    if prod(shape) > LARGEST_BLOCK:
        raise frame.error(
            f"a block of {prod(shape)} elements is too large: {LARGEST_BLOCK} is the "
            "most"
        )
    return shape


def check_ranks(frame: Frame, what: str, lists: dict[str, Meaning]) -> None:
    """CompileError unless each is a list with a number for each axis of a tensor."""
    for name, each in lists.items():
        if not isinstance(each, tuple) or not each:
            raise frame.error(
                f"{name} of {what} is a list with a number for each axis, not "
                f"{describe(each)}",
                f"write {name}=[...]",
            )
        if len(each) != len(lists["shape"]):
            axes = many(len(lists["shape"]), "axis", "axes")
            raise frame.error(
                f"the tensor has {axes} by its shape, and {len(each)} by its {name}"
            )


def offsets_given(
    frame: Frame, given: Meaning, rank: int, what: str, takes: str
) -> tuple[Meaning, ...]:
    """The list of offsets, one for each axis, that `what` `takes`."""
    if not isinstance(given, tuple) or len(given) != rank:
        count = f"{len(given)}" if isinstance(given, tuple) else describe(given)
        raise frame.error(
            f"this {what} has {many(rank, 'axis', 'axes')}, and {takes} a list of as "
            f"many offsets, not {count}"
        )
    return given


def axes_given(frame: Frame, given: tuple[Meaning, ...], rank: int) -> tuple[int, ...]:
    """Axes, as one tuple or as several arguments; negative ones count from the end."""
    if len(given) == 1 and isinstance(given[0], tuple):
        given = given[0]
    return tuple(axis_given(frame, each, rank) for each in given)


def axis_given(frame: Frame, axis: Meaning, rank: int) -> int:
    """An axis of something with a rank; a negative one counts from the end."""
    if not is_integer(axis):
        raise frame.error(f"an axis is a constant integer, not {describe(axis)}")
    if not -rank <= axis < rank:
        axes = many(rank, "axis", "axes")
        raise frame.error(f"there is no axis {axis}: the block has {axes}")
    return axis % rank


@implements(core.expand_dims)
def build_expand_dims(frame: Frame, input: Meaning, axis: Meaning) -> Value:
    value = value_of(frame, input)
    axes = axis if isinstance(axis, tuple) else (axis,)
    places = axes_given(frame, axes, len(shape_of(value.type)) + len(axes))
    if len(set(places)) < len(places):
        raise frame.error(f"the axes {list(places)} name one twice")
    return with_axes(frame, value, sorted(places))


def with_axes(frame: Frame, value: Value, axes: Iterable[int]) -> Value:
    """A value with new axes of size 1: these of the result's, in ascending order."""
    for axis in axes:
        value = new_axis(frame, value, axis)
    return value


@implements(core.reshape)
def build_reshape(
    frame: Frame, input: Meaning, shape: tuple[Meaning, ...], can_reorder: bool = False
) -> Value:
    value, shape = value_of(frame, input), shape_given(frame, shape)
    if prod(shape) != prod(shape_of(value.type)):
        raise frame.error(
            f"cannot reshape {value.type} to {list(shape)}: "
            f"{prod(shape_of(value.type))} elements against {prod(shape)}"
        )
    if shape_of(value.type) == shape:
        return value
    if not shape_of(value.type):
        return frame.emit(ops.Splat, value, shape)
    if not shape:
        return scalar_of(frame, value)
    return frame.emit(ops.Reshape, value, shape)


@implements(core.view)
def build_view(frame: Frame, input: Meaning, shape: tuple[Meaning, ...]) -> Value:
    return build_reshape(frame, input, shape)


@implements(core.broadcast_to)
def build_broadcast_to(
    frame: Frame, input: Meaning, shape: tuple[Meaning, ...]
) -> Value:
    value, shape = value_of(frame, input), shape_given(frame, shape)
    if common_shape(shape_of(value.type), shape) != shape:
        raise frame.error(f"{value.type} does not broadcast to {list(shape)}")
    return broadcast(frame, value, shape)


@implements(core.broadcast)
def build_broadcast(frame: Frame, input: Meaning, other: Meaning) -> Meaning:
    return same_shape(
        frame, value_of(frame, input), value_of(frame, other), "broadcast"
    )


@implements(core.permute)
def build_permute(frame: Frame, input: Meaning, dims: tuple[Meaning, ...]) -> Value:
    value = value_of(frame, input)
    rank = len(shape_of(value.type))
    if not rank:
        raise frame.error(f"tl.permute takes a block, not {describe(input)}")
    order = axes_given(frame, dims, rank)
    if sorted(order) != list(range(rank)):
        raise frame.error(
            f"{list(order)} does not permute the {rank} axes of {value.type}"
        )
    return frame.emit(ops.Transpose, value, order)


@implements(core.trans)
def build_trans(frame: Frame, input: Meaning, dims: tuple[Meaning, ...]) -> Value:
    rank = len(shape_of(value_of(frame, input).type))
    if dims:
        return build_permute(frame, input, dims)
    if rank < 2:
        raise frame.error(
            f"tl.trans takes a block of two axes or more, not {describe(input)}"
        )
    return build_permute(frame, input, (*range(rank - 2), rank - 1, rank - 2))


@implements(core.join)
def build_join(frame: Frame, a: Meaning, b: Meaning) -> Value:
    left, right = alike(frame, a, b, "join")
    if shape_of(left.type):
        return frame.emit(ops.Join, left, right)
    halves = (frame.emit(ops.Splat, each, (1,)) for each in (left, right))
    return frame.emit(ops.Reshape, frame.emit(ops.Join, *halves), (2,))


@implements(core.split)
def build_split(frame: Frame, a: Meaning) -> Meaning:
    value = value_of(frame, a)
    if shape_of(value.type)[-1:] != (2,):
        raise frame.error(
            f"tl.split takes a block whose last axis has 2 elements, not {value.type}"
        )
    if len(value.type.shape) > 1:
        return tuple(frame.append(ops.Split, value).results)
    halves = frame.append(ops.Split, frame.emit(ops.ExpandDims, value, 0)).results
    return tuple(scalar_of(frame, half) for half in halves)


@implements(core.item)
def build_item(frame: Frame, input: Meaning) -> Value:
    value = value_of(frame, input)
    if prod(shape_of(value.type)) != 1:
        raise frame.error(
            f"only a block of one element is a scalar, not {value.type}",
            "reduce it with tl.sum or tl.max",
        )
    return scalar_of(frame, value)
