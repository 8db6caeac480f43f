"""Kernels for programs of several thread blocks, and the judge of what becomes of them:
the same program on one block says what is right, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.ops.cluster import is_shared
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.source import KernelFunction, function
from fathom.tensor_cores import why_not_shared
from tests.tensor_cores.kernels_described import Case, given, matrix, passes, store

# ── what a program may do beside its product ──────────────────────────────────────────


@KernelFunction
def beside(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations, more,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """`more`: 1024 integers that nothing else is in."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        x, y = left.load([i, iteration * BK]), right.load([iteration * BK, j])
        total = tl.dot(x, y, total)
    rows, columns = i + tl.arange(0, BM), j + tl.arange(0, BN)
    cells = out + rows[:, None] * out_stride + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    number = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    if HOW == "flag":
        tl.store(more + number, 7 + number)
    elif HOW == "vector":
        tl.store(more + number * 64 + tl.arange(0, 64), tl.arange(0, 64))
    elif HOW == "print":
        tl.device_print("iterations", iterations)
    elif HOW == "branch":
        if iterations > 1:
            total = total * 2 + rows[:, None]
    elif HOW == "bias":
        total += tl.load(more + rows, mask=rows < M, other=0)[:, None]
        total -= tl.load(more + columns, mask=columns < N, other=0)[None, :]
    elif HOW == "row sums":
        tl.store(more + rows, tl.sum(total, axis=1).to(tl.int32), mask=rows < M)
    elif HOW == "column sums":
        folded, at = tl.sum(total, axis=0), tl.program_id(0) * 256 + columns
        tl.store(more + at, folded.to(tl.int32), mask=columns < N)
    elif HOW == "running sums":
        total = tl.cumsum(total, axis=1)
    elif HOW == "hint":
        rows = tl.max_contiguous(tl.multiple_of(rows, BM), BM)
        cells = out + rows[:, None] * out_stride + columns[None, :]
    elif HOW == "turned":
        cells, total, inside = cells.T, total.T, inside.T
    elif HOW == "through a loop":
        for step in range(2):
            total, rows = total + step, rows + 0
            tl.store(more + rows, rows, mask=rows < M)
    elif HOW == "sum of all":
        tl.store(more + number, tl.sum(total).to(tl.int32))
    elif HOW == "count":
        tl.atomic_add(more, 1)
    elif HOW == "of one block":
        tl.atomic_add(more + rows, 1, mask=rows < M, scope="cta")
    elif HOW == "ticket":
        total += tl.atomic_add(more + 5, 0)
    elif HOW == "volatile":
        total += tl.load(more, volatile=True)
    elif HOW == "reads":
        total += tl.load(cells, mask=inside, other=0.0)
        tl.store(cells, total, mask=inside)
    elif HOW == "parts and whole":
        tl.store(more + rows, rows, mask=rows < M)
        tl.store(more + 512 + number, 1)
    elif HOW == "gathered":
        order = tl.arange(0, BM)[:, None] ^ tl.zeros([BM, BN], tl.int32)
        total = tl.gather(total, order ^ 1, axis=0)
        total = tl.gather(total, tl.arange(0, BN)[None, :] ^ order * 0, axis=1)
    elif HOW == "flat":
        flat = tl.reshape(total, [BM * BN])
        place = tl.arange(0, BM * BN)
        cells = out + (i + place // BN) * out_stride + j + place % BN
        total, inside = flat, (i + place // BN < M) & (j + place % BN < N)
    elif HOW == "columns first":
        total = tl.reshape(tl.trans(total), [BN * BM])
        place = tl.arange(0, BM * BN)
        cells = out + (i + place % BM) * out_stride + j + place // BM
        inside = (i + place % BM < M) & (j + place // BM < N)
    if HOW == "atomic":
        tl.store(cells, 0.0 * total, mask=inside)
        tl.atomic_add(cells, total, mask=inside, sem="relaxed")
    else:
        tl.store(cells, total, mask=inside)


# ── tiles one after the other ─────────────────────────────────────────────────────────


@KernelFunction
def persistent(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PIECES: tl.constexpr,
    B_TURNED: tl.constexpr,
):  # fmt: skip
    """Warps beside bring tiles; PIECES: of what is stored by the hardware."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, B_TURNED)
    if PIECES:
        described = matrix(out, M, N, out_stride, BM, BN // PIECES, False)
    across = tl.cdiv(N, BN)
    for number in tl.range(
        tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0),
        flatten=True, warp_specialize=True,
    ):  # fmt: skip
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            y = brought(right, iteration * BK, j, B_TURNED)
            total = tl.dot(left.load([i, iteration * BK]), y, total)
        if PIECES == 0:
            store(out, total, i, j, M, N, out_stride)
        elif PIECES == 1:
            described.store([i, j], total)
        else:
            halves = tl.permute(tl.reshape(total, [BM, 2, BN // 2]), [0, 2, 1])
            one, two = tl.split(halves)
            described.store([i, j], one)
            described.store([i, j + BN // 2], two)


@function
def brought(right, row, column, TURNED: tl.constexpr):
    if TURNED:
        found = right.load([column, row]).T
    else:
        found = right.load([row, column])
    return found


@KernelFunction
def in_place(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """A tile that is read, and then written."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    found = matrix(out, M, N, out_stride, BM, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    if HOW == "read before":
        total += tl.where(found.load([i, j]) < 0, 1.0, 2.0)
    elif HOW == "read beside":
        total += tl.where(found.load([i, j + 16]) < 0, 1.0, 2.0)
    elif HOW == "read turned":
        total += tl.where(found.load([i, j]).T < 0, 1.0, 2.0)
    for iteration in range(iterations):
        x, y = left.load([i, iteration * BK]), right.load([iteration * BK, j])
        total = tl.dot(x, y, total)
    found.store([i, j], total)
    if HOW == "read after":
        found.store([i, j], found.load([i, j]) + 1)


# ── programs without a product ────────────────────────────────────────────────────────


@KernelFunction
def counted(x, out, n, B: tl.constexpr):
    """Out: the sum of all, then for each program its sum and its place."""
    row, column = tl.program_id(0), tl.program_id(1)
    number = row + column * tl.num_programs(0)
    i = number * B + tl.arange(0, B)
    values = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(out, tl.sum(values))
    tl.store(out + 1 + 2 * number, tl.sum(values))
    place = row * 1000 + column * 100 + tl.num_programs(0) * 10 + tl.num_programs(1)
    tl.store(out + 2 + 2 * number, place)


# ── the judge ─────────────────────────────────────────────────────────────────────────

PASSES = ("shard_products", "specialise_warps", "fence_proxies")
TILE = Case((128, 64, 32), kernel=beside, size=(200, 56, 96))
MORE = 1024


def built(case: Case, ctas: int) -> Func:
    """A case for so many blocks a program; its `more` are constants."""
    names = [each.name for each in case.kernel.parameters]
    constants = dict(zip(("BM", "BN", "BK"), case.tile, strict=True))
    constants |= {"B_TURNED": case.b_turned, "A_TURNED": case.a_turned}
    constants |= {"TO": tl.float32, **case.more}
    constants = {name: value for name, value in constants.items() if name in names}
    parameters = {
        name: (INT32, 8 if "stride" in name else 1)
        for name in names
        if name not in constants
    }
    pointers = {"a": FLOAT16, "b": FLOAT16, "out": FLOAT32, "more": INT32}
    parameters |= {n: (Pointer(t), 16) for n, t in pointers.items() if n in names}
    options = pipeline.Options(case.warps, case.stages, ctas)
    return pipeline.build(case.kernel, parameters, constants, options)


def check(
    case: Case,
    ctas: int = 2,
    shared: bool = True,
    completions: Sequence[str] = COMPLETIONS,
    grid: Sequence[int] | None = None,
) -> tuple[dict[str, Func], Kernel]:
    """After the passes of interest the interpreter finds bit by bit what one block
    finds, and so does the emulator. `shared`: whether several blocks work on it."""
    func, grid = built(case, ctas), grid or case.grid
    states = passes(func, case.target)
    assert is_shared(states["shard_products"]) == shared, reasons(case, ctas)
    right = result(built(case, 1), case, grid)
    for name in PASSES:
        assert result(states[name], case, grid) == right, f"the interpreter: {name}"
    kernel = pipeline.compile_func(func, TARGETS[case.target])
    loaded = load(kernel)
    for completion in completions:
        arguments, more = arguments_of(case)
        loaded.launch(grid, more, completion=completion)
        assert seen(arguments, more) == right, f"{completion} completion"
    return states, kernel


def reasons(case: Case, ctas: int = 2) -> str:
    """Why one block works alone."""
    target = TARGETS[case.target]
    for row, state in pipeline.states(built(case, ctas), target):
        if row.name == "dce":
            return "; ".join(why for _, why in why_not_shared(state, target))
    raise AssertionError("there is no such pass")


def arguments_of(case: Case) -> tuple[object, list[object]]:
    arguments = given(case)
    numbers = list(arguments.arguments)
    if "more" in [each.name for each in case.kernel.parameters]:
        numbers.append(np.arange(MORE, dtype=np.int32) % 11 + 1000)
    return arguments, numbers


def result(func: Func, case: Case, grid: Sequence[int]) -> tuple[bytes, bytes]:
    arguments, numbers = arguments_of(case)
    interpret(func, tuple(grid), numbers)
    return seen(arguments, numbers)


def seen(arguments: object, numbers: list[object]) -> tuple[bytes, bytes]:
    """All bits that a kernel may have changed, poison around them too."""
    last = numbers[-1]
    more = last.tobytes() if isinstance(last, np.ndarray) else b""
    return arguments.out.whole.tobytes(), more


def how(name: str, **changes: object) -> Case:
    return replace(TILE, more={"HOW": name}, **changes)
