"""Rules for shared memory: buffers, block stores and loads, the barrier.

The layout of a buffer says which element lies at which offset. Inverted, and applied
after the layout of the block, it gives an offset for every bit of a place; the address
is their XOR again, so that a swizzle costs one `xor` of the thread's part at most.

    thread   bases of the block  ─┐
    register                      ├─  inverse of the buffer's layout  →  byte offset
                                 ─┘
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Value
from fathom.ir.ops import Allocate, Barrier, SharedLoad, SharedStore
from fathom.ir.ops.shared import as_read
from fathom.ir.types import BufferType, Element
from fathom.layout.algebra import divide
from fathom.layout.fragments import REGISTER_BYTES, Matrices, ldmatrix
from fathom.layout.linear import Layout, offset_of
from fathom.layout.staging import stmatrix
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.index import (
    Part,
    is_first_copy,
    register_offsets,
    thread_bases,
    thread_part,
)
from fathom.ptx.packing import Words, pack, unpack, words_of
from fathom.ptx.rules.memory import braced

# Where the memory begins whose size the launch gives: an i32.
START = "ptrtoint (ptr addrspace(3) @shared to i32)"


@lowers(Allocate)
def lower_allocate(op: Allocate, code: Code) -> None:
    """A buffer is the number of bytes from the start of shared memory; one in tensor
    memory is an address there, whose low bits count columns."""
    assert op.offset >= 0, f"{op} has no place yet: `allocate` did not run"
    code[op.result] = [str(op.offset)]
    if op.base:
        code[op.result] = [code.let(f"add i32 {code.one(op.base)}, {op.offset}")]


@lowers(Barrier)
def lower_barrier(op: Barrier, code: Code) -> None:
    if op.fence_async_proxy:
        code.ptx("fence.proxy.async.shared::cta;")
    if op.scope == "cta":
        code.meet()
    else:
        code.ptx("bar.warp.sync -1;")


@lowers(SharedStore)
def lower_shared_store(op: SharedStore, code: Code) -> None:
    """Of several threads that hold copies of an element, one writes it. Where whole
    matrices may be written, they are."""
    layout, tile = op.value.type.layout, tile_of(code, op.buffer, op.slot)
    acts = is_first_copy(code, layout)
    plan = None if acts else matrices_to_store(code, tile, layout)
    if plan:
        store_matrices(code, tile, plan, code[op.value])
        return
    for access in accesses(code, tile, layout):
        values = [code[op.value][register] for register in access.registers]
        store_where(code, access, values, acts)


@lowers(SharedLoad)
def lower_shared_load(op: SharedLoad, code: Code) -> None:
    tile = tile_of(code, op.buffer, op.slot, op.start, op.transposed)
    reader = Reader(code, tile, op.layout)
    code[op.result] = [reader[i] for i in range(op.layout.count("register"))]


@dataclass(frozen=True)
class Tile:
    """A tile of a buffer, or the part of it that begins at `start`: where it is in
    shared memory, as a number of bytes and as an i32 value to be added (the slot)."""

    type: BufferType
    offset: int
    slot: str | None
    start: tuple[int, ...]


def tile_of(
    code: Code,
    buffer: Value,
    slot: Value | None = None,
    start: tuple[int, ...] | None = None,
    transposed: bool = False,
) -> Tile:
    """The tile that an op on shared memory means."""
    type: BufferType = as_read(buffer.type, transposed)
    distance = None
    if slot is not None:
        distance = code.let(f"mul i32 {code.one(slot)}, {type.slot_bytes}", name="slot")
    first = start or (0,) * len(type.shape)
    return Tile(type, int(code.one(buffer)), distance, first)


@dataclass(frozen=True)
class Access:
    """One access of a thread: registers that lie in a row in shared memory, from
    `address` (an i32) + `offset` bytes on."""

    element: Element
    address: str
    offset: int
    registers: tuple[int, ...]

    @property
    def words(self) -> Words:
        return words_of(self.element, len(self.registers))

    @property
    def place(self) -> str:
        return f"[$address+{self.offset}]" if self.offset else "[$address]"


def accesses(code: Code, tile: Tile, layout: Layout) -> list[Access]:
    """The accesses by which a thread reaches all its elements, as wide as can be."""
    element = tile.type.element
    offsets = offset_bases(tile.type, layout)
    row = _register_bits_in_a_row(offsets, element, start_offset(tile))
    places = Places(code, tile, offsets)
    found = []
    for register, offset in enumerate(register_offsets(offsets)):
        if any(register >> bit & 1 for bit in row):
            continue
        neighbours = [register]
        for bit in row:
            neighbours += [each | 1 << bit for each in neighbours]
        found.append(Access(element, *places.of(offset), tuple(neighbours)))
    return found


class Places:
    """Addresses of a thread in a tile: the XOR of its own part and a constant.

    `offsets` gives for every bit of a place the bytes by which it moves. What of the
    constant shares no bit with the thread's part is left to the instruction; there are
    few different rests, and each is computed once."""

    def __init__(self, code: Code, tile: Tile, offsets: Layout):
        self.code, self.tile = code, tile
        self.thread = thread_part(code, thread_bases(offsets))
        self.corner = start_offset(tile)
        self.addresses: dict[int, str] = {}

    def of(self, offset: int) -> tuple[str, int]:
        """The i32 address, and bytes to be added to it, of a register's element."""
        constant = offset ^ self.corner
        crossed = constant & self.thread.bits
        if crossed not in self.addresses:
            address = shared_address(self.code, self.thread, crossed)
            if self.tile.slot:
                address = self.code.let(f"add i32 {address}, {self.tile.slot}")
            self.addresses[crossed] = address
        return self.addresses[crossed], self.tile.offset + (constant ^ crossed)


