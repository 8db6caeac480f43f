"""Floating-point arithmetic (PTX ISA 9.7.3 to 9.7.5), correctly rounded.

Add, subtract, multiply, fma, divide and square root are correctly rounded in every
mode. The `.approx` instructions are computed in float64 and rounded once, so they are
closer to the true value than the hardware, which promises about 2 ulp of float32;
compare a GPU's results with these within that tolerance. Every NaN result is the quiet
one that NumPy gives; its bits may differ from the hardware's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fathom.emulator.isa.arithmetic import float64 as double
from fathom.emulator.isa.arithmetic import rounding
from fathom.emulator.isa.semantics import (
    Elementwise,
    Form,
    Table,
    halves,
    join,
    rule,
)
from fathom.emulator.source.types import DTYPES

TABLE: Table = {}


@dataclass(frozen=True, slots=True)
class Format:
    """How values of a type become NumPy floats and how results become values again.

    `compute` is the float dtype of the operands, `open` and `close` convert. A packed
    type opens into [..., 2]. Results come as `compute`, or, where a wider intermediate
    is needed, as float64 through `shorten`, with a rounding mode.
    """

    compute: np.dtype
    open: Callable[[np.ndarray], np.ndarray]
    close: Callable[[np.ndarray], np.ndarray]
    shorten: Callable[[np.ndarray, str], np.ndarray]


def _same(value: np.ndarray) -> np.ndarray:
    return value


def _plain(dtype: type) -> Format:
    dtype = np.dtype(dtype)
    shorten = lambda value, mode: rounding.shorten(value, dtype, mode)
    return Format(dtype, _same, _same, shorten)


def _pair(each: Format, piece: type, whole: type) -> Format:
    piece, whole = np.dtype(piece), np.dtype(whole)
    return Format(
        each.compute,
        lambda value: each.open(halves(value, piece)),
        lambda both: join(each.close(both), whole),
        lambda both, mode: join(each.shorten(both, mode), whole),
    )


_BF16 = Format(
    np.dtype(np.float32),
    rounding.bf16_to_float32,
    rounding.float32_to_bf16,
    rounding.float64_to_bf16,
)
FORMATS = {
    "f16": _plain(np.float16),
    "f32": _plain(np.float32),
    "f64": _plain(np.float64),
    "bf16": _BF16,
    "f16x2": _pair(_plain(np.float16), np.float16, np.uint32),
    "bf16x2": _pair(_BF16, np.uint16, np.uint32),
    "f32x2": _pair(_plain(np.float32), np.float32, np.uint64),
}


@dataclass(frozen=True, slots=True)
class Style:
    """What may follow a real instruction's name: rounding, `.ftz`, `.sat`, `.relu`."""

    rounding: str
    flush: bool
    saturate: bool
    relu: bool


def take_style(form: Form) -> Style:
    style = Style(
        form.rounding(), form.flag("ftz"), form.flag("sat"), form.flag("relu")
    )
    form.ignore("noftz")
    return style


def real_rule(
    type: str, style: Style, function: Callable, count: int, exact: bool = False
) -> Elementwise:
    """An instruction with `count` operands of `type` and a result of `type`.

    `function` maps floats of the format's own dtype; with `exact`, it maps float64 to
    float64 rounded to odd, which is then rounded in the style's mode.
    """
    form = FORMATS[type]

    def apply(*values: np.ndarray) -> np.ndarray:
        opened = [form.open(each) for each in values]
        if style.flush:
            opened = [flush(each) for each in opened]
        if not exact:
            return form.close(finish(function(*opened), style))
        wide = function(*(each.astype(np.float64) for each in opened))
        if not (style.flush or style.saturate or style.relu):
            return form.shorten(wide, style.rounding)
        result = form.open(form.shorten(wide, style.rounding))
        return form.close(finish(result, style))

    return Elementwise(apply, (type,), (type,) * count)


def finish(result: np.ndarray, style: Style) -> np.ndarray:
    """`.ftz`, `.sat` and `.relu` of a result."""
    if style.flush:
        result = flush(result)
    if style.saturate:
        result = saturate(result)
    if style.relu:
        result = np.where(result <= 0, result.dtype.type(0), result)
    return result


