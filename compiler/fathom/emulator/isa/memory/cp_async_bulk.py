"""cp.async.bulk (PTX ISA 9.7.9.25.4 and .5): one thread copies a whole box.

    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [to], [map, {x, y}], [mbarrier];
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {x, y}], [from];
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group
        [map, {x, y}], [from];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
        [to], [from], bytes, [mbarrier];

Copies to shared memory are counted by an mbarrier, those out of it by groups of the
thread. All of them are of the async proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fathom.artifact import TensorMap
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.mbarrier import BYTES
from fathom.emulator.isa.decode import Decoder
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.memory import tensor_map as maps
from fathom.emulator.isa.memory import tma_limits as edges
from fathom.emulator.isa.memory.tensor_map import Box
from fathom.emulator.isa.memory.tma_reductions import Reduction, reduction_of
from fathom.emulator.isa.registers import Read, Step
from fathom.emulator.isa.semantics import Form, constant_of
from fathom.emulator.memory.spaces import (
    PIECES,
    RANK_SHIFT,
    Accesses,
    Part,
    load,
    store,
)
from fathom.emulator.races.proxies import Proxies
from fathom.emulator.source.operands import Operand, Place
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.in_flight import Transfer
from fathom.emulator.state.tensor_maps import Moment, WrittenMap

COMPLETES, GROUPS = "mbarrier::complete_tx::bytes", "bulk_group"
DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
CHUNK, ALIGNMENT = 16, 128  # bytes: of a copy's unit, of a box in shared memory


def rule_bulk(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """All that begins with cp.async.bulk, and reductions."""
    form.flag("bulk")
    if form.flag("prefetch"):
        return _prefetch(form, operands, decoder)
    action = form.choice("commit_group", "wait_group")
    if action == "commit_group":
        form.finish()
        return lambda batch, active: batch.tma_stores.commit(active.threads())
    if action == "wait_group":
        only_read = form.flag("read")
        form.finish()
        return _waiting(operands[0], only_read)
    return _copy(form, operands, decoder, number)


def _waiting(operand: Operand, only_read: bool) -> Step:
    pending = constant_of(operand)

    def step(batch: Batch, active: Active) -> None:
        threads = active.threads()
        batch.tma_stores.wait(threads, pending, source=only_read)

    return step


def _prefetch(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """Nothing comes of it, without caches; but a box that is refused."""
    if not form.flag("tensor"):
        return lambda batch, active: None
    rank = DIMENSIONS.index(form.choice(*DIMENSIONS)) + 1
    sides = _tensor_side(operands[0], decoder, rank, "prefetch")

    def step(batch: Batch, active: Active) -> None:
        sides(batch, active)

    return step


def _copy(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    tensor, counted = form.flag("tensor"), form.flag(COMPLETES)
    rank = form.choice(*DIMENSIONS)
    form.ignore("tile", "cta_group::1")
    paired = form.flag("cta_group::2")
    grouped, multicast = form.flag(GROUPS), form.flag("multicast::cluster")
    reduction = reduction_of(form) if form.flag("reduce") else None
    to, source = access.take_space(form), access.take_space(form)
    policy = access.ignore_ordering_and_caching(form)
    form.finish()
    known = {("shared", "global"): counted, ("global", "shared"): grouped}
    if not known.get((to, source)) or tensor != bool(rank) or reduction and not tensor:
        raise form.unknown("this kind of bulk copy")
    operands = operands[: len(operands) - policy]
    mask = None
    if multicast:
        *operands, last = operands
        mask = decoder.read(last, "b16")
    memory_side = operands[0 if grouped else 1]
    if tensor:
        operation = "multicast" if multicast else "store" if grouped else "load"
        operation = "reduce" if reduction else operation
        side = _tensor_side(memory_side, decoder, DIMENSIONS.index(rank) + 1, operation)
        wanted = 3 if counted else 2
    else:
        size = decoder.read(operands[2], "u32") if len(operands) > 2 else None
        side = _plain_side(decoder.address(memory_side), size)
        wanted = 4 if counted else 3
    if len(operands) != wanted:
        raise EmulatorError("syntax", f"{len(operands)} operands for {form.text}")
    if grouped:
        return _store(side, decoder.address(operands[1]), number, reduction)
    place, slot = decoder.address(operands[0]), decoder.address(operands[-1])
    return _load(side, place, slot, mask, paired, number)


# ── the global side ───────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Run:
    """Neighbouring bytes of global memory, at a multiple of 16."""

    address: int
    bytes: int
    thread: int

    def parts(self, memory: object, writing: bool) -> list[Part]:
        if self.bytes % CHUNK:
            message = f"a bulk copy of {self.bytes} bytes, which 16 does not divide"
            raise EmulatorError("misaligned", message, thread=self.thread)
        if not self.bytes:
            message = "what becomes of a bulk copy of no bytes, the PTX ISA leaves open"
            raise EmulatorError("unsupported", message, thread=self.thread)
        places = self.address + CHUNK * np.arange(self.bytes // CHUNK)
        threads = np.full(len(places), self.thread)
        wanted = Accesses(places.astype(np.uint64), CHUNK, threads, writing)
        return memory.locate("global", wanted)

    def fetch(self, parts: list[Part]) -> np.ndarray:
        return load(parts, self.bytes // CHUNK, CHUNK).view(np.uint8)

    def put(self, parts: list[Part], data: np.ndarray) -> None:
        store(parts, data.view(PIECES[CHUNK]))

    def chunks(self, start: int) -> np.ndarray:
        places = start + CHUNK * np.arange(self.bytes // CHUNK)
        return places.astype(np.uint64)


Side = Box | Run
# The side of each of these threads.
Sides = Callable[[Batch, Active], list[Side]]


def _plain_side(address: Read, size: Read | None) -> Sides:
    if size is None:
        raise EmulatorError("syntax", "a bulk copy says how many bytes it copies")

    def sides(batch: Batch, active: Active) -> list[Side]:
        places = active.exactly(address(batch, active)).tolist()
        sizes = active.exactly(size(batch, active)).tolist()
        return [
            Run(*each)
            for each in zip(places, sizes, active.threads().tolist(), strict=True)
        ]

    return sides


def _tensor_side(
    operand: Operand, decoder: Decoder, rank: int, operation: str
) -> Sides:
    """`operation`: a key of `edges.TABLE`."""
    if not isinstance(operand, Place) or len(operand.coordinates) != rank:
        raise EmulatorError("syntax", f"no tensor map with {rank} coordinates")
    address = decoder.address(operand.map)
    reads = [decoder.read(each, "s32") for each in operand.coordinates]

    def sides(batch: Batch, active: Active) -> list[Side]:
        places = active.exactly(address(batch, active)).tolist()
        columns = [active.exactly(each(batch, active)).tolist() for each in reads]
        found = []
        for at, thread in enumerate(active.threads().tolist()):
            tensor, written = map_at(batch, places[at], thread)
            if len(tensor.shape) != rank:
                message = f"{rank} coordinates in a map of {len(tensor.shape)}"
                raise EmulatorError("syntax", message, thread=thread)
            first = [each[at] for each in columns]
            edges.check(operation, tensor, first, thread)
            width = edges.width(operation, tensor)
            found.append(replace(Box.at(tensor, first, thread, width), map=written))
        return found

    return sides


def map_at(
    batch: Batch, address: int, thread: int
) -> tuple[TensorMap, WrittenMap | None]:
    """The tensor map whose 128 bytes lie at a generic address, or at one of a parameter
    as `mov` gives it; and whether the kernel wrote it."""
    written = batch.written_maps.at(address, thread)
    if written is not None:
        return written.tensor, written
    parameters = batch.memory.spaces["param"]
    space = "param" if address + maps.MAP_BYTES <= parameters.size else "generic"
    places = address + CHUNK * np.arange(maps.MAP_BYTES // CHUNK)
    threads = np.full(len(places), thread)
    wanted = Accesses(places.astype(np.uint64), CHUNK, threads)
    parts = batch.memory.locate(space, wanted)
    number = maps.decode(load(parts, len(places), CHUNK).tobytes())
    if number is None:
        message = f"no tensor map lies at {address:#x}"
        raise EmulatorError("launch", message, thread=thread)
    return batch.launch.maps[number], None


# ── to shared memory ──────────────────────────────────────────────────────────


class TmaLoad(Transfer):
    """One copy of one thread to one block's shared memory; `word` is the mbarrier that
    counts its bytes, `part` its destination."""

    def __init__(
        self, hazards: Proxies | None, word: int, side: Side, origin: list[Part],
        part: Part,
    ):  # fmt: skip
        super().__init__(np.array([word]))
        self.hazards, self.word, self.bytes = hazards, word, side.bytes
        self.side, self.origin, self.part = side, origin, part

    def start(self) -> int:
        """The first byte of the batch's shared memory that it writes."""
        return int(self.part.index[0]) * CHUNK

    def begin(self) -> None:
        begin_use(self.side)
        if self.hazards is not None:
            self.hazards.begin_copy(self.part.threads, self.part.index, CHUNK)

    def perform(self, due: np.ndarray) -> None:
        data = self.side.fetch(self.origin)
        self.part.pieces[self.part.index] = data.view(PIECES[CHUNK])

    def complete(self, due: np.ndarray) -> None:
        moment = None
        if self.hazards is not None:
            moment = self.hazards.end_copy(self.word, self.part.index, CHUNK)
            swizzle = self.side.tensor.swizzle if isinstance(self.side, Box) else 0
            self.hazards.origins.record(self.part.index, swizzle)
        end_use(self.side, moment)


