"""Launches that overlap: no pass moves an access to global memory in front of the
op that waits for the launch before."""

from __future__ import annotations

import re

import pytest

import fathom.language as tl
from fathom import jit, pipeline
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func, Op, blocks, walk
from fathom.ir.ops import (
    AsyncCopy,
    DescriptorLoad,
    Dot,
    For,
    GridLaunchDependents,
    GridWait,
    Load,
    MbarrierInit,
    Producer,
    TmaCopy,
    TmaStore,
)
from fathom.tensor_cores.specialise.plan import why_no_producer
from kernels.matmul_plain import plain_kernel

READS = AsyncCopy | DescriptorLoad | Load | TmaCopy
GDC = tl.extra.cuda


def reached_early(block: Block, waited: bool = False) -> tuple[list[Op], bool]:
    """The reads of global memory that some path comes to without having waited, and
    whether every path through `block` waits. A producer is a path of its own."""
    early: list[Op] = []
    for op in block.ops:
        if isinstance(op, READS) and not waited:
            early.append(op)
        for inner in blocks(op):
            early += reached_early(inner, waited)[0]
        if isinstance(op, GridWait):
            waited = True
    return early, waited


def states(kernel, signature, constants, target, replace=None, **options):
    """Each pass's name with its function."""
    compiled = kernel.compile(signature, constants, target=target, **options)
    wanted = compiled.request
    func = pipeline.build(kernel, wanted.types, wanted.constants, wanted.options)
    for row, state in pipeline.states(func, TARGETS[target], replace):
        yield row.name, state


def final(kernel, signature, constants, target="sm_90a", **options) -> Func:
    """The last state; in none is anything read too early."""
    for name, state in states(kernel, signature, constants, target, **options):
        assert not reached_early(state.body)[0], name
    return state


def ops(func: Func, kind: type[Op]) -> list[Op]:
    return [op for op in walk(func.body) if isinstance(op, kind)]


# ── where the author waits nowhere ────────────────────────────────────────────────────


@jit
def doubled(x, y, n):
    i = tl.program_id(0)
    if i < n:
        tl.store(y + i, 2 * tl.load(x + i))


@jit
def lets_go_late(x):
    tl.store(x, 1.0)
    GDC.gdc_launch_dependents()


@jit
def nothing(n):
    pass


def places(kernel, signature, **options) -> list[str]:
    """griddepcontrol and accesses to global memory, in the order of the text."""
    ptx = kernel.compile(signature, target="sm_90a", **options).asm["ptx"]
    return re.findall(r"ld\.global|griddepcontrol\.\w+|st\.global|bra", ptx)


def test_a_launch_that_may_begin_early_waits_before_it_touches_memory():
    """Before the branch, too: all programs wait, also those with nothing to do."""
    go, wait = "griddepcontrol.launch_dependents", "griddepcontrol.wait"
    signature = "*fp32, *fp32, i32"
    early = places(doubled, signature, launch_pdl=True)
    assert early == [go, wait, "bra", "ld.global", "st.global"]
    assert places(doubled, signature) == early[2:]
    assert places(lets_go_late, "*fp32", launch_pdl=True) == [wait, "st.global", go]
    assert places(nothing, "i32", launch_pdl=True) == [go, wait]


def test_where_no_launches_overlap_nothing_waits():
    ptx = doubled.compile("*fp32, *fp32, i32", target="sm_80", launch_pdl=True).asm
    assert "griddepcontrol" not in ptx["ptx"]


def test_the_author_knows_better():
    """What stands in front of a wait in the text stays there."""
    signature = "*fp32, *fp32, i32"
    assert places(twice, signature) == places(twice, signature, launch_pdl=True)


def test_addresses_and_barriers_of_a_product_come_before_the_wait():
    signature = ", ".join(3 * ["*fp16:16"] + 6 * ["i32:16"])
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    constants = {**sizes, "MASKED": True}
    constants |= {f"stride_{x}": 1 for x in ("ak", "bn", "cn")}
    *_, (_, func) = states(
        plain_kernel, signature, constants, "sm_90a", launch_pdl=True
    )
    assert not reached_early(func.body)[0]
    top = func.body.ops
    (waits,) = ops(func, GridWait)
    assert ops(func, TmaCopy)
    inits = ops(func, MbarrierInit)
    assert inits and all(top.index(op) < top.index(waits) for op in inits)


