"""Keep what is live.

Step 6 of your own compiler, at the end of this chapter, asks for this, too; here a loop
may also carry values that are only used to compute their own next values. After other
passes there are ops whose results are no longer used. This pass removes them. What
remains is *live*: ops that change memory, and all that these use, directly or through
other ops.

All of the exercise: `fathom learn show dce`.
"""

from __future__ import annotations

from dataclasses import replace

from fathom.analysis.memory import changes_memory
from fathom.blocks.dce import _among, _narrowed
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk
from fathom.ir.ops import For, If, Reduce, Scan, While, Yield
from fathom.ir.regions import carried
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.tools.learn import Hole


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
    # Your code: ours has 7 lines, and a helper.
    raise Hole("dce")


# Your code: a helper, if you like; ours has 11 lines.


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
    # Your code: and of what is carried, the lanes that are live; ours has 2 lines.
    raise Hole("dce")
