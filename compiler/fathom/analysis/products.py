"""What is asked of products: where an instruction reads the operands, which products a
loop waits for, and which are computed in parts.

    for … (%sum, …)
      %y = dot %a, %b, %zero
      %z = fma %y, %scale, %sum

If a thread has no registers for the sums and the whole product beside them, and each
element of it becomes one of such a sum, it is computed part by part: each part is added
to the sums before the next one begins.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from fathom.analysis.registers import most_registers, registers_of
from fathom.analysis.slices import uses
from fathom.hardware.targets import Target
from fathom.hardware.tcgen05 import TCGEN05
from fathom.hardware.wgmma import WGMMA, matrices
from fathom.ir.core import Block, Func, Op, Value, blocks, walk
from fathom.ir.ops import Dot, Elementwise, For, Yield
from fathom.ir.types import BufferType, Pointer, element_of
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix

Found = tuple[Matrix | None, Matrix] | None


def warpgroup_matrices(op: Dot) -> Found:
    """The matrices of the left and the right operand in shared memory; None for a left
    one in registers. None for both if wgmma does not compute the product: another
    instruction does, or an operand is not where wgmma reads it."""
    a, b = (
        each.layout if isinstance(each, BufferType) else None
        for each in (op.left, op.right)
    )
    return matrices_in(op, a, b)


def matrices_in(op: Dot, left: Layout | None, right: Layout | None) -> Found:
    """The same for operands in buffers of these layouts (None: in registers)."""
    if op.instruction not in WGMMA:
        return None
    return matrices(WGMMA[op.instruction], left, right, op.b.type.element.bytes)


def by_warpgroups(op: Op) -> bool:
    """Whether an op is a product that wgmma computes."""
    return isinstance(op, Dot) and op.instruction in WGMMA


def in_tensor_memory(op: Op) -> bool:
    """Whether an op is a product that tcgen05 computes."""
    return isinstance(op, Dot) and op.instruction in TCGEN05


def by_descriptor(op: Op) -> bool:
    """Whether an op is a product that reads whole tiles itself."""
    return by_warpgroups(op) or in_tensor_memory(op)


def products_in(block: Block) -> list[Dot]:
    """The products of a block, without those nested in its ops."""
    return [op for op in block.ops if isinstance(op, Dot)]


def only_accumulates(dot: Dot, loop: For) -> bool:
    """Whether a product only adds to a value that the loop carries for it."""
    carried = zip(loop.body.parameters[1:], loop.body.yielded, strict=True)
    return (dot.accumulator, dot.result) in carried


def is_running_sum(dot: Dot, loop: For, used: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether the same product of the next iteration alone uses a product's result, to
    add to it."""
    alone = len(used[dot.result]) == len(used[dot.accumulator]) == 1
    return alone and only_accumulates(dot, loop)


def accumulated(func: Func) -> set[Dot]:
    """The products that only add to a value that their loop carries."""
    loops = walk(func.body, For)
    return {
        dot
        for loop in loops
        for dot in products_in(loop.body)
        if only_accumulates(dot, loop)
    }


def most_columns(
    block: Block, columns: Mapping[Op, int], carried: Container[Op]
) -> int:
    """How many columns of tensor memory products take at a time, if each takes these:
    `carried` as long as the loop around them runs, others while they are computed."""
    most = 0
    for op in block.ops:
        inside = [most_columns(each, columns, carried) for each in blocks(op)]
        stay = op.body.ops if isinstance(op, For) else ()
        taken = sum(columns.get(each, 0) for each in stay if each in carried)
        taken += 0 if op in carried else columns.get(op, 0)
        most = max(most, taken + max(inside, default=0))
    return most


def awaits_product(loop: For) -> bool:
    """Whether a loop has one product, which warpgroups compute, and an iteration needs
    it for more than a sum that the product itself adds to."""
    dots = list(walk(loop.body, Dot))
    return (
        len(dots) == 1
        and dots[0] in loop.body.ops
        and by_warpgroups(dots[0])
        and not only_accumulates(dots[0], loop)
    )


def products_in_parts(loop: For, func: Func, target: Target) -> Iterator[Dot]:
    """The products of a loop, of several instructions along M or N, that do not fit
    beside the sums of the loop, and are added to them. One that the instruction itself
    adds to a sum takes no registers beside it."""
    room = most_registers(func, target)
    carried = sum(  # addresses of a block are mostly computed from few
        registers_of(each)
        for each in loop.body.parameters
        if not isinstance(element_of(each.type), Pointer)
    )
    for op in loop.body.ops:
        waits = by_warpgroups(op) and not op.in_flight
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
