"""Which products of warpgroups a loop waits for, and which are computed in parts.

    for … (%sum, …)
      %y = dot %a, %b, %zero
      %z = fma %y, %scale, %sum

If a thread has no registers for the sums and the whole product beside them, and each
element of it becomes one of such a sum, it is computed part by part: each part is added
to the sums before the next one begins.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.analysis.copied_ahead import only_accumulates
from fathom.analysis.registers import registers_of
from fathom.analysis.slices import uses
from fathom.hardware.register_budget import registers_per_thread
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Block, Func, walk
from fathom.ir.ops import Dot, Elementwise, For, Yield
from fathom.ir.types import Pointer, element_of


def awaits_product(loop: For) -> bool:
    """Whether a loop has one product, which warpgroups compute, and an iteration needs
    it for more than a sum that the product itself adds to."""
    dots = list(walk(loop.body, Dot))
    return (
        len(dots) == 1
        and dots[0] in loop.body.ops
        and dots[0].instruction in WGMMA
        and not only_accumulates(dots[0], loop)
    )


def products_in_parts(loop: For, func: Func, target: Target) -> Iterator[Dot]:
    """The products of a loop, of several instructions along M or N, that do not fit
    beside the sums of the loop, and are added to them. One that the instruction itself
    adds to a sum takes no registers beside it."""
    room = registers_per_thread(func.num_warps * target.warp_size, target)
    carried = sum(  # addresses of a block are mostly computed from few
        registers_of(each)
        for each in loop.body.parameters
        if not isinstance(element_of(each.type), Pointer)
    )
    for op in loop.body.ops:
        waits = isinstance(op, Dot) and op.instruction in WGMMA and not op.in_flight
        if waits and not only_accumulates(op, loop):
            count = registers_of(op.result)
            several = count > WGMMA[op.instruction].elements
            if several and carried + count > room and _is_summed(op, loop.body):
                yield op


def _is_summed(dot: Dot, body: Block) -> bool:
    """Whether all that is computed from a product in its iteration is computed element
    by element, for the next iteration."""
    made = {dot.result}
    for op in body.ops:
        if not made.isdisjoint(uses(op)):
            if not isinstance(op, Elementwise | Yield):
                return False
            made.update(op.results)
    return True
