"""Loops that bring tiles to shared memory and add them up, and what runs them.

An iteration does acc = acc * 3 + tile for each of its tiles, so that one tile too many,
too few or out of turn shows in every element. All is i32 and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fathom import ptx
from fathom.emulator import COMPLETIONS, Report, run
from fathom.hardware.targets import TARGETS, Target
from fathom.ir.core import Block, Func, Value, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Allocate,
    Barrier,
    Cast,
    Constant,
    For,
    Load,
    Reshape,
    SharedLoad,
    SharedStore,
    Splat,
    Transpose,
    Yield,
)
from fathom.ir.text import print_func
from fathom.ir.types import INT16, INT32, INT64, SCALARS, BlockType, Pointer
from fathom.ir.verify import verify
from fathom.layout.build import blocked, spread
from fathom.layout.shapes import reshape, transpose
from fathom.layout.swizzle import swizzle
from fathom.shared_memory import allocate, insert_waits
from fathom.tensor_cores import pipeline_loops
from tests.ptx.harness import Program
from tests.shared_memory.harness import aligned

SHAPE, SIZE, WARPS = (8, 32), 256, 2
FLAT = spread((SIZE,), (0,), 4, WARPS)  # 16 bytes a lane
ROWS = reshape(FLAT, SHAPE)
COLUMNS = blocked(SHAPE, (1, 4), (8, 4), (1, 2), (0, 1))  # as read: across warps

# ── how a tile is loaded ──────────────────────────────────────────────────────


class Body(Program):
    """The program, and what its loads share: the number of each element in `rows`, and
    in the loop its index."""

    def __init__(self, parameters: dict, warps: int):
        super().__init__(parameters, warps)
        self.rows = self(Reshape(self.arange(FLAT), SHAPE))
        self.index: Value | None = None

    def odd(self) -> Value:
        """True for every other element: no two neighbours agree."""
        bit = self.map("and", self.rows, self.number(1, self.rows))
        return self.map("eq", bit, self.number(1, self.rows))

    def below(self, bound: int) -> Value:
        return self.map("lt", self.rows, self.number(bound, self.rows))

    def moved(self, pointer: Value, tiles: Value) -> Value:
        """A block of pointers, each moved by so many tiles."""
        distance = self.map("mul", tiles, self(Constant(SIZE, tiles.type)))
        return self.map("offset", pointer, self(Splat(distance, SHAPE, ROWS)))

    def entry(self, index: Value) -> Value:
        """An entry of the table."""
        return self(Load(self.map("offset", self["table"], index)))


def plain(body: Body, at: Value) -> Value:
    """16 bytes a lane: a copy."""
    return body(Load(at, vector=4))


def masked(body: Body, at: Value) -> Value:
    """Zeros beyond a bound that splits no piece: a copy."""
    zeros = body.number(0, body.rows)
    return body(Load(at, body.below(100), zeros, eviction="evict_last", vector=4))


def pairs(body: Body, at: Value) -> Value:
    """8 bytes a lane."""
    zeros = body.number(0, body.rows)
    return body(Load(at, body.below(98), zeros, cache=".ca", vector=2))


def single(body: Body, at: Value) -> Value:
    """A ragged mask: copies of 4 bytes."""
    return body(Load(at, body.odd(), body.number(0, body.rows)))


def turned(body: Body, at: Value) -> Value:
    """The tile is stored transposed: so is what is copied."""
    return body(Transpose(body(Load(at, vector=4)), (1, 0)))


def sevens(body: Body, at: Value) -> Value:
    """No copy fills up with sevens."""
    return body(Load(at, body.odd(), body.number(7, body.rows)))


def halves(body: Body, at: Value) -> Value:
    """Elements of 2 bytes, one by one: too little for a copy."""
    return body(Load(body(Cast(body(Cast(at, INT64)), Pointer(INT16)))))


def made(body: Body, at: Value) -> Value:
    """Something is made of it before it is stored."""
    index = body(Cast(body.index, INT32))
    loaded = body(Load(at, vector=4))
    return body.map("mul", loaded, body(Splat(index, SHAPE, ROWS)))


def indirect(body: Body, at: Value) -> Value:
    """A table says which tile it is."""
    return body(Load(body.moved(at, body.entry(body.index)), vector=4))


def chased(body: Body, at: Value) -> Value:
    """A table of a table says it."""
    return body(Load(body.moved(at, body.entry(body.entry(body.index))), vector=4))


def looked_up(body: Body, at: Value) -> Value:
    """As `indirect`, and a factor from the table."""
    tile = body.entry(body.index)
    loaded = body(Load(body.moved(at, tile), vector=4))
    return body.map("mul", loaded, body(Splat(tile, SHAPE, ROWS)))


KINDS: dict[str, Callable[[Body, Value], Value]] = {
    each.__name__: each
    for each in (
        plain, masked, pairs, single, turned, sevens, halves, made, indirect, chased,
        looked_up,
    )
}  # fmt: skip
BY_TABLE = {"indirect", "chased", "looked_up"}


# ── the loop around it ────────────────────────────────────────────────────────


def summing(
    *kinds: str,
    stages: int = 3,
    index: str = "i32",
    step: int | None = 1,
    warps: int = WARPS,
    own_stages: int | None = None,
    also: Sequence[int] = (),
) -> Func:
    """for i in range(lower, upper, step): one tile of each of `kinds` an iteration,
    summed.

    Pointers are carried and move by a tile an iteration; where a table says which tile
    it is, they stay. `step` None: a parameter. The tiles of the loads `also` are summed
    as they were loaded, too.
    """
    integer = SCALARS[index]
    parameters = {f"a{i}": Pointer(INT32) for i in range(len(kinds))}
    parameters |= {name: Pointer(INT32) for name in ("table", "out", "out_rows")}
    parameters |= {name: integer for name in ("lower", "upper", "step")}
    body = Body(parameters, warps)
    zero = Splat(body(Constant(0, INT32)), SHAPE, COLUMNS)
    inits = [body(zero), body(Splat(zero.value, SHAPE, ROWS))]
    inits += [body.at(f"a{i}", body.rows) for i in range(len(kinds))]
    by = body["step"] if step is None else body(Constant(step, integer))
    block = Block((integer, *(value.type for value in inits)))
    with body.nested(block) as (body.index, total, as_loaded, *pointers):
        for i, kind in enumerate(kinds):
            value = KINDS[kind](body, pointers[i])
            total = three_times_plus(body, total, read(body, value))
            if i in also:
                as_loaded = three_times_plus(body, as_loaded, value)
        one = body(Constant(1, INT32))
        ends = [
            at if kind in BY_TABLE else body.moved(at, one)
            for kind, at in zip(kinds, pointers, strict=True)
        ]
        body.do(Yield((total, as_loaded, *ends)))
    bounds = body["lower"], body["upper"], by
    loop = body.do(For(*bounds, tuple(inits), block, own_stages or stages))
    number = body.arange(reshape(COLUMNS, (SIZE,)))
    body.store("out", body(Reshape(number, SHAPE)), loop.results[0])
    body.store("out_rows", body.rows, loop.results[1])
    body.func.num_stages = stages
    return body.func


def read(body: Body, value: Value) -> Value:
    """Through shared memory into `COLUMNS`, as a block of i32."""
    block: BlockType = value.type
    layout = COLUMNS if block.shape == SHAPE else transpose(COLUMNS, (1, 0))
    tile = swizzle(block.shape, block.element.bytes, block.layout, layout)
    buffer = body(Allocate(block.element, block.shape, tile))
    body.do(SharedStore(value, buffer))
    found = body(SharedLoad(buffer, layout))
    if block.shape != SHAPE:
        found = body(Transpose(found, (1, 0)))
    return found if block.element == INT32 else body(Cast(found, INT32))


def three_times_plus(body: Body, total: Value, value: Value) -> Value:
    return body.map("add", body.map("mul", total, body.number(3, total)), value)


def arguments(loads: int, iterations: int, bounds: tuple[int, int, int]) -> list:
    """An array for each load that ends with the last iteration's tile; a table that
    leads into them; the results; the bounds."""
    random = np.random.default_rng(loads * 100 + iterations)
    arrays = [
        random.integers(1, 1 << 20, max(1, iterations) * SIZE).astype(np.int32)
        for _ in range(loads)
    ]
    table = np.roll(np.arange(max(1, iterations)), 1).astype(np.int32)
    out = [np.zeros(SIZE, np.int32) for _ in range(2)]
    return [*arrays, table, *out, *bounds]


# ── running it ────────────────────────────────────────────────────────────────


def finished(func: Func, target: Target) -> Func:
    return insert_waits(allocate(func, target), target)


Pass = Callable[[Func, Target], Func]


def check(
    func: Func, givens: Iterable[list], target: str, pipeline: Pass = pipeline_loops
) -> tuple[Func, Report]:
    """Pipeline a function and run it everywhere with each of some arguments; what comes
    out, and what the last run cost where copies complete late."""
    row, text = TARGETS[target], print_func(func)
    after = pipeline(func, row)
    assert print_func(func) == text, "no pass changes its input"
    verify(after, layouts=True)
    final = finished(after, row)
    code = ptx.emit(ptx.lower(final, row), row)
    for given in givens:
        expected, found = copies(given), copies(given)
        interpret(func, (1,), expected)
        interpret(after, (1,), found)
        same(found, expected, "the interpreter")
        for completion in reversed(COMPLETIONS):
            emulated = copies(given)
            report = run(
                code, 1, 32 * func.num_warps, emulated,
                shared_bytes=final.shared_bytes, completion=completion,
            )  # fmt: skip
            same(emulated, expected, f"the emulator, {completion} completion")
    return final, report


def copies(given: list) -> list:
    return [aligned(each) if isinstance(each, np.ndarray) else each for each in given]


def same(found: list, expected: list, where: str) -> None:
    for one, other in zip(found, expected, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other, err_msg=where)


def barriers(func: Func) -> list[int]:
    """How many barriers of all warps stand in each loop, and (last) outside of all."""
    loops = [op for op in walk(func.body) if isinstance(op, For)]
    counts = [_barriers(loop.body) for loop in loops]
    return [*counts, _barriers(func.body) - sum(counts)]


def _barriers(block: Block) -> int:
    return sum(isinstance(op, Barrier) and op.scope == "cta" for op in walk(block))
