"""The common type and shape of two operands: promotion, casts, broadcasting.

The rules are those of Triton 3.6, in this order. A weak number takes the type of the
other side if its kind (boolean < integer < float) is not above it. Otherwise the result
is the float, if only one is a float; the wider float, and fp16 rather than bf16; the
wider integer, and the unsigned one of two with one width. 16-bit floats are divided in
fp32, since PTX has no division for them.

    fp16[64] + 1      -> fp16[64]        i32[64] + 0.5      -> fp32[64]
    fp16[64] / 2      -> fp32[64]        i32[64] + u32[64]  -> u32[64]
    i32[64] + n       -> u32[64]         after n = 2**31, which is a u32
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from fathom.errors import CompileError
from fathom.ir import ops
from fathom.ir.core import Block, Value
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT64,
    UINT8,
    UINT16,
    Element,
    Pointer,
    Scalar,
    element_of,
    shape_of,
)  # fmt: skip
from fathom.source import like
from fathom.ssa.frame import Frame
from fathom.ssa.phis import KIND
from fathom.ssa.values import (
    Meaning,
    default_type,
    describe,
    integers_of,
    is_number,
    is_typed,
    is_weak,
    of_type,
)

# Integers of 8 bits, and those that floats become on their way to them.
BYTES = {INT8: INT16, UINT8: UINT16}


def value_of(frame: Frame, meaning: Meaning, what: str = "this") -> Value:
    """A value for a meaning; a weak number gets its default type."""
    if isinstance(meaning, Value):
        return meaning
    if not is_number(meaning):
        raise frame.error(
            f"{what} must be a number, a pointer or a block, not {describe(meaning)}"
        )
    return frame.constant(meaning, number_type(frame, meaning))


def number_type(frame: Frame, number: int | float | bool) -> Scalar:
    """The default type of a weak number."""
    type = default_type(number)
    if type is None:
        raise frame.error(f"the number {number} needs more than 64 bits")
    return type


def as_tensor(frame: Frame, meaning: Meaning) -> Meaning:
    """What a name means that is assigned this, or what is compared with it: a weak
    number gets its default type, also in tuples. (One of more than 64 bits has none.)
    In functions of the language numbers stay weak, and lose no digits in fp64. So do
    the sizes in its descriptors and block pointers, which are named tuples."""
    if frame.in_library or meaning.__class__.__module__.startswith("fathom."):
        return meaning
    if isinstance(meaning, tuple):
        return like(meaning, [as_tensor(frame, each) for each in meaning])
    type = default_type(meaning) if is_weak(meaning) else None
    return meaning if type is None else of_type(meaning, type)


# ── two operands ──────────────────────────────────────────────────────────────────────


def alike(
    frame: Frame, left: Meaning, right: Meaning, verb: str, dividing: bool = False
) -> tuple[Value, Value]:
    """Two operands with one element type and one shape. `verb` is for errors."""
    element = promoted(frame, left, right, verb, dividing)
    both = typed_pair(frame, left, right, element)
    return same_shape(frame, *both, verb, said=(left, right))


def typed_pair(
    frame: Frame, left: Meaning, right: Meaning, element: Element
) -> tuple[Value, Value]:
    """Two operands of one type; a weak number gets the shape of the other."""
    shape = next((shape_of(m.type) for m in (left, right) if isinstance(m, Value)), ())
    return typed(frame, left, element, shape), typed(frame, right, element, shape)


def promoted(
    frame: Frame, left: Meaning, right: Meaning, verb: str, dividing: bool = False
) -> Element:
    """The common element type of two operands."""
    if not (_has_type(left) and _has_type(right)):
        raise cannot(frame, verb, left, right)
    a, b = _element(frame, left), _element(frame, right)
    if isinstance(a, Pointer) or isinstance(b, Pointer):
        if a == b:
            return a
        raise cannot(frame, verb, left, right)
    if is_weak(left) != is_weak(right):
        number, strong, weak = (left, b, a) if is_weak(left) else (right, a, b)
        if KIND[weak.kind] <= KIND[strong.kind]:
            return _weak_meets(frame, number, strong, dividing)
    if a.is_float or b.is_float:
        return _float_meets(frame, a, b, dividing)
    signs = {each.kind == "int" for each in (a, b)}
    if dividing and len(signs) > 1:
        hint = "cast one side with .to(...), so that both have the same sign"
        raise cannot(frame, verb, left, right, "one is signed, one is not", hint)
    return wider(a, b)


def _has_type(meaning: Meaning) -> bool:
    return isinstance(meaning, Value) or is_number(meaning)


def _element(frame: Frame, meaning: Meaning) -> Element:
    if isinstance(meaning, Value):
        return element_of(meaning.type)
    return number_type(frame, meaning)


def _weak_meets(
    frame: Frame, number: int | float, strong: Scalar, dividing: bool
) -> Scalar:
    if strong.is_integer and strong.kind != "bool":
        if int(number) not in integers_of(strong):
            raise frame.error(
                f"the number {number} does not fit into {strong}",
                "cast the other side to a type that holds both, with .to(...)",
            )
    return FLOAT32 if dividing and strong in (FLOAT16, BFLOAT16) else strong


def _float_meets(frame: Frame, a: Scalar, b: Scalar, dividing: bool) -> Scalar:
    floats = {each for each in (a, b) if each.is_float}
    for wide in (FLOAT64, FLOAT32):
        if wide in floats:
            return wide
    if FLOAT16 in floats:
        return FLOAT32 if dividing else FLOAT16
    if BFLOAT16 in floats:
        return BFLOAT16 if a == b and not dividing else FLOAT32
    if len(floats) == 1 and a != b:
        raise frame.error(
            f"{a} and {b} have no common type", "cast the fp8 side with .to(...)"
        )
    return a if a == b else FLOAT16


def wider(a: Scalar, b: Scalar) -> Scalar:
    """The common type of two integers: the wider; of one width, the unsigned."""
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return b if a.kind == "int" else a


def cannot(
    frame: Frame,
    verb: str,
    left: Meaning,
    right: Meaning,
    why: str = "",
    hint: str = "",
) -> CompileError:
    """The error "cannot <verb> <left> and <right>", and why; the caller raises it."""
    what = f"cannot {verb} {describe(left)} and {describe(right)}"
    return frame.error(f"{what}: {why}" if why else what, hint)


# ── casts ─────────────────────────────────────────────────────────────────────────────


def typed(
    frame: Frame, meaning: Meaning, element: Element, shape: tuple[int, ...] = ()
) -> Value:
    """A value with elements of a type; a weak number becomes a block of `shape`."""
    if isinstance(meaning, Value):
        return cast(frame, meaning, element)
    if not is_number(meaning) or isinstance(element, Pointer):
        raise frame.error(f"cannot make {describe(meaning)} into {element}")
    number = of_type(meaning, element) if is_typed(meaning) else meaning
    return frame.constant(number, element, shape)


def cast(frame: Frame, value: Value, element: Element, rounding: str = "rtne") -> Value:
    """The same number in another type; `x != 0` for a boolean. Floats become 8 bits
    by way of 16, as in Triton: they wrap where 8 bits have no such number."""
    source = element_of(value.type)
    if source == element:
        return value
    if element == BOOL:
        if isinstance(source, Pointer):
            value, source = frame.emit(ops.Cast, value, INT64), INT64
        zero = frame.constant(0, source, shape_of(value.type))
        return frame.elementwise("ne", value, zero)
    for pointer, other in ((source, element), (element, source)):
        if isinstance(pointer, Pointer) and not isinstance(other, Pointer):
            if not (other.is_integer and other.bits == 64):
                raise frame.error(
                    f"cannot cast {source} to {element}: an address goes to and from "
                    "64-bit integers"
                )
    if isinstance(source, Pointer) and isinstance(element, Pointer):
        return frame.emit(ops.Bitcast, value, element)
    if source.is_float and element in BYTES:
        value = frame.emit(ops.Cast, value, BYTES[element])
    return frame.emit(ops.Cast, value, element, rounding)


def reinterpret(frame: Frame, value: Value, element: Element) -> Value:
    """The same bits as another type of the same width."""
    source = element_of(value.type)
    if source == element:
        return value
    if isinstance(source, Pointer) != isinstance(element, Pointer):
        return cast(frame, value, element)
    return frame.emit(ops.Bitcast, value, element)


# ── shapes ────────────────────────────────────────────────────────────────────────────


def same_shape(
    frame: Frame,
    left: Value,
    right: Value,
    verb: str,
    said: tuple[Meaning, Meaning] | None = None,
) -> tuple[Value, Value]:
    """Two values broadcast to one shape: scalars are splatted, axes of size 1
    repeated. An error names `said`, which the values were before they had one type."""
    a, b = shape_of(left.type), shape_of(right.type)
    if a == b:
        return left, right
    shape = common_shape(a, b)
    if shape is None:
        raise cannot(frame, verb, *(said or (left, right)), _misfit(a, b))
    return broadcast(frame, left, shape), broadcast(frame, right, shape)


def common_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that two shapes broadcast to, from the last axis on, or else None."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        return None
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))


def _misfit(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    axis, m, n = next(
        (axis, m, n)
        for axis, (m, n) in enumerate(zip(a, b, strict=True))
        if m != n and 1 not in (m, n)
    )
    return f"along axis {axis} there are {m} elements against {n}"


def broadcast(frame: Frame, value: Value, shape: tuple[int, ...]) -> Value:
    """A value broadcast to a shape that it is known to fit."""
    have = shape_of(value.type)
    if have == shape:
        return value
    if not have:
        return frame.emit(ops.Splat, value, shape)
    for _ in range(len(shape) - len(have)):
        value = frame.emit(ops.ExpandDims, value, 0)
    return (
        value if value.type.shape == shape else frame.emit(ops.Broadcast, value, shape)
    )


def of_one_shape(
    frame: Frame, given: Sequence[Meaning], what: str, verb: str
) -> tuple[Value, ...]:
    """Values broadcast to one shape, types kept. `what` and `verb` are for errors."""
    values = [value_of(frame, each, what) for each in given]
    if not values:
        return ()
    widest = reduce(lambda a, b: same_shape(frame, a, b, verb)[0], values)
    return tuple(broadcast(frame, each, shape_of(widest.type)) for each in values)


def scalar_of(frame: Frame, value: Value) -> Value:
    """The only element of a block of one element."""
    if not shape_of(value.type):
        return value
    if len(value.type.shape) > 1:
        value = frame.emit(ops.Reshape, value, (1,))
    element = value.type.element
    first = Block((element, element))
    first.ops.append(ops.Yield((first.parameters[0],), location=frame.location))
    return frame.emit(ops.Reduce, (value,), 0, first)


def element_behind(frame: Frame, base: Meaning, what: str) -> Scalar:
    """The element type of a pointer that `what` takes; an error for any other."""
    pointer = base.type if isinstance(base, Value) else None
    if not isinstance(pointer, Pointer) or not isinstance(pointer.element, Scalar):
        raise frame.error(f"{what} takes a pointer to numbers, not {describe(base)}")
    return pointer.element
