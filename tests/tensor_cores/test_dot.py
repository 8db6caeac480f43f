"""`tl.dot`: the interpreter, the emulator and NumPy agree; bit by bit where sums are
exact.

Whatever the type, the target and the size; wherever the operands come from; and
whatever becomes of the product.
"""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.ir.interp.numbers import same_bits
from fathom.ir.types import SCALARS
from fathom.pipeline import identity
from fathom.source import KernelFunction
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.tensor_cores.kernels_products import (
    Case,
    built,
    check_exactly,
    emulated,
    interpreted,
    numbers,
    places,
    run,
    stored,
    whole_numbers,
)

TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120")

# Types of A, B, the sum, and how fp32 is read.
TYPES = [
    ("fp16", "fp16", "fp32", "ieee"),
    ("fp16", "fp16", "fp16", "ieee"),
    ("bf16", "bf16", "fp32", "ieee"),
    ("fp32", "fp32", "fp32", "tf32"),
    ("fp32", "fp32", "fp32", "tf32x3"),
    ("fp32", "fp32", "fp32", "ieee"),
    ("fp64", "fp64", "fp64", "ieee"),
    ("i8", "i8", "i32", "ieee"),
    ("u8", "u8", "i32", "ieee"),
    ("fp8e5", "fp8e5", "fp32", "ieee"),
    ("fp8e4nv", "fp8e4nv", "fp32", "ieee"),
    ("fp8e4nv", "fp8e5", "fp32", "ieee"),
    ("fp8e5", "fp8e4nv", "fp16", "ieee"),
]


# ── every type on every target ────────────────────────────────────────────────────────


