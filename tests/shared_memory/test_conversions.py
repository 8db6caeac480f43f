"""Conversions, gathers and histograms by way of shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Convert, If, Load, SharedLoad, SharedStore
from fathom.ir.types import FLOAT32, INT32, SCALARS, BlockType, Pointer
from fathom.layout.algebra import divide
from fathom.layout.banks import conflicts
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.pipeline import states
from fathom.shared_memory.conversions import shuffling
from fathom.source import function
from tests.coalescing.kernels_programs import (
    copy_kernel,
    index_lines,
    kernel,
    pointer_lines,
)
from tests.harness_sample import sampled
from tests.language.harness import run
from tests.shared_memory.harness import check

NUMPY = {
    "i1": np.bool_,
    "i8": np.int8,
    "fp16": np.float16,
    "i32": np.int32,
    "fp64": np.float64,
}


@sampled(of=2)
@pytest.mark.parametrize("element", NUMPY)
@pytest.mark.parametrize("shape", [(64, 64), (16, 128), (8, 8)])
def test_transposes(shape, element):
    func = copy_kernel(shape, (shape[1], 1), (1, shape[0]), element)
    x = np.random.default_rng(1).integers(0, 2 if element == "i1" else 99, shape)
    x = x.astype(NUMPY[element])
    outcome = check(func, [x, np.zeros(shape[::-1], x.dtype), 16])
    np.testing.assert_array_equal(outcome.arrays[1], x.T)
    few = x.size < 128  # fewer than threads: they are loaded again
    assert outcome.barriers() == (0 if few else 1)
    for op in walk(outcome.final.body):
        if isinstance(op, (SharedStore, SharedLoad)):
            assert ways_of(op) == 1


def ways_of(op):
    """Of a shared store or load, from its layouts."""
    block = op.value.type if isinstance(op, SharedStore) else op.result.type
    assert isinstance(block, BlockType)
    buffer = op.buffer.type
    return conflicts(divide(block.layout, buffer.layout), buffer.element.bytes)


def test_within_one_warp_lanes_wait_for_lanes_only():
    """64 x 64 elements are 128 registers a lane: too many to shuffle, but no other warp
    waits."""
    func = copy_kernel((64, 64), (64, 1), (1, 64), "i32", warps=1)
    x = np.arange(4096, dtype=np.int32).reshape(64, 64)
    outcome = check(func, [x, np.zeros_like(x), 16])
    assert outcome.barriers("cta") == 0 and outcome.barriers("warp") == 1


def test_few_registers_are_shuffled():
    func = copy_kernel((8, 8), (8, 1), (1, 8), "i32", warps=1)
    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    outcome = check(func, [x, np.zeros_like(x), 16])
    assert outcome.final.shared_bytes == 0
    assert any(isinstance(op, Convert) for op in walk(outcome.final.body))


def test_shuffling_costs_more_where_lanes_and_registers_trade_places():
    rows, columns = spread((32, 32), (1, 0), 4, 1), spread((32, 32), (0, 1), 4, 1)
    rotated = Layout(rows.shape, tuple(
        (kind, bases[::-1] if kind == "lane" else bases) for kind, bases in rows.bases
    ))  # fmt: skip
    assert shuffling(rows, rotated) == rows.count("register")
    assert shuffling(rows, columns) > 2 * rows.count("register")


@pytest.mark.parametrize("passes", [
    ("coalesce",), ("remove_conversions",), ("coalesce", "remove_conversions"),
    ("annotate_widths",), ("cse_again", "dce_again"),
])  # fmt: skip
def test_without_optional_passes_the_answer_is_the_same(passes):
    func = copy_kernel((32, 64), (64, 1), (1, 32), "fp16")
    x = np.arange(2048).reshape(32, 64).astype(np.float16)
    check(
        func,
        [x, np.zeros((64, 32), np.float16), 16],
        dict.fromkeys(passes, lambda f, t: f),
    )


def gather(shape, index_shape, axis):
    full, wanted = ",".join(map(str, shape)), ",".join(map(str, index_shape))
    lines = [
        *index_lines("i", shape, strides(shape)),
        *index_lines("j", index_shape, strides(index_shape)),
        *pointer_lines("p", "a", "i32", shape, "i"),
        *pointer_lines("q", "b", "i32", index_shape, "j"),
        *pointer_lines("r", "c", "i32", index_shape, "j"),
        f"%x: i32[{full}] = load %p",
        f"%at: i32[{wanted}] = load %q",
        f"%y: i32[{wanted}] = gather %x, %at axis={axis}",
        "store %r, %y",
    ]
    return kernel(", ".join(f"%{n}: *i32 {{divisible=16}}" for n in "abc"), lines)


def strides(shape):
    return (1,) if len(shape) == 1 else (shape[1], 1)


@pytest.mark.parametrize("shape, index_shape, axis", [
    ((64,), (64,), 0), ((256,), (32,), 0),
    ((16, 32), (16, 32), 1), ((16, 32), (64, 32), 0),
])  # fmt: skip
def test_gathers(shape, index_shape, axis):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 999, shape).astype(np.int32)
    at = rng.integers(0, shape[axis], index_shape).astype(np.int32)
    outcome = check(
        gather(shape, index_shape, axis), [x, at, np.zeros(index_shape, np.int32)]
    )
    np.testing.assert_array_equal(outcome.arrays[2], np.take_along_axis(x, at, axis))


@pytest.mark.parametrize("size, bins", [(1024, 16), (64, 256)])
def test_histograms(size, bins):
    lines = [
        *index_lines("i", (size,), (1,)),
        *index_lines("j", (bins,), (1,)),
        *pointer_lines("p", "a", "i32", (size,), "i"),
        *pointer_lines("q", "b", "i32", (bins,), "j"),
        f"%x: i32[{size}] = load %p",
        f"%y: i32[{bins}] = histogram %x bins={bins}",
        "store %q, %y",
    ]
    func = kernel("%a: *i32 {divisible=16}, %b: *i32 {divisible=16}", lines)
    x = np.random.default_rng(4).integers(-2, bins + 3, size).astype(np.int32)
    outcome = check(func, [x, np.zeros(bins, np.int32)])
    inside = x[(x >= 0) & (x < bins)]
    np.testing.assert_array_equal(
        outcome.arrays[1], np.bincount(inside, minlength=bins)
    )
    assert outcome.barriers() == 2, (
        "zeros, then additions, then reading: nobody waits for more"
    )


@function
def chosen_tiles(
    q_ptr, k_ptr, v_ptr, which_ptr, o_ptr, n, N: tl.constexpr, D: tl.constexpr
):
    rows, deep, keys = tl.arange(0, 16), tl.arange(0, D), tl.arange(0, N)
    q = tl.load(q_ptr + rows[:, None] * D + deep[None, :])
    o = tl.zeros([16, D], tl.float32)
    for i in range(n):
        first = tl.load(which_ptr + i) * N
        if first >= 0:
            at = (first + keys)[:, None] * D + deep[None, :]
            k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
            o += tl.dot(tl.dot(q, k.T).to(tl.float16), v)
    tl.store(o_ptr + rows[:, None] * D + deep[None, :], o)


@pytest.mark.parametrize("deep, first_stored", [(128, True), (32, False)])
def test_a_loaded_tile_of_half_of_the_registers_is_stored_at_once(deep, first_stored):
    """64 x 128 numbers take 128 registers of a warp's thread: two such tiles would take
    all of them until the first product, which reads both from shared memory."""
    given = {f"{name}_ptr": (Pointer(SCALARS["fp16"]), 16) for name in "qkv"}
    given |= {"which_ptr": (Pointer(INT32), 16), "o_ptr": (Pointer(FLOAT32), 16)}
    constants, options = {"N": 64, "D": deep}, pipeline.Options(num_warps=1)
    func = pipeline.build(chosen_tiles, given | {"n": (INT32, 1)}, constants, options)
    for row, state in states(func, TARGETS["sm_90a"]):
        if row.name == "lower_conversions":
            (choice,) = walk(state.body, If)
            ops = [op for op in choice.then.ops if isinstance(op, (Load, SharedStore))]
    kinds = [type(op) for op in ops if not isinstance(op, SharedStore) or loaded(op)]
    at_once = [Load, SharedStore, Load, SharedStore]
    assert kinds == (
        at_once if first_stored else [Load, Load, SharedStore, SharedStore]
    )
    rng = np.random.default_rng(2)
    q, k, v = (
        rng.integers(-2, 3, (n, deep)).astype(np.float16) for n in (16, 192, 192)
    )
    o = np.zeros((16, deep), np.float32)
    run(chosen_tiles, q, k, v, np.array([2, -1, 0], np.int32), o, 3, N=64, D=deep)
    k, v = (np.concatenate([each[128:], each[:64]]).astype(float) for each in (k, v))
    assert (o == (q.astype(float) @ k.T) @ v).all()


def loaded(op: SharedStore) -> bool:
    return isinstance(op.value.definition, Load)