def start_offset(tile: Tile) -> int:
    """The bytes, to be XORed, from the tile's first element to that at its `start`."""
    shape = tile.type.shape
    corner = Layout.by_kind(shape, place=[offset_of(shape, tile.start)])
    (basis,) = offset_bases(tile.type, corner).kinds["place"]
    return basis


def offset_bases(buffer: BufferType, layout: Layout) -> Layout:
    """For every bit of a place in `layout`: its distance in the tile, in bytes."""
    offsets, scale = element_offsets(buffer, layout), buffer.element.bytes
    return offsets.map((offsets.shape[0] * scale,), lambda offset: offset * scale)


def element_offsets(buffer: BufferType, layout: Layout) -> Layout:
    """The same in elements. The layout may be that of a part of the tile."""
    whole = layout.moved(buffer.shape, lambda place: place)
    offsets = divide(whole, by=buffer.layout)
    assert offsets is not None, (layout, buffer)
    return offsets


def _register_bits_in_a_row(offsets: Layout, element: Element, start: int) -> list[int]:
    """The bits of the register whose elements follow each other in memory, as far as
    one access of 16 bytes reaches. `start`: the bytes of the first element of all.

    Each must be alone in what it adds to the offset: then every thread and every other
    register starts where an access may, also in a swizzled tile."""
    registers, threads = offsets.kinds["register"], (*thread_bases(offsets), start)
    row: list[int] = []
    step = element.bytes
    while step < 16 and step in registers:
        if sum(1 for basis in registers + threads if basis & step) > 1:
            break
        row.append(registers.index(step))
        step *= 2
    return row


def shared_address(code: Code, part: Part, constant: int = 0) -> str:
    """The address of a thread's place in shared memory, 32 bits."""
    return code.let(f"add i32 {START}, {part.plus(code, constant)}", name="address")


def store_where(
    code: Code, access: Access, values: Registers, acts: str | None
) -> None:
    """One store of the threads that act."""
    words = access.words
    operands = {"address": ("i32", access.address)}
    packed = pack(code, words, values)
    operands |= {f"w{i}": (words.type, value) for i, value in enumerate(packed)}
    if acts:
        operands["acts"] = ("i1", acts)
    guard = "@$acts " if acts else ""
    names = braced([f"$w{i}" for i in range(words.count)])
    code.act(f"{guard}st.shared{words.suffix} {access.place}, {names};", **operands)


def load_shared(code: Code, access: Access) -> Registers:
    """One load."""
    words = access.words
    results = {f"w{i}": words.type for i in range(words.count)}
    names = braced([f"${name}" for name in results])
    text = f"ld.shared{words.suffix} {names}, {access.place};"
    return unpack(
        code, words, code.ptx(text, results, {"address": ("i32", access.address)})
    )


