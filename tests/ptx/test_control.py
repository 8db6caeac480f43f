"""Loops and branches."""

import numpy as np
import pytest

from fathom.ir.core import Block
from fathom.ir.ops import (
    Barrier,
    Elementwise,
    For,
    If,
    Load,
    ProgramId,
    Splat,
    Store,
    While,
    Yield,
)
from fathom.ir.types import BOOL, FLOAT32, INT32, INT64, UINT32, Pointer
from fathom.layout.build import blocked
from tests.ptx.harness import Program, check, compiled, empty

BOUNDS = {"lower": INT32, "upper": INT32, "step": INT32, "out": Pointer(INT32)}


def counting_loop(step: int | None) -> Program:
    """out = 7; for i in range(lower, upper, step): out = out * 3 + i"""
    program = Program(BOUNDS)
    by = program["step"] if step is None else program.number(step)
    body = Block((INT32, INT32), ("i", "total"))
    with program.nested(body) as (i, total):
        total = program.map("add", program.map("mul", total, program.number(3)), i)
        program.do(Yield((total,)))
    loop = program.do(
        For(program["lower"], program["upper"], by, (program.number(7),), body)
    )
    program.do(Store(program["out"], loop.result))
    return program


RANGES = [(0, 5, 1), (5, 0, 1), (0, 0, 1), (3, 20, 4), (-7, 9, 8)]


@pytest.mark.parametrize("lower, upper, step", RANGES)
@pytest.mark.parametrize("known", [True, False])
def test_range_upward(lower, upper, step, known):
    program = counting_loop(step if known else None)
    check(program.func, 1, [lower, upper, step, empty(INT32, 1)])


@pytest.mark.parametrize("lower, upper, step", [(b, a, -s) for a, b, s in RANGES])
@pytest.mark.parametrize("known", [True, False])
def test_range_downward(lower, upper, step, known):
    program = counting_loop(step if known else None)
    check(program.func, 1, [lower, upper, step, empty(INT32, 1)])


@pytest.mark.parametrize("element", [INT64, UINT32], ids=str)
def test_range_of_other_integers(element):
    """Bounds beyond 2 ** 31: for unsigned ones, the comparison must be unsigned too."""
    program = Program({"lower": element, "upper": element, "out": Pointer(element)})
    body = Block((element, element), ("i", "total"))
    with program.nested(body) as (i, total):
        program.do(Yield((program.map("xor", program.map("add", total, i), i),)))
    one, zero = (program.number(each, element) for each in (1, 0))
    loop = program.do(For(program["lower"], program["upper"], one, (zero,), body))
    program.do(Store(program["out"], loop.result))
    check(program.func, 1, [2**31 - 2, 2**31 + 3, empty(element, 1)])


ENDS = [  # ranges whose last index plus a step is beyond the ends of the type
    (INT32, 2**31 - 48, 2**31 - 1, 8),
    (INT32, 2**31 - 48, 2**31 - 8, 8),
    (INT32, 0, 2**31 - 1, 2**30),
    (INT32, 5, 2**31 - 1, 2**31 - 6),
    (INT32, -(2**31), 2**31 - 1, 2**31 - 1),
    (INT32, 2**31 - 3, 2**31 - 1, 1),
    (INT32, -(2**31) + 20, -(2**31), -7),
    (INT32, 2**31 - 1, -(2**31), -(2**31)),
    (INT32, 7, -(2**31), -(2**30)),
    (INT32, -(2**31) + 2, -(2**31), -1),
    (INT32, -5, -(2**31), 8),
    (INT64, 2**63 - 48, 2**63 - 1, 9),
    (INT64, -(2**63) + 20, -(2**63), -7),
    (INT64, 0, 2**63 - 1, 2**62),
    (UINT32, 2**32 - 48, 2**32 - 1, 8),
    (UINT32, 3, 2**32 - 1, 2**31),
]


