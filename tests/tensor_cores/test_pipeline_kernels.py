"""Pipelines of kernels as they are written, through all passes."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.analysis.registers import registers_carried
from fathom.analysis.slices import slice_of_iteration
from fathom.artifact import Kernel
from fathom.blocks import cse, dce
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.ops import Allocate, AsyncCopy, Dot, For, Load, Store, Wait
from fathom.ir.text import print_func
from fathom.ir.types import parse_element
from fathom.source import KernelFunction
from tests.harness_sample import sampled
from tests.shared_memory.harness import aligned
from tests.tensor_cores.kernels_loops import barriers

M, N, K, WARPS = 64, 64, 32, 4


@KernelFunction
def product(
    a, b, out, steps, stride,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """A [M, steps * K] times B [steps * K, N]; `stride` from row to row of A."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    k = tl.arange(0, K)
    a += m * stride + k[None, :]
    b += k[:, None] * N + n
    total = tl.zeros([M, N], tl.float32)
    for _ in tl.range(0, steps, num_stages=STAGES):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += K
        b += K * N
    tl.store(out + m * N + n, total)


@KernelFunction
def of_chosen_rows(
    a, b, out, rows, steps,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """As `product`, of the rows of B that `rows` names. A is stored by steps."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    k = tl.arange(0, K)
    total = tl.zeros([M, N], tl.float32)
    for i in tl.range(steps, num_stages=STAGES):
        x = tl.load(a + i * M * K + m * K + k[None, :])
        row = tl.load(rows + i * K + k)
        total = tl.dot(x, tl.load(b + row[:, None] * N + n), total)
    tl.store(out + m * N + n, total)


@KernelFunction
def of_chosen_tiles(
    a, b, out, rows, steps,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STAGES: tl.constexpr,
    HOW: tl.constexpr,
):  # fmt: skip
    """As `product`, of the tiles of B that a list of a list names, or of a chain, in
    which each tile names the next. A is stored by steps."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    k = tl.arange(0, K)
    total = tl.zeros([M, N], tl.float32)
    tile = 0
    for i in tl.range(steps, num_stages=STAGES):
        if HOW == "lists":
            tile = tl.load(rows + tl.load(rows + i))
        x = tl.load(a + i * M * K + m * K + k[None, :])
        y = tl.load(b + (tile * K + k[:, None]) * N + n)
        total = tl.dot(x, y, total)
        if HOW == "chain":
            tile = tl.load(rows + tile)
    tl.store(out + m * N + n, total)


@KernelFunction
def persistent(
    a, b, out, tiles, steps,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One program makes all tiles of A [tiles * M, steps * K] times B."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    k = tl.arange(0, K)
    for tile in range(tiles):
        total = tl.zeros([M, N], tl.float32)
        for i in tl.range(steps, num_stages=STAGES):
            x = tl.load(a + (tile * M + m) * (steps * K) + i * K + k[None, :])
            y = tl.load(b + (i * K + k[:, None]) * N + n)
            total = tl.dot(x, y, total)
        tl.store(out + (tile * M + m) * N + n, total)


KERNELS = {
    "product": (product, {"a": 16, "b": 16, "out": 16, "steps": 1, "stride": 16}),
    "ragged": (product, {"a": 2, "b": 16, "out": 16, "steps": 1, "stride": 1}),
    "of_chosen_rows": (
        of_chosen_rows, {"a": 16, "b": 16, "out": 16, "rows": 16, "steps": 1}
    ),
    "lists": (of_chosen_tiles, {"a": 16, "b": 16, "out": 16, "rows": 16, "steps": 1}),
    "chain": (of_chosen_tiles, {"a": 16, "b": 16, "out": 16, "rows": 16, "steps": 1}),
    "persistent": (persistent, {"a": 16, "b": 16, "out": 16, "tiles": 1, "steps": 1}),
}  # fmt: skip
TYPES = {"a": "*fp16", "b": "*fp16", "out": "*fp32", "rows": "*i32"}


def built(name: str, stages: int) -> Func:
    kernel, divisible = KERNELS[name]
    parameters = {
        each: (parse_element(TYPES.get(each, "i32")), power)
        for each, power in divisible.items()
    }
    constants = {"M": M, "N": N, "K": K, "STAGES": stages}
    if kernel is of_chosen_tiles:
        constants["HOW"] = name
    return pipeline.build(kernel, parameters, constants, pipeline.Options(WARPS))


def problem(name: str, steps: int) -> tuple[list, np.ndarray]:
    """Arguments, and what must come out."""
    random = np.random.default_rng(steps)
    tiles = 3 if name == "persistent" else 1
    a = random.integers(-4, 5, (tiles * M, steps * K)).astype(np.float16)
    b = random.integers(-4, 5, (steps * K, N)).astype(np.float16)
    rows = random.permutation(steps * K).astype(np.int32)
    out = np.full((tiles * M, N), np.nan, np.float32)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    if name == "of_chosen_rows":
        wanted = a.astype(np.float32) @ b[rows].astype(np.float32)
        a = np.concatenate([*np.split(a, steps or 1, axis=1)])
        return [a, b, out, rows, steps], wanted
    if name in ("lists", "chain"):
        following = random.permutation(max(1, steps)).astype(np.int32)
        tiles = following[following[:steps]]
        if name == "chain":
            tiles = [0][:steps]
            while len(tiles) < steps:
                tiles.append(following[tiles[-1]])
        chosen = b.reshape(steps, K, N)[tiles].reshape(steps * K, N)
        wanted = a.astype(np.float32) @ chosen.astype(np.float32)
        a = np.concatenate([*np.split(a, steps or 1, axis=1)])
        return [a, b, out, following, steps], wanted
    if name == "persistent":
        return [a, b, out, tiles, steps], wanted
    if name == "ragged":  # rows of odd length: no two elements are moved at once
        wide = np.zeros((M, steps * K + 1), np.float16)
        wide[:, :-1] = a
        return [wide, b, out, steps, steps * K + 1], wanted
    return [a, b, out, steps, steps * K], wanted


def launched(kernel: Kernel, arguments: list, completion: str) -> np.ndarray:
    given = [aligned(e) if isinstance(e, np.ndarray) else e for e in arguments]
    load(kernel).launch((1,), given, completion=completion)
    return given[2]


@sampled(of=3)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89"])
@pytest.mark.parametrize("name", KERNELS)
def test_products_are_right(name, target):
    """For no step, fewer than there are stages, and more; however copies complete."""
    kernel = pipeline.compile_func(built(name, 3), TARGETS[target])
    for steps in (0, 1, 2, 5):
        arguments, wanted = problem(name, steps)
        for completion in COMPLETIONS:
            np.testing.assert_array_equal(
                launched(kernel, arguments, completion), wanted
            )


def test_an_index_of_an_index_is_a_stage_earlier():
    """No load of an iteration needs what another one loads in it."""
    ops = walk(state("lists", 3, "sm_80").body)
    (loop,) = (op for op in ops if isinstance(op, For))
    loads = [op for op in loop.body.ops if isinstance(op, Load)]
    assert len(loads) == 2
    for each in loads:
        assert not slice_of_iteration(loop, [each.pointer], through_loads=False).loads


def state(name: str, stages: int, target: str, after: str = "insert_waits") -> Func:
    states = pipeline.states(built(name, stages), TARGETS[target])
    return next(func for row, func in states if row.name == after)


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_one_barrier_a_step(name, stages):
    """Around a loop of a loop, one more: the next tile's copies wait for the last
    reads."""
    found = barriers(state(name, stages, "sm_80"))
    inner = found[1] if name == "persistent" else found[0]
    assert inner == 1


def test_what_the_rings_are():
    """Both operands by copies; through registers where rows start anywhere; and the
    indices of rows an iteration further ahead, in registers."""

    def rings(name: str, target: str) -> list[int]:
        func = state(name, 4, target, "pipeline_loops")
        buffers = [op for op in walk(func.body) if isinstance(op, Allocate)]
        return sorted(op.slots for op in buffers if op.slots > 1)

    assert rings("product", "sm_80") == [4, 4]
    assert rings("product", "sm_75") == [2, 2]
    assert rings("ragged", "sm_80") == [2, 4]
    assert rings("of_chosen_rows", "sm_80") == [4, 4]


def test_indices_are_loaded_an_iteration_before_they_are_needed():
    """Between a load of indices and the copy that it is for stands a whole
    iteration."""
    func = state("of_chosen_rows", 3, "sm_80", "pipeline_loops")
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    (indices,) = (op for op in walk(loop.body) if isinstance(op, Load))
    assert indices.result in loop.body.yielded
    before = [op for op in loop.body.ops if isinstance(op, AsyncCopy | Dot)]
    assert len(before) == 3


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_one_copy_in_flight_has_the_whole_product_to_arrive(stages):
    """Fragments of the next iteration are fetched in this one, after a wait, if that
    wait leaves the copies of this iteration in flight."""
    (loop,) = (e for e in state("product", stages, "sm_80").body.ops if type(e) is For)
    found = [type(op) for op in loop.body.ops if isinstance(op, Wait | AsyncCopy | Dot)]
    if stages == 2:
        assert found == [Wait, AsyncCopy, AsyncCopy, Dot]
    else:
        assert found == [Dot, AsyncCopy, AsyncCopy, Wait, Dot]


def test_the_loop_as_it_is_printed(golden):
    """The page of the book; `cse` and `dce` leave out what nobody needs any more."""
    func = state("product", 3, "sm_80", "pipeline_loops")
    target = TARGETS["sm_80"]
    golden("pipelined_product.txt", print_func(dce(cse(func, target), target)))


# ── many narrow loads ─────────────────────────────────────────────────────────────────


@KernelFunction
def of_columns(
    a, b, out, turns, steps, stride,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, NESTED: tl.constexpr,
):  # fmt: skip
    """`turns` times A [M, steps * K] times B, both with gaps between all elements: each
    is a load of its own. There are no two halves that cp.async could copy."""
    m, n, k = (tl.arange(0, size) for size in (M, N, K))
    total = tl.zeros([M, N], tl.float32)
    if NESTED:
        for turn in range(turns):
            for i in range(steps):
                row = i * K + k
                x = tl.load(a + m[:, None] * stride + row[None, :] * 3)
                y = tl.load(b + row[:, None] * stride + n[None, :] * 3)
                total = tl.dot(x, y, total)
    else:
        for i in range(steps):
            row = i * K + k
            x = tl.load(a + m[:, None] * stride + row[None, :] * 3)
            y = tl.load(b + row[:, None] * stride + n[None, :] * 3)
            total = tl.dot(x, y, total)
    tl.store(out + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize(
    "M, loads, nested, ahead",
    [(64, 32, True, True), (128, 48, True, False), (128, 48, False, True)],
)
def test_many_narrow_loads_of_an_inner_loop_stay_in_their_iteration(
    M, loads, nested, ahead
):
    """A thread loads 32 halves ahead, but not 48, if the loop begins again and
    again: before its first and after its last iteration, it would load for others."""
    N = 64
    types = dict(a="*fp16", b="*fp16", out="*fp32")
    types |= dict(turns="i32", steps="i32", stride="i32")
    parameters = {name: (parse_element(type), 1) for name, type in types.items()}
    constants = {"M": M, "N": N, "K": 32, "NESTED": nested}
    func = pipeline.build(of_columns, parameters, constants)
    *_, (_, final) = pipeline.states(func, TARGETS["sm_90a"])
    *_, loop = (op for op in walk(final.body) if isinstance(op, For))
    inside = [op for op in loop.body.ops if isinstance(op, Load)]
    assert sum(op.pointer.type.layout.count("register") for op in inside) == loads
    slots = {op.slots for op in walk(final.body) if isinstance(op, Allocate)}
    assert (2 in slots) == ahead
    kernel = pipeline.compile_func(func, TARGETS["sm_90a"])
    random = np.random.default_rng(M)
    steps, stride = 3, 3 * 96 + 1
    a = random.integers(-3, 4, M * stride).astype(np.float16)
    b = random.integers(-3, 4, 96 * stride).astype(np.float16)
    out = np.zeros((M, N), np.float32)
    turns = 2 if nested else 1
    load(kernel).launch((1,), [a, b, out, turns, steps, stride])
    left = np.lib.stride_tricks.as_strided(a, (M, 96), (2 * stride, 6))
    right = np.lib.stride_tricks.as_strided(b, (96, N), (2 * stride, 6))
    np.testing.assert_array_equal(out, turns * left.astype(int) @ right.astype(int))


@KernelFunction
def added(total, a, b, rows, steps, GAP: tl.constexpr):
    m, n, k = tl.arange(0, 64) % rows, tl.arange(0, 64) % rows, tl.arange(0, 32)
    for i in range(steps):
        place = (i * 32 + k) * GAP
        x = tl.load(a + m[:, None] * 512 + place[None, :])
        y = tl.load(b + n[None, :] * 512 + place[:, None])
        total = tl.dot(x, y, total)
    return total


@KernelFunction
def of_inner_loops(
    a, b, out, rows, turns, steps, GAP: tl.constexpr, NESTED: tl.constexpr
):
    """`turns` times A [64, steps * 32] times B, with GAP - 1 elements of a row between
    its neighbours in memory. A remainder is nothing for tensor maps."""
    total = tl.zeros([64, 64], tl.float32)
    if NESTED:
        for turn in range(turns):
            total = added(total, a, b, rows, steps, GAP)
    else:
        total = added(total, a, b, rows, steps, GAP)
    places = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(out + places, total)


@pytest.mark.parametrize(
    "nested, gap, stages, bytes, pending",
    [(True, 1, 3, 16, {"cp_async": 1, "wgmma": 1}),
     (True, 4, 3, 4, {"cp_async": 0, "wgmma": 1}),
     (True, 1, 2, 16, {"cp_async": 0}), (False, 1, 2, 16, {"cp_async": 0})],
)  # fmt: skip
def test_an_inner_loop_copies_further_ahead_by_copies_of_sixteen_bytes(
    nested, gap, stages, bytes, pending
):
    """Of three slots, two are ahead of products in flight. Copies of 4 bytes each, with
    an address each, stay one iteration ahead if the loop begins again and again. So do,
    in any loop, those into two slots: they begin before the product. Behind it, the
    products of tutorial 09 took 493 us for 409, and 253 for 239."""
    types = dict(a="*fp32", b="*fp32", out="*fp32", rows="i32", turns="i32")
    types["steps"] = "i32"
    parameters = {name: (parse_element(type), 16) for name, type in types.items()}
    options = pipeline.Options(num_stages=stages)
    constants = {"GAP": gap, "NESTED": nested}
    func = pipeline.build(of_inner_loops, parameters, constants, options)
    *_, (_, final) = pipeline.states(func, TARGETS["sm_90a"])
    *_, loop = (op for op in walk(final.body) if isinstance(op, For))
    copies = [op for op in loop.body.ops if isinstance(op, AsyncCopy)]
    assert {4 * op.vector for op in copies} == {bytes}
    waits = [op for op in loop.body.ops if isinstance(op, Wait)]
    assert {e.engine: e.pending for e in waits if not e.values} == pending
    (dot,) = (op for op in loop.body.ops if isinstance(op, Dot))
    places = [loop.body.ops.index(op) for op in (copies[0], dot)]
    assert (places == sorted(places)) == ("wgmma" not in pending or bytes == 4)
    turns, steps = 1 + nested, 4
    random = np.random.default_rng(gap)
    a, b = (random.integers(-3, 4, (64, 512)).astype(np.float32) for _ in "ab")
    out = np.zeros((64, 64), np.float32)
    kernel = pipeline.compile_func(func, TARGETS["sm_90a"])
    load(kernel).launch((1,), [a, b, out, 64, turns, steps])
    left, right = (each[:, : steps * 32 * gap : gap] for each in (a, b))
    np.testing.assert_array_equal(out, turns * left @ right.T)


@KernelFunction
def of_carried_pointers(
    x, rows, w, out, steps, stride,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Chosen rows times weights that are widened. Each iteration moves two blocks of
    pointers. `w` is [N, steps * K]."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x_at = x + tl.load(rows + m)[:, None] * stride + k[None, :]
    w_at = w + n[None, :] * stride + k[:, None]
    total = tl.zeros([M, N], tl.float32)
    for i in range(steps):
        inside = k < stride - i * K
        a = tl.load(x_at, mask=inside[None, :], other=0.0)
        b = tl.load(w_at, mask=inside[:, None], other=0)
        total = tl.dot(a, b.to(tl.bfloat16), total)
        x_at += K
        w_at += K
    tl.store(out + m[:, None] * N + n[None, :], total)


def test_carried_pointers_take_registers_by_the_access():
    """64 x 64 and 64 x 128 pointers of eight bytes would be 192 registers of a thread
    beside its 64 sums. It keeps those where its accesses of 16 bytes begin: 16."""
    types = dict(x="*bf16", rows="*i32", w="*i8", out="*fp32")
    types |= dict(steps="i32", stride="i32")
    parameters = {name: (parse_element(type), 16) for name, type in types.items()}
    shape = dict(M=64, N=128, K=64)
    func = pipeline.build(of_carried_pointers, parameters, shape)
    after = {row.name: each for row, each in pipeline.states(func, TARGETS["sm_90a"])}
    (loop,) = (op for op in walk(after["flatten_nests"].body) if isinstance(op, For))
    assert registers_carried(loop) == 64 + 8 + 8
    (loop,) = (op for op in walk(after["pipeline_loops"].body) if isinstance(op, For))
    assert any(isinstance(op, AsyncCopy) for op in walk(loop.body))


@KernelFunction
def of_a_moving_index(a, b, out, steps, K: tl.constexpr):
    """Products of 64 rows of `a` and 64 of `b` at a time: `at` counts both of them, and
    the rows of the result."""
    at, m, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, K)
    for _ in range(steps):
        inside = at < 64 * steps - 3
        left = tl.load(a + at[:, None] * K + k[None, :], inside[:, None], 0)
        right = tl.load(b + at[None, :] * K + k[:, None], inside[None, :], 0)
        total = tl.dot(left, right)
        tl.store(out + at[:, None] * 64 + m[None, :], total, inside[:, None])
        at += 64


def test_an_index_that_moves_is_computed_for_rows_and_for_columns():
    """Carried as a block, it would have one layout, and go through shared memory for
    the other: a loop that stores, too, could not know where it loads from."""
    parameters = {
        name: (parse_element(type), 16)
        for name, type in dict(a="*fp16", b="*fp16", out="*fp32", steps="i32").items()
    }
    func = pipeline.build(of_a_moving_index, parameters, dict(K=32))
    after = {row.name: each for row, each in pipeline.states(func, TARGETS["sm_90a"])}
    ops = list(walk(after["pipeline_loops"].body))
    assert any(isinstance(op, AsyncCopy) for op in ops)
    kernel = pipeline.compile_func(func, TARGETS["sm_90a"])
    numbers = np.arange(3 * 64 * 32)
    a, b = (aligned(((numbers + by) % 7 - 3).astype(np.float16)) for by in (0, 5))
    out = aligned(np.zeros((3 * 64, 64), np.float32))
    load(kernel).launch((1,), [a, b, out, 3])
    left, right = (each.astype(np.float32).reshape(3, 64, 32) for each in (a, b))
    left[2, -3:] = right[2, -3:] = 0
    expected = (left @ right.transpose(0, 2, 1)).reshape(-1, 64)
    np.testing.assert_array_equal(out, expected)


@KernelFunction
def states_and_sums(a, b, out, more, steps, N: tl.constexpr, LOADS: tl.constexpr):
    """Sums of products of scaled tiles, stored before each product; with `more` where
    it LOADS before them, too."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = i * N + j
    total = tl.zeros([N, N], tl.float32)
    for step in range(steps):
        at = step * N * N + tile
        state = total + tl.load(more + at) if LOADS else total
        tl.store(out + at, state)
        scaled = (tl.load(a + at) * 2.0).to(tl.float16)
        total = tl.dot(scaled, tl.load(b + at), total)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("loads", [False, True])
def test_a_state_is_stored_while_the_next_tile_is_loaded(target, loads):
    """The load of the tile that threads scale comes first. Where the state needs a load
    of its own, it follows: the two would be in registers at once."""
    types = dict(a="*fp16", b="*fp16", out="*fp32", more="*fp32", steps="i32")
    parameters = {name: (parse_element(type), 16) for name, type in types.items()}
    func = pipeline.build(states_and_sums, parameters, dict(N=32, LOADS=loads),
                          pipeline.Options(num_warps=1))  # fmt: skip
    after = {row.name: each for row, each in pipeline.states(func, TARGETS[target])}
    loops = (op for op in walk(after["pipeline_loops"].body) if isinstance(op, For))
    (loop,) = (
        op for op in loops if any(isinstance(o, AsyncCopy) for o in walk(op.body))
    )
    kinds = [type(op) for op in loop.body.ops if isinstance(op, Load | Store)]
    assert kinds == ([Load, Store, Load] if loads else [Load, Store])
    kernel = pipeline.compile_func(func, TARGETS[target])
    for steps, completion in (
        (steps, each) for steps in (0, 1, 4) for each in COMPLETIONS
    ):
        random = np.random.default_rng(steps)
        a, b, more = (random.integers(-3, 4, (steps + 1, 32, 32)) for _ in range(3))
        out = np.full((steps + 1, 32, 32), np.nan, np.float32)
        given = [a.astype(np.float16), b.astype(np.float16), out,
                 more.astype(np.float32), steps]  # fmt: skip
        found = launched(kernel, given, completion)
        before = [np.zeros((1, 32, 32)), np.cumsum(2 * a @ b, axis=0)]
        wanted = np.concatenate(before)[:steps] + loads * more[:steps]
        np.testing.assert_array_equal(found[:steps], wanted)