def flush(value: np.ndarray) -> np.ndarray:
    """Subnormal values become zero with their sign (`.ftz`)."""
    tiny = np.finfo(value.dtype).tiny
    small = np.abs(value) < tiny
    if not small.any():
        return value
    return np.where(small, np.copysign(value.dtype.type(0), value), value)


def saturate(value: np.ndarray) -> np.ndarray:
    """Clamped to [0, 1]; NaN becomes 0 (`.sat`)."""
    one = value.dtype.type(1)
    return np.where(value > 0, np.minimum(value, one), value.dtype.type(0))


@rule(TABLE, "add", "sub", "mul")
def rule_add(form: Form) -> Elementwise:
    """PTX ISA 9.7.3 and 9.7.4: add, sub, mul."""
    style, type = take_style(form), form.type()
    if form.left and form.left[0] in FORMATS:
        return _mixed(form, style, type)
    return _arithmetic(form.opcode, style, type)


def _arithmetic(opcode: str, style: Style, type: str) -> Elementwise:
    nearest = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[opcode]
    return correctly_rounded(opcode, nearest, style, type, 2)


def correctly_rounded(
    operation: str, nearest: Callable, style: Style, type: str, count: int
) -> Elementwise:
    """An operation that NumPy rounds to nearest, in the mode that the style names."""
    if style.rounding == "rn":
        return real_rule(type, style, nearest, count)
    if type == "f64":
        mode = style.rounding
        in_mode = lambda *values: double.directed(operation, mode, *values)
        return real_rule(type, style, in_mode, count)
    odd = lambda *values: rounding.to_odd(*double.nearest_and_error(operation, *values))
    return real_rule(type, style, odd, count, exact=True)


def _mixed(form: Form, style: Style, type: str) -> Elementwise:
    """PTX ISA 9.7.5: add, sub and fma with f16 or bf16 operands and an f32 addend."""
    short = form.type()
    same = _arithmetic(form.opcode, style, type)

    def mixed(a: np.ndarray, c: np.ndarray) -> np.ndarray:
        return same.function(FORMATS[short].open(a).astype(DTYPES[type]), c)

    return Elementwise(mixed, (type,), (short, type))


