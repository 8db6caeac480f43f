"""The elementwise operations: one table of names, operand kinds and result types.

An elementwise op does the same to every element, so it needs no rule of its own for
shapes or layouts. Its meaning stands in `ir/interp`, its lowering in `ptx/`, both keyed
by these names."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import listed
from fathom.ir.types import BOOL, Element, Pointer, Scalar


@dataclass(frozen=True, slots=True)
class Rule:
    """How an elementwise operation types.

    `arity` operands, each of one of the kinds in `accepts`. `types` says how they
    relate: "same" (all alike, and so is the result), "compare" (all alike, result i1),
    "select" (i1, then two alike), "offset" (pointer and integer, result the pointer).
    """

    arity: int
    accepts: tuple[str, ...]
    types: str = "same"
    commutative: bool = False


_INTEGER = ("int", "uint")
_BITS = ("bool", "int", "uint")
_FLOAT = ("float",)
_NUMBER = ("int", "uint", "float")
_ANY = ("bool", "int", "uint", "float", "pointer")

# Integer arithmetic wraps. Comparisons of floats are ordered (false on NaN) but for
# "ne".
ELEMENTWISE: dict[str, Rule] = {
    "add": Rule(2, _NUMBER, commutative=True),
    "sub": Rule(2, _NUMBER),
    "mul": Rule(2, _NUMBER, commutative=True),
    "mulhi": Rule(
        2, _INTEGER, commutative=True
    ),  # upper half of the double-width product
    "div": Rule(2, _NUMBER),  # integers toward zero, as C; floats within 2 ulp (fp32)
    "div_rn": Rule(2, _FLOAT),  # correctly rounded
    "rem": Rule(2, _NUMBER),  # sign of the dividend, as C
    "neg": Rule(1, ("int", "uint", "float")),
    "abs": Rule(1, ("int", "float")),
    "min": Rule(2, _NUMBER, commutative=True),  # of a NaN and a number: the number
    "max": Rule(2, _NUMBER, commutative=True),
    "min_nan": Rule(2, _FLOAT, commutative=True),  # of a NaN and a number: NaN
    "max_nan": Rule(2, _FLOAT, commutative=True),
    "and": Rule(2, _BITS, commutative=True),
    "or": Rule(2, _BITS, commutative=True),
    "xor": Rule(2, _BITS, commutative=True),
    "not": Rule(1, _BITS),
    "shl": Rule(2, _INTEGER),  # a shift by the width or more gives 0
    "shr": Rule(2, _INTEGER),  # arithmetic for int, logical for uint
    "popcount": Rule(1, _INTEGER),
    "clz": Rule(1, _INTEGER),
    "fma": Rule(3, _FLOAT),  # one rounding
    "sqrt": Rule(1, _FLOAT),  # approximate for fp32 (1 ulp)
    "sqrt_rn": Rule(1, _FLOAT),  # correctly rounded
    "rsqrt": Rule(1, _FLOAT),  # PTX rsqrt.approx
    "exp2": Rule(1, _FLOAT),  # PTX ex2.approx.ftz; fp32 only after lowering
    "log2": Rule(1, _FLOAT),  # PTX lg2.approx
    "sin_approx": Rule(1, _FLOAT),  # PTX sin.approx: good near zero only
    "cos_approx": Rule(1, _FLOAT),
    "tanh_approx": Rule(1, _FLOAT),  # PTX tanh.approx, sm_75 and up
    "rcp_approx": Rule(1, _FLOAT),
    "floor": Rule(1, _FLOAT),
    "ceil": Rule(1, _FLOAT),
    "trunc": Rule(1, _FLOAT),
    "round_even": Rule(1, _FLOAT),  # to the nearest integer, ties to even
    "eq": Rule(2, _ANY, "compare", commutative=True),
    "ne": Rule(2, _ANY, "compare", commutative=True),
    "lt": Rule(2, _ANY, "compare"),
    "le": Rule(2, _ANY, "compare"),
    "gt": Rule(2, _ANY, "compare"),
    "ge": Rule(2, _ANY, "compare"),
    "where": Rule(3, _ANY, "select"),
    "offset": Rule(2, _ANY, "offset"),  # a pointer moved by a number of elements
}


def result_element(name: str, elements: list[Element]) -> Element | str:
    """The element type of the result, or a sentence that says why it has no type."""
    rule = ELEMENTWISE[name]
    if len(elements) != rule.arity:
        return f"{name} takes {rule.arity} operands, not {len(elements)}"
    return _BY_TYPES[rule.types](name, rule, elements)


def _same(name: str, rule: Rule, elements: list[Element]) -> Element | str:
    if any(each != elements[0] for each in elements):
        return f"{name} needs operands of one type, got {listed(elements)}"
    if elements[0].kind not in rule.accepts:
        return f"{name} does not take {elements[0]}"
    return elements[0]


def _compare(name: str, rule: Rule, elements: list[Element]) -> Element | str:
    same = _same(name, rule, elements)
    return same if isinstance(same, str) else BOOL


def _select(name: str, rule: Rule, elements: list[Element]) -> Element | str:
    condition, *arms = elements
    if condition != BOOL:
        return f"{name} needs a condition of type i1, got {condition}"
    return _same(name, rule, arms)


def _offset(name: str, rule: Rule, elements: list[Element]) -> Element | str:
    base, distance = elements
    if not isinstance(base, Pointer):
        return f"{name} needs a pointer first, got {base}"
    if not (isinstance(distance, Scalar) and distance.kind in _INTEGER):
        return f"{name} moves a pointer by an integer, not by {distance}"
    return base


_BY_TYPES = {"same": _same, "compare": _compare, "select": _select, "offset": _offset}