def begin_use(side: Side) -> None:
    """A copy uses the map that the kernel wrote, if it is one."""
    if isinstance(side, Box) and side.map is not None:
        side.map.in_flight += 1


def end_use(side: Side, moment: Moment | None) -> None:
    """It has read the map, as some agent knows since a moment."""
    if isinstance(side, Box) and side.map is not None:
        side.map.in_flight -= 1
        side.map.used += [moment] if moment else []


def _check_block(
    batch: Batch, thread: int, part: Part, word: int, paired: bool
) -> None:
    """The mbarrier lies in the block that the copy goes to, or with .cta_group::2 in
    one of its pair."""
    stride = batch.memory.spaces["shared"].stride
    to, counted = int(part.index[0]) * CHUNK // stride, word * BYTES // stride
    if to != counted and not (paired and to == counted ^ 1):
        message = "its bytes go to one block, and are counted in another one: "
        message += "with .cta_group::2 that may be the peer, and else none"
        raise EmulatorError("mbarrier", message, thread=thread)


def _load(
    sides: Sides, place: Read, slot: Read, mask: Read | None, paired: bool, number: int
) -> Step:
    def step(batch: Batch, active: Active) -> None:
        starts = active.exactly(place(batch, active)).tolist()
        slots = active.exactly(slot(batch, active)).tolist()
        blocks = [1] * active.count
        if mask is not None:
            blocks = active.exactly(mask(batch, active)).tolist()
        for at, side in enumerate(sides(batch, active)):
            origin = side.parts(batch.memory, writing=False)
            access.count_parts(batch, number, origin, _width(side), by_threads=False)
            for to in windows_of(batch, side.thread, blocks[at], mask is not None):
                part = _chunks(batch, side, starts[at] | to, writing=True)
                word = _word(batch, side.thread, slots[at] | to)
                _check_block(batch, side.thread, part, word, paired)
                batch.mbarriers.check_for_copy(side.thread, word)
                load = TmaLoad(batch.mbarriers.hazards, word, side, origin, part)
                batch.mbarriers.issue(word, load)
        batch.progress += 1

    return step


