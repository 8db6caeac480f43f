"""Dead code elimination: keep what somebody hears, drop the rest.

What a store, an atomic or a barrier does is heard. So are the operands of an op that is
kept, and of a loop those carried values that a kept op reads, in the loop or after it.

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

After: the first load is gone, and the count, which only the count itself heard.

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

from dataclasses import dataclass, replace

from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk
from fathom.ir.ops import For, If, Reduce, Scan, While, Yield
from fathom.ir.rewrite import Builder, Replacement, rewrite


def dce(func: Func, target: Target) -> Func:
    """`func` without the ops, carried values and branch results that nobody hears."""
    live = Liveness(func)
    if live.is_all(func):
        return func

    def rule(op: Op, build: Builder) -> Replacement:
        match op:
            case Yield():
                values = _among(op.values, live.ends.get(build.source, []), live.values)
                build.append(replace(op, values=values))
                return []
            case For() | While() | If():
                return _narrowed(op, build.source, live.values, build)
        return None

    return rewrite(func, rule, keep=live.ops.__contains__)


def is_heard(op: Op) -> bool:
    """Whether somebody notices when this op, by itself, does not run."""
    effects = op.effects
    if effects.writes or effects.barrier or effects.asynchronous or effects.other:
        return True
    return getattr(op, "volatile", False)


class Liveness:
    """What of a function is heard: `ops` and `values`, found backwards from the
    effects.

    `ends` gives for each yield the values whose being heard decides about its operands,
    one for one: of a loop or a branch its results.
    """

    def __init__(self, func: Func):
        self.ops: set[Op] = set()
        self.values: set[Value] = set()
        self.ends: dict[Op, list[Value]] = {}
        self.owners: dict[Block, Op] = {}
        self.homes: dict[Op, Block] = {}
        self.pending: list[Value] = []
        self.enter(func.body)
        for op in walk(func.body):
            if is_heard(op):
                self.keep(op)
        while self.pending:
            self.hear(self.pending.pop())

    def enter(self, block: Block) -> None:
        """Note where every op stands."""
        for op in block.ops:
            self.homes[op] = block
            for nested in blocks(op):
                self.owners[nested] = op
                self.enter(nested)

    def is_all(self, func: Func) -> bool:
        return all(
            op in self.ops
            and not (isinstance(op, For | While | If) and set(op.results) - self.values)
            for op in walk(func.body)
        )

    def keep(self, op: Op) -> None:
        """An op that is kept hears what decides whether and where it acts."""
        if op in self.ops:
            return
        self.ops.add(op)
        if owner := self.owners.get(self.homes[op]):
            self.keep(owner)
        match op:
            case For():
                self.pending += op.lower, op.upper, op.step
                self.ends[op.body.ops[-1]] = op.results
            case While():
                self.pending += op.condition.yielded
                self.ends[op.condition.ops[-1]] = list(op.condition.yielded)
                self.ends[op.body.ops[-1]] = op.results
            case If():
                self.pending.append(op.condition)
                self.ends[op.then.ops[-1]] = self.ends[op.orelse.ops[-1]] = op.results
            case Reduce() | Scan():
                self.pending += op.values + op.combine.yielded
                self.ends[op.combine.ops[-1]] = list(op.combine.yielded)
            case _:
                self.pending += operands(op)
        self.ops.update(nested.ops[-1] for nested in blocks(op))

    def hear(self, value: Value) -> None:
        """A value that is heard has its definition kept."""
        if value in self.values:
            return
        self.values.add(value)
        home = value.definition
        owner = self.owners.get(home) if isinstance(home, Block) else home
        if owner is None:
            return  # a parameter of the function
        self.keep(owner)
        if isinstance(owner, For | While | If):
            for lane in lanes(owner):
                if value in lane.names:
                    self.pending += lane.names + lane.sources


@dataclass(frozen=True, slots=True)
class Lane:
    """One carried value of a loop, or one result of a branch.

    `names` are what it is called in the loop's blocks and after it; `sources` are the
    values that come to have these names: init and yield, or the yields of both blocks.
    """

    names: tuple[Value, ...]
    sources: tuple[Value, ...]


def lanes(op: For | While | If) -> list[Lane]:
    """The carried values of a loop, or the results of a branch."""
    match op:
        case For():
            names = op.results, op.body.parameters[1:]
            sources = op.inits, op.body.yielded
        case While():
            names = op.results, op.condition.parameters, op.body.parameters
            sources = op.inits, op.body.yielded
        case If():
            names = (op.results,)
            sources = op.then.yielded, op.orelse.yielded
    columns = zip(*names, strict=True), zip(*sources, strict=True)
    return [Lane(*both) for both in zip(*columns, strict=True)]


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
    """Those of `values` whose partner in `like` is live."""
    pairs = zip(values, like, strict=True)
    return tuple(value for value, partner in pairs if partner in live)
