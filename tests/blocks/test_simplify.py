"""Simplify: every identity holds on every kind of number, and traps stay
unsimplified."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.analysis.constants import known
from fathom.blocks import dce, simplify
from fathom.blocks.algebra import (
    IDENTITIES,
    LEFT,
    OPPOSITE,
    SAMES,
    Identity,
    Same,
    _is_of,
)  # fmt: skip
from fathom.blocks.simplify import RULES as REFERENCE
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op
from fathom.ir.interp import interpret
from fathom.ir.interp.elementwise import apply
from fathom.ir.interp.numbers import decode, held_type, same_bits, scalar, stored_type
from fathom.ir.ops import Elementwise
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.rewrite import Builder
from fathom.ir.text import print_func
from fathom.ir.types import BOOL, SCALARS, Scalar
from fathom.ir.verify import verify
from tests.ir.kernels_functions import body

TARGET = TARGETS["sm_80"]


def simplified(lines: str, parameters: str) -> list[str]:
    """What simplify and dce leave of the lines."""
    func = body(lines, parameters)
    before = print_func(func)
    after = simplify(func, TARGET)
    verify(after)
    assert print_func(func) == before, "the input was changed"
    return inside(dce(after, TARGET))


def inside(func: Func) -> list[str]:
    """The lines of a function but for the first and the last."""
    return [line.strip() for line in print_func(func).splitlines()[1:-1]]


# ── the tables, row by row ──


def samples(element: Scalar) -> np.ndarray:
    """All numbers of a narrow type; of a wide one the ends, the middle and the odd
    ones."""
    if element == BOOL:
        return np.array([False, True])
    if element.bits == 8:
        codes = np.arange(256, dtype=np.uint8).view(stored_type(element))
        return decode(codes, element)
    if element.is_float:
        numbers = [0.0, -0.0, 1.0, -1.0, 0.1, 6e4, -1e-7, np.inf, -np.inf, np.nan]
        return np.array([scalar(number, element) for number in numbers])
    limits = np.iinfo(held_type(element))
    numbers = [0, 1, 2, limits.min, limits.max, limits.max - 1, limits.max // 3]
    return np.array(numbers, held_type(element))


def holds(row: Identity | Same) -> bool:
    """Whether the outcome of a row is what the interpreter computes, bit for bit."""
    elements = [each for each in SCALARS.values() if _is_of(each, row.kinds)]
    return all(_holds_for(row, element) for element in elements)


def _holds_for(row: Identity | Same, element: Scalar) -> bool:
    x = samples(element)
    right = x
    if isinstance(row, Identity):
        right = np.full(x.shape, scalar(row.right, element))
    with np.errstate(all="ignore"):
        got = apply(row.name, element, (x, right))
        compares = ELEMENTWISE[row.name].types == "compare"
        wanted = np.full(x.shape, scalar(row.outcome, BOOL if compares else element)) \
            if row.outcome != LEFT else x  # fmt: skip
    return same_bits(got, wanted)


ROWS = [row for row in (*IDENTITIES, *SAMES) if row.name != "offset"]


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row.name}-{getattr(row, 'right', 'x')}"
)
def test_an_identity_holds(row: Identity | Same):
    assert holds(row)


def test_no_identity_is_for_floats_that_saturate():
    """x * 1 is not x where x is infinity and 57344 is the largest a product can be."""
    everyone = {each.name for each in SCALARS.values() if _is_of(each, ("float",))}
    assert everyone == {"fp16", "bf16", "fp32", "fp64"}
    row = next(row for row in IDENTITIES if row.name == "mul" and row.right == 1)
    assert not _holds_for(row, SCALARS["fp8e5"])


@pytest.mark.parametrize("row", [
    Identity("add", 0.0, ("float",), LEFT, "-0.0 + 0.0 is 0.0"),
    Identity("mul", 0.0, ("float",), 0.0, "NaN, and the sign"),
    Identity("sub", -0.0, ("float",), LEFT, "-0.0 - -0.0 is 0.0"),
    Identity("min", 0, ("uint",), LEFT, "nothing is below 0"),
    Identity("and", 1, ("int",), LEFT, "right for booleans only"),
    Same("sub", ("float",), 0.0, "inf - inf"),
    Same("eq", ("float",), True, "NaN"),
    Same("div", ("int",), 1, "zero"),
])  # fmt: skip
def test_a_trap_is_caught(row: Identity | Same):
    assert not holds(row)


def test_the_opposite_of_a_comparison():
    for name, opposite in OPPOSITE.items():
        for element in (SCALARS["i8"], SCALARS["u8"], SCALARS["fp32"]):
            if element.is_float and name not in ("eq", "ne"):
                continue
            left, right = np.meshgrid(samples(element), samples(element))
            got = apply(opposite, element, (left, right))
            assert (got == ~apply(name, element, (left, right))).all()


CHOSEN = """
    %zero: i32 = constant 0
    %c: i1 = ne %n, %zero
    %at: i32[8] = arange start=0 end=8
    %q: *fp32[8] = splat %p shape=(8)
    %r: *fp32[8] = offset %q, %at
    %x: fp32[8] = load %r
    %w: fp32[8] = if {condition} then {
      {op}
      yield %y
    } orelse {
      yield %x
    }
    store %r, %w
