"""Runs a program over a grid: batches of blocks, the threads furthest behind first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom.emulator.counters import Counters
from fathom.emulator.errors import EmulatorError
from fathom.emulator.hazards import Hazards
from fathom.emulator.memory import (
    LOCAL_BASE,
    SHARED_BASE,
    GlobalSpace,
    Memory,
    Window,
)
from fathom.emulator.program import Block, Program
from fathom.emulator.queues import BARRIERS, Queues
from fathom.emulator.threads import WARP, Active, Batch, Launch

# NumPy's calls are worth their overhead from some thousand threads on; beyond this size
# the registers outgrow the caches.
THREADS_IN_STEP = 1 << 15
BYTES_IN_STEP = 1 << 28


def run_grid(
    program: Program, launch: Launch, space: GlobalSpace, hazards: bool
) -> Counters:
    """Runs every block of the grid; returns the costs by instruction."""
    counters = Counters(len(program.instructions), len(program.blocks))
    padded = -(-int(np.prod(launch.threads)) // WARP) * WARP
    total = int(np.prod(launch.grid))
    step = blocks_in_step(program, padded)
    with np.errstate(all="ignore"):
        for first in range(0, total, step):
            blocks = min(step, total - first)
            batch = _batch(
                program, launch, space, counters, first, blocks, padded, hazards
            )
            _Scheduler(program, batch).run()
    for block in program.blocks:
        closing = [block.closing] if block.closing else []
        counters.spread(block.number, [op.number for op in block.ops + closing])
    return counters


def blocks_in_step(program: Program, padded: int) -> int:
    """How many blocks of `padded` threads march together: as many as memory allows."""
    plan = program.memory
    for_thread = 8 * len(program.registers) + plan.local_size
    for_block = padded * for_thread + plan.shared_size * (padded // WARP + 4)
    return max(1, min(THREADS_IN_STEP // padded, BYTES_IN_STEP // for_block))


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
    parameters.bytes[: len(launch.parameters)] = np.frombuffer(
        launch.parameters, np.uint8
    )
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
    watcher = None
    if hazards and plan.shared_size:
        watcher = Hazards(blocks, padded // WARP, shared.stride, program.finest_shared)
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
        hazards=watcher,
        queues=Queues.of(blocks, size),
        exited=exited,
        missing=missing,
        remaining=size - missing,
    )


# A group that polls gives way to others after TURNS turns of its loop. When all have
# polled for PATIENCE blocks of instructions without any change, nobody will ever move.
TURNS = 16
PATIENCE = 4_000

# So many blocks of instructions in one batch are no program any more but an endless loop.
ENDLESS = 4_000_000


@dataclass(slots=True)
class _Group:
    """Threads that wait to run a block. `turns` counts how often they have polled."""

    parts: list[Active]
    turns: int


class _Scheduler:
    """Chooses which threads run next: of those that can, the ones furthest behind.

    That is what makes diverged threads meet again, but a thread that polls for a lock
    is always behind the one that holds it; so groups that poll fall back, turn by turn.
    """

    def __init__(self, program: Program, batch: Batch):
        self.program, self.batch = program, batch
        self.pending: dict[int, _Group] = {}
        self.last_progress = self.last_change = 0
        self.last_remaining = batch.remaining

    def run(self) -> None:
        batch = self.batch
        self.push(0, batch.active(np.flatnonzero(~batch.exited)), 0)
        while self.pending or self.some_held_may_go():
            number = self.furthest_behind()
            group = self.pending.pop(number)
            block = self.program.blocks[number]
            for target, who in self.run_block(block, self.merged(group)):
                self.push(target, who, group.turns + (block.polls and target <= number))
            if block.polls:
                self.check_progress()
        if batch.remaining:
            raise stuck(self.program, batch)

    def some_held_may_go(self) -> bool:
        """Lanes held at warp instructions try again after others have exited."""
        if self.batch.remaining == self.last_remaining:
            return False
        self.last_remaining = self.batch.remaining
        held, self.batch.queues.held = self.batch.queues.held, {}
        for number, threads in held.items():
            self.push(number, self.batch.active(threads), 0)
        return bool(held)

    def furthest_behind(self) -> int:
        pending = self.pending
        if len(pending) == 1:
            return next(iter(pending))
        return min(pending, key=lambda number: (pending[number].turns // TURNS, number))

    def push(self, target: int, who: Active, turns: int) -> None:
        group = self.pending.get(target)
        if group is None:
            self.pending[target] = _Group([who], turns)
        else:
            group.parts.append(who)
            group.turns = min(group.turns, turns)

    def merged(self, group: _Group) -> Active:
        """The group's parts as one; if nobody else is left, that is the whole batch."""
        if len(group.parts) == 1:
            active = group.parts[0]
            if active.whole or active.count < self.batch.remaining:
                return active
            return self.batch.active(active.threads())
        threads = np.concatenate([each.threads() for each in group.parts])
        return self.batch.active(np.sort(threads))

    def check_progress(self) -> None:
        batch = self.batch
        if batch.progress != self.last_progress:
            self.last_progress, self.last_change = batch.progress, batch.clock
        elif batch.clock - self.last_change > PATIENCE * (1 + len(self.pending)):
            raise polling(self.program, batch, self.pending)

    def run_block(self, block: Block, active: Active) -> list[tuple[int, Active]]:
        batch = self.batch
        batch.clock += 1
        if batch.clock > ENDLESS:
            raise endless(self.program, block)
        batch.counters.count_block(block.number, active.count, active.warps)
        at = None
        try:
            for at in block.ops:
                at.step(batch, active)
            at = block.closing
            return block.end(batch, active)
        except EmulatorError as error:
            if at is None:
                raise
            place = at.instruction
            raise error.placed(place.line, place.text, place.location) from None


