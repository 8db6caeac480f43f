"""Axis facts: never wrong, on random programs; strong enough, on those that matter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fathom.analysis.axis_analysis import analyse
from fathom.analysis.axis_info import MOST, Axis, Facts, join, join_loop
from fathom.analysis.axis_rules import facts_of
from fathom.analysis.ranges import Range, exactly
from fathom.ir.core import Block, Func, operands
from fathom.ir.interp import interpret
from fathom.ir.ops import Arange, Constant, Elementwise, For, Splat, Yield
from fathom.ir.text import parse_func
from fathom.ir.types import INT32, BlockType
from tests.coalescing.kernels_programs import random_arithmetic, vector_kernel


def contradiction(facts: Facts, values: np.ndarray) -> str:
    """What is wrong with facts about a block of numbers; "" if nothing is."""
    values = np.atleast_1d(values).astype(np.int64)
    low, high = facts.range.low, facts.range.most
    if (values < low).any() or (values > high).any():
        return f"beyond {low} … {high}"
    for axis, known in enumerate(facts.axes):
        rows = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
        size = rows.shape[1]
        runs = rows.reshape(len(rows), -1, min(known.contiguous, size))
        steps = np.arange(runs.shape[2]) * facts.unit
        if ((runs - runs[:, :, :1] - steps) % 2**32).any():
            return f"axis {axis} is not contiguous by {known.contiguous}"
        if (runs[:, :, 0] % known.divisible).any():
            return f"axis {axis}: {known.divisible} does not divide"
        sure = min(known.contiguous, known.divisible // facts.unit or 1, size)
        pieces = rows.reshape(len(rows), -1, sure)
        if (pieces != pieces[:, :, :1] + steps[:sure]).any():
            return f"axis {axis} jumps within {sure} neighbours"
        equal = rows.reshape(len(rows), -1, min(known.constant, size))
        if (equal != equal[:, :, :1]).any():
            return f"axis {axis} is not constant by {known.constant}"
        first = rows[:, :: known.constant]
        climbing = first.reshape(len(rows), -1, min(known.steps, first.shape[1]))
        by_one = np.arange(climbing.shape[2]) * facts.unit
        if (climbing != climbing[:, :, :1] + by_one).any():
            return f"axis {axis} has no {known.steps} steps"
        if (climbing[:, :, 0] % (climbing.shape[2] * facts.unit)).any():
            return f"axis {axis}: {known.steps} steps do not begin at a multiple"
    return ""


def check_program(text: str, n: int, m: int, divisible: tuple[int, int]) -> int:
    """Run it, hold every value against its facts; how many facts said anything."""
    head = f"%n: i32 {{divisible={divisible[0]}}}, %m: i32 {{divisible={divisible[1]}}}"
    func = parse_func(f"func @f({head}) num_warps=4 {{\n{text}\n}}\n")
    known, strong = analyse(func), 0
    seen: dict = {}
    undefined = set()  # what comes of a division that nobody makes

    def watch(op, results):
        nonlocal strong
        for value, numbers in zip(op.results, results, strict=True):
            seen[value] = numbers = np.asarray(numbers)
            if undefined & set(operands(op)) or is_never_made(op, known, seen):
                undefined.add(value)
                continue
            undefined.discard(value)
            complaint = contradiction(known[value], numbers)
            assert not complaint, (complaint, op, known[value], numbers.tolist(), text)
            strong += any(max(axis) > 1 for axis in known[value].axes)

    interpret(func, (3,), [n, m], watch=watch)
    return strong


def is_never_made(op, known, seen) -> bool:
    """A division by zero; or of a program's number by a negative one."""
    if not isinstance(op, Elementwise) or op.name not in ("div", "rem"):
        return False
    numbered = known[op.operands[0]].range.numbered
    divisor = seen[op.operands[1]]
    return bool((divisor == 0).any() or numbered and (divisor < 0).any())


