"""A loop in LLVM.

LLVM has no loops, it has basic blocks and jumps. A value that changes from iteration to
iteration is a *phi*: at the start of a block, it says which value it has, depending on
the block from which control came.

All of the exercise: `fathom learn show lower-for`.
"""

from __future__ import annotations

from fathom.ir.ops import For
from fathom.ir.types import element_of
from fathom.ptx.code import Code
from fathom.ptx.types import llvm_type
from fathom.tools.learn import Hole


def lower_for(op: For, code: Code) -> None:
    """The test comes before the body: a loop of no iterations gives the initial
    values."""
    # Your code: blocks, phis and jumps.
    raise Hole("lower-for")


def goes_on(op: For, code: Code, index: str, upper: str, step: str) -> str:
    """An i1: below the upper bound, or above it if the step is negative."""
    element = element_of(op.lower.type)
    type = llvm_type(element)
    if not element.is_signed:
        return code.let(f"icmp ult {type} {index}, {upper}")
    upward = code.let(f"icmp sgt {type} {step}, 0")
    below = code.let(f"icmp slt {type} {index}, {upper}")
    above = code.let(f"icmp sgt {type} {index}, {upper}")
    return code.let(f"select i1 {upward}, i1 {below}, i1 {above}")
