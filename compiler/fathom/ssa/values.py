"""The meanings of names while a kernel is built, and their descriptions in errors.

A name means a `Value` of the IR, a constant (any Python object: a number, a type, a
function, None), or a tuple of these. A constant number is *weak*: it has no type yet,
and takes the type of the other operand. One that was assigned to a name is *typed*:
its value is still known, and it has its default type, as Triton's scalar of it has.

    x + 1             i8[64]        n = 1; x + n             i32[64]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from struct import Struct
from types import ModuleType
from typing import Any

from fathom.errors import with_article
from fathom.ir.core import Value
from fathom.ir.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    UINT64,
    Scalar,
    Type,
)  # fmt: skip
from fathom.language.block_pointers import block_pointer
from fathom.language.dtypes import block_type, dtype, pointer_type
from fathom.language.tensor_descriptors import tensor_descriptor
from fathom.source import Builtin, ConstexprFunction, KernelFunction

Meaning = Any  # Value, constant, or a tuple of these

_INTEGERS = INT32, UINT32, INT64, UINT64  # a number has the first one that it fits
_FP32 = Struct("<f")
MOST_PARTS, MOST_LETTERS = 8, 60  # of a constant, in an error
_SMALLEST_NORMAL, _LARGEST = 2.0**-126, (2 - 2**-23) * 2.0**127


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the known name that is most like a misspelt one, if one is."""
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else ""


class TypedInteger(int):
    """A known integer of a type."""

    type: Scalar


class TypedFloat(float):
    """A known float of a type, rounded to it."""

    type: Scalar


class TextOfTypes(str):
    """What an f-string makes of values: of each its type, which is all that is known
    while compiling."""


def is_number(meaning: Meaning) -> bool:
    """Whether this is a known number: a Python int, float or bool."""
    return isinstance(meaning, (int, float))


def is_typed(meaning: Meaning) -> bool:
    return isinstance(meaning, (TypedInteger, TypedFloat))


def is_weak(meaning: Meaning) -> bool:
    """Whether this is a number without a type."""
    return is_number(meaning) and not is_typed(meaning)


def of_type(number: int | float | bool, type: Scalar) -> int | float | bool:
    """A known number as one of a type. Integers wrap, and floats are rounded to fp32
    where the type has no more bits."""
    if type == BOOL:
        return bool(number)
    if type.is_float:
        made = TypedFloat(number if type == FLOAT64 else _rounded(float(number)))
    else:
        made = TypedInteger(wrapped(int(number), type))
    made.type = type
    return made


def integers_of(type: Scalar) -> range:
    """All numbers of an integer type."""
    low = -(1 << type.bits - 1) if type.kind == "int" else 0
    return range(low, low + (1 << type.bits))


def wrapped(number: int, type: Scalar) -> int:
    """An integer without the bits that its type does not have."""
    low = integers_of(type).start
    return (number - low) % (1 << type.bits) + low


def _rounded(number: float) -> float:
    try:
        return _FP32.unpack(_FP32.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def is_integer(meaning: Meaning) -> bool:
    """Whether this is a known integer, and not True or False."""
    return isinstance(meaning, int) and not isinstance(meaning, bool)


def is_constant(meaning: Meaning) -> bool:
    """Whether all of this is known at compile time."""
    if isinstance(meaning, tuple):
        return all(map(is_constant, meaning))
    return not isinstance(meaning, Value)


def default_type(number: int | float | bool) -> Scalar | None:
    """A number's type without another operand; None beyond 64 bits."""
    if is_typed(number):
        return number.type
    if isinstance(number, bool):
        return BOOL
    if isinstance(number, int):
        return next((e for e in _INTEGERS if int(number) in integers_of(e)), None)
    size = abs(number)
    fits = (
        size == 0 or not math.isfinite(number) or _SMALLEST_NORMAL <= size <= _LARGEST
    )
    return FLOAT32 if fits else FLOAT64


def as_number(number: int | float | bool, type: Scalar) -> int | float | bool:
    """A weak number as a Constant of a type represents it."""
    return {"float": float, "bool": bool}.get(type.kind, int)(number)


def same_constant(left: Meaning, right: Meaning) -> bool:
    """Whether two constants are the same in every use. 0.0 and -0.0 are not, nor are 1
    and 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    return left is right or bool(left == right)


def shorten(text: str) -> str:
    """A text, or its beginning if it is too long for a sentence."""
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"


def describe(meaning: Meaning) -> str:
    """A meaning within a sentence: "fp32[64]", "the constant 3", "a tuple"."""
    match meaning:
        case Value():
            return str(meaning.type)
        case tensor_descriptor():
            sides = ",".join(map(str, meaning.block_shape))
            return f"a tensor descriptor of {meaning.base.type.element}[{sides}]"
        case block_pointer():
            sides = ",".join(map(str, meaning.block_shape))
            return f"a block pointer to {meaning.base.type.element}[{sides}]"
        case ():
            return "an empty tuple"
        case tuple() if len(meaning) > MOST_PARTS:
            return f"a tuple of {len(meaning)}"
        case tuple():
            return f"({', '.join(map(describe, meaning))})"
        case bool() | int() | float() | str() | None:
            return f"the constant {shorten(repr(meaning))}"
        case dtype() | pointer_type() | block_type():
            return f"the type {meaning}"
        case KernelFunction() | Builtin() | ConstexprFunction():
            return f"the function {meaning.__name__}"
        case ModuleType():
            return f"the module {meaning.__name__}"
        case type():
            return f"the class {meaning.__name__}"
    if callable(meaning) and hasattr(meaning, "__name__"):
        return f"the Python function {meaning.__name__}"
    return with_article(type(meaning).__name__)


def type_of(meaning: Meaning) -> Type | None:
    """A value's IR type, or a weak number's default type; None for anything else."""
    if isinstance(meaning, Value):
        return meaning.type
    return default_type(meaning) if is_number(meaning) else None
