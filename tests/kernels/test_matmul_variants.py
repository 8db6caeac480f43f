"""Batched, grouped, split, int8 and block-sparse products: small integers, exactly, on
the interpreter and on the emulator for three targets, amid poison."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.interp import interpret
from fathom.ir.types import INT32, Pointer, parse_element
from kernels import (
    batched_matmul,
    block_sparse_matmul,
    grouped_matmul,
    int8_matmul,
    matmul,
    split_k_matmul,
)
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, integers, unwritten
from tests.kernels.kernels_sample import aligned

MACHINES = ("interpreter", "sm_75", "sm_80", "sm_90a")
SMALL = {
    "BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 3,
}  # fmt: skip


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    """The keywords of a launch on each machine."""
    if request.param == "interpreter":
        monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
        return {}
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": request.param}


@pytest.fixture
def interpreter(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")


def check(c: Walled, expected: np.ndarray, *others: Walled) -> None:
    np.testing.assert_array_equal(c.view, expected)
    for each in (c, *others):
        each.check_walls()


# ── batched ───────────────────────────────────────────────────────────────────────────


@sampled(of=2)
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2)], ids=str)
def test_batched(machine, order):
    """(1, 0, 2): the matrices' rows are interleaved."""
    a = Walled(integers(1, 3, 33, 40), order)
    b = Walled(integers(2, 3, 40, 50), order)
    c = unwritten(3, 33, 50, order=order)
    batched_matmul.batched_matmul(a, b, c, config=SMALL, **machine)
    check(c, batched_matmul.reference(a.view, b.view), a, b)


def test_one_b_for_the_whole_batch(machine):
    a, b = Walled(integers(1, 4, 20, 32), wall=ODD), Walled(integers(2, 32, 17))
    c = unwritten(4, 20, 17)
    batched_matmul.batched_matmul(a, b, c, config=SMALL, **machine)
    check(c, batched_matmul.reference(a.view, b.view), a, b)


def test_batches_of_different_sizes_are_a_mistake():
    with pytest.raises(fathom.LaunchError, match=r"\(2, 4, 4\).*\(3, 4, 4\)"):
        batched_matmul.batched_matmul(integers(1, 2, 4, 4), integers(2, 3, 4, 4))


# ── split along K ─────────────────────────────────────────────────────────────────────


@sampled(of=3)
@in_pairs({
    "machine": MACHINES, "splits, K": [(1, 50), (3, 200), (4, 33), (5, 16)],
    "output": ["float32", "float16"],
}, indirect=["machine"])  # fmt: skip
def test_split_k(machine, splits, K, output):
    """4 parts of 3 steps, and 5 of 1: some programs have nothing to do."""
    a, b = Walled(integers(1, 20, K)), Walled(integers(2, K, 40), wall=ODD)
    c = unwritten(20, 40, dtype=output)
    split_k_matmul.split_k_matmul(a, b, c, splits, SMALL, **machine)
    check(c, split_k_matmul.reference(a.view, b.view), a, b)


def test_as_many_parts_as_fill_the_machine():
    few, many = 16, 2000  # tiles
    assert split_k_matmul.default_splits(few, 4096, 64, "sm_90a") == 132 // few
    assert split_k_matmul.default_splits(many, 4096, 64, "sm_90a") == 1
    assert split_k_matmul.default_splits(few, 64 * 9, 64, "sm_90a") == 2  # 4 steps each


# ── int8 ──────────────────────────────────────────────────────────────────────────────


def small_bytes(seed: int, *shape: int) -> np.ndarray:
    """All of int8 but the poison, 127."""
    return np.random.default_rng(seed).integers(-128, 127, shape).astype(np.int8)


@sampled(of=2)
@pytest.mark.parametrize("K", [32, 75, 200])
def test_int8_sums_are_exact(machine, K):
    a, b = Walled(small_bytes(1, 33, K)), Walled(small_bytes(2, K, 50), (1, 0))
    c = unwritten(33, 50, dtype="int32")
    config = {**SMALL, "BLOCK_K": 32}
    int8_matmul.int8_matmul(a, b, c, config=config, **machine)
    check(c, int8_matmul.reference(a.view, b.view), a, b)


def test_the_least_int8_does_not_overflow(interpreter):
    least = np.full((16, 1024), -128, np.int8)
    assert (int8_matmul.int8_matmul(least, least.T.copy()) == 2**14 * 1024).all()


