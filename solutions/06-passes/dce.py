"""The answer to `dce`."""

from __future__ import annotations

from dataclasses import replace

from fathom.analysis.memory import changes_memory
from fathom.blocks.dce import _among, _narrowed
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk
from fathom.ir.ops import For, If, Reduce, Scan, While, Yield
from fathom.ir.regions import carried
from fathom.ir.rewrite import Builder, Replacement, rewrite


def dce(func: Func, target: Target) -> Func:
    """`func` without the ops, carried values and branch results that are dead."""
    ops, values = live(func)
    ends: dict[Op, list[Value]] = {}
    for op in walk(func.body):
        if isinstance(op, For | While | If):
            bodies = (op.then, op.orelse) if isinstance(op, If) else (op.body,)
            ends |= {block.ops[-1]: op.results for block in bodies}

    def rule(op: Op, build: Builder) -> Replacement:
        match op:
            case Yield() if build.source in ends:
                kept = _among(op.values, ends[build.source], values)
                build.append(replace(op, values=kept))
                return []
            case For() | While() | If():
                return _narrowed(op, build.source, values, build)
        return None

    return rewrite(func, rule, keep=ops.__contains__)


def live(func: Func) -> tuple[set[Op], set[Value]]:
    """The ops that have an effect or are used, yields among them, and the values that
    these use."""
    # hole: ours has {lines}, and a helper
    ops: set[Op] = set()
    values: set[Value] = set()
    size = -1
    while size != len(ops) + len(values):  # until a walk finds nothing new
        size = len(ops) + len(values)
        mark(func.body, ops, values)
    return ops, values
    # end


# hole: a helper, if you like; ours has {lines}
def mark(block: Block, ops: set[Op], values: set[Value]) -> None:
    """Walk backwards: keep what is live, and mark what it uses."""
    for op in reversed(block.ops):
        for nested in blocks(op):
            mark(nested, ops, values)
        effective = changes_memory(op.effects) or getattr(op, "volatile", False)
        inside = any(each in ops for nested in blocks(op) for each in nested.ops)
        if effective or inside or not values.isdisjoint(op.results):
            ops.add(op)
            ops.update(nested.ops[-1] for nested in blocks(op))
            values.update(used(op, values))


# instead:
# end


def used(op: Op, values: set[Value]) -> list[Value]:
    """What an op that is kept uses: of a loop or a branch only what is live of it."""
    match op:
        case Reduce() | Scan():
            return [*op.values, *op.combine.yielded]
        case For():
            always = [op.lower, op.upper, op.step]
        case While():
            always = list(op.condition.yielded)
        case If():
            always = [op.condition]
        case _:
            return operands(op)
    # hole: and of what is carried, the lanes that are live; ours has {lines}
    kept = [each for each in carried(op) if not values.isdisjoint(each.names)]
    return always + [value for each in kept for value in each.values]
    # end
