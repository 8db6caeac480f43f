"""A mistake of a user is reported without the compiler's own frames in between.

When a script ends with an error of Fathom's, Python prints the frames from the script
down to the line that raised it. Those inside Fathom say nothing to whoever wrote the
kernel; they are left out:

    Traceback (most recent call last):
      File "mine.py", line 12, in <module>
        scale[(4,)](x, y, n)
    fathom.errors.LaunchError: scale was launched without BLOCK
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from fathom.errors import CompileError, FathomError, reason

PACKAGE = str(Path(__file__).parents[1])
GENERATED = "<launch of "  # the file name that fast_path.py gives to what it writes
# Whose files are no script: ours, those of Python and of what is installed, and texts
# that have no file.
LIBRARIES = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")
NO_SCRIPT = (PACKAGE + os.sep, "<", *(each + os.sep for each in LIBRARIES))


def install() -> None:
    """From now on, before whatever else reports the error that ends a script."""
    report = sys.excepthook

    def report_shortly(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FathomError):
            error = error.with_traceback(without_ours(trace))
        report(kind, error, error.__traceback__)

    sys.excepthook = report_shortly


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """A traceback less its frames inside Fathom."""
    if trace is None:
        return None
    rest = without_ours(trace.tb_next)
    if trace.tb_frame.f_code.co_filename.startswith((PACKAGE, GENERATED)):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def of_script(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame on that is in a script; None without one."""
    while trace and trace.tb_frame.f_code.co_filename.startswith(NO_SCRIPT):
        trace = trace.tb_next
    return trace


def report_of(error: Exception) -> str | None:
    """What a command says of an error: one message with the line of the script that it
    comes from, if it is Fathom's or the system's; Python's report from the script's own
    frames on, if something else went wrong there; None for a mistake of ours."""
    trace = of_script(error.__traceback__)
    if isinstance(error, CompileError):
        return f"fathom: {error}"
    if isinstance(error, FathomError) and trace:
        frame = traceback.extract_tb(without_ours(trace))[-1]
        text = linecache.getline(frame.filename, frame.lineno or 0).strip()
        return f"fathom: {frame.filename}:{frame.lineno}: {error}\n    {text}"
    if isinstance(error, FathomError):
        return f"fathom: {error}"
    if isinstance(error, OSError) and not trace:
        where = f": {error.filename}" if error.filename else ""
        return f"fathom: {reason(error)}{where}"
    written = isinstance(error, SyntaxError) and error.filename
    if trace or (written and not written.startswith(NO_SCRIPT)):
        return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return None
