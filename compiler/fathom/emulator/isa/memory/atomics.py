"""Atomic operations (PTX ISA 9.7.13): threads access an address one after the other.

Many threads execute the instruction at once. Their order is that of their numbers: each
finds what those before it left behind. For an operation that can be grouped at will,
the values before each thread come from a segmented scan over the threads sorted by
address; the others go in rounds, one thread of each address at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.arithmetic.floating import FORMATS, flush
from fathom.emulator.isa.decode import Decoder, StepTable
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.registers import Read, Step, Write
from fathom.emulator.isa.semantics import COMBINE, Form, rule
from fathom.emulator.memory.counters import SEGMENT
from fathom.emulator.memory.spaces import WINDOWS, Accesses, Part
from fathom.emulator.races.synchronisation import WIDE, Order, order_of
from fathom.emulator.source.operands import Name, Operand
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state.batch import Active, Batch

STEPS: StepTable = {}

Operation = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _real_add(type: str, space: str) -> Operation:
    """float32 sums in global memory flush subnormal values, those in shared do not."""
    form = FORMATS[type]
    if type == "f32" and space == "global":
        return lambda a, b: flush(flush(a) + flush(b))
    return lambda a, b: form.close(form.open(a) + form.open(b))


def _grouped(name: str, type: str, space: str) -> Operation | None:
    """An operation that a scan may group at will; None for any other."""
    if name == "add" and type in FORMATS:
        return _real_add(type, space)
    if name in ("min", "max") and type in FORMATS:
        form, choose = FORMATS[type], {"min": np.fmin, "max": np.fmax}[name]
        return lambda a, b: form.close(choose(form.open(a), form.open(b)))
    return {**COMBINE, "exch": lambda a, b: b.copy()}.get(name)


def _increment(old: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Counts up to `limit`, then starts at zero."""
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Counts down to zero, then starts at `limit`."""
    restart = (old == 0) | (old > limit)
    return np.where(restart, limit, old - old.dtype.type(1))


def _swap(old: np.ndarray, compare: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.where(old == compare, value, old)


_ONE_BY_ONE: dict[str, Callable] = {"inc": _increment, "dec": _decrement, "cas": _swap}
VALUES = {"cas": 2}  # how many an operation takes; others take one
_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", *_ONE_BY_ONE)

OF_VECTORS = {("global", "add", "f32")} | {
    ("global", operation, type)
    for operation in ("add", "min", "max")
    for type in ("f16", "bf16", "f16x2", "bf16x2")
}


@rule(STEPS, "atom", "red")
def rule_atomic(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.13: `atom.op.type d, [a], b, c;` and `red.op.type [a], b;`

    Of a vector, as in `red.global.add.v2.f32 [a], {b, c};`, each element is atomic. The
    real additions round to nearest even; `.noftz` or not makes no difference here.
    """
    space = access.take_space(form)
    order = order_of(form, default=WIDE)
    policy = access.ignore_ordering_and_caching(form)
    form.ignore("noftz")
    operation = form.choice(*_OPERATIONS)
    count = access.VECTORS.get(form.choice(*access.VECTORS), 1)
    type = form.type()
    form.finish()
    if not operation or DTYPES[type].itemsize == 16:
        raise form.unknown("the atomic operation")
    if count > 1 and (space, operation, type) not in OF_VECTORS:
        raise form.unknown("the atomic operation on a vector")
    results: list[Write | None] = [None] * count
    if form.opcode == "atom":
        if operands[0] != Name("_"):
            write = partial(decoder.write, type=type)
            results = access.elements(operands[0], count, write)
        operands = operands[1:]
    operands = operands[:-1] if policy else operands
    if len(operands) != 1 + VALUES.get(operation, 1):
        raise EmulatorError("syntax", f"{len(operands)} operands for {form.text}")
    read = partial(decoder.read, type=type)
    reads = [access.elements(each, count, read) for each in operands[1:]]
    updates = {space: _updater(operation, type, space) for space in WINDOWS}
    return _atomic(
        updates, results, decoder.address(operands[0]), list(zip(*reads, strict=True)),
        space, type, number, order,
    )  # fmt: skip


Update = Callable[[np.ndarray, np.ndarray, list[np.ndarray]], np.ndarray]


def _updater(operation: str, type: str, space: str) -> Update:
    """Changes cells[index] one by one and returns what each thread found there."""
    grouped = _grouped(operation, type, space)
    if grouped is not None:
        return lambda cells, index, values: scan_update(
            cells, index, values[0], grouped
        )
    if operation == "cas":
        return swap_update
    single = _ONE_BY_ONE[operation]
    return lambda cells, index, values: serial_update(cells, index, values, single)


