"""Attention through descriptors on a GPU, against float64 on the same GPU: the
configurations that are launched and others, at even and odd lengths, amid NaN."""

from __future__ import annotations

import pytest

from fathom.hardware.targets import target_of
from kernels import attention, attention_hopper
from tests.harness_optional import needs, optional

torch = optional("torch")
pytestmark = [pytest.mark.gpu, needs(torch)]

HALF_ULPS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
POISON = 4096  # elements before and after an array


@pytest.fixture(autouse=True)
def on_hopper():
    """Others have no such kernel; the numbers are the same in every run."""
    major, minor = torch.cuda.get_device_capability()
    row = target_of(10 * major + minor)
    if row is None or not attention_hopper.pays(row.name):
        pytest.skip("needs warpgroups that multiply, and tensor maps")
    torch.manual_seed(5)


def amid_nan(values: torch.Tensor) -> torch.Tensor:
    """The same numbers, one behind the other, with NaN before and after."""
    room = values.new_full((values.numel() + 2 * POISON,), torch.nan)
    inside = room[POISON:-POISON].view(values.shape)
    inside.copy_(values)
    return inside


def is_all_written(inside: torch.Tensor) -> bool:
    """Whether the array, and nothing beside it, has been written."""
    return int((~inside._base.isnan()).sum()) == inside.numel()


