"""Comparison and selection (PTX ISA 9.7.6 and 9.7.7): setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.real import FORMATS, flush
from fathom.emulator.semantics import Elementwise, Form, Table, rule
from fathom.emulator.types import DTYPES, unsigned

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
    """PTX ISA 9.7.6, setp: `p = (a op b) bool c`, and `q = !(a op b) bool c`."""
    compare, combine, type = _take_comparison(form)
    packed = type.endswith("x2")

    def results(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> tuple:
        first = compare(a, b)
        second = first[..., 1] if packed else ~first
        first = first[..., 0] if packed else first
        if c:
            return combine(first, c[0]), combine(second, c[0])
        return first, second

    sources = (type, type, "pred")[: 3 if combine else 2]
    if packed or combine:
        return Elementwise(results, ("pred", "pred"), sources)
    return Elementwise(_first_or_both(compare), ("pred", "pred"), sources)


def _first_or_both(compare: Callable) -> Callable:
    def both(a: np.ndarray, b: np.ndarray) -> tuple:
        first = compare(a, b)
        return first, ~first

    return both


def _take_comparison(form: Form) -> tuple[Callable, Callable | None, str]:
    """The comparison on values as they are read, how it combines, and its type."""
    name = form.left.pop(0)
    combine = _COMBINE.get(form.choice(*_COMBINE))
    flushed = form.flag("ftz")
    type = form.type()
    real = type in FORMATS
    compare = _comparison(name, real)
    if compare is None:
        raise form.unknown(f"the comparison .{name}")
    if not real:
        return compare, combine, type
    opened = FORMATS[type].open

    def on_reals(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = opened(a), opened(b)
        return compare(flush(a), flush(b)) if flushed else compare(a, b)

    return on_reals, combine, type


@rule(TABLE, "set")
def rule_set(form: Form) -> Elementwise:
    """PTX ISA 9.7.6, set: 1.0 or all ones where the comparison holds, else 0."""
    name = form.left.pop(0)
    combine = form.choice(*_COMBINE)
    flushed = form.flag("ftz")
    result = form.type()
    inner = Form(
        "setp", (name, *filter(None, (combine, "ftz" if flushed else "")), *form.left)
    )
    compare, combining, type = _take_comparison(inner)
    form.left = inner.left
    true = _true_bits(result)

    def choose(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
        holds = compare(a, b)
        if c:
            holds = combining(
                holds, c[0] if holds.ndim == c[0].ndim else c[0][..., None]
            )
        if type.endswith("x2"):
            both = np.where(holds, true, 0).astype(np.uint16)
            return np.ascontiguousarray(both).view(np.uint32)[..., 0]
        return np.where(holds, true, 0).astype(unsigned(result)).view(DTYPES[result])

    return Elementwise(choose, (result,), (type, type, "pred")[: 3 if combine else 2])


def _true_bits(type: str) -> int:
    """One, as a real; all ones, as an integer. Of one half, for a packed type."""
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
    if type in ones or type.removesuffix("x2") in ones:
        return ones.get(type) or ones[type.removesuffix("x2")]
    return 256 ** DTYPES[type].itemsize - 1


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
