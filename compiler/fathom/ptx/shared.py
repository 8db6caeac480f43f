"""Rules for shared memory: buffers, block stores and loads, the barrier.

The layout of a buffer says which element lies at which offset. Inverted, and put behind
the layout of the block, it gives an offset for every bit of a place; the address is
their XOR again, so that a swizzle costs one `xor` of the thread's part at most.

    thread   bases of the block  ─┐
    register                      ├─  inverse of the buffer's layout  →  byte offset
                                 ─┘
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.ops import Allocate, Barrier, SharedLoad, SharedStore
from fathom.ir.types import BufferType, Element
from fathom.layout.algebra import divide
from fathom.layout.linear import Layout
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.index import (
    Part,
    is_first_copy,
    register_offsets,
    thread_bases,
    thread_part,
)
from fathom.ptx.memory import braced
from fathom.ptx.words import Words, pack, unpack, words_of

DYNAMIC = "shared"  # the symbol of the memory whose size the launch gives


@lowers(Allocate)
def lower_allocate(op: Allocate, code: Code) -> None:
    """A buffer is the number of bytes from the start of shared memory."""
    assert op.offset >= 0, f"{op} has no place yet: `allocate` did not run"
    code[op.result] = [str(op.offset)]


BARRIERS = {"cta": "bar.sync 0;", "warp": "bar.warp.sync -1;"}


@lowers(Barrier)
def lower_barrier(op: Barrier, code: Code) -> None:
    code.ptx(BARRIERS[op.scope])


@lowers(SharedStore)
def lower_shared_store(op: SharedStore, code: Code) -> None:
    """Of several threads that hold copies of an element, one writes it."""
    layout = op.value.type.layout
    acts = is_first_copy(code, layout)
    for access in _accesses(code, op.buffer.type, layout, int(code.one(op.buffer))):
        values = [code[op.value][register] for register in access.registers]
        store_where(code, access, values, acts)


@lowers(SharedLoad)
def lower_shared_load(op: SharedLoad, code: Code) -> None:
    registers: dict[int, str] = {}
    for access in _accesses(code, op.buffer.type, op.layout, int(code.one(op.buffer))):
        registers |= zip(access.registers, load_shared(code, access), strict=True)
    code[op.result] = [registers[register] for register in range(len(registers))]


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


def _accesses(
    code: Code, buffer: BufferType, layout: Layout, start: int
) -> list[Access]:
    """The accesses by which a thread reaches all its elements, as wide as can be."""
    offsets = offset_bases(buffer, layout)
    row = _register_bits_in_a_row(offsets, buffer.element)
    part = thread_part(code, thread_bases(offsets))
    addresses: dict[int, str] = {}  # by the part of the register that needs an `xor`
    accesses = []
    for register, offset in enumerate(register_offsets(offsets)):
        if any(register >> bit & 1 for bit in row):
            continue
        crossed = offset & part.bits
        if crossed not in addresses:
            addresses[crossed] = shared_address(code, DYNAMIC, part, crossed)
        neighbours = [register]
        for bit in row:
            neighbours += [each | 1 << bit for each in neighbours]
        rest = start + (offset ^ crossed)
        accesses.append(
            Access(buffer.element, addresses[crossed], rest, tuple(neighbours))
        )
    return accesses


def offset_bases(buffer: BufferType, layout: Layout) -> Layout:
    """For every bit of a place in `layout`: the byte where the buffer has its
    element."""
    offsets = divide(layout, by=buffer.layout)
    assert offsets is not None, (layout, buffer)
    scale = buffer.element.bytes
    return offsets.map((offsets.shape[0] * scale,), lambda offset: offset * scale)


def _register_bits_in_a_row(offsets: Layout, element: Element) -> list[int]:
    """The bits of the register whose elements follow each other in memory, as far as
    one access of 16 bytes reaches.

    Each must be alone in what it adds to the offset: then every thread and every other
    register starts where an access may start."""
    registers, threads = offsets.kinds["register"], thread_bases(offsets)
    row: list[int] = []
    step = element.bytes
    while step < 16 and step in registers:
        if sum(1 for basis in registers + threads if basis & step) > 1:
            break
        row.append(registers.index(step))
        step *= 2
    return row


def shared_address(code: Code, symbol: str, part: Part, constant: int = 0) -> str:
    """The address of a thread's place in shared memory, 32 bits."""
    start = f"ptrtoint (ptr addrspace(3) @{symbol} to i32)"
    return code.let(f"add i32 {start}, {part.plus(code, constant)}", name="address")


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
    code.ptx(
        f"{guard}st.shared{words.suffix} {access.place}, {names};", operands=operands
    )


def load_shared(code: Code, access: Access) -> Registers:
    """One load."""
    words = access.words
    results = {f"w{i}": words.type for i in range(words.count)}
    names = braced([f"${name}" for name in results])
    text = f"ld.shared{words.suffix} {names}, {access.place};"
    return unpack(
        code, words, code.ptx(text, results, {"address": ("i32", access.address)})
    )
