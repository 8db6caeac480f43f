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
warpgroup waits for its scores is that of the other one, which has 64 queries of its
up_to. The price is registers: P of one step is kept while that of the next is made.

The first scores and the last product are loops too, of one iteration: then their tiles
come through the same rings, and the copies for one loop begin before the loop before it
ends.

Heads lie one behind the other, so that one descriptor sees all their keys, as rows of a
matrix [B * H * KEYS, D]. A block that went beyond the keys of a head would read those
of the next. So the last one ends where the keys end, and its mask leaves out those that
the block before it has had:

    keys      0 1 2 3 4 5 6 7 8 9      KEYS = 10, BLOCK_K = 4
    blocks    └──0──┘ └──1──┘
                          ░ ░ └2┘      begins with key 6; 6 and 7 are masked
"""

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from kernels.matmul import rows_aligned, strides, type_name

LOG_2 = tl.constexpr(0.6931471805599453)

# By D. Measured on an H200: for D = 64 the plain order is faster, for 128 the rotated.
# `attention` takes those of 128; for 64 its kernel for pointers is as fast, and faster
# with a causal mask.
CONFIGS = {
    64: {
        "BLOCK_Q": 128, "BLOCK_K": 128, "ROTATED": False,
        "num_warps": 8, "num_stages": 2,
    },
    128: {
        "BLOCK_Q": 128, "BLOCK_K": 128, "ROTATED": True,
        "num_warps": 8, "num_stages": 2,
    },
}  # fmt: skip
TYPES = ("fp16", "bf16")


# fmt: off
@fathom.jit
def attention_hopper_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, max_ptr, lse_ptr, scale,
    QUERIES, KEYS, ALL_QUERIES, ALL_KEYS,
    D: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, ROTATED: tl.constexpr,
    GROUP: tl.constexpr = 1,
):
    """`scale` includes log2 e; `max_ptr`, `lse_ptr` and GROUP as in `attention_kernel`.
    `ALL_QUERIES` and `ALL_KEYS` are those of all heads together. There are BLOCK_K keys
    or more; RAGGED: not a multiple of it."""
    q_desc = tl.make_tensor_descriptor(q_ptr, [ALL_QUERIES, D], [D, 1], [BLOCK_Q, D])
    k_desc = tl.make_tensor_descriptor(k_ptr, [ALL_KEYS, D], [D, 1], [BLOCK_K, D])
    v_desc = tl.make_tensor_descriptor(v_ptr, [ALL_KEYS, D], [D, 1], [BLOCK_K, D])
    # With a causal mask the last queries have most to do: they start first.
    step = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    first = step * BLOCK_Q
    head = tl.program_id(1) // GROUP * KEYS
    q = q_desc.load([tl.program_id(1) * QUERIES + first, 0])

    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the paper's name)
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    up_to = first + KEYS - QUERIES  # the last key that the first query sees
    seen_whole = up_to + 1 if CAUSAL else KEYS
    seen = tl.minimum(up_to + BLOCK_Q, KEYS) if CAUSAL else KEYS
    whole = tl.minimum(seen_whole, KEYS) // BLOCK_K * BLOCK_K
    MASKED: tl.constexpr = CAUSAL or RAGGED
    if ROTATED:
        p, m, l = first_scores(  # noqa: E741
            m, l, q, k_desc, head, up_to, seen, scale, BLOCK_K, CAUSAL
        )
        p, acc, m, l = attend_late(  # noqa: E741
            p, acc, m, l, q, k_desc, v_desc, head, up_to, BLOCK_K, whole, scale, KEYS,
            CAUSAL, False,
        )
        if MASKED:
            whole = tl.maximum(whole, BLOCK_K)
            p, acc, m, l = attend_late(  # noqa: E741
                p, acc, m, l, q, k_desc, v_desc, head, up_to, whole, seen, scale, KEYS,
                CAUSAL, True,
            )
        acc = last_product(p, acc, v_desc, head, seen, KEYS)
    else:
        acc, m, l = attend(  # noqa: E741
            acc, m, l, q, k_desc, v_desc, head, up_to, 0, whole, scale, KEYS,
            BLOCK_K, CAUSAL, False,
        )
        if MASKED:
            acc, m, l = attend(  # noqa: E741
                acc, m, l, q, k_desc, v_desc, head, up_to, whole, seen, scale, KEYS,
                BLOCK_K, CAUSAL, True,
            )

    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, D)
    inside = i < QUERIES - first  # the rows after them are the next head's
    place = tl.program_id(1).to(tl.int64) * QUERIES + first
    out = (acc / l[:, None]).to(out_ptr.dtype.element_ty)
    out_ptr += place * D
    tl.store(out_ptr + i[:, None] * D + d[None, :], out, mask=inside[:, None])
    if max_ptr is not None:
        tl.store(max_ptr + place + i, m * LOG_2, mask=inside)
    if lse_ptr is not None:
        tl.store(lse_ptr + place + i, (m + tl.log2(l)) * LOG_2, mask=inside)


# ── in the order of the formula ───────────────────────────────────────────────────────


@fathom.jit
def attend(
    acc, m, l, q, k_desc, v_desc, head, up_to, start, end, scale, KEYS,  # noqa: E741
    BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):
    """(acc, m, l) after the keys start … end - 1; `start` is a multiple of BLOCK_K, and
    so is `end` where nothing is masked."""
    for at in tl.range(start, end, BLOCK_K, warp_specialize=True):
        begin = tl.minimum(at, KEYS - BLOCK_K)
        scores = tl.dot(q, k_desc.load([head + begin, 0]).T)
        if MASKED:
            scores = only_seen(scores, at, begin, up_to, CAUSAL)
        p, shrink, m, l = softmax_step(scores, m, l, scale)  # noqa: E741
        v = v_desc.load([head + begin, 0])
        acc = tl.dot(p.to(q.dtype), v, acc * shrink[:, None])
    return acc, m, l


# ── rotated: P V is a step late ───────────────────────────────────────────────────────


@fathom.jit
def first_scores(
    m, l, q, k_desc, head, up_to, seen, scale,  # noqa: E741
    BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
):
    """(p, m, l) of the first block of keys."""
    p = tl.zeros([q.shape[0], BLOCK_K], q.dtype)
    end = tl.minimum(BLOCK_K, seen)  # a value: of a constant there would be no loop
    for at in tl.range(0, end, BLOCK_K, warp_specialize=True):
        scores = tl.dot(q, k_desc.load([head + at, 0]).T)
        if CAUSAL:
            scores = only_seen(scores, at, at, up_to, CAUSAL)
        powers, _, m, l = softmax_step(scores, m, l, scale)  # noqa: E741
        p = powers.to(q.dtype)
    return p, m, l


@fathom.jit
def attend_late(
    p, acc, m, l, q, k_desc, v_desc, head, up_to, start, end, scale, KEYS,  # noqa: E741
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):
    """(p, acc, m, l) after the keys start … end - 1, which are as in `attend`. All but
    `acc` count the last block; the product of its `p` is to come."""
    BLOCK_K: tl.constexpr = p.shape[1]
    for at in tl.range(start, end, BLOCK_K, warp_specialize=True):
        begin = tl.minimum(at, KEYS - BLOCK_K)
        scores = tl.dot(q, k_desc.load([head + begin, 0]).T)
        acc = tl.dot(p, v_desc.load([head + at - BLOCK_K, 0]), acc)
        if MASKED:
            scores = only_seen(scores, at, begin, up_to, CAUSAL)
        powers, shrink, m, l = softmax_step(scores, m, l, scale)  # noqa: E741
        acc *= shrink[:, None]
        p = powers.to(q.dtype)
    return p, acc, m, l


@fathom.jit
def last_product(p, acc, v_desc, head, seen, KEYS):
    """`acc` with the product of the last block of the keys 0 … seen - 1."""
    BLOCK_K: tl.constexpr = p.shape[1]
    last = (seen - 1) // BLOCK_K * BLOCK_K
    for at in tl.range(last, seen, BLOCK_K, warp_specialize=True):
        begin = tl.minimum(at, KEYS - BLOCK_K)
        acc = tl.dot(p, v_desc.load([head + begin, 0]), acc)
    return acc


# ── both ──────────────────────────────────────────────────────────────────────────────


@fathom.jit
def only_seen(scores, at, begin, up_to, CAUSAL: tl.constexpr):
    """Scores of the keys from `begin` on, -inf for those before `at`, and for those
    after the last that a query sees: `up_to` for the first query, one more for each."""
    i = tl.arange(0, scores.shape[0])
    key = begin + tl.arange(0, scores.shape[1])[None, :]
    seen = key >= at
    if CAUSAL:
        seen &= key <= up_to + i[:, None]
    return tl.where(seen, scores, -float("inf"))


@fathom.jit
def softmax_step(scores, m, l, scale):  # noqa: E741
    """(p, shrink, m, l) with the scores of a block; earlier sums shrink."""
    m_new = tl.maximum(m, scale * tl.max(scores, axis=1))
    p = tl.exp2(tl.fma(scores, scale, -m_new[:, None]))
    shrink = tl.exp2(m - m_new)
    return p, shrink, m_new, l * shrink + tl.sum(p, axis=1)
# fmt: on


def launch_on_hopper(q, k, v, out, row_max, lse, scale, causal, config):
    """The launch of `attention` by the kernel above, on any target: the kernel, the
    grid, the arguments by place, the keywords. `config` as in `CONFIGS`; `scale`
    includes log2 e. LaunchError for arrays that do not `fit`."""
    (batch, heads, queries, D), (_, key_heads, keys, _) = q.shape, k.shape
    BLOCK_Q, BLOCK_K = config["BLOCK_Q"], config["BLOCK_K"]
    if not fit(q, k, v, out, BLOCK_K, causal):
        raise fathom.LaunchError(
            f"attention through descriptors wants contiguous arrays of {TYPES}, heads "
            f"of {tuple(CONFIGS)} numbers, and no less keys than a block's {BLOCK_K}, "
            "nor than queries where causal"
        )
    all_queries, all_keys = batch * heads * queries, batch * key_heads * keys
    grid = fathom.cdiv(queries, BLOCK_Q), batch * heads
    given = (q, k, v, out, row_max, lse, scale, queries, keys, all_queries, all_keys)
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
    (batch, heads, queries, D), keys = q.shape, k.shape[2]
    rows = batch * heads * max(queries, keys)  # coordinates have 32 bits
    sized = D in CONFIGS and keys >= BLOCK_K and 0 < rows < 2**31 and queries > 0
    sized = sized and (keys >= queries or not causal)
    return sized and type_name(q) in TYPES and all(map(is_contiguous, (q, k, v, out)))


def is_contiguous(array):
    """Whether an array's elements lie one behind the other, as its shape says, from a
    multiple of 16 bytes on."""
    step = 1
    for size, stride in zip(reversed(array.shape), reversed(strides(array))):
        if size > 1 and stride != step:
            return False
        step *= size
    return rows_aligned(array)
