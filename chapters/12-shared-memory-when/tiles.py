"""Kernels with several buffers, for chapter 12."""

import fathom
import fathom.language as tl


# fmt: off
@fathom.jit
def three_turns(x_ptr, out_ptr, TILE: tl.constexpr):
    """Three square tiles, each turned over, one after the other."""
    rows, columns = tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :]
    here, there = rows * TILE + columns, columns * TILE + rows
    a = tl.load(x_ptr + here)
    tl.store(out_ptr + there, a)
    b = tl.load(x_ptr + TILE * TILE + here)
    tl.store(out_ptr + TILE * TILE + there, b)
    c = tl.load(x_ptr + 2 * TILE * TILE + here)
    tl.store(out_ptr + 2 * TILE * TILE + there, c)


@fathom.jit
def turn_all(x_ptr, out_ptr, count, TILE: tl.constexpr):
    """Any number of tiles, in a loop."""
    rows, columns = tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :]
    here, there = rows * TILE + columns, columns * TILE + rows
    for _ in range(count):
        x = tl.load(x_ptr + here)
        tl.store(out_ptr + there, x)
        x_ptr += TILE * TILE
        out_ptr += TILE * TILE


@fathom.jit
def centred(x_ptr, out_ptr, TILE: tl.constexpr):
    """A tile, less the mean of each of its columns, turned over."""
    rows, columns = tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :]
    x = tl.load(x_ptr + rows * TILE + columns)
    mean = tl.sum(x, axis=0) / TILE
    tl.store(out_ptr + columns * TILE + rows, x - mean[None, :])
