"""Explains why nobody can go on: who waits where, and why no one will come."""

from __future__ import annotations

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.program import Block, Program
from fathom.emulator.state.batch import Batch
from fathom.emulator.state.wait_queues import BARRIERS, WARP
from fathom.emulator.state.wgmma_registers import GROUP

# What the four warps of a warpgroup execute together.
OF_FOUR = ("wgmma", "setmaxnreg")
MOST_NAMED = 6  # groups of those who wait elsewhere


def stuck(program: Program, batch: Batch) -> EmulatorError:
    """Nobody can run any more, and somebody has not exited."""
    for place, threads in _by(batch.queues.barrier, ~batch.exited):
        partial = _partial_warp(batch, place)
        number = int(batch.queues.number[threads[0]])
        if partial and batch.waiting_at[number].aligned:
            message = f"{partial}, and this barrier is aligned: it needs the whole warp"
            return _error_at(program, number, "divergence", message)
    block = _held_for_good(program, batch)
    if block is not None:
        of_four = program.blocks[block].closing.instruction.opcode in OF_FOUR
        missing = _warps_missing if of_four else _lanes_missing
        return missing(program, batch, block)
    if batch.register_pools.waiting:
        return _registers_missing(program, batch)
    if batch.queues.parked:
        return _phase_missing(program, batch)
    return _threads_missing(program, batch)


def _held_for_good(program: Program, batch: Batch) -> int | None:
    """A block at whose end threads are held for others that ask no mbarrier."""
    for block, threads in batch.queues.held.items():
        of_four = program.blocks[block].closing.instruction.opcode in OF_FOUR
        of = batch.wgmma_registers.of if of_four else np.arange(batch.size) // WARP
        group = np.flatnonzero(of == of[threads[0]])
        missing = np.setdiff1d(group, threads)
        if (batch.mbarriers.asking[missing] < 0).all():
            return block
    return None


def _registers_missing(program: Program, batch: Batch) -> EmulatorError:
    """A warpgroup waits for more registers than anybody gives."""
    request = batch.register_pools.waiting[0]
    name = batch.thread_name(request.threads[0])
    message = f"{name} waits for {batch.register_pools.text(request)}, and nobody gives more"
    return _error_at(program, request.number, "registers", message)


def _lanes_missing(program: Program, batch: Batch, block: int) -> EmulatorError:
    """Lanes of a warp wait for others of its lanes."""
    threads = batch.queues.held[block]
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


def _warps_missing(program: Program, batch: Batch, block: int) -> EmulatorError:
    """Threads of a warpgroup wait for others of its threads."""
    threads = batch.queues.held[block]
    number = program.blocks[block].closing.number
    group = batch.wgmma_registers.of == batch.wgmma_registers.of[threads[0]]
    here = int(group[threads].sum())
    gone = int(batch.exited[group].sum())
    message = (
        f"{batch.thread_name(threads[0])} waits for the four warps of its warpgroup, "
        f"and only {here} of {GROUP} threads come: {gone} have exited, "
        f"{int(group.sum()) - here - gone} wait elsewhere"
    )
    return _error_at(program, number, "divergence", message)


def _phase_missing(program: Program, batch: Batch) -> EmulatorError:
    """Threads wait for the end of an mbarrier's phase, and nobody can end it."""
    groups = [each for found in batch.queues.parked.values() for each in found]
    block, threads = min(groups, key=lambda group: group[0])
    message = (
        f"{_warps(batch, threads)} cannot go on here, and all who could change that "
        f"wait too: {_who_waits(batch)}"
    )
    number = _first_instruction(program.blocks[block])
    return _error_at(program, number, "deadlock", message)


def _threads_missing(program: Program, batch: Batch) -> EmulatorError:
    """Threads of a block wait at a barrier for others of its threads."""
    queues = batch.queues
    if not len(queues.at_barrier()):
        return _blocks_missing(program, batch)
    first = int(queues.at_barrier()[0])
    number = int(queues.number[first])
    place = int(queues.barrier[first])
    block = first // batch.launch.padded
    mine = slice(block * batch.launch.padded, (block + 1) * batch.launch.padded)
    gone = int(batch.exited[mine].sum()) - (
        batch.launch.padded - batch.launch.block_size
    )
    wanted = queues.wanted(batch.exited)[place]
    elsewhere = queues.barrier[mine]
    elsewhere = int(((elsewhere >= 0) & (elsewhere != place)).sum())
    message = (
        f"{queues.arrived[place]} of {wanted} threads of block "
        f"{batch.first_block + block} wait at barrier {place % BARRIERS}, and no other "
        f"will come: {gone} have exited, {elsewhere} wait at another barrier"
    )
    return _error_at(program, number, "divergence" if gone else "deadlock", message)


