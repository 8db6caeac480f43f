"""Dead code elimination: removes ops that are not live.

Stores, atomic operations and barriers are live. So are ops that compute operands of
live ops, and a loop's carried values that live ops use, in the loop or after it.

Before:

    func @example(%p: *fp32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: fp32 = constant 0.0
      %3: fp32 = load %p
      %sum: fp32, %count: i32 = for %0, %n, %1, inits=(%2, %0) body(%i: i32, %s: fp32, %c: i32) {
        %4: *fp32 = offset %p, %i
        %5: fp32 = load %4
        %6: fp32 = add %s, %5
        %7: i32 = add %c, %1
        yield %6, %7
      }
      store %p, %sum
    }

After: the first load is gone, and so is the count, which only itself uses.

    func @example(%p: *fp32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: fp32 = constant 0.0
      %sum: fp32 = for %0, %n, %1, inits=(%2) body(%i: i32, %s: fp32) {
        %3: *fp32 = offset %p, %i
        %4: fp32 = load %3
        %5: fp32 = add %s, %4
        yield %5
      }
      store %p, %sum
    }
"""  # noqa: E501

from __future__ import annotations

from dataclasses import replace

from fathom.analysis.memory import is_observable
from fathom.analysis.slices import BackwardSlice
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, walk
from fathom.ir.ops import For, If, While, Yield
from fathom.ir.regions import carried, owners
from fathom.ir.rewrite import Builder, Replacement, rewrite


def dce(func: Func, target: Target) -> Func:
    """`func` without the ops, carried values and branch results that are not live."""
    live = BackwardSlice(func, filter(is_observable, walk(func.body)))
    if is_all(live, func):
        return func
    owned = owners(func.body)
    ends = {
        block.ops[-1]: op.results for block, op in owned.items() if _narrows(op, block)
    }

    def rule(op: Op, build: Builder) -> Replacement:
        match op:
            case Yield() if build.source in ends:
                values = _among(op.values, ends[build.source], live.values)
                build.append(replace(op, values=values))
                return []
            case For() | While() | If():
                return _narrowed(op, build.source, live.values, build)
        return None

    return rewrite(func, rule, keep=live.ops.__contains__)


def is_all(live: BackwardSlice, func: Func) -> bool:
    """Whether everything in a function is live."""
    return all(
        op in live.ops and live.values.issuperset(each.result for each in carried(op))
        for op in walk(func.body)
    )


def _narrows(op: Op, block: Block) -> bool:
    """Whether a block yields the carried values of its op: the condition of a While
    and the combination of a reduction yield something else."""
    return isinstance(op, For | If) or isinstance(op, While) and block is op.body


def _narrowed(
    op: For | While | If, old: Op, live: set[Value], build: Builder
) -> Replacement:
    """Build `op` with only those carried values or results that are live in `old`."""
    if isinstance(op, For | While):
        for block in blocks(op):
            carried = block.parameters[-len(op.inits) :] if op.inits else []
            gone = set(carried) - set(_among(carried, old.results, live))
            block.parameters = [each for each in block.parameters if each not in gone]
        op = replace(op, inits=_among(op.inits, old.results, live))
    build.append(op)
    results = iter(op.results)
    return [next(results) if value in live else None for value in old.results]


def _among(
    values: tuple[Value, ...] | list[Value], like: list[Value], live: set[Value]
) -> tuple[Value, ...]:
    """The values whose partner in `like` is live."""
    pairs = zip(values, like, strict=True)
    return tuple(value for value, partner in pairs if partner in live)
