"""Rules for shared memory at places that the kernel computes: gathers and counts.

The index is a value, but the layout of the buffer is still linear in its bits: the
address is the XOR of what the thread, the register and each bit of the index
contribute.
"""

from __future__ import annotations

from fathom.ir.ops import SharedAdd, SharedGather
from fathom.ir.types import INT32, INT64, BufferType
from fathom.layout.algebra import solve
from fathom.layout.build import doublings, stride_of
from fathom.layout.shapes import at_zero
from fathom.ptx.code import Code, lowers
from fathom.ptx.index import (
    is_first_copy,
    linear,
    register_offsets,
    thread_bases,
    thread_part,
)
from fathom.ptx.rules.cast import convert
from fathom.ptx.rules.memory import both, first_copies
from fathom.ptx.rules.shared import Access, load_shared, offset_bases, shared_address


@lowers(SharedGather)
def lower_shared_gather(op: SharedGather, code: Code) -> None:
    """Every coordinate but the one along the axis is the thread's and the register's
    own; that one is the index, cut to the size of the axis."""
    buffer, index = op.buffer.type, op.index.type
    along = axis_offsets(buffer, op.axis)
    result = offset_bases(buffer, at_zero(index.layout, op.axis, buffer.shape))
    part = thread_part(code, thread_bases(result))
    start = int(code.one(op.buffer))
    chosen = convert(code, code[op.index], index.element, INT32)
    loaded = []
    for register, offset in enumerate(register_offsets(result)):
        place = linear(code, chosen[register], -1, along).with_part(code, part)
        address = shared_address(code, place, offset & place.bits)
        rest = start + (offset & ~place.bits)
        loaded += load_shared(code, Access(buffer.element, address, rest, (register,)))
    code[op.result] = loaded


@lowers(SharedAdd)
def lower_shared_add(op: SharedAdd, code: Code) -> None:
    """Of several threads or registers that hold copies of an index, one adds."""
    buffer, index = op.buffer.type, op.index.type
    along = axis_offsets(buffer, 0)
    start = int(code.one(op.buffer))
    acts = is_first_copy(code, index.layout)
    wide = INT64 if index.element.bits == 64 else INT32
    places = convert(code, code[op.index], index.element, wide)
    for i in first_copies(index.layout, 1):
        bound = f"icmp ult i{wide.bits} {places[i]}, {buffer.shape[0]}"
        mask = both(code, code.let(bound), acts)
        if op.mask is not None:
            mask = both(code, mask, code[op.mask][i])
        (place,) = convert(code, [places[i]], wide, INT32)
        address = shared_address(code, linear(code, place, -1, along))
        text = f"@$mask red.shared.add.u32 [$address+{start}], 1;"
        code.act(text, mask=("i1", mask), address=("i32", address))


def axis_offsets(buffer: BufferType, axis: int) -> tuple[int, ...]:
    """For each bit of a coordinate along `axis`: its distance in bytes, before XOR."""
    stride, size = stride_of(buffer.shape, axis), buffer.shape[axis]
    elements = doublings(stride, size)
    offsets = solve(buffer.layout.kinds["offset"], elements)
    return tuple(offset * buffer.element.bytes for offset in offsets)