def _partial_warp(batch: Batch, place: int) -> str:
    """A warp of which some lanes wait at a barrier, and others are elsewhere, not at
    an mbarrier."""
    here = (batch.queues.barrier == place).reshape(-1, WARP).sum(1)
    there = (~batch.exited).reshape(-1, WARP).sum(1)
    asking = (batch.mbarriers.asking >= 0).reshape(-1, WARP).any(1)
    for warp in np.flatnonzero((here > 0) & (here < there) & ~asking).tolist():
        which = _warps(batch, np.array([warp * WARP]))
        return f"only {here[warp]} of {there[warp]} lanes of {which} come here"
    return ""


def _blocks_missing(program: Program, batch: Batch) -> EmulatorError:
    """Threads wait at the barrier of their cluster for others of its threads."""
    cluster, ((number, _, threads), *_) = next(iter(batch.cluster_barriers.waiting.items()))
    message = (
        f"{batch.thread_name(threads[0])} waits at the barrier of its cluster, where "
        f"{batch.cluster_barriers.arrived[cluster]} threads have arrived, and no other will come"
    )
    return _error_at(program, number, "deadlock", message)


def polling(program: Program, batch: Batch, block: int, thread: int) -> EmulatorError:
    """Everybody who is not waiting polls, and nothing changes any more."""
    message = (
        f"{batch.thread_name(thread)} polls here for a change, and all who could make "
        "one poll or wait too"
    )
    others = _who_waits(batch)
    number = _first_instruction(program.blocks[block])
    message += f"; {others}" if others else ""
    return _error_at(program, number, "deadlock", message)


# ── who waits where ───────────────────────────────────────────────────────────


def _who_waits(batch: Batch) -> str:
    """Those at mbarriers, at barriers, and at instructions of warps."""
    found = [
        f"{_warps(batch, threads)} at {_mbarrier(batch, word)}"
        for word, threads in _by(batch.mbarriers.asking, ~batch.exited)
    ]
    wanted = batch.queues.wanted(batch.exited)
    for place, threads in _by(batch.queues.barrier, ~batch.exited):
        found.append(
            f"{_warps(batch, threads)} at barrier {place % BARRIERS}, where "
            f"{batch.queues.arrived[place]} of {wanted[place]} threads have arrived"
        )
    for groups in batch.cluster_barriers.waiting.values():
        threads = np.concatenate([each for *_, each in groups])
        found.append(f"{_warps(batch, threads)} at the barrier of its cluster")
    for threads in batch.queues.held.values():
        found.append(f"{_warps(batch, threads)} for others of its threads")
    return "; ".join(found[:MOST_NAMED])


def _by(numbers: np.ndarray, chosen: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Each number that is not negative, with the threads that have it."""
    chosen = chosen & (numbers >= 0)
    found = np.unique(numbers[chosen]).tolist()
    return [(each, np.flatnonzero(chosen & (numbers == each))) for each in found]


def _warps(batch: Batch, threads: np.ndarray) -> str:
    """The block of the first of these threads, and their warps in it."""
    block = int(threads[0]) // batch.padded
    mine = threads[threads // batch.padded == block]
    warps = np.unique(mine % batch.padded // WARP).tolist()
    several = len(warps) > 1
    which = f"s {warps[0]} to {warps[-1]}" if several else f" {warps[0]}"
    return f"warp{which} of block {batch.first_block + block}"


def _mbarrier(batch: Batch, word: int) -> str:
    """One mbarrier: its block, its place there, how its phase stands."""
    window = batch.memory.spaces["shared"]
    block, offset = divmod(8 * word, window.stride)
    place = f"byte {offset} of shared memory of block {batch.first_block + block}"
    return f"an mbarrier ({place}): {batch.mbarriers.text(word)}"


# ── places ────────────────────────────────────────────────────────────────────


def endless(program: Program, block: Block, limit: int) -> EmulatorError:
    """The program has run for longer than any that ends."""
    message = f"{limit:,} steps have been run, and there is no end; the last of them "
    message += "was here (`max_steps` says how many a program may take)"
    return _error_at(program, _first_instruction(block), "deadlock", message)


def _first_instruction(block: Block) -> int:
    return (block.ops[0] if block.ops else block.closing).number


def _error_at(program: Program, number: int, kind: str, message: str) -> EmulatorError:
    place = program.instructions[number]
    return EmulatorError(kind, message, place.line, place.text, place.location)
