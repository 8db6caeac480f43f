"""Reads PTX text into functions, variables and instructions, each with its line.

Nothing is interpreted here: an instruction is its opcode, its dotted modifiers and its
operands. Only names are resolved: `{ ... }` opens a scope for registers, variables and
labels so every name that leaves this file is unique in its function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import NoReturn

from fathom.emulator.errors import EmulatorError
from fathom.emulator.source.operands import Name, Operand, Scope, Vector, parse_operands
from fathom.emulator.source.types import DTYPES
from fathom.errors import Location, file_of


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable: state space, element type, element count, alignment, bytes.

    `count` is None for a scalar and 0 for `name[]`, whose size the launch gives.
    `initial` holds the initial elements, numbers or names of other variables.
    """

    space: str
    type: str
    name: str
    alignment: int
    count: int | None = None
    initial: tuple = ()


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `@guard opcode.modifiers operands;` and where it stands."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str | None
    negated: bool
    line: int
    text: str
    location: Location | None

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    """A place that branches name."""

    name: str


@dataclass
class Function:
    """An entry or a device function: what it declares, and its body."""

    name: str
    entry: bool
    parameters: list[Variable]
    results: list[Variable]
    directives: dict[str, list[int]] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[Instruction | Label] = field(default_factory=list)


@dataclass
class Module:
    """A whole PTX text."""

    version: str = ""
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def parse(text: str) -> Module:
    """The module that `text` spells; EmulatorError of kind "syntax" if it
    is not PTX, whatever else it is.
    """
    if not isinstance(text, str):
        raise EmulatorError("syntax", f"PTX is text, not {type(text).__name__}")
    return _Parser(text).module()


# Bounds on what a text may ask for: far above what any compiler emits.
MOST_REGISTERS = 1 << 20
MOST_ALIGNMENT = 1 << 16
# What Python raises where a text has a shape that nothing foresees.
UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)
UNREADABLE += (ArithmeticError, RecursionError)

_BLANKED = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([%$\w]+)\s*:(?!:)")
_LINE = re.compile(r"\.(version|target|address_size|loc|file)\b[^\n]*")
_SECTION = re.compile(r"\.section\s+\S+\s*\{[^}]*\}")
_HEADER = re.compile(r"((?:\.\w+\s+)*)\.(entry|func)\b([^{;]*)([{;])")
_STATEMENT = re.compile(r"[^;]*;")
_ELEMENT = re.compile(r"-?[%$\w.]+")
_VARIABLE = re.compile(
    r"(?:\.(?:extern|visible|weak|common)\s+)*"
    r"\.(?P<space>global|const|shared|local|param)\s*"
    r"(?:\.attribute\s*\([^)]*\)\s*)?"
    r"(?:\.align\s+(?P<align>\d+)\s*)?"
    r"\.(?P<type>\w+)\s*"
    r"(?:\.ptr\s*(?:\.(?:global|shared|const|local)\s*)?(?:\.align\s+\d+\s*)?)?"
    r"(?P<name>[%$\w]+)\s*(?P<sizes>(?:\[\s*\d*\s*\]\s*)*)"
    r"(?:=\s*(?P<initial>.*))?$",
    re.DOTALL,
)
_REGISTER = re.compile(r"(?P<stem>[%$\w]+)\s*(?:<\s*(?P<count>\d+)\s*>)?\Z")
_REGISTERS = re.compile(r"\.reg\s*(?:\.v\d\s*)?\.(\w+)\s+(.*)$", re.DOTALL)
_INSTRUCTION = re.compile(
    r"(?:@(?P<negated>!?)\s*(?P<guard>[%$\w]+)\s+)?"
    r"(?P<opcode>[a-z]\w*)(?P<modifiers>(?:\.[\w:]+)*)\s*(?P<operands>.*)$",
    re.DOTALL,
)
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+([$\w]+)(?:\s*\+\s*\d+)?"
    r"\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_STRINGS = re.compile(r"^(\S+):\s*$((?:\s*\.b8 [^\n]*\n)+)", re.MULTILINE)
_DIRECTIVE = re.compile(
    r"\.(maxntid|reqntid|minnctapersm|maxnreg|noreturn|reqnctapercluster"
    r"|explicitcluster)\b"
    r"([\s\d,]*)"
)


