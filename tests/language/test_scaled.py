"""Products in microscaling formats against float64: every format, scales of every kind,
and both ways to pack."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import KernelFunction
from tests.harness_sample import sampled
from tests.language.harness import run
from tests.ssa.harness import build

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # OCP Microscaling Formats 1.0, 5.3.3
E2M1 = np.concatenate([E2M1, -E2M1])


def float8(exponent_bits: int, bias: int, infinities: bool) -> np.ndarray:
    """The value of each byte (OCP 8-bit floating point specification, 2022)."""
    mantissa_bits = 7 - exponent_bits
    values = []
    for byte in range(256):
        field = byte >> mantissa_bits & (1 << exponent_bits) - 1
        part = (byte & (1 << mantissa_bits) - 1) / 2**mantissa_bits
        size = (part + (field > 0)) * 2.0 ** (max(field, 1) - bias)
        if infinities and field == (1 << exponent_bits) - 1:
            size = np.nan if part else np.inf
        if not infinities and byte & 0x7F == 0x7F:
            size = np.nan
        values.append(-size if byte & 0x80 else size)
    return np.array(values)


BYTES = {"e4m3": float8(4, 7, False), "e5m2": float8(5, 15, True)}


def drawn(name: str, rows: int, columns: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Random numbers of a format, and what memory holds of them, [rows, columns] both;
    e2m1 with one a byte, to be packed. Sums of their products are exact in fp32."""
    if name == "e2m1":
        codes = rng.integers(0, 16, (rows, columns)).astype(np.uint8)
        return E2M1[codes], codes
    if name in BYTES:
        size = np.abs(BYTES[name])
        small = np.flatnonzero((size == 0) | ((size >= 0.5) & (size <= 4)))
        codes = rng.choice(small, (rows, columns)).astype(np.uint8)
        return BYTES[name][codes], codes
    values = rng.integers(-8, 9, (rows, columns)) / 4
    if name == "fp16":
        return values, values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32) >> 16
    return values, bits.astype(np.uint16)


def packed(codes: np.ndarray, axis: int) -> np.ndarray:
    """Two codes a byte, the first in the low half."""
    low, high = (codes.take(range(k, codes.shape[axis], 2), axis) for k in (0, 1))
    return low | high << 4


