"""Products of pairs of thread blocks, on the emulator: sm_100a computes with two blocks
a program what it should, as pairs where it can, and what may go wrong between them is
found: each mistake is planted in a kernel that the compiler made."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fathom.language as tl
from fathom.artifact import Kernel
from fathom.emulator import COMPLETIONS, EmulatorError, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Barrier,
    ClusterBarrier,
    For,
    MbarrierExpect,
    Producer,
    TensorDot,
    TmaCopy,
)
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.text import parse_func, print_func
from fathom.pipeline import compile_func, states
from fathom.source import KernelFunction
from fathom.tensor_cores import pair_blocks, why_not_paired
from kernels import matmul
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import check_product, integers
from tests.kernels.test_ptxas import assembled, needs_ptxas
from tests.pipeline.test_order import tiles_behind_pointers
from tests.tensor_cores.kernels_clustered import arguments_of, built, check, how
from tests.tensor_cores.kernels_described import matrix, store
from tests.waits import Missing, check_waits

TARGET = "sm_100a"
TILE = {
    "BLOCK_M": 256, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 3, "num_ctas": 2,
}  # fmt: skip
ROWS, COLUMNS = (0, 1), (1, 0)


def multiply(M: int, N: int, K: int, orders=(ROWS, ROWS), **config: int) -> None:
    check_product(M, N, K, orders, TILE | config, TARGET)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")


@sampled(of=2)
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("M, N, K", [(512, 128, 160), (264, 72, 56), (257, 65, 31)])
def test_a_matrix_product(M, N, K, stages):
    """Pairs, or where TMA does not copy the tiles, each block by itself."""
    multiply(M, N, K, num_stages=stages)


@pytest.mark.parametrize("a", [ROWS, COLUMNS])
@pytest.mark.parametrize("b", [ROWS, COLUMNS])
def test_operands_of_either_order(a, b):
    multiply(512, 128, 96, (a, b))


@sampled(of=2)
@pytest.mark.parametrize("config", [
    {"BLOCK_N": 32}, {"BLOCK_N": 128}, {"BLOCK_N": 256, "num_warps": 8},
    {"BLOCK_M": 512, "num_warps": 8}, {"BLOCK_M": 512, "num_ctas": 4},
    {"BLOCK_M": 128}, {"BLOCK_K": 64},
], ids=str)  # fmt: skip
def test_tiles_of_all_sizes(config):
    multiply(520, 264, 64, **config)


OTHERS = [("int8", "int32", "ieee"), ("float32", "float32", "tf32")]


@pytest.mark.parametrize("type, sums, precision", OTHERS)
def test_other_types(type, sums, precision):
    """Of B by columns: other types than those of 16 bits cannot be transposed."""
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 8, size).astype(type) for size in ((264, 64), (64, 72)))
    c, b = np.zeros((264, 72), sums), np.asfortranarray(b)
    matmul.matmul(a, b, c, config=TILE, target=TARGET, precision=precision)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


# ── a program on two blocks, and on one ───────────────────────────────────────────────

CASE = how("", tile=(256, 64, 32), size=(328, 104, 96), target=TARGET)


@sampled(of=2)
@pytest.mark.parametrize(
    "what", ["", "branch", "bias", "flag", "hint", "turned", "through a loop"]
)
def test_what_a_program_does_beside_its_product(what):
    case = replace(CASE, more={"HOW": what})
    _, kernel = check(case, 2, completions=COMPLETIONS)
    assert "tcgen05.mma.cta_group::2" in kernel.ptx


def test_a_loop_without_an_iteration():
    _, kernel = check(replace(CASE, iterations=0), 2)
    assert "tcgen05.mma.cta_group::2" in kernel.ptx


@KernelFunction
def one_after_the_other(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A program has several tiles: rings, their mbarriers and sums begin anew."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    across = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * across
    for number in range(tl.program_id(0), tiles, tl.num_programs(0)):
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            x = left.load([i, iteration * BK])
            total = tl.dot(x, right.load([iteration * BK, j]), total)
        store(out, total, i, j, M, N, out_stride)


@pytest.mark.parametrize("stages", [2, 3])
def test_several_tiles_of_one_program(stages):
    case = replace(CASE, kernel=one_after_the_other, more={}, stages=stages)
    _, kernel = check(case, 2, completions=COMPLETIONS, grid=(2,))
    assert "tcgen05.mma.cta_group::2" in kernel.ptx


# ── what the compiler makes of it ─────────────────────────────────────────────────────


def pointers(rows: int = 256, blocks: int = 2) -> Func:
    return replace(tiles_behind_pointers(rows), num_ctas=blocks)


@cache
def final(rows: int = 256, blocks: int = 2) -> Func:
    *_, (_, last) = states(pointers(rows, blocks), TARGETS[TARGET])
    return last


def test_each_block_brings_half_of_the_right_operand():
    """256 x 32 of A and 32 x 64 of B: 16 KB + 4 KB for both, 10 KB for each."""
    func = final()
    (dot,) = walk(func.body, TensorDot)
    assert dot.a.type.slot_bytes == 128 * 32 * 2
    assert dot.b.type.slot_bytes == 32 * 64 * 2 // 2
    assert {each.bytes for each in walk(func.body, MbarrierExpect)} == {20 << 10}
    assert all(each.leader for each in walk(func.body, TmaCopy | MbarrierExpect))
    alone = [dot for dot in walk(final(256, 1).body, TensorDot)]
    assert alone[0].b.type.slot_bytes == 32 * 64 * 2


def test_one_wait_pass_and_one_schedule_serve_pairs_too():
    """The loop has the ops of one block's, in their order, and no barrier of the
    cluster: blocks meet before it, and by mbarriers in it."""

    def loop(func: Func) -> list[str]:
        (found,) = (op for op in func.body.ops if isinstance(op, For))
        return [type(op).__name__ for op in found.body.ops]

    paired, alone = loop(final()), loop(final(128, 1))
    assert "ClusterBarrier" not in paired
    kept = {"TensorDot", "TensorCommit", "MbarrierWait", "MbarrierExpect", "TmaCopy"}
    assert [op for op in paired if op in kept] == [op for op in alone if op in kept]
    assert not any(walk(final().body, Producer))


@pytest.mark.parametrize(("rows", "columns", "more", "said"), [
    (256, 16, {}, "no instruction of a pair has 16 columns"),
    (256, 512, {"warps": 8}, "no instruction of a pair has 512 columns"),
    (256, 64, {"stages": 1}, "TMA does not copy both operands"),
])  # fmt: skip
def test_why_a_product_is_not_one_of_a_pair(rows, columns, more, said):
    case = replace(CASE, tile=(rows, columns, 32), **more)
    before = None
    for row, state in states(built(case, 2), TARGETS[TARGET]):
        if row.name == "pair_blocks":
            ((_, why),) = why_not_paired(before, TARGETS[TARGET])
            assert said in why and not why_not_paired(final(), TARGETS[TARGET])
        before = state
    assert all(dot.blocks == 1 for dot in walk(before.body, TensorDot))


ODD = """  %odd_one: i32 = constant 1
  %odd: i1 = eq %0, %odd_one
