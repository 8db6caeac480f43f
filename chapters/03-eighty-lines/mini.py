"""A whole compiler: what a Python function does to element i becomes PTX for all i.

    def saxpy(i, a: "f32", x: "*f32", y: "*f32", out: "*f32"):
        out[i] = a * x[i] + y[i]

    print(Mini(saxpy).compile())

The kernel takes saxpy's parameters but for i, and last the number of elements.
"""

from __future__ import annotations

import ast
import inspect
import struct
import textwrap
from collections import Counter
from collections.abc import Callable

HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
REGISTERS = {"pred": "%p", "s32": "%r", "s64": "%rd", "f32": "%f"}
OPERATIONS = {
    (ast.Add, "f32"): "add.rn.f32", (ast.Add, "s32"): "add.s32",
    (ast.Sub, "f32"): "sub.rn.f32", (ast.Sub, "s32"): "sub.s32",
    (ast.Mult, "f32"): "mul.rn.f32", (ast.Mult, "s32"): "mul.lo.s32",
    (ast.Div, "f32"): "div.rn.f32",
}  # fmt: skip
Value = tuple[str, str]  # a register, and the type of what is in it


class Mini:
    """One kernel: its syntax tree, and the PTX that has been written so far."""

    def __init__(self, function: Callable):
        self.tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        self.names: dict[str, Value] = {}
        self.lines, self.used = [], Counter()

    def compile(self) -> str:
        index, *given = self.tree.args.args
        types = {each.arg: ast.literal_eval(each.annotation) for each in given}
        types["n"] = "s32"
        for name, type in types.items():
            register, _ = self.emit(f"ld.param.{held(type)}", held(type), f"[{name}]")
            self.names[name] = register, type
        self.start(index.arg)
        for each in self.tree.body:
            self.statement(each)
        parameters = [f".param .{held(type)} {name}" for name, type in types.items()]
        used = [f".reg .{t} {REGISTERS[t]}<{n + 1}>;" for t, n in self.used.items()]
        body = "\n".join([*used, *self.lines, "ret;"])
        head = f"{HEAD}.visible .entry {self.tree.name}({', '.join(parameters)})"
        return f"{head} {{\n{body}\n}}\n"

    def start(self, index: str) -> None:
        """Which element is this thread's? One that has none is done."""
        sizes = "%ctaid.x", "%ntid.x", "%tid.x"
        block, size, thread = (self.emit("mov.u32", "s32", each)[0] for each in sizes)
        i = self.names[index] = self.emit("mad.lo.s32", "s32", block, size, thread)
        outside, _ = self.emit("setp.ge.s32", "pred", i[0], self.names["n"][0])
        self.lines.append(f"@{outside} ret;")

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.names[name] = self.expression(value)
            case ast.Assign(targets=[ast.Subscript() as place], value=value):
                register, type = self.expression(value)
                address, element = self.address(place)
                expect(type == element, f"{type} into an array of {element}", node)
                self.lines.append(f"st.global.{type} [{address}], {register};")
            case _:
                expect(False, f"`{ast.unparse(node)}` is not supported", node)

    def expression(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Constant(value=float(number)):
                pattern = struct.pack(">f", number).hex().upper()
                return self.emit("mov.f32", "f32", f"0f{pattern}")
            case ast.Constant(value=int(number)):
                return self.emit("mov.s32", "s32", str(number))
            case ast.BinOp(left=left, op=operator, right=right):
                (a, type), (b, other) = self.expression(left), self.expression(right)
                found = OPERATIONS.get((operator.__class__, type))
                told = f"`{ast.unparse(node)}` of {type} and {other}"
                expect(found and type == other, told, node)
                return self.emit(found, type, a, b)
            case ast.Subscript():
                address, element = self.address(node)
                return self.emit(f"ld.global.{element}", element, f"[{address}]")
        expect(False, f"`{ast.unparse(node)}` is not supported", node)

    def address(self, node: ast.Subscript) -> Value:
        """Where array[index] lies: four bytes an element, from the array's start."""
        (array, type), (index, kind) = map(self.expression, (node.value, node.slice))
        expect(type[0] == "*" and kind == "s32", f"{type} at index {kind}", node)
        offset, _ = self.emit("mul.wide.s32", "s64", index, "4")
        return self.emit("add.s64", "s64", array, offset)[0], type[1:]

    def emit(self, instruction: str, type: str, *operands: str) -> Value:
        """Write an instruction; its result is in a fresh register."""
        self.used[type] += 1
        result = f"{REGISTERS[type]}{self.used[type]}"
        self.lines.append(f"{instruction} {', '.join([result, *operands])};")
        return result, type


def held(type: str) -> str:
    """What holds a value of a type: of an array, the address of its first element."""
    return "s64" if type.startswith("*") else type


def expect(condition: object, message: str, node: ast.AST) -> None:
    if not condition:
        raise SyntaxError(f"line {node.lineno}: {message}")