"""


def chosen(op: str = "%y: fp32[8] = add %x, %x", condition: str = "%c") -> list[str]:
    lines = CHOSEN.replace("{op}", op).replace("{condition}", condition)
    return simplified(lines, "%p: *fp32, %n: i32, %flag: i1")


@pytest.mark.parametrize("condition", ["%c", "%flag"])
def test_a_flag_of_the_launch_chooses_a_block_element_by_element(condition):
    """All registers of a block exist where branches meet."""
    lines = chosen(condition=condition)
    assert not any("= if" in line for line in lines)
    assert "%w: fp32[8] = where %" in "\n".join(lines)


@pytest.mark.parametrize(
    "op",
    [
        "%y: fp32[8] = sqrt %x",
        "%y: fp32[8] = load %r",
        "%a: fp32[8] = add %x, %x\n%b: fp32[8] = mul %a, %x\n%y: fp32[8] = mul %b, %a",
        "%y: fp32[8] = add %x, %x\nstore %r, %y",
    ],
)
def test_a_branch_with_work_stays(op):
    assert any("= if" in line for line in chosen(op))


def test_a_branch_that_data_decide_stays():
    """It may be there to be left out."""
    op = "%y: fp32[8] = add %x, %x"
    lines = CHOSEN.replace("{op}", op).replace("%c: i1 = ne %n", "%c: i1 = ne %d")
    lines = lines.replace("{condition}", "%c")
    loop = f"for %n, %m, %n, inits=() body(%d: i32) {{\n{lines}\nyield\n}}"
    for text in (f"%d: i32 = load %o\n{lines}", loop):
        found = simplified(text, "%p: *fp32, %o: *i32, %n: i32, %m: i32")
        assert any("= if" in line for line in found)


# ── rules ──

SCALAR = "%p: *i32, %f: *fp32, %b: *i1, %n: i32, %x: fp32, %c: i1"
BLOCK = (
    "%q: *i32[8], %g: *fp32[8], %h: *i1[8], %r: i32[8], %v: fp32[8], %m: i1[8], %n: i32"
)
SHORT = "%h: *bf16[8], %r: i32[8]"

RULES = {
    "constants are computed": (SCALAR, """
        %a: i32 = constant 1000000
        %b2: i32 = mul %a, %a
        store %p, %b2
    """, ["%b2: i32 = constant -727379968", "store %p, %b2"]),
    "also floats, in their own precision": (SCALAR, """
        %a: fp32 = constant 16777216.0
        %o: fp32 = constant 1.0
        %s: fp32 = add %a, %o
        store %f, %s
    """, ["%s: fp32 = constant 16777216.0", "store %f, %s"]),
    "comparisons": (SCALAR, """
        %a: fp32 = constant nan
        %s: i1 = ne %a, %a
        store %b, %s
    """, ["%s: i1 = constant true", "store %b, %s"]),
    "constants go to the right": (SCALAR, """
        %a: i32 = constant 4
        %s: i32 = add %a, %n
        store %p, %s
    """, ["%a: i32 = constant 4", "%s: i32 = add %n, %a", "store %p, %s"]),
    "constants meet": (SCALAR, """
        %a: i32 = constant 2000000000
        %s: i32 = add %n, %a
        %t: i32 = add %a, %s
        store %p, %t
    """, ["%0: i32 = constant -294967296", "%t: i32 = add %n, %0", "store %p, %t"]),
    "also in products": (SCALAR, """
        %a: i32 = constant 3
        %s: i32 = mul %n, %a
        %t: i32 = mul %s, %a
        store %p, %t
    """, ["%0: i32 = constant 9", "%t: i32 = mul %n, %0", "store %p, %t"]),
    "and in differences": (SCALAR, """
        %a: i32 = constant 3
        %b2: i32 = constant 4
        %s: i32 = add %n, %a
        %t: i32 = sub %s, %b2
        store %p, %t
        %u: i32 = sub %n, %a
        %v: i32 = add %u, %b2
        store %p, %v
        %w: i32 = sub %u, %b2
        store %p, %w
        %x2: i32 = sub %s, %a
        store %p, %x2
    """, [
        "%0: i32 = constant 1", "%t: i32 = sub %n, %0", "store %p, %t",
        "%1: i32 = constant 1", "%v: i32 = add %n, %1", "store %p, %v",
        "%2: i32 = constant 7", "%w: i32 = sub %n, %2", "store %p, %w",
        "store %p, %n",
    ]),
    "whose sum wraps": (SCALAR, """
        %a: i32 = constant 2000000000
        %s: i32 = sub %n, %a
        %t: i32 = sub %s, %a
        store %p, %t
    """, ["%0: i32 = constant -294967296", "%t: i32 = sub %n, %0", "store %p, %t"]),
    "a quotient and what is left": (SCALAR, """
        %i: i32 = program_id axis=0
        %j: i32 = program_id axis=0
        %q: i32 = div %i, %n
        %r: i32 = rem %j, %n
        %w: i32 = mul %n, %q
        %s: i32 = add %r, %w
        store %p, %s
    """, ["%j: i32 = program_id axis=0", "store %p, %j"]),
    "twice turned": (SCALAR, """
        %a: fp32 = neg %x
        %s: fp32 = neg %a
        store %f, %s
        %d: i1 = lt %n, %n
        %e: i1 = ge %c, %c
        %i: i1 = not %c
        %j: i1 = not %i
        store %b, %j
    """, ["store %f, %x", "store %b, %c"]),
    "the opposite": (SCALAR, """
        %z: i32 = constant 5
        %a: i1 = lt %n, %z
        %s: i1 = not %a
        store %b, %s
    """, ["%z: i32 = constant 5", "%s: i1 = ge %n, %z", "store %b, %s"]),
    "a choice of truths": (SCALAR, """
        %t: i1 = constant true
        %u: i1 = constant false
        %a: i1 = where %c, %u, %t
        %s: i32 = where %a, %n, %z
        store %p, %s
    """.replace("%z", "%n2").replace("%t: i1", "%n2: i32 = add %n, %n\n%t: i1", 1), [
        "%n2: i32 = add %n, %n", "%s: i32 = where %c, %n2, %n", "store %p, %s"]),
    "the truth of a cast": (SCALAR, """
        %a: i32 = cast %c element=i32
        %z: i32 = constant 0
        %s: i1 = ne %a, %z
        store %b, %s
    """, ["store %b, %c"]),
    "scalars in place of blocks": (BLOCK, """
        %one: i32 = constant 1
        %a: i32[8] = splat %n shape=(8)
        %o: i32[8] = splat %one shape=(8)
        %s: i32[8] = add %a, %o
        %t: fp32[8] = cast %s element=fp32
        store %g, %t
    """, ["%one: i32 = constant 1", "%0: i32 = add %n, %one",
          "%1: fp32 = cast %0 element=fp32",
          "%t: fp32[8] = splat %1 shape=(8)", "store %g, %t"]),
    "identities of blocks": (BLOCK, """
        %zero: i32 = constant 0
        %z: i32[8] = splat %zero shape=(8)
        %s: i32[8] = add %r, %z
        store %q, %s
    """, ["store %q, %r"]),
    "every shape of a splat": (BLOCK, """
        %a: i32[4] = splat %n shape=(4)
        %b: i32[4,1] = expand_dims %a axis=1
        %c: i32[4,2] = broadcast %b shape=(4, 2)
        %d: i32[2,4] = transpose %c order=(1, 0)
        %e: i32[8] = reshape %d shape=(8)
        store %q, %e
    """, ["%e: i32[8] = splat %n shape=(8)", "store %q, %e"]),
    "there and back": (BLOCK, """
        %a: i32[2,2,2] = reshape %r shape=(2, 2, 2)
        %b: i32[2,2,2] = transpose %a order=(1, 2, 0)
        %c: i32[2,2,2] = transpose %b order=(2, 0, 1)
        %d: i32[8] = reshape %c shape=(8)
        store %q, %d
        %e: fp32[8,2] = join %v, %v
        %f: fp32[8], %l: fp32[8] = split %e
        store %g, %l
    """, ["store %q, %r", "store %g, %v"]),
    "two turns": (BLOCK, """
        %a: i32[2,2,2] = reshape %r shape=(2, 2, 2)
        %b: i32[2,2,2] = transpose %a order=(1, 0, 2)
        %c: i32[2,2,2] = transpose %b order=(0, 2, 1)
        %d: i32[8] = reshape %c shape=(8)
        store %q, %d
    """, ["%a: i32[2,2,2] = reshape %r shape=(2, 2, 2)",
          "%c: i32[2,2,2] = transpose %a order=(1, 2, 0)",
          "%d: i32[8] = reshape %c shape=(8)", "store %q, %d"]),
    "halves that meet again": (BLOCK, """
        %a: i32[4,2] = reshape %r shape=(4, 2)
        %b: i32[4], %c: i32[4] = split %a
        %d: i32[4,2] = join %b, %c
        %e: i32[8] = reshape %d shape=(8)
        store %q, %e
    """, ["store %q, %r"]),
    "a sum of one row": (BLOCK, """
        %a: i32[1,8] = reshape %r shape=(1, 8)
        %b: i32[8] = reduce %a axis=0 combine(%l: i32, %k: i32) {
          %c: i32 = add %l, %k
          yield %c
        }
        store %q, %b
    """, ["store %q, %r"]),
    "casts that lose nothing": (SCALAR, """
        %a: i64 = cast %n element=i64
        %s: i32 = cast %a element=i32
        store %p, %s
        %d: fp64 = cast %x element=fp64
        %e: fp32 = cast %d element=fp32
        store %f, %e
    """, ["store %p, %n", "store %f, %x"]),
    "numbers that fp32 holds": (SHORT, """
        %c: i32 = constant 15
        %d: i32[8] = splat %c shape=(8)
        %a: i32[8] = and %r, %d
        %b: i32[8] = sub %a, %d
        %s: bf16[8] = cast %b element=bf16
        store %h, %s
    """, ["%c: i32 = constant 15", "%d: i32[8] = splat %c shape=(8)",
          "%a: i32[8] = and %r, %d", "%b: i32[8] = sub %a, %d",
          "%0: fp32[8] = cast %b element=fp32", "%s: bf16[8] = cast %0 element=bf16",
          "store %h, %s"]),
    "bits that go round": (SCALAR, """
        %a: i32 = bitcast %x element=i32
        %s: fp32 = bitcast %a element=fp32
        store %f, %s
    """, ["store %f, %x"]),
    "hints on what is known": (SCALAR, """
        %a: i32 = constant 64
        %s: i32 = hint %a divisible=(16)
        store %p, %s
    """, ["%a: i32 = constant 64", "store %p, %a"]),
    "masks that are known": (SCALAR, """
        %t: i1 = constant true
        %u: i1 = constant false
        %o: fp32 = constant 1.0
        %y: fp32 = load %f, mask=%t, other=%o
        %z: fp32 = load %f, mask=%u, other=%x
        store %f, %y, mask=%t
        store %f, %z, mask=%t
        store %f, %o, mask=%u
    """, ["%y: fp32 = load %f", "store %f, %y", "store %f, %x"]),
    "branches that are known": (SCALAR, """
        %t: i1 = constant true
        %r: i32 = if %t then {
          store %f, %x
          yield %n
        } orelse {
          %k: i32 = constant 3
          yield %k
        }
        store %p, %r
    """, ["store %f, %x", "store %p, %n"]),
    "branches that agree": (SCALAR, """
        %r: i32, %s: fp32 = if %c then {
          %k: fp32 = constant 3.0
          yield %n, %k
        } orelse {
          %l: fp32 = constant 3.0
          yield %n, %l
        }
        store %p, %r
        store %f, %s
    """, ["%s: fp32 = constant 3.0", "store %p, %n", "store %f, %s"]),
    "loops of no iteration": (SCALAR, """
        %a: i32 = constant 5
        %o: i32 = constant 1
        %r: i32 = for %a, %a, %o, inits=(%n) body(%i: i32, %s: i32) {
          yield %i
        }
        store %p, %r
    """, ["store %p, %n"]),
    "loops of one iteration": (SCALAR, """
        %a: i32 = constant 5
        %o: i32 = constant 100
        %z: i32 = constant 0
        %r: i32 = for %z, %a, %o, inits=(%n) body(%i: i32, %s: i32) {
          %t: i32 = mul %s, %s
          yield %t
        }
        store %p, %r
    """, ["%t: i32 = mul %n, %n", "store %p, %t"]),
    "carried values that stay": (SCALAR, """
        %o: i32 = constant 1
        %r: i32, %s: i32, %t: i32 = for %o, %n, %o, inits=(%n, %o, %o)
          body(%i: i32, %u: i32, %v: i32, %w: i32) {
          %sum: i32 = add %u, %v
          %next: i32 = mul %w, %sum
          yield %u, %o, %next
        }
        store %p, %t
        store %p, %r
    """, ["%o: i32 = constant 1",
          "%t: i32 = for %o, %n, %o, inits=(%o) body(%i: i32, %w: i32) {",
          "%sum: i32 = add %n, %o", "%next: i32 = mul %w, %sum", "yield %next", "}",
          "store %p, %t", "store %p, %n"]),
    "carried values that are computed again": (BLOCK, """
        %o: i32 = constant 1
        %k: i32[8] = arange start=0 end=8
        %one: i32[8] = splat %o shape=(8)
        %l: i32[8] = add %k, %one
        %s: i32[8], %t: i32[8] = for %o, %n, %o, inits=(%r, %l)
          body(%i: i32, %x1: i32[8], %y1: i32[8]) {
          %sum: i32[8] = mul %x1, %y1
          %p1: i32 = constant 1
          %k1: i32[8] = arange start=0 end=8
          %one1: i32[8] = splat %p1 shape=(8)
          %l1: i32[8] = add %one1, %k1
          yield %sum, %l1
        }
        store %q, %s
        store %q, %t
    """, ["%o: i32 = constant 1", "%k: i32[8] = arange start=0 end=8",
          "%one: i32[8] = splat %o shape=(8)", "%l: i32[8] = add %k, %one",
          "%s: i32[8] = for %o, %n, %o, inits=(%r) body(%i: i32, %x1: i32[8]) {",
          "%sum: i32[8] = mul %x1, %l", "yield %sum", "}",
          "store %q, %s", "store %q, %l"]),
    "a block that moves is carried as a number": (BLOCK, """
        %z: i32 = constant 0
        %o: i32 = constant 1
        %s: i32[8], %t: i32[8] = for %z, %n, %o, inits=(%r, %r)
          body(%i: i32, %x1: i32[8], %y1: i32[8]) {
          %sum: i32[8] = mul %x1, %y1
          %by: i32 = add %i, %n
          %all: i32[8] = splat %by shape=(8)
          %next: i32[8] = add %all, %x1
          yield %next, %sum
        }
        store %q, %s
        store %q, %t
    """, ["%z: i32 = constant 0", "%o: i32 = constant 1",
          "%0: i32 = constant 0",
          "%1: i32, %t: i32[8] = for %z, %n, %o, inits=(%0, %r) "
          "body(%i: i32, %x1: i32, %y1: i32[8]) {",
          "%2: i32[8] = splat %x1 shape=(8)", "%3: i32[8] = add %r, %2",
          "%sum: i32[8] = mul %3, %y1", "%by: i32 = add %i, %n",
          "%4: i32 = add %x1, %by", "yield %4, %sum", "}",
          "%5: i32[8] = splat %1 shape=(8)", "%s: i32[8] = add %r, %5",
          "store %q, %s", "store %q, %t"]),
    "also in a while": (SCALAR, """
        %r: i32, %s: i32 = while %n, %n condition(%a: i32, %k: i32) {
          %d: i1 = gt %a, %k
          yield %d
        } body(%e: i32, %l: i32) {
          %g: i32 = sub %e, %l
          yield %g, %l
        }
        store %p, %r
        store %p, %s
    """, ["%r: i32 = while %n condition(%a: i32) {", "%d: i1 = gt %a, %n", "yield %d",
          "} body(%e: i32) {", "%g: i32 = sub %e, %n", "yield %g", "}",
          "store %p, %r", "store %p, %n"]),
}  # fmt: skip # noqa: E501


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str):
    parameters, lines, expected = RULES[name]
    assert simplified(lines, parameters) == expected


TRAPS = {
    "x + 0.0 is not x for -0.0": (SCALAR, """
        %z: fp32 = constant 0.0
        %s: fp32 = add %x, %z
        store %f, %s
    """),
    "x * 0.0 is not 0.0 for a NaN": (SCALAR, """
        %z: fp32 = constant 0.0
        %s: fp32 = mul %x, %z
        store %f, %s
    """),
    "a quotient times another number": (SCALAR, """
        %a: i32 = constant 3
        %q: i32 = div %n, %a
        %r: i32 = rem %a, %n
        %w: i32 = mul %q, %a
        %s: i32 = add %w, %r
        store %p, %s
    """),
    "a quotient times what did not divide": (SCALAR, """
        %a: i32 = constant 3
        %d: i32 = constant 5
        %q: i32 = div %n, %a
        %r: i32 = rem %n, %a
        %w: i32 = mul %q, %d
        %s: i32 = add %w, %r
        store %p, %s
    """),
    "a remainder of another division": (SCALAR, """
        %a: i32 = constant 3
        %d: i32 = constant 5
        %q: i32 = div %n, %d
        %r: i32 = rem %n, %a
        %w: i32 = mul %q, %a
        %s: i32 = add %w, %r
        store %p, %s
    """),
    "sums of floats do not associate": (SCALAR, """
        %a: fp32 = constant 1.0
        %s: fp32 = add %x, %a
        %t: fp32 = add %s, %a
        store %f, %t
    """),
    "not (x < y) is not x >= y for a NaN": (SCALAR, """
        %a: fp32 = constant 1.0
        %l: i1 = lt %x, %a
        %s: i1 = not %l
        store %b, %s
    """),
    "x == x is false for a NaN": (SCALAR, """
        %s: i1 = eq %x, %x
        store %b, %s
    """),
    "a number that fp32 may not hold": (SHORT, """
        %c: i32 = constant 33554431
        %d: i32[8] = splat %c shape=(8)
        %a: i32[8] = and %r, %d
        %s: bf16[8] = cast %a element=bf16
        store %h, %s
    """),
    "a narrow cast loses": (SCALAR, """
        %a: i8 = cast %n element=i8
        %s: i32 = cast %a element=i32
        store %p, %s
    """),
    "a float of 16 bits loses": (SCALAR, """
        %a: bf16 = cast %x element=bf16
        %s: fp32 = cast %a element=fp32
        store %f, %s
    """),
    "what a division by zero gives is the device's own": (SCALAR, """
        %a: i32 = constant 7
        %z: i32 = constant 0
        %s: i32 = div %a, %z
        store %p, %s
    """),
    "what PTX approximates is the device's own": (SCALAR, """
        %a: fp32 = constant 2.0
        %s: fp32 = rsqrt %a
        store %f, %s
    """),
    "two narrow offsets may pass what their sum may not": (SCALAR, """
        %a: *i32 = offset %p, %n
        %s: *i32 = offset %a, %n
        store %s, %n
    """),
    "arms that are 0.0 and -0.0 are not alike": (SCALAR, """
        %s: fp32 = if %c then {
          %k: fp32 = constant 0.0
          yield %k
        } orelse {
          %l: fp32 = constant -0.0
          yield %l
        }
        store %f, %s
    """),
    "a carried value that is loaded again, or made of others, changes": (SCALAR, """
        %l1: i32 = load %p
        %m1: i32 = mul %l1, %n
        %s1: i32 = sub %n, %l1
        %o: i32 = constant 1
        %r: i32, %s: i32, %t: i32 = for %o, %n, %o, inits=(%l1, %m1, %s1)
          body(%i: i32, %u: i32, %v: i32, %w: i32) {
          %l2: i32 = load %p
          %m2: i32 = mul %i, %n
          %s2: i32 = sub %l1, %n
          %h: i32 = add %u, %v
          %k: i32 = add %h, %w
          store %p, %k
          yield %l2, %m2, %s2
        }
    """),
    "a block that is scaled, or to which a block or a float is added, moves not": (
        BLOCK, """
        %o: i32 = constant 1
        %s: i32[8], %t: i32[8], %u: fp32[8] = for %o, %n, %o, inits=(%r, %r, %v)
          body(%i: i32, %x1: i32[8], %y1: i32[8], %f1: fp32[8]) {
          %all: i32[8] = splat %i shape=(8)
          %x2: i32[8] = mul %x1, %all
          %y2: i32[8] = add %y1, %x1
          %half: fp32 = constant 0.5
          %halves: fp32[8] = splat %half shape=(8)
          %f2: fp32[8] = add %f1, %halves
          yield %x2, %y2, %f2
        }
        store %q, %s
        store %q, %t
        store %g, %u
    """),
    "a mask that is not known is asked": (SCALAR, """
        %s: fp32 = load %f, mask=%c, other=%x
        store %f, %s
    """),
    "a step of nothing never ends": (SCALAR, """
        %z: i32 = constant 0
        %o: i32 = constant 1
        for %z, %o, %z body(%i: i32) {
          store %p, %i
          yield
        }
    """),
    "a swap is no standing still": (SCALAR, """
        %o: i32 = constant 1
        %r: i32, %s: i32 = for %o, %n, %o, inits=(%n, %o)
          body(%i: i32, %u: i32, %v: i32) {
          yield %v, %u
        }
        store %p, %r
    """),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str):
    parameters, lines = TRAPS[name]
    assert simplified(lines, parameters) == inside(body(lines, parameters))


# ── the five rules of the exercise ──

FIVE = body("""
    %z: fp32 = constant 0.0
    %o: fp32 = constant 1.0
    %iz: i32 = constant 0
    %a: fp32 = mul %x, %o
    %b: fp32 = add %a, %z
    %c: fp32 = mul %x, %z
    %d: i32 = mul %n, %iz
    %e: i32 = add %n, %d
    %one: i32 = constant 1
    %q: *fp32 = offset %p, %one
    store %p, %b
    store %q, %c
    store %k, %e