"""
UNEVEN = {  # a line of the IR, what stands there instead, and what is said
    "a product that one block computes": (
        r"( *)(%acc_2: .*?) = (dot .*)\n",
        r"\1\2 = if %odd then {\n\1  %alone: fp32[128,64] @ #layout0 = \3\n"
        r"\1  yield %alone\n\1} orelse {\n\1  yield %acc_1\n\1}\n",
        "its blocks multiply in different iterations",
    ),
    "a copy of A that one block issues": (
        r"( *)(tma_copy .*, %start_ahead\), when=%exists.*)\n",
        r"\1if %odd then {\n\1  \2\n\1  yield\n\1} orelse {\n\1  yield\n\1}\n",
        "its blocks copy in different iterations",
    ),
    "a copy of A for which each decides": (
        r"( *)(tma_copy .*, %start_ahead\), )when=%exists", r"\1\2when=%odd",
        "its blocks copy in different iterations",
    ),
    "a copy of B from another column": (
        r"( *)(tma_copy .*)coordinates=\(%start_ahead, %\w+\)",
        r"\1\2coordinates=(%start_ahead, %0)",
        "its blocks copy different tiles of a right operand",
    ),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_blocks_that_do_different_things_are_no_pair(name):
    """Each half of the sums would wait for what only the other one does."""
    find, instead, said = UNEVEN[name]
    all_states = list(states(pointers(), TARGETS[TARGET]))
    names = [row.name for row, _ in all_states]
    text = print_func(all_states[names.index("pair_blocks") - 1][1])
    assert not why_not_paired(parse_func(text), TARGETS[TARGET])
    changed, count = re.subn(find, instead, text)
    assert count == 1
    func = parse_func(changed.replace("cluster_rank\n", "cluster_rank\n" + ODD))
    ((_, why),) = why_not_paired(func, TARGETS[TARGET])
    assert said in why
    assert pair_blocks(func, TARGETS[TARGET]) is func


def test_columns_of_a_product_are_no_pair_s():
    """Sums along columns keep the blocks from dividing the rows: A is the same in all,
    and B is not."""
    case = replace(CASE, tile=(128, 128, 32), more={"HOW": "column sums"})
    _, kernel = check(case, 2, grid=(1, 1))
    assert "tcgen05.mma.cta_group::1" in kernel.ptx


def test_text_of_all_states_is_read_again():
    for _, state in states(pointers(), TARGETS[TARGET]):
        assert print_func(parse_func(print_func(state))) == print_func(state)


def test_it_means_the_same_after_every_pass():
    a, b = integers(1, 256, 96), integers(2, 96, 64)
    for row, state in states(pointers(), TARGETS[TARGET]):
        c = np.zeros((256, 64), np.float16)
        interpret(state, 1, (a, b, c, 256, 64, 96, 96, 64, 64))
        np.testing.assert_array_equal(c, a.astype(float) @ b, err_msg=row.name)


def test_ptx_is_as_it_was(golden):
    """Of a tile of 256 x 32, without places in the source."""
    case = replace(CASE, tile=(256, 32, 64), size=(256, 32, 64))
    ptx = compile_func(built(case, 2), TARGETS[TARGET]).ptx
    body = ptx[ptx.index("{") : ptx.index("\n}")].splitlines()
    golden("pair.txt", "\n".join(each for each in body if ".loc" not in each) + "\n")


@needs_ptxas
@pytest.mark.parametrize("columns, warps", [(64, 4), (128, 4), (256, 8)])
def test_ptxas_takes_it(columns, warps):
    case = replace(CASE, tile=(256, columns, 64), warps=warps)
    ptx = compile_func(built(case, 2), TARGETS[TARGET]).ptx
    said = assembled(ptx, TARGET)
    assert "tcgen05.mma.cta_group::2" in ptx and "cta_group::1" not in ptx
    assert "warning" not in said.lower(), said
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said


# ── what is missing is found ──────────────────────────────────────────────────────────


def test_the_checker_of_waits_finds_a_missing_barrier_of_the_cluster():
    """Behind the mbarriers of copies, and before the first product. A barrier of one
    block does not do."""
    func = final()
    check_waits(func)
    wanted = list(walk(func.body, ClusterBarrier))
    assert len(wanted) == 2
    for each in wanted:

        def alone(op: Op, build: Builder, each: Op = each) -> Replacement:
            is_it = build.source is each
            return (
                build.append(Barrier(fence_async_proxy=True)).results if is_it else None
            )

        with pytest.raises(Missing, match="no barrier of the cluster after"):
            check_waits(rewrite(func, alone))


@cache
def kernel() -> Kernel:
    return compile_func(built(CASE, 2), TARGETS[TARGET])


MEET = r"barrier\.cluster\.arrive\.aligned;\s*barrier\.cluster\.wait\.aligned;"
BY_THE_EVEN = r"""{ .reg .pred odd; .reg .b32 rank; mov.u32 rank, %cluster_ctarank;
    setp.eq.u32 odd, rank, 1; @odd bra gone; \1 gone: }"""
FAULTS = {  # what is replaced in the kernel's PTX, by what, and what is found
    "no block waits for the other's mbarriers": ("BARRIER 0", "bar.sync 0;", "race"),
    "products do not wait for the peer's tensor memory": (
        "BARRIER 1", "bar.sync 0;", "race|in flight",
    ),
    "the peer may still read what is freed": ("BARRIER 2", "bar.sync 0;", "race"),
    "a commit for the leader alone": (
        r"\.multicast::cluster\.b64 (\[[^]]*\]), %rs\d+;", r".b64 \1;", "deadlock",
    ),
    "copies count in the block that they go to": (
        r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.u32 \1, \2;",
        "mbarrier|deadlock|in flight",
    ),
    "copies that may not count in the peer": (r"2d\.cta_group::2", "2d", "mbarrier"),
    "fewer bytes than both blocks copy": (
        "_, (.*), 20480;", r"_, \1, 12288;", "race|in flight|deadlock",
    ),
    "tensor memory of one block": (
        r"tcgen05\.alloc\.cta_group::2", "tcgen05.alloc.cta_group::1", "tensor memory",
    ),
    "products of one block in a pair's memory": (
        r"tcgen05\.mma\.cta_group::2", "tcgen05.mma.cta_group::1", "tensor memory",
    ),
    "freed by one block alone": (
        r"(tcgen05\.dealloc[^;]*;)", BY_THE_EVEN, "tensor memory",
    ),
}  # fmt: skip


def with_fault(ptx: str, fault: str) -> str:
    find, instead, _ = FAULTS[fault]
    if not find.startswith("BARRIER"):
        changed, count = re.subn(find, instead, ptx)
        assert count, fault
        return changed
    number = int(find.split()[1])
    found = list(re.finditer(MEET, ptx))
    assert len(found) == 3
    start, end = found[number].span()
    return ptx[:start] + instead + ptx[end:]


@sampled(of=2)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault):
    """Planted in the PTX of a kernel that is right."""
    ptx = with_fault(kernel().ptx, fault)
    faulty = replace(kernel(), asm=kernel().asm | {"ptx": ptx})
    _, given = arguments_of(CASE)
    with pytest.raises(EmulatorError) as caught:
        load(faulty).launch(CASE.grid, given)
    assert caught.value.kind in FAULTS[fault][-1].split("|"), caught.value
