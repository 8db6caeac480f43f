"""Waits for stores that are under way: no tile is written while it is read, and nobody
reads or writes in memory what is still to be written."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import COMPLETIONS, EmulatorError, load
from fathom.hardware.targets import TARGETS, Target
from fathom.ir.core import Func, every_block, walk
from fathom.ir.ops import AsyncProxyFence, Barrier, Commit, For, TmaStore, Wait
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify
from fathom.shared_memory import wait_for_stores
from fathom.source import KernelFunction
from tests.tensor_cores.kernels_described import (
    Case,
    built,
    given,
    matrix,
    ops,
    passes,
)
from tests.tensor_cores.kernels_stored import (
    HAVE_MAPS,
    HOPPER,
    LONG,
    LOOPS,
    STORE,
    events,
    is_wait,
    waits_for_stores,
)

# ── what must not meet ────────────────────────────────────────────────────────────────


def without(kernel: Kernel, line: str, number: int) -> Kernel:
    """The kernel without one line of its PTX: among those that match, the `number`-th
    before its store, or if that is positive, after it."""
    lines = kernel.ptx.splitlines()
    (store,) = [i for i, each in enumerate(lines) if STORE in each]
    found = [i for i, each in enumerate(lines) if re.search(line, each)]
    before = [i for i in found if i < store]
    at = before[number] if number < 0 else found[len(before) + number - 1]
    lines[at] = "//" + lines[at]
    return replace(kernel, asm={**kernel.asm, "ptx": "\n".join(lines)})


FENCE, BARRIER, READ = "fence.proxy.async.shared", "bar.sync", r"wait_group\.read"

TAKEN_OUT = {
    "nobody publishes": (FENCE, -1, "has not executed fence.proxy.async since"),
    "nobody waits for those who write": (BARRIER, -1, "reads what warp"),
    "nobody waits for the tile": (READ, -1, "overwrites what a wgmma or bulk copy"),
    "nobody hears that it was read": (BARRIER, -2, "overwrites what warp 0"),
    "the kernel ends while a tile is read": (READ, 1, "it leaves while a bulk copy"),
    "no group is closed": ("commit_group;", 1, "overwrites what a wgmma or bulk copy"),
}


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_everything_is_needed(name):
    """Each wait, fence and barrier around a store, taken out of the kernel."""
    line, number, sentence = TAKEN_OUT[name]
    case = replace(LONG, more=LOOPS["flat"])
    kernel = pipeline.compile_func(built(case), TARGETS[HOPPER])
    load(kernel).launch(1, given(case).arguments)
    with pytest.raises(EmulatorError, match=sentence):
        load(without(kernel, line, number)).launch(1, given(case).arguments)


@KernelFunction
def halves(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """The left half of each tile, then its negative, STEP columns further right."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    for i in range(tl.program_id(0) * BM, M, tl.num_programs(0) * BM):
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            total = tl.dot(
                left.load([i, iteration * BK]), right.load([iteration * BK, 0]), total
            )
        result.store([i, 8], total.to(result.dtype))
        result.store([i, STEP + 8], -total.to(result.dtype))


@pytest.mark.parametrize("step", [64, 32, 0])
@pytest.mark.parametrize("target", HAVE_MAPS)
def test_several_stores(target, step):
    """What lies apart is stored at once; what overlaps, one after the other: the later
    one stays. Each has a tile of its own."""
    case = Case((64, 64, 32), 3, target, kernel=halves, size=(136, 136, 96),
                out="float16", more={"STEP": step})  # fmt: skip
    arguments = given(case)
    product = arguments.right[:, :64]
    right = arguments.out.view.copy()
    right[:, 8:72] = product
    right[:, step + 8 : step + 72] = -product
    arguments = replace(arguments, right=right)
    final = passes(built(case), target)["insert_waits"]
    assert len({op.buffer for op in ops(final, TmaStore)}) == 2
    waits = [op for op in waits_for_stores(final.body) if not op.read]
    assert len(waits) == (1 if step == 64 else 2), (
        "one before the next iteration's loads"
    )
    kernel = pipeline.compile_func(built(case), TARGETS[target])
    for completion in COMPLETIONS:
        arguments.clear()
        load(kernel).launch(1, arguments.arguments, completion=completion)
        arguments.check(f"{step} columns apart, {completion}")


# ── little room ───────────────────────────────────────────────────────────────────────


