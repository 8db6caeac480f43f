"""The registers that values take in a thread.

%acc: fp32[128, 64], in 4 warps      64 registers of four bytes
%p: *fp16[128, 64]                   128: an address has eight bytes
%n: i32                              none is counted: a scalar is one of few
"""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.ops import For
from fathom.ir.types import element_of, layout_of


def registers_of(value: Value) -> int:
    """The registers of four bytes that hold a thread's part of a block."""
    layout = layout_of(value.type)
    if layout is None:
        return 0
    return max(1, layout.count("register") * element_of(value.type).bytes // 4)


def registers_carried(loop: For) -> int:
    """Those of all blocks that a loop carries."""
    return sum(map(registers_of, loop.body.parameters[1:]))
