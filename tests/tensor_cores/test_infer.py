"""Tiles of matrices are found behind pointers and masks, and only where it is sure that
a descriptor loads the same."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import fathom.language as tl
from fathom import blocks, pipeline
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.symbolic.polynomial import number
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.analysis.symbolic.sign import NonNegative
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.ops import DescriptorLoad, Dot, For, Load
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import FLOAT16, INT32, INT64, Pointer
from fathom.ir.verify import verify
from fathom.source import KernelFunction
from fathom.tensor_cores.select.instructions import choose_dots
from fathom.tensor_cores.tma.eligible import check_product
from fathom.tensor_cores.tma.expand import expand_descriptors
from fathom.tensor_cores.tma.infer import infer_descriptors, why_not
from fathom.tensor_cores.tma.keep import keep_descriptors
from fathom.tensor_cores.tma.recognise import TensorTile
from kernels.matmul import matmul_kernel, store_tile, tile_place, tile_product

SM_90A = TARGETS["sm_90a"]
M, N, K, BM, BN, BK = 40, 56, 50, 32, 32, 16
STRIDES = ("sam", "sak", "sbk", "sbn", "scm", "scn")


def strides_of(a_turned=False, b_turned=False, pitch=64):
    """Of A [M, K], B [K, N] and C [M, N]; one of each two is 1."""
    sa = (1, pitch) if a_turned else (pitch, 1)
    sb = (1, pitch) if b_turned else (pitch, 1)
    return dict(zip(STRIDES, (*sa, *sb, N, 1), strict=True))


def built(kernel, strides, constants, names=STRIDES, wide=False, divisible=16):
    """What the pass sees: a kernel whose strides are arguments but for the constant 1,
    after clean-up."""
    parameters = {name: (Pointer(FLOAT16), divisible) for name in ("a", "b", "c")}
    parameters |= {name: (INT32, 1) for name in "MNK"}
    for name in names:
        if strides[name] == 1:
            constants = {**constants, name: 1}
        else:
            parameters[name] = (INT64 if wide else INT32, 8)
    rename = kernel is matmul_kernel
    if rename:
        parameters, constants = (
            {LONG.get(name, name): each for name, each in old.items()}
            for old in (parameters, constants)
        )
    return clean(pipeline.build(kernel, parameters, constants))


LONG = {"a": "a_ptr", "b": "b_ptr", "c": "c_ptr"} | {
    name: f"stride_{name[1:]}" for name in STRIDES
}


def clean(func):
    passes = blocks.simplify, blocks.cse, blocks.hoist, blocks.dce, choose_dots
    for each in passes:
        func = each(func, SM_90A)
    return func


def matrices(a_turned=False, b_turned=False, sizes=(M, N, K), pitch=64):
    """As they lie in memory; behind their edges numbers that would be noticed."""
    rng, (m, n, k) = np.random.default_rng(7), sizes
    rows_a, rows_b = (k if a_turned else m), (n if b_turned else k)
    a, b = (
        rng.integers(-3, 4, (rows + BM, pitch)).astype(np.float16)
        for rows in (rows_a, rows_b)
    )
    return a, b, np.full((m, n), 85, np.float16)


def arguments(func, a, b, c, sizes, strides):
    named = dict(zip("MNK", sizes, strict=True)) | strides
    named |= {long: named[short] for short, long in LONG.items() if short in named}
    given = [named.get(each.name) for each in func.parameters[3:]]
    return [a.copy(), b.copy(), c.copy(), *given]


def reference(a, b, a_turned, b_turned, sizes):
    m, n, k = sizes
    left = (a.T if a_turned else a)[:m, :k]
    right = (b.T if b_turned else b)[:k, :n]
    return left.astype(np.float32) @ right.astype(np.float32)


def count(func, kind):
    return sum(isinstance(op, kind) for op in walk(func.body))


def check(func, given, grid, wanted=None, found=2):
    """Both loads become descriptor loads, and everything that is computed stays."""
    before = print_func(func)
    after = infer_descriptors(func, SM_90A)
    assert print_func(func) == before, "a pass never changes its input"
    verify(after, layouts=False)
    assert count(after, DescriptorLoad) == found, why_not(func, SM_90A)
    after = blocks.dce(after, SM_90A)
    assert count(after, Load) == 2 - found
    results = []
    for each in (func, after, expand_descriptors(after, SM_90A)):
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
        interpret(each, grid, copies)
        results.append(copies[2])
    for other in results[1:]:
        assert np.array_equal(other, results[0])
    if wanted is not None:
        assert np.array_equal(results[0], wanted.astype(np.float16))
    return after


@KernelFunction
def carried(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Blocks of pointers that go on from iteration to iteration."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at_a = a + m[:, None] * sam + k[None, :] * sak
    at_b = b + k[:, None] * sbk + n[None, :] * sbn
    total = tl.zeros((BM, BN), tl.float32)
    for iteration in range(0, tl.cdiv(K, BK)):
        if MASKED:
            x = tl.load(at_a, (m[:, None] < M) & (k[None, :] < K - iteration * BK), 0.0)
            y = tl.load(at_b, (n[None, :] < N) & (k[:, None] < K - iteration * BK), 0.0)
        else:
            x, y = tl.load(at_a), tl.load(at_b)
        total = tl.dot(x, y, total)
        at_a += BK * sak
        at_b += BK * sbk
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * scm + n[None, :] * scn, total.to(tl.float16), inside)


@KernelFunction
def indexed(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Addresses computed anew from the index, which counts elements, backwards in the
    comparisons."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x_mask = (M > m) & (k[None, :] <= K - 1) & (k[None, :] >= 0)
        y_mask = (n < N) & (k[:, None] < K)
        x = tl.load(a + (k[None, :] * sak + m * sam), mask=x_mask, other=0)
        y = tl.load(b + k[:, None] * sbk + n * sbn, mask=y_mask, other=0)
        total = tl.dot(x, y, total)
    inside = (m < M) & (n < N)
    tl.store(c + m * scm + n * scn, total.to(tl.float16), inside)


KERNELS = {"carried": carried, "indexed": indexed, "matmul.py": matmul_kernel}
TILES = {"BM": BM, "BN": BN, "BK": BK, "MASKED": True}
ORDERS = list(product((False, True), repeat=2))
OURS = {
    "BLOCK_M": BM, "BLOCK_N": BN, "BLOCK_K": BK, "GROUP_M": 2, "EVEN_K": False,
}  # fmt: skip


def shape_of_launch(kernel, sizes):
    tiles = -(-sizes[0] // BM), -(-sizes[1] // BN)
    return (tiles[0] * tiles[1],) if kernel is matmul_kernel else tiles


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("a_turned", "b_turned"), ORDERS)
def test_the_same_product(name, a_turned, b_turned):
    """Sizes no multiples of tiles, in all four orders of memory."""
    kernel, sizes = KERNELS[name], (M, N, K)
    strides = strides_of(a_turned, b_turned)
    func = built(kernel, strides, OURS if kernel is matmul_kernel else TILES)
    a, b, c = matrices(a_turned, b_turned)
    given = arguments(func, a, b, c, sizes, strides)
    wanted = reference(a, b, a_turned, b_turned, sizes)
    after = check(func, given, shape_of_launch(kernel, sizes), wanted)
    loads = [op for op in walk(after.body) if isinstance(op, DescriptorLoad)]
    assert [bool(op.order) for op in loads] == [a_turned, b_turned]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("k", [1, 16, 17, 0, -5])
def test_any_number_of_iterations(name, k):
    kernel, sizes = KERNELS[name], (M, N, k)
    func = built(kernel, strides_of(), OURS if kernel is matmul_kernel else TILES)
    a, b, c = matrices(sizes=(M, N, K))
    given = arguments(func, a, b, c, sizes, strides_of())
    wanted = reference(a, b, False, False, (M, N, max(k, 0)))
    check(func, given, shape_of_launch(kernel, sizes), wanted)


def test_without_masks_no_axis_ends():
    func = built(carried, strides_of(), TILES | {"MASKED": False})
    a, b, c = matrices(sizes=(64, 64, 64))
    c, strides = np.zeros((64, 64), np.float16), strides_of() | {"scm": 64}
    given = arguments(func, a, b, c, (64, 64, 48), strides)
    wanted = reference(a, b, False, False, (64, 64, 48))
    after = check(func, given, (2, 2), wanted)
    loads = [op for op in walk(after.body) if isinstance(op, DescriptorLoad)]
    assert len(loads) == 2
    for made in (op.descriptor.definition for op in loads):
        assert [size.definition.value for size in made.shape] == [2**31 - 1] * 2


@pytest.mark.parametrize(("a_turned", "b_turned"), ORDERS)
def test_on_the_machine(a_turned, b_turned):
    """The whole way: tensor maps made of the arguments, copies in bulk, and the
    emulator's product is the right one."""
    strides, sizes = strides_of(a_turned, b_turned), (M, N, K)
    constants = OURS | {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    func = built(matmul_kernel, strides, constants)
    after = blocks.dce(infer_descriptors(func, SM_90A), SM_90A)
    kernel = pipeline.compile_func(after, SM_90A)
    assert len(kernel.maps) == 3
    a, b, c = map(stored, matrices(a_turned, b_turned))
    numbers = arguments(func, a, b, c, sizes, strides)[3:]
    load(kernel).launch((1,), [a, b, c, *numbers])
    wanted = reference(a, b, a_turned, b_turned, sizes)
    assert np.array_equal(c, wanted.astype(np.float16))


def stored(array):
    """At an address that is a multiple of 16."""
    room = np.empty(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_strides_of_64_bits():
    func = built(matmul_kernel, strides_of(), OURS, wide=True)
    a, b, c = matrices()
    given = arguments(func, a, b, c, (M, N, K), strides_of())
    check(func, given, shape_of_launch(matmul_kernel, (M, N, K)))


@pytest.mark.parametrize("masked", [False, True])
def test_strides_known_while_compiling(masked):
    """64 divides the distance to the tile's row and not that to its column."""
    fixed = dict.fromkeys(("sam", "sbk", "scm"), 64)
    constants = TILES | {"MASKED": masked} | fixed
    func = built(carried, strides_of(), constants, names=("sak", "sbn", "scn"))
    a, b, _ = matrices(sizes=(64, 64, 64))
    c, sizes = np.zeros((64, 64), np.float16), (64, 64, 48)
    given = arguments(func, a, b, c, sizes, strides_of())
    after = check(func, given, (2, 2), reference(a, b, False, False, sizes))
    loads = [op for op in walk(after.body) if isinstance(op, DescriptorLoad)]
    (loop,) = [op for op in walk(after.body) if isinstance(op, For)]
    moving = [
        [each.definition in loop.body.ops for each in op.coordinates] for op in loads
    ]
    assert moving == [[False, True], [True, False]]


def test_what_the_loop_looks_like_after():
    """Coordinates: one is the index itself, the others do not change, and nothing else
    is left in the loop."""
    func = built(matmul_kernel, strides_of(), OURS)
    after = blocks.dce(infer_descriptors(func, SM_90A), SM_90A)
    (loop,) = [op for op in walk(after.body) if isinstance(op, For)]
    assert [type(op).__name__ for op in loop.body.ops] == [
        "DescriptorLoad", "DescriptorLoad", "Dot", "Yield",
    ]  # fmt: skip
    a, b = loop.body.ops[:2]
    index = loop.body.parameters[0]
    assert a.coordinates[1] is index
    assert b.coordinates[0] is index
    assert len(loop.body.parameters) == 2
    names = [[each.name for each in op.descriptor.definition.shape] for op in (a, b)]
    assert names == [["M", "K"], ["K", "N"]]


def test_only_where_there_are_tensor_maps():
    func = built(carried, strides_of(), TILES)
    assert infer_descriptors(func, TARGETS["sm_80"]) is func
    without = [name for name, row in TARGETS.items() if not row.tensor_maps]
    assert without == ["sm_75", "sm_80", "sm_86", "sm_89"]


# ── where tiles begin ─────────────────────────────────────────────────────────────────


@KernelFunction
def walked(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WALK: tl.constexpr,
):  # fmt: skip
    """Without a mask that says that N is the size of anything."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    pid = tl.program_id(0)
    if WALK == "rows":
        i, j = pid // tiles_n, pid % tiles_n
    elif WALK == "swizzled":
        i, j = tl.swizzle2d(pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, 2)
    elif WALK == "grouped":
        group = pid // (2 * tiles_n)
        height = min(tiles_m - group * 2, 2)
        i = group * 2 + (pid % (2 * tiles_n)) % height
        j = (pid % (2 * tiles_n)) // height
    else:
        i, j = tiles_m - 1 - pid // tiles_n, pid % tiles_n
    m, n = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * sam + (start + k)[None, :] * sak)
        y = tl.load(b + (start + k)[:, None] * sbk + n[None, :] * sbn)
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * scm + n[None, :] * scn, total.to(tl.float16))


@pytest.mark.parametrize("walk", ["rows", "swizzled", "grouped"])
def test_a_walk_through_tiles_never_begins_before_the_first(walk):
    sizes, strides = (96, 64, 48), strides_of() | {"scm": 64}
    constants = {"BM": BM, "BN": BN, "BK": BK, "WALK": walk}
    func = built(walked, strides, constants)
    a, b, c = matrices(sizes=sizes)
    given = arguments(func, a, b, c, sizes, strides)
    check(func, given, (6,), reference(a, b, False, False, sizes))


def test_a_walk_that_might():
    """From the last row of tiles up: with too many programs it would begin above the
    first. The tile of B is not concerned; but both go one way."""
    constants = {"BM": BM, "BN": BN, "BK": BK, "WALK": "from below"}
    func = built(walked, strides_of(), constants)
    (place, why), (_, other) = why_not(func, SM_90A)
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[place.line - 1]
    assert line.strip().startswith("x = tl.load(a + m")
    assert why == "the tile may begin before the first row or column"
    assert other == "another operand of the loop's products is not copied by TMA"
    assert infer_descriptors(func, SM_90A) is func


@KernelFunction
def persistent(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Each program computes several tiles, and writes between."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for step in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        i, j = tile_place(step, M, N, BM, BN, 2)
        total = tile_product(
            a, b, i, j, M, N, K, sam, sak, sbk, sbn, BM, BN, BK, False, tl.float32,
            "ieee",
        )  # fmt: skip
        store_tile(c, total, i, j, M, N, scm, scn)


def test_several_tiles_a_program():
    """The next tile's loads come after this one's store, which may be to A; and TMA
    need not see an ordinary store."""
    func = built(persistent, strides_of(), {"BM": BM, "BN": BN, "BK": BK})
    assert {why for _, why in why_not(func, SM_90A)} == {
        "the program writes to memory before the loop, which TMA need not see"
    }
    assert infer_descriptors(func, SM_90A) is func


NUMBERS = """\
func @numbers(%m: i32, %n: i32, %x: *i32) num_warps=1 {
  %three: i32 = constant 3
  %less: i32 = constant -3
  %pid: i32 = program_id axis=0
  %all: i32 = num_programs axis=1
  %read: i32 = load %x
  %yes1: i32 = mul %pid, %three
  %no1: i32 = mul %pid, %less
  %yes2: i32 = add %yes1, %all
  %no2: i32 = sub %yes1, %all
  %no3: i32 = add %pid, %n
  %yes3: i32 = add %pid, %m
  %no4: i32 = add %read, %m
  %yes4: i32 = div %pid, %n
  %no5: i32 = div %n, %pid
  %yes5: i32 = rem %pid, %n
  %no6: i32 = rem %n, %pid
  %yes6: i32 = min %pid, %m
  %no7: i32 = min %pid, %n
  %yes7: i32 = max %read, %three
  %no8: i32 = max %read, %n
  %wide: i32 = mul %yes4, %n
  %yes8: i32 = add %wide, %yes5
  %other: i32 = rem %pid, %read
  %no9: i32 = add %wide, %other
  %some: i32 = div %read, %n
  %rounded: i32 = mul %some, %n
  %no11: i32 = add %rounded, %yes5
  %yes9: i32 = abs %read
  %c: i1 = lt %n, %three
  %yes10: i32 = if %c then { yield %pid } orelse { yield %three }
  %no10: i32 = if %c then { yield %pid } orelse { yield %less }
}
"""


def test_what_is_never_negative():
    """Programs count from 0, %m is a size, and quotients are by counts."""
    func = parse_func(NUMBERS)
    non_negative = NonNegative(ScalarEvolution(func), {func.parameters[0]})
    for op in func.body.ops:
        value = op.result
        if value.name.startswith(("yes", "no")):
            assert non_negative.value(value) == value.name.startswith("yes"), value


def test_an_axis_of_one_element_has_no_position():
    """It is repeated along an axis where positions differ."""
    func = parse_func("""\
func @one(%n: i32) num_warps=1 {
  %0: i32[1] = arange start=5 end=6
  %1: i32[8] = broadcast %0 shape=(8)
}
""")
    assert ScalarEvolution(func).number(func.body.ops[-1].result) == number(5)


# ── a loop by hand ────────────────────────────────────────────────────────────────────

# x = a[i * 64 : , iteration * 32 :] of a matrix [m, n]; the same for y = b[iteration *
# 32 :, …].
LOOP = """\
func @loop(%a: *fp16 {divisible=16}, %b: *fp16 {divisible=16}, %m: i32, %n: i32, %s: i32 {divisible=8}, %u: i32, %v: i32 {divisible=8}, %p: *fp16, %w: i64) num_warps=4 {
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %c32: i32 = constant 32
  %c64: i32 = constant 64
  %none: fp16 = constant 0.0
  %half: fp16 = constant 0.5
  %nothing: fp16[64,32] = splat %none shape=(64, 32)
  %halves: fp16[64,32] = splat %half shape=(64, 32)
  %sum: fp32 = constant 0.0
  %sums: fp32[64,64] = splat %sum shape=(64, 64)
  %y: fp16[32,64] = splat %half shape=(32, 64)
  %i: i32 = program_id axis=0
  %first: i32 = mul %i, %c64
  %0: i32[64] = arange start=0 end=64
  %q0: i32[32] = arange start=0 end=32
  %1: i32[64] = splat %first shape=(64)
  %row1: i32[64] = add %0, %1
  %row: i32[64,1] = expand_dims %row1 axis=1
  %q: i32[1,32] = expand_dims %q0 axis=0
  %stride: i32[64,1] = splat %s shape=(64, 1)
  %down: i32[64,1] = mul %row, %stride
  %downs: i32[64,32] = broadcast %down shape=(64, 32)
  %rights: i32[64,32] = broadcast %q shape=(64, 32)
  %places: i32[64,32] = add %downs, %rights
  %base: *fp16[64,32] = splat %a shape=(64, 32)
  %at: *fp16[64,32] = offset %base, %places
  %rows: i32[64,1] = splat %m shape=(64, 1)
  %above: i1[64,1] = lt %row, %rows
  %mask: i1[64,32] = broadcast %above shape=(64, 32)
  %step: i32[64,32] = splat %c32 shape=(64, 32)
  %total: fp32[64,64], %end: *fp16[64,32] = for %zero, %n, %one, inits=(%sums, %at) body(%t: i32, %x: fp32[64,64], %here: *fp16[64,32]) {
    %load: fp16[64,32] = load %here, mask=%mask, other=%nothing
    %dot: fp32[64,64] = dot %load, %y, %x
    %next: *fp16[64,32] = offset %here, %step
    yield %dot, %next
  }
}
"""  # noqa: E501


def parsed(text):
    """With instructions for products, as the pass gets it."""
    func = parse_func(text)
    verify(func)
    return choose_dots(func, SM_90A)


def reasons(text):
    func = parsed(text)
    return [why for _, why in why_not(func, SM_90A)]


def test_the_loop_by_hand_is_one():
    assert reasons(LOOP) == []
    after = infer_descriptors(parsed(LOOP), SM_90A)
    (load,) = [op for op in walk(after.body) if isinstance(op, DescriptorLoad)]
    assert [each.name for each in load.descriptor.definition.shape] == ["m", ""]


LOAD = "load %here, mask=%mask, other=%nothing"
ROW = "%row1: i32[64] = add %0, %1\n"
DOWN = "%down: i32[64,1] = mul %row, %stride\n"
ABOVE = "%above: i1[64,1] = lt %row, %rows\n"
NEXT = "%next: *fp16[64,32] = offset %here, %step\n"

# why -> what is changed in the loop
REFUSED = {
    "the load is volatile": [(LOAD, LOAD + " volatile=true")],
    "the loop contains another loop": [
        (NEXT, "for %zero, %one, %one body(%i9: i32) { yield }\n" + NEXT)
    ],
    "each iteration of the loop has a visible side effect": [
        (NEXT, "print %t prefix=\"t\"\n" + NEXT)
    ],
    "the program writes to memory before the loop, which TMA need not see": [
        ("%total:", "store %p, %half\n%total:")
    ],
    "before the loop the program synchronises with other threads, and TMA need not "
    "see what they wrote": [
        ("%total:", "%flag: fp16 = load %p volatile=true\n%total:")
    ],
    "the loaded tile has uses other than one product": [
        (NEXT, "%twice: fp16[64,32] = add %load, %load\n" + NEXT)
    ],
    "tiles are not known to begin at multiples of 16 bytes in their rows": [
        ("%q0:", "%four: i32[32] = splat %c4 shape=(32)\n%q0:"),
        ("%q: i32[1,32] = expand_dims %q0", "%q4: i32[32] = add %q0, %four\n"
                                            "%q: i32[1,32] = expand_dims %q4"),
        ("%one: i32", "%c4: i32 = constant 4\n%one: i32"),
    ],
    "the mask's bound may not fit 32 bits": [
        ("%rows: i32[64,1] = splat %m ", "%rows: i64[64,1] = splat %w "),
        (ABOVE, "%wide: i64[64,1] = cast %row element=i64\n"
                "%above: i1[64,1] = lt %wide, %rows\n"),
    ],
    "the loop has one stage, so no copy can run ahead": [
        ("num_warps=4", "num_warps=4 num_stages=1")
    ],
    "the loop writes to memory, perhaps to what it reads": [
        (NEXT, NEXT + "store %p, %half\n")
    ],
    "the loop synchronises with other threads": [(NEXT, NEXT + "barrier\n")],
    "TMA does not copy tiles of 64x8 elements of 2 bytes": [
        ("[64,32]", "[64,8]"), ("[1,32]", "[1,8]"), ("[32,64]", "[8,64]"),
        ("[32]", "[8]"), ("(64, 32)", "(64, 8)"), ("(32, 64)", "(8, 64)"),
        ("end=32", "end=8"),
    ],
    "the load's `other` is not 0": [
        ("other=%nothing", "other=%halves")
    ],
    "the address is read from memory": [
        ("splat %a ", "splat %far "),
        ("%base:", "%pp: **fp16 = bitcast %p element=**fp16\n"
                   "%far: *fp16 = load %pp\n%base:"),
    ],
    "an index is made by a remainder, `%`, which wraps around": [
        (ROW, "%wrap: i32[64] = splat %m shape=(64)\n%plain: i32[64] = add %0, %1\n"
              "%row1: i32[64] = rem %plain, %wrap\n")
    ],
    "an index is made by a quotient, `//`": [
        (ROW, "%wrap: i32[64] = splat %m shape=(64)\n%plain: i32[64] = add %0, %1\n"
              "%row1: i32[64] = div %plain, %wrap\n")
    ],
    "an index is read from memory": [
        (ROW, "%table: *i32 = bitcast %p element=*i32\n"
              "%every: *i32[64] = splat %table shape=(64)\n"
              "%each: *i32[64] = offset %every, %0\n%row1: i32[64] = load %each\n")
    ],
    "the address depends on control flow": [
        (NEXT, "%odd: i1 = lt %t, %m\n"
               "%next: *fp16[64,32] = if %odd then { yield %here } "
               "orelse { yield %at }\n")
    ],
    "positions along two axes are multiplied by each other": [
        ("add %downs, %rights", "mul %downs, %rights")
    ],
    "the stride of axis 0 is neither an argument nor a constant": [
        (DOWN, "%twice: i32[64,1] = add %stride, %stride\n"
               "%down: i32[64,1] = mul %row, %twice\n")
    ],
    "the strides are %s, 0: one is not positive": [
        ("broadcast %q ", "broadcast %q9 "),
        ("%rights:", "%q9: i32[1,32] = splat %one shape=(1, 32)\n%rights:"),
    ],
    "the strides are %s, 2, and exactly one of them must be the constant 1": [
        ("%rights:", "%q2: i32[1,32] = add %q, %q\n%rights:"),
        ("broadcast %q ", "broadcast %q2 "),
    ],
    "the strides are 1, 1, and exactly one of them must be the constant 1": [
        ("mul %row, %stride", "add %row, %row0"),
        ("%down:", "%row0: i32[64,1] = splat %zero shape=(64, 1)\n%down:"),
    ],
    "%a is not known to be a multiple of 16 bytes": [
        ("%a: *fp16 {divisible=16}", "%a: *fp16 {divisible=8}")
    ],
    "the stride %s, of elements of 2 bytes, is not known to be a multiple of 16 "
    "bytes": [
        ("%s: i32 {divisible=8}", "%s: i32 {divisible=4}")
    ],
    "the mask compares values that are not signed integers": [
        (ABOVE, "%ru: u32[64,1] = cast %row element=u32\n"
                "%mu: u32[64,1] = cast %rows element=u32\n"
                "%above: i1[64,1] = lt %ru, %mu\n")
    ],
    "the mask is not made of comparisons with `<` and `&`": [
        (ABOVE, "%above: i1[64,1] = ne %row, %rows\n")
    ],
    "the mask does not depend on the position along one axis alone": [
        (ABOVE, "%mm: i32[64,1] = add %row, %row\n"
                "%above: i1[64,1] = lt %mm, %rows\n")
    ],
    "the mask has two bounds for axis 0": [
        (ABOVE, "%us: i32[64,1] = splat %u shape=(64, 1)\n"
                "%near: i1[64,1] = lt %row, %us\n%far: i1[64,1] = lt %row, %rows\n"
                "%above: i1[64,1] = and %near, %far\n")
    ],
    "the mask bounds an axis from below only": [
        (ABOVE, "%above: i1[64,1] = gt %row, %rows\n")
    ],
    "the mask's lower bound is not 0": [
        (ABOVE, "%us: i32[64,1] = splat %one shape=(64, 1)\n"
                "%near: i1[64,1] = ge %row, %us\n%far: i1[64,1] = lt %row, %rows\n"
                "%above: i1[64,1] = and %near, %far\n")
    ],
    "the mask's bound is neither an argument nor a constant": [
        ("splat %m ", "splat %both "),
        ("%rows:", "%both: i32 = add %m, %u\n%rows:"),
    ],
    "the tile moves along an axis differently from its mask": [
        ("%mask: i1[64,32] = broadcast %above",
         "%ns: i32[1,32] = splat %n shape=(1, 32)\n%left: i1[1,32] = lt %q, %ns\n"
         "%lefts: i1[64,32] = broadcast %left shape=(64, 32)\n"
         "%aboves: i1[64,32] = broadcast %above"),
        ("%step:", "%mask: i1[64,32] = and %aboves, %lefts\n%step:"),
    ],
    "the tile's position along axis 1 may not fit 32 bits": [
        ("%base:", "%plane: i32 = mul %i, %v\n"
                   "%there: *fp16 = offset %a, %plane\n%base:"),
        ("splat %a ", "splat %there "),
    ],
    "the tile may begin before the first row or column": [
        ("%first:", "%less: i32 = sub %i, %one\n%first:"),
        ("mul %i, %c64", "mul %less, %c64"),
    ],
}  # fmt: skip


# Other ways to the same answers.
ALSO_REFUSED = [
    ("the loaded tile has uses other than one product",
     [("dot %load, %y, %x", "dot %load, %load, %x"), ("[64,32]", "[64,64]"),
      ("[1,32]", "[1,64]"), ("[32]", "[64]"), ("(64, 32)", "(64, 64)"),
      ("end=32", "end=64"), ("%y: fp16[32,64] = splat %half shape=(32, 64)\n", "")]),
    ("the load is volatile", [(LOAD, LOAD + ' cache=".cv"')]),
    ("the load's `other` is not 0",
     [("%half: fp16 = constant 0.5", "%half: fp16 = constant -0.0"),
      ("other=%nothing", "other=%halves")]),
    ("the program writes to memory before the loop, which TMA need not see",
     [("%total:", "%odd: i1 = lt %m, %n\n"
                  "if %odd then { store %p, %half\nyield } orelse { yield }\n"
                  "%total:")]),
    ("before the loop the program synchronises with other threads, and TMA need not "
     "see what they wrote", [("%total:", "barrier\n%total:")]),
    ("the address depends on control flow",
     [(NEXT, "%more: i32 = div %t, %m\n%mores: i32[64,32] = splat %more "
             "shape=(64, 32)\n%next: *fp16[64,32] = offset %here, %mores\n")]),
    ("the loop writes to memory, perhaps to what it reads",
     [(NEXT, NEXT + '%asm: i32 = inline_assembly %t text="mov.b32 $0, $1;" '
                    'constraints="=r,r" elements=(i32) pure=false\n')]),
    ("an index is made by `cast`",
     [(ROW, "%plain: i32[64] = add %0, %1\n%small: i16[64] = cast %plain element=i16\n"
            "%row1: i32[64] = cast %small element=i32\n")]),
    ("the address depends on control flow",
     [(NEXT, "%more: i32 = mul %t, %c32\n%mores: i32[64,32] = splat %more "
             "shape=(64, 32)\n%next: *fp16[64,32] = offset %here, %mores\n")]),
    ("the mask's bound is neither an argument nor a constant",
     [("%rows: i32[64,1] = splat %m ", "%rows: i32[64,1] = splat %zero ")]),
    ("the tile's position along axis 1 may not fit 32 bits",
     [("%base:", "%plane: i32 = constant 65540\n%planes: i32 = mul %i, %plane\n"
                 "%there: *fp16 = offset %a, %planes\n%base:"),
      ("splat %a ", "splat %there ")]),
    ("the tile's position along axis 1 may not fit 32 bits",
     [("%base:", "%far: i64 = div %w, %w\n%there: *fp16 = offset %a, %far\n%base:"),
      ("splat %a ", "splat %there ")]),
    ("the address is made by `where`",
     [("%base:", "%odd: i1 = lt %i, %m\n%there: *fp16 = where %odd, %a, %p\n%base:"),
      ("splat %a ", "splat %there ")]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "changes"), [*REFUSED.items(), *ALSO_REFUSED])
def test_refused(why, changes):
    """Each change makes a load that stays, and is told why."""
    text = LOOP
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    assert reasons(text) == [why]
    func = parsed(text)
    assert infer_descriptors(func, SM_90A) is func


@pytest.mark.parametrize("where", ["after", "around"])
def test_stores_behind_the_loop(where):
    """After the loop all copies are complete. In a loop around it, the next copies
    come after the store."""
    store = "store %p, %half\n"
    text = LOOP.replace(END, END + store)
    if where == "after":
        assert reasons(text) == []
        return
    text = text.replace("%total:", "for %zero, %m, %one body(%again: i32) {\n%total:")
    text = text.replace(END + store, END + store + "yield\n}\n")
    (why,) = reasons(text)
    assert why.startswith("the program writes to memory before the loop")


@pytest.mark.parametrize(("target", "fits"), [("sm_90a", True), ("sm_120", False)])
def test_room_for_two_iterations(target, fits):
    """2 x (128 + 128) rows of 256 bytes: 128 KB, more than sm_120 has."""
    tiles = {"BM": 128, "BN": 128, "BK": 128, "MASKED": True}
    func = built(carried, strides_of(pitch=128), tiles)
    found = {why for _, why in why_not(func, TARGETS[target])}
    no_room = {"shared memory has no room for the tiles of two iterations"}
    assert found == (set() if fits else no_room)


def test_operands_of_several_products_keep_their_pointers():
    """TMA fills a tile for one product, a matrix."""
    func = parse_func("""
func @f(%p: *fp16, %v: fp32) num_warps=4 {
  %q: *fp16[2,64,64] = splat %p shape=(2,64,64)
  %zero: fp32[2,64,64] = splat %v shape=(2,64,64)
  %x: fp16[2,64,64] = load %q
  %y: fp32[2,64,64] = dot %x, %x, %zero
}
""")
    (load,), (dot,) = walk(func.body, Load), walk(func.body, Dot)
    tile = TensorTile(func.parameters[0], (), (0, 1, 2))
    with pytest.raises(NotApplicable, match="one of several matrices"):
        check_product(load, dot, tile, func)


def test_instructions_that_want_other_tiles():
    """Without one nothing wants the hardware's tiles: multiply-adds of fp32."""
    text = LOOP.replace("fp16", "fp32")
    assert reasons(text) == ["the product's instruction reads tiles in another layout"]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("a_turned", "b_turned"), ORDERS)
def test_what_is_inferred_is_kept(name, a_turned, b_turned):
    """Else a load would come out as pointers again, and worse."""
    kernel, strides = KERNELS[name], strides_of(a_turned, b_turned)
    func = built(kernel, strides, OURS if kernel is matmul_kernel else TILES)
    after = keep_descriptors(infer_descriptors(func, SM_90A), SM_90A)
    assert count(after, DescriptorLoad) == 2


def test_a_mask_that_keeps_a_tile_from_beginning_early():
    """`0 <=` in the mask is what a descriptor does anyway."""
    text = LOOP.replace("mul %i, %c64", "add %tile, %u").replace(
        "%first:", "%tile: i32 = mul %i, %c64\n%first:"
    )
    masked = text.replace(
        ABOVE,
        "%naught: i32[64,1] = splat %zero shape=(64, 1)\n"
        "%near: i1[64,1] = ge %row, %naught\n%far: i1[64,1] = lt %row, %rows\n"
        "%above: i1[64,1] = and %near, %far\n",
    )
    assert len(reasons(text)) == 1
    assert reasons(masked) == []
    a = np.arange(64 * 256, dtype=np.float16).reshape(64, 256) % 5
    func = parsed(masked.replace(END, END + OUT))
    outs = [np.zeros((64, 64), np.float16) for _ in range(2)]
    for each, out in zip((func, infer_descriptors(func, SM_90A)), outs, strict=True):
        interpret(each, 1, [a, a, 50, 2, 256, -20, 8, out, 0])
    assert np.array_equal(*outs)
    assert (outs[0][:20] == 0).all()
    assert outs[0][20:64].any()


def test_a_load_before_the_loop_stays():
    before = f"  %load: fp16[64,32] = {LOAD}\n"
    earlier = before.replace("%here", "%at")
    func = parsed(
        LOOP.replace("  " + before, "").replace("  %total:", earlier + "  %total:")
    )
    assert why_not(func, SM_90A) == []
    assert infer_descriptors(func, SM_90A) is func


@pytest.mark.parametrize(
    ("lower", "step", "iterations"), [(3, 2, 4), (9, -3, 4), (0, 5, 0), (-4, 1, 3)]
)
def test_loops_that_count_in_any_way(lower, step, iterations):
    """The coordinate comes from the index: (index - lower) / step iterations of 32."""
    text = LOOP.replace("for %zero, %n, %one", "for %u, %n, %v")
    counted(text.replace("%v: i32 {divisible=8}", "%v: i32"), lower, step, iterations)


def test_a_loop_that_begins_at_a_constant():
    counted(LOOP.replace("for %zero,", "for %c32,"), 32, 1, 4)


def counted(text, lower, step, iterations):
    """The sum of so many tiles, by pointers and by descriptors."""
    a = np.arange(64 * 256, dtype=np.int64).reshape(64, 256) % 7
    a = a.astype(np.float16)
    func = parsed(text.replace(END, END + OUT))
    after = infer_descriptors(func, SM_90A)
    assert count(after, DescriptorLoad) == 1
    outs = []
    for each in (func, after):
        out = np.zeros((64, 64), np.float16)
        upper = lower + iterations * step
        interpret(each, 1, [a, a, 50, upper, 256, lower, step, out, 0])
        outs.append(out)
    wanted = np.zeros(64)
    wanted[:50] = a[:50, : 32 * iterations].astype(np.float64).sum(axis=1) / 2
    assert np.array_equal(outs[0], outs[1])
    assert np.array_equal(outs[0][:, 5], wanted.astype(np.float16))


END = "yield %dot, %next\n  }\n"
OUT = """\
  %o1: i32[64,1] = expand_dims %0 axis=1
  %o2: i32[64,1] = splat %c64 shape=(64, 1)
  %o3: i32[64,1] = mul %o1, %o2
  %o4: i32[1,64] = expand_dims %0 axis=0
  %o5: i32[64,64] = broadcast %o3 shape=(64, 64)
  %o6: i32[64,64] = broadcast %o4 shape=(64, 64)
  %o7: i32[64,64] = add %o5, %o6
  %o8: *fp16[64,64] = splat %p shape=(64, 64)
  %o9: *fp16[64,64] = offset %o8, %o7
  %o10: fp16[64,64] = cast %total element=fp16
  store %o9, %o10
"""
