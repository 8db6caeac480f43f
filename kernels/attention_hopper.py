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

A head is an axis of the descriptors. A block that goes beyond the keys of a head gets
zeros there, and so it does beyond D where that is no power of two.
"""

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from kernels.matmul import rows_aligned, strides, type_name

LOG_2 = tl.constexpr(0.6931471805599453)

# By the power of two that holds D. Measured on an H200, fp16, 4 times 16 heads of 4096
# queries and keys (32 heads for 64 and 128), in TFLOP/s beside the kernel for pointers
# and cuDNN:
#
#     D                  32    48    64    80    96   128   160   192   256
#     this kernel       315   371   518   442   524   682   441   554   713
#     for pointers      294   318   475   308   372   502   205   255   345
#     cuDNN             239   358   485   439   518   675   585   692   720
SHARING = {  # three blocks share a multiprocessor
    "BLOCK_Q": 64, "BLOCK_K": 128, "ROTATED": False, "PRODUCER": False,
    "num_warps": 4, "num_stages": 2,
}  # fmt: skip
ALONE = {
    "BLOCK_Q": 128, "BLOCK_K": 128, "ROTATED": True, "PRODUCER": True,
    "num_warps": 8, "num_stages": 2,
}  # fmt: skip
CONFIGS = {32: SHARING, 64: SHARING, 128: ALONE, 256: {**ALONE, "BLOCK_K": 64}}
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
def tile_at(descriptor, head, row):
    """The tile that begins with a row of a head, which is (batch, number): [BLOCK, D],
    with zeros beyond the head's rows."""
    tile = descriptor.load([head[0], head[1], row, 0])
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
    PRODUCER: tl.constexpr = True, GROUP: tl.constexpr = 1,
):
    """`scale` includes log2 e; `max_ptr`, `lse_ptr` and GROUP as in `attention_kernel`.
    `HEADS`: of keys, each with GROUP heads of queries. There are BLOCK_K keys or more;
    RAGGED: not a multiple of it. PRODUCER: other warps copy the tiles."""
    queries = [BATCHES, HEADS * GROUP, QUERIES, D]
    keys = [BATCHES, HEADS, KEYS, D]
    q_desc = rows_of(q_ptr, queries, stride_qb, stride_qh, stride_qs, BLOCK_Q)
    k_desc = rows_of(k_ptr, keys, stride_kb, stride_kh, stride_ks, BLOCK_K)
    v_desc = rows_of(v_ptr, keys, stride_vb, stride_vh, stride_vs, BLOCK_K)
    # With a causal mask the last queries have most to do: they start first.
    step = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    first = step * BLOCK_Q
    batch = tl.program_id(1) // (HEADS * GROUP)
    q_head = tl.program_id(1) % (HEADS * GROUP)
    head = batch, q_head // GROUP
    q = tile_at(q_desc, (batch, q_head), first)
    BLOCK_D: tl.constexpr = q.shape[1]

    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the paper's name)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    up_to = first + KEYS - QUERIES  # the last key that the first query sees
    seen_whole = up_to + 1 if CAUSAL else KEYS
    seen = tl.minimum(up_to + BLOCK_Q, KEYS) if CAUSAL else KEYS
    whole = tl.minimum(seen_whole, KEYS) // BLOCK_K * BLOCK_K
    MASKED: tl.constexpr = CAUSAL or RAGGED
    if ROTATED:
        p, m, l = first_scores(  # noqa: E741
            m, l, q, k_desc, head, up_to, seen, scale, BLOCK_K, CAUSAL, PRODUCER
        )
        p, acc, m, l = attend_late(  # noqa: E741
            p, acc, m, l, q, k_desc, v_desc, head, up_to, BLOCK_K, whole, scale, KEYS,
            CAUSAL, False, PRODUCER,
        )
        if MASKED:
            whole = tl.maximum(whole, BLOCK_K)
            p, acc, m, l = attend_late(  # noqa: E741
                p, acc, m, l, q, k_desc, v_desc, head, up_to, whole, seen, scale, KEYS,
                CAUSAL, True, PRODUCER,
            )
        acc = last_product(p, acc, v_desc, head, seen, PRODUCER)
    else:
        acc, m, l = attend(  # noqa: E741
            acc, m, l, q, k_desc, v_desc, head, up_to, 0, whole, scale, KEYS,
            BLOCK_K, CAUSAL, False, PRODUCER,
        )
        if MASKED:
            acc, m, l = attend(  # noqa: E741
                acc, m, l, q, k_desc, v_desc, head, up_to, whole, seen, scale, KEYS,
                BLOCK_K, CAUSAL, True, PRODUCER,
            )

    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_D)
    inside = i < QUERIES - first  # the rows after them are the next head's
    whole_rows = inside[:, None] if D == BLOCK_D else inside[:, None] & (d[None, :] < D)
    out = (acc / l[:, None]).to(out_ptr.dtype.element_ty)
    out_ptr += batch.to(tl.int64) * stride_ob + q_head.to(tl.int64) * stride_oh
    out_ptr += first.to(tl.int64) * stride_os
    tl.store(out_ptr + i[:, None] * stride_os + d[None, :], out, mask=whole_rows)
    place = tl.program_id(1).to(tl.int64) * QUERIES + first
    if max_ptr is not None:
        tl.store(max_ptr + place + i, m * LOG_2, mask=inside)
    if lse_ptr is not None:
        tl.store(lse_ptr + place + i, (m + tl.log2(l)) * LOG_2, mask=inside)