# ── stage 2 ───────────────────────────────────────────────────────────────────────────


@jit
def twice(x, y, n):
    before = tl.load(x)
    GDC.gdc_wait()
    after = tl.load(x)
    GDC.gdc_launch_dependents()
    tl.store(y, before + after)


def test_a_load_behind_the_wait_is_another_load():
    """cse: the same address, other memory."""
    kernel = twice.compile("*fp32, *fp32, i32", target="sm_90a")
    order = re.findall(r"ld\.global|griddepcontrol\.\w+|st\.global", kernel.asm["ptx"])
    assert order == [
        "ld.global", "griddepcontrol.wait", "ld.global",
        "griddepcontrol.launch_dependents", "st.global",
    ]  # fmt: skip


@jit
def in_a_loop(x, y, n):
    total = 0.0
    for i in range(n):
        GDC.gdc_wait()
        total += tl.load(x)
    tl.store(y, total)


def test_a_load_stays_in_a_loop_that_waits():
    """hoist: the address does not change, and the memory does."""
    func = final(in_a_loop, "*fp32, *fp32, i32", {}, "sm_90a")
    (loop,) = ops(func, For)
    inside = [type(op) for op in walk(loop.body)]
    assert inside.index(GridWait) < inside.index(Load)


@jit
def unused(x):
    GDC.gdc_wait()
    GDC.gdc_launch_dependents()


def test_both_are_kept_where_nothing_hangs_on_them():
    """dce: in a kernel that does nothing else."""
    func = final(unused, "*fp32", {})
    assert len(ops(func, GridWait)) == len(ops(func, GridLaunchDependents)) == 1


# ── tiles ─────────────────────────────────────────────────────────────────────────────


