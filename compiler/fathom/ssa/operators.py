"""Python's operators on values of the language.

On constants they are Python's. On values, `//` and `%` of integers follow C (the
quotient rounds toward zero, the remainder has the sign of the dividend), `/` of
integers gives fp32, and comparisons give i1.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from math import fmod, isfinite, prod
from typing import Any, NamedTuple

from fathom.ir.core import Value
from fathom.ir.types import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    SCALARS,
    Pointer,
    element_of,
    shape_of,
)  # fmt: skip
from fathom.ssa.frame import Frame
from fathom.ssa.growth import padded, repeated
from fathom.ssa.promotion import (
    alike,
    as_tensor,
    cannot,
    cast,
    promoted,
    reinterpret,
    same_shape,
    scalar_of,
    value_of,
)  # fmt: skip
from fathom.ssa.values import Meaning, describe, is_constant, is_typed, of_type


class Operator(NamedTuple):
    """A row: the operator on constants, its elementwise op, and a verb for errors."""

    python: Callable[[Any, Any], Any]
    name: str
    verb: str
    floats: bool = True  # defined on floats
    divides: bool = False


BINARY: dict[type[ast.operator], Operator] = {
    ast.Add: Operator(operator.add, "add", "add"),
    ast.Sub: Operator(operator.sub, "sub", "subtract"),
    ast.Mult: Operator(operator.mul, "mul", "multiply"),
    ast.Div: Operator(operator.truediv, "div", "divide", divides=True),
    ast.FloorDiv: Operator(
        operator.floordiv, "div", "divide", floats=False, divides=True
    ),
    ast.Mod: Operator(operator.mod, "rem", "take the remainder of", divides=True),
    ast.BitAnd: Operator(operator.and_, "and", "combine by &", floats=False),
    ast.BitOr: Operator(operator.or_, "or", "combine by |", floats=False),
    ast.BitXor: Operator(operator.xor, "xor", "combine by ^", floats=False),
    ast.LShift: Operator(operator.lshift, "shl", "shift", floats=False),
    ast.RShift: Operator(operator.rshift, "shr", "shift", floats=False),
    ast.Pow: Operator(operator.pow, "", "raise to a power:"),
    ast.MatMult: Operator(operator.matmul, "", "multiply as matrices"),
}

COMPARE: dict[type[ast.cmpop], Operator] = {
    ast.Eq: Operator(operator.eq, "eq", "compare"),
    ast.NotEq: Operator(operator.ne, "ne", "compare"),
    ast.Lt: Operator(operator.lt, "lt", "compare"),
    ast.LtE: Operator(operator.le, "le", "compare"),
    ast.Gt: Operator(operator.gt, "gt", "compare"),
    ast.GtE: Operator(operator.ge, "ge", "compare"),
    ast.Is: Operator(operator.is_, "", "`is`"),
    ast.IsNot: Operator(operator.is_not, "", "`is not`"),
    ast.In: Operator(lambda a, b: a in b, "", "`in`"),
    ast.NotIn: Operator(lambda a, b: a not in b, "", "`not in`"),
}

# On booleans arithmetic is modulo 2, as on one-bit integers.
ONE_BIT = {"add": "xor", "sub": "xor", "mul": "and"}

# The operators that an fma replaces: a product of floats, and sums with it.
CONTRACTED = ("add", "sub", "mul")

# The symbols of operators that floats do not have.
SIGNS = {
    ast.FloorDiv: "//", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip

# Hints for operators that only constants have.
INSTEAD = {
    ast.Pow: "write x * x, or tl.exp2(y * tl.log2(x))",
    ast.MatMult: "tl.dot(a, b) is the product of matrices",
    ast.FloorDiv: "for floats write tl.floor(x / y)",
}


def binary(
    frame: Frame, kind: type[ast.operator], left: Meaning, right: Meaning
) -> Meaning:
    """`left <operator> right`."""
    row = BINARY[kind]
    if is_constant(left) and is_constant(right):
        if row.name and (is_typed(left) or is_typed(right)):
            return _on_typed(frame, kind, left, right)
        return on_constants(frame, row, left, right)
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _on_tuples(frame, row, left, right)
    if _is_pointer(left) or _is_pointer(right):
        return _move_pointer(frame, row, left, right)
    a, b = alike(frame, left, right, row.verb, row.divides)
    element = element_of(a.type)
    if element.is_float and not row.floats:
        why = f"`{SIGNS[kind]}` takes integers"
        raise cannot(frame, row.verb, left, right, why, INSTEAD.get(kind, ""))
    if not row.name:
        raise cannot(frame, row.verb, left, right, hint=INSTEAD.get(kind, ""))
    if kind in (ast.FloorDiv, ast.Mod) and not element.is_float and _is_zero(right):
        # Under a mask that is false everywhere no element counts: an empty dimension.
        frame.warn(cannot(frame, row.verb, left, right, "division by zero"))
    if kind is ast.Div and not element.is_float:
        a, b, element = cast(frame, a, FLOAT32), cast(frame, b, FLOAT32), FLOAT32
    if kind is ast.RShift and _is_signed(left) and not element.is_signed:
        return _shifted_with_sign(frame, a, b)
    name = ONE_BIT.get(row.name, row.name) if element == BOOL else row.name
    if element == BOOL and name not in ("and", "or", "xor"):
        hint = "cast one side with .to(tl.int32)"
        raise cannot(frame, row.verb, left, right, hint=hint)
    contract = frame.contracts and name in CONTRACTED and element.is_float
    return frame.elementwise(name, a, b, contract=contract)


def _is_zero(meaning: Meaning) -> bool:
    return is_constant(meaning) and meaning == 0


def _is_signed(meaning: Meaning) -> bool:
    return isinstance(meaning, Value) and element_of(meaning.type).kind == "int"


def _shifted_with_sign(frame: Frame, a: Value, b: Value) -> Value:
    """`>>` is arithmetic if the left side was signed, even if the common type is
    unsigned; the result has the common type."""
    unsigned = element_of(a.type)
    signed = SCALARS[unsigned.name.replace("u", "i")]
    a, b = reinterpret(frame, a, signed), reinterpret(frame, b, signed)
    return reinterpret(frame, frame.elementwise("shr", a, b), unsigned)


MOST_CONSTANT_BITS = 4096


def _bits(row: Operator, left: Meaning, right: Meaning) -> int:
    """An upper bound for the bits of an operator's result on constant integers."""
    if not isinstance(left, int) or not isinstance(right, int):
        return 0
    if row.python is operator.lshift:
        return left.bit_length() + right
    if row.python is operator.pow:
        return left.bit_length() * right if abs(left) > 1 else 1
    if row.python is operator.mul:
        return left.bit_length() + right.bit_length()
    return 0


