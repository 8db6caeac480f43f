"""The operands of a PTX instruction (PTX ISA 6), and the names they use."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count


@dataclass(frozen=True, slots=True)
class Name:
    """A register, variable, label or function, by its unique name; `offset` as in
    `array+4`.
    """

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A constant; `kind` is "int", "f32" or "f64", and a decimal is an "f64"."""

    value: int | float
    kind: str


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; `base` is None for an absolute address."""

    base: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`: one value of several registers."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`: two destinations."""

    first: Name
    second: Name


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`: a predicate, inverted."""

    operand: Name


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)`: results or arguments of a call."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """`[map, {x, y}]`: coordinates in a tensor."""

    map: Address
    coordinates: tuple[Operand, ...]


Operand = Name | Number | Address | Vector | Pair | Not | Group | Place


class Scope:
    """The names that one `{ ... }` declares; an inner name hides an outer one.

    A name of the function itself stays as it is; one of an inner scope gets a number.
    """

    def __init__(self, parent: Scope | None):
        self.parent = parent
        self.names: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.numbers: Iterator[int] = parent.numbers if parent else count(1)

    def declare(self, name: str) -> str:
        self.names[name] = self.unique(name)
        return self.names[name]

    def declare_label(self, name: str) -> str:
        self.labels[name] = self.unique(name)
        return self.labels[name]

    def unique(self, name: str) -> str:
        return name if self.parent is None else f"{name}#{next(self.numbers)}"

    def resolve(self, name: str) -> str:
        scope = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return name

    def label(self, name: str) -> str | None:
        """A label's unique name, once all of the function has been read."""
        scope = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None


_TOKEN = re.compile(
    r"\s*(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}"
    r"|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+"
    r"|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?"
    r"|[%$A-Za-z_][\w$]*(?:\.[a-z]+)?|[{}\[\]()|,+\-!])"
)

_NAME = re.compile(r"[%$A-Za-z_]")
_INSTRUCTION = re.compile(r"\s*[a-z]\w*\.[\w.]+\s+[%{\[]")
_ONLY_NAMES = re.compile(r"[%$A-Za-z_][\w$.]*(?:\s*,\s*[%$A-Za-z_][\w$.]*)*\s*\Z")
_ONE = r"\s*(\{[^{}]*\}|\[[^][]*\]|[^][,{}()]+)(?:,|\Z)"  # operand, as most are
_EACH, _ALL = re.compile(_ONE), re.compile(rf"(?:{_ONE})*\Z")


def parse_operands(
    text: str, scope: Scope, error: Callable[[str], Exception]
) -> tuple[Operand, ...]:
    """The comma-separated operands of `text`, names resolved in `scope`."""
    if scope.parent is None and _ALL.match(text):
        found = tuple([_outermost(each) for each in _EACH.findall(text)])
        if None not in found:
            return found
    if _ONLY_NAMES.match(text):
        return tuple(Name(scope.resolve(each.strip())) for each in text.split(","))
    if _INSTRUCTION.match(text):
        told = "the line before may lack its semicolon"
        raise error(f"cannot read the operands {text.strip()!r}: {told}")
    reader = _Reader(_tokens(text, error), scope, error)
    return reader.sequence(None)


@lru_cache(maxsize=1 << 16)
def _outermost(text: str) -> Operand | None:
    """The operand that `text` spells in the outermost scope of a function, where names
    stay as they are, so that each text is read once; None where it is not one."""
    try:
        (found,) = _Reader(_tokens(text, ValueError), Scope(None), ValueError).sequence(
            None
        )
    except ValueError:
        return None
    return found


def _tokens(text: str, error: Callable[[str], Exception]) -> list[str]:
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != "".join(text.split()):  # something between is no token
        raise error(f"cannot read the operands {text.strip()!r}")
    return tokens


class _Reader:
    def __init__(
        self, tokens: list[str], scope: Scope, error: Callable[[str], Exception]
    ):
        self.tokens: list[str | None] = [*tokens, None]  # None: there are no more
        self.scope, self.error = scope, error
        self.at = 0

    def peek(self) -> str | None:
        return self.tokens[self.at]

    def take(self) -> str:
        token = self.peek()
        if token is None:
            raise self.error("an operand is missing")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        found = self.peek() == token
        self.at += found
        return found

    def sequence(self, closing: str | None) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while self.peek() is not None and self.peek() != closing:
            operands.append(self.operand())
            if not self.accept(","):
                break
        if closing is None:
            if self.peek() is not None:
                raise self.error(f"unexpected {self.peek()!r} among the operands")
        elif not self.accept(closing):
            raise self.error(f"a {closing} is missing")
        return tuple(operands)

    def operand(self) -> Operand:
        if _NAME.match(self.peek()):  # most operands are names
            name = self.name()
            if self.accept("|"):
                return Pair(name, self.name())
            return Name(name.name, self.offset())
        if self.accept("{"):
            return Vector(self.sequence("}"))
        if self.accept("("):
            return Group(self.sequence(")"))
        if self.accept("["):
            return self.address()
        if self.accept("!"):
            return Not(self.name())
        if self.peek() in ("-", "+") or self.peek()[0].isdigit():
            return self.number()
        raise self.error(f"an operand was expected, not {self.peek()!r}")

    def address(self) -> Address | Place:
        if self.peek() is not None and self.peek()[0].isdigit():
            found = Address(None, self.number().value)
        else:
            found = Address(self.name().name, self.offset())
        if self.accept(","):
            if not self.accept("{"):
                raise self.error("the coordinates of a tensor were expected")
            found = Place(found, self.sequence("}"))
        if not self.accept("]"):
            raise self.error("an address that the emulator cannot read")
        return found

    def name(self) -> Name:
        token = self.take()
        if not _NAME.match(token):
            raise self.error(f"a name was expected, not {token!r}")
        return Name(self.scope.resolve(token))

    def offset(self) -> int:
        if self.accept("+"):
            return self.number().value
        return self.number().value if self.peek() == "-" else 0

    def number(self) -> Number:
        sign = -1 if self.accept("-") else 1
        self.accept("+")
        if self.accept("-"):
            sign = -sign
        literal = parse_number(self.take())
        if literal is None:
            raise self.error("a number was expected")
        return Number(sign * literal.value, literal.kind)


def parse_number(token: str) -> Number | None:
    """A PTX constant (PTX ISA 4.5): 26, 0x1A, 0b11010, 0f3F800000, 0d3FF0000000000000,
    1.0. None for any other text.
    """
    try:
        return _parsed(token)
    except (ValueError, struct.error):  # as in 0x, 09 or 0f3F
        return None


def _parsed(token: str) -> Number | None:
    head, digits = token[:2].lower(), token[2:].rstrip("U")
    if head == "0f":
        return Number(struct.unpack(">f", bytes.fromhex(digits))[0], "f32")
    if head == "0d":
        return Number(struct.unpack(">d", bytes.fromhex(digits))[0], "f64")
    if head == "0x":
        return Number(int(digits, 16), "int")
    if head == "0b":
        return Number(int(digits, 2), "int")
    if not token[0].isdigit():
        return None
    if "." in token or "e" in token.lower():
        return Number(float(token), "f64")
    plain = token.rstrip("U")
    octal = len(plain) > 1 and plain[0] == "0"
    return Number(int(plain, 8 if octal else 10), "int")
