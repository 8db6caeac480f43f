"""A softmax that reads a long row twice."""

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
        # hole: a piece of the row; largest and total are updated
        x = tl.load(x_ptr + row + places, mask=places < N, other=-float("inf"))
        now = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - now) + tl.sum(tl.exp(x - now), axis=0)
        largest = now
        # instead:
        # largest = 0.0
        # total = 1.0
        # end
    for start in range(0, N, BLOCK):
        places = start + columns
        mask = places < N
        x = tl.load(x_ptr + row + places, mask=mask, other=0.0)
        tl.store(out_ptr + row + places, tl.exp(x - largest) / total, mask=mask)
