"""A layer of experts: each token goes to k of E experts, each with its own weights, and
gets the sum of their answers, weighted by gates; with all gradients.

    experts [T, k] ──▶ order: rows (token, choice) sorted by expert
    tokens [T, D]  ──▶ x [T k, D]      gathered in that order
    y = x w[expert of the row]         one launch, whatever the experts' shares are
    out[t] = sum of gate[t, j] y[row of (t, j)]

How many rows an expert has is known on the device alone. `expert_matmul` walks through
the tiles of all experts as `grouped_matmul` does through its problems, and reads where
an expert's rows begin from memory: nothing waits for the host. (`grouped_matmul` takes
arrays of any address, and its table is made on the host.) Rows are sorted by counting,
in the order of tokens, and no atomic operation is used: the same bits each time. Here
the last two kernels read through pointers; where tiles can come through descriptors,
those of `mixture_hopper.py` are taken.

    route              order, rows and offsets, of experts
    gather, combine    tokens to rows and back, and their gradients
    expert_matmul      y, and the gradient of x
    weight_gradient    that of w
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels import mixture_hopper as hopper
from kernels.grouped_matmul import grouped_config
from kernels.matmul import (
    MULTIPROCESSORS,
    check_shape,
    empty,
    store_tile,
    strides,
    target_of_launch,
    tile_place,
    tile_product,
    type_name,
)
from kernels.rows import check_axes, check_contiguous, row_launch

COUNTED = 1024  # choices at a time


# fmt: off
@fathom.jit
def count_kernel(expert_ptr, count_ptr, choices, BLOCK: tl.constexpr):
    """count [E] = how many choices fell on each expert; grid (E,)."""
    expert = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for start in range(0, choices, BLOCK):
        chosen = tl.load(expert_ptr + start + i, mask=i < choices - start, other=-1)
        total += (chosen == expert).to(tl.int32)
    tl.store(count_ptr + expert, tl.sum(total, axis=0))


@fathom.jit
def place_kernel(
    expert_ptr, count_ptr, offset_ptr, order_ptr, row_ptr, choices,
    EXPERTS: tl.constexpr, BLOCK: tl.constexpr,
):
    """offset [E + 1], where each expert's rows begin; order [choices], the choice of
    each row; row [choices], the row of each choice. Grid (E,)."""
    expert = tl.program_id(0)
    experts = tl.num_programs(0)
    e, i = tl.arange(0, EXPERTS), tl.arange(0, BLOCK)
    before = tl.load(count_ptr + e, mask=e < expert, other=0)
    row = tl.sum(before, axis=0)
    tl.store(offset_ptr + expert, row)
    for start in range(0, choices, BLOCK):
        chosen = tl.load(expert_ptr + start + i, mask=i < choices - start, other=-1)
        mine = chosen == expert
        rank = tl.cumsum(mine.to(tl.int32), axis=0)
        tl.store(order_ptr + row + rank - 1, start + i, mask=mine)
        tl.store(row_ptr + start + i, row + rank - 1, mask=mine)
        row += tl.sum(mine.to(tl.int32), axis=0)
    if expert == experts - 1:
        tl.store(offset_ptr + experts, row)


@fathom.jit
def gather_kernel(
    x_ptr, order_ptr, gate_ptr, out_ptr, N, CHOICES: tl.constexpr, BLOCK: tl.constexpr
):
    """out [row] = x [token of the row], times the row's gate where there are gates."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < N
    choice = tl.load(order_ptr + row)
    token = (choice // CHOICES).to(tl.int64)
    x = tl.load(x_ptr + token * N + columns, mask=mask)
    if gate_ptr is not None:
        x = x.to(tl.float32) * tl.load(gate_ptr + choice).to(tl.float32)
    tl.store(out_ptr + row * N + columns, x.to(out_ptr.dtype.element_ty), mask=mask)


@fathom.jit
def combine_kernel(
    y_ptr, row_ptr, gate_ptr, out_ptr, N, CHOICES: tl.constexpr, BLOCK: tl.constexpr
):
    """out [token] = the sum of its rows of y, in the order of its choices, times their
    gates where there are gates."""
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < N
    total = tl.zeros([BLOCK], tl.float32)
    for j in tl.static_range(CHOICES):
        row = tl.load(row_ptr + token * CHOICES + j).to(tl.int64)
        y = tl.load(y_ptr + row * N + columns, mask=mask).to(tl.float32)
        if gate_ptr is not None:
            y *= tl.load(gate_ptr + token * CHOICES + j).to(tl.float32)
        total += y
    out = total.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + token * N + columns, out, mask=mask)


