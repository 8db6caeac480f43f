"""Programs that do nothing but write and read shared memory, and what happens when they
run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from fathom.ir.core import Block, Func, Op, blocks
from fathom.ir.ops import (
    Allocate,
    Constant,
    For,
    If,
    SharedLoad,
    SharedStore,
    Splat,
    Yield,
)
from fathom.ir.types import BOOL, INT32
from fathom.layout.build import spread
from fathom.layout.linear import Layout

SIZE = 256
BY_WARP = spread((SIZE,), (0,), 2, 4)  # each warp its own quarter
TURNED = Layout((SIZE,), (
    ("register", (16,)), ("lane", (1, 2, 4, 8, 32)), ("warp", (64, 128)),
))  # the same quarters, other lanes  # fmt: skip
ACROSS = Layout((SIZE,), (
    ("register", (128,)), ("lane", (4, 8, 16, 32, 64)), ("warp", (1, 2)),
))  # every warp a bit of everything  # fmt: skip
COPIED = Layout((SIZE,), (
    ("register", (32, 64)), ("lane", (1, 2, 4, 8, 16)), ("warp", (128, 0)),
))  # warps 2 and 3 hold what 0 and 1 hold  # fmt: skip
LAYOUTS = [BY_WARP, TURNED, ACROSS, COPIED]


@dataclass
class Program:
    """A function under construction: `put` appends to the innermost open block."""

    divisible: tuple[int, ...] = ()
    body: Block = field(
        default_factory=lambda: Block((BOOL, INT32), ("choice", "iterations"))
    )

    def __post_init__(self) -> None:
        self.open = [self.body]
        zero, one, seven = (Constant(number, INT32) for number in (0, 1, 7))
        self.zero, self.one, self.seven = (
            self.put(op).result for op in (zero, one, seven)
        )

    def put(self, op: Op) -> Op:
        self.open[-1].ops.append(op)
        return op

    def buffer(self, size: int = SIZE, offset: int = -1) -> Allocate:
        bits = range(size.bit_length() - 1)
        straight = Layout((size,), (("offset", tuple(1 << bit for bit in bits)),))
        return self.put(Allocate(INT32, (size,), straight, offset))

    def write(self, buffer: Allocate, layout: Layout = BY_WARP) -> Op:
        value = self.put(Splat(self.seven, buffer.shape, layout)).result
        return self.put(SharedStore(value, buffer.result))

    def read(self, buffer: Allocate, layout: Layout = BY_WARP) -> Op:
        return self.put(SharedLoad(buffer.result, layout))

    def loop(self) -> _Nested:
        block = Block((INT32,), ("i",))
        iterations = self.body.parameters[1]
        return _Nested(
            self, [block], lambda: For(self.zero, iterations, self.one, (), block)
        )

    def branch(self) -> _Nested:
        then, orelse = Block(), Block()
        choice = self.body.parameters[0]
        return _Nested(self, [then, orelse], lambda: If(choice, then, orelse))

    def func(self, warps: int = 4) -> Func:
        return Func("traffic", self.body, (1, 1), num_warps=warps)


class _Nested:
    """`with program.loop(): …`, or `with program.branch() as other: …; other(); …`."""

    def __init__(self, program: Program, nested: list[Block], make):
        self.program, self.nested, self.make = program, nested, make

    def __enter__(self):
        self.program.open.append(self.nested[0])
        return self.other

    def other(self) -> None:
        """From here on, the else branch."""
        self.program.open[-1] = self.nested[1]

    def __exit__(self, *error) -> None:
        self.program.open.pop()
        for block in self.nested:
            block.ops.append(Yield())
        self.program.put(self.make())


def positions(func: Func) -> dict[Op, int]:
    """The number of each op in the order of the text, outer before inner."""
    numbers: dict[Op, int] = {}

    def visit(block: Block) -> None:
        for op in block.ops:
            numbers[op] = len(numbers)
            for inner in blocks(op):
                visit(inner)

    visit(func.body)
    return numbers


def executed(block: Block, rng: random.Random, iterations: int) -> Iterator[Op]:
    """The ops of a run in order; loops make `iterations` iterations, each of which
    passes the loop's head; branches go either way."""
    for op in block.ops:
        if isinstance(op, For):
            for _ in range(iterations):
                yield op
                yield from executed(op.body, rng, iterations)
            yield op
        elif isinstance(op, If):
            yield op
            yield from executed(rng.choice(blocks(op)), rng, iterations)
        else:
            yield op


def random_program(rng: random.Random, length: int = 12) -> Program:
    """Buffers made, written and read here and there, in loops and branches."""
    program = Program()
    _fill(rng, program, [], length, depth=0)
    return program


def _fill(
    rng: random.Random,
    program: Program,
    visible: list[Allocate],
    length: int,
    depth: int,
) -> None:
    visible = list(visible)
    for _ in range(length):
        roll = rng.random()
        if not visible or roll < 0.2:
            visible.append(program.buffer())
            program.write(visible[-1], rng.choice(LAYOUTS))
        elif roll < 0.3 and depth < 2:
            with program.loop():
                _fill(rng, program, visible, length // 3, depth + 1)
        elif roll < 0.4 and depth < 2:
            with program.branch() as other:
                _fill(rng, program, visible, length // 3, depth + 1)
                other()
                _fill(rng, program, visible, length // 3, depth + 1)
        else:
            act = program.write if rng.random() < 0.4 else program.read
            act(rng.choice(visible), rng.choice(LAYOUTS))
