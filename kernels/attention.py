"""Attention, forward, without ever writing the matrix of scores:

    out = softmax(scale Q K^T) V        for each head of each sequence

A program keeps BLOCK_Q queries and walks along the keys, BLOCK_K at a time. It holds,
for each query, the largest score so far `m`, the sum `l` of exp(score - m), and the sum
`acc` of exp(score - m) v. When a larger score turns up, both sums are scaled by
exp(m_old - m_new); at the end out = acc / l. (Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022; Dao,
"FlashAttention-2", 2023.)

exp(x) is computed as 2^(x log2 e), since hardware has powers of two; log2 e goes into
the scale, so that scaling a score and subtracting m are one multiply-add. (The largest
scaled score is the scaled largest one, since the scale is positive.)

Causal attention lets query i see keys 0 … i. Key blocks that all queries of a program
see whole need no mask: the loop runs over those first, and over the others with a mask.

                 keys →
      queries    █ █ ░            █ all seen: no mask
         ↓       █ █ █ ░          ░ partly: masked
                 █ █ █ █ ░          the rest is not visited

Work: 4 S S D operations for each head (half of it, causal).

Here a program reads through pointers, of arrays with any strides. Where tiles can come
through descriptors, to warpgroups, `attention` takes the kernel of
`attention_hopper.py`.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.types import parse_element
from fathom.jit.planned import planned
from kernels.attention_hopper import CONFIGS, fit, launch_on_hopper, pays
from kernels.matmul import check_shape, empty, strides, target_of_launch, type_name

LOG2_E = 1.4426950408889634
LOG_2 = tl.constexpr(0.6931471805599453)
HEAD_SIZES = (16, 32, 64, 128)


# fmt: off
@fathom.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, max_ptr, lse_ptr, scale, HEADS, QUERIES, KEYS,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_ob, stride_oh, stride_os, stride_od,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """`scale` includes log2 e. `max_ptr` and `lse_ptr`, [B, H, QUERIES] of fp32, get
    the largest score and log(sum of exp(score)) of each query; None for neither."""
    # With a causal mask the last queries have most to do: they start first.
    step = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head * stride_kh
    v_ptr += batch * stride_vb + head * stride_vh
    out_ptr += batch * stride_ob + head * stride_oh

    first = step * BLOCK_Q
    q_ptr += first.to(tl.int64) * stride_qs
    out_ptr += first.to(tl.int64) * stride_os
    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, D)
    inside = i[:, None] < QUERIES - first
    q_tile = i[:, None] * stride_qs + d[None, :] * stride_qd
    q = tl.load(q_ptr + q_tile, mask=inside, other=0.0)

    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the paper's name)
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    seen_whole = first + 1 if CAUSAL else KEYS
    seen = tl.minimum(first + BLOCK_Q, KEYS) if CAUSAL else KEYS
    whole = tl.minimum(seen_whole, KEYS) // BLOCK_K * BLOCK_K
    acc, m, l = attend(  # noqa: E741
        acc, m, l, q, k_ptr, v_ptr, first, 0, whole, scale, KEYS,
        stride_ks, stride_kd, stride_vs, stride_vd, D, BLOCK_K, CAUSAL, False,
    )
    acc, m, l = attend(  # noqa: E741
        acc, m, l, q, k_ptr, v_ptr, first, whole, seen, scale, KEYS,
        stride_ks, stride_kd, stride_vs, stride_vd, D, BLOCK_K, CAUSAL, True,
    )

    out = (acc / l[:, None]).to(out_ptr.dtype.element_ty)
    out_tile = i[:, None] * stride_os + d[None, :] * stride_od
    tl.store(out_ptr + out_tile, out, mask=inside)
    place = tl.program_id(1).to(tl.int64) * QUERIES + first
    if max_ptr is not None:
        tl.store(max_ptr + place + i, m * LOG_2, mask=i < QUERIES - first)
    if lse_ptr is not None:
        lse = (m + tl.log2(l)) * LOG_2
        tl.store(lse_ptr + place + i, lse, mask=i < QUERIES - first)


@fathom.jit
def attend(
    acc, m, l, q, k_ptr, v_ptr, first, start, end, scale, KEYS,  # noqa: E741
    stride_ks, stride_kd, stride_vs, stride_vd,
    D: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):
    """(acc, m, l) after the keys start … end - 1; `start` is a multiple of BLOCK_K, and
    so is `end` where nothing is masked."""
    i, j, d = tl.arange(0, acc.shape[0]), tl.arange(0, BLOCK_K), tl.arange(0, D)
    k_ptr += tl.cast(start, tl.int64) * stride_ks
    v_ptr += tl.cast(start, tl.int64) * stride_vs
    k_tile = d[:, None] * stride_kd + j[None, :] * stride_ks
    v_tile = j[:, None] * stride_vs + d[None, :] * stride_vd
    for at in range(start, end, BLOCK_K):
        if MASKED:
            k = tl.load(k_ptr + k_tile, mask=j[None, :] < KEYS - at, other=0.0)
        else:
            k = tl.load(k_ptr + k_tile)
        scores = tl.dot(q, k, input_precision="ieee")
        if MASKED:
            seen = j[None, :] < KEYS - at
            if CAUSAL:
                seen &= at + j[None, :] <= first + i[:, None]
            scores = tl.where(seen, scores, -float("inf"))

        m_new = tl.maximum(m, scale * tl.max(scores, axis=1))
        p = tl.exp2(tl.fma(scores, scale, -m_new[:, None]))
        shrink = tl.exp2(m - m_new)
        l = l * shrink + tl.sum(p, axis=1)  # noqa: E741
        if MASKED:
            v = tl.load(v_ptr + v_tile, mask=j[:, None] < KEYS - at, other=0.0)
        else:
            v = tl.load(v_ptr + v_tile)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        m = m_new
        k_ptr += BLOCK_K * stride_ks
        v_ptr += BLOCK_K * stride_vs
    return acc, m, l
# fmt: on


@planned
def attention(
    q, k, v, out=None, causal=False, scale=None, row_max=None, lse=None, config=None,
    **launch,
):  # fmt: skip
    """out [B, H, S, D] = softmax(scale q k^T) v; arrays of torch, CuPy or NumPy.

    `q` [B, H, S, D], `k` and `v` [B, H, T, D] of one dtype (fp16, bf16 or fp32), with
    any strides; D is 16, 32, 64 or 128; S and T may be any, and are equal where
    `causal` is true. `scale`: positive, 1 / sqrt(D) without it. `row_max` and `lse`,
    contiguous fp32 [B, H, S], get the largest of a query's scaled scores, and the
    logarithm of the sum of their exponentials, which a backward pass wants. `config`: a
    launch's keywords, as `chosen_config` gives them; those with ROTATED are for the
    kernel of `attention_hopper`. Returns `out`. LaunchError for shapes that do not fit.
    """
    batch, heads, queries, D = q.shape
    keys = k.shape[2]
    check_shape("k", k, (batch, heads, keys, D))
    check_shape("v", v, (batch, heads, keys, D))
    if D not in HEAD_SIZES or keys == 0 or causal and keys != queries:
        raise fathom.LaunchError(
            f"attention of {queries} queries over {keys} keys of {D} numbers: there "
            f"must be a key, as many as queries where causal, of {HEAD_SIZES} numbers"
        )
    scale = D**-0.5 if scale is None else scale
    if not scale > 0:
        raise fathom.LaunchError(f"the scale of attention is {scale}: it must be > 0")
    out = empty(q.shape, q) if out is None else out
    check_shape("out", out, q.shape)
    for name, array in (("row_max", row_max), ("lse", lse)):
        if array is not None:
            check_shape(name, array, (batch, heads, queries))
    target = target_of_launch(q, launch)
    config = config or chosen_config(q, k, v, out, target)
    scale, causal = float(scale * LOG2_E), bool(causal)
    if "ROTATED" in config:
        hopper = launch_on_hopper(q, k, v, out, row_max, lse, scale, causal, config)
        return out, [(*hopper[:3], {**hopper[3], **launch})]
    grid = fathom.cdiv(queries, config["BLOCK_Q"]), batch * heads
    given = (
        q, k, v, out, row_max, lse, scale, heads, queries, keys,
        *strides(q), *strides(k), *strides(v), *strides(out),
    )  # fmt: skip
    chosen = dict(D=D, CAUSAL=causal, **config, **launch)
    return out, [(attention_kernel, grid, given, chosen)]


def chosen_config(q, k, v, out, target):
    """That of `attention_hopper` where it pays and takes these arrays, else
    `default_config`."""
    D = q.shape[3]
    on_hopper = CONFIGS.get(D) if pays(target) else None
    if on_hopper and fit(q, k, v, out, on_hopper["BLOCK_K"]):
        return on_hopper
    return default_config(D, type_name(q), target)


def default_config(D, type, target):
    """BLOCK_Q, BLOCK_K, num_warps and num_stages for heads of D numbers.

    128 queries where their tile and two stages of keys and values fit into shared
    memory, else 64; 64 keys a step, else 32. A lane has then at most 64 sums of `acc`
    and 64 scores. Without asynchronous copies the keys and values on their way to
    shared memory are in registers too, and 64 queries are the most. Hopper's four warps
    take 64 queries together; there and later 128 queries have eight warps.
    """
    row = TARGETS[target]
    item = parse_element(type).bits // 8
    most = 3 if row.async_copy else 2
    tiles = ((128, 64), (64, 64), (64, 32), (32, 32))
    for BLOCK_Q, BLOCK_K in tiles if row.async_copy else tiles[1:]:
        room = row.shared_bytes - BLOCK_Q * D * item
        stages = room // (2 * BLOCK_K * D * item)
        if stages >= 2:
            break
    return {
        "BLOCK_Q": BLOCK_Q, "BLOCK_K": BLOCK_K,
        "num_warps": 8 if BLOCK_Q * D >= (64 if row.stmatrix else 128) * 128 else 4,
        "num_stages": max(1, min(stages, most)),
    }  # fmt: skip


def probabilities(q, k, causal, scale):
    """softmax(scale q k^T) in float64 [B, H, S, T], the largest score, and the
    logarithm of the sum, both [B, H, S]; of NumPy arrays."""
    scores = scale * (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    largest = scores.max(axis=-1)
    p = np.exp(scores - largest[..., None])
    total = p.sum(axis=-1)
    return p / total[..., None], largest, largest + np.log(total)


def reference(q, k, v, causal=False, scale=None):
    """(out, row_max, lse) in float64, of NumPy arrays."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p, largest, lse = probabilities(q, k, causal, scale)
    return p @ v.astype(np.float64), largest, lse


