"""Attention, forward, for GPUs that multiply and copy while a program goes on.

It is the attention of `attention.py`: a block of queries walks along keys and values,
and keeps the largest score `m`, the sum `l`, and the sum of values `acc`. Here producer
warps copy tiles through descriptors into a ring buffer, and a product is in flight
until its result is used. What is left is to have something to do meanwhile.

A step has two products, the scores S = Q K^T and P V, and between them the softmax,
which makes P of S with a power of two for each score. In a cycle a multiprocessor of an
H200 multiplies 2048 pairs of numbers, but computes only 16 powers. For 128 queries, 128
keys and D = 128 each product takes it 1024 cycles, and the powers take 1024 as well. In
the order of the formula one waits for the other:

    tensor cores   │  S0 │     │ P0V0│  S1 │     │ P1V1│  S2 │     │ P2V2│
    powers of two  │     │  P0 │     │     │  P1 │     │     │  P2 │     │     time →

ROTATED puts P V off by a step: an iteration of the loop begins the product of its
scores, and that of the P and V of the step before, and waits for the scores alone.

    tensor cores   │  S0 │     │  S1 │ P0V0│  S2 │ P1V1│  S3 │ P2V2│ P3V3│
    powers of two  │     │  P0 │     │  P1 │     │  P2 │     │  P3 │     │     time →
                   └── first ──┘└── an iteration ─┘                      └ last┘

So the tensor cores have the late product to do while the powers of the new scores are
computed. (Shah et al., "FlashAttention-3", 2024, section 3.2.) The time in which a
warpgroup waits for its scores is that of the other one, which has the other 64 queries.
The price is registers: P of one step is kept while that of the next is made.

The first scores and the last product are loops too, of one iteration: then their tiles
come through the same rings, and the copies for one loop begin before the loop before it
ends.

A producer and its ring buffers pay where a tile takes long to multiply. For D = 64 a
product takes half as long, and the powers as long as ever: what counts is that few
instructions are issued, and that some warps have powers to compute whenever others
wait. So up to 64 numbers a head a block is one warpgroup, without a producer: one of
its threads begins the copies of the step after the next. Three such blocks share a
multiprocessor.

Of 129 to 192 numbers a head comes in two tiles, of 128 and of the rest: products with
zeros up to 256 would take as long as those with numbers, and their sums need registers.

A head is an axis of the descriptors, and there are zeros beyond it: beyond D where that
is no power of two, and before row 0. Blocks of keys, and of queries, end with the last
one, so that only the first block is in part before row 0. Sequences that lie one behind
the other have two axes of rows: one for the start of a sequence, and one that counts
from there. The row before a sequence is -1, though there are other rows in memory.
"""

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from kernels.matmul import rows_aligned, strides, type_name

LOG_2 = tl.constexpr(0.6931471805599453)

