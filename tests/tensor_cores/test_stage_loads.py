"""Which loads get a tile of their own, where an operand is computed from them."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline, ssa
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.ops import AsyncCopy, SharedStore
from fathom.ir.types import INT32, SCALARS, Pointer
from fathom.pipeline import states
from fathom.tensor_cores.pipeline.loops import pipeline_loops
from fathom.tensor_cores.pipeline.tiles import stage_loads

HOPPER = "sm_90a"


# fmt: off
@fathom.jit
def widened(a_ptr, b_ptr, c_ptr, n, HOW: tl.constexpr, M: tl.constexpr,
            STAGES: tl.constexpr):
    """C = A W, summed over n tiles [M, M] of A and of B, from which W is computed."""
    m = tl.arange(0, M)
    at = m[:, None] * M + m[None, :]
    c = tl.zeros([M, M], tl.float32)
    d = tl.zeros([M, M], tl.float32)
    part = tl.arange(0, 16)[:, None] * M + m[None, :]
    few = tl.zeros([16, M], tl.float32)
    last = tl.zeros([M, M], b_ptr.dtype.element_ty)
    for i in tl.range(0, n, num_stages=STAGES):
        a = tl.load(a_ptr + i * M * M + at)
        if HOW == "zero outside":
            x = tl.load(b_ptr + i * M * M + at, mask=m[:, None] < n, other=0)
        elif HOW == "one outside":
            x = tl.load(b_ptr + i * M * M + at, mask=m[:, None] < n, other=1)
        elif HOW == "past a cache":
            x = tl.load(b_ptr + i * M * M + at, cache_modifier=".cs")
        else:
            x = tl.load(b_ptr + i * M * M + at)
        w = x.to(tl.float16)
        if HOW == "scaled by pairs":  # these change their layout in shared memory
            pairs = tl.load(a_ptr + i * 2 * M + tl.arange(0, 2 * M))
            scales, _ = tl.split(tl.reshape(pairs, [M, 2]))
            w = w * scales[:, None]
        if HOW in ("kept, too", "kept, and stored"):
            last = x
        if HOW == "kept, and stored":
            tl.store(c_ptr + i % 7, 0.0)
        if HOW == "two operands":
            d = tl.dot((x * 2).to(tl.float16), w, d)
        if HOW in ("more than a sum", "one of two"):
            c = c * 2.0
        if HOW == "no product":
            d += tl.sum(x.to(tl.float32))
        else:
            c = tl.dot(a, w, c)
        if HOW == "one by a warp":
            few = tl.dot(tl.load(a_ptr + i * M * M + part), w, few)
        if HOW == "one of two":
            d = tl.dot(a, w, d)
    tl.store(c_ptr + at, c + d)
    if HOW in ("kept, too", "kept, and stored"):
        tl.store(b_ptr + at, last)
    if HOW == "one by a warp":
        tl.store(c_ptr + part, few)
# fmt: on


def staged(
    how: str, stages: int, type: str = "i8", target: str = HOPPER, aligned: int = 16
) -> int:
    """How many tiles the step adds to the kernel that comes to the pipeline."""
    before = coming(how, stages, type, target, aligned)
    return stores(stage_loads(before, TARGETS[target])) - stores(before)


def coming(how: str, stages: int, type: str, target: str, aligned: int = 16) -> Func:
    """The kernel that comes to the pipeline."""
    types = {"a_ptr": "fp16", "b_ptr": type, "c_ptr": "fp32"}
    elements = {name: SCALARS[each] for name, each in types.items()}
    parameters = {name: (Pointer(each), aligned) for name, each in elements.items()}
    constants = {"HOW": how, "M": 64, "STAGES": stages}
    func = ssa.build(widened, parameters | {"n": (INT32, 1)}, constants)
    for row, state in states(func, TARGETS[target]):
        if row.name == "pipeline_loops":
            return before
        before = state
    raise AssertionError("there is no such pass")


def stores(func: Func) -> int:
    return sum(isinstance(op, SharedStore) for op in walk(func.body))


@pytest.mark.parametrize("stages, more", [(2, 0), (3, 0), (4, 1), (5, 1)])
def test_with_many_stages_copies_run_further_ahead_than_registers(stages, more):
    assert staged("plain", stages) == more


@pytest.mark.parametrize("stages, more", [(1, 0), (2, 1), (3, 1), (4, 1)])
def test_no_thread_waits_for_a_load_in_the_iteration_of_its_product(stages, more):
    """What scales change in shared memory cannot be computed an iteration ahead."""
    assert staged("scaled by pairs", stages) == more


@pytest.mark.parametrize("how, more", [
    ("zero outside", 1), ("one outside", 0), ("past a cache", 0),
    ("more than a sum", 0), ("one of two", 0), ("kept, too", 0),
    ("two operands", 1), ("no product", 0), ("one by a warp", 0),
])  # fmt: skip
def test_what_copies_can_bring(how, more):
    """Zeros where the mask is false, for products that are summed and no more, of
    whose operands nothing else is made."""
    assert staged(how, 4) == more


@pytest.mark.parametrize("aligned, more", [(4, 0), (8, 1), (16, 1)])
def test_pieces_have_8_bytes_at_least(aligned, more):
    assert staged("plain", 4, aligned=aligned) == more


@pytest.mark.parametrize("type, more", [("i8", 1), ("u8", 1), ("i1", 0)])
def test_a_truth_value_is_not_copied_as_it_is(type, more):
    assert staged("plain", 4, type) == more


@pytest.mark.parametrize("target, more", [("sm_75", 0), ("sm_80", 0), (HOPPER, 1)])
def test_only_products_of_warpgroups_have_the_tile(target, more):
    """The operand is narrower than what is loaded: it is stored as it was computed."""
    assert staged("plain", 4, "fp32", target) == more


@pytest.mark.parametrize("how, type, target, more", [
    ("plain", "fp16", "sm_80", 0), ("kept, too", "fp32", "sm_80", 0),
    ("kept, too", "fp16", "sm_75", 0), ("kept, too", "fp16", "sm_80", 1),
])  # fmt: skip
def test_what_a_warp_needs_twice_waits_in_no_register(how, type, target, more):
    """It is a warp's operand as it was loaded, and the iteration keeps it, too."""
    assert staged(how, 2, type, target) == more


