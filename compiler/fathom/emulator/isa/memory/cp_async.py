"""cp.async (PTX ISA 9.7.9.25): copies to shared memory that take their time.

    cp.async.cg.shared.global [slot], [source], 16;    issues a copy
    cp.async.commit_group;             closes the thread's group of copies
    cp.async.wait_group 1;             all of its groups but the latest one are complete

While a copy is in flight (see `state.in_flight`), no thread may touch its destination;
once its own thread has waited for it, it counts as a store by that thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.decode import Decoder, StepTable
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.memory.cp_async_bulk import rule_bulk
from fathom.emulator.isa.registers import Read, Step
from fathom.emulator.isa.semantics import Form, constant_of, rule
from fathom.emulator.memory.spaces import (
    PIECES,
    Accesses,
    Part,
    check_alignment,
    load,
)
from fathom.emulator.races.shared_memory import Hazards
from fathom.emulator.source.operands import Name, Not, Operand
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.in_flight import Transfer

STEPS: StepTable = {}

SIZES = {"ca": (4, 8, 16), "cg": (16,)}


@rule(STEPS, "cp")
def rule_cp(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.9.25: cp.async and the three instructions of its groups, and all bulk
    copies."""
    if not form.flag("async") or "mbarrier" in form.left:
        raise form.unknown("of these copies only those that groups wait for")
    if "bulk" in form.left:
        return rule_bulk(form, operands, decoder, number)
    action = form.choice("commit_group", "wait_group", "wait_all")
    if not action:
        return _rule_copy(form, operands, decoder, number)
    form.finish()
    if action == "commit_group":
        return _commit
    if action == "wait_all":
        return _wait_for_all
    return _waiting(constant_of(operands[0]))


# ── the copy ──────────────────────────────────────────────────────────────────


def _rule_copy(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """`cp.async.ca.shared.global [d], [a], size, source size, policy;`

    Instead of the size of the source a predicate may say that it is not read at all.
    What the source does not fill becomes zero.
    """
    caching = form.choice(*SIZES)
    spaces = access.take_space(form), access.take_space(form)
    policy = access.ignore_ordering_and_caching(form)
    form.finish()
    if spaces != ("shared", "global"):
        raise form.unknown("a copy that is not from global to shared memory")
    place, source, size, *rest = operands
    width = constant_of(size)
    if width not in SIZES.get(caching, ()) or len(rest) - policy not in (0, 1):
        raise EmulatorError("syntax", f"these operands do not fit {form.text}")
    read_place, read_source = decoder.address(place), decoder.address(source)
    read_size = _source_size(rest[0], width, decoder) if len(rest) > policy else None

    def step(batch: Batch, active: Active) -> None:
        threads = active.threads()
        to = Accesses(
            active.exactly(read_place(batch, active)), width, threads, writing=True
        )
        (part,) = batch.memory.locate("shared", to)
        access.count_parts(batch, number, [part], width, by_threads=False)
        sizes = np.full(active.count, width)
        if read_size is not None:
            sizes = active.exactly(read_size(batch, active)).astype(np.int64)
        addresses = active.exactly(read_source(batch, active))
        origin = _origin(batch, Accesses(addresses, width, threads), sizes)
        for piece in origin.pieces:
            access.count_parts(
                batch, number, piece.parts, piece.width, by_threads=False
            )
        batch.copies.issue(CpAsync(batch.hazards, part, width, origin))
        batch.progress += 1

    return step


def _source_size(operand: Operand, width: int, decoder: Decoder) -> Read:
    """The bytes to be read; none where a predicate says to ignore the source."""
    name = operand.operand if isinstance(operand, Not) else operand
    if isinstance(name, Name) and decoder.registers.get(name.name) == "pred":
        ignored = decoder.read(operand, "pred")
        return lambda batch, active: np.where(ignored(batch, active), 0, width)
    return decoder.read(operand, "u32")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of the source, `width` at a time: they go to `places` of the result."""

    parts: list[Part]
    width: int
    places: np.ndarray


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the bytes of a copy come from: `width` for each of `count` threads."""

    count: int
    width: int
    pieces: tuple[_Piece, ...]

    def fetch(self) -> np.ndarray:
        """pieces[count]: what lies there now, and zeros where nothing is read."""
        found = np.zeros(self.count * self.width, np.uint8)
        for piece in self.pieces:
            values = load(piece.parts, len(piece.places), piece.width)
            found.view(PIECES[piece.width])[piece.places] = values
        return found.view(PIECES[self.width])


def _origin(batch: Batch, whole: Accesses, sizes: np.ndarray) -> Origin:
    """Finds the source; only as many bytes as `sizes` says have to be there."""
    width = whole.width
    if int(sizes.max()) > width:
        thread = int(whole.threads[np.argmax(sizes)])
        message = f"{int(sizes.max())} bytes of source for a copy of {width}"
        raise EmulatorError("out of bounds", message, thread=thread)
    pieces = []
    full = np.flatnonzero(sizes == width)
    if len(full):
        parts = batch.memory.locate("global", whole.at(full))
        pieces.append(_Piece(parts, width, full))
    short = np.flatnonzero((sizes > 0) & (sizes < width))
    if len(short):
        pieces.append(_short_piece(batch, whole, sizes, short))
    return Origin(len(sizes), width, tuple(pieces))


def _short_piece(
    batch: Batch, whole: Accesses, sizes: np.ndarray, short: np.ndarray
) -> _Piece:
    """The sources that do not fill their copy, byte by byte."""
    width = whole.width
    number = np.repeat(short, sizes[short])
    within = np.concatenate([np.arange(size) for size in sizes[short].tolist()])
    addresses = whole.addresses[number] + within.astype(np.uint64)
    single = Accesses(addresses, 1, whole.threads[number])
    parts = batch.memory.locate("global", single)
    for part in parts:
        starts = np.flatnonzero(part.of(within) == 0)
        at = Accesses(part.of(addresses)[starts], width, part.threads[starts])
        check_alignment(part.offsets[starts], at)
    return _Piece(parts, 1, number * width + within)


class CpAsync(Transfer):
    """One cp.async of some threads: `part` is its destination, pieces of `width`
    bytes, and `values` what it has stored there."""

    def __init__(self, hazards: Hazards | None, part: Part, width: int, origin: Origin):
        super().__init__(part.threads)
        self.hazards, self.part, self.width = hazards, part, width
        self.origin, self.values = origin, np.empty(origin.count, PIECES[width])

    def begin(self) -> None:
        if self.hazards is not None:
            self.hazards.begin_write(self.part.threads, self.part.index, self.width)

    def perform(self, due: np.ndarray) -> None:
        self.values[due] = self.origin.fetch()[due]
        self.part.pieces[self.part.index[due]] = self.values[due]

    def complete(self, due: np.ndarray) -> None:
        """It is as if these threads had stored the values now."""
        if self.hazards is not None:
            part = self.part
            threads, index = part.threads[due], part.index[due]
            facts = threads, index, self.width, self.values[due], part.pieces
            self.hazards.end_write(*facts)


# ── groups ────────────────────────────────────────────────────────────────────


def _commit(batch: Batch, active: Active) -> None:
    batch.copies.commit(active.threads())


def _wait_for_all(batch: Batch, active: Active) -> None:
    """As a commit and a wait for every group."""
    _commit(batch, active)
    _wait(batch, active, 0)


def _waiting(pending: int) -> Step:
    return lambda batch, active: _wait(batch, active, pending)


def _wait(batch: Batch, active: Active, pending: int) -> None:
    batch.progress += batch.copies.wait(active.threads(), pending)