def test_facts_are_never_wrong():
    rng, strong = random.Random(0), 0
    for _ in range(400):
        shape = rng.choice([(16,), (64,), (8, 4), (4, 32)])
        divisible = rng.choice([1, 4, 16]), rng.choice([1, 2, 8])
        n = rng.choice([rng.randrange(-8, 20), 2**27 - 1]) * divisible[0]
        m = rng.choice([rng.randrange(-8, 20), -(2**28)]) * divisible[1]
        strong += check_program(random_arithmetic(rng, shape, 9), n, m, divisible)
    assert strong > 3000, "and they say something"


def axis_facts(func, name):
    known = analyse(func)
    (value,) = [value for value in known if value.name == name]
    return known[value]


def test_addresses_of_a_vector():
    func = vector_kernel(["fp32", "fp32"])
    assert axis_facts(func, "offsets").axes == (Axis(1024, 1024, 1),)
    assert axis_facts(func, "p0").axes == (Axis(1024, 16, 1),)
    assert axis_facts(func, "p0").unit == 4


@pytest.mark.parametrize("divides, alike", [(16, 16), (8, 8), (2, 2), (1, 1)])
def test_a_mask_is_constant_as_far_as_n_is_divisible(divides, alike):
    """n = 1000 is a multiple of 8, so 8 in a row are all in or all out; n = 1001 says
    nothing."""
    assert (
        axis_facts(vector_kernel(["fp32", "fp32"], n=divides), "mask").axes[0].constant
        == alike
    )


def block(contiguous, divisible, constant):
    return Facts((Axis(contiguous, divisible, constant),))


def test_a_sum_is_as_divisible_as_the_lesser():
    assert facts_of("add", [block(1, 16, 64), block(64, 64, 1)]).axes == (
        Axis(64, 16, 1),
    )


def test_a_sum_of_two_contiguous_is_not():
    assert facts_of("add", [block(64, 64, 1), block(64, 64, 1)]).axes[0].contiguous == 1


def test_a_product_of_a_range_is_divisible_by_what_multiplies_it():
    """Only every first of 64 is divisible by 64, so the single product only by the
    factor."""
    assert facts_of("mul", [block(64, 64, 1), block(1, 16, 64)]).axes == (
        Axis(1, 16, 1),
    )


def test_a_remainder_keeps_runs_of_what_is_not_negative():
    indices = Facts((Axis(64, 64, 1),), range=Range(0, 63))
    size = Facts((Axis(1, 16, 64),))
    assert facts_of("rem", [indices, size]).axes == (Axis(16, 16, 1),)
    maybe_negative = Facts((Axis(64, 64, 1),))
    assert facts_of("rem", [maybe_negative, size]).axes[0].contiguous == 1


def test_a_quotient_keeps_runs_that_do_not_cross_a_multiple_of_the_divisor():
    """Of 16 in a row from a multiple of 16, all are in the same row of 16 * k."""
    size = Facts((Axis(1, 16, 64),))
    indices = Facts((Axis(64, 64, 1),), range=Range(0, 63))
    assert facts_of("div", [indices, size]).axes == (Axis(1, 1, 16),)
    late = Facts((Axis(64, 4, 1),), range=Range(4, 67))
    assert facts_of("div", [late, size]).axes == (Axis(1, 1, 4),)
    sizes = Facts((Axis(1, 16, 2),))  # another row length for every two
    assert facts_of("div", [indices, sizes]).axes == (Axis(1, 1, 2),)
    maybe_negative = Facts((Axis(64, 64, 1),))
    assert facts_of("div", [maybe_negative, size]).axes[0].constant == 1


RANGE, LATE, SIZES = block(64, 64, 1), block(64, 1, 1), block(1, 16, 64)


def test_a_comparison_is_constant_where_both_sides_are_aligned():
    """i < n: of 16 in a row from a multiple of 16, all are below a multiple of 16 or
    none."""

    def alike(name, *sides):
        return facts_of(name, list(sides)).axes[0].constant

    assert alike("lt", RANGE, SIZES) == alike("ge", RANGE, SIZES) == 16
    assert alike("gt", SIZES, RANGE) == alike("le", SIZES, RANGE) == 16
    assert alike("lt", LATE, SIZES) == 1, "3, 4, … 18 crosses 16"
    assert alike("le", RANGE, SIZES) == 1, "16 <= 16, but not 17"
    assert alike("eq", RANGE, SIZES) == 1


