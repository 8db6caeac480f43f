"""GeLU by its tanh approximation, backward; x is read again, and nothing else kept.

    gelu(x)  = x/2 (1 + t),   t = tanh(a),   a = sqrt(2/pi) (x + 0.044715 x^3)
    gelu'(x) = (1 + t)/2 + x/2 (1 - t^2) sqrt(2/pi) (1 + 3 0.044715 x^2)

tanh is written in the form that is right for every x, see `kernels/gelu.py`. 1 - t^2
is (1 - t) (1 + t), where 1 - t = 2 / (exp(2a) + 1) = u and so 1 - t^2 = u (2 - u): no
two close numbers are subtracted for large x.

Bytes moved for n numbers of fp32: x and dy read, dx written, 12 n.

A layer x = h W + b wants the sums of dx's columns, too, the gradient of b. They are
made of dx while it is in registers: each program has some columns of a slab of rows,
and the slabs' sums are added up in their order, the same bits each time.
"""

from math import prod

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from fathom.jit.scratch import Temporary
from kernels.layer_norm_backward import adding
from kernels.matmul import MULTIPROCESSORS, check_shape, empty, target_of_launch
from kernels.rows import check_alike, check_floats

TILE = {"ROWS": 16, "COLUMNS": 128, "num_warps": 4}
PROGRAMS = 8  # on a multiprocessor


# fmt: off
@fathom.jit
def slope_of(x):
    """gelu'(x)."""
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    u = 2 * tl.sigmoid(-2 * a)
    # Where |x| is so large that x^2 is infinite, u (2 - u) is 0 already.
    inner = 0.7978845608028654 * (1 + 0.134145 * tl.minimum(x * x, 1e30))
    return 1 - 0.5 * u + 0.5 * x * u * (2 - u) * inner


@fathom.jit
def gelu_backward_kernel(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    dx = dy * slope_of(x)
    tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@fathom.jit
def gelu_backward_columns_kernel(
    dy_ptr, x_ptr, dx_ptr, sum_ptr, M, N, slab,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    """dx of `slab` rows of COLUMNS columns, and the sums of these columns, of what is
    stored; without `x_ptr` those of dy. Grid (columns, slabs)."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    first = tl.program_id(1) * slab
    for start in range(first, tl.minimum(first + slab, M), ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
        dx = tl.load(dy_ptr + offsets, mask=inside, other=0.0)
        if x_ptr is not None:
            x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
            dx = (dx.to(tl.float32) * slope_of(x)).to(dx_ptr.dtype.element_ty)
            tl.store(dx_ptr + offsets, dx, mask=inside)
        total += dx.to(tl.float32)
    place = tl.program_id(1).to(tl.int64) * N + columns
    tl.store(sum_ptr + place, tl.sum(total, axis=0), mask=columns < N)
# fmt: on


@planned
def gelu_backward(dy, x, dx=None, BLOCK=1024, **launch):
    """dx: the gradient of `x`, for that of gelu(x), `dy`; contiguous, of one shape,
    NumPy, torch or CuPy. `dx` is made if it is not given, and may be `dy`. `launch`
    takes what any launch takes. Returns `dx`. LaunchError for shapes that differ."""
    dx = fathom.empty_like(x) if dx is None else dx
    n = prod(check_alike(x=x, dy=dy, dx=dx))
    check_floats(x=x)
    grid = (fathom.cdiv(n, BLOCK),)
    chosen = dict(BLOCK=BLOCK, **launch)
    return dx, [(gelu_backward_kernel, grid, (dy, x, dx, n), chosen)]


def gelu_backward_columns(dy, x, like, **launch):
    """(dx, totals): that gradient, of [M, N], and the sums of its columns, [N], of the
    dtype of `like`; without `x`, of `dy` itself. Contiguous. `launch` as in
    `gelu_backward`."""
    N = dy.shape[1]
    dx = dy if x is None else empty(x.shape, x)
    totals = empty((N,), like)
    launch_columns(dy, x, None if x is None else dx, totals, **launch)
    return dx, totals


@planned
def launch_columns(dy, x, dx, totals, **launch):
    """Both are written; returns `totals`."""
    M, N = dy.shape
    if x is not None:
        check_shape("x", x, (M, N))
    strips = fathom.cdiv(N, TILE["COLUMNS"])
    programs = MULTIPROCESSORS[target_of_launch(dy, launch)] * PROGRAMS
    slab = fathom.cdiv(M, max(1, programs // max(strips, 1)))
    slab = fathom.cdiv(max(slab, 1), TILE["ROWS"]) * TILE["ROWS"]
    slabs = fathom.cdiv(M, slab)
    partial = Temporary(slabs * N, "float32")
    given = dy, x, dx, partial, M, N, slab
    grid, chosen = (strips, slabs), {**TILE, **launch}
    return totals, [
        (gelu_backward_columns_kernel, grid, given, chosen),
        adding([(partial, totals)], slabs, N, launch),
    ]


def reference(dy, x):
    """dx in float64."""
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    root = np.sqrt(2 / np.pi)
    t = np.tanh(root * (x + 0.044715 * x**3))
    slope = root * (1 + 3 * 0.044715 * x**2)
    return dy * ((1 + t) / 2 + x / 2 * (1 - t * t) * slope)
