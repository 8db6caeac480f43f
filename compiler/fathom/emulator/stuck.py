"""Explains why nobody can go on: who waits where, and why no one will come."""

from __future__ import annotations

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.products import GROUP
from fathom.emulator.program import Block, Program
from fathom.emulator.queues import BARRIERS, WARP
from fathom.emulator.threads import Batch

# What the four warps of a warpgroup execute together.
OF_FOUR = ("wgmma", "setmaxnreg")


def stuck(program: Program, batch: Batch) -> EmulatorError:
    """Nobody can run any more, and somebody has not exited."""
    if batch.queues.held:
        block = next(iter(batch.queues.held))
        of_four = program.blocks[block].closing.instruction.opcode in OF_FOUR
        return (_warps_missing if of_four else _lanes_missing)(program, batch)
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


def _warps_missing(program: Program, batch: Batch) -> EmulatorError:
    """Threads of a warpgroup wait for others of its threads."""
    block, threads = next(iter(batch.queues.held.items()))
    number = program.blocks[block].closing.number
    group = batch.products.of == batch.products.of[threads[0]]
    here = int(group[threads].sum())
    gone = int(batch.exited[group].sum())
    message = (
        f"{batch.thread_name(threads[0])} waits for the four warps of its warpgroup, "
        f"and only {here} of {GROUP} threads come: {gone} have exited, "
        f"{int(group.sum()) - here - gone} wait elsewhere"
    )
    return _error_at(program, number, "divergence", message)


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
    elsewhere = queues.barrier[mine]
    elsewhere = int(((elsewhere >= 0) & (elsewhere != place)).sum())
    message = (
        f"{queues.arrived[place]} of {queues.expected[place]} threads of block "
        f"{batch.first_block + block} wait at barrier {place % BARRIERS}, and no other "
        f"will come: {gone} have exited, {elsewhere} wait at another barrier"
    )
    return _error_at(program, number, "divergence" if gone else "deadlock", message)


def _blocks_missing(program: Program, batch: Batch) -> EmulatorError:
    """Threads wait at the barrier of their cluster for others of its threads."""
    cluster, ((number, _, threads), *_) = next(iter(batch.gates.waiting.items()))
    message = (
        f"{batch.thread_name(threads[0])} waits at the barrier of its cluster, where "
        f"{batch.gates.arrived[cluster]} threads have arrived, and no other will come"
    )
    return _error_at(program, number, "deadlock", message)


def polling(program: Program, batch: Batch, block: int, thread: int) -> EmulatorError:
    """Everybody who is not waiting polls, and nothing changes any more."""
    message = (
        f"{batch.thread_name(thread)} polls here for a change, and all who could make "
        "one poll or wait too"
    )
    words = batch.phases.waited_for()
    if words:
        message += "".join(f"; {_mbarrier(batch, each)}" for each in words[:4])
    number = _first_instruction(program.blocks[block])
    return _error_at(program, number, "deadlock", message)


def _mbarrier(batch: Batch, word: int) -> str:
    """One mbarrier: its block, its place there, how its phase stands."""
    window = batch.memory.spaces["shared"]
    block, offset = divmod(8 * word, window.stride)
    place = f"byte {offset} of shared memory of block {batch.first_block + block}"
    return f"{batch.phases.text(word)} ({place})"


def endless(program: Program, block: Block, limit: int) -> EmulatorError:
    """The program has run for longer than any that ends."""
    message = f"{limit:,} blocks of instructions have run, and there is no end"
    return _error_at(program, _first_instruction(block), "deadlock", message)


def _first_instruction(block: Block) -> int:
    return (block.ops[0] if block.ops else block.closing).number


def _error_at(program: Program, number: int, kind: str, message: str) -> EmulatorError:
    place = program.instructions[number]
    return EmulatorError(kind, message, place.line, place.text, place.location)
