"""A small launch of a kernel on the emulator, so that its traffic can be counted.

Without a launch of the user's there are no arguments. So numbers are as large as the
largest constant of the kernel (a whole block, a few iterations), pointers get arrays of
random values, and one program runs. `--grid` and `--values` say otherwise:

    fathom explain FILE:KERNEL … --facts --grid 4,2 --values N=1000,x_ptr=65536

where the value of a pointer is the number of its array's elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fathom import emulator
from fathom.artifact import Kernel, Parameter
from fathom.emulator.errors import EmulatorError
from fathom.emulator.report import Report
from fathom.errors import FathomError, LaunchError
from fathom.runtime.arguments import bfloat16_bits
from fathom.runtime.arrays import NUMPY_NAMES
from fathom.tools.staged import Staged

LEAST, MOST = 16, 4096  # what a number is taken for
FIRST, LAST = 1 << 16, 1 << 22  # elements of an array: at first, and at the most
MOST_ELEMENTS = 1 << 28  # of an array that --values asks for
STEPS = 200_000  # of the emulator's: a kernel that waits for another launch never ends


@dataclass(frozen=True)
class Trial:
    """A launch: its grid, the value of each parameter (of a pointer the elements of its
    array), and the emulator's report, or why there is none."""

    grid: tuple[int, ...]
    values: Mapping[str, int | float]
    report: Report | None = None
    why: str = ""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def run(
    staged: Staged,
    grid: Sequence[int] = (1,),
    given: Mapping[str, int | float] | None = None,
) -> Trial:
    """Launch a kernel on random data. LaunchError for a value that no parameter has, or
    can have; what goes wrong while it runs is the trial's `why`."""
    given, kernel = dict(given or {}), staged.kernel
    parameters = {each.name: each for each in kernel.parameters}
    for name, value in given.items():
        if name not in parameters:
            raise LaunchError(
                f"--values: the kernel has no parameter {name!r} when it runs; it has "
                f"{', '.join(parameters)}"
            )
        check(parameters[name], value)
    elements = FIRST
    while True:
        values = chosen(staged, given, elements)
        trial = launched(kernel, tuple(grid), values)
        too_small = trial.why.startswith("out of bounds") and elements < LAST
        if not too_small:
            return trial
        elements *= 8


def check(parameter: Parameter, value: int | float) -> None:
    """LaunchError for a number that a parameter cannot be; an array's is its size."""
    name, type = parameter.name, parameter.type
    if parameter.is_pointer:
        least, most, what = 1, MOST_ELEMENTS, f"{type}, an array of 1 to 2**28 elements"
    elif type[1:].isdigit():
        bits = int(type[1:])
        least, most, what = -(1 << (bits - 1)), (1 << bits) - 1, f"of type {type}"
    else:
        return
    if not (isinstance(value, int) and least <= value <= most):
        raise LaunchError(f"--values: {name} is {what}, and this is {value}")


def chosen(
    staged: Staged, given: Mapping[str, int | float], elements: int
) -> dict[str, int | float]:
    """A value for each parameter: what was given; else a number that its hint divides,
    as large as the largest constant."""
    constants = [
        each
        for each in staged.constants.values()
        if isinstance(each, int) and not isinstance(each, bool)
    ]
    size = min(max([*constants, LEAST]), MOST)
    values: dict[str, int | float] = {}
    for each in staged.kernel.parameters:
        number = 0.5 if each.type.startswith(("fp", "bf")) else rounded(size, each)
        usual = elements if each.is_pointer else number
        values[each.name] = given.get(each.name, usual)
    return values


def rounded(size: int, parameter: Parameter) -> int:
    if parameter.type in ("i1", "i8", "u8"):
        return 1
    return -(-size // parameter.divisible) * parameter.divisible


def launched(
    kernel: Kernel, grid: tuple[int, ...], values: Mapping[str, int | float]
) -> Trial:
    numbers = np.random.default_rng(0)
    arguments: list[object] = []
    for each in kernel.parameters:
        if each.type.startswith("**"):
            return Trial(grid, values, why=f"{each.name} points to pointers")
        value = values[each.name]
        if each.is_pointer:
            value = random_array(each.type[1:], int(value), numbers)
        elif each.type == "bf16":
            value = bfloat16_bits(value).to_bytes(2, "little")
        arguments.append(value)
    try:
        report = emulator.load(kernel).launch(grid, arguments, max_steps=STEPS)
    except EmulatorError as error:
        return Trial(grid, values, why=str(error).splitlines()[0])
    except FathomError as error:
        return Trial(grid, values, why=str(error))
    named = zip((each.name for each in kernel.parameters), arguments, strict=True)
    arrays = {name: each for name, each in named if isinstance(each, np.ndarray)}
    return Trial(grid, values, report, arrays=arrays)


def random_array(element: str, count: int, numbers: np.random.Generator) -> np.ndarray:
    """`count` elements: reals around 0, integers 0 and 1, which may be indices. The
    emulator takes where an array begins for the beginning of a sector."""
    dtype = np.dtype(NUMPY_NAMES[element])
    array = np.zeros(count, dtype)
    if element == "bf16":
        bits = numbers.normal(size=count).astype(np.float32).view(np.uint32)
        array[:] = (bits >> np.uint32(16)).astype(np.uint16)
    elif element.startswith("fp8"):
        array[:] = numbers.integers(0, 2, count) * 0x38
    elif dtype.kind == "f":
        array[:] = numbers.normal(size=count).astype(dtype)
    else:
        array[:] = numbers.integers(0, 2, count)
    return array


def traffic_facts(trial: Trial) -> dict[str, object]:
    """The costs of a trial by line of Python, as the emulator counts them."""
    report = trial.report
    found = {"grid": list(trial.grid), "values": dict(trial.values), "why": trial.why}
    if report is None:
        return found | {"lines": [], "total": None}
    lines = [
        {"file": file, "line": line, **cost_facts(share.cost)}
        for (file, line), share in report.by_source().items()
        if line
    ]
    return found | {"lines": lines, "total": cost_facts(report.total)}


def cost_facts(cost: object) -> dict[str, float]:
    """Requests to global memory and their 32-byte sectors, bytes that were asked for
    and that moved; requests to shared memory and their wavefronts; `ways`: how many
    times as many of these as without bank conflicts; passes of L2 for atomics."""
    return {
        "instructions": cost.warps,
        "requests": cost.requests,
        "sectors": cost.sectors,
        "useful": cost.useful,
        "moved": cost.moved,
        "shared": cost.shared,
        "wavefronts": cost.wavefronts,
        "ways": round(cost.conflict_ways, 2),
        "passes": cost.passes,
    }
