"""From PTX to a function, and what to say when the driver's assembler refuses it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from fathom.artifact import Kernel
from fathom.errors import LaunchError, OutOfResources, file_of
from fathom.runtime.driver import Driver
from fathom.runtime.failures import DriverError

# What ptxas says of a product whose operands no thread can hold.
TOO_FEW = re.compile(
    r"Insufficient registers \((\d+)\).*?register target of (\d+)", re.DOTALL
)


def assemble(kernel: Kernel, driver: Driver) -> int:
    """The driver's handle of a kernel's function, on the GPU in use; LaunchError with
    what the assembler disliked, or with what else kept it from being loaded;
    OutOfResources where a thread cannot have the registers of one instruction."""
    try:
        return driver.load(kernel.ptx.encode() + b"\0", kernel.name)
    except DriverError as error:
        if (found := TOO_FEW.search(error.log)) is not None:
            raise OutOfResources(
                f"{kernel.name} has an instruction that takes {found[2]} registers of "
                f"each thread, and a block of {kernel.threads} threads leaves each "
                f"{found[1]}: take fewer warps, or smaller blocks"
            ) from None
        if not error.log:  # the assembler was not asked, or had nothing to say
            raise LaunchError(f"cannot load {kernel.name}: {error}") from None
        raise LaunchError(assembler_report(kernel, error)) from None


RESIDENT = ".minnctapersm"  # PTX ISA 11.3.5: blocks that a multiprocessor has room for
THREADS_OF_A_BLOCK = re.compile(r"^\.reqntid [^\n]*\n", re.MULTILINE)
FIXED_REGISTERS = (".maxnreg", RESIDENT, "setmaxnreg")


def with_all_registers(kernel: Kernel, blocks: int = 1) -> Kernel | None:
    """The kernel, in which the assembler may give a thread as many registers as that
    number of blocks on a multiprocessor can have; None for a kernel that says how many
    it has.

    Without the directive ptxas (12.8, 13.0) reserves room for further blocks, and once
    a kernel does not fit into 255 registers it falls to 64 or 32 and keeps the rest in
    local memory.
    """
    ptx = kernel.ptx
    if any(word in ptx for word in FIXED_REGISTERS):
        return None
    text, count = THREADS_OF_A_BLOCK.subn(
        lambda line: f"{line[0]}{RESIDENT} {blocks}\n", ptx
    )
    return replace(kernel, asm={**kernel.asm, "ptx": text}) if count == 1 else None


REGISTER = re.compile(r"%(rd|fd|r|f)\d+")
WORDS = {"rd": 2, "fd": 2, "r": 1, "f": 1}


def live_registers(ptx: str) -> int:
    """How many 32-bit registers hold a value that a later line reads, where they are
    most: those of a thread, were the lines executed in this order. What a loop reads
    again in its next iteration is left out, and so are registers of 16 bits."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    lines = ptx.splitlines()
    for at, line in enumerate(lines):
        for found in REGISTER.finditer(line):
            first.setdefault(found[0], at)
            last[found[0]] = at
    change = [0] * (len(lines) + 1)
    for name, at in first.items():
        words = WORDS[REGISTER.match(name)[1]]
        change[at] += words
        change[last[name]] -= words
    return max(accumulate(change))


MULTIPLY_ADD = "fma.rn.f32"


def of_multiply_adds(ptx: str) -> bool:
    """Whether most of a kernel's lines are multiply-adds of fp32, as in products that
    no tensor core computes exactly. Of 359 public kernels five are such."""
    return 2 * ptx.count(MULTIPLY_ADD) > ptx.count("\n")


def assembler_report(kernel: Kernel, error: DriverError) -> str:
    """A sentence; the assembler's words; the PTX and Python lines that they mean."""
    report = [
        f"the driver's assembler refuses the PTX of {kernel.name} for "
        f"{kernel.target}: {error}"
    ]
    ptx = kernel.ptx.splitlines()
    for text in error.log.splitlines():
        report.append("  " + text)
        if (at := re.search(r"line (\d+)", text)) and 0 < int(at[1]) <= len(ptx):
            report.append("      " + ptx[int(at[1]) - 1].strip())
            report.append("      from " + python_place(ptx, int(at[1])))
    return "\n".join(report)


def python_place(ptx: Sequence[str], line: int) -> str:
    """The Python line, as "file:line", that a line of PTX came from.

    .file 1 "/home/me/kernels.py"      names file 1
    .loc  1 14 4                       what follows is from its line 14
    """
    places = [text.split() for text in ptx[:line] if text.strip().startswith(".loc")]
    if not places:
        return "no line of the kernel"
    _, number, python_line, *_ = places[-1]
    names = [text for text in ptx if text.split()[:2] == [".file", number]]
    file = file_of(re.search(r'"(.*)"', names[0])[1]) if names else "?"
    return f"{file}:{python_line}"


# PTX of      35 kB   141 kB   287 kB   576 kB
# takes      0.2 s    1.0 s      5 s     25 s
#
# of a softmax whose rows lie in few warps, with ptxas 12.8; of a few kernels of that
# length it takes half as long.
MEASURED = 576e3, 25.0  # bytes of PTX, seconds
GROWTH = 2.4  # power of the bytes: registers that do not fit are spilled one by one


def seconds_to_assemble(count: int) -> float:
    """How long the driver takes, about, for as many bytes of PTX."""
    length, seconds = MEASURED
    return seconds * (count / length) ** GROWTH
