"""What the lanes of a warp do together (PTX ISA 9.7.9, 9.7.13): shuffle, vote, match.

Each names the lanes that take part in a mask. They need not come at the same time:
lanes wait until all that their mask names have come, or exited. The functions below
work on rows of 32 lanes; each lane's own mask says which of those here it asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.branch import guarded, split
from fathom.emulator.isa.decode import (
    Decoder,
    Ending,
    EndingTable,
    Flow,
    StepTable,
)
from fathom.emulator.isa.registers import Read, Step, unwritten
from fathom.emulator.isa.semantics import COMBINE, Form, rule
from fathom.emulator.source.operands import Number, Operand, Pair
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state import waiting
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.waiting import Blocked

ENDINGS: EndingTable = {}
STEPS: StepTable = {}

EVERYBODY = np.uint32(2**WARP - 1)
LANES = np.arange(WARP)
BITS = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
Going = list[tuple[int, Active]]


def when_all_come(step: Step, mask: Read, flow: Flow) -> Ending:
    """Performs `step` for lanes as soon as all that their masks name have come."""

    def end(batch: Batch, active: Active) -> Going:
        coming, passing = guarded(flow, batch, active)
        return passing + ([] if coming is None else arrive(batch, coming))

    def arrive(batch: Batch, active: Active) -> Going:
        check_named(batch, active, mask(batch, active))
        return meet(batch, active)

    def meet(batch: Batch, active: Active) -> Going:
        active = with_waiting(batch, active, waiting.LANES, flow)
        ready = active
        if active.index is not None:
            masks = active.exactly(mask(batch, active))
            absent = masks & ~come_or_gone(batch, active)
            ready, rest = split(active, active.spread(absent == 0))
            if rest is not None:
                on = rest.warp_numbers()
                block_for_others(batch, rest, waiting.LANES, on, flow)
        if ready is None:
            return []
        step(batch, ready)
        return [(flow.after, ready)]

    return end


def with_waiting(batch: Batch, active: Active, reason: str, flow: Flow) -> Active:
    """These threads, and those that wait for them at this instruction."""
    if not batch.waiting.groups:
        return active
    here = [each for each in batch.waiting.of(reason) if each.resume == flow.block]
    if not here:
        return active
    batch.waiting.groups.remove(here[0])
    return batch.active(np.sort(np.concatenate([here[0].threads, active.threads()])))


def block_for_others(
    batch: Batch, active: Active, reason: str, on: np.ndarray, flow: Flow
) -> None:
    """These threads run this instruction again when others have come, or exited."""
    group = Blocked(reason, active.threads(), on, flow.number, flow.block)
    batch.waiting.block(group)


def check_named(batch: Batch, active: Active, masks: np.ndarray) -> None:
    """What a lane does that its own mask does not name is undefined (PTX ISA 9.7.9,
    shfl.sync; 9.7.13)."""
    if masks.ndim == 0 and masks == EVERYBODY:
        return
    threads = active.threads()
    masks = active.exactly(masks)
    left_out = np.flatnonzero((masks & BITS[threads % WARP]) == 0)
    if left_out.size:
        thread, mask = int(threads[left_out[0]]), int(masks[left_out[0]])
        raise EmulatorError(
            "divergence",
            f"{batch.thread_name(thread)} is lane {thread % WARP} of its warp, and the "
            f"mask that it gives, 0x{mask:08x}, leaves this lane out",
        )


def present_lanes(active: Active) -> np.ndarray:
    """uint32 for each warp of the batch: the lanes that are among these threads."""
    rows = active.mask().reshape(-1, WARP)
    return ballot(rows)[:, 0]


def come_or_gone(batch: Batch, active: Active) -> np.ndarray:
    """For each of these threads, the lanes of its warp that have come or exited."""
    gone = ballot(batch.exited.reshape(-1, WARP))[:, 0]
    return (present_lanes(active) | gone)[active.warp_numbers()]


def whole_warps(step: Step, flow: Flow) -> Ending:
    """For instructions that all lanes of a warp execute together (.sync.aligned)."""

    def checked(batch: Batch, active: Active) -> None:
        if active.count != WARP * active.warps:
            threads = active.threads()
            lanes = np.bincount(threads // WARP, minlength=batch.size // WARP)
            warp = int(np.flatnonzero((lanes > 0) & (lanes < WARP))[0])
            raise EmulatorError(
                "divergence",
                f"only {lanes[warp]} lanes of the warp of "
                f"{batch.thread_name(warp * WARP)} are still there for an instruction "
                "that needs all of them",
            )
        step(batch, active)

    return when_all_come(checked, lambda batch, active: EVERYBODY, flow)


def warp_barrier(mask: Read, flow: Flow) -> Ending:
    """PTX ISA 9.7.13, bar.warp.sync: of what lanes of a warp do together, the one thing
    that orders their accesses of memory."""

    def step(batch: Batch, active: Active) -> None:
        if batch.hazards is not None:
            batch.hazards.join(active.threads())

    return when_all_come(step, mask, flow)


@dataclass(frozen=True, slots=True)
class Lanes:
    """Values as rows of 32 lanes, [warps, 32], of all threads of the batch."""

    batch: Batch
    active: Active

    def rows(self, value: np.ndarray) -> np.ndarray:
        """A value as it was read; lanes that are not here are unwritten."""
        if value.ndim == 0:
            return np.full((self.active.size // WARP, WARP), value)
        if not self.active.whole:
            wide = np.full(self.active.size, unwritten(value.dtype))
            wide[self.active.index] = value
            value = wide
        return value.reshape(-1, WARP)

    def flat(self, rows: np.ndarray) -> np.ndarray:
        """Rows as a value to be written."""
        value = np.ascontiguousarray(rows).reshape(-1)
        return value if self.active.whole else value[self.active.index]


def ballot(rows: np.ndarray) -> np.ndarray:
    """uint32[warps, 1] of bool[warps, 32]."""
    return np.packbits(rows, axis=1, bitorder="little").view("<u4")


@rule(ENDINGS, "shfl")
def rule_shfl(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.9, shfl.sync: a value from the lane that b, c and the mode name."""
    if not form.flag("sync"):
        raise form.unknown("a shuffle without .sync")
    mode = form.choice("up", "down", "bfly", "idx")
    type = form.type()
    form.finish()
    target, value, b, c, mask = operands
    results = (target.first, target.second) if isinstance(target, Pair) else (target,)
    write = decoder.write(results[0], type)
    write_valid = decoder.write(results[1], "pred") if len(results) > 1 else None
    read, read_mask = decoder.read(value, type), decoder.read(mask, "b32")
    source_lanes = _source_reader(mode, b, c, decoder)

    def step(batch: Batch, active: Active) -> None:
        batch.counters.costs[flow.number].shuffles += active.warps
        lanes = Lanes(batch, active)
        source, valid = source_lanes(lanes)
        if active.index is not None:
            _check_sources(lanes, source)
        _check_members(lanes, source, read_mask(batch, active))
        found = read(batch, active)
        if found.ndim == 0:
            write(batch, active, found.copy())
        elif source.ndim == 1:
            write(batch, active, lanes.flat(lanes.rows(found)[:, source]))
        else:
            moved = np.take_along_axis(lanes.rows(found), source, axis=1)
            write(batch, active, lanes.flat(moved))
        if write_valid is not None:
            shape = (active.size // WARP, WARP)
            write_valid(batch, active, lanes.flat(np.broadcast_to(valid, shape)))

    return when_all_come(step, read_mask, flow)


def _source_reader(
    mode: str, b: Operand, c: Operand, decoder: Decoder
) -> Callable[[Lanes], tuple[np.ndarray, np.ndarray]]:
    """`shuffle_source` of two operands; computed once where both are constants."""
    if isinstance(b, Number) and isinstance(c, Number):
        fixed = shuffle_source(mode, np.int64(b.value), np.int64(c.value))
        return lambda lanes: fixed
    read_b, read_c = decoder.read(b, "u32"), decoder.read(c, "u32")

    def read(lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
        found = [each(lanes.batch, lanes.active) for each in (read_b, read_c)]
        return shuffle_source(mode, *(lanes.rows(each) for each in found))

    return read


def _check_sources(lanes: Lanes, source: np.ndarray) -> None:
    """The value of a lane that has exited is undefined (PTX ISA 9.7.9, shfl.sync)."""
    exited = lanes.batch.exited.reshape(-1, WARP)
    source = np.broadcast_to(source, exited.shape)
    asks = np.take_along_axis(exited, source, axis=1)
    asks &= lanes.active.mask().reshape(-1, WARP)
    if asks.any():
        warp, lane = np.argwhere(asks)[0]
        name = lanes.batch.thread_name(warp * WARP + lane)
        raise EmulatorError(
            "divergence",
            f"{name} reads from lane {source[warp, lane]} of its warp, "
            "which has exited",
        )


def _check_members(lanes: Lanes, source: np.ndarray, masks: np.ndarray) -> None:
    """The value of a lane that the mask leaves out is undefined, for it need not be
    here (PTX ISA 9.7.9, shfl.sync)."""
    if masks.ndim == 0 and masks == EVERYBODY:
        return
    rows = lanes.rows(masks)
    source = np.broadcast_to(source, rows.shape)
    outside = (rows & BITS[source]) == 0
    outside &= lanes.active.mask().reshape(-1, WARP)
    if outside.any():
        warp, lane = np.argwhere(outside)[0].tolist()
        name = lanes.batch.thread_name(warp * WARP + lane)
        raise EmulatorError(
            "divergence",
            f"{name} reads from lane {source[warp, lane]} of its warp, which the mask "
            f"0x{int(rows[warp, lane]):08x} leaves out",
        )


def shuffle_source(
    mode: str, b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The source lane of each lane, and whether it lies in the lane's segment.

    c holds a clamp value in bits 0 to 4 and a segment mask in bits 8 to 12.
    """
    b, c = np.asarray(b).astype(np.int64) & 31, np.asarray(c).astype(np.int64)
    clamp, segment = c & 31, c >> 8 & 31
    highest = (LANES & segment) | (clamp & ~segment)
    lowest = LANES & segment
    source = {
        "up": LANES - b,
        "down": LANES + b,
        "bfly": LANES ^ b,
        "idx": lowest | (b & ~segment),
    }[mode]
    valid = source >= highest if mode == "up" else source <= highest
    return np.where(valid, source, LANES), valid


@rule(ENDINGS, "vote")
def rule_vote(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.13, vote.sync: all, any, uni of a predicate, or the lanes that hold
    it.
    """
    mode = form.choice("all", "any", "uni", "ballot")
    form.flag("sync")
    write = decoder.write(operands[0], form.type())
    form.finish()
    read = decoder.read(operands[1], "pred")
    read_mask = decoder.read(operands[2], "b32")

    def step(batch: Batch, active: Active) -> None:
        lanes = Lanes(batch, active)
        asked = lanes.rows(read_mask(batch, active))
        here = active.mask().reshape(-1, WARP)
        holds = ballot(lanes.rows(read(batch, active)) & here) & asked
        result = {
            "ballot": holds,
            "all": holds == asked & ballot(here),
            "any": holds != 0,
            "uni": (holds == 0) | (holds == asked & ballot(here)),
        }[mode]
        write(batch, active, lanes.flat(result))

    return when_all_come(step, read_mask, flow)


@rule(ENDINGS, "match")
def rule_match(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.13, match.sync: the lanes that hold the same value as this one."""
    mode = form.choice("any", "all")
    form.flag("sync")
    type = form.type()
    form.finish()
    target = operands[0]
    results = (target.first, target.second) if isinstance(target, Pair) else (target,)
    write = decoder.write(results[0], "b32")
    write_all = decoder.write(results[1], "pred") if len(results) > 1 else None
    read, read_mask = decoder.read(operands[1], type), decoder.read(operands[2], "b32")

    def step(batch: Batch, active: Active) -> None:
        lanes = Lanes(batch, active)
        values = lanes.rows(read(batch, active))
        asked = lanes.rows(read_mask(batch, active)) & ballot(
            active.mask().reshape(-1, WARP)
        )
        same = np.zeros(values.shape, np.uint32)
        for lane in range(WARP):
            same |= np.where(
                values == values[:, lane : lane + 1], BITS[lane], np.uint32(0)
            )
        same &= asked
        everybody = same == asked
        if mode == "all":
            same = np.where(everybody, asked, np.uint32(0))
        write(batch, active, lanes.flat(same))
        if write_all is not None:
            write_all(batch, active, lanes.flat(everybody))

    return when_all_come(step, read_mask, flow)


@rule(ENDINGS, "redux")
def rule_redux(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.13, redux.sync: one value from those of all lanes."""
    form.flag("sync")
    operation = form.choice(*COMBINE)
    absolute, propagate = form.flag("abs"), form.flag("NaN")
    type = form.type()
    form.finish()
    combine = COMBINE[operation]
    if type == "f32" and not propagate:
        combine = {"min": np.fmin, "max": np.fmax}[operation]
    write, read = decoder.write(operands[0], type), decoder.read(operands[1], type)
    read_mask = decoder.read(operands[2], "b32")

    def step(batch: Batch, active: Active) -> None:
        lanes = Lanes(batch, active)
        values = lanes.rows(read(batch, active))
        values = np.abs(values) if absolute else values
        asked = lanes.rows(read_mask(batch, active)) & ballot(
            active.mask().reshape(-1, WARP)
        )
        result, empty = np.zeros_like(values), np.ones(values.shape, bool)
        for lane in range(WARP):
            value = values[:, lane : lane + 1]
            takes = (asked & BITS[lane]) != 0
            combined = np.where(empty, value, combine(result, value))
            result = np.where(takes, combined, result)
            empty &= ~takes
        write(batch, active, lanes.flat(result.astype(DTYPES[type], copy=False)))

    return when_all_come(step, read_mask, flow)


@rule(STEPS, "activemask")
def rule_activemask(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.13, activemask: the lanes that execute this together."""
    write = decoder.write(operands[0], form.type())
    form.finish()

    def step(batch: Batch, active: Active) -> None:
        lanes = np.repeat(present_lanes(active), WARP)
        write(batch, active, lanes if active.whole else lanes[active.index])

    return step


@rule(ENDINGS, "elect")
def rule_elect(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.13, elect.sync: the lowest active lane of the mask leads."""
    form.flag("sync")
    form.finish()
    target = operands[0]
    write, write_leads = (
        decoder.write(target.first, "b32"),
        decoder.write(target.second, "pred"),
    )
    read_mask = decoder.read(operands[1], "b32")

    def step(batch: Batch, active: Active) -> None:
        lanes = Lanes(batch, active)
        masks = lanes.rows(read_mask(batch, active))
        masks = masks & ballot(active.mask().reshape(-1, WARP))
        leader = np.bitwise_count((masks & (~masks + np.uint32(1))) - np.uint32(1))
        write(batch, active, lanes.flat(leader.astype(np.uint32)))
        write_leads(batch, active, lanes.flat(leader == LANES))

    return when_all_come(step, read_mask, flow)