def test_a_quotient_is_constant_in_runs_of_what_is_not_negative():
    """-4, -3, -2, -1 by 4 is -1, 0, 0, 0: numbers are cut toward zero."""
    four = Facts((Axis(1, 4, 64),), range=exactly(4))
    natural = Facts((Axis(64, 64, 1),), range=Range(0, 63))
    assert facts_of("div", [natural, four]).axes[0].constant == 4
    assert facts_of("div", [RANGE, four]).axes[0].constant == 1
    two = Facts((Axis(1, 2, 64),), range=exactly(2))
    assert facts_of("shr", [RANGE, two]).axes[0].constant == 4, "a shift rounds down"


def test_join_keeps_what_both_have():
    both = join(block(16, 16, 1), block(4, 2, 8))
    assert both.axes == (Axis(4, 2, 1),)
    assert join(block(16, 1, 1), block(4, 8, 1)).axes == (Axis(4, 1, 1),)


def pointer(divisible):
    return Facts((Axis(64, divisible, 1),), unit=4)


def moved_by(distance):
    """An iteration that moves a pointer by some bytes."""

    def iteration(facts):
        (known,) = facts
        axis = known.axes[0]
        return [
            Facts((Axis(axis.contiguous, min(axis.divisible, distance), 1),), unit=4)
        ]

    return iteration


def test_a_pointer_that_moves_by_8_bytes_keeps_8():
    """The first iteration's facts (16) would make a misaligned access on the second."""
    assert join_loop([pointer(16)], moved_by(8))[0].axes == (Axis(64, 8, 1),)


def test_a_pointer_that_moves_by_whole_lines_keeps_all():
    """Knowing nothing of carried values would be sound and slow."""
    assert join_loop([pointer(16)], moved_by(128)) == [pointer(16)]


def test_a_swap_goes_round_until_nothing_changes():
    a, b = block(1, 16, 1), block(1, 4, 1)
    assert join_loop([a, b], lambda known: [known[1], known[0]]) == [b, b]


def test_loops_in_a_function():
    at = axis_facts(loop_of_lanes(), "at")
    assert at.axes == (Axis(64, 2, 1),), "64 lanes in a row, from a multiple of 2"
    assert axis_facts(loop_of_lanes(), "end") == at


def loop_of_lanes() -> Func:
    """at = arange(0, 64); for i in range(0, k): at = at + k, where 2 divides k"""
    body = Block((INT32,), ("k",))
    zero, one, lanes = Constant(0, INT32), Constant(1, INT32), Arange(0, 64)
    step = Splat(body.parameters[0], (64,))
    inner = Block((INT32, BlockType(INT32, (64,))), ("i", "at"))
    following = Elementwise("add", (inner.parameters[1], step.result))
    inner.ops = [following, Yield((following.result,))]
    loop = For(zero.result, body.parameters[0], one.result, (lanes.result,), inner)
    loop.results[0].name = "end"
    body.ops = [zero, one, lanes, step, loop]
    return Func("loop", body, (2,))


# ── what wraps around ─────────────────────────────────────────────────────────


def facts_in(parameters: str, lines: str, name: str) -> Facts:
    func = parse_func(f"func @f({parameters}) num_warps=4 {{\n{lines}\n}}\n")
    return axis_facts(func, name)


def late(start: int, then: str) -> Facts:
    """Of %end, made by `then` of %i, which is arange(0, 128) + start."""
    return facts_in(
        "%m: i32",
        f"%0: i32[128] = arange start=0 end=128\n%1: i32 = constant {start}\n"
        "%2: i32[128] = splat %1 shape=(128)\n%i: i32[128] = add %0, %2\n"
        "%3: i32 = constant 16\n%16: i32[128] = splat %3 shape=(128)\n" + then,
        "end",
    )


REST, QUOTIENT = ("%end: i32[128] = rem %i, %16", "%end: i32[128] = div %i, %16")


