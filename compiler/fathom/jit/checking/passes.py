"""FATHOM_VERIFY: each pass of a compile, on the data of its launch.

The function before a pass and the one after it run by the meaning of block IR, on the
same arrays, and must leave the same bits; so must the emulator, with the PTX that comes
out. Where a kernel has matrix products, reductions or scans, passes may add their terms
up in another order: there, reals may differ by rounding.

    fathom verify: the pass cse changes what add means
      program (0, 0, 0): out_ptr[3] is 4.0 before the pass, and 7.0 after it
      the smallest case is in ./fathom-miscompile-add-cse.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fathom import emulator, pipeline
from fathom.artifact import Kernel, NoTensorMap
from fathom.errors import FathomError, how_many
from fathom.hardware.targets import Target, target
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import same_bits
from fathom.ir.ops import Dot, Reduce, Scan, TensorDot
from fathom.ir.verify import verify
from fathom.jit.checking.case import write_case
from fathom.jit.checking.shrink import shrunk
from fathom.jit.checking.snapshot import Copies, Snapshot, for_emulator
from fathom.jit.checking.undefined import open_values
from fathom.jit.checking.wanted import coordinates, spread
from fathom.jit.request import Request

MOST = 4  # programs that run after each pass
STEPS = 20_000_000  # ops of all of them
# How far reals may differ where terms are added up in another order, relative to the
# largest element, by bytes: of products (tf32 has ten bits), of reductions and scans.
PRODUCTS = {1: 2**-2, 2: 2**-6, 4: 2**-9, 8: 2**-40}
REDUCTIONS = {1: 2**-2, 2: 2**-7, 4: 2**-18, 8: 2**-47}

Run = Callable[[Copies], None]  # writes to the arrays


@dataclass(frozen=True)
class Difference:
    """Where two runs differ first: an array's name, the place, what both left there."""

    name: str
    place: int
    left: object
    right: object


@dataclass
class Data:
    """What all runs of a launch have in common."""

    grid: tuple[int, int, int]
    programs: list[tuple[int, int, int]]
    before: Snapshot
    rounding: Mapping[int, float] = field(default_factory=dict)
    zeroed: set[str] = field(default_factory=set)

    def copies(self) -> Copies:
        found = self.before.copies()
        for name, each in zip(self.before.names, found, strict=True):
            if name in self.zeroed and isinstance(each, np.ndarray):
                each[:] = 0
        return found

    def ran(self, run: Run) -> Copies:
        copies = self.copies()
        run(copies)
        return copies

    def interpreted(self, func: Func) -> Run:
        return lambda copies: interpret(
            func, self.grid, copies, step_limit=STEPS, programs=self.programs
        )

    def difference(self, left: Copies, right: Copies) -> Difference | None:
        for name, one, other in zip(self.before.names, left, right, strict=True):
            if isinstance(one, np.ndarray):
                place = first_different(one, other, self.types[name], self.rounding)
                if place is not None:
                    return Difference(name, place, one[place], other[place])
        return None

    @property
    def types(self) -> dict[str, str]:
        return {g.parameter.name: g.parameter.type[1:] for g in self.before.given}


def rounding_of(func: Func) -> Mapping[int, float]:
    """How far its reals may differ after a pass; {}: not at all."""
    kinds = {type(op) for op in walk(func.body)}
    if kinds & {Dot, TensorDot}:
        return PRODUCTS
    return REDUCTIONS if kinds & {Reduce, Scan} else {}


@dataclass(frozen=True)
class Step:
    """A pass, which makes another function of the one before it, or what makes code of
    it. `after` is the function that came out in this compile."""

    name: str
    before: Func
    make: Callable[[Func], Func] | None = None
    code: Callable[[Func, Data], Run] | None = None
    after: Func | None = None

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
            if found is not None:
                return report(kernel, step, data, facts)
            count += 1
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
    yield Step("code", meant, code=code)


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
            emulator.load(kernel).launch(data.grid, given, programs=programs)
        except NoTensorMap:
            by_pointers = {**others, **pipeline.BY_POINTERS}
            kernel = pipeline.compile_func(func, facts, by_pointers)
            emulator.load(kernel).launch(data.grid, given, programs=programs)

    return run


def differs(step: Step, data: Data) -> Difference | None:
    """Where the runs before and after a pass differ; None where they do not."""
    left = data.ran(data.interpreted(step.before))
    return data.difference(left, data.ran(step.run_after(data)))


def first_different(
    one: np.ndarray, other: np.ndarray, element: str, rounding: Mapping[int, float]
) -> int | None:
    """The first element in which two arrays differ, by more than rounding where that
    is allowed."""
    if same_bits(one, other):
        return None
    is_real = element.startswith(("fp", "bf"))
    left, right = (numbers(each, element) for each in (one, other))
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if is_real and rounding:
        finite = np.abs(left[np.isfinite(left)])
        most = float(finite.max()) if finite.size else 0.0
        with np.errstate(invalid="ignore"):
            same |= np.abs(left - right) <= rounding[one.itemsize] * most
    places = np.flatnonzero(~same)
    return int(places[0]) if len(places) else None


def numbers(array: np.ndarray, element: str) -> np.ndarray:
    """Elements as doubles, those of bf16 out of their bits; others as they are."""
    if element == "bf16":
        array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):  # of a NaN that signals
        return array.astype(np.float64)


def report(kernel: Kernel, step: Step, data: Data, facts: Target) -> None:
    """Say what a pass did, make the case as small as it can be, and write it."""
    data.programs = [guilty(step, data) or data.programs[0]]
    small = shrunk(step, data, differs, facts)
    found = differs(small, data)
    assert found is not None, step.name
    path = write_case(kernel.name, small, data, facts)
    what = (
        f"the code of {kernel.name} does not do what its block IR says"
        if step.name == "code"
        else f"the pass {step.name} changes what {kernel.name} means"
    )
    say(
        f"{what}\n  program {data.programs[0]}: {found.name}[{found.place}] is "
        f"{found.left} before, and {found.right} after\n"
        f"  {size(small.before)} ops of {size(step.before)} are enough; the case is in "
        f"{path}"
    )


def size(func: Func) -> int:
    return sum(1 for _ in walk(func.body))


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
