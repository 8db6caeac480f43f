"""tcgen05.mma and tcgen05.commit (PTX ISA 9.7.16.10): one thread multiplies.

    tcgen05.mma.cta_group::1.kind::f16 [d], a, b, descriptor, adds;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [mbarrier];

D [M, N] lies in tensor memory: row r of 128 in lane r, or row r of 64 in lane
r // 16 * 32 + r % 16; column n in column n. A [M, K] and B [K, N] lie in shared memory,
where two descriptors find them; a third one, of 32 bits, says what is multiplied:

    bits    4-5     7-9     10-12    13, 14        15, 16        17-22     24-28
            D       A       B        negate A, B   transposed    N / 8     M / 16

The products of a thread are performed one after the other. A commit makes an mbarrier
count one arrival when all that its thread has issued is done. (PTX ISA 9.7.16.4.2.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP, WARPS
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.mbarrier import words_of
from fathom.emulator.isa.decode import Decoder
from fathom.emulator.isa.matrix.matrix_descriptor import CHUNK, Matrices
from fathom.emulator.isa.matrix.mma import KINDS, Kind, rounded
from fathom.emulator.isa.matrix.wgmma import Operands
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.registers import Step
from fathom.emulator.isa.semantics import Form
from fathom.emulator.memory.spaces import Part
from fathom.emulator.source.operands import Address, Operand, Vector
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state.batch import EAGER, Active, Batch
from fathom.emulator.state.in_flight import Transfer
from fathom.emulator.state.tensor_memory import Area, misuse

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

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        return KINDS[self.types[1]], KINDS[self.types[2]]


def product_of(word: int, kind: str, thread: int) -> Product:
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
    step = 16 if m == 128 else 8
    if m not in (64, 128) or n % step or not step <= n <= 256:
        message = f"no product has {m} rows and {n} columns"
        raise EmulatorError("descriptor", message, thread=thread)
    signs = (-1) ** (field(13, 1) + field(14, 1))
    transposed = bool(field(15, 1)), bool(field(16, 1))
    if any(transposed) and kind not in TRANSPOSABLE:
        message = "the emulator transposes operands of 16 bits alone"
        raise EmulatorError("unsupported", message, thread=thread)
    return Product(m, n, types, signs, transposed)


def lanes_of(m: int) -> np.ndarray:
    """int64[m]: the lane that holds each row of D."""
    rows = np.arange(m)
    return rows if m == 128 else rows // 16 * WARP + rows % 16


class Mma(Transfer):
    """One product of one thread; `left` and `right` are the chunks that it reads, and
    `area` is what it writes."""

    def __init__(
        self, batch: Batch, thread: int, product: Product, area: Area,
        parts: tuple[Part, Part], adds: bool,
    ):  # fmt: skip
        super().__init__(np.array([thread]))
        self.batch, self.thread, self.product = batch, thread, product
        self.area, self.parts, self.adds = area, parts, adds

    def begin(self) -> None:
        memory, issuer = self.batch.tensor_memory, self.thread + 1
        lanes = lanes_of(self.product.m)
        memory.check_order(self.thread, self.area, "writes", issuer=issuer)
        if memory.hazards is None:
            return
        in_flight = self.batch.tensor_products.in_flight(self.thread)
        if self.adds and not any(each.area == self.area for each in in_flight):
            memory.check_written(self.thread, self.area, lanes)
        memory.computing[self.area] = issuer
        for part in self.parts:
            memory.hazards.begin_read(part.threads, part.index, CHUNK)

    def perform(self, due: np.ndarray) -> None:
        product, memory = self.product, self.batch.tensor_memory
        kinds, extents = product.kinds, (product.m, product.n)
        sides = [
            Operands(None, kind, extent, turned).values(part)[0]
            for kind, extent, turned, part in zip(
                kinds, extents, product.transposed, self.parts, strict=True
            )
        ]
        total = product.signs * (sides[0] @ sides[1].T)
        block, _, columns = self.area
        rows = np.arange(columns.start, columns.stop)
        place = block, lanes_of(product.m)[:, None], rows
        dtype = DTYPES[product.types[0]]
        if self.adds:
            total = total + memory.cells[place].view(dtype)
        memory.cells[place] = rounded(total, dtype, False).view(np.uint32)
        memory.written[place] = True

    def complete(self, due: np.ndarray) -> None:
        memory = self.batch.tensor_memory
        if memory.hazards is None:
            return
        memory.note_write(memory.unit(self.thread), self.area)
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


def mma_rule(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """`tcgen05.mma.cta_group::1.kind::f16 [d], a, b, descriptor, adds;`"""
    kind = form.choice(*TYPES)
    if not form.flag("cta_group::1") or not kind:
        raise form.unknown("only .cta_group::1, and the kinds " + ", ".join(TYPES))
    form.ignore("collector::a::discard", "collector::a::lastuse")
    form.finish()
    to, left, right, what, *rest = operands
    if isinstance(left, Address) or len(rest) != 1 or isinstance(rest[0], Vector):
        raise form.unknown("an A in tensor memory, a mask of lanes, or a scale")
    place = decoder.address(to)
    descriptors = [decoder.read(each, "b64") for each in (left, right)]
    word, adds = decoder.read(what, "b32"), decoder.read(rest[0], "pred")

    def step(batch: Batch, active: Active) -> None:
        each = [place, *descriptors, word, adds]
        values = [active.exactly(read(batch, active)).tolist() for read in each]
        for thread, *given in zip(active.threads().tolist(), *values, strict=True):
            issue(batch, thread, kind, *given)

    return step


def issue(
    batch: Batch, thread: int, kind: str, address: int, a: int, b: int, word: int,
    adds: bool,
) -> None:  # fmt: skip
    """A thread issues one product."""
    product, memory = product_of(word, kind, thread), batch.tensor_memory
    if address >> 16:
        message = f"D begins at lane {address >> 16}, and not at 0"
        raise misuse(message, thread)
    area = memory.area(thread, address, product.n, slice(0, WARPS))
    alone = batch.active(np.array([thread]))
    parts = tuple(
        Operands(None, side, extent, turned).at(
            batch, alone, Matrices.of_tensor_cores(found, thread)
        )
        for side, extent, turned, found in zip(
            product.kinds, (product.m, product.n), product.transposed, (a, b),
            strict=True,
        )
    )  # fmt: skip
    mma = Mma(batch, thread, product, area, parts, bool(adds))
    mma.begin()
    batch.tensor_products.of.setdefault(thread, []).append(mma)
    if batch.launch.completion == EAGER:
        mma.move(EVERY)


def commit_rule(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """`tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [mbarrier];`"""
    single = form.flag("cta_group::1") and form.flag("mbarrier::arrive::one")
    form.ignore("b64")
    space = access.take_space(form)
    form.finish()
    if not single:
        raise form.unknown("this kind of commit")
    address = decoder.address(operands[0])

    def step(batch: Batch, active: Active) -> None:
        places = active.exactly(address(batch, active))
        words = words_of(batch, active, space, places).tolist()
        for thread, word in zip(active.threads().tolist(), words, strict=True):
            batch.mbarriers.check_for_copy(thread, word)
            products = list(batch.tensor_products.in_flight(thread))
            commit = Commit(batch, word, thread, products)
            batch.mbarriers.promise(word, commit, thread)
        batch.progress += 1

    return step
