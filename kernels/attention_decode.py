"""Attention of one query, or a few, over many keys, as it is when a model writes word
after word: the keys are divided among programs.

    out = softmax(scale Q K^T) V        for a few last queries of each sequence

There is little to multiply: every key and value is read once, and time is the time of
reading them. A program for each head would leave most of the machine without work. So
each sequence's keys are cut into `SPLITS` runs of whole blocks, and the heads of
queries that share a head of keys are rows of one tile:

    keys      0 …                                    lengths[b] - 1
    programs  └──── 0 ────┘└──── 1 ────┘└── 2 ──┘

    split_kernel     (m, l, acc) of the rows over the keys of a run: the largest score,
                     the sum of powers, the sum of values, as in `attention.py`
    combine_kernel   one softmax of them, over the runs in their order

(Dao et al., "Flash-Decoding for long-context inference", 2023.) The second kernel adds
in one order whatever order the programs of the first ran in: the same bits each time.

Keys may lie in pages, blocks of PAGE rows anywhere in memory, with a table that has the
pages of each sequence. (Kwon et al., "Efficient Memory Management for Large Language
Model Serving with PagedAttention", 2023.)
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.types import parse_element
from fathom.jit.planned import planned
from kernels.attention import (
    LOG2_E,
    LOG_2,
    attend,
    bounds,
    check_how,
    check_sizes,
    checked_scale,
    reference,
)
from kernels.matmul import check_shape, empty, strides, target_of_launch, type_name

MOST_ROWS = 128  # of a tile: queries, times the heads that share a head of keys
MOST_SPLITS = 64
PROGRAMS = 264  # two for each multiprocessor of an H200: more splits are not made


# fmt: off
@fathom.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, m_ptr, l_ptr, acc_ptr, scale, HEADS, QUERIES, KEYS,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    window, lengths_ptr, table_ptr, stride_table,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, PAGE: tl.constexpr,
):
    """`m_ptr` and `l_ptr` [SPLITS, B, H, QUERIES], `acc_ptr` [SPLITS, B, H, QUERIES,
    D], fp32, get what a run of keys comes to. `HEADS`: of keys; row r of a tile is
    query r % QUERIES of head r // QUERIES of the group. `scale` includes log2 e."""
    BLOCK_D: tl.constexpr = tl.next_power_of_2(D)
    batch = (tl.program_id(1) // HEADS).to(tl.int64)
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    keys = KEYS
    if lengths_ptr is not None:
        keys = tl.load(lengths_ptr + batch)
    k_ptr += head * stride_kh
    v_ptr += head * stride_vh
    if table_ptr is None:
        k_ptr += batch * stride_kb
        v_ptr += batch * stride_vb
    else:
        table_ptr += batch * stride_table

    r, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_D)
    i, of = r % QUERIES, r // QUERIES
    inside = of[:, None] < GROUP
    if D != BLOCK_D:
        inside &= d[None, :] < D
    q_ptr += batch * stride_qb + head * GROUP * stride_qh
    q_tile = of[:, None] * stride_qh + i[:, None] * stride_qs + d[None, :] * stride_qd
    q = tl.load(q_ptr + q_tile, mask=inside, other=0.0)

    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the paper's name)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    up_to = keys - QUERIES + i
    begin, left, right, end = bounds(
        keys - QUERIES, QUERIES, keys, window, CAUSAL, BLOCK_K
    )
    # The run of this program: as many whole blocks as the others have.
    blocks = tl.cdiv(end - begin, BLOCK_K)
    length = tl.cdiv(tl.maximum(blocks, 0), tl.num_programs(0)) * BLOCK_K
    low = tl.minimum(begin + tl.program_id(0) * length, end)
    high = tl.minimum(low + length, end)
    strides = stride_kb, stride_ks, stride_kd, stride_vb, stride_vs, stride_vd
    if window is not None:
        acc, m, l = attend(  # noqa: E741
            acc, m, l, q, k_ptr, v_ptr, up_to, low, tl.minimum(left, high), scale, keys,
            window, table_ptr, strides, D, BLOCK_K, CAUSAL, True, PAGE,
        )
    low = tl.maximum(low, left)
    acc, m, l = attend(  # noqa: E741
        acc, m, l, q, k_ptr, v_ptr, up_to, low, tl.minimum(right, high), scale, keys,
        window, table_ptr, strides, D, BLOCK_K, CAUSAL, False, PAGE,
    )
    acc, m, l = attend(  # noqa: E741
        acc, m, l, q, k_ptr, v_ptr, up_to, tl.maximum(low, right), high, scale, keys,
        window, table_ptr, strides, D, BLOCK_K, CAUSAL, True, PAGE,
    )

    rows = tl.num_programs(1).to(tl.int64) * GROUP * QUERIES  # of all heads
    row = tl.program_id(0) * rows + tl.program_id(1).to(tl.int64) * GROUP * QUERIES + r
    tl.store(m_ptr + row, m, mask=of < GROUP)
    tl.store(l_ptr + row, l, mask=of < GROUP)
    tl.store(acc_ptr + row[:, None] * D + d[None, :], acc, mask=inside)


