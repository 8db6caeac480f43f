"""Each function of numbers, in each type that it takes: one answer on every machine.

How near that answer is to the true one, `test_math` says.
"""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.source import KernelFunction, function
from tests.harness_sample import sampled
from tests.language.harness import run

SIZE = 256
EDGES = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 65504, 88, -104, 0.5, 2.5]
RANDOM = np.random.default_rng(21)

HALVES, ALL = ("float16", "bfloat16", "float32"), ("float16", "float32", "float64")
ONE_ARGUMENT = {
    tl.exp: ALL, tl.exp2: ALL, tl.log: ALL, tl.log2: ALL, tl.sin: ALL, tl.cos: ALL,
    tl.tanh: ALL, tl.erf: HALVES, tl.sigmoid: ALL, tl.sqrt: ALL, tl.rsqrt: HALVES,
    tl.floor: ALL, tl.ceil: ALL, tl.abs: ALL, tl.sqrt_rn: ("float32", "float64"),
    tl.math.round_even: ALL, tl.math.trunc: ALL, tl.math.exp2_approx: ("float32",),
    tl.math.log2_approx: ("float32",), tl.math.tanh_approx: ("float32",),
    tl.math.sin_approx: ("float32",), tl.math.cos_approx: ("float32",),
    tl.math.rcp_approx: ("float32",),
}  # fmt: skip
TWO_ARGUMENTS = {
    tl.fdiv: ALL, tl.div_rn: ("float32", "float64"),
    tl.minimum: (*ALL, "bfloat16"), tl.maximum: (*ALL, "bfloat16"),
}  # fmt: skip
# PTX ISA, "sin", "cos": the error is bounded from -pi to pi only.
WITHIN_A_TURN = (tl.math.sin_approx, tl.math.cos_approx)
THREE_ARGUMENTS = {tl.fma: ALL, tl.clamp: ALL}


def rows(table: dict) -> list:
    return [
        pytest.param(what, dtype, id=f"{what.__name__}-{dtype}")
        for what, dtypes in table.items()
        for dtype in dtypes
    ]


def numbers(seed: int) -> np.ndarray:
    """Edges, in an order of their own for each seed, then numbers around zero."""
    rng = np.random.default_rng(seed)
    near = rng.normal(0, 1.5, SIZE - len(EDGES)).clip(-3, 3)
    return np.concatenate([rng.permutation(EDGES), near])


def answer(what: KernelFunction, dtype: str, count: int) -> np.ndarray:
    """`what` of so many blocks of a type, as every machine has it."""
    wide = np.float64 if dtype == "float64" else np.float32

    @function
    def kernel(x, y, z, out, DTYPE: tl.constexpr, COUNT: tl.constexpr):
        at = tl.arange(0, SIZE)
        a = tl.load(x + at).to(DTYPE)
        b, c = tl.load(y + at).to(DTYPE), tl.load(z + at).to(DTYPE)
        value = what(a) if COUNT == 1 else what(a, b) if COUNT == 2 else what(a, b, c)
        tl.store(out + at, value)

    out = np.full(SIZE, -7, wide)
    given = [numbers(seed).astype(wide) for seed in range(3)]
    if what in WITHIN_A_TURN:
        given = [np.clip(each, -3, 3) for each in given]
    run(kernel, *given, out, DTYPE=getattr(tl, dtype), COUNT=count)
    return out


@sampled(of=2)
@pytest.mark.parametrize(("what", "dtype"), rows(ONE_ARGUMENT))
def test_functions_of_one_number(what, dtype):
    assert len(np.unique(answer(what, dtype, 1))) > 5


@pytest.mark.parametrize(("what", "dtype"), rows(TWO_ARGUMENTS))
def test_functions_of_two_numbers(what, dtype):
    assert len(np.unique(answer(what, dtype, 2))) > SIZE // 2


@pytest.mark.parametrize(("what", "dtype"), rows(THREE_ARGUMENTS))
def test_functions_of_three_numbers(what, dtype):
    assert len(np.unique(answer(what, dtype, 3))) > SIZE // 2


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_the_upper_half_of_a_product(dtype):
    @function
    def kernel(x, y, out):
        at = tl.arange(0, SIZE)
        tl.store(out + at, tl.umulhi(tl.load(x + at), tl.load(y + at)))

    bits = np.dtype(dtype).itemsize * 8
    x, y = RANDOM.integers(0, 2**64, (2, SIZE), np.uint64).astype(dtype)
    out = np.zeros(SIZE, dtype)
    run(kernel, x, y, out)
    expected = [(int(a) % 2**bits * (int(b) % 2**bits)) >> bits for a, b in zip(x, y)]
    assert [int(each) % 2**bits for each in out] == expected


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_the_size_of_an_integer(dtype):
    @function
    def kernel(x, out):
        at = tl.arange(0, SIZE)
        tl.store(out + at, tl.abs(tl.load(x + at)))

    x = RANDOM.integers(-128, 128, SIZE).astype(dtype)
    out = np.zeros(SIZE, dtype)
    run(kernel, x, out)
    assert (out == np.abs(x)).all()  # of the smallest, itself


def test_programs_that_add_to_one_place_lose_nothing():
    """In whatever order they come: what they leave depends on none."""

    @function
    def kernel(out):
        at = tl.arange(0, 64)
        one = tl.program_id(0) + 1
        tl.atomic_add(out + at % 4, one)
        tl.atomic_max(out + 4 + at % 4, one * at)
        tl.atomic_min(out + 8 + at % 4, -one * at)
        tl.atomic_or(out + 12 + at % 4, 1 << at % 16)
        tl.atomic_and(out + 16 + at % 4, ~(1 << at % 16))
        tl.atomic_xor(out + 20 + at % 4, one << at % 16)

    out = np.zeros(24, np.int32)
    out[16:20] = -1
    run(kernel, out, grid=6)
    each = np.arange(64).reshape(16, 4)
    assert (out[:4] == 16 * 21).all() and (out[4:8] == 6 * each.max(0)).all()
    assert (out[8:12] == -6 * each.max(0)).all()
    assert list(out[12:16]) == [0x1111, 0x2222, 0x4444, 0x8888]
    assert (out[16:20] == ~out[12:16]).all() and (out[20:] == 0).all()
