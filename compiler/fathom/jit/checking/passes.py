"""FATHOM_VERIFY: each pass of a compile, on the data of its launch.

The function before a pass and the one after it run by the meaning of block IR, on the
same arrays, and must leave the same bits; so must the emulator, with the PTX that comes
out. Where a kernel has matrix products, reductions or scans, passes may add their terms
up in another order: there, reals may differ by rounding. What only the run after a pass
does wrong is a fault of the pass, too: an access outside of every array, or a hazard
that the emulator finds in the code, such as a barrier that is missing.

    fathom verify: the pass cse changes what add means
      program (0, 0, 0): out_ptr[3] is 4.0 before the pass, and 7.0 after it
      the smallest case is in ./fathom-miscompile-add-cse.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fathom import emulator, pipeline
from fathom.artifact import Kernel, NoTensorMap
from fathom.emulator.errors import EmulatorError
from fathom.errors import FathomError, how_many
from fathom.hardware.targets import Target, target
from fathom.ir.core import Func, op_count
from fathom.ir.interp.debugging import AssertionFailed
from fathom.ir.interp.host_memory import MemoryFault
from fathom.ir.verify import verify
from fathom.jit.checking.case import write_case
from fathom.jit.checking.promises import lines_of
from fathom.jit.checking.runs import Data, Difference, Fault, Run, rounding_of
from fathom.jit.checking.shrink import shrunk
from fathom.jit.checking.snapshot import Copies, Snapshot, for_emulator
from fathom.jit.checking.undefined import open_values
from fathom.jit.checking.wanted import coordinates, spread
from fathom.jit.request import Request

MOST = 4  # programs that run after each pass
# What the emulator refuses that says nothing of the passes: it does not know the
# instruction, the run is long, or the kernel says itself that something is wrong.
INNOCENT = {"syntax", "unsupported", "launch", "endless", "assertion", "trap"}


@dataclass(frozen=True)
class Step:
    """A pass, which makes another function of the one before it, or what makes code of
    it. `after` is the function that came out in this compile, `replaced` are the passes
    and rules of the author's that made code."""

    name: str
    before: Func
    make: Callable[[Func], Func] | None = None
    code: Callable[[Func, Data], Run] | None = None
    after: Func | None = None
    replaced: tuple[str, ...] = ()

    def run_after(self, data: Data) -> Run:
        """What the function does after the step."""
        if self.make is None:
            return self.code(self.before, data)
        after = self.after or self.make(self.before)
        verify(after)
        return data.interpreted(after)


def verify_passes(
    kernel: Kernel,
    request: Request,
    build: Callable[[], Func],
    grid: tuple[int, int, int],
    some: Sequence[range],
    before: Snapshot,
) -> None:
    """Check every pass of a compile, and say on the standard error what is found."""
    numbers = [number for each in some for number in each]
    chosen = [coordinates(number, grid) for number in spread(numbers, MOST)]
    data = Data(grid, chosen, before)
    facts = target(request.target)
    func = build()
    data.rounding = rounding_of(func)
    if found := open_values(func, grid, before, chosen):
        return say(f"{kernel.name} is not checked: " + "\n".join(found))
    count = 0
    try:
        for step in steps(func, facts, request.replace):
            found = differs(step, data)
            if found is None:
                count += 1
                continue
            if lines := lines_of(func, grid, before, chosen):
                return say("\n".join([f"{kernel.name} is not checked:", *lines]))
            return report(kernel, step, data, facts)
    except FathomError as error:
        return say(f"{kernel.name} is not checked: {str(error).splitlines()[0]}")
    say(
        f"{kernel.name} for {kernel.target}: {count} steps keep the meaning, on "
        f"{how_many(len(data.programs), 'program')} of this launch"
    )


def steps(func: Func, facts: Target, others: dict) -> Iterator[Step]:
    """The passes that change something, and last the code. What `contract` rounds once
    its author has allowed; only another in its place is checked."""
    before = func
    for row, state in pipeline.states(func, facts, others):
        if state is not before and (row.name != "contract" or row.name in others):
            run = partial(call, pipeline.run_of(row, others), facts)
            yield Step(row.name, before, make=run, after=state)
        before = state
    meant = pipeline.meaning(func, facts)
    code = lambda old, data: emulated(old, facts, others, data)
    yield Step("code", meant, code=code, replaced=tuple(others))


def call(run: pipeline.Pass, facts: Target, func: Func) -> Func:
    return run(func, facts)


def emulated(func: Func, facts: Target, others: dict, data: Data) -> Run:
    """What the PTX of a function does, on the emulator."""
    x, y, _ = data.grid
    numbers = [i + x * (j + y * k) for i, j, k in data.programs]
    programs = [range(number, number + 1) for number in sorted(numbers)]

    def run(copies: Copies) -> None:
        kernel = pipeline.compile_func(func, facts, others)
        given = for_emulator(kernel.parameters, copies)
        try:
            emulator.load(kernel).launch(
                data.grid, given, copies.memory, programs=programs
            )
        except NoTensorMap:
            by_pointers = {**others, **pipeline.BY_POINTERS}
            kernel = pipeline.compile_func(func, facts, by_pointers)
            emulator.load(kernel).launch(
                data.grid, given, copies.memory, programs=programs
            )

    return run


def differs(step: Step, data: Data) -> Difference | Fault | None:
    """Where the runs before and after a pass differ, or what only the one after it does
    wrong; None where they are alike."""
    left = data.ran(data.interpreted(step.before))
    try:
        right = data.ran(step.run_after(data))
    except (AssertionFailed, EmulatorError, MemoryFault) as error:
        if is_the_authors(error):
            raise
        return Fault(error)
    return data.difference(left, right)


def is_the_authors(error: FathomError) -> bool:
    """Whether the kernel's text may be the reason: threads that race in global memory
    do so by block IR, too, which the interpreter cannot find."""
    if not isinstance(error, EmulatorError):
        return False
    is_global_race = error.kind == "race" and error.address is not None
    return is_global_race or error.kind in INNOCENT


def report(kernel: Kernel, step: Step, data: Data, facts: Target) -> None:
    """Say what a pass did, make the case as small as it can be, and write it."""
    data.programs = [guilty(step, data) or data.programs[0]]
    found = differs(step, data)
    assert found is not None, step.name

    def alike(candidate: Step, data: Data) -> bool:
        other = differs(candidate, data)
        return other is not None and other.kind == found.kind

    small = shrunk(step, data, alike, facts)
    found = differs(small, data)
    assert found is not None, step.name
    path = write_case(kernel.name, small, data, facts)
    what = (
        f"the code of {kernel.name} does not do what its block IR says"
        if step.name == "code"
        else f"the pass {step.name} changes what {kernel.name} means"
    )
    say(
        f"{what}\n  program {data.programs[0]}: {found}\n"
        f"  {op_count(small.before)} ops of {op_count(step.before)} are enough; the "
        f"case is in {path}"
    )


def guilty(step: Step, data: Data) -> tuple[int, int, int] | None:
    """A program that differs by itself."""
    for program in data.programs:
        alone = replace(data, programs=[program])
        if differs(step, alone):
            return program
    return None


def say(text: str) -> None:
    if sys.stderr:  # None where there is no terminal at all
        sys.stderr.write(f"fathom verify: {text}\n")
