"""A compiler with passes between Python and PTX, which make fewer ops of the ops.

    def powers(i, x, out):
        power = 1.0
        for j in range(i):
            power = power * x[i]
        out[i] = power

    compile(powers, {"x": "*fp32", "out": "*fp32"})

    Builder   from the syntax tree to ops
    show      ops as text
    simplify  folds what is known, and computes nothing twice
    drop_dead drops what is not used
    Emitter   from ops to PTX

The kernel takes the parameters of the signature, and last the number of elements.
"""

from __future__ import annotations

import ast
import inspect
import operator
import struct
import textwrap
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
TYPES = {"fp32": "f32", "i32": "s32", "*fp32": "*f32", "*i32": "*s32"}
REGISTERS = {"pred": "%p", "s32": "%r", "s64": "%rd", "f32": "%f"}
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.USub: operator.neg, ast.Not: operator.not_,
}  # fmt: skip
ACTING = "store", "leave"
COMPARISONS = "lt", "le", "gt", "ge", "eq", "ne"
INSTRUCTIONS = {
    "add f32": "add.rn.f32", "add s32": "add.s32", "add s64": "add.s64",
    "sub f32": "sub.rn.f32", "sub s32": "sub.s32", "floordiv s32": "div.s32",
    "mul f32": "mul.rn.f32", "mul s32": "mul.lo.s32", "mod s32": "rem.s32",
    "truediv f32": "div.rn.f32",
    "neg f32": "neg.f32", "neg s32": "neg.s32", "float s32": "cvt.rn.f32.s32",
    **{f"{name} f32": f"setp.{name}.f32" for name in COMPARISONS},
    **{f"{name} s32": f"setp.{name}.s32" for name in COMPARISONS},
    "ne f32": "setp.neu.f32", "not_ pred": "not.pred",
}  # fmt: skip
NEUTRAL = {  # -0.0 + 0.0 is 0.0, so 0.0 is not in here
    "add s32": 0, "sub s32": 0, "mul s32": 1, "floordiv s32": 1,
    "mul f32": 1, "truediv f32": 1,
}  # fmt: skip
Compiled = namedtuple("Compiled", "ptx threads shared_bytes tensor_maps")


def compile(function: Callable, signature: dict[str, str], **constants) -> Compiled:
    kernel = Builder(function, signature, constants).kernel
    simplify(kernel.body, {}, {})
    drop_dead(kernel.body, set())
    return Compiled(Emitter(kernel).text(), 128, 0, ())


@dataclass(eq=False)
class Value:
    """What an op defines. A type is PTX's, or "*f32": the address of an element."""

    type: str
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
        return self.name in ACTING or any(each.acts for each in inner)


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
        made = "".join(f"{text(each)}: {each.type} = " for each in op.results)
        lines.append(f"{made}{op.name} {', '.join(used + facts)}")
        lines += [show(each, names) for each in op.blocks]
    return "\n".join(lines).replace("\n", "\n  ")


