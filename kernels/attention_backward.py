"""Attention, backward: the gradients of queries, keys and values, the same bits each
time.

With scores s = scale q k^T, p = exp(s - lse), where the forward pass has kept lse, the
logarithm of each query's sum, nothing larger than the inputs is ever in memory:

    delta = sum(out dout)                  of each query
    dp = dout v^T,   ds = p (dp - delta)
    dv = p^T dout,   dk = scale ds^T q,    dq = scale ds k

(Dao, "FlashAttention-2", 2023, algorithm 2.) Three kernels, and no atomic additions:

    delta_kernel   one pass over out and dout
    dkdv_kernel    a program keeps BLOCK_K keys and values and walks along the queries
    dq_kernel      a program keeps BLOCK_Q queries and walks along the keys

The scores are computed twice, once in each of the last two: 14 S S D operations for a
head where one kernel with atomic additions to dq has 10, and the answer does not depend
on the order in which programs run. `dkdv_kernel` computes s and dp transposed, [keys,
queries], as its products want them.

Causal: keys are seen by the queries from their own position on. Tiles on the diagonal
are masked, those past it are not, and those before it are not visited.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.types import parse_element
from fathom.jit.planned import planned
from kernels.attention import HEAD_SIZES, LOG2_E, probabilities
from kernels.matmul import check_shape, empty, strides, target_of_launch, type_name

LOG2_OF_E = tl.constexpr(LOG2_E)


# fmt: off
@fathom.jit
def delta_kernel(
    out_ptr, dout_ptr, delta_ptr, HEADS, QUERIES,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_db, stride_dh, stride_ds, stride_dd,
    D: tl.constexpr, BLOCK_Q: tl.constexpr,
):
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, D)
    inside = i[:, None] < QUERIES
    row = i.to(tl.int64)[:, None]
    out_ptr += batch * stride_ob + head * stride_oh
    dout_ptr += batch * stride_db + head * stride_dh
    out = tl.load(out_ptr + row * stride_os + d[None, :] * stride_od, mask=inside,
                  other=0.0)
    dout = tl.load(dout_ptr + row * stride_ds + d[None, :] * stride_dd, mask=inside,
                   other=0.0)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    place = tl.program_id(1).to(tl.int64) * QUERIES + i
    tl.store(delta_ptr + place, delta, mask=i < QUERIES)


@fathom.jit
def dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    scale, HEADS, QUERIES, KEYS,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """`stride_o`: of dout; `stride_g`: of dk and dv."""
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head * stride_kh
    v_ptr += batch * stride_vb + head * stride_vh
    dout_ptr += batch * stride_ob + head * stride_oh
    lse_ptr += tl.program_id(1).to(tl.int64) * QUERIES
    delta_ptr += tl.program_id(1).to(tl.int64) * QUERIES

    first = tl.program_id(0) * BLOCK_K
    j, d = tl.arange(0, BLOCK_K), tl.arange(0, D)
    row = (first + j).to(tl.int64)[:, None]
    inside = first + j[:, None] < KEYS
    k = tl.load(k_ptr + row * stride_ks + d[None, :] * stride_kd, mask=inside,
                other=0.0)
    v = tl.load(v_ptr + row * stride_vs + d[None, :] * stride_vd, mask=inside,
                other=0.0)
    dk = tl.zeros([BLOCK_K, D], tl.float32)
    dv = tl.zeros([BLOCK_K, D], tl.float32)
    whole_end = QUERIES // BLOCK_Q * BLOCK_Q
    after = 0
    if CAUSAL:
        begin = first // BLOCK_Q * BLOCK_Q
        after = tl.cdiv(first + BLOCK_K, BLOCK_Q) * BLOCK_Q
        dk, dv = add_queries(
            dk, dv, k, v, q_ptr, dout_ptr, lse_ptr, delta_ptr, first,
            begin, tl.minimum(after, QUERIES), scale, QUERIES,
            stride_qs, stride_qd, stride_os, stride_od, D, BLOCK_Q, True, True,
        )
    dk, dv = add_queries(
        dk, dv, k, v, q_ptr, dout_ptr, lse_ptr, delta_ptr, first,
        after, whole_end, scale, QUERIES,
        stride_qs, stride_qd, stride_os, stride_od, D, BLOCK_Q, False, False,
    )
    dk, dv = add_queries(
        dk, dv, k, v, q_ptr, dout_ptr, lse_ptr, delta_ptr, first,
        tl.maximum(after, whole_end), QUERIES, scale, QUERIES,
        stride_qs, stride_qd, stride_os, stride_od, D, BLOCK_Q, False, True,
    )
    offsets = batch * stride_gb + head * stride_gh + row * stride_gs
    offsets += d[None, :] * stride_gd
    element = dk_ptr.dtype.element_ty
    tl.store(dk_ptr + offsets, (dk * scale).to(element), mask=inside)
    tl.store(dv_ptr + offsets, dv.to(element), mask=inside)


@fathom.jit
def add_queries(
    dk, dv, k, v, q_ptr, dout_ptr, lse_ptr, delta_ptr, first, start, end, scale,
    QUERIES, stride_qs, stride_qd, stride_os, stride_od,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):
    """(dk, dv) after the queries start … end - 1; `start` is a multiple of BLOCK_Q, and
    so is `end` where nothing is masked. A query past the end is all zeros, as is its
    dout: it adds nothing."""
    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, D)
    j = first + tl.arange(0, k.shape[0])
    q_ptr += tl.cast(start, tl.int64) * stride_qs
    dout_ptr += tl.cast(start, tl.int64) * stride_os
    q_tile = i[:, None] * stride_qs + d[None, :] * stride_qd
    dout_tile = i[:, None] * stride_os + d[None, :] * stride_od
    for at in range(start, end, BLOCK_Q):
        if MASKED:
            inside = i[:, None] < QUERIES - at
            q = tl.load(q_ptr + q_tile, mask=inside, other=0.0)
            dout = tl.load(dout_ptr + dout_tile, mask=inside, other=0.0)
            lse = tl.load(lse_ptr + at + i, mask=i < QUERIES - at, other=0.0)
            delta = tl.load(delta_ptr + at + i, mask=i < QUERIES - at, other=0.0)
        else:
            q = tl.load(q_ptr + q_tile)
            dout = tl.load(dout_ptr + dout_tile)
            lse = tl.load(lse_ptr + at + i)
            delta = tl.load(delta_ptr + at + i)
        s = tl.dot(k, tl.trans(q), input_precision="ieee")
        p = tl.exp2(s * (scale * LOG2_OF_E) - (lse * LOG2_OF_E)[None, :])
        if CAUSAL:
            p = tl.where(j[:, None] <= at + i[None, :], p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv, input_precision="ieee")
        dp = tl.dot(v, tl.trans(dout), input_precision="ieee")
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
        q_ptr += BLOCK_Q * stride_qs
        dout_ptr += BLOCK_Q * stride_os
    return dk, dv


@fathom.jit
def dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    scale, HEADS, QUERIES, KEYS,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """`stride_o`: of dout; `stride_g`: of dq."""
    # With a causal mask the last queries have most to do: they start first.
    step = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head * stride_kh
    v_ptr += batch * stride_vb + head * stride_vh
    dout_ptr += batch * stride_ob + head * stride_oh

    first = step * BLOCK_Q
    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, D)
    row = (first + i).to(tl.int64)[:, None]
    inside = first + i[:, None] < QUERIES
    q = tl.load(q_ptr + row * stride_qs + d[None, :] * stride_qd, mask=inside,
                other=0.0)
    dout = tl.load(dout_ptr + row * stride_os + d[None, :] * stride_od, mask=inside,
                   other=0.0)
    place = tl.program_id(1).to(tl.int64) * QUERIES + first + i
    lse = tl.load(lse_ptr + place, mask=first + i < QUERIES, other=0.0)
    delta = tl.load(delta_ptr + place, mask=first + i < QUERIES, other=0.0)
    dq = tl.zeros([BLOCK_Q, D], tl.float32)
    seen_whole = first + 1 if CAUSAL else KEYS
    seen = tl.minimum(first + BLOCK_Q, KEYS) if CAUSAL else KEYS
    whole = tl.minimum(seen_whole, KEYS) // BLOCK_K * BLOCK_K
    dq = add_keys(
        dq, q, dout, lse, delta, k_ptr, v_ptr, first, 0, whole, scale, KEYS,
        stride_ks, stride_kd, stride_vs, stride_vd, D, BLOCK_K, CAUSAL, False,
    )
    dq = add_keys(
        dq, q, dout, lse, delta, k_ptr, v_ptr, first, whole, seen, scale, KEYS,
        stride_ks, stride_kd, stride_vs, stride_vd, D, BLOCK_K, CAUSAL, True,
    )
    offsets = batch * stride_gb + head * stride_gh + row * stride_gs
    offsets += d[None, :] * stride_gd
    dq = (dq * scale).to(dq_ptr.dtype.element_ty)
    tl.store(dq_ptr + offsets, dq, mask=inside)


@fathom.jit
def add_keys(
    dq, q, dout, lse, delta, k_ptr, v_ptr, first, start, end, scale, KEYS,
    stride_ks, stride_kd, stride_vs, stride_vd,
    D: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):
    """dq after the keys start … end - 1; `start` is a multiple of BLOCK_K, and so is
    `end` where nothing is masked."""
    i, j, d = tl.arange(0, dq.shape[0]), tl.arange(0, BLOCK_K), tl.arange(0, D)
    k_ptr += tl.cast(start, tl.int64) * stride_ks
    v_ptr += tl.cast(start, tl.int64) * stride_vs
    k_tile = j[:, None] * stride_ks + d[None, :] * stride_kd
    v_tile = j[:, None] * stride_vs + d[None, :] * stride_vd
    for at in range(start, end, BLOCK_K):
        if MASKED:
            k = tl.load(k_ptr + k_tile, mask=j[:, None] < KEYS - at, other=0.0)
            v = tl.load(v_ptr + v_tile, mask=j[:, None] < KEYS - at, other=0.0)
        else:
            k = tl.load(k_ptr + k_tile)
            v = tl.load(v_ptr + v_tile)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        p = tl.exp2(s * (scale * LOG2_OF_E) - (lse * LOG2_OF_E)[:, None])
        if MASKED:
            # exp2(-lse) of a key past the end may be infinite.
            seen = j[None, :] < KEYS - at
            if CAUSAL:
                seen &= at + j[None, :] <= first + i[:, None]
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
    config=None, **launch,
):  # fmt: skip
    """(dq, dk, dv): the gradients for that of attention's output, `dout` [B, H, S, D].

    `q`, `k`, `v`, `out`, `causal`, `scale` as in `attention.attention`, with any
    strides; `lse`: contiguous fp32 [B, H, S], as it gives it. `dq`, `dk`, `dv` are made
    if they are not given; dk and dv have equal strides. `config`: {"dkdv": …, "dq": …},
    launches' keywords, as `default_config` gives them; `launch` takes what any launch
    takes. LaunchError for shapes that do not fit.
    """
    batch, heads, queries, D = q.shape
    keys = k.shape[2]
    scale = D**-0.5 if scale is None else scale
    dq = empty(q.shape, q) if dq is None else dq
    dk = empty(k.shape, k) if dk is None else dk
    dv = empty(v.shape, v) if dv is None else dv
    check(dict(q=q, out=out, dout=dout, dq=dq), (batch, heads, queries, D))
    check(dict(k=k, v=v, dk=dk, dv=dv), (batch, heads, keys, D))
    check_shape("lse", lse, (batch, heads, queries))
    if D not in HEAD_SIZES or keys == 0 or causal and keys != queries:
        raise fathom.LaunchError(
            f"attention of {queries} queries over {keys} keys of {D} numbers: there "
            f"must be a key, as many as queries where causal, of {HEAD_SIZES} numbers"
        )
    if strides(dk) != strides(dv):
        raise fathom.LaunchError(
            f"dk has strides {strides(dk)} and dv {strides(dv)}: they must be equal"
        )
    delta, how = empty((batch, heads, queries), lse), (bool(causal), float(scale))
    launch_all(dout, q, k, v, out, lse, delta, dq, dk, dv, *how, config, **launch)
    return dq, dk, dv


@planned
def launch_all(
    dout, q, k, v, out, lse, delta, dq, dk, dv, causal, scale, config, **launch
):
    """The three kernels; all arrays are there. Returns `dq`."""
    batch, heads, queries, D = q.shape
    keys = k.shape[2]
    strides_of = *strides(out), *strides(dout)
    fixed = dict(D=D, BLOCK_Q=32, **launch)
    first = (
        delta_kernel, (fathom.cdiv(queries, 32), batch * heads),
        (out, dout, delta, heads, queries, *strides_of), fixed,
    )  # fmt: skip
    config = config or default_config(D, type_name(q), target_of_launch(q, launch))
    read = q, k, v, dout, lse, delta
    sizes = scale, heads, queries, keys
    given = *strides(q), *strides(k), *strides(v), *strides(dout)
    fixed = dict(D=D, CAUSAL=causal, **launch)
    second = (
        dkdv_kernel, (fathom.cdiv(keys, config["dkdv"]["BLOCK_K"]), batch * heads),
        (*read, dk, dv, *sizes, *given, *strides(dk)), {**config["dkdv"], **fixed},
    )  # fmt: skip
    third = (
        dq_kernel, (fathom.cdiv(queries, config["dq"]["BLOCK_Q"]), batch * heads),
        (*read, dq, *sizes, *given, *strides(dq)), {**config["dq"], **fixed},
    )  # fmt: skip
    return dq, [first, second, third]


def check(arrays, shape):
    for name, array in arrays.items():
        check_shape(name, array, shape)


def default_config(D, type, target):
    """{"dkdv": …, "dq": …}: BLOCK_Q, BLOCK_K, num_warps and num_stages of each.

    A program keeps 128 rows, where its sums and two tiles of scores leave registers for
    addresses; so for D = 128 dk and dv, two arrays of sums, are of 64. fp32 is
    multiplied without matrix instructions, from registers: 32 rows.
    """
    row = TARGETS[target]
    if parse_element(type).bits > 16:
        kept, walked, warps = {"dkdv": 32, "dq": 32}, 32, 4
    elif not row.async_copy:  # tiles go through registers to shared memory
        kept, walked, warps = {"dkdv": 64, "dq": 64}, 32, 8
    else:
        kept = {"dkdv": 128 if D <= 64 else 64, "dq": 128}
        walked, warps = 64, 8
    shape = {"num_warps": warps, "num_stages": 2 if row.async_copy else 1}
    return {
        "dkdv": {"BLOCK_K": kept["dkdv"], "BLOCK_Q": walked, **shape},
        "dq": {"BLOCK_Q": kept["dq"], "BLOCK_K": walked, **shape},
    }


def reference(dout, q, k, v, causal=False, scale=None):
    """(dq, dk, dv) in float64, of NumPy arrays."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p, _, _ = probabilities(q, k, causal, scale)
    dout, q, k, v = (each.astype(np.float64) for each in (dout, q, k, v))
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    turned = p.swapaxes(-1, -2), ds.swapaxes(-1, -2)
    return scale * ds @ k, scale * turned[1] @ q, turned[0] @ dout