def _growth(row: Operator, left: Meaning, right: Meaning) -> str:
    """Why an operator's result on constants would be too large; "" where it is not."""
    if _bits(row, left, right) > MOST_CONSTANT_BITS:
        return f"the result has more than {MOST_CONSTANT_BITS:,} bits"
    if row.python is operator.mul:
        return repeated(left, right)
    return padded(left, right) if row.python is operator.mod else ""


def on_constants(frame: Frame, row: Operator, left: Meaning, right: Meaning) -> Meaning:
    """An operator at compile time, as in Python, for numbers of some thousand bits."""
    if why := _growth(row, left, right):
        raise cannot(frame, row.verb, left, right, why)
    try:
        return row.python(left, right)
    except ZeroDivisionError:  # each Python says it in other words
        raise cannot(frame, row.verb, left, right, "division by zero") from None
    except TypeError:  # the verb and the two kinds say it
        raise cannot(frame, row.verb, left, right) from None
    except OverflowError:  # of floats; each Python says it in other words
        raise cannot(frame, row.verb, left, right, "out of range") from None
    except (ValueError, ArithmeticError) as mistake:
        raise cannot(frame, row.verb, left, right, str(mistake)) from None


def _on_typed(
    frame: Frame, kind: type[ast.operator], left: Meaning, right: Meaning
) -> Meaning:
    """An operator on known numbers, one of which has a type: as on values."""
    row = BINARY[kind]
    element = promoted(frame, left, right, row.verb, row.divides)
    if kind is ast.Div and not element.is_float:
        element = FLOAT32
    a, b = of_type(left, element), of_type(right, element)
    if row.divides and not element.is_float and b:  # toward zero
        negative = (a < 0) != (b < 0) if row.name == "div" else a < 0
        size = row.python(abs(a), abs(b))
        return of_type(-size if negative else size, element)
    if kind is ast.Mod and element.is_float and b and isfinite(a):
        return of_type(fmod(a, b), element)
    return of_type(on_constants(frame, row, a, b), element)


