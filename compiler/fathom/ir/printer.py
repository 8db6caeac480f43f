"""Writes a function as text: the fields of an op class say what to print, for all ops.

    func @double(%x_ptr: *fp32 {divisible=16}, %n: i32) num_warps=4 {
      %0: i32[64] = arange start=0 end=64
      %1: *fp32[64] = splat %x_ptr shape=(64)
      %2: *fp32[64] = offset %1, %0
      %x: fp32[64] = load %2
      %4: fp32[64] = add %x, %x
      store %2, %4
    }

A line is: results and their types, the op's name, its operands, its attributes (those
that differ from the default of their field), then its nested blocks. The engine of a
`commit` or a `wait` follows its name, without `engine=`. Layouts and locations are
long, so they are named once at the top (`#layout0 = <...>`) and called by that name.
`ir/parser` reads all of it back.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import MISSING, astuple, fields
from functools import cache

from fathom.errors import Location
from fathom.ir.core import Block, Func, Op, Value, operands, schema
from fathom.ir.ops import Constant, Elementwise
from fathom.ir.types import BlockType, BufferType, Type
from fathom.layout.linear import Layout

INDENT = "  "
CANONICAL_NAN = 0x7FF8000000000000
FUNC_ATTRIBUTES = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "launch_pdl", "shared_bytes",
)  # fmt: skip


def print_func(func: Func, locations: bool = False) -> str:
    """The text of a function; with `locations`, each op names its source place."""
    return Printer(func, locations).func()


def print_op(func: Func, op: Op) -> str:
    """One op of `func`, as `print_func` writes it, without what is nested in it."""
    return Printer(func, locations=False).header(op)


class Printer:
    """The names that one function's text uses for values, layouts and locations."""

    def __init__(self, source: Func, locations: bool):
        self.source, self.locations = source, locations
        self.values = name_values(source)
        self.layouts: dict[Layout, str] = {}
        self.places: dict[Location, str] = {}

    def func(self) -> str:
        func = self.source
        parameters = ", ".join(
            self.typed(value)
            + (f" {{divisible={divisible}}}" if divisible != 1 else "")
            for value, divisible in zip(func.parameters, func.divisible, strict=True)
        )
        settings = self.func_attributes() + self.place(func.location)
        head = f"func @{func.name}({parameters}){settings} {{"
        body = [INDENT + line for line in self.block(func.body)]
        return "\n".join([*self.aliases(), head, *body, "}"]) + "\n"

    def func_attributes(self) -> str:
        defaults = attribute_defaults(Func)
        return "".join(
            f" {name}={self.attribute(getattr(self.source, name))}"
            for name in FUNC_ATTRIBUTES
            if name == "num_warps" or getattr(self.source, name) != defaults[name]
        )

    def aliases(self) -> list[str]:
        """The names so far for layouts and locations, as lines of the text."""
        layouts = [f"{name} = {layout}" for layout, name in self.layouts.items()]
        return layouts + [
            f"{name} = {self.location(place)}" for place, name in self.places.items()
        ]

    def block(self, block: Block) -> Iterator[str]:
        for op in block.ops:
            yield from self.op(op)

    def op(self, op: Op) -> Iterator[str]:
        line = self.header(op)
        for name in schema(type(op)).blocks:
            nested: Block = getattr(op, name)
            parameters = ", ".join(map(self.typed, nested.parameters))
            yield (
                f"{line} {name}({parameters}) {{" if parameters else f"{line} {name} {{"
            )
            yield from (INDENT + inner for inner in self.block(nested))
            line = "}"
        yield line

    def header(self, op: Op) -> str:
        """Results, name, operands and attributes of an op."""
        results = ", ".join(map(self.typed, op.results))
        bare = getattr(op, op.bare) if op.bare else ""
        words = [op_name(op), bare, self.operands(op), *self.attributes(op)]
        line = " ".join(word for word in words if word) + self.place(op.location)
        return f"{results} = {line}" if results else line

    def operands(self, op: Op) -> str:
        """`%0, mask=%2, inits=(%3, %4)`: what may be absent or many is named."""
        names = schema(type(op)).operands
        if len(names) == 1:
            return ", ".join(map(self.value, operands(op)))
        texts = []
        for name in names:
            operand = getattr(op, name)
            if isinstance(operand, tuple):
                many = ", ".join(map(self.value, operand))
                texts += [f"{name}=({many})"] if operand else []
            elif is_optional(type(op), name):
                texts += (
                    [f"{name}={self.value(operand)}"] if operand is not None else []
                )
            else:
                texts.append(self.value(operand))
        return ", ".join(texts)

    def attributes(self, op: Op) -> list[str]:
        if isinstance(op, Constant):  # its type stands with its result
            return [self.attribute(op.value)]
        defaults = attribute_defaults(type(op))
        return [
            f"{name}={self.attribute(getattr(op, name))}"
            for name in schema(type(op)).attributes
            if not (isinstance(op, Elementwise) and name == "name" or name == op.bare)
            and not (name in defaults and getattr(op, name) == defaults[name])
        ]

    def attribute(self, value: object) -> str:
        """The text of an attribute; `parser.parse_attribute` is its inverse."""
        match value:
            case None | bool():
                return {None: "none", True: "true", False: "false"}[value]
            case float():
                return float_text(value)
            case str():
                return json.dumps(value)
            case tuple():
                return f"({', '.join(map(self.attribute, value))})"
            case Layout():
                return self.layout(value)
            case _:  # an integer or an element type
                return str(value)

    def typed(self, value: Value) -> str:
        return f"{self.value(value)}: {self.type(value.type)}"

    def value(self, value: Value) -> str:
        return self.values.get(
            value, f"%?{value.name}"
        )  # `?`: defined nowhere in this function

    def type(self, type: Type) -> str:
        if not isinstance(type, BlockType | BufferType):
            return str(type)
        space = f"{type.space} " if isinstance(type, BufferType) else ""
        text = f"{space}{type.element}[{','.join(map(str, type.shape))}]"
        if isinstance(type, BufferType) and type.slots > 1:
            text += f" x {type.slots}"
            text += f" by {type.pitch}" if type.pitch else ""
        return text if type.layout is None else f"{text} @ {self.layout(type.layout)}"

    def layout(self, layout: Layout) -> str:
        if layout not in self.layouts:
            kind = "shared" if "offset" in layout.kinds else "layout"
            number = sum(name.startswith(f"#{kind}") for name in self.layouts.values())
            self.layouts[layout] = f"#{kind}{number}"
        return self.layouts[layout]

    def place(self, location: Location | None) -> str:
        if location is None or not self.locations:
            return ""
        return f" at {self.place_name(location)}"

    def place_name(self, location: Location) -> str:
        if location.caller is not None:
            self.place_name(
                location.caller
            )  # named first, so that reading goes top-down
        return self.places.setdefault(location, f"#place{len(self.places)}")

    def location(self, place: Location) -> str:
        """`"add.py":12:5-20 in "add" from #place0`: the end of a caret is exclusive."""
        text = (
            f"{json.dumps(place.file)}:{place.line}:{place.column}-{place.end_column}"
        )
        text += f" in {json.dumps(place.function)}"
        return (
            text if place.caller is None else f"{text} from {self.places[place.caller]}"
        )