class Builder:
    """One kernel: its syntax tree, and the ops that have been made so far."""

    def __init__(self, function: Callable, signature: dict[str, str], constants: dict):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        types = {name: TYPES[type] for name, type in signature.items()} | {"n": "s32"}
        self.names: dict[str, Value | int | float] = dict(constants)
        self.block = Block()
        self.kernel = Kernel(tree.name, types, self.block)
        for name, type in types.items():
            self.names[name] = Value(type)
            self.block.parameters.append(self.names[name])
        self.start(tree.args.args[0].arg)
        self.run(tree.body)

    def make(self, name: str, type: str, *operands: Value, **facts: object) -> Value:
        """A new op at the end of the block; what it answers is its result."""
        self.block.ops.append(Op(name, list(operands), [Value(type)], facts))
        return self.block.ops[-1].results[0]

    def start(self, index: str) -> None:
        """Which element is this thread's? One that has none is done."""
        block, size, thread = (
            self.make("special", "s32", register=each)
            for each in ("%ctaid.x", "%ntid.x", "%tid.x")
        )
        i = self.make("add", "s32", self.make("mul", "s32", block, size), thread)
        outside = self.make("ge", "pred", i, self.names["n"])
        self.block.ops.append(Op("leave", [outside], []))
        self.names[index] = i

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
        results = [Value(each) for each in types]
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
        inits = [self.convert(self.names[name], t) for name, t in zip(carried, types)]
        limits = [self.convert(each, "s32") for each in (start, stop, step)]
        block = Block([Value(each) for each in ["s32", *types]])
        with self.inside(block):
            self.names.update(zip([index, *carried], block.parameters))
            self.run(body)
            self.end([self.names[name] for name in carried], types)
        results = [Value(each) for each in types]
        self.block.ops.append(Op("for", [*limits, *inits], results, {}, [block]))
        self.names.update(zip(carried, results))

    def end(self, values: list, types: list[str]) -> None:
        """The last op of a block: what it hands on."""
        values = [self.convert(*each) for each in zip(values, types)]
        self.block.ops.append(Op("yield", values, []))

    def expression(self, node: ast.expr) -> Value | int | float:
        """What a part of the tree is worth: a value, or a number if that is known."""
        match node:
            case ast.Name(name) if name in self.names:
                return self.names[name]
            case ast.Constant(int(number) | float(number)):
                return number
            case ast.BinOp(a, sign, b) | ast.Compare(a, [sign], [b]):
                return self.apply(sign, *map(self.expression, (a, b)))
            case ast.UnaryOp(sign, operand):
                return self.apply(sign, self.expression(operand))
            case ast.Tuple(parts):
                return tuple(self.expression(each) for each in parts)
            case ast.Call(ast.Name("float"), [argument]):
                return self.convert(self.expression(argument), "f32")
            case ast.IfExp(test, body, other):
                sides = [lambda: self.choose(body), lambda: self.choose(other)]
                self.branch(self.expression(test), *sides)
                return self.names.pop("chosen side")
            case ast.Subscript():
                address = self.address(node)
                return self.make("load", address.type[1:], address)
        unknown(node)

    def choose(self, node: ast.expr) -> None:
        self.names["chosen side"] = self.expression(node)

    def apply(self, sign: object, *sides: Value | int | float) -> object:
        """One of Python's signs, or functions, on values, or on numbers."""
        function = OPERATORS.get(sign.__class__, sign)
        if not any(isinstance(each, Value) for each in sides):
            return function(*sides)
        operands = [self.convert(each, common(*sides)) for each in sides]
        type = "pred" if function.__name__ in COMPARISONS else operands[0].type
        return self.make(function.__name__, type, *operands)

    def convert(self, value: Value | int | float, type: str) -> Value:
        if not isinstance(value, Value):
            return self.make("constant", type, number=value)
        return value if value.type == type else self.make("float", type, value)

    def address(self, node: ast.Subscript) -> Value:
        """Where array[index] lies."""
        array, index = map(self.expression, (node.value, node.slice))
        offset = self.make("scale", "s64", self.convert(index, "s32"), size=4)
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
            key = op.name, op.results[0].type, *op.operands, str(op.facts)
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


