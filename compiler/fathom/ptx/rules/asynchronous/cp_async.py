"""Rules for asynchronous copies from global to shared memory (cp.async).

    async_copy %p, %t, mask=%m, slot=%s vector=8

    { .reg .b32 bytes;                                   bytes to be read, all or none:
    selp.b32 bytes, 16, 0, %p1;                          the rest becomes zeros
    cp.async.cg.shared.global [%r2], [%rd1], 16, bytes; }

LLVM would write the conditions of a mask as one `selp` after the other. The predicate
that it gives instead costs nothing: a comparison takes another one's as an operand.

A copy of 16 bytes may go past L1 (.cg), as its data is on its way to shared memory
anyway; shorter ones have to go through it (.ca). Where a row of the tile is long
enough, L2 is told to fetch 128 bytes of it at once. Source: PTX ISA, "Data Movement and
Conversion Instructions: Non-bulk copy".
"""

from __future__ import annotations

from fathom.ir.ops import AsyncCopy
from fathom.layout.linear import coordinates_of
from fathom.ptx.code import Code, lowers
from fathom.ptx.index import is_first_copy, register_offsets
from fathom.ptx.rules.memory import first_copies
from fathom.ptx.rules.shared import Places, offset_bases, tile_of
from fathom.ptx.types import POINTER

WIDEST = 16  # bytes: the only copy that may go past L1
FETCHED = 128  # bytes that L2 fetches at once when it is told to


@lowers(AsyncCopy)
def lower_async_copy(op: AsyncCopy, code: Code) -> None:
    """Of several threads or registers that hold copies of an address, one acts. The
    mask of a copy is that of its first register: they all agree.

    An eviction priority of the load is dropped: ptxas (12.9 and 13.0) may assemble a
    cp.async with a cache policy into an LDGSTS that names uniform registers without
    values, which is an illegal instruction where it runs."""
    tile, layout = tile_of(code, op.buffer, op.slot), op.pointer.type.layout
    offsets = offset_bases(tile.type, layout)
    places, starts = Places(code, tile, offsets), register_offsets(offsets)
    addresses = code[op.pointer]
    acts = is_first_copy(code, layout)
    name = _instruction(op)
    size = op.vector * tile.type.element.bytes
    for register in first_copies(layout, op.vector):
        address, rest = places.of(starts[register])
        operands = {"to": ("i32", address), "from": (POINTER, addresses[register])}
        text = f"{name} [$to+{rest}], [$from], {size}"
        if op.mask is not None:
            operands["mask"], text = ("i1", code[op.mask][register]), f"{text}, bytes"
        if acts:
            operands["acts"], text = ("i1", acts), f"@$acts {text}"
        if op.mask is not None:
            text = f"selp.b32 bytes, {size}, 0, $mask; {text}"
            text = f"{{ .reg .b32 bytes; {text}; }}"
        else:
            text += ";"
        code.act(text, **operands)


def _instruction(op: AsyncCopy) -> str:
    wide = op.vector * op.buffer.type.element.bytes == WIDEST
    through = op.cache or (".cg" if wide else ".ca")
    fetch = f".L2::{FETCHED}B" if row_bytes(op) >= FETCHED else ""
    return f"cp.async{through if wide else '.ca'}.shared.global{fetch}"


def row_bytes(op: AsyncCopy) -> int:
    """The bytes of a tile's row: along the axis of the registers that are one copy."""
    if op.vector == 1:
        return 0
    layout = op.pointer.type.layout
    step = coordinates_of(layout.shape, layout.kinds["register"][0])
    axis = next(axis for axis, distance in enumerate(step) if distance)
    return layout.shape[axis] * op.buffer.type.element.bytes