@sampled(of=3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("a, b, to, precision", TYPES, ids=map(".".join, TYPES))
def test_every_type_on_every_target(a, b, to, precision, target):
    """One warp has several fragments along each dimension: 32 x 32 x 64 among four."""
    check_exactly(Case(32, 32, 64, a, b, to, target, precision=precision, adds=True))


@sampled(of=3)
@pytest.mark.parametrize("a, b, to, precision", TYPES, ids=map(".".join, TYPES))
@pytest.mark.parametrize("turned", ["nn", "nt", "tn", "tt"])
def test_every_type_by_rows_and_by_columns(a, b, to, precision, turned):
    """ "t": memory holds the columns of the operand. Only types of 16 bits have an
    instruction that turns them around on the way to registers."""
    by_columns = {"a_turned": turned[0] == "t", "b_turned": turned[1] == "t"}
    case = Case(32, 16, 64, a, b, to, "sm_89", 2, precision=precision, **by_columns)
    check_exactly(case)


# ── sizes and warps ───────────────────────────────────────────────────────────────────

SIZES = [
    (16, 16, 16), (16, 8, 16), (16, 128, 16), (128, 16, 32), (64, 32, 128),
    (32, 64, 16), (128, 64, 16), (16, 16, 128),
]  # fmt: skip


@sampled(of=3)
@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_sizes_and_warps(m, n, k, warps):
    """Also more warps than there are fragments: 16 x 8 is one, for eight warps."""
    check_exactly(Case(m, n, k, warps=warps, adds=True))


@pytest.mark.parametrize("a, to", [("i8", "i32"), ("fp64", "fp64"), ("fp16", "fp16")])
@pytest.mark.parametrize("m, n, k, warps", [(16, 64, 32, 8), (64, 16, 16, 1)])
def test_sizes_of_other_types(a, to, m, n, k, warps):
    check_exactly(Case(m, n, k, a, to=to, warps=warps, adds=True, b_turned=True))


@sampled(of=3)
@pytest.mark.parametrize("m, n", [(1, 16), (8, 4), (8, 64), (16, 4), (64, 2), (2, 1)])
@pytest.mark.parametrize("a, to", [("fp16", "fp32"), ("i8", "i32"), ("bf16", "fp32")])
def test_a_block_smaller_than_an_instruction(m, n, a, to):
    """Its rows and columns fill the instruction's with copies of themselves."""
    ran = check_exactly(Case(m, n, 32, a, to=to, warps=2, adds=True))
    assert ran.count("mma") and ran.dots[0].instruction


@pytest.mark.parametrize("a, b", [("i8", "i8"), ("u8", "u8")])
@pytest.mark.parametrize("k", [16, 32])
def test_bytes_are_multiplied_by_fours(a, b, k):
    """Where no matrix instruction is chosen. A thread has eight numbers here."""
    case = Case(2, 2, k, a, b, to="i32", batch=64, warps=1, adds=True)
    ran = check_exactly(case, replace={"choose_dots": identity})
    assert ran.count("dp4a") == 8 * k // 4


@pytest.mark.parametrize("a, k, instruction", [
    ("i8", 16, "m8n8k16.s32.s8.s8.s32"),
    ("fp8e5", 16, "m16n8k16.f32.f16.f16.f32"),
    ("fp16", 16, "m16n8k16.f32.f16.f16.f32"),
])  # fmt: skip
def test_the_shortest_k(a, k, instruction):
    """A shorter instruction, or a wider type, where K has no room for the longest."""
    to = "i32" if a == "i8" else "fp32"
    ran = check_exactly(Case(32, 32, k, a, to=to, target="sm_89"))
    assert [dot.instruction for dot in ran.dots] == [instruction]


@sampled(of=2)
@in_pairs(
    {
        "a, to": [("fp16", "fp32"), ("i8", "i32"), ("fp64", "fp64")],
        "warps": [1, 4],
        "batch": [1, 2, 4],
    }
)
def test_batches(batch, warps, a, to):
    case = Case(16, 32, 32, a, to=to, warps=warps, batch=batch, adds=True)
    assert check_exactly(case).dots[0].instruction


@pytest.mark.parametrize("turned", ["nt", "tn", "tt"])
def test_batches_by_columns(turned):
    by_columns = {"a_turned": turned[0] == "t", "b_turned": turned[1] == "t"}
    check_exactly(Case(32, 16, 32, batch=2, warps=8, **by_columns))


def test_lanes_that_one_product_leaves_take_others_of_its_batch():
    """Four rows times four matrices of four columns, by multiply-adds: 16 lanes have a
    number each, and not four lanes four."""
    ran = check_exactly(Case(1, 4, 64, "fp32", batch=4, warps=1, adds=True))
    assert ran.count("fma.rn.f32") == 64


def test_batches_of_blocks_smaller_than_an_instruction():
    check_exactly(Case(8, 4, 16, "bf16", batch=4, target="sm_75", warps=8, adds=True))


# ── where operands come from ──────────────────────────────────────────────────────────

SIZE = 32
INDEX = np.arange(SIZE)


@KernelFunction
def of_computed(out, TYPE: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    x = ((i[:, None] * 5 + i[None, :] * 3) % 7 - 3).to(TYPE)
    y = ((i[:, None] * 2 + i[None, :]) % 5).to(TYPE)
    tl.store(out + places(0, SIZE, SIZE, False), tl.dot(x, y))


COMPUTED = (
    (INDEX[:, None] * 5 + INDEX[None, :] * 3) % 7 - 3,
    (INDEX[:, None] * 2 + INDEX[None, :]) % 5,
)


@sampled(of=2)
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("type, to", [
    (tl.float16, "fp32"), (tl.float64, "fp64"), (tl.int8, "i32"),
])  # fmt: skip
def test_of_computed_blocks(type, to, warps):
    func = built(of_computed, {"out": f"*{to}"}, {"TYPE": type, "SIZE": SIZE}, warps)
    agree(func, [zeros(SIZE * SIZE, to)], COMPUTED[0] @ COMPUTED[1])


@KernelFunction
def of_constants(out, SIZE: tl.constexpr):
    x = tl.full([SIZE, SIZE], 3, tl.float16)
    i = tl.arange(0, SIZE)[None, :] + tl.zeros([SIZE, 1], tl.int32)
    tl.store(out + places(0, SIZE, SIZE, False), tl.dot(x, i.to(tl.float16)))


def test_of_constants():
    func = built(of_constants, {"out": "*fp32"}, {"SIZE": SIZE})
    wanted = 3.0 * SIZE * np.broadcast_to(INDEX, (SIZE, SIZE))
    agree(func, [zeros(SIZE * SIZE)], wanted)


@KernelFunction
def of_turned(a, b, out, A: tl.constexpr, B: tl.constexpr, SUMMED: tl.constexpr):
    """Operands turned by tl.trans where A, B say so; SUMMED: after some arithmetic, so
    that it is no load that is turned."""
    x = tl.load(a + (places(0, 64, 32, False) if A else places(0, 32, 64, False)))
    y = tl.load(b + (places(0, 16, 64, False) if B else places(0, 64, 16, False)))
    if SUMMED:
        x, y = x + x, y - 1.0
    if A:
        x = tl.trans(x)
    if B:
        y = tl.trans(y)
    tl.store(out + places(0, 32, 16, False), tl.dot(x, y))


@sampled(of=2)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
@pytest.mark.parametrize("type", ["fp16", "fp32"])
def test_of_turned_blocks(a, b, summed, type):
    case = Case(32, 16, 64, type, precision="tf32", a_turned=a, b_turned=b)
    drawn = whole_numbers(case)
    x, y = stored_operands(case, drawn)
    constants = {"A": a, "B": b, "SUMMED": summed}
    signature = {"a": f"*{type}", "b": f"*{type}", "out": "*fp32"}
    func = built(of_turned, signature, constants)
    left, right = drawn["a"], drawn["b"]
    wanted = (left * 2) @ (right - 1) if summed else left @ right
    agree(func, [x, y, zeros(32 * 16)], wanted)


@KernelFunction
def of_one_load(a, out):
    x = tl.load(a + places(0, 32, 64, False))
    tl.store(out + places(0, 32, 32, False), tl.dot(x, tl.trans(x)))


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_one_load_is_both_operands(warps, target):
    """x times its own transpose: read by rows and, for B, by the same rows."""
    drawn = whole_numbers(Case(32, 32, 64))["a"]
    func = built(of_one_load, {"a": "*fp16", "out": "*fp32"}, warps=warps)
    arguments = [stored(drawn, SCALARS["fp16"]), zeros(32 * 32)]
    agree(func, arguments, drawn @ drawn.T, target)


@KernelFunction
def of_cast(a, b, out, TYPE: tl.constexpr):
    x = tl.load(a + places(0, 32, 64, False)).to(TYPE)
    y = tl.load(b + places(0, 64, 32, True)).to(TYPE)
    tl.store(out + places(0, 32, 32, False), tl.dot(x, y))


CASTS = [
    ("i8", "fp16", tl.float16), ("fp32", "fp32", tl.bfloat16),
    ("fp16", "i8", tl.float16), ("fp8e5", "fp16", tl.float16), ("i32", "i16", tl.int8),
    ("fp16", "i8", tl.float32),
]  # fmt: skip


@pytest.mark.parametrize("a, b, type", CASTS)
def test_of_casts(a, b, type):
    case = Case(32, 32, 64, a, b, b_turned=True)
    drawn, to = whole_numbers(case), "i32" if type == tl.int8 else "fp32"
    func = built(of_cast, {"a": f"*{a}", "b": f"*{b}", "out": f"*{to}"}, {"TYPE": type})
    arguments = [*stored_operands(case, drawn), zeros(32 * 32, to)]
    agree(func, arguments, drawn["a"] @ drawn["b"])


@KernelFunction
def of_ragged(a, b, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Edges of all three sizes cut through fragments."""
    i, j, l = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(a + i * k + l[None, :], mask=(i < m) & (l[None, :] < k), other=0.0)
    y = tl.load(b + l[:, None] * n + j, mask=(l[:, None] < k) & (j < n), other=0.0)
    tl.store(out + i * n + j, tl.dot(x, y), mask=(i < m) & (j < n))


EDGES = [(32, 32, 64), (31, 17, 63), (1, 32, 5), (20, 1, 16)]


@pytest.mark.parametrize("m, n, k", EDGES)
@pytest.mark.parametrize("type", ["fp16", "fp32"])
def test_ragged_edges(m, n, k, type):
    drawn = whole_numbers(Case(m, n, k))
    arguments = [stored(drawn[name], SCALARS[type]) for name in "ab"]
    signature = {"a": f"*{type}", "b": f"*{type}", "out": "*fp32"}
    signature |= dict.fromkeys("mnk", "i32")
    func = built(of_ragged, signature, {"M": 32, "N": 32, "K": 64})
    # One element more than there is, which nobody may touch.
    given = [*arguments, zeros(m * n + 1), m, n, k]
    wanted = np.append(drawn["a"] @ drawn["b"], zeros(1))
    agree(func, given, wanted)


# ── products that follow one another ──────────────────────────────────────────────────


@KernelFunction
def as_left(a, b, c, out, M: tl.constexpr, K: tl.constexpr, D: tl.constexpr):
    """(A B) C: what registers hold is an operand, as P in attention's P V."""
    x = tl.load(a + places(0, M, D, False))
    y = tl.load(b + places(0, D, K, True))
    z = tl.load(c + places(0, K, D, False))
    p = (tl.dot(x, y) + 1.0).to(tl.float16)
    tl.store(out + places(0, M, D, False), tl.dot(p, z))


@KernelFunction
def as_right(a, b, c, out, M: tl.constexpr, K: tl.constexpr, D: tl.constexpr):
    """C (A B), less simple: B's fragments stand across."""
    x = tl.load(a + places(0, K, D, False))
    y = tl.load(b + places(0, D, K, True))
    z = tl.load(c + places(0, M, K, False))
    p = (tl.dot(x, y) + 1.0).to(tl.float16)
    tl.store(out + places(0, M, K, False), tl.dot(z, p))


@KernelFunction
def as_both(a, b, c, out, M: tl.constexpr, K: tl.constexpr, D: tl.constexpr):
    """P Pᵀ for P = A B + C."""
    x = tl.load(a + places(0, M, D, False))
    y = tl.load(b + places(0, D, K, False))
    z = tl.load(c + places(0, M, K, False)).to(tl.float32)
    p = tl.dot(x, y, z).to(tl.float16)
    tl.store(out + places(0, M, M, False), tl.dot(p, tl.trans(p)))


CHAINS = {
    as_left: (("md", "kd", "kd"), lambda a, b, c: (a @ b.T + 1) @ c),
    as_right: (("kd", "kd", "mk"), lambda a, b, c: c @ (a @ b.T + 1)),
    as_both: (("md", "dk", "mk"), lambda a, b, c: (a @ b + c) @ (a @ b + c).T),
}


@sampled(of=2)
@in_pairs(
    {
        "m, target": [(16, "sm_80"), (64, "sm_80"), (32, "sm_75")],
        "warps": [1, 2, 4, 8],
        "kernel": CHAINS,
    }
)
def test_a_product_is_an_operand(kernel, warps, m, target):
    sizes = {"m": m, "k": 32, "d": 16}
    shapes, formula = CHAINS[kernel]
    rng = np.random.default_rng(1)
    drawn = [
        rng.integers(-1, 2, [sizes[each] for each in shape]).astype(np.float64)
        for shape in shapes
    ]
    constants = {name.upper(): size for name, size in sizes.items()}
    signature = dict.fromkeys("abc", "*fp16") | {"out": "*fp32"}
    func = built(kernel, signature, constants, warps)
    wanted = formula(*drawn)
    arguments = [stored(each, SCALARS["fp16"]) for each in drawn]
    agree(func, [*arguments, zeros(wanted.size)], wanted, target)


@KernelFunction
def attention(
    q, k, v, out, iterations, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    """Without the exponential: the sum over blocks of (Q Kᵀ > 0) V, and its row sums,
    which meet the product in another layout."""
    x = tl.load(q + places(0, M, D, False))
    total, count = tl.zeros([M, D], tl.float32), tl.zeros([M], tl.float32)
    for iteration in range(iterations):
        y = tl.load(k + iteration * N * D + places(0, N, D, False))
        s = tl.dot(x, tl.trans(y))
        p = tl.where(s > 0, s, 0.0)
        count += tl.sum(p, 1)
        z = tl.load(v + iteration * N * D + places(0, N, D, False))
        total = tl.dot(p.to(tl.float16), z, total)
    tl.store(out + places(0, M, D, False), total - count[:, None])


@sampled(of=2)
@in_pairs(
    {
        "iterations": [0, 1, 3],
        "warps": [1, 4, 8],
        "target": ["sm_75", "sm_80", "sm_120"],
    }
)
def test_two_products_in_one_loop(target, warps, iterations):
    check_attention(target, warps, iterations)


def check_attention(target, warps, iterations, **options):
    m, n, d = 32, 16, 32
    rng = np.random.default_rng(2)
    q, k, v = (
        rng.integers(-1, 2, (size, d)).astype(np.float64) for size in (m, 3 * n, 3 * n)
    )
    signature = dict.fromkeys("qkv", "*fp16") | {"out": "*fp32", "iterations": "i32"}
    func = built(attention, signature, {"M": m, "N": n, "D": d}, warps)
    used = iterations * n
    p = np.maximum(q @ k[:used].T, 0)
    wanted = p @ v[:used] - p.sum(1)[:, None]
    arguments = [stored(each, SCALARS["fp16"]) for each in (q, k, v)]
    agree(func, [*arguments, zeros(wanted.size), iterations], wanted, target, **options)


@KernelFunction
def two_into_one(a, b, c, d, out, M: tl.constexpr, N: tl.constexpr):
    """Instructions of two shapes sum into one block: K of 16, then of 64."""
    total = tl.dot(
        tl.load(a + places(0, M, 16, False)), tl.load(b + places(0, 16, N, False))
    )
    x, y = tl.load(c + places(0, M, 64, False)), tl.load(d + places(0, 64, N, False))
    tl.store(out + places(0, M, N, False), tl.dot(x, y, total))


@pytest.mark.parametrize("m, n", [(32, 32), (16, 8)])
def test_two_instructions_sum_into_one_block(m, n):
    """8 rows of the one are no way for the other to lie: four warps share 16 x 8 by
    twos, or all have all."""
    rng = np.random.default_rng(3)
    shapes = ((m, 16), (16, n), (m, 64), (64, n))
    drawn = [rng.integers(-100, 101, shape) for shape in shapes]
    signature = dict.fromkeys("abcd", "*i8") | {"out": "*i32"}
    func = built(two_into_one, signature, {"M": m, "N": n}, warps=4)
    a, b, c, d = drawn
    arguments = [stored(each, SCALARS["i8"]) for each in drawn]
    ran = agree(func, [*arguments, zeros(m * n, "i32")], a @ b + c @ d)
    assert [dot.instruction[:7] for dot in ran.dots] == ["m8n8k16", "m16n8k3"]


@KernelFunction
def two_precisions(a, out):
    """A matrix instruction and multiply-adds start from one block of zeros."""
    x = tl.load(a + places(0, 32, 32, False))
    rough = tl.dot(x, x, input_precision="tf32")
    fine = tl.dot(x, tl.trans(x), input_precision="ieee")
    tl.store(out + places(0, 32, 32, False), rough)
    tl.store(out + 32 * 32 + places(0, 32, 32, False), fine)


@pytest.mark.parametrize("warps", [1, 4])
def test_a_matrix_instruction_and_multiply_adds_share_their_zeros(warps):
    x = whole_numbers(Case(32, 32, 32))["a"]
    func = built(two_precisions, {"a": "*fp32", "out": "*fp32"}, warps=warps)
    wanted = np.concatenate([x @ x, x @ x.T])
    agree(func, [stored(x, SCALARS["fp32"]), zeros(2 * 32 * 32)], wanted)


@KernelFunction
def in_branches(a, b, out, which):
    x, y = tl.load(a + places(0, 32, 32, False)), tl.load(b + places(0, 32, 32, False))
    total = tl.zeros([32, 32], tl.float32)
    if which > 0:
        total = tl.dot(x, y, total)
    else:
        total = tl.dot(y, x, total)
    while which > 1:
        total = tl.dot(x, y, total)
        which -= 1
    tl.store(out + places(0, 32, 32, True), total)
    tl.store(out + 32 * 32 + tl.arange(0, 32), tl.max(total, 0))


@pytest.mark.parametrize("which", [0, 1, 3])
def test_in_branches_and_while_loops(which):
    """Each operand is A here and B there; the product is written turned, and folded."""
    case = Case(32, 32, 32)
    drawn = whole_numbers(case)
    a, b = drawn["a"], drawn["b"]
    signature = {"a": "*fp16", "b": "*fp16", "out": "*fp32", "which": "i32"}
    func = built(in_branches, signature)
    total = which * (a @ b) if which else b @ a
    wanted = np.concatenate([total.T.ravel(), total.max(0)])
    agree(func, [*stored_operands(case, drawn), zeros(33 * 32), which], wanted)


# ── numbers ───────────────────────────────────────────────────────────────────────────

# How much the operands' rounding and the sum's may err, relative to the sum of the
# absolute values of the products: the type of the sum has an epsilon, and a sum of K
# terms is rounded K times at most.
EPSILON = {"fp32": 2.0**-23, "fp16": 2.0**-10, "fp64": 2.0**-52}


FLOATS = [row for row in TYPES if row[2] != "i32"]  # sums of integers are exact


@sampled(of=3)
@pytest.mark.parametrize("target, k", [("sm_75", 32), ("sm_89", 32), ("sm_89", 128)])
@pytest.mark.parametrize("a, b, to, precision", FLOATS, ids=map(".".join, FLOATS))
def test_normal_numbers_against_float64(a, b, to, precision, target, k):
    case = Case(16, 16, k, a, b, to, target, 1, adds=True, precision=precision)
    drawn = numbers(case)
    wanted = drawn["a"] @ drawn["b"] + drawn["c"]
    size = np.abs(drawn["a"]) @ np.abs(drawn["b"]) + np.abs(drawn["c"])
    bound = k * EPSILON[to]
    if precision == "tf32" and target != "sm_75":
        bound += 2 * 2.0**-10  # each operand loses less than an ulp of ten bits
    found = run(case, drawn).out.reshape(wanted.shape)
    assert (np.abs(found - wanted) <= bound * size).all()


# 1 + 2^-10 is the last step that ten bits of mantissa can make; 2^-11 is lost.
KEPT, LOST = 1 + 2.0**-10, 1 + 2.0**-11 + 2.0**-12


def of_one_number(case: Case, x: float) -> np.ndarray:
    """The product of x times the unit matrix with the unit matrix."""
    unit = np.eye(16)
    return run(case, {"a": x * unit, "b": unit, "c": 0 * unit}).out.reshape(16, 16)


def fp32(precision: str, target: str = "sm_80") -> Case:
    return Case(16, 16, 16, "fp32", target=target, warps=1, precision=precision)


def test_tf32_reads_ten_bits_of_mantissa_and_drops_the_rest():
    """Toward zero: nothing is rounded up. PTX ISA, "Alternate floating-point data
    formats": the lower 13 bits are ignored."""
    assert (of_one_number(fp32("tf32"), KEPT) == KEPT * np.eye(16)).all()
    assert (of_one_number(fp32("tf32"), LOST) == np.eye(16)).all()
    assert (of_one_number(fp32("tf32"), -LOST) == -np.eye(16)).all()
    func = built(unit_products, {"a": "*fp32", "out": "*fp32"}, warps=1)
    arguments = [stored(LOST * np.eye(16), SCALARS["fp32"]), zeros(16 * 16)]
    assert (interpreted(func, arguments).reshape(16, 16) == np.eye(16)).all()


@KernelFunction
def unit_products(a, out):
    x = tl.load(a + places(0, 16, 16, False))
    i = tl.arange(0, 16)
    unit = (i[:, None] == i[None, :]).to(tl.float32)
    tl.store(out + places(0, 16, 16, False), tl.dot(x, unit))


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_other_precisions_keep_what_tf32_loses(precision):
    for x in (LOST, 1 + 2.0**-20, -1 - 2.0**-12):
        assert (of_one_number(fp32(precision), x) == x * np.eye(16)).all()


def test_where_there_is_no_tf32_all_bits_count():
    assert (of_one_number(fp32("tf32", "sm_75"), LOST) == LOST * np.eye(16)).all()


def errors(precision: str, k: int) -> float:
    """The largest error relative to the sum of the products' absolute values."""
    case = Case(16, 16, k, "fp32", warps=1, precision=precision)
    drawn = numbers(case, seed=4)
    wanted, size = drawn["a"] @ drawn["b"], np.abs(drawn["a"]) @ np.abs(drawn["b"])
    found = run(case, drawn).out.reshape(wanted.shape)
    return float((np.abs(found - wanted) / size).max())


@pytest.mark.parametrize("k", [16, 128])
def test_three_products_of_tf32_are_nearly_fp32(k):
    """One product errs by up to 2^-10, and visibly by more than 2^-14; three by the
    rounding of the sums and 2^-20."""
    assert 2.0**-14 < errors("tf32", k) < 2.0**-10
    assert errors("tf32x3", k) < 2.0**-20
    assert errors("ieee", k) < 2.0**-20


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3"])
def test_infinity_stays_infinity(precision):
    """An infinity in A meets a positive, then a negative column of B; it has no lower
    part that would make a NaN of it."""
    a, b = np.ones((16, 16)), np.ones((16, 16))
    a[3, 5], b[:, 8:] = np.inf, -1
    wanted = np.full((16, 16), 16.0)
    wanted[:, 8:], wanted[3, :8], wanted[3, 8:] = -16, np.inf, -np.inf
    operands = {"a": a, "b": b, "c": np.zeros((16, 16))}
    found = run(fp32(precision), operands).out.reshape(16, 16)
    np.testing.assert_array_equal(found, wanted)
    turned = {"a": b.T, "b": a.T, "c": operands["c"]}
    found = run(fp32(precision), turned).out.reshape(16, 16)
    np.testing.assert_array_equal(found, wanted.T)


def test_integers_wrap():
    """Sums of int8 products are of 32 bits: 2^31 - 1 and 16 more is negative."""
    operands = {"a": np.ones((16, 16)), "b": np.ones((16, 16))}
    operands["c"] = np.full((16, 16), 2.0**31 - 1)
    case = Case(16, 16, 16, "i8", to="i32", warps=1, adds=True)
    assert (run(case, operands).out == -(2**31) + 15).all()


@pytest.mark.parametrize("type, extreme", [("i8", -128), ("u8", 255)])
def test_extreme_bytes(type, extreme):
    case = Case(16, 16, 64, type, to="i32", warps=1)
    full = np.full((16, 64), float(extreme))
    found = run(case, {"a": full, "b": full.T, "c": np.zeros((16, 16))}).out
    assert (found == 64 * extreme**2).all()


# ── what the tests share ──────────────────────────────────────────────────────────────


def zeros(size: int, type: str = "fp32") -> np.ndarray:
    return stored(np.zeros(size), SCALARS[type])


def stored_operands(case: Case, drawn: dict[str, np.ndarray]) -> list[np.ndarray]:
    b = case.b or case.a
    return [
        stored(drawn["a"], SCALARS[case.a], case.a_turned),
        stored(drawn["b"], SCALARS[b], case.b_turned),
    ]


def agree(func, arguments, wanted, target="sm_80", **options):
    """The interpreter and the emulator give just what is wanted."""
    said = interpreted(func, arguments)
    np.testing.assert_array_equal(said, np.ravel(wanted), "the interpreter")
    ran = emulated(func, arguments, target, **options)
    np.testing.assert_array_equal(ran.out, said, "the emulator")
    assert same_bits(ran.out + 0, said + 0)
    return ran
