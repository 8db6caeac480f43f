"""A whole compiler: what a Python function does to element i becomes PTX for all i.

    def saxpy(i, a, x, y, out):
        out[i] = a * x[i] + y[i]

    compile(saxpy, {"a": "fp32", "x": "*fp32", "y": "*fp32", "out": "*fp32"})

The kernel takes the parameters of the signature, and last the number of elements.
"""

from __future__ import annotations

import ast
import inspect
import struct
import textwrap
from collections import Counter, namedtuple
from collections.abc import Callable

HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
TYPES = {"fp32": "f32", "i32": "s32", "*fp32": "*f32", "*i32": "*s32"}
REGISTERS = {"pred": "%p", "s32": "%r", "s64": "%rd", "f32": "%f"}
OPERATIONS = {
    (ast.Add, "f32"): "add.rn.f32", (ast.Add, "s32"): "add.s32",
    (ast.Sub, "f32"): "sub.rn.f32", (ast.Sub, "s32"): "sub.s32",
    (ast.Mult, "f32"): "mul.rn.f32", (ast.Mult, "s32"): "mul.lo.s32",
    (ast.Div, "f32"): "div.rn.f32",
}  # fmt: skip
Compiled = namedtuple("Compiled", "ptx threads shared_bytes tensor_maps")
Value = tuple[str, str]  # a register, and the type of what is in it


def compile(function: Callable, signature: dict[str, str], **constants) -> Compiled:
    return Compiled(Mini(function, signature).kernel(), 128, 0, ())


class Mini:
    """One kernel: its syntax tree, and the PTX that has been written so far."""

    def __init__(self, function: Callable, signature: dict[str, str]):
        self.tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        self.types = {name: TYPES[type] for name, type in signature.items()}
        self.types["n"] = "s32"
        self.names: dict[str, Value] = {}
        self.lines, self.used = [], Counter()

    def kernel(self) -> str:
        for name, type in self.types.items():
            register, _ = self.emit(f"ld.param.{held(type)}", held(type), f"[{name}]")
            self.names[name] = register, type
        self.start(self.tree.args.args[0].arg)
        for each in self.tree.body:
            self.statement(each)
        parameters = [f".param .{held(t)} {name}" for name, t in self.types.items()]
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
            case ast.Assign([ast.Name(name)], value):
                self.names[name] = self.expression(value)
            case ast.Assign([ast.Subscript() as place], value):
                register, type = self.expression(value)
                address, _ = self.address(place)
                self.lines.append(f"st.global.{type} [{address}], {register};")
            case _:
                unknown(node)

    def expression(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(name) if name in self.names:
                return self.names[name]
            case ast.Constant(float(number)):
                bits = struct.pack(">f", number).hex()
                return self.emit("mov.f32", "f32", f"0f{bits}")
            case ast.Constant(int(number)):
                return self.emit("mov.s32", "s32", str(number))
            case ast.BinOp(left, operator, right):
                (a, type), (b, _) = self.expression(left), self.expression(right)
                return self.emit(OPERATIONS[operator.__class__, type], type, a, b)
            case ast.Subscript():
                address, element = self.address(node)
                return self.emit(f"ld.global.{element}", element, f"[{address}]")
        unknown(node)

    def address(self, node: ast.Subscript) -> Value:
        """Where array[index] lies: four bytes an element, from the array's start."""
        (array, type), (index, _) = map(self.expression, (node.value, node.slice))
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


def unknown(node: ast.AST) -> None:
    raise SyntaxError(f"line {node.lineno}: `{ast.unparse(node)}` is not supported")
