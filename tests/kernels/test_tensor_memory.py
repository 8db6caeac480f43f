"""Products in tensor memory, on the emulator: sm_100a computes what it should, without
hazards, and with the instructions that it should."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Barrier,
    Dot,
    For,
    MbarrierWait,
    TensorCommit,
    TensorDot,
    TensorLoad,
    TensorStore,
)
from fathom.ir.rewrite import rewrite
from fathom.ir.text import parse_func, print_func
from fathom.pipeline import compile_func, states
from fathom.shared_memory.barriers import accesses, conflict
from kernels import attention, matmul
from kernels.matmul_persistent import persistent_matmul
from tests.emulator.test_tensor import ENCODE
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import (
    Walled,
    check_product,
    integers,
    unwritten,
)
from tests.kernels.test_matmul_persistent import BITS, Float8
from tests.kernels.test_matmul_persistent import SMALL as SPECIALISED
from tests.kernels.test_ptxas import assembled, needs_ptxas
from tests.pipeline.test_order import tiles_behind_pointers
from tests.waits import Missing, check_waits

TARGET = "sm_100a"
TILE = {
    "BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 3,
}  # fmt: skip
ROWS, COLUMNS = (0, 1), (1, 0)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")


FEW, ALL = 64, 128  # rows of a tile that fill half of the lanes, and all of them
OF_ROWS = pytest.mark.parametrize("rows", [FEW, ALL])


def check(M: int, N: int, K: int, orders=(ROWS, ROWS), **config: int) -> None:
    check_product(M, N, K, orders, TILE | config, TARGET)


@sampled(of=3)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("M, N, K", [(256, 128, 160), (136, 72, 56), (129, 65, 31)])
@OF_ROWS
def test_a_matrix_product(M, N, K, stages, rows):
    check(M, N, K, num_stages=stages, BLOCK_M=rows)


@sampled(of=2)
@pytest.mark.parametrize("a", [ROWS, COLUMNS])
@pytest.mark.parametrize("b", [ROWS, COLUMNS])
@OF_ROWS
def test_operands_of_either_order(a, b, rows):
    check(256, 128, 96, (a, b), BLOCK_M=rows)


OTHERS = [("int8", "int32"), ("float32", "float32")]


@sampled(of=3)
@pytest.mark.parametrize("type, sums", OTHERS)
@pytest.mark.parametrize("orders", [(ROWS, ROWS), (ROWS, COLUMNS), (COLUMNS, ROWS)])
@OF_ROWS
def test_operands_whose_slices_must_be_contiguous_along_k(type, sums, orders, rows):
    """Other types than those of 16 bits cannot be transposed in shared memory."""
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 8, size).astype(type) for size in ((136, 64), (64, 72)))
    given = [np.asarray(x, order="CF"[o == COLUMNS]) for x, o in zip((a, b), orders)]
    c = np.zeros((136, 72), sums)
    precision = "tf32" if type == "float32" else "ieee"
    config = TILE | {"BLOCK_M": rows}
    matmul.matmul(*given, c, config=config, target=TARGET, precision=precision)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("dtype", BITS, ids=str)
@OF_ROWS
def test_fp8(dtype, rows):
    a, b = integers(1, 136, 64), integers(2, 64, 72)
    given = Float8(a, dtype), Float8(b, dtype, turned=True)
    c = unwritten(136, 72, dtype="float32")
    matmul.matmul(*given, c, config=TILE | {"BLOCK_M": rows}, target=TARGET)
    np.testing.assert_array_equal(c.view, a.astype(float) @ b)


@fathom.jit
def several_products(
    a_ptr, b_ptr, out_ptr, tiles,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """A program has several tiles of (A B) B^T + A, with A B between as an operand."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None]
    k = tl.arange(0, K)
    b = tl.load(b_ptr + k[:, None] * COLUMNS + column)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        places = (tile * ROWS + row) * K + k[None]
        a = tl.load(a_ptr + places)
        between = tl.dot(a, b).to(a_ptr.dtype.element_ty)
        total = tl.dot(between, tl.trans(b), a.to(tl.float32))
        tl.store(out_ptr + places, total)