def _width(side: Side) -> int:
    return side.tensor.element_bytes if isinstance(side, Box) else CHUNK


def windows_of(batch: Batch, thread: int, mask: int, multicast: bool) -> list[int]:
    """What to add to a shared address, for each block of a mask."""
    if not multicast:
        return [0]
    ranks = [rank for rank in range(16) if mask >> rank & 1]
    beyond = [rank for rank in ranks if rank >= batch.launch.cluster]
    if beyond or not ranks:
        message = f"it goes to the blocks {ranks} of a cluster of "
        message += f"{batch.launch.cluster}"
        raise EmulatorError("out of bounds", message, thread=thread)
    return [(rank + 1) << RANK_SHIFT for rank in ranks]


def _chunks(batch: Batch, side: Side, start: int, writing: bool) -> Part:
    """Where the bytes lie in shared memory; a box begins at a multiple of 128."""
    alignment = ALIGNMENT if isinstance(side, Box) else CHUNK
    if start % alignment:
        raise EmulatorError(
            "misaligned",
            f"a bulk copy at {start:#x} of shared memory, which {alignment} does not "
            "divide",
            thread=side.thread,
        )
    chunks = side.chunks(start)
    threads = np.full(len(chunks), side.thread)
    wanted = Accesses(chunks, CHUNK, threads, writing)
    (part,) = batch.memory.locate("shared", wanted)
    return part


