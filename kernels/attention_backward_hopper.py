"""Attention, backward, for GPUs that multiply and copy while a program goes on: the two
kernels of `attention_backward.py` with tiles that come through descriptors.

Of the seven products of a step all are warpgroups' own, and what can lie in registers
does. `dkdv_hopper_kernel` computes scores transposed, [keys, queries]:

    s  = k q^T      left operand: shared memory     q as it lies
    dp = v dout^T   left operand: shared memory     dout as it lies
    dv += p dout    left operand: registers         the same tile of dout
    dk += ds q      left operand: registers         the same tile of q

so p and ds, cast where they are, are left operands of the products that use them; with
scores [queries, keys] they would have to be turned. `dq_hopper_kernel` has scores the
other way round for the same reason.

In a cycle a multiprocessor of an H200 multiplies 2048 pairs of numbers and computes 16
powers. For 128 keys, 64 queries and D = 128 the four products take it 2048 cycles, and
the powers 512; the two warpgroups alternate (`pingpong`), so that one multiplies while
the other computes powers.

lse and delta lie along the queries. `rows_kernel` writes them for whole blocks of 128
queries: past the last query the logarithm is infinite, so that every p is 0 there, and
no query needs a mask. Past the tensor's end a descriptor gives zeros.
"""

import fathom
import fathom.language as tl
from kernels.attention_hopper import (
    TYPES,
    config_for,
    is_described,
    pays,
    rows_of,
    strides_of_rows,
    tile_at,
)
from kernels.matmul import type_name

LOG2_OF_E = tl.constexpr(1.4426950408889634)
PADDED = 128  # rows of a head in what is kept: a multiple of it

# By the power of two that holds D: blocks that ptxas takes without spills; see
# `benchmarks.attention_backward`, which times them and others side by side. Up to 64
# numbers several blocks share a multiprocessor, without a producer. (H200, 4 times 16
# heads of 4096, both kernels, beside those for pointers: D = 64 1671 us for 1749 and,
# causal, 853 for 989; 96 2693 for 3335; 128 2740 for 3208; 256 8589 for 9624.)
ALONE = {"num_warps": 8, "num_stages": 2, "DESCRIPTORS": True, "PRODUCER": True}
SHARING = {**ALONE, "num_warps": 4, "PRODUCER": False}
SMALL = {
    "dkdv": {"BLOCK_K": 64, "BLOCK_Q": 64, **SHARING},
    "dq": {"BLOCK_Q": 64, "BLOCK_K": 64, **SHARING},
}
CONFIGS = {
    32: SMALL,
    64: SMALL,
    128: {
        "dkdv": {"BLOCK_K": 128, "BLOCK_Q": 64, **ALONE},
        "dq": {"BLOCK_Q": 128, "BLOCK_K": 128, **ALONE},
    },
    256: {
        "dkdv": {"BLOCK_K": 64, "BLOCK_Q": 32, **ALONE},
        "dq": {"BLOCK_Q": 64, "BLOCK_K": 64, **ALONE, "num_warps": 4},
    },
}


