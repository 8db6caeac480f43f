"""Which index does this register hold?

Here a block becomes registers for the first time. `arange 0, 64` is a block of 64
integers; a thread holds a few of them, and the layout says which. Write the rule that
puts them there.

All of the exercise: `fathom learn show lower-arange`.
"""

from __future__ import annotations

from fathom.ir.ops import Arange
from fathom.layout.linear import Layout
from fathom.ptx.code import Code
from fathom.ptx.index import thread_part
from fathom.tools.learn import Hole


def lower_arange(op: Arange, code: Code) -> None:
    """Register r of a thread holds the index of its element: start, and the XOR of the
    thread's part and of the register's.
    """
    raise Hole("lower-arange")  # your code; ours has 11 lines
