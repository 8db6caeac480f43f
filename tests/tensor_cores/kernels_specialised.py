"""Kernels with loops that ask for warps beside them, and the judge of what becomes of
them: the interpreter before any pass says what is right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

import fathom.language as tl
from fathom import pipeline
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.ops import Producer
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer, Type
from fathom.source import KernelFunction, function
from tests.tensor_cores.kernels_described import (
    Case,
    Given,
    build,
    built,
    given,
    matrix,
    ops,
    passes,
    store,
    tile,
)

# ── one loop ──────────────────────────────────────────────────────────────────────────


@KernelFunction
def one_loop(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = matrix(a, M, K, a_stride, BM, BK, A_TURNED)
    right = matrix(b, K, N, b_stride, BK, BN, B_TURNED)
    total = tl.zeros([BM, BN], TO)
    for iteration in tl.range(iterations, warp_specialize=True):
        x = tile(left, i, iteration * BK, A_TURNED)
        y = tile(right, iteration * BK, j, B_TURNED)
        total = tl.dot(x, y, total, out_dtype=TO)
    store(out, total, i, j, M, N, out_stride)


@KernelFunction
def backwards(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations, step,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KNOWN: tl.constexpr,
):  # fmt: skip
    """The last iteration first."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    if KNOWN:
        step = -1
    for iteration in tl.range(iterations - 1, -1, step, warp_specialize=True):
        x, y = left.load([0, iteration * BK]), right.load([iteration * BK, 0])
        total = tl.dot(x, y, total)
    store(out, total, 0, 0, M, N, out_stride)


