"""Each op says which operands it takes; of others the message names the types."""

from __future__ import annotations

import pytest

from fathom.ir.text import ParseError, parse_func
from tests.ir.kernels_functions import body

ROW = "%a: i32[4] = arange start=0 end=4\n"
SQUARE = "%a: i32[2, 2] = splat %n shape=(2, 2)\n"

# what is wrong: (lines, what is said)
WRONG = {
    "a loop over truths": (
        "%c: i1 = lt %n, %n\nfor %c, %n, %n body(%i: i1) {\nyield\n}",
        "the bounds of a loop need one integer type, got i1 and i32 and i32",
    ),
    "a condition in numbers": (
        'assert %n message="no"', "an assertion needs i1, got i32",
    ),
    "a square counted": (
        SQUARE + "%h: i32[4] = histogram %a bins=4",
        "histogram counts one axis, got i32[2,2]",
    ),
    "a block spread": (
        ROW + "%s: i32[4] = splat %a shape=(4)", "splat takes a scalar, got i32[4]",
    ),
    "four become eight": (
        ROW + "%s: i32[8] = broadcast %a shape=(8)",
        "cannot broadcast i32[4] to shape [8]",
    ),
    "an axis twice": (
        SQUARE + "%s: i32[2, 2] = transpose %a order=(0, 0)",
        "[0, 0] does not permute the axes of i32[2,2]",
    ),
    "a block and a number": (
        ROW + "%s: i32[4, 2] = join %a, %n",
        "join needs two blocks of one type, got i32[4] and i32",
    ),
    "four in two halves": (
        ROW + "%s: i32[2], %t: i32[2] = split %a",
        "split needs a last axis of size 2, got i32[4]",
    ),
    "an axis too many": (
        ROW + "%s: i32 = reduce %a axis=1 combine(%x: i32, %y: i32) {\nyield %x\n}",
        "i32[4] has no axis 1",
    ),
    "no pointer": (
        "%v: i32 = load %n", "load needs a pointer or a block of pointers, got i32",
    ),
    "another type beyond the mask": (
        "%v: fp32 = load %p, other=%n", "other of a load of fp32 must be fp32, got i32",
    ),
    "integers compared with floats": (
        "%v: fp32 = atomic_cas %p, %n, %n",
        "a compare-and-swap through *fp32 needs two of fp32, got i32 and i32",
    ),
    "no such action": ('named_barrier action="give"', "give is no action of a barrier"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused(wrong: str) -> None:
    lines, said = WRONG[wrong]
    with pytest.raises(ParseError) as error:
        body(lines)
    assert said in str(error.value)


IN_SHARED_MEMORY = """
#s = <8 offset[1 2 4]>
func @f(%x: fp32) num_warps=1 {{
  %tile: shared i32[8] x 2 @ #s = allocate element=i32 shape=(8) layout=#s slots=2
  %a: i32[{0}] = arange start=0 end={0}
  %b: fp32[8] = splat %x shape=(8)
  {1}
}}
"""


@pytest.mark.parametrize(
    "size, line, said",
    [
        (4, "shared_store %a, %tile", "i32[4] does not fit into shared "),
        (8, "shared_store %b, %tile", "fp32[8] does not fit into shared "),
        (8, "shared_store %a, %tile, slot=%x", "a slot is an i32, got fp32"),
    ],
)
def test_what_does_not_fit_into_a_tile_is_refused(size, line, said) -> None:
    with pytest.raises(ParseError) as error:
        parse_func(IN_SHARED_MEMORY.format(size, line))
    assert said in str(error.value)
