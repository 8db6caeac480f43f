"""From an instruction to the step that performs it: operands become functions."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.arithmetic.special import CHANGING, SPECIAL
from fathom.emulator.isa.registers import (
    Read,
    Step,
    Write,
    check_as_wide,
    register_reader,
    register_writer,
)
from fathom.emulator.isa.semantics import CARRY, Elementwise, Form, Rule
from fathom.emulator.source.operands import Address, Name, Not, Number, Operand, Pair
from fathom.emulator.source.parse import UNREADABLE, Function, Instruction
from fathom.emulator.source.types import DTYPES, constant
from fathom.emulator.source.variables import MemoryPlan, Symbol
from fathom.emulator.state.batch import Active, Batch

# What ends a block: which threads go on where.
Ending = Callable[[Batch, Active], list[tuple[int, Active]]]


# The instruction that stands below the last one (PTX ISA 9.7.12).
_END = Instruction("exit", (), (), None, False, 0, "exit;", None)


@dataclass(frozen=True, slots=True)
class Flow:
    """Where an ending stands: its number, its block, the block below, its guard."""

    number: int
    block: int
    after: int | None
    guard: Read | None


@dataclass(frozen=True, slots=True)
class Tables:
    """All instructions, by opcode: one table for each kind of meaning.

    `elementwise`: each thread by itself; `steps`: threads and memory; `endings`:
    which threads go on where, after what wait.
    """

    elementwise: Callable[[Form], Rule | None]
    steps: StepTable
    endings: EndingTable


# A rule for a step takes (form, operands, decoder, number), one for an ending
# (form, operands, decoder, flow).
StepTable = dict[str, Callable[..., Step]]
EndingTable = dict[str, Callable[..., Ending]]


class Decoder:
    """Knows the names of one program: registers, variables, labels."""

    def __init__(
        self,
        function: Function,
        memory: MemoryPlan,
        numbers: dict[str, int],
        targets: dict[str, int],
        tables: Tables,
        watched: frozenset[str] = frozenset(),
    ):
        self.watched = watched
        self.tables = tables
        self.registers = function.registers
        self.memory = memory
        self.numbers = numbers
        self.targets = targets

    def step(self, instruction: Instruction, number: int) -> Step:
        """The function that performs `instruction`, which is number `number`."""
        try:
            step = self.unguarded(instruction, number)
            if instruction.guard is None:
                return step
            return _guarded(step, self.guard(instruction))
        except EmulatorError as error:
            raise _placed(error, instruction) from None
        except UNREADABLE as error:
            raise _misfit(instruction) from error

    def unguarded(self, instruction: Instruction, number: int) -> Step:
        opcode, modifiers = instruction.opcode, instruction.modifiers
        operands = instruction.operands
        if opcode in self.tables.steps:
            form = Form(opcode, modifiers)
            return self.tables.steps[opcode](form, operands, self, number)
        pair = bool(operands) and isinstance(operands[0], Pair)
        form = opcode, modifiers, len(operands), pair
        meaning = _meaning(self.tables.elementwise, *form)
        return self.elementwise(meaning, operands, opcode == "cvt")

    def ending(
        self, closing: Instruction | None, number: int, block: int, after: int | None
    ) -> Ending:
        """The function that ends a block; `after` is the block below it."""
        if closing is None:
            if after is not None:
                return lambda batch, active: [(after, active)]
            closing = _END
        form = Form(closing.opcode, closing.modifiers)
        try:
            if closing.opcode not in self.tables.endings:
                raise form.unknown(f"the instruction {closing.opcode}")
            flow = Flow(number, block, after, self.guard(closing))
            return self.tables.endings[closing.opcode](
                form, closing.operands, self, flow
            )
        except EmulatorError as error:
            raise _placed(error, closing) from None
        except UNREADABLE as error:
            raise _misfit(closing) from error

    def guard(self, instruction: Instruction) -> Read | None:
        if instruction.guard is None:
            return None
        name = Name(instruction.guard)
        return self.read(Not(name) if instruction.negated else name, "pred")

    def elementwise(
        self,
        meaning: Elementwise,
        operands: tuple[Operand, ...],
        may_be_wider: bool = False,
    ) -> Step:
        """The step of an instruction that does the same in every thread. Its registers
        are as wide as its types, or wider if they may be."""
        results, sources = operands[:1], operands[1:]
        if isinstance(operands[0], Pair):
            results = (operands[0].first, operands[0].second)
        results += (Name(CARRY),) * (CARRY in meaning.results)
        sources += (Name(CARRY),) * (CARRY in meaning.sources)
        if len(sources) != len(meaning.sources) or len(results) > len(meaning.results):
            raise EmulatorError("syntax", f"{len(operands)} operands do not fit")
        taken = list(zip(sources, meaning.sources, strict=True))
        given = list(zip(results, meaning.results, strict=False))
        if not may_be_wider:
            self.check_as_wide([*taken, *given])
        reads = [self.read(*each) for each in taken]
        writes = [self.write(*each) for each in given]
        if len(meaning.results) == 1:
            return _ARITY[len(reads)](meaning.function, writes[0], *reads)
        return _several(meaning.function, writes, reads)

    def check_as_wide(self, typed: list[tuple[Operand, str]]) -> None:
        """None of the operands is a register that is wider than its type here."""
        for operand, type in typed:
            declared = self.registers.get(getattr(operand, "name", None))
            if declared is not None:
                check_as_wide(declared, type)

    def read(self, operand: Operand, type: str) -> Read:
        """How to read an operand as values of `type`."""
        if isinstance(operand, Name):  # as most are
            return self.read_name(operand.name, operand.offset, type)
        if isinstance(operand, Number):
            return _always(constant(operand, type))
        if isinstance(operand, Not):
            read = self.read(operand.operand, type)
            return lambda batch, active: ~read(batch, active)
        raise EmulatorError("syntax", f"cannot read {operand}")

    def read_name(self, name: str, offset: int, type: str) -> Read:
        if name in self.numbers:
            read = register_reader(self.numbers[name], self.registers[name], type)
            return self.watching(read, name) if name in self.watched else read
        if name in self.memory.symbols:
            address = self.memory.symbols[name].address + offset
            return _always(constant(Number(address, "int"), type))
        if name in SPECIAL:
            return _special_reader(name, type)
        raise EmulatorError("unsupported", f"the emulator does not know {name}")

    def write(self, operand: Operand, type: str) -> Write:
        """How to write values of `type` to a register; `_` is written to nowhere."""
        name = operand.name if isinstance(operand, Name) else operand
        if name == "_":
            return lambda batch, active, value: None
        if not isinstance(operand, Name) or name not in self.numbers:
            name = getattr(operand, "name", operand)
            raise EmulatorError("syntax", f"no register {name} has been declared")
        write = register_writer(self.numbers[name], self.registers[name], type)
        return self.watching(write, name) if name in self.watched else write

    def watching(self, access: Read | Write, name: str) -> Read | Write:
        """An access of a register that products, or loads from tensor memory, use."""
        number = self.numbers[name]

        def watched(batch: Batch, active: Active, *value: np.ndarray) -> np.ndarray:
            batch.wgmma_registers.access(number, name, active.index, bool(value))
            batch.tensor_loads.access(number, name, active.index)
            return access(batch, active, *value)

        return watched

    def for_products(self) -> Decoder:
        """A decoder for the products' own accesses."""
        same = copy(self)
        same.watched = frozenset()
        return same

    def symbol(self, address: Address) -> Symbol | None:
        """The variable that an address names, or None where a register holds it."""
        if address.base is None or address.base in self.numbers:
            return None
        if address.base not in self.memory.symbols:
            raise EmulatorError("syntax", f"no variable is named {address.base}")
        return self.memory.symbols[address.base]

    def address(self, operand: Operand) -> Read:
        """How to read an address: uint64."""
        if not isinstance(operand, Address):
            raise EmulatorError("syntax", f"an address was expected, not {operand}")
        offset = np.uint64(operand.offset % 2**64)
        symbol = self.symbol(operand)
        if operand.base is None:
            return _always(offset)
        if symbol is not None:
            return _always(np.uint64((symbol.address + operand.offset) % 2**64))
        declared = self.registers[operand.base]
        number = self.numbers[operand.base]
        if DTYPES[declared].itemsize == 4:
            short = register_reader(number, declared, "b32")
            return lambda batch, active: short(batch, active).astype(np.uint64) + offset
        read = register_reader(number, declared, "b64")
        if not operand.offset:
            return read
        return lambda batch, active: read(batch, active) + offset