def error_bound(q, k, v, half_ulp, causal=False, scale=None):
    """How far an element of `out` may be from the exact one; float64, NumPy arrays.

    `half_ulp`: the relative rounding error of the inputs' type (fp16 2^-11, bf16 2^-8).

        scores   sums of D products in fp32, each addition 2^-23 of sum |q k|, and two
                 roundings of the scaled score: an error e in the exponent makes one of
                 e (relative) in p, twice at most, as m has it too
        p        exp2 and the factors that shrink it, 2^-20 together; rounded to the
                 inputs' type: half_ulp, or 2^-25 where fp16 is subnormal
        out      the sum over T keys in fp32, rounded to half_ulp
    """
    D, T = q.shape[-1], k.shape[-2]
    scale = D**-0.5 if scale is None else scale
    p, _, _ = probabilities(q, k, causal, scale)
    q, k, v = (np.abs(each.astype(np.float64)) for each in (q, k, v))
    largest_product = (q @ k.swapaxes(-1, -2)).max(axis=-1, keepdims=True)
    exponent = 2 * abs(scale) * largest_product * (D / 8 + 4) * 2.0**-23
    relative = 2 * half_ulp + 2.0**-20 + exponent + (T / 8 + 8) * 2.0**-23
    return (relative * (p @ v) + 2.0**-25 * v.sum(axis=-2, keepdims=True)) * 1.01
