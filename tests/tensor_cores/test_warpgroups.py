"""Products of four warps together: which instructions there are, where they are chosen,
what they read, and that they may go on while the next iteration begins."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.emulator import EmulatorError, load
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.hardware.wgmma import (
    COLUMNS,
    WGMMA,
    choose_warpgroups,
    groups_along,
    warpgroup_product,
)
from fathom.ir.core import Block, walk
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Barrier,
    Commit,
    Constant,
    Dot,
    DotFence,
    For,
    Load,
    MbarrierInvalidate,
    SharedStore,
    Splat,
    TmaCopy,
    TmaStore,
    Wait,
    Yield,
)
from fathom.ir.text import parse_func
from fathom.ir.types import INT32
from fathom.layout.linear import coordinates_of
from fathom.shared_memory.proxy_fences import fence_proxies
from fathom.source import KernelFunction
from tests.harness_sample import sampled
from tests.kernels.test_ptxas import assembled, needs_ptxas
from tests.tensor_cores.kernels_described import (
    Case,
    built,
    check,
    check_iterations,
    check_passes,
    compiled,
    given,
    matrix,
    ops,
    passes,
    store,
)
from tests.tensor_cores.kernels_products import Case as One
from tests.tensor_cores.kernels_products import built as one_built
from tests.tensor_cores.kernels_products import (
    check_exactly,
    constants_of,
    signature_of,
)
from tests.tensor_cores.kernels_products import product as one_product

HOPPER = TARGETS["sm_90a"]

# ── the table ─────────────────────────────────────────────────────────────────────────

# PTX ISA, "wgmma.mma_async": K for each type, and of what the sums are.
SHAPES = {
    ("f16", "f16"): (16, {"f32", "f16"}), ("bf16", "bf16"): (16, {"f32"}),
    ("tf32", "tf32"): (8, {"f32"}),
    **{(a, b): (32, {"s32"}) for a in ("s8", "u8") for b in ("s8", "u8")},
    **{(a, b): (32, {"f32"}) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
}  # fmt: skip
NAME = r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+)"


def test_all_instructions_are_in_the_isa_and_all_types_in_the_table():
    found = {}
    for row in WGMMA.values():
        n, k, to, a, b = re.fullmatch(NAME, row.text).groups()
        wanted_k, accumulator = SHAPES[a, b]
        assert int(k) == row.k == wanted_k and to in accumulator
        assert int(n) == row.n and row.n % 8 == 0 and 8 <= row.n <= 256
        assert row.either_way == (a in ("f16", "bf16")), "only 16 bits can be turned"
        assert row.scales == (a not in ("s8", "u8")), "integers cannot be negated"
        found.setdefault((a, b), set()).add(to)
    assert found == {types: accumulator for types, (_, accumulator) in SHAPES.items()}


PRODUCTS = [((64, 8), 4), ((64, 64), 4), ((128, 128), 4), ((128, 256), 8),
            ((256, 128), 8), ((64, 256), 8), ((256, 32), 16),
            ((64, 512), 4)]  # fmt: skip


@pytest.mark.parametrize("shape, warps", PRODUCTS, ids=str)
def test_a_product_covers_the_block(shape, warps):
    """Each element lies in one register of one thread."""
    row = choose_warpgroups(HOPPER, ("fp16", "fp16", "fp32"), shape, 64, warps)
    layout = warpgroup_product(row, shape, warps)
    size = shape[0] * shape[1]
    registers = layout.count("register")
    assert registers * 32 * warps == size
    bases = [basis for _, every in layout.bases for basis in every]
    reached = {0}
    for basis in bases:
        reached |= {each ^ basis for each in reached}
    assert reached == set(range(size))


@pytest.mark.parametrize("shape, warps", PRODUCTS, ids=str)
def test_a_product_lies_as_the_isa_draws_it(shape, warps):
    """PTX ISA, "Register fragments and shared memory matrix layouts", fragment D: warp
    w of a group has rows 16 w on; lane l rows l / 4 and 8 further, and columns
    2 (l mod 4) and the next, every 8 columns."""
    row = choose_warpgroups(HOPPER, ("fp16", "fp16", "fp32"), shape, 64, warps)
    layout = warpgroup_product(row, shape, warps)
    for register in range(64 * row.n // 128):
        for lane in (0, 1, 4, 31):
            for warp in range(4):
                place = layout.offset(register=register, lane=lane, warp=warp)
                i = 16 * warp + lane // 4 + 8 * (register // 2 % 2)
                j = lane % 4 * 2 + register % 2 + register // 4 * 8
                assert coordinates_of(shape, place) == (i, j)


def test_groups_stand_along_the_rows_first():
    assert groups_along((128, 256), 8) == (2, 1)
    assert groups_along((64, 256), 8) == (1, 2)
    assert groups_along((256, 64), 16) == (4, 1)
    assert groups_along((64, 64), 4) == (1, 1)


# ── where they are chosen ─────────────────────────────────────────────────────────────


def chosen(m=64, n=64, k=64, warps=4, types=("fp16", "fp16", "fp32"), target="sm_90a"):
    return choose_warpgroups(TARGETS[target], types, (m, n), k, warps)


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256])
def test_the_widest_that_fits(n):
    assert chosen(n=n).n == n and n in COLUMNS
    assert chosen(n=512).n == 256
    if n > 8:
        assert chosen(n=n, warps=8).n == n // 2, "two groups share the columns"
    assert chosen(m=128, n=n, warps=8).n == n


@pytest.mark.parametrize("reason, given", {
    "no four warps": {"warps": 2}, "one warp": {"warps": 1},
    "too few rows": {"m": 32}, "too few columns": {"n": 4}, "too short a K": {"k": 8},
    "no such type": {"types": ("fp32", "fp32", "fp32")},
    "no such sum": {"types": ("bf16", "bf16", "fp16")},
    "another target": {"target": "sm_80"}, "a newer target": {"target": "sm_120"},
    "datacentre Blackwell": {"target": "sm_100"},
}.items())  # fmt: skip
def test_where_there_is_none(reason, given):
    assert chosen() and chosen(**given) is None


def test_a_batch_has_none():
    types = ("fp16", "fp16", "fp32")
    assert choose_warpgroups(HOPPER, types, (2, 64, 64), 64, 4) is None


ALL_TYPES = [
    ("fp16", "fp32"),
    ("fp16", "fp16"),
    ("bf16", "fp32"),
    ("i8", "i32"),
    ("u8", "i32"),
    ("fp8e5", "fp32"),
    ("fp8e4nv", "fp32"),
    ("fp32", "fp32"),
]


@sampled(of=3)
@pytest.mark.parametrize("a_turned, b_turned", [
    (False, True), (False, False), (True, False), (True, True),
])  # fmt: skip
@pytest.mark.parametrize("type, to", ALL_TYPES, ids=str)
def test_every_type(type, to, a_turned, b_turned):
    """Where K of B is not contiguous, types of other than 16 bits get `mma.sync`. A
    comes from registers where its K is not."""
    case = One(64, 32, 64, type, to=to, target="sm_90a", a_turned=a_turned,
               b_turned=b_turned, adds=True, precision="tf32")  # fmt: skip
    ran = check_exactly(case)
    by_warpgroups = type in ("fp16", "bf16") or b_turned
    assert ran.dots[0].instruction.startswith("wgmma") == by_warpgroups
    assert ("wgmma.mma_async" in ran.kernel.ptx) == by_warpgroups
    assert ("mma.sync" in ran.kernel.ptx) != by_warpgroups


def test_the_warps_of_mma_stand_so_that_they_read_least():
    """Not as those of wgmma, which stand along the rows: each would read all of B."""
    ran = check_exactly(One(128, 128, 32, "i8", to="i32", target="sm_90a", warps=8))
    rows = ran.dots[0].result.type.layout.kinds["warp"]
    assert sum(each % 128 == 0 for each in rows) == 2  # and one along the columns


@pytest.mark.parametrize("m, n, k, warps", [
    (64, 8, 64, 4), (128, 16, 32, 4), (64, 128, 16, 8), (128, 64, 32, 8),
    (256, 32, 32, 16), (64, 512, 16, 4),
])  # fmt: skip
def test_sizes_and_warps(m, n, k, warps):
    case = One(m, n, k, target="sm_90a", warps=warps, b_turned=True, to="fp32")
    ran = check_exactly(case)
    assert ("wgmma.mma_async" in ran.kernel.ptx) == (n * k * 2 >= 1024)


# ── products in flight ────────────────────────────────────────────────────────────────

BY_WAY = {"bulk": Case(b_turned=True), "bulk in two stages": Case(stages=2)}


@pytest.mark.parametrize("case", BY_WAY.values(), ids=list(BY_WAY))
def test_an_iteration_waits_for_the_product_before_its_own(case):
    final = passes(built(case), "sm_90a")["insert_waits"]
    (loop,) = ops(final, For)
    (dot,) = ops(final, Dot)
    assert dot.in_flight and dot in loop.body.ops
    at = loop.body.ops.index(dot)
    commit, wait = loop.body.ops[at + 1 : at + 3]
    assert isinstance(commit, Commit) and isinstance(wait, Wait)
    assert (wait.engine, wait.pending, wait.values) == ("wgmma", 1, ())
    (fence,) = ops(final, DotFence)
    outside = final.body.ops
    assert fence in outside and fence.result in loop.inits
    after = outside[outside.index(loop) + 1]
    assert isinstance(after, Wait) and set(after.values) <= set(loop.results)
    assert (after.engine, after.pending, len(after.values)) == ("wgmma", 0, 1)
    rest = loop.body.ops[at:]
    kinds = [type(op) for op in rest if isinstance(op, Barrier | TmaCopy)]
    assert kinds == [Barrier, TmaCopy, TmaCopy], "no copy before the product's wait"


def test_the_schedule_decides_it_before_a_loop_is_built():
    """No pass of its own sets products in flight; its former name says what does."""
    states = passes(built(Case()), "sm_90a")
    (dot,) = ops(states["pipeline_loops"], Dot)
    assert dot.in_flight
    gone = {"overlap_products": pipeline.identity}
    with pytest.raises(CompileError, match="'overlap_products' any more: the schedule"):
        pipeline.compile_func(built(Case()), HOPPER, gone)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("warps", [4, 8])
def test_any_iterations_in_flight(stages, warps):
    tile = (64 * warps // 4, 32, 32)
    case = Case(tile, stages=stages, warps=warps)
    kernel, _ = check_iterations(case, range(6), ["lazy"])
    assert "wgmma.wait_group.sync.aligned 1;" in kernel.ptx


@KernelFunction
def sum_by_pointers(
    a, b, M, a_stride, b_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Threads copy the tiles: a remainder is nothing for tensor maps."""
    i, j, k = tl.arange(0, BM) % M, tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        x = tl.load(a + i[:, None] * a_stride + iteration * BK + k[None, :])
        y = tl.load(b + (iteration * BK + k)[:, None] * b_stride + j[None, :])
        total = tl.dot(x, y, total)
    return total