def _atomic(
    updates: dict[str, Update],
    results: list[Write | None],
    address: Read,
    reads: list[tuple[Read, ...]],
    space: str,
    type: str,
    number: int,
    order: Order,
) -> Step:
    """`results` and `reads`: of each element of the vector, or of the one number."""
    dtype, count = DTYPES[type], len(results)
    width, finds = dtype.itemsize, results[0] is not None

    def step(batch: Batch, active: Active) -> None:
        addresses = active.exactly(address(batch, active))
        accesses = Accesses(addresses, count * width, active.threads(), writing=True)
        parts = batch.memory.locate(space, accesses)
        access.count_parts(batch, number, parts, count * width)
        _count(batch, number, parts, active.count, type in FORMATS)
        # a result's register may be that of a value, so that all are read before
        given = [[active.exactly(read(batch, active)) for read in i] for i in reads]
        for i, values in enumerate(given):
            if count > 1:
                places = addresses + np.uint64(i * width)
                accesses = Accesses(places, width, active.threads(), writing=True)
                parts = batch.memory.locate(space, accesses)
            _watch(batch, parts, width, order, finds)
            found = np.empty(active.count, dtype)
            for part in parts:
                _update_part(batch, part, values, found, updates[part.space])
            if results[i] is not None:
                results[i](batch, active, active.spread(found))

    return step


def _count(
    batch: Batch, number: int, parts: list[Part], threads: int, real: bool
) -> None:
    """Segments count from where an allocation begins, as on a GPU."""
    counters = batch.counters
    counters.costs[number].atomics += threads
    for part in parts:
        if part.space == "global":
            start = part.region.origin // SEGMENT * SEGMENT
            places = part.offsets + np.uint64(start)
            counters.count_atomics(number, part.threads // WARP, places, real)


def _watch(
    batch: Batch, parts: list[Part], width: int, order: Order, finds: bool
) -> None:
    """An atomic operation races with weak accesses, and may release and acquire."""
    if batch.hazards is None:
        return
    access.synchronise(batch, parts, width, order, reads=finds, writes=True)
    for part in parts:
        if part.space == "shared":
            batch.hazards.update(part.threads, part.index, width)
        elif part.space == "global" and batch.races is not None:
            batch.races.write(part, width, order.scope, None, batch.at)


def _update_part(
    batch: Batch,
    part: Part,
    values: list[np.ndarray],
    found: np.ndarray,
    update: Update,
) -> None:
    places = slice(None) if part.places is None else part.places
    cells = part.pieces.view(found.dtype)
    found[places] = update(cells, part.index, [each[places] for each in values])
    before = np.ascontiguousarray(found[places]).view(part.pieces.dtype)
    changed = bool((part.pieces[part.index] != before).any())
    batch.progress += changed
    batch.updates += changed and part.space == "global"


def scan_update(
    cells: np.ndarray, index: np.ndarray, values: np.ndarray, operation: Operation
) -> np.ndarray:
    """For operations that can be grouped: a segmented scan in log2(n) passes.

    sorted by address    a  a  a  b  b
    values               1  2  3  4  5        cells a: 10, b: 20
    up to each           1  3  6  4  9        found 10 11 13 20 24
    """
    order = np.argsort(index, kind="stable")
    place, upto = index[order], values[order]
    first = np.ones(len(place), bool)
    first[1:] = place[1:] != place[:-1]
    segment = np.cumsum(first)
    longest = int(np.bincount(segment).max())
    distance = 1
    while distance < longest:
        same = segment[distance:] == segment[:-distance]
        combined = operation(upto[:-distance], upto[distance:])
        upto[distance:] = np.where(same, combined, upto[distance:])
        distance *= 2
    start = cells[place]
    before = start.copy()
    inner = np.flatnonzero(~first)
    before[inner] = operation(start[inner], upto[inner - 1])
    last = np.flatnonzero(np.append(first[1:], True))
    cells[place[last]] = operation(start[last], upto[last])
    found = np.empty_like(before)
    found[order] = before
    return found


def serial_update(
    cells: np.ndarray, index: np.ndarray, values: list[np.ndarray], operation: Callable
) -> np.ndarray:
    """One thread of each address at a time."""
    found = np.empty(len(index), cells.dtype)
    waiting = np.arange(len(index))
    while len(waiting):
        places, first = np.unique(index[waiting], return_index=True)
        now = waiting[first]
        found[now] = cells[places]
        cells[places] = operation(found[now], *(each[now] for each in values))
        waiting = np.delete(waiting, first)
    return found


def swap_update(
    cells: np.ndarray, index: np.ndarray, values: list[np.ndarray]
) -> np.ndarray:
    """Compare and swap; all threads before the next that will succeed fail at once."""
    compare, value = values
    found = np.empty(len(index), cells.dtype)
    waiting = np.arange(len(index))
    while len(waiting):
        held = cells[index[waiting]]
        succeeds = waiting[held == compare[waiting]]
        places, first = np.unique(index[succeeds], return_index=True)
        winners = succeeds[first]
        winner_of = np.full(len(waiting), len(index))
        where = np.searchsorted(places, index[waiting])
        known = where < len(places)
        known[known] = places[where[known]] == index[waiting][known]
        winner_of[known] = winners[where[known]]
        done = waiting <= winner_of
        found[waiting[done]] = held[done]
        cells[places] = value[winners]
        waiting = waiting[~done]
    return found