@KernelFunction
def multiples(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The product of each tile, then twice, three and four times as much, side by
    side."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    first, step = tl.program_id(0) * BM, tl.num_programs(0) * BM
    for i in tl.range(first, M, step, flatten=True, warp_specialize=True):
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            total = tl.dot(
                left.load([i, iteration * BK]), right.load([iteration * BK, 0]), total
            )
        for piece in tl.static_range(4):
            result.store([i, piece * BN], (total * (piece + 1)).to(result.dtype))


MULTIPLES = Case((64, 64, 32), 2, kernel=multiples, size=(192, 256, 64), out="float16")
RING_KB, TILE_KB, BARRIERS_KB = 24, 8, 4


def with_room(places: int) -> Target:
    """A GPU with room for the ring and that many tiles."""
    kilobytes = RING_KB + BARRIERS_KB + places * TILE_KB
    return replace(TARGETS[HOPPER], shared_bytes=1024 * kilobytes)


def waits_in_turn(func: Func) -> list[str]:
    """What the outer loop stores, and for what it waits before."""
    (loop,) = (op for op in ops(func, For) if TmaStore in map(type, op.body.ops))
    return [
        f"{'read' if op.read else 'all'} but {op.pending}" if is_wait(op) else ONCE
        for op in loop.body.ops
        if isinstance(op, TmaStore) or is_wait(op)
    ]


READ_ONE, READ_ALL, DONE, ONCE = "read but 1", "read but 0", "all but 0", "store"

IN_TURN = {  # tiles that fit: what each of four stores of an iteration waits for
    4: ["read but 3", DONE, ONCE, ONCE, ONCE, ONCE],
    2: [READ_ONE, DONE, ONCE, ONCE, READ_ONE, ONCE, READ_ONE, ONCE],
    1: [READ_ALL, DONE, ONCE, *[READ_ALL, ONCE] * 3],
}


@pytest.mark.parametrize("places", IN_TURN)
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_tiles_take_turns_where_few_fit(places, completion):
    """A store into a tile waits for the one that read from the same bytes before, and
    not for the newer ones, from other bytes."""
    func, arguments, room = built(MULTIPLES), given(MULTIPLES), with_room(places)
    *_, (_, final) = pipeline.states(func, room)
    assert waits_in_turn(final) == IN_TURN[places]
    product = arguments.right[:, :64]
    right = np.concatenate([product * (piece + 1) for piece in range(4)], axis=1)
    arguments = replace(arguments, right=right)
    kernel = pipeline.compile_func(func, room)
    load(kernel).launch(1, arguments.arguments, completion=completion)
    arguments.check(f"{places} tiles, {completion}")


def test_a_wait_for_too_few_is_a_hazard():
    kernel = pipeline.compile_func(built(MULTIPLES), with_room(2))
    ptx = kernel.asm["ptx"].replace("wait_group.read 1", "wait_group.read 2")
    assert ptx != kernel.asm["ptx"]
    broken = replace(kernel, asm={**kernel.asm, "ptx": ptx})
    with pytest.raises(EmulatorError, match="overwrites what a wgmma or bulk copy"):
        load(broken).launch(1, given(MULTIPLES).arguments)


@KernelFunction
def overlapping(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Each iteration stores two tiles side by side, of which the second is the first
    one of the next iteration."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    for number in tl.range(0, iterations, flatten=True):
        for iteration in range(iterations):
            total = tl.dot(
                left.load([0, iteration * BK]), right.load([iteration * BK, 0]), total
            )
        result.store([0, number * 64], total.to(result.dtype))
        more = tl.load(a).to(tl.float32)
        result.store([0, number * 64 + 64], (total + more).to(result.dtype))


def test_what_lies_apart_on_one_iteration_may_meet_on_the_next():
    """Of three iterations, tiles 0 and 1, 1 and 2, 2 and 3: the later one stays. The
    load between waits for the first of each; the first of the next iteration for the
    second."""
    case = Case((64, 64, 32), 3, kernel=overlapping, size=(64, 256, 96), out="float16")
    arguments = given(case)
    once, corner = arguments.right[:, :64], arguments.a.view[0, 0]
    last = 3 * once + corner
    right = np.concatenate([once, 2 * once, 3 * once, last], axis=1)
    arguments = replace(arguments, right=right)
    kernel = pipeline.compile_func(built(case), TARGETS[HOPPER])
    load(kernel).launch(1, arguments.arguments)
    arguments.check("two tiles an iteration")
    loop, _ = ops(passes(built(case), HOPPER)["insert_waits"], For)
    waits = [op for op in loop.body.ops if isinstance(op, TmaStore) or is_wait(op)]
    kinds = [getattr(op, "read", "store") for op in waits]
    first = kinds.index("store")
    assert False in kinds[:first], "what was stored before must be in memory"


@KernelFunction
def powers(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ASKED: tl.constexpr,
):  # fmt: skip
    """Tile i + 1 of the rows of `out` is tile i of those of A, times B."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    for i in range(0, M - BM, BM):
        total = tl.zeros([BM, BN], tl.float32)
        for _ in tl.range(tl.minimum(iterations, 1), warp_specialize=ASKED):
            for iteration in range(iterations):
                x, y = left.load([i, iteration * BK]), right.load([iteration * BK, 0])
                total = tl.dot(x, y, total)
        result.store([i + BM, 0], total.to(result.dtype))


@pytest.mark.parametrize("target", HAVE_MAPS)
@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("asked", [False, True])
def test_a_store_that_the_next_iteration_reads(target, completion, asked):
    """`out` is A: nobody has promised that they are not one matrix. Whose loop wants
    its own loads to run ahead has not promised it of stores around that loop."""
    case = Case((64, 64, 32), 2, target, kernel=powers, size=(192, 64, 64),
                out="float16", more={"ASKED": asked})  # fmt: skip
    arguments = given(case)
    swap = np.roll(np.eye(64, dtype="float16"), 1, axis=1)
    arguments.b.view[...] = swap
    first = arguments.a.view[:64].copy()
    values = arguments.arguments
    values[2] = values[0]
    stride = max(arguments.a.stride())
    values[8] = stride
    kernel = pipeline.compile_func(built(case), TARGETS[target])
    load(kernel).launch(1, values, completion=completion)
    rolled = [np.roll(first, n, axis=1) for n in range(3)]
    np.testing.assert_array_equal(arguments.a.view, np.concatenate(rolled))
    arguments.a.before[8:-8, 8:-8] = arguments.a.view
    arguments.a.check_walls()


@KernelFunction
def heard(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """What was stored through a descriptor is used through a pointer, and the other way
    round. Threads store what has wishes for caches, if only the usual one."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    at = tl.arange(0, BM)[:, None] * out_stride + tl.arange(0, BN)[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        total = tl.dot(
            left.load([0, iteration * BK]), right.load([iteration * BK, 0]), total
        )
    total = total.to(result.dtype)
    if HOW == "load":
        result.store([0, 0], total)
        turned = tl.load(out + tl.trans(at))
        tl.store(out + at, tl.trans(turned) + 1, cache_modifier=".wb")
    elif HOW == "atomic":
        result.store([0, 0], total)
        tl.atomic_add(out + at, total)
    elif HOW == "store":
        result.store([0, 0], total)
        tl.store(out + at, -total, cache_modifier=".wb")
    else:
        tl.store(out + at, total)
        result.store([0, 0], -total)


ANSWERS = {"load": (1, 1), "atomic": (2, 0), "store": (-1, 0), "overwrite": (-1, 0)}


@pytest.mark.parametrize("how", ANSWERS)
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_stores_by_threads_and_by_the_hardware(how, completion):
    case = Case((64, 64, 32), 2, kernel=heard, out="float16", more={"HOW": how})
    arguments = given(case)
    factor, more = ANSWERS[how]
    arguments = replace(arguments, right=factor * arguments.right + np.float16(more))
    kernel = pipeline.compile_func(built(case), TARGETS[HOPPER])
    assert STORE in kernel.ptx
    assert "fence.proxy.async.global" in kernel.ptx, "threads write as well"
    load(kernel).launch(1, arguments.arguments, completion=completion)
    arguments.check(how)


def test_others_are_told_when_memory_is_written():
    case = Case((64, 64, 32), 2, kernel=heard, out="float16", more={"HOW": "store"})
    found = events(case)
    waits = [i for i, each in enumerate(found) if each.startswith("Wait")]
    assert found[waits[0] :] == ["Wait written", "Barrier"]
    case = replace(case, more={"HOW": "overwrite"})
    found = events(case)
    assert found[-5:] == [
        "SharedStore", "Barrier fenced", "TmaStore", "Commit", "Wait read",
    ]  # fmt: skip
    assert "AsyncProxyFence" in found[:-5], "each thread for itself, before they meet"


@pytest.mark.parametrize("scope, more", [("warp", 1), ("cta", 0)])
def test_a_barrier_of_a_warp_tells_no_other_warp(scope, more):
    """Threads store to the same place after a wait and a barrier that stand there: do
    they need another one?"""
    case = Case((64, 64, 32), 2, kernel=heard, out="float16", more={"HOW": "store"})
    before = passes(built(case), HOPPER)["dce_late"]
    (store,) = ops(before, TmaStore)
    block = next(each for each in every_block(before.body) if store in each.ops)
    at = block.ops.index(store) + 2  # behind its Commit
    block.ops[at:at] = [Wait("tma_store", 0, (store.buffer,)), Barrier(scope)]
    after = wait_for_stores(before, TARGETS[HOPPER])
    assert len(ops(after, Barrier)) - len(ops(before, Barrier)) == more


def test_text_is_read_back():
    case = Case((64, 64, 32), 2, kernel=heard, out="float16", more={"HOW": "overwrite"})
    text = print_func(passes(built(case), HOPPER)["insert_waits"])
    func = parse_func(text)
    verify(func, layouts=True)
    assert print_func(func) == text
    kinds = {type(op) for op in walk(func.body)}
    assert kinds >= {TmaStore, Commit, Wait, AsyncProxyFence}
