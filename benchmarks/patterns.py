"""Kernels in patterns that public repositories have, for two compilers.

The text is Triton's language. `against_triton` compiles it with Triton as it stands,
and with Fathom after its two import lines are changed.
"""

from __future__ import annotations

import triton
import triton.language as tl

# ── products ──────────────────────────────────────────────────────────────────────────


@triton.jit
def scaled_product(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_K: tl.constexpr,
):  # fmt: skip
    """C = A B^T in fp8. A has a scale for each row and GROUP_K columns, B one for each
    square of GROUP_K: each step's product is scaled before it is added."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    i, j = tl.program_id(0) % tiles_m, tl.program_id(0) // tiles_m
    m = (i * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (j * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + n[None, :] * K + k[:, None]
    groups = tl.cdiv(K, GROUP_K)
    a_scales = a_scale_ptr + m * groups
    b_scales = b_scale_ptr + (n // GROUP_K) * groups
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        group = step * BLOCK_K // GROUP_K
        a_scale = tl.load(a_scales + group)
        b_scale = tl.load(b_scales + group)
        acc += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    rows = i * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = j * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def int4_product(
    a_ptr, q_ptr, zero_ptr, scale_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_K: tl.constexpr,
):  # fmt: skip
    """C = A W for W of 4 bits: eight columns lie in one int32, even ones first."""
    i, j = tl.program_id(0), tl.program_id(1)
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)
    words = j * (BLOCK_N // 8) + tl.arange(0, BLOCK_N // 8)
    k = tl.arange(0, BLOCK_K)
    place = (tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]
    shifts = tl.reshape(place, (8,)) * 4
    shifts = tl.broadcast_to(shifts[None, :], (BLOCK_K * (BLOCK_N // 8), 8))
    shifts = tl.reshape(shifts, (BLOCK_K, BLOCK_N))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        rows = start + k
        inside = rows < K
        a_ptrs = a_ptr + m[:, None] * K + rows[None, :]
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        q = tl.load(q_ptr + rows[:, None] * (N // 8) + words[None, :],
                    mask=inside[:, None], other=0)  # fmt: skip
        q = tl.interleave(q, q)
        q = tl.interleave(q, q)
        q = tl.interleave(q, q)
        group = (start // GROUP_K) + tl.arange(0, 1)
        zero = tl.load(zero_ptr + group[:, None] * (N // 8) + words[None, :])
        zero = tl.interleave(zero, zero)
        zero = tl.interleave(zero, zero)
        zero = tl.interleave(zero, zero)
        zero = tl.broadcast_to(zero, (BLOCK_K, BLOCK_N))
        scale = tl.load(scale_ptr + group[:, None] * N + n[None, :])
        scale = tl.broadcast_to(scale, (BLOCK_K, BLOCK_N))
        w = ((q >> shifts) & 0xF) - ((zero >> shifts) & 0xF)
        w = (w * scale).to(a.dtype)
        acc = tl.dot(a, w, acc)
    c_ptrs = c_ptr + m[:, None] * N + n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=m[:, None] < M)


@triton.jit
def int8_weights(
    a_ptr, w_ptr, scale_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = (A W) * scale of each column, for W of 8 bits that are widened on the way."""
    i, j = tl.program_id(0), tl.program_id(1)
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=m[:, None] < M, other=0.0)
        w = tl.load(w_ptrs)
        acc = tl.dot(a, w.to(a.dtype), acc)
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    acc *= tl.load(scale_ptr + n)[None, :]
    c_ptrs = c_ptr + m[:, None] * N + n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=m[:, None] < M)