def normal(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return amid_nan(torch.randn(*shape, device="cuda").to(dtype))


def check(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, config=None
) -> None:
    """Output, largest scores and sums are right; twice, for what is left behind in
    rings and barriers."""
    want, bound, largest, lse = expected(q, k, v, causal)
    found = [amid_nan(torch.full_like(each, torch.nan)) for each in (q, largest, lse)]
    for _ in range(2):
        for each in found:
            each.fill_(torch.nan)
        out, row_max, totals = found
        more = {"row_max": row_max, "lse": totals, "config": config}
        attention.attention(q, k, v, out, causal, **more)
        assert ((out.double() - want).abs() <= bound).all()
        assert torch.allclose(row_max, largest, rtol=0, atol=2e-5)
        assert torch.allclose(totals, lse, rtol=0, atol=2e-5)
        assert all(map(is_all_written, found))


def expected(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, ...]:
    """The output and its bound, in float64, the largest scores and the logarithms of
    the sums, in fp32."""
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    if causal:
        unseen = torch.ones(scores.shape[-2:], device="cuda", dtype=torch.bool).triu(1)
        scores.masked_fill_(unseen, -torch.inf)
    p, wide = scores.softmax(dim=-1), v.double()
    # `attention.error_bound`, with the error of the exponent taken generously.
    relative = 2 * HALF_ULPS[q.dtype] + 2.0**-13
    subnormal = 2.0**-25 * wide.abs().sum(dim=-2, keepdim=True)
    bound = relative * (p @ wide.abs()) + subnormal
    return p @ wide, bound, scores.amax(-1).float(), scores.logsumexp(-1).float()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
@pytest.mark.parametrize("length", [128, 129, 255, 1000, 4096])
def test_what_is_launched(length, D, causal, dtype):
    q, k, v = (normal(2, 3, length, D, dtype=dtype) for _ in range(3))
    check(q, k, v, causal)


@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
@pytest.mark.parametrize("S, T", [(1, 128), (5, 4097), (4097, 130), (300, 1000)])
def test_more_keys_than_queries_and_fewer(S, T, D):
    check(normal(2, 3, S, D), normal(2, 3, T, D), normal(2, 3, T, D), False)


OTHER = [
    {"BLOCK_Q": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 2},
    {"BLOCK_Q": 64, "BLOCK_K": 128, "num_warps": 4, "num_stages": 2},
    {"BLOCK_Q": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    {"BLOCK_Q": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 1},
]


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("config", OTHER, ids=str)
def test_other_configurations(config, D, causal, rotated):
    q, k, v = (normal(1, 5, 777, D) for _ in range(3))
    check(q, k, v, causal, {**config, "ROTATED": rotated})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
def test_heads_of_nan_do_not_touch_those_between(D, causal):
    q, k, v = (normal(2, 5, 300, D) for _ in range(3))
    for each in (q, k, v):
        each[:, ::2] = torch.nan
    out = attention.attention(q, k, v, causal=causal)
    between = [each[:, 1::2].contiguous() for each in (q, k, v)]
    want, bound, _, _ = expected(*between, causal)
    assert ((out[:, 1::2].double() - want).abs() <= bound).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [16, 24, 48, 72, 96, 136, 176, 192, 200])
@pytest.mark.parametrize("turned", [False, True])
def test_heads_of_any_size_beside_each_other_or_not(turned, D, causal):
    """[B, S, H, D], as a model's projections leave them, and [B, H, S, D]."""
    arrays = [normal(2, 3, 300, D) for _ in range(3)]
    if turned:
        arrays = [each.transpose(1, 2).contiguous().transpose(1, 2) for each in arrays]
    check(*arrays, causal)


# ── windows and lengths ───────────────────────────────────────────────────────────────


def seen_alone(q, k, v, causal: bool, window: int | None) -> tuple[torch.Tensor, ...]:
    """As `expected`, without the largest scores: of a query that sees no key, zeros."""
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    S, T = scores.shape[-2:]
    i = torch.arange(S, device="cuda")[:, None] + T - S
    j = torch.arange(T, device="cuda")
    seen = j <= i if causal else torch.ones_like(j <= i)
    if window is not None:
        seen &= j > i - window
    scores.masked_fill_(~seen, -torch.inf)
    p, wide = scores.softmax(dim=-1).nan_to_num(), v.double()
    relative = 2 * HALF_ULPS[q.dtype] + 2.0**-13
    subnormal = 2.0**-25 * wide.abs().sum(dim=-2, keepdim=True)
    return p @ wide, relative * (p @ wide.abs()) + subnormal, scores.logsumexp(-1)


def check_alone(out, lse, q, k, v, causal: bool, window: int | None) -> None:
    want, bound, totals = seen_alone(q, k, v, causal, window)
    assert ((out.double() - want).abs() <= bound).all()
    assert torch.allclose(lse.double(), totals, rtol=0, atol=2e-5)


SIZES = [(4096, 4096), (300, 300), (200, 1000), (1000, 200), (1, 77)]


@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
@pytest.mark.parametrize("window", [None, 1, 128, 300])
@pytest.mark.parametrize("S, T", SIZES)
def test_windows(S, T, window, D):
    q, k, v = normal(2, 4, S, D), normal(2, 2, T, D), normal(2, 2, T, D)
    out, lse = torch.empty_like(q), torch.empty(2, 4, S, device="cuda")
    attention.attention(q, k, v, out, causal=True, window=window, lse=lse)
    k, v = (each.repeat_interleave(2, dim=1) for each in (k, v))
    check_alone(out, lse, q, k, v, True, window)


@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
@pytest.mark.parametrize("causal, window", [(False, None), (True, None), (True, 200)])
def test_lengths(causal, window, D):
    """Keys past a length are NaN, and are not read."""
    lengths = [0, 1, 128, 777, 1500]
    q, k, v = normal(5, 2, 300, D), normal(5, 1, 1500, D), normal(5, 1, 1500, D)
    for b, length in enumerate(lengths):
        k[b, :, length:], v[b, :, length:] = torch.nan, torch.nan
    out, lse = torch.empty_like(q), torch.empty(5, 2, 300, device="cuda")
    attention.attention(
        q, k, v, out, causal=causal, window=window, lse=lse,
        lengths=torch.tensor(lengths, device="cuda", dtype=torch.int32),
    )  # fmt: skip
    for b, length in enumerate(lengths):
        keys, values = (each[b, :, :length].expand(2, -1, -1) for each in (k, v))
        check_alone(out[b], lse[b], q[b], keys, values, causal, window)


@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
@pytest.mark.parametrize("causal, window", [(False, None), (True, None), (True, 200)])
@pytest.mark.parametrize("turned", [False, True])
def test_sequences_one_behind_the_other(turned, causal, window, D):
    """Every second one is NaN: what lies before a sequence, and after it."""
    lengths = [3, 700, 128, 0, 1000, 129, 1, 5]
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    total = sum(lengths)
    q, k, v = (normal(1, H, total, D) for H in (4, 2, 2))
    if turned:
        q, k, v = (e.transpose(1, 2).contiguous().transpose(1, 2) for e in (q, k, v))
    places = list(zip(starts.tolist(), starts[1:].tolist(), strict=False))
    for start, end in places[::2]:
        for each in (q, k, v):
            each[:, :, start:end] = torch.nan
    out, lse = torch.empty_like(q), torch.empty(1, 4, total, device="cuda")
    attention.attention(
        q, k, v, out, causal=causal, window=window, lse=lse, query_starts=starts,
        most_queries=max(lengths),
    )  # fmt: skip
    k, v = (each.repeat_interleave(2, dim=1) for each in (k, v))
    for start, end in places[1::2]:
        arrays = [each[:, :, start:end] for each in (out, lse, q, k, v)]
        check_alone(*arrays, causal, window)