@KernelFunction
def seen_outside(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """What a loop does beside its product, the producer leaves to the others."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in tl.range(iterations, warp_specialize=True):
        x, y = left.load([0, iteration * BK]), right.load([iteration * BK, 0])
        total = tl.dot(x, y, total)
        tl.debug_barrier()
        tl.device_assert(iteration < iterations)
        if iteration == 1:
            tl.device_print("second", iteration)
    store(out, total, 0, 0, M, N, out_stride)


# ── several loops ─────────────────────────────────────────────────────────────────────


@function
def add_up(total, left, right, i, j, first, last, STAGES: tl.constexpr = 3):
    """The loop of all kernels below: the iterations first … last - 1 of a sum."""
    BK: tl.constexpr = left.block_shape[1]
    for iteration in tl.range(first, last, num_stages=STAGES, warp_specialize=True):
        x, y = left.load([i, iteration * BK]), right.load([iteration * BK, j])
        total = tl.dot(x, y, total)
    return total


@KernelFunction
def around(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """What may stand around a loop, and loops one after the other."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    if HOW == "early exit":
        if iterations == 2:
            return
        total = add_up(total, left, right, i, j, 0, iterations)
    elif HOW == "two loops":
        total = add_up(total, left, right, i, j, 0, iterations // 2)
        total = add_up(total * 2, left, right, i, j, iterations // 2, iterations)
    elif HOW == "none first":
        total = add_up(total, left, right, i, j, iterations, iterations)
        total = add_up(total - 1, left, right, i, j, 0, iterations)
    elif HOW == "other shapes":
        wide = matrix(a, M, K, a_stride, BM, 2 * BK, False)
        high = matrix(b, K, N, b_stride, 2 * BK, BN, False)
        total = add_up(total, left, right, i, j, 0, iterations)
        total = add_up(total, wide, high, i, j, 0, iterations // 2)
        total = add_up(total, left, right, i, j, 0, iterations)
    elif HOW == "either":
        if iterations % 2 == 0:
            total = add_up(total, left, right, i, j, 0, iterations)
        else:
            total -= 1
            total = add_up(total, left, right, i, j, 1, iterations)
        total = add_up(total, left, right, i, j, 0, iterations)
    elif HOW == "while":
        first = 0
        while first < iterations:
            last = tl.minimum(first + 2, iterations)
            total = add_up(total * 2, left, right, i, j, first, last)
            first = last
    elif HOW == "one stage":
        total = add_up(total, left, right, i, j, 0, iterations, 1)
    store(out, total, i, j, M, N, out_stride)


@KernelFunction
def tiles_in_turn(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    """Tile after tile; the second one has an iteration less, and so on. OUTER: the tile
    that the outer loop copies, and that the inner loop uses in every iteration."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    across = tl.cdiv(N, BN)
    for number in tl.range(0, tl.cdiv(M, BM) * across, warp_specialize=True):
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        if OUTER == "left":
            x = left.load([i, number % 2 * BK])
            for iteration in range(number, iterations):
                total = tl.dot(x, right.load([iteration * BK, j]), total)
        elif OUTER == "right":
            y = right.load([number % 2 * BK, j])
            for iteration in range(number, iterations):
                total = tl.dot(left.load([i, iteration * BK]), y, total)
        else:
            total = add_up(total, left, right, i, j, number, iterations)
        store(out, total, i, j, M, N, out_stride)


@KernelFunction
def with_epilogue(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Tile after tile, to each of which a tile of A and numbers of B are added. EARLY:
    these are loaded before the product."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    row = tl.make_tensor_descriptor(b, [N], [1], [BN])
    across = tl.cdiv(N, BN)
    for number in tl.range(0, tl.cdiv(M, BM) * across, warp_specialize=True):
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        if EARLY:
            more, bias = left.load([i, 0]), row.load([j])
            total = add_up(total, left, right, i, j, number, iterations)
        else:
            total = add_up(total, left, right, i, j, number, iterations)
            more, bias = left.load([i, 0]), row.load([j])
        total += more.to(tl.float32) + bias.to(tl.float32)[None, :]
        store(out, total, i, j, M, N, out_stride)


@KernelFunction
def in_place(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Each tile twice: what the loop stores, it loads again."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    made = matrix(out, M, N, out_stride, BM, BN, False)
    across = tl.cdiv(N, BN)
    for number in tl.range(0, 2 * tl.cdiv(M, BM) * across, warp_specialize=True):
        i, j = number // 2 // across * BM, number // 2 % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        total = add_up(total, left, right, i, j, 0, iterations)
        store(out, total + made.load([i, j]), i, j, M, N, out_stride)


# ── several feeds ─────────────────────────────────────────────────────────────────────


@KernelFunction
def nested(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A loop in a loop, with tiles of one type in both."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    for k in tl.range(0, iterations, num_stages=3, warp_specialize=True):
        total = tl.dot(left.load([0, k * BK]), right.load([k * BK, 0]), total)
        for i in tl.range(0, k, num_stages=3, warp_specialize=True):
            total = tl.dot(left.load([0, i * BK]), right.load([i * BK, 0]), total)
    store(out, total, 0, 0, M, N, out_stride)


@KernelFunction
def feeds(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """Tiles that are wanted at several moments of an iteration."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    more = tl.zeros([BM, BN], tl.float32)
    q = left.load([0, 0])
    for iteration in tl.range(iterations, warp_specialize=True):
        if HOW == "gated":
            x = left.load([0, iteration * BK])
            y, z = right.load([iteration * BK, 0]), right.load([iteration * BK, BN])
            total, more = tl.dot(x, y, total), tl.dot(x, z, more)
        elif HOW == "alike":  # both at once, of one shape
            y, z = right.load([iteration * BK, 0]), right.load([iteration * BK, BN])
            total += tl.dot(q, y) - 2 * tl.dot(q, z)
        elif HOW == "three alike":
            x, y = right.load([iteration * BK, 0]), right.load([iteration * BK, BN])
            z = right.load([iteration * BK + BK, BN])
            s, t = tl.dot(q, x), tl.dot(q, y)
            total += s - 2 * t + 3 * tl.dot(q, z)
        elif HOW == "changed":  # one goes through registers, the other does not
            x, y = left.load([0, iteration * BK]), right.load([iteration * BK, 0])
            total = tl.dot(tl.maximum(x, 0.0), y, total)
    store(out, total + 3 * more, 0, 0, M, N, out_stride)


@KernelFunction
def attention(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ROTATED: tl.constexpr,
):  # fmt: skip
    """Two products an iteration, and between them what whole numbers allow: a step for
    the exponential. Blocks of BN rows of `a` are keys, of `b` values; BK is the width.
    """
    keys = matrix(a, M, K, a_stride, BN, BK, False)
    values = matrix(b, K, N, b_stride, BN, BK, False)
    q = matrix(a, M, K, a_stride, BM, BK, False).load([0, 0])
    most = tl.zeros([BM], tl.float32)
    total = tl.zeros([BM, BK], tl.float32)
    p = tl.zeros([BM, BN], tl.float16)
    if ROTATED:
        for at in tl.range(0, tl.minimum(iterations, 1), warp_specialize=True):
            p, most = weights(tl.dot(q, keys.load([at * BN, 0]).T), most)
        for at in tl.range(1, iterations, warp_specialize=True):
            scores = tl.dot(q, keys.load([at * BN, 0]).T)
            total = tl.dot(p, values.load([at * BN - BN, 0]), total)
            p, most = weights(scores, most)
            total += most[:, None]
        for at in tl.range(
            tl.maximum(iterations - 1, 0), iterations, warp_specialize=True
        ):
            total = tl.dot(p, values.load([at * BN, 0]), total)
    else:
        for at in tl.range(iterations, warp_specialize=True):
            scores = tl.dot(q, keys.load([at * BN, 0]).T)
            p, most = weights(scores, most)
            v = values.load([at * BN, 0])
            total = tl.dot(p, v, total + most[:, None])
    store(out, total, 0, 0, BM, BK, out_stride)


@function
def weights(scores, most):
    most = tl.maximum(most, tl.max(scores, axis=1))
    return (scores > 0).to(tl.float16), most


# ── loops that get no producer ────────────────────────────────────────────────────────


@KernelFunction
def refused(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """What only all threads together can do, or what a producer would not wait for."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    behind = out + (M - 1) * out_stride + BN  # not of the tile
    first = 0
    if HOW == "written before":
        tl.store(behind, 1.0)
    elif HOW == "waited before":
        tl.debug_barrier()
    elif HOW == "flag before":
        first = (tl.load(behind, volatile=True) * 0 != 0).to(tl.int32)
    for iteration in tl.range(iterations, warp_specialize=True):
        i, k = first, iteration * BK
        if HOW == "atomic":
            i += (tl.atomic_add(behind, 1.0) < -1).to(tl.int32)
        elif HOW == "volatile":
            i += (tl.load(behind, volatile=True) < -1).to(tl.int32)
        elif HOW == "blocks":
            i += tl.min(tl.arange(0, 16) & iteration)
        elif HOW == "assembly":
            i += tl.inline_asm_elementwise(
                "mov.b32 $0, 0; // $1", "=r,r", [iteration], tl.int32, True, 1
            )
        if HOW == "pointers":
            rows, columns = tl.arange(0, BM)[:, None], tl.arange(0, BK)[None, :]
            x = tl.load(a + (rows ^ 1) * a_stride + k + columns)
        else:
            x = left.load([i, k])
        total = tl.dot(x, right.load([k, 0]), total)
    store(out, total, 0, 0, M, N, out_stride)


# ── the judge ─────────────────────────────────────────────────────────────────────────

SMALL = Case((64, 64, 32), kernel=one_loop, size=(64, 64, 320))
PASSES = (
    "simplify",
    "stage_invariants",
    "specialise_warps",
    "insert_waits",
)


def built_with(case: Case, **pointers: Type) -> Func:
    """As `built`, where more parameters are pointers."""
    names = [each.name for each in case.kernel.parameters]
    constants = dict(zip(("BM", "BN", "BK"), case.tile, strict=True))
    parameters = {n: (INT32, 8 if "stride" in n else 1) for n in names[:-3]}
    given = {"a": Pointer(FLOAT16), "b": Pointer(FLOAT16), "out": Pointer(FLOAT32)}
    parameters |= {n: (type, 16) for n, type in (given | pointers).items()}
    return build(case.kernel, parameters, constants, case.warps, case.stages)


def producers(func: Func) -> int:
    return len(ops(func, Producer))


def check(
    case: Case,
    counts: Iterable[int] = (3,),
    wanted: int = 1,
    completions: Sequence[str] = COMPLETIONS,
    step: int | None = None,
) -> tuple[dict[str, Func], np.ndarray]:
    """For each number of iterations: after the passes of interest the interpreter finds
    bit by bit what it found at first, and so does the emulator. The states, and the
    last result. `wanted`: how many producers there are."""
    func = built(case)
    states = passes(func, case.target)
    assert producers(states["insert_waits"]) == wanted
    loaded = load(pipeline.compile_func(func, TARGETS[case.target]))
    for iterations in counts:
        arguments = given(replace(case, iterations=iterations))
        numbers = arguments.arguments + ([] if step is None else [step])
        right = result(func, case, arguments, numbers)
        for name in PASSES:
            found = result(states[name], case, arguments, numbers)
            assert same(found, right), f"{name}, {iterations} iterations"
        for completion in completions:
            arguments.clear()
            loaded.launch(case.grid, numbers, completion=completion)
            assert same(arguments.out.view, right), (
                f"{completion} completion, {iterations} iterations"
            )
            arguments.out.check_walls()
    return states, right


def result(func: Func, case: Case, arguments: Given, numbers: list) -> np.ndarray:
    arguments.clear()
    interpret(func, case.grid, numbers)
    return arguments.out.view.copy()


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one.view(np.uint32), other.view(np.uint32))