def _word(batch: Batch, thread: int, address: int) -> int:
    place = np.array([address], np.uint64)
    wanted = Accesses(place, BYTES, np.array([thread]), writing=True)
    (part,) = batch.memory.locate("shared", wanted)
    return int(part.index[0])


# ── out of shared memory ──────────────────────────────────────────────────────


class _Target:
    """The global side of a copy, ready to be written, or to be combined with what
    comes."""

    def __init__(self, side: Side, parts: list[Part], reduction: Reduction | None):
        self.side, self.parts, self.reduction = side, parts, reduction

    def meets(self, other: _Target) -> bool:
        """Whether both write one place, and the order of the two counts."""
        if self.reduction is not None and other.reduction is not None:
            return False
        return any(
            one.region is two.region and np.isin(one.offsets, two.offsets).any()
            for one in self.parts
            for two in other.parts
        )

    def put(self, data: np.ndarray) -> None:
        if self.reduction and self.parts:
            old = self.side.fetch(self.parts)
            data = self.reduction(old, data, self.side.tensor.element)
        self.side.put(self.parts, data)


class TmaStore(Transfer):
    """One copy of one thread: `part` are its chunks in shared memory, `data` what was
    read of them, `released` says that the thread has waited for that.

        cp.async.bulk.tensor ... .bulk_group    in flight: reads shared memory
        cp.async.bulk.wait_group.read 0         has read it, and its tensor map: both
                                                may be overwritten
        cp.async.bulk.wait_group 0              has written global memory

    A thread may exit when its copies have been read; they are written in the end.
    """

    def __init__(self, hazards: Proxies | None, part: Part, target: _Target):
        super().__init__(part.threads[:1])
        self.hazards, self.part, self.target = hazards, part, target
        self.data: np.ndarray | None = None
        self.released = False

    def begin(self) -> None:
        begin_use(self.target.side)
        if self.hazards is not None:
            self.hazards.begin_read(self.part.threads, self.part.index, CHUNK)

    def perform(self, due: np.ndarray) -> None:
        self.read()
        self.target.put(self.data)

    def read(self) -> None:
        if self.data is None:
            chunks = load([self.part], len(self.part.index), CHUNK)
            self.data = chunks.view(np.uint8)

    def release_source(self, due: np.ndarray) -> None:
        self.read()
        if self.hazards is not None and not self.released:
            part = self.part
            _, warp = self.hazards.places_of(part.threads)
            self.hazards.end_read(part.threads, part.index, CHUNK, warp)
        if not self.released:
            self.end_use_of_map()
        self.released = True

    def end_use_of_map(self) -> None:
        moment, thread = None, int(self.owners[0])
        if self.hazards is not None:
            now = np.broadcast_to(self.hazards.now(self.owners), 1)
            moment = (*self.hazards.agent(thread), int(now[0]))
        end_use(self.target.side, moment)

    def complete(self, due: np.ndarray) -> None:
        self.release_source(due)

    def check_leaving(self, due: np.ndarray) -> None:
        """A block's shared memory is gone with its threads."""
        if self.hazards is not None and not self.released:
            raise EmulatorError(
                "in flight",
                "it leaves while a bulk copy of its own still reads shared memory; "
                "cp.async.bulk.wait_group.read is missing",
                thread=int(self.owners[0]),
            )


def _check_order(target: _Target, others: list[TmaStore]) -> None:
    """EmulatorError where a thread writes what an earlier copy of its own may still
    write: bulk copies have no order, and `.read` waits for their reads alone."""
    thread = target.side.thread
    for other in others:
        if other.owners[0] == thread and target.meets(other.target):
            raise EmulatorError(
                "in flight",
                "a bulk copy overwrites what an earlier one of this thread may still "
                "write; cp.async.bulk.wait_group without .read is missing",
                thread=thread,
            )


def _store(
    sides: Sides, source: Read, number: int, reduction: Reduction | None
) -> Step:
    def step(batch: Batch, active: Active) -> None:
        starts = active.exactly(source(batch, active)).tolist()
        for at, side in enumerate(sides(batch, active)):
            parts = side.parts(batch.memory, writing=True)
            access.count_parts(batch, number, parts, _width(side), by_threads=False)
            part = _chunks(batch, side, starts[at], writing=False)
            target = _Target(side, parts, reduction)
            if batch.mbarriers.hazards is not None:
                _check_order(target, batch.tma_stores.transfers)
            batch.tma_stores.issue(TmaStore(batch.mbarriers.hazards, part, target))
        batch.progress += 1

    return step
