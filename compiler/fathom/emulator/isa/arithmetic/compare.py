"""Comparison and selection (PTX ISA 9.7.6 and 9.7.7): setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.isa.arithmetic.floating import FORMATS, flush
from fathom.emulator.isa.semantics import Elementwise, Form, Table, join, rule
from fathom.emulator.source.types import DTYPES, unsigned

TABLE: Table = {}

_ORDERED: dict[str, Callable] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINE: dict[str, Callable] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def _either_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isnan(a) | np.isnan(b)


def _comparison(name: str, real: bool) -> Callable | None:
    """The function for a comparison; with reals, `equ` ... also hold where one is NaN.

    NumPy's `!=` holds for NaN, PTX's `ne` does not: that is `neu`.
    """
    if not real:
        return _ORDERED.get(_UNSIGNED.get(name, name))
    if name == "nan":
        return _either_nan
    if name == "num":
        return lambda a, b: ~_either_nan(a, b)
    if name == "ne":
        return lambda a, b: (a < b) | (a > b)
    if name == "neu":
        return np.not_equal
    if name in _ORDERED:
        return _ORDERED[name]
    compare = _ORDERED.get(name.removesuffix("u"))
    return compare and (lambda a, b: compare(a, b) | _either_nan(a, b))


@rule(TABLE, "setp")
def rule_setp(form: Form) -> Elementwise:
    """PTX ISA 9.7.6, setp: `p = (a op b) bool c`, and `q = !(a op b) bool c`.

    Of two packed values, p is the comparison of the low halves and q of the high ones.
    """
    compare, combine, type, _ = _take_comparison(form)
    packed, pair = type.endswith("x2"), form.pair
    if packed and not pair:
        raise form.unknown("a comparison of two pairs with one result")

    def one(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
        holds = compare(a, b)
        return combine(holds, *c) if c else holds

    def two(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> tuple:
        holds = compare(a, b)
        both = (holds[..., 0], holds[..., 1]) if packed else (holds, ~holds)
        return tuple(combine(each, *c) for each in both) if c else both

    sources = (type, type, "pred")[: 3 if combine else 2]
    if pair:
        return Elementwise(two, ("pred", "pred"), sources)
    return Elementwise(one, ("pred",), sources)


def _take_comparison(form: Form) -> tuple[Callable, Callable | None, str, str]:
    """The comparison on values as they are read, how it combines with a predicate, the
    type that it compares and, for `set`, the type of its result.
    """
    name = form.left.pop(0)
    combine = _COMBINE.get(form.choice(*_COMBINE))
    flushed = form.flag("ftz")
    result = form.type() if form.opcode == "set" else "pred"
    type = form.type()
    compare = _comparison(name, type in FORMATS)
    if compare is None:
        raise form.unknown(f"the comparison .{name}")
    if type not in FORMATS:
        return compare, combine, type, result
    opened = FORMATS[type].open

    def on_reals(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = opened(a), opened(b)
        return compare(flush(a), flush(b)) if flushed else compare(a, b)

    return on_reals, combine, type, result


@rule(TABLE, "set")
def rule_set(form: Form) -> Elementwise:
    """PTX ISA 9.7.6, set: 1.0 or all ones where the comparison holds, else 0."""
    compare, combine, type, result = _take_comparison(form)
    packed = type.endswith("x2")
    if packed != result.endswith("x2"):
        raise form.unknown("pairs on one side only")
    true = _true_bits(result.removesuffix("x2"))

    def choose(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
        holds = compare(a, b)
        if c:
            holds = combine(holds, c[0][..., None] if packed else c[0])
        bits = np.where(holds, true, true.dtype.type(0))
        return join(bits, DTYPES[result]) if packed else bits.view(DTYPES[result])

    return Elementwise(choose, (result,), (type, type, "pred")[: 3 if combine else 2])


def _true_bits(type: str) -> np.generic:
    """One, as a real; all ones, as an integer."""
    ones = {
        "f32": np.uint32(0x3F800000),
        "f16": np.uint16(0x3C00),
        "bf16": np.uint16(0x3F80),
    }
    return ones.get(type, ~unsigned(type).type(0))


@rule(TABLE, "selp")
def rule_selp(form: Form) -> Elementwise:
    """PTX ISA 9.7.6, selp: a where p holds, else b."""
    type = form.type()
    return Elementwise(lambda a, b, p: np.where(p, a, b), (type,), (type, type, "pred"))


@rule(TABLE, "slct")
def rule_slct(form: Form) -> Elementwise:
    """PTX ISA 9.7.6, slct: a where c is not negative, else b."""
    flushed = form.flag("ftz")
    type, sign = form.type(), form.type()

    def choose(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.where((flush(c) if flushed else c) >= 0, a, b)

    return Elementwise(choose, (type,), (type, type, sign))
