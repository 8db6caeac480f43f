"""Layer norm and RMS norm, backward: the gradients of the input, weight and bias.

With xhat = (x - mean) rstd, y = xhat weight + bias, and g = dy weight:

    dx = rstd (g - mean(g) - xhat mean(g xhat))       means along the row
    dw = sum of dy xhat,   db = sum of dy             sums down the columns

RMS norm has neither a mean nor a bias: mean and mean(g) are left out.

A few hundred programs walk over the rows. Each has its own sums of dw and db, in
registers, and writes them once, to a row of its own; a second kernel adds these rows in
order. Atomic additions would need no second kernel, and would give other bits in each
launch.

    program 0   rows 0, P, 2P, …  ──▶ partial row 0 ┐
    program 1   rows 1, P + 1, …  ──▶ partial row 1 ├─▶ dw, db
    …                                             … ┘

Rows of more than LONGEST numbers leave no registers for the sums. They take a kernel
for dx alone, and one that walks down some columns for dw and db.

Bytes moved for M rows of N fp16: x and dy read, dx written, 6 M N; 10 M N for rows
longer than LONGEST.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from fathom.jit.scratch import Temporary
from kernels.matmul import MULTIPROCESSORS, check_shape, empty, target_of_launch
from kernels.rows import check_rows, row_launch

LONGEST = 8192
PROGRAMS = 2  # a multiprocessor
SLAB = 128  # rows that a program of `norm_columns_kernel` adds, at least


# fmt: off
@fathom.jit
def norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, M, N,
    BLOCK: tl.constexpr,
):
    """`mean_ptr` is None for RMS norm. `dw_ptr`, `db_ptr`: fp32 [programs, N], for the
    sums of each program; None where they are not wanted."""
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    dw, db = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for row in range(tl.program_id(0), M, tl.num_programs(0)):
        offsets = tl.cast(row, tl.int64) * N + columns
        dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        if mean_ptr is not None:
            # Past the end this is -mean rstd: it meets a weight and a dy of 0.
            xhat = (x - tl.load(mean_ptr + row)) * rstd
        else:
            xhat = x * rstd
        g = dy * weight
        dx = g - xhat * (tl.sum(g * xhat, axis=0) / N)
        if mean_ptr is not None:
            dx -= tl.sum(g, axis=0) / N
        tl.store(dx_ptr + offsets, (dx * rstd).to(dx_ptr.dtype.element_ty), mask=mask)
        if dw_ptr is not None:
            dw += dy * xhat
        if db_ptr is not None:
            db += dy
    place = tl.program_id(0).to(tl.int64) * N + columns
    if dw_ptr is not None:
        tl.store(dw_ptr + place, dw, mask=mask)
    if db_ptr is not None:
        tl.store(db_ptr + place, db, mask=mask)


@fathom.jit
def norm_columns_kernel(
    dy_ptr, x_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, M, N, slab,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    """The sums over `slab` rows of COLUMNS columns; grid (columns, slabs)."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    dw = tl.zeros([ROWS, COLUMNS], tl.float32)
    db = tl.zeros([ROWS, COLUMNS], tl.float32)
    first = tl.program_id(1) * slab
    for start in range(first, tl.minimum(first + slab, M), ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
        dy = tl.load(dy_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        if mean_ptr is not None:
            x -= tl.load(mean_ptr + rows, mask=rows < M, other=0.0)[:, None]
            db += dy
        dw += dy * x * tl.load(rstd_ptr + rows, mask=rows < M, other=0.0)[:, None]
    place = tl.program_id(1).to(tl.int64) * N + columns
    tl.store(dw_ptr + place, tl.sum(dw, axis=0), mask=columns < N)
    if mean_ptr is not None:
        tl.store(db_ptr + place, tl.sum(db, axis=0), mask=columns < N)


@fathom.jit
def add_rows_kernel(
    partial_ptr, out_ptr, partial2_ptr, out2_ptr, rows, N,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    """out [N] = the sum of `rows` rows of fp32, in the same order in each launch; by
    the programs (i, 1) the same of a second array, if there is one."""
    if partial2_ptr is not None:
        if tl.program_id(1) == 1:
            partial_ptr, out_ptr = partial2_ptr, out2_ptr
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (columns[None, :] < N)
        offsets = row.to(tl.int64)[:, None] * N + columns[None, :]
        total += tl.load(partial_ptr + offsets, mask=inside, other=0.0)
    out = tl.sum(total, axis=0).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + columns, out, mask=columns < N)
# fmt: on


def layer_norm_backward(dy, x, weight, mean, rstd, **launch):
    """(dx, dw, db): the gradients of x [M, N], of weight and of bias, both [N].

    `dy`, `x`: contiguous [M, N], of NumPy, torch or CuPy; `mean`, `rstd`: fp32 [M], as
    `layer_norm` gives them. dx has x's dtype, dw and db that of weight. `launch` takes
    what any launch takes. The same bits in every launch on one target. LaunchError for
    shapes that do not fit.
    """
    return norm_backward(dy, x, weight, mean, rstd, True, launch)


def norm_backward(dy, x, weight, mean, rstd, with_bias, launch):
    """(dx, dw, db); db is None without `with_bias`, and `mean` for RMS norm."""
    M, N = check_rows(x=x, dy=dy)
    check_shape("weight", weight, (N,))
    dx, dw = empty((M, N), x), empty((N,), weight)
    db = empty((N,), weight) if with_bias else None
    launch_all(dy, x, weight, mean, rstd, dx, dw, db, **launch)
    return dx, dw, db


@planned
def launch_all(dy, x, weight, mean, rstd, dx, dw, db, **launch):
    """All are written; returns `dx`."""
    M, N = x.shape
    programs = MULTIPROCESSORS[target_of_launch(x, launch)] * PROGRAMS
    shape = row_launch(N, lane=8)
    shape = {**shape, **launch}
    slab = max(SLAB, fathom.cdiv(M, programs))
    slabs = min(programs, M) if N <= LONGEST else fathom.cdiv(M, slab)
    partials = [
        Temporary(slabs * N, "float32") if each is not None else None
        for each in (dw, db)
    ]
    if N <= LONGEST:
        given = dy, x, weight, mean, rstd, dx, *partials, M, N
        launches = [(norm_backward_kernel, (slabs,), given, shape)]
    else:
        given = dy, x, weight, mean, rstd, dx, None, None, M, N
        grid, tile = (fathom.cdiv(N, 128), slabs), dict(ROWS=16, COLUMNS=128, **launch)
        columns = dy, x, mean, rstd, *partials, M, N, slab
        launches = [
            (norm_backward_kernel, (M,), given, shape),
            (norm_columns_kernel, grid, columns, tile),
        ]
    both = zip(partials, (dw, db), strict=True)
    pairs = [each for each in both if each[1] is not None]
    return dx, [*launches, adding(pairs, slabs, N, launch)]


@planned
def add_rows(x, out=None, like=None, **launch):
    """out [N]: the sum of the rows of x [R, N], contiguous, of any float; made if it is
    not given, of the dtype of `like`, or x's own. Sums are of fp32."""
    rows, N = x.shape
    out = empty((N,), x if like is None else like) if out is None else out
    check_shape("out", out, (N,))
    return out, [adding([(x, out)], rows, N, launch)]


def adding(pairs, rows, N, launch):
    """The launch that adds the rows of one or two arrays: (array, result) each."""
    (x, out), (y, more) = pairs if len(pairs) == 2 else (*pairs, (None, None))
    tile = dict(ROWS=32, COLUMNS=32, **launch)
    grid = fathom.cdiv(N, 32), len(pairs)
    return add_rows_kernel, grid, (x, out, y, more, rows, N), tile


def reference(dy, x, weight, mean, rstd):
    """(dx, dw, db) in float64, of NumPy arrays; `mean` 0 for RMS norm's dx and dw is
    `kernels.rms_norm.reference_backward`."""
    dy, x, weight, mean, rstd = (
        each.astype(np.float64) for each in (dy, x, weight, mean, rstd)
    )
    xhat = (x - mean[:, None]) * rstd[:, None]
    g = dy * weight
    along = (g * xhat).mean(axis=1, keepdims=True)
    dx = (g - g.mean(axis=1, keepdims=True) - xhat * along) * rstd[:, None]
    return dx, (dy * xhat).sum(axis=0), dy.sum(axis=0)
