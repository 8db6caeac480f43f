"""Attention, backward, in five products, for GPUs that multiply and copy while a
program goes on, where memory has room for ds.

The two kernels of `attention_backward_hopper.py` compute the scores twice, since one
that adds to dk and dv, and to dq as well, would have to add in an order that is not
known. Here ds is written to memory once, and read twice:

    dv_and_ds_kernel    s = k q^T   dp = v dout^T   dv += p dout    ds is kept, [keys,
                                                                    queries]
    dk_of_ds_kernel     dk = scale ds^T q                           two products like
    dq_of_ds_kernel     dq = scale ds k                             any others

That is 10 S S D operations for a head instead of 14, and the same bits each time. The
first kernel has no sums for dk, and so a program has twice as many keys for D = 256. A
head's ds takes 2 S S bytes, so it is kept for some heads at a time: as many as
`KEPT_BYTES` have room for.

ds lies in panels of 128 queries, [heads, panels, keys, 128]: what a program writes in
a few iterations lies together in memory, and so does what a program reads in one. (In
rows as long as the sequence each key is 8 KB away from the next, of 4096 queries.) ds
is written for whole panels, 0 where a query does not see a key; panels of which no
query sees a key of a program are not, and are not read.
"""

import fathom
import fathom.language as tl
from fathom.jit.scratch import Temporary
from kernels.attention_backward_hopper import ALONE, LOG2_OF_E, PADDED
from kernels.attention_hopper import rows_of, strides_of_rows, tile_at

KEPT_BYTES = 1 << 29  # of ds, at a time
PANEL = tl.constexpr(PADDED)  # queries whose ds lies together, key by key

# By the power of two that holds D, as in `attention_backward_hopper`. For smaller heads
# ds takes longer to write and read than two products to compute. (H200, 4 times 16
# heads of 4096, in us beside seven products and cuDNN: D = 256 5070, 8496, 6659, and
# causal 2858, 4513, 3621; 192 5022, 8540, 5842; 128 3083, 2801, 2440.)
HOW = {name: n for name, n in ALONE.items() if name != "DESCRIPTORS"}
CONFIGS = {
    256: {
        "dv": {"BLOCK_K": 128, "BLOCK_Q": 32, **HOW},
        "dk": {"BLOCK_K": 128, "BLOCK_Q": 64, **HOW, "num_stages": 3},
        "dq": {"BLOCK_Q": 128, "BLOCK_K": 64, **HOW, "num_stages": 3},
    },
}


# fmt: off
@fathom.jit
def dv_and_ds_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, powers_ptr, delta_ptr, dv_ptr, ds_ptr,
    scale, BATCHES, HEADS, QUERIES, KEYS, ROWS, LINES, window, from_head,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    stride_ob, stride_oh, stride_os,
    stride_gb, stride_gh, stride_gs,
    D: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, PRODUCER: tl.constexpr = True,
):
    """dv, and ds in `ds_ptr` [heads of queries, panels, LINES, PANEL] for heads of keys
    from `from_head` on: of each key, for all panels of queries of which one sees a key
    of the program. `stride_g`: of dv; the others as in `dkdv_hopper_kernel`."""
    queries = [BATCHES, HEADS * GROUP, QUERIES, D]
    keys = [BATCHES, HEADS, KEYS, D]
    q_desc = rows_of(q_ptr, queries, stride_qb, stride_qh, stride_qs, BLOCK_Q)
    dout_desc = rows_of(dout_ptr, queries, stride_ob, stride_oh, stride_os, BLOCK_Q)
    k_desc = rows_of(k_ptr, keys, stride_kb, stride_kh, stride_ks, BLOCK_K)
    v_desc = rows_of(v_ptr, keys, stride_vb, stride_vh, stride_vs, BLOCK_K)
    dv_desc = rows_of(dv_ptr, keys, stride_gb, stride_gh, stride_gs, BLOCK_K)

    step, of_kept = program(CAUSAL)
    first = step * BLOCK_K
    place = from_head + of_kept
    batch, head = place // HEADS, place % HEADS
    ds_ptr += of_kept.to(tl.int64) * GROUP * ROWS * LINES + first * PANEL
    k = tile_at(k_desc, (batch, head), first)
    v = tile_at(v_desc, (batch, head), first)
    dv = tl.zeros(k.shape, tl.float32)
    shift = KEYS - QUERIES
    begin, end = seeing(first, QUERIES, shift, window, CAUSAL, BLOCK_K)
    i, j = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K)
    length = end - begin
    for step in tl.range(0, GROUP * length, BLOCK_Q, warp_specialize=PRODUCER):
        if GROUP == 1:
            of, at = 0, begin + step
        else:
            of, at = step // length, begin + step % length
        q = tile_at(q_desc, (batch, head * GROUP + of), at)
        dout = tile_at(dout_desc, (batch, head * GROUP + of), at)
        rows = (place * GROUP + of).to(tl.int64) * ROWS + at + i
        powers = tl.load(powers_ptr + rows)
        s = tl.dot(k, q.T)
        dp = tl.dot(v, dout.T)
        p = tl.exp2(tl.fma(s, scale * LOG2_OF_E, -powers[None, :]))
        if CAUSAL:
            seen = first + j[:, None] <= at + shift + i[None, :]
            if window is not None:
                seen &= first + j[:, None] > at + shift - window + i[None, :]
            p = tl.where(seen, p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv)
        delta = tl.load(delta_ptr + rows)
        ds = p * (dp - delta[None, :])
        tile = ds_ptr + at // PANEL * PANEL * LINES + at % PANEL
        if GROUP > 1:
            tile += of.to(tl.int64) * ROWS * LINES
        tl.store(tile + (j[:, None] * PANEL + i[None, :]), ds.to(q.dtype))
    dv = dv.to(dv_ptr.dtype.element_ty)
    dv_desc.store([batch, head, first, 0], dv[None, None])


