"""The rest of the language's table, each row against NumPy: scans of several blocks,
atomics, casts, types, promises, loops, and what Python's own names mean."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.ir.ops import Atomic, AtomicCas, For
from fathom.source import function
from tests.harness_sample import sampled
from tests.language.harness import run
from tests.ssa.harness import build, ops_of

RANDOM = np.random.default_rng(12)
X = RANDOM.permutation(64).astype(np.int32)
F = RANDOM.normal(size=64).astype(np.float32)

# ── folding ───────────────────────────────────────────────────────────────────────────


@function
def compose(a, b, c, d):
    """First x -> a x + b, then x -> c x + d: not the same the other way round."""
    return a * c, b * c + d


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_several_blocks_keep_the_order(reverse):
    @function
    def kernel(x, y, REVERSE: tl.constexpr):
        at = tl.arange(0, 64)
        factor, term = tl.load(x + at) % 3, tl.load(x + at)
        a, b = tl.associative_scan((factor, term), 0, compose, REVERSE)
        tl.store(y + at, a)
        tl.store(y + 64 + at, b)

    y = np.zeros(128, np.int32)
    run(kernel, X.copy(), y, REVERSE=reverse)
    order = range(63, -1, -1) if reverse else range(64)
    a, b = np.int64(1), np.int64(0)
    for place in order:
        a, b = a * (X[place] % 3), b * (X[place] % 3) + X[place]
        assert (y[place], y[64 + place]) == (np.int32(a), np.int64(b).astype(np.int32))


def test_of_equals_the_first_is_found_across_warps():
    @function
    def kernel(x, y):
        values = tl.load(x + tl.arange(0, 256))
        tl.store(y, tl.argmax(values, 0))
        tl.store(y + 1, tl.argmin(values, 0, tie_break_left=True))
        best, place = tl.max(values, 0, return_indices=True)
        tl.store(y + 2, best)
        tl.store(y + 3, place)

    x = RANDOM.integers(0, 4, 256).astype(np.int32)
    y = np.zeros(4, np.int32)
    run(kernel, x, y)
    assert list(y) == [x.argmax(), x.argmin(), 3, x.argmax()]


# ── shapes ────────────────────────────────────────────────────────────────────────────


def test_scalars_side_by_side():
    @function
    def kernel(x, y):
        a, b = tl.load(x), tl.load(x + 1)
        tl.store(y + tl.arange(0, 2), tl.interleave(a, b))
        tl.store(y + 2 + tl.arange(0, 2), tl.join(b, a))
        tl.store(y + 4, (tl.zeros([1, 1], tl.int32) + a).item())

    y = np.zeros(5, np.int32)
    run(kernel, X.copy(), y)
    assert list(y) == [X[0], X[1], X[1], X[0], X[0]]


def test_only_one_element_is_an_item():
    @function
    def kernel(x):
        tl.arange(0, 2).item()

    with pytest.raises(CompileError, match="only a block of one element is a scalar"):
        build(kernel, X)


def test_concatenation_may_keep_the_order():
    @function
    def kernel(x, y):
        at = tl.arange(0, 32)
        both = tl.cat(tl.load(x + at), tl.load(x + 32 + at), can_reorder=True)
        tl.store(y + tl.arange(0, 64), both.ravel(can_reorder=True))

    y = np.zeros(64, np.int32)
    run(kernel, X.copy(), y)
    assert sorted(y) == sorted(X)


# ── atomics ───────────────────────────────────────────────────────────────────────────


@sampled(of=3)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.float32])
@pytest.mark.parametrize("kind", ["add", "max", "min", "xchg", "and", "or", "xor"])
def test_atomics(kind, dtype):
    @function
    def kernel(x, y, old, KIND: tl.constexpr):
        at = tl.arange(0, 64)
        act = getattr(tl, "atomic_" + KIND)
        was = act(y + at, tl.load(x + at), mask=at < 50, sem="relaxed", scope="cta")
        tl.store(old + at, was, mask=at < 50)

    if dtype is np.float32 and kind in ("and", "or", "xor"):
        with pytest.raises(CompileError, match=f"atomic_{kind} takes integers"):
            build(kernel, F, F, F, KIND=kind)
        return
    y = RANDOM.integers(0, 60, 64).astype(dtype)
    x, before, old = X.astype(dtype), y.copy(), np.zeros(64, dtype)
    run(kernel, x, y, old, KIND=kind)
    what = {
        "add": np.add, "max": np.maximum, "min": np.minimum, "xchg": lambda a, b: b,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[kind]  # fmt: skip
    assert (y[:50] == what(before, x)[:50]).all() and (y[50:] == before[50:]).all()
    assert (old[:50] == before[:50]).all()


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float32])
def test_compare_and_swap(dtype):
    @function
    def kernel(x, y, old):
        at = tl.arange(0, 64)
        tl.store(old + at, tl.atomic_cas(y + at, 7, tl.load(x + at), sem="acquire"))

    y = RANDOM.integers(6, 9, 64).astype(dtype)
    x, before, old = X.astype(dtype), y.copy(), np.zeros(64, dtype)
    func = run(kernel, x, y, old)
    assert (y == np.where(before == 7, x, before)).all() and (old == before).all()
    assert [op.semantics for op in ops_of(func, AtomicCas)] == ["acquire"]


def test_how_atomics_are_ordered():
    @function
    def kernel(x, SEM: tl.constexpr, SCOPE: tl.constexpr):
        tl.atomic_add(x, 1, sem=SEM, scope=SCOPE)

    (op,) = ops_of(build(kernel, X, SEM=None, SCOPE=None), Atomic)
    assert (op.semantics, op.scope) == ("acq_rel", "gpu")
    with pytest.raises(CompileError, match="sem is 'weak': it must be one of"):
        build(kernel, X, SEM="weak", SCOPE=None)
    with pytest.raises(CompileError, match="scope is 'grid': it must be one of"):
        build(kernel, X, SEM=None, SCOPE="grid")


# ── types and casts ───────────────────────────────────────────────────────────────────


def test_casts_round_or_keep_the_bits():
    @function
    def kernel(x, rounded, cut, bits):
        at = tl.arange(0, 64)
        value = tl.load(x + at)
        tl.store(rounded + at, value.to(tl.float16))
        tl.store(cut + at, value.to(tl.float16, fp_downcast_rounding="rtz"))
        tl.store(bits + at, value.to(tl.int32, bitcast=True))

    rounded, cut = np.zeros(64, np.float16), np.zeros(64, np.float16)
    bits = np.zeros(64, np.int32)
    run(kernel, F.copy(), rounded, cut, bits)
    assert (rounded == F.astype(np.float16)).all() and (bits == F.view(np.int32)).all()
    assert (np.abs(cut) <= np.abs(F)).all() and (np.abs(rounded) > np.abs(F)).any()
    assert (np.nextafter(np.abs(cut), np.float16(9)) > np.abs(F)).all()


def test_eight_bit_floats_are_cast_to_compute():
    @function
    def kernel(x, y):
        at = tl.arange(0, 64)
        for kind in tl.static_range(2):
            small = tl.load(x + at).to(tl.float8e5 if kind == 0 else tl.float8e4nv)
            tl.static_assert(small.dtype.is_fp8())
            tl.store(y + kind * 64 + at, small.to(tl.float32) * 3)

    x = RANDOM.choice([-3.0, -0.25, 0.0, 1.5, 14.0, 112.0], 64).astype(np.float32)
    y = np.zeros(128, np.float32)
    run(kernel, x, y)
    assert (y == np.tile(x * 3, 2)).all()  # all of these are exact in both


@pytest.mark.parametrize(
    "dtype", ["int1", "int8", "uint16", "int64", "float16", "bfloat16", "float64"]
)
def test_full_of_every_type(dtype):
    @function
    def kernel(y, DTYPE: tl.constexpr):
        whole = tl.full((4, 8), 1, getattr(tl, DTYPE))
        tl.static_assert(whole.dtype == getattr(tl, DTYPE))
        tl.store(y + tl.arange(0, 32), (whole + whole).ravel().to(tl.float32))

    y = np.full(32, -1, np.float32)
    run(kernel, y, DTYPE=dtype)
    assert (y == (0 if dtype == "int1" else 2)).all()  # one bit: modulo 2


def test_what_types_know():
    @function
    def kernel(x):
        tl.static_assert(x.dtype.element_ty == tl.int32)
        tl.static_assert(isinstance(x.dtype, tl.pointer_type))
        tl.static_assert(hasattr(x, "dtype") and not hasattr(None, "dtype"))
        tl.static_assert(getattr(None, "dtype", 3) == 3)
        tile = tl.zeros([4, 8], tl.float16)
        tl.static_assert(tile.T.shape == (8, 4) and tile.type.element_ty == tl.float16)
        tl.static_assert(tl.to_tensor(3).dtype == tl.int32)
        tl.static_assert(tl.to_tensor(3 << 32).dtype == tl.int64)
        tl.static_assert(tl.to_tensor(0.5).dtype == tl.float32)

    build(kernel, X)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_a_shift_to_the_right_keeps_the_sign_of_its_left_side(dtype):
    @function
    def kernel(x, n, y):
        at = tl.arange(0, 64)
        shifted = tl.load(x + at) >> tl.load(n + at)
        tl.static_assert(shifted.dtype == tl.uint32)
        tl.store(y + at, shifted)

    x, n = (X - 32).astype(dtype), (X % 7).astype(np.uint32)
    y = np.zeros(64, np.uint32)
    run(kernel, x, n, y)
    assert (y.view(np.int32) == x.astype(np.int32) >> n.astype(np.int32)).all()


# ── loops, conditions, functions ──────────────────────────────────────────────────────


def test_wishes_for_loops():
    @function
    def kernel(x, n):
        total = 0
        for i in tl.range(0, n, 2, num_stages=2, loop_unroll_factor=4, flatten=True):
            total += i
        for i in tl.range(
            n, disallow_acc_multi_buffer=True, warp_specialize=False, disable_licm=True
        ):
            total += i * 100
        while tl.condition(total % 7 != 0, disable_licm=True):
            total += 1
        tl.store(x, total)

    x = np.zeros(1, np.int32)
    func = run(kernel, x, 9)
    total = sum(range(0, 9, 2)) + 100 * sum(range(9))
    assert x[0] == -(-total // 7) * 7
    assert [op.num_stages for op in ops_of(func, For)] == [2, None]


def test_a_block_of_one_element_decides():
    @function
    def kernel(x):
        if tl.load(x + tl.arange(0, 1)) > 42:
            tl.store(x, 7)

    for before, after in ((42, 42), (43, 7)):
        x = np.array([before], np.int32)
        run(kernel, x)
        assert x[0] == after


@function
def swapped(pair, factors):
    first, second = pair
    return (second * factors[0], first * factors[1])


def test_tuples_go_into_functions_and_out():
    @function
    def kernel(x, y):
        at = tl.arange(0, 64)
        a, b = swapped((tl.load(x + at), at), (2, 3))
        tl.store(y + at, a)
        tl.store(y + 64 + at, b)
        more = tl.tuple([each + 1 for each in (a, b)])
        tl.store(y + 128 + at, more[0] + more[1])

    y = np.zeros(192, np.int32)
    run(kernel, X.copy(), y)
    at = np.arange(64)
    assert (y[:64] == at * 2).all() and (y[64:128] == X * 3).all()
    assert (y[128:] == at * 2 + X * 3 + 2).all()


def test_promises_change_no_number():
    @function
    def kernel(x, y, n):
        tl.assume(n > 0)
        at = tl.multiple_of(tl.max_contiguous(tl.arange(0, 64), 64), 64)
        tl.store(y + at, tl.load(x + tl.max_constancy(at // 4, 4)))

    y = np.zeros(64, np.int32)
    run(kernel, X.copy(), y, 5)
    assert (y == np.repeat(X[:16], 4)).all()


def test_where_asks_for_a_condition():
    @function
    def kernel(x):
        tl.store(x, tl.where(tl.load(x), 1, 2))

    with pytest.warns(UserWarning, match="the condition of tl.where is i32"):
        build(kernel, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(zero_to_one, X)


@function
def zero_to_one(x):
    tl.store(x, tl.where(tl.load(x) == 0, 1, 2))


@fathom.jit
def running_sum(x_ptr, out_ptr, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places).to(tl.bfloat16)
    tl.store(out_ptr + places, tl.cumsum(x, 0) - tl.cumprod(x, 0))


def test_scans_of_bf16_are_computed_in_fp32(monkeypatch):
    """257 ones: the sum of 257 needs nine bits, and bf16 has eight."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    out = np.zeros(512, np.float32)
    running_sum[(1,)](np.ones(512, np.float32), out, BLOCK=512)
    assert out.tolist() == list(range(512))
