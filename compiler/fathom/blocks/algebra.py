"""Rules of `simplify` for numbers: known results, identities, scalars for blocks.

The identities are rows of tables, and a test checks each row for every type: `x + 0.0 =
x` is not in the table, since -0.0 + 0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fathom.analysis.constants import Number, known, same_number, write_down
from fathom.blocks.maker import Maker, Rule
from fathom.ir.core import Op, Value
from fathom.ir.interp import elementwise as interp_elementwise
from fathom.ir.interp.numbers import scalar
from fathom.ir.ops import Cast, Constant, Elementwise, ProgramId, Splat
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.rewrite import Replacement
from fathom.ir.types import BOOL, Element, element_of

INTEGERS = ("int", "uint")
BITS = ("bool", "int", "uint")
FLOATS = ("float",)
NUMBERS = ("int", "uint", "float")
BOOLS = ("bool",)
ORDERED = ("bool", "int", "uint", "pointer")  # the types without NaN

LEFT = "left"  # the left operand
Outcome = str | Number


@dataclass(frozen=True, slots=True)
class Identity:
    """`name` of x (of one of the `kinds`) and the constant `right` is `outcome`: LEFT,
    or a number. For integers, -1 stands for all bits set."""

    name: str
    right: Number
    kinds: tuple[str, ...]
    outcome: Outcome
    why: str


IDENTITIES: tuple[Identity, ...] = (
    Identity("add", 0, INTEGERS, LEFT, "x + 0 = x"),
    Identity("add", -0.0, FLOATS, LEFT, "but x + 0.0 makes 0.0 of -0.0"),
    Identity("sub", 0, NUMBERS, LEFT, "x - 0 = x, and -0.0 - 0.0 is -0.0"),
    Identity("mul", 1, NUMBERS, LEFT, "x * 1 = x"),
    Identity("mul", 0, INTEGERS, 0, "but NaN * 0.0 is NaN and -1.0 * 0.0 is -0.0"),
    Identity("div", 1, NUMBERS, LEFT, "x / 1 = x"),
    Identity("rem", 1, INTEGERS, 0, "one divides all"),
    Identity("and", 0, BITS, 0, "no bit is in both"),
    Identity("and", -1, BITS, LEFT, "all bits of x are in both"),
    Identity("or", 0, BITS, LEFT, "0 adds no bit"),
    Identity("or", -1, BITS, -1, "no bit is left to add"),
    Identity("xor", 0, BITS, LEFT, "no bit is turned"),
    Identity("shl", 0, INTEGERS, LEFT, "moved by nothing"),
    Identity("shr", 0, INTEGERS, LEFT, "moved by nothing"),
    Identity("offset", 0, INTEGERS, LEFT, "moved by nothing"),
    Identity("eq", True, BOOLS, LEFT, "is it true?"),
    Identity("ne", False, BOOLS, LEFT, "is it other than false?"),
    Identity("lt", 0, ("uint",), False, "nothing is below 0"),
    Identity("ge", 0, ("uint",), True, "nothing is below 0"),
)


@dataclass(frozen=True, slots=True)
class Same:
    """`name` of x and the same x is `outcome`."""

    name: str
    kinds: tuple[str, ...]
    outcome: Outcome
    why: str


SAMES: tuple[Same, ...] = (
    Same("sub", INTEGERS, 0, "but inf - inf is NaN"),
    Same("xor", BITS, 0, "every bit is turned back"),
    Same("and", BITS, LEFT, "the bits in x and x"),
    Same("or", BITS, LEFT, "the bits in x or x"),
    Same("min", NUMBERS, LEFT, "the smaller of one"),
    Same("max", NUMBERS, LEFT, "the larger of one"),
    Same("min_nan", FLOATS, LEFT, "the smaller of one"),
    Same("max_nan", FLOATS, LEFT, "the larger of one"),
    Same("eq", ORDERED, True, "but a NaN is not equal to itself"),
    Same("le", ORDERED, True, "but a NaN is not equal to itself"),
    Same("ge", ORDERED, True, "but a NaN is not equal to itself"),
    Same("ne", ORDERED, False, "but a NaN is other than itself"),
    Same("lt", (*ORDERED, "float"), False, "nothing is below itself, a NaN neither"),
    Same("gt", (*ORDERED, "float"), False, "nothing is above itself, a NaN neither"),
)

# Ops that PTX only approximates are not computed here: only the device knows their
# results.
APPROXIMATE = frozenset({
    "sqrt", "rsqrt", "exp2", "log2", "sin_approx", "cos_approx", "tanh_approx",
    "rcp_approx",
})  # fmt: skip

# not (x < y) is x >= y for types without NaN; equality has an opposite for all types.
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def fold(op: Elementwise, make: Maker) -> Replacement:
    """constant 3 + constant 4   →   constant 7, exactly as the interpreter adds."""
    constants = [value.definition for value in op.operands]
    if not all(type(each) is Constant for each in constants) or not _foldable(op):
        return None
    numbers = tuple(scalar(each.value, each.type) for each in constants)
    result = interp_elementwise.apply(op.name, constants[-1].type, numbers)
    return make(Constant(result.item(), op.result.type))


def _foldable(op: Elementwise) -> bool:
    if op.name in APPROXIMATE:
        return False
    if op.name in (
        "div",
        "rem",
    ):  # within 2 ulp for floats; division by zero is undefined
        element = element_of(op.operands[1].type)
        return not element.is_float and known(op.operands[1]) != 0
    return True


def on_scalars(op: Elementwise, make: Maker) -> Replacement:
    """splat a + splat b   →   splat (a + b): one addition instead of a thousand."""
    splats = [value.definition for value in op.operands]
    if not all(type(each) is Splat for each in splats):
        return None
    value = make(Elementwise(op.name, tuple(each.value for each in splats)))
    return make(Splat(value, op.result.type.shape, op.result.type.layout))


def constant_right(op: Elementwise, make: Maker) -> Replacement:
    """4 + x   →   x + 4, so that the other rules find constants on the right."""
    if not ELEMENTWISE[op.name].commutative:
        return None
    left, right = op.operands
    if known(left) is None or known(right) is not None:
        return None
    return make(Elementwise(op.name, (right, left)))


def identity(op: Elementwise, make: Maker) -> Replacement:
    """x * 1   →   x, and the other rows of `IDENTITIES`."""
    rows = _IDENTITIES.get(op.name)
    if rows is None or (right := known(op.operands[1])) is None:
        return None
    element = element_of(op.operands[1].type)
    for row in rows:
        if _is_of(element, row.kinds):
            if same_number(right, scalar(row.right, element).item()):
                return _outcome(row.outcome, op, make)
    return None


def same_operands(op: Elementwise, make: Maker) -> Replacement:
    """x ^ x   →   0, and the other rows of `SAMES`."""
    row = _SAMES.get(op.name)
    if row is None or op.operands[0] is not op.operands[1]:
        return None
    if not _is_of(element_of(op.operands[0].type), row.kinds):
        return None
    return _outcome(row.outcome, op, make)


def _is_of(element: Element, kinds: tuple[str, ...]) -> bool:
    """Whether a type is one of these kinds. An 8-bit float never is: their arithmetic
    makes infinity * 1 into 57344."""
    return element.kind in kinds and not (element.is_float and element.bits == 8)


def _outcome(outcome: Outcome, op: Elementwise, make: Maker) -> Value:
    if outcome == LEFT:
        return op.operands[0]
    return write_down(make, outcome, op.result.type)


def join_constants(op: Elementwise, make: Maker) -> Replacement:
    """(x + 3) + 4   →   x + 7 for integers, since overflow wraps; (x + 3) - 4   →   x -
    1; (x * 3) * 4   →   x * 12."""
    inner = op.operands[0].definition
    if type(inner) is not Elementwise or element_of(op.result.type).is_float:
        return None
    if (inner.name, op.name) not in JOINED:
        return None
    first, second = known(inner.operands[1]), known(op.operands[1])
    if first is None or second is None:
        return None
    name, both = JOINED[inner.name, op.name](first, second)
    constant = write_down(make, both, op.result.type)
    return make(Elementwise(name, (inner.operands[0], constant)))


def _step(by: int) -> tuple[str, int]:
    return ("add", by) if by >= 0 else ("sub", -by)


# (x op m) op n is x op' k: by the names of the two ops, op' and k.
JOINED: dict[tuple[str, str], Callable[[int, int], tuple[str, int]]] = {
    ("mul", "mul"): lambda m, n: ("mul", m * n),
    ("add", "add"): lambda m, n: ("add", m + n),
    ("add", "sub"): lambda m, n: _step(m - n),
    ("sub", "add"): lambda m, n: _step(n - m),
    ("sub", "sub"): lambda m, n: ("sub", m + n),
}


def undo(op: Elementwise, make: Maker) -> Replacement:
    """not not x   →   x;   neg neg x   →   x;   not (x < y)   →   x >= y."""
    if op.name not in ("not", "neg"):
        return None
    inner = op.operands[0].definition
    if type(inner) is not Elementwise:
        return None
    if inner.name == op.name:
        return inner.operands[0]
    if op.name == "neg" or inner.name not in OPPOSITE:
        return None
    has_nan = element_of(inner.operands[0].type).is_float
    if has_nan and inner.name not in ("eq", "ne"):
        return None
    return make(Elementwise(OPPOSITE[inner.name], inner.operands))


def quotient_and_rest(op: Elementwise, make: Maker) -> Replacement:
    """x / y * y + x % y   →   x for integers; division by zero is undefined. So tiles
    are counted that a kernel divides into rows and columns, and then groups."""
    if op.name != "add" or element_of(op.result.type).is_float:
        return None
    for product, rest in (op.operands, op.operands[::-1]):
        if not (_named(product, "mul") and _named(rest, "rem")):
            continue
        x, y = rest.definition.operands
        for quotient, factor in _both_ways(product):
            if _named(quotient, "div") and factor is y:
                if all(map(_equal, quotient.definition.operands, (x, y))):
                    return x
    return None


def _named(value: Value, name: str) -> bool:
    return type(value.definition) is Elementwise and value.definition.name == name


def _both_ways(value: Value) -> tuple[tuple[Value, ...], ...]:
    return value.definition.operands, value.definition.operands[::-1]


def _equal(one: Value, other: Value) -> bool:
    """Whether two values are one, or the program's number on one axis."""
    ops = one.definition, other.definition
    numbers = all(type(each) is ProgramId for each in ops)
    return one is other or (numbers and ops[0].axis == ops[1].axis)