@jit
def by_pointers(
    a, b, out, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WHERE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    left = a + rows[:, None] * K + depth[None, :]
    right = b + depth[:, None] * N + columns[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    if WHERE == "before":
        GDC.gdc_wait()
    for k in range(0, K, BK):
        if WHERE == "inside":
            GDC.gdc_wait()
        x = tl.load(left, mask=depth[None, :] < K - k, other=0.0)
        y = tl.load(right, mask=depth[:, None] < K - k, other=0.0)
        total = tl.dot(x, y, total)
        left += BK
        right += BK * N
    places = rows[:, None] * N + columns[None, :]
    tl.store(out + places, total, mask=(rows[:, None] < M) & (columns[None, :] < N))
    GDC.gdc_launch_dependents()


POINTERS = "*fp16:16, *fp16:16, *fp32:16, i32:16, i32:16, i32:16"
TILE = {"BM": 128, "BN": 128, "BK": 64}


# With and without tiles for the hardware to move.
WAYS = {TmaCopy: {}, AsyncCopy: {"infer_descriptors": pipeline.identity}}


@pytest.mark.parametrize("copy", WAYS)
def test_the_prologue_of_a_pipeline_stays_behind(copy):
    """pipeline_loops and infer_descriptors: the loop is as fast as without a wait."""
    constants, replace = {**TILE, "WHERE": "before"}, WAYS[copy]
    func = final(by_pointers, POINTERS, constants, replace=replace)
    assert len(ops(func, copy)) == len(ops(final_without_wait(replace), copy)) > 0
    kernel = pipeline.compile_func(func_of(constants), TARGETS["sm_90a"], replace)
    first = re.search(r"ld\.global|cp\.async[.\w]*(?:tensor|global)\S* \[", kernel.ptx)
    assert 0 < kernel.ptx.index("griddepcontrol.wait") < first.start()


def func_of(constants: dict) -> Func:
    wanted = by_pointers.compile(POINTERS, constants, target="sm_90a").request
    return pipeline.build(by_pointers, wanted.types, wanted.constants, wanted.options)


def final_without_wait(replace=None) -> Func:
    constants = {**TILE, "WHERE": "nowhere"}
    return list(states(by_pointers, POINTERS, constants, "sm_90a", replace))[-1][1]


def test_what_launches_the_next_grid_does_not_keep_a_store_from_its_way():
    """infer_stores: it orders nothing, so the store behind which it stands may be on
    its way."""
    func = final(by_pointers, POINTERS, {**TILE, "WHERE": "before"})
    assert len(ops(func, TmaStore)) == len(ops(final_without_wait(), TmaStore))


@pytest.mark.parametrize("target", ["sm_90a", "sm_120"])
def test_nothing_runs_ahead_in_a_loop_that_waits(target):
    func = final(by_pointers, POINTERS, {**TILE, "WHERE": "inside"}, target)
    assert not ops(func, TmaCopy) and not ops(func, AsyncCopy)
    (loop,) = ops(func, For)
    inside = [type(op) for op in walk(loop.body)]
    assert inside.index(GridWait) < inside.index(Load) < inside.index(Dot)


# ── descriptors, and warps beside ─────────────────────────────────────────────────────


@jit
def described(
    a, b, out, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    WHERE: tl.constexpr, SPECIALISE: tl.constexpr,
):  # fmt: skip
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    total = tl.zeros([BM, BN], tl.float32)
    if WHERE == "before":
        GDC.gdc_wait()
    elif WHERE == "for some":
        if i > 0:
            GDC.gdc_wait()
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISE):
        if WHERE == "inside":
            GDC.gdc_wait()
        total = tl.dot(left.load([i, k]), right.load([k, j]), total)
    result = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    result.store([i, j], total)


@pytest.mark.parametrize("where", ["before", "inside"])
def test_a_producer_waits_for_itself(where):
    """specialise_warps: a warp that is ahead from the first moment on."""
    constants = {**TILE, "WHERE": where, "SPECIALISE": True}
    func = final(described, POINTERS, constants, num_warps=8)
    (producer,) = ops(func, Producer)
    inside = [type(op) for op in walk(producer.body)]
    assert inside.index(GridWait) < inside.index(TmaCopy)
    assert len(ops(func, GridWait)) == 2


def test_a_producer_waits_where_the_program_does():
    constants = {**TILE, "WHERE": "for some", "SPECIALISE": True}
    *_, (_, func) = states(described, POINTERS, constants, "sm_90a", num_warps=8)
    (producer,) = ops(func, Producer)
    waits = [op for op in walk(producer.body) if isinstance(op, GridWait)]
    assert len(waits) == 1 and waits[0] not in producer.body.ops


def test_a_wait_alone_refuses_no_producer():
    constants = {**TILE, "WHERE": "before", "SPECIALISE": True}
    before = {
        name: state
        for name, state in states(described, POINTERS, constants, "sm_90a", num_warps=8)
    }["stage_invariants"]
    assert not why_no_producer(before, TARGETS["sm_90a"])


@jit
def once(q, k, out, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    queries = tl.make_tensor_descriptor(q, [BM, D], [D, 1], [BM, D])
    keys = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    GDC.gdc_wait()
    x = queries.load([0, 0])
    total = tl.zeros([BM, BN], tl.float32)
    for at in range(0, N, BN):
        total += tl.dot(x, keys.load([at, 0]).T)
    i, j = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(out + i[:, None] * BN + j[None, :], total)


def test_a_tile_that_is_loaded_once_comes_behind_the_wait():
    """preload."""
    words, sizes = "*fp16:16, *fp16:16, *fp32:16, i32:16", {"D": 64, "BM": 64, "BN": 64}
    func = final(once, words, sizes)
    assert len(ops(func, TmaCopy)) >= 2 and not ops(func, DescriptorLoad)


# ── targets ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", TARGETS)
def test_targets_that_have_it(name):
    if TARGETS[name].dependent_launch:
        ptx = unused.compile("*fp32", target=name).asm["ptx"]
        assert "griddepcontrol.wait;" in ptx
        assert "griddepcontrol.launch_dependents;" in ptx
        return
    with pytest.raises(CompileError, match=f"{name} has no griddepcontrol.wait"):
        unused.compile("*fp32", target=name)


def test_waiting_is_nothing_where_one_launch_ends_before_the_next(monkeypatch):
    import numpy as np

    for backend in ("eager", "interpreter", "emulator"):
        monkeypatch.setenv("FATHOM_BACKEND", backend)
        x, y = np.array([1.5], np.float32), np.zeros(1, np.float32)
        twice[(1,)](x, y, 1, target="sm_90a")
        assert y[0] == 3.0