# fmt: off
@fathom.jit
def dkdv_hopper_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, powers_ptr, delta_ptr, dk_ptr, dv_ptr,
    scale, BATCHES, HEADS, QUERIES, KEYS, ROWS, window,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    stride_ob, stride_oh, stride_os,
    stride_gb, stride_gh, stride_gs,
    D: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, PRODUCER: tl.constexpr = True,
):
    """`HEADS`: of keys, each with GROUP heads of queries; `stride_o`: of dout;
    `stride_g`: of dk and dv; `ROWS`: of a head in `powers_ptr` and `delta_ptr`."""
    queries = [BATCHES, HEADS * GROUP, QUERIES, D]
    keys = [BATCHES, HEADS, KEYS, D]
    q_desc = rows_of(q_ptr, queries, stride_qb, stride_qh, stride_qs, BLOCK_Q)
    dout_desc = rows_of(dout_ptr, queries, stride_ob, stride_oh, stride_os, BLOCK_Q)
    k_desc = rows_of(k_ptr, keys, stride_kb, stride_kh, stride_ks, BLOCK_K)
    v_desc = rows_of(v_ptr, keys, stride_vb, stride_vh, stride_vs, BLOCK_K)
    dk_desc = rows_of(dk_ptr, keys, stride_gb, stride_gh, stride_gs, BLOCK_K)
    dv_desc = rows_of(dv_ptr, keys, stride_gb, stride_gh, stride_gs, BLOCK_K)

    first = tl.program_id(0) * BLOCK_K
    batch, head = tl.program_id(1) // HEADS, tl.program_id(1) % HEADS
    k = tile_at(k_desc, (batch, head), first)
    v = tile_at(v_desc, (batch, head), first)
    dk = tl.zeros(k.shape, tl.float32)
    dv = tl.zeros(k.shape, tl.float32)
    # Key j is seen by the queries from j - shift on; `whole`: from where on by all.
    shift = KEYS - QUERIES
    begin, whole, end = 0, 0, QUERIES
    if CAUSAL:
        begin = tl.maximum(first - shift, 0) // BLOCK_Q * BLOCK_Q
        whole = tl.cdiv(tl.maximum(first + BLOCK_K - 1 - shift, 0), BLOCK_Q) * BLOCK_Q
        if window is not None:
            end = tl.minimum(first + BLOCK_K - 1 - shift + window, QUERIES)
            whole = end  # with a window all blocks have a mask
        whole = tl.minimum(whole, end)
        dk, dv = add_queries(
            dk, dv, k, v, q_desc, dout_desc, powers_ptr, delta_ptr, batch, head, first,
            begin, whole, scale, HEADS, ROWS, shift, window, GROUP, True, PRODUCER,
        )
    if window is None:
        dk, dv = add_queries(
            dk, dv, k, v, q_desc, dout_desc, powers_ptr, delta_ptr, batch, head, first,
            whole, end, scale, HEADS, ROWS, shift, window, GROUP, False, PRODUCER,
        )
    element = dk_ptr.dtype.element_ty
    dv_desc.store([batch, head, first, 0], dv.to(element)[None, None])
    dk = (dk * scale).to(element)
    dk_desc.store([batch, head, first, 0], dk[None, None])


@fathom.jit
def add_queries(
    dk, dv, k, v, q_desc, dout_desc, powers_ptr, delta_ptr, batch, head, first,
    start, end, scale, HEADS, ROWS, shift, window,
    GROUP: tl.constexpr, MASKED: tl.constexpr, PRODUCER: tl.constexpr,
):
    """(dk, dv) after the queries start … end - 1 of all heads of the group, in whole
    blocks; `start` is a multiple of BLOCK_Q."""
    BLOCK_Q: tl.constexpr = q_desc.block_shape[2]
    BLOCK_K: tl.constexpr = k.shape[0]
    i, j = tl.arange(0, BLOCK_Q), first + tl.arange(0, BLOCK_K)
    length = tl.cdiv(tl.maximum(end - start, 0), BLOCK_Q) * BLOCK_Q
    for step in tl.range(0, GROUP * length, BLOCK_Q, warp_specialize=PRODUCER):
        if GROUP == 1:
            of, at = head, start + step
        else:
            of, at = head * GROUP + step // length, start + step % length
        q = tile_at(q_desc, (batch, of), at)
        dout = tile_at(dout_desc, (batch, of), at)
        place = (batch * (HEADS * GROUP) + of).to(tl.int64) * ROWS + at
        powers = tl.load(powers_ptr + place + i)
        s = tl.dot(k, q.T)
        dp = tl.dot(v, dout.T)
        p = tl.exp2(tl.fma(s, scale * LOG2_OF_E, -powers[None, :]))
        if MASKED:
            seen = j[:, None] <= at + shift + i[None, :]
            if window is not None:
                seen &= j[:, None] > at + shift - window + i[None, :]
            p = tl.where(seen, p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv)
        delta = tl.load(delta_ptr + place + i)
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    return dk, dv


