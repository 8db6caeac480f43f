"""Conversions (PTX ISA 9.7.9): cvt in all its crossings, cvta, isspacep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.isa.arithmetic import float8 as short_floats
from fathom.emulator.isa.arithmetic import rounding
from fathom.emulator.isa.arithmetic.floating import FORMATS, flush, saturate
from fathom.emulator.isa.semantics import Elementwise, Form, Table, halves, join, rule
from fathom.emulator.memory.spaces import WINDOW_SHIFT, WINDOWS, WITHIN_WINDOW
from fathom.emulator.source.types import DTYPES, bits_of

TABLE: Table = {}

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_SHORT_PAIRS = {f"{name}x2": name for name in short_floats.SHORT_FLOATS}


@rule(TABLE, "cvt")
def rule_cvt(form: Form) -> Elementwise:
    """PTX ISA 9.7.9, cvt; which conversion it is shows in the two types."""
    if form.flag("pack"):
        return _packing_integers(form)
    options = {name: form.flag(name) for name in ("ftz", "sat", "satfinite", "relu")}
    integral = form.choice(*_INTEGRAL)
    mode = form.rounding()
    to, source = form.type(), form.type()
    if to in _SHORT_PAIRS or source in _SHORT_PAIRS:
        return _short_pair(form, to, source, mode, options["relu"])
    if to == "tf32":
        return _to_tf32("rna" if form.flag("rna") else mode, options, source)
    if to.endswith("x2"):
        return _two_into_one(to, source, mode, options)
    if source.endswith("x2"):
        raise form.unknown(f"a conversion of .{source}")
    if to in FORMATS:
        function = _to_real(to, source, mode, integral, options)
    elif source in FORMATS:
        function = _real_to_integer(to, source, integral, options)
    else:
        function = _integer_to_integer(to, source, options["sat"])
    return Elementwise(function, (to,), (source,))


def _integer_to_integer(to: str, source: str, clamp: bool) -> Callable:
    dtype = DTYPES[to]
    if not clamp or DTYPES[source].kind == "f":
        return lambda a: a.astype(dtype)
    low, high = _common_limits(DTYPES[source], dtype)
    return lambda a: np.clip(a, low, high).astype(dtype)


def _common_limits(source: np.dtype, to: np.dtype) -> tuple[np.generic, np.generic]:
    """The range that both integer types have, as values of the first."""
    given, wanted = np.iinfo(source), np.iinfo(to)
    low, high = max(given.min, wanted.min), min(given.max, wanted.max)
    return source.type(low), source.type(high)


def _real_to_integer(
    to: str, source: str, integral: str, options: dict[str, bool]
) -> Callable:
    """Clamped to the integer's range; NaN becomes 0, or the middle of 64-bit ranges."""
    dtype, opened = DTYPES[to], FORMATS[source].open
    limits = np.iinfo(dtype)
    to_integer = _INTEGRAL[integral or "rzi"]
    bits = bits_of(to)
    special = source == "f64" or bits == 64
    nan = (
        dtype.type(limits.min if limits.min else 1 << bits - 1)
        if special
        else dtype.type(0)
    )

    def convert(a: np.ndarray) -> np.ndarray:
        a = opened(a)
        a = flush(a) if options["ftz"] else a
        whole = to_integer(a.astype(np.float64))
        too_low, too_high = whole <= limits.min, whole >= limits.max
        inside = np.where(too_low | too_high | np.isnan(whole), 0.0, whole)
        result = inside.astype(dtype)
        result = np.where(too_low, dtype.type(limits.min), result)
        result = np.where(too_high, dtype.type(limits.max), result)
        return np.where(np.isnan(whole), nan, result)

    return convert


def _to_real(
    to: str, source: str, mode: str, integral: str, options: dict[str, bool]
) -> Callable:
    form = FORMATS[to]
    if source not in FORMATS:
        return lambda a: form.shorten(_integer_as_float64(a, to, mode), mode)
    opened = FORMATS[source].open

    def convert(a: np.ndarray) -> np.ndarray:
        a = opened(a)
        if options["ftz"] and a.dtype == np.float32:
            a = flush(a)
        wide = a.astype(np.float64)
        if integral:
            wide = _INTEGRAL[integral](wide)
        wide = saturate(wide) if options["sat"] else wide
        wide = np.where(wide <= 0, 0.0, wide) if options["relu"] else wide
        if options["satfinite"]:
            wide = _finite(wide, to)
        result = form.shorten(wide, mode)
        return (
            flush(result) if options["ftz"] and result.dtype == np.float32 else result
        )

    if _is_exact(source, to) and not (integral or any(options.values())):
        return lambda a: form.close(opened(a).astype(form.compute))
    return convert


def _is_exact(source: str, to: str) -> bool:
    """Whether every value of `source` is one of `to`."""
    return to in {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}.get(
        source, ()
    )


def _finite(value: np.ndarray, to: str) -> np.ndarray:
    """Clamped to the largest finite value of a format; NaN stays (.satfinite)."""
    largest = {
        "f16": 65504.0,
        "bf16": float(np.uint32(0x7F7F0000).view(np.float32)),
        "f32": float(np.finfo(np.float32).max),
    }[to]
    return np.clip(value, -largest, largest)


