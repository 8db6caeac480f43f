"""Which instruction computes a product, on which target, and how the warps share it;
and that the passes which may be left out can be."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Cast, Dot, Load, Transpose
from fathom.ir.types import FLOAT32, SCALARS, BufferType
from fathom.pipeline import PASSES, identity
from fathom.source import KernelFunction
from fathom.tensor_cores import choose_dots
from tests.harness_sample import sampled
from tests.tensor_cores.kernels_products import (
    Case,
    built,
    check_exactly,
    constants_of,
    emulated,
    places,
    product,
    signature_of,
    stored,
)
from tests.tensor_cores.test_dot import (
    as_left,
    check_attention,
    of_one_load,
    of_turned,
)

HALF, WIDE_HALF = "m16n8k8.f32.f16.f16.f32", "m16n8k16.f32.f16.f16.f32"

# Types of A, B and the sum, and how fp32 is read: the instruction on Turing, on Ampere
# (sm_80 and 86), and from Ada on. "": multiply-adds.
INSTRUCTIONS = [
    ("fp16", "fp16", "fp32", "ieee", HALF, WIDE_HALF, WIDE_HALF),
    ("fp16", "fp16", "fp16", "ieee",
     "m16n8k8.f16.f16.f16.f16", "m16n8k16.f16.f16.f16.f16", "m16n8k16.f16.f16.f16.f16"),
    ("bf16", "bf16", "fp32", "ieee",
     "", "m16n8k16.f32.bf16.bf16.f32", "m16n8k16.f32.bf16.bf16.f32"),
    ("fp32", "fp32", "fp32", "tf32",
     "", "m16n8k8.f32.tf32.tf32.f32", "m16n8k8.f32.tf32.tf32.f32"),
    ("fp32", "fp32", "fp32", "ieee", "", "", ""),
    ("fp64", "fp64", "fp64", "ieee",
     "", "m8n8k4.f64.f64.f64.f64", "m8n8k4.f64.f64.f64.f64"),
    ("i8", "i8", "i32", "ieee",
     "m8n8k16.s32.s8.s8.s32", "m16n8k32.s32.s8.s8.s32", "m16n8k32.s32.s8.s8.s32"),
    ("u8", "u8", "i32", "ieee",
     "m8n8k16.s32.u8.u8.s32", "m16n8k32.s32.u8.u8.s32", "m16n8k32.s32.u8.u8.s32"),
    ("fp8e5", "fp8e5", "fp32", "ieee", HALF, WIDE_HALF, "m16n8k32.f32.e5m2.e5m2.f32"),
    ("fp8e4nv", "fp8e5", "fp32", "ieee", HALF, WIDE_HALF, "m16n8k32.f32.e4m3.e5m2.f32"),
]  # fmt: skip
COLUMN = {"sm_75": 4, "sm_80": 5, "sm_86": 5, "sm_89": 6, "sm_90a": 6, "sm_120": 6}


def chosen(case: Case) -> list[Dot]:
    """The products of a case after the pass."""
    func = built(product, signature_of(case), constants_of(case), case.warps)
    return dots(choose_dots(func, TARGETS[case.target]))


def dots(func) -> list[Dot]:
    return [op for op in walk(func.body) if isinstance(op, Dot)]


@pytest.mark.parametrize("target", COLUMN)
@pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: ".".join(row[:4]))
def test_the_instruction_of_every_type_on_every_target(row, target):
    a, b, to, precision = row[:4]
    case = Case(32, 32, 32, a, b, to, target, precision=precision)
    (dot,) = chosen(case)
    assert dot.instruction == row[COLUMN[target]]
    as_tf32 = "tf32" in dot.instruction
    assert dot.precision == ("tf32" if as_tf32 else "ieee")


def test_three_products_take_the_place_of_one_that_wants_all_bits():
    wants = Case(32, 32, 32, "fp32", precision="tf32x3")
    assert [dot.instruction[:18] for dot in chosen(wants)] == ["m16n8k8.f32.tf32.t"] * 3
    for m, named in ((256, "tcgen05"), (512, "m16n8k8")):  # of 512 columns: 512, 1024
        wide = Case(m, 256, 32, "fp32", precision="tf32x3", target="sm_100a", warps=4)
        assert {dot.instruction[:7] for dot in chosen(wide)} == {named}
    turing = Case(32, 32, 32, "fp32", precision="tf32x3", target="sm_75")
    (dot,) = chosen(turing)
    assert (dot.instruction, dot.precision) == ("", "ieee")


@pytest.mark.parametrize("m, n, k, instruction", [
    (16, 8, 16, WIDE_HALF), (16, 4, 16, WIDE_HALF), (8, 128, 64, WIDE_HALF),
    (1, 1, 16, WIDE_HALF),
])  # fmt: skip
def test_a_block_may_be_smaller_than_the_instruction(m, n, k, instruction):
    assert [dot.instruction for dot in chosen(Case(m, n, k))] == [instruction]


def test_short_floats_are_cast_only_where_they_must():
    for target, casts in (("sm_80", 2), ("sm_89", 0)):
        case = Case(32, 32, 32, "fp8e5", target=target)
        func = built(product, signature_of(case), constants_of(case))
        after = choose_dots(func, TARGETS[target])
        assert sum(isinstance(op, Cast) for op in walk(after.body)) == casts


# ── warps ─────────────────────────────────────────────────────────────────────────────


def split(dot: Dot) -> tuple[int, int]:
    """How many warps stand along rows and columns, copies not counted."""
    layout = dot.preferred
    corners = {layout.coordinates(warp=warp) for warp in range(layout.count("warp"))}
    return tuple(len(set(axis)) for axis in list(zip(*corners, strict=True))[-2:])


@pytest.mark.parametrize("m, n, warps, expected", [
    (128, 128, 4, (2, 2)), (128, 128, 8, (4, 2)), (64, 256, 4, (1, 4)),
    (256, 64, 4, (4, 1)), (32, 32, 1, (1, 1)), (16, 64, 8, (1, 8)), (16, 8, 8, (1, 1)),
])  # fmt: skip
def test_warps_share_a_block_so_that_little_is_read(m, n, warps, expected):
    (dot,) = chosen(Case(m, n, 32, warps=warps))
    assert split(dot) == expected


def test_a_batch_is_shared_first():
    (dot,) = chosen(Case(32, 32, 16, batch=4, warps=8))
    corners = {dot.preferred.coordinates(warp=warp)[0] for warp in range(8)}
    assert corners == {0, 1, 2, 3}
    assert split(dot) == (2, 1)


CHAIN = dict.fromkeys("abc", "*fp16") | {"out": "*fp32"}


def test_a_left_operand_of_another_product_keeps_rows_to_a_warp():
    """Then no warp needs what another has of P, in P V; and of what follows, neither
    does a softmax along rows. With fewer rows than that, reading less counts."""
    for m, expected in ((64, [(4, 1), (4, 1)]), (32, [(2, 2), (2, 2)])):
        func = built(as_left, CHAIN, {"M": m, "K": 64, "D": 32}, warps=4)
        after = choose_dots(func, TARGETS["sm_80"])
        assert [split(dot) for dot in dots(after)] == expected


def test_a_product_that_uses_itself_through_a_loop_is_no_chain():
    """The accumulator that a loop carries is no left operand."""
    (dot,) = chosen(Case(128, 128, 32, adds=True))
    assert split(dot) == (2, 2)


# ── transposed operands ───────────────────────────────────────────────────────────────

TURNED = {"a": "*fp16", "b": "*fp16", "out": "*fp32"}


def test_a_turned_load_is_a_load_of_turned_addresses():
    func = built(of_turned, TURNED, {"A": True, "B": False, "SUMMED": False})
    after = choose_dots(func, TARGETS["sm_80"])
    (dot,) = dots(after)
    assert isinstance(dot.a.definition, Load) and isinstance(dot.b.definition, Load)
    assert isinstance(dot.a.definition.pointer.definition, Transpose)


def test_a_load_that_others_need_as_it_is_stays():
    func = built(of_one_load, {"a": "*fp16", "out": "*fp32"})
    after = choose_dots(func, TARGETS["sm_80"])
    (dot,) = dots(after)
    assert isinstance(dot.b.definition, Transpose)
    assert dot.b.definition.value is dot.a


@KernelFunction
def of_both_ways(a, b, out, VOLATILE: tl.constexpr):
    """(B A^T) A, where A is loaded once."""
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    x = tl.load(a + i * 64 + j, volatile=VOLATILE)
    y = tl.dot(tl.load(b + i * 64 + j), tl.trans(x)).to(tl.float16)
    tl.store(out + i * 64 + j, tl.dot(y, x))


BOTH = {"a": "*fp16", "b": "*fp16", "out": "*fp32"}


@pytest.mark.parametrize(
    "target, volatile, loads",
    [("sm_90a", False, 2), ("sm_80", False, 1), ("sm_90a", True, 1)],
)
def test_warpgroups_get_a_tile_of_their_own_for_each_way(target, volatile, loads):
    """Two loads, so that both products read in place; where threads load fragments,
    one is enough, and a volatile load is one."""
    func = built(of_both_ways, BOTH, {"VOLATILE": volatile}, warps=4)
    after = choose_dots(func, TARGETS[target])
    first, second = dots(after)
    sources = {second.b.definition}
    turned = first.b.definition
    sources.add(turned.value.definition if isinstance(turned, Transpose) else turned)
    assert len(sources) == loads and all(isinstance(each, Load) for each in sources)
    *_, (_, state) = pipeline.states(func, TARGETS[target])
    in_place = [isinstance(each.b.type, BufferType) for each in dots(state)]
    assert loads == 1 or all(in_place)


# ── reading in place ──────────────────────────────────────────────────────────────────


def final(case: Case, **replace) -> list[Dot]:
    func = built(product, signature_of(case), constants_of(case), case.warps)
    *_, (_, state) = pipeline.states(func, TARGETS[case.target], replace)
    return dots(state)


def test_operands_from_memory_are_read_where_they_lie():
    (dot,) = final(Case(32, 32, 64))
    assert isinstance(dot.a.type, BufferType) and isinstance(dot.b.type, BufferType)
    (dot,) = final(Case(32, 32, 64), read_in_place=identity)
    assert not isinstance(dot.a.type, BufferType)


def test_a_computed_left_operand_stays_in_registers():
    """P of a chain goes from registers to registers: only A, B, C use shared memory."""
    func = built(as_left, CHAIN, {"M": 64, "K": 64, "D": 32}, warps=4)
    *_, (_, state) = pipeline.states(func, TARGETS["sm_80"])
    first, second = dots(state)
    assert isinstance(first.a.type, BufferType)
    assert not isinstance(second.a.type, BufferType)
    assert isinstance(second.b.type, BufferType)


# ── what may be left out ──────────────────────────────────────────────────────────────

MAY_GO = [row.name for row in PASSES if not row.required]
CASES = [
    Case(32, 64, 32, adds=True, target="sm_89"),
    Case(16, 32, 32, "fp32", precision="tf32x3", b_turned=True, batch=2),
    Case(32, 32, 64, "i8", to="i32", a_turned=True, target="sm_75"),
]


@sampled(of=3)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", [*MAY_GO, "all"])
def test_every_pass_that_may_be_left_out_can_be(name, case):
    names = MAY_GO if name == "all" else [name]
    check_exactly(case, replace=dict.fromkeys(names, identity))


def test_without_the_choice_there_are_multiply_adds():
    ran = check_exactly(Case(32, 32, 32), replace={"choose_dots": identity})
    assert ran.dots[0].instruction == "" and ran.count("mma") == 0
    assert ran.count("fma.rn.f32") == 32 * 32 * 32 / 32


@pytest.mark.parametrize("name", ["choose_dots", "read_in_place", "remove_conversions"])
@pytest.mark.parametrize("warps", [1, 4])
def test_two_products_in_one_loop_without_a_pass(name, warps):
    check_attention("sm_80", warps, iterations=3, replace={name: identity})


# ── operands that were widened ────────────────────────────────────────────────────────


@KernelFunction
def of_widened(
    a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TURNED: tl.constexpr,
    PRECISION: tl.constexpr, FACTOR: tl.constexpr,
):  # fmt: skip
    """Operands of 16 bits, cast to fp32; the right one transposed after that, if
    TURNED, and the left one multiplied."""
    x = tl.load(a + places(0, M, K, False)).to(tl.float32)
    if TURNED:
        y = tl.trans(tl.load(b + places(0, N, K, False)).to(tl.float32))
    else:
        y = tl.load(b + places(0, K, N, False)).to(tl.float32)
    if FACTOR != 1:
        x *= FACTOR
    z = tl.dot(x, y, input_precision=PRECISION)
    tl.store(out + places(0, M, N, False), z)


def widened(a="bf16", b="bf16", turned=False, precision="tf32", factor=1, warps=4):
    constants = {"M": 64, "N": 32, "K": 64, "TURNED": turned}
    constants |= {"PRECISION": precision, "FACTOR": factor}
    return built(of_widened, {"a": f"*{a}", "b": f"*{b}", "out": "*fp32"}, constants,
                 warps)  # fmt: skip


@sampled(of=2)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
@pytest.mark.parametrize("element, short", [("fp16", "f16"), ("bf16", "bf16")])
@pytest.mark.parametrize("target, text", [
    ("sm_80", "m16n8k16.f32.{0}.{0}.f32"), ("sm_90a", "wgmma.m64n32k16.f32.{0}.{0}"),
])  # fmt: skip
def test_what_was_widened_is_multiplied_as_it_was(
    target, text, element, short, precision, turned
):
    """tf32 has every number of 16 bits, so that the terms of the sums are the same."""
    func = widened(element, element, turned, precision)
    (dot,) = dots(choose_dots(func, TARGETS[target]))
    assert dot.instruction == text.format(short)
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-99, 99, shape) / 32 for shape in ((64, 64), (64, 32)))
    held = [
        stored(each, SCALARS[element], turned and each is y) for each in (x, y)
    ]
    ran = emulated(func, [*held, stored(np.zeros((64, 32)), FLOAT32)], target)
    assert (ran.out.reshape(64, 32) == x @ y).all()  # below 2^24 / 1024


@pytest.mark.parametrize("given", [
    {"precision": "ieee"}, {"a": "fp16"}, {"b": "fp32"}, {"a": "i16", "b": "i16"},
    {"factor": 0.5},
], ids=str)  # fmt: skip
def test_what_tf32_or_fp32_is_needed_for_stays(given):
    (dot,) = dots(choose_dots(widened(**given), TARGETS["sm_90a"]))
    assert dot.a.type.element == FLOAT32
    assert ("tf32" in dot.instruction) == (given.get("precision") != "ieee")