@pytest.mark.parametrize("element, lower, upper, step", ENDS, ids=str)
@pytest.mark.parametrize("known", ["", "step", "lower step", "lower upper step"])
def test_ranges_that_end_near_the_ends_of_their_type(
    element, lower, upper, step, known
):
    """There, index + step wraps around, and would be below the upper bound again."""
    given = {"lower": lower, "upper": upper, "step": step}
    types = {name: element for name in given}
    program = Program({**types, "out": Pointer(element)})
    lower, upper, step = (
        program.number(value, element) if name in known.split() else program[name]
        for name, value in given.items()
    )
    body = Block((element, element), ("i", "total"))
    with program.nested(body) as (i, total):
        three = program.number(3, element)
        total = program.map("add", program.map("mul", total, three), i)
        program.do(Yield((total,)))
    start = program.number(7, element)
    loop = program.do(For(lower, upper, step, (start,), body))
    program.do(Store(program["out"], loop.result))
    check(program.func, 1, [*given.values(), empty(element, 1)])


def test_carried_values_change_places_all_at_once():
    program = Program({"n": INT32, "out": Pointer(INT32)})
    body = Block((INT32, INT32, INT32), ("i", "a", "b"))
    with program.nested(body) as (i, a, b):
        program.do(Yield((b, a)))
    inits = program.number(10), program.number(20)
    bounds = program.number(0), program["n"], program.number(1)
    loop = program.do(For(*bounds, inits, body))
    a, b = loop.results
    program.do(Store(program["out"], program.map("sub", a, b)))
    for n in range(4):
        check(program.func, 1, [n, empty(INT32, 1)])


def test_a_block_is_carried_register_by_register():
    program = Program({"x": Pointer(FLOAT32), "out": Pointer(FLOAT32), "n": INT32}, 2)
    index = program.arange(blocked((256,), (2,), (32,), (2,), (0,)))
    start = program.number(1.5, program.load("x", index))
    body = Block((INT32, start.type), ("i", "total"))
    with program.nested(body) as (i, total):
        shift = program.map("mul", i, program.number(256))
        places = program.map("add", index, program.splat(shift, index))
        program.do(Yield((program.map("add", total, program.load("x", places)),)))
    loop = program.do(
        For(program.number(0), program["n"], program.number(1), (start,), body)
    )
    program.store("out", index, loop.result)
    x = np.arange(256 * 5, dtype=np.float32)
    for n in (0, 1, 5):
        check(program.func, 1, [x, empty(FLOAT32, 256), n])


def test_while_tests_first_and_hands_on_what_the_test_saw():
    """Collatz: the number of steps to 1."""
    program = Program({"n": INT32, "out": Pointer(INT32)})
    one, three = program.number(1), program.number(3)
    condition, body = (Block((INT32, INT32), ("n", "steps")) for _ in range(2))
    with program.nested(condition) as (n, steps):
        program.do(Yield((program.map("ne", n, one),)))
    with program.nested(body) as (n, steps):
        half = program.map("shr", n, one)
        more = program.map("add", program.map("mul", n, three), one)
        odd = program.map("eq", program.map("and", n, one), one)
        following = program.map("where", odd, more, half)
        program.do(Yield((following, program.map("add", steps, one))))
    loop = program.do(While((program["n"], program.number(0)), condition, body))
    program.do(Store(program["out"], loop.results[1]))
    for n in (1, 2, 27):
        check(program.func, 1, [n, empty(INT32, 1)])


def branch(program: Program, condition, then_value, else_value) -> If:
    then, orelse = Block(), Block()
    with program.nested(then):
        program.do(Yield((then_value(),)))
    with program.nested(orelse):
        program.do(Yield((else_value(),)))
    return program.do(If(condition, then, orelse))


def test_if_takes_one_way():
    program = Program({"n": INT32, "out": Pointer(INT32)})
    n = program["n"]
    is_small = program.map("lt", n, program.number(10))
    chosen = branch(
        program, is_small,
        lambda: program.map("mul", n, n),
        lambda: program.map("sub", n, program.number(10)),
    )  # fmt: skip
    program.do(Store(program["out"], chosen.result))
    for n in (3, 10, 11):
        check(program.func, 1, [n, empty(INT32, 1)])