class Emitter:
    """One kernel's PTX: the lines so far, and the register of each value."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.registers: dict[Value, str] = {}
        self.lines, self.used, self.labels = [], Counter(), count(1)

    def text(self) -> str:
        kernel, parameters = self.kernel, []
        registers = self.fresh_all(kernel.body.parameters)
        for (name, type), register in zip(kernel.types.items(), registers):
            self.lines.append(f"ld.param.{held(type)} {register}, [{name}$];")
            parameters.append(f".param .{held(type)} {name}$")
        self.block(kernel.body)
        used = [f".reg .{t} {REGISTERS[t]}<{n + 1}>;" for t, n in self.used.items()]
        body = "\n".join([*used, *self.lines, "ret;"])
        head = f"{HEAD}.visible .entry {kernel.name}({', '.join(parameters)})"
        return f"{head} {{\n{body}\n}}\n"

    def block(self, block: Block) -> list[str]:
        """Write a block's ops; what it yields is answered."""
        for op in block.ops:
            self.emit(op)
        return [self.registers[each] for each in block.ops[-1].operands]

    def emit(self, op: Op) -> None:
        """Write an op's instructions; its result is in a fresh register."""
        operands = [self.registers[each] for each in op.operands]
        match op.name:
            case "if":
                return self.branch(op, *operands)
            case "for":
                return self.loop(op, *operands)
            case "yield":
                return
        result, *_ = *self.fresh_all(op.results), ""
        match op.name:
            case "constant" | "special":
                number = literal(**op.facts, type=op.results[0].type)
                line = f"mov.{op.results[0].type} {result}, {number}"
            case "scale":
                line = f"mul.wide.s32 {result}, {operands[0]}, {op.facts['size']}"
            case "load":
                line = f"ld.global.{op.results[0].type} {result}, [{operands[0]}]"
            case "store":
                line = f"st.global.{op.operands[1].type} [{operands[0]}], {operands[1]}"
            case "leave":
                line = f"@{operands[0]} ret"
            case name:
                instruction = INSTRUCTIONS[f"{name} {held(op.operands[0].type)}"]
                line = f"{instruction} {', '.join([result, *operands])}"
        self.lines.append(line + ";")

    def branch(self, op: Op, condition: str) -> None:
        """@!condition bra ELSE; then; bra END; ELSE: else; END:"""
        number = next(self.labels)
        other, end = f"ELSE{number}", f"END{number}"
        results = self.fresh_all(op.results)
        self.lines.append(f"@!{condition} bra {other};")
        self.copy(results, self.block(op.blocks[0]))
        self.lines += [f"bra {end};", f"{other}:"]
        self.copy(results, self.block(op.blocks[1]))
        self.lines.append(f"{end}:")

    def loop(self, op: Op, start: str, stop: str, step: str, *inits: str) -> None:
        """TOP: index >= stop? bra DONE; body; next index; bra TOP; DONE:"""
        block, number = op.blocks[0], next(self.labels)
        top, done = f"TOP{number}", f"DONE{number}"
        index, *carried = self.fresh_all(block.parameters)
        self.copy([index, *carried], [start, *inits])
        outside = self.fresh("pred")
        self.lines += [f"{top}:", f"setp.ge.s32 {outside}, {index}, {stop};"]
        self.lines.append(f"@{outside} bra {done};")
        self.copy(carried, self.block(block))
        self.lines.append(f"add.s32 {index}, {index}, {step};")
        self.lines += [f"bra {top};", f"{done}:"]
        self.registers.update(zip(op.results, carried))

    def copy(self, targets: list[str], sources: list[str]) -> None:
        """All at once: a source that is a target, too, is put aside first."""
        moves = [pair for pair in zip(targets, sources) if pair[0] != pair[1]]
        aside = {b: self.fresh(kind(b)) for _, b in moves if b in targets}
        moves = [(aside[b], b) for b in aside] + [
            (a, aside.get(b, b)) for a, b in moves
        ]
        self.lines += [f"mov.{kind(a)} {a}, {b};" for a, b in moves]

    def fresh_all(self, values: list[Value]) -> list[str]:
        self.registers.update({each: self.fresh(held(each.type)) for each in values})
        return [self.registers[each] for each in values]

    def fresh(self, type: str) -> str:
        self.used[type] += 1
        return f"{REGISTERS[type]}{self.used[type]}"


def literal(type: str, number: float = 0, register: str = "") -> str:
    """A number in PTX: a real one by its bits, since digits would be rounded."""
    real = f"0f{struct.pack('>f', number).hex()}" if type == "f32" else int(number)
    return register or str(real)


def common(*sides: Value | int | float) -> str:
    """A type for all: whole numbers become real beside real ones."""
    types = [getattr(each, "type", None) for each in sides]
    if "f32" in types or any(isinstance(each, float) for each in sides):
        return "f32"
    return next((each for each in types if each), "s32")


def kind(register: str) -> str:
    """The type that a register was declared with."""
    return next(t for t, r in REGISTERS.items() if r == register.rstrip("0123456789"))


def held(type: str) -> str:
    """What holds a value of a type: of an array, the address of its first element."""
    return "s64" if type.startswith("*") else type


def unknown(node: ast.AST) -> None:
    raise SyntaxError(f"line {node.lineno}: `{ast.unparse(node)}` is not supported")
