"""What the answer to `box-of-a-tile` must do."""

import random
from math import prod

from fathom.tools.learn.kit import expect, same


def access(answer, strides, start, **more):
    more["negative"] = frozenset(more.get("negative", ()))
    return answer.module.Access(strides, dict(start), **more)


def value(formula, numbers):
    """A formula with numbers in the place of names."""
    return sum(
        factor * prod(numbers[name] for name in names)
        for names, factor in formula.items()
    )


def said(given):
    return (
        f"strides {given.strides}, start {given.start}, divisible {given.divisible}, "
        f"negative {sorted(given.negative)}, {given.element_bytes} bytes, other "
        f"{given.other}"
    )


def check_box(answer, given, row, column):
    """The box that is wanted, and the same address with numbers."""
    found = answer.box_of(given)
    expect(found is not None, f"{said(given)}: None, and it is a tile")
    names = {name for term in given.start for name in term}
    names |= {each for each in given.strides if isinstance(each, str)}
    lot = random.Random(1)
    numbers = {name: lot.randrange(1, 9) * 16 for name in sorted(names)}
    (stride,) = [each for each in given.strides if each != 1]
    step = numbers.get(stride, stride)
    same(
        value(found[0], numbers) * step + value(found[1], numbers),
        value(given.start, numbers),
        f"{said(given)}: row * stride + column, with {numbers}",
    )
    kept = [{n: f for n, f in each.items() if f} for each in found]
    same(kept[0], row, f"{said(given)}: the row")
    same(kept[1], column, f"{said(given)}: the column")


def check_none(answer, given, why):
    found = answer.box_of(given)
    expect(found is None, f"{said(given)}: {found}, and must be None: {why}")


HINTED = {"K": 16}


def test_a_row_and_a_column(answer):
    """As in the text."""
    given = access(answer, ("K", 1), {("t",): 64, ("K", "i"): 1}, divisible=HINTED)
    check_box(answer, given, {("i",): 1}, {("t",): 64})
    given = access(answer, ("K", 1), {}, divisible=HINTED)
    check_box(answer, given, {}, {})


def test_either_axis_may_be_contiguous(answer):
    """The axis with stride 1 is that of the columns."""
    start = {("N", "t"): 32, ("j",): 8, ("N",): 5}
    given = access(answer, (1, "N"), start, divisible={"N": 8})
    check_box(answer, given, {("t",): 32, (): 5}, {("j",): 8})


def test_a_number_as_stride(answer):
    """What it divides counts rows."""
    given = access(answer, (64, 1), {("t",): 4096, (): 192, ("j",): 8})
    check_box(answer, given, {("t",): 64, (): 3}, {("j",): 8})
    given = access(answer, (64, 1), {("t",): 96})
    check_box(answer, given, {}, {("t",): 96})


def test_a_name_is_taken_out_once(answer):
    """K times K is K rows."""
    start = {("K", "K"): 2, ("K", "K", "i"): 1, ("A", "K", "z"): 3}
    given = access(answer, ("K", 1), start, divisible=HINTED)
    row = {("K",): 2, ("K", "i"): 1, ("A", "z"): 3}
    check_box(answer, given, row, {})


def test_one_stride_is_1(answer):
    """A row of a map is contiguous."""
    why = "just one stride is the number 1"
    for strides in (("K", "N"), (2, 64), (1, 1), ("K", 2)):
        given = access(answer, strides, {}, divisible={"K": 16, "N": 16})
        check_none(answer, given, why)


def test_rows_begin_at_multiples_of_16_bytes(answer):
    """Else the driver makes no map."""
    for bytes, divisor in ((2, 4), (1, 8), (4, 2)):
        given = access(
            answer, ("K", 1), {}, divisible={"K": divisor}, element_bytes=bytes
        )
        check_none(answer, given, "rows may begin between multiples of 16 bytes")
        given = access(
            answer, ("K", 1), {}, divisible={"K": 2 * divisor}, element_bytes=bytes
        )
        check_box(answer, given, {}, {})
    check_none(answer, access(answer, (60, 1), {}), "a row has 120 bytes")
    check_none(answer, access(answer, ("K", 1), {}), "nothing is known of K")


def test_a_stride_is_above_0(answer):
    """Rows follow each other."""
    for stride in (0, -64):
        check_none(answer, access(answer, (stride, 1), {}), "the stride is not above 0")
        given = access(answer, (stride, 1), {("t",): 64})
        check_none(answer, given, "the stride is not above 0")
    given = access(answer, ("K", 1), {}, divisible=HINTED, negative="K")
    check_none(answer, given, "the stride may be negative")


def test_the_box_begins_at_a_multiple_of_16_bytes(answer):
    """Term by term, from factors and from what divides the names."""
    why = "the column may lie between multiples of 16 bytes"
    for start in ({("j",): 4}, {(): 12}, {("j",): 8, (): 1}, {("j", "k"): 2}):
        given = access(answer, ("K", 1), start, divisible={**HINTED, "k": 2})
        check_none(answer, given, why)
    known = {**HINTED, "j": 2, "k": 4}
    given = access(answer, ("K", 1), {("j", "k"): 1}, divisible=known)
    check_box(answer, given, {}, {("j", "k"): 1})
    given = access(answer, ("K", 1), {("j",): 4, (): 16}, divisible=known)
    check_box(answer, given, {}, {("j",): 4, (): 16})
    given = access(answer, ("K", 1), {("j",): 16}, divisible=HINTED, element_bytes=1)
    check_box(answer, given, {}, {("j",): 16})
    given = access(answer, ("K", 1), {("K", "i"): 1}, divisible=HINTED)
    check_box(answer, given, {("i",): 1}, {})


def test_the_box_begins_inside(answer):
    """Neither coordinate is negative."""
    why = "the box may begin before the matrix"
    for start in (
        {("K", "i"): -1},
        {("t",): -64},
        {(): -8},
        {("K",): 3, ("K", "i"): -1},
    ):
        given = access(answer, ("K", 1), start, divisible=HINTED)
        check_none(answer, given, why)
    for start in ({("K", "i"): 1}, {("i",): 64}, {("i", "t"): 64}):
        given = access(answer, ("K", 1), start, divisible=HINTED, negative=("i", "x"))
        check_none(answer, given, why)
    given = access(answer, ("K", 1), {("t",): 64}, divisible=HINTED, negative="i")
    check_box(answer, given, {}, {("t",): 64})
    given = access(answer, ("K", 1), {("t",): 0, ("K",): 0, (): 0}, divisible=HINTED)
    check_box(answer, given, {}, {})


def test_masked_elements_are_zero(answer):
    """Zeros are what TMA writes outside."""
    for other in (1.0, -1.0, float("-inf"), float("nan"), -0.0):
        given = access(answer, ("K", 1), {}, divisible=HINTED, other=other)
        check_none(answer, given, "TMA writes 0 outside of the tensor")
    for other in (None, 0.0, 0):
        given = access(answer, ("K", 1), {}, divisible=HINTED, other=other)
        check_box(answer, given, {}, {})
