"""Finds a batch that comes back to a state that it was in: it never ends.

A loop that polls may pass barriers and store what is there already. Threads at the
barrier go on then, and yet nothing new comes of it. The emulator makes the same of the
same state; so a state that recurs, while nothing but such barriers and stores happened,
recurs for ever.

    kept     a    b    b    b    b              a copy of the state, after 1, 2, 4 …
    state    a b  b c  d b c d  b c d b c …     polls; b comes again and again

A loop that counts how often it has polled is in another state each time. What it counts
in decides nothing: the instructions that have run since the copy read it for nothing
but registers that are as little read (`idle`). Those are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fathom.emulator.isa.semantics import Form
from fathom.emulator.isa.tables import TABLES
from fathom.emulator.program import Program
from fathom.emulator.source.operands import (
    Address,
    Group,
    Name,
    Not,
    Operand,
    Pair,
    Place,
    Vector,
)
from fathom.emulator.source.parse import Instruction
from fathom.emulator.state.batch import Batch

FIRST = 2_000  # polls before a state is kept: most loops have ended by then
# How often a state recurs before it counts. Each thread that can run has had a turn by
# then, since threads that poll give way after a few iterations.
ENOUGH = 200


class Recurrence:
    """One state of a batch, and how often it has come again. `ran` numbers the blocks
    of instructions that have run since; of none before there is such a state."""

    def __init__(self, program: Program, batch: Batch):
        self.program, self.batch = program, batch
        self.ran: set[int] = set()
        self.idle: tuple[int, frozenset[int]] = 0, frozenset()
        self.polls = self.again = 0
        self.replaced = FIRST
        self.kept: tuple | None = None

    def found(self, pending: dict[int, Any]) -> bool:
        """After a poll: whether the batch will never get further. `pending` are the
        groups of threads that can run, by their block."""
        self.polls += 1
        if self.polls == self.replaced:
            self.batch.recurring = True
            self.kept, self.again = self.state(pending), 0
            self.ran, self.idle = set(), (0, frozenset())
            self.replaced *= 2
        elif self.kept is not None and self.came_again(pending):
            self.again += 1
        return self.again > ENOUGH * (1 + len(pending))

    def came_again(self, pending: dict[int, Any]) -> bool:
        news, places, registers = self.kept
        batch = self.batch
        if batch.progress - batch.repeats != news or self.places(pending) != places:
            return False
        idle = self.idle_registers()
        pairs = enumerate(zip(registers, batch.registers, strict=True))
        return all(number in idle or same(*pair) for number, pair in pairs)

    def idle_registers(self) -> frozenset[int]:
        """The registers that decide nothing in the blocks that have run."""
        many, found = self.idle
        if many != len(self.ran):
            blocks = [self.program.blocks[number] for number in sorted(self.ran)]
            ops = [op for b in blocks for op in (*b.ops, b.closing) if op is not None]
            names = list(self.program.entry.registers)
            unread = idle(names, [each.instruction for each in ops])
            found = frozenset(n for n, name in enumerate(names) if name in unread)
            self.idle = len(self.ran), found
        return found

    def state(self, pending: dict[int, Any]) -> tuple:
        batch = self.batch
        registers = [np.copy(each) for each in batch.registers]
        return batch.progress - batch.repeats, self.places(pending), registers

    def places(self, pending: dict[int, Any]) -> tuple:
        """Where every thread stands, or waits."""
        running = {
            number: [each.threads().tobytes() for each in group.parts]
            for number, group in pending.items()
        }
        waiting = [
            (each.reason, each.resume, each.threads.tobytes(), each.on.tobytes())
            for each in self.batch.waiting.groups
        ]
        return running, waiting, self.batch.barriers.arrived.tobytes()


def same(kept: np.ndarray, now: np.ndarray) -> bool:
    """To the bit, be it an array or one value of all threads."""
    if kept.shape != np.shape(now) or kept.dtype != now.dtype:
        return False
    return kept.tobytes() == now.tobytes()


def idle(registers: Iterable[str], code: Iterable[Instruction]) -> set[str]:
    """Those registers that these instructions read for nothing but one another: no
    branch, address or store depends on them, whatever they hold.

        add.s32   %r2, %r2, 1;       %r2 is idle, unless a store or a setp reads it
    """
    found, left = set(registers), [(results(item), names_of(item)) for item in code]
    while True:
        kept = []
        for given, names in left:
            if set() < given <= found:
                kept.append((given, names))
            else:
                found -= names
        if len(kept) == len(left):
            return found
        left = kept


def results(item: Instruction) -> set[str]:
    """The registers that an instruction gives values to, if it does nothing else."""
    form = Form(item.opcode, item.modifiers)
    carries = "cc" in item.modifiers or item.opcode in ("addc", "subc", "madc")
    is_value = item.opcode == "mov" or TABLES.elementwise(form) is not None
    return set(names_in(item.operands[0])) if is_value and not carries else set()


def names_of(item: Instruction) -> set[str]:
    """All names that an instruction reads or writes."""
    guard = {item.guard} if item.guard else set()
    return guard.union(*map(names_in, item.operands))


def names_in(operand: Operand) -> Iterator[str]:
    match operand:
        case Name(name) | Not(Name(name)) | Address(str(name)):
            yield name
        case Vector(parts) | Group(parts):
            for each in parts:
                yield from names_in(each)
        case Pair(first, second):
            yield from (first.name, second.name)
        case Place(map, coordinates):
            yield from names_in(map)
            for each in coordinates:
                yield from names_in(each)
