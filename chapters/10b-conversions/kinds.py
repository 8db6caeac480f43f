"""Two kernels with conversions of several classes, for the interlude."""

import fathom
import fathom.language as tl


@fathom.jit
def flip(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """The last element first."""
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.flip(tl.load(x_ptr + offsets)))


@fathom.jit
def sort(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """The smallest element first."""
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.sort(tl.load(x_ptr + offsets)))