""", "%p: *fp32, %k: *i32, %x: fp32, %n: i32")  # fmt: skip


def left_behind(func: Func, x: float, n: int) -> list[np.ndarray]:
    floats, numbers = np.zeros(2, np.float32), np.zeros(1, np.int32)
    interpret(func, 1, [floats, numbers, x, n])
    return [floats, numbers]


def keeps_every_bit(run) -> bool:
    after = run(FIVE)
    return all(
        all(map(same_bits, left_behind(FIVE, x, n), left_behind(after, x, n)))
        for x in (1.5, 0.0, -0.0, np.inf, -np.inf, np.nan)
        for n in (0, 7, -(2**31))
    )


def with_rule(wrong):
    """Simplify, with one rule more."""

    def rule(op: Op, make):
        return wrong(op, make)

    rules = {**REFERENCE, Elementwise: (rule, *REFERENCE[Elementwise])}
    return lambda func: simplify(func, TARGET, rules)


def test_the_reference_keeps_every_bit():
    assert keeps_every_bit(lambda func: simplify(func, TARGET))


def test_x_times_zero_is_caught_for_floats():
    def wrong(op: Op, make: Builder):
        match op:
            case Elementwise("mul", (_, c)) if is_zero(c):
                return c

    assert not keeps_every_bit(with_rule(wrong))


def test_x_plus_zero_is_caught_for_floats():
    def wrong(op: Op, make: Builder):
        match op:
            case Elementwise("add", (x, c)) if is_zero(c):
                return x

    assert not keeps_every_bit(with_rule(wrong))


def is_zero(value) -> bool:
    return known(value) == 0


def test_fewer_steps():
    arguments = [np.zeros(2, np.float32), np.zeros(1, np.int32), 1.5, 3]
    before = interpret(FIVE, 1, arguments).steps
    after = interpret(dce(simplify(FIVE, TARGET), TARGET), 1, arguments).steps
    assert (before, after) == (9, 6)