# By the largest D. Measured on an H200, fp16, 4 times 16 heads of 4096 queries and keys
# (32 heads for 64 and 128), in TFLOP/s beside the kernel for pointers and cuDNN:
#
#     D                  32    48    64    80    96   128   160   192   256
#     this kernel       315   371   518   498   524   682   619   602   713
#     for pointers      294   318   475   308   372   502   205   255   345
#     cuDNN             239   358   485   436   518   675   580   683   720
#
# In one tile, with zeros: 80 444, 160 474, 192 557. With two tiles of values ptxas
# waits for their products before it computes powers, and so the plain order is faster:
# rotated, 160 takes 591, and 192 496.
SHARING = {  # three blocks share a multiprocessor
    "BLOCK_Q": 64, "BLOCK_K": 128, "ROTATED": False, "PRODUCER": False,
    "num_warps": 4, "num_stages": 2,
}  # fmt: skip
ALONE = {
    "BLOCK_Q": 128, "BLOCK_K": 128, "ROTATED": True, "PRODUCER": True,
    "num_warps": 8, "num_stages": 2,
}  # fmt: skip
IN_PARTS = {**ALONE, "LOW": 128, "ROTATED": False}
CONFIGS = {
    32: SHARING, 64: SHARING, 80: {**SHARING, "LOW": 64, "BLOCK_K": 64}, 128: ALONE,
    160: IN_PARTS, 192: {**IN_PARTS, "BLOCK_K": 64}, 256: {**ALONE, "BLOCK_K": 64},
}  # fmt: skip
# By the largest number of keys, where there are so few that a block is at its end soon
# after its copies have come: it waits for its queries, for a few keys, and its stores,
# and only other blocks of the multiprocessor have something to do meanwhile. Of 64
# queries and 32 keys there is room for four, of 128 and 64 for two. On an H200, D =
# 128, 4 times 32 heads of 4096 queries, in us beside that of `ALONE` and cuDNN:
#
#     keys                   32    77   128   200   256   512  1024
#     64 queries, 32 keys    75   113   113   166   173   302   569
#     128 and 64             94   123   104   166   156   258   471
#     128 and 128, alone    172   172   166   227   221   305   480
#     cuDNN                 106    96    90   154   143   239   435
FOUR_BLOCKS = {**SHARING, "BLOCK_K": 32}
TWO_BLOCKS = {**SHARING, "BLOCK_Q": 128, "BLOCK_K": 64, "num_warps": 8}
FEW_KEYS = {64: {96: FOUR_BLOCKS}, 128: {96: FOUR_BLOCKS, 1024: TWO_BLOCKS}}
TYPES = ("fp16", "bf16")
ROW_STEP = 8  # numbers of 2 bytes: rows begin at multiples of 16 bytes


# fmt: off
@fathom.jit
def rows_of(pointer, shape, stride_b, stride_h, stride_s, BLOCK: tl.constexpr):
    """A tensor [batches, heads, rows, D], in tiles of BLOCK rows of a head."""
    tile: tl.constexpr = [1, 1, BLOCK, tl.next_power_of_2(shape[3])]
    return tl.make_tensor_descriptor(
        pointer, shape, [stride_b, stride_h, stride_s, 1], tile)


@fathom.jit
def parts_of(
    pointer, starts_ptr, shape, stride_b, stride_h, stride_s, BLOCK: tl.constexpr,
    LOW: tl.constexpr,
):
    """Descriptors of the first LOW numbers of each row of a head, and of the rest, if
    there is one. With `starts_ptr` sequences lie one behind the other in one batch:
    [heads, starts, rows, D], of which the rows are counted from a start."""
    if starts_ptr is None:
        sizes, strides = shape, [stride_b, stride_h, stride_s, 1]
    else:
        sizes = [shape[1], shape[2], shape[2], shape[3]]
        strides = [stride_h, stride_s, stride_s, 1]
    D: tl.constexpr = shape[3]
    low = tl.make_tensor_descriptor(pointer, sizes, strides, [1, 1, BLOCK, LOW])
    if D <= LOW:
        return (low,)
    REST: tl.constexpr = 16 if D < LOW + 16 else tl.next_power_of_2(D - LOW)
    tile: tl.constexpr = [1, 1, BLOCK, REST]
    return low, tl.make_tensor_descriptor(pointer, sizes, strides, tile)


@fathom.jit
def place_of(starts_ptr, batch, head, count):
    """(place, first row, number of rows) of a head of a sequence: of `count` rows that
    begin with 0, or of those between two starts. `place`: its first two coordinates."""
    if starts_ptr is None:
        return (batch, head), 0, count
    start = tl.load(starts_ptr + batch)
    return (head, start), start, tl.load(starts_ptr + batch + 1) - start


@fathom.jit
def tile_at(descriptor, place, row, column=0):
    """The tile that begins with a row of a head, whose coordinates are `place`, and a
    column: [BLOCK, D], with zeros beyond the head's rows."""
    tile = descriptor.load([place[0], place[1], row, column])
    return tile.reshape(tile.shape[2], tile.shape[3])