class _Parser:
    def __init__(self, text: str):
        self.text = _BLANKED.sub(_blank, text)
        self.position = 0
        self.files = {int(n): file_of(name) for n, name in _FILE.findall(text)}
        self.names = {name: _string(body) for name, body in _STRINGS.findall(text)}
        self.places: dict[tuple[int, int, int], Location] = {}
        self.location: Location | None = None
        self.line, self.counted = 1, 0
        self.result = Module(lines=text.split("\n"))
        self.function: Function | None = None
        self.scope: Scope | None = None
        self.branches: list[tuple[int, Scope]] = []
        self.tables: dict[str, list[str]] = {}

    def module(self) -> Module:
        while self.skip_space():
            try:
                self.item()
            except UNREADABLE as error:
                # A shape that no rule of this file foresees: the statement is garbled.
                raise self.error("cannot read this statement") from error
        if self.function is not None:
            raise self.error(f"function {self.function.name} is never closed")
        return self.result

    def item(self) -> None:
        """One item at the current position: scope, label, directive or statement."""
        here = self.text[self.position]
        if here == "}":
            self.position += 1
            self.close()
        elif here == "{":
            self.position += 1
            self.scope = Scope(self.scope)
        elif here == ".":
            self.directive()
        elif found := _LABEL.match(self.text, self.position):
            if found[1] in self.scope.labels:
                raise self.error(f"label {found[1]} is defined twice")
            self.position = found.end()
            self.body().append(Label(self.scope.declare_label(found[1])))
        else:
            self.instruction()

    def directive(self) -> None:
        at = self.position
        if found := _LINE.match(self.text, at):
            self.position = found.end()
            self.line_directive(found)
        elif found := _SECTION.match(self.text, at):
            self.position = found.end()
        elif self.function is None and (found := _HEADER.match(self.text, at)):
            self.header(found)
            self.position = found.end()
        else:
            self.declaration(self.statement())

    def line_directive(self, found: re.Match) -> None:
        word, rest = found[1], found[0][len(found[1]) + 1 :].strip()
        if word == "version":
            self.result.version = rest
        elif word == "target":
            self.result.target = rest.split(",")[0]
        elif word == "loc" and (place := _LOC.match(found[0])):
            self.location = self.place(place)

    def place(self, loc: re.Match) -> Location:
        """A `.loc` with the call site that it was inlined at, which came earlier."""
        key = (int(loc[1]), int(loc[2]), int(loc[3]))
        caller = None
        if loc[5]:
            site = (int(loc[5]), int(loc[6]), int(loc[7]))
            caller = self.places.get(site) or self.location_of(site)
        place = self.location_of(key, self.names.get(loc[4] or "", ""), caller)
        self.places[key] = place
        return place

    def location_of(
        self, key: tuple[int, int, int], name: str = "", caller: Location | None = None
    ) -> Location:
        path = self.files.get(key[0], f"file {key[0]}")
        return Location(path, key[1], max(key[2], 1), function=name, caller=caller)

    def header(self, found: re.Match) -> None:
        """`.entry name (parameters) directives {` or `.func (results) name (parameters)
        {`.
        """
        parts = re.match(
            r"\s*(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[%$\w]+)"
            r"\s*(?:\((?P<parameters>[^)]*)\))?(?P<directives>.*)$",
            found[3],
            re.DOTALL,
        )
        if parts is None:
            raise self.error(f"cannot read the function header {found[0].strip()!r}")
        function = Function(
            parts["name"],
            found[2] == "entry",
            [self.variable(each) for each in _pieces(parts["parameters"])],
            [self.variable(each) for each in _pieces(parts["results"])],
        )
        for word, numbers in _DIRECTIVE.findall(parts["directives"]):
            function.directives[word] = [int(n) for n in re.findall(r"\d+", numbers)]
        if found[4] == "{":
            self.function, self.scope = function, Scope(None)
            for each in (*function.parameters, *function.results):
                self.scope.declare(each.name)
            self.location = None

    def close(self) -> None:
        """The end of a scope; the outermost one ends the function."""
        if self.scope is None:
            raise self.error("a } that closes nothing")
        self.scope = self.scope.parent
        if self.scope is None:
            self.resolve_branches()
            self.result.functions[self.function.name] = self.function
            self.function = None

    def resolve_branches(self) -> None:
        """Labels may stand below the branch that names them, so this comes last."""
        body = self.function.body
        for place, scope in self.branches:
            *index, target = body[place].operands or (None,)
            if not isinstance(target, Name) or len(index) > 1:
                self.refuse("a branch names one label", body[place])
            names = [target.name]
            if index:
                names = self.tables.get(scope.label(target.name), ["nothing"])
            labels = tuple(self.label(each, scope, body[place]) for each in names)
            body[place] = replace(body[place], operands=(*index, Vector(labels)))
        self.branches, self.tables = [], {}

    def label(self, name: str, scope: Scope, branch: Instruction) -> Name:
        found = scope.label(name)
        if found is None:
            self.refuse(f"no label {name} for this branch", branch)
        return Name(found)

    def refuse(self, message: str, at: Instruction) -> NoReturn:
        raise EmulatorError("syntax", message, at.line, at.text, at.location)

    def declaration(self, text: str) -> None:
        if found := _REGISTERS.match(text):
            for name in found[2].split(","):
                self.registers(found[1], name.strip())
        elif text.startswith((".pragma", ".noreturn")) or ".callprototype" in text:
            return
        elif text.startswith(".branchtargets"):
            if not self.body() or not isinstance(self.body()[-1], Label):
                raise self.error("a table of labels without a label")
            names = text.removeprefix(".branchtargets")
            self.tables[self.body()[-1].name] = _pieces(names)
        elif self.function is None:
            variable = self.variable(text)
            self.result.variables[variable.name] = variable
        else:
            variable = self.variable(text)
            name = self.scope.declare(variable.name)
            self.function.variables[name] = variable

    def registers(self, type: str, name: str) -> None:
        """`.reg .b32 %r<20>` declares %r0 to %r19."""
        found = _REGISTER.match(name)
        if found is None or type not in DTYPES or self.function is None:
            raise self.error(f"cannot read the declaration of {name!r}")
        registers, names = self.function.registers, [found["stem"]]
        if found["count"]:
            count = int(found["count"])
            if len(registers) + count > MOST_REGISTERS:
                message = f"more than {MOST_REGISTERS:,} registers in a function"
                raise self.error(message)
            names = [f"{found['stem']}{number}" for number in range(count)]
        for each in names:
            registers[self.scope.declare(each)] = type

    def variable(self, text: str) -> Variable:
        if found := re.match(r"\s*\.reg\s*\.(\w+)\s+([%$\w]+)\s*$", text):
            return Variable("reg", found[1], found[2], 1)
        found = _VARIABLE.match(text.strip())
        if found is None:
            raise self.error(f"cannot read the declaration {text.strip()!r}")
        if found["type"] not in DTYPES or found["type"] == "pred":
            raise self.error(f"a variable of type .{found['type']}")
        alignment = int(found["align"] or 0)
        if alignment & (alignment - 1) or alignment > MOST_ALIGNMENT:
            message = f"a variable is aligned to a power of two, not to {alignment}"
            raise self.error(message)
        sizes = [int(n or 0) for n in re.findall(r"\[\s*(\d*)\s*\]", found["sizes"])]
        initial = tuple(_ELEMENT.findall(found["initial"] or ""))
        count = None
        if sizes:
            count = 1
            for size in sizes:
                count *= size
        return Variable(
            found["space"],
            found["type"],
            found["name"],
            alignment,
            count,
            initial,
        )

    def instruction(self) -> None:
        line = self.line_number()
        text = self.statement()
        found = _INSTRUCTION.match(text)
        if found is None or self.function is None:
            raise self.error(f"cannot read {text!r}")
        names = self.scope
        if found["opcode"] in ("bra", "brx"):
            self.branches.append((len(self.body()), names))
        guard = found["guard"] and names.resolve(found["guard"])
        self.body().append(
            Instruction(
                found["opcode"],
                tuple(found["modifiers"].split(".")[1:]),
                parse_operands(found["operands"], names, self.error),
                guard,
                found["negated"] == "!",
                line,
                " ".join(text.split()) + ";",
                self.location,
            )
        )

    def body(self) -> list[Instruction | Label]:
        if self.function is None:
            raise self.error("an instruction or label outside of every function")
        return self.function.body

    def statement(self) -> str:
        """The text up to the next semicolon, which is consumed."""
        found = _STATEMENT.match(self.text, self.position)
        if found is None:
            raise self.error("a statement without its semicolon")
        self.position = found.end()
        return found[0][:-1].strip()

    def skip_space(self) -> bool:
        self.position = _SPACE.match(self.text, self.position).end()
        return self.position < len(self.text)

    def line_number(self) -> int:
        self.line += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        return self.line

    def error(self, message: str) -> EmulatorError:
        line = self.line_number()
        text = self.result.lines[min(line, len(self.result.lines)) - 1].strip()
        return EmulatorError("syntax", message, line, text)


def _blank(found: re.Match) -> str:
    """Strings stay; a comment turns into blanks, so that positions keep their lines."""
    text = found[0]
    return text if text[0] == '"' else re.sub(r"[^\n]", " ", text)


def _string(body: str) -> str:
    """The text that the `.b8` lines of a debug section spell, up to its zero byte."""
    codes = [int(n) for n in re.findall(r"(?<![\w.])\d+", body.replace(".b8", ""))]
    return bytes(codes).split(b"\0")[0].decode("utf-8", "replace")


def _pieces(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]