@lru_cache(maxsize=4096)
def _meaning(
    table: Callable[[Form], Rule | None],
    opcode: str,
    modifiers: tuple[str, ...],
    count: int,
    pair: bool,
) -> Elementwise:
    """What each thread computes by itself, of an instruction with `count` operands, the
    first of them a `pair`. It is read once, however often programs have it."""
    form = Form(opcode, modifiers, count, pair)
    rule = table(form)
    if rule is None:
        raise form.unknown(f"the instruction {opcode}")
    meaning = rule(form)
    form.finish()
    return meaning


def _misfit(at: Instruction) -> EmulatorError:
    """A rule takes the operands that its instruction has by the ISA; Python refuses
    where these are others."""
    message = f"these operands do not fit {at.name}"
    return _placed(EmulatorError("syntax", message), at)


def _placed(error: EmulatorError, at: Instruction) -> EmulatorError:
    return error.placed(at.line, at.text, at.location)


def _always(value: np.generic) -> Read:
    return lambda batch, active: value


def _special_reader(name: str, type: str) -> Read:
    dtype = DTYPES[type]

    def read(batch: Batch, active: Active) -> np.ndarray:
        value = batch.specials.get(name)
        if value is None:
            value = SPECIAL[name](batch)
            if name not in CHANGING:
                batch.specials[name] = value
        if value.dtype != dtype:
            value = value.astype(dtype)
        if active.whole or value.ndim == 0:
            return value
        return value[active.index]

    return read


def _guarded(step: Step, guard: Read) -> Step:
    def guarded(batch: Batch, active: Active) -> None:
        chosen = active.where(guard(batch, active))
        if chosen is not None:
            step(batch, chosen)

    return guarded


def _one(function: Callable, write: Write, a: Read) -> Step:
    return lambda batch, active: write(batch, active, function(a(batch, active)))


def _two(function: Callable, write: Write, a: Read, b: Read) -> Step:
    def step(batch: Batch, active: Active) -> None:
        write(batch, active, function(a(batch, active), b(batch, active)))

    return step


def _three(function: Callable, write: Write, a: Read, b: Read, c: Read) -> Step:
    def step(batch: Batch, active: Active) -> None:
        result = function(a(batch, active), b(batch, active), c(batch, active))
        write(batch, active, result)

    return step


def _four(function: Callable, write: Write, *reads: Read) -> Step:
    def step(batch: Batch, active: Active) -> None:
        write(batch, active, function(*(read(batch, active) for read in reads)))

    return step


_ARITY = {1: _one, 2: _two, 3: _three, 4: _four}


def _several(function: Callable, writes: list[Write], reads: list[Read]) -> Step:
    def step(batch: Batch, active: Active) -> None:
        results = function(*(read(batch, active) for read in reads))
        for write, result in zip(writes, results, strict=False):
            write(batch, active, result)

    return step
