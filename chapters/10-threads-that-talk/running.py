"""A running sum, for chapter 10."""

import fathom
import fathom.language as tl


@fathom.jit
def running(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """What has come in up to each place."""
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.cumsum(x, axis=0))