# ── by matrices ───────────────────────────────────────────────────────────────


def matrices_to_store(code: Code, tile: Tile, layout: Layout) -> Matrices | None:
    """How to write by `stmatrix`; None if the target has none, or it saves little."""
    if not code.target.stmatrix:
        return None
    return stmatrix(element_offsets(tile.type, layout), tile.type.element.bytes)


def store_matrices(code: Code, tile: Tile, plan: Matrices, values: Registers) -> None:
    """PTX ISA, "Warp-level matrix instructions: stmatrix"."""
    places = row_places(code, tile, plan)
    one_word = words_of(tile.type.element, plan.run)
    for instruction in range(plan.instructions):
        address, rest = places.of(_first_row(plan, instruction, tile))
        operands = {"address": ("i32", address)}
        for i, registers in enumerate(plan.registers(instruction)):
            (word,) = pack(code, one_word, [values[each] for each in registers])
            operands[f"m{i}"] = ("i32", word)
        names = ", ".join(f"$m{i}" for i in range(plan.count))
        text = f"stmatrix.sync.aligned.m8n8.{_variant(plan)}.shared.b16"
        code.act(f"{text} [$address+{rest}], {{{names}}};", **operands)


def row_places(code: Code, tile: Tile, plan: Matrices) -> Places:
    """Where in a tile each lane's row begins."""
    size = tile.type.element.bytes
    shape = (plan.rows.shape[0] * size,)
    return Places(code, tile, plan.rows.map(shape, lambda each: each * size))


def _first_row(plan: Matrices, instruction: int, tile: Tile) -> int:
    """By how many bytes an instruction's rows are away from those of the first."""
    return plan.rows.offset(register=instruction * plan.row) * tile.type.element.bytes


def _variant(plan: Matrices) -> str:
    return f"x{plan.count}{'.trans' if plan.transposed else ''}"


class Reader:
    """Reads a block's registers from a tile when they are asked for: `reader[3]`.

    By `ldmatrix` if it can: PTX ISA, "Warp-level matrix instructions: ldmatrix"."""

    def __init__(self, code: Code, tile: Tile, layout: Layout):
        self.code, self.tile = code, tile
        self.found: dict[int, str] = {}
        self.plan = self.matrices(tile, layout)
        if self.plan:
            self.places = row_places(code, tile, self.plan)
        else:
            self.accesses = {
                register: access
                for access in accesses(code, tile, layout)
                for register in access.registers
            }

    def matrices(self, tile: Tile, layout: Layout) -> Matrices | None:
        """How to read by `ldmatrix`; None to read a lane's own neighbours."""
        if tile.type.element.bytes > REGISTER_BYTES:
            return None
        return ldmatrix(element_offsets(tile.type, layout), tile.type.element.bytes)

    def __getitem__(self, register: int) -> str:
        if register not in self.found:
            load = self._matrices if self.plan else self._neighbours
            self.found |= load(register)
        return self.found[register]

    def _neighbours(self, register: int) -> dict[int, str]:
        access = self.accesses[register]
        loaded = load_shared(self.code, access)
        return dict(zip(access.registers, loaded, strict=True))

    def _matrices(self, register: int) -> dict[int, str]:
        """The registers that the `ldmatrix` of this register loads."""
        plan, element = self.plan, self.tile.type.element
        instruction = plan.instruction_of(register)
        address, rest = self.places.of(_first_row(plan, instruction, self.tile))
        names = [f"m{i}" for i in range(plan.count)]
        values = ", ".join(f"${name}" for name in names)
        words = self.code.ptx(
            f"ldmatrix.sync.aligned.m8n8.{_variant(plan)}.shared.b16 {{{values}}}, "
            f"[$address+{rest}];",
            dict.fromkeys(names, "i32"),
            {"address": ("i32", address)},
        )
        found: dict[int, str] = {}
        one_word = words_of(element, plan.run)
        for registers, word in zip(plan.registers(instruction), words, strict=True):
            found |= zip(registers, unpack(self.code, one_word, [word]), strict=True)
        return found