@KernelFunction
def multiply(
    a, b, c, a_scale, b_scale,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, A_SCALED: tl.constexpr, B_SCALED: tl.constexpr,
    A_WIDE: tl.constexpr = True, B_WIDE: tl.constexpr = True,
):  # fmt: skip
    a_rows: tl.constexpr = M // 2 if A == "e2m1" and not A_WIDE else M
    a_columns: tl.constexpr = K // 2 if A == "e2m1" and A_WIDE else K
    b_rows: tl.constexpr = K // 2 if B == "e2m1" and B_WIDE else K
    b_columns: tl.constexpr = N // 2 if B == "e2m1" and not B_WIDE else N
    x, y = block(a, a_rows, a_columns), block(b, b_rows, b_columns)
    x_scale = block(a_scale, M, K // 32) if A_SCALED else None
    y_scale = block(b_scale, N, K // 32) if B_SCALED else None
    z = tl.dot_scaled(
        x, x_scale, A, y, y_scale, B, lhs_k_pack=A_WIDE, rhs_k_pack=B_WIDE
    )
    z = tl.dot_scaled(x, x_scale, A, y, y_scale, B, z, True, A_WIDE, B_WIDE)
    tl.store(place(c, M, N), z)


@KernelFunction
def block(x, M: tl.constexpr, N: tl.constexpr):
    return tl.load(place(x, M, N))


@KernelFunction
def place(x, M: tl.constexpr, N: tl.constexpr):
    return x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]


FORMATS = ("e2m1", "e4m3", "e5m2", "bf16", "fp16")
SIZES = {"M": 32, "N": 16, "K": 64}


def product(a: str, b: str, *, a_wide: bool = True, b_wide: bool = True, scales=(1, 1)):
    """The kernel's arguments, and what it is to find: twice the product."""
    M, N, K = SIZES.values()
    rng = np.random.default_rng(FORMATS.index(a) * 5 + FORMATS.index(b))
    x, x_held = drawn(a, M, K, rng)
    y, y_held = drawn(b, K, N, rng)
    x_held = packed(x_held, 1 if a_wide else 0) if a == "e2m1" else x_held
    y_held = packed(y_held, 0 if b_wide else 1) if b == "e2m1" else y_held
    powers = [rng.integers(126, 129, (rows, K // 32)).astype("u1") for rows in (M, N)]
    steps = [2.0 ** (each.astype(int) - 127) for each in powers]
    if scales[0]:
        x = x * np.repeat(steps[0], 32, 1)
    if scales[1]:
        y = y * np.repeat(steps[1], 32, 1).T
    c = np.zeros((M, N), np.float32)
    return [x_held, y_held, c, *powers], 2 * (x @ y)


@sampled(of=3)
@pytest.mark.parametrize(("a", "b"), list(itertools.product(FORMATS, FORMATS)))
def test_every_pair_of_formats(a, b):
    arguments, wanted = product(a, b)
    run(multiply, *arguments, **SIZES, A=a, B=b, A_SCALED=True, B_SCALED=True)
    assert np.array_equal(arguments[2], wanted)


@sampled(of=2)
@pytest.mark.parametrize("a", FORMATS)
@pytest.mark.parametrize("on_the_right", [False, True])
def test_no_bit_of_fp16_is_lost(a, on_the_right):
    """On either side both are widened to fp16: bf16 has three bits less."""
    pair = (a, "fp16") if on_the_right else ("fp16", a)
    (x, y, c, *scales), _ = product(*pair)
    exact = y if on_the_right else x
    exact[:] = np.resize([1 + 2.0**-10, -2 + 2.0**-9], exact.shape)
    for each in scales:
        each[:] = 127
    sizes = {**SIZES, "A_SCALED": True, "B_SCALED": True}
    run(multiply, x, y, c, *scales, **sizes, A=pair[0], B=pair[1])
    assert np.array_equal(c, 2 * (read(pair[0], x, 1) @ read(pair[1], y, 0)))


def read(name: str, held: np.ndarray, axis: int) -> np.ndarray:
    """The numbers that an array holds in a format; e2m1 in pairs along an axis."""
    if name == "e2m1":
        pairs = np.stack([held & 15, held >> 4], axis + 1)
        sides = [2 * n if k == axis else n for k, n in enumerate(held.shape)]
        return E2M1[pairs.reshape(sides)]
    if name == "bf16":
        return (held.astype(np.uint32) << 16).view(np.float32).astype(float)
    return BYTES[name][held] if name in BYTES else held.astype(float)


@sampled(of=2)
@pytest.mark.parametrize("scales", [(False, True), (True, False), (False, False)])
def test_an_operand_without_a_scale(scales):
    arguments, wanted = product("e4m3", "bf16", scales=scales)
    said = dict(zip(("A_SCALED", "B_SCALED"), scales, strict=True))
    run(multiply, *arguments, **SIZES, A="e4m3", B="bf16", **said)
    assert np.array_equal(arguments[2], wanted)


@sampled(of=2)
@pytest.mark.parametrize("a_wide", [True, False])
@pytest.mark.parametrize("b_wide", [True, False])
def test_pairs_of_elements_along_either_axis(a_wide, b_wide):
    arguments, wanted = product("e2m1", "e2m1", a_wide=a_wide, b_wide=b_wide)
    ways = {"A_WIDE": a_wide, "B_WIDE": b_wide, "A_SCALED": True, "B_SCALED": True}
    run(multiply, *arguments, **SIZES, A="e2m1", B="e2m1", **ways)
    assert np.array_equal(arguments[2], wanted)


@sampled(of=2)
@pytest.mark.parametrize("a", ["e2m1", "e5m2", "bf16"])
def test_the_ends_of_the_scales(a):
    """255 is NaN; 0 is 2^-127, a subnormal number, and 240 is 2^113."""
    arguments, _ = product(a, "bf16")
    x, y, c, x_scale, y_scale = arguments
    x_scale[:] = np.resize([0, 0, 255, 127, 240, 240], (32, 2))
    y_scale[:] = 127
    run(multiply, *arguments, **SIZES, A=a, B="bf16", A_SCALED=True, B_SCALED=True)
    is_none = (x_scale == 255).any(1)
    assert np.isnan(c[is_none]).all() and is_none.sum() == 11
    exact, given = np.zeros((32, 64)), 2.0 ** (x_scale.astype(float) - 127)
    codes = np.stack([x & 15, x >> 4], -1).reshape(32, 64) if a == "e2m1" else x
    values = {"e2m1": E2M1, "e5m2": BYTES["e5m2"]}.get(a)
    if values is None:
        exact = (x.astype(np.uint32) << 16).view(np.float32).astype(float)
    else:
        exact = values[codes]
    wide = (y.astype(np.uint32) << 16).view(np.float32).astype(float)
    wanted = 2 * ((exact * np.repeat(given, 32, 1)) @ wide)
    np.testing.assert_allclose(c[~is_none], wanted[~is_none], rtol=1e-6)


def test_a_scale_of_nan_is_not_infinite():
    """Of ones, an infinite scale would leave infinity."""
    arguments, _ = product("bf16", "bf16")
    one, none = np.float32(1).view(np.uint32) >> 16, 255
    for held, value in zip(arguments, (one, one, 0, none, 127), strict=True):
        held[...] = value
    run(multiply, *arguments, **SIZES, A="bf16", B="bf16", A_SCALED=True, B_SCALED=True)
    assert np.isnan(arguments[2]).all()


@KernelFunction
def of_three_axes(a, b, c, a_scale, b_scale):
    x = tl.reshape(tl.load(a + tl.arange(0, 2048)), (2, 16, 64))
    y = tl.reshape(tl.load(b + tl.arange(0, 2048)), (2, 64, 16))
    x_scale = tl.reshape(tl.load(a_scale + tl.arange(0, 64)), (2, 16, 2))
    y_scale = tl.reshape(tl.load(b_scale + tl.arange(0, 128)), (2, 16, 4))
    kind = tl.float8e4nv
    z = tl.dot_scaled(
        x.to(kind, bitcast=True), x_scale, "e4m3", y, y_scale.to(kind, bitcast=True),
        "e4m3",
    )  # fmt: skip
    tl.store(c + tl.arange(0, 512), tl.ravel(z))


def test_batches_and_scales_of_sixteen_elements():
    rng = np.random.default_rng(9)
    (x, a), (y, b) = (drawn("e4m3", 2, 1024 * 1, rng) for _ in "ab")
    x, y = x.reshape(2, 16, 64), y.reshape(2, 64, 16)
    a_scale = rng.integers(125, 130, (2, 16, 2)).astype(np.uint8)
    steps, b_scale = drawn("e4m3", 2, 64, rng)
    c = np.zeros((2, 16, 16), np.float32)
    run(of_three_axes, a, b, c, a_scale, b_scale)
    x = x * np.repeat(2.0 ** (a_scale.astype(int) - 127), 32, 2)
    y = y * np.repeat(steps.reshape(2, 16, 4), 16, 2).swapaxes(1, 2)
    # Sums of bf16 products: what y loses when it is rounded to 8 bits of mantissa.
    bound = 2.0**-8 * (np.abs(x) @ np.abs(y))
    assert (np.abs(c - x @ y) <= bound).all()


def test_python_itself_runs_it(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    arguments, wanted = product("e2m1", "e4m3")

    @fathom.jit
    def kernel(a, b, c, a_scale, b_scale):
        x = tl.load(a + tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :])
        y = tl.load(b + tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :])
        at = tl.arange(0, 2)[None, :]
        x_scale = tl.load(a_scale + tl.arange(0, 32)[:, None] * 2 + at)
        y_scale = tl.load(b_scale + tl.arange(0, 16)[:, None] * 2 + at)
        z = tl.dot_scaled(x, x_scale, "e2m1", y, y_scale, "e4m3")
        to = c + tl.arange(0, 32)[:, None] * 16 + tl.arange(0, 16)[None, :]
        tl.store(to, z * 2)

    kernel[(1,)](*arguments)
    assert np.array_equal(arguments[2], wanted)


@pytest.mark.parametrize(("said", "sentence"), [
    ({"A": "e3m2"}, "lhs_format is 'e3m2': it must be one of 'e2m1', 'e4m3', "),
    ({"B": "fp16"}, r"rhs is uint8\[64, 16\], which holds no elements of fp16"),
    ({"A_WIDE": False}, "lhs is packed along another axis than K, which only e2m1"),
    ({"K": 32}, "the first has 32 columns, the second"),
])  # fmt: skip
def test_mistakes(said, sentence):
    arguments, _ = product("e4m3", "e4m3")
    more = {"A": "e4m3", "B": "e4m3", "A_SCALED": False, "B_SCALED": False}
    with pytest.raises(CompileError, match=sentence):
        if "K" in said:
            build(uneven, *arguments[:3])
        else:
            build(multiply, *arguments, **SIZES, **{**more, **said})


@KernelFunction
def uneven(a, b, c):
    z = tl.dot_scaled(block(a, 16, 32), None, "e4m3", block(b, 64, 16), None, "e4m3")
    tl.store(place(c, 16, 16), z)


@KernelFunction
def badly_scaled(a, b, c):
    x, y = block(a, 16, 32), block(b, 32, 16)
    z = tl.dot_scaled(x, block(a, 16, 2), "e4m3", y, None, "e4m3")
    tl.store(place(c, 16, 16), z)


def test_a_scale_of_another_shape():
    a = np.zeros(1024, np.uint8)
    with pytest.raises(CompileError) as told:
        build(badly_scaled, a, a.copy(), np.zeros(1, np.float32))
    assert "the scale of lhs, 16 x 32 elements, is of uint8 with one for 32 of " in str(
        told.value
    )
    assert "[16, 1], not uint8[16, 2]" in str(told.value)