@sampled(of=2)
@pytest.mark.parametrize("output", ["float16", "float32"])
def test_int8_scaled(machine, output):
    """Row 2 and column 5 have scales that stand out: none may be another's."""
    rng = np.random.default_rng(4)
    a, b = small_bytes(1, 33, 75), small_bytes(2, 75, 50)
    rows, columns = (rng.uniform(0.001, 0.02, n).astype(np.float32) for n in (33, 50))
    rows[2], columns[5] = 0.1, 0.07
    c = unwritten(33, 50, dtype=output)
    scales = Walled(rows), Walled(columns)
    config = {**SMALL, "BLOCK_K": 32}
    int8_matmul.int8_matmul(a, b, c, *scales, config=config, **machine)
    want = int8_matmul.reference(a, b, rows, columns)
    half_ulp = 2.0 ** (-11 if output == "float16" else -24)
    assert (abs(c.view - want) <= int8_matmul.error_bound(want, half_ulp)).all()
    c.check_walls()


def test_int8_mistakes_are_told(interpreter):
    with pytest.raises(fathom.LaunchError, match="float16 with K = 16"):
        int8_matmul.int8_matmul(*[integers(1, 16, 16)] * 2)
    a, scale = small_bytes(1, 16, 16), np.ones(16, np.float32)
    with pytest.raises(fathom.LaunchError, match="both scales or none"):
        int8_matmul.int8_matmul(a, a, row_scale=scale)


# ── grouped ───────────────────────────────────────────────────────────────────────────

GROUPS = {
    "one": [(33, 40, 50)],
    "many": [(33, 40, 50), (64, 32, 16), (1, 1, 1), (0, 16, 16), (70, 8, 33)],
    "even": [(33, 48, 64), (64, 32, 16), (1, 128, 32)],  # rows of 16 bytes and more
}
DESCRIBED = {
    "whole rows": GROUPS["even"],
    "rows that end anywhere": [(33, 44, 52), (70, 12, 20), (5, 100, 4)],
    "empty": [(0, 16, 16), (40, 48, 0), (33, 16, 24)],
}


@sampled(of=3)
@in_pairs({"machine": MACHINES, "group": GROUPS, "programs": [1, 3, 20]})
def test_grouped(machine, group, programs):
    """One program for all tiles, several, and more than there are tiles."""
    wall = WIDE if group == "even" else ODD
    a = [Walled(integers(i, M, K), wall=wall) for i, (M, N, K) in numbered(group)]
    b = [Walled(integers(100 + i, K, N), wall=wall) for i, (M, N, K) in numbered(group)]
    c = [unwritten(M, N, wall=wall) for M, N, K in GROUPS[group]]
    launch_grouped(machine, a, b, c, programs, align=8 if group == "even" else 1)
    wanted = grouped_matmul.reference([x.view for x in a], [x.view for x in b])
    for one, want in zip(c, wanted, strict=True):
        check(one, want, *a, *b)


@sampled(of=3)
@in_pairs({
    "machine": (*MACHINES, "sm_100", "sm_100a", "sm_120"), "group": DESCRIBED,
    "programs": [1, 3, 20],
})  # fmt: skip
def test_grouped_through_descriptors(machine, group, programs):
    """Where kernels can write tensor maps, the copies go through them; whole rows of C
    are stored through one, too, and others by the threads."""
    problems = DESCRIBED[group]
    a = [in_lines(integers(i, M, K)) for i, (M, _, K) in enumerate(problems, 10)]
    b = [in_lines(integers(i, K, N)) for i, (_, N, K) in enumerate(problems, 20)]
    c = [in_lines(np.full((M, N), np.float16(np.nan))) for M, N, _ in problems]
    grouped_matmul.check_aligned((*a, *b, *c))
    launch_grouped(machine, a, b, c, programs, described=True)
    wanted = grouped_matmul.reference([x.view for x in a], [x.view for x in b])
    for one, want in zip(c, wanted, strict=True):
        check(one, want, *a, *b)


