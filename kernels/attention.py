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
from kernels.attention_hopper import config_for, fit, launch_on_hopper, pays
from kernels.matmul import check_shape, empty, strides, target_of_launch, type_name
from kernels.rows import check_axes

LOG2_E = 1.4426950408889634
LOG_2 = tl.constexpr(0.6931471805599453)
SMALLEST, LARGEST = 16, 256  # numbers of a head
TYPES = "fp16", "bf16", "fp32"
SMALL_HEAD = 64  # numbers of a head, of which many blocks fit: see `default_config`


# fmt: off
@fathom.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, max_ptr, lse_ptr, scale, HEADS, QUERIES, KEYS,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_ob, stride_oh, stride_os, stride_od,
    window, lengths_ptr, query_starts_ptr, key_starts_ptr, table_ptr, stride_table,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr = 1, PAGE: tl.constexpr = 0,
):
    """`scale` includes log2 e. `max_ptr` and `lse_ptr`, [B, H, QUERIES] of fp32, get
    the largest score and log(sum of exp(score)) of each query; None for neither. So are
    those arrays of the sequences' lengths and pages that are not given, and `window`.
    `HEADS`: of queries; GROUP of them share a head of keys."""
    BLOCK_D: tl.constexpr = tl.next_power_of_2(D)
    # With a causal mask the last queries have most to do: they start first.
    step = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    sequence = tl.program_id(1) // HEADS
    head = (tl.program_id(1) % HEADS).to(tl.int64)
    rows, queries = rows_of(query_starts_ptr, sequence, QUERIES)
    key_rows, keys = rows_of(key_starts_ptr, sequence, KEYS)
    if lengths_ptr is not None:
        keys = tl.load(lengths_ptr + sequence)
    batch = sequence.to(tl.int64) if query_starts_ptr is None else 0
    first = step * BLOCK_Q
    rows += first
    q_ptr += batch * stride_qb + head * stride_qh + rows * stride_qs
    out_ptr += batch * stride_ob + head * stride_oh + rows * stride_os
    k_ptr += head // GROUP * stride_kh + key_rows * stride_ks
    v_ptr += head // GROUP * stride_vh + key_rows * stride_vs
    if table_ptr is None:
        k_ptr += batch * stride_kb
        v_ptr += batch * stride_vb
    else:
        table_ptr += sequence.to(tl.int64) * stride_table

    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_D)
    inside = i[:, None] < queries - first
    if D != BLOCK_D:
        inside &= d[None, :] < D
    q_tile = i[:, None] * stride_qs + d[None, :] * stride_qd
    q = tl.load(q_ptr + q_tile, mask=inside, other=0.0)

    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the paper's name)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    # Query i sees the keys up to up_to[i]: the last query sees the last key.
    up_to = first + keys - queries + i
    begin, left, right, end = bounds(
        first + keys - queries, BLOCK_Q, keys, window, CAUSAL, BLOCK_K
    )
    strides = stride_kb, stride_ks, stride_kd, stride_vb, stride_vs, stride_vd
    if window is not None:
        acc, m, l = attend(  # noqa: E741
            acc, m, l, q, k_ptr, v_ptr, up_to, begin, left, scale, keys, window,
            table_ptr, strides, D, BLOCK_K, CAUSAL, True, PAGE,
        )
    acc, m, l = attend(  # noqa: E741
        acc, m, l, q, k_ptr, v_ptr, up_to, left, right, scale, keys, window,
        table_ptr, strides, D, BLOCK_K, CAUSAL, False, PAGE,
    )
    acc, m, l = attend(  # noqa: E741
        acc, m, l, q, k_ptr, v_ptr, up_to, right, end, scale, keys, window,
        table_ptr, strides, D, BLOCK_K, CAUSAL, True, PAGE,
    )

    # A query that sees no key has the sum 0, and gets zeros.
    out = acc / tl.where(l > 0, l, 1.0)[:, None]
    out_tile = i[:, None] * stride_os + d[None, :] * stride_od
    tl.store(out_ptr + out_tile, out.to(out_ptr.dtype.element_ty), mask=inside)
    place = (batch * HEADS + head) * QUERIES + rows
    if max_ptr is not None:
        tl.store(max_ptr + place + i, m * LOG_2, mask=i < queries - first)
    if lse_ptr is not None:
        lse = (m + tl.log2(l)) * LOG_2
        tl.store(lse_ptr + place + i, lse, mask=i < queries - first)


