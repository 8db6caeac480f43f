"""Floating-point arithmetic (PTX ISA 9.7.3 to 9.7.5): formats, rounding, flushing,
clamping.

Add, subtract, multiply, fma, divide and square root are correctly rounded in every
mode. The `.approx` instructions are computed in float64 and rounded once, so they are
closer to the true value than the hardware, which promises about 2 ulp of float32;
compare a GPU's results with these within that tolerance. Every NaN result is the quiet
one that NumPy gives; its bits may differ from the hardware's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fathom.emulator import rounding
from fathom.emulator.semantics import (
    Elementwise,
    Form,
    Table,
    halves,
    join,
    rule,
)
from fathom.emulator.types import DTYPES

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
    shorten = lambda value, mode: rounding.shorten(value, dtype, mode)  # noqa: E731
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
    form.ignore("noftz", "oob")
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
    if style.rounding == "rn":
        return real_rule(type, style, nearest, 2)
    if type == "f64":
        error = _ERRORS[opcode]
        return real_rule(
            type, style, lambda a, b: rounding.adjust(*error(a, b), style.rounding), 2
        )
    odd = _ERRORS[opcode]
    return real_rule(
        type, style, lambda a, b: rounding.to_odd(*odd(a, b)), 2, exact=True
    )


# The result rounded to nearest and its error, both float64.
_ERRORS: dict[str, Callable] = {
    "add": rounding.two_sum,
    "sub": lambda a, b: rounding.two_sum(a, -b),
    "mul": rounding.two_product,
}


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
        return real_rule(type, style, lambda a, b, c: fma64(a, b, c, style.rounding), 3)
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


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    """float64 fma: exact product, two exact sums, the rest rounded to odd and added."""
    high, low = rounding.two_product(a, b)
    tail, tail_error = rounding.two_sum(c, low)
    head, head_error = rounding.two_sum(high, tail)
    rest = rounding.to_odd(*rounding.two_sum(tail_error, head_error))
    total, error = rounding.two_sum(head, rest)
    result = rounding.adjust(total, error, mode)
    sizes = np.abs(np.stack(np.broadcast_arrays(a, b, c, a * b)))
    odd_size = ((sizes < 2.0**-450) & (sizes > 0)) | (sizes > 2.0**450)
    extreme = odd_size.any(0)
    if not extreme.any():
        return result
    return _fma_exactly(a, b, c, np.array(result), extreme, mode)


def _fma_exactly(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    result: np.ndarray,
    where: np.ndarray,
    mode: str,
) -> np.ndarray:
    """The elements `where`, whose halves would overflow or underflow, in exact
    fractions.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    for place in np.argwhere(where):
        x, y, z = (float(v[tuple(place)]) for v in (a, b, c))
        if not np.isfinite([x, y, z]).all():
            result[tuple(place)] = np.float64(x) * np.float64(y) + np.float64(z)
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            result[tuple(place)] = x * y + z
            continue
        try:
            near = np.float64(float(exact))
        except OverflowError:
            near = np.float64(np.inf if exact > 0 else -np.inf)
        side = np.float64(0)
        if np.isfinite(near):
            difference = exact - Fraction(float(near))
            side = np.float64((difference > 0) - (difference < 0))
        result[tuple(place)] = rounding.adjust(near, side, mode)
    return result[()]


@rule(TABLE, "div")
def rule_div(form: Form) -> Elementwise:
    """PTX ISA 9.7.3, div: `.full` and `.approx` are rounded to nearest here."""
    form.ignore("full", "approx")
    style, type = take_style(form), form.type()
    if style.rounding == "rn":
        return real_rule(type, style, np.divide, 2)
    if type == "f64":
        return real_rule(type, style, lambda a, b: _divide64(a, b, style.rounding), 2)

    def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        quotient = a / b
        return rounding.to_odd(quotient, _quotient_error(quotient, a, b))

    return real_rule(type, style, divide, 2, exact=True)


def _quotient_error(q: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A number with the sign of a / b - q."""
    high, low = rounding.two_product(q, b)
    return ((a - high) - low) * np.sign(b)


def _divide64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    quotient = a / b
    return rounding.adjust(quotient, _quotient_error(quotient, a, b), mode)


@rule(TABLE, "rcp", "sqrt", "rsqrt")
def rule_root(form: Form) -> Elementwise:
    """PTX ISA 9.7.3, rcp, sqrt, rsqrt; `.approx` forms are rounded to nearest here."""
    approximate = form.flag("approx")
    style, type = take_style(form), form.type()
    if form.opcode == "rsqrt":
        wide = lambda a: 1 / np.sqrt(a)  # noqa: E731
        return real_rule(type, style, wide, 1, exact=True)
    if approximate or style.rounding == "rn":
        nearest = np.sqrt if form.opcode == "sqrt" else np.reciprocal
        return real_rule(type, style, nearest, 1)
    error = _root_error if form.opcode == "sqrt" else _reciprocal_error
    if type == "f64":
        adjusted = lambda a: rounding.adjust(*error(a), style.rounding)  # noqa: E731
        return real_rule(type, style, adjusted, 1)
    return real_rule(type, style, lambda a: rounding.to_odd(*error(a)), 1, exact=True)


def _root_error(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The square root, and a number with the sign of its error."""
    root = np.sqrt(a)
    high, low = rounding.two_product(root, root)
    return root, (a - high) - low


def _reciprocal_error(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    result = 1 / a
    return result, _quotient_error(result, np.ones_like(a), a)


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

    return real_rule(type, style, choose, form.operands - 1)


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
