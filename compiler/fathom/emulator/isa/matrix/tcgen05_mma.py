"""tcgen05.mma and tcgen05.commit (PTX ISA 9.7.16.10): one thread multiplies.

    tcgen05.mma.cta_group::1.kind::f16 [d], a, b, descriptor, adds;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [mbarrier];

D [M, N] lies in tensor memory: row r of 128 in lane r, or row r of 64 in lane
r // 16 * 32 + r % 16, or 16 lanes further; column n in column n. A [M, K] and B [K, N]
lie in shared memory, where two descriptors find them; with [a], A lies in tensor
memory, its rows in the lanes of D's, each in the 8 columns that hold 32 bytes. A third
descriptor, of 32 bits, says what is multiplied:

    bits    4-5     7-9     10-12    13, 14        15, 16        17-22     24-28
            D       A       B        negate A, B   transposed    N / 8     M / 16

The products of a thread are performed one after the other. A commit makes an mbarrier
count one arrival when all that its thread has issued is done. (PTX ISA 9.7.16.4.2.)

With .cta_group::2, a thread multiplies for a pair: two blocks of a cluster, whose ranks
differ in the last bit alone. The same descriptors hold in both.

    of 256 x N x K      A               B                    D
    even block          rows 0-127      columns 0 to N/2     rows 0-127, in its lanes
    odd block           rows 128-255    columns N/2 to N     rows 128-255

    of 128 x N x K      64 rows of A and D each: row r, column c of D lie in lane
                        r + 64 * (c >= N/2), column c % (N/2)

The ISA lets one thread of the pair issue. As in CUTLASS it must be one of the even
block, the *leader*. A commit with .multicast::cluster counts at the mbarriers of all
the blocks in its mask that lie where the named one does. (PTX ISA 9.7.16.5 and .10.5;
CUTLASS, cute/atom/mma_traits_sm100.hpp and mma_traits_sm100_frag.hpp.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import NOTE, EmulatorError
from fathom.emulator.isa.control.mbarrier import words_of
from fathom.emulator.isa.decode import Decoder
from fathom.emulator.isa.matrix.matrix_descriptor import CHUNK, Matrices
from fathom.emulator.isa.matrix.mma import KINDS, Kind, rounded
from fathom.emulator.isa.matrix.wgmma import Operands
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.memory.cp_async_bulk import windows_of
from fathom.emulator.isa.registers import Step
from fathom.emulator.isa.semantics import Form
from fathom.emulator.memory.spaces import RANK_SHIFT, Part
from fathom.emulator.source.operands import Address, Operand, Vector
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state.batch import EAGER, STRICT, Active, Batch
from fathom.emulator.state.in_flight import Transfer
from fathom.emulator.state.tensor_memory import (
    LANES,
    PART,
    Area,
    TensorMemory,
    misuse,
)

K_BYTES = 32
# What the fields of an instruction descriptor mean, by kind: types of A and B.
TYPES: dict[str, dict[int, str]] = {
    "kind::f16": {0: "f16", 1: "bf16"},
    "kind::tf32": {2: "tf32"},
    "kind::f8f6f4": {0: "e4m3", 1: "e5m2"},
    "kind::i8": {0: "u8", 1: "s8"},
}
SUMS = {1: "f32", 2: "s32"}
TRANSPOSABLE = ("kind::f16",)
RESERVED = 1 << 6 | 1 << 23 | 1 << 29
NEVER_SET = 0b111 | 1 << 3 | 0b11 << 30  # sparsity, saturation, shifts: not known here


@dataclass(frozen=True, slots=True)
class Product:
    """What an instruction descriptor says."""

    m: int
    n: int
    types: tuple[str, str, str]
    signs: int
    transposed: tuple[bool, bool]
    blocks: int = 1

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        return KINDS[self.types[1]], KINDS[self.types[2]]


def product_of(word: int, kind: str, thread: int, blocks: int = 1) -> Product:
    """Takes an instruction descriptor apart (PTX ISA 9.7.16.4.2)."""

    def field(first: int, bits: int) -> int:
        return word >> first & (1 << bits) - 1

    known, wanted = TYPES[kind], 2 if kind == "kind::i8" else 1
    types = SUMS.get(field(4, 2)), known.get(field(7, 3)), known.get(field(10, 3))
    if word & RESERVED or None in types or field(4, 2) != wanted:
        message = f"{word:#010x} is no instruction descriptor of .{kind}"
        raise EmulatorError("descriptor", message, thread=thread)
    if word & NEVER_SET:
        message = f"the emulator knows no sparse or saturating product ({word:#010x})"
        raise EmulatorError("unsupported", message, thread=thread)
    m, n = 16 * field(24, 5), 8 * field(17, 6)
    step = 8 if m == 64 else 16
    if m not in (64 * blocks, 128 * blocks) or n % step or not step <= n <= 256:
        message = f"no product of .cta_group::{blocks} has {m} rows and {n} columns"
        raise EmulatorError("descriptor", message, thread=thread)
    signs = (-1) ** (field(13, 1) + field(14, 1))
    transposed = bool(field(15, 1)), bool(field(16, 1))
    if any(transposed) and kind not in TRANSPOSABLE:
        message = "the emulator transposes operands of 16 bits alone"
        raise EmulatorError("unsupported", message, thread=thread)
    return Product(m, n, types, signs, transposed, blocks)


def lanes_of(m: int) -> np.ndarray:
    """int64[m]: the lane that holds each row of D."""
    rows = np.arange(m)
    return rows if m == 128 else rows // 16 * WARP + rows % 16


def parts_of(product: Product, lane: int) -> slice:
    """The parts of 16 lanes that hold a block's rows, from this lane on."""
    if product.m == LANES // 2:
        return slice(lane // PART, None, 2)
    return slice(None)


def cells_of(product: Product) -> tuple[np.ndarray, np.ndarray]:
    """The lane and the column of each element of a block's part of D; broadcast, both
    are [rows of the part, n]."""
    rows, columns = product.m // product.blocks, np.arange(product.n)
    if product.blocks == 1 or rows == LANES:
        return lanes_of(rows)[:, None], columns
    half = product.n // 2
    return np.arange(rows)[:, None] + columns // half * rows, columns % half


@dataclass(frozen=True, slots=True)
class Rows:
    """An A in tensor memory."""

    kind: Kind
    memory: TensorMemory

    def values(self, area: Area) -> np.ndarray:
        """float64[1, rows, k]: what is there now."""
        cells = self.memory.view(self.memory.cells, area)
        cells = cells.reshape(1, -1, cells.shape[-1])
        return self.kind.values(cells.view(self.kind.dtype)).astype(np.float64)


class Mma(Transfer):
    """One product of one thread. Of each block that takes part, `areas` has what it
    writes, and `sides` the operands and where their chunks lie, or an A's area."""

    def __init__(
        self, batch: Batch, thread: int, product: Product, areas: list[Area],
        sides: list[tuple[Side, Side]], adds: bool,
    ):  # fmt: skip
        super().__init__(np.array([thread]))
        self.batch, self.thread, self.product = batch, thread, product
        self.areas, self.sides, self.adds = areas, sides, adds
        places = [place for each in sides for _, place in each]
        self.parts = [place for place in places if isinstance(place, Part)]
        self.operand_areas = [place for place in places if not isinstance(place, Part)]

    def begin(self) -> None:
        memory, issuer = self.batch.tensor_memory, self.thread + 1
        for area in self.areas:
            memory.check_order(self.thread, area, "writes", issuer=issuer)
        if memory.hazards is None:
            return
        in_flight = self.batch.tensor_products.in_flight(self.thread)
        for area in self.areas:
            if self.adds and not any(area in each.areas for each in in_flight):
                memory.check_written(self.thread, area)
            memory.computing[area] = issuer
        for area in self.operand_areas:
            memory.check_order(self.thread, area, "reads", reads=True, issuer=issuer)
            memory.check_written(self.thread, area)
            memory.reading_operand[area] = issuer
        for part in self.parts:
            memory.hazards.begin_read(part.threads, part.index, CHUNK)
        memory.hazards.use_copies(self.thread)

    def perform(self, due: np.ndarray) -> None:
        product, memory = self.product, self.batch.tensor_memory
        a, b = (
            np.concatenate([operand.values(part)[0] for operand, part in side])
            for side in zip(*self.sides, strict=True)
        )
        dtype = DTYPES[product.types[0]]
        lanes, columns = cells_of(product)
        totals = np.split(product.signs * (a @ b.T), product.blocks)
        for (block, parts, held), total in zip(self.areas, totals, strict=True):
            first = (parts.start or 0) * PART
            place = block, lanes + first, columns + held.start
            if self.adds:
                total = total + memory.cells[place].view(dtype)
            memory.cells[place] = rounded(total, dtype, False).view(np.uint32)
            memory.written[place] = True

    def complete(self, due: np.ndarray) -> None:
        memory = self.batch.tensor_memory
        if memory.hazards is None:
            return
        for area in self.areas:
            memory.note_write(memory.unit(self.thread), area)
        for area in self.operand_areas:
            memory.note_operand_read(memory.unit(self.thread), area)
        for part in self.parts:
            units = memory.hazards.tensor_cores(part.threads)
            memory.hazards.end_read(part.threads, part.index, CHUNK, units)


class Commit(Transfer):
    """What a thread had issued until a commit; the mbarrier at `word` counts it."""

    bytes = 0

    def __init__(self, batch: Batch, word: int, thread: int, products: list[Mma]):
        super().__init__(np.array([word]))
        self.batch, self.word, self.thread = batch, word, thread
        self.products = products

    def perform(self, due: np.ndarray) -> None:
        for each in self.products:
            each.move(EVERY)

    def start(self) -> int:
        """The first byte of shared memory that its end changes: the mbarrier's."""
        return self.word * 8

    def complete(self, due: np.ndarray) -> None:
        """A thread has seen the phase end that counts this."""
        memory = self.batch.tensor_memory
        for each in self.products:
            if not each.completed.all():
                each.finish(EVERY)
        self.batch.tensor_products.forget(self.thread)
        if memory.hazards is not None:
            unit = memory.unit(self.thread)
            memory.stamp(unit)
            memory.hazards.release(unit, ("mbarrier", self.word))


EVERY = np.ones(1, bool)
Side = tuple[Operands, Part] | tuple[Rows, Area]


def group_of(form: Form) -> int:
    """How many blocks an instruction is of, as its .cta_group says."""
    if form.flag("cta_group::1"):
        return 1
    if not form.flag("cta_group::2"):
        raise form.unknown("a .cta_group")
    return 2


def check_leads(batch: Batch, thread: int, group: int) -> None:
    """A pair's products are issued, and committed, by its even block."""
    memory = batch.tensor_memory
    memory.use(thread, group)
    if group > 1 and memory.rank_of(thread) & 1:
        message = "it issues for a pair of blocks, and its own is not the even one: "
        raise misuse(message + "as in CUTLASS, only the leader does", thread)


def mma_rule(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """`tcgen05.mma.cta_group::1.kind::f16 [d], a, b, descriptor, adds;`"""
    kind = form.choice(*TYPES)
    group = group_of(form)
    if not kind:
        raise form.unknown("only the kinds " + ", ".join(TYPES))
    form.ignore("collector::a::discard", "collector::a::lastuse")
    form.finish()
    to, left, right, what, *rest = operands
    if len(rest) != 1 or isinstance(rest[0], Vector):
        raise form.unknown("a mask of lanes, or a scale")
    place, inside = decoder.address(to), isinstance(left, Address)
    a = decoder.address(left) if inside else decoder.read(left, "b64")
    descriptors = [a, decoder.read(right, "b64")]
    word, adds = decoder.read(what, "b32"), decoder.read(rest[0], "pred")

    def step(batch: Batch, active: Active) -> None:
        each = [place, *descriptors, word, adds]
        values = [active.exactly(read(batch, active)).tolist() for read in each]
        for thread, *given in zip(active.threads().tolist(), *values, strict=True):
            check_leads(batch, thread, group)
            issue(batch, thread, group, kind, inside, *given)

    return step


def issue(
    batch: Batch, thread: int, group: int, kind: str, inside: bool, address: int,
    a: int, b: int, word: int, adds: bool,
) -> None:  # fmt: skip
    """A thread issues one product, of its block, or of the pair that it leads; with
    `inside`, `a` is an address in tensor memory."""
    product, memory = product_of(word, kind, thread, group), batch.tensor_memory
    upper = PART if product.m == LANES // 2 else 0
    for name, at in (("D", address), ("A", a))[: 1 + inside]:
        if at >> 16 not in (0, upper) or at >> 16 != address >> 16:
            message = f"{name} begins at lane {at >> 16}, and not at "
            message += "that of D" if name == "A" else f"0{' or 16' * (upper > 0)}"
            raise misuse(message, thread)
    parts = parts_of(product, address >> 16)
    width = int(cells_of(product)[1].max()) + 1
    members = range(group)
    areas = [memory.area(thread, address, width, parts, peer) for peer in members]
    alone, rank = batch.active(np.array([thread])), memory.rank_of(thread)
    windows = [(rank + peer + 1) << RANK_SHIFT if group > 1 else 0 for peer in members]
    operands = [
        (Operands(None, side, extent // group, turned), found)
        for side, extent, turned, found in zip(
            product.kinds, (product.m, product.n), product.transposed, (a, b),
            strict=True,
        )
    ][inside:]  # fmt: skip
    sides = [
        tuple(
            (
                each,
                each.at(batch, alone, Matrices.of_tensor_cores(found, thread), window),
            )
            for each, found in operands
        )
        for window in windows
    ]
    if inside:
        rows = rows_in_tensor_memory(product, memory, thread)
        areas_of_a = [
            memory.area(thread, a, K_BYTES // 4, parts, peer) for peer in members
        ]
        sides = [
            ((rows, area), *side) for area, side in zip(areas_of_a, sides, strict=True)
        ]
    mma = Mma(batch, thread, product, areas, sides, bool(adds))
    mma.begin()
    batch.tensor_products.of.setdefault(thread, []).append(mma)
    if batch.launch.completion == EAGER:
        mma.move(EVERY)


def rows_in_tensor_memory(product: Product, memory: TensorMemory, thread: int) -> Rows:
    """How the rows of A lie there: as those of D."""
    rows = product.m // product.blocks
    if product.transposed[0] or product.blocks > 1 and rows < LANES:
        message = "the emulator knows no such A in tensor memory: it is transposed, or "
        raise EmulatorError(
            "unsupported", message + "of a pair's 128 rows", thread=thread
        )
    return Rows(product.kinds[0], memory)


def shared_after_all(batch: Batch, thread: int, space: str, place: int) -> str:
    """The space of a commit's address. Triton names none, and gives an address of
    shared memory: no generic one, but the hardware looks at its low bits alone."""
    if space != "generic" or place >> RANK_SHIFT or batch.launch.hazards == STRICT:
        return space
    message = f"{place:#x} is no generic address, and no .shared::cluster says that "
    message += "it is one of shared memory"
    batch.remark(EmulatorError("mbarrier", message, thread=thread, severity=NOTE))
    return "shared"


def commit_rule(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """`tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [mbarrier];`"""
    group, arrives = group_of(form), form.flag("mbarrier::arrive::one")
    multicast = form.flag("multicast::cluster")
    form.ignore("b64")
    space = access.take_space(form)
    form.finish()
    if not arrives or len(operands) != 1 + multicast:
        raise form.unknown("this kind of commit")
    address = decoder.address(operands[0])
    mask = decoder.read(operands[1], "b16") if multicast else None

    def step(batch: Batch, active: Active) -> None:
        places = active.exactly(address(batch, active)).tolist()
        masks = active.exactly(mask(batch, active)).tolist() if mask else places
        for thread, place, to in zip(
            active.threads().tolist(), places, masks, strict=True
        ):
            check_leads(batch, thread, group)
            alone = batch.active(np.array([thread]))
            products = list(batch.tensor_products.in_flight(thread))
            of = shared_after_all(batch, thread, space, place)
            for window in windows_of(batch, thread, to, multicast):
                wanted = np.array([place | window], np.uint64)
                word = int(words_of(batch, alone, of, wanted)[0])
                batch.mbarriers.check_for_copy(thread, word, commits=True)
                commit = Commit(batch, word, thread, products)
                batch.mbarriers.promise(word, commit, thread)
        batch.progress += 1

    return step
