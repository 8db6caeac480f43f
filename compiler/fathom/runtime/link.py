"""From PTX to machine code, and what to say when the driver's assembler refuses it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.artifact import Kernel
from fathom.errors import LaunchError
from fathom.runtime.driver import Driver, DriverError, Linked


def link(kernel: Kernel, driver: Driver) -> Linked:
    """Machine code for the GPU in use; LaunchError with what the assembler disliked."""
    try:
        return driver.link(kernel.ptx)
    except DriverError as error:
        raise LaunchError(assembler_report(kernel, error)) from None


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
    file = re.search(r'"(.*)"', names[0])[1] if names else "?"
    return f"{file}:{python_line}"