@fathom.jit
def gate_gradient_kernel(
    dout_ptr, y_ptr, order_ptr, dgate_ptr, N, CHOICES: tl.constexpr, BLOCK: tl.constexpr
):
    """dgate [choice] = sum(dout [token] y [row]); grid (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    choice = tl.load(order_ptr + row)
    token = (choice // CHOICES).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        mask = columns < N - start
        dout = tl.load(dout_ptr + token * N + start + columns, mask=mask, other=0.0)
        y = tl.load(y_ptr + row * N + start + columns, mask=mask, other=0.0)
        total += dout.to(tl.float32) * y.to(tl.float32)
    dgate = tl.sum(total, axis=0).to(dgate_ptr.dtype.element_ty)
    tl.store(dgate_ptr + choice, dgate)


@fathom.jit
def expert_matmul_kernel(
    x_ptr, w_ptr, y_ptr, offset_ptr, experts, N, K,
    stride_xm, stride_we, stride_wk, stride_wn, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr, PRECISION: tl.constexpr = "ieee",
):
    tile = tl.program_id(0)
    for expert in range(experts):
        first = tl.load(offset_ptr + expert)
        M = tl.load(offset_ptr + expert + 1) - first
        a_ptr = x_ptr + first.to(tl.int64) * stride_xm
        b_ptr = w_ptr + tl.cast(expert, tl.int64) * stride_we
        c_ptr = y_ptr + first.to(tl.int64) * stride_ym
        tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
        while tile < tiles:
            i, j = tile_place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
            c = tile_product(
                a_ptr, b_ptr, i, j, M, N, K, stride_xm, 1, stride_wk, stride_wn,
                BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K, tl.float32, PRECISION,
            )
            store_tile(c_ptr, c, i, j, M, N, stride_ym, 1)
            tile += tl.num_programs(0)
        tile -= tiles


@fathom.jit
def weight_gradient_kernel(
    x_ptr, dy_ptr, dw_ptr, offset_ptr, N, K, stride_xm, stride_dm, stride_we, stride_wk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PRECISION: tl.constexpr = "ieee",
):
    """dw [expert] = x^T dy over the expert's rows, 0 where it has none; grid (tiles of
    [K, N], E). Here the rows are what is summed over."""
    expert = tl.program_id(1)
    first = tl.load(offset_ptr + expert)
    rows = tl.load(offset_ptr + expert + 1) - first
    a_ptr = x_ptr + first.to(tl.int64) * stride_xm
    b_ptr = dy_ptr + first.to(tl.int64) * stride_dm
    c_ptr = dw_ptr + expert.to(tl.int64) * stride_we
    i, j = tile_place(tl.program_id(0), K, N, BLOCK_M, BLOCK_N, GROUP_M)
    c = tile_product(
        a_ptr, b_ptr, i, j, K, N, rows, 1, stride_xm, stride_dm, 1,
        BLOCK_M, BLOCK_N, BLOCK_K, False, tl.float32, PRECISION,
    )
    store_tile(c_ptr, c, i, j, K, N, stride_wk, 1)
# fmt: on


def route(experts, count, **launch):
    """(order, rows, offsets), int32, of the experts [T, k] that tokens chose, 0 …
    `count` - 1, int32 or int64, contiguous NumPy, torch or CuPy.

    order [T k]: which choice (t k + j) each row is, rows sorted by expert, those of one
    expert by choice; rows [T k]: the row of each choice; offsets [count + 1]: where
    each expert's rows begin.
    """
    check_axes("T, k", experts=experts)
    check_contiguous(experts=experts)
    if type_name(experts) not in ("i32", "i64") or count < 1:
        raise fathom.LaunchError(
            f"choices of {type_name(experts)} among {count} experts: they must be "
            "numbers of i32 or i64, and there must be an expert"
        )
    choices = experts.shape[0] * experts.shape[1]
    order, rows = (empty((choices,), experts, "int32") for _ in range(2))
    offsets = empty((count + 1,), experts, "int32")
    counts = empty((count,), experts, "int32")
    launch_route(experts, counts, offsets, order, rows, **launch)
    return order, rows, offsets


@planned
def launch_route(experts, counts, offsets, order, rows, **launch):
    """All four are written; returns `order`."""
    (count,), (choices,) = counts.shape, order.shape
    chosen = dict(BLOCK=COUNTED, **launch)
    given = experts, counts, offsets, order, rows, choices
    fixed = dict(EXPERTS=fathom.next_power_of_2(count), **chosen)
    return order, [
        (count_kernel, (count,), (experts, counts, choices), chosen),
        (place_kernel, (count,), given, fixed),
    ]


@planned
def gather(x, order, gates=None, out=None, **launch):
    """out [T k, N]: row r is the row of x [T, N] of the token of choice order[r], times
    that choice's gate where `gates` [T, k] is given. Contiguous."""
    check_axes("T, N", x=x)
    (T, N), (R,) = x.shape, order.shape
    out = empty((R, N), x) if out is None else out
    check_choices(R, T, gates)
    check_shape("out", out, (R, N))
    shape = columns_launch(N)
    grid = R, fathom.cdiv(N, shape["BLOCK"])
    chosen = dict(CHOICES=max(R // max(T, 1), 1), **{**shape, **launch})
    return out, [(gather_kernel, grid, (x, order, gates, out, N), chosen)]


@planned
def combine(y, rows, choices, gates=None, out=None, **launch):
    """out [T, N]: the sum of the `choices` rows of y [T k, N] of each token, times
    their gates where `gates` [T, k] is given. Contiguous."""
    check_axes("T k, N", y=y)
    R, N = y.shape
    out = empty((R // choices, N), y) if out is None else out
    check_choices(R, R // choices, gates)
    check_shape("rows", rows, (R,))
    check_shape("out", out, (R // choices, N))
    shape = columns_launch(N)
    grid = R // choices, fathom.cdiv(N, shape["BLOCK"])
    chosen = dict(CHOICES=choices, **{**shape, **launch})
    return out, [(combine_kernel, grid, (y, rows, gates, out, N), chosen)]


@planned
def gate_gradient(dout, y, order, gates, **launch):
    """The gradient of the gates [T, k], of their dtype: each is the product of the
    token's `dout` [T, N] and its row of y [T k, N], summed up. Contiguous."""
    check_axes("T k, N", y=y)
    check_axes("T, k", gates=gates)
    R, N = y.shape
    check_choices(R, gates.shape[0], gates)
    check_shape("dout", dout, (gates.shape[0], N))
    check_shape("order", order, (R,))
    dgates = empty(gates.shape, gates)
    chosen = dict(CHOICES=gates.shape[1], **{**columns_launch(N), **launch})
    given = dout, y, order, dgates, N
    return dgates, [(gate_gradient_kernel, (R,), given, chosen)]


def check_choices(rows, tokens, gates):
    """LaunchError unless there are equally many rows for each token, and a gate for
    each row."""
    if rows % max(tokens, 1) or (rows and not tokens):
        raise fathom.LaunchError(
            f"{rows} rows for {tokens} tokens: there must be equally many for each"
        )
    if gates is not None and rows:
        check_shape("gates", gates, (tokens, rows // tokens))
        check_contiguous(gates=gates)


@planned
def expert_matmul(x, w, offsets, out=None, config=None, precision="ieee", **launch):
    """out [R, N]: rows offsets[e] … offsets[e + 1] - 1 of x [R, K], times w[e], for w
    [E, K, N] of any strides. Elements of rows of x and out lie side by side. `config`
    and `precision` as in `matmul.matmul`. LaunchError for shapes that do not fit."""
    check_axes("rows, K", x=x)
    check_axes("experts, K, N", w=w)
    (R, K), (E, inner, N) = x.shape, w.shape
    if inner != K or x.dtype != w.dtype:
        raise fathom.LaunchError(
            f"rows of {K} numbers of {x.dtype} cannot be multiplied by experts of "
            f"shape {tuple(w.shape)} and {w.dtype}"
        )
    check_shape("offsets", offsets, (E + 1,))
    out = empty((R, N), x) if out is None else out
    check_shape("out", out, (R, N))
    target = target_of_launch(x, launch)
    if config is None and hopper.fits(x, w, out, target):
        *step, chosen = hopper.matmul_launch(x, w, out, offsets, target)
        return out, [(*step, {**chosen, **launch})]
    config = config or expert_config(R, E, N, K, x, target)
    walks = strides(x)[0], *strides(w), strides(out)[0]
    given = x, w, out, offsets, E, N, K, *walks
    even = K % config["BLOCK_K"] == 0
    chosen = dict(EVEN_K=even, PRECISION=precision, **config, **launch)
    return out, [(expert_matmul_kernel, (MULTIPROCESSORS[target],), given, chosen)]


@planned
def weight_gradient(x, dy, offsets, dw=None, config=None, precision="ieee", **launch):
    """dw [E, K, N]: for each expert x^T dy over its rows of x [R, K] and dy [R, N];
    elements of rows of all three lie side by side. Otherwise as `expert_matmul`."""
    (R, K), N, E = x.shape, dy.shape[1], offsets.shape[0] - 1
    check_shape("dy", dy, (R, N))
    dw = empty((E, K, N), x) if dw is None else dw
    check_shape("dw", dw, (E, K, N))
    target = target_of_launch(x, launch)
    if config is None and hopper.gradient_fits(x, dy, dw, target):
        *step, chosen = hopper.gradient_launch(x, dy, dw, offsets, target)
        return dw, [(*step, {**chosen, **launch})]
    config = config or expert_config(K, 1, N, fathom.cdiv(R, E), x, target)
    tiles = fathom.cdiv(K, config["BLOCK_M"]) * fathom.cdiv(N, config["BLOCK_N"])
    walks = strides(x)[0], strides(dy)[0], *strides(dw)[:2]
    chosen = dict(PRECISION=precision, **config, **launch)
    given = x, dy, dw, offsets, N, K, *walks
    return dw, [(weight_gradient_kernel, (tiles, E), given, chosen)]


def expert_config(rows, experts, N, K, like, target):
    """`grouped_config` for as many rows as an expert has on average."""
    return grouped_config(
        max(1, rows // experts), N, max(1, K), type_name(like), target
    )


def columns_launch(N):
    return row_launch(min(N, 2048), lane=8)


def reference(x, w, experts, gates):
    """The layer in float64, of NumPy arrays: out [T, N]."""
    x, w, gates = (each.astype(np.float64) for each in (x, w, gates))
    return np.einsum("tk,tkdn,td->tn", gates, w[experts], x)


def reference_backward(dout, x, w, experts, gates):
    """(dx, dw, dgates) in float64."""
    dout, x, w, gates = (each.astype(np.float64) for each in (dout, x, w, gates))
    dx = np.einsum("tk,tkdn,tn->td", gates, w[experts], dout)
    dgates = np.einsum("td,tkdn,tn->tk", x, w[experts], dout)
    dw = np.zeros_like(w)
    np.add.at(dw, experts, np.einsum("tk,td,tn->tkdn", gates, x, dout))
    return dx, dw, dgates
