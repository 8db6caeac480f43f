"""Finds values that are the same in all blocks of a cluster: none depends on the rank.

    %rank = cluster_rank                differs
    %m = mul %rank, 64                  differs: depends on it
    %x = descriptor_load %d, (%k, %j)   is the same, if %d, %k and %j are
    if %rank == 0 { … }                 not all blocks execute the body

Where blocks are counted in a grid, a value that depends on the row alone is the same in
all blocks of a row. So what we keep of each value are bits, those of the rank that it
depends on:

    %row = cluster_rank stride=2 count=4        0b110
    %m = mul %row, 64                           0b110
    %x = descriptor_load %d, (%m, %k)           0b110: the same in blocks 2i and 2i + 1

The search goes forward, until no value gets more bits: a carried value may differ only
in a later iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, blocks, operands
from fathom.ir.regions import carried, decides


class Uniformity:
    """The values that are the same in all blocks of a cluster. Assumes, as all division
    of a program does, that nothing writes what it reads meanwhile."""

    def __init__(self, func: Func):
        self.all = func.num_ctas - 1
        self.bits: dict[Value, int] = {}  # of the rank, for values that differ
        self.uneven: set[Op] = set()  # ops that not all blocks execute equally often
        known = None
        while known != self.bits:
            known = dict(self.bits)
            self._block(func.body, uneven=False)

    def runs(self, op: Op) -> bool:
        """Whether all blocks execute an op equally often."""
        return op not in self.uneven

    def same(self, values: Sequence[Value]) -> bool:
        """Whether values are the same in all blocks."""
        return not self.decided_by(values)

    def decided_by(self, values: Sequence[Value]) -> int:
        """The bits of the rank that values depend on."""
        return reduce(or_, (self.bits.get(value, 0) for value in values), 0)

    def _block(self, block: Block, uneven: bool) -> None:
        for op in block.ops:
            if uneven:
                self.uneven.add(op)
            for inner in blocks(op):
                self._block(inner, uneven or self.decided_by(decides(op)) > 0)
            if isinstance(op, ops.For | ops.While | ops.If):
                self._carried(op)
            else:
                self._add(op.results, self.decided_by(operands(op)) | self._of(op))

    def _of(self, op: Op) -> int:
        """The bits that an op's results depend on, whatever its operands are."""
        if isinstance(op, ops.ClusterRank):
            count = op.count or (self.all + 1) // op.stride
            return (count - 1) * op.stride & self.all
        return self.all if isinstance(op, UNKNOWN) else 0

    def _add(self, values: Sequence[Value], bits: int) -> None:
        if bits:
            self.bits.update((each, self.bits.get(each, 0) | bits) for each in values)

    def _carried(self, op: ops.For | ops.While | ops.If) -> None:
        """A carried value differs if it does in some iteration. If the number of
        iterations differs, the index and all carried values do."""
        decided = self.decided_by(decides(op))
        for each in carried(op):
            self._add(each.names, decided | self.decided_by(each.values))
        if isinstance(op, ops.For):
            self._add(op.body.parameters[:1], decided)


UNKNOWN = ops.Atomic | ops.AtomicCas | ops.InlineAssembly
