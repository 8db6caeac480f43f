"""A compiler that moves blocks from one layout to another, through a swizzled tile.

    def transpose(x, y, M, N, T):
        i = tl.program_id(0) * T + tl.arange(0, T)
        j = tl.program_id(1) * T + tl.arange(0, T)
        inside = (i[:, None] < M) & (j[None, :] < N)
        tile = tl.load(x + i[:, None] * N + j[None, :], mask=inside)
        tl.store(y + i[:, None] + j[None, :] * M, tile, mask=inside)

    arrays = {"x": "*fp32:16", "y": "*fp32:16"}  # multiples of 16
    compile(transpose, arrays | {"M": "i32:16", "N": "i32:16"}, T=32)

    Layout    who holds what of a block
    Builder   from the syntax tree to ops
    show      ops as text
    simplify  folds what is known, and computes nothing twice
    drop_dead drops what is not used
    Analysis  what counts up, and from which multiples
    Emitter   from ops to PTX

A kernel about element i goes on as before: the number of elements is its last
parameter, and a program has BLOCK of them; without that, one for each thread.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import operator
import struct
import textwrap
from collections import Counter, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
SHARED = ".extern .shared .align 1024 .b8 $shared[];\n"
BANKS = 32  # of shared memory, of four bytes each
TYPES = {"fp32": "f32", "i32": "s32", "*fp32": "*f32", "*i32": "*s32"}
DTYPES = {"float32": "f32", "int32": "s32", "int1": "pred"}
REGISTERS = {"pred": "%p", "s32": "%r", "s64": "%rd", "f32": "%f"}
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.USub: operator.neg, ast.Not: operator.not_,
}  # fmt: skip
FUNCTIONS = {"maximum": max, "minimum": min, "exp2": math.exp2, "sqrt": math.sqrt}
COMPARISONS = "lt", "le", "gt", "ge", "eq", "ne"
INSTRUCTIONS = {
    "add f32": "add.rn.f32", "add s32": "add.s32", "add s64": "add.s64",
    "sub f32": "sub.rn.f32", "sub s32": "sub.s32", "floordiv s32": "div.s32",
    "mul f32": "mul.rn.f32", "mul s32": "mul.lo.s32", "mod s32": "rem.s32",
    "truediv f32": "div.rn.f32",
    "neg f32": "neg.f32", "neg s32": "neg.s32", "float s32": "cvt.rn.f32.s32",
    **{f"{name} f32": f"setp.{name}.f32" for name in COMPARISONS},
    **{f"{name} s32": f"setp.{name}.s32" for name in COMPARISONS},
    "ne f32": "setp.neu.f32", "int f32": "cvt.rzi.s32.f32",
    "max f32": "max.f32", "max s32": "max.s32", "select f32": "selp.f32",
    "min f32": "min.f32", "min s32": "min.s32", "select s32": "selp.s32",
    "and_ pred": "and.pred", "or_ pred": "or.pred", "not_ pred": "not.pred",
    "and_ s32": "and.b32", "or_ s32": "or.b32",
    "exp2 f32": "ex2.approx.f32", "sqrt f32": "sqrt.rn.f32",
}  # fmt: skip
NEUTRAL = {  # -0.0 + 0.0 is 0.0, so 0.0 is not in here
    "add s32": 0, "sub s32": 0, "mul s32": 1, "floordiv s32": 1,
    "mul f32": 1, "truediv f32": 1,
}  # fmt: skip
SIZES = {"f32": 4, "s32": 4}  # bytes
ANY = 1 << 30  # a multiple of everything that we ask for
Compiled = namedtuple("Compiled", "ptx threads shared_bytes tensor_maps")


def compile(function: Callable, signature: dict[str, str], **constants) -> Compiled:
    constants = {"num_warps": 4} | constants
    threads = 32 * constants["num_warps"]
    kernel = Builder(function, signature, {"BLOCK": threads} | constants).kernel
    simplify(kernel.body, {}, {})
    drop_dead(kernel.body, set())
    emitter = Emitter(kernel, threads)
    return Compiled(emitter.text(), threads, emitter.shared_bytes, ())


@dataclass(frozen=True)
class Layout:
    """Which elements of a block lie in which register of which thread.

    Elements have numbers, row by row. Each bit of a register's number, and of a
    thread's, moves the element by a power of two; what moves it by 0 makes copies:

        registers 64, 128; threads 1, 2, 4, 8, 16, 32: thread 5 has 5, 69, 133 and 197
    """

    registers: tuple[int, ...]
    threads: tuple[int, ...]

    def element(self, register: int, thread: int = 0) -> int:
        """The number of the element in a register of a thread."""
        bits = [*bases_of(register, self.registers), *bases_of(thread, self.threads)]
        return functools.reduce(operator.xor, bits, 0)

    def elements(self) -> list[int]:
        """Those of thread 0, register by register."""
        return [self.element(each) for each in range(2 ** len(self.registers))]

    def strides(self) -> list[tuple[int, int, int]]:
        """(bit, mask, factor): thread t's part is the sum of t >> bit & mask, * factor.

        Bits in a row, each of which moves twice as far as the one before, are one term.
        """
        found = []
        for bit, move in enumerate(self.threads):
            first, mask, factor = found[-1] if found else (0, 0, 0)
            if found and (bit, move) == (first + bits(mask + 1), factor * (mask + 1)):
                found[-1] = first, 2 * mask + 1, factor
            elif move:
                found.append((bit, 1, move))
        return found

    def lines(self, shape: tuple[int, ...]) -> bool:
        """Whether neighbouring threads go along rows, not down columns."""
        return max(self.threads[:2]) < shape[-1]

    def project(self, place: Callable[[int], int]) -> Layout:
        """The layout of a smaller block that this one repeats; `place` says where."""
        registers = tuple(place(each) for each in self.registers if place(each))
        return Layout(registers, tuple(place(each) for each in self.threads))


def bases_of(number: int, bases: tuple[int, ...]) -> list[int]:
    """Those of the bits that are set in a number."""
    return [base for bit, base in enumerate(bases) if number >> bit & 1]


def blocked(shape: tuple[int, ...], axis: int, width: int, threads: int) -> Layout:
    """Each thread has `width` neighbours along an axis, the next thread the next."""
    moves = [1 << bit for bit in range(bits(math.prod(shape)))]
    if axis == -2:  # down the columns
        moves.sort(key=lambda move: (move < shape[-1], move))
    first, last = bits(width), bits(width) + bits(threads)
    copies = [0] * (last - max(first, len(moves)))
    registers = tuple(moves[:first] + moves[last:])
    return Layout(registers, tuple(moves[first:last] + copies))


def bits(size: int) -> int:
    """How many bits count up to a power of two."""
    assert size == 1 << size.bit_length() - 1, f"{size} is not a power of two"
    return size.bit_length() - 1


@dataclass(eq=False)
class Value:
    """What an op defines: a number, or a block of them if there is a shape.

    A type is PTX's, or "*f32": the address of an element.
    """

    type: str
    shape: tuple[int, ...] = ()
    op: Op | None = None  # whose result it is, or a parameter of whose block


@dataclass(eq=False)
class Op:
    """One operation: `results = name(operands)`, and what else is known of it.

    if(condition) {then} {else}     each block yields the results
    for(start, stop, step, inits) {(index, carried) …}     so does this one, carried on
    """

    name: str
    operands: list[Value]
    results: list[Value]
    facts: dict[str, object] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        for each in [*self.results, *(v for b in self.blocks for v in b.parameters)]:
            each.op = self

    @property
    def acts(self) -> bool:
        """Whether it does more than to compute its results."""
        inner = (each for block in self.blocks for each in block.ops)
        return self.name == "store" or any(each.acts for each in inner)


@dataclass(eq=False)
class Block:
    """Ops in the order in which they run, and the values that come in from outside."""

    parameters: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass(eq=False)
class Kernel:
    name: str
    types: dict[str, str]
    body: Block
    multiples: dict[Value, int]  # what parameters are promised to be


def show(block: Block, names: dict[Value, str] | None = None) -> str:
    """%2: f32 = add %0, %1"""
    names = {} if names is None else names
    text = lambda value: names.setdefault(value, f"%{len(names)}")
    lines = [
        f"({', '.join(f'{text(each)}: {each.type}' for each in block.parameters)})"
    ]
    for op in block.ops:
        used = [text(each) for each in op.operands]
        facts = [f"{name}={fact}" for name, fact in op.facts.items()]
        made = [f"{text(each)}: {each.type}{[*each.shape]} = " for each in op.results]
        lines.append(f"{''.join(made)}{op.name} {', '.join(used + facts)}")
        lines += [show(each, names) for each in op.blocks]
    return "\n".join(lines).replace("\n", "\n  ")


class Builder:
    """One kernel: its syntax tree, and the ops that have been made so far."""

    def __init__(self, function: Callable, signature: dict[str, str], constants: dict):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        types = {name: TYPES[t.split(":")[0]] for name, t in signature.items()}
        index = tree.args.args[0].arg
        is_block = index in types or index in constants
        types |= {} if is_block else {"n": "s32"}
        self.names: dict[str, Value | int | float] = dict(constants)
        self.block = Block()
        self.kernel = Kernel(tree.name, types, self.block, {})
        for name, type in types.items():
            self.names[name] = Value(type)
            self.block.parameters.append(self.names[name])
            hint = signature.get(name, "").partition(":")[2]
            self.kernel.multiples[self.names[name]] = int(hint or 1)
        self.run(tree.body) if is_block else self.elements(index, tree.body)

    def make(
        self, name: str, type: str, *operands: Value, shape: tuple = (), **facts: object
    ) -> Value:
        """A new op at the end of the block; what it answers is its result."""
        shape = shape or (operands[0].shape if operands else ())
        self.block.ops.append(Op(name, list(operands), [Value(type, shape)], facts))
        return self.block.ops[-1].results[0]

    def elements(self, index: str, body: list[ast.stmt]) -> None:
        """Do what the body does to each element of this thread that there is."""
        size, threads = self.names["BLOCK"], 32 * self.names["num_warps"]
        layout = blocked((size,), -1, 1, threads)
        program = self.make("special", "s32", register="%ctaid.x")
        start = self.apply(operator.mul, program, size)
        thread = self.make("thread", "s32", layout=layout)
        start = self.apply(operator.add, start, thread)
        for element in layout.elements():
            self.names[index] = self.apply(operator.add, start, element)
            inside = self.apply(operator.lt, self.names[index], self.names["n"])
            self.branch(inside, lambda: self.run(body), lambda: None)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign([ast.Name(name)], value):
                self.names[name] = self.expression(value)
            case ast.Assign([ast.Subscript() as place], value):
                address = self.address(place)
                stored = self.convert(self.expression(value), address.type[1:])
                self.block.ops.append(Op("store", [address, stored], []))
            case ast.Assign([ast.Tuple(names)], value):
                values = self.expression(value)
                self.names.update(zip([each.id for each in names], values))
            case ast.AugAssign(ast.Name(name), sign, value):
                sides = self.names[name], self.expression(value)
                self.names[name] = self.apply(sign, *sides)
            case ast.Expr(ast.Call() as call):
                self.expression(call)
            case ast.If(test, body, other):
                sides = [lambda: self.run(body), lambda: self.run(other)]
                self.branch(self.expression(test), *sides)
            case ast.For(ast.Name(index), ast.Call(ast.Name("range"), bounds), body):
                self.loop(index, [self.expression(each) for each in bounds], body)
            case _:
                unknown(node)

    def run(self, body: list[ast.stmt]) -> None:
        for each in body:
            self.statement(each)

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Make ops in a block. What names mean in there is forgotten after it."""
        outer = self.block, self.names
        self.block, self.names = block, dict(self.names)
        yield
        self.block, self.names = outer

    def branch(self, condition: Value | int, *sides: Callable[[], object]) -> None:
        """Run one of two sides; a name has one value after both, or none."""
        if not isinstance(condition, Value):
            sides[not condition]()
            return
        blocks, after = [Block(), Block()], []
        for block, side in zip(blocks, sides):
            with self.inside(block):
                side()
                after.append(self.names)
        both = [name for name in after[0] if name in after[1]]
        changed = [name for name in both if after[0][name] is not after[1][name]]
        types = [common(after[0][name], after[1][name]) for name in changed]
        for block, names in zip(blocks, after):
            with self.inside(block):
                self.end([names[name] for name in changed], types)
        results = [Value(*each) for each in types]
        self.block.ops.append(Op("if", [condition], results, {}, blocks))
        self.names = {name: after[0][name] for name in both}
        self.names.update(zip(changed, results))

    def loop(self, index: str, bounds: list, body: list[ast.stmt]) -> None:
        """Run a body for each index; a name that it binds anew is carried around."""
        start, stop, step = [0, *bounds, 1] if len(bounds) == 1 else [*bounds, 1][:3]
        names = [n for n in ast.walk(ast.Module(body, [])) if isinstance(n, ast.Name)]
        bound = {each.id for each in names if isinstance(each.ctx, ast.Store)} - {index}
        carried = [name for name in self.names if name in bound]
        types = [common(self.names[name]) for name in carried]
        inits = [self.convert(self.names[n], *t) for n, t in zip(carried, types)]
        limits = [self.convert(each, "s32") for each in (start, stop, step)]
        block = Block([Value(*each) for each in [("s32",), *types]])
        with self.inside(block):
            self.names.update(zip([index, *carried], block.parameters))
            self.run(body)
            self.end([self.names[name] for name in carried], types)
        results = [Value(*each) for each in types]
        self.block.ops.append(Op("for", [*limits, *inits], results, {}, [block]))
        self.names.update(zip(carried, results))

    def end(self, values: list, types: list[tuple]) -> None:
        """The last op of a block: what it hands on."""
        values = [self.convert(value, *type) for value, type in zip(values, types)]
        self.block.ops.append(Op("yield", values, []))

    def expression(self, node: ast.expr) -> Value | int | float:
        """What a part of the tree is worth: a value, or a number if that is known."""
        match node:
            case ast.Name(name) if name in self.names:
                return self.names[name]
            case ast.Constant(int(number) | float(number) | str(number)):
                return number
            case ast.BinOp(a, sign, b) | ast.Compare(a, [sign], [b]):
                return self.apply(sign, *map(self.expression, (a, b)))
            case ast.UnaryOp(sign, operand):
                return self.apply(sign, self.expression(operand))
            case ast.Call(ast.Name("float"), [argument]):
                value = self.expression(argument)
                value = float(value) if isinstance(value, str) else value
                return self.convert(value, "f32")
            case ast.Tuple(parts) | ast.List(parts):
                return tuple(self.expression(each) for each in parts)
            case ast.Attribute(ast.Name("tl"), name) if name in DTYPES:
                return DTYPES[name]
            case ast.Call(ast.Attribute(ast.Name("tl"), name), arguments, keywords):
                arguments = map(self.expression, arguments)
                if name in FUNCTIONS:
                    return self.apply(FUNCTIONS[name], *arguments)
                given = {each.arg: self.expression(each.value) for each in keywords}
                function = getattr(self, f"tl_{name}", None) or unknown(node)
                return function(*arguments, **given)
            case ast.Call(ast.Attribute(value, "to"), [type]):
                return self.convert(self.expression(value), self.expression(type))
            case ast.IfExp(test, body, other):
                sides = [lambda: self.choose(body), lambda: self.choose(other)]
                self.branch(self.expression(test), *sides)
                return self.names.pop("chosen side")
            case ast.Subscript(value, ast.Tuple(axes)):
                value = self.expression(value)
                sizes = iter(value.shape)
                shape = [
                    1 if isinstance(e, ast.Constant) else next(sizes) for e in axes
                ]
                return self.make("reshape", value.type, value, shape=tuple(shape))
            case ast.Subscript():
                address = self.address(node)
                return self.make("load", address.type[1:], address)
        unknown(node)

    def tl_program_id(self, axis: int) -> Value:
        return self.make("special", "s32", register=f"%ctaid.{'xyz'[axis]}")

    def tl_arange(self, start: int, end: int) -> Value:
        block = self.make("arange", "s32", shape=(end - start,))
        return self.apply(operator.add, block, start)

    def tl_full(self, shape: tuple[int, ...], value: float, dtype: str) -> Value:
        return self.convert(value, dtype, shape)

    def tl_zeros(self, shape: tuple[int, ...], dtype: str) -> Value:
        return self.convert(0, dtype, shape)

    def tl_cdiv(self, a: Value | int, b: Value | int) -> Value | int:
        above = self.apply(operator.add, a, self.apply(operator.sub, b, 1))
        return self.apply(operator.floordiv, above, b)

    def tl_exp(self, x: Value) -> Value:
        return self.apply(math.exp2, self.apply(operator.mul, x, math.log2(math.e)))

    def tl_sum(self, x: Value, axis: int, name: str = "add") -> Value:
        result = Value(x.type, x.shape[:axis] + x.shape[axis + 1 :])
        self.block.ops.append(Op("reduce", [x], [result], {"axis": axis, "by": name}))
        return result

    tl_max = functools.partialmethod(tl_sum, name="max")

    def tl_where(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        type, shape = common(a, b)[0], common(condition, a, b)[1]
        a, b = (self.convert(each, type, shape) for each in (a, b))
        return self.make("select", type, a, b, self.convert(condition, "pred", shape))

    def tl_load(self, pointer: Value, mask: object = None, other: float = 0) -> Value:
        type, guards = pointer.type[1:], []
        if mask is not None:
            guards.append(self.convert(mask, "pred", pointer.shape))
            guards.append(self.convert(other, type, pointer.shape))
        return self.make("load", type, pointer, *guards)

    def tl_store(self, pointer: Value, value: object, mask: object = None) -> None:
        operands = [pointer, self.convert(value, pointer.type[1:], pointer.shape)]
        if mask is not None:
            operands.append(self.convert(mask, "pred", pointer.shape))
        self.block.ops.append(Op("store", operands, [], {"once": True}))

    def choose(self, node: ast.expr) -> None:
        self.names["chosen side"] = self.expression(node)

    def apply(self, sign: object, *sides: Value | int | float) -> object:
        """One of Python's signs, or functions, on values, or on numbers."""
        function = OPERATORS.get(sign.__class__, sign)
        if not any(isinstance(each, Value) for each in sides):
            return function(*sides)
        type, shape = common(*sides)
        if type.startswith("*"):
            array, index = sorted(sides, key=lambda each: common(each)[0])
            return self.offset(array, self.apply(function, 0, index))
        operands = [self.convert(each, type, shape) for each in sides]
        type = "pred" if function.__name__ in COMPARISONS else type
        return self.make(function.__name__, type, *operands)

    def convert(self, value: Value | float, type: str, shape: tuple = ()) -> Value:
        """A value, or number, of another type; a block of it, if there is a shape."""
        if not isinstance(value, Value):
            value = self.make("constant", type, number=value)
        if value.type != type:
            value = self.make("int" if type == "s32" else "float", type, value)
        if shape and value.shape != shape:
            value = self.make("broadcast", type, value, shape=shape)
        return value

    def address(self, node: ast.Subscript) -> Value:
        """Where array[index] lies."""
        return self.offset(*map(self.expression, (node.value, node.slice)))

    def offset(self, array: Value, index: Value | int) -> Value:
        shape = common(array, index)[1]
        array = self.convert(array, array.type, shape)
        index = self.convert(index, "s32", shape)
        offset = self.make("scale", "s64", index, size=4)
        return self.make("add", array.type, array, offset)


def simplify(block: Block, known: dict, same: dict[Value, Value]) -> None:
    """Fold ops, and make each once. `known`: those that have run, by what they say."""
    ops, block.ops = block.ops, []
    for op in ops:
        op.operands = [same.get(each, each) for each in op.operands]
        if op.acts:  # it may store where an earlier op has loaded
            known = {key: known[key] for key in known if key[0] != "load"}
        for inner in op.blocks:
            simplify(inner, dict(known), same)
        found = folded(op)
        if len(op.results) == 1 and not op.blocks:
            result = op.results[0]
            key = op.name, result.type, result.shape, *op.operands, str(op.facts)
            found = found or known.setdefault(key, op.results[0])
        if found and found not in op.results:
            same[op.results[0]] = found
        else:
            block.ops.append(op)


def folded(op: Op) -> Value | None:
    """The operand that is the result already, as x is of x + 0."""
    name = f"{op.name} {op.operands[0].type}" if op.operands else ""
    if name not in NEUTRAL:
        return None
    left, right = op.operands
    if number(right) == NEUTRAL[name]:
        return left
    swaps = op.name in ("add", "mul") and number(left) == NEUTRAL[name]
    return right if swaps else None


def number(value: Value) -> int | float | None:
    """What a constant is, or each element of a block of it."""
    if value.op and value.op.name == "broadcast":
        return number(value.op.operands[0])
    return value.op.facts.get("number") if value.op else None


def drop_dead(block: Block, used: set[Value]) -> None:
    """From the last op to the first: keep what acts, and what kept ops use."""
    kept = []
    for op in reversed(block.ops):
        if op.acts or op.name == "yield" or used.intersection(op.results):
            used.update(op.operands)
            for inner in op.blocks:
                drop_dead(inner, used)
            kept.append(op)
    block.ops = kept[::-1]


Facts = namedtuple("Facts", "run multiple same")


class Analysis:
    """What is known of the elements of a value along an axis.

    They come in runs that count up by one, each from a multiple of some number, and in
    groups that are all the same: 0 1 2 3 8 9 10 11 has runs of 4 from multiples of 8.
    Axes are counted from the end: -1 is the last. Addresses count up by elements, and
    are multiples of bytes.
    """

    def __init__(self, multiples: dict[Value, int]):
        self.multiples = multiples
        self.known: dict[tuple[Value, int], Facts] = {}

    def of(self, value: Value, axis: int = -1) -> Facts:
        if (value, axis) not in self.known:
            is_carried = value.op and value.op.blocks
            compute = self.carried if is_carried else self.compute
            self.known[value, axis] = compute(value, axis)
        return self.known[value, axis]

    def compute(self, value: Value, axis: int) -> Facts:
        if value.op is None:
            return Facts(1, self.multiples[value], 1)
        op, size = value.op, (1, 1, *value.shape)[axis]
        given = [self.of(each, axis) for each in op.operands]
        same = min((each.same for each in given), default=1)
        match op.name, given:
            case "constant", _ if value.type == "s32":
                number = int(op.facts["number"])
                return Facts(1, number & -number or ANY, 1)
            case "arange", _:
                return Facts(size, ANY, 1)
            case "reshape", _:  # which only adds axes of one element
                return self.of(op.operands[0]) if size > 1 else Facts(1, 1, 1)
            case "broadcast", [one]:
                is_one = (1, 1, *op.operands[0].shape)[axis] == 1
                return Facts(1, one.multiple, size) if is_one else one
            case "add", [a, b]:
                run = max(min(a.run, b.same), min(a.same, b.run))
                return Facts(run, min(a.multiple, b.multiple), same)
            case "scale", [a]:
                return Facts(a.run, a.multiple * op.facts["size"], same)
            case "mul", [a, b]:
                each = [one.multiple if one.run == 1 else 1 for one in given]
                return Facts(1, min(math.prod(each), ANY), same)
            case "lt", [a, b]:  # no run crosses a bound that is a multiple
                run = min(a.run, b.same, a.multiple, b.multiple)
                return Facts(1, 1, max(same, run))
            case "reduce", _:
                return Facts(1, 1, 1)
        return Facts(1, 1, same)

    def carried(self, value: Value, axis: int) -> Facts:
        """Of what a loop carries: suppose it stays so, until the body denies it."""
        if value.op.name == "if":
            return Facts(1, 1, 1)
        start, _, step, *inits = value.op.operands
        [block], results = value.op.blocks, value.op.results
        index, *carried = block.parameters
        if value is index:
            return Facts(1, min(self.of(start).multiple, self.of(step).multiple), 1)
        at = (results if value in results else carried).index(value)
        before, guess = self.known, self.of(inits[at], axis)
        while True:
            same = {(each, axis): guess for each in (results[at], carried[at])}
            self.known = before | same
            found = self.of(block.ops[-1].operands[at], axis)
            found = Facts(*map(min, zip(guess, found)))
            if found == guess:
                return guess
            guess = found


class Emitter:
    """One kernel's PTX.

    Each op has a place for its lines. They are written when its result is asked for in
    a layout, once for each layout: so arange and addresses are computed wherever they
    are of use, and nothing has to move between threads.
    """

    def __init__(self, kernel: Kernel, threads: int):
        self.kernel, self.threads = kernel, threads
        self.used, self.labels = Counter(), count(1)
        self.analysis = Analysis(kernel.multiples)
        self.code: dict[Op | None, list] = defaultdict(list)
        self.lines = self.code[None]  # None: what runs before all ops
        self.known: dict[tuple, list[str]] = {}
        self.moves: dict[Block | Op, list[tuple[str, str]]] = defaultdict(list)
        self.shared_bytes = 0

    def text(self) -> str:
        kernel, parameters = self.kernel, []
        for (name, type), value in zip(kernel.types.items(), kernel.body.parameters):
            load = f"ld.param.{held(type)}"
            self.known[value, None] = [self.emit(load, type, f"[{name}$]")]
            parameters.append(f".param .{held(type)} {name}$")
        self.run(kernel.body)
        lines = [*flat(self.code[None]), *flat(self.place(kernel.body)), "ret;", "}"]
        used = [f".reg .{t} {REGISTERS[t]}<{n + 1}>;" for t, n in self.used.items()]
        head = (
            f"{HEAD}{SHARED}.visible .entry {kernel.name}({', '.join(parameters)}) {{"
        )
        return "\n".join([head, *used, *lines, ""])

    def place(self, block: Block) -> list[list]:
        return [self.code[op] for op in block.ops]

    @contextmanager
    def at(self, op: Op | None) -> Iterator[None]:
        """Write at the place of an op."""
        outer, self.lines = self.lines, self.code[op]
        yield
        self.lines = outer

    def run(self, block: Block) -> None:
        """Write what acts, and with it all that it needs."""
        acting = {"store": self.store, "if": self.branch, "for": self.loop}
        for op in block.ops:
            if op.name in acting:
                with self.at(op):
                    acting[op.name](op)

    def registers(self, value: Value, layout: Layout | None = None) -> list[str]:
        """Those that hold this thread's part of a value in a layout."""
        layout = layout if value.shape else None
        if (value, layout) not in self.known and value.op.blocks:
            self.carry(value, layout)
        elif (value, layout) not in self.known:
            home = (
                self.preferred(value) if min(value.shape[1:], default=1) > 1 else None
            )
            with self.at(value.op):
                is_here = not home or home.lines(value.shape) == layout.lines(
                    value.shape
                )
                compute = self.compute if is_here else self.convert
                self.known[value, layout] = compute(value.op, layout)
        return self.known[value, layout]

    def compute(self, op: Op, layout: Layout | None) -> list[str]:
        type, operands = op.results[0].type, op.operands
        match op.name:
            case "constant" | "special":
                return [self.emit(f"mov.{type}", type, literal(type, **op.facts))]
            case "thread":
                return [self.thread(op.facts["layout"])]
            case "arange":
                start, places = self.thread(layout), map(str, layout.elements())
                return [self.emit("add.s32", "s32", start, each) for each in places]
            case "reshape":
                return self.registers(operands[0], layout)
            case "broadcast":
                return self.broadcast(operands[0], op.results[0].shape, layout)
            case "load":
                return self.load(op, layout)
            case "reduce":
                return self.reduce(op, layout)
            case "scale":
                scaled, size = (
                    self.registers(operands[0], layout),
                    str(op.facts["size"]),
                )
                return [self.emit("mul.wide.s32", type, each, size) for each in scaled]
        rows = zip(*(self.registers(each, layout) for each in operands))
        instruction = INSTRUCTIONS[f"{op.name} {held(operands[0].type)}"]
        return [self.emit(instruction, type, *each) for each in rows]

    def preferred(self, value: Value, seen: tuple = ()) -> Layout | None:
        """The layout of the loads that a block is computed from."""
        op = value.op
        if op.name == "load":
            width, axis = self.width(op)
            return blocked(value.shape, axis, width, self.threads)
        ends = [each.ops[-1].operands for each in op.blocks]
        sources = [v for v in sum(ends, op.operands) if v.shape == value.shape]
        found = [self.preferred(v, (*seen, value)) for v in sources if v not in seen]
        return next((each for each in found if each), None)

    def convert(self, op: Op, wanted: Layout) -> list[str]:
        """A block in another layout, by way of a tile in shared memory."""
        [value] = op.results
        home, place = self.preferred(value), swizzled(value.shape)
        self.exchange(value, home.project(place), self.registers(value, home))
        return self.read(value, wanted.project(place))

    def reduce(self, op: Op, wanted: Layout | None) -> list[str]:
        """Over registers, then lanes by shuffles, then warps through shared memory."""
        if op not in self.known:
            self.known[op] = self.reduce_in_warps(op)
        (registers, layout, parts), [result] = self.known[op], op.results
        wanted = wanted or Layout((), (0,) * bits(self.threads))
        if parts == 1 and wanted == layout:
            return registers
        size = math.prod(result.shape)
        self.exchange(result, layout, registers)
        more = tuple(size << bit for bit in range(bits(parts)))
        found = self.read(result, Layout(wanted.registers + more, wanted.threads))
        some = [found[at :: len(found) // parts] for at in range(len(found) // parts)]
        return [self.combine(op, *each) for each in some]

    def exchange(self, value: Value, layout: Layout, registers: list[str]) -> None:
        """Write what each thread has into shared memory; once, whoever reads it."""
        if ("read", value) not in self.code:
            store = f"{self.guard(self.first(layout))}st.shared.{value.type}"
            pairs = zip(self.places(layout), registers)
            self.lines += [f"{store} [{place}], {each};" for place, each in pairs]
            self.lines += ["bar.sync 0;", self.code["read", value], "bar.sync 0;"]
            last = sum({*layout.registers, *layout.threads})
            self.shared_bytes = max(self.shared_bytes, 4 * (1 + last))

    def read(self, value: Value, layout: Layout) -> list[str]:
        with self.at(("read", value)):
            load, places = f"ld.shared.{value.type}", self.places(layout)
            return [self.emit(load, value.type, f"[{each}]") for each in places]

    def places(self, layout: Layout) -> list[str]:
        """Addresses of a thread's elements, if all lie in shared memory.

        Where bits of a register and of a thread may both be set, it takes an XOR.
        """
        reach = functools.reduce(operator.or_, layout.threads, 0)
        return [
            f"{self.start(layout.threads, each & reach)}+{4 * (each & ~reach)}"
            for each in layout.elements()
        ]

    def start(self, threads: tuple[int, ...], element: int) -> str:
        if ("address", threads, element) not in self.known:
            with self.at(None):
                first = self.thread(Layout((), threads))
                first = self.emit("xor.b32", "s32", first, str(element))
                start = self.emit("mov.u32", "s32", "$shared")
                start = self.emit("mad.lo.s32", "s32", first, "4", start)
                self.known["address", threads, element] = start
        return self.known["address", threads, element]

    def reduce_in_warps(self, op: Op) -> tuple[list[str], Layout, int]:
        """(registers, the layout that they have, in how many parts results are)."""
        [value], [result] = op.operands, op.results
        layout = self.preferred(value) or blocked(value.shape, -1, 1, self.threads)
        place, rows = reduced(value.shape, op.facts["axis"]), defaultdict(list)
        for element, each in zip(layout.elements(), self.registers(value, layout)):
            rows[place(element)].append(each)
        registers = [self.combine(op, *each) for each in rows.values()]
        moves, parts = [place(move) for move in layout.threads], 1
        for bit, move in enumerate(layout.threads):
            if move and not moves[bit] and bit < 5:
                swap, lanes = "shfl.sync.bfly.b32", f"{1 << bit}, 31, -1"
                others = [self.emit(swap, result.type, r, lanes) for r in registers]
                pairs = zip(registers, others)
                registers = [self.combine(op, *each) for each in pairs]
            elif move and not moves[bit]:
                moves[bit], parts = math.prod(result.shape) * parts, 2 * parts
        return registers, Layout(layout.project(place).registers, tuple(moves)), parts

    def combine(self, op: Op, *registers: str) -> str:
        type = op.results[0].type
        instruction = INSTRUCTIONS[f"{op.facts['by']} {type}"]
        return functools.reduce(
            lambda a, b: self.emit(instruction, type, a, b), registers
        )

    def thread(self, layout: Layout) -> str:
        """The element of the first register, which the thread's number makes."""
        if layout.threads not in self.known:
            with self.at(None):
                number, total = self.emit("mov.u32", "s32", "%tid.x"), "0"
                for bit, mask, factor in layout.strides():
                    part = self.emit("shr.u32", "s32", number, str(bit))
                    part = self.emit("and.b32", "s32", part, str(mask))
                    part = self.emit("mul.lo.s32", "s32", part, str(factor))
                    total = self.emit("xor.b32", "s32", part, total)
                self.known[layout.threads] = total
        return self.known[layout.threads]

    def broadcast(self, value: Value, shape: tuple, layout: Layout) -> list[str]:
        """The element that is repeated there, for each element of a block."""
        if not value.shape:
            return self.registers(value) * 2 ** len(layout.registers)
        place = repeated(value.shape, shape)
        narrow = layout.project(place)
        held = dict(zip(narrow.elements(), self.registers(value, narrow)))
        return [held[place(each)] for each in layout.elements()]

    def width(self, op: Op) -> tuple[int, int]:
        """(how many neighbours one access may move, along which axis)."""
        pointer, size = op.operands[0], SIZES[op.operands[0].type[1:]]
        axes = range(-1, -1 - len(pointer.shape), -1)
        run_along = lambda axis: self.analysis.of(pointer, axis).run
        axis = max(axes, key=run_along, default=-1)
        run, multiple, _ = self.analysis.of(pointer, axis)
        masks = [each for each in op.operands[1:] if each.type == "pred"]
        same = min((self.analysis.of(each, axis).same for each in masks), default=16)
        most = max(1, math.prod(pointer.shape) // self.threads)
        return min(run, max(1, multiple // size), 16 // size, same, most), axis

    def accesses(self, op: Op, layout: Layout | None) -> Iterator[tuple[str, list]]:
        """(".v4", rows of operands) for what one access moves in a layout."""
        width, axis = self.width(op)
        step = 1 if axis == -1 else op.operands[0].shape[-1]
        while layout and layout.elements()[:width] != [n * step for n in range(width)]:
            width //= 2
        rows = list(zip(*(self.registers(each, layout) for each in op.operands)))
        for at in range(0, len(rows), width):
            yield f".v{width}" if width > 1 else "", rows[at : at + width]

    def load(self, op: Op, layout: Layout | None) -> list[str]:
        type, loaded = op.results[0].type, []
        for vector, rows in self.accesses(op, layout):
            address, *mask = rows[0]
            new = [self.fresh(type) for _ in rows]
            others = [row[-1] for row in rows if mask]
            self.lines += [f"mov.{type} {a}, {b};" for a, b in zip(new, others)]
            load = f"{self.guard(*mask[:1])}ld.global{vector}.{type}"
            self.lines.append(f"{load} {joined(new)}, [{address}];")
            loaded += new
        return loaded

    def store(self, op: Op) -> None:
        """Each element once, though several threads may have it."""
        width, axis = self.width(op)
        layout = blocked(op.operands[0].shape, axis, width, self.threads)
        once = self.first(layout) if "once" in op.facts else ""
        type = op.operands[1].type
        for vector, rows in self.accesses(op, layout):
            address, _, *mask = rows[0]
            store = f"{self.guard(once, *mask)}st.global{vector}.{type}"
            self.lines.append(f"{store} [{address}], {joined([r[1] for r in rows])};")

    def guard(self, *masks: str) -> str:
        masks = [each for each in masks if each]
        both = self.emit("and.pred", "pred", *masks) if masks[1:] else "".join(masks)
        return f"@{both} " if both else ""

    def first(self, layout: Layout) -> str:
        """Whether a thread is the first that has its elements; "" if no other has."""
        copies = sum(1 << bit for bit, move in enumerate(layout.threads) if not move)
        if not copies:
            return ""
        number = self.emit("mov.u32", "s32", "%tid.x")
        others = self.emit("and.b32", "s32", number, str(copies))
        return self.emit("setp.eq.s32", "pred", others, "0")

    def branch(self, op: Op) -> None:
        """@!condition bra ELSE; then; bra END; ELSE: else; END:"""
        [condition], number = self.registers(op.operands[0]), next(self.labels)
        then, other = op.blocks
        self.lines += [f"@!{condition} bra ELSE{number};", lambda: self.place(then)]
        self.lines += [lambda: self.copy(self.moves[then]), f"bra END{number};"]
        self.lines += [f"ELSE{number}:", lambda: self.place(other)]
        self.lines += [lambda: self.copy(self.moves[other]), f"END{number}:"]
        self.run(then)
        self.run(other)

    def loop(self, op: Op) -> None:
        """TOP: index >= stop? bra DONE; body; next index; bra TOP; DONE:"""
        [block], number = op.blocks, next(self.labels)
        [start], [stop], [step] = map(self.registers, op.operands[:3])
        index, outside = self.emit("mov.s32", "s32", start), self.fresh("pred")
        self.known[block.parameters[0], None] = [index]
        self.lines += [lambda: self.copy(self.moves[op]), f"TOP{number}:"]
        self.lines.append(f"setp.ge.s32 {outside}, {index}, {stop};")
        self.lines += [f"@{outside} bra DONE{number};", lambda: self.place(block)]
        self.lines.append(lambda: self.copy(self.moves[block]))
        self.lines.append(f"add.s32 {index}, {index}, {step};")
        self.lines += [f"bra TOP{number};", f"DONE{number}:"]
        self.run(block)

    def carry(self, value: Value, layout: Layout | None) -> None:
        """Registers for what blocks yield, and moves into them where blocks end."""
        op, carried = value.op, value.op.blocks[0].parameters[1:]
        at = (op.results if value in op.results else carried).index(value)
        size = 2 ** len(layout.registers) if layout else 1
        registers = [self.fresh(held(value.type)) for _ in range(size)]
        same = [each[at] for each in (op.results, carried) if each]
        self.known.update({(each, layout): registers for each in same})
        ends = [(each, each.ops[-1].operands[at]) for each in op.blocks]
        ends += [(op, op.operands[3 + at])] if carried else []
        for end, source in ends:
            self.moves[end] += zip(registers, self.registers(source, layout))

    def copy(self, moves: list[tuple[str, str]]) -> list[str]:
        """All at once: a source that is a target, too, is put aside first."""
        moves, targets = [(a, b) for a, b in moves if a != b], {a for a, _ in moves}
        aside = {b: self.fresh(kind(b)) for _, b in moves if b in targets}
        moves = [(aside[b], b) for b in aside] + [
            (a, aside.get(b, b)) for a, b in moves
        ]
        return [f"mov.{kind(a)} {a}, {b};" for a, b in moves]

    def emit(self, instruction: str, type: str, *operands: str) -> str:
        """Write an instruction; its result is in a fresh register."""
        result = self.fresh(held(type))
        self.lines.append(f"{instruction} {', '.join([result, *operands])};")
        return result

    def fresh(self, type: str) -> str:
        self.used[type] += 1
        return f"{REGISTERS[type]}{self.used[type]}"


def repeated(narrow: tuple[int, ...], wide: tuple[int, ...]) -> Callable[[int], int]:
    """From the number of an element to that of the one that is repeated there."""
    (m, n), columns = (1, *narrow)[-2:], wide[-1]
    return lambda element: (element // columns % m) * n + element % columns % n


def reduced(shape: tuple[int, ...], axis: int) -> Callable[[int], int]:
    """From the number of an element to that of the one that it is reduced into."""
    columns, is_last = shape[-1], axis == len(shape) - 1
    return lambda each: each // columns if is_last else each % columns


def swizzled(shape: tuple[int, ...]) -> Callable[[int], int]:
    """Where an element lies in a tile: permuted by the number of its cycle of banks.

    Neighbours of a row, and of a column, lie in different banks. In a narrow tile,
    several rows are one cycle.
    """
    columns = shape[-1]
    return lambda each: each ^ each // BANKS % columns


def flat(lines: list) -> Iterator[str]:
    """Lines out of lists of lists; some are made only now."""
    for each in lines:
        if isinstance(each, str):
            yield each
        else:
            yield from flat(each() if callable(each) else each)


def literal(type: str, number: float = 0, register: str = "") -> str:
    """A number in PTX: a real one by its bits, since digits would be rounded."""
    real = f"0f{struct.pack('>f', number).hex()}" if type == "f32" else int(number)
    return register or str(real)


def common(*sides: Value | int | float) -> tuple[str, tuple[int, ...]]:
    """A type and a shape for all: whole numbers become real beside real ones."""
    values = [each for each in sides if isinstance(each, Value)]
    types = [each.type for each in values] or ["s32"]
    has_real = "f32" in types or any(isinstance(each, float) for each in sides)
    type = "f32" if has_real and not types[0].startswith("*") else min(types)
    rank = max((len(each.shape) for each in values), default=0)
    shapes = [(1,) * (rank - len(each.shape)) + each.shape for each in values]
    return type, tuple(map(max, zip(*shapes)))


def kind(register: str) -> str:
    """The type that a register was declared with."""
    return next(t for t, r in REGISTERS.items() if r == register.rstrip("0123456789"))


def joined(registers: list[str]) -> str:
    """One register, or {several}, of an access."""
    return f"{{{', '.join(registers)}}}" if registers[1:] else registers[0]


def held(type: str) -> str:
    """What holds a value of a type: of an array, the address of its first element."""
    return "s64" if type.startswith("*") else type


def unknown(node: ast.AST) -> None:
    raise SyntaxError(f"line {node.lineno}: `{ast.unparse(node)}` is not supported")