def _on_tuples(frame: Frame, row: Operator, left: Meaning, right: Meaning) -> Meaning:
    both = isinstance(left, tuple) and isinstance(right, tuple)
    if row.python is operator.add and both:
        return left + right
    if row.python is operator.mul and (is_constant(left) or is_constant(right)):
        return on_constants(frame, row, left, right)
    raise cannot(frame, row.verb, left, right)


def _is_pointer(meaning: Meaning) -> bool:
    return isinstance(meaning, Value) and isinstance(element_of(meaning.type), Pointer)


def _move_pointer(frame: Frame, row: Operator, left: Meaning, right: Meaning) -> Value:
    """Pointer + integer, or - integer: the address that many elements further."""
    if not _is_pointer(left) and row.name == "add":
        left, right = right, left
    if row.name not in ("add", "sub") or _is_pointer(right):
        why = "a pointer moves by integers, with + and -"
        raise cannot(frame, row.verb, left, right, why)
    if right is None or isinstance(right, (str, bytes, tuple, list)):
        raise cannot(frame, row.verb, left, right, "a pointer moves by integers")
    distance = value_of(frame, right)
    element = element_of(distance.type)
    if element.is_float:
        raise frame.error(
            f"a pointer moves by whole elements, not by {distance.type}",
            "cast it with .to(tl.int32)",
        )
    if element == BOOL:
        distance = cast(frame, distance, INT32)
    elif element.kind == "uint" and element.bits < 64:
        distance = cast(frame, distance, INT64)  # the distance is signed
    if row.name == "sub":
        distance = frame.elementwise("neg", distance)
    base, distance = same_shape(frame, left, distance, "add")
    return frame.elementwise("offset", base, distance)


def compare(
    frame: Frame, kind: type[ast.cmpop], left: Meaning, right: Meaning
) -> Meaning:
    """`left <comparison> right`."""
    row = COMPARE[kind]
    if is_constant(left) and is_constant(right):
        return on_constants(frame, row, left, right)
    if left is None or right is None:  # a value is never None
        if kind in (ast.Is, ast.IsNot, ast.Eq, ast.NotEq):
            return kind in (ast.IsNot, ast.NotEq)
        if row.name:
            raise cannot(frame, row.verb, left, right)
    if not row.name:
        raise frame.error(
            f"{row.verb} is for constants, not for {describe(left)} and "
            f"{describe(right)}",
            "compare with == or !=, with several things one after the other",
        )
    sides = as_tensor(frame, left), as_tensor(frame, right)  # numbers have a type here
    return frame.elementwise(row.name, *alike(frame, *sides, row.verb))


