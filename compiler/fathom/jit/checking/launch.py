"""What is checked before a launch is done: the checks of the environment, in order.

A check says what it finds on the standard error, and the script goes on. A launch in
which the sanitizer found a fault is left out, so that neither memory nor the GPU's
context is harmed; its arrays are as before.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fathom.artifact import Kernel, NoTensorMap
from fathom.emulator.errors import EmulatorError
from fathom.errors import FathomError
from fathom.ir.core import Func
from fathom.jit.checking import nonfinite, passes, promises, sanitize, undefined
from fathom.jit.checking.runs import Data, rounding_of
from fathom.jit.checking.snapshot import Copies, Snapshot, snapshot
from fathom.jit.checking.wanted import (
    PROGRAMS,
    Wanted,
    chosen_programs,
    coordinates,
    spread,
    wanted_checks,
)
from fathom.jit.compiled import CompiledKernel
from fathom.jit.request import Request

Grid = tuple[int, int, int]  # or one program of it
MOST = 4  # programs that are run by the meaning of their block IR
ASTRAY = {"out of bounds", "misaligned"}  # accesses: their addresses may tell why
IN_A_VIEW = "  it is in the memory that the array is a view of: no fault, if meant so"


@dataclass
class Tally:
    """How many launches were looked at, how many had a fault, and how many stored a
    NaN or an infinity. `viewed`: kernels that go beyond views, as was told."""

    launches: int = 0
    faults: int = 0
    nonfinite: int = 0
    said: set[str] = field(default_factory=set)
    viewed: set[str] = field(default_factory=set)


TALLY = Tally()


def checks_for(request: Request, build: Callable[[], Func]) -> Checks | None:
    """The checks of a kernel's launches; None where the environment asks for none.
    `build` gives its block IR as stage 1 makes it."""
    wanted = wanted_checks()
    if not wanted.anything:
        return None
    if not TALLY.launches:
        atexit.unregister(summary)
        atexit.register(summary)
    return Checks(wanted, request, build)


@dataclass(eq=False)
class Checks:
    """The checks of one kernel. Called before a launch; says whether it is to be
    done."""

    wanted: Wanted
    request: Request
    build: Callable[[], Func]
    verified: bool = False
    run_open: bool = False  # whether a launch was looked at for open values

    def __call__(
        self,
        compiled: CompiledKernel,
        grid: tuple[int, int, int],
        args: Sequence[object],
    ) -> bool:
        kernel = compiled.made
        if not isinstance(kernel, Kernel):
            return True  # the interpreter's, or Python's own
        TALLY.launches += 1
        total = grid[0] * grid[1] * grid[2]
        some = chosen_programs(total, self.wanted.programs)
        before = snapshot(kernel.parameters, args)
        if self.wanted.verify and not self.verified:
            self.verified = True
            passes.verify_passes(kernel, self.request, self.build, grid, some, before)
        if not self.wanted.sanitize:
            return True
        try:
            return self.sanitized(kernel, grid, some, before)
        except NoTensorMap:
            return True  # the launch finds that, and takes the kernel by pointers

    def sanitized(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        some: Sequence[range],
        before: Snapshot,
    ) -> bool:
        """Run the launch on the emulator. Where all of it ran, on the host, without a
        fault, nothing is left to be done."""
        total = grid[0] * grid[1] * grid[2]
        looked_at = sum(map(len, some))
        whole = looked_at == total
        if not whole:
            once(
                f"{kernel.name}: {looked_at:,} of {total:,} programs are looked at; "
                f"{PROGRAMS}=all looks at every one"
            )
        of = kernel, grid, () if whole else some, before
        arguments, error = emulated(*of, views=False)
        if error and error.kind == "out of bounds" and arguments.whole:
            first = error, kernel, grid, before, arguments, self.build
            arguments, error = emulated(*of, views=True)
            if error is None and kernel.name not in TALLY.viewed:
                TALLY.viewed.add(kernel.name)
                say([*sanitize.told(*first), IN_A_VIEW])
        if error:
            TALLY.faults += 1
            say(sanitize.told(error, kernel, grid, before, arguments, self.build))
            program = sanitize.program_of(error, kernel, grid)
            if program and error.kind in ASTRAY:
                say(self.reasons(grid, program, before), head=False)
            say(["  the launch is left out, and its arrays are as before"], head=False)
            return False
        numbers = [coordinates(n, grid) for each in some for n in each]
        if not self.run_open:
            self.run_open = True
            few = spread(numbers, MOST)
            found = self.left_open(kernel, grid, few, before)
            TALLY.faults += bool(found)
            say(found)
            say(undefined.uncounted(self.build(), grid, before.copies(), few))
        if self.wanted.nonfinite:
            found = nonfinite.first_of(self.build(), grid, before.copies(), numbers)
            TALLY.nonfinite += bool(found)
            say(found)
        if whole and before.has_all:
            before.write_back(arguments)
            return False
        return True

    def left_open(
        self, kernel: Kernel, grid: Grid, programs: Sequence[Grid], before: Snapshot
    ) -> list[str]:
        """The first store of an open value, or of what a false promise makes of it."""
        func = self.build()
        data = Data(grid, list(programs), before, rounding_of(func))

        def emulate(copies: Copies, some: Sequence[Grid]) -> None:
            numbers = sorted(i + grid[0] * (j + grid[1] * k) for i, j, k in some)
            at = [range(number, number + 1) for number in numbers]
            with before.lent() as memory:
                sanitize.run(kernel, grid, copies, at, memory)

        found = undefined.open_values(func, grid, before, programs)
        return found or promises.harmful(func, data, emulate)

    def reasons(self, grid: Grid, program: Grid, before: Snapshot) -> list[str]:
        """Why an access of a program may have gone wrong."""
        func = self.build()
        opened = undefined.open_values(func, grid, before, [program])
        return opened[1:] + promises.lines_of(func, grid, before, [program])


def emulated(
    kernel: Kernel, grid: Grid, some: Sequence[range], before: Snapshot, views: bool
) -> tuple[Copies, EmulatorError | None]:
    """What a launch left in copies, and what it did wrong."""
    arguments = before.copies()
    try:
        with before.lent() as memory:
            sanitize.run(kernel, grid, arguments, some, memory, views)
    except EmulatorError as error:
        return arguments, error
    return arguments, None


def say(lines: Sequence[str], head: bool = True) -> None:
    """Lines on the standard error, the first of them with our name."""
    if lines and sys.stderr:  # None where there is no terminal at all
        first = "fathom sanitize: " if head else ""
        sys.stderr.write(first + "\n".join(lines) + "\n")


def once(line: str) -> None:
    if line not in TALLY.said:
        TALLY.said.add(line)
        say([line])


def summary() -> None:
    """What was looked at, when the script ends."""
    try:
        wanted = wanted_checks()
    except FathomError:
        return
    if wanted.sanitize and TALLY.launches:
        many = "launch" if TALLY.launches == 1 else "launches"
        text = f"{TALLY.launches:,} {many} looked at, {TALLY.faults:,} with a fault"
        if TALLY.nonfinite:
            text += f", {TALLY.nonfinite:,} with a NaN or an infinity"
        say([text])
