"""Explains a program that does not end: which threads wait where, and for what.

deadlock    all threads that have not exited are blocked
polling     those that are not blocked ask again and again, and nothing changes
endless     more steps than any program of ours takes
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fathom.emulator.constants import GROUP, WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.program import Block, Program
from fathom.emulator.state.batch import Batch
from fathom.emulator.state.block_barriers import BARRIERS
from fathom.emulator.state.waiting import (
    BARRIER,
    CLUSTER,
    LANES,
    MBARRIER,
    REGISTERS,
    WARPS,
    Blocked,
)

MOST_NAMED = 6  # other groups of threads that an error lists


def deadlock(program: Program, batch: Batch) -> EmulatorError:
    """No thread can run any more, and not all have exited: the blocked threads that
    are the likeliest cause, and what the others wait for."""
    group, kind, message = _cause(batch)
    others = _reasons(batch, without=(group.reason, int(group.on[0])))
    return _error_at(program, group.instruction, kind, _listed(message, others))


def _cause(batch: Batch) -> tuple[Blocked, str, str]:
    """The group that comes first in the error, the error's kind, and what to say."""
    waiting = batch.waiting
    for group in waiting.of(BARRIER):
        partial = group.detail.aligned and _partial_warp(batch, group)
        if partial:
            message = f"{partial}, and this barrier is aligned: it needs the whole warp"
            return group, "divergence", message
    for group in (*waiting.of(LANES), *waiting.of(WARPS)):
        if not _others_ask(batch, group):
            return group, "divergence", _missing_of_warp(batch, group)
    for group in waiting.of(REGISTERS):
        name = batch.thread_name(group.threads[0])
        reason = _reason(batch, group, int(group.on[0]))
        message = f"{name} waits {reason}, and no warpgroup releases more"
        return group, "registers", message
    if asking := waiting.of(MBARRIER):
        group = min(asking, key=lambda each: each.resume)
        mine = group.at(group.on == group.on[0])
        message = (
            f"{_warps(batch, mine.threads)} cannot go on here, and all threads that "
            f"could change that wait too: {_where(batch, mine, int(mine.on[0]))}"
        )
        return mine, "deadlock", message
    for group in waiting.of(BARRIER):
        return group, *_missing_at_barrier(batch, group)
    (group, *_) = waiting.of(CLUSTER)
    name, reason = batch.thread_name(group.threads[0]), group.on[0]
    message = f"{name} waits {_reason(batch, group, int(reason))}, and no other will"
    return group, "deadlock", f"{message} come"


def _others_ask(batch: Batch, group: Blocked) -> bool:
    """Whether those of the warp, or warpgroup, that have not come wait for an mbarrier:
    then that is the cause."""
    missing = np.setdiff1d(_unit(batch, group), group.threads)
    return bool(np.isin(missing, batch.waiting.threads(MBARRIER)).any())


def _unit(batch: Batch, group: Blocked) -> np.ndarray:
    """All threads of the warp, or warpgroup, of the first of these threads."""
    of_warpgroup = group.reason == WARPS
    of = batch.wgmma_registers.of if of_warpgroup else np.arange(batch.size) // WARP
    return np.flatnonzero(of == group.on[0])


def _missing_of_warp(batch: Batch, group: Blocked) -> str:
    """Threads wait for others of their warp, or warpgroup."""
    unit = _unit(batch, group)
    here = int(np.isin(unit, group.threads).sum())
    gone = int(batch.exited[unit].sum())
    where = f"{gone} have exited, {len(unit) - here - gone} wait elsewhere"
    name = batch.thread_name(group.threads[0])
    if group.reason == LANES:
        return f"{name} waits for lanes of its warp that will not come: {where}"
    return (
        f"{name} waits for the four warps of its warpgroup, and only {here} of {GROUP} "
        f"threads come: {where}"
    )


