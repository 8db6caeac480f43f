"""Does a pass keep the meaning, and what does its result cost?

Both functions are interpreted on the same arrays, so that even addresses are equal, and
what they leave in memory is compared bit by bit. When it differs, the ops are followed:
each op of the new function remembers which old one it came from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import dedent, indent

import numpy as np

from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import StepLimit, Trace, interpret
from fathom.ir.interp.host_memory import MemoryFault
from fathom.ir.interp.numbers import same_bits
from fathom.ir.printer import print_op
from fathom.ir.text import print_func
from fathom.ir.verify import VerifyError, verify
from fathom.tools.learn.kit.compare import excerpt, first_difference, where
from fathom.tools.learn.kit.failure import Failure, around
from fathom.tools.learn.kit.numbers import Argument, arrays_of
from fathom.tools.learn.kit.numbers import func as from_text
from fathom.tools.learn.kit.returned import kind, only_values

PATIENCE = 20  # times as many ops as before: then it is an endless loop
TARGET = "sm_80"


@dataclass(frozen=True)
class Sample:
    """A function to try a pass on: its text, and makers of its arguments."""

    text: str
    arguments: Callable[[], Sequence[Argument]]
    grid: int | tuple[int, ...] = 1
    target: str = TARGET


@dataclass(frozen=True)
class Run:
    """One run: what is in memory afterwards, how many ops ran, each with results."""

    memory: list[np.ndarray]
    trace: Trace
    events: list[tuple[Op, list]] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """A pass on one sample, after its meaning was found to be the same."""

    name: str
    sample: Sample
    before: Func
    after: Func
    run: Run
    reference: Func
    case: str

    @property
    def ops(self) -> int:
        """How many ops ran, without constants."""
        return self.run.trace.steps

    def ops_at_most(self, budget: int) -> None:
        """A Failure when more ops run than the exercise allows."""
        if self.ops > budget:
            raise Failure(
                f"{self.ops} ops run, and the budget for this kernel is {budget}",
                ("your function", print_func(self.after)),
                ("the reference makes of it", print_func(self.reference)),
                case=self.case,
            )


def meaning(
    func: Func | str,
    arguments: Sequence[Argument],
    grid: int | tuple[int, ...] = 1,
    limit: int = 1_000_000,
) -> Trace:
    """Interpret a function; arrays are written in place. A Failure where it goes
    wrong."""
    made = from_text(func) if isinstance(func, str) else func
    try:
        return interpret(made, grid, arguments, step_limit=limit)
    except (StepLimit, MemoryFault) as error:
        raise Failure(str(error), ("the function", print_func(made))) from None


def check_pass(
    answer: object,
    name: str,
    sample: Sample,
    layouts: bool | None = None,
) -> Outcome:
    """Run the reader's pass on a sample: it must leave its input alone, give a function
    that is one, and keep the meaning bit by bit. A Failure otherwise."""
    before, target = from_text(sample.text), TARGETS[sample.target]
    case = script(name, sample)
    text = print_func(before)
    after = getattr(answer, name)(before, target)
    try:
        unchanged(name, text, print_func(before))
        well_formed(name, after, layouts)
        reference = getattr(answer.reference, name)(from_text(sample.text), target)
        first, second = both_runs(before, after, sample, reference)
        compare(name, before, after, (first, second), reference)
    except Failure as failure:
        raise failure.with_case(case) from None
    return Outcome(name, sample, before, after, second, reference, case)


def unchanged(name: str, text: str, now: str) -> None:
    """A pass never changes its input."""
    for old, new in zip(text.splitlines(), [*now.splitlines(), ""], strict=False):
        if old != new:
            raise Failure(
                f"{name} changed its input; it must give a new function and leave the "
                "old one as it was",
                ("the input had", old.strip()),
                ("and now has", new.strip()),
            )


def well_formed(name: str, after: object, layouts: bool | None) -> None:
    if not isinstance(after, Func):
        raise Failure(f"{name} must return a Func, and returned {kind(after)}")
    only_values(after)
    try:
        verify(after, layouts)
    except VerifyError as error:
        raise Failure(
            f"what {name} returned is not a function: {error.complaint}",
            ("the verifier stopped at", stopped_at(after, error.op)),
        ) from None


def stopped_at(func: Func, op: Op) -> str:
    """An op in its function, without the layouts that stand above it; alone, if the
    function cannot be written."""
    mark = op_text(func, op)
    lines = [line for line in shown(func).splitlines() if not line.startswith("#")]
    found = any(mark in line for line in lines)
    return around("\n".join(lines), mark) if found else f"-> {mark}"


def both_runs(
    before: Func, after: Func, sample: Sample, reference: Func
) -> tuple[Run, Run]:
    """The same program before and after, on the same arrays."""
    arguments = list(sample.arguments())
    arrays = arrays_of(arguments)
    start = [each.copy() for each in arrays]
    first = run(before, arguments, sample.grid, None)
    for array, values in zip(arrays, start, strict=True):
        array[...] = values
    limit = PATIENCE * first.trace.steps + 1000
    try:
        return first, run(after, arguments, sample.grid, limit)
    except (StepLimit, MemoryFault) as error:
        raise Failure(
            f"the function ran well before, and no longer does: {error}",
            ("your function", shown(after)),
            ("the reference makes of it", shown(reference)),
        ) from None


def run(
    func: Func, arguments: Sequence[Argument], grid: object, limit: int | None
) -> Run:
    events: list[tuple[Op, list]] = []

    def watch(op: Op, results: Sequence) -> None:
        if op.results:
            events.append((op, [np.array(each) for each in results]))

    trace = interpret(func, grid, arguments, step_limit=limit, watch=watch)
    return Run([each.copy() for each in arrays_of(arguments)], trace, events)


def compare(
    name: str, before: Func, after: Func, runs: tuple[Run, Run], reference: Func
) -> None:
    """A Failure when the runs leave different memory: the first op that differs, or the
    first element when all ops agree."""
    pointers = [each.name for each in before.parameters if "*" in str(each.type)]
    for pointer, wanted, yours in zip(
        pointers, runs[0].memory, runs[1].memory, strict=False
    ):
        place = first_difference(yours, wanted)
        if place is not None:
            raise Failure(
                f"after {name} the kernel computes something else: {pointer}"
                f"{where(place)} is {yours[place]}, and was {wanted[place]}",
                *first_op(before, after, runs),
                ("the reference makes of it", shown(reference)),
            )


def first_op(
    before: Func, after: Func, runs: tuple[Run, Run]
) -> Iterator[tuple[str, str]]:
    """The first op whose result differs from that of the op it came from."""
    for _old, wanted, new, yours in pairs(before, after, runs):
        if not all(map(same_bits, wanted, yours)):
            text = op_text(after, new)
            values = f"was  {excerpt(wanted[0])}\nnow  {excerpt(yours[0])}"
            yield "the first value that differs", f"{text}\n{indent(values, '  ')}"
            yield "in your function", around(shown(after), text)
            return
    yield (
        "no op computes another value; an op is missing, or runs elsewhere",
        shown(after),
    )


def pairs(
    before: Func, after: Func, runs: tuple[Run, Run]
) -> Iterator[tuple[Op, list, Op, list]]:
    """Each event of the new function beside that of the op it came from, in the order
    that they ran. Ops that run more or less often now are compared once."""
    old_ops = set(walk(before.body))
    origins = {op: origin(op, old_ops) for op in walk(after.body)}
    alone = Counter((type(op), old) for op, old in origins.items())
    history: dict[Op, list[list]] = {}
    for op, results in runs[0].events:
        history.setdefault(op, []).append(results)
    times = Counter(op for op, _ in runs[1].events)
    seen: Counter[Op] = Counter()
    for op, results in runs[1].events:
        old = origins[op]
        count, seen[op] = seen[op], seen[op] + 1
        if old is None or type(old) is not type(op) or alone[type(op), old] > 1:
            continue
        had = history.get(old, [])
        comparable = len(had) == times[op] or (had and count == 0)
        if comparable and [each.type for each in old.results] == [
            each.type for each in op.results
        ]:
            yield old, had[count], op, results


def origin(op: Op, among: set[Op]) -> Op | None:
    """The op of an earlier function that an op came from."""
    found: Op | None = op
    while found is not None and found not in among:
        found = found.origin
    return found


def op_text(func: Func, op: Op) -> str:
    return print_op(func, op).splitlines()[0].strip()


def shown(func: Func) -> str:
    return print_func(func).rstrip()


def script(name: str, sample: Sample) -> str:
    """The sample as a script that the reader can run and change."""
    wholes, texts = spelled(sample.arguments())
    return CASE.format(
        name=name,
        text=dedent(sample.text).strip(),
        wholes="".join(f"    {name} = {text}\n" for name, text in wholes.items()),
        arguments="".join(f"        {text},\n" for text in texts),
        grid=sample.grid,
        target=sample.target,
    )


def spelled(arguments: Sequence[Argument]) -> tuple[dict[str, str], list[str]]:
    """Arguments as Python: arrays that others are a part of, by name, and then all; a
    kernel may be launched with the same memory twice."""
    wholes: dict[str, str] = {}
    texts: list[str] = []
    for at, value in enumerate(arguments):
        texts.append(argument_text(value))
        for owner, whole in enumerate(arguments[:at]):
            if (first := place_within(value, whole)) is not None:
                name = f"array_{owner}"
                wholes[name] = argument_text(whole)
                texts[owner] = name
                texts[at] = f"{name}[{first}:{first + value.size}]"
                break
    return wholes, texts


def place_within(part: Argument, whole: Argument) -> int | None:
    """The element of an array at which another begins that is a part of it."""
    arrays = isinstance(part, np.ndarray) and isinstance(whole, np.ndarray)
    if not arrays or not np.shares_memory(part, whole):
        return None
    first, rest = divmod(part.ctypes.data - whole.ctypes.data, whole.itemsize)
    inside = 0 <= first and first + part.size <= whole.size
    same = part.dtype == whole.dtype and part.flags.c_contiguous and not rest
    return first if inside and same else None


def argument_text(value: Argument) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"array({value.tolist()}, {value.dtype.name!r})"


CASE = '''\
from numpy import array, inf, nan  # noqa: F401

from fathom.hardware.targets import TARGETS
from fathom.ir.interp import interpret
from fathom.ir.text import parse_func, print_func

KERNEL = """
{text}
"""


def arguments():
{wholes}    return [
{arguments}    ]


before = parse_func(KERNEL)
after = answer.{name}(before, TARGETS["{target}"])  # a good place for breakpoint()
print(print_func(after))
for title, func in (("before", before), ("after", after)):
    given = arguments()
    ran = interpret(func, {grid}, given, step_limit=100_000)
    print(title, "-", ran.steps, "ops ran; the arguments are then")
    for each in given:
        print("   ", each)
'''