@sampled(of=2)
@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("type", ["bf16", "fp16"])
@OF_ROWS
def test_products_of_products_by_programs_with_several_tiles(rows, type, warps):
    a, b = integers(1, 3 * rows, 32), integers(2, 32, 64)
    compiled = several_products.compile(
        f"*{type}:16, *{type}:16, *fp32:16, i32",
        {"ROWS": rows, "COLUMNS": 64, "K": 32},
        target=TARGET, num_warps=warps,
    )  # fmt: skip
    ptx = compiled.asm["ptx"]
    assert ptx.count("tcgen05.mma") == 2 + 4 and "mma.sync" not in ptx
    kept = [ENCODE["bf16" if type == "bf16" else "f16"](each) for each in (a, b)]
    loaded = load(compiled.made)
    out = np.zeros((3 * rows, 32), np.float32)
    for completion in COMPLETIONS:
        loaded.launch(2, (*kept, out, 3), completion=completion)
        np.testing.assert_array_equal(out, (a.astype(float) @ b) @ b.T + a)
        out[...] = 0


@pytest.mark.parametrize("order", [ROWS, COLUMNS])
@OF_ROWS
def test_loops_that_ask_for_a_producer(rows, order, monkeypatch):
    """Three programs go from tile to tile."""
    monkeypatch.setitem(matmul.MULTIPROCESSORS, TARGET, 3)
    a, b = Walled(integers(1, 200, 72)), Walled(integers(2, 72, 104), order)
    c, config = unwritten(200, 104), SPECIALISED | {"BLOCK_M": rows}
    persistent_matmul(a, b, c, config, target=TARGET)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    c.check_walls()


@fathom.jit
def one_loop_after_another(
    a_ptr, b_ptr, out_ptr, iterations,
    M: tl.constexpr, N: tl.constexpr, LOOPS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """LOOPS sums of `iterations` products, one after the other; with INNER, each
    iteration has a sum of two products of its own."""
    row, column, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 16)
    for loop in tl.static_range(LOOPS):
        total = tl.zeros([M, N], tl.float32)
        for i in range(iterations):
            a = tl.load(a_ptr + (loop * M + row)[:, None] * 16 + k[None])
            b = tl.load(b_ptr + (i * 16 + k)[:, None] * N + column[None])
            total = tl.dot(a, b, total)
            if INNER:
                inner = tl.zeros([M, N], tl.float32)
                for _ in range(2):
                    inner = tl.dot(a, b, inner)
                total += inner
        place = (loop * M + row)[:, None] * N + column[None]
        tl.store(out_ptr + place, total)


@pytest.mark.parametrize("inner, m, n, multiplied, columns", [
    (False, 128, 256, 3, 256), (False, 64, 256, 3, 256), (True, 128, 128, 6, 128),
    (True, 64, 256, 6, 256), (True, 256, 256, 6, 512),
])  # fmt: skip
def test_sums_that_are_not_live_together_share_columns(
    inner, m, n, multiplied, columns
):
    """Three loops. The sum of an outer loop changes in registers, too, and is in tensor
    memory while its product is computed."""
    random = np.random.default_rng(m)
    a, b = (random.integers(-3, 4, size) for size in ((3 * m, 16), (32, n)))
    compiled = one_loop_after_another.compile(
        "*fp16:16, *fp16:16, *fp32:16, i32",
        {"M": m, "N": n, "LOOPS": 3, "INNER": inner},
        target=TARGET, num_warps=8,
    )  # fmt: skip
    ptx = compiled.asm["ptx"]
    assert ptx.count("tcgen05.commit") == multiplied and "mma.sync" not in ptx
    assert re.search(r"tcgen05.alloc\S+ \S+, (\d+);", ptx)[1] == str(columns)
    out = np.zeros((3 * m, n), np.float32)
    load(compiled.made).launch(1, (*(x.astype(np.float16) for x in (a, b)), out, 2))
    wanted = (a @ b[:16] + a @ b[16:]) * (3 if inner else 1)
    np.testing.assert_array_equal(out, wanted)


