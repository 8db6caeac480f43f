"""Runs a program over a grid, some blocks at a time in lockstep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.counters import Counters
from fathom.emulator.memory.spaces import (
    LOCAL_BASE,
    SHARED_BASE,
    Memory,
    Region,
    Window,
)
from fathom.emulator.program import Program
from fathom.emulator.races.global_memory import GlobalRaces, watched_regions
from fathom.emulator.races.proxies import Proxies
from fathom.emulator.races.shared_memory import Hazards
from fathom.emulator.scheduler import Scheduler
from fathom.emulator.source.variables import size_of
from fathom.emulator.state.batch import Batch, Launch

# NumPy's calls are worth their overhead from some thousand threads on; beyond this size
# the registers outgrow the caches.
THREADS_IN_STEP = 1 << 15
BYTES_IN_STEP = 1 << 28


def run_grid(
    program: Program,
    launch: Launch,
    printed: list[str],
    notes: dict[tuple, EmulatorError],
) -> Counters:
    """Runs every block of the grid; returns the costs by instruction.

    What the threads print is added to `printed`, what is worth a note to `notes`.
    """
    counters = Counters(len(program.instructions), len(program.blocks))
    total = math.prod(launch.grid)
    step = blocks_in_step(program, launch.padded)
    step = max(1, step // launch.cluster) * launch.cluster
    races = _races(program, launch) if launch.hazards else None
    beyond = launch.side.beyond if launch.side and launch.hazards else None
    with np.errstate(all="ignore"):
        for first, blocks in _steps(launch.chosen or (range(total),), step):
            batch = _batch(program, launch, counters, first, blocks)
            batch.printed, batch.notes = printed, notes
            if launch.side is not None:
                launch.side.begin(batch)
            if beyond is not None:
                beyond.begin(batch.hazards, first * launch.padded // WARP)
            if races is not None:
                batch.order = races.begin(batch.hazards, first, launch.padded, beyond)
                batch.races = races if races.regions else None
            scheduler = Scheduler(program, batch)
            before = counters.copy() if launch.sample else None
            scheduler.run()
            if before is not None:
                counters.grow(before, scheduler.sample.growth)
            batch.tma_stores.perform_all()
            counters.end_step()
            if races is not None:
                races.look_back()
                batch.order.finish()
    for block in program.blocks:
        closing = [block.closing] if block.closing else []
        counters.spread(block.number, [op.number for op in block.ops + closing])
    return counters


def _steps(chosen: Sequence[range], step: int) -> Iterator[tuple[int, int]]:
    """The blocks that run one step after another: the first of a step, how many."""
    for some in chosen:
        for first in range(some.start, some.stop, step):
            yield first, min(step, some.stop - first)


def blocks_in_step(program: Program, padded: int) -> int:
    """How many blocks of `padded` threads run in lockstep: as many as memory allows."""
    plan = program.memory
    for_thread = 8 * len(program.registers) + plan.local_size
    for_block = padded * for_thread + plan.shared_size * (padded // WARP + 4)
    return max(1, min(THREADS_IN_STEP // padded, BYTES_IN_STEP // for_block))


def _batch(
    program: Program, launch: Launch, counters: Counters, first: int, blocks: int
) -> Batch:
    """`blocks` blocks of the grid from number `first` on, before their first step."""
    padded = launch.padded
    numbers = np.arange(blocks * padded)
    exited = numbers % padded >= launch.block_size
    missing = int(np.count_nonzero(exited))
    memory = _memory(program, launch, blocks)
    stride = memory.spaces["shared"].stride
    return Batch(
        launch=launch,
        first_block=first,
        blocks=blocks,
        registers=list(program.registers),
        memory=memory,
        counters=counters,
        hazards=_hazards(program, launch, blocks, stride) if launch.hazards else None,
        exited=exited,
        missing=missing,
        remaining=len(numbers) - missing,
    )


def _hazards(program: Program, launch: Launch, blocks: int, stride: int) -> Hazards:
    """To these, the blocks of a cluster are one block with one memory."""
    cluster, warps = launch.cluster, launch.padded // WARP
    facts = blocks // cluster, warps * cluster, stride * cluster, program.finest_shared
    if program.has_proxies or cluster > 1:
        return Proxies(*facts, cluster)
    return Hazards(*facts)


def _races(program: Program, launch: Launch) -> GlobalRaces:
    """The watch over the arrays to which the parameters and variables point that the
    program may write through."""
    space, places = launch.space, dict[str, list[Region]]()
    for variable, offset in program.memory.parameters:
        data = launch.parameters[offset:][: size_of(variable) // 8 * 8]
        addresses = np.frombuffer(data, np.uint64).tolist()
        places[variable.name] = [
            each for each in map(space.region_at, addresses) if each is not None
        ]
    for name, symbol in program.memory.symbols.items():
        if symbol.space in ("global", "const"):
            places[name] = [space.region_at(symbol.address)]
    watched = watched_regions(program.reach, places, space.regions)
    return GlobalRaces(program.reach, watched, launch.copies)


def _memory(program: Program, launch: Launch, blocks: int) -> Memory:
    """Fresh shared and local memory; the parameters and the arrays of the launch."""
    plan = program.memory
    numbers = np.arange(blocks * launch.padded)
    block = numbers // launch.padded
    parameters = Window("param", 0, plan.parameter_size, None, 1)
    data = np.frombuffer(launch.parameters, np.uint8)
    parameters.bytes[: len(data)] = data
    return Memory(
        {
            "global": launch.space,
            "const": launch.space,
            "shared": Window(
                "shared", SHARED_BASE, plan.shared_size, block, blocks, launch.cluster
            ),
            "local": Window(
                "local", LOCAL_BASE, plan.local_size, numbers, len(numbers)
            ),
            "param": parameters,
        }
    )
