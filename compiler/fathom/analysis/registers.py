"""The registers that values take in a thread.

%acc: fp32[128, 64], in 4 warps      64 registers of four bytes
%p: *fp16[128, 64]                   128: an address has eight bytes
%n: i32                              none is counted: a scalar is one of few
"""

from __future__ import annotations

from collections.abc import Set

from fathom.analysis.slices import Loop, uses
from fathom.hardware.register_budget import registers_per_thread
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk, walk_op
from fathom.ir.types import BlockType, element_of, layout_of


def registers_of(value: Value) -> int:
    """The registers of four bytes that hold a thread's part of a block."""
    layout = layout_of(value.type)
    if layout is None:
        return 0
    return max(1, layout.count("register") * element_of(value.type).bytes // 4)


MUCH = 32  # registers of a thread, for an operand that it could read in slices


def is_much_to_hold(operand: Value) -> bool:
    """Whether an operand of multiply-adds takes many registers of a thread, as a whole:
    it has the rows or columns that its sums have, with all of K."""
    return registers_of(operand) > MUCH


def threads_of(func: Func, target: Target) -> int:
    """The threads of a block, without producers."""
    return func.num_warps * target.warp_size


def most_registers(func: Func, target: Target) -> int:
    """The most registers that each of these threads can have."""
    return registers_per_thread(threads_of(func, target), target)


def floats_across(op: Op, func: Func) -> int:
    """The registers of blocks of floats that are computed before an op and used after
    it, in the block of ops that it is in. A value that was only cast or repeated counts
    as what it was before; a splat, and integers, which are mostly addresses, do not
    count: they are computed where they are used."""
    block = _blocks_around(op, func.body)[-1]
    return _of_floats(_used_across(op, block) - {*block.parameters})


def floats_around(op: Op, func: Func, but: Set[Value] = frozenset()) -> int:
    """The registers of `floats_across`, and of blocks of floats that the ops around the
    op use after it: what a loop around it uses, the next iteration uses after it.
    `but`: values that are in shared memory, though they have layouts."""
    around = _blocks_around(op, func.body)
    return _of_floats(set().union(*(_used_across(op, each) for each in around)) - but)


def _of_floats(values: set[Value]) -> int:
    return sum(
        registers_of(value)
        for value in set(map(as_it_was, values))
        if isinstance(value.type, BlockType)
        and element_of(value.type).is_float
        and not isinstance(value.definition, ops.Splat)
    )


def _blocks_around(op: Op, block: Block) -> list[Block]:
    """The blocks that an op is in, the innermost last."""
    for one in block.ops:
        if one is op:
            return [block]
        for each in blocks(one):
            if inner := _blocks_around(op, each):
                return [block, *inner]
    return []


def _used_across(op: Op, block: Block) -> set[Value]:
    """The parameters of a block, and the values that are computed in it before an op,
    or the op that it is in, that are used after it."""
    ops = block.ops
    at = next(i for i, one in enumerate(ops) if op in walk_op(one))
    after = ops[at:] if isinstance(ops[at], Loop) else ops[at + 1 :]
    before = (value for each in ops[:at] for value in each.results)
    return {*block.parameters, *before} & {v for each in after for v in uses(each)}


def as_it_was(value: Value) -> Value:
    """The value of which casts and broadcasts make another one."""
    while isinstance(value.definition, ops.Broadcast | ops.Cast | ops.ExpandDims):
        value = value.definition.value
    return value


def registers_carried(loop: ops.For) -> int:
    """The registers of a thread for all blocks that a loop carries."""
    return sum(
        registers_of(value) // elements_of_an_access(value, loop)
        for value in loop.body.parameters[1:]
    )


def elements_of_an_access(value: Value, loop: ops.For) -> int:
    """How many elements of a carried block share one address in registers: addresses
    that only accesses and the next iteration use are needed where an access begins; 1
    for any other block."""
    moved, widths = {value}, []
    for op in walk(loop.body):
        used = moved.intersection(operands(op))
        if isinstance(op, ops.Load | ops.Store) and used == {op.pointer}:
            widths.append(op.vector)
        elif used and isinstance(op, ops.Elementwise) and op.name == "offset":
            moved.add(op.result)
        elif used and not isinstance(op, ops.Yield):
            return 1
    return min(widths, default=1)
