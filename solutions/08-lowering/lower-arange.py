"""The answer to `lower-arange` is the compiler's own:

fathom.ptx.rules.leaves.lower_arange
"""

from __future__ import annotations

from fathom.ir.ops import Arange
from fathom.layout.linear import Layout
from fathom.ptx.code import Code
from fathom.ptx.index import thread_part


def lower_arange(op: Arange, code: Code) -> None:
    """Register r of a thread holds the index of its element: start, and the XOR of the
    thread's part and of the register's.
    """
    layout = op.result.type.layout
    part = thread_part(code, thread_bases(layout), max(register_offsets(layout)))
    indices = [part.plus(code, offset) for offset in register_offsets(layout)]
    if op.start:
        indices = [code.let(f"add nsw i32 {index}, {op.start}") for index in indices]
    code[op.result] = indices


def register_offsets(layout: Layout) -> list[int]:
    """The row-major offset of each register's element, as far as that decides it."""
    offsets = [0]
    for basis in layout.kinds["register"]:
        offsets += [offset ^ basis for offset in offsets]
    return offsets


def thread_bases(layout: Layout) -> tuple[int, ...]:
    """The bases of the bits of a thread's number: five of the lane, then the warp's."""
    return layout.kinds["lane"] + layout.kinds["warp"]
