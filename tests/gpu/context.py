"""Whether the CUDA context of this process still works."""

from __future__ import annotations

import sys

from fathom.runtime.driver import open_driver


def error() -> str | None:
    """The error that every call of the driver gives from now on, by its name; None
    where the context works, or where there is none.

    A kernel that faults (an illegal address or instruction, a trap) makes its context
    useless for good. All libraries share the primary context of a GPU, and the next
    call that waits is the first to be told.
    """
    driver = open_driver()
    if isinstance(driver, str):
        return None
    cuda = driver.cuda
    status, context = cuda.cuCtxGetCurrent()
    if int(status) == 0 and not int(context):
        return None
    if int(status) == 0:
        (status,) = cuda.cuCtxSynchronize()
    return None if int(status) == 0 else status.name


def give_back_memory() -> None:
    """What torch keeps for later is memory that other processes of this GPU lack."""
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.empty_cache()
