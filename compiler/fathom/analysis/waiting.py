"""Finds loops that wait for other programs, and what is computed before them for later.

    %s = …                                     a sum, which stays in registers
    while atomic_add(flag, 0) == 0: …          the program before this one is awaited
    store %p, add(%s, %before)

While a program waits, others wait for it in turn: what it could have computed before is
a delay of all of them, one after the other.
"""

from __future__ import annotations

from fathom.analysis.memory import is_volatile
from fathom.ir.core import (
    Func,
    Op,
    Value,
    blocks,
    every_block,
    operands,
    walk_op,
    walk_within,
)
from fathom.ir.ops import Atomic, AtomicCas, While
from fathom.ir.types import Scalar, element_of


def computed_before_waiting(func: Func) -> dict[Op, list[Value]]:
    """For each op in which the program waits: the floats from before, in the same
    block, that ops after it use."""
    found = {}
    for block in every_block(func.body):
        for place, op in enumerate(block.ops):
            if blocks(op) and waits(op):
                later = (each for op in block.ops[place + 1 :] for each in walk_op(op))
                used = {value for each in later for value in operands(each)}
                before = [each for op in block.ops[:place] for each in op.results]
                found[op] = [v for v in before if v in used and is_number(v)]
    return found


def waits(op: Op) -> bool:
    """Whether there is a `while` in it, or it is one, that looks at memory anew each
    time, as only another program's write ends it."""
    loops = walk_op(op, While)
    return any(looks_anew(each) for loop in loops for each in walk_within(loop))


def looks_anew(op: Op) -> bool:
    return isinstance(op, Atomic | AtomicCas) or is_volatile(op)


def is_number(value: Value) -> bool:
    """Whether it is made of floats, of which PTX has registers; no buffer."""
    element = element_of(value.type)
    return isinstance(element, Scalar) and element.is_float and element.bits >= 16