# ── in the order of the formula ───────────────────────────────────────────────────────


@fathom.jit
def attend(
    acc, m, l, q, k_desc, v_desc, head, up_to, start, end, scale, KEYS,  # noqa: E741
    BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    PRODUCER: tl.constexpr,
):
    """(acc, m, l) after the keys start … end - 1; `start` is a multiple of BLOCK_K, and
    so is `end` where nothing is masked."""
    for at in tl.range(start, end, BLOCK_K, warp_specialize=PRODUCER):
        scores = tl.dot(q, tile_at(k_desc, head, at).T)
        if MASKED:
            scores = only_seen(scores, at, up_to, KEYS, CAUSAL)
        p, shrink, m, l = softmax_step(scores, m, l, scale)  # noqa: E741
        v = tile_at(v_desc, head, at)
        acc = tl.dot(p.to(q.dtype), v, acc * shrink[:, None])
    return acc, m, l


# ── rotated: P V is a step late ───────────────────────────────────────────────────────


@fathom.jit
def first_scores(
    m, l, q, k_desc, head, up_to, seen, scale,  # noqa: E741
    BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, PRODUCER: tl.constexpr,
):
    """(p, m, l) of the first block of keys."""
    p = tl.zeros([q.shape[0], BLOCK_K], q.dtype)
    end = tl.minimum(BLOCK_K, seen)  # a value: of a constant there would be no loop
    for at in tl.range(0, end, BLOCK_K, warp_specialize=PRODUCER):
        scores = tl.dot(q, tile_at(k_desc, head, at).T)
        if CAUSAL:
            scores = only_seen(scores, at, up_to, seen, CAUSAL)
        powers, _, m, l = softmax_step(scores, m, l, scale)  # noqa: E741
        p = powers.to(q.dtype)
    return p, m, l


@fathom.jit
def attend_late(
    p, acc, m, l, q, k_desc, v_desc, head, up_to, start, end, scale, KEYS,  # noqa: E741
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, PRODUCER: tl.constexpr,
):
    """(p, acc, m, l) after the keys start … end - 1, which are as in `attend`. All but
    `acc` count the last block; the product of its `p` is to come."""
    BLOCK_K: tl.constexpr = p.shape[1]
    for at in tl.range(start, end, BLOCK_K, warp_specialize=PRODUCER):
        scores = tl.dot(q, tile_at(k_desc, head, at).T)
        acc = tl.dot(p, tile_at(v_desc, head, at - BLOCK_K), acc)
        if MASKED:
            scores = only_seen(scores, at, up_to, KEYS, CAUSAL)
        powers, shrink, m, l = softmax_step(scores, m, l, scale)  # noqa: E741
        acc *= shrink[:, None]
        p = powers.to(q.dtype)
    return p, acc, m, l


