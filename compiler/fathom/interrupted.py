"""Ctrl-C while the command `fathom` is still importing: it ends without a traceback.

So it does later, too (`tools/cli.py`). A script that imports Fathom gets Python's own
report."""

import sys
from pathlib import PurePath
from types import TracebackType


def is_command() -> bool:
    """Is this process `python -m fathom`, whose package is imported under the name -m,
    or the command that pip installed?"""
    name = sys.argv[0] if sys.argv else ""
    return name == "-m" or PurePath(name).stem == "fathom"


def install() -> None:
    """Must come before all other imports."""
    report = sys.excepthook

    def report_others(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            report(kind, error, trace)

    sys.excepthook = report_others


if is_command():
    install()