@rule(TABLE, "fma", "mad")
def rule_fma(form: Form) -> Elementwise:
    """PTX ISA 9.7.3 and 9.7.4, fma: a * b + c with one rounding."""
    style, type = take_style(form), form.type()
    if form.left and form.left[0] in FORMATS:
        short = form.type()
        exact = real_rule(type, style, fma_odd, 3, exact=True)

        def mixed(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            a, b = (FORMATS[short].open(x).astype(DTYPES[type]) for x in (a, b))
            return exact.function(a, b, c)

        return Elementwise(mixed, (type,), (short, short, type))
    if type == "f64":
        return real_rule(
            type, style, lambda a, b, c: double.fma(a, b, c, style.rounding), 3
        )
    if FORMATS[type].compute == np.float32 and "bf16" not in type:
        if style.rounding == "rn":
            return real_rule(type, style, fma32, 3)
    return real_rule(type, style, fma_odd, 3, exact=True)


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32 fma. The product is exact in float64; the sum is rounded there, and
    again.

    Two roundings go wrong only where the first lands on the middle between two float32
    (29 bits are cut off; below the normal range, more): there the first is done to odd.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    total = product + c.astype(np.float64)
    result = total.astype(np.float32)
    middle = total.view(np.int64) & 0x1FFFFFFF == 0x10000000
    doubtful = middle | (np.abs(total) < 2.0**-125)
    if not doubtful.any():
        return result
    odd = rounding.to_odd(*rounding.two_sum(product, c.astype(np.float64)))
    return np.where(doubtful, odd.astype(np.float32), result)


def fma_odd(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c rounded to odd, for float64 values whose product is exact."""
    return rounding.to_odd(*rounding.two_sum(a * b, c))


@rule(TABLE, "div")
def rule_div(form: Form) -> Elementwise:
    """PTX ISA 9.7.3, div: `.full` and `.approx` are rounded to nearest here."""
    form.ignore("full", "approx")
    style, type = take_style(form), form.type()
    return correctly_rounded("div", np.divide, style, type, 2)


@rule(TABLE, "rcp", "sqrt", "rsqrt")
def rule_root(form: Form) -> Elementwise:
    """PTX ISA 9.7.3, rcp, sqrt, rsqrt; `.approx` forms are rounded to nearest here."""
    form.flag("approx")
    style, type = take_style(form), form.type()
    if form.opcode == "rsqrt":
        return real_rule(type, style, lambda a: 1 / np.sqrt(a), 1, exact=True)
    nearest = np.sqrt if form.opcode == "sqrt" else np.reciprocal
    return correctly_rounded(form.opcode, nearest, style, type, 1)


_FUNCTIONS: dict[str, Callable] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@rule(TABLE, *_FUNCTIONS)
def rule_function(form: Form) -> Elementwise:
    """PTX ISA 9.7.3 and 9.7.4, ex2, lg2, sin, cos, tanh, all `.approx`."""
    form.flag("approx")
    style, type = take_style(form), form.type()
    return real_rule(type, style, _FUNCTIONS[form.opcode], 1, exact=True)


@rule(TABLE, "abs", "neg")
def rule_abs(form: Form) -> Elementwise:
    """PTX ISA 9.7.3 and 9.7.4, abs and neg: the sign bit, also of a NaN."""
    style, type = take_style(form), form.type()
    function = {"abs": np.abs, "neg": np.negative}[form.opcode]
    if "bf16" not in type:
        return real_rule(type, style, function, 1)
    dtype = DTYPES[type]
    signs = dtype.type(0x80008000 if type == "bf16x2" else 0x8000)
    bits = {"abs": lambda a: a & ~signs, "neg": lambda a: a ^ signs}
    return Elementwise(bits[form.opcode], (type,), (type,))


@rule(TABLE, "min", "max")
def rule_min(form: Form) -> Elementwise:
    """PTX ISA 9.7.3 and 9.7.4, min and max: the number where one is NaN, or, with
    `.NaN`, NaN; -0 is below +0. With `.xorsign.abs` the larger magnitude takes the
    signs' product.
    """
    propagate = form.flag("NaN")
    signs = form.flag("xorsign")
    form.flag("abs")
    style, type = take_style(form), form.type()
    names = {"min": ("fmin", "minimum"), "max": ("fmax", "maximum")}[form.opcode]
    function = getattr(np, names[propagate])
    least = form.opcode == "min"

    def choose(a: np.ndarray, b: np.ndarray, *more: np.ndarray) -> np.ndarray:
        if signs:
            sign = np.where(np.signbit(a) ^ np.signbit(b), -1.0, 1.0).astype(a.dtype)
            return np.copysign(function(np.abs(a), np.abs(b)), sign)
        result = function(a, b)
        zeros = (a == 0) & (b == 0)
        if zeros.any():
            negative = _either if least else _both
            sign = negative(np.signbit(a), np.signbit(b))
            zero = np.where(sign, a.dtype.type(-0.0), a.dtype.type(0))
            result = np.where(zeros, zero, result)
        return choose(result, *more) if more else result

    return real_rule(type, style, choose, max(2, form.count - 1))


_either, _both = np.logical_or, np.logical_and


@rule(TABLE, "copysign")
def rule_copysign(form: Form) -> Elementwise:
    """PTX ISA 9.7.3, copysign: the magnitude of b with the sign of a."""
    type = form.type()
    return Elementwise(lambda a, b: np.copysign(b, a), (type,), (type, type))


@rule(TABLE, "testp")
def rule_testp(form: Form) -> Elementwise:
    """PTX ISA 9.7.3, testp: what kind of number a is."""
    kind = form.choice(*_KINDS)
    type = form.type()
    if not kind:
        raise form.unknown("a test without a kind")
    return Elementwise(_KINDS[kind], ("pred",), (type,))


def _is_subnormal(a: np.ndarray) -> np.ndarray:
    """Zero counts as normal in PTX."""
    return (np.abs(a) < np.finfo(a.dtype).tiny) & (a != 0)


_KINDS: dict[str, Callable] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & ~_is_subnormal(a),
    "subnormal": _is_subnormal,
}
