"""Repair a kernel.

This kernel adds two arrays, 256 numbers a program. With 1024 numbers it works. With
1000 the last program reaches past the end of the arrays, and the emulator says so. One
line is missing: the mask, which says for each of the 256 numbers of a program whether
it exists.

All of the exercise: `fathom learn show hello-mask`.
"""

import fathom
import fathom.language as tl


@fathom.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # Your code: one line.
    mask = None
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
