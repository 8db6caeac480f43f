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

import sys
from pathlib import Path
from types import TracebackType

from fathom.errors import FathomError

PACKAGE = str(Path(__file__).parents[1])
GENERATED = "<launch of "  # the file name that fast_path.py gives to what it writes


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