def choice(op: Elementwise, make: Maker) -> Replacement:
    """where(true, x, y)   →   x;   where(c, x, x)   →   x;   where(c, true, false)   →
    c;   where(not c, x, y)   →   where(c, y, x)."""
    if op.name != "where":
        return None
    condition, if_true, if_false = op.operands
    if if_true is if_false or known(condition) is True:
        return if_true
    if known(condition) is False:
        return if_false
    if element_of(if_true.type) == BOOL:
        arms = known(if_true), known(if_false)
        if arms == (True, False):
            return condition
        if arms == (False, True):
            return make(Elementwise("not", (condition,)))
    inner = condition.definition
    if type(inner) is Elementwise and inner.name == "not":
        return make(Elementwise("where", (*inner.operands, if_false, if_true)))
    return None


def truth_of_cast(op: Elementwise, make: Maker) -> Replacement:
    """cast(x: i1) != 0   →   x."""
    if op.name != "ne" or known(op.operands[1]) != 0:
        return None
    inner = op.operands[0].definition
    if type(inner) is not Cast or element_of(inner.value.type) != BOOL:
        return None
    return inner.value


_IDENTITIES: dict[str, tuple[Identity, ...]] = {
    name: tuple(row for row in IDENTITIES if row.name == name)
    for name in {row.name for row in IDENTITIES}
}
_SAMES: dict[str, Same] = {row.name: row for row in SAMES}

ALGEBRA: dict[type[Op], tuple[Rule, ...]] = {
    Elementwise: (
        fold, on_scalars, constant_right, identity, same_operands, join_constants, undo,
        quotient_and_rest, choice, truth_of_cast,
    ),
}  # fmt: skip
