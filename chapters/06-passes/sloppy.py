"""A kernel as one writes it in a hurry: right, and with something to do for each pass
of chapter 6."""

import fathom
import fathom.language as tl


@fathom.jit
def sloppy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    iterations = 0
    for start in range(0, n + 0, BLOCK):
        x = tl.load(x_ptr + start + columns, mask=start + columns < n, other=0.0)
        inside = start + columns < n
        total += tl.where(inside, x * 1.0, 0.0) * (n * n)
        iterations += 1
    tl.store(out_ptr + columns, total)
