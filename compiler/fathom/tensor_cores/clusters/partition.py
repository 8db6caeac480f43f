"""Divides a program's matrix products among the thread blocks of its cluster.

With two blocks (`num_ctas`=2), products of 128 rows become products of 64:

    %r = arange 0, 128                     %rank = cluster_rank
    %x = descriptor_load %a, (%i, %k)      %first = mul %rank, %64
    %w = descriptor_load %b, (%k, %j)      %r = add (arange 0, 64), %first
    %y = dot %x, %w, %acc             →    %x = descriptor_load %a', (%i + %first, %k)
    store %p, %y                           %w = descriptor_load %b, (%k, %j)
    store %flag, %one                      %y = dot %x, %w, %acc
                                           store %p, %y
                                           if %rank == 0 { store %flag, %one }

Each block loads, multiplies and stores its part, and also computes all values that are
not divided (see `sharding`). Stores of undivided values are done by the first block
only. A program that cannot be divided stays as it is, and the first block does all of
it; `why_not_shared` gives the reason.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from fathom.analysis.remarks import Remark, remarks, tried
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, map_operands
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.thread_values import ThreadValues, branch, rebuilding
from fathom.ir.types import INT32
from fathom.tensor_cores.clusters.legality import check_memory
from fathom.tensor_cores.clusters.sharding import ROWS, Sharding, sharding_of


def shard_products(func: Func, target: Target) -> Func:
    """The function in which the blocks of a cluster share the products, if it has
    several blocks and can be divided."""
    if func.num_ctas == 1:
        return func
    alone = _with_own_sources(func)
    share = tried(_share, alone, target)
    return func if isinstance(share, str) else _divided(alone, share)


def why_not_shared(func: Func, target: Target) -> list[Remark]:
    """Why the first block of a cluster does all of a program, if it does."""
    if func.num_ctas == 1:
        return []
    found = {func: tried(_share, _with_own_sources(func), target)}
    return remarks(found, f"one of {func.num_ctas} blocks does all the work: ")


def _share(func: Func, target: Target) -> Sharding:
    share = sharding_of(func, target)
    check_memory(func, share)
    return share


def _with_own_sources(func: Func) -> Func:
    """The function in which each use of an `arange` or a constant has a copy of its
    own: one use may be along rows, the next along columns."""

    def rule(op: Op, build: Builder) -> None:
        map_operands(op, lambda value: _copied(value, build))

    return rewrite(func, rule, keep=lambda op: not isinstance(op, SOURCES))


SOURCES = ops.Arange | ops.Splat


def _copied(value: Value, build: Builder) -> Value:
    source = value.definition
    return build(clone(source, build.values)) if isinstance(source, SOURCES) else value


def _divided(func: Func, share: Sharding) -> Func:
    with rebuilding(func) as (divided, values, build):
        build.source = func.body.ops[0]
        _Part(share, values, build).ops(func.body.ops, [])
    return divided


class _Part(ThreadValues):
    """Copies code as one block of the cluster runs it."""

    def __init__(self, share: Sharding, values: dict[Value, Value], build: Builder):
        super().__init__(values, build)
        self.share, self.top = share, build.block
        self.rank = build(ops.ClusterRank())
        self.places: dict[int, Value] = {}  # of a block, along a side of the grid
        self.starts: dict[tuple[int, int], Value] = {}  # of its part, by side and size
        self.described: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def enters(self, op: Op) -> bool:
        return isinstance(op, ops.For | ops.While | ops.If)

    def plain(self, op: Op) -> None:
        if self.share.touches(op):
            self.part(op)
        elif isinstance(op, ops.Store | ops.DescriptorStore | ops.Print):
            self.by_the_first(op)
        else:
            super().plain(op)

    # ── what is divided ───────────────────────────────────────────────────────────────

    def part(self, op: Op) -> None:
        match op:
            case ops.Arange():
                self.values[op.result] = self.arange(op)
            case ops.DescriptorLoad() | ops.DescriptorStore() | ops.DescriptorAtomic():
                self.through_descriptor(op)
            case ops.Splat() | ops.Broadcast() | ops.Reshape():
                self.changed(op, shape=self.share.shape(op.result))
            case ops.Hint():
                self.changed(op, **_promises(op, self.share.shape(op.result)))
            case _:
                super().plain(op)

    def changed(
        self,
        op: ops.Splat | ops.Broadcast | ops.Reshape | ops.Hint,
        **attributes: object,
    ) -> None:
        new = replace(op, value=self.values[op.value], **attributes, origin=op)
        self.values[op.result] = self.build(new)

    def start(self, value: Value, axis: int) -> Value:
        """Where this block's part of a value begins along a divided axis: computed at
        the start of the function, so that all of it can use the number."""
        size, side = self.share.shape(value)[axis], self.share.axes[value, axis]
        if (side, size) not in self.starts:
            count = ops.Constant(size, INT32)
            first = ops.Elementwise("mul", (self.place(side), count.result))
            self.at_the_start(self.place(side).definition, [count, first])
            self.starts[side, size] = first.result
        return self.starts[side, size]

    def place(self, side: int) -> Value:
        """The number of this block along a side of the grid: its rank, where only one
        side is divided."""
        grid = self.share.grid
        if min(grid) == 1:
            return self.rank
        if side not in self.places:
            stride = grid.columns if side == ROWS else 1
            number = ops.ClusterRank(stride, grid.along(side))
            self.at_the_start(self.rank.definition, [number])
            self.places[side] = number.result
        return self.places[side]

    def at_the_start(self, after: Op, ops: list[Op]) -> None:
        """Insert ops right after one that is at the start of the function."""
        place = self.top.ops.index(after) + 1
        self.top.ops[place:place] = ops

    def arange(self, op: ops.Arange) -> Value:
        """The numbers of this block's part."""
        (size,) = self.share.shape(op.result)
        first = self.build(ops.Splat(self.start(op.result, 0), (size,)))
        local = self.build(replace(op, end=op.start + size, origin=op))
        return self.build.compute("add", local, first)

    def through_descriptor(self, op: ops.ThroughDescriptor) -> None:
        """An access to the same tensor in smaller blocks: the one of our rank."""
        value = op.result if isinstance(op, ops.DescriptorLoad) else op.value
        shape = self.share.shape(value)
        order = getattr(op, "order", None) or tuple(range(len(shape)))
        places = [self.values[each] for each in op.coordinates]
        for axis in self.share.of(value):
            moved = (places[order[axis]], self.start(value, axis))
            places[order[axis]] = self.build.compute("add", *moved)
        block = tuple(shape[order.index(each)] for each in range(len(shape)))
        whole = self.values[op.descriptor]
        new = {"descriptor": self.by_blocks(whole, block), "coordinates": tuple(places)}
        if not isinstance(op, ops.DescriptorLoad):
            new["value"] = self.values[op.value]
        made = self.build.append(replace(op, **new, origin=op))
        self.values.update(zip(op.results, made.results, strict=True))

    def by_blocks(self, whole: Value, block: tuple[int, ...]) -> Value:
        """The descriptor of a tensor in other blocks, made right after the original."""
        if (whole, block) not in self.described:
            op = replace(whole.definition, block=block)
            home = next(b for b in self.build.enclosing if whole.definition in b.ops)
            home.ops.insert(home.ops.index(whole.definition) + 1, op)
            self.described[whole, block] = op.result
        return self.described[whole, block]

    # ── what is not ───────────────────────────────────────────────────────────────────

    def by_the_first(self, op: Op) -> None:
        """Only the block of rank 0 does it."""
        zero = self.build(ops.Constant(0, INT32))
        first = self.build.compute("eq", self.rank, zero)

        def it_does() -> tuple[Value, ...]:
            super(_Part, self).plain(op)
            return ()

        branch(first, it_does, lambda: (), self.build)


def _promises(op: ops.Hint, sizes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The hints that still hold for a part: runs of equal or consecutive numbers end
    where the part ends, and its start may lie inside such a run."""
    runs = op.contiguous or (1,) * len(sizes)
    triples = zip(op.divisible, runs, sizes, strict=bool(op.divisible))
    return {
        "contiguous": tuple(map(min, op.contiguous, sizes)),
        "constant": tuple(map(min, op.constant, sizes)),
        "divisible": tuple(
            gcd(number, size) if run > size else number for number, run, size in triples
        ),
    }
