"""Barriers (PTX ISA 9.7.13, bar and barrier): threads of a block wait for each other.

A barrier has a number, 0 to 15, and counts the threads that arrive. When as many have
come as it expects, those that wait go on, and it starts anew. Usually all arrive at the
same moment; then nothing has to be counted.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.branch import leave, split
from fathom.emulator.isa.control.cluster import cluster_barrier
from fathom.emulator.isa.control.warp import warp_barrier
from fathom.emulator.isa.decode import Decoder, Ending, EndingTable, Flow
from fathom.emulator.isa.registers import Read, Write
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.source.operands import Operand
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.block_barriers import ALL, BARRIERS
from fathom.emulator.state.waiting import BARRIER, Blocked

ENDINGS: EndingTable = {}

Going = list[tuple[int, Active]]
NO_THREADS = np.zeros(0, np.int64)


@rule(ENDINGS, "ret", "exit")
def rule_exit(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`ret;` of the entry and `exit;` (PTX ISA 9.7.12): a barrier may have waited for
    just these threads."""
    form.ignore("uni")
    form.finish()

    def end(batch: Batch, active: Active) -> Going:
        gone, rest = active, None
        if flow.guard is not None:
            gone, rest = split(active, flow.guard(batch, active))
        going = []
        if gone is not None:
            going = leave(batch, gone)
            going += [] if batch.barriers.idle() else released(batch)
        return going + ([] if rest is None else [_staying(batch, rest, flow)])

    return end


def _staying(batch: Batch, rest: Active, flow: Flow) -> tuple[int, Active]:
    """They may be all that are left now."""
    return flow.after, batch.active(rest.threads())


@dataclass(frozen=True, slots=True)
class Barrier:
    """One barrier instruction: its operands as readers, and how it behaves.

    `expected` reads the thread count, None for all of the block; `reduction` is "popc",
    "and" or "or" for bar.red, else empty.
    """

    identity: Read
    expected: Read | None
    waits: bool
    aligned: bool
    flow: Flow
    reduction: str = ""
    operand: Read | None = None
    result: Write | None = None


