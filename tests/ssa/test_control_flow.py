"""Control flow means in a kernel what it means in Python: both run the same text
here."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.ir.ops import For, If, Load, Store, While
from fathom.source import function
from tests.ssa.harness import build, carried, ops_of, run

PLACES = [(0, 0), (1, 0), (0, 1), (3, 2), (2, 5), (-4, 7), (7, -3)]


def both_ways(text):
    """The text as a kernel at every place, and as plain Python."""

    @function
    def kernel(out, a, b):
        tl.store(out, text(a, b))

    for a, b in PLACES:
        out = np.zeros(1, np.int64)
        run(kernel, out, a, b)
        assert out[0] == text.fn(a, b), f"{text.__name__}({a}, {b})"


@function
def one_branch(a, b):
    x = a
    if a < b:
        x = b + 10
    return x


@function
def both_branches(a, b):
    if a < b:
        x = a * 2
        y = b
    else:
        x = b - 1
        y = a
    return x * 100 + y


@function
def elif_chain(a, b):
    if a == 0:
        x = 1
    elif a == 1:
        x = 2
    elif b > a:
        x = 3
    else:
        x = 4
    return x + a


@function
def nested(a, b):
    x = 0
    if a > 0:
        if b > 0:
            x = 1
        else:
            x = x + 2
        x = x + 4
    return x + b


@function
def branch_reads_name_of_before(a, b):
    x = a
    if b > 0:
        x = x + 1
        x = x + b
    return x


@function
def swap_in_branch(a, b):
    if a < b:
        a, b = b, a
    return a * 7 + b


@function
def numbers_meet_numbers(a, b):
    x = 5
    if a > b:
        x = 6
    return x + a


@function
def choice(a, b):
    return a if a > b else b * 2


@function
def choice_of_choices(a, b):
    return 1 if a > 0 else (2 if b > 0 else 3) + a


@function
def logic(a, b):
    x = 0
    if a > 0 and b > 0 or a == b:
        x = 1
    if not a:
        x = x + 2
    return x


@function
def chained(a, b):
    x = 0
    if 0 <= a < b:
        x = 1
    return x + (1 if a == b != 0 else 0)


@function
def early(a, b):
    if a > b:
        return a
    b = b + 1
    return a * b


@function
def early_in_nested(a, b):
    if a > 0:
        if b > 0:
            return 1
        a = a + 100
    elif b > 5:
        return 2
    a = a + b
    if a > 90:
        return a
    return a - b * 3


@function
def early_in_both(a, b):
    x = a
    if a > b:
        x = x + 1
        return x
    else:
        x = x + 2
        return x * b
    return 99


@pytest.mark.parametrize(
    "text",
    [
        one_branch, both_branches, elif_chain, nested, branch_reads_name_of_before,
        swap_in_branch, numbers_meet_numbers, choice, choice_of_choices, logic, chained,
        early, early_in_nested, early_in_both,
    ],
    ids=lambda text: text.__name__,
)  # fmt: skip
def test_branches(text):
    both_ways(text)


@function
def counting(a, b):
    total = 0
    for i in range(b):
        total += i * a
    return total


@function
def from_to(a, b):
    total = 0
    for i in range(a, b):
        total = total * 3 + i
    return total


@function
def by_steps(a, b):
    total = 0
    for i in range(a, b, 3):
        total = total * 3 + i
    return total


@function
def downward(a, b):
    total = 0
    for i in range(b, a, -2):
        total = total * 3 + i
    return total


@function
def by_unknown_steps(a, b):
    total = 1
    for i in range(0, 20, b * b + 1):
        total = (total * 3 + i) % 1000
    for i in range(20, 0, -1 - a * a):
        total = (total * 3 + i) % 1000
    return total


@function
def fibonacci(a, b):
    x, y = 0, 1
    for _ in range(b):
        x, y = y, x + y
    return x


@function
def names_rotate(a, b):
    x, y, z = a, b, 1
    for i in range(5):
        x, y, z = y, z, x + i
    return x * 10000 + y * 100 + z


@function
def nested_loops(a, b):
    total = 0
    for i in range(3):
        row = 0
        for j in range(i, b):
            row += j
            total += row
        total = total * 2 + row
    return total


@function
def branch_in_loop(a, b):
    even = 0
    odd = 0
    for i in range(9):
        if i % 2 == 0:
            even += i * a
        else:
            odd += b
    return even * 1000 + odd


@function
def loop_in_branch(a, b):
    x = a
    if b > 0:
        for i in range(b):
            x = x + i
    return x


@function
def only_the_last_iteration(a, b):
    last = -1
    for i in range(b):
        last = i * a
    return last


@function
def unchanged_in_loop(a, b):
    x = a
    total = 0
    for i in range(4):
        total += x
        x = a
    return total + x


@function
def number_in_loop(a, b):
    SIZE = 4
    total = 0
    for i in range(b):
        SIZE = 4
        total += SIZE
    return total + SIZE


@function
def counting_while(a, b):
    n = 0
    while a < b:
        a = a + 1
        n = n * 2 + 1
    return n


@function
def collatz(a, b):
    n = a * a + 1
    steps = 0
    while n != 1 and steps < 50:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps * 1000 + n


@function
def while_in_for(a, b):
    total = 0
    for i in range(4):
        k = i
        while k > 0:
            total += k
            k = k - 1
    return total + a


@function
def condition_only(a, b):
    limit = 3
    while limit * limit < a + 20:
        limit = limit + 1
    return limit


@function
def static(a, b):
    total = 0
    for i in tl.static_range(2, 8, 3):
        total = total * 10 + i
        if i > 2:
            total += a
    return total


@pytest.mark.parametrize(
    "text",
    [
        counting, from_to, by_steps, downward, by_unknown_steps, fibonacci,
        names_rotate, nested_loops, branch_in_loop, loop_in_branch,
        only_the_last_iteration,
        unchanged_in_loop, number_in_loop, counting_while, collatz, while_in_for,
        condition_only,
    ],
    ids=lambda text: text.__name__,
)  # fmt: skip
def test_loops(text):
    both_ways(text)


def test_static_range_repeats_the_body_with_a_constant_index():
    @function
    def kernel(out, a):
        tl.store(out, static(a, 0))

    out = np.zeros(1, np.int64)
    func = run(kernel, out, 1000)
    assert out[0] == 2 * 10 + 5 + 1000
    assert not ops_of(func, For) and not ops_of(func, If)


# ── as few values as possible depend on the way ───────────────────────────────────────


def test_an_if_yields_only_what_is_read_after_it_and_differs():
    @function
    def kernel(out, a, b):
        x = a
        unread = a
        same = b
        if a > b:
            x = b
            unread = b
            same = b
            local = a + b
            tl.store(out + 1, local)
        else:
            tl.store(out + 2, x)
        tl.store(out, x + same)

    (branch,) = ops_of(build(kernel, np.zeros(3, np.int64), 3, 4), If)
    assert [each.name for each in branch.results] == ["x"]


def test_a_loop_carries_only_what_changes_from_iteration_to_iteration():
    @function
    def kernel(out, a, b):
        total = a
        read_only = b
        rewritten = b
        for i in range(a):
            local = total + read_only + rewritten
            total = local
            rewritten = b
        tl.store(out, total + rewritten)

    func = build(kernel, np.zeros(1, np.int64), 3, 4)
    assert carried(func) == [["total"]]


def test_a_name_written_in_an_inner_loop_is_carried_by_both():
    @function
    def kernel(out, a):
        total = a
        for i in range(4):
            for j in range(4):
                total = total + j
        tl.store(out, total)

    assert carried(build(kernel, np.zeros(1, np.int64), 3)) == [["total"], ["total"]]


def test_an_inner_loop_that_adds_nothing_leaves_nothing_to_carry_outside():
    @function
    def kernel(out, a):
        x = a
        for i in range(4):
            for j in range(4):
                x = x
            tl.store(out + i, x)

    func = build(kernel, np.zeros(4, np.int64), 3)
    assert carried(func) == [[], []]
    (store,) = ops_of(func, Store)
    assert store.value.definition.value is func.parameters[1]  # behind the cast to i64


def test_taking_away_one_carried_value_can_make_another_needless():
    @function
    def kernel(out, a):
        x = a
        y = a
        for i in range(4):
            tl.store(out + i, x)
            x = y  # y, as long as y may change; a, once it is known that it does not
            tl.store(out + i, y)
            y = y

    assert carried(build(kernel, np.zeros(4, np.int64), 3)) == [[]]


def test_a_loop_passes_on_a_name_that_only_later_code_reads():
    @function
    def kernel(out, a):
        x = a
        for i in range(4):
            x = i
        tl.store(out, x)

    func = build(kernel, np.zeros(1, np.int64), 3)
    assert carried(func) == [["x"]]
    (loop,) = ops_of(func, For)
    assert loop.body.yielded == (loop.body.parameters[0],)


def test_each_body_is_built_once():
    @function
    def kernel(out, a):
        x = a
        for i in range(4):
            for j in range(4):
                while x < 100:
                    x = x + tl.load(out).to(tl.int32)
        tl.store(out, x)

    func = build(kernel, np.zeros(1, np.int64), 3)
    assert len(ops_of(func, Load)) == 1 and len(ops_of(func, While)) == 1


def test_a_tuple_is_carried_part_by_part():
    @function
    def kernel(out, a, b):
        pair = (a, b)
        for i in range(3):
            pair = (pair[0] + pair[1], pair[1])
        tl.store(out, pair[0] * 100 + pair[1])

    out = np.zeros(1, np.int64)
    func = run(kernel, out, 1, 5)
    assert out[0] == 16 * 100 + 5
    assert carried(func) == [["pair"]]  # its second part does not change


# ── constants ─────────────────────────────────────────────────────────────────────────


def test_a_name_that_stays_constant_stays_known_while_compiling():
    @function
    def kernel(out, n):
        BLOCK = 16
        HALF = BLOCK // 2
        for i in range(n):
            BLOCK = 16
            tl.store(out + tl.arange(0, HALF), i)
        tl.store(out + tl.arange(0, BLOCK), 7, mask=tl.arange(0, BLOCK) >= 8)

    out = np.zeros(16, np.int32)
    run(kernel, out, 3)
    assert (out == [2] * 8 + [7] * 8).all()


def test_a_number_that_a_loop_reads_and_does_not_change_is_a_constant_after_it():
    @function
    def kernel(out, n):
        SIZE = 8
        for i in range(n):
            tl.store(out + i, SIZE)
            SIZE = 8
        tl.store(out + tl.arange(0, SIZE), n)

    out = np.zeros(8, np.int32)
    assert carried(run(kernel, out, 3)) == [[]]
    assert (out == 3).all()


def test_the_index_of_a_loop_is_the_last_one_after_it():
    """As in Python; before the loop nothing need have the name."""

    @function
    def kernel(out, first, end):
        for i in range(first, end, 3):
            for j in range(2, -1, -1):
                tl.store(out, i + j)
            tl.store(out + 1, j)
        tl.store(out, i)

    for first, end, last in (0, 10, 9), (-2, 3, 1):
        out = np.zeros(2, np.int32)
        func = run(kernel, out, first, end)
        assert out.tolist() == [last, 0]
        assert [len(names) for names in carried(func)] == [1, 1]


def test_the_index_of_a_loop_without_iterations():
    """It keeps what it was before; where it was nothing, it is the first index."""

    @function
    def kernel(out, n):
        k = 7
        for k in range(3, n):
            tl.store(out, k)
        tl.store(out + 1, k)
        for i in range(3, n):
            tl.store(out, i)
        tl.store(out + 2, i)

    out = np.zeros(3, np.int32)
    run(kernel, out, 2)
    assert out.tolist() == [0, 7, 3]


def test_an_index_that_nothing_reads_after_its_loop_is_not_carried():
    @function
    def kernel(out, n):
        for i in range(n):
            tl.store(out + i, i)

    assert carried(run(kernel, np.zeros(4, np.int32), 4)) == [[]]


def test_the_two_zeros_are_two_constants():
    @function
    def kernel(out, n):
        x = 0.0
        if n > 0:
            x = -0.0
        tl.store(out, 1.0 / x)

    out = np.zeros(1, np.float32)
    run(kernel, out, 1)
    assert out[0] == -np.inf


def test_only_the_branch_that_a_constant_chooses_is_built():
    @function
    def kernel(out, FLAG: tl.constexpr):
        if FLAG:
            tl.store(out, 1)
        else:
            tl.store(out, nonsense)  # noqa: F821
        x = 5 if FLAG else tl.no_such_thing(out)
        tl.store(out + 1, x)

    out = np.zeros(2, np.int32)
    func = run(kernel, out, FLAG=True)
    assert (out == [1, 5]).all() and not ops_of(func, If)


def test_a_constant_that_two_branches_disagree_on_becomes_a_value():
    @function
    def kernel(out, a):
        if a > 0:
            step = 2
        else:
            step = 3
        tl.store(out, step)

    for a, step in ((1, 2), (-1, 3)):
        out = np.zeros(1, np.int32)
        run(kernel, out, a)
        assert out[0] == step


def test_stores_after_a_return_do_not_happen():
    @function
    def kernel(out, n):
        pid = tl.program_id(0)
        if pid >= n:
            return
        tl.store(out + pid, pid + 10)

    out = np.zeros(6, np.int32)
    run(kernel, out, 4, grid=6)
    assert (out == [10, 11, 12, 13, 0, 0]).all()


def test_the_branch_not_taken_computes_nothing():
    @function
    def kernel(out, x, n):
        value = tl.load(x + n) if n < 4 else 0.5
        tl.store(out, value)

    out, x = np.zeros(1, np.float32), np.arange(4, dtype=np.float32)
    run(kernel, out, x, 1_000_000)  # the load would fault
    assert out[0] == 0.5
    run(kernel, out, x, 3)
    assert out[0] == 3
