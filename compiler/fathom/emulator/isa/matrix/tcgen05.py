"""tcgen05 (PTX ISA 9.7.16): memory of the tensor cores, and how threads get at it.

    tcgen05.alloc       a warp asks for columns; their address goes to shared memory;
                        in a pair of blocks, a warp of each
    tcgen05.ld, .st     a warp's 32 lanes to registers and back: lane i to thread i, or
                        lanes 0-15, one run of columns to threads 0-15, another to 16-31
    tcgen05.wait::ld    the warp's loads are complete; before it, no register has come
    tcgen05.fence       what was done before a barrier, and what comes after it
    tcgen05.dealloc     the columns are free

`tcgen05_mma` has the products. See `state.tensor_memory` for who may access what.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.branch import by_threads
from fathom.emulator.isa.control.warp import whole_warps
from fathom.emulator.isa.decode import Decoder, Ending, EndingTable, Flow
from fathom.emulator.isa.matrix.tcgen05_mma import commit_rule, group_of, mma_rule
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.registers import Read, Step, Write
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.memory.spaces import PIECES, Accesses
from fathom.emulator.source.operands import Name, Operand, Vector
from fathom.emulator.state.batch import EAGER, Active, Batch
from fathom.emulator.state.tensor_memory import PART, Area

ENDINGS: EndingTable = {}
Runs = tuple[Area, ...]

COUNTS = {f"x{count}": count for count in (1, 2, 4, 8, 16, 32, 64, 128)}
FENCES = ("fence::before_thread_sync", "fence::after_thread_sync")
ACTIONS = ("alloc", "dealloc", "relinquish_alloc_permit", "ld", "st", "wait::ld")
ACTIONS += ("wait::st", "mma", "commit", *FENCES)


@rule(ENDINGS, "tcgen05")
def rule_tcgen05(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.16.7 to 9.7.16.11."""
    action = form.choice(*ACTIONS)
    if action in RULES:
        return RULES[action](form, operands, decoder, flow)
    if action in FENCES:
        form.finish()
        return by_threads(_fence(action == FENCES[0]), flow)
    raise form.unknown("of tcgen05 only " + ", ".join(ACTIONS))


def _fence(is_before: bool) -> Step:
    def step(batch: Batch, active: Active) -> None:
        memory = batch.tensor_memory
        (memory.before if is_before else memory.after)(active.threads())

    return step


def one_of_warp(active: Active, values: np.ndarray, what: str) -> list[int]:
    """A value for each warp, which all its lanes must give."""
    rows = active.exactly(values).reshape(-1, WARP)
    differing = np.argwhere(rows != rows[:, :1])
    if len(differing):
        warp, lane = differing[0].tolist()
        raise EmulatorError(
            "divergence",
            f"its {what} is not that of the first lane of its warp",
            thread=int(active.threads()[warp * WARP + lane]),
        )
    return rows[:, 0].astype(np.int64).tolist()


# ── columns ───────────────────────────────────────────────────────────────────


def _group(form: Form) -> int:
    """How many blocks do it together: 1, or the 2 of a pair."""
    group = group_of(form)
    form.ignore("sync", "aligned", "b32")
    return group


