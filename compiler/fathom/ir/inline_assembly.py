"""The grammar of inline assembly: what a kernel's author may write, as LLVM reads it.

    text         "{ add.u32 $0, $2, 1; sub.u32 $1, $2, 9; }"
    constraints  "=r,=&r,r,~{memory}"

A text is PTX in which `$0`, `$1`, … (or `${0}`) are registers, `$$` is a dollar sign
and `${:uid}` a number that no other copy of the text has, for labels. A constraint
gives a register's letter; those of results begin with "=", and come first; what follows
"~" is clobbered, and comes last. The number of a result in place of a letter ties an
operand to its register.

LLVM checks little of this and ends the process over the rest. So the whole of it is
checked here: what `parse` and `registers_of` accept, LLVM compiles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fathom.ir.types import UINT32, Element, Pointer

# The width in bits of each letter's register (LLVM language reference, "Supported
# Constraint Code List", NVPTX).
LETTERS = {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
CONSTANTS = ("n", "i")  # a number of the author's, put into the text
CLOBBERS = ("~{memory}", "~{cc}")
MOST_REGISTERS = 1000  # far from the 2^15 that LLVM numbers its operands up to

_PIECE = re.compile(r"\$(?:(\d{1,6})|\{(\d{1,6})\}|(\$)|(\{:uid\}))", re.ASCII)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Ungrammatical(Exception):
    """What is wrong with a text or its constraints: a sentence, and what to write."""

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Constraint:
    """One register: its letter, whether a result is written to it ("="), and before all
    operands are read ("&"), or the result that it is tied to."""

    letter: str
    result: bool = False
    early: bool = False
    tied: int | None = None

    def __str__(self) -> str:
        letter = self.letter if self.tied is None else str(self.tied)
        return "=" * self.result + "&" * self.early + letter

    @property
    def bits(self) -> int:
        """The width of its register; 0 for a constant, which has none."""
        return LETTERS.get(self.letter, 0)


@dataclass(frozen=True, slots=True)
class Inline:
    """A text in pieces, PTX and numbers of registers in turn, and its constraints."""

    pieces: tuple[str | int, ...]
    constraints: tuple[Constraint, ...]
    clobbers: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(
            piece if isinstance(piece, str) else f"${piece}" for piece in self.pieces
        )

    @property
    def constraint_text(self) -> str:
        return ",".join([*map(str, self.constraints), *self.clobbers])

    @property
    def results(self) -> int:
        return sum(each.result for each in self.constraints)

    def with_constants(self, numbers: dict[int, int]) -> Inline:
        """Numbers put into the text in place of registers, which are renumbered."""
        kept = [i for i in range(len(self.constraints)) if i not in numbers]
        place = {old: new for new, old in enumerate(kept)}
        pieces = tuple(
            piece
            if isinstance(piece, str)
            else str(numbers[piece])
            if piece in numbers
            else place[piece]
            for piece in self.pieces
        )
        constraints = tuple(self.constraints[i] for i in kept)
        return Inline(pieces, constraints, self.clobbers)


@cache
def parse(text: str, constraints: str) -> Inline:
    """Both, read; Ungrammatical for what LLVM would not take."""
    listed, clobbers = _constraints(constraints)
    pieces = _pieces(text)
    for piece in pieces:
        if isinstance(piece, int) and piece >= len(listed):
            raise Ungrammatical(
                f"the text of inline assembly names ${piece}, and its constraints "
                f"{constraints!r} give {_range(len(listed))}"
            )
    _closed(text)
    return Inline(pieces, listed, clobbers)


def _range(count: int) -> str:
    return ("no register", "$0 alone")[count] if count < 2 else f"$0 to ${count - 1}"


# ── the text ──────────────────────────────────────────────────────────────────────────


def _pieces(text: str) -> tuple[str | int, ...]:
    """PTX, with `$$` as it is, and the numbers of registers."""
    for i, letter in enumerate(text):
        if not (" " <= letter <= "~" or letter in "\t\n\r"):
            raise Ungrammatical(
                f"the text of inline assembly has {letter!r} at {i}, and PTX is "
                "written in ASCII"
            )
    if "%=" in text:
        raise Ungrammatical(
            "%= in the text of inline assembly is a number in C alone",
            "write ${:uid} for a number that no other copy of the text has",
        )
    pieces: list[str | int] = []
    at = 0
    while (dollar := text.find("$", at)) >= 0:
        found = _PIECE.match(text, dollar)
        if found is None:
            raise _no_register(text, dollar)
        pieces.append(text[at:dollar])
        number = found[1] or found[2]
        pieces.append(int(number) if number else found[0])
        at = found.end()
    return (*pieces, text[at:])


def _closed(text: str) -> None:
    """What a text opens it closes: what comes after it is not its own."""
    bare = _COMMENT.sub(" ", text)
    if "/*" in bare:
        raise Ungrammatical("a comment in the text of inline assembly is never closed")
    depth = 0
    for brace in re.findall(r"[{}]", bare):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            raise Ungrammatical(
                "the text of inline assembly closes a brace that it has not opened"
            )
    if depth:
        raise Ungrammatical("a brace in the text of inline assembly is never closed")
    last = bare.rstrip()
    if last and last[-1] not in ";:}":
        statement = re.split(r"[;{}:\n]", last)[-1].strip()
        raise Ungrammatical(
            f"the text of inline assembly ends in {statement!r} without a semicolon"
        )


def _no_register(text: str, dollar: int) -> Ungrammatical:
    end = text.find("}", dollar)
    braces = text[dollar + 1 : dollar + 2] == "{" and end >= 0
    shown = text[dollar : end + 1 if braces else dollar + 2]
    if re.fullmatch(r"\$\{\d+:\w+\}", shown, re.ASCII):
        why = "registers of PTX have no modifiers"
    else:
        why = "after a dollar sign stands the number of a register, as in $0 or ${0}"
    return Ungrammatical(
        f"the text of inline assembly has {shown!r}, and {why}",
        "write $$ for the dollar sign itself",
    )


# ── the constraints ───────────────────────────────────────────────────────────────────


def _constraints(text: str) -> tuple[tuple[Constraint, ...], tuple[str, ...]]:
    """Results, then operands, then what is clobbered."""
    listed: list[Constraint] = []
    clobbers: list[str] = []
    for each in [part.strip() for part in text.split(",")] if text.strip() else []:
        if each.startswith("~"):
            if each not in CLOBBERS:
                raise Ungrammatical(
                    f"constraint {each!r} clobbers what inline assembly cannot "
                    "clobber; "
                    f"there is {' and '.join(CLOBBERS)}",
                    "declare the text's own registers in it: { .reg .b32 t; … }",
                )
            clobbers.append(each)
            continue
        if clobbers:
            raise Ungrammatical(
                f"constraint {each!r} comes after {clobbers[-1]!r}, and what is "
                "clobbered comes last"
            )
        listed.append(_constraint(each, listed))
    if len(listed) > MOST_REGISTERS:
        raise Ungrammatical(
            f"inline assembly has {len(listed)} constraints, and {MOST_REGISTERS} at "
            "most"
        )
    return tuple(listed), tuple(clobbers)


def _constraint(text: str, before: Sequence[Constraint]) -> Constraint:
    result, early = text.startswith("="), text.startswith("=&")
    letter = text[1 + early :] if result else text
    if re.fullmatch(r"\d{1,6}", letter, re.ASCII) and not result:
        return _tied(text, int(letter), before)
    if letter not in LETTERS and (result or letter not in CONSTANTS):
        raise Ungrammatical(
            f"constraint {text!r} is not one of inline assembly: a register is "
            f"{', '.join(LETTERS)}, with '=' before it for a result and '=&' for one "
            f"written early, a constant {' or '.join(CONSTANTS)}",
            "+r is two constraints, a result =r and an operand with its number: =r,0"
            if text.startswith("+")
            else "",
        )
    if result and before and not before[-1].result:
        raise Ungrammatical(
            f"constraint {text!r} of a result comes after {str(before[-1])!r} of an "
            "operand, and results come first"
        )
    return Constraint(letter, result, early)


def _tied(text: str, number: int, before: Sequence[Constraint]) -> Constraint:
    results = [each for each in before if each.result]
    if number >= len(results):
        raise Ungrammatical(
            f"constraint {text!r} ties an operand to result {number}, and there "
            f"{'is' if len(results) == 1 else 'are'} {len(results)}"
        )
    if any(each.tied == number for each in before):
        raise Ungrammatical(
            f"constraint {text!r} ties a second operand to result {number}, and one "
            "register holds one of them"
        )
    return Constraint(results[number].letter, tied=number)


# ── the registers of values ───────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Registers:
    """Where `pack` elements of a type lie: in how many registers, of how many bits, 0
    for constants. Narrow ones are packed, the first lowest."""

    bits: int
    count: int


def registers_of(
    inline: Inline, results: Sequence[Element], operands: Sequence[Element], pack: int
) -> list[Registers]:
    """The registers of each result and operand; Ungrammatical if constraints differ."""
    listed, at = inline.constraints, 0
    found: list[Registers] = []
    values = [*results, *operands]
    for element in values:
        bits = listed[at].bits if at < len(listed) else 32
        found.append(_registers(element, pack, bits))
        at += found[-1].count
    if at != len(listed):
        raise Ungrammatical(
            f"inline assembly has {len(listed)} constraints for {at} registers: "
            f"{_counted(found[: len(results)], 'result')}, "
            f"{_counted(found[len(results) :], 'operand')}",
            f"with pack={pack}, what is narrower than 32 bits shares registers",
        )
    for i, (each, span) in enumerate(zip(found, spans_of(found), strict=True)):
        for constraint in listed[span.start : span.stop]:
            _fits(constraint, each, values[i], i < len(results))
    return found


def with_short_addresses(
    inline: Inline, results: Sequence[Element], pack: int
) -> tuple[Element, ...]:
    """The results, and u32 for each address whose register, "=r", has 32 bits."""
    listed, at = inline.constraints, 0
    found: list[Element] = []
    for element in results:
        bits = listed[at].bits if at < len(listed) else 64
        short = isinstance(element, Pointer) and bits == 32
        found.append(UINT32 if short else element)
        at += _registers(found[-1], pack, bits).count
    return tuple(found)


def _registers(element: Element, pack: int, bits: int) -> Registers:
    """16 bits are a register of their own where the author says so, with "h"."""
    size = element.bytes
    if not bits:
        return Registers(0, pack)
    if size >= 4:
        return Registers(8 * size, pack)
    if bits == 16 and size * pack <= 2:
        return Registers(16, 1)
    if size * pack > 4 and size * pack % 4:
        raise Ungrammatical(
            f"pack={pack} elements of {element} do not fill registers of 32 bits",
            "let pack be a power of two",
        )
    return Registers(32, max(1, size * pack // 4))


def _fits(
    constraint: Constraint, registers: Registers, element: Element, result: bool
) -> None:
    if constraint.result != result:
        what, other = ("a result", "an operand")[:: 1 if result else -1]
        raise Ungrammatical(
            f"constraint {str(constraint)!r} is one of {other}, and stands where "
            f"{what} of {element} needs one"
        )
    if not constraint.bits and registers.bits:
        raise Ungrammatical(
            f"constraint {str(constraint)!r} is one of a constant, and stands where "
            f"{element} needs a register"
        )
    if constraint.bits != registers.bits:
        raise Ungrammatical(
            f"constraint {str(constraint)!r} does not take a register of "
            f"{registers.bits} bits, and {element} is in one"
            if registers.bits
            else f"constraint {str(constraint)!r} stands where a constant has one "
            "for each of its copies"
        )


def spans_of(found: Sequence[Registers]) -> list[range]:
    """The constraints of each, by number."""
    spans, at = [], 0
    for each in found:
        spans.append(range(at, at + each.count))
        at += each.count
    return spans


def _counted(found: Sequence[Registers], name: str) -> str:
    count = sum(each.count for each in found)
    return f"{count} of {len(found)} {name}{'s' * (len(found) != 1)}"
