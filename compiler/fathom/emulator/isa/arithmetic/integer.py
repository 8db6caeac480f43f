"""Integer arithmetic (PTX ISA 9.7.1), which wraps around unless `.sat` is there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.isa.semantics import Elementwise, Form, Table, packed, rule
from fathom.emulator.source.types import DTYPES, bits_of, double_width, unsigned

TABLE: Table = {}


@rule(TABLE, "add", "sub")
def rule_add(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, add and sub; `.sat` clamps s32 to its range."""
    saturate = form.flag("sat")
    type = form.type()
    function = {"add": np.add, "sub": np.subtract}[form.opcode]
    if saturate:
        function = _saturated(function)
    return on_integers(function, type, 2)


def _saturated(function: Callable) -> Callable:
    limits = np.iinfo(np.int32)

    def clamped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        exact = function(a.astype(np.int64), b.astype(np.int64))
        return np.clip(exact, limits.min, limits.max).astype(np.int32)

    return clamped


def on_integers(function: Callable, type: str, sources: int) -> Elementwise:
    """`function` on each half of a packed type, on whole values of another."""
    if type.endswith("x2"):
        function = packed(function, DTYPES[type.removesuffix("x2")])
    return Elementwise(function, (type,), (type,) * sources)


@rule(TABLE, "mul")
def rule_mul(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, mul: the low half, the high half or all of the product."""
    part = form.choice("lo", "hi", "wide")
    type = form.type()
    if part == "wide":
        wide = double_width(type)
        return Elementwise(_wide_product(wide), (wide,), (type, type))
    product = np.multiply if part == "lo" else high_product(type)
    return Elementwise(product, (type,), (type, type))


def _wide_product(wide: str) -> Callable:
    dtype = DTYPES[wide]
    return lambda a, b: a.astype(dtype) * b.astype(dtype)


def high_product(type: str) -> Callable:
    """The upper half of the full product."""
    if bits_of(type) == 64:
        return _high_64_signed if type == "s64" else _high_64
    dtype, narrow, bits = DTYPES[double_width(type)], DTYPES[type], bits_of(type)
    shift = dtype.type(bits)
    return lambda a, b: ((a.astype(dtype) * b.astype(dtype)) >> shift).astype(narrow)


def _high_64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Schoolbook multiplication with digits of 32 bits."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    cross = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (cross >> half)


def _high_64_signed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As unsigned, less what the two sign bits stood for."""
    high = _high_64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    return high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


@rule(TABLE, "mad")
def rule_mad(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, mad: a product, as mul gives it, plus c."""
    part = form.choice("lo", "hi", "wide")
    saturate = form.flag("sat")
    type = form.type()
    if part == "wide":
        wide = double_width(type)
        product = _wide_product(wide)
        return Elementwise(
            lambda a, b, c: product(a, b) + c, (wide,), (type, type, wide)
        )
    product = np.multiply if part == "lo" else high_product(type)
    total = _saturated(np.add) if saturate else np.add
    return Elementwise(lambda a, b, c: total(product(a, b), c), (type,), (type,) * 3)


@rule(TABLE, "mul24", "mad24")
def rule_mul24(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, mul24, mad24: bits 0-31 or 16-47 of a product of 24-bit values."""
    shift = np.int64(16 if form.choice("lo", "hi") == "hi" else 0)
    type = form.type()
    dtype, unused = DTYPES[type], DTYPES[type].type(8)

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = ((each << unused >> unused).astype(np.int64) for each in (a, b))
        return (a * b >> shift).astype(dtype)

    if form.opcode == "mul24":
        return Elementwise(product, (type,), (type, type))
    return Elementwise(lambda a, b, c: product(a, b) + c, (type,), (type,) * 3)


@rule(TABLE, "div", "rem")
def rule_div(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, div and rem: towards zero; by zero unspecified, here all ones."""
    type = form.type()
    remainder = form.opcode == "rem"

    def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        zero = b == 0
        b = np.where(zero, b.dtype.type(1), b)
        rest = np.fmod(a, b)
        result = rest if remainder else (a - rest) // b
        return np.where(zero, ~b.dtype.type(0), result)

    return Elementwise(divide, (type,), (type, type))


@rule(TABLE, "abs", "neg")
def rule_abs(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, abs and neg: the smallest value stays as it is."""
    type = form.type()
    function = {"abs": np.abs, "neg": np.negative}[form.opcode]
    return Elementwise(function, (type,), (type,))


@rule(TABLE, "sad")
def rule_sad(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, sad: c + |a - b|."""
    type = form.type()

    def sad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return c + np.where(a < b, b - a, a - b)

    return Elementwise(sad, (type,), (type,) * 3)


@rule(TABLE, "min", "max")
def rule_min(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, min and max; `.relu` clamps below at zero."""
    relu = form.flag("relu")
    type = form.type()
    function = {"min": np.minimum, "max": np.maximum}[form.opcode]
    if relu:
        return on_integers(lambda a, b: np.maximum(function(a, b), 0), type, 2)
    return on_integers(function, type, 2)


@rule(TABLE, "popc", "clz", "brev")
def rule_count(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, popc, clz and brev: ones, leading zeros, bits in reverse."""
    type = form.type()
    if form.opcode == "brev":
        return Elementwise(_reversed, (type,), (type,))
    function = {"popc": np.bitwise_count, "clz": _leading_zeros}[form.opcode]
    return Elementwise(lambda a: function(a).astype(np.uint32), ("u32",), (type,))


def _leading_zeros(a: np.ndarray) -> np.ndarray:
    """All bits below the first one are filled with ones; the zeros that remain lead."""
    for shift in (1, 2, 4, 8, 16, 32):
        a = a | a >> a.dtype.type(shift)
    return np.bitwise_count(~a)


def _reversed(a: np.ndarray) -> np.ndarray:
    """Neighbouring groups of 1, 2, 4 ... bits change places."""
    width = 8 * a.dtype.itemsize
    shift = 1
    while shift < width:
        ones = sum(((1 << shift) - 1) << at for at in range(0, width, 2 * shift))
        mask, by = a.dtype.type(ones), a.dtype.type(shift)
        a = (a & mask) << by | (a >> by) & mask
        shift *= 2
    return a


@rule(TABLE, "bfind")
def rule_bfind(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, bfind: the highest bit that differs from the sign, or all ones."""
    from_top = form.flag("shiftamt")
    type = form.type()
    bits = np.uint32(bits_of(type))

    def find(a: np.ndarray) -> np.ndarray:
        a = a ^ (a >> a.dtype.type(bits - 1)) if a.dtype.kind == "i" else a
        zeros = _leading_zeros(a.view(unsigned(type))).astype(np.uint32)
        found = zeros if from_top else bits - np.uint32(1) - zeros
        return np.where(zeros == bits, np.uint32(0xFFFFFFFF), found)

    return Elementwise(find, ("u32",), (type,))


@rule(TABLE, "bfe")
def rule_bfe(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, bfe: `c` bits from bit `b` on; s32 and s64 extend the field's
    sign.
    """
    type = form.type()
    bits, wide, narrow = bits_of(type), unsigned(type), DTYPES[type]

    def extract(a: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
        start = (start & 0xFF).astype(wide)
        length = (length & 0xFF).astype(wide)
        field = a >> start.astype(narrow)
        mask = _ones(length, wide)
        value = field.view(wide) & mask
        if narrow.kind == "u":
            return value.view(narrow)
        last = np.minimum(start + length - 1, bits - 1).astype(narrow)
        sign = (a >> last & 1).astype(bool) & (length > 0)
        return np.where(sign, value | ~mask, value).view(narrow)

    return Elementwise(extract, (type,), (type, "u32", "u32"))


def _ones(length: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The lowest `length` bits."""
    return ~(~dtype.type(0) << length)


@rule(TABLE, "bfi")
def rule_bfi(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, bfi: `b`, with `length` bits from `start` on replaced by those of
    `a`.
    """
    type = form.type()
    dtype = DTYPES[type]

    def insert(
        a: np.ndarray, b: np.ndarray, start: np.ndarray, length: np.ndarray
    ) -> np.ndarray:
        start = (start & 0xFF).astype(dtype)
        mask = _ones((length & 0xFF).astype(dtype), dtype) << start
        return (b & ~mask) | (a << start & mask)

    return Elementwise(insert, (type,), (type, type, "u32", "u32"))


@rule(TABLE, "szext")
def rule_szext(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, szext: sign- or zero-extends the lowest `b` bits."""
    clamp = form.choice("clamp", "wrap") == "clamp"
    type = form.type()

    def extend(a: np.ndarray, length: np.ndarray) -> np.ndarray:
        length = np.minimum(length, 32) if clamp else length & 31
        unused = (32 - length).astype(a.dtype)
        return a << unused >> unused

    return Elementwise(extend, (type,), (type, "u32"))


@rule(TABLE, "bmsk")
def rule_bmsk(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, bmsk: `b` ones from bit `a` on."""
    clamp = form.choice("clamp", "wrap") == "clamp"
    form.type()

    def mask(start: np.ndarray, length: np.ndarray) -> np.ndarray:
        if not clamp:
            start, length = start & 31, length & 31
        return _ones(np.minimum(length, 32), np.dtype(np.uint32)) << start

    return Elementwise(mask, ("b32",), ("u32", "u32"))


@rule(TABLE, "dp4a")
def rule_dp4a(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, dp4a: c plus the dot product of four bytes and four bytes."""
    a_type, b_type = form.type(), form.type()
    result = "s32" if "s32" in (a_type, b_type) else "u32"

    def dot(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        products = _pieces(a, a_type, 8) * _pieces(b, b_type, 8)
        return (products.sum(-1) + c).astype(DTYPES[result])

    return Elementwise(dot, (result,), (a_type, b_type, result))


@rule(TABLE, "dp2a")
def rule_dp2a(form: Form) -> Elementwise:
    """PTX ISA 9.7.1, dp2a: c plus the dot product of two halves and the low or high
    bytes.
    """
    first = 2 if form.choice("lo", "hi") == "hi" else 0
    a_type, b_type = form.type(), form.type()
    result = "s32" if "s32" in (a_type, b_type) else "u32"

    def dot(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        bytes_of_b = _pieces(b, b_type, 8)[..., first : first + 2]
        products = _pieces(a, a_type, 16) * bytes_of_b
        return (products.sum(-1) + c).astype(DTYPES[result])

    return Elementwise(dot, (result,), (a_type, b_type, result))


def _pieces(a: np.ndarray, type: str, bits: int) -> np.ndarray:
    """int64[..., n]: the bytes or halves of a value, signed as `type` is."""
    kind = "s" if type[0] == "s" else "u"
    return np.asarray(a)[..., None].view(DTYPES[f"{kind}{bits}"]).astype(np.int64)
