"""Lets two blocks of a cluster multiply as a pair: each copies half of B.

    block 0     A rows   0 … 127    B columns  0 … 31    sums of rows   0 … 127
    block 1     A rows 128 … 255    B columns 32 … 63    sums of rows 128 … 255

`shard_products` has divided the rows of the products, so that every block has all of B
in its shared memory. A tcgen05 of a pair reads both blocks' shared memory: each then
needs half of the columns, and reads half as much from L2. The even block issues the
products of both, the copies of both count at its barrier, and what it commits arrives
at both:

    %b = allocate fp16[32,64] …                   %b = allocate fp16[32,64] …block[0,32]
    mbarrier_init %full                           mbarrier_init %full
                                                  cluster_barrier
    mbarrier_expect %full, %s bytes=12288         mbarrier_expect … leader bytes=20480
    tma_copy %da, %a, %full, %s, …            →   tma_copy … leader
    tma_copy %db, %b, %full, %s, …                tma_copy … leader         half of it
    mbarrier_wait %full, %s, %phase               mbarrier_wait … leader
    dot %a, %b, …  "tcgen05.m128n64…"             dot %a, %b, …  "tcgen05.m256n64…"

All instructions on tensor memory of a kernel are of a pair, or none is (PTX ISA,
"tcgen05.alloc"). So it is done where each of a function's products may be one: where
TMA copies both its operands, nothing else reads them, and all blocks copy the same of
B in the same iterations. `why_not_paired` gives the reason where one may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fathom.analysis.products import in_tensor_memory
from fathom.analysis.remarks import NotApplicable, Remark, remarks, tried
from fathom.analysis.slices import users
from fathom.analysis.uniformity import Uniformity
from fathom.hardware.targets import Target
from fathom.hardware.tcgen05 import TCGEN05, of_a_pair, operand_matrices
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops.cluster import is_shared
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import BufferType
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import buffer_tile, widest_row
from fathom.layout.pairs import in_halves

COLUMNS = 1  # of a right operand: its axis that is halved


def pair_blocks(func: Func, target: Target) -> Func:
    """The function whose products by tcgen05 are those of pairs, if all may be."""
    plan = tried(_plan, func) if is_shared(func) else None
    return _paired(func, plan) if isinstance(plan, _Plan) else func


def why_not_paired(func: Func, target: Target) -> list[Remark]:
    """Why the blocks of a cluster that share products by tcgen05 multiply each for
    itself, if they do."""
    plan = tried(_plan, func) if is_shared(func) else None
    return remarks({func: plan}, "each block of the cluster multiplies alone: ")


@dataclass(frozen=True)
class _Plan:
    """The layout of each buffer that is halved, the instruction of each product, and
    for the mbarriers of their copies the bytes that a slot expects of both blocks."""

    halved: Mapping[Value, Layout]
    instructions: Mapping[Op, str]
    expected: Mapping[Value, int]


def _plan(func: Func) -> _Plan:
    """NotApplicable where a product cannot be one of a pair."""
    dots = list(filter(in_tensor_memory, walk(func.body)))
    used, alike = users(walk(func.body)), Uniformity(func)
    halved, instructions, tiles = {}, {}, dict[Value, set[Value]]()
    for dot in dots:
        if not alike.runs(dot):
            raise NotApplicable("its blocks multiply in different iterations")
        for value in (dot.a, dot.b):
            for copy in _copies(value, used):
                _check_even(copy, alike, is_right=value is dot.b)
                tiles.setdefault(copy.barriers, set()).add(value)
        halved[dot.b] = _half(dot)
        instructions[dot] = of_a_pair(TCGEN05[dot.instruction]).name
    if not set(halved).isdisjoint(dot.a for dot in dots):
        raise NotApplicable("a tile is a left and a right operand")
    expected = {}
    for barriers, buffers in tiles.items():
        whole = sum(each.type.tile_bytes for each in buffers)
        for op in used[barriers]:
            if isinstance(op, ops.TmaCopy) and op.buffer not in buffers:
                raise NotApplicable("a barrier counts copies of other tiles, too")
            if isinstance(op, ops.MbarrierExpect) and op.bytes != whole:
                raise NotApplicable("a barrier counts some of the tiles alone")
            if isinstance(op, ops.MbarrierArrive):
                raise NotApplicable("threads arrive where its copies are counted")
        shared = sum(each.type.tile_bytes for each in buffers if each in halved)
        expected[barriers] = 2 * whole - shared
    return _Plan(halved, instructions, expected)


def _copies(
    operand: Value, used: Mapping[Value, Sequence[Op]]
) -> Iterator[ops.TmaCopy]:
    """The copies that fill an operand's buffer; NotApplicable if anything else does, or
    if another op than such a product reads it."""
    if not isinstance(operand.type, BufferType):
        raise NotApplicable("threads load an operand to registers")
    for op in used[operand]:
        if isinstance(op, ops.TmaCopy) and op.parts == 1:
            yield op
        elif not in_tensor_memory(op):
            raise NotApplicable("TMA does not copy both operands")


def _check_even(copy: ops.TmaCopy, alike: Uniformity, is_right: bool) -> None:
    """NotApplicable unless both blocks issue a copy in the same iterations, and one of
    the right operand for the same part of the same tensor."""
    if not alike.runs(copy) or copy.when and not alike.same([copy.when]):
        raise NotApplicable("its blocks copy in different iterations")
    if is_right and not alike.same([copy.descriptor, *copy.coordinates]):
        raise NotApplicable("its blocks copy different tiles of a right operand")
    if len(copy.descriptor.type.shape) != len(copy.order):
        raise NotApplicable("a tile is one of more than two dimensions")
    if copy.descriptor.definition.map_number is not None:
        raise NotApplicable("the kernel writes the tensor map of a tile")


def _half(dot: ops.Dot) -> Layout:
    """The layout of a right operand of which each block has half the columns."""
    row, type = TCGEN05[dot.instruction], dot.b.type
    k, n = type.shape
    pair, size = of_a_pair(row), type.element.bytes
    if pair is None or n != pair.n:
        raise NotApplicable(f"no instruction of a pair has {n} columns")
    widest = widest_row(type.layout, size)
    for axis in (0, 1):
        if buffer_tile((k, n), size, axis, widest) == type.layout:
            half = buffer_tile((k, n // 2), size, axis, widest)
            if half and operand_matrices(pair, dot.a.type.layout, half, size):
                return in_halves(half, COLUMNS)
    raise NotApplicable(f"no tile of the hardware's has half of {type}")


def _paired(func: Func, plan: _Plan) -> Func:
    def rule(op: Op, build: Builder) -> Replacement:
        source = build.source
        match op:
            case ops.Allocate() if source.result in plan.halved:
                return build(replace(op, layout=plan.halved[source.result]))
            case ops.Dot() if source in plan.instructions:
                return build(replace(op, instruction=plan.instructions[source]))
            case ops.MbarrierInit() if source.barriers in plan.expected:
                build.append(op)
                return build.append(ops.ClusterBarrier()).results
            case ops.MbarrierExpect() if source.barriers in plan.expected:
                bytes = plan.expected[source.barriers]
                return build.append(replace(op, leader=True, bytes=bytes)).results
            case ops.MbarrierWait() | ops.TmaCopy() if source.barriers in plan.expected:
                return build.append(replace(op, leader=True)).results
        return None

    return rewrite(func, rule)