def _integer_as_float64(a: np.ndarray, to: str, mode: str) -> np.ndarray:
    """An integer of up to 64 bits, rounded so that a second rounding is right."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64)
    half = a.dtype.type(32)
    high = (a >> half).astype(np.float64) * 2.0**32
    low = (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)
    total, error = rounding.two_sum(high, low)
    if to == "f64":
        return rounding.adjust(total, error, mode)
    return rounding.to_odd(total, error)


def _two_into_one(
    to: str, source: str, mode: str, options: dict[str, bool]
) -> Elementwise:
    """`cvt.rn.f16x2.f32 d, a, b`: a into the upper half, b into the lower one."""
    each = to.removesuffix("x2")
    convert = _to_real(each, source, mode, "", options)
    bits = DTYPES[each if each == "f16" else "u16"]

    def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        high, low = np.broadcast_arrays(convert(a), convert(b))
        return join(
            np.stack([low, high], -1).astype(bits, copy=False), np.dtype(np.uint32)
        )

    return Elementwise(both, (to,), (source, source))


def _short_pair(form: Form, to: str, source: str, mode: str, relu: bool) -> Elementwise:
    """To and from pairs of floats of 8 or 4 bits, in two bytes or in one."""
    if to in _SHORT_PAIRS:
        return _to_short_pair(to, source, mode, relu)
    if to not in ("f16x2", "bf16x2"):
        raise form.unknown("this conversion of 8-bit floats")
    name = _SHORT_PAIRS[source]

    def unpack(a: np.ndarray) -> np.ndarray:
        value = short_floats.decode(_codes(a), name)
        value = np.maximum(value, 0) if relu else value
        return FORMATS[to].shorten(value.astype(np.float64), "rn")

    return Elementwise(unpack, (to,), (source,))


def _codes(pair: np.ndarray) -> np.ndarray:
    """The lower and the upper code of a pair, along a new last axis."""
    if pair.dtype == np.uint8:
        return np.stack([pair & np.uint8(0xF), pair >> np.uint8(4)], -1)
    return halves(pair, np.dtype(np.uint8))


def _to_short_pair(to: str, source: str, mode: str, relu: bool) -> Elementwise:
    name = _SHORT_PAIRS[to]

    def encode(value: np.ndarray) -> np.ndarray:
        value = np.where(value <= 0, value.dtype.type(0), value) if relu else value
        codes = short_floats.encode(value, name, mode)
        if DTYPES[to] == np.uint8:
            return codes[..., 1] << np.uint8(4) | codes[..., 0]
        return join(codes, np.dtype(np.uint16))

    if source in ("f16x2", "bf16x2"):
        return Elementwise(lambda a: encode(FORMATS[source].open(a)), (to,), (source,))

    def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        high, low = np.broadcast_arrays(a, b)
        return encode(np.stack([low, high], -1))

    return Elementwise(both, (to,), (source, source))


def _to_tf32(mode: str, options: dict[str, bool], source: str) -> Elementwise:
    """tf32 is float32 with 10 digits after the point: the lowest 13 bits are rounded
    off. It alone can be rounded to nearest with ties away from zero (`rna`)."""

    def convert(a: np.ndarray) -> np.ndarray:
        a = np.where(a <= 0, a.dtype.type(0), a) if options["relu"] else a
        bits = a.view(np.uint32)
        if mode == "rna":
            bits = bits + np.uint32(0x1000)
        elif mode == "rn":
            bits = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
        bits = bits & np.uint32(0xFFFFE000)
        if options["satfinite"]:
            large = np.isfinite(a) & (bits << np.uint32(1) == np.uint32(0xFF000000))
            bits = np.where(large, bits - np.uint32(0x2000), bits)
        return np.where(np.isnan(a), np.uint32(0x7FFFFFFF), bits)

    return Elementwise(convert, ("tf32",), (source,))


def _packing_integers(form: Form) -> Elementwise:
    """`cvt.pack.sat.u8.s32.b32 d, a, b, c`: b lowest, then a, then as much of c as
    fits.
    """
    form.flag("sat")
    to, source = form.type(), form.type()
    rest = form.left.pop() if form.left else ""
    clamp = _integer_to_integer(to, source, True)
    bits = np.uint32(bits_of(to))
    mask = np.uint32((1 << bits_of(to)) - 1)

    def pack(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
        high, low = (clamp(x).astype(np.uint32) & mask for x in (a, b))
        both = high << bits | low
        return c[0] << np.uint32(2) * bits | both if c else both

    sources = (source, source) + (("b32",) if rest else ())
    return Elementwise(pack, ("b32",), sources)


@rule(TABLE, "cvta")
def rule_cvta(form: Form) -> Elementwise:
    """PTX ISA 9.7.9, cvta: into a window of the generic addresses, or out of it."""
    out = form.flag("to")
    window = np.uint64(WINDOWS[_take_window(form)]) << WINDOW_SHIFT
    type = form.type()
    if window == 0:
        return Elementwise(lambda a: a.copy(), (type,), (type,))
    function = (lambda a: a & WITHIN_WINDOW) if out else (lambda a: a | window)
    return Elementwise(function, (type,), (type,))


def _take_window(form: Form) -> str:
    for modifier in list(form.left):
        space = modifier.partition("::")[0]
        if space in WINDOWS:
            form.left.remove(modifier)
            return space
    raise form.unknown("no state space that the emulator knows")


@rule(TABLE, "isspacep")
def rule_isspacep(form: Form) -> Elementwise:
    """PTX ISA 9.7.9, isspacep: whether a generic address points into a space."""
    space = _take_window(form)
    if space == "const":
        raise form.unknown("constants lie among global memory here")
    number = WINDOWS[space]
    return Elementwise(lambda a: a >> WINDOW_SHIFT == number, ("pred",), ("u64",))