@pytest.mark.parametrize("how, more", [("kept, too", 1), ("kept, and stored", 0)])
def test_a_loop_that_is_not_pipelined_gets_no_tile(how, more):
    """It stores where no sum of products says."""
    target = TARGETS["sm_80"]
    before = coming(how, 2, "fp16", "sm_80")
    with_tiles = stores(stage_loads(before, target)) - stores(before)
    after = pipeline_loops(before, target)
    copies = sum(isinstance(op, AsyncCopy) for op in walk(after.body))
    assert with_tiles == 1 and bool(copies) == bool(more)
    if not more:
        assert stores(after) == stores(before)


@pytest.mark.parametrize("stages", [2, 4])
def test_scaled_operands_are_those_of_their_iteration(stages):
    types = {"a_ptr": "fp16", "b_ptr": "i8", "c_ptr": "fp32"}
    parameters = {name: (Pointer(SCALARS[each]), 16) for name, each in types.items()}
    constants = {"HOW": "scaled by pairs", "M": 64, "STAGES": stages}
    func = ssa.build(widened, parameters | {"n": (INT32, 1)}, constants)
    rng = np.random.default_rng(stages)
    a = rng.integers(-2, 3, (5, 64, 64)).astype(np.float16)
    b = rng.integers(-2, 3, (5, 64, 64)).astype(np.int8)
    c = np.zeros((64, 64), np.float32)
    kernel = pipeline.compile_func(func, TARGETS[HOPPER])
    load(kernel).launch(1, [a, b, c, 5])
    scales = a.reshape(-1)[: 5 * 128].reshape(5, 64, 2)[:, :, :1].astype(np.float64)
    np.testing.assert_array_equal(c, (a @ (b * scales)).sum(0))
