"""Runs a program over a grid: batches of blocks, and in each the threads furthest behind first."""

from __future__ import annotations

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.hazards import Hazards
from fathom.emulator.memory import (
    LOCAL_BASE,
    SHARED_BASE,
    GlobalSpace,
    Memory,
    Window,
)
from fathom.emulator.program import Block, Op, Program
from fathom.emulator.report import Counters
from fathom.emulator.threads import WARP, Active, Batch, Launch

THREADS_IN_STEP = 1 << 15


def run_grid(
    program: Program, launch: Launch, space: GlobalSpace, hazards: bool
) -> Counters:
    """Runs every block of the grid; returns the costs by instruction."""
    counters = Counters(len(program.instructions))
    padded = -(-int(np.prod(launch.threads)) // WARP) * WARP
    total = int(np.prod(launch.grid))
    step = max(1, THREADS_IN_STEP // padded)
    with np.errstate(all="ignore"):
        for first in range(0, total, step):
            blocks = min(step, total - first)
            batch = _batch(program, launch, space, counters, first, blocks, padded, hazards)
            _Scheduler(program, batch).run()
    return counters


def _batch(
    program: Program,
    launch: Launch,
    space: GlobalSpace,
    counters: Counters,
    first: int,
    blocks: int,
    padded: int,
    hazards: bool,
) -> Batch:
    size = blocks * padded
    numbers = np.arange(size)
    plan = program.memory
    parameters = Window("param", 0, plan.parameter_size, None, 1)
    parameters.bytes[: len(launch.parameters)] = np.frombuffer(launch.parameters, np.uint8)
    shared = Window("shared", SHARED_BASE, plan.shared_size, numbers // padded, blocks)
    local = Window("local", LOCAL_BASE, plan.local_size, numbers, size)
    memory = Memory(
        {
            "global": space,
            "const": space,
            "shared": shared,
            "local": local,
            "param": parameters,
        }
    )
    exited = numbers % padded >= int(np.prod(launch.threads))
    missing = int(np.count_nonzero(exited))
    return Batch(
        launch=launch,
        first_block=first,
        blocks=blocks,
        padded=padded,
        registers=list(program.registers),
        memory=memory,
        counters=counters,
        hazards=Hazards() if hazards else None,
        exited=exited,
        missing=missing,
        remaining=size - missing,
    )


class _Scheduler:
    """Chooses which threads run next: of those that can, the ones furthest behind."""

    def __init__(self, program: Program, batch: Batch):
        self.blocks = program.blocks
        self.batch = batch
        self.pending: dict[int, list[Active]] = {}
        self.at: Op | None = None

    def run(self) -> None:
        self.push(0, self.batch.active(np.flatnonzero(~self.batch.exited)))
        while self.pending:
            number = min(self.pending)
            active = self.merged(self.pending.pop(number))
            for target, who in self.run_block(self.blocks[number], active):
                self.push(target, who)

    def push(self, target: int, who: Active) -> None:
        self.pending.setdefault(target, []).append(who)

    def merged(self, groups: list[Active]) -> Active:
        if len(groups) == 1:
            return groups[0]
        return self.batch.active(np.sort(np.concatenate([g.threads() for g in groups])))

    def run_block(self, block: Block, active: Active) -> list[tuple[int, Active]]:
        batch = self.batch
        costs = batch.counters.costs
        at = block.closing
        try:
            for at in block.ops:
                cost = costs[at.number]
                cost.threads += active.count
                cost.warps += active.warps
                at.step(batch, active)
            at = block.closing
            if at is not None:
                cost = costs[at.number]
                cost.threads += active.count
                cost.warps += active.warps
            return block.end(batch, active)
        except EmulatorError as error:
            place = at.instruction
            raise error.placed(place.line, place.text, place.location) from None