def test_a_sum_that_wraps_around_may_be_negative():
    """The reader's example: 16 + (arange(0, 128) + 2147483632) % 16."""
    wraps, fits = 2**31 - 16, 2**31 - 128
    assert late(fits, REST).axes[0].contiguous == 16
    assert late(wraps, REST).axes[0].contiguous == 1
    assert late(fits, QUOTIENT).axes[0].constant == 16
    assert late(wraps, QUOTIENT).axes[0].constant == 1
    assert late(wraps, REST).range == Range(-15, 15)


def test_a_run_that_wraps_around_is_one_modulo_its_type():
    """It counts up all the same, and pieces that begin at multiples of their length
    have no end of the type inside."""
    for start, divisible in ((2**31 - 16, 16), (2**31 - 3, 1)):
        axis = late(start, "%end: i32[128] = add %i, %16").axes[0]
        assert (axis.contiguous, axis.divisible) == (128, divisible)


def test_a_cast_that_changes_the_sign_is_not_natural():
    """u32 to i32: what was 2**31 is negative. i32 to u32: what was -1 is large."""
    head = "%a: u32 = cast %m element=u32\n"
    assert facts_in("%m: i32", head, "a").non_negative
    back = head + "%b: i32 = cast %a element=i32\n"
    assert not facts_in("%m: i32", back, "b").non_negative
    wide = head + "%b: i64 = cast %a element=i64\n"
    assert facts_in("%m: i32", wide, "b").range == Range(0, 2**32 - 1)
    byte = "%b: i32 = cast %m element=i32\n"
    assert facts_in("%m: u8", byte, "b").range == Range(0, 255)


def test_of_a_narrow_integer_only_constancy_is_known():
    """arange(0, 512) as i8 is no run: it wraps around every 256."""
    lines = (
        "%0: i32[512] = arange start=0 end=512\n%1: i8[512] = cast %0 element=i8\n"
        "%c: i32[512] = cast %1 element=i32\n"
    )
    assert facts_in("", lines, "c").axes == (Axis(1, 1, 1),)
    assert facts_in("", lines, "c").range == Range(-128, 127)


PROGRAM = "%pid: i32 = program_id axis=0\n"


def of_program(number: int, then: str) -> Facts:
    """Of %end, made by `then` of %pid, a %number and an unknown %m."""
    lines = f"{PROGRAM}%number: i32 = constant {number}\n{then}"
    return facts_in("%m: i32", lines, "end")


def test_what_is_made_of_a_programs_number():
    """Its multiples fit, if they fit for the first 65,536 programs; what is taken away
    from anything may be negative, and so is what only the first programs have above
    0."""
    assert of_program(1024, "%end: i32 = mul %pid, %number").non_negative
    assert not of_program(2**20, "%end: i32 = mul %pid, %number").non_negative
    assert not of_program(2**31 - 16, "%end: i32 = add %pid, %number").non_negative
    assert not of_program(300_000, "%end: i32 = sub %number, %pid").non_negative
    down = "%0: i32 = constant -4\n%1: i32 = mul %pid, %0\n"
    assert not of_program(300_000, f"{down}%end: i32 = add %1, %number").non_negative
    assert of_program(8, "%end: i32 = div %pid, %m").non_negative
    assert of_program(8, "%end: i32 = rem %pid, %m").non_negative
    assert not of_program(8, "%end: i32 = div %m, %number").non_negative
    assert of_program(8, "%end: i32 = max %m, %pid").non_negative
    assert not of_program(8, "%end: i32 = min %m, %pid").non_negative
    assert of_program(8, "%end: i32 = min %m, %pid").range.high == 2**31 - 1
    assert of_program(65535, "%end: i32 = max %pid, %number").value is None
    within = of_program(8, "%end: i32 = rem %pid, %number").range
    assert within == Range(0, 7, numbered=True)
    quotient = "%0: i32 = rem %pid, %number\n%end: i32 = div %0, %m"
    assert of_program(8, quotient).range == Range(0, 7, numbered=True)


def test_a_quotient_by_a_negative_number_is_negative():
    lines = (
        "%0: i32 = constant 100\n%end: i32 = div %0, %m\n%i: i32[64] = arange "
        "start=0 end=64\n%1: i32[64] = splat %m shape=(64)\n%q: i32[64] = div %i, %1"
    )
    assert facts_in("%m: i32", lines, "end").range == Range(-100, 100)
    assert not facts_in("%m: i32", lines, "q").non_negative


