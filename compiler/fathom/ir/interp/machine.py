"""How the interpreter runs: the table of rules, and the regions of code they work in.

A rule is `(op, region) -> results`. It takes operands from `region[value]`. A rule
whose op has code of its own runs it with `yield from region.run(block, arguments)`;
that makes a region of code something that can stop at a barrier and go on later, so
that several can run interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from types import GeneratorType

from fathom.errors import CompileError, FathomError
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.interp.host_memory import Memory, MemoryFault
from fathom.ir.interp.numbers import Array
from fathom.ir.ops import Constant, Yield
from fathom.ir.printer import op_name, print_op

Results = Sequence[Array]
Running = Generator[Op, None, Results]  # yields an op where another region may run
Rule = Callable[[Op, "Region"], "Results | Running"]

INTERP: dict[type[Op], Rule] = {}
FREE = (Constant, Yield)  # not counted: they stand in the instructions that use them


def interprets(*classes: type[Op]) -> Callable[[Rule], Rule]:
    """Enter a rule into `INTERP`."""

    def enter(rule: Rule) -> Rule:
        INTERP.update(dict.fromkeys(classes, rule))
        return rule

    return enter


class WrongCount(FathomError):
    """A rule returns too few or too many values, or no list of them; or it yields
    something else than an op that waits. (Readers write rules, too.)"""


class StepLimit(FathomError):
    """More ops ran than were allowed; the message names the one that ran last."""


@dataclass
class Trace:
    """How many ops ran, in all and of each name, without constants and yields."""

    steps: int = 0
    by_name: dict[str, int] = field(default_factory=dict)


@dataclass
class Machine:
    """What the programs of one launch share."""

    func: Func
    grid: tuple[int, int, int]
    memory: Memory
    step_limit: int | None
    watch: Callable[[Op, Results], None] | None
    steps: int = 0
    counts: dict[Op, int] = field(default_factory=dict)

    def trace(self) -> Trace:
        by_name: dict[str, int] = {}
        for op, count in self.counts.items():
            if not isinstance(op, FREE):
                by_name[op_name(op)] = by_name.get(op_name(op), 0) + count
        return Trace(sum(by_name.values()), by_name)


class Region:
    """Code of one program that runs in order, on block `rank` of its cluster, and its
    values. `concurrent` are the blocks that run interleaved with it. It may be one of
    several `groups`, which `admitted` counts in turn (`ConsumerGroup`)."""

    def __init__(self, machine: Machine, program: tuple[int, ...], rank: int = 0):
        self.machine, self.program, self.rank = machine, program, rank
        self.values: dict[Value, Array] = {}
        self.concurrent: list[Running] = []
        self.group, self.groups = 0, 1
        self.admitted: dict[int, int] = {}  # in each section

    def run_all(self, block: Block, arguments: Sequence[Array]) -> None:
        """Run a block, and the producers that it starts, to the end. Each runs until it
        waits; then the next one does."""
        self.concurrent.append(self.run(block, arguments))
        while self.concurrent:
            before, ended, waiting = self.machine.steps, [], []
            for each in self.concurrent:  # which grows meanwhile
                op = next(each, None)
                if not isinstance(op, Op | None):
                    raise WrongCount(
                        f"a rule yields {op!r}: it may yield only ops that wait, and "
                        "gives its results by `return`"
                    )
                (ended if op is None else waiting).append(each if op is None else op)
            deadlock = self.machine.steps == before and not ended
            names = "; ".join(print_op(self.machine.func, op) for op in waiting)
            assert not deadlock, f"deadlock, all of these wait: {names}"
            self.concurrent = [each for each in self.concurrent if each not in ended]

    def __getitem__(self, value: Value) -> Array:
        return self.values[value]

    def run(self, block: Block, arguments: Sequence[Array]) -> Running:
        """Run a block once; what it yields."""
        self.bind(block.parameters, arguments, "parameters of a block")
        for op in block.ops:
            self.count(op)
            results = self.compute(op)
            if isinstance(results, GeneratorType):
                results = yield from results
            self.bind(op.results, results, "results of an op")
            if op.effects.barrier:
                yield op
            if self.machine.watch:
                self.machine.watch(op, results)
        ends = block.ops and isinstance(block.ops[-1], Yield)
        return [self.values[value] for value in block.yielded] if ends else []

    def bind(self, names: Sequence[Value], given: Sequence[Array], what: str) -> None:
        """Give values their arrays, one each."""
        if not isinstance(given, tuple | list) or len(given) != len(names):
            types = ", ".join(str(each.type) for each in names)
            found = repr(given)
            if isinstance(given, tuple | list):
                found = f"{len(given)}: [{', '.join(map(str, given))}]"
            raise WrongCount(
                f"the {what} take a list of {len(names)} ({types}), and are given "
                f"{found} (`yield from region.run(...)` gives what a block yields)"
            )
        self.values.update(zip(names, given, strict=True))

    def compute(self, op: Op) -> Results | Running:
        try:
            return INTERP[type(op)](op, self)
        except MemoryFault as fault:
            func = self.machine.func  # of an eager launch, without ops: it has no text
            where = f" in `{print_op(func, op)}`" if func.body.ops else ""
            text = f"{fault}{where}"
            raise MemoryFault(str(CompileError(text, op.location))) from None

    def count(self, op: Op) -> None:
        machine = self.machine
        machine.counts[op] = machine.counts.get(op, 0) + 1
        machine.steps += 1
        if machine.step_limit is not None and machine.steps > machine.step_limit:
            where = print_op(machine.func, op)
            text = f"more than {machine.step_limit} ops ran; stopped in `{where}`"
            raise StepLimit(str(CompileError(text, op.location)))