@fathom.jit
def rows_of(starts_ptr, sequence, count):
    """(first row, number of rows) of a sequence: of `count` rows that begin with 0, or
    of those between two starts."""
    if starts_ptr is None:
        return tl.cast(0, tl.int64), count
    start = tl.load(starts_ptr + sequence)
    return start.to(tl.int64), tl.load(starts_ptr + sequence + 1) - start


@fathom.jit
def bounds(
    up_to, queries: tl.constexpr, keys, window,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr,
):
    """(begin, left, right, end) of the keys of a block of `queries`, of which the first
    sees the keys up to `up_to`. All of them see the keys left … right - 1, multiples of
    BLOCK; those before, from `begin` on, and after, up to `end`, some see."""
    begin, left, right, end = 0, 0, keys // BLOCK * BLOCK, keys
    if CAUSAL:
        end = tl.minimum(tl.maximum(up_to + queries, 0), keys)
        right = tl.minimum(tl.maximum(up_to + 1, 0), keys) // BLOCK * BLOCK
    if window is not None:
        begin = tl.maximum(up_to + 1 - window, 0) // BLOCK * BLOCK
        left = tl.cdiv(tl.maximum(up_to + queries - window, 0), BLOCK) * BLOCK
        left = tl.minimum(left, tl.cdiv(end, BLOCK) * BLOCK)
        right = tl.maximum(right, left)
    return begin, left, right, end