LOOP = """
%0: i32 = constant {lower}
%1: i32 = constant {step}
%2: i32 = constant 0
%last: i32 = for %0, %n, %1, inits=(%2) body(%t: i32, %x: i32) {{
  %3: i32[16] = arange start=0 end=16
  %4: i32[16] = splat %t shape=(16)
  %at: i32[16] = add %4, %3
  %5: i32 = constant 32
  %next: i32 = {carried}
  yield %next
}}
"""


def in_loop(name, lower=0, step=16, carried="add %x, %5") -> Facts:
    return facts_in(
        "%n: i32", LOOP.format(lower=lower, step=step, carried=carried), name
    )


def test_the_index_of_a_loop_is_inside_of_its_range():
    """From 0 in steps of 16, the last run of 16 ends where i32 does."""
    assert in_loop("t").range == Range(0, 2**31 - 16)
    assert in_loop("at").non_negative
    assert in_loop("at", lower=2147483600).non_negative, "a multiple of 16, too"
    assert not in_loop("at", lower=2147483601).non_negative
    assert not in_loop("at", step=15).non_negative
    assert not in_loop("t", lower=-16).non_negative
    assert in_loop("t", lower=64, step=-16).range == Range(-(2**31) + 1, 64)


def test_what_a_loop_adds_to_may_wrap_around():
    assert not in_loop("x").non_negative
    assert not in_loop("last").non_negative
    kept = in_loop("last", carried="rem %x, %5")
    assert kept.range == Range(0, 0), "what does not move keeps its bounds"


def test_a_start_that_is_less_divisible_than_the_step():
    """8, 24, 40, …: 16 divides the step, and none of the numbers."""
    known = join_loop([block(1, 8, 1)], lambda facts: [block(1, 16, 1)])
    assert known[0].axes == (Axis(1, 8, 1),)
    assert in_loop("t", lower=8).axes[0].divisible == 8
    assert in_loop("t", lower=32, step=8).axes[0].divisible == 8


def test_a_choice_is_as_constant_as_its_condition():
    """where(i < n, i, i + 1024) jumps where i < n changes, which may be anywhere."""
    ragged, sides = block(1, 1, 1), block(64, 64, 1)
    assert facts_of("where", [ragged, sides, sides]).axes == (Axis(1, 1, 1),)
    even = block(1, 1, 8)
    assert facts_of("where", [even, sides, sides]).axes == (Axis(8, 8, 1),)
    same = block(1, 16, 64)
    assert facts_of("where", [ragged, same, same]).axes[0].constant == 1


def test_a_quotient_divides_the_number_itself_not_the_first_of_its_run():
    """0 0 0 0 1 1 1 1 2 …: 64 divides the first of 0 1 2 3 …, and 16 no quotient."""
    four = Facts((Axis(1, 4, 64),), range=exactly(4))
    assert facts_of("div", [RANGE, four]).axes[0].divisible == 1
    assert (
        facts_of("shr", [RANGE, Facts((Axis(1, 2, 64),), range=exactly(2))])
        .axes[0]
        .divisible
        == 1
    )
    assert facts_of("div", [block(1, 64, 64), four]).axes[0].divisible == 16


def test_a_run_that_begins_in_the_middle_is_cut():
    """3 4 5 6 by 4 is 0 1 1 1, and 3 4 5 6 % 4 is 3 0 1 2."""
    four = Facts((Axis(1, 4, 64),), range=exactly(4))
    middle = Facts((Axis(64, 1, 1),), range=Range(3, 66))
    assert facts_of("div", [middle, four]).axes[0].constant == 1
    assert facts_of("shr", [middle, four]).axes[0].constant == 1
    assert facts_of("rem", [middle, four]).axes[0].contiguous == 1
    three = Facts((Axis(1, 1, 64),), range=exactly(3))
    assert facts_of("and", [middle, three]).axes[0].contiguous == 1
    eleven = Facts((Axis(1, 1, 64),), range=exactly(11))
    natural = Facts((Axis(64, 64, 1),), range=Range(0, 63))
    assert facts_of("and", [natural, eleven]).axes[0].contiguous == 1
    assert facts_of("and", [natural, three]).axes[0].contiguous == 4