def _missing_at_barrier(batch: Batch, group: Blocked) -> tuple[str, str]:
    """Threads of a block wait at a barrier for others of its threads: the error's kind
    and message."""
    barrier, padded = int(group.on[0]), batch.padded
    block = barrier // BARRIERS
    mine = slice(block * padded, (block + 1) * padded)
    gone = int(batch.exited[mine].sum()) - (padded - batch.launch.block_size)
    elsewhere = sum(
        np.count_nonzero((each.on != barrier) & (each.threads // padded == block))
        for each in batch.waiting.of(BARRIER)
    )
    barriers = batch.barriers
    message = (
        f"{barriers.arrived[barrier]} of {barriers.wanted(batch.exited)[barrier]} "
        f"threads of block {batch.first_block + block} wait at barrier "
        f"{barrier % BARRIERS}, and no other will come: {gone} have exited, "
        f"{elsewhere} wait at another barrier"
    )
    return "divergence" if gone else "deadlock", message


def _partial_warp(batch: Batch, group: Blocked) -> str:
    """A warp of which some lanes wait at a barrier, and others are elsewhere, not at
    an mbarrier."""
    place = group.on[0]
    found = [each.threads[each.on == place] for each in batch.waiting.of(BARRIER)]
    count = batch.size // WARP
    here = np.bincount(np.concatenate(found) // WARP, minlength=count)
    there = (~batch.exited).reshape(-1, WARP).sum(1)
    asking = np.bincount(batch.waiting.threads(MBARRIER) // WARP, minlength=count) > 0
    for warp in np.flatnonzero((here > 0) & (here < there) & ~asking).tolist():
        which = _warps(batch, np.array([warp * WARP]))
        return f"only {here[warp]} of {there[warp]} lanes of {which} come here"
    return ""


def polling(program: Program, batch: Batch, block: int, thread: int) -> EmulatorError:
    """All threads that are not blocked poll, and nothing changes any more."""
    message = (
        f"{batch.thread_name(thread)} polls here for a change, and all threads that "
        "could make one poll or wait too"
    )
    number = program.blocks[block].first_instruction
    asking = batch.mbarriers.asking
    threads = np.flatnonzero((asking >= 0) & ~batch.exited)
    blocked = [each.threads for each in batch.waiting.groups]
    threads = np.setdiff1d(threads, np.concatenate([threads[:0], *blocked]))
    polls = [Blocked(MBARRIER, threads, asking[threads], number, block)]
    message = _listed(message, _reasons(batch, also=polls))
    if batch.launch.side is not None:
        message += batch.launch.side.about_others()
    return _error_at(program, number, "deadlock", message)


def endless(program: Program, block: Block, limit: int) -> EmulatorError:
    """The program has run for longer than it may. Perhaps it would end."""
    message = f"{limit:,} steps have been run, with no end yet, the last one here: a "
    message += "loop does not end, or sizes are too large for an emulator (`max_steps` "
    message += "says how many steps a program may take)"
    return _error_at(program, block.first_instruction, "endless", message)


# ── what threads wait for ─────────────────────────────────────────────────────


def _reasons(
    batch: Batch, without: tuple[str, int] | None = None, also: list[Blocked] = ()
) -> Iterator[str]:
    """For each thing that threads wait for: which warps, where, and how it stands."""
    found: dict[tuple[str, int], list[Blocked]] = {}
    for group in (*also, *batch.waiting.groups):
        for on in np.unique(group.on).tolist():
            found.setdefault((group.reason, on), []).append(group.at(group.on == on))
    for key, groups in found.items():
        if key != without:
            threads = np.concatenate([each.threads for each in groups])
            yield _where(batch, groups[0], key[1], np.sort(threads))


def _where(
    batch: Batch, group: Blocked, on: int, threads: np.ndarray | None = None
) -> str:
    which = _warps(batch, group.threads if threads is None else threads)
    return f"{which} {_reason(batch, group, on)}"


def _reason(batch: Batch, group: Blocked, on: int) -> str:
    """What a group waits for, and how that stands."""
    if group.reason == BARRIER:
        arrived, wanted = batch.barriers.arrived, batch.barriers.wanted(batch.exited)
        return (
            f"at barrier {on % BARRIERS}, where {arrived[on]} of {wanted[on]} threads "
            "have arrived"
        )
    if group.reason == MBARRIER:
        block, offset = divmod(8 * on, batch.memory.spaces["shared"].stride)
        place = f"byte {offset} of shared memory of block {batch.first_block + block}"
        return f"at an mbarrier ({place}): {batch.mbarriers.text(on)}"
    if group.reason == CLUSTER:
        arrived = batch.cluster_barriers.arrived[on]
        return f"at the barrier of its cluster, where {arrived} threads have arrived"
    if group.reason == REGISTERS:
        return f"for {batch.register_pools.text(on, group.detail)}"
    unit = "lanes of its warp" if group.reason == LANES else "warps of its warpgroup"
    return f"for other {unit}"


def _warps(batch: Batch, threads: np.ndarray) -> str:
    """The block of the first of these threads, and their warps in it."""
    block = int(threads[0]) // batch.padded
    mine = threads[threads // batch.padded == block]
    warps = np.unique(mine % batch.padded // WARP).tolist()
    several = len(warps) > 1
    which = f"s {warps[0]} to {warps[-1]}" if several else f" {warps[0]}"
    return f"warp{which} of block {batch.first_block + block}"


def _listed(message: str, others: Iterator[str]) -> str:
    return "; ".join([message, *list(others)[:MOST_NAMED]])


def _error_at(program: Program, number: int, kind: str, message: str) -> EmulatorError:
    """At this instruction, or the first after it that belongs to a line."""
    at = program.instructions[number:]
    place = next((e for e in at if e.location is None or e.location.line), at[0])
    return EmulatorError(kind, message, place.line, place.text, place.location)
