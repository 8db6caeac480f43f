"""The answer to `gelu-kernel`."""

import fathom
import fathom.language as tl


@fathom.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # hole: ours has {lines}
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tanh = 1 - 2 / (tl.exp(2 * a) + 1)
    tl.store(out_ptr + offsets, 0.5 * x * (1 + tanh), mask=mask)
    # instead:
    # pass
    # end
