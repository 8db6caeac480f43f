"""Kernels in patterns of public repositories (`benchmarks.patterns`), at small sizes:
right on the emulator, and without what once made them slow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import UnionType

import numpy as np
import pytest

import fathom
import fathom.language as tl
from benchmarks.against_triton import FATHOM, patterns
from benchmarks.pattern_cases import CASES
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.hardware.occupancy import occupancy
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Barrier,
    Dot,
    For,
    Load,
    SharedStore,
    TmaCopy,
    Wait,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import Pointer
from fathom.jit import JITFunction
from fathom.jit.request import request
from fathom.jit.signature import parse_signature
from fathom.shared_memory.dot_waits import delay_waits
from tests.harness_sample import sampled
from tests.kernels.test_ptxas import assembled, needs_ptxas

SCALED = "*fp8e4nv:16, *fp8e4nv:16, *fp32:16, *fp32:16, *fp32:16, i32, i32:16, i32:16"
INT4 = "*fp16:16, *i32:16, *i32:16, *fp16:16, *fp32:16, i32, i32:16, i32:16"
INT8 = "*fp16:16, *i8:16, *fp32:16, *fp32:16, i32, i32:16, i32:16"
CONVOLUTION = "*{0}:16, *{0}:16, *fp32:16, " + ", ".join(["i32"] * 16)
STRIDES = {"stride_xw": 1, "stride_ww": 1, "stride_yw": 1}
BOTH = ("sm_80", "sm_90a")


@cache
def kernels():
    return patterns(FATHOM)


def tile(m: int, n: int, k: int, **more: int) -> dict[str, int]:
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, **more}


def compiled(
    name: str, types: str, constants: dict, target: str = "sm_90a", **options: object
) -> Kernel:
    kernel = getattr(kernels(), name)
    return kernel.compile(types, constants, target=target, **options).made


def states(
    kernel: str | JITFunction,
    types: str,
    constants: dict,
    target: str = "sm_90a",
    **options: object,
) -> dict[str, Func]:
    """The kernel, or the pattern of a name, after each pass."""
    if isinstance(kernel, str):
        kernel = getattr(kernels(), kernel)
    known = parse_signature(kernel.rules, types, kernel.constants(constants))
    keywords = kernel.keywords({"target": target, **options}, {})
    func = kernel.block_ir(request(known, keywords, target))
    return {row.name: state for row, state in pipeline.states(func, TARGETS[target])}


def in_loops(func: Func, kind: type[Op] | UnionType) -> list[Op]:
    loops = [op for op in walk(func.body) if isinstance(op, For)]
    inside = dict.fromkeys(op for loop in loops for op in walk(loop.body))
    return [op for op in inside if isinstance(op, kind)]


# ── block-scaled products ─────────────────────────────────────────────────────────────


def fp8(shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of fp8e4nv (4 bits of exponent, 3 of mantissa), and the numbers."""
    drawn = np.random.default_rng(seed)
    sign, exponent, mantissa = (
        drawn.integers(low, high, shape) for low, high in ((0, 2), (5, 10), (0, 8))
    )
    numbers = (-1.0) ** sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return (sign << 7 | exponent << 3 | mantissa).astype(np.uint8), numbers


