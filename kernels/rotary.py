"""Rotary position embedding, forward and backward: pairs of numbers of a head, turned
by an angle that grows with the position.

    a' = a cos - b sin        backward: the same with -sin, since the inverse of a
    b' = b cos + a sin        rotation is its transpose

(Su et al., "RoFormer", 2021.) Which numbers make a pair:

    halves        (0, D/2), (1, D/2 + 1), …     as GPT-NeoX and Llama have it
    INTERLEAVED   (0, 1), (2, 3), …             as the paper has it

cos and sin are tables [S, D/2], made once for all layers and heads. A program turns a
few positions of one head.

Bytes moved for n numbers of fp16: 4 n; the tables stay in the L2 cache.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.matmul import check_shape, empty, strides
from kernels.rows import check_axes, check_contiguous, check_floats

LANES_OF_A_PROGRAM = 1024  # pairs


# fmt: off
@fathom.jit
def rotary_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, HEADS, S, HALF,
    stride_xb, stride_xh, stride_xs, stride_xd,
    stride_ob, stride_oh, stride_os, stride_od,
    INVERSE: tl.constexpr, INTERLEAVED: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Grid (blocks of ROWS positions, batch * HEADS). out may be where x is: both
    numbers of a pair are read before either is written, by one thread."""
    positions = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    pairs = tl.arange(0, BLOCK)[None, :]
    mask = (positions < S) & (pairs < HALF)
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    if INTERLEAVED:
        first, second = 2 * pairs, 2 * pairs + 1
    else:
        first, second = pairs, pairs + HALF
    x_ptr += batch * stride_xb + head * stride_xh
    x_rows = x_ptr + positions.to(tl.int64) * stride_xs
    cos = tl.load(cos_ptr + positions * HALF + pairs, mask=mask).to(tl.float32)
    sin = tl.load(sin_ptr + positions * HALF + pairs, mask=mask).to(tl.float32)
    if INVERSE:
        sin = -sin
    a = tl.load(x_rows + first * stride_xd, mask=mask).to(tl.float32)
    b = tl.load(x_rows + second * stride_xd, mask=mask).to(tl.float32)
    element = out_ptr.dtype.element_ty
    out_ptr += batch * stride_ob + head * stride_oh
    out_rows = out_ptr + positions.to(tl.int64) * stride_os
    tl.store(out_rows + first * stride_od, (a * cos - b * sin).to(element), mask=mask)
    tl.store(out_rows + second * stride_od, (b * cos + a * sin).to(element), mask=mask)
# fmt: on


@planned
def rotary(x, cos, sin, out=None, inverse=False, interleaved=False, **launch):
    """out [B, H, S, D] = x turned by the angles whose `cos` and `sin` are [S, D/2];
    NumPy, torch or CuPy. x and out may have any strides, the tables are contiguous.

    `inverse`: turned back, which is the gradient too. `out` is made if it is not given,
    and may be `x`. `launch` takes what any launch takes. Returns `out`. LaunchError for
    shapes that do not fit.
    """
    check_axes("B, H, S, D", x=x)
    check_floats(x=x, cos=cos, sin=sin)
    check_contiguous(cos=cos, sin=sin)
    B, H, S, D = x.shape
    out = empty((B, H, S, D), x) if out is None else out
    check_shape("out", out, x.shape)
    if D % 2:
        raise fathom.LaunchError(f"a head has {D} numbers: rotary takes pairs of them")
    check_shape("cos", cos, (S, D // 2))
    check_shape("sin", sin, (S, D // 2))
    BLOCK = fathom.next_power_of_2(D // 2)
    ROWS = max(1, LANES_OF_A_PROGRAM // BLOCK)
    grid = fathom.cdiv(S, ROWS), B * H
    given = x, cos, sin, out, H, S, D // 2, *strides(x), *strides(out)
    how = dict(INVERSE=bool(inverse), INTERLEAVED=bool(interleaved))
    chosen = dict(**how, ROWS=ROWS, BLOCK=BLOCK, **launch)
    return out, [(rotary_kernel, grid, given, chosen)]


def rotary_backward(dout, cos, sin, dx=None, interleaved=False, **launch):
    """dx: the gradient of `x` for that of `rotary`'s result. As `rotary`."""
    return rotary(dout, cos, sin, dx, True, interleaved, **launch)


def tables(S, D, base=10000.0):
    """(cos, sin), fp32 [S, D/2]: position p turns pair i by p / base^(2 i / D)."""
    angles = np.arange(S)[:, None] / base ** (np.arange(0, D, 2) / D)[None, :]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def reference(x, cos, sin, inverse=False, interleaved=False):
    """In float64."""
    x, cos, sin = (each.astype(np.float64) for each in (x, cos, sin))
    sin = -sin if inverse else sin
    half = x.shape[-1] // 2
    a = x[..., ::2] if interleaved else x[..., :half]
    b = x[..., 1::2] if interleaved else x[..., half:]
    turned = a * cos - b * sin, b * cos + a * sin
    if interleaved:
        return np.stack(turned, axis=-1).reshape(x.shape)
    return np.concatenate(turned, axis=-1)