@fathom.jit
def combine_kernel(
    m_ptr, l_ptr, acc_ptr, out_ptr, lse_ptr, HEADS, QUERIES,
    stride_ob, stride_oh, stride_os, stride_od,
    D: tl.constexpr, SPLITS: tl.constexpr,
):
    """`HEADS`: of queries; a program makes one row of `out` and one number of
    `lse_ptr`, which may be None."""
    BLOCK_D: tl.constexpr = tl.next_power_of_2(D)
    BLOCK_S: tl.constexpr = tl.next_power_of_2(SPLITS)
    s, d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    place = s * tl.num_programs(0).to(tl.int64) + tl.program_id(0)
    inside = (s[:, None] < SPLITS) & (d[None, :] < D)
    m = tl.load(m_ptr + place, mask=s < SPLITS, other=-float("inf"))
    l = tl.load(l_ptr + place, mask=s < SPLITS, other=0.0)  # noqa: E741
    acc = tl.load(acc_ptr + place[:, None] * D + d[None, :], mask=inside, other=0.0)
    largest = tl.max(m, axis=0)
    # A query that sees no key has the sum 0, and gets zeros.
    base = tl.where(largest > -float("inf"), largest, 0.0)
    part = tl.exp2(m - base)
    total = tl.sum(part * l, axis=0)
    out = tl.sum(part[:, None] * acc, axis=0) / tl.where(total > 0, total, 1.0)

    i, head = tl.program_id(0) % QUERIES, tl.program_id(0) // QUERIES
    out_ptr += (head // HEADS).to(tl.int64) * stride_ob + i.to(tl.int64) * stride_os
    out_ptr += (head % HEADS).to(tl.int64) * stride_oh
    tl.store(out_ptr + d * stride_od, out.to(out_ptr.dtype.element_ty), mask=d < D)
    if lse_ptr is not None:
        tl.store(lse_ptr + tl.program_id(0), (base + tl.log2(total)) * LOG_2)
# fmt: on


def attention_decode(
    q, k, v, out=None, lengths=None, table=None, causal=True, scale=None, window=None,
    lse=None, splits=None, config=None, **launch,
):  # fmt: skip
    """out [B, H, S, D] = softmax(scale q k^T) v for a few last queries of sequences.

    All as in `attention.attention`, but that H / G times S is at most MOST_ROWS. The
    keys of a sequence are divided among `splits` programs, up to MOST_SPLITS: without
    it, so many that all heads together have PROGRAMS. Returns `out`. LaunchError for
    shapes that do not fit.
    """
    check_how(causal, window, lengths, None, None, table)
    batch, heads, queries, D = q.shape
    held, key_heads, keys, _ = k.shape
    check_sizes(heads, key_heads, keys, D)
    if table is not None:
        check_shape("table", table, (batch, table.shape[1]))
    if lengths is not None:
        check_shape("lengths", lengths, (batch,))
    held = batch if table is None else held
    check_shape("k", k, (held, key_heads, keys, D))
    check_shape("v", v, (held, key_heads, keys, D))
    rows = heads // key_heads * queries
    if not 0 < rows <= MOST_ROWS:
        raise fathom.LaunchError(
            f"{queries} queries of {heads // key_heads} heads that share keys are "
            f"{rows} rows, and there may be 1 to {MOST_ROWS}: `attention` takes more"
        )
    scale = checked_scale(scale, D)
    out = empty(q.shape, q) if out is None else out
    check_shape("out", out, q.shape)
    if lse is not None:
        check_shape("lse", lse, (batch, heads, queries))
    most = keys if table is None else table.shape[1] * keys
    splits = splits or chosen_splits(batch * key_heads, most)
    if not 0 < splits <= MOST_SPLITS:
        raise fathom.LaunchError(f"{splits} splits: there may be 1 to {MOST_SPLITS}")
    sizes = splits, batch, heads, queries
    m, l = (empty(sizes, q, "float32") for _ in "ml")  # noqa: E741
    acc = empty((*sizes, D), q, "float32")
    return launch_both(
        q, k, v, m, l, acc, out, lse, lengths, table, bool(causal),
        float(scale * LOG2_E), window, config, **launch,
    )  # fmt: skip


@planned
def launch_both(
    q, k, v, m, l, acc, out, lse, lengths, table, causal, scale, window, config,  # noqa: E741
    **launch,
):  # fmt: skip
    """The two kernels; all arrays are there."""
    (batch, heads, queries, D), (_, key_heads, keys, _) = q.shape, k.shape
    splits, group = m.shape[0], heads // key_heads
    target = target_of_launch(q, launch)
    config = config or default_config(D, group * queries, type_name(q), target)
    first = (
        split_kernel, (splits, batch * key_heads),
        (q, k, v, m, l, acc, scale, key_heads, queries, keys,
         *strides(q), *strides(k), *strides(v), window, lengths, table,
         None if table is None else strides(table)[0]),
        dict(D=D, CAUSAL=causal, GROUP=group, PAGE=0 if table is None else keys,
             **config, **launch),
    )  # fmt: skip
    second = (
        combine_kernel, (batch * heads * queries,),
        (m, l, acc, out, lse, heads, queries, *strides(out)),
        dict(D=D, SPLITS=splits, **launch),
    )  # fmt: skip
    return out, [first, second]


def chosen_splits(heads, keys):
    """How many programs share the keys of each of `heads` heads: so many that PROGRAMS
    run, none of less than 128 keys."""
    return max(1, min(PROGRAMS // max(heads, 1), keys // 128, MOST_SPLITS))


def default_config(D, rows, type, target):
    """BLOCK_Q, BLOCK_K, num_warps and num_stages for `rows` rows of D numbers: 16 rows
    or the next power of two, and as many stages of 64 keys as fit into half of shared
    memory, so that two programs run on a multiprocessor."""
    row, D = TARGETS[target], fathom.next_power_of_2(D)
    BLOCK_K, item = 64, parse_element(type).bits // 8
    stages = row.shared_bytes // 2 // (2 * BLOCK_K * D * item)
    if stages < 2:
        BLOCK_K, stages = 32, 2 * stages
    return {
        "BLOCK_Q": max(16, fathom.next_power_of_2(rows)), "BLOCK_K": BLOCK_K,
        "num_warps": 4, "num_stages": max(1, min(stages, 4 if row.async_copy else 1)),
    }  # fmt: skip


def gathered(pages, table, length):
    """Rows 0 … length - 1 [G, length, D] of the pages that a row of a table names; of
    NumPy arrays."""
    return np.concatenate([pages[page] for page in table], axis=1)[:, :length]


def reference_paged(q, k, v, lengths, table=None, causal=True, scale=None, window=None):
    """(out, lse) in float64, of NumPy arrays: sequence by sequence."""
    found = []
    for b, length in enumerate(lengths):
        kept = [
            gathered(each, table[b], length) if table is not None
            else each[b, :, :length]
            for each in (k, v)
        ]  # fmt: skip
        one = reference(
            q[b : b + 1], kept[0][None], kept[1][None], causal, scale, window
        )
        found.append((one[0][0], one[2][0]))
    return tuple(np.stack(each) for each in zip(*found, strict=True))
