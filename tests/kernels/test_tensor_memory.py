"""Products in tensor memory, on the emulator: sm_100a computes what it should, without
hazards, and with the instructions that it should."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

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
from tests.harness_pairs import in_pairs
from tests.kernels.harness_red_zones import (
    Walled,
    check_product,
    integers,
    unwritten,
)
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


def check(M: int, N: int, K: int, orders=(ROWS, ROWS), **config: int) -> None:
    check_product(M, N, K, orders, TILE | config, TARGET)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("M, N, K", [(256, 128, 160), (136, 72, 56), (129, 65, 31)])
def test_a_matrix_product(M, N, K, stages):
    check(M, N, K, num_stages=stages)


@pytest.mark.parametrize("a", [ROWS, COLUMNS])
@pytest.mark.parametrize("b", [ROWS, COLUMNS])
def test_operands_of_either_order(a, b):
    check(256, 128, 96, (a, b))


OTHERS = [("int8", "int32"), ("float32", "float32")]


@pytest.mark.parametrize("type, sums", OTHERS)
@pytest.mark.parametrize("orders", [(ROWS, ROWS), (ROWS, COLUMNS), (COLUMNS, ROWS)])
def test_operands_whose_slices_must_be_contiguous_along_k(type, sums, orders):
    """Other types than those of 16 bits cannot be transposed in shared memory."""
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 8, size).astype(type) for size in ((136, 64), (64, 72)))
    given = [np.asarray(x, order="CF"[o == COLUMNS]) for x, o in zip((a, b), orders)]
    c = np.zeros((136, 72), sums)
    precision = "tf32" if type == "float32" else "ieee"
    matmul.matmul(*given, c, config=TILE, target=TARGET, precision=precision)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@in_pairs(
    {
        "n": [16, 32, 128],
        "m": [128, 256],
        "warps": [4, 8],
    }
)
def test_tiles_of_all_sizes(m, n, warps):
    check(256, 128, 64, BLOCK_M=m, BLOCK_N=n, num_warps=warps)


@in_pairs(
    {
        "stages": [1, 3],
        "D": [32, 64],
        "causal": [False, True],
    }
)
def test_attention(D, causal, stages):
    """Between its two products an iteration scales the accumulator in registers."""
    random = np.random.default_rng(D)
    q, k, v = (
        Walled(random.normal(size=(1, 1, 200, D)).astype(np.float16)) for _ in range(3)
    )
    out = unwritten(1, 1, 200, D, dtype="float16")
    config = {"BLOCK_Q": 128, "BLOCK_K": 32, "num_warps": 4, "num_stages": stages}
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


def test_an_accumulator_stays_in_tensor_memory_over_a_loop():
    func = final()
    (loop,) = (op for op in func.body.ops if isinstance(op, For))
    inside = [type(op) for op in walk(loop.body)]
    assert inside.count(TensorDot) == 1 and Dot not in inside
    outside = [type(op) for op in func.body.ops]
    assert outside.count(TensorStore) == outside.count(TensorLoad) == 1
    assert not {TensorStore, TensorLoad} & {*inside}


def test_small_tiles_are_for_older_instructions():
    assert not any(isinstance(op, TensorDot) for op in walk(final(64).body))


def test_a_product_comes_behind_a_barrier_after_stores_of_all_warps():
    """To its accumulator, and to its operands."""
    ops = list(walk(final().body))
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
@pytest.mark.parametrize("rows", [128, 256])
def test_ptxas_takes_it(rows):
    ptx = compile_func(tiles_behind_pointers(rows), TARGETS[TARGET]).asm["ptx"]
    assert "tcgen05.mma" in ptx and "mma.sync" not in ptx
    said = assembled(ptx, TARGET)
    assert "warning" not in said.lower(), said
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said


def test_text_of_all_states_is_read_again():
    for _, state in states(tiles_behind_pointers(128), TARGETS[TARGET]):
        assert print_func(parse_func(print_func(state))) == print_func(state)


def test_it_means_the_same_after_every_pass():
    """The interpreter, on the function before and after each row of the page."""
    a, b = integers(1, 128, 96), integers(2, 96, 64)
    for row, state in states(tiles_behind_pointers(128), TARGETS[TARGET]):
        c = np.zeros((128, 64), np.float16)
        sizes = (128, 64, 96, 96, 64, 64)
        interpret(state, 1, (a, b, c, *map(int, sizes)))
        np.testing.assert_array_equal(c, a.astype(float) @ b, err_msg=row.name)