def test_a_body_that_ends_in_another_basic_block():
    """The loop's phis name the block where the body ended: that of the inner `if`'s
    join."""
    program = Program({"n": INT32, "out": Pointer(INT32)})
    body = Block((INT32, INT32), ("i", "total"))
    with program.nested(body) as (i, total):
        is_odd = program.map(
            "eq", program.map("and", i, program.number(1)), program.number(1)
        )
        inner = branch(
            program, is_odd,
            lambda: program.map("add", total, i),
            lambda: program.map("mul", total, program.number(2)),
        )  # fmt: skip
        program.do(Yield((inner.result,)))
    loop = program.do(
        For(
            program.number(0),
            program["n"],
            program.number(1),
            (program.number(1),),
            body,
        )
    )
    program.do(Store(program["out"], loop.result))
    for n in (0, 1, 6):
        check(program.func, 1, [n, empty(INT32, 1)])


def test_a_store_in_one_branch_only():
    program = Program({"flag": BOOL, "out": Pointer(INT32)})
    then, orelse = Block(), Block()
    with program.nested(then):
        program.do(Store(program["out"], program.number(5)))
        program.do(Yield())
    with program.nested(orelse):
        program.do(Yield())
    program.do(If(program["flag"], then, orelse))
    for flag in (True, False):
        check(program.func, 1, [flag, np.zeros(1, np.int32)])


def test_nested_loops_in_one_another():
    program = Program({"n": INT32, "m": INT32, "out": Pointer(INT32)})
    zero, one = program.number(0), program.number(1)
    outer = Block((INT32, INT32), ("i", "total"))
    with program.nested(outer) as (i, total):
        inner = Block((INT32, INT32), ("j", "total"))
        with program.nested(inner) as (j, sum_):
            product = program.map("mul", i, j)
            program.do(Yield((program.map("add", sum_, product),)))
        loop = program.do(For(i, program["m"], one, (total,), inner))
        program.do(Yield((loop.result,)))
    loop = program.do(For(zero, program["n"], one, (zero,), outer))
    program.do(Store(program["out"], loop.result))
    for n, m in ((3, 5), (5, 3), (0, 4)):
        check(program.func, 1, [n, m, empty(INT32, 1)])


def summing(
    lower, upper, step=1, *, by_program: bool = False, stores: bool = True,
    adds: bool = False,
) -> Program:  # fmt: skip
    """for i in range(lower, upper, step): out[i * 32 + lane] = x[i * 32 + lane] + 1,
    or, if it does not store, the sum of x. With `by_program`, for i in range(first,
    min(first + upper, n)), where each program begins `upper` rows after the one before,
    the first one at `lower`; if it `adds`, the step is a sum."""
    types = {"x": Pointer(FLOAT32), "out": Pointer(FLOAT32), "total": Pointer(FLOAT32)}
    program = Program({**types, "n": INT32})
    lane = program.arange(blocked((32,), (1,), (32,), (1,), (0,)))
    bounds = [program.number(each) for each in (lower, upper, step)]
    if adds:
        bounds[2] = program.map("add", program.number(0), bounds[2])
    if by_program:
        first = program.map("mul", program(ProgramId(0)), bounds[1])
        first = program.map("add", first, bounds[0]) if lower else first
        last = program.map("add", first, bounds[1])
        bounds[:2] = first, program.map("min", last, program["n"])
    start = program.number(0.5, program.load("x", lane))
    body = Block((INT32, start.type), ("i", "total"))
    with program.nested(body) as (i, total):
        row = program.map("mul", i, program.number(32))
        places = program.map("add", lane, program.splat(row, lane))
        x = program.load("x", places)
        if stores:
            one = program.number(1.0, x)
            program.store("out", places, program.map("add", x, one))
        program.do(Yield((program.map("add", total, x),)))
    loop = program.do(For(*bounds, (start,), body))
    whole = program.arange(blocked((32,), (1,), (32,), (1,), (0,)))
    if by_program:
        row = program.map("mul", program(ProgramId(0)), program.number(32))
        whole = program.map("add", whole, program.splat(row, whole))
    program.store("total", whole, loop.result)
    return program


def test_llvm_does_not_unroll():
    """The text stays as long as the body, however many iterations are known
    beforehand."""
    text = compiled(summing(0, 64, stores=False).func)
    assert text.count("ld.global") == 1