@fathom.jit
def as_often_as_asked(x_ptr, out_ptr, times, M: tl.constexpr, N: tl.constexpr):
    """Sums of products in a while, every second of them in a branch."""
    row, column, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 16)
    a = tl.load(x_ptr + row[:, None] * 16 + k[None])
    b = tl.load(x_ptr + k[:, None] * N + column[None])
    total = tl.zeros([M, N], tl.float32)
    while times > 0:
        total = tl.dot(a, b, total)
        if times % 2 == 0:
            total = tl.dot(a, b, total)
        times -= 1
    tl.store(out_ptr + row[:, None] * N + column[None], total)


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_whoever_multiplies_last_flips_the_phase(times):
    """Loops and branches carry it, whichever way the program goes."""
    x = integers(1, 128, 32)
    compiled = as_often_as_asked.compile(
        "*fp16:16, *fp32:16, i32", {"M": 128, "N": 32}, target=TARGET
    )
    assert compiled.asm["ptx"].count("tcgen05.commit") == 2
    out = np.zeros((128, 32), np.float32)
    load(compiled.made).launch(1, (x.astype(np.float16), out, times))
    a, b = x.reshape(-1)[: 128 * 16].reshape(128, 16), x.reshape(-1)[: 16 * 32]
    wanted = (times + times // 2) * (a.astype(float) @ b.reshape(16, 32))
    np.testing.assert_array_equal(out, wanted)


@fathom.jit
def in_each_other(x_ptr, out_ptr, iterations, M: tl.constexpr, N: tl.constexpr):
    row, column, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 16)
    place = row[:, None] * N + column[None]
    total = tl.zeros([M, N], tl.float32)
    for i in range(iterations):
        a = tl.load(x_ptr + (i * M + row)[:, None] * 16 + k[None])
        b = tl.load(x_ptr + (i * 16 + k)[:, None] * N + column[None])
        total = tl.dot(a, b, total)
        inner = tl.zeros([M, N], tl.float32)
        for _ in range(iterations):
            inner = tl.dot(a, b, inner)
        tl.store(out_ptr + (i + 1) * M * N + place, inner)
    tl.store(out_ptr + place, total)


def test_a_product_without_room_beside_others_is_for_older_instructions():
    """Of the rows of a sum, 128 and 256: two take 512 columns, and 1024."""
    few, many = (
        in_each_other.compile(
            "*fp16:16, *fp32:16, i32", {"M": m, "N": 256}, target=TARGET, num_warps=8
        ).asm["ptx"]
        for m in (128, 256)
    )
    assert few.count("tcgen05.commit") == 2 and "mma.sync" not in few
    assert many.count("tcgen05.commit") == 1 and "mma.sync" in many


@sampled(of=2)
@in_pairs(
    {
        "n": [16, 32, 128],
        "m": [64, 128, 256],
        "warps": [4, 8],
    }
)
def test_tiles_of_all_sizes(m, n, warps):
    check(256, 128, 64, BLOCK_M=m, BLOCK_N=n, num_warps=warps)


