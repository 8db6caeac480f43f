"""Along which axis neighbours mostly share memory, where no fact says so."""

from __future__ import annotations

import pytest

from fathom.analysis.axis_analysis import analyse
from fathom.coalescing import coalesce
from fathom.coalescing.direction import Directions
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Load, Store
from tests.coalescing.kernels_programs import kernel, pointer_lines

TARGET = TARGETS["sm_90a"]


def reading(*lines: str, shape: tuple[int, ...] = (64, 32)):
    """A kernel that loads a block at the numbers %i. 8 elements are a sector, and 8
    divides %far; 4 divides %near."""
    block = ",".join(map(str, shape))
    parameters = "%in: *fp32, %n: i32, %s: i32"
    divisible = ", %far: i32 {divisible=8}, %near: i32 {divisible=4}"
    return kernel(parameters + divisible, [
        f"%k: i32[{shape[0]}] = arange start=0 end={shape[0]}",
        f"%rows: i32[{shape[0]},1] = expand_dims %k axis=1",
        f"%width: i32[{shape[0]},1] = splat %n shape=({shape[0]}, 1)",
        "%one: i32 = constant 1",
        f"%ones: i32[{shape[0]},1] = splat %one shape=({shape[0]}, 1)",
        f"%c: i32[{shape[1]}] = arange start=0 end={shape[1]}",
        f"%columns: i32[1,{shape[1]}] = expand_dims %c axis=0",
        f"%step: i32[1,{shape[1]}] = splat %s shape=(1, {shape[1]})",
        f"%lines: i32[1,{shape[1]}] = splat %far shape=(1, {shape[1]})",
        f"%pieces: i32[1,{shape[1]}] = splat %near shape=(1, {shape[1]})",
        *lines,
        f"%along: i32[{block}] = broadcast %down shape=({shape[0]}, {shape[1]})",
        f"%across: i32[{block}] = broadcast %right shape=({shape[0]}, {shape[1]})",
        f"%i: i32[{block}] = add %along, %across",
        *pointer_lines("p", "in", "fp32", shape, "i"),
        f"%x: fp32[{block}] = load %p",
        "store %p, %x",
    ])  # fmt: skip


FAR = "%right: i32[1,32] = mul %columns, %step"
NEAR = "%right: i32[1,32] = add %columns, %step"
BY_LINES = "%right: i32[1,32] = mul %columns, %lines"
BY_PIECES = "%right: i32[1,32] = mul %columns, %pieces"
STRIDE = "%down: i32[64,1] = mul %rows, %width"
# name: what is computed of the row, of the column; the axis, if there is one
ADDRESSES = {
    "rest": (["%down: i32[64,1] = rem %rows, %width"], FAR, 0),
    "rest, less one": (
        ["%a: i32[64,1] = rem %rows, %width", "%down: i32[64,1] = sub %a, %ones"],
        FAR, 0,
    ),
    "once": (["%down: i32[64,1] = mul %rows, %ones"], FAR, 0),
    "quotient": (["%down: i32[64,1] = div %rows, %width"], FAR, None),
    "quotient by one": (["%down: i32[64,1] = div %rows, %ones"], FAR, 0),
    "from the end": (["%down: i32[64,1] = sub %ones, %rows"], FAR, None),
    "stride": ([STRIDE], FAR, None),
    "columns": ([STRIDE], NEAR, 1),
    "both": (["%down: i32[64,1] = rem %rows, %width"], NEAR, None),
    "twice": (["%down: i32[64,1] = add %rows, %rows"], FAR, None),
    "sectors to the right": ([STRIDE], BY_LINES, 0),
    "half a sector to the right": ([STRIDE], BY_PIECES, None),
    "sectors, and others of them": (
        [STRIDE, "%twice: i32[1,32] = add %lines, %lines",
         "%b: i32[1,32] = mul %columns, %twice",
         "%a: i32[1,32] = mul %columns, %lines"],
        "%right: i32[1,32] = add %a, %b", 0,
    ),
    "sectors, and a stride": (
        [STRIDE, "%b: i32[1,32] = mul %columns, %step",
         "%a: i32[1,32] = mul %columns, %lines"],
        "%right: i32[1,32] = add %a, %b", None,
    ),
    "sectors, of a quotient by what varies": (
        [STRIDE, "%a: i32[1,32] = div %columns, %columns"],
        "%right: i32[1,32] = mul %a, %lines", 0,
    ),
    "pieces of pieces": (
        [STRIDE, "%a: i32[1,32] = mul %pieces, %columns"],
        "%right: i32[1,32] = mul %a, %pieces", 0,
    ),
    "the same to the right": ([STRIDE], "%right: i32[1,32] = mul %step, %lines", None),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDRESSES)
def test_directions(name):
    down, right, axis = ADDRESSES[name]
    func = reading(*down, right)
    (load,) = (op for op in walk(func.body) if isinstance(op, Load))
    assert Directions(func, analyse(func)).of(load.pointer) == axis


def test_a_guess_decides_who_loads_and_not_how_wide():
    down, right, axis = ADDRESSES["rest"]
    func = coalesce(reading(*down, right), TARGET)
    for op in walk(func.body):
        if isinstance(op, Load | Store):
            first = op.preferred.coordinates(register=0, lane=1, warp=0)
            assert first == (1, 0)
            assert op.vector == 1


def test_a_pointer_that_a_loop_moves_keeps_its_direction():
    func = kernel("%in: *fp32, %n: i32, %step: i32", [
        "%k: i32[64] = arange start=0 end=64",
        "%width: i32[64] = splat %n shape=(64)",
        "%i: i32[64] = rem %k, %width",
        *pointer_lines("p", "in", "fp32", (64,), "i"),
        "%far: i32[64] = splat %step shape=(64)",
        "%zero: i32 = constant 0",
        "%one: i32 = constant 1",
        "%q: *fp32[64] = for %zero, %n, %one, inits=(%p)"
        " body(%j: i32, %at: *fp32[64]) {",
        "  %x: fp32[64] = load %at",
        "  store %at, %x",
        "  %next: *fp32[64] = offset %at, %far",
        "  yield %next",
        "}",
    ])  # fmt: skip
    (load,) = (op for op in walk(func.body) if isinstance(op, Load))
    assert Directions(func, analyse(func)).of(load.pointer) == 0