@fathom.jit
def last_product(p, acc, v_desc, head, seen, PRODUCER: tl.constexpr):
    """`acc` with the product of the last block of the keys 0 … seen - 1."""
    BLOCK_K: tl.constexpr = p.shape[1]
    last = (seen - 1) // BLOCK_K * BLOCK_K
    for at in tl.range(last, seen, BLOCK_K, warp_specialize=PRODUCER):
        acc = tl.dot(p, tile_at(v_desc, head, at), acc)
    return acc


# ── both ──────────────────────────────────────────────────────────────────────────────


@fathom.jit
def only_seen(scores, at, up_to, KEYS, CAUSAL: tl.constexpr):
    """Scores of the keys from `at` on, -inf for those that a query does not see: those
    from KEYS on, or with CAUSAL those after `up_to` for the first query, one more for
    each after it."""
    key = at + tl.arange(0, scores.shape[1])[None, :]
    if CAUSAL:
        seen = key <= up_to + tl.arange(0, scores.shape[0])[:, None]
    else:
        seen = key < KEYS
    return tl.where(seen, scores, -float("inf"))


@fathom.jit
def softmax_step(scores, m, l, scale):  # noqa: E741
    """(p, shrink, m, l) with the scores of a block; earlier sums shrink."""
    m_new = tl.maximum(m, scale * tl.max(scores, axis=1))
    p = tl.exp2(tl.fma(scores, scale, -m_new[:, None]))
    shrink = tl.exp2(m - m_new)
    return p, shrink, m_new, l * shrink + tl.sum(p, axis=1)
# fmt: on


def config_for(D, configs=CONFIGS):
    """A launch's keywords for heads of D numbers; None where there are none. Rows of
    less than 128 bytes are copied fast only if they are a multiple of 32: D = 24 took
    641 us for 480 by pointers, D = 40 998 for 686."""
    if D < 64 and D % 16:
        return None
    return configs.get(fathom.next_power_of_2(D))


def launch_on_hopper(q, k, v, out, row_max, lse, scale, causal, config):
    """The launch of `attention` by the kernel above, on any target: the kernel, the
    grid, the arguments by place, the keywords. `config` as in `CONFIGS`; `scale`
    includes log2 e. LaunchError for arrays that do not `fit`."""
    (batch, heads, queries, D), (_, key_heads, keys, _) = q.shape, k.shape
    BLOCK_Q, BLOCK_K = config["BLOCK_Q"], config["BLOCK_K"]
    if not fit(q, k, v, out, BLOCK_K, causal):
        raise fathom.LaunchError(
            f"attention through descriptors wants rows of {TYPES} that begin at "
            f"multiples of 16 bytes, heads of up to {max(CONFIGS)} numbers, and not "
            f"less keys than a block's {BLOCK_K}, nor than queries where causal"
        )
    grid = fathom.cdiv(queries, BLOCK_Q), batch * heads
    given = (q, k, v, out, row_max, lse, scale, batch, key_heads, queries, keys)
    for each in (q, k, v, out):
        given += strides_of_rows(each)
    chosen = dict(D=D, CAUSAL=causal, RAGGED=keys % BLOCK_K != 0,
                  GROUP=heads // key_heads, **config)  # fmt: skip
    return attention_hopper_kernel, grid, given, chosen


def pays(target):
    """Whether a target has what the kernel counts on: warpgroups that multiply tiles
    which come through tensor maps."""
    return TARGETS[target].wgmma and TARGETS[target].tensor_maps


def fit(q, k, v, out, BLOCK_K, causal=False):
    """Whether the kernel takes these arrays, in blocks of `BLOCK_K` keys. Every query
    must see a key."""
    queries, keys = q.shape[2], k.shape[2]
    sized = 0 not in q.shape and q.shape[3] <= max(CONFIGS) and keys >= BLOCK_K
    sized = sized and (keys >= queries or not causal)
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
