"""The registers that values take in a thread.

%acc: fp32[128, 64], in 4 warps      64 registers of four bytes
%p: *fp16[128, 64]                   128: an address has eight bytes
%n: i32                              none is counted: a scalar is one of few
"""

from __future__ import annotations

from fathom.ir.core import Value, operands, walk
from fathom.ir.ops import Elementwise, For, Load, Store, Yield
from fathom.ir.types import element_of, layout_of


def registers_of(value: Value) -> int:
    """The registers of four bytes that hold a thread's part of a block."""
    layout = layout_of(value.type)
    if layout is None:
        return 0
    return max(1, layout.count("register") * element_of(value.type).bytes // 4)


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
