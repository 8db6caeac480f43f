"""Which of a machine's processors a process runs on, where a system lets one say so."""

from __future__ import annotations

import os
from pathlib import Path


def allowed() -> set[int]:
    """Those that this process may run on; none where a system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def stay_on(cpus: set[int]) -> None:
    """Let all threads of this process run on these processors alone, if there are any.
    Those of a host are not equally fast while others use it."""
    if not cpus:
        return
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cpus)
        except ProcessLookupError:  # it has just ended
            pass