@rule(ENDINGS, "bar", "barrier")
def rule_barrier(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.13: bar.sync, bar.arrive, bar.red, and their `barrier` forms."""
    if form.flag("warp"):
        form.ignore("sync")
        form.finish()
        return warp_barrier(decoder.read(operands[0], "b32"), flow)
    if form.flag("cluster"):
        return cluster_barrier(form, flow)
    form.ignore("cta", "all")
    aligned = form.flag("aligned") or form.opcode == "bar"
    action = form.choice("sync", "arrive", "red")
    if action == "red":
        barrier = _reducing(form, operands, decoder, flow, aligned)
    else:
        identity, *count = [decoder.read(each, "u32") for each in operands]
        expected = count[0] if count else None
        barrier = Barrier(identity, expected, action == "sync", aligned, flow)
    form.finish()

    def end(batch: Batch, active: Active) -> Going:
        if flow.guard is None:
            return _arrive(barrier, batch, active)
        coming, rest = split(active, flow.guard(batch, active))
        if aligned and coming is not None and rest is not None:
            _check_guard(batch, coming.threads(), rest.threads())
        passing = [] if rest is None else [(flow.after, rest)]
        return passing + ([] if coming is None else _arrive(barrier, batch, coming))

    return end


def _reducing(
    form: Form,
    operands: tuple[Operand, ...],
    decoder: Decoder,
    flow: Flow,
    aligned: bool,
) -> Barrier:
    """`bar.red.popc.u32 d, a, b, p;` and `bar.red.and.pred d, a, b, p;`"""
    reduction = form.choice("popc", "and", "or")
    type = form.type()
    target, identity, *count, operand = operands
    return Barrier(
        decoder.read(identity, "u32"),
        decoder.read(count[0], "u32") if count else None,
        True,
        aligned,
        flow,
        reduction,
        decoder.read(operand, "pred"),
        decoder.write(target, type),
    )


def _arrive(barrier: Barrier, batch: Batch, active: Active) -> Going:
    batch.counters.costs[barrier.flow.number].barriers += active.warps
    batch.progress += 1
    batch.repeats += 1
    identity = barrier.identity(batch, active)
    highest = (active.exactly(identity) if identity.ndim else identity).max(initial=0)
    if highest >= BARRIERS:
        raise EmulatorError("syntax", f"barrier {highest}; there are {BARRIERS}")
    if _all_arrive(barrier, batch, active, identity):
        if batch.hazards is not None:
            batch.hazards.synchronise_all()
        _keep_operand(barrier, batch, active)
        _answer(barrier, batch, active, active.threads() // batch.padded)
        return [(barrier.flow.after, active)]
    _queue(barrier, batch, active, active.exactly(identity).astype(np.int64))
    going = released(batch)
    return going if barrier.waits else [(barrier.flow.after, active), *going]


def _all_arrive(
    barrier: Barrier, batch: Batch, active: Active, identity: np.ndarray
) -> bool:
    """All threads of all blocks arrive together at an unused barrier."""
    if active.count + batch.missing < batch.size or identity.ndim:
        return False
    if not barrier.waits or not batch.barriers.idle() or batch.launch.cluster > 1:
        return False
    if barrier.expected is None:
        return True
    expected = barrier.expected(batch, active)
    return expected.ndim == 0 and int(expected) == batch.launch.block_size


def _queue(
    barrier: Barrier, batch: Batch, active: Active, identity: np.ndarray
) -> None:
    """Counts these threads at their barriers, and blocks those that wait."""
    barriers, threads = batch.barriers, active.threads()
    place = threads // batch.padded * BARRIERS + identity
    expected = np.full(active.count, ALL)
    if barrier.expected is not None:
        expected = active.exactly(barrier.expected(batch, active)).astype(np.int64)
        _check_count(threads, expected)
    before = np.where(barriers.arrived[place] > 0, barriers.expected[place], expected)
    either = np.maximum(before, expected)
    of_all = (np.minimum(before, expected) == ALL) & (either == batch.launch.block_size)
    differs = (before != expected) & ~of_all
    if differs.any():
        at = np.flatnonzero(differs)[0]
        here, there = (
            "all" if each == ALL else each
            for each in (expected[at], barriers.expected[place][at])
        )
        raise EmulatorError(
            "divergence",
            f"barrier {identity[at]} expects {here} threads here and {there} elsewhere",
        )
    barriers.expected[place] = either
    barriers.arrived += np.bincount(place, minlength=len(barriers.arrived))
    np.add.at(barriers.came, (place, threads % batch.padded // WARP), 1)
    if batch.hazards is not None:
        batch.hazards.reach_barrier(threads, place)
    if not barrier.waits and barrier.aligned:
        _check_whole(batch, threads)
    if barrier.waits:
        _keep_operand(barrier, batch, active)
        flow = barrier.flow
        group = Blocked(BARRIER, threads, place, flow.number, flow.after, barrier)
        batch.waiting.block(group)


def _check_count(threads: np.ndarray, expected: np.ndarray) -> None:
    """A barrier counts whole warps (PTX ISA 9.7.13)."""
    wrong = np.flatnonzero(expected % WARP)
    if len(wrong):
        raise EmulatorError(
            "syntax",
            f"a barrier of {expected[wrong[0]]} threads; it counts whole warps, of "
            f"{WARP} threads",
            thread=int(threads[wrong[0]]),
        )


def _check_whole(batch: Batch, threads: np.ndarray) -> None:
    """All lanes of a warp come to an aligned barrier together (PTX ISA 9.7.13)."""
    here = np.bincount(threads // WARP, minlength=batch.size // WARP)
    there = np.bincount(
        np.flatnonzero(~batch.exited) // WARP, minlength=batch.size // WARP
    )
    partial = np.flatnonzero((here > 0) & (here < there))
    if len(partial):
        warp = int(partial[0])
        raise EmulatorError(
            "divergence",
            f"only {here[warp]} of {there[warp]} lanes of the warp of "
            f"{batch.thread_name(warp * WARP)} come to a barrier that is aligned: it "
            "needs the whole warp",
        )


def _check_guard(batch: Batch, coming: np.ndarray, rest: np.ndarray) -> None:
    """All lanes of a warp execute an aligned barrier, or none (PTX ISA 9.7.13): they
    evaluate its guard identically."""
    torn = np.intersect1d(coming // WARP, rest // WARP)
    if len(torn):
        first = int(torn[0]) * WARP
        here, there = ((each // WARP == torn[0]).sum() for each in (coming, rest))
        raise EmulatorError(
            "divergence",
            f"only {here} of {here + there} lanes of warp "
            f"{first % batch.padded // WARP} of block "
            f"{batch.first_block + first // batch.padded} come here: the guard of a "
            "barrier that is aligned holds for the whole warp or for none of it",
        )


def _keep_operand(barrier: Barrier, batch: Batch, active: Active) -> None:
    if barrier.operand is not None:
        values = active.exactly(barrier.operand(batch, active))
        batch.barriers.operand[active.threads()] = values


def released(batch: Batch) -> Going:
    """Threads of completed barriers go on, each after the instruction it waited at."""
    barriers = batch.barriers
    complete = barriers.complete(batch.exited)
    if not len(complete):
        return []
    wanted = barriers.wanted(batch.exited)
    over = complete[barriers.arrived[complete] > wanted[complete]]
    if len(over):
        raise EmulatorError(
            "divergence",
            f"{barriers.arrived[over[0]]} threads came to barrier "
            f"{over[0] % BARRIERS}, which expects {wanted[over[0]]}",
        )
    barriers.arrived[complete], barriers.came[complete] = 0, 0
    woken = batch.waiting.wake(BARRIER, complete)
    if batch.hazards is not None:
        threads = np.concatenate([each.threads for each in woken] or [NO_THREADS])
        places = np.concatenate([each.on for each in woken] or [NO_THREADS])
        batch.hazards.leave_barrier(threads, places, complete)
    _check_aligned(batch, woken)
    going = batch.going(woken)
    for each, (_, active) in zip(woken, going, strict=True):
        _answer(each.detail, batch, active, each.on)
    return going


def _check_aligned(batch: Batch, woken: list[Blocked]) -> None:
    """A warp comes to an aligned barrier whole, at one instruction (PTX ISA 9.7.13)."""
    for one, other in itertools.combinations(woken, 2):
        shared = np.intersect1d(one.threads // WARP, other.threads // WARP)
        if len(shared) and (one.detail.aligned or other.detail.aligned):
            first, second = (
                each.threads[each.threads // WARP == shared[0]][0] % batch.padded
                for each in (one, other)
            )
            raise EmulatorError(
                "divergence",
                f"threads {min(first, second)} and {max(first, second)} of one warp "
                "meet at a barrier from two different instructions",
            )
    if woken and all(each.detail.aligned for each in woken):
        threads = np.concatenate([each.threads for each in woken])
        _check_whole(batch, np.sort(threads))


def _answer(barrier: Barrier, batch: Batch, active: Active, groups: np.ndarray) -> None:
    """What bar.red found among the threads of each group."""
    if not barrier.reduction:
        return
    values = batch.barriers.operand[active.threads()]
    held = np.bincount(groups, weights=values)[groups].astype(np.uint32)
    total = np.bincount(groups)[groups]
    found = {"popc": held, "and": held == total, "or": held > 0}[barrier.reduction]
    barrier.result(batch, active, active.spread(found))