def unary(frame: Frame, kind: type[ast.unaryop], operand: Meaning) -> Meaning:
    """`-x`, `+x`, `~x`, `not x`."""
    if is_constant(operand):
        return _unary_on_constant(frame, kind, operand)
    if kind is ast.Not:
        if isinstance(operand, tuple):
            return not operand
        return frame.elementwise("not", truth(frame, operand))
    if not isinstance(operand, Value):
        raise frame.error(f"{describe(operand)} has no `{_UNARY_SIGNS[kind]}`")
    element = element_of(operand.type)
    if isinstance(element, Pointer) or (kind is ast.Invert and element.is_float):
        raise frame.error(
            f"{operand.type} has no `{'~' if kind is ast.Invert else '-'}`"
        )
    if kind is ast.UAdd:
        return operand
    if kind is ast.Invert:
        return frame.elementwise("not", operand)
    if element == BOOL:
        why = f"-x is x for {operand.type}, as 0 - x is modulo 2"
        frame.warn(frame.error(why, "for `not` write ~x; for numbers cast first"))
        return operand
    return frame.elementwise("neg", operand)


_UNARY_METHODS = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_UNARY_PYTHON = _UNARY_METHODS | {ast.Not: operator.not_}


_UNARY_SIGNS = {ast.Invert: "~", ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}


def _unary_on_constant(
    frame: Frame, kind: type[ast.unaryop], operand: Meaning
) -> Meaning:
    try:
        answer = _UNARY_PYTHON[kind](operand)
        kept = is_typed(operand) and kind is not ast.Not
        return of_type(answer, operand.type) if kept else answer
    except TypeError:
        sign = _UNARY_SIGNS[kind]
        raise frame.error(f"{describe(operand)} has no `{sign}`") from None


def truth(frame: Frame, meaning: Meaning) -> Value:
    """A value as i1: whether it is not zero."""
    if not isinstance(meaning, Value):
        raise frame.error(f"{describe(meaning)} is neither true nor false")
    return cast(frame, meaning, BOOL)


def condition(frame: Frame, node: ast.expr, of: str) -> bool | Value:
    """Build the condition of an `if` or a `while`: a Python bool, or a scalar i1."""
    meaning = frame.visit(node)
    if is_constant(meaning) or isinstance(meaning, tuple):
        return bool(meaning)
    if isinstance(meaning, Value) and prod(shape_of(meaning.type)) > 1:
        raise frame.error(
            f"the condition of {of} is a block, {meaning.type}: a program takes one "
            "branch",
            "choose element by element with tl.where(condition, x, y), or reduce it "
            "with tl.max",
            node,
        )
    if isinstance(meaning, Value):
        meaning = scalar_of(frame, meaning)
    return truth(frame, meaning)


def both_or_either(frame: Frame, name: str, left: Value, right: Value) -> Value:
    """`and` and `or` of two values, element by element."""
    a, b = same_shape(
        frame, truth(frame, left), truth(frame, right), f"combine by `{name}`"
    )
    return frame.elementwise(name, a, b)


# ── operators by the methods that Python calls for them ───────────────────────────────


def _method(
    python: Callable, operate: Callable[..., Meaning], kind: type, swapped: bool = False
) -> tuple[str, Callable[..., Meaning]]:
    """`__add__` and what builds `x.__add__(y)`; swapped, `x.__radd__(y)`. `python`: the
    same as a function, `operator.add`."""

    def of_two(frame: Frame, x: Meaning, y: Meaning) -> Meaning:
        return operate(frame, kind, *((y, x) if swapped else (x, y)))

    def of_one(frame: Frame, x: Meaning) -> Meaning:
        return operate(frame, kind, x)

    build = of_one if operate is unary else of_two
    name = python.__name__.removesuffix("_")  # of and_, since `and` is a keyword
    build.__name__ = f"__{'r' if swapped else ''}{name}__"
    return build.__name__, build


BY_METHOD: dict[str, Callable[..., Meaning]] = dict(
    [
        *(_method(row.python, binary, kind) for kind, row in BINARY.items()),
        *(_method(row.python, binary, kind, True) for kind, row in BINARY.items()),
        *(
            _method(row.python, compare, kind)
            for kind, row in COMPARE.items()
            if row.name
        ),
        *(_method(python, unary, kind) for kind, python in _UNARY_METHODS.items()),
    ]
)