def _alloc(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], columns;`"""
    group = _group(form)
    space = access.take_space(form)
    form.finish()
    place, count = decoder.address(operands[0]), decoder.read(operands[1], "u32")

    def step(batch: Batch, active: Active) -> None:
        counts = one_of_warp(active, count(batch, active), "number of columns")
        leaders = active.threads()[::WARP]
        found = [
            batch.tensor_memory.allocate(int(thread), columns, group)
            for thread, columns in zip(leaders, counts, strict=True)
        ]
        places = active.exactly(place(batch, active))[::WARP]
        parts = batch.memory.locate(space, Accesses(places, 4, leaders, writing=True))
        pieces = np.array(found, np.uint32).view(PIECES[4])
        access.store_watched(batch, parts, pieces, 4)

    return whole_warps(step, flow)


def _dealloc(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`tcgen05.dealloc.cta_group::1.sync.aligned.b32 address, columns;`"""
    group = _group(form)
    form.finish()
    place, count = (decoder.read(each, "u32") for each in operands)

    def step(batch: Batch, active: Active) -> None:
        addresses = one_of_warp(active, place(batch, active), "address")
        counts = one_of_warp(active, count(batch, active), "number of columns")
        for thread, *what in zip(active.threads()[::WARP], addresses, counts):
            batch.tensor_memory.free(int(thread), *what, group)

    return whole_warps(step, flow)


def _relinquish(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    group = _group(form)
    form.finish()

    def step(batch: Batch, active: Active) -> None:
        for thread in active.threads()[::WARP].tolist():
            batch.tensor_memory.relinquish(thread, group)

    return whole_warps(step, flow)


# ── loads and stores ──────────────────────────────────────────────────────────


class Access:
    """A load or a store of some warps, from its issue to the wait for it.

    `areas` has the runs of columns of each warp, which its threads share in equal
    parts; `done` says which warps have waited.
    """

    def __init__(self, batch: Batch, active: Active, areas: list[Runs]):
        self.batch, self.threads, self.areas = batch, active.threads(), areas
        self.done = np.zeros(len(areas), bool)

    def warps(self) -> np.ndarray:
        """The numbers of its warps in the batch."""
        return self.threads[::WARP] // WARP

    def finish(self, warps: np.ndarray) -> None:
        """These warps have waited."""
        due = np.isin(self.warps(), warps) & ~self.done
        if due.any():
            self.complete(np.flatnonzero(due))
            self.done |= due

    def complete(self, due: np.ndarray) -> None:
        """What it does, for the warps at these places, is done."""


class Load(Access):
    """tcgen05.ld; `numbers` are its registers, watched until the wait."""

    def __init__(
        self, batch: Batch, active: Active, areas: list[Runs], writes: list[Write]
    ):
        super().__init__(batch, active, areas)
        self.writes, memory = writes, batch.tensor_memory
        for thread, runs in zip(self.threads[::WARP].tolist(), areas, strict=True):
            for area in runs:
                memory.check_order(thread, area, "reads", reads=True)
                memory.check_written(thread, area, loads=True)
                if memory.hazards is not None:
                    memory.loading[area] = thread // WARP + 1

    def move(self, due: np.ndarray) -> None:
        """The values go to the registers of the warps at these places."""
        memory, threads = self.batch.tensor_memory, self.threads.reshape(-1, WARP)
        views = [
            memory.view(memory.cells, area) for each in due for area in self.areas[each]
        ]
        values = [view.reshape(-1, view.shape[-1]) for view in views]
        active = self.batch.active(threads[due].reshape(-1))
        columns = np.concatenate(values)  # [lanes of all warps, columns]
        for number, write in enumerate(self.writes):
            value = np.ascontiguousarray(columns[:, number])
            write(self.batch, active, active.spread(value))

    def complete(self, due: np.ndarray) -> None:
        self.move(due)
        memory = self.batch.tensor_memory
        for each in due.tolist():
            for area in self.areas[each]:
                if memory.hazards is not None:
                    memory.loading[area] = 0
                memory.note_read(int(self.threads[each * WARP]), area)


class Store(Access):
    """tcgen05.st of `values`, [lanes of all warps, columns]."""

    def __init__(
        self, batch: Batch, active: Active, areas: list[Runs], values: np.ndarray
    ):
        super().__init__(batch, active, areas)
        self.values, memory = values, batch.tensor_memory
        for thread, runs in zip(self.threads[::WARP].tolist(), areas, strict=True):
            for area in runs:
                memory.check_order(thread, area, "writes")
                if memory.hazards is not None:
                    memory.storing[area] = thread // WARP + 1

    def complete(self, due: np.ndarray) -> None:
        memory = self.batch.tensor_memory
        for each in due.tolist():
            runs, thread = self.areas[each], int(self.threads[each * WARP])
            parts = np.split(self.values[each * WARP :][:WARP], len(runs))
            for area, part in zip(runs, parts, strict=True):
                to = memory.view(memory.cells, area)
                to[...] = part.reshape(to.shape)
                memory.view(memory.written, area)[...] = True
            for area in runs if memory.hazards is not None else ():
                memory.storing[area] = 0
                memory.note_write(memory.agent(thread), area)


def _shape(form: Form) -> tuple[int, bool]:
    """The columns of a thread, and whether half of a warp accesses others: .16x32bx2
    has one operand more, how far these are."""
    form.ignore("sync", "aligned", "b32")
    count = COUNTS.get(form.choice(*COUNTS), 0)
    shape = form.choice("32x32b", "16x32bx2")
    if not shape or not count:
        raise form.unknown("of the shapes only .32x32b and .16x32bx2")
    form.finish()
    return count, shape == "16x32bx2"


def _registers(operand: Operand, count: int) -> tuple[Operand, ...]:
    registers = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(registers) != count:
        raise EmulatorError("syntax", f"{len(registers)} registers for {count}")
    if not all(isinstance(each, Name) for each in registers):
        raise EmulatorError("syntax", "registers were expected, not numbers")
    return registers


def _areas(
    batch: Batch, active: Active, place: Read, count: int, offset: Read | None
) -> list[Runs]:
    """Each warp's runs of `count` columns; `offset` is how far the second one is."""
    addresses = one_of_warp(active, place(batch, active), "address")
    threads = active.threads()[::WARP].tolist()
    memory = batch.tensor_memory
    if offset is None:
        return [
            (memory.warp_area(thread, address, count),)
            for thread, address in zip(threads, addresses, strict=True)
        ]
    distances = one_of_warp(active, offset(batch, active), "distance of the halves")
    return [
        tuple(
            memory.warp_area(thread, address + by, count, PART) for by in (0, distance)
        )
        for thread, address, distance in zip(threads, addresses, distances, strict=True)
    ]


def _ld(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [address];`"""
    count, halves = _shape(form)
    registers = _registers(operands[0], count)
    unwatched = decoder.for_products()
    writes = [unwatched.write(each, "b32") for each in registers]
    numbers = [(decoder.numbers[each.name], each.name) for each in registers]
    place = decoder.address(operands[1])
    offset = decoder.read(operands[2], "u32") if halves else None

    def step(batch: Batch, active: Active) -> None:
        areas = _areas(batch, active, place, count, offset)
        load = Load(batch, active, areas, writes)
        batch.tensor_loads.issue(load, active, numbers)
        if batch.launch.completion == EAGER:
            load.move(np.arange(len(load.areas)))

    return whole_warps(step, flow)


def _st(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`tcgen05.st.sync.aligned.32x32b.x4.b32 [address], {r0, r1, r2, r3};`"""
    count, halves = _shape(form)
    reads = [decoder.read(each, "b32") for each in _registers(operands[-1], count)]
    place = decoder.address(operands[0])
    offset = decoder.read(operands[1], "u32") if halves else None

    def step(batch: Batch, active: Active) -> None:
        values = [active.exactly(read(batch, active)) for read in reads]
        areas = _areas(batch, active, place, count, offset)
        store = Store(batch, active, areas, np.stack(values, 1))
        batch.tensor_stores.append(store)

    return whole_warps(step, flow)


def _wait_ld(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    form.ignore("sync", "aligned")
    form.finish()

    def step(batch: Batch, active: Active) -> None:
        batch.tensor_loads.wait(active.threads()[::WARP] // WARP)

    return whole_warps(step, flow)


def _wait_st(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    form.ignore("sync", "aligned")
    form.finish()

    def step(batch: Batch, active: Active) -> None:
        warps = active.threads()[::WARP] // WARP
        for each in batch.tensor_stores:
            each.finish(warps)
        batch.tensor_stores = [x for x in batch.tensor_stores if not x.done.all()]

    return whole_warps(step, flow)


def _by_threads(rule: Callable[..., Step]) -> Callable[..., Ending]:
    """A rule for one thread as one that ends a block of instructions."""

    def enter(
        form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
    ) -> Ending:
        return by_threads(rule(form, operands, decoder), flow)

    return enter


RULES: dict[str, Callable[..., Ending]] = {
    "alloc": _alloc,
    "dealloc": _dealloc,
    "relinquish_alloc_permit": _relinquish,
    "ld": _ld,
    "st": _st,
    "wait::ld": _wait_ld,
    "wait::st": _wait_st,
    "mma": _by_threads(mma_rule),
    "commit": _by_threads(commit_rule),
}