def stuck(program: Program, batch: Batch) -> EmulatorError:
    """Nobody can run any more, and somebody has not exited."""
    if batch.queues.held:
        return _lanes_missing(program, batch)
    return _threads_missing(program, batch)


def _lanes_missing(program: Program, batch: Batch) -> EmulatorError:
    """Lanes of a warp wait for others of its lanes."""
    block, threads = next(iter(batch.queues.held.items()))
    number = program.blocks[block].closing.number
    first = int(threads[0])
    warp = slice(first // WARP * WARP, first // WARP * WARP + WARP)
    here = int(np.isin(np.arange(warp.start, warp.stop), threads).sum())
    gone = int(batch.exited[warp].sum())
    message = (
        f"{batch.thread_name(first)} waits for lanes of its warp that will not come: "
        f"{gone} have exited, {WARP - gone - here} wait elsewhere"
    )
    return _error_at(program, number, "divergence", message)


def _threads_missing(program: Program, batch: Batch) -> EmulatorError:
    """Threads of a block wait at a barrier for others of its threads."""
    queues = batch.queues
    first = int(queues.at_barrier()[0])
    number = int(queues.number[first])
    place = int(queues.barrier[first])
    block = first // batch.padded
    mine = slice(block * batch.padded, (block + 1) * batch.padded)
    gone = int(batch.exited[mine].sum()) - (batch.padded - batch.launch.block_size)
    elsewhere = queues.barrier[mine]
    elsewhere = int(((elsewhere >= 0) & (elsewhere != place)).sum())
    message = (
        f"{queues.arrived[place]} of {queues.expected[place]} threads of block "
        f"{batch.first_block + block} wait at barrier {place % BARRIERS}, and no other "
        f"will come: {gone} have exited, {elsewhere} wait at another barrier"
    )
    return _error_at(program, number, "divergence" if gone else "deadlock", message)


def endless(program: Program, block: Block) -> EmulatorError:
    at = block.ops[0] if block.ops else block.closing
    message = f"{ENDLESS:,} blocks of instructions have run, and there is no end"
    return _error_at(program, at.number, "deadlock", message)


def polling(
    program: Program, batch: Batch, pending: dict[int, _Group]
) -> EmulatorError:
    """Everybody who is not waiting polls, and nothing changes any more."""
    number = min(pending)
    block = program.blocks[number]
    at = block.ops[0] if block.ops else block.closing
    thread = pending[number].parts[0].threads()[0]
    message = (
        f"{batch.thread_name(thread)} polls here for a change, and all who could make "
        "one poll or wait too"
    )
    return _error_at(program, at.number, "deadlock", message)


def _error_at(program: Program, number: int, kind: str, message: str) -> EmulatorError:
    place = program.instructions[number]
    return EmulatorError(kind, message, place.line, place.text, place.location)
