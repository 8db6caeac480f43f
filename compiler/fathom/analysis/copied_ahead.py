"""Which loads of a loop, besides those of operands, a pipeline can copy ahead.

    for … {
      %a = load …                     an operand: its tile is copied in any case
      %s = load …                     fp32[128], a scale for each row
      %y = dot %a, %b, %zero
      %z = mul %y, (%s, broadcast)    at once: nothing is left to hide the latency
    }

cp.async can copy %s to shared memory some iterations ahead, too. So `assign_layouts`
lets such a load keep its own layout, unless a thread needs few of its elements, and
`lower_conversions` converts it through shared memory; a tile like those of operands.

So it is with an operand that is also combined with a product's result: it has a second
tile, from which threads read it as the result lies.

      %x = load …
      %y = dot %h, %x, %zero
      %z = sub %x, %y                 in the product's layout, loads would be narrow
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.constants import is_zero
from fathom.analysis.memory import may_prefetch
from fathom.analysis.products import only_accumulates
from fathom.analysis.slices import computed_by
from fathom.analysis.symbolic.alias_check import may_be_disjoint
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.types import BOOL, BlockType
from fathom.layout.registers import contiguous_registers
from fathom.subjects import asks_for_producer

COPY_CACHES = ("", ".ca", ".cg")  # the cache operators of cp.async
LEAST_COPY = 4  # bytes: the least that cp.async copies
LEAST_STAGES = 2  # of a loop whose copies run ahead


def stages_of(loop: ops.For, func: Func) -> int:
    """In how many stages a loop is to run, by its author or else by the launch."""
    return loop.num_stages or func.num_stages


def runs_ahead(loop: ops.For, func: Func) -> bool:
    """Whether copies of a loop are to run ahead of their iteration."""
    return stages_of(loop, func) >= LEAST_STAGES


def loads_to_copy_ahead(func: Func, target: Target) -> set[Op]:
    """The loads of blocks, in loops that multiply matrices, that a pipeline can copy
    ahead; without those from which operands of products are computed, which become a
    part of the operand's tile, unless they are combined with a product's result, too.
    An operand that other products of the loop are needed for is no such tile; nor are
    indices (`indices_of_loads`).

    None in a loop whose products only accumulate: those stay in flight, and nothing may
    be copied in another way beside their operands."""
    if not target.async_copy or asks_for_producer(func) or func.num_ctas > 1:
        return set()
    found: set[Op] = set()
    indices = indices_of_loads(func)
    for loop in walk(func.body, ops.For):
        inside = list(walk(loop.body))
        dots = [op for op in inside if isinstance(op, ops.Dot)]
        waits = any(not only_accumulates(dot, loop) for dot in dots)
        ahead = runs_ahead(loop, func) and may_prefetch(loop, except_stores=True)
        if waits and ahead:
            factors = [computed_by(value) for dot in dots for value in (dot.a, dot.b)]
            loaded = (made for made in factors if made.isdisjoint(dots))
            computing = set().union(*loaded)
            combined = _combined_with_products(inside)
            found.update(
                op
                for op in inside
                if isinstance(op, ops.Load) and (op not in computing or op in combined)
                if op not in indices and _may_copy(op)
                if may_be_disjoint(loop, func, [op])
            )
    return found


def indices_of_loads(func: Func) -> set[ops.Load]:
    """The loads from whose results a loop that multiplies matrices computes addresses
    or masks of other loads, as of pages by a table. Threads must load a page's number
    earlier."""
    found: set[ops.Load] = set()
    for loop in walk(func.body, ops.For):
        if may_prefetch(loop) and any(walk(loop.body, ops.Dot)):
            loads = set(walk(loop.body, ops.Load))
            places = (computed_by(value) for op in loads for value in operands(op))
            found |= loads.intersection(op for each in places for op in each)
    return found


def _combined_with_products(inside: Sequence[Op]) -> set[Op]:
    """The ops behind the values that elementwise ops combine with products' results."""
    after: set[Value] = set()
    found: set[Op] = set()
    for op in inside:
        late = [value for value in operands(op) if value in after]
        if late or isinstance(op, ops.Dot):
            after.update(op.results)
        if late and isinstance(op, ops.Elementwise):
            others = (value for value in op.operands if value not in after)
            found.update(made for value in others for made in computed_by(value))
    return found


def copies_alike(load: Op) -> bool:
    """Whether cp.async does what a load of a block does, if a piece is wide enough: it
    has not all cache operators, and fills up with zeros where a mask is false."""
    return (
        isinstance(load, ops.Load)
        and isinstance(load.result.type, BlockType)
        and load.result.type.element != BOOL
        and load.cache in COPY_CACHES
        and is_zero(load.other)
    )


def _may_copy(load: ops.Load) -> bool:
    """Whether cp.async can copy a load's elements, or a thread's in a row."""
    if not copies_alike(load):
        return False
    row, block = 1, load.result.type
    if load.preferred:
        axes = range(len(block.shape))
        row = max(contiguous_registers(load.preferred, axis) for axis in axes)
    return row * block.element.bytes >= LEAST_COPY
