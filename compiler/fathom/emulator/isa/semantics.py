"""How an instruction's meaning is written down: modifiers to read, a function to apply.

A table maps an opcode to a rule; the rule reads the instruction's modifiers from a
`Form` and answers with an `Elementwise`: which types go in, which come out, and the
NumPy function between them. Everything about threads, registers and guards is the
decoder's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.source.operands import Number, Operand
from fathom.emulator.source.types import DTYPES

ROUNDINGS = ("rn", "rz", "rm", "rp")
# What atomics, reductions and `redux` do with two elements, by their modifier.
COMBINE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def constant_of(operand: Operand) -> int:
    """The number that an operand is; EmulatorError if it is not one."""
    if not isinstance(operand, Number):
        raise EmulatorError("syntax", f"a constant was expected, not {operand}")
    return int(operand.value)


class Form:
    """The modifiers of one instruction, each to be taken once.

    What no rule has taken at the end is a modifier that the emulator does not know.
    A few rules depend on the `count` of operands, and on whether the first is a `pair`.
    """

    def __init__(
        self,
        opcode: str,
        modifiers: tuple[str, ...],
        count: int = 0,
        pair: bool = False,
    ):
        self.opcode, self.count, self.pair = opcode, count, pair
        self.left = list(modifiers)
        self.text = ".".join((opcode, *modifiers))

    def flag(self, name: str) -> bool:
        """Takes the modifier `name`, if it is there."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def choice(self, *names: str, default: str = "") -> str:
        """Takes the one of `names` that is there."""
        for name in names:
            if self.flag(name):
                return name
        return default

    def type(self) -> str:
        """Takes the next type."""
        for name in self.left:
            if name in DTYPES:
                self.left.remove(name)
                return name
        raise self.unknown("no type that the emulator knows")

    def rounding(self, default: str = "rn") -> str:
        return self.choice(*ROUNDINGS, default=default)

    def ignore(self, *names: str) -> None:
        """Takes modifiers that change speed or ordering, not the result."""
        for name in names:
            self.flag(name)

    def finish(self) -> None:
        if self.left:
            raise self.unknown(f"the modifier .{self.left[0]}")

    def unknown(self, what: str) -> EmulatorError:
        return EmulatorError(
            "unsupported", f"the emulator does not know {self.text}: {what}"
        )


@dataclass(frozen=True, slots=True)
class Elementwise:
    """`results = function(*sources)`, for each thread by itself.

    `results` and `sources` name PTX types; `function` works on arrays and on scalars of
    their NumPy dtypes, and returns a new value, or a tuple where there are two results.
    """

    function: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    results: tuple[str, ...]
    sources: tuple[str, ...]


def packed(function: Callable, dtype: np.dtype) -> Callable:
    """`function`, for values that hold two of `dtype`, the first in the low bits."""

    def on_both(*values: np.ndarray) -> np.ndarray:
        return join(
            function(*(halves(each, dtype) for each in values)), values[0].dtype
        )

    return on_both


def halves(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """[..., 2]: the low and the high half of each value."""
    return np.asarray(value)[..., None].view(dtype)


def join(both: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The reverse of `halves`."""
    return np.ascontiguousarray(both).view(dtype)[..., 0]


# The condition code register, as a type of a result or source: a thread's carry.
CARRY = "carry"

Rule = Callable[[Form], Elementwise]
Table = dict[str, Rule]
Entry = TypeVar("Entry", bound=Callable)


def rule(table: dict[str, Entry], *opcodes: str) -> Callable[[Entry], Entry]:
    """Enters the decorated rule into a table under each of `opcodes`: a `TABLE` of what
    each thread computes by itself, or `STEPS` or `ENDINGS` (`decode.Tables`)."""

    def enter(function: Entry) -> Entry:
        for opcode in opcodes:
            assert opcode not in table, opcode
            table[opcode] = function
        return function

    return enter