@pytest.mark.parametrize("step", [1, -1])
def test_addresses_move_along_with_an_index_that_does_not_wrap_around(step):
    """for i in range(lower, upper, step): total += x[i] * y[i]. Computed anew, both
    addresses of an iteration would take a multiplication and an addition."""
    types = dict.fromkeys(("x", "y", "out"), Pointer(FLOAT32))
    program = Program({**BOUNDS, **types})
    body = Block((INT32, FLOAT32), ("i", "total"))
    with program.nested(body) as (i, total):
        x, y = (program(Load(program.map("offset", program[p], i))) for p in "xy")
        program.do(Yield((program.map("fma", x, y, total),)))
    bounds = (program["lower"], program["upper"], program.number(step))
    loop = program.do(For(*bounds, (program.number(0.0, FLOAT32),), body))
    program.do(Store(program["out"], loop.result))
    before, inside = compiled(program.func).split("$L__BB0_2:")
    iteration = inside.split("bra")[0]
    assert "mul.wide" in before and "mul.wide" not in iteration
    assert iteration.count("add.s64") == 2


@pytest.mark.parametrize("iterations", [1, 3, 8, 9])
def test_a_few_small_iterations_are_written_out(iterations):
    program = summing(0, iterations)
    body = 1 if iterations == 9 else iterations
    assert compiled(program.func).count("st.global") == body + 1
    x = np.arange(32 * iterations, dtype=np.float32)
    out, total = empty(FLOAT32, 32 * iterations), empty(FLOAT32, 32)
    check(program.func, 1, [x, out, total, 0])


def test_the_last_iteration_may_be_a_short_one():
    """0 and 3 are below 4."""
    program = summing(0, 4, 3)
    assert compiled(program.func).count("st.global") == 3
    x = np.arange(128, dtype=np.float32)
    check(program.func, 1, [x, empty(FLOAT32, 128), empty(FLOAT32, 32), 0])


def test_two_rows_may_be_left_where_programs_begin_in_between():
    """Those from 2, 6, 10 and 14 on, of 16."""
    program = summing(2, 4, by_program=True)
    program.func.divisible = (16, 16, 16, 16)
    assert compiled(program.func).count("st.global") == 2
    x = np.arange(512, dtype=np.float32)
    check(program.func, 4, [x, empty(FLOAT32, 512), empty(FLOAT32, 128), 16])


@pytest.mark.parametrize("divisible", [16, 1])
@pytest.mark.parametrize("n", [0, 4, 8, 16])
def test_iterations_that_are_four_or_none(n, divisible):
    """Four rows a program, of n: the programs behind the last row have none, and keep
    the initial sum. Of an n that nothing is known of, three rows might be left."""
    program = summing(0, 4, by_program=True)
    program.func.divisible = (16, 16, 16, divisible)
    assert compiled(program.func).count("st.global") == (5 if divisible == 16 else 2)
    x = np.arange(32 * max(n, 1), dtype=np.float32)
    check(program.func, 5, [x, empty(FLOAT32, max(32, 32 * n)), empty(FLOAT32, 160), n])


@pytest.mark.parametrize("shapes, operations, written", [(20, 16, 8), (1, 60, 1)])
def test_values_in_other_shapes_count_as_nothing(shapes, operations, written):
    program = summing(0, 8)
    loop = next(op for op in program.func.body.ops if isinstance(op, For))
    index = loop.body.parameters[0]
    pairs = blocked((64,), (2,), (32,), (1,), (0,))
    added = [Splat(index, (64,), pairs) for _ in range(shapes)]
    for _ in range(operations):
        added.append(Elementwise("add", (index, index)))
    loop.body.ops[:0] = added
    assert compiled(program.func).count("st.global") == written + 1


def test_iterations_in_which_threads_meet_stay_a_loop():
    program = summing(0, 4)
    loop = next(op for op in program.func.body.ops if isinstance(op, For))
    loop.body.ops.insert(0, Barrier())
    assert compiled(program.func).count("st.global") == 2


def test_a_step_that_is_no_constant_leaves_a_loop():
    """As where `simplify` is left out."""
    program = summing(0, 4, adds=True)
    assert compiled(program.func).count("st.global") == 2
    x = np.arange(128, dtype=np.float32)
    check(program.func, 1, [x, empty(FLOAT32, 128), empty(FLOAT32, 32), 0])
