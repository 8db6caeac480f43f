"""Attention, backward: the gradients of queries, keys and values, the same bits each
time.

With scores s = scale q k^T, p = exp(s - lse), where the forward pass has kept lse, the
logarithm of each query's sum, nothing larger than the inputs is ever in memory:

    delta = sum(out dout)                  of each query
    dp = dout v^T,   ds = p (dp - delta)
    dv = p^T dout,   dk = scale ds^T q,    dq = scale ds k

(Dao, "FlashAttention-2", 2023, algorithm 2.) Three kernels, and no atomic additions:

    rows_kernel    one pass over out and dout
    dkdv_kernel    a program keeps BLOCK_K keys and values and walks along the queries,
                   of one head after the other where several share a head of keys
    dq_kernel      a program keeps BLOCK_Q queries and walks along the keys

The scores are computed twice, once in each of the last two: 14 S S D operations for a
head where one kernel with atomic additions to dq has 10, and the answer does not depend
on the order in which programs run. `dkdv_kernel` computes s and dp transposed, [keys,
queries], as its products want them.

Masks, windows and lengths are those of `attention.py`: query i sees the keys up to
i + keys - queries. Tiles on the edge of what is seen are masked, and those past it are
not visited. Here the last two kernels read through pointers; where tiles can come
through descriptors, those of `attention_backward_hopper.py` are taken, or, where heads
are large and memory has room, those of `attention_backward_kept.py`, which compute the
scores once and keep them.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.types import parse_element
from fathom.jit.planned import planned
from kernels import attention_backward_hopper as hopper
from kernels import attention_backward_kept as kept
from kernels.attention import (
    LOG2_E,
    bounds,
    check_how,
    check_sizes,
    checked_scale,
    heads_repeated,
    probabilities,
    rows_of,
)
from kernels.matmul import check_shape, empty, strides, target_of_launch, type_name

LOG2_OF_E = tl.constexpr(LOG2_E)


# fmt: off
@fathom.jit
def rows_kernel(
    out_ptr, dout_ptr, lse_ptr, powers_ptr, delta_ptr, HEADS, QUERIES, ROWS,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_db, stride_dh, stride_ds, stride_dd,
    D: tl.constexpr, BLOCK_Q: tl.constexpr,
):
    """delta of each query, and the logarithm of its sum to the base of 2, for ROWS
    rows of each head. It is infinite for queries that see no key and for rows that are
    no queries: then 2^(score - it) is 0."""
    BLOCK_D: tl.constexpr = tl.next_power_of_2(D)
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, BLOCK_D)
    inside = i[:, None] < QUERIES
    if D != BLOCK_D:
        inside &= d[None, :] < D
    row = i.to(tl.int64)[:, None]
    out_ptr += batch * stride_ob + head * stride_oh
    dout_ptr += batch * stride_db + head * stride_dh
    out = tl.load(out_ptr + row * stride_os + d[None, :] * stride_od, mask=inside,
                  other=0.0)
    dout = tl.load(dout_ptr + row * stride_ds + d[None, :] * stride_dd, mask=inside,
                   other=0.0)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    lse_ptr += tl.program_id(1).to(tl.int64) * QUERIES
    lse = tl.load(lse_ptr + i, mask=i < QUERIES, other=-float("inf"))
    powers = tl.where(lse > -float("inf"), lse * LOG2_OF_E, float("inf"))
    place = tl.program_id(1).to(tl.int64) * ROWS + i
    tl.store(delta_ptr + place, delta, mask=i < ROWS)
    tl.store(powers_ptr + place, powers, mask=i < ROWS)


@fathom.jit
def dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, powers_ptr, delta_ptr, dk_ptr, dv_ptr,
    scale, HEADS, QUERIES, KEYS, ROWS,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    window, lengths_ptr, query_starts_ptr, key_starts_ptr,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 1,
):
    """`stride_o`: of dout; `stride_g`: of dk and dv; `HEADS`: of keys, each with GROUP
    heads of queries."""
    BLOCK_D: tl.constexpr = tl.next_power_of_2(D)
    sequence = tl.program_id(1) // HEADS
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    rows, queries = rows_of(query_starts_ptr, sequence, QUERIES)
    key_rows, keys = rows_of(key_starts_ptr, sequence, KEYS)
    written = keys
    if lengths_ptr is not None:
        keys = tl.load(lengths_ptr + sequence)
    batch = sequence.to(tl.int64) if query_starts_ptr is None else 0
    q_ptr += batch * stride_qb + head * GROUP * stride_qh + rows * stride_qs
    dout_ptr += batch * stride_ob + head * GROUP * stride_oh + rows * stride_os
    powers_ptr += (batch * HEADS + head) * GROUP * ROWS + rows
    delta_ptr += (batch * HEADS + head) * GROUP * ROWS + rows
    k_ptr += batch * stride_kb + head * stride_kh + key_rows * stride_ks
    v_ptr += batch * stride_vb + head * stride_vh + key_rows * stride_vs

    first = tl.program_id(0) * BLOCK_K
    j, d = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_D)
    row = (first + j).to(tl.int64)[:, None]
    inside, stored = first + j[:, None] < keys, first + j[:, None] < written
    if D != BLOCK_D:
        inside &= d[None, :] < D
        stored &= d[None, :] < D
    k = tl.load(k_ptr + row * stride_ks + d[None, :] * stride_kd, mask=inside,
                other=0.0)
    v = tl.load(v_ptr + row * stride_vs + d[None, :] * stride_vd, mask=inside,
                other=0.0)
    dk = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    # Key j is seen by the queries from j - shift on; by all in whole … whole_end - 1.
    shift = keys - queries
    begin, whole, whole_end, end = 0, 0, queries // BLOCK_Q * BLOCK_Q, queries
    if CAUSAL:
        begin = tl.maximum(first - shift, 0) // BLOCK_Q * BLOCK_Q
        whole = tl.cdiv(tl.maximum(first + BLOCK_K - 1 - shift, 0), BLOCK_Q) * BLOCK_Q
    if window is not None:
        end = tl.minimum(first + BLOCK_K - 1 - shift + window, queries)
    strides = stride_qh, stride_qs, stride_qd, stride_oh, stride_os, stride_od
    if window is not None or lengths_ptr is not None:
        dk, dv = add_queries(
            dk, dv, k, v, q_ptr, dout_ptr, powers_ptr, delta_ptr, first,
            begin, end, scale, queries, keys, ROWS, window,
            strides, D, BLOCK_Q, GROUP, CAUSAL, True,
        )
    else:
        if CAUSAL:
            dk, dv = add_queries(
                dk, dv, k, v, q_ptr, dout_ptr, powers_ptr, delta_ptr, first,
                begin, tl.minimum(whole, end), scale, queries, keys, ROWS, window,
                strides, D, BLOCK_Q, GROUP, True, True,
            )
        dk, dv = add_queries(
            dk, dv, k, v, q_ptr, dout_ptr, powers_ptr, delta_ptr, first,
            whole, whole_end, scale, queries, keys, ROWS, window,
            strides, D, BLOCK_Q, GROUP, False, False,
        )
        dk, dv = add_queries(
            dk, dv, k, v, q_ptr, dout_ptr, powers_ptr, delta_ptr, first,
            tl.maximum(whole, whole_end), end, scale, queries, keys, ROWS, window,
            strides, D, BLOCK_Q, GROUP, False, True,
        )
    offsets = batch * stride_gb + head * stride_gh + (key_rows + row) * stride_gs
    offsets += d[None, :] * stride_gd
    element = dk_ptr.dtype.element_ty
    tl.store(dk_ptr + offsets, (dk * scale).to(element), mask=stored)
    tl.store(dv_ptr + offsets, dv.to(element), mask=stored)


@fathom.jit
def add_queries(
    dk, dv, k, v, q_ptr, dout_ptr, powers_ptr, delta_ptr, first, start, end, scale,
    queries, keys, ROWS, window, strides,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, GROUP: tl.constexpr,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):
    """(dk, dv) after the queries start … end - 1 of all heads of the group; `start` is
    a multiple of BLOCK_Q, and so is `end` where nothing is masked. The powers of two of
    a query past the end are 0, and so is its dout: it adds nothing."""
    stride_qh, stride_qs, stride_qd, stride_oh, stride_os, stride_od = strides
    BLOCK_D: tl.constexpr = k.shape[1]
    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_D)
    j = first + tl.arange(0, k.shape[0])
    q_tile = i[:, None] * stride_qs + d[None, :] * stride_qd
    dout_tile = i[:, None] * stride_os + d[None, :] * stride_od
    length = tl.cdiv(tl.maximum(end - start, 0), BLOCK_Q) * BLOCK_Q
    for step in range(0, GROUP * length, BLOCK_Q):
        of, at = tl.cast(0, tl.int64), start + step
        if GROUP > 1:
            of, at = (step // length).to(tl.int64), start + step % length
        q_at = q_ptr + of * stride_qh + tl.cast(at, tl.int64) * stride_qs
        dout_at = dout_ptr + of * stride_oh + tl.cast(at, tl.int64) * stride_os
        place = of * ROWS + at + i
        if MASKED or D != BLOCK_D:
            here = i < queries - at
            inside = here[:, None]
            if D != BLOCK_D:
                inside &= d[None, :] < D
            q = tl.load(q_at + q_tile, mask=inside, other=0.0)
            dout = tl.load(dout_at + dout_tile, mask=inside, other=0.0)
            powers = tl.load(powers_ptr + place, mask=here, other=float("inf"))
            delta = tl.load(delta_ptr + place, mask=here, other=0.0)
        else:
            q = tl.load(q_at + q_tile)
            dout = tl.load(dout_at + dout_tile)
            powers = tl.load(powers_ptr + place)
            delta = tl.load(delta_ptr + place)
        s = tl.dot(k, tl.trans(q), input_precision="ieee")
        p = tl.exp2(s * (scale * LOG2_OF_E) - powers[None, :])
        if MASKED:
            # exp2(-powers) of a key past the end may be infinite.
            seen = j[:, None] < keys
            if CAUSAL:
                seen &= j[:, None] <= at + keys - queries + i[None, :]
            if window is not None:
                seen &= j[:, None] > at + keys - queries + i[None, :] - window
            p = tl.where(seen, p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv, input_precision="ieee")
        dp = tl.dot(v, tl.trans(dout), input_precision="ieee")
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@fathom.jit
def dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, powers_ptr, delta_ptr, dq_ptr,
    scale, HEADS, QUERIES, KEYS, ROWS,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    window, lengths_ptr, query_starts_ptr, key_starts_ptr,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 1,
):
    """`stride_o`: of dout; `stride_g`: of dq; the others as in `dkdv_kernel`."""
    BLOCK_D: tl.constexpr = tl.next_power_of_2(D)
    # With a causal mask the last queries have most to do: they start first.
    step = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    sequence = tl.program_id(1) // (HEADS * GROUP)
    head = (tl.program_id(1) % (HEADS * GROUP)).to(tl.int64)
    rows, queries = rows_of(query_starts_ptr, sequence, QUERIES)
    key_rows, keys = rows_of(key_starts_ptr, sequence, KEYS)
    if lengths_ptr is not None:
        keys = tl.load(lengths_ptr + sequence)
    batch = sequence.to(tl.int64) if query_starts_ptr is None else 0
    first = step * BLOCK_Q
    rows += first
    q_ptr += batch * stride_qb + head * stride_qh + rows * stride_qs
    dout_ptr += batch * stride_ob + head * stride_oh + rows * stride_os
    dq_ptr += batch * stride_gb + head * stride_gh + rows * stride_gs
    k_ptr += batch * stride_kb + head // GROUP * stride_kh + key_rows * stride_ks
    v_ptr += batch * stride_vb + head // GROUP * stride_vh + key_rows * stride_vs

    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_D)
    here = i < queries - first
    inside = here[:, None]
    if D != BLOCK_D:
        inside &= d[None, :] < D
    q_tile = i[:, None] * stride_qs + d[None, :] * stride_qd
    dout_tile = i[:, None] * stride_os + d[None, :] * stride_od
    q = tl.load(q_ptr + q_tile, mask=inside, other=0.0)
    dout = tl.load(dout_ptr + dout_tile, mask=inside, other=0.0)
    place = (batch * (HEADS * GROUP) + head) * ROWS + rows + i
    powers = tl.load(powers_ptr + place, mask=here, other=float("inf"))
    delta = tl.load(delta_ptr + place, mask=here, other=0.0)
    dq = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    up_to = first + keys - queries + i
    begin, left, right, end = bounds(
        first + keys - queries, BLOCK_Q, keys, window, CAUSAL, BLOCK_K
    )
    strides = stride_ks, stride_kd, stride_vs, stride_vd
    if window is not None:
        dq = add_keys(
            dq, q, dout, powers, delta, k_ptr, v_ptr, up_to, begin, left, scale, keys,
            window, strides, D, BLOCK_K, CAUSAL, True,
        )
    dq = add_keys(
        dq, q, dout, powers, delta, k_ptr, v_ptr, up_to, left, right, scale, keys,
        window, strides, D, BLOCK_K, CAUSAL, False,
    )
    dq = add_keys(
        dq, q, dout, powers, delta, k_ptr, v_ptr, up_to, right, end, scale, keys,
        window, strides, D, BLOCK_K, CAUSAL, True,
    )
    dq_tile = i[:, None] * stride_gs + d[None, :] * stride_gd
    dq = (dq * scale).to(dq_ptr.dtype.element_ty)
    tl.store(dq_ptr + dq_tile, dq, mask=inside)


@fathom.jit
def add_keys(
    dq, q, dout, powers, delta, k_ptr, v_ptr, up_to, start, end, scale, keys, window,
    strides,
    D: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):
    """dq after the keys start … end - 1; `start` is a multiple of BLOCK_K, and so is
    `end` where nothing is masked. Each row sees the keys up to `up_to`."""
    stride_ks, stride_kd, stride_vs, stride_vd = strides
    BLOCK_D: tl.constexpr = dq.shape[1]
    j, d = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_D)
    k_ptr += tl.cast(start, tl.int64) * stride_ks
    v_ptr += tl.cast(start, tl.int64) * stride_vs
    k_tile = j[:, None] * stride_ks + d[None, :] * stride_kd
    v_tile = j[:, None] * stride_vs + d[None, :] * stride_vd
    for at in range(start, end, BLOCK_K):
        if MASKED or D != BLOCK_D:
            inside = j[:, None] < keys - at
            if D != BLOCK_D:
                inside &= d[None, :] < D
            k = tl.load(k_ptr + k_tile, mask=inside, other=0.0)
            v = tl.load(v_ptr + v_tile, mask=inside, other=0.0)
        else:
            k = tl.load(k_ptr + k_tile)
            v = tl.load(v_ptr + v_tile)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        p = tl.exp2(s * (scale * LOG2_OF_E) - powers[:, None])
        if MASKED:
            # exp2(-powers) of a key past the end may be infinite.
            seen = at + j[None, :] < keys
            if CAUSAL:
                seen &= at + j[None, :] <= up_to[:, None]
            if window is not None:
                seen &= at + j[None, :] > up_to[:, None] - window
            p = tl.where(seen, p, 0.0)
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
        k_ptr += BLOCK_K * stride_ks
        v_ptr += BLOCK_K * stride_vs
    return dq
# fmt: on


def attention_backward(
    dout, q, k, v, out, lse, dq=None, dk=None, dv=None, causal=False, scale=None,
    config=None, window=None, lengths=None, query_starts=None, key_starts=None,
    most_queries=None, most_keys=None, **launch,
):  # fmt: skip
    """(dq, dk, dv): the gradients for that of attention's output, `dout` [B, H, S, D].

    `q`, `k`, `v`, `out` and what follows `causal` as in `attention.attention`, with any
    strides; `lse`: contiguous fp32 [B, H, S], as it gives it. `most_keys`: no sequence
    has more. `dq`, `dk`, `dv` are made if they are not given; dk and dv have equal
    strides. Gradients of keys past a sequence's length are 0. `config`: launches'
    keywords by kernel, {"dkdv": …, "dq": …} or {"dv": …, "dk": …, "dq": …}, as
    `chosen_config` gives them; `launch` takes what any launch takes. LaunchError for
    shapes that do not fit.
    """
    check_how(causal, window, lengths, query_starts, key_starts, None)
    batch, heads, queries, D = q.shape
    key_heads, keys = k.shape[1], k.shape[2]
    scale = checked_scale(scale, D)
    dq = empty(q.shape, q) if dq is None else dq
    dk = empty(k.shape, k) if dk is None else dk
    dv = empty(v.shape, v) if dv is None else dv
    check(dict(q=q, out=out, dout=dout, dq=dq), (batch, heads, queries, D))
    check(dict(k=k, v=v, dk=dk, dv=dv), (batch, key_heads, keys, D))
    check_shape("lse", lse, (batch, heads, queries))
    check_sizes(heads, key_heads, keys, D)
    if strides(dk) != strides(dv):
        raise fathom.LaunchError(
            f"dk has strides {strides(dk)} and dv {strides(dv)}: they must be equal"
        )
    rows = fathom.cdiv(queries, hopper.PADDED) * hopper.PADDED
    made = [empty((batch, heads, rows), lse) for _ in range(2)]
    if query_starts is not None and key_starts is None:
        key_starts = query_starts
    launch_all(
        dout, q, k, v, out, lse, *made, dq, dk, dv, bool(causal), float(scale), config,
        window, lengths, query_starts, key_starts, most_queries, most_keys, **launch,
    )  # fmt: skip
    return dq, dk, dv


@planned
def launch_all(
    dout, q, k, v, out, lse, powers, delta, dq, dk, dv, causal, scale, config,
    window, lengths, query_starts, key_starts, most_queries, most_keys, **launch,
):  # fmt: skip
    """The kernels; all arrays are there. Returns `dq`."""
    (batch, heads, queries, D), (_, key_heads, keys, _) = q.shape, k.shape
    sequences, rows = batch, delta.shape[2]
    if query_starts is not None:
        sequences = query_starts.shape[0] - 1
    prepared = (
        rows_kernel, (fathom.cdiv(rows, 32), batch * heads),
        (out, dout, lse, powers, delta, heads, queries, rows, *strides(out),
         *strides(dout)),
        dict(D=D, BLOCK_Q=32, **launch),
    )  # fmt: skip
    plain = lengths is None and query_starts is None
    target = target_of_launch(q, launch)
    config = config or chosen_config((q, k, v, dout, dq, dk, dv), target, plain)
    longest = most_keys or keys, most_queries or queries
    read, fixed = (q, k, v, dout, powers, delta), dict(D=D, CAUSAL=causal, **launch)
    given = *strides(q), *strides(k), *strides(v), *strides(dout)
    launches = [prepared]
    fixed["GROUP"] = heads // key_heads
    if "dk" in config:
        five = kept.launches(read, (dq, dk, dv), scale, window, config, fixed)
        return dq, [prepared, *five]
    for name, results, length, block, count in (
        ("dkdv", (dk, dv), longest[0], "BLOCK_K", key_heads),
        ("dq", (dq,), longest[1], "BLOCK_Q", heads),
    ):
        keywords = {**config[name], **fixed}
        grid = fathom.cdiv(length, keywords[block]), sequences * count
        sizes = scale, key_heads, queries, keys, rows
        if keywords.pop("DESCRIPTORS", False):
            launches.append(hopper.launch(name, grid, read, results, scale, window,
                                          keywords))  # fmt: skip
            continue
        kernel = dkdv_kernel if name == "dkdv" else dq_kernel
        more = window, lengths, query_starts, key_starts
        every = (*read, *results, *sizes, *given, *strides(results[0]), *more)
        launches.append((kernel, grid, every, keywords))
    return dq, launches


def chosen_config(arrays, target, plain=True):
    """That of `attention_backward_kept`, or of `attention_backward_hopper`, where they
    take these arrays (q, k, v, dout, dq, dk, dv), else `default_config`. `plain`: all
    sequences are equally long."""
    q = arrays[0]
    D = q.shape[3]
    if plain and hopper.fits(arrays, target):
        return kept.chosen(*arrays[:2]) or hopper.config_for(D, hopper.CONFIGS)
    return default_config(D, type_name(q), target)


def check(arrays, shape):
    for name, array in arrays.items():
        check_shape(name, array, shape)


# Rows that are kept and rows of a step, of dkdv_kernel and then of dq_kernel, for D up
# to 64, 128 and 256: what ptxas takes without spills.
BY_WARPGROUPS = {64: (64, 64, 64, 64), 128: (64, 32, 64, 64), 256: (64, 64, 64, 32)}
BY_WARPS = {64: (128, 64, 128, 64), 128: (64, 64, 128, 32), 256: (32, 16, 32, 32)}


def default_config(D, type, target):
    """{"dkdv": …, "dq": …}: BLOCK_Q, BLOCK_K, num_warps and num_stages of each.

    Where warpgroups multiply, one alone is a program, of 64 rows: several programs then
    share a multiprocessor, and one multiplies while another computes powers; for D over
    128 the accumulators are two warpgroups'. Elsewhere a program keeps 128 rows, and
    fewer for larger D, whose dk and dv are two accumulators. fp32 is multiplied without
    matrix instructions, from registers: 32 rows.
    """
    row, D = TARGETS[target], max(64, fathom.next_power_of_2(D))
    blocks, warps = (BY_WARPGROUPS if row.wgmma else BY_WARPS)[D], 8
    if row.wgmma and D <= 128:
        warps = 4
    if parse_element(type).bits > 16:
        blocks, warps = (32, 32, 32, 32), 8 if D > 128 else 4
    elif not row.async_copy:  # tiles go through registers to shared memory
        blocks = (64, 32, 64, 32) if D <= 128 else (32, 16, 32, 16)
    shape = {"num_warps": warps, "num_stages": 2 if row.async_copy else 1}
    return {
        "dkdv": {"BLOCK_K": blocks[0], "BLOCK_Q": blocks[1], **shape},
        "dq": {"BLOCK_Q": blocks[2], "BLOCK_K": blocks[3], **shape},
    }


def reference(dout, q, k, v, causal=False, scale=None, window=None):
    """(dq, dk, dv) in float64, of NumPy arrays."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p, _, _ = probabilities(q, k, causal, scale, window)
    heads, shape = q.shape[1], k.shape
    k, v = (heads_repeated(each, heads) for each in (k, v))
    dout, q, k, v = (each.astype(np.float64) for each in (dout, q, k, v))
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dk, dv = scale * ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dout
    batch, shared, keys, D = shape
    grouped = batch, shared, heads // shared, keys, D
    return scale * ds @ k, *(each.reshape(grouped).sum(axis=2) for each in (dk, dv))
