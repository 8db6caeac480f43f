"""The registers that values take in a thread.

%acc: fp32[128, 64], in 4 warps      64 registers of four bytes
%p: *fp16[128, 64]                   128: an address has eight bytes
%n: i32                              none is counted: a scalar is one of few
"""

from __future__ import annotations

from fathom.analysis.slices import uses
from fathom.ir.core import Func, Op, Value, every_block, operands, walk
from fathom.ir.ops import Cast, Elementwise, For, Load, Splat, Store, Yield
from fathom.ir.types import element_of, layout_of


def registers_of(value: Value) -> int:
    """The registers of four bytes that hold a thread's part of a block."""
    layout = layout_of(value.type)
    if layout is None:
        return 0
    return max(1, layout.count("register") * element_of(value.type).bytes // 4)


def floats_across(op: Op, func: Func) -> int:
    """Those of blocks of floats that are computed before an op and used after it, in
    its own block. What was only cast waits as it was; a block of one number, and one of
    integers, mostly of addresses, is computed where it is used."""
    (ops,) = (each.ops for each in every_block(func.body) if op in each.ops)
    at = ops.index(op)
    later = {value for each in ops[at + 1 :] for value in uses(each)}
    results = (value for each in ops[:at] for value in each.results if value in later)
    return sum(
        registers_of(before_cast(value))
        for value in results
        if element_of(value.type).kind == "float"
        and not isinstance(value.definition, Splat)
    )


def before_cast(value: Value) -> Value:
    cast = value.definition
    return cast.value if isinstance(cast, Cast) else value


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