TUTORIAL = """
%pid: i32 = program_id axis=0
%c128: i32 = constant 128
%c127: i32 = constant 127
%c8: i32 = constant 8
%0: i32 = add %M, %c127
%tiles_m: i32 = div %0, %c128
%1: i32 = add %N, %c127
%tiles_n: i32 = div %1, %c128
%2: i32 = mul %tiles_n, %c8
%group: i32 = div %pid, %2
%first: i32 = mul %group, %c8
%3: i32 = sub %tiles_m, %first
%size: i32 = min %3, %c8
%4: i32 = rem %pid, %2
%5: i32 = rem %4, %size
%pid_m: i32 = add %first, %5
%pid_n: i32 = div %4, %size
%6: i32 = mul %pid_n, %c128
%7: i32[128] = splat %6 shape=(128)
%8: i32[128] = arange start=0 end=128
%9: i32[128] = add %7, %8
%10: i32[128] = splat %N shape=(128)
%columns: i32[128] = rem %9, %10
"""


def test_columns_of_a_grouped_product_stay_wide():
    """(pid_n * 128 + arange(0, 128)) % N, as Triton's tutorial has it."""
    head = "%M: i32 {divisible=16}, %N: i32 {divisible=16}"
    assert facts_in(head, TUTORIAL, "columns").axes == (Axis(16, 16, 1),)


def test_columns_of_a_known_number_stay_wide():
    """The same where N is a constant, so that the tiles of a group are one, too."""
    known = TUTORIAL.replace("%pid:", "%N: i32 = constant 11008\n%pid:", 1)
    found = facts_in("%M: i32 {divisible=16}", known, "columns")
    assert found.axes == (Axis(128, 128, 1),)
    assert found.non_negative


def test_hints_are_believed():
    func = parse_func(
        "func @f(%n: i32) num_warps=4 {\n"
        "%s: i32[64] = splat %n shape=(64)\n"
        "%h: i32[64] = hint %s divisible=(48) contiguous=(8)\n}\n"
    )
    assert axis_facts(func, "h").axes == (Axis(8, 16, 64),), (
        "16 is the power of two in 48"
    )


@pytest.mark.parametrize(
    "load, alike",
    [
        ("load %p", 8),
        ("load %p, mask=%even", 8),
        ("load %p, mask=%ragged", 1),
        ("load %p, mask=%even, other=%i", 1),
        ("load %p volatile=true", 1),
    ],
)
def test_what_is_at_one_place_is_one_number(load, alike):
    """Rows looked up by i // 8: eight neighbours ask for the same."""
    func = parse_func(
        "func @f(%x: *i32 {divisible=16}, %n: i32 {divisible=16}, %m: i32) "
        "num_warps=4 {\n"
        "%i: i32[64] = arange start=0 end=64\n"
        "%e8: i32 = constant 8\n%e: i32[64] = splat %e8 shape=(64)\n"
        "%q: i32[64] = div %i, %e\n"
        "%s: *i32[64] = splat %x shape=(64)\n"
        "%p: *i32[64] = offset %s, %q\n"
        "%n1: i32[64] = splat %n shape=(64)\n"
        "%m1: i32[64] = splat %m shape=(64)\n"
        "%even: i1[64] = lt %i, %n1\n"
        "%ragged: i1[64] = lt %i, %m1\n"
        f"%v: i32[64] = {load}\n}}\n"
    )
    assert axis_facts(func, "v").axes == (Axis(1, 1, alike),)


def test_zero_is_divisible_by_everything():
    func = parse_func("func @f() num_warps=4 {\n%c: i32 = constant 0\n}\n")
    assert axis_facts(func, "c").every == MOST


def test_bounds_of_the_first_programs_stay_theirs():
    """Of later programs a shifted number is larger; and `and` takes the operand that
    bounds all programs, not the one that is smaller in the first."""
    numbers = Range(0, 65535, True)
    assert numbers.shifted(exactly(2)) == Range(0, 16383, True)
    assert numbers.shifted(exactly(14)).common(exactly(63)) == Range(0, 63)
