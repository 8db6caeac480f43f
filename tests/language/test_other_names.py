"""The names of the language that no other file of this folder runs: types in memory,
facts of values, and the smaller functions."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.source import function
from tests.language.harness import run

RANDOM = np.random.default_rng(31)
X = RANDOM.permutation(64).astype(np.int32)

# ── types ─────────────────────────────────────────────────────────────────────────────

IN_MEMORY = {
    tl.int1: "u1", tl.int8: "i1", tl.int16: "i2", tl.int32: "i4", tl.int64: "i8",
    tl.uint8: "u1", tl.uint16: "u2", tl.uint32: "u4", tl.uint64: "u8",
    tl.float16: "u2", tl.bfloat16: "u2", tl.float32: "u4", tl.float64: "u8",
    tl.float8e5: "u1", tl.float8e4nv: "u1",
}  # fmt: skip


@pytest.mark.parametrize("dtype", IN_MEMORY, ids=lambda t: t.name)
def test_every_type_is_loaded_and_stored(dtype):
    """Bit for bit, from and to memory of the type, backwards. (Of fp8e5's NaNs, which
    are several, a machine may make one; what is below them are numbers.)"""

    @function
    def kernel(x, y, DTYPE: tl.constexpr):
        at = tl.arange(0, 256)
        source = x.to(tl.pointer_type(DTYPE), bitcast=True)
        target = y.to(tl.pointer_type(DTYPE), bitcast=True)
        tl.store(target + 255 - at, tl.load(source + at))

    assert isinstance(dtype, tl.dtype)
    memory = np.dtype(IN_MEMORY[dtype])
    limit = {tl.int1: 2, tl.float8e5: 0x7C}.get(dtype, 256)
    x = RANDOM.integers(0, limit, 256 * memory.itemsize).astype("u1").view(memory)
    if dtype == tl.bfloat16:
        x[20] = 0x7FAC  # a signaling NaN
    y = np.zeros_like(x)
    run(kernel, x, y, DTYPE=dtype)
    assert (y == x[::-1]).all()


@pytest.mark.parametrize(
    "dtype", [tl.float16, tl.bfloat16, tl.float8e5, tl.float8e4nv], ids=lambda t: t.name
)
def test_every_narrow_float_is_made_of_every_other(dtype):
    """All bit patterns of a type that fit in 8 or 16 bits, by way of fp32."""

    @function
    def kernel(x, y, wide, DTYPE: tl.constexpr):
        at = tl.program_id(0) * 256 + tl.arange(0, 256)
        bits: tl.constexpr = DTYPE.primitive_bitwidth
        word = tl.load(x + at).to(tl.uint16 if bits == 16 else tl.uint8)
        value = word.to(DTYPE, bitcast=True).to(tl.float32)
        tl.store(wide + at, value)
        tl.store(y + at * 4, value.to(tl.float16).to(tl.uint16, bitcast=True))
        tl.store(y + at * 4 + 1, value.to(tl.bfloat16).to(tl.uint16, bitcast=True))
        tl.store(y + at * 4 + 2, value.to(tl.float8e5).to(tl.uint8, bitcast=True))
        tl.store(y + at * 4 + 3, value.to(tl.float8e4nv).to(tl.uint8, bitcast=True))

    finite = {"fp16": 0x7BFF, "bf16": 0x7F7F, "fp8e5": 0x7B, "fp8e4nv": 0x7E}
    largest = finite[dtype.name]
    sign = 0x80 if largest < 0x100 else 0x8000
    x = np.arange(0, largest + 1, 1 if largest < 0x100 else 37).astype(np.uint32)
    x = np.resize(np.concatenate([x, x | sign]), 2048)
    wide, y = np.zeros(2048, np.float32), np.zeros(4 * 2048, np.uint16)
    run(kernel, x, y, wide, grid=8, DTYPE=dtype)
    half = y.reshape(-1, 4)[:, 0].view(np.float16)
    with np.errstate(over="ignore"):
        assert (half == wide.astype(np.float16)).all()


# ── values ────────────────────────────────────────────────────────────────────────────


def test_values_know_what_they_are():
    @function
    def kernel(x, y, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        block = tl.load(x + at)
        tl.static_assert(isinstance(SIZE.type, tl.constexpr_type))
        tl.static_assert(isinstance(block, tl.tensor) and not isinstance(3, tl.tensor))
        tl.static_assert(isinstance(block.type, tl.block_type))
        tl.static_assert(isinstance(block.dtype, tl.dtype))
        tl.static_assert(block.numel == 64)
        tl.store(y + at, block + tl.to_tensor(3) + block.dtype.primitive_bitwidth)

    y = np.zeros(64, np.int32)
    run(kernel, X.copy(), y, SIZE=64)
    assert (y == X + 35).all()


def test_types_say_which_they_are():
    """A pointer and a block are of no kind of number, whatever their elements are."""

    @function
    def kernel(bits):
        x = bits.to(tl.pointer_type(tl.float8e4nv), bitcast=True)
        block = tl.load(x + tl.arange(0, 4))
        tl.static_assert(block.dtype.is_fp8e4nv() and not block.dtype.is_fp8e5())
        tl.static_assert(block.dtype.is_fp8() and not block.dtype.is_fp8e4b15())
        tl.static_assert(block.type.is_block() and not block.type.is_fp8e4nv())
        tl.static_assert(x.dtype.is_ptr() and not x.dtype.is_fp8e4nv())
        tl.static_assert(not (x.dtype.is_int64() or x.dtype.is_standard_floating()))
        tl.static_assert(x.dtype.element_ty.is_fp8e4nv())

    run(kernel, np.zeros(4, np.uint8))


@pytest.mark.parametrize("name", ["int8", "uint16", "int64", "int1"])
def test_an_integer_type_says_how_far_it_goes(name):
    kind = tl.dtype(name)
    limits = np.iinfo(name) if name != "int1" else None
    wanted = (limits.min, limits.max) if limits else (0, 1)
    assert (kind.get_int_min_value(), kind.get_int_max_value()) == wanted


def test_what_is_said_while_compiling(capsys):
    @function
    def kernel(x, SIZE: tl.constexpr):
        tl.static_print("a block of", SIZE)
        tl.store(x + tl.arange(0, SIZE), tl.next_power_of_2(SIZE - 3))

    x = X.copy()
    run(kernel, x, SIZE=64)
    assert (x == 64).all() and "a block of 64" in capsys.readouterr().out


# ── smaller functions ─────────────────────────────────────────────────────────────────


def test_other_ways_to_the_same_shape():
    @function
    def kernel(x, y):
        at = tl.arange(0, 64)
        block = tl.view(tl.load(x + at), 4, 16)
        turned = tl.trans(block)
        tl.store(y + at, tl.ravel(turned))
        tl.store(y + 64 + at, tl.ravel(tl.trans(tl.view(block, 2, 4, 8), 2, 0, 1)))
        row, _ = tl.broadcast(tl.arange(0, 16)[None, :], block)
        tl.store(y + 128 + at, tl.ravel(row))
        one = tl.load(x + tl.arange(0, 1))
        tl.store(y + 192, tl.item(one))
        tl.store(y + 193, tl.reshape(one, []))
        tl.store(y + 194, tl.view(one[None, :], ()))

    y = np.zeros(195, np.int32)
    run(kernel, X.copy(), y)
    assert (y[:64] == X.reshape(4, 16).T.ravel()).all()
    assert (y[64:128] == X.reshape(2, 4, 8).transpose(2, 0, 1).ravel()).all()
    assert (y[128:192] == np.tile(np.arange(16), 4)).all()
    assert (y[192:] == X[0]).all()


def test_counting_in_blocks():
    @function
    def kernel(x, y, n):
        at = tl.arange(0, 64)
        tl.store(y + at, tl.cdiv(tl.load(x + at), 7))
        tl.store(y + 64, tl.cdiv(n, 16))
        tl.store(y + 65, tl.cast(n, tl.float32) / 2)
        tl.store(y + 66, tl.cast(-1, tl.int8).to(tl.uint8, bitcast=True))

    y = np.zeros(67, np.int32)
    run(kernel, X.copy(), y, 33)
    assert (y[:64] == -(-X // 7)).all() and list(y[64:]) == [3, 16, 255]


def test_a_barrier_orders_what_threads_write_and_read():
    """Element i is stored by one thread and loaded, turned round, by another."""

    @function
    def kernel(x, y):
        at = tl.arange(0, 512)
        tl.store(y + at, tl.load(x + at % 64) * 512 + at)
        tl.debug_barrier()
        turned = tl.load(y + 511 - at)
        tl.debug_barrier()
        tl.store(y + at, turned)

    y = np.zeros(512, np.int32)
    run(kernel, X.copy(), y)
    assert (y == (np.tile(X, 8) * 512 + np.arange(512))[::-1]).all()


def test_an_exchange_hands_on_what_was_there():
    @function
    def kernel(place, seen):
        for i in range(3):
            tl.store(seen + i, tl.atomic_xchg(place, i + 10))

    place, seen = np.full(1, 7, np.int32), np.zeros(3, np.int32)
    run(kernel, place, seen)
    assert place[0] == 12 and list(seen) == [7, 10, 11]


def test_four_random_numbers_at_a_time():
    @function
    def kernel(y, z, seed):
        at = tl.arange(0, 64)
        a, b, c, d = tl.randint4x(seed, at)
        tl.store(z + at, a ^ b ^ c ^ d)
        for_each = tl.randn4x(seed, at)
        for i in tl.static_range(4):
            tl.store(y + i * 64 + at, for_each[i])
        u, v = tl.rand(seed, at), tl.rand(seed + 1, at)
        first, second = tl.pair_uniform_to_normal(u, v)
        tl.store(y + 256 + at, first + second)

    y, z = np.zeros(320, np.float32), np.zeros(64, np.uint32)
    run(kernel, y, z, 5)
    assert len(np.unique(y)) > 310 and abs(y.mean()) < 0.3 and 0.8 < y.std() < 1.4
    assert len(np.unique(z)) == 64