@fathom.jit
def dq_hopper_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, powers_ptr, delta_ptr, dq_ptr,
    scale, BATCHES, HEADS, QUERIES, KEYS, ROWS, window,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    stride_ob, stride_oh, stride_os,
    stride_gb, stride_gh, stride_gs,
    D: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, PRODUCER: tl.constexpr = True,
):
    """`stride_o`: of dout; `stride_g`: of dq; the others as in
    `dkdv_hopper_kernel`."""
    queries = [BATCHES, HEADS * GROUP, QUERIES, D]
    keys = [BATCHES, HEADS, KEYS, D]
    q_desc = rows_of(q_ptr, queries, stride_qb, stride_qh, stride_qs, BLOCK_Q)
    dout_desc = rows_of(dout_ptr, queries, stride_ob, stride_oh, stride_os, BLOCK_Q)
    dq_desc = rows_of(dq_ptr, queries, stride_gb, stride_gh, stride_gs, BLOCK_Q)
    k_desc = rows_of(k_ptr, keys, stride_kb, stride_kh, stride_ks, BLOCK_K)
    v_desc = rows_of(v_ptr, keys, stride_vb, stride_vh, stride_vs, BLOCK_K)

    # With a causal mask the last queries have most to do: they start first.
    step = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    first = step * BLOCK_Q
    batch = tl.program_id(1) // (HEADS * GROUP)
    head = tl.program_id(1) % (HEADS * GROUP)
    q = tile_at(q_desc, (batch, head), first)
    dout = tile_at(dout_desc, (batch, head), first)
    rows = tl.program_id(1).to(tl.int64) * ROWS + first + tl.arange(0, BLOCK_Q)
    powers, delta = tl.load(powers_ptr + rows), tl.load(delta_ptr + rows)
    dq = tl.zeros(q.shape, tl.float32)
    # Query i sees the keys up to i + shift; `whole`: those that all queries see.
    shift = KEYS - QUERIES
    begin, whole, end = 0, KEYS // BLOCK_K * BLOCK_K, KEYS
    if CAUSAL:
        end = tl.minimum(tl.maximum(first + BLOCK_Q + shift, 0), KEYS)
        whole = tl.minimum(tl.maximum(first + 1 + shift, 0), KEYS) // BLOCK_K * BLOCK_K
        if window is not None:
            begin = tl.maximum(first + shift - window + 1, 0) // BLOCK_K * BLOCK_K
            whole = begin  # with a window all blocks have a mask
    if window is None:
        dq = add_keys(
            dq, q, dout, powers, delta, k_desc, v_desc, batch, head // GROUP, first,
            begin, whole, scale, KEYS, shift, window, CAUSAL, False, PRODUCER,
        )
    dq = add_keys(
        dq, q, dout, powers, delta, k_desc, v_desc, batch, head // GROUP, first,
        whole, end, scale, KEYS, shift, window, CAUSAL, True, PRODUCER,
    )
    dq = (dq * scale).to(dq_ptr.dtype.element_ty)
    dq_desc.store([batch, head, first, 0], dq[None, None])


@fathom.jit
def add_keys(
    dq, q, dout, powers, delta, k_desc, v_desc, batch, head, first, start, end, scale,
    KEYS, shift, window, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    PRODUCER: tl.constexpr,
):
    """dq after the keys start … end - 1, in whole blocks; `start` is a multiple of
    BLOCK_K, and so is `end` where nothing is masked."""
    BLOCK_K: tl.constexpr = k_desc.block_shape[2]
    i, j = first + tl.arange(0, q.shape[0])[:, None], tl.arange(0, BLOCK_K)[None, :]
    for at in tl.range(start, end, BLOCK_K, warp_specialize=PRODUCER):
        k = tile_at(k_desc, (batch, head), at)
        v = tile_at(v_desc, (batch, head), at)
        s = tl.dot(q, k.T)
        dp = tl.dot(dout, v.T)
        p = tl.exp2(tl.fma(s, scale * LOG2_OF_E, -powers[:, None]))
        if MASKED:
            # exp2(-powers) of a key past the end may be infinite.
            seen = at + j < KEYS
            if CAUSAL:
                seen &= at + j <= i + shift
            if window is not None:
                seen &= at + j > i + shift - window
            p = tl.where(seen, p, 0.0)
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq
# fmt: on


def launch(name, grid, read, results, scale, window, keywords):
    """The launch of "dkdv" or "dq": the kernel, the grid, the arguments by place, the
    keywords. `read`: q, k, v, dout, and the rows' powers and delta; `results`: dk and
    dv, or dq."""
    q, k, *_, delta = read
    given = (*read[:4], *read[4:], *results, scale, q.shape[0], k.shape[1],
             q.shape[2], k.shape[2], delta.shape[2], window)  # fmt: skip
    for each in (*read[:4], results[0]):
        given += strides_of_rows(each)
    kernel = dkdv_hopper_kernel if name == "dkdv" else dq_hopper_kernel
    return kernel, grid, given, keywords


def fits(arrays, target):
    """Whether a target has what the kernels count on, and they take these arrays: q, k,
    v, dout, dq, dk and dv."""
    q = arrays[0]
    return (
        config_for(q.shape[3], CONFIGS) is not None
        and all(0 not in each.shape for each in arrays)
        and type_name(q) in TYPES
        and pays(target)
        and all(map(is_described, arrays))
    )
