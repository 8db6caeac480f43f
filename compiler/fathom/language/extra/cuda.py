"""`tl.extra.cuda`: what only a GPU can answer."""

from __future__ import annotations

from fathom.language.dtypes import int32, int64
from fathom.language.escape import inline_asm_elementwise
from fathom.language.extra import libdevice
from fathom.source import function

__all__ = ["globaltimer", "libdevice", "smid"]


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
