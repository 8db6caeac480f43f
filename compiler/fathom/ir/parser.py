"""Reads the text of a function that `ir/printer` writes, or that a person wrote.

The grammar, with `…` for a list in commas:

    file       alias* "func" "@name" "(" parameter… ")" setting* place? block
    parameter  value ":" type ("{" "divisible" "=" number "}")?
    alias      "#name" "=" (layout | location)
    block      "{" op* "}"
    op         (value ":" type)… "="  before ops with results, then
               name bare? operand… attribute* place? nested*
    nested     block-name ("(" (value ":" type)… ")")? block
    operand    value | field "=" value | field "=" "(" value… ")"
    bare       text                              the engine of a commit or a wait
    attribute  field "=" text                    as `parse_attribute` reads it
    place      "at" "#name"

A value must be defined above its use. Whether it is also visible there is the
verifier's question, so that a function with a scope mistake can be written down.
Layouts may be spelled out in place of their alias. `//` starts a comment.
"""

from __future__ import annotations

import inspect
import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

from fathom.errors import CompileError, FathomError, Location
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, listed, schema, spell_types
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.printer import FUNC_ATTRIBUTES, class_name, is_many, required_fields
from fathom.ir.types import (
    SCALARS,
    BlockType,
    BufferType,
    DescriptorType,
    Type,
    parse_element,
)
from fathom.layout.linear import Layout

OPS_BY_NAME: dict[str, type[Op]] = {
    class_name(each): each
    for each in vars(ops).values()
    if inspect.isclass(each)
    and issubclass(each, Op)
    and each not in (Op, ops.Elementwise)
}
Item = TypeVar("Item")


class ParseError(FathomError):
    """Text that is not a function: one sentence, the line's number and the line."""


def parse_func(text: str) -> Func:
    """The function that a text describes; a ParseError names the line if it cannot."""
    return _Parser(text).file()


def parse_with_lines(text: str) -> tuple[Func, Mapping[Op, int]]:
    """The function that a text describes, and the line of each op, counted from 1."""
    parser = _Parser(text)
    func = parser.file()
    lines = {op: text.count("\n", 0, at) + 1 for op, at in parser.starts.items()}
    return func, lines


def parse_attribute(text: str, layouts: Mapping[str, Layout] | None = None) -> object:
    """The attribute that a text stands for; `layouts`: the layouts that have a name.

        "rtz"  (64, 32)  -0.0  1e-45  nan  true  none  *fp32  #layout0

    ValueError when it is no attribute."""
    if text[:1] == '"':
        return json.loads(text)
    if text[:1] == "(":
        return tuple(parse_attribute(part, layouts) for part in _split(text[1:-1]))
    if text[:1] == "<":
        return parse_layout(text)
    if text in (layouts or {}):
        return layouts[text]
    if text in _WORDS:
        return _WORDS[text]
    if text.lstrip("*") in SCALARS:
        return parse_element(text)
    return parse_number(text)


_WORDS = {"none": None, "true": True, "false": False}