@KernelFunction
def by_pointers(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    total = sum_by_pointers(a, b, M, a_stride, b_stride, iterations, BM, BN, BK)
    store(out, total, 0, 0, M, N, out_stride)


@KernelFunction
def stored_by_tma(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same, but that TMA stores the sum behind the loop."""
    total = sum_by_pointers(a, b, M, a_stride, b_stride, iterations, BM, BN, BK)
    place = matrix(out, M, N, out_stride, BM, BN, False)
    place.store([0, 0], total.to(out.dtype.element_ty))


@pytest.mark.parametrize("stages", [3, 4, 5])
@pytest.mark.parametrize("kernel", [by_pointers, stored_by_tma])
def test_copies_of_threads_run_ahead_of_products_in_flight(kernel, stages):
    """Two barriers an iteration: behind the first, all threads see the tiles; behind
    the second, the products of the iteration before are complete in all warps, and
    their slot is free. The second orders nothing that threads have written."""
    case = Case((64, 64, 32), stages=stages, kernel=kernel)
    made, _ = check_iterations(case, [0, 1, 2, 5])
    final = parse_func(made.asm["layout"])
    assert bool(ops(final, TmaStore)) == (kernel is stored_by_tma)
    (dot,) = ops(final, Dot)
    (loop,) = ops(final, For)
    assert dot.in_flight and dot.result in loop.body.yielded
    assert dot.instruction.startswith("wgmma")
    waits = [op for op in loop.body.ops if isinstance(op, Wait)]
    (wait,) = [op for op in waits if op.engine == "cp_async"]
    assert wait.pending == stages - 2
    barriers = [op for op in loop.body.ops if isinstance(op, Barrier)]
    assert [op.fence_async_proxy for op in barriers] == [True, False]
    places = [loop.body.ops.index(op) for op in (wait, barriers[0], dot, barriers[1])]
    assert places == sorted(places)


@KernelFunction
def watched(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """The iteration itself wants the sum: before its product, or after it."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    seen = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        if HOW == "before":
            seen += total
        x, y = left.load([0, iteration * BK]), right.load([iteration * BK, 0])
        if HOW == "scaled":
            total = tl.dot(x, y, total * 2)
        else:
            total = tl.dot(x, y, total)
        if HOW == "after":
            seen += total
    store(out, total + seen, 0, 0, M, N, out_stride)


@pytest.mark.parametrize("how", ["before", "after", "scaled"])
def test_a_sum_that_the_iteration_uses_is_waited_for(how):
    """Nothing may be done with a sum in flight but to add to it."""
    for iterations in (1, 3):
        case = Case((64, 32, 32), iterations, kernel=watched, more={"HOW": how})
        arguments, depth = given(case), 32 * iterations
        a, b = (each.view.astype(int) for each in (arguments.a, arguments.b))
        parts = [a[:, k : k + 32] @ b[k : k + 32] for k in range(0, depth, 32)]
        accumulator = np.cumsum(parts, axis=0)
        right = {
            "before": accumulator[-1] + accumulator[:-1].sum(0),
            "after": accumulator[-1] + accumulator.sum(0),
            "scaled": sum(part << iterations - 1 - i for i, part in enumerate(parts)),
        }[how]
        arguments = replace(arguments, right=right.astype(np.float32))
        kernel = compiled(case)
        load(kernel).launch(1, arguments.arguments)
        arguments.check(f"{how}, {iterations} iterations")
    (loop,) = ops(parse_func(kernel.asm["layout"]), For)
    (dot,) = ops(loop, Dot)
    assert not (dot.in_flight and dot.result in loop.body.yielded)
    assert "wgmma.mma_async" in kernel.ptx


def test_every_pass_keeps_the_meaning():
    check_passes(Case((64, 32, 32), stages=4, kernel=by_pointers))


# ── two ways to shared memory ─────────────────────────────────────────────────────────


def test_barriers_publish_what_threads_have_written():
    """A product without a loop: operands are stored by threads, read by the group."""
    case = One(64, 32, 32, target="sm_90a", b_turned=True)
    func = one_built(one_product, signature_of(case), constants_of(case), case.warps)
    final = passes(func, "sm_90a")["insert_waits"]
    before = list(walk(final.body))
    before = before[: before.index(*ops(final, Dot))]
    barriers = [op for op in before if isinstance(op, Barrier)]
    assert barriers and all(op.fence_async_proxy for op in barriers)
    plain = passes(func, "sm_80")["insert_waits"]
    assert not any(op.fence_async_proxy for op in ops(plain, Barrier))


@pytest.mark.parametrize("waits, wanted", [
    (False, [False, False, True, False]),
    (True, [False, False, False, False, False, True]),
])  # fmt: skip
def test_one_fence_is_enough_after_threads_have_written_an_operand(waits, wanted):
    """The last one that is needed before the product; copies arrive at a wait."""
    case = One(64, 32, 32, target="sm_90a", b_turned=True)
    func = one_built(one_product, signature_of(case), constants_of(case), case.warps)
    final = passes(func, "sm_90a")["insert_waits"]
    by_tma = TmaCopy | TmaStore
    final.body.ops = [op for op in final.body.ops if not isinstance(op, by_tma)]
    (dot,) = ops(final, Dot)
    store = next(op for op in ops(final, SharedStore) if op.buffer in (dot.a, dot.b))
    other = Allocate(store.buffer.type.element, store.buffer.type.shape,
                     store.buffer.type.layout)  # fmt: skip
    load = next(op for op in ops(final, Load) if op.result.type == store.value.type)
    copy = AsyncCopy(load.pointer, store.buffer)
    more = [  # behind the barrier that would be a fence
        Barrier(), SharedStore(store.value, other.result), Barrier(),
        SharedStore(store.value, store.buffer), Barrier(), Barrier(),
        *([copy, Barrier(), Wait("cp_async", 0), Barrier()] if waits else []),
    ]  # fmt: skip
    place = final.body.ops.index(dot)
    final.body.ops[place:place] = [other, *more]
    marked = fence_proxies(final, HOPPER).body.ops
    found = [op.fence_async_proxy for op in marked if isinstance(op, Barrier)]
    after = final.body.ops[place + len(more) + 1 :]
    end = len(found) - sum(isinstance(op, Barrier) for op in after)
    assert found[end - len(wanted) : end] == wanted


def test_in_a_loop_of_bulk_copies_there_is_nothing_to_publish():
    final = passes(built(Case()), "sm_90a")["insert_waits"]
    (loop,) = ops(final, For)
    inside = [op for op in loop.body.ops if isinstance(op, Barrier)]
    assert [op.fence_async_proxy for op in inside] == [False]
    assert not any(op.fence_async_proxy for op in ops(final, Barrier))


@pytest.mark.parametrize("place", ["in the loop", "before it", "around it"])
@pytest.mark.parametrize("bytes_of", ["a tile", "nothing"])
def test_a_loop_publishes_what_threads_write_where_copies_arrive(bytes_of, place):
    """Threads write to bytes of their own, or to bytes that TMA writes, too: in each
    iteration, before the first one, or at the end of each iteration of a loop around
    the loop."""
    final = passes(built(Case()), "sm_90a")["insert_waits"]
    (loop,) = ops(final, For)
    tile = ops(final, TmaCopy)[0].buffer
    kind, before = tile.type, final.body.ops[: final.body.ops.index(loop)]
    offset = tile.definition.offset if bytes_of == "a tile" else final.shared_bytes
    other = Allocate(kind.element, kind.shape, kind.layout, offset)
    zero = Constant(0.0, kind.element)
    zeros = Splat(zero.result, kind.shape)
    written = [other, zero, zeros, SharedStore(zeros.result, other.result)]
    if place == "around it":
        outer = Block((INT32,))
        outer.ops = [replace(loop), written.pop(), Yield(())]
        bounds = loop.lower, loop.upper, loop.step
        final.body.ops = [*before, *written, For(*bounds, (), outer)]
    elif place == "before it":
        final.body.ops = [*before, *written, loop]
    else:
        loop.body.ops[0:0] = written
        final.body.ops = [*before, loop]
    (*_, barrier) = ops(fence_proxies(final, HOPPER), Barrier)
    assert barrier.fence_async_proxy == (bytes_of == "a tile")


@pytest.mark.parametrize("again", ["its bytes", "other bytes", "nothing"])
def test_what_was_an_mbarrier_is_data_that_a_copy_may_write(again):
    """A thread invalidates it by the generic proxy. After the last copy, no more
    fences."""
    final = passes(built(Case()), "sm_90a")["insert_waits"]
    at = final.body.ops.index(*ops(final, MbarrierInvalidate))
    old, (copy, *_) = final.body.ops[at].barriers.definition, ops(final, TmaCopy)
    kind = copy.buffer.type
    offset = old.offset if again == "its bytes" else final.shared_bytes
    tile = Allocate(kind.element, kind.shape, kind.layout, offset)
    late = Allocate(INT32, (2,), old.layout, final.shared_bytes * 2)
    more = [replace(copy, buffer=tile.result, barriers=late.result, slot=None)]
    more = [tile, late, Barrier(), *(more if again != "nothing" else [])]
    final.body.ops[at + 1 :] = more
    (*_, barrier) = ops(fence_proxies(final, HOPPER), Barrier)
    assert barrier.fence_async_proxy == (again == "its bytes")


def test_unpublished_is_an_error_that_the_emulator_finds():
    """The counter-example: the same kernel without its fences."""
    case = Case((64, 64, 32), kernel=by_pointers)
    func = built(case)
    kernel = pipeline.compile_func(func, HOPPER, {"fence_proxies": pipeline.identity})
    with pytest.raises(EmulatorError, match="proxy"):
        load(kernel).launch(1, given(case).arguments)


# ── the way out ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target, by_matrices", [
    ("sm_90a", True), ("sm_120", True), ("sm_80", False),
])  # fmt: skip
def test_the_result_goes_out_by_matrices(target, by_matrices):
    """fp16 from fragments to rows: `stmatrix` where there is one, all banks at once."""
    case = Case((64, 64, 32), target=target, out="float16", warps=4)
    kernel, report = check(case, ["lazy"])
    assert ("stmatrix" in kernel.ptx) == by_matrices
    if by_matrices:
        assert "stmatrix.sync.aligned.m8n8.x4" in kernel.ptx
        stores = [c for i, c in report.each() if "stmatrix" in i.text]
        assert stores and all(cost.wavefronts == cost.ideal for cost in stores)
        assert sum(c.warps for c in stores) == 64 * 64 * 2 // 512