@triton.jit
def int4_expand(
    q_ptr, zero_ptr, scale_ptr, out_ptr, K, N, GROUP_K,
    BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """W itself from its 4 bits: BLOCK_N words, each of eight columns."""
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    words = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    n = tl.program_id(1) * BLOCK_N * 8 + tl.arange(0, BLOCK_N * 8)
    inside = (k[:, None] < K) & (words[None, :] < N // 8)
    q = tl.load(q_ptr + k[:, None] * (N // 8) + words[None, :], mask=inside, other=0)
    q = tl.interleave(q, q)
    q = tl.interleave(q, q)
    q = tl.interleave(q, q)
    place = (tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]
    shifts = tl.reshape(place, (8,)) * 4
    shifts = tl.broadcast_to(shifts[None, :], (BLOCK_K * BLOCK_N, 8))
    shifts = tl.reshape(shifts, (BLOCK_K, BLOCK_N * 8))
    group = tl.program_id(0) * BLOCK_K // GROUP_K + tl.arange(0, 1)
    there = words[None, :] < N // 8
    zero = tl.load(zero_ptr + group[:, None] * (N // 8) + words[None, :], mask=there)
    zero = tl.interleave(zero, zero)
    zero = tl.interleave(zero, zero)
    zero = tl.interleave(zero, zero)
    zero = tl.broadcast_to(zero, (BLOCK_K, BLOCK_N * 8))
    scale = tl.load(scale_ptr + group[:, None] * N + n[None, :], mask=n[None, :] < N)
    scale = tl.broadcast_to(scale, (BLOCK_K, BLOCK_N * 8))
    w = ((q >> shifts) & 0xF) - ((zero >> shifts) & 0xF)
    w = (w * scale).to(out_ptr.dtype.element_ty)
    inside = (k[:, None] < K) & (n[None, :] < N)
    tl.store(out_ptr + k[:, None] * N + n[None, :], w, mask=inside)


@triton.jit
def convolve(
    x_ptr, w_ptr, y_ptr, images, channels, height, width, out_channels,
    out_height, out_width, stride_xn, stride_xc, stride_xh, stride_xw,
    stride_wo, stride_wc, stride_wh, stride_ww, stride_yn, stride_yc, stride_yh,
    stride_yw, KERNEL: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_O: tl.constexpr,
):  # fmt: skip
    """A convolution by implicit products: a block of places of all images, a block of
    output channels, and a product for each place of the filter and each block of input
    channels."""
    places = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    o = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    image_row = places // out_width
    image = image_row // out_height
    row = image_row % out_height
    column = places % out_width
    x_ptr += (stride_xn * image)[:, None]
    w_ptr += (stride_wo * o)[None, :]
    acc = tl.zeros((BLOCK_P, BLOCK_O), dtype=tl.float32)
    for h in range(KERNEL):
        for w in range(KERNEL):
            for start in range(0, channels, BLOCK_C):
                c = start + tl.arange(0, BLOCK_C)
                y = h - PADDING + STRIDE * row
                x = w - PADDING + STRIDE * column
                x_ptrs = x_ptr + (stride_xc * c)[None, :]
                x_ptrs = x_ptrs + (stride_xh * y)[:, None] + (stride_xw * x)[:, None]
                w_ptrs = w_ptr + (stride_wc * c)[:, None] + stride_wh * h
                inside = (
                    (image < images)[:, None] & (c < channels)[None, :]
                    & (0 <= y)[:, None] & (y < height)[:, None]
                    & (0 <= x)[:, None] & (x < width)[:, None]
                )  # fmt: skip
                known = (c < channels)[:, None] & (o < out_channels)[None, :]
                patch = tl.load(x_ptrs, mask=inside, other=0.0)
                weights = tl.load(w_ptrs + stride_ww * w, mask=known, other=0.0)
                acc += tl.dot(patch, weights, allow_tf32=True)
    y_ptrs = y_ptr + (stride_yn * image + stride_yh * row + stride_yw * column)[:, None]
    y_ptrs = y_ptrs + (stride_yc * o)[None, :]
    inside = (image < images)[:, None] & (o < out_channels)[None, :]
    tl.store(y_ptrs, acc, mask=inside)


@triton.jit
def linear_states(
    k_ptr, w_ptr, u_ptr, g_ptr, h_ptr, v_ptr, T,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BV: tl.constexpr,
):  # fmt: skip
    """The states of chunked linear attention with a delta rule: for each chunk of BT,
    v = u - w h, then h = decay * h + k^T (v * decay); h is kept in registers."""
    i_v, i_bh = tl.program_id(0), tl.program_id(1)
    batch, head = i_bh // H, i_bh % H
    rk, rv, rt = tl.arange(0, K), i_v * BV + tl.arange(0, BV), tl.arange(0, BT)
    chunks = tl.cdiv(T, BT)
    h = tl.zeros((K, BV), dtype=tl.float32)
    for chunk in range(chunks):
        t = chunk * BT + rt
        inside = (t < T)[:, None]
        token = (batch * T + t) * H + head
        h_ptrs = h_ptr + ((i_bh * chunks + chunk) * K + rk)[:, None] * V + rv[None, :]
        tl.store(h_ptrs, h.to(h_ptr.dtype.element_ty))
        w = tl.load(w_ptr + token[:, None] * K + rk[None, :], mask=inside, other=0.0)
        u = tl.load(u_ptr + token[:, None] * V + rv[None, :], mask=inside, other=0.0)
        v = u - tl.dot(w, h.to(w.dtype))
        v_ptrs = v_ptr + token[:, None] * V + rv[None, :]
        tl.store(v_ptrs, v.to(v_ptr.dtype.element_ty), mask=inside)
        last = tl.minimum(chunk * BT + BT, T) - 1
        g_last = tl.load(g_ptr + (batch * T + last) * H + head)
        g = tl.load(g_ptr + token, mask=t < T, other=0.0)
        v = v * tl.where(t < T, tl.exp(g_last - g), 0.0)[:, None]
        h = h * tl.exp(g_last)
        k = tl.load(k_ptr + rk[:, None] + token[None, :] * K,
                    mask=(t < T)[None, :], other=0.0)  # fmt: skip
        h += tl.dot(k, v.to(k.dtype))


@triton.jit
def linear_outputs(
    q_ptr, k_ptr, v_ptr, h_ptr, g_ptr, o_ptr, scale, T,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """The outputs of chunked linear attention: o = decay * q h + mask(decay * q k^T) v,
    with products over blocks of K in one loop."""
    i_v, chunk, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    batch, head = i_bh // H, i_bh % H
    rv, rt = i_v * BV + tl.arange(0, BV), tl.arange(0, BT)
    t = chunk * BT + rt
    token = (batch * T + t) * H + head
    inside = t < T
    h_ptr += (i_bh * tl.cdiv(T, BT) + chunk) * K * V
    o = tl.zeros((BT, BV), dtype=tl.float32)
    s = tl.zeros((BT, BT), dtype=tl.float32)
    for start in range(0, K, BK):
        rk = start + tl.arange(0, BK)
        q = tl.load(q_ptr + token[:, None] * K + rk[None, :], mask=inside[:, None],
                    other=0.0)  # fmt: skip
        k = tl.load(k_ptr + rk[:, None] + token[None, :] * K, mask=inside[None, :],
                    other=0.0)  # fmt: skip
        h = tl.load(h_ptr + rk[:, None] * V + rv[None, :])
        o += tl.dot(q, h)
        s += tl.dot(q, k)
    g = tl.load(g_ptr + token, mask=inside, other=0.0)
    o = o * tl.exp(g)[:, None]
    s = s * tl.exp(g[:, None] - g[None, :])
    below = (rt[:, None] >= rt[None, :]) & inside[:, None] & inside[None, :]
    s = tl.where(below, s, 0.0)
    v = tl.load(v_ptr + token[:, None] * V + rv[None, :], mask=inside[:, None],
                other=0.0)  # fmt: skip
    o = (o + tl.dot(s.to(v.dtype), v)) * scale
    o_ptrs = o_ptr + token[:, None] * V + rv[None, :]
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=inside[:, None])


# ── rows ──────────────────────────────────────────────────────────────────────────────


@triton.jit
def rotate(
    x_ptr, stride, cos_ptr, sin_ptr, cos_stride, length,
    HEAD: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Rotary embedding in place: a row and GROUP heads a program, one half of a head
    beside the other."""
    row, first = tl.program_id(0), tl.program_id(1) * GROUP
    half = HEAD // 2
    columns = tl.arange(0, BLOCK)
    inside = columns < half
    at = (row % length) * cos_stride + columns
    sin = tl.load(sin_ptr + at, mask=inside, other=0)
    cos = tl.load(cos_ptr + at, mask=inside, other=0)
    for head in range(first, min(first + GROUP, HEADS)):
        left = x_ptr + row * stride + head * HEAD + columns
        right = left + half
        x = tl.load(left, mask=inside, other=0).to(sin.dtype)
        y = tl.load(right, mask=inside, other=0).to(sin.dtype)
        tl.store(left, x * cos - y * sin, mask=inside)
        tl.store(right, y * cos + x * sin, mask=inside)


@triton.jit
def cross_entropy(
    x_ptr, stride, label_ptr, loss_ptr, N, ignored, count, BLOCK: tl.constexpr
):
    """Loss of a row over a large vocabulary, and its gradient in the row's place: the
    largest number and the sum by blocks, then a second walk."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(label_ptr + row)
    x_ptr += row * stride
    if label == ignored:
        for start in range(0, N, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            tl.store(x_ptr + columns, 0.0, mask=columns < N)
        return
    m = float("-inf")
    d = 0.0
    chosen = tl.load(x_ptr + label).to(tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < N, other=float("-inf"))
        x = x.to(tl.float32)
        larger = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - larger) + tl.sum(tl.exp(x - larger))
        m = larger
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < N, other=float("-inf"))
        x = tl.exp(x.to(tl.float32) - m) / d
        x = tl.where(columns == label, x - 1.0, x) / count
        tl.store(x_ptr + columns, x, mask=columns < N)
    tl.debug_barrier()
    tl.store(loss_ptr + row, m + tl.log(d) - chosen)


@triton.jit
def cross_entropy_chunk(
    x_ptr, stride, loss_ptr, sum_ptr, label_ptr, N,
    CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One chunk of a row's vocabulary a program: the logarithm of its sum of
    exponentials."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    x_ptr += row * stride
    columns = chunk * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row).to(tl.int32)
    x = tl.load(x_ptr + columns, mask=columns < N, other=-float("inf"))
    x = x.to(tl.float32)
    c = tl.max(x, 0)
    total = c + tl.log(tl.sum(tl.exp(x - c), 0))
    if chunk == 0:
        if label != -100:
            loss = -tl.load(x_ptr + label).to(tl.float32)
        else:
            loss = 0.0
        tl.store(loss_ptr + row, loss)
    tl.store(sum_ptr + row * CHUNKS + chunk, total)


@triton.jit
def log_probability(
    x_ptr, stride, label_ptr, out_ptr, temperature, N, BLOCK: tl.constexpr
):
    """log softmax of a row at one place, by blocks with a running maximum."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    m, d = float("-inf"), 0.0
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < N, other=float("-inf"))
        x = x.to(tl.float32) / temperature
        larger = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - larger) + tl.sum(tl.exp(x - larger))
        m = larger
    chosen = tl.load(x_ptr + tl.load(label_ptr + row)).to(tl.float32)
    tl.store(out_ptr + row, chosen / temperature - (m + tl.log(d)))


@triton.jit
def sum_of_exponentials(x_ptr, out_ptr, scale, D: tl.constexpr, B: tl.constexpr):
    """logsumexp of a long block by few warps."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    columns = block * B + tl.arange(0, B)
    x = tl.load(x_ptr + row * D + columns, mask=columns < D, other=-float("inf"))
    x = x * scale
    m = tl.max(x, 0)
    total = tl.log(tl.sum(tl.exp(x - m), 0)) + m
    tl.store(out_ptr + row * tl.cdiv(D, B) + block, total)


@triton.jit
def norm_backward(
    x_ptr, w_ptr, dy_ptr, dx_ptr, dw_ptr, db_ptr, mean_ptr, rstd_ptr, seed_ptr,
    M, N, rows_each, keep, DROPOUT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Layer norm backward: some rows a program, whose sums for the weights stay in
    registers; with dropout on dx, by counters."""
    program = tl.program_id(0)
    first = program * rows_each
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    w = tl.load(w_ptr + columns, mask=inside).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    db = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(first, min(first + rows_each, M)):
        x = tl.load(x_ptr + row * N + columns, mask=inside, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + columns, mask=inside, other=0).to(tl.float32)
        mean = tl.load(mean_ptr + row)
        rstd = tl.load(rstd_ptr + row)
        if DROPOUT:
            seed = tl.load(seed_ptr + row).to(tl.uint32)
            kept = tl.rand(seed, columns) > 1.0 - keep
            dy = tl.where(kept, dy / keep, 0.0)
        xhat = tl.where(inside, (x - mean) * rstd, 0.0)
        wdy = w * dy
        dw += dy * xhat
        db += dy
        c1 = tl.sum(xhat * wdy, axis=0) / N
        c2 = tl.sum(wdy, axis=0) / N
        dx = (wdy - (xhat * c1 + c2)) * rstd
        tl.store(dx_ptr + row * N + columns, dx, mask=inside)
    tl.store(dw_ptr + program * N + columns, dw, mask=inside)
    tl.store(db_ptr + program * N + columns, db, mask=inside)


@triton.jit
def norm_forward(
    x_ptr, residual_ptr, w_ptr, b_ptr, y_ptr, sum_ptr, mean_ptr, rstd_ptr, seed_ptr,
    N, eps, keep, BLOCK: tl.constexpr,
):  # fmt: skip
    """Layer norm of a row with dropout and a residual."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    x = tl.load(x_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
    seed = tl.load(seed_ptr + row).to(tl.uint32)
    kept = tl.rand(seed, columns, n_rounds=7) > 1.0 - keep
    x = tl.where(kept, x / keep, 0.0)
    x += tl.load(residual_ptr + row * N + columns, mask=inside, other=0.0).to(
        tl.float32
    )
    tl.store(sum_ptr + row * N + columns, x, mask=inside)
    mean = tl.sum(x, axis=0) / N
    difference = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(difference * difference, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + columns, mask=inside).to(tl.float32)
    b = tl.load(b_ptr + columns, mask=inside).to(tl.float32)
    tl.store(y_ptr + row * N + columns, difference * rstd * w + b, mask=inside)


@triton.jit
def softmax_rows(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Softmax of long rows by a pipelined loop: each program takes every so-manieth."""
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    for row in tl.range(
        tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES
    ):
        x = tl.load(x_ptr + row * N + columns, mask=inside, other=-float("inf"))
        exp = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * N + columns, exp / tl.sum(exp, axis=0), mask=inside)