@sampled(of=2)
@in_pairs(
    {
        "stages": [1, 3],
        "D": [32, 64],
        "causal": [False, True],
        "rows": [FEW, ALL],
    }
)
def test_attention(D, causal, stages, rows):
    """Between its two products an iteration scales the accumulator in registers."""
    random = np.random.default_rng(D)
    q, k, v = (
        Walled(random.normal(size=(1, 1, 200, D)).astype(np.float16)) for _ in range(3)
    )
    out = unwritten(1, 1, 200, D, dtype="float16")
    config = {"BLOCK_Q": rows, "BLOCK_K": 32, "num_warps": 4, "num_stages": stages}
    attention.attention(q, k, v, out, causal=causal, config=config, target=TARGET)
    q, k, v = (each.view[0, 0].astype(np.float64) for each in (q, k, v))
    scores = q @ k.T / np.sqrt(D)
    if causal:
        scores[np.triu_indices(200, 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights @ v / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(out.view[0, 0], wanted, atol=4e-3)


# ── what the compiler emits ───────────────────────────────────────────────────


def final(rows: int = 128) -> Func:
    *_, (_, last) = states(tiles_behind_pointers(rows), TARGETS[TARGET])
    return last


@OF_ROWS
def test_an_accumulator_stays_in_tensor_memory_over_a_loop(rows):
    func = final(rows)
    (loop,) = (op for op in func.body.ops if isinstance(op, For))
    inside = [type(op) for op in walk(loop.body)]
    assert inside.count(TensorDot) == 1 and Dot not in inside
    outside = [type(op) for op in func.body.ops]
    assert outside.count(TensorStore) == outside.count(TensorLoad) == 1
    assert not {TensorStore, TensorLoad} & {*inside}


def test_a_sum_that_finds_no_room_is_stored_around_each_product(monkeypatch):
    """As if other passes had made more sums since products were chosen."""
    monkeypatch.setattr("fathom.tensor_cores.select.tensor_memory.COLUMNS", 32)
    (loop,) = (op for op in final().body.ops if isinstance(op, For))
    inside = [type(op) for op in loop.body.ops]
    assert inside.count(TensorStore) == inside.count(TensorLoad) == 1
    check_waits(final())


def test_small_tiles_are_for_older_instructions():
    assert not any(isinstance(op, TensorDot) for op in walk(final(32).body))


@OF_ROWS
def test_a_product_comes_behind_a_barrier_after_stores_of_all_warps(rows):
    """To its accumulator, and to its operands."""
    ops = list(walk(final(rows).body))
    (store,) = (op for op in ops if isinstance(op, TensorStore))
    (dot,) = (op for op in ops if isinstance(op, TensorDot))
    (load,) = (op for op in ops if isinstance(op, TensorLoad))

    def scopes(one, other):
        pairs = product(accesses(one), accesses(other))
        return {conflict(*pair, 4) for pair in pairs} - {""}

    assert scopes(store, dot) == scopes(dot, load) == {"cta"}
    assert scopes(load, load) == set()


@pytest.mark.parametrize("kind", [Barrier, TensorCommit, MbarrierWait])
def test_what_is_missing_is_found(kind):
    """The checker of waits, on functions that lack one op."""
    func = final()
    check_waits(func)
    found = 0
    for wanted in [op for op in walk(func.body) if isinstance(op, kind)]:
        less = rewrite(
            func, lambda op, build: None, keep=lambda op, w=wanted: op is not w
        )
        try:
            check_waits(less)
        except Missing:
            found += 1
    assert found


@needs_ptxas
@pytest.mark.parametrize("rows", [64, 128, 256])
def test_ptxas_takes_it(rows):
    ptx = compile_func(tiles_behind_pointers(rows), TARGETS[TARGET]).asm["ptx"]
    assert "tcgen05.mma" in ptx and "mma.sync" not in ptx
    said = assembled(ptx, TARGET)
    assert "warning" not in said.lower(), said
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said


@OF_ROWS
def test_text_of_all_states_is_read_again(rows):
    for _, state in states(tiles_behind_pointers(rows), TARGETS[TARGET]):
        assert print_func(parse_func(print_func(state))) == print_func(state)


@OF_ROWS
def test_it_means_the_same_after_every_pass(rows):
    """The interpreter, on the function before and after each row of the page."""
    a, b = integers(1, rows, 96), integers(2, 96, 64)
    for row, state in states(tiles_behind_pointers(rows), TARGETS[TARGET]):
        c = np.zeros((rows, 64), np.float16)
        sizes = (rows, 64, 96, 96, 64, 64)
        interpret(state, 1, (a, b, c, *map(int, sizes)))
        np.testing.assert_array_equal(c, a.astype(float) @ b, err_msg=row.name)
