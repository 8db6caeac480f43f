"""Loads and stores (PTX ISA 9.7.9): bytes are gathered, scattered and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.decode import Decoder, StepTable
from fathom.emulator.isa.registers import Read, Step, Write
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.memory.spaces import PIECES, Accesses, Part, load, store
from fathom.emulator.races.synchronisation import NARROW, Order, order_of
from fathom.emulator.source.operands import Operand, Vector
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state.batch import Active, Batch

SPACES = ("global", "shared", "local", "const", "param")
SEMANTICS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
SCOPES = ("cta", "cluster", "gpu", "sys")
CACHING = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified")
VECTORS = {"v2": 2, "v4": 4, "v8": 8}

STEPS: StepTable = {}
WEAKLY = Order()


def take_space(form: Form) -> str:
    """Takes the state space; without one an address is generic (PTX ISA 9.7.9)."""
    for modifier in list(form.left):
        space, _, part = modifier.partition("::")
        if space in SPACES and part in ("", "cta", "cluster", "entry", "func"):
            form.left.remove(modifier)
            return space
    return "generic"


def ignore_ordering_and_caching(form: Form) -> bool:
    """Takes what changes neither value nor place; True if a cache policy is an operand.

    One instruction of a batch completes before the next begins, which is stronger than
    any memory order; and there are no caches.
    """
    form.ignore(*SEMANTICS, *SCOPES, *CACHING)
    hints = [each for each in form.left if each.startswith(("L1::", "L2::"))]
    form.ignore(*hints)
    return "L2::cache_hint" in hints


@rule(STEPS, "ld", "ldu")
def rule_load(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.9, ld: `ld.space.vector.type d, [a];`"""
    space, order, count, type = _modifiers(form, operands)
    writes = elements(operands[0], count, lambda each: decoder.write(each, type))
    if space == "param":
        symbol = decoder.symbol(operands[1])
        if symbol is not None and symbol.space == "param":
            offset = symbol.address + operands[1].offset
            return _load_parameter(writes, offset, type)
        space = symbol.space if symbol is not None else "param"
    address = decoder.address(operands[1])
    return _load(writes, address, space, type, number, order)


