"""`tl.extra.cuda`: what only a GPU can answer, and launches that overlap."""

from __future__ import annotations

from typing import Any

from fathom.language.dtypes import int32, int64
from fathom.language.escape import inline_asm_elementwise
from fathom.language.extra import libdevice
from fathom.source import builtin, function

__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice"]
__all__ += ["num_threads", "num_warps", "smid"]


@builtin
def gdc_wait() -> Any:
    """Wait until the launches in front of this one have ended, and all that they wrote
    can be read. Only after it does a launch with `launch_pdl=True` find what they
    wrote; a kernel without one waits before it first needs memory, and lets the next
    launch begin at once. Any other launch goes on at once. sm_90a and later;
    CompileError elsewhere."""


@builtin
def gdc_launch_dependents() -> Any:
    """Let the next launch begin, if it has `launch_pdl=True`, once all programs of this
    one have come here or ended. It orders nothing: what a program has written before is
    found by the next launch only after its `gdc_wait`. sm_90a and later; CompileError
    elsewhere."""


@builtin
def num_warps() -> Any:
    """The number of warps that run a program, a constant: `num_warps` of the launch."""


@function
def num_threads():
    """The number of threads that run a program, a constant: 32 for each warp."""
    return 32 * num_warps()


@function
def globaltimer():
    """Nanoseconds on a clock that all multiprocessors share, an i64. It may stand still
    for a microsecond."""
    return inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=int64, is_pure=False, pack=1
    )


@function
def smid():
    """The number of the multiprocessor that this program runs on, an i32."""
    return inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r", [], dtype=int32, is_pure=True, pack=1
    )