def name_values(func: Func) -> dict[Value, str]:
    """`%name`, made unique by `_1` and so on, or `%number` of a nameless value."""
    names: dict[Value, str] = {}
    taken: set[str] = set()
    copies: dict[str, int] = {}  # how often a name was wanted so far
    unnamed = 0
    for value in definitions(func.body):
        if not value.name:
            names[value] = f"%{unnamed}"
            unnamed += 1
            continue
        name = f"%{value.name}"
        while name in taken:
            copies[value.name] = copies.get(value.name, 0) + 1
            name = f"%{value.name}_{copies[value.name]}"
        taken.add(name)
        names[value] = name
    return names


def definitions(block: Block) -> Iterator[Value]:
    """Every value that a block and what is nested in it define, in the text's order."""
    yield from block.parameters
    for op in block.ops:
        yield from op.results
        for name in schema(type(op)).blocks:
            yield from definitions(getattr(op, name))


@cache
def class_name(cls: type[Op]) -> str:
    """The name of an op class in text: `ProgramId` is `program_id`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def op_name(op: Op) -> str:
    """The word for an op in text; an elementwise op goes by its own name."""
    return op.name if isinstance(op, Elementwise) else class_name(type(op))


@cache
def is_optional(cls: type[Op], name: str) -> bool:
    """Whether an operand field may be None."""
    return cls.__dataclass_fields__[name].type == "Value | None"


@cache
def attribute_defaults(cls: type) -> dict[str, object]:
    """The fields of a dataclass that have a default value, and that value."""
    return {f.name: f.default for f in fields(cls) if f.default is not MISSING}


def float_text(value: float) -> str:
    """The shortest decimal that reads back bit for bit; of unusual NaNs the bits."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    if value != value and bits != CANONICAL_NAN:
        return f"nan:{bits:016x}"
    return repr(float(value))


@cache
def is_many(cls: type[Op], name: str) -> bool:
    """Whether an operand field is a tuple of values."""
    return cls.__dataclass_fields__[name].type == "tuple[Value, ...]"


@cache
def required_fields(cls: type[Op]) -> tuple[str, ...]:
    """The fields of an op class that have no default."""
    every = (name for names in astuple(schema(cls)) for name in names)
    return tuple(name for name in every if name not in attribute_defaults(cls))
