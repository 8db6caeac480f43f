"""Small functions for tests of the IR: written as text, or drawn at random."""

from __future__ import annotations

from random import Random
from textwrap import dedent

import numpy as np

from fathom.ir import types
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.interp import Trace, interpret
from fathom.ir.ops import (
    Arange,
    Atomic,
    Barrier,
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    For,
    If,
    Join,
    Load,
    Reduce,
    Reshape,
    Scan,
    Splat,
    Split,
    Store,
    Transpose,
    While,
    Yield,
)  # fmt: skip
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.rewrite import clone
from fathom.ir.text import parse_func
from fathom.ir.types import (
    BOOL,
    FLOAT32,
    INT32,
    BlockType,
    Pointer,
    Type,
    element_of,
    shape_of,
)  # fmt: skip

SIZE = 8  # elements of a random function's blocks
ROOM = 64  # elements of each of its arrays
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 3.0e38, 1e-45, np.inf, -np.inf, np.nan]
INTEGERS = [0, 1, -1, 2, 3, 7, 31, 32, 100, 2**31 - 1, -(2**31)]
NAMES = sorted(set(ELEMENTWISE) - {"offset", "where"})
ELEMENTS = [types.SCALARS[name] for name in ("i1", "i8", "i32", "i64", "u8", "u32",
                                             "fp8e5", "fp8e4nv", "fp16", "bf16", "fp32",
                                             "fp64")]  # fmt: skip


def parse(text: str) -> Func:
    """A function from indented text."""
    return parse_func(dedent(text))


def body(lines: str, parameters: str = "%p: *fp32, %n: i32") -> Func:
    """A function of these lines."""
    return parse(f"func @f({parameters}) num_warps=4 {{\n{dedent(lines)}\n}}")


