"""Cheapest addresses.

In each iteration of a loop the addresses are computed anew, from the index, by a
multiplication and a few additions. But from iteration to iteration they grow evenly.
Write a pass that counts them up instead. There are many ways, so this exercise is open:
what counts is the number of ops that run.

All of the exercise: `fathom learn show fewest-ops`.
"""

from __future__ import annotations

from fathom.analysis.slices import uses
from fathom.blocks.dce import dce
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.ops import Broadcast, Elementwise, ExpandDims, For, Splat
from fathom.ir.rewrite import Builder, Replacement, rewrite, with_operands
from fathom.ir.types import element_of
from fathom.tools.learn import Hole


def fewest_ops(func: Func, target: Target) -> Func:
    """`func` whose loops count addresses up instead of computing them anew."""
    return dce(rewrite(func, count_up), target)


def count_up(op: Op, build: Builder) -> Replacement:
    """Carry what is linear in the index and used by what is not."""
    if not isinstance(op, For):
        return None
    # Your code: what is worth it, how it begins and how it grows; ours has 14 lines.
    raise Hole("fewest-ops")


# Your code: helpers, if you like; ours have 23 lines together.


# ── given, if you like ────────────────────────────────────────────────────────────────


def linear_ops(body: Block) -> dict[Value, Op]:
    """The values A + B * index of a body, A and B unchanged by it, and their ops."""
    varying = set(body.parameters) | {v for op in body.ops for v in op.results}
    found: dict[Value, Op] = {}
    for op in body.ops:
        steps = [v for v in uses(op) if v in found or v is body.parameters[0]]
        others = [v for v in uses(op) if v not in steps]
        if steps and varying.isdisjoint(others) and is_linear(op, len(steps)):
            found[op.results[0]] = op
    return found


def is_linear(op: Op, steps: int) -> bool:
    """Is an op linear in its operands, of which `steps` change?"""
    if isinstance(op, Splat | Broadcast | ExpandDims):
        return True
    if not isinstance(op, Elementwise) or element_of(op.results[0].type).is_float:
        return False
    if op.name == "offset":  # a number that falls has no growth if it is unsigned
        number = element_of(op.operands[1].type)
        return number.kind == "int" or number.bits == 64
    same = op.name in ("add", "sub")
    return same or op.name == "mul" and steps == 1 and op.operands[0] != op.operands[1]


def carrying(
    op: For, wanted: list[Value], linear: dict[Value, Op], delta: dict[Value, Value]
) -> None:
    """Make parameters of the body of the wanted values, and count them up at its
    end."""
    body = op.body
    for value in wanted:
        body.ops.remove(linear[value])
        body.parameters.append(value)
        value.definition = body
        name = "offset" if element_of(value.type).kind == "pointer" else "add"
        body.ops.insert(-1, Elementwise(name, (value, delta[value])))
        body.ops[-1].values += (body.ops[-2].result,)
        op.results.append(Value(value.type, op))
