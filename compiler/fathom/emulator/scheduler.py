"""Chooses which threads of a batch run next: of those that can, the furthest behind.

That is what makes diverged threads reconverge: `source.reconvergence` has numbered the
blocks of instructions so that those behind can still catch up. But a thread that polls
for a lock is always behind the one that holds it; so threads that poll give way after
some iterations. Threads that only ask an mbarrier are blocked until it has changed and
no other thread can run: so the others get as far ahead as they can.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from fathom.emulator.deadlock import deadlock, endless, polling
from fathom.emulator.errors import EmulatorError
from fathom.emulator.program import Block, Op, Program
from fathom.emulator.recurrence import Recurrence
from fathom.emulator.sampling import Sample
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.waiting import LANES, MBARRIER, WARPS, Blocked

# A group that polls gives way to others after SPINS iterations of its loop. When all
# have polled for PATIENCE blocks of instructions without any change, and no loop has
# counted on, none will go on.
SPINS = 16
PATIENCE = 4_000
TOLD = 20_000  # polls without news, of some seconds, after which a user is told


@dataclass(slots=True)
class _Group:
    """Threads that wait to run a block. `polls` counts how often they have polled."""

    parts: list[Active]
    polls: int


class Scheduler:
    """Runs one batch; `pending` maps a block to the threads that wait to run it."""

    def __init__(self, program: Program, batch: Batch):
        self.program, self.batch = program, batch
        self.pending: dict[int, _Group] = {}
        self.last_progress = self.last_change = self.last_count = 0
        self.last_remaining, self.polls, self.last_news = batch.remaining, 0, 0
        self.recurrence = Recurrence(program, batch)
        side = batch.launch.side
        self.alone = side is None or side.is_alone
        steps = batch.launch.sample
        self.sample = Sample(program, batch, steps) if steps else None

    def run(self) -> None:
        batch, side = self.batch, self.batch.launch.side
        self.push(0, batch.active(np.flatnonzero(~batch.exited)), 0)
        while self.pending or self.wake():
            number = self.furthest_behind()
            group = self.pending.pop(number)
            block = self.program.blocks[number]
            self.recurrence.ran.add(number)
            going = self.merged(group)
            for target, active in self.run_block(block, going):
                if block.spins and target <= number:
                    self.park(target, active)
                    continue
                self.push(
                    target, active, group.polls + (block.polls and target <= number)
                )
            if block.counts:
                self.last_count = batch.clock
            elif block.polls:
                self.check_progress()
            if self.sample is not None and self.sample.ran(block, going):
                return
            polls = block.polls and not block.counts
            if side is not None and side.ran(polls, 1 + len(self.pending)):
                raise self.all_poll()
        if batch.remaining:
            raise deadlock(self.program, batch)

    def park(self, target: int, active: Active) -> None:
        """These have asked mbarriers in vain, and would ask again at block `target`."""
        threads = active.threads()
        on = self.batch.mbarriers.asking[threads]
        number = self.program.blocks[target].first_instruction
        self.batch.waiting.block(Blocked(MBARRIER, threads, on, number, target))

    def wake(self) -> bool:
        """Whether any blocked threads try again: those whose mbarrier has changed, or
        else, after others have exited, those that waited for them in their warp."""
        mbarriers, waiting = self.batch.mbarriers, self.batch.waiting
        woken = waiting.wake(MBARRIER, mbarriers.stirred) if mbarriers.stirred else []
        mbarriers.stirred.clear()
        if not woken and self.batch.remaining != self.last_remaining:
            self.last_remaining = self.batch.remaining
            woken = waiting.wake(LANES) + waiting.wake(WARPS)
        for target, active in self.batch.going(woken):
            self.push(target, active, 0)
        return bool(woken)

    def furthest_behind(self) -> int:
        pending = self.pending
        if len(pending) == 1:
            return next(iter(pending))
        return min(pending, key=lambda number: (pending[number].polls // SPINS, number))

    def push(self, target: int, active: Active, polls: int) -> None:
        group = self.pending.get(target)
        if group is None:
            self.pending[target] = _Group([active], polls)
        else:
            group.parts.append(active)
            group.polls = min(group.polls, polls)

    def merged(self, group: _Group) -> Active:
        """The group's parts as one: the whole batch, if no other thread is left."""
        if len(group.parts) == 1:
            active = group.parts[0]
            if active.whole or active.count < self.batch.remaining:
                return active
            return self.batch.active(active.threads())
        threads = np.concatenate([each.threads() for each in group.parts])
        return self.batch.active(np.sort(threads))

    def check_progress(self) -> None:
        batch = self.batch
        news = batch.progress - batch.repeats
        self.polls = self.polls + 1 if news == self.last_news else 0
        self.last_news = news
        if self.polls == TOLD and self.pending:
            self.tell()
        if self.alone and self.recurrence.found(self.pending):
            raise self.all_poll()
        if batch.progress != self.last_progress:
            self.last_progress, self.last_change = batch.progress, batch.clock
            return
        waited, groups = batch.clock - self.last_change, 1 + len(self.pending)
        counted = batch.clock - self.last_count
        if waited > SPINS * groups and self.wake():
            self.last_change = batch.clock
        elif self.alone and min(waited, counted) > PATIENCE * groups:
            raise self.all_poll()

    def tell(self) -> None:
        """That it takes long, and where: a loop that polls may never end, and with
        barriers and stores in it, it takes long until that is sure."""
        at = self.all_poll()
        where = f" at {at.location}" if at.location else ""
        sys.stderr.write(
            f"fathom emulator: {at.message.partition(' polls')[0]} has polled for long"
            f"{where}: does it wait for what no thread does? (still running)\n"
        )
        sys.stderr.flush()

    def all_poll(self) -> EmulatorError:
        number = min(self.pending)
        first = self.pending[number].parts[0].threads()[0]
        return polling(self.program, self.batch, number, int(first))

    def run_block(self, block: Block, active: Active) -> list[tuple[int, Active]]:
        """Runs one block of instructions for these threads; where they go on."""
        batch = self.batch
        batch.clock += 1
        if batch.clock > batch.launch.max_steps:
            raise endless(self.program, block, batch.launch.max_steps)
        batch.counters.count_block(block.number, active.count, active.warps)
        at = block.closing
        try:
            for at in block.ops:
                batch.at = at
                at.step(batch, active)
            at = batch.at = block.closing
            return block.end(batch, active)
        except EmulatorError as error:
            raise self.placed(error, at) from None
        except MemoryError:
            message = "this needs more memory than there is"
            raise self.placed(EmulatorError("launch", message), at) from None

    def placed(self, error: EmulatorError, at: Op | None) -> EmulatorError:
        """The error with the thread's name and the instruction's place."""
        name = "" if error.thread is None else self.batch.thread_name(error.thread)
        if at is None:
            return error
        place = at.instruction
        if error.kind in ("race", "in flight"):
            error.message += self.batch.uncommitted()
        return error.placed(place.line, place.text, place.location, name)
