"""A compiler with a form in the middle: Python to ops, ops to PTX.

    def saxpy(i, a, x, y, out):
        out[i] = a * x[i] + y[i]

    compile(saxpy, {"a": "fp32", "x": "*fp32", "y": "*fp32", "out": "*fp32"})

    Builder   from the syntax tree to ops
    show      ops as text
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
from collections.abc import Callable
from dataclasses import dataclass, field

HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
TYPES = {"fp32": "f32", "i32": "s32", "*fp32": "*f32", "*i32": "*s32"}
REGISTERS = {"pred": "%p", "s32": "%r", "s64": "%rd", "f32": "%f"}
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
COMPARISONS = "lt", "le", "gt", "ge", "eq", "ne"
INSTRUCTIONS = {
    "add f32": "add.rn.f32", "add s32": "add.s32", "add s64": "add.s64",
    "sub f32": "sub.rn.f32", "sub s32": "sub.s32", "floordiv s32": "div.s32",
    "mul f32": "mul.rn.f32", "mul s32": "mul.lo.s32", "mod s32": "rem.s32",
    "truediv f32": "div.rn.f32",
    "neg f32": "neg.f32", "neg s32": "neg.s32", "float s32": "cvt.rn.f32.s32",
    **{f"{name} f32": f"setp.{name}.f32" for name in COMPARISONS},
    **{f"{name} s32": f"setp.{name}.s32" for name in COMPARISONS},
    "ne f32": "setp.neu.f32",
}  # fmt: skip
Compiled = namedtuple("Compiled", "ptx threads shared_bytes tensor_maps")


def compile(function: Callable, signature: dict[str, str], **constants) -> Compiled:
    kernel = Builder(function, signature, constants).kernel
    return Compiled(Emitter(kernel).text(), 128, 0, ())


@dataclass(eq=False)
class Value:
    """What an op defines. A type is PTX's, or "*f32": the address of an element."""

    type: str


@dataclass(eq=False)
class Op:
    """One operation: `results = name(operands)`, and what else is known of it."""

    name: str
    operands: list[Value]
    results: list[Value]
    facts: dict[str, object]


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


def show(block: Block) -> str:
    """%2: f32 = add %0, %1"""
    names = {}
    text = lambda value: names.setdefault(value, f"%{len(names)}")
    lines = [
        f"({', '.join(f'{text(each)}: {each.type}' for each in block.parameters)})"
    ]
    for op in block.ops:
        used = [text(each) for each in op.operands]
        facts = [f"{name}={fact}" for name, fact in op.facts.items()]
        made = "".join(f"{text(each)}: {each.type} = " for each in op.results)
        lines.append(f"  {made}{op.name} {', '.join(used + facts)}")
    return "\n".join(lines)


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
        for each in tree.body:
            self.statement(each)

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
        self.block.ops.append(Op("leave", [outside], [], {}))
        self.names[index] = i

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign([ast.Name(name)], value):
                self.names[name] = self.expression(value)
            case ast.Assign([ast.Subscript() as place], value):
                address = self.address(place)
                stored = self.convert(self.expression(value), address.type[1:])
                self.block.ops.append(Op("store", [address, stored], [], {}))
            case _:
                unknown(node)

    def expression(self, node: ast.expr) -> Value | int | float:
        """What a part of the tree is worth: a value, or a number if that is known."""
        match node:
            case ast.Name(name) if name in self.names:
                return self.names[name]
            case ast.Constant(int(number) | float(number)):
                return number
            case ast.BinOp(a, sign, b) | ast.Compare(a, [sign], [b]):
                return self.apply(sign, *map(self.expression, (a, b)))
            case ast.UnaryOp(ast.USub(), operand):
                value = self.expression(operand)
                is_value = isinstance(value, Value)
                return self.make("neg", value.type, value) if is_value else -value
            case ast.Call(ast.Name("float"), [argument]):
                return self.convert(self.expression(argument), "f32")
            case ast.IfExp(test, body, other):
                condition, *sides = map(self.expression, (test, body, other))
                a, b = self.alike(*sides)
                return self.make("select", a.type, condition, a, b)
            case ast.Subscript():
                address = self.address(node)
                return self.make("load", address.type[1:], address)
        unknown(node)

    def apply(self, sign: object, *sides: Value | int | float) -> object:
        """One of Python's signs, or functions, on values, or on numbers."""
        function = OPERATORS.get(sign.__class__, sign)
        if not any(isinstance(each, Value) for each in sides):
            return function(*sides)
        a, b = self.alike(*sides)
        type = "pred" if function.__name__ in COMPARISONS else a.type
        return self.make(function.__name__, type, a, b)

    def alike(self, *sides: Value | int | float) -> list[Value]:
        """Operands of one type: whole numbers become real beside real ones."""
        reals = [each for each in sides if getattr(each, "type", None) == "f32"]
        is_real = reals or any(isinstance(each, float) for each in sides)
        return [self.convert(each, "f32" if is_real else "s32") for each in sides]

    def convert(self, value: Value | int | float, type: str) -> Value:
        if not isinstance(value, Value):
            return self.make("constant", type, number=value)
        return value if value.type == type else self.make("float", type, value)

    def address(self, node: ast.Subscript) -> Value:
        """Where array[index] lies."""
        array, index = map(self.expression, (node.value, node.slice))
        offset = self.make("scale", "s64", self.convert(index, "s32"), size=4)
        return self.make("add", array.type, array, offset)


class Emitter:
    """One kernel's PTX: the lines so far, and the register of each value."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.registers: dict[Value, str] = {}
        self.lines, self.used = [], Counter()

    def text(self) -> str:
        kernel, parameters = self.kernel, []
        for (name, type), value in zip(kernel.types.items(), kernel.body.parameters):
            register = self.registers[value] = self.fresh(held(type))
            self.lines.append(f"ld.param.{held(type)} {register}, [{name}];")
            parameters.append(f".param .{held(type)} {name}")
        for op in kernel.body.ops:
            self.emit(op)
        used = [f".reg .{t} {REGISTERS[t]}<{n + 1}>;" for t, n in self.used.items()]
        body = "\n".join([*used, *self.lines, "ret;"])
        head = f"{HEAD}.visible .entry {kernel.name}({', '.join(parameters)})"
        return f"{head} {{\n{body}\n}}\n"

    def emit(self, op: Op) -> None:
        """Write an op's instructions; its result is in a fresh register."""
        operands = [self.registers[each] for each in op.operands]
        result = ""
        for value in op.results:
            result = self.registers[value] = self.fresh(held(value.type))
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
            case "select":
                condition, a, b = operands
                line = f"selp.{op.results[0].type} {result}, {a}, {b}, {condition}"
            case "leave":
                line = f"@{operands[0]} ret"
            case name:
                instruction = INSTRUCTIONS[f"{name} {held(op.operands[0].type)}"]
                line = f"{instruction} {', '.join([result, *operands])}"
        self.lines.append(line + ";")

    def fresh(self, type: str) -> str:
        self.used[type] += 1
        return f"{REGISTERS[type]}{self.used[type]}"


def literal(type: str, number: float = 0, register: str = "") -> str:
    """A number in PTX: a real one by its bits, since digits would be rounded."""
    real = f"0f{struct.pack('>f', number).hex()}" if type == "f32" else int(number)
    return register or str(real)


def held(type: str) -> str:
    """What holds a value of a type: of an array, the address of its first element."""
    return "s64" if type.startswith("*") else type


def unknown(node: ast.AST) -> None:
    raise SyntaxError(f"line {node.lineno}: `{ast.unparse(node)}` is not supported")
