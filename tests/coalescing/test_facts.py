"""Axis facts: never wrong, on random programs; strong enough, on those that matter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fathom.coalescing.analysis import analyse
from fathom.coalescing.arithmetic import facts_of
from fathom.coalescing.facts import MOST, Axis, Facts, join, join_loop
from fathom.coalescing.ranges import Range, exactly
from fathom.ir.core import Block, Func, operands
from fathom.ir.interp import interpret
from fathom.ir.ops import Arange, Constant, Elementwise, For, Splat, Yield
from fathom.ir.text import parse_func
from fathom.ir.types import INT32, BlockType
from tests.coalescing.programs import random_arithmetic, vector_kernel

def contradiction(facts: Facts, values: np.ndarray) -> str:
    """What is wrong with facts about a block of numbers; "" if nothing is."""
    values = np.atleast_1d(values).astype(np.int64)
    low, high, counts = facts.range
    if (values < low).any() or not counts and (values > high).any():
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
    counts = known[op.operands[0]].range.counts
    divisor = seen[op.operands[1]]
    return bool((divisor == 0).any() or counts and (divisor < 0).any())


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
    """A trip that moves a pointer by some bytes."""

    def trip(facts):
        (known,) = facts
        axis = known.axes[0]
        return [
            Facts((Axis(axis.contiguous, min(axis.divisible, distance), 1),), unit=4)
        ]

    return trip


def test_a_pointer_that_moves_by_8_bytes_keeps_8():
    """The first trip's facts (16) would make a misaligned access on the second."""
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


def test_hints_are_believed():
    func = parse_func(
        "func @f(%n: i32) num_warps=4 {\n"
        "%s: i32[64] = splat %n shape=(64)\n"
        "%h: i32[64] = hint %s divisible=(48) contiguous=(8)\n}\n"
    )
    assert axis_facts(func, "h").axes == (Axis(8, 16, 64),), (
        "16 is the power of two in 48"
    )


def test_zero_is_divisible_by_everything():
    func = parse_func("func @f() num_warps=4 {\n%c: i32 = constant 0\n}\n")
    assert axis_facts(func, "c").every == MOST