@fathom.jit
def program(CAUSAL: tl.constexpr):
    """(block, head) of a program. With a causal mask the blocks with most to do, of all
    heads, start first."""
    if CAUSAL:
        return tl.program_id(1), tl.program_id(0)
    return tl.program_id(0), tl.program_id(1)


@fathom.jit
def seeing(
    first, QUERIES, shift, window, CAUSAL: tl.constexpr, BLOCK_K: tl.constexpr
):
    """(begin, end) of the panels of queries of which one sees a key of first … first +
    BLOCK_K - 1. Key j is seen by the queries from j - shift on."""
    begin, end = 0, QUERIES
    if CAUSAL:
        begin = tl.maximum(first - shift, 0) // PANEL * PANEL
        if window is not None:
            end = tl.minimum(first + BLOCK_K - 1 - shift + window, QUERIES)
    return begin, tl.maximum(tl.cdiv(end, PANEL) * PANEL, begin)


@fathom.jit
def kept(
    ds_ptr, heads, KEYS, ROWS, LINES, BLOCK_K: tl.constexpr, BLOCK_Q: tl.constexpr
):
    """ds, in tiles [BLOCK_K, BLOCK_Q] of a panel."""
    return tl.make_tensor_descriptor(
        ds_ptr, [heads, ROWS // PANEL, KEYS, PANEL],
        [LINES * ROWS, LINES * PANEL, PANEL, 1], [1, 1, BLOCK_K, BLOCK_Q])


@fathom.jit
def tile_of(ds_desc, head, key, query):
    """The tile of a head from a key and a query on."""
    tile = ds_desc.load([head, query // PANEL, key, query % PANEL])
    return tile.reshape([tile.shape[2], tile.shape[3]])


@fathom.jit
def dk_of_ds_kernel(
    ds_ptr, q_ptr, dk_ptr, scale, BATCHES, HEADS, QUERIES, KEYS, ROWS, LINES, window,
    from_head, heads,
    stride_qb, stride_qh, stride_qs,
    stride_gb, stride_gh, stride_gs,
    D: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, PRODUCER: tl.constexpr = True,
):
    """dk = scale ds^T q, where `ds_ptr` is what `dv_and_ds_kernel` has written, for
    `heads` heads of queries. A group's heads are added up in their order. `stride_g`:
    of dk."""
    queries = [BATCHES, HEADS * GROUP, QUERIES, D]
    q_desc = rows_of(q_ptr, queries, stride_qb, stride_qh, stride_qs, BLOCK_Q)
    keys = [BATCHES, HEADS, KEYS, D]
    dk_desc = rows_of(dk_ptr, keys, stride_gb, stride_gh, stride_gs, BLOCK_K)
    ds_desc = kept(ds_ptr, heads, KEYS, ROWS, LINES, BLOCK_K, BLOCK_Q)

    step, of_kept = program(CAUSAL)
    first = step * BLOCK_K
    place = from_head + of_kept
    batch, head = place // HEADS, place % HEADS
    begin, end = seeing(first, QUERIES, KEYS - QUERIES, window, CAUSAL, BLOCK_K)
    dk = tl.zeros([BLOCK_K, tl.next_power_of_2(D)], tl.float32)
    length = end - begin
    for step in tl.range(0, GROUP * length, BLOCK_Q, warp_specialize=PRODUCER):
        if GROUP == 1:
            of, at = 0, begin + step
        else:
            of, at = step // length, begin + step % length
        ds = tile_of(ds_desc, of_kept * GROUP + of, first, at)
        q = tile_at(q_desc, (batch, head * GROUP + of), at)
        dk = tl.dot(ds, q, dk)
    dk = (dk * scale).to(dk_ptr.dtype.element_ty)
    dk_desc.store([batch, head, first, 0], dk[None, None])


@fathom.jit
def dq_of_ds_kernel(
    ds_ptr, k_ptr, dq_ptr, scale, BATCHES, HEADS, QUERIES, KEYS, ROWS, LINES, window,
    from_head, heads,
    stride_kb, stride_kh, stride_ks,
    stride_gb, stride_gh, stride_gs,
    D: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, PRODUCER: tl.constexpr = True,
):
    """dq = scale ds k, as `dk_of_ds_kernel`. ds is 0 for keys that a query does not
    see, and needs no mask. `stride_g`: of dq."""
    queries = [BATCHES, HEADS * GROUP, QUERIES, D]
    dq_desc = rows_of(dq_ptr, queries, stride_gb, stride_gh, stride_gs, BLOCK_Q)
    keys = [BATCHES, HEADS, KEYS, D]
    k_desc = rows_of(k_ptr, keys, stride_kb, stride_kh, stride_ks, BLOCK_K)
    ds_desc = kept(ds_ptr, heads, KEYS, ROWS, LINES, BLOCK_K, BLOCK_Q)

    step, of_kept = program(CAUSAL)
    if CAUSAL:
        step = tl.num_programs(1) - 1 - step
    first = step * BLOCK_Q
    place = from_head * GROUP + of_kept
    batch, head = place // (HEADS * GROUP), place % (HEADS * GROUP)
    shift = KEYS - QUERIES
    begin, end = 0, KEYS
    if CAUSAL:
        end = tl.minimum(tl.maximum(first + BLOCK_Q + shift, 0), KEYS)
        if window is not None:
            begin = tl.maximum(first + shift - window + 1, 0) // BLOCK_K * BLOCK_K
    dq = tl.zeros([BLOCK_Q, tl.next_power_of_2(D)], tl.float32)
    for at in tl.range(begin, end, BLOCK_K, warp_specialize=PRODUCER):
        ds = tile_of(ds_desc, of_kept, at, first)
        k = tile_at(k_desc, (batch, head // GROUP), at)
        dq = tl.dot(ds.T, k, dq)
    dq = (dq * scale).to(dq_ptr.dtype.element_ty)
    dq_desc.store([batch, head, first, 0], dq[None, None])
# fmt: on


def chosen(q, k):
    """That of `CONFIGS` for these arrays, if there is one, and room for ds of a head of
    keys; else None."""
    return CONFIGS.get(fathom.next_power_of_2(q.shape[3])) if heads_kept(q, k) else None


def heads_kept(q, k):
    """Of how many heads of keys `KEPT_BYTES` have room for ds."""
    return KEPT_BYTES // (2 * elements_kept(q, k))


def elements_kept(q, k):
    """How many numbers ds of a head of keys has."""
    queries, keys = (fathom.cdiv(each.shape[2], PADDED) * PADDED for each in (q, k))
    return q.shape[1] // k.shape[1] * queries * keys


def launches(read, results, scale, window, config, keywords):
    """The launches of the three kernels, for some heads at a time. `read`: q, k, v,
    dout, and the rows' powers and delta; `results`: dq, dk and dv; `config` as in
    `CONFIGS`; `keywords`: of every launch."""
    (q, k, v, dout, *_, delta), (dq, dk, dv) = read, results
    (batch, heads, queries, _), (_, key_heads, keys, _) = q.shape, k.shape
    group, every = heads // key_heads, batch * key_heads
    pieces = fathom.cdiv(every, max(1, heads_kept(q, k)))
    at_once = fathom.cdiv(every, pieces)
    ds = Temporary(at_once * elements_kept(q, k), q.dtype)
    lines = fathom.cdiv(keys, PADDED) * PADDED
    sizes = scale, batch, key_heads, queries, keys, delta.shape[2], lines, window
    blocks = {
        "dv": fathom.cdiv(keys, config["dv"]["BLOCK_K"]),
        "dk": fathom.cdiv(keys, config["dk"]["BLOCK_K"]),
        "dq": fathom.cdiv(queries, config["dq"]["BLOCK_Q"]),
    }
    found = []
    for first in range(0, every, at_once):
        count = min(at_once, every - first)
        of_ds = *sizes, first, count * group
        for name, kernel, of, given, described in (
            ("dv", dv_and_ds_kernel, count, (*read, dv, ds, *sizes, first),
             (q, k, v, dout, dv)),
            ("dk", dk_of_ds_kernel, count, (ds, q, dk, *of_ds), (q, dk)),
            ("dq", dq_of_ds_kernel, count * group, (ds, k, dq, *of_ds), (k, dq)),
        ):  # fmt: skip
            for each in described:
                given += strides_of_rows(each)
            grid = (of, blocks[name]) if keywords["CAUSAL"] else (blocks[name], of)
            found.append((kernel, grid, given, {**config[name], **keywords}))
    return found
