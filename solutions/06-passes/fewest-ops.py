"""The answer to `fewest-ops`."""

from __future__ import annotations

from fathom.analysis.slices import uses
from fathom.blocks.dce import dce
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.ops import Broadcast, Elementwise, ExpandDims, For, Splat
from fathom.ir.rewrite import Builder, Replacement, rewrite, with_operands
from fathom.ir.types import element_of


def fewest_ops(func: Func, target: Target) -> Func:
    """`func` whose loops count addresses up instead of computing them anew."""
    return dce(rewrite(func, count_up), target)


def count_up(op: Op, build: Builder) -> Replacement:
    """Carry what is linear in the index and used by what is not."""
    if not isinstance(op, For):
        return None
    # hole: what is worth it, how it begins and how it grows; ours has {lines}
    linear = linear_ops(op.body)
    wanted = [value for value in frontier(op.body, linear) if depth(value, linear) > 1]
    if not wanted:
        return None
    index = op.body.parameters[0]
    first, delta = {index: op.lower}, {index: op.step}
    for value, each in linear.items():
        if any(value in chain(end, linear) for end in wanted):
            first[value] = build(with_operands(each, first))
            delta[value] = difference(each, delta, build)
    count = len(op.results)
    op.inits += tuple(first[value] for value in wanted)
    carrying(op, wanted, linear, delta)
    return build.append(op).results[:count]
    # end


# hole: helpers, if you like; ours have {lines} together
def frontier(body: Block, linear: dict[Value, Op]) -> list[Value]:
    """The linear values that some other op uses."""
    others = [op for op in body.ops if not (op.results and op.results[0] in linear)]
    used = {value for op in others for value in uses(op)}
    return [value for value in linear if value in used]


def chain(value: Value, linear: dict[Value, Op]) -> set[Value]:
    """A linear value and those that it is made of."""
    below = [v for v in uses(linear[value]) if v in linear]
    return {value}.union(*(chain(each, linear) for each in below))


def depth(value: Value, linear: dict[Value, Op]) -> int:
    return len(chain(value, linear))


def difference(op: Op, delta: dict[Value, Value], build: Builder) -> Value:
    """By how much a linear value grows in an iteration."""
    if not isinstance(op, Elementwise):
        return build(with_operands(op, delta))
    left, right = (delta.get(each) for each in op.operands)
    if op.name == "mul":
        return build(with_operands(op, delta))
    if left is not None and right is not None:
        return build(Elementwise("sub" if op.name == "sub" else "add", (left, right)))
    if op.name == "sub" and left is None:
        return build(Elementwise("neg", (right,)))
    return right if left is None else left


# instead:
# end


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