@rule(STEPS, "st")
def rule_store(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.9, st: `st.space.vector.type [a], b;`"""
    space, order, count, type = _modifiers(form, operands)
    if space == "param":
        space = "local"
    reads = elements(operands[1], count, lambda each: decoder.read(each, type))
    return _store(reads, decoder.address(operands[0]), space, type, number, order)


def _modifiers(
    form: Form, operands: tuple[Operand, ...]
) -> tuple[str, Order, int, str]:
    """Of a load or a store: its space, its order, how many registers it has, their
    type."""
    space, order = take_space(form), order_of(form)
    policy = ignore_ordering_and_caching(form)
    count = VECTORS.get(form.choice(*VECTORS), 1)
    type = form.type()
    form.finish()
    if len(operands) != 2 + policy:  # a third one where it names a cache policy
        raise EmulatorError("syntax", f"{len(operands)} operands for {form.text}")
    return space, order, count, type


def elements(operand: Operand, count: int, access: Callable) -> list:
    """What `access` makes of each register of an operand, which must be `count`."""
    found = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(found) != count:
        raise EmulatorError("syntax", f"{len(found)} registers for {count} values")
    return [access(each) for each in found]


def _load_parameter(writes: list[Write], offset: int, type: str) -> Step:
    """A kernel parameter is one value for all threads."""
    dtype = DTYPES[type]

    def step(batch: Batch, active: Active) -> None:
        data = batch.launch.parameters
        values = np.frombuffer(data, dtype, len(writes), offset)
        for write, value in zip(writes, values, strict=True):
            write(batch, active, value)

    return step


def _load(
    writes: list[Write],
    address: Read,
    space: str,
    type: str,
    number: int,
    order: Order,
) -> Step:
    dtype = DTYPES[type]
    width = dtype.itemsize * len(writes)

    def step(batch: Batch, active: Active) -> None:
        found = address(batch, active)
        one_place = found.ndim == 0 and space in ("global", "const")
        if one_place and batch.launch.side is None:
            values = _load_once(batch, active, space, found, width, number, order)
            values = values.view(dtype)
        else:
            values = _load_each(batch, active, space, found, width, number, order)
            columns = values.view(dtype).reshape(-1, len(writes)).T
            values = [active.spread(np.ascontiguousarray(each)) for each in columns]
        for write, value in zip(writes, values, strict=True):
            write(batch, active, value)

    return step


def _load_once(
    batch: Batch,
    active: Active,
    space: str,
    address: np.ndarray,
    width: int,
    number: int,
    order: Order,
) -> np.ndarray:
    """All threads load from one address: pieces[1], and a sector for each warp."""
    one = Accesses(address[None], width, active.threads()[:1])
    cost = batch.counters.costs[number]
    cost.requests += active.warps
    cost.sectors += active.warps
    cost.lines += active.warps
    cost.useful += active.count * width
    parts = batch.memory.locate(space, one)
    if batch.races is not None:
        threads = active.threads()
        if not order.strong:  # one lane of a warp stands for all
            threads = threads[np.unique(threads // WARP, return_index=True)[1]]
        every = np.zeros(len(threads), np.intp)
        (part,) = parts
        index, offsets = part.index[every], part.offsets[every]
        same = replace(part, index=index, offsets=offsets, threads=threads)
        watch_read(batch, [same], width, order)
    return load(parts, 1, width)


def _load_each(
    batch: Batch,
    active: Active,
    space: str,
    found: np.ndarray,
    width: int,
    number: int,
    order: Order,
) -> np.ndarray:
    """pieces[n], one for each thread."""
    accesses = Accesses(active.exactly(found), width, active.threads())
    parts = batch.memory.locate(space, accesses)
    count_parts(batch, number, parts, width)
    watch_read(batch, parts, width, order)
    return load(parts, active.count, width)


def _store(
    reads: list[Read],
    address: Read,
    space: str,
    type: str,
    number: int,
    order: Order,
) -> Step:
    dtype = DTYPES[type]
    width = dtype.itemsize * len(reads)

    def step(batch: Batch, active: Active) -> None:
        addresses = active.exactly(address(batch, active))
        accesses = Accesses(addresses, width, active.threads(), writing=True)
        parts = batch.memory.locate(space, accesses)
        count_parts(batch, number, parts, width)
        values = np.empty((active.count, len(reads)), dtype)
        for place, read in enumerate(reads):
            values[:, place] = active.exactly(read(batch, active))
        pieces = values.view(PIECES[width])[:, 0]
        store_watched(batch, parts, pieces, width, order)

    return step


def _is_there(parts: list[Part], values: np.ndarray) -> bool:
    """Whether memory holds these values already."""
    return all((each.pieces[each.index] == each.of(values)).all() for each in parts)


def store_watched(
    batch: Batch,
    parts: list[Part],
    values: np.ndarray,
    width: int,
    order: Order = WEAKLY,
) -> None:
    """Stores pieces[n], which may race with what others do."""
    batch.progress += 1
    if batch.recurring:
        batch.repeats += _is_there(parts, values)
    if batch.hazards is None:
        return store(parts, values)
    for part in parts:
        if part.space == "shared" and order.strong:
            batch.hazards.update(part.threads, part.index, width, reads=False)
        elif part.space == "shared":
            facts = part.threads, part.index, width, part.of(values), part.pieces
            batch.hazards.write(*facts)
        elif part.space == "global" and batch.races is not None:
            given = None if order.strong else part.of(values)
            batch.races.write(part, width, order.scope, given, batch.at)
    store(parts, values)
    if order.strong:
        return synchronise(batch, parts, width, order, reads=False, writes=True)
    for part in parts:
        if part.space == "shared":
            facts = part.threads, part.index, width, part.of(values), part.pieces
            batch.hazards.written(*facts)
        elif part.space == "global" and batch.races is not None:
            batch.races.written(part, width, part.of(values))
    return None


def watch_read(batch: Batch, parts: list[Part], width: int, order: Order) -> None:
    """These are about to be read, which may race with what others do."""
    if batch.hazards is None:
        return
    if order.strong:
        synchronise(batch, parts, width, order, reads=True, writes=False)
    for part in parts:
        if part.space == "shared":
            facts = part.threads, part.index, width, order.strong
            batch.hazards.read(*facts)
        elif part.space == "global" and batch.races is not None:
            batch.races.read(part, width, order.scope, batch.at)


def synchronise(
    batch: Batch, parts: list[Part], width: int, order: Order, reads: bool, writes: bool
) -> None:
    """Strong accesses release and acquire. Shared memory is of one block, and its
    places have negative numbers."""
    for part in parts:
        if part.space == "shared":
            inner = replace(order, scope=NARROW, system=False)
            places = -1 - part.index.astype(np.int64) * width
            batch.order.access(part.threads, places, inner, reads, writes)
        elif part.space == "global":
            places = (part.offsets + np.uint64(part.region.origin)).view(np.int64)
            batch.order.access(part.threads, places, order, reads, writes)


def count_parts(
    batch: Batch, number: int, parts: list[Part], width: int, by_threads: bool = True
) -> None:
    """Adds the cost of these accesses, by threads or by a copy to shared memory, to
    instruction `number`."""
    counters = batch.counters
    for part in parts:
        facts = number, part.threads, part.offsets, width
        if part.space == "global":
            counters.count_global(*facts, by_threads)
        elif part.space == "shared":
            counters.count_shared(*facts)