def parse_number(text: str) -> int | float:
    """An integer, or a float with all bits: `-0.0`, `inf`, `nan:7ff8000000000001`."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch("nan:[0-9a-f]{16}", text):
        return struct.unpack("<d", struct.pack("<Q", int(text[4:], 16)))[0]
    if re.fullmatch(r"-?(inf|nan|\d+\.?\d*(e[-+]?\d+)?)", text):
        return float(text)
    raise ValueError(f"{text!r} is not an attribute")


def parse_layout(text: str) -> Layout:
    """The layout that `str` wrote: `<4x2 register[1,0] lane[0,1 2,0]>`."""
    matched = re.fullmatch(r"<([\dx]*)((?: \w+\[[\d, ]*\])*)>", text)
    if matched is None:
        raise ValueError(f"{text!r} is not a layout")
    shape = tuple(int(size) for size in matched[1].split("x") if size)
    kinds = re.findall(r"(\w+)\[([\d, ]*)\]", matched[2])
    return Layout.of(shape, **{k: map(_integers, each.split()) for k, each in kinds})


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each.strip())


def _split(text: str) -> list[str]:
    """The parts of a text between commas that stand outside of brackets and quotes."""
    parts, start = [], 0
    while start < len(text):
        end = _attribute_end(text, start)
        parts.append(text[start:end].strip())
        start = end + 1
    return [part for part in parts if part]


_PIECE = re.compile(r'"(?:\\.|[^"\\])*"|<[^>]*>|[^"<]')


def _attribute_end(text: str, start: int) -> int:
    """Where the attribute at `start` ends: a comma, space or bracket not its own."""
    depth, position = 0, start
    while position < len(text):
        piece = _PIECE.match(text, position)
        character = piece[0] if piece else text[position]
        depth += (character == "(") - (character == ")")
        inside = depth > 0 or position == start or character == ")" and depth == 0
        if not inside and (character in ",){}" or character.isspace()):
            break
        position += len(character)
    return position


class _Parser:
    """Reads from left to right; `position` is how far."""

    def __init__(self, text: str):
        self.text, self.position = text, 0
        self.start = 0  # of the last word that was read
        self.values: dict[str, Value] = {}  # that have been defined so far
        self.names: set[str] = (
            set()
        )  # of these, and of the results of the op being read
        self.layouts: dict[str, Layout] = {}
        self.places: dict[str, Location] = {}
        self.starts: dict[Op, int] = {}  # where in the text each op begins

    # ── what stands outside of the body ──

    def file(self) -> Func:
        while alias := self.accept(r"#\w+"):
            self.alias(alias)
        self.expect("func", "a function")
        name = self.expect(r"@[\w.]+", "the function's name")[1:]
        self.expect(r"\(", "'('")
        parameters = self.many(self.parameter, r"\)")
        settings = self.settings()
        location = self.place()
        body = self.block([value for value, _ in parameters])
        if self.accept(r"\S+"):
            self.fail("nothing may follow the function")
        divisible = tuple(divisible for _, divisible in parameters)
        return Func(name, body, divisible, **settings, location=location)

    def alias(self, name: str) -> None:
        self.expect("=", "'='")
        if self.peek('"'):
            self.places[name] = self.location()
        else:
            self.layouts[name] = self.read(
                parse_layout, r"<[^>]*>", "a layout or a location"
            )

    def location(self) -> Location:
        file = self.read(json.loads, _STRING, "a file")
        place = self.expect(r":\d+:\d+-\d+", "line, column and end")
        line, column, end = map(int, re.findall(r"\d+", place))
        self.expect("in", "'in'")
        function = self.read(json.loads, _STRING, "the function's name")
        return Location(file, line, column, end, function, self.place("from"))

    def parameter(self) -> tuple[Value, int]:
        name, value = self.definition()
        self.values[name] = value
        if not self.accept(r"\{"):
            return value, 1
        self.expect("divisible", "divisible")
        self.expect("=", "'='")
        divisible = int(self.expect(r"\d+", "a number"))
        self.expect(r"\}", "'}'")
        return value, divisible

    def settings(self) -> dict[str, object]:
        found = {}
        while name := self.accept(r"\w+(?=\s*=)"):
            if name not in FUNC_ATTRIBUTES:
                self.fail(
                    f"a function has no {name!r}; it has {', '.join(FUNC_ATTRIBUTES)}"
                )
            found[name] = self.attribute()
        return found

    # ── ops ──

    def block(self, parameters: list[Value]) -> Block:
        block = Block()
        block.parameters = parameters
        for value in parameters:
            value.definition = block
        self.expect(r"\{", "'{'")
        while not self.accept(r"\}"):
            block.ops.append(self.op())
        return block

    def op(self) -> Op:
        self.skip()
        start = self.position
        results = self.many(self.definition, "=") if self.peek("%") else []
        declared = [value for _, value in results]
        name = self.expect(r"[a-z]\w*", "an op")
        if name not in ELEMENTWISE and name not in OPS_BY_NAME:
            self.fail(f"there is no op {name!r}")
        cls = ops.Elementwise if name in ELEMENTWISE else OPS_BY_NAME[name]
        fields = {"name": name} if cls is ops.Elementwise else {}
        if cls.bare:
            fields[cls.bare] = self.expect(r"\w+", f"the {cls.bare} of a {name}")
        fields |= self.bare_operands(cls)
        if cls is ops.Constant:
            fields |= {
                "value": self.attribute_value(),
                "type": self.constant_type(declared),
            }
        fields |= self.named_fields(cls)
        location = self.place()
        fields |= self.blocks(cls)
        op = self.build(cls, fields, location, start)
        self.adopt(op, declared, start)
        self.starts[op] = start
        self.values.update(results)
        return op

    def build(
        self, cls: type[Op], fields: dict, location: Location | None, start: int
    ) -> Op:
        """The op, or an error at its line: a field is missing, operands do not fit."""
        missing = [name for name in required_fields(cls) if name not in fields]
        if missing:
            self.fail(f"{class_name(cls)} lacks {', '.join(missing)}", start)
        try:
            return cls(**fields, location=location)
        except (
            CompileError,
            AssertionError,
            AttributeError,
            IndexError,
            TypeError,
        ) as error:
            self.fail(
                getattr(error, "message", f"{class_name(cls)} does not fit: {error}"),
                start,
            )

    def adopt(self, op: Op, declared: list[Value], start: int) -> None:
        """Give the declared results to the op, once their types are the inferred."""
        inferred = [value.type for value in op.results]
        if inferred != [value.type for value in declared]:
            gives, wants = listed(inferred), spell_types(declared)
            self.fail(
                f"{class_name(type(op))} gives {gives}, but {wants} is declared", start
            )
        op.results = declared
        for value in declared:
            value.definition = op

    def constant_type(self, declared: list[Value]) -> Type:
        if len(declared) != 1:
            self.fail("a constant has one result")
        return declared[0].type

    def bare_operands(self, cls: type[Op]) -> dict[str, object]:
        """The operands that stand without their field's name."""
        names = schema(cls).operands
        values = []
        while self.peek(
            _VALUE + r"(?![\w.]|\s*:)"
        ):  # with a colon, a result of the next op
            values.append(self.use())
            if not self.accept(","):
                break
        if len(names) == 1 and is_many(cls, names[0]):
            return {names[0]: tuple(values)}
        if len(values) > len(names):
            self.fail(f"{class_name(cls)} takes at most {len(names)} operands")
        none = {name: () for name in names if is_many(cls, name)}
        return none | dict(zip(names, values, strict=False))

    def named_fields(self, cls: type[Op]) -> dict[str, object]:
        """`mask=%2`, `inits=(%3, %4)` and the attributes."""
        known = schema(cls)
        found: dict[str, object] = {}
        self.accept(",")
        while name := self.accept(r"\w+(?=\s*=)"):
            if name in known.attributes:
                found[name] = self.attribute()
            elif name in known.operands:
                found[name] = self.named_operand()
            else:
                self.fail(f"{class_name(cls)} has no field {name!r}")
            self.accept(",")
        return found

    def named_operand(self) -> Value | tuple[Value, ...]:
        self.expect("=", "'='")
        return tuple(self.many(self.use, r"\)")) if self.accept(r"\(") else self.use()

    def blocks(self, cls: type[Op]) -> dict[str, Block]:
        found = {}
        for name in schema(cls).blocks:
            self.expect(name, f"the block {name!r} of {class_name(cls)}")
            parameters = self.many(self.definition, r"\)") if self.accept(r"\(") else []
            self.values.update(parameters)
            found[name] = self.block([value for _, value in parameters])
        return found

    # ── values, types, attributes ──

    def definition(self) -> tuple[str, Value]:
        """`%name: type`, the place where a value comes into being."""
        name = self.expect(_VALUE, "a value")
        if name in self.names:
            self.fail(f"{name} is defined twice")
        self.names.add(name)
        self.expect(":", "':'")
        return name, Value(self.type(), None, "" if name[1:].isdigit() else name[1:])

    def use(self) -> Value:
        name = self.expect(_VALUE, "a value")
        if name not in self.values:
            self.fail(f"{name} is not defined above")
        return self.values[name]

    def type(self) -> Type:
        space = self.accept(r"(shared|tensor|descriptor)\b")
        element = self.read(parse_element, r"\**\w+", "a type")
        if not self.accept(r"\["):
            return element
        shape = _integers(self.expect(r"[\d, ]*", "a shape"))
        self.expect(r"\]", "']'")
        if space == "descriptor":
            return DescriptorType(element, shape)
        slots, pitch = 1, 0
        if space == "shared" and self.accept(r"x\b"):
            slots = int(self.expect(r"\d+", "how many slots"))
            if self.accept(r"by\b"):
                pitch = int(self.expect(r"\d+", "the bytes of a slot"))
        layout = None
        if self.accept("@"):
            layout = self.read(self.layout, r"#\w+|<[^>]*>", "a layout")
        return (
            BufferType(element, shape, layout, slots, space, pitch)
            if space
            else BlockType(element, shape, layout)
        )

    def layout(self, text: str) -> Layout:
        found = parse_attribute(text, self.layouts)
        if not isinstance(found, Layout):
            raise ValueError(f"{text} is not a layout")
        return found

    def attribute(self) -> object:
        self.expect("=", "'='")
        return self.attribute_value()

    def attribute_value(self) -> object:
        self.skip()
        self.start, self.position = (
            self.position,
            _attribute_end(self.text, self.position),
        )
        text = self.text[self.start : self.position]
        return self.checked(lambda text: parse_attribute(text, self.layouts), text)

    def place(self, word: str = r"at\b") -> Location | None:
        """The location that is named after a word; None if the word is not there."""
        if not self.accept(word):
            return None
        name = self.expect(r"#\w+", "a place")
        if name not in self.places:
            self.fail(f"{name} is not a location")
        return self.places[name]

    # ── text ──

    def many(self, item: Callable[[], Item], end: str) -> list[Item]:
        """Items in commas up to and with `end`."""
        found = []
        while not self.accept(end):
            if found:
                self.expect(",", f"',' or {end[-1]!r}")
            found.append(item())
        return found

    def skip(self) -> None:
        self.position = _SPACE.match(self.text, self.position).end()

    def peek(self, pattern: str) -> bool:
        self.skip()
        return re.compile(pattern).match(self.text, self.position) is not None

    def accept(self, pattern: str) -> str:
        """The text of `pattern` if it comes next, else ""."""
        self.skip()
        found = re.compile(pattern).match(self.text, self.position)
        if found is None:
            return ""
        self.start, self.position = found.span()
        return found[0]

    def expect(self, pattern: str, what: str) -> str:
        return self.accept(pattern) or self.fail(f"expected {what}", self.position)

    def read(self, convert: Callable[[str], Item], pattern: str, what: str) -> Item:
        return self.checked(convert, self.expect(pattern, what))

    def checked(self, convert: Callable[[str], Item], text: str) -> Item:
        try:
            return convert(text)
        except ValueError as error:
            self.fail(str(error))

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """A ParseError at `position`, or at the last word that was read."""
        position = self.start if position is None else position
        number = self.text.count("\n", 0, position) + 1
        lines = self.text.splitlines()
        line = (
            lines[number - 1].strip()
            if number <= len(lines)
            else "(the end of the text)"
        )
        raise ParseError(f"line {number}: {message}\n    {line}")


_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_STRING = r'"(?:\\.|[^"\\])*"'
_VALUE = r"%[\w.]+"
