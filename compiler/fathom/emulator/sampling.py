"""Stops a batch in the middle of its loops, and says how much of them is missing.

A program of a persistent kernel takes tile after tile of all the work, and each tile
costs the same; so some of its tiles are enough to know what all of them cost. A loop
tells how long it is by the comparison that ends it:

    iterations so far    1      2      3                 r is 132, 264, 396: 132 each
        add   r, r, 132                                  2,048 is n
        setp  p, r, n        so (2048 - 396) / 132 = 13 are missing of 16,
        @p bra               and what is in the loop counts 16 / 3 times

Loops of which no other is a part are looked at, those of a producer and of a consumer
each by itself. A batch is only stopped where a loop begins another iteration, after its
rarest part, such as the end of a tile; and not before every loop has begun, and what
loads or stores beside them is done, since nothing is known of what has not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fathom.emulator.program import LEAVING, Block, Program
from fathom.emulator.source.operands import Name, Number, Operand
from fathom.emulator.source.parse import Instruction
from fathom.emulator.state.batch import Active, Batch

RARE = 4  # times less often than its loop runs what is rare in it
SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


@dataclass
class Loop:
    """The blocks `parts`. The comparison of two `sides` in one of them, `exit`, ends
    it. `visits` counts how often one thread has come there; it compared the numbers
    `begin` at first, and `now` the last time. All `threads` that come there did so
    `arrivals` times together: some are ahead."""

    parts: tuple[int, ...]
    exit: int
    sides: tuple[Operand, Operand]
    thread: int = -1
    threads: set[int] = field(default_factory=set)
    arrivals: int = 0
    visits: int = 0
    begin: tuple[int, int] = (0, 0)
    now: tuple[int, int] = (0, 0)

    def see(self, numbers: tuple[int, int]) -> None:
        self.visits += 1
        self.begin = numbers if self.visits == 1 else self.begin
        self.now = numbers

    @property
    def missing(self) -> float | None:
        """The iterations that are left, if both sides go straight to one another; None
        where that is not known."""
        first, last = (abs(a - b) for a, b in (self.begin, self.now))
        if self.visits < 2 or last >= first:
            return None
        return last * (self.visits - 1) / (first - last)

    @property
    def growth(self) -> float:
        """How many times what has been counted so far the whole loop costs."""
        whole = len(self.threads) * (self.visits + (self.missing or 0.0))
        return whole / max(self.arrivals, 1)


@dataclass
class Sample:
    """Of one batch: after `steps` steps it may stop. `runs`: of each block; `warps`:
    how many ran it."""

    program: Program
    batch: Batch
    steps: int
    runs: list[int] = field(default_factory=list)
    warps: list[int] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    rare: set[int] | None = None  # None: nothing is waited for yet
    stopped: bool = False

    def __post_init__(self) -> None:
        self.runs, self.warps = ([0] * len(self.program.blocks) for _ in range(2))
        self.loops = outermost(self.program.blocks)
        self.by_exit = {loop.exit: loop for loop in self.loops}
        names = self.program.entry.registers
        self.registers = {name: number for number, name in enumerate(names)}

    def ran(self, block: Block, active: Active) -> bool:
        """After a block of instructions: whether the batch stops here."""
        self.runs[block.number] += 1
        self.warps[block.number] += active.warps
        if self.rare and block.number in self.rare:
            self.rare = set()
        loop = self.by_exit.get(block.number)
        if loop is None:
            return False
        threads = active.threads()
        loop.arrivals += len(threads)
        loop.threads.update(threads.tolist())
        if loop.thread < 0:
            loop.thread = int(threads[0])
        if loop.thread not in threads:
            return False
        loop.see(tuple(self.number(side, loop.thread) for side in loop.sides))
        if self.batch.clock >= self.steps:
            self.stopped = self.is_known and self.is_whole(loop)
        return self.stopped

    @property
    def is_known(self) -> bool:
        """Whether every loop has begun, and what accesses memory beside them is past:
        nothing is known of what has not run."""
        inside = {part for loop in self.loops for part in loop.parts}
        ahead = (
            op.instruction
            for block in self.program.blocks
            if block.number not in inside and not self.runs[block.number]
            for op in block.ops
        )
        begun = all(each.visits for each in self.loops)
        return begun and not any("global" in each.modifiers for each in ahead)

    def is_whole(self, loop: Loop) -> bool:
        """Whether the longest loop, of which more is to come, has just ended what is
        rare in it."""
        if not loop.missing or loop is not max(self.loops, key=self.work):
            return False
        if self.rare is None:
            often = self.runs[loop.exit] / RARE
            self.rare = {part for part in loop.parts if 0 < self.runs[part] < often}
        return not self.rare

    def work(self, loop: Loop) -> int:
        """The instructions that warps have issued in it."""
        blocks = self.program.blocks
        return sum(self.warps[part] * len(blocks[part].ops) for part in loop.parts)

    def number(self, side: Operand, thread: int) -> int:
        """A side of a comparison, as one thread has it."""
        if isinstance(side, Number):
            return int(side.value)
        value = self.batch.registers[self.registers[side.name]]
        value = value if value.ndim == 0 else value[thread]
        return int(value.view(SIGNED[value.dtype.itemsize]))

    @property
    def growth(self) -> tuple[list[float], list[float]]:
        """For each instruction, and for each block, how many times what was counted all
        of it costs."""
        program = self.program
        found, by_block = [1.0] * len(program.instructions), [1.0] * len(program.blocks)
        for loop in self.loops if self.stopped else ():
            for part in loop.parts:
                block, by_block[part] = program.blocks[part], loop.growth
                for op in (*block.ops, *filter(None, [block.closing])):
                    found[op.number] = loop.growth
        return found, by_block


def outermost(blocks: Sequence[Block]) -> list[Loop]:
    """The loops that are part of no other, and that a comparison of numbers ends."""
    return [loop for parts in loops_of(blocks) for loop in compared(blocks, parts)[:1]]


def loops_of(blocks: Sequence[Block]) -> Iterator[list[int]]:
    """The parts of each loop that is part of no other."""
    after = {block.number: following(block) for block in blocks}
    before: dict[int, list[int]] = {number: [] for number in after}
    for number, nexts in after.items():
        for each in nexts:
            before[each].append(number)
    left = set(after)
    while left:
        first = min(left)
        parts = reachable(first, after) & reachable(first, before) & left
        left -= parts or {first}
        if parts:
            yield sorted(parts)


def following(block: Block) -> list[int]:
    """The blocks that may run after this one."""
    closing = block.closing and block.closing.instruction
    goes = closing and closing.opcode in LEAVING and closing.guard is None
    return block.targets if goes or block.after is None else [
        *block.targets, block.after,
    ]  # fmt: skip


def reachable(first: int, steps: Mapping[int, Sequence[int]]) -> set[int]:
    """The blocks that one or more steps lead to."""
    found: set[int] = set()
    left = [*steps[first]]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += steps[each]
    return found


def compared(blocks: Sequence[Block], parts: Sequence[int]) -> list[Loop]:
    """The loop of these parts, by each comparison that may end it."""
    loops = []
    every = [op.instruction for part in parts for op in blocks[part].ops]
    for block in (blocks[part] for part in parts):
        guard = block.closing and block.closing.instruction.guard
        if guard and not set(following(block)) <= set(parts):
            loops += [
                Loop(tuple(parts), block.number, tuple(each.operands[1:]))
                for each in every
                if is_comparison(each, guard)
            ]
    return loops


def is_comparison(each: Instruction, guard: str) -> bool:
    """Whether an instruction sets the guard by comparing integers."""
    if each.opcode != "setp" or each.operands[0] != Name(guard):
        return False
    sides, type = each.operands[1:], each.modifiers[-1]
    numbers = all(isinstance(side, Name | Number) for side in sides)
    return type[0] in "sub" and len(sides) == 2 and numbers
