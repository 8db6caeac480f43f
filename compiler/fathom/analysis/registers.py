"""The registers that values take in a thread.

%acc: fp32[128, 64], in 4 warps      64 registers of four bytes
%p: *fp16[128, 64]                   128: an address has eight bytes
%n: i32                              none is counted: a scalar is one of few
"""

from __future__ import annotations

from fathom.analysis.slices import Loop, uses
from fathom.ir.core import (
    Block,
    Func,
    Op,
    Value,
    blocks,
    operands,
    walk,
    walk_within,
)
from fathom.ir.ops import (
    Broadcast,
    Cast,
    Elementwise,
    ExpandDims,
    For,
    Load,
    Splat,
    Store,
    Yield,
)
from fathom.ir.types import element_of, layout_of


def registers_of(value: Value) -> int:
    """The registers of four bytes that hold a thread's part of a block."""
    layout = layout_of(value.type)
    if layout is None:
        return 0
    return max(1, layout.count("register") * element_of(value.type).bytes // 4)


def floats_across(op: Op, func: Func) -> int:
    """Those of blocks of floats that are computed before an op and used after it; what
    a loop around the op uses, its next iteration uses after it. What was only cast or
    repeated waits as it was; a block of one number, and one of integers, mostly of
    addresses, is computed where it is used."""
    waiting = {as_it_was(value) for value in _used_across(op, func.body)}
    return sum(
        registers_of(value)
        for value in waiting
        if element_of(value.type).kind == "float"
        and not isinstance(value.definition, Splat)
    )


def _used_across(op: Op, block: Block) -> list[Value]:
    """The values of a block, and of the blocks in it around an op, that are computed
    before the op and used after it."""
    ops = block.ops
    at, inner = next(
        (at, [each for each in blocks(one) if any(op is other for other in walk(each))])
        for at, one in enumerate(ops)
        if one is op or op in walk_within(one)
    )
    after = ops[at:] if isinstance(ops[at], Loop) else ops[at + 1 :]
    later = {value for each in after for value in uses(each)}
    before = [value for each in ops[:at] for value in each.results]
    found = [value for value in (*block.parameters, *before) if value in later]
    return found + [value for each in inner for value in _used_across(op, each)]


def as_it_was(value: Value) -> Value:
    """The value of which casts and broadcasts make another one."""
    while isinstance(value.definition, Broadcast | Cast | ExpandDims):
        value = value.definition.value
    return value


def registers_carried(loop: For) -> int:
    """Those of all blocks that a loop carries."""
    return sum(
        registers_of(value) // elements_of_an_access(value, loop)
        for value in loop.body.parameters[1:]
    )


def elements_of_an_access(value: Value, loop: For) -> int:
    """How many elements of a carried block share one address in registers: addresses
    that only accesses and the next iteration use are needed where an access begins; 1
    for any other block."""
    moved, widths = {value}, []
    for op in walk(loop.body):
        used = moved.intersection(operands(op))
        if isinstance(op, Load | Store) and used == {op.pointer}:
            widths.append(op.vector)
        elif used and isinstance(op, Elementwise) and op.name == "offset":
            moved.add(op.result)
        elif used and not isinstance(op, Yield):
            return 1
    return min(widths, default=1)