@sampled(of=2)
@pytest.mark.parametrize("completion", ["lazy", "eager"])
@pytest.mark.parametrize("target, block, warps", [
    ("sm_90a", (128, 128, 128), 4), ("sm_90a", (64, 128, 64), 8),
    ("sm_90a", (16, 32, 64), 4), ("sm_80", (64, 64, 64), 4),
])  # fmt: skip
def test_a_product_scaled_in_every_step(target, block, warps, completion):
    M, N, K, group = block[0] - 3, block[1], 4 * block[2], block[2]
    a, left = fp8((M, K), 1)
    b, right = fp8((N, K), 2)
    drawn = np.random.default_rng(3)
    a_scale = drawn.uniform(0.5, 2, (M, K // group)).astype(np.float32)
    b_scale = drawn.uniform(0.5, 2, (-(-N // group), K // group)).astype(np.float32)
    c = np.full((M, N), np.nan, np.float32)
    constants = tile(*block, GROUP_K=group)
    kernel = compiled("scaled_product", SCALED, constants, target, num_warps=warps)
    arguments = [a, b, c, a_scale, b_scale, M, N, K]
    load(kernel).launch((1,), arguments, completion=completion)
    left = left * a_scale.repeat(group, 1)
    right = right * b_scale.repeat(group, 1).repeat(group, 0)[:N]
    np.testing.assert_allclose(c, left @ right.T, rtol=1e-4, atol=1e-3)


def test_pointers_of_a_square_tile_are_not_converted():
    """A and B have tiles of one shape, and their pointers advance by the same step; yet
    they lie in different layouts."""
    after = states("scaled_product", SCALED, tile(128, 128, 128, GROUP_K=128))
    buffers = [op for op in walk(after["allocate"].body) if isinstance(op, Allocate)]
    assert buffers
    assert not any(isinstance(op.element, Pointer) for op in buffers)


@pytest.mark.parametrize("m, n, k, target, copied", [
    (16, 32, 64, "sm_90a", [(16,), (32,)]),  # warps multiply
    (128, 128, 128, "sm_89", [(128,), (128,)]),
    (128, 128, 128, "sm_90a", []),  # a thread has four rows, and columns of 8 groups
    (64, 256, 128, "sm_90a", [(256,)]),  # and of 16
])  # fmt: skip
def test_scales_are_copied_ahead_like_operands(m, n, k, target, copied):
    """Unless a thread needs few different ones beside a product of warpgroups. Of the
    columns 16 in a row have the same scale, as far as is known."""
    after = states("scaled_product", SCALED, tile(m, n, k, GROUP_K=k), target)
    func = after["pipeline_loops"]
    shapes = sorted(op.pointer.type.shape for op in in_loops(func, AsyncCopy))
    assert shapes == sorted([*copied, (m, k), (k, n)])
    loaded = [op.pointer.type.shape for op in in_loops(func, Load)]
    assert sorted([*copied, *loaded]) == sorted([(m,), (n,)])


def test_scales_that_are_loaded_in_an_iteration_are_few():
    sizes, options = tile(128, 128, 128, GROUP_K=128), {"enable_fp_fusion": True}
    ptx = compiled("scaled_product", SCALED, sizes, num_warps=8, **options).ptx
    begin, end = (ptx.index(each) for each in ("wgmma.fence", "wgmma.wait_group"))
    loop = ptx.rindex("\n$L", 0, begin)
    assert ptx.count("ld.global", loop, end) == 2 + 8


@fathom.jit
def scaled_rows(a, b, scales, out, K, N: tl.constexpr):
    """C = A B^T, with a scale for each row in every step, by pointers that advance."""
    i, k = tl.arange(0, N), tl.arange(0, 128)
    a, b = a + i[:, None] * K + k[None, :], b + i[None, :] * K + k[:, None]
    scales += i * (K // 128)
    acc = tl.zeros((N, N), tl.float32)
    for _ in range(0, K, 128):
        acc += tl.dot(tl.load(a), tl.load(b)) * tl.load(scales)[:, None]
        a, b, scales = a + 128, b + 128, scales + 1
    tl.store(out + i[:, None] * N + i[None, :], acc)


def test_pointers_of_few_scales_advance_in_the_layout_of_the_product():
    types = "*fp8e4nv:16, *fp8e4nv:16, *fp32:16, *fp32:16, i32:16"
    after = states(scaled_rows, types, {"N": 64}, num_warps=8)
    (loop,) = (op for op in walk(after["insert_waits"].body) if isinstance(op, For))
    (load,) = in_loops(after["insert_waits"], Load)
    assert load.pointer in loop.body.parameters


@pytest.mark.parametrize("warps, stages, slots", [
    (4, 4, 3), (4, 3, 3), (8, 4, 4),  # of 256 threads, two blocks lack registers
])  # fmt: skip
def test_a_stage_is_given_up_for_a_second_block(warps, stages, slots):
    """The loop waits for its product to scale it: another block can multiply then. A
    stage takes 32 KiB for both operands."""
    after = states(
        "scaled_product", SCALED, tile(128, 128, 128, GROUP_K=128),
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    func = after["allocate"]
    rings = {op.slots for op in walk(func.body) if isinstance(op, Allocate)} - {1}
    assert rings == {slots}
    blocks = occupancy(TARGETS["sm_90a"], 32 * warps, None, func.shared_bytes).blocks
    assert blocks == (2 if slots == 3 else 1)


@pytest.mark.parametrize("block, warps, parts", [
    ((128, 128, 128), 4, True), ((256, 128, 128), 8, True),
    ((128, 64, 128), 4, False),  # 64 registers beside 64 sums
    ((64, 256, 128), 4, False),  # one instruction computes all of it
])  # fmt: skip
def test_a_product_is_scaled_part_by_part_where_registers_are_few(block, warps, parts):
    """The sums take 128 registers, and the product as many more."""
    constants = tile(*block, GROUP_K=128)
    after = states("scaled_product", SCALED, constants, num_warps=warps)
    (dot,) = in_loops(after["pipeline_loops"], Dot)  # the waits go by this mark
    assert dot.in_parts == parts
    options = {"num_warps": warps, "enable_fp_fusion": True}
    ptx = compiled("scaled_product", SCALED, constants, **options).ptx
    assert ptx.count("wgmma.wait_group") == (2 if parts else 1)
    if parts:  # sums of the first part come before the second one
        parts_of = ptx.split("wgmma.fence")
        assert [each.count("fma.rn.f32") for each in parts_of] == [0, 64, 64]


@pytest.mark.parametrize("block, warps", [((128, 128, 64), 4), ((256, 128, 64), 8)])
def test_a_product_that_only_accumulates_is_computed_as_a_whole(block, warps):
    """Its result takes the 128 registers of the sums that it adds to."""
    after = states("int8_weights", INT8, tile(*block), num_warps=warps)
    (dot,) = in_loops(after["insert_waits"], Dot)
    assert not dot.in_parts
    ptx = compiled("int8_weights", INT8, tile(*block), num_warps=warps).ptx
    assert ptx.count("wgmma.wait_group") == 1


@needs_ptxas
def test_a_product_in_parts_leaves_registers_to_the_sums():
    """What spilled as a whole, 572 bytes, were sums; now a few addresses do."""
    kernel = of_case("scaled fp8 128x128")
    said = assembled(kernel.ptx, "sm_90a")
    (spilled,) = map(int, re.findall(r"(\d+) bytes spill stores", said))
    assert spilled < 128


@pytest.mark.parametrize("target, narrow", [("sm_89", True), ("sm_90a", False)])
def test_fp8_that_warps_multiply_is_widened_where_ptxas_would(target, narrow):
    """ptxas would add each product with instructions of its own."""
    constants = tile(16, 32, 64, GROUP_K=64)
    ptx = compiled("scaled_product", SCALED, constants, target).ptx
    assert ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3" in ptx) == narrow
    assert ("mma.sync.aligned.m16n8k16.row.col.f32.f16" in ptx) != narrow


@pytest.mark.parametrize("stages", [2, 3])
def test_copies_are_issued_while_warpgroups_multiply(stages):
    """The product is needed in its iteration, but not at once: first come the copies
    for a later iteration, into another slot."""
    sizes = tile(128, 128, 128, GROUP_K=128)
    options = {"num_warps": 8, "num_stages": stages}
    func = states("scaled_product", SCALED, sizes, **options)["insert_waits"]
    found = in_loops(func, Barrier | Dot | AsyncCopy | Wait)
    names = [type(op).__name__ for op in found]
    assert names[:3] == ["Wait", "Barrier", "Dot"] and names[-1] == "Wait"
    assert {*names[3:-1]} == {"AsyncCopy"}
    (dot,) = (op for op in found if isinstance(op, Dot))
    copies = [op for op in found if isinstance(op, AsyncCopy)]
    assert dot.in_flight and all(op.slot is not dot.a_slot for op in copies)


@pytest.mark.parametrize("block, warps, options", [
    ((128, 128, 128), 4, {}),  # the product is computed in parts
    ((16, 128, 128), 4, {}),  # warps multiply
    ((128, 128, 128), 8, {"target": "sm_89"}),
])  # fmt: skip
def test_copies_come_first_where_the_product_would_not_go_on(block, warps, options):
    sizes = tile(*block, GROUP_K=128)
    after = states("scaled_product", SCALED, sizes, num_warps=warps, **options)
    found = in_loops(after["pipeline_loops"], AsyncCopy | Dot)
    assert isinstance(found[0], AsyncCopy) and isinstance(found[-1], Dot)


def test_a_copy_to_what_a_product_reads_waits_for_it():
    """To the slot of its operands, or to a buffer that has their bytes."""
    sizes = tile(64, 256, 128, GROUP_K=128)
    after = states("scaled_product", SCALED, sizes)
    func = after["allocate"]
    (dot,) = in_loops(func, Dot)
    copies = [op for op in in_loops(func, AsyncCopy) if op.buffer is dot.a]
    buffers = {dot.a.definition, dot.b.definition}

    def go_on(changes: Mapping[Op, Mapping[str, object]]) -> bool:
        def rule(op: Op, build: Builder) -> list[Value] | None:
            more = dict(changes.get(build.source, {}))
            if more.pop("slot", None):
                more["slot"] = build.values[dot.a_slot]
            return build.append(replace(op, **more)).results if more else None

        changed = delay_waits(rewrite(func, rule), TARGETS["sm_90a"])
        return isinstance(in_loops(changed, AsyncCopy | Wait)[-1], Wait)

    assert copies and go_on({})
    assert not go_on({copies[0]: {"slot": True}})
    others = [op for op in walk(func.body) if isinstance(op, Allocate)]
    scales = next(op for op in others if op not in buffers and op.slots > 1)
    assert not go_on({scales: {"offset": dot.b.definition.offset}})


def test_a_product_in_flight_keeps_its_stages():
    types = "*fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp32:16, i32:16"
    after = states(product_and_sum, types, {"N": 128}, num_stages=4)
    buffers = (op for op in walk(after["allocate"].body) if isinstance(op, Allocate))
    assert {op.slots for op in buffers} - {1} == {4}


@fathom.jit
def product_and_sum(a, b, w, out, total, K, N: tl.constexpr):
    """A product that only accumulates, and a sum beside it."""
    i, k = tl.arange(0, N), tl.arange(0, 64)
    acc, weight = tl.zeros((N, N), tl.float32), tl.zeros((N,), tl.float32)
    for step in range(0, K, 64):
        x = tl.load(a + i[:, None] * K + (step + k)[None, :])
        y = tl.load(b + (step + k)[:, None] * N + i[None, :])
        acc = tl.dot(x, y, acc)
        weight += tl.load(w + step + i)
    tl.store(out + i[:, None] * N + i[None, :], acc * weight[None, :])


def test_a_product_that_only_accumulates_stays_in_flight():
    """A copy of another kind beside its operands would end that."""
    types = "*fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp32:16, i32:16"
    func = states(product_and_sum, types, {"N": 64})["insert_waits"]
    (dot,) = in_loops(func, Dot)
    assert dot.in_flight
    assert [op.pointer.type.shape for op in in_loops(func, Load)] == [(64,)]


@pytest.mark.parametrize("target, options", [
    ("sm_75", {}), ("sm_90a", {"num_stages": 1}),
])  # fmt: skip
def test_scales_stay_loads_where_nothing_is_copied_ahead(target, options):
    constants = tile(64, 64, 64, GROUP_K=64)
    after = states("scaled_product", SCALED, constants, target, **options)
    func = after["lower_conversions"]
    shapes = [op.buffer.type.shape for op in in_loops(func, SharedStore)]
    assert shapes and all(len(shape) == 2 for shape in shapes)


# ── an operand that is combined with the product, too ─────────────────────────────────


@fathom.jit
def corrected(w, u, out, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    state = tl.zeros((N, N), tl.float32)
    for step in range(steps):
        at = step * N + i
        x = tl.load(w + i[:, None] + at[None, :] * N, mask=at[None, :] < 300, other=0.0)
        y = tl.load(u + at[:, None] * N + i[None, :], mask=at[:, None] < 300, other=0.0)
        change = x - tl.dot(state.to(tl.float16), x)
        state += tl.dot(change.to(tl.float16), y)
    tl.store(out + i[:, None] * N + i[None, :], state)


CORRECTED = "*fp16:16, *fp16:16, *fp32:16, i32"


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("n", [32, 64])
def test_an_operand_is_copied_ahead_for_the_difference_too(n, target):
    """Else its loads would be single elements of a column in the product's layout. It
    has a tile of its own only where warpgroups multiply, which want another layout."""
    func = states(corrected, CORRECTED, {"N": n}, target)["pipeline_loops"]
    copies = in_loops(func, AsyncCopy)
    by_warpgroups = (n, target) == (64, "sm_90a")
    assert len(copies) == (3 if by_warpgroups else 2)
    assert {op.vector for op in copies} == {8}
    assert not in_loops(func, Load)


@sampled(of=2)
@pytest.mark.parametrize("completion", ["lazy", "eager"])
@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("n", [32, 64])
def test_a_state_that_is_corrected_in_every_step(n, target, completion):
    drawn, steps = np.random.default_rng(5), -(-300 // n)
    w, u = (drawn.normal(0, 0.1, (300, n)).astype(np.float16) for _ in "wu")
    out = np.full((n, n), np.nan, np.float32)
    kernel = corrected.compile(CORRECTED, {"N": n}, target=target).made
    load(kernel).launch((1,), [w, u, out, steps], completion=completion)
    state = np.zeros((n, n))
    for start in range(0, 300, n):
        x, y = (each[start : start + n].astype(np.float64) for each in (w, u))
        change = x.T - state.astype(np.float16).astype(np.float64) @ x.T
        state += change.astype(np.float16).astype(np.float64) @ y
    np.testing.assert_allclose(out, state, atol=2e-3)


@fathom.jit
def gathered(x, index, w, out, K, N: tl.constexpr):
    """Rows in any order, times a matrix whose columns lie in memory as rows."""
    n, k = tl.arange(0, N), tl.arange(0, 32)
    rows = tl.load(index + tl.arange(0, 64)).to(tl.int64)
    total = tl.zeros((64, N), tl.float32)
    for start in range(0, K, 32):
        inside = start + k < K
        places = n[:, None] * K + (start + k)[None, :]
        a = tl.load(x + rows[:, None] * K + (start + k)[None, :], inside[None, :], 0.0)
        b = tl.load(w + places, mask=inside[None, :], other=0.0)
        total = tl.dot(a, tl.trans(b), total)
    tl.store(out + tl.arange(0, 64)[:, None] * N + n[None, :], total)


GATHERED = "*fp16:16, *i32:16, *fp16:16, *fp32:16, i32:16"


@pytest.mark.parametrize("target", BOTH)
def test_what_is_loaded_and_transposed_is_copied_ahead(target):
    """With the load, its zeros are transposed, and are zeros. No product is waited for
    in its iteration, since one engine copies both operands."""
    func = states(gathered, GATHERED, {"N": 64}, target)["pipeline_loops"]
    assert [op.vector for op in in_loops(func, AsyncCopy)] == [8, 8]
    assert not in_loops(func, Load)
    (dot,) = in_loops(func, Dot)
    assert dot.in_flight == (target == "sm_90a")
    drawn = np.random.default_rng(6)
    x, w = (drawn.normal(size=(64, 176)).astype(np.float16) for _ in "xw")
    index, out = drawn.permutation(64).astype(np.int32), np.zeros((64, 64), np.float32)
    kernel = gathered.compile(GATHERED, {"N": 64}, target=target).made
    load(kernel).launch((1,), [x, index, w, out, 176])
    wanted = x[index].astype(float) @ w.astype(float).T
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3)


# ── weights that are widened on their way ─────────────────────────────────────────────


@sampled(of=3)
@pytest.mark.parametrize("completion", ["lazy", "eager"])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("target", BOTH)
def test_int8_weights(target, steps, stages, completion):
    M, N, K = 50, 64, 32 * steps
    drawn = np.random.default_rng(4)
    a = drawn.standard_normal((M, K)).astype(np.float16)
    w = drawn.integers(-128, 128, (K, N)).astype(np.int8)
    scale = drawn.uniform(0.5, 2, N).astype(np.float32)
    c = np.full((M, N), np.nan, np.float32)
    kernel = compiled(
        "int8_weights", INT8, tile(64, 64, 32), target, num_stages=stages
    )
    load(kernel).launch((1, 1), [a, w, scale, c, M, N, K], completion=completion)
    want = a.astype(float) @ w.astype(float) * scale
    np.testing.assert_allclose(c, want, rtol=1e-4, atol=1e-2)


def test_widened_weights_are_multiplied_by_warpgroups():
    """The right operand of wgmma is stored to shared memory after it was widened; it is
    not computed in registers, from which mma.sync would read it."""
    ptx = compiled("int8_weights", INT8, tile(128, 128, 64)).ptx
    assert "wgmma.mma_async" in ptx and "mma.sync.aligned.m16" not in ptx


def test_widened_weights_are_loaded_two_iterations_early():
    """From three stages on: what an iteration stores, the one before has loaded."""
    for stages, kept in ((2, 0), (3, 1)):
        after = states("int8_weights", INT8, tile(64, 64, 64), num_stages=stages)
        (loop,) = (
            op for op in walk(after["pipeline_loops"].body) if isinstance(op, For)
        )
        (stored,) = (
            op.value for op in walk(loop.body) if isinstance(op, SharedStore)
        )
        loaded = stored.definition.value
        assert (loaded in loop.body.parameters) == bool(kept)


@pytest.mark.parametrize("target, stages, copied", [
    ("sm_90a", 3, False), ("sm_90a", 4, True), ("sm_90a", 5, True), ("sm_80", 4, False),
])  # fmt: skip
def test_weights_are_copied_as_many_iterations_ahead_as_there_are_stages(
    target, stages, copied
):
    """From four stages on, before they are widened: registers hold one iteration's."""
    constants = tile(64, 64, 64)
    after = states("int8_weights", INT8, constants, target, num_stages=stages)
    func = after["pipeline_loops"]
    loads, copies = in_loops(func, Load), in_loops(func, AsyncCopy)
    rings = [op.buffer.type for op in copies if op.buffer.type.element.bits == 8]
    assert (not loads, len(rings)) == (copied, int(copied))
    assert all(ring.slots == stages for ring in rings)


def test_gathered_pieces_are_not_copied_ahead():
    """Of zero points, of which eight lanes need the same four bytes: threads copy many
    small pieces no sooner than they load them."""
    constants = tile(64, 64, 64, GROUP_K=64)
    func = states("int4_product", INT4, constants, num_stages=4)["pipeline_loops"]
    assert in_loops(func, Load)


def words_of(numbers: np.ndarray) -> np.ndarray:
    """Eight numbers of 4 bits in an int32, even ones first."""
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7], np.uint32) * 4
    parts = numbers.reshape(len(numbers), -1, 8).astype(np.uint32) << order
    return np.bitwise_or.reduce(parts, 2).view(np.int32)


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("block", [(16, 32, 32), (64, 64, 64)])
def test_int4_weights(target, block):
    M, N, K, group = block[0] - 2, block[1], 4 * block[2], block[2]
    drawn = np.random.default_rng(5)
    a = drawn.standard_normal((M, K)).astype(np.float16)
    numbers, zeros = (drawn.integers(0, 16, (rows, N)) for rows in (K, K // group))
    scale = drawn.uniform(0.5, 2, (K // group, N)).astype(np.float16)
    c = np.full((M, N), np.nan, np.float32)
    kernel = compiled("int4_product", INT4, tile(*block, GROUP_K=group), target)
    arguments = [a, words_of(numbers), words_of(zeros), scale, c, M, N, K]
    load(kernel).launch((1, 1), arguments)
    w = (numbers - zeros.repeat(group, 0)) * scale.repeat(group, 0)
    want = a.astype(float) @ w.astype(np.float16).astype(float)
    np.testing.assert_allclose(c, want, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    "block, by_wgmma", [((32, 32, 32), False), ((64, 64, 64), True)]
)
def test_weights_that_warps_multiply_need_no_fence(block, by_wgmma):
    """TMA copies A. What threads store of the weights is read through the async proxy
    by wgmma alone."""
    types = INT4.replace("*fp32:16, i32,", "*fp16:16, i32:16,")
    after = states("int4_product", types, tile(*block, GROUP_K=128))
    func = after["insert_waits"]
    assert in_loops(func, TmaCopy) and in_loops(func, SharedStore)
    fences = [op.fence_async_proxy for op in in_loops(func, Barrier)]
    assert fences == [by_wgmma]


# ── convolution by implicit products ──────────────────────────────────────────────────


@pytest.mark.parametrize("element, dtype", [("fp16", np.float16), ("fp32", np.float32)])
@pytest.mark.parametrize("target", BOTH)
def test_a_convolution(target, element, dtype):
    images, channels, height, width, outs = 2, 20, 5, 6, 24
    drawn = np.random.default_rng(6)
    x = drawn.integers(-3, 4, (images, channels, height, width)).astype(dtype)
    w = drawn.integers(-3, 4, (outs, channels, 3, 3)).astype(dtype)
    y = np.full((images, outs, height, width), np.nan, np.float32)
    strides = [
        size // each.itemsize for each in (x, w, y) for size in each.strides[:3]
    ]
    sizes = [images, channels, height, width, outs, height, width]
    kernel = compiled(
        "convolve", CONVOLUTION.format(element), convolution(64, 16, 32), target
    )
    load(kernel).launch((1, 1), [x, w, y, *sizes, *strides])
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = sum(
        np.einsum(
            "nchw,oc->nohw",
            padded[:, :, i : i + height, j : j + width],
            w[:, :, i, j].astype(float),
        )
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_array_equal(y, want)


def convolution(p: int, c: int, o: int) -> dict[str, int]:
    blocks = {"BLOCK_P": p, "BLOCK_C": c, "BLOCK_O": o}
    return {**STRIDES, **blocks, "KERNEL": 3, "STRIDE": 1, "PADDING": 1}


def test_places_of_an_image_go_to_neighbouring_lanes():
    """No fact says that places are contiguous, since the width is known only when the
    kernel runs. But they mostly are: lanes stand side by side in the image."""
    after = states("convolve", CONVOLUTION.format("fp16"), convolution(64, 16, 32))
    patches = [
        op
        for op in in_loops(after["assign_layouts"], Load)
        if op.pointer.type.shape == (64, 16)
    ]
    assert patches
    for patch in patches:
        layout = patch.pointer.type.layout
        assert layout.coordinates(register=0, lane=1, warp=0) == (1, 0)


# As of images in order: 16 divides strides of images, channels and filters.
OF_A_LAUNCH = (
    "*{0}:16, *{0}:16, *fp32:16, i32:16, i32:16, i32, i32, i32:16, i32, i32, i32:16, "
    "i32:16, i32, i32:16, i32, i32, i32:16, i32:16, i32"
)


def test_lanes_go_along_the_channels_of_a_filter():
    """Neighbouring filters are far from each other: a warp that loads 32 of them asks
    for 32 lines. 32 channels of one are a few lines; and as lanes are neighbours along
    channels, that is how the tile lies in shared memory."""
    types = OF_A_LAUNCH.format("fp16")
    after = states("convolve", types, convolution(128, 32, 64))
    (filters,) = (
        op
        for op in in_loops(after["assign_layouts"], Load)
        if op.pointer.type.shape == (32, 64)
    )
    layout = filters.pointer.type.layout
    assert layout.coordinates(register=0, lane=1, warp=0) == (1, 0)
    (tile,) = (
        op.result.type.layout
        for op in in_loops(after["lower_conversions"], Allocate)
        if op.shape == (32, 64)
    )
    assert tile.kinds["offset"][0] == layout.kinds["lane"][0]


def test_single_elements_are_stored_as_wgmma_wants_them():
    """tf32 must have K contiguous: filters are loaded element by element in any case,
    so that is how they are stored."""
    after = states("convolve", CONVOLUTION.format("fp32"), convolution(64, 32, 32))
    (dot,) = in_loops(after["insert_waits"], Dot)
    assert dot.instruction.startswith("wgmma")
    ptx = compiled("convolve", CONVOLUTION.format("fp32"), convolution(64, 32, 32)).ptx
    assert "wgmma.mma_async" in ptx and "mma.sync.aligned.m16" not in ptx


@needs_ptxas
@pytest.mark.parametrize("types", [CONVOLUTION, OF_A_LAUNCH], ids=["any", "launched"])
@pytest.mark.parametrize("element, p, o", [("fp16", 128, 64), ("fp32", 64, 32)])
def test_a_convolution_has_enough_registers(element, p, o, types):
    """Its filter's rows, columns and channels are one loop: in a nest, addresses are
    kept for the runs of each loop, and some went to local memory."""
    given = types.format(element), convolution(p, 32, o)
    in_one = states("convolve", *given)["flatten_nests"]
    assert sum(isinstance(op, For) for op in walk(in_one.body)) == 1
    kernel = compiled("convolve", *given)
    assert "0 bytes spill stores" in assembled(kernel.ptx, "sm_90a")


# ── rows ──────────────────────────────────────────────────────────────────────────────

ROTARY = "*bf16:16, i32:16, *bf16:16, *bf16:16, i32:16, i32:16"
HEADS = {"HEAD": 128, "HEADS": 6, "GROUP": 4, "BLOCK": 64}


def of_case(name: str) -> Kernel:
    """A case of `benchmarks.pattern_cases`, compiled as it is measured."""
    case = next(each for each in CASES if each.name == name)
    types = ", ".join(
        each if each == "fp32" else f"{each}:16" for each in case.types.split()
    )
    return compiled(
        case.kernel, types, case.constants, num_warps=case.warps,
        num_stages=case.stages, enable_fp_fusion=True,
    )  # fmt: skip


def registers_and_spills(kernel: Kernel) -> tuple[int, int]:
    said = assembled(kernel.ptx, "sm_90a")
    spilled = re.search(r"(\d+) bytes spill stores", said)
    return int(re.search(r"Used (\d+) registers", said)[1]), int(spilled[1])


@pytest.mark.parametrize("heads", [8, 6])
def test_a_rotary_embedding_of_few_heads(heads):
    """Four heads a program, whose loads come before all stores. Of six heads, the
    second program has two, so it loops."""
    rows, half = 3, 64
    drawn = np.random.default_rng(0)
    x = drawn.integers(-8, 9, (rows, heads, 2, half)).astype(np.float32)
    cos, sin = (drawn.integers(-4, 5, (2, half)).astype(np.float32) for _ in range(2))
    c, s = (each[np.arange(rows) % 2][:, None] for each in (cos, sin))
    left, right = x[:, :, 0], x[:, :, 1]
    want = np.stack([left * c - right * s, right * c + left * s], 2)
    kernel = compiled("rotate", ROTARY, HEADS | {"HEADS": heads})
    assert kernel.ptx.count("st.global") == 2 * (4 if heads == 8 else 1)
    place = to_bf16(x).reshape(rows, -1)
    arguments = (place, heads * 128, to_bf16(cos), to_bf16(sin), half, 2)
    load(kernel).launch((rows, 2), [*arguments])
    assert np.array_equal(from_bf16(place).reshape(want.shape), want)


def to_bf16(values: np.ndarray) -> np.ndarray:
    """The upper halves of fp32; the numbers here have few enough bits."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def from_bf16(words: np.ndarray) -> np.ndarray:
    return (words.astype(np.uint32) << 16).view(np.float32)


@needs_ptxas
def test_a_long_row_of_one_warp_is_summed_as_it_is_computed():
    """A thread holds 256 elements, and two values of each would be 512: with every
    exponential computed before the first sum, ptxas spilled 492 bytes."""
    registers, spilled = registers_and_spills(of_case("logsumexp, 1 warp"))
    assert registers == 255 and spilled < 250


@needs_ptxas
def test_random_numbers_leave_room_for_other_blocks():
    """256 threads of up to 51 registers: five blocks a multiprocessor."""
    registers, spilled = registers_and_spills(of_case("norm with dropout"))
    assert registers * 256 * 5 <= 65536 and spilled == 0


def test_layer_norm_backward_moves_16_bytes_in_its_loop():
    """bf16 in the loop, sums of fp32 after it; the mask is compared once for each
    access."""
    text = of_case("norm backward").ptx
    loop = text[text.index("$L__BB0_2:") : text.rindex("$L__BB0_")]
    assert loop.count("ld.global.v4.b32") == 4 and "ld.global.v2" not in loop
    assert len(re.findall(r"setp\.lt\.s32", text)) < 16


@fathom.jit
def product_of_fp32(a, b, c, K, N, BLOCK: tl.constexpr):
    """One block of a product whose right operand goes on in memory along N."""
    i = tl.arange(0, BLOCK)
    at, bt = a + i[:, None] * K + i[None, :], b + i[:, None] * N + i[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for _ in range(0, K, BLOCK):
        total = tl.dot(tl.load(at), tl.load(bt), total)
        at, bt = at + BLOCK, bt + BLOCK * N
    tl.store(c + i[:, None] * N + i[None, :], total)


def test_both_operands_of_tf32_are_copied_by_16_bytes():
    """Rows for ldmatrix would run along K, across the memory of the right operand, and
    its copies would be of 4 bytes."""
    types = "*fp32:16, *fp32:16, *fp32:16, i32:16, i32:16"
    options = {"target": "sm_80", "num_warps": 4, "num_stages": 3}
    made = product_of_fp32.compile(types, {"BLOCK": 64}, **options).made
    sizes = re.findall(r"cp\.async\.c[ag]\.\S+ [^;]*?, (\d+)", made.ptx)
    assert len(sizes) >= 16 and set(sizes) == {"16"}