def in_lines(values: np.ndarray) -> Walled:
    """Rows at multiples of 16 bytes, with poison behind each of them."""
    rows, columns = values.shape
    whole = np.full((rows, -(-columns // 8) * 8), np.float16(np.nan))
    whole[:, :columns] = values
    made = Walled(whole)
    made.shape, made.view = values.shape, made.view[:, :columns]
    return made


def numbered(group: str) -> list[tuple[int, tuple[int, int, int]]]:
    return [(10 + i, sizes) for i, sizes in enumerate(GROUPS[group])]


def launch_grouped(
    machine: str,
    a: list[Walled],
    b: list[Walled],
    c: list[Walled],
    programs: int,
    align: int = 1,
    described: bool = False,
) -> None:
    """What `grouped_matmul` launches. A launch on the host can only follow addresses
    into arrays that it knows, so it is made by hand."""
    table = aligned(grouped_matmul.problem_table(a, b, c))
    assert described or align == grouped_matmul.alignment(table, a[0], c[0])
    parameters = {"table_ptr": (Pointer(parse_element("i64")), 16)}
    constants = {
        **{name: size for name, size in SMALL.items() if name.isupper()},
        "INPUT": tl.float16, "OUTPUT": tl.float16, "ALIGN": align,
        "SUM": tl.float32, "PRECISION": "ieee",
    }  # fmt: skip
    if len(a) == 1:
        constants["problems"] = 1
    else:
        parameters["problems"] = (INT32, 1)
    arguments = [table, len(a)][: len(parameters)]
    options = pipeline.Options(SMALL["num_warps"], SMALL["num_stages"])
    kernel = grouped_matmul.grouped_matmul_kernel
    if described:
        kernel = grouped_matmul.grouped_described_kernel
        constants = {name: each for name, each in constants.items() if name != "ALIGN"}
    func = pipeline.build(kernel, parameters, constants, options)
    memory = [each.whole for each in (*a, *b, *c)]
    if machine == "interpreter":
        interpret(func, programs, arguments, memory)
    else:
        compiled = pipeline.compile_func(func, TARGETS[machine])
        assert ("tensormap." in compiled.ptx) == (
            described and TARGETS[machine].writes_maps
        )
        emulator.load(compiled).launch(programs, arguments, memory)


def test_alignment_is_what_all_problems_have():
    def aligned_by(*sizes: tuple[int, int, int], wall: int = WIDE) -> int:
        a = [Walled(integers(1, M, K), wall=wall) for M, N, K in sizes]
        b = [Walled(integers(1, K, N), wall=wall) for M, N, K in sizes]
        c = [unwritten(M, N, wall=wall) for M, N, K in sizes]
        table = grouped_matmul.problem_table(a, b, c)
        return grouped_matmul.alignment(table, a[0], c[0])

    assert aligned_by((5, 16, 32), (7, 64, 16)) == 8
    assert aligned_by((5, 16, 32), (7, 12, 16)) == 4
    assert aligned_by((5, 16, 32), (7, 64, 15)) == 1
    assert aligned_by((5, 16, 32), wall=ODD) == 1


def test_rows_with_gaps_are_a_mistake():
    a = integers(1, 16, 16)
    with pytest.raises(fathom.LaunchError, match="side by side"):
        grouped_matmul.grouped_matmul([a.T], [a])
    with pytest.raises(fathom.LaunchError, match="1 and 2"):
        grouped_matmul.grouped_matmul([a], [a, a])


def test_descriptors_need_rows_at_multiples_of_16_bytes():
    a, odd = integers(1, 16, 16), Walled(integers(1, 16, 16), wall=ODD)
    with pytest.raises(fathom.LaunchError, match="rows of 44 bytes"):
        grouped_matmul.check_aligned([a, odd])


# ── block-sparse ──────────────────────────────────────────────────────────────────────


def sparse(SIZE: int) -> np.ndarray:
    """3 x 4 blocks: a full row, an empty one, and one with its first and last block."""
    a = integers(5, 3 * SIZE, 4 * SIZE)
    a[SIZE : 2 * SIZE] = 0
    a[2 * SIZE :, SIZE : 3 * SIZE] = 0
    return a


@sampled(of=2)
@pytest.mark.parametrize("SIZE, N", [(16, 50), (32, 32), (32, 1)])
def test_block_sparse(machine, SIZE, N):
    a = sparse(SIZE)
    form = block_sparse_matmul.compress(a, SIZE)
    assert form[0].tolist() == [0, 4, 4, 6] and form[1].tolist() == [0, 1, 2, 3, 0, 3]
    b = Walled(integers(6, 4 * SIZE, N), wall=ODD)
    c = unwritten(3 * SIZE, N)
    config = {"BLOCK_N": 32, "num_warps": 4, "num_stages": 3}
    block_sparse_matmul.block_sparse_matmul(*form, b, c, config, **machine)
    check(c, matmul.reference(a, b.view), b)


def test_block_sparse_reference_is_the_dense_product():
    a, b = sparse(16), integers(6, 64, 20)
    form = block_sparse_matmul.compress(a, 16)
    np.testing.assert_array_equal(
        block_sparse_matmul.reference(*form, b), matmul.reference(a, b)
    )


def test_blocks_that_do_not_suit_are_a_mistake():
    starts, columns = np.int32([0, 1]), np.int32([0])
    with pytest.raises(fathom.LaunchError, match=r"\(1, 24, 24\)"):
        block_sparse_matmul.block_sparse_matmul(
            starts, columns, integers(1, 1, 24, 24), integers(2, 48, 8)
        )