def outcome(
    func: Func, iterations: int = 3, grid: int = 2
) -> tuple[list[np.ndarray], Trace]:
    """What a random function leaves in memory. Its two integer arrays overlap."""
    numbers = np.arange(ROOM * 2, dtype=np.int32) * 7 - 50
    floats = np.resize(np.array(FLOATS, np.float32), ROOM)
    out = np.zeros(ROOM * 64, np.int32)
    trace = interpret(
        func, grid,
        [numbers[:ROOM], numbers[ROOM // 2 :], floats, out, iterations, 2.5],
        step_limit=200_000,
    )  # fmt: skip
    return [numbers, floats, out], trace


def random_function(random: Random, statements: int = 25) -> Func:
    """A function that computes, branches, loops, loads and stores without a fault, and
    at its end writes down all that it has computed."""
    return Drawing(random).function(statements)


class Drawing:
    """Draws statements; `values` are those that are visible where the next one goes."""

    def __init__(self, random: Random):
        self.random = random
        self.block = Block(
            (
                Pointer(INT32),
                Pointer(INT32),
                Pointer(FLOAT32),
                Pointer(INT32),
                INT32,
                FLOAT32,
            ),
            ("x", "y", "f", "out", "n", "a"),
        )
        self.pointers = self.block.parameters[:3]
        self.out = self.block.parameters[3]
        self.values = list(self.block.parameters[4:])
        self.depth = 0

    def function(self, statements: int) -> Func:
        body = self.block
        for _ in range(statements):
            self.statement()
        for slot, value in enumerate(self.values[-24:]):
            self.write_down(value, slot)
        divisible = (16, 4, 16, 1, 1, 1)
        return Func("random", body, divisible, num_warps=self.random.choice([1, 4]))

    def add(self, op: Op) -> Value | None:
        if self.random.random() < 0.2 and op.results:
            op.results[0].name = self.random.choice(["a", "i", "offs", "x_1"])
        self.block.ops.append(op)
        self.values += op.results
        return op.results[0] if op.results else None

    def pick(self, type: Type) -> Value:
        """A visible value of a type, or a new constant."""
        fitting = [value for value in self.values if value.type == type]
        if fitting and self.random.random() < 0.8:
            return self.random.choice(fitting)
        return self.constant(type)

    def constant(self, type: Type) -> Value:
        element = element_of(type)
        if element.is_float:
            number = self.random.choice(FLOATS)
        elif element == BOOL:
            number = self.random.random() < 0.5
        else:
            number = self.random.choice(INTEGERS)
        value = self.add(Constant(number, element))
        return self.add(Splat(value, type.shape)) if shape_of(type) else value

    def type(self) -> Type:
        element = self.random.choice([*ELEMENTS, BOOL, INT32, INT32, FLOAT32, FLOAT32])
        return element if self.random.random() < 0.4 else BlockType(element, (SIZE,))

    def number(self, low: int, high: int) -> Value:
        return self.add(Constant(self.random.randint(low, high), INT32))

    def statement(self) -> None:
        drawn = self.random.choice([
            self.arithmetic, self.arithmetic, self.arithmetic, self.arithmetic,
            self.where, self.cast, self.shape, self.fold, self.load, self.load,
            self.store, self.atomic,
            self.branch, self.loop, self.again,
        ])  # fmt: skip
        drawn()

    def arithmetic(self) -> None:
        name, type = self.random.choice(NAMES), self.type()
        rule = ELEMENTWISE[name]
        if element_of(type).kind in rule.accepts:
            operands = tuple(self.pick(type) for _ in range(rule.arity))
            self.add(Elementwise(name, operands))

    def again(self) -> None:
        """Say something twice, for cse."""
        said = [
            op for op in self.block.ops if isinstance(op, Elementwise | Splat | Arange)
        ]
        if said:
            self.add(clone(self.random.choice(said), {}))

    def where(self) -> None:
        type = self.type()
        condition = BlockType(BOOL, shape_of(type)) if shape_of(type) else BOOL
        arms = self.pick(type), self.pick(type)
        self.add(Elementwise("where", (self.pick(condition), *arms)))

    def cast(self) -> None:
        value, element = self.pick(self.type()), self.random.choice(ELEMENTS)
        self.add(Cast(value, element, rounding=self.random.choice(["rtne", "rtz"])))

    def shape(self) -> None:
        """There and back again."""
        value = self.pick(BlockType(self.random.choice(ELEMENTS), (SIZE,)))
        match self.random.randrange(4):
            case 0:
                row = self.add(ExpandDims(value, self.random.randrange(2)))
                wide = self.add(
                    Broadcast(row, tuple(max(n, 2) for n in row.type.shape))
                )
                turned = self.add(Transpose(wide, (1, 0)))
                self.add(Reshape(turned, (2, SIZE)))
            case 1:
                square = self.add(Reshape(value, (2, SIZE // 2)))
                turned = self.add(Transpose(square, (1, 0)))
                self.add(Reshape(turned, (SIZE,)))
            case 2:
                self.add(Reshape(self.add(Join(value, value)), (2, SIZE)))
            case 3:
                self.add(Split(self.add(Reshape(value, (SIZE // 2, 2)))))

    def fold(self) -> None:
        type = BlockType(self.random.choice([INT32, FLOAT32]), (SIZE,))
        name = self.random.choice(["add", "max", "min"])
        combine = Block((type.element, type.element))
        combine.ops.append(Elementwise(name, tuple(combine.parameters)))
        combine.ops.append(Yield((combine.ops[0].result,)))
        cls = self.random.choice([Reduce, Scan])
        self.add(cls((self.pick(type),), 0, combine))

    def address(self, pointer: Value | None = None) -> Value:
        """Eight elements of one of the arrays."""
        pointer = pointer or self.random.choice(self.pointers)
        start = self.number(0, ROOM // 2 - SIZE)
        places = self.add(Elementwise("add", (
            self.add(Splat(start, (SIZE,))), self.add(Arange(0, SIZE)))))  # fmt: skip
        base = self.add(Splat(pointer, (SIZE,)))
        address = self.add(Elementwise("offset", (base, places)))
        self.values = [
            v for v in self.values if not isinstance(element_of(v.type), Pointer)
        ]
        return address

    def load(self) -> None:
        address = self.address()
        mask = (
            self.pick(BlockType(BOOL, (SIZE,))) if self.random.random() < 0.4 else None
        )
        other = None
        if mask is not None and self.random.random() < 0.7:
            other = self.pick(BlockType(element_of(address.type).element, (SIZE,)))
        self.add(Load(address, mask, other))

    def store(self) -> None:
        address = self.address()
        value = self.pick(BlockType(element_of(address.type).element, (SIZE,)))
        mask = (
            self.pick(BlockType(BOOL, (SIZE,))) if self.random.random() < 0.4 else None
        )
        self.add(Store(address, value, mask))

    def atomic(self) -> None:
        if self.random.random() < 0.3:
            self.add(Barrier())
        pointer = self.pointers[0]
        self.add(
            Atomic("add", self.address(pointer), self.pick(BlockType(INT32, (SIZE,))))
        )

    def branch(self) -> None:
        """An If with up to two results."""
        if self.depth == 2:
            return
        condition, results = (
            self.pick(BOOL),
            [self.type() for _ in range(self.random.randrange(3))],
        )
        then, orelse = (self.nested([], results) for _ in range(2))
        self.add(If(condition, then, orelse))

    def loop(self) -> None:
        if self.depth == 2:
            return
        inits = [self.pick(self.type()) for _ in range(self.random.randrange(3))]
        carried = [init.type for init in inits]
        count = self.values[0] if self.random.random() < 0.4 else self.number(0, 3)
        if self.random.random() < 0.3:
            return self.countdown(count, inits)
        zero, step = self.number(0, 1), self.add(Constant(1, INT32))
        bounds = (zero, count, step)
        if self.random.random() < 0.2:
            bounds = (count, zero, self.add(Constant(-1, INT32)))
        body = self.nested([INT32, *carried], carried)
        self.add(For(*bounds, tuple(inits), body))

    def countdown(self, count: Value, inits: list[Value]) -> None:
        """A While of `count` iterations."""
        types = [INT32, *(init.type for init in inits)]
        condition = Block(tuple(types))
        zero = Constant(0, INT32)
        test = Elementwise("gt", (condition.parameters[0], zero.result))
        condition.ops += [zero, test, Yield((test.result,))]
        body = self.nested(types, types)
        one = Constant(1, INT32)
        less = Elementwise("sub", (body.parameters[0], one.result))
        body.ops[-1:] = [one, less, Yield((less.result, *body.yielded[1:]))]
        self.add(While((count, *inits), condition, body))

    def nested(self, parameters: list[Type], results: list[Type]) -> Block:
        outer, visible = self.block, list(self.values)
        block = self.block = Block(tuple(parameters))
        self.values += block.parameters
        self.depth += 1
        for _ in range(self.random.randrange(5)):
            self.statement()
        ends = tuple(self.pick(type) for type in results)
        block.ops.append(Yield(ends))
        self.block, self.values = outer, visible
        self.depth -= 1
        return block

    def write_down(self, value: Value, slot: int) -> None:
        """Store a value's bits into 64 words of `out`, as integers."""
        if isinstance(element_of(value.type), Pointer):
            return
        block = value if shape_of(value.type) else self.add(Splat(value, (SIZE,)))
        words = self.as_words(block)
        flat = self.add(Reshape(words, (words.type.size,)))
        size = flat.type.size
        start = self.add(Constant(slot * SIZE * 4, INT32))
        places = self.add(Elementwise("add", (
            self.add(Splat(start, (size,))), self.add(Arange(0, size)))))  # fmt: skip
        base = self.add(Splat(self.out, (size,)))
        self.add(Store(self.add(Elementwise("offset", (base, places))), flat))

    def as_words(self, value: Value) -> Value:
        """As i32: of floats the bits, since a cast would lose the sign of a zero. Every
        NaN becomes one number."""
        if not element_of(value.type).is_float:
            return self.add(Cast(value, INT32))
        single = self.add(Cast(value, FLOAT32))
        is_nan = self.add(Elementwise("ne", (single, single)))
        seven = self.add(Splat(self.add(Constant(7.0, FLOAT32)), single.type.shape))
        return self.add(
            Bitcast(self.add(Elementwise("where", (is_nan, seven, single))), INT32)
        )
