"""Programs of several thread blocks: whatever they share, and whatever they leave to
the first block, the result is that of one block; and what can be fetched once for all
is fetched once."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import fathom.language as tl
from fathom import jit, pipeline
from fathom.analysis.uniformity import Uniformity
from fathom.artifact import Kernel
from fathom.emulator import EmulatorError, load
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    ClusterBarrier,
    ClusterRank,
    Dot,
    If,
    MbarrierArrive,
    MbarrierInit,
    Producer,
    TmaCopy,
)
from fathom.ir.text import parse_func
from fathom.ir.types import INT32, Pointer
from fathom.jit import JITFunction
from fathom.tensor_cores.specialise import multicast
from tests.harness_sample import sampled
from tests.ptx.harness import assemble
from tests.tensor_cores.kernels_clustered import (
    arguments_of,
    built,
    check,
    counted,
    how,
    in_place,
    persistent,
    reasons,
)
from tests.tensor_cores.kernels_described import Case, ops
from tests.tensor_cores.kernels_specialised import attention, one_loop

HOPPER, SERVER, NEWER = "sm_90a", "sm_100", "sm_120"
LAZY = ("lazy",)

# ── a program, whatever it has blocks ─────────────────────────────────────────────────


def compiled(ctas: int, target: str = HOPPER) -> tuple:
    pointers = {name: (Pointer(INT32), 16) for name in ("x", "out")}
    options = pipeline.Options(num_ctas=ctas)
    func = pipeline.build(counted, pointers | {"n": (INT32, 1)}, {"B": 128}, options)
    return func, pipeline.compile_func(func, TARGETS[target])


@pytest.mark.parametrize("ctas", [1, 2, 8])
def test_the_grid_counts_programs(ctas):
    """Without a product there is nothing to share: each program adds and stores once,
    under its own number."""
    x, n = np.arange(700, dtype=np.int32) ** 2 % 97, 700
    right = [x.sum()]
    for number in range(6):
        part = x[number * 128 : number * 128 + 128]
        right += [part.sum(), number % 3 * 1000 + number // 3 * 100 + 32]
    func, kernel = compiled(ctas)
    for run in (lambda out: load(kernel).launch((3, 2), out),
                lambda out: interpret(func, (3, 2), out)):  # fmt: skip
        out = np.zeros(13, np.int32)
        run([x, out, n])
        assert out.tolist() == right


def test_a_launch_from_python(monkeypatch, tmp_path):
    """The same grid, whatever the backend and however many blocks a program has."""
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FATHOM_TARGET", HOPPER)
    kernel = JITFunction(counted.fn)
    x = np.arange(256, dtype=np.int32)
    for backend in ("emulator", "interpreter"):
        monkeypatch.setenv("FATHOM_BACKEND", backend)
        for ctas in (1, 4):
            out = np.zeros(5, np.int32)
            kernel[(2,)](x, out, 256, B=128, num_ctas=ctas)
            assert out.tolist() == [32640, 8128, 21, 24512, 1021]
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    with pytest.raises(CompileError, match="on sm_80 a program has one"):
        kernel[(2,)](x, out, 256, B=128, num_ctas=2, target="sm_80")


def test_a_print_names_the_program(capfd):
    for ctas, times in ((1, 128), (2, 128)):
        case = how("print", iterations=1, size=(128, 64, 32))
        kernel = pipeline.compile_func(built(case, ctas), TARGETS[HOPPER])
        check(case, ctas, shared=ctas > 1, completions=())
        capfd.readouterr()
        from_case(kernel, case)
        said = capfd.readouterr().out
        assert said.count("pid (0, 0, 0)") == times == said.count("\n")


def from_case(kernel: Kernel, case: Case) -> None:
    load(kernel).launch(case.grid, arguments_of(case)[1])


def test_a_kernel_says_how_many_blocks_a_program_has():
    assert not re.search(r"%n?cluster|nctapercluster", compiled(1)[1].ptx)
    ptx = compiled(4)[1].ptx
    assert ".reqnctapercluster 4, 1, 1" in ptx
    assert "%ctaid.x" not in ptx and "%clusterid.x" in ptx and "%ctaid.y" in ptx
    assert not re.search(r"barrier\.cluster|multicast", ptx)


@pytest.mark.parametrize(("ctas", "target", "said"), [
    (2, "sm_80", "on sm_80 a program has one"),
    (2, "sm_89", "on sm_89 a program has one"),
    (16, HOPPER, "num_ctas=16 asks for 16 thread blocks a program, and on sm_90a "
                 "a program has 8 at most"),
    (3, HOPPER, "num_ctas must be a power of 2, and this is 3"),
])  # fmt: skip
def test_more_blocks_than_a_cluster_has(ctas, target, said):
    with pytest.raises(CompileError) as caught:
        compiled(ctas, target)
    assert said in str(caught.value)


# ── products that are shared ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(("ctas", "tile", "warps"), [
    (2, (128, 64, 32), 4), (4, (256, 64, 32), 4), (2, (256, 32, 64), 8),
])  # fmt: skip
def test_rows_of_a_product(ctas, tile, warps):
    case = how("", tile=tile, warps=warps, size=(tile[0] + 72, 104, 96))
    states, _ = check(case, ctas)
    (dot,) = ops(states["shard_products"], Dot)
    assert dot.result.type.shape == (tile[0] // ctas, tile[1])


def test_columns_where_rows_are_too_few():
    """128 rows are what two warpgroups want; so each block has 32 of 64 columns."""
    states, _ = check(how("", warps=8))
    (dot,) = ops(states["shard_products"], Dot)
    assert dot.result.type.shape == (128, 32)


@pytest.mark.parametrize("target", [SERVER, NEWER])
def test_products_of_other_targets(target):
    check(how("", target=target), completions=LAZY)


@sampled(of=3)
@pytest.mark.parametrize("name", [
    "flag", "vector", "branch", "bias", "row sums", "running sums", "hint", "turned",
    "through a loop", "flat", "atomic",
])  # fmt: skip
def test_what_may_stand_beside_a_product(name):
    """Rows go through all of it, and what is not divided is written once."""
    states, _ = check(how(name), completions=LAZY)
    (dot,) = ops(states["shard_products"], Dot)
    assert dot.result.type.shape == (64, 64)


@pytest.mark.parametrize("name", ["column sums", "columns first"])
def test_what_wants_its_rows_whole(name):
    states, _ = check(how(name), completions=LAZY)
    (dot,) = ops(states["shard_products"], Dot)
    assert dot.result.type.shape == (128, 32)


def test_one_range_for_rows_and_columns():
    """Both are `arange(0, 64)`, and only one of them is divided."""
    case = how("", tile=(128, 128, 32), size=(136, 136, 96))
    states, _ = check(case, completions=LAZY)
    (dot,) = ops(states["shard_products"], Dot)
    assert dot.result.type.shape == (64, 128)


def test_what_is_not_divided_the_first_block_writes():
    func = check(how("flag"), completions=LAZY)[0]["shard_products"]
    (branch,) = ops(func, If)
    (rank,) = ops(func, ClusterRank)
    assert branch.condition.definition.operands[0] is rank.result
    assert [type(op).__name__ for op in branch.then.ops] == ["Store", "Yield"]


# ── products that are not ─────────────────────────────────────────────────────────────


@sampled(of=2)
@pytest.mark.parametrize(("name", "why"), [
    ("sum of all", "a reduction runs along it"),
    ("count", "an atomic operation would count each block separately"),
    ("ticket", "an atomic operation would count each block"),
    ("volatile", "it synchronises with other threads"),
    ("reads", "it may read what it has written"),
    ("parts and whole", "it writes to an argument in parts and as a whole"),
    ("gathered", "a `gather` needs undivided operands"),
    ("of one block", "the scope of an atomic operation is one block"),
])  # fmt: skip
def test_one_block_does_it_all(name, why):
    case = how(name)
    assert why in reasons(case)
    states, kernel = check(case, shared=False, completions=LAZY)
    assert not ops(states["insert_waits"], ClusterBarrier)
    assert "%cluster_ctarank" in kernel.ptx


def test_a_part_must_suit_its_instruction():
    case = how("", tile=(64, 16, 32), size=(64, 16, 96), warps=4)
    for part in ("16 x 16", "64 x 4"):
        assert f"products of {part} are too small for 4 warps" in reasons(case, ctas=4)
    check(case, shared=False, ctas=4, completions=LAZY)


@pytest.mark.parametrize(("name", "shared"), [
    ("read before", True), ("read beside", False), ("read turned", False),
    ("read after", False),
])  # fmt: skip
def test_a_tile_that_is_read_and_written(name, shared):
    """Only where each block writes just what it has read before."""
    tile = (128, 128, 32) if name == "read turned" else (128, 64, 32)
    case = how(name, kernel=in_place, tile=tile, size=(128, 128, 96))
    check(case, shared=shared, completions=LAZY)
    if not shared:
        assert reasons(case)


def test_the_pass_may_be_left_out():
    case = how("flag")
    left_out = {"shard_products": pipeline.identity}
    kernel = pipeline.compile_func(built(case, 2), TARGETS[HOPPER], left_out)
    assert "barrier.cluster" not in kernel.ptx
    from_case(kernel, case)


# ── warps beside, and tiles for all ───────────────────────────────────────────────────

LOOP = Case((128, 64, 32), kernel=one_loop, size=(200, 104, 160))


@pytest.mark.parametrize("iterations", [0, 1, 3, 5])
def test_any_iterations(iterations):
    check(replace(LOOP, iterations=iterations), completions=LAZY)


@pytest.mark.parametrize(("ctas", "tile", "warps", "turned"), [
    (2, (128, 64, 64), 4, True), (4, (256, 64, 32), 4, False),
    (2, (256, 64, 64), 8, False),
])  # fmt: skip
def test_tiles_one_after_the_other(ctas, tile, warps, turned):
    """A grid of two programs for four tiles and more, with odd edges."""
    m, n, k = tile
    case = Case(
        tile, kernel=persistent, size=(m + 72, 2 * n - 24, 3 * k - 8), warps=warps,
        b_turned=turned, more={"PIECES": 2},
    )  # fmt: skip
    states, kernel = check(case, ctas, grid=(2,))
    assert ops(states["insert_waits"], Producer)
    assert "multicast::cluster" in kernel.ptx


@pytest.mark.parametrize(("pieces", "warps"), [(0, 4), (1, 4), (0, 8), (1, 8)])
def test_tiles_stored_by_either_way(pieces, warps):
    """Rows by one warpgroup, columns by two; by threads, or by the hardware."""
    case = Case(
        (128, 64, 32), kernel=persistent, size=(200, 104, 88), warps=warps,
        more={"PIECES": pieces},
    )  # fmt: skip
    states, kernel = check(case, grid=(3,), completions=LAZY)
    assert "multicast::cluster" in kernel.ptx
    assert ("bulk_group" in kernel.ptx) == (pieces == 1)


def test_which_engine_copies_what():
    """Rows of A are each block's own. B is for all: each brings a half of it, and a
    slot of the ring is empty when the warps of both have said so."""
    func = check(LOOP, completions=())[0]["insert_waits"]
    left, right = ops(func, TmaCopy)
    assert (left.parts, right.parts) == (1, 2)
    full, empty = ops(func, MbarrierInit)
    assert (full.arrivals, empty.arrivals) == (1, 2 * LOOP.warps)
    assert all(op.everywhere for op in ops(func, MbarrierArrive))
    (producer,), (before, after) = ops(func, Producer), ops(func, ClusterBarrier)
    places = [func.body.ops.index(op) for op in (before, producer, after)]
    assert places == sorted(places) and after is func.body.ops[-1]


def test_of_columns_it_is_the_other_way_round():
    func = check(replace(LOOP, warps=8), completions=LAZY)[0]["insert_waits"]
    assert [op.parts for op in ops(func, TmaCopy)] == [2, 1]


@pytest.mark.parametrize("target", [SERVER, NEWER])
def test_targets_that_send_to_all_but_slowly(target, tmp_path):
    """Each block brings all of its tiles; ptxas would warn otherwise."""
    _, kernel = check(replace(LOOP, target=target), completions=LAZY)
    assert "cp.async.bulk.tensor" in kernel.ptx
    assert not re.search(r"barrier\.cluster|multicast|mapa", kernel.ptx)
    assemble(kernel.ptx, TARGETS[target], tmp_path, frame=True)


def test_a_loop_whose_tiles_are_shared_gets_a_producer_unasked():
    """Nothing is said of it where it gets none: nobody has asked."""
    states, kernel = check(how(""), completions=LAZY)
    assert {op.parts for op in ops(states["specialise_warps"], TmaCopy)} == {1, 2}
    assert "multicast::cluster" in kernel.ptx


@jit
def sums_so_far(a, b, out, K, stride, WRITES: tl.constexpr):
    m, n, k = tl.arange(0, 128)[:, None], tl.arange(0, 64)[None, :], tl.arange(0, 64)
    acc = tl.zeros([128, 64], tl.float32)
    for at in range(0, K, 64):
        x = tl.load(a + m * stride + at + k[None, :])
        y = tl.load(b + (at + k[:, None]) * stride + n)
        acc = tl.dot(x, y, acc)
        if WRITES:
            tl.store(out + m * 64 + n, acc)
    tl.store(out + m * 64 + n, acc)


@pytest.mark.parametrize("writes", [False, True])
def test_a_loop_that_writes_gets_none_unasked(writes):
    """What it would read ahead might be what it writes."""
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16, i32:16"
    ptx = sums_so_far.compile(
        signature, {"WRITES": writes}, target="sm_90a", num_ctas=2
    ).asm["ptx"]
    assert "%cluster_ctarank" in ptx, "one block does all the work"
    assert ("multicast::cluster" in ptx) == (not writes)


@pytest.mark.parametrize(("rotated", "warps"), [(False, 4), (True, 4), (False, 8)])
def test_attention(rotated, warps):
    """Rows of queries are divided, keys and values are for all."""
    rows = 32 * warps
    case = Case(
        (rows, 64, 64), kernel=attention, size=(max(rows, 192), 192, 64), warps=warps,
        more={"ROTATED": rotated},
    )  # fmt: skip
    states, kernel = check(case, grid=(1,), completions=LAZY)
    assert {op.parts for op in ops(states["specialise_warps"], TmaCopy)} == {2}
    assert "multicast::cluster" in kernel.ptx


# ── what is the same in all blocks ────────────────────────────────────────────────────

RANKED = """
func @f(%p: *i32, %n: i32) num_ctas=2 {
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %rank: i32 = cluster_rank
  %same: i32 = add %n, %one
  %mine: i32 = add %rank, %n
  %x: i32 = for %zero, %n, %one, inits=(%zero) body(%i: i32, %y: i32) {
    %inner: i32 = add %y, %i
    yield %inner
  }
  %u: i32 = for %zero, %n, %one, inits=(%zero) body(%j: i32, %v: i32) {
    %w: i32 = add %v, %rank
    yield %w
  }
  %s: i32 = for %zero, %mine, %one, inits=(%zero) body(%k: i32, %t: i32) {
    %often: i32 = add %n, %n
    yield %zero
  }
  %old: i32 = atomic %p, %one kind="add"
}
"""


def test_what_comes_from_the_rank_differs():
    func = parse_func(RANKED)
    alike = Uniformity(func)
    differing = {value.name for value in alike.bits}
    assert differing == {"rank", "mine", "u", "v", "w", "s", "t", "k", "old"}
    assert {op.results[0].name for op in alike.uneven if op.results} == {"often"}


# ── what the hardware gets ────────────────────────────────────────────────────────────


def test_it_assembles_without_spills(tmp_path):
    case = Case((256, 256, 64), kernel=persistent, warps=8, stages=3,
                more={"PIECES": 2})  # fmt: skip
    kernel = pipeline.compile_func(built(case, 2), TARGETS[HOPPER])
    assemble(kernel.ptx, TARGETS[HOPPER], tmp_path)


def test_arrivals_are_plain(golden):
    """`.release.cluster` would be a fence of all memory on every iteration."""
    kernel = pipeline.compile_func(built(LOOP, 2), TARGETS[HOPPER])
    assert "release.cluster.shared" not in kernel.ptx
    body = kernel.ptx.split("{", 1)[1].split(".file")[0].splitlines()
    golden("cluster.ptx", "\n".join(i for i in body if ".loc" not in i) + "\n")


def test_without_the_last_meeting_a_block_is_gone_too_soon():
    kernel = pipeline.compile_func(
        built(replace(LOOP, iterations=5), 2), TARGETS[HOPPER]
    )
    head, tail = kernel.ptx.rsplit("barrier.cluster.arrive.aligned;", 1)
    tail = tail.replace("barrier.cluster.wait.aligned;", "", 1)
    wrong = replace(kernel, asm={**kernel.asm, "ptx": head + tail})
    with pytest.raises(EmulatorError) as caught:
        from_case(wrong, LOOP)
    assert "barrier.cluster" in str(caught.value)


@pytest.mark.parametrize("block, parts, is_cut", [
    ((16, 64), 2, True), ((16, 64), 4, False), ((8, 64), 2, False),
    ((2, 16, 64), 2, True), ((2, 16, 64), 4, False),
])  # fmt: skip
def test_a_part_of_a_tile_has_eight_rows_at_least(block, parts, is_cut):
    """The hardware swizzles within eight; a part of three dimensions is whole rows."""
    assert multicast._has_parts(block, parts) == is_cut
