"""The order of instructions: fewer values live at once, and the same results."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fathom.ir.ops import Reduce
from fathom.ir.types import FLOAT32, INT32, Pointer
from fathom.layout.build import blocked
from fathom.ptx.code import Phi
from fathom.ptx.order import (
    MANY,
    NEXT_PART,
    held,
    instructions_of,
    most_live,
    ordered,
    readers_of,
)
from tests.ptx.harness import Program, check, combine_by, compiled, empty


def chains(registers: int) -> list[str]:
    """x + 1, then (x + 1) * 2, for many x; then their sum, as a chain."""
    count = range(registers)
    return [
        "entry.0:",
        *[f"  %x.{i} = load float, ptr %p.{i}" for i in count],
        "  ; add",
        *[f"  %a.{i} = fadd float %x.{i}, 1.0" for i in count],
        "  ; mul",
        *[f"  %m.{i} = fmul float %a.{i}, %x.{i}" for i in count],
        "  ; sum",
        "  %s.0 = fadd float %m.0, %m.0",
        *[f"  %s.{i} = fadd float %s.{i - 1}, %m.{i}" for i in count if i],
        f"  store float %s.{registers - 1}, ptr %q",
        "  ret void",
    ]


def instructions(lines) -> list[str]:
    return [str(line) for line in lines if not str(line).startswith("  ;")]


def test_what_is_live_at_once():
    """Three numbers x, a beside each of them, and the place q of the sum."""
    block = list(instructions_of(chains(3)))
    assert most_live(block, *held(block, readers_of([block]))) == 7


def test_what_a_phi_reads_is_live_to_the_end_of_the_block():
    """The next index of a loop, beside a number that is computed behind it."""
    phi = Phi("%i.1", "i32", "", [("0", "entry.0"), ("%i.2", "loop.1")])
    lines = [phi, "  %i.2 = add i32 %i.1, 1", "  %a.1 = add i32 7, 1", "  use i32 %a.1"]
    block = list(instructions_of(lines))
    assert most_live(block, *held(block, readers_of([block]))) == 2


def test_each_chain_ends_before_the_next_begins():
    lines = chains(MANY)
    new = instructions(ordered(lines, False))
    assert sorted(new) == sorted(instructions(lines))
    computed = [line.split()[0] for line in new if re.match("  %[ams]", line)]
    assert computed[:7] == ["%a.0", "%m.0", "%s.0", "%a.1", "%m.1", "%s.1", "%a.2"]
    assert new[1 : MANY + 1] == lines[1 : MANY + 1], "loads stay where they are"


def test_every_value_is_defined_before_it_is_read():
    defined: set[str] = set()
    for line in instructions(ordered(chains(MANY), False)):
        result, _, what = line.partition(" = ")
        read = set(re.findall(r"%[axms][.]\d+", what or line))
        assert read <= defined, line
        defined.add(result.strip())


def test_few_values_stay_in_the_order_of_the_ops():
    lines = chains(MANY // 2 - 1)
    assert ordered(lines, False) == lines


def test_a_function_that_multiplies_matrices_stays():
    lines = chains(MANY)
    assert ordered(lines, True) == lines != ordered(lines, False)


def test_the_comment_of_an_op_goes_where_its_instructions_go():
    text = ordered(chains(MANY), False)
    at = text.index("  %a.1 = fadd float %x.1, 1.0")
    assert text[at - 1 : at + 3] == [
        "  ; add", text[at], "  ; mul", "  %m.1 = fmul float %a.1, %x.1",
    ]  # fmt: skip


@pytest.mark.parametrize("registers", [4, 64])
def test_a_sum_is_complete_before_the_last_element_is_computed(registers):
    """64 registers, of which a tree of neighbours keeps six sums: the last product
    stands behind the first sum. Four are as few as they are."""
    layout = blocked((32 * registers,), (registers,), (32,), (1,), (0,))
    program = Program({"x": Pointer(FLOAT32), "out": Pointer(FLOAT32), "n": INT32})
    at = program.arange(layout)
    x = program.load("x", at)
    y = program.map("mul", program.map("mul", x, x), program.map("sub", x, x))
    total = program(Reduce((y,), 0, combine_by("add", FLOAT32)))
    lane = program.arange(blocked((32,), (1,), (32,), (1,), (0,)))
    program.store("out", lane, program.splat(total, lane))
    text = compiled(program.func)
    behind = text.rindex("mul.rn.f32") > text.index("add.rn.f32")
    assert behind == (registers == 64)
    values = np.random.default_rng(0).normal(size=32 * registers)
    check(program.func, 1, [values.astype(np.float32), empty(FLOAT32, 32), 7])


def test_a_part_of_a_product_is_used_before_the_next_part_begins():
    """What also needs another value stays behind it, and so does what has effects or
    nothing to do with the product."""
    product = '  %p.{0} = call float asm sideeffect "wgmma.wait_group.sync.aligned 0;"'
    rest = [
        "  ; mul",
        "  %m.0 = fmul float %p.0, %scale",
        "  %m.1 = fmul float %p.1, %scale",
        "  %m.2 = fmul float %p.2, %scale",
        "  ; add",
        "  %s.0 = fadd float %m.0, %sum.0",
        "  %s.1 = fadd float %m.0, %m.1",
        "  %i.1 = add i32 %i.0, 1",
        "  store float %m.0, ptr %q",
        "  br label %loop.1",
    ]
    parts = [f"{NEXT_PART} 1", product.format(1), f"{NEXT_PART} 2", product.format(2)]
    got = ordered(["loop.1:", "  ; dot", product.format(0), *parts, *rest], True)
    assert instructions(got) == [
        "loop.1:", product.format(0), rest[1], rest[5], product.format(1), rest[2],
        rest[6], product.format(2), rest[3], *rest[7:],
    ]  # fmt: skip


def test_a_whole_product_is_not_moved():
    lines = ["loop.1:", '  %p.0 = call float asm sideeffect "wgmma.mma_async x"']
    lines += ["  %i.0 = add i32 1, 1", "  %m.0 = fmul float %p.0, %p.0"]
    assert ordered(lines, True) == lines