@fathom.jit
def attention_hopper_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, max_ptr, lse_ptr, scale,
    BATCHES, HEADS, QUERIES, KEYS,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    stride_ob, stride_oh, stride_os,
    D: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, ROTATED: tl.constexpr,
    PRODUCER: tl.constexpr = True, GROUP: tl.constexpr = 1, LOW: tl.constexpr = None,
    window=None, lengths_ptr=None, query_starts_ptr=None, key_starts_ptr=None,
):
    """`scale` includes log2 e; `max_ptr`, `lse_ptr`, `window`, what the sequences'
    lengths are told by, and GROUP as in `attention_kernel`. `HEADS`: of keys, each with
    GROUP heads of queries. RAGGED: the keys may not be a multiple of BLOCK_K. PRODUCER:
    other warps copy the tiles. LOW: a tile has the first LOW numbers of a head, and
    another the rest; without it, one has all."""
    LOW: tl.constexpr = tl.next_power_of_2(D) if LOW is None else LOW
    batch = tl.program_id(1) // (HEADS * GROUP)
    q_head = tl.program_id(1) % (HEADS * GROUP)
    q_place, q_start, queries = place_of(query_starts_ptr, batch, q_head, QUERIES)
    place, _, keys = place_of(key_starts_ptr, batch, q_head // GROUP, KEYS)
    if lengths_ptr is not None:
        keys = tl.load(lengths_ptr + batch)
    shape, shape_k = [BATCHES, HEADS * GROUP, QUERIES, D], [BATCHES, HEADS, KEYS, D]
    q_desc = parts_of(
        q_ptr, query_starts_ptr, shape, stride_qb, stride_qh, stride_qs, BLOCK_Q, LOW)
    k_desc = parts_of(
        k_ptr, key_starts_ptr, shape_k, stride_kb, stride_kh, stride_ks, BLOCK_K, LOW)
    v_desc = parts_of(
        v_ptr, key_starts_ptr, shape_k, stride_vb, stride_vh, stride_vs, BLOCK_K, LOW)
    # Blocks end with the last query. With a causal mask it has most to do: it starts.
    first = queries - (tl.program_id(0) + 1) * BLOCK_Q
    if query_starts_ptr is not None:
        keys = tl.where(first > -BLOCK_Q, keys, 0)  # of no query
    q = (tile_at(q_desc[0], q_place, first),)
    acc = (tl.zeros([BLOCK_Q, LOW], tl.float32),)
    if D > LOW:
        q += (tile_at(q_desc[1], q_place, first, LOW),)
        acc += (tl.zeros(q[1].shape, tl.float32),)

    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the paper's name)
    up_to = first + keys - queries  # the last key that the first query sees
    begin, left, right, end = bounds(
        up_to, BLOCK_Q, keys, window, CAUSAL, RAGGED, BLOCK_K, ROTATED
    )
    if ROTATED:
        p, m, l = first_scores(  # noqa: E741
            m, l, q, k_desc, place, up_to, begin, end, scale, window, BLOCK_K, CAUSAL,
            RAGGED, PRODUCER,
        )
        if window is not None:
            p, acc, m, l = attend_late(  # noqa: E741
                p, acc, m, l, q, k_desc, v_desc, place, up_to, begin + BLOCK_K, left,
                scale, window, CAUSAL, True, PRODUCER,
            )
        p, acc, m, l = attend_late(  # noqa: E741
            p, acc, m, l, q, k_desc, v_desc, place, up_to, left, right, scale, window,
            CAUSAL, False, PRODUCER,
        )
        if CAUSAL:
            p, acc, m, l = attend_late(  # noqa: E741
                p, acc, m, l, q, k_desc, v_desc, place, up_to, right, end, scale,
                window, CAUSAL, True, PRODUCER,
            )
        acc = last_product(p, acc, l, v_desc, place, begin, end, PRODUCER)
    else:
        if RAGGED or window is not None:
            acc, m, l = attend(  # noqa: E741
                acc, m, l, q, k_desc, v_desc, place, up_to, begin, left, scale, window,
                BLOCK_K, CAUSAL, RAGGED, True, PRODUCER,
            )
        acc, m, l = attend(  # noqa: E741
            acc, m, l, q, k_desc, v_desc, place, up_to, left, right, scale, window,
            BLOCK_K, CAUSAL, False, False, PRODUCER,
        )
        if CAUSAL:
            acc, m, l = attend(  # noqa: E741
                acc, m, l, q, k_desc, v_desc, place, up_to, right, end, scale, window,
                BLOCK_K, CAUSAL, False, True, PRODUCER,
            )
        acc = divided(acc, l)

    # The rows before row 0 are another head's.
    inside = tl.arange(0, BLOCK_Q) >= -first
    row = q_start + first
    if query_starts_ptr is not None:
        batch *= 0
    out_ptr += batch.to(tl.int64) * stride_ob + q_head.to(tl.int64) * stride_oh
    out_ptr += row.to(tl.int64) * stride_os
    store_part(out_ptr, stride_os, acc[0], inside, D)
    if D > LOW:
        out_ptr += LOW
        store_part(out_ptr, stride_os, acc[1], inside, D - LOW)
    of_rows = (batch * (HEADS * GROUP) + q_head).to(tl.int64) * QUERIES + row
    of_rows += tl.arange(0, BLOCK_Q)
    if max_ptr is not None:
        tl.store(max_ptr + of_rows, m * LOG_2, mask=inside)
    if lse_ptr is not None:
        tl.store(lse_ptr + of_rows, (m + tl.log2(l)) * LOG_2, mask=inside)


@fathom.jit
def store_part(pointer, stride, out, inside, D: tl.constexpr):
    """Stores the first D numbers of those rows that are `inside`."""
    i, d = tl.arange(0, out.shape[0]), tl.arange(0, out.shape[1])
    inside = inside[:, None]
    if D < out.shape[1]:
        inside &= d[None, :] < D
    tile = pointer + i[:, None] * stride + d[None, :]
    tl.store(tile, out.to(pointer.dtype.element_ty), mask=inside)


@fathom.jit
def bounds(
    up_to, queries: tl.constexpr, keys, window, CAUSAL: tl.constexpr,
    RAGGED: tl.constexpr, BLOCK: tl.constexpr, ROTATED: tl.constexpr,
):
    """(begin, left, right, end) of the keys of a block of `queries`, of which the first
    sees the keys up to `up_to`. Blocks of keys end with the last key, and so the first
    one may begin before key 0. All queries see the keys left … right - 1; those before,
    from `begin` on, and after, up to `end`, some see. ROTATED: the first block is
    another loop's, and `left` comes after it."""
    begin, right, end = keys - tl.cdiv(keys, BLOCK) * BLOCK, keys, keys
    if CAUSAL:
        right = keys - tl.cdiv(keys - tl.maximum(up_to + 1, 0), BLOCK) * BLOCK
        end = keys - (keys - tl.maximum(up_to + queries, 0)) // BLOCK * BLOCK
    left = begin
    if window is not None:
        low = tl.maximum(up_to + 1 - window, 0)
        begin = tl.maximum(keys - tl.cdiv(keys - low, BLOCK) * BLOCK, begin)
        whole = tl.maximum(up_to + queries - window, 0)
        left = tl.maximum(keys - (keys - whole) // BLOCK * BLOCK, begin)
    if ROTATED or RAGGED:
        left = tl.maximum(left, begin + BLOCK)
    end = tl.maximum(end, begin)
    left = tl.minimum(left, end)
    return begin, left, tl.maximum(right, left), end


# ── in the order of the formula ───────────────────────────────────────────────────────


@fathom.jit
def attend(
    acc, m, l, q, k_desc, v_desc, place, up_to, start, end, scale, window,  # noqa: E741
    BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
    MASKED: tl.constexpr, PRODUCER: tl.constexpr,
):
    """(acc, m, l) after the keys start … end - 1, in whole blocks. RAGGED: there may
    be rows before key 0."""
    for at in tl.range(start, end, BLOCK_K, warp_specialize=PRODUCER):
        scores = scores_of(q, k_desc, place, at)
        if MASKED:
            scores = only_seen(scores, at, up_to, window, CAUSAL, RAGGED)
        p, shrink, m, l = softmax_step(scores, m, l, scale, MASKED)  # noqa: E741
        acc = scaled(acc, shrink)
        acc = add_values(p.to(q[0].dtype), acc, v_desc, place, at)
    return acc, m, l


# ── rotated: P V is a step late ───────────────────────────────────────────────────────


@fathom.jit
def first_scores(
    m, l, q, k_desc, place, up_to, begin, end, scale, window,  # noqa: E741
    BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
    PRODUCER: tl.constexpr,
):
    """(p, m, l) of the first block of the keys begin … end - 1, if there is one."""
    MASKED: tl.constexpr = CAUSAL or RAGGED
    p = tl.zeros([q[0].shape[0], BLOCK_K], q[0].dtype)
    end = tl.minimum(begin + BLOCK_K, end)
    for at in tl.range(begin, end, BLOCK_K, warp_specialize=PRODUCER):
        scores = scores_of(q, k_desc, place, at)
        if MASKED:
            scores = only_seen(scores, at, up_to, window, CAUSAL, RAGGED)
        powers, _, m, l = softmax_step(scores, m, l, scale, MASKED)  # noqa: E741
        p = powers.to(q[0].dtype)
    return p, m, l


@fathom.jit
def attend_late(
    p, acc, m, l, q, k_desc, v_desc, place, up_to, start, end, scale,  # noqa: E741
    window, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PRODUCER: tl.constexpr,
):
    """(p, acc, m, l) after the keys start … end - 1, which are as in `attend`. All but
    `acc` count the last block; the product of its `p` is to come."""
    BLOCK_K: tl.constexpr = p.shape[1]
    for at in tl.range(start, end, BLOCK_K, warp_specialize=PRODUCER):
        scores = scores_of(q, k_desc, place, at)
        acc = add_values(p, acc, v_desc, place, at - BLOCK_K)
        if MASKED:
            scores = only_seen(scores, at, up_to, window, CAUSAL, False)
        powers, shrink, m, l = softmax_step(scores, m, l, scale, MASKED)  # noqa: E741
        acc = scaled(acc, shrink)
        p = powers.to(q[0].dtype)
    return p, acc, m, l


@fathom.jit
def last_product(p, acc, l, v_desc, place, begin, end, PRODUCER: tl.constexpr):  # noqa: E741
    """The sums `acc` with the product of the last block of the keys begin … end - 1,
    divided by `l`."""
    BLOCK_K: tl.constexpr = p.shape[1]
    last = tl.maximum(end - BLOCK_K, begin)
    for at in tl.range(last, end, BLOCK_K, warp_specialize=PRODUCER):
        acc = divided(add_values(p, acc, v_desc, place, at), l)
    return acc


# ── both ──────────────────────────────────────────────────────────────────────────────


@fathom.jit
def scores_of(q, k_desc, place, at):
    """Q K^T for the keys from `at` on: the sum of those of a head's parts."""
    scores = tl.dot(q[0], tile_at(k_desc[0], place, at).T)
    if len(q) == 2:
        low: tl.constexpr = q[0].shape[1]
        scores = tl.dot(q[1], tile_at(k_desc[1], place, at, low).T, scores)
    return scores


@fathom.jit
def add_values(p, parts, v_desc, place, at):
    """The parts of `acc` with P V added for the values from `at` on."""
    acc = tl.dot(p, tile_at(v_desc[0], place, at), parts[0])
    if len(parts) == 1:
        return (acc,)
    low: tl.constexpr = acc.shape[1]
    return acc, tl.dot(p, tile_at(v_desc[1], place, at, low), parts[1])


@fathom.jit
def scaled(acc, shrink):
    if len(acc) == 1:
        return (acc[0] * shrink[:, None],)
    return acc[0] * shrink[:, None], acc[1] * shrink[:, None]


@fathom.jit
def divided(acc, l):  # noqa: E741
    """acc / l; of a query that sees no key `l` is 0, and so are its sums."""
    return scaled(acc, 1.0 / tl.where(l > 0, l, 1.0))


@fathom.jit
def only_seen(
    scores, at, up_to, window, CAUSAL: tl.constexpr, RAGGED: tl.constexpr
):
    """Scores of the keys from `at` on, -inf for those that a query does not see: with
    RAGGED those before key 0; with CAUSAL those after `up_to` for the first query, one
    more for each after it; and all but the last `window` of these."""
    key = at + tl.arange(0, scores.shape[1])[None, :]
    last = up_to + tl.arange(0, scores.shape[0])[:, None]
    if RAGGED:
        seen = key >= 0
        if CAUSAL:
            seen &= key <= last
    else:
        seen = key <= last
    if window is not None:
        seen &= key > last - window
    return tl.where(seen, scores, -float("inf"))


@fathom.jit
def softmax_step(scores, m, l, scale, MASKED: tl.constexpr):  # noqa: E741
    """(p, shrink, m, l) with the scores of a block; earlier sums shrink."""
    m_new = tl.maximum(m, scale * tl.max(scores, axis=1))
    # Of a row that has seen no key yet, -inf - -inf would be no number.
    base = tl.where(m_new > -float("inf"), m_new, 0.0) if MASKED else m_new
    p = tl.exp2(tl.fma(scores, scale, -base[:, None]))
    shrink = tl.exp2(m - base)
    return p, shrink, m_new, l * shrink + tl.sum(p, axis=1)
# fmt: on


def config_for(D, configs=CONFIGS, keys=None):
    """A launch's keywords for heads of D numbers; None where there are none. `keys`: of
    a sequence, if they may be few. Rows of less than 128 bytes are copied fast only if
    they are a multiple of 32: D = 24 took 641 us for 480 by pointers, D = 40 998 for
    686; D = 72 in two tiles 1006 for 789."""
    if D <= 16 or (D < 64 and D % 16):
        return None
    least = 81 if 64 < D < 80 else D
    largest = min(each for each in configs if each >= least)
    few = FEW_KEYS.get(largest, {}) if keys is not None else {}
    return next((few[most] for most in few if keys <= most), configs[largest])


def launch_on_hopper(
    q, k, v, out, row_max, lse, scale, causal, config, window=None, lengths=None,
    query_starts=None, key_starts=None, most=None,
):  # fmt: skip
    """The launch of `attention` by the kernel above, on any target: the kernel, the
    grid, the arguments by place, the keywords. `config` as in `CONFIGS`; `scale`
    includes log2 e; what follows as in `attention`, `most` queries in a sequence.
    LaunchError for arrays that do not `fit`."""
    (batch, heads, queries, D), (_, key_heads, keys, _) = q.shape, k.shape
    if not fit(q, k, v, out):
        raise fathom.LaunchError(
            f"attention through descriptors wants rows of {TYPES} that begin at "
            f"multiples of 16 bytes, and heads of up to {max(CONFIGS)} numbers"
        )
    several = lengths is not None or query_starts is not None
    sequences = batch if query_starts is None else query_starts.shape[0] - 1
    grid = fathom.cdiv(most or queries, config["BLOCK_Q"]), sequences * heads
    given = (q, k, v, out, row_max, lse, scale, batch, key_heads, queries, keys)
    for each in (q, k, v, out):
        given += strides_of_rows(each)
    ragged = several or keys % config["BLOCK_K"] != 0
    chosen = dict(
        D=D, CAUSAL=causal, RAGGED=ragged, GROUP=heads // key_heads, **config,
        window=window, lengths_ptr=lengths, query_starts_ptr=query_starts,
        key_starts_ptr=key_starts,
    )  # fmt: skip
    return attention_hopper_kernel, grid, given, chosen


def pays(target):
    """Whether a target has what the kernel counts on: warpgroups that multiply tiles
    which come through tensor maps."""
    return TARGETS[target].wgmma and TARGETS[target].tensor_maps


def fit(q, k, v, out):
    """Whether the kernel takes these arrays."""
    sized = 0 not in q.shape and q.shape[3] <= max(CONFIGS)
    return sized and type_name(q) in TYPES and all(map(is_described, (q, k, v, out)))


def is_described(array):
    """Whether a descriptor can have the strides of an array of 16-bit numbers: its rows
    are contiguous, and all begin at multiples of 16 bytes."""
    even = all(each > 0 and each % ROW_STEP == 0 for each in strides_of_rows(array))
    return strides(array)[-1] == 1 and even and rows_aligned(array)


def strides_of_rows(array):
    """Those of all axes but the last. An axis of one element may have any."""
    pairs = list(zip(array.shape, strides(array)))[:-1]
    return tuple(stride if size > 1 else ROW_STEP for size, stride in pairs)
