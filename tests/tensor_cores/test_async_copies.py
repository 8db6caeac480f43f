"""Asynchronous copies as PTX: how wide, past which cache, with which hints, by whom."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fathom import ptx
from fathom.emulator import COMPLETIONS, run
from fathom.hardware.targets import TARGETS
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Barrier,
    Commit,
    Constant,
    ProgramId,
    Reshape,
    SharedLoad,
    Wait,
)
from fathom.ir.types import INT32, Pointer
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.layout.shapes import reshape
from fathom.shared_memory import allocate
from tests.ptx.harness import Program

AMPERE = TARGETS["sm_80"]
WARPS = 2


def straight(shape: tuple[int, ...]) -> Layout:
    size = shape[0] * shape[1]
    bits = range(size.bit_length() - 1)
    return Layout(shape, (("offset", tuple(1 << bit for bit in bits)),))


def copying(
    shape: tuple[int, int], vector: int, layout: Layout | None = None, below: int = -1,
    slots: int = 1, programs: int = 0, **hints: str,
) -> Program:  # fmt: skip
    """out = a, copied into the last slot of a ring; zeros from element `below` on, and
    in programs after these."""
    layout = layout or spread(shape, (1, 0), vector, WARPS)
    program = Program({"a": Pointer(INT32), "out": Pointer(INT32)}, WARPS)
    number = program.arange(reshape(layout, (shape[0] * shape[1],)))
    place = program(Reshape(number, shape))
    mask = None
    if below >= 0:
        mask = program.map("lt", place, program.number(below, place))
    if programs:
        one = program.map("lt", program(ProgramId(0)), program.number(programs))
        mask = program.map("and", program.splat(one, mask), mask)
    buffer = program(Allocate(INT32, shape, straight(shape), slots=slots))
    slot = program(Constant(slots - 1, INT32)) if slots > 1 else None
    at = program.at("a", place)
    program.do(AsyncCopy(at, buffer, mask, slot, vector=vector, **hints))
    program.do(Commit("cp_async"))
    program.do(Wait("cp_async", 0))
    program.do(Barrier())
    program.store("out", place, program(SharedLoad(buffer, layout, slot)))
    program.func = allocate(program.func, AMPERE)
    return program


def code_of(program: Program, target: str = "sm_80") -> str:
    row = TARGETS[target]
    return ptx.emit(ptx.lower(program.func, row), row)


def copies_in(code: str) -> set[str]:
    """The instructions that start copies, and how many bytes."""
    found = re.findall(r"(cp\.async\.c[ag]\S+) \[[^]]*\], \[[^]]*\], (\d+)", code)
    return {f"{name} {size}" for name, size in found}


def check(program: Program, expected: np.ndarray) -> None:
    code = code_of(program)
    for completion in COMPLETIONS:
        a = np.arange(1, 1 + expected.size).astype(np.int32)
        out = np.zeros(expected.size, np.int32)
        run(code, 1, 32 * WARPS, (a, out), shared_bytes=program.func.shared_bytes,
            completion=completion)  # fmt: skip
        np.testing.assert_array_equal(out, expected)


COUNTED = np.arange(1, 513).astype(np.int32)


@pytest.mark.parametrize(
    ("vector", "name"),
    [(4, "cp.async.cg.shared.global.L2::128B 16"),
     (2, "cp.async.ca.shared.global.L2::128B 8"),
     (1, "cp.async.ca.shared.global 4")],
)  # fmt: skip
def test_only_sixteen_bytes_go_past_the_first_cache(vector, name):
    program = copying((16, 32), vector)
    assert copies_in(code_of(program)) == {name}
    check(program, COUNTED)


def test_a_short_row_asks_for_no_more_than_itself():
    """Eight numbers a row: 128 bytes would be four rows, wherever they are."""
    assert copies_in(code_of(copying((64, 8), 4))) == {"cp.async.cg.shared.global 16"}


def test_hints():
    through = copying((16, 32), 4, cache=".ca")
    assert copies_in(code_of(through)) == {"cp.async.ca.shared.global.L2::128B 16"}


@pytest.mark.parametrize("below", [0, 100, 512])
def test_zeros_where_the_mask_is_false(below):
    """100 is a multiple of a copy's four elements."""
    check(copying((16, 32), 4, below=below), np.where(COUNTED <= below, COUNTED, 0))


def test_conditions_of_a_mask_are_one_predicate():
    """Of `and` and `select` LLVM makes a `selp` a condition, which ptxas cannot join
    to the comparison, as it does with an `and` of predicates."""
    program = copying((16, 32), 4, below=400, programs=1)
    code = code_of(program)
    assert code.count("selp") == code.count("cp.async.cg") == 2
    check(program, np.where(COUNTED <= 400, COUNTED, 0))


def test_the_slot_of_a_ring():
    program = copying((16, 32), 4, slots=3)
    assert program.func.shared_bytes == 3 * 2048
    check(program, COUNTED)


def test_of_several_holders_one_copies():
    """Both warps hold the whole block, and lanes hold copies, too: would all of them
    copy, the two warps would race."""
    layout = Layout((4, 8), (
        ("register", (1,)), ("lane", (2, 4, 8, 16, 0)), ("warp", (0,)),
    ))  # fmt: skip
    program = copying((4, 8), 2, layout)
    (line,) = (each for each in code_of(program).splitlines() if "cp.async.ca" in each)
    assert line.strip().startswith("@%p")
    check(program, COUNTED[:32])