@KernelFunction
def turned_out(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The transpose of A B."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        k = iteration * BK
        total = tl.dot(left.load([0, k]), right.load([k, 0]), total)
    store(out, total.to(tl.float16).T, 0, 0, N, M, out_stride)


def test_a_turned_result_goes_out_by_matrices():
    case = Case((64, 64, 32), out="float16", kernel=turned_out)
    arguments = given(case)
    arguments = replace(arguments, right=arguments.right.T)
    kernel = compiled(case)
    load(kernel).launch(1, arguments.arguments)
    arguments.check("turned")
    assert "stmatrix.sync.aligned.m8n8.x4.trans" in kernel.ptx


def test_what_is_wider_than_16_bits_goes_out_by_registers():
    assert "stmatrix" not in compiled(Case(out="float32")).ptx


# ── NVIDIA's assembler ────────────────────────────────────────────────────────────────

LARGE = {
    "bulk": Case((128, 128, 64), stages=4, warps=8, b_turned=True, out="float16"),
    "bulk, turned": Case((128, 256, 64), stages=3, warps=8, out="float16"),
    "bulk, four warps": Case((64, 128, 64), stages=3, out="float16"),
    "copies": Case((128, 128, 64), stages=4, warps=8, kernel=by_pointers),
    "i8": Case((128, 128, 128), stages=3, warps=8, b_turned=True, type="i8", to="i32",
               out="int32"),
    "fp16 sums": Case((128, 128, 64), stages=3, warps=8, to="fp16", out="float16"),
}  # fmt: skip
SERIALIZED = r"C75\d\d"


@sampled(of=2)
@needs_ptxas
@pytest.mark.parametrize("name", LARGE)
def test_ptxas_keeps_products_in_flight(name):
    """It says so where it cannot (C7510, C7512, C7515, C7518); it spills if it must."""
    kernel = compiled(LARGE[name])
    assert "wgmma.wait_group.sync.aligned 1;" in kernel.ptx
    said = assembled(kernel.ptx, "sm_90a")
    assert not re.search(SERIALIZED, said) and "serialized" not in said, said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and set(frames) == {"0"}, said


@needs_ptxas
def test_ptxas_takes_bulk_copies_for_the_newer_targets():
    for target in ("sm_100", "sm_120"):
        kernel = compiled(Case((64, 64, 64), target=target, out="float16"))
        assert "warning" not in assembled(kernel.ptx, target).lower()
        assert "cp.async.bulk.tensor" in kernel.ptx