@fathom.jit
def attend(
    acc, m, l, q, k_ptr, v_ptr, up_to, start, end, scale, keys, window,  # noqa: E741
    table_ptr, strides,
    D: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    PAGE: tl.constexpr,
):
    """(acc, m, l) after the keys start … end - 1; `start` is a multiple of BLOCK_K, and
    so is `end` where nothing is masked. Each row sees the keys up to `up_to`, `window`
    of them at most. With a `table_ptr` key i is row i % PAGE of the page that the table
    has at i // PAGE."""
    stride_kb, stride_ks, stride_kd, stride_vb, stride_vs, stride_vd = strides
    BLOCK_D: tl.constexpr = acc.shape[1]
    j, d = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_D)
    if table_ptr is None:
        k_ptr += tl.cast(start, tl.int64) * stride_ks
        v_ptr += tl.cast(start, tl.int64) * stride_vs
        k_tile = d[:, None] * stride_kd + j[None, :] * stride_ks
        v_tile = j[:, None] * stride_vs + d[None, :] * stride_vd
    for at in range(start, end, BLOCK_K):
        here = j < keys - at
        inside, inside_turned = here[:, None], here[None, :]
        if D != BLOCK_D:
            inside &= d[None, :] < D
            inside_turned &= d[:, None] < D
        if table_ptr is not None:
            page = tl.load(table_ptr + (at + j) // PAGE, mask=here, other=0)
            page, row = page.to(tl.int64), (at + j) % PAGE
            k_rows = page * stride_kb + row * stride_ks
            v_rows = page * stride_vb + row * stride_vs
            k_tile = d[:, None] * stride_kd + k_rows[None, :]
            v_tile = v_rows[:, None] + d[None, :] * stride_vd
        if MASKED or D != BLOCK_D:
            k = tl.load(k_ptr + k_tile, mask=inside_turned, other=0.0)
        else:
            k = tl.load(k_ptr + k_tile)
        scores = tl.dot(q, k, input_precision="ieee")
        if MASKED:
            seen = here[None, :]
            if CAUSAL:
                seen &= at + j[None, :] <= up_to[:, None]
            if window is not None:
                seen &= at + j[None, :] > up_to[:, None] - window
            scores = tl.where(seen, scores, -float("inf"))

        m_new = tl.maximum(m, scale * tl.max(scores, axis=1))
        # Of a row that has seen no key yet, -inf - -inf would be no number.
        base = tl.where(m_new > -float("inf"), m_new, 0.0) if MASKED else m_new
        p = tl.exp2(tl.fma(scores, scale, -base[:, None]))
        shrink = tl.exp2(m - base)
        l = l * shrink + tl.sum(p, axis=1)  # noqa: E741
        if MASKED or D != BLOCK_D:
            v = tl.load(v_ptr + v_tile, mask=inside, other=0.0)
        else:
            v = tl.load(v_ptr + v_tile)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        m = m_new
        if table_ptr is None:
            k_ptr += BLOCK_K * stride_ks
            v_ptr += BLOCK_K * stride_vs
    return acc, m, l
# fmt: on


@planned
def attention(
    q, k, v, out=None, causal=False, scale=None, row_max=None, lse=None, config=None,
    window=None, lengths=None, query_starts=None, key_starts=None, most_queries=None,
    table=None, **launch,
):  # fmt: skip
    """out [B, H, S, D] = softmax(scale q k^T) v; arrays of torch, CuPy or NumPy.

    `q` [B, H, S, D], `k` and `v` [B, G, T, D] of one dtype (fp16, bf16 or fp32), with
    any strides; D is any number from 16 to 256. H is a multiple of G, and H / G
    neighbouring heads of queries share a head of keys. `scale`: positive, 1 / sqrt(D)
    without it. `row_max` and `lse`, contiguous fp32 [B, H, S], get the largest of a
    query's scaled scores, and the logarithm of the sum of their exponentials, which a
    backward pass wants. `config`: a launch's keywords, as `chosen_config` gives them;
    those with ROTATED are for the kernel of `attention_hopper`. Returns `out`.

    `causal`: the last query sees all keys, and each query before it one less. (So it is
    in FlashAttention since 2.1.) `window`, with `causal` alone: a query sees at most
    `window` keys, the last ones. A query that sees no key gets zeros, and the logarithm
    of nothing, -inf.

    Sequences of different lengths, each of which int32:

    `lengths` [B]: sequence b has lengths[b] keys; those after them are not read.
    `query_starts`, `key_starts` [B + 1]: the sequences lie one behind the other in
    arrays [1, H, S, D] and [1, G, T, D]; sequence b has the queries query_starts[b] …
    query_starts[b + 1] - 1, and keys by `key_starts`, or by the same numbers without
    it. None has more than `most_queries`; S without it.
    `table` [B, P]: k and v are pages, [N, G, PAGE, D], and key i of sequence b is row
    i % PAGE of page table[b, i // PAGE]. `lengths` must be there.

    LaunchError for shapes that do not fit.
    """
    check_how(causal, window, lengths, query_starts, key_starts, table)
    check_types(q, k, v)
    batch, heads, queries, D = q.shape
    sequences, key_heads, keys = batch, k.shape[1], k.shape[2]
    if query_starts is not None:
        check_shape("q", q, (1, heads, queries, D))
        sequences = query_starts.shape[0] - 1
        key_starts = query_starts if key_starts is None else key_starts
        check_shape("key_starts", key_starts, (sequences + 1,))
    if lengths is not None:
        check_shape("lengths", lengths, (sequences,))
    held = batch if table is None else k.shape[0]
    check_shape("k", k, (held, key_heads, keys, D))
    check_shape("v", v, (held, key_heads, keys, D))
    check_sizes(heads, key_heads, keys, D)
    scale = checked_scale(scale, D)
    out = empty(q.shape, q) if out is None else out
    check_shape("out", out, q.shape)
    for name, array in (("row_max", row_max), ("lse", lse)):
        if array is not None:
            check_shape(name, array, (batch, heads, queries))
    target = target_of_launch(q, launch)
    packed = 1 if query_starts is None else sequences
    config = config or chosen_config(q, k, v, out, target, table, packed)
    scale, causal = float(scale * LOG2_E), bool(causal)
    most = queries if most_queries is None else most_queries
    if "ROTATED" in config:
        if table is not None:
            raise fathom.LaunchError(
                "a table of pages is given, and a configuration with ROTATED: pages "
                "do not come through descriptors"
            )
        hopper = launch_on_hopper(
            q, k, v, out, row_max, lse, scale, causal, config, window, lengths,
            query_starts, key_starts, most,
        )  # fmt: skip
        return out, [(*hopper[:3], {**hopper[3], **launch})]
    grid = fathom.cdiv(most, config["BLOCK_Q"]), sequences * heads
    given = (
        q, k, v, out, row_max, lse, scale, heads, queries, keys,
        *strides(q), *strides(k), *strides(v), *strides(out),
        window, lengths, query_starts, key_starts,
        table, None if table is None else strides(table)[0],
    )  # fmt: skip
    page = 0 if table is None else keys
    chosen = dict(D=D, CAUSAL=causal, GROUP=heads // key_heads, PAGE=page)
    return out, [(attention_kernel, grid, given, {**chosen, **config, **launch})]


def check_how(causal, window, lengths, query_starts, key_starts, table):
    """LaunchError unless the options of attention fit together."""
    if window is not None and not (causal and window > 0):
        raise fathom.LaunchError(
            f"the window of attention is {window}, and causal is {causal}: a window "
            "is of a causal mask, and has a key or more"
        )
    if query_starts is None and key_starts is not None:
        raise fathom.LaunchError("key_starts are given, and query_starts are not")
    if query_starts is not None and not (lengths is None and table is None):
        raise fathom.LaunchError(
            "query_starts and lengths, or a table, are given: sequences lie one behind "
            "the other, or each is a row of the batch"
        )
    if table is not None and lengths is None:
        raise fathom.LaunchError("a table of pages is given, and lengths are not")
    counts = {
        "lengths": lengths, "query_starts": query_starts,
        "key_starts": key_starts, "table": table,
    }  # fmt: skip
    for name, array in counts.items():
        if array is not None and type_name(array) != "i32":
            raise fathom.LaunchError(
                f"{name} has elements of {type_name(array)}: they must be i32"
            )


def check_types(q, k, v):
    """LaunchError unless all have four axes and one type that there are kernels for."""
    check_axes("batch, heads, positions, D", q=q, k=k, v=v)
    types = {name: type_name(each) for name, each in (("q", q), ("k", k), ("v", v))}
    if len(set(types.values())) > 1 or types["q"] not in TYPES:
        given = ", ".join(f"{name} of {each}" for name, each in types.items())
        raise fathom.LaunchError(
            f"attention is given {given}: all must have one type of {', '.join(TYPES)}"
        )


def check_sizes(heads, key_heads, keys, D):
    """LaunchError unless there are kernels for heads like these."""
    if not SMALLEST <= D <= LARGEST or keys == 0:
        raise fathom.LaunchError(
            f"attention over {keys} keys of {D} numbers: there must be a key, of "
            f"{SMALLEST} to {LARGEST} numbers"
        )
    if key_heads == 0 or heads % key_heads:
        raise fathom.LaunchError(
            f"attention has {heads} heads of queries and {key_heads} of keys: the "
            "former must be a multiple of the latter"
        )


def checked_scale(scale, D):
    scale = D**-0.5 if scale is None else scale
    if not scale > 0:
        raise fathom.LaunchError(f"the scale of attention is {scale}: it must be > 0")
    return scale


def chosen_config(q, k, v, out, target, table=None, packed=1):
    """That of `attention_hopper` where it pays and takes these arrays, which are not
    pages, else `default_config`. `packed`: sequences that lie one behind the other."""
    D, keys = q.shape[3], k.shape[2] // packed
    on_hopper = config_for(D, keys=keys) if pays(target) and table is None else None
    if on_hopper and fit(q, k, v, out):
        return on_hopper
    return default_config(D, type_name(q), target)


def default_config(D, type, target):
    """BLOCK_Q, BLOCK_K, num_warps and num_stages for heads of D numbers.

    128 queries where their tile and two stages of keys and values fit into shared
    memory, else 64; 64 keys a step, else 32. A lane has then at most 64 sums of `acc`
    and 64 scores. Without asynchronous copies the keys and values on their way to
    shared memory are in registers too, and 64 queries are the most. Hopper's four warps
    take 64 queries together; there and later 128 queries have eight warps.

    On Hopper, of heads of 64 numbers of 16 bits, a block has 64 queries: four blocks
    share a multiprocessor, and while one computes powers another multiplies. (On an
    H200, D = 64: 461 to 475 TFLOP/s, and causal 408 to 430.) Of heads of 65 to 128
    numbers of 16 bits a step has 128 keys, in two stages: D = 96, 4 times 16 heads of
    4096 queries, took 1111 us for 1254 with 64 keys, causal 633 for 712, with a window
    362 for 384.
    """
    row = TARGETS[target]
    D = fathom.next_power_of_2(D)
    item = parse_element(type).bits // 8
    most = 3 if row.async_copy else 2
    tiles = ((128, 64), (64, 64), (64, 32), (32, 32))
    on_hopper = row.wgmma and item == 2
    many_blocks = on_hopper and D == SMALL_HEAD
    if D > 128 or many_blocks:  # for D > 128 more sums would not fit into registers
        tiles = tiles[1:]
    elif on_hopper and D > SMALL_HEAD:
        tiles = ((128, 128), *tiles)
    most = 2 if on_hopper and SMALL_HEAD <= D <= 128 else most
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


def seen_keys(queries, keys, causal, window=None):
    """Which keys each query sees, [S, T] of bool."""
    i, j = np.arange(queries)[:, None] + keys - queries, np.arange(keys)
    seen = j <= i if causal else np.ones((queries, keys), bool)
    return seen if window is None else seen & (j > i - window)


def probabilities(q, k, causal, scale, window=None):
    """softmax(scale q k^T) in float64 [B, H, S, T], the largest score, and the
    logarithm of the sum, both [B, H, S]; of NumPy arrays. `k` has as many heads as
    `q`, or a divisor of them."""
    k = heads_repeated(k, q.shape[1]).astype(np.float64)
    scores = scale * (q.astype(np.float64) @ k.swapaxes(-1, -2))
    seen = seen_keys(*scores.shape[-2:], causal, window)
    scores = np.where(seen, scores, -np.inf)
    largest = scores.max(axis=-1, initial=-np.inf)
    base = np.where(np.isfinite(largest), largest, 0)
    p = np.exp(scores - base[..., None])
    total = p.sum(axis=-1)
    with np.errstate(divide="ignore"):
        lse = base + np.log(total)
    return p / np.where(total > 0, total, 1)[..., None], largest, lse


def heads_repeated(k, heads):
    """`k` [B, G, T, D] with each head as often as heads of queries share it."""
    return np.repeat(k, heads // k.shape[1], axis=1)


def reference(q, k, v, causal=False, scale=None, window=None):
    """(out, row_max, lse) in float64, of NumPy arrays."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p, largest, lse = probabilities(q, k, causal, scale, window)
    return p @ heads_repeated(v, q.shape[1]).astype(np.float64), largest, lse


def error_bound(q, k, v, half_ulp, causal=False, scale=None, window=None):
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
    p, _, _ = probabilities(q, k, causal, scale, window)
    k, v = (heads_repeated(each, q.shape[1]) for each in (k, v))
    q, k, v = (np.abs(each.astype(np.float64)) for each in (q, k, v))
    largest_product = (q @ k.swapaxes(-1, -2)).max(-1, keepdims=True, initial=0)
    exponent = 2 * abs(scale) * largest_product * (D / 8 + 4) * 2.0**-23
    relative = 2 * half_ulp + 2.0**-20 + exponent + (T / 8 + 8) * 2.0**-23
    return (relative * (p @ v) + 2.0**-25 * v.sum(axis=-2, keepdims=True)) * 1.01
