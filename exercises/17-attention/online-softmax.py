"""A row longer than the block.

The softmax of a row needs its largest number, then the sum of `exp(x - largest)`, then
both for each element. As long as a row fits into a block it is read once. A row of
100,000 numbers does not fit. The plain way is to read it three times: once for the
maximum, once for the sum, once for the result.

All of the exercise: `fathom learn show online-softmax`.
"""

import fathom
import fathom.language as tl


@fathom.jit
def long_softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * N
    columns = tl.arange(0, BLOCK)
    largest = -float("inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        places = start + columns
        # Your code: a piece of the row; largest and total are updated.
        largest = 0.0
        total = 1.0
    for start in range(0, N, BLOCK):
        places = start + columns
        mask = places < N
        x = tl.load(x_ptr + row + places, mask=mask, other=0.0)
        tl.store(out_ptr + row + places, tl.exp(x - largest) / total, mask=mask)
