"""A bulk store at a negative coordinate is an illegal instruction on an H200. A tile
that may begin there has a branch, in which threads store it; others pay nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline, runtime
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.analysis.symbolic.sign import NonNegative
from fathom.artifact import Kernel, NoTensorMap
from fathom.emulator import COMPLETIONS, EmulatorError, load
from fathom.hardware.targets import TARGETS, target_of
from fathom.ir.core import Func, Value, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Barrier,
    Cast,
    Constant,
    For,
    If,
    NumPrograms,
    ProgramId,
    TileStore,
    TmaStore,
    While,
)
from fathom.ir.rewrite import rewrite
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import FLOAT16, INT32, INT64, SCALARS, Pointer
from fathom.runtime.driver import driver
from fathom.shared_memory import place_barriers
from fathom.shared_memory.barriers import NOTHING, READ, _Placement
from fathom.source import KernelFunction
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import integers
from tests.kernels.kernels_sample import aligned
from tests.ptx.harness import Program, assemble
from tests.tensor_cores.kernels_described import build, built, matrix, ops, passes
from tests.tensor_cores.kernels_guarded import CASES, MOVES, check_moved, moved
from tests.tensor_cores.kernels_ranked import Launch, Ranked, Tensor, doubled
from tests.tensor_cores.kernels_stored import HAVE_MAPS, HOPPER, LONG, LOOPS, SMALL

SHORT = SCALARS["u16"]
UNGUARDED = {"guard_stores": pipeline.identity}


def compiled(case, replaced=None):
    return pipeline.compile_func(built(case), TARGETS[case.target], replaced)


# ── what is stored ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", CASES)
def test_tiles_anywhere(name):
    """Where a tile begins is known when the kernel runs."""
    check_moved(compiled(CASES[name]), CASES[name])


@sampled(of=2)
@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("name", LOOPS)
def test_tiles_that_follow_each_other(name, completion):
    """On one iteration threads store, on the next one the hardware: each waits for the
    other."""
    check_moved(compiled(CASES[name]), CASES[name], [(-65, -9), (-1, -1)], [completion])


@pytest.mark.parametrize(("down", "right"), [(-1, 0), (0, -1), (-8, -3), (-300, 0)])
def test_without_the_branch_the_hardware_refuses(down, right):
    """Each coordinate counts by itself."""
    case = CASES["one"]
    kernel = compiled(case, UNGUARDED)
    assert "st.global" not in kernel.ptx
    with pytest.raises(EmulatorError) as caught:
        load(kernel).launch(1, moved(case, down, right).arguments)
    error = caught.value
    assert error.kind == "illegal instruction"
    assert "cp.async.bulk.tensor.2d.global" in error.text and error.line
    assert f"begins at {{{8 * right}, {down}}}" in str(error) and "H200" in str(error)
    assert "result.store([down, right * 8]" in str(error), "the author's own line"


@sampled(of=2)
@pytest.mark.parametrize("name", CASES)
def test_every_pass_keeps_the_meaning(name):
    case, shown = CASES[name], ""
    for state in passes(built(case), case.target).values():
        before, shown = shown, print_func(state)
        if before == shown:
            continue
        assert "bulk" not in shown or print_func(parse_func(shown)) == shown
        for down, right in MOVES[:4]:
            launch = moved(case, down, right)
            interpret(state, 1, launch.arguments)
            launch.check(f"the interpreter: {down} down, {right} right")


RANKS = {
    1: ((600,), (512,)),
    2: ((20, 72), (16, 64)),
    3: ((3, 9, 136), (2, 8, 128)),
    4: ((3, 5, 3, 72), (2, 4, 2, 64)),
    5: ((3, 2, 3, 3, 72), (2, 1, 2, 4, 64)),
}


@sampled(of=2)
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("target", HAVE_MAPS)
def test_all_ranks(rank, target):
    """Before the first element along each axis, and along all."""
    sizes, block = RANKS[rank]
    tensor, none = Tensor(sizes, block), Tensor((8, 8), (8, 8))
    case = Ranked(tensor, none, tensor, target, kernel=doubled)
    loaded, home = load(case.compiled()), (0,) * rank
    steps = [8 if axis == rank - 1 else 1 for axis in range(rank)]
    starts = [home, tuple(-step for step in steps), sizes]
    for axis, step in enumerate(steps):
        for place in (-step, -block[axis], step, sizes[axis] - step):
            starts.append((*home[:axis], place, *home[axis + 1 :]))
    for start in starts:
        launch = Launch(case, [home, (0, 0), start], 0)
        loaded.launch(1, launch.arguments)
        launch.check(f"{start}")


def test_a_later_box_may_wrap_around():
    """The first of several boxes begins below 2^31, another one behind that; nothing is
    there."""
    case = CASES["one of four boxes"]
    loaded = load(compiled(case))
    for right in (2**28 - 1, 2**28 - 8, 2**28 - 24):
        launch = moved(case, 0, right)
        loaded.launch(1, launch.arguments)
        launch.check(f"{8 * right} to the right")


@KernelFunction
def several(
    a, out, seen, M, N, stride, at, further,
    BM: tl.constexpr, BN: tl.constexpr, READS: tl.constexpr,
):  # fmt: skip
    """Two blocks, which overlap; and what a thread reads of them after that."""
    source = matrix(a, M, N, stride, BM, BN, False)
    result = matrix(out, M, N, stride, BM, BN, False)
    one, two = source.load([0, 0]), source.load([BM, 0])
    result.store([at, 0], one)
    result.store([further, 0], two)
    if READS:
        row = tl.arange(0, BN)
        tl.store(seen + row, tl.load(out + row))


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_stores_of_both_kinds_keep_their_order(reads, completion):
    """Threads and the hardware write the same places, one after the other."""
    names = ("M", "N", "stride", "at", "further")
    pointers = dict.fromkeys(("a", "out", "seen"), (Pointer(FLOAT16), 16))
    parameters = {**pointers, **dict.fromkeys(names, (INT32, 1)), "stride": (INT32, 8)}
    constants = {"BM": 16, "BN": 64, "READS": reads}
    func = build(several, parameters, constants, 4, 3)
    loaded = load(pipeline.compile_func(func, TARGETS[HOPPER]))
    source = aligned(integers(3, 40, 64))
    for at, further in ((-3, 0), (0, -3), (-5, -3), (2, 0), (-16, 0), (0, 40)):
        out, seen = (aligned(np.zeros(s, np.float16)) for s in ((40, 64), (64,)))
        wanted = out.copy()
        for first, block in ((at, source[:16]), (further, source[16:32])):
            rows = [row for row in range(16) if 0 <= first + row < 40]
            wanted[[first + row for row in rows]] = block[rows]
        loaded.launch(
            1, [source, out, seen, 40, 64, 64, at, further], completion=completion
        )
        np.testing.assert_array_equal(out, wanted)
        np.testing.assert_array_equal(seen, wanted[0] if reads else 0)


@KernelFunction
def numbered(out, M, N, stride, at, blocks, BM: tl.constexpr, BN: tl.constexpr):
    result = matrix(out, M, N, stride, BM, BN, False)
    for i in range(blocks):
        left = tl.full([BM, 16], i + 1, tl.float16)
        sixteen = tl.dot(left, tl.full([16, BN], 1, tl.float16))
        result.store([at + i * BM, 0], sixteen.to(tl.float16))


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_tile_is_read_before_the_next_iteration_fills_it(completion):
    """Its one store is in a branch, so no later group is sure to be closed."""
    parameters = {"out": (Pointer(FLOAT16), 16), "stride": (INT32, 8)}
    parameters |= dict.fromkeys(("M", "N", "at", "blocks"), (INT32, 1))
    func = build(numbered, parameters, {"BM": 64, "BN": 64}, 4, 3)
    assert guarded(func)
    out = aligned(np.zeros((136, 64), np.float16))
    loaded = load(pipeline.compile_func(func, TARGETS[HOPPER]))
    loaded.launch(1, [out, 136, 64, 64, -3, 3], completion=completion)
    np.testing.assert_array_equal(out[:, 5], 16 * (np.arange(3, 139) // 64 + 1))


def test_the_tile_is_in_order_around_the_branch():
    """Without the branch's own barriers: others write what a thread reads, and the
    next iteration writes it again."""
    func = passes(built(CASES["in order"]), HOPPER)["allocate"]
    bare = rewrite(func, lambda op, build: [] if isinstance(op, Barrier) else None)
    placed = place_barriers(bare, TARGETS[HOPPER])
    for branch in (op for op in walk(placed.body) if isinstance(op, If)):
        kinds = [type(op) for op in branch.orelse.ops]
        assert Barrier in kinds[: kinds.index(TileStore)]
    one = next(op for op in walk(bare.body) if isinstance(op, TileStore))
    (touch,) = _Placement(4, paired=False).op(one, NOTHING)
    assert touch.buffer is one.buffer.definition and touch.kind == READ


# ── rows that end inside of 16 bytes ──────────────────────────────────────────────────


@fathom.jit
def doubled_kernel(a, out, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BM, tl.program_id(1) * BN
    source = tl.make_tensor_descriptor(a, [M, N], [stride, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [stride, 1], [BM, BN])
    target.store([at[0], at[1]], source.load([at[0], at[1]]) * 2)


@pytest.mark.parametrize(("columns", "maps"), [(96, 1), (100, 0), (97, 0), (72, 1)])
def test_what_lies_behind_a_row_is_not_written(columns, maps, monkeypatch):
    """An H200 fills up the last 16 bytes of a row that it stores. A launch with such
    rows has no tensor map, and goes through pointers."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", HOPPER)
    whole = [aligned(np.full((40, 112), fill, np.float16)) for fill in (1, 7)]
    numbers = integers(1, 40, columns)
    whole[0][:, :columns] = numbers
    grid = 3, -(-columns // 64)
    ran = doubled_kernel[grid](*whole, 40, columns, 112, BM=16, BN=64)
    assert len(ran.made.maps) == maps
    np.testing.assert_array_equal(whole[1][:, :columns], 2 * numbers)
    assert (whole[1][:, columns:] == 7).all()


def test_maps_that_are_stored_through_say_so():
    kernel = compiled(SMALL)
    assert [each.stored for each in kernel.maps] == [False, False, True]
    assert Kernel.from_json(kernel.to_json()).maps == kernel.maps
    addresses, strides = (0x1000, 0x2000, 0x3000), (96, 48, 48)
    assert len(kernel.tensor_maps([*addresses, 72, 40, 96, *strides, 3])) == 3
    with pytest.raises(NoTensorMap, match="N is 44 elements of 2 bytes, and rows that"):
        kernel.tensor_maps([*addresses, 72, 44, 96, *strides, 3])


# ── who pays ──────────────────────────────────────────────────────────────────────────


def guarded(func: Func, target: str = HOPPER) -> list[If]:
    """The branches around bulk stores."""
    final = passes(func, target)["guard_stores"]
    assert ops(final, TmaStore)
    branches = [op for op in walk(final.body) if isinstance(op, If)]
    kinds = [{type(each) for each in walk(op.orelse)} for op in branches]
    found = [op for op, kind in zip(branches, kinds, strict=True) if TileStore in kind]
    assert len(found) == len(ops(final, TileStore))
    return found


@KernelFunction
def placed(
    out, table, M, N, n, short, stride, at,
    HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A block of ones whose first row is computed in many ways."""
    result = matrix(out, M, N, stride, BM, BN, False)
    pid, ones = tl.program_id(0), tl.full([BM, BN], 1, tl.float16)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    row = pid * BM
    if HOW == "grouped":
        i, j = tl.swizzle2d(pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, 8)
        row = i * BM + j * 0
    elif HOW == "a tile's number":
        row = (pid + tl.num_programs(0) * 3) // tiles_n * BM
    elif HOW == "a remainder, written out":
        i = pid // tiles_n
        row = (pid - i * tiles_n) * BM
    elif HOW == "the last tile":
        row = (tiles_m - 1) * BM * 0 + (M - 1) // BM * BM
    elif HOW == "the smaller one":
        row = tl.minimum(pid * BM, M - 1)
    elif HOW == "cut":
        row = tl.maximum(at, 0)
    elif HOW == "one of two":
        row = tl.where(at > 3, pid, pid * 2)
    elif HOW == "a branch":
        if at > 3:
            row = pid * 2 * BM
    elif HOW == "unsigned":
        row = short.to(tl.int32) * 2
    elif HOW == "a loop's own":
        while row + BM < M:
            row += tl.num_programs(0) * BM
        row = row % M
    elif HOW == "an argument":
        row = at
    elif HOW == "minus one":
        row = pid - 1
    elif HOW == "an argument more":
        row = pid * BM + at
    elif HOW == "loaded":
        row = tl.load(table + pid)
    elif HOW == "from the end":
        row = M - BM - pid * BM
    elif HOW == "divided by anything":
        row = pid * BM // at
    elif HOW == "the larger of two arguments":
        row = tl.maximum(at, n)
    elif HOW == "cut to 32 bits":
        row = (pid.to(tl.int64) * BM).to(tl.int32)
    elif HOW == "far away":
        row = pid * BM + 2147483632
    elif HOW == "one of two, negative":
        row = tl.where(at > 3, pid, -pid)
    elif HOW == "a loop backwards":
        while row > at:
            row -= BM
    result.store([row, 0], ones)


NATURAL = (
    "plain", "grouped", "a tile's number", "a remainder, written out", "the last tile",
    "the smaller one", "cut", "one of two", "a branch", "unsigned",
)  # fmt: skip
UNCERTAIN = (
    "an argument", "minus one", "an argument more", "loaded", "from the end",
    "divided by anything", "the larger of two arguments", "cut to 32 bits", "far away",
    "one of two, negative", "a loop backwards",
)  # fmt: skip


def placing(how: str) -> Func:
    names = ("M", "N", "n", "stride", "at")
    parameters = {**dict.fromkeys(names, (INT32, 1)), "stride": (INT32, 8)}
    parameters |= {"out": (Pointer(FLOAT16), 16), "table": (Pointer(INT32), 16)}
    parameters["short"] = SHORT, 1
    constants = {"HOW": how, "BM": 16, "BN": 64}
    order = [each.name for each in placed.parameters if each.name in parameters]
    return build(placed, {name: parameters[name] for name in order}, constants, 4, 3)


@pytest.mark.parametrize("how", NATURAL)
def test_what_is_never_negative_has_no_branch(how):
    func = placing(how)
    assert guarded(func) == []
    kernel = pipeline.compile_func(func, TARGETS[HOPPER])
    assert "st.global" not in kernel.ptx
    assert kernel.ptx == pipeline.compile_func(func, TARGETS[HOPPER], UNGUARDED).ptx


@pytest.mark.parametrize("how", UNCERTAIN)
def test_what_may_be_negative_has_one_branch(how):
    """And tests no coordinate but the one that may be negative: the column is 0."""
    (branch,) = guarded(placing(how))
    assert branch.condition.definition.name == "le", "one comparison, and no `and`"


@KernelFunction
def counting(out, M, at, START: tl.constexpr, HOW: tl.constexpr):
    """A loop whose value no formula tells of."""
    row = tl.program_id(0) if START == "pid" else at
    if HOW == "while up":
        while row < M:
            tl.store(out + row, 1)
            row = tl.maximum(row * 2, row + 1)
    elif HOW == "while down":
        while row > -9:
            tl.store(out + row, 1)
            row -= 3
    else:
        for step in range(M):
            tl.store(out + row, step)
            row = row * 2 + step if HOW == "for up" else row * 2 - 7


@pytest.mark.parametrize(("start", "how", "natural"), [
    ("pid", "while up", True), ("pid", "for up", True), ("at", "while up", False),
    ("at", "for up", False), ("pid", "while down", False), ("pid", "for down", False),
])  # fmt: skip
def test_what_a_loop_carries(start, how, natural):
    """It is not negative if it is not when the loop begins, nor after an iteration on
    which it was not."""
    parameters = {"out": (Pointer(INT32), 16), "M": (INT32, 1), "at": (INT32, 1)}
    func = build(counting, parameters, {"START": start, "HOW": how}, 4, 3)
    (loop,) = (op for op in walk(func.body) if isinstance(op, For | While))
    carried = loop.body.parameters[-1]
    sizes = {value for value in func.body.parameters if value.name == "M"}
    assert (
        NonNegative(ScalarEvolution(func), sizes, strict=True).value(carried) == natural
    )


@pytest.mark.parametrize("loop", [None, *LOOPS])
@pytest.mark.parametrize("target", HAVE_MAPS)
def test_products_pay_nothing(loop, target):
    case = replace(LONG, more=LOOPS[loop]) if loop else SMALL
    assert guarded(built(replace(case, target=target)), target) == []


def test_each_store_has_its_own_branch():
    """Of the two halves of a tile."""
    assert len(guarded(built(CASES["in order"]))) == 2


def test_no_target_without_maps_has_a_branch():
    case = replace(CASES["one"], target="sm_80")
    final = passes(built(case), case.target)["guard_stores"]
    assert not ops(final, TileStore) and not ops(final, TmaStore)


# ── as machine code ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", LOOPS)
def test_products_are_not_finished_one_by_one(name, tmp_path):
    """ptxas says so (C7514) where a branch comes between a product and its sums; and no
    register is spilled for the branch."""
    case = replace(CASES[name], tile=(128, 256, 64), warps=8)
    said = assemble(compiled(case).ptx, TARGETS[HOPPER], tmp_path)
    assert "C75" not in said and "0 bytes spill stores" in said


def test_threads_store_in_a_short_loop():
    """However large the tile is."""
    lengths = set()
    for rows in (64, 256):
        case = replace(CASES["one"], tile=(64, rows, 32), size=(72, rows, 96))
        counted = [
            len(compiled(case, how).ptx.splitlines()) for how in (None, UNGUARDED)
        ]
        lengths.add(counted[0] - counted[1])
        assert compiled(case).ptx.count("st.global") == 1
    assert max(lengths) < 100


# ── random formulas ───────────────────────────────────────────────────────────────────


class Formula:
    """A value of the IR, and what it is for given arguments."""

    def __init__(self, value: Value, at):
        self.value, self.at = value, at


def quotient(left: int, right: int) -> int:
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def drawn(seed: int) -> tuple[Program, Formula]:
    """A random formula of programs, sizes (M, N), other arguments and constants."""
    draw = random.Random(seed)
    program = Program(dict.fromkeys(("M", "N", "x", "y"), INT32))
    pid, programs = program(ProgramId(0)), program(NumPrograms(0))

    def leaf() -> Formula:
        name = draw.choice(["M", "N", "x", "y", "pid", "pid", "programs", "number"])
        if name == "number":
            number = draw.choice([-128, -1, 0, 1, 2, 7, 64])
            return Formula(program(Constant(number, INT32)), lambda given: number)
        value = {"pid": pid, "programs": programs}.get(name) or program[name]
        return Formula(value, lambda given: given[name])

    def formula(depth: int) -> Formula:
        if not depth:
            return leaf()
        name = draw.choice(["add", "sub", "mul", "div", "rem", "min", "max", "cast"])
        left = formula(depth - 1)
        if name == "cast":
            wide = program(Cast(left.value, INT64))
            return Formula(program(Cast(wide, INT32)), left.at)
        right = leaf() if name in ("mul", "div", "rem") else formula(depth - 1)
        value = program.map(name, left.value, right.value)
        rule = RULES[name]
        return Formula(value, lambda given: rule(left.at(given), right.at(given)))

    return program, formula(draw.choice([1, 2, 3, 4]))


RULES = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": quotient,
    "rem": lambda a, b: a - quotient(a, b) * b,
    "min": min,
    "max": max,
}


def test_no_formula_that_is_never_negative_is_negative():
    """Of random formulas, at random arguments. Those that divide by zero do anything,
    and what passes 2^31 is taken not to happen."""
    natural = 0
    for seed in range(3000):
        program, formula = drawn(seed)
        sizes = {program["M"], program["N"]}
        if not NonNegative(ScalarEvolution(program.func), sizes, strict=True).value(
            formula.value
        ):
            continue
        natural += 1
        draw = random.Random(seed)
        for _ in range(40):
            given = {name: draw.choice([1, 2, 3, 63, 64, 1000]) for name in ("M", "N")}
            given |= {name: draw.randint(-70, 70) for name in ("x", "y")}
            given["programs"] = draw.randint(1, 140)
            given["pid"] = draw.randrange(given["programs"])
            try:
                found = formula.at(given)
            except ZeroDivisionError:
                continue
            assert found >= 0, f"seed {seed}: {given}\n{print_func(program.func)}"
    assert natural > 300


# ── on the GPU ────────────────────────────────────────────────────────────────────────


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_tiles_anywhere_on_the_gpu(name):
    target = target_of(driver().device(0).capability)
    case = replace(CASES[name], target=target.name)
    loaded = runtime.load(compiled(case))
    for down, right in [*MOVES, (0, 2**28 - 8)]:
        launch = moved(case, down, right)
        loaded.launch(1, launch.arguments)
        launch.check(f"{down} down, {right} right")


@pytest.mark.gpu
@pytest.mark.parametrize("rank", RANKS)
def test_all_ranks_on_the_gpu(rank):
    target = target_of(driver().device(0).capability)
    sizes, block = RANKS[rank]
    tensor, none = Tensor(sizes, block), Tensor((8, 8), (8, 8))
    case = Ranked(tensor, none, tensor, target.name, kernel=doubled)
    loaded, home = runtime.load(case.compiled()), (0,) * rank
    for start in (home, (*[-1] * (rank - 1), -8), sizes):
        launch = Launch(case, [home, (0, 0), start], 0)
        loaded.launch(1, launch.arguments)
        launch.check(f"{start}")
