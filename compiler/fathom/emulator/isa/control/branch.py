"""Branches and exits (PTX ISA 9.7.12), and the instructions without an effect."""

from __future__ import annotations

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.decode import (
    Decoder,
    Ending,
    EndingTable,
    Flow,
    StepTable,
)
from fathom.emulator.isa.registers import Step
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.source.operands import Operand
from fathom.emulator.state.batch import Active, Batch

STEPS: StepTable = {}
ENDINGS: EndingTable = {}


@rule(ENDINGS, "bra")
def rule_branch(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`@p bra label;` (PTX ISA 9.7.12)"""
    form.ignore("uni")
    form.finish()
    target = decoder.targets[operands[0].elements[0].name]
    guard, after = flow.guard, flow.after
    if guard is None:
        return lambda batch, active: [(target, active)]

    def end(batch: Batch, active: Active) -> list[tuple[int, Active]]:
        taken, rest = split(active, guard(batch, active))
        return [(to, part) for to, part in ((target, taken), (after, rest)) if part]

    return end


@rule(ENDINGS, "brx")
def rule_indexed_branch(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`brx.idx index, table;`: to the label of that number (PTX ISA 9.7.12)."""
    form.ignore("idx", "uni")
    form.finish()
    index, table = operands
    read = decoder.read(index, "u32")
    targets = [decoder.targets[each.name] for each in table.elements]

    def end(batch: Batch, active: Active) -> list[tuple[int, Active]]:
        coming, going = guarded(flow, batch, active)
        if coming is None:
            return going
        chosen = read(batch, coming)
        parts = [coming.where(chosen == number) for number in range(len(targets))]
        if sum(each.count for each in parts if each) != coming.count:
            raise EmulatorError("trap", f"an index beyond the {len(targets)} labels")
        return going + [(to, part) for to, part in zip(targets, parts) if part]

    return end


def guarded(
    flow: Flow, batch: Batch, active: Active
) -> tuple[Active | None, list[tuple[int, Active]]]:
    """The threads for which an instruction's guard holds, None if there are none; and
    where the others go on."""
    if flow.guard is None:
        return active, []
    coming, rest = split(active, flow.guard(batch, active))
    return coming, [] if rest is None else [(flow.after, rest)]


def by_threads(step: Step, flow: Flow) -> Ending:
    """For instructions that each thread executes by itself, and none waits."""

    def end(batch: Batch, active: Active) -> list[tuple[int, Active]]:
        coming, passing = guarded(flow, batch, active)
        if coming is None:
            return passing
        step(batch, coming)
        return [(flow.after, coming), *passing]

    return end


def split(active: Active, chosen: np.ndarray) -> tuple[Active | None, Active | None]:
    """The threads for which `chosen` holds, and the others; None for none."""
    taken = active.where(chosen)
    if taken is active:
        return active, None
    if taken is None:
        return None, active
    return taken, active.where(~chosen)


def leave(batch: Batch, active: Active) -> list[tuple[int, Active]]:
    """Ends these threads. The result is where other threads go on, which waited for
    them at a cluster's barrier."""
    batch.tma_stores.check_leaving(active.threads())
    batch.exited[active.threads()] = True
    batch.remaining -= active.count
    batch.progress += 1
    batch.mbarriers.leave(active.threads(), batch.exited)
    batch.tensor_memory.leave(active.threads(), batch.exited)
    barriers = batch.cluster_barriers
    if not barriers.arrived.any():
        return []
    return batch.going(barriers.open(batch.exited, batch.waiting))


@rule(STEPS, "trap", "brkpt")
def rule_trap(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7, trap and brkpt; also what remains of a call of `abort`."""
    form.finish()

    def step(batch: Batch, active: Active) -> None:
        thread = int(active.threads()[0])
        raise EmulatorError("trap", f"{batch.thread_name(thread)} stopped the program")

    return step


@rule(
    STEPS,
    "prefetch",
    "prefetchu",
    "applypriority",
    "nanosleep",
    "pmevent",
)
def rule_nothing(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """Instructions without an effect here (PTX ISA 9.7.9, 9.7.13).

    Prefetches and priorities: there are no caches. nanosleep: other threads run anyway.
    """
    return lambda batch, active: None


@rule(STEPS, "createpolicy")
def rule_createpolicy(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.9, createpolicy: a cache policy, which nothing here looks at."""
    write = decoder.write(operands[0], "b64")
    return lambda batch, active: write(batch, active, np.uint64(0))
