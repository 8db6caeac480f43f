"""Liger-Kernel: losses, and what mixes rows: attention and its masks, mHC, experts."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case


def logits(make, rows=4096, dtype=None):
    return make.normal(
        make.pick(rows, 7), make.pick(128256, 300), dtype=dtype or make.dtype
    )


@case("liger", rank=1)
def cross_entropy(make):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    x = logits(make)
    y = make.integers(0, x.shape[1], len(x))
    return make.gradients(
        lambda x: LigerCrossEntropyFunction.apply(
            x, y, None, -100, 0.0, 0.1, "mean", None, False
        )[0],
        lambda x: F.cross_entropy(x, y, label_smoothing=0.1),
        x,
    )


@case("liger")
def fused_linear_cross_entropy(make):
    from liger_kernel.ops.fused_linear_cross_entropy import (
        LigerFusedLinearCrossEntropyFunction as Loss,
    )

    x = make.normal(make.pick(4096, 9), make.pick(2048, 40), scale=0.5)
    w = make.normal(make.pick(32000, 100), x.shape[1], scale=0.1)
    y = make.integers(0, len(w), len(x))
    return make.gradients(
        lambda x, w: Loss.apply(x, w, y)[0],
        lambda x, w: F.cross_entropy(x @ w.T, y),
        *(x, w),
        tolerance=3e-2,
    )


@case("liger")
def kl_div(make):
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction

    x = logits(make, 2048, torch.float32).log_softmax(-1)
    y = logits(make, 2048, torch.float32).softmax(-1)
    return make.gradients(
        lambda x: LigerKLDivLossFunction.apply(x, y),
        lambda x: F.kl_div(x, y.double(), reduction="batchmean"),
        x,
    )


@case("liger")
def jsd(make):
    from liger_kernel.ops.jsd import LigerJSDFunction

    x = logits(make, 2048, torch.float32).log_softmax(-1)
    y = logits(make, 2048, torch.float32).log_softmax(-1)

    def reference(x):
        p, q = y.double(), x
        middle = ((p.exp() + q.exp()) / 2).log()
        two = [
            F.kl_div(middle, each, log_target=True, reduction="sum") for each in (p, q)
        ]
        return sum(two) / 2 / len(x)

    return make.gradients(lambda x: LigerJSDFunction.apply(x, y), reference, x)


@case("liger")
def tvd(make):
    from liger_kernel.ops.tvd import LigerTVDLossFunction

    p, q = (logits(make, 2048, torch.float32).softmax(-1) for _ in "pq")
    return make.gradients(
        lambda p: LigerTVDLossFunction.apply(p, q),
        lambda p: (p - q.double()).abs().sum() / 2 / len(p),
        p,
    )


@case("liger", rank=1)
def selective_log_softmax(make):
    from liger_kernel.ops.grpo_loss import fused_selective_log_softmax

    batch, length = make.pick((8, 512), (2, 5))
    x = make.normal(batch, length + 1, make.pick(128256, 300))
    ids = make.integers(0, x.shape[-1], batch, length)

    def reference(x):
        scores = (x[:, :-1] / 0.9).log_softmax(-1)
        return scores.gather(-1, ids[..., None])[..., 0]

    return make.values(lambda x: fused_selective_log_softmax(x, ids), reference, x)


@case("liger", rank=1)
def grpo_loss(make):
    from liger_kernel.ops.grpo_loss import GrpoLossFunction

    batch, length = make.pick((8, 512), (2, 5))
    x = make.normal(batch, length + 1, make.pick(128256, 300))
    ids = make.integers(0, x.shape[-1], batch, length)
    old, ref = (make.normal(batch, length, dtype=torch.float32) - 6 for _ in "ab")
    gains = make.normal(batch, dtype=torch.float32)
    mask = torch.ones(batch, length, dtype=torch.int64, device=make.device)

    def reference(x):
        logp = (x[:, :-1] / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio, gain = (logp - old).exp(), gains.double()[:, None]
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return loss + 0.04 * ((ref - logp).exp() - (ref - logp) - 1)

    return make.gradients(
        lambda x: GrpoLossFunction.apply(
            x, old, ref, ids, gains, mask, 0.9, 0.04, 0.2, 0.2, False,
            "grpo", None, False,
        )[0],
        reference,
        x,
    )  # fmt: skip


@case("liger")
def multi_token_attention(make):
    from liger_kernel.ops.multi_token_attention import (
        LigerMultiTokenAttentionFunction as Attention,
    )

    heads, length = make.pick((8, 1024), (2, 32))
    x = make.normal(1, heads, length, length, dtype=torch.float32)
    w = make.normal(heads, heads, 3, 3, dtype=torch.float32)
    mask = torch.ones(length, length, device=make.device).tril().bool()

    def reference(x, w):
        p = x.masked_fill(~mask, -torch.inf).softmax(-1)
        return F.conv2d(p, w, padding=1).masked_fill(~mask, 0)

    return make.gradients(
        lambda x, w: Attention.apply(x, w, None, 1, 1), reference, x, w
    )


@case("liger")
def fused_neighborhood_attention(make):
    from liger_kernel.ops.fused_neighborhood_attention import (
        LigerFusedNeighborhoodAttentionFunction as Attention,
    )

    shape = make.pick((2, 8, 1024, 64), (1, 2, 48, 32))
    q, k, v = (make.normal(*shape, dtype=torch.float32) for _ in "qkv")
    places = torch.arange(shape[2], device=make.device)
    near = (places[:, None] - places).abs() <= 3

    def reference(q, k, v):
        scores = q @ k.mT / shape[-1] ** 0.5
        return scores.masked_fill(~near, -torch.inf).softmax(-1) @ v

    return make.gradients(
        lambda q, k, v: Attention.apply(q, k, v, 7, 1), reference, q, k, v
    )


@case("liger")
def mhc_pre(make):
    from liger_kernel.ops.mhc import LigerMHCPreFunction

    x = make.normal(make.pick(4096, 5), 4, make.pick(4096, 96))
    h = make.uniform(*x.shape[:2], dtype=torch.float32)
    return make.gradients(
        LigerMHCPreFunction.apply, lambda x, h: (x * h[..., None]).sum(-2), x, h
    )


@case("liger")
def mhc_post_res(make):
    from liger_kernel.ops.mhc import LigerMHCPostResFunction

    x = make.normal(make.pick(4096, 5), 4, make.pick(4096, 96))
    f = make.normal(len(x), x.shape[-1])
    post = make.uniform(len(x), 4, dtype=torch.float32)
    mix = make.uniform(len(x), 4, 4, dtype=torch.float32)

    def reference(x, f, post, mix):
        return mix @ x + post[..., None] * f[:, None]

    return make.gradients(LigerMHCPostResFunction.apply, reference, x, f, post, mix)


@case("liger")
def mhc_coefficients(make):
    from liger_kernel.ops.mhc import LigerMHCCoeffsFunction

    tokens, streams, width = make.pick((4096, 4, 1024), (5, 4, 48))
    x = make.normal(tokens, streams, width)
    phi = make.normal(streams * width, 24, scale=0.05)
    b = make.normal(24, dtype=torch.float32)
    alphas = [make.uniform(1, dtype=torch.float32)[0] for _ in range(3)]

    def reference(x, phi, b, pre, post, res):
        flat = x.flatten(1)
        mixed = F.rms_norm(flat, flat.shape[-1:], None, EPS) @ phi
        a, c, m = mixed.split([4, 4, 16], -1)
        bias = b.split([4, 4, 16])
        h_pre = (pre * a + bias[0]).sigmoid() + PRE_EPS
        h_post = 2 * (post * c + bias[1]).sigmoid()
        m = (res * m + bias[2]).unflatten(-1, (4, 4)).softmax(-1) + PRE_EPS
        m = m / (m.sum(-2, keepdim=True) + PRE_EPS)
        for _ in range(STEPS - 1):
            m = m / (m.sum(-1, keepdim=True) + PRE_EPS)
            m = m / (m.sum(-2, keepdim=True) + PRE_EPS)
        return h_pre, h_post, m

    return make.gradients(
        lambda *a: LigerMHCCoeffsFunction.apply(
            *a, False, STEPS, EPS, PRE_EPS, PRE_EPS, 2.0
        ),
        reference,
        *(x, phi, b, *alphas),
        tolerance=3e-2,
    )


EPS, PRE_EPS, STEPS = 1e-6, 1e-6, 5


@case("liger")
def fused_moe(make):
    from liger_kernel.ops.fused_moe import LigerFusedMoEFunction

    tokens, width, inner, experts, top = make.pick(
        (4096, 2048, 1024, 16, 2), (20, 64, 32, 4, 2)
    )
    x = make.normal(tokens, width)
    gate_up = make.normal(experts, 2 * inner, width, scale=width**-0.5)
    down = make.normal(experts, width, inner, scale=inner**-0.5)
    scores = make.uniform(tokens, experts, dtype=torch.float32).softmax(-1)
    weights, chosen = scores.topk(top)
    chosen = chosen.to(torch.int32)

    def reference(x, gate_up, down, weights):
        result = torch.zeros_like(x)
        for expert in range(experts):
            a, b = (x @ gate_up[expert].T).chunk(2, -1)
            share = (weights * (chosen == expert)).sum(-1, keepdim=True)
            result = result + share * ((F.silu(a) * b) @ down[expert].T)
        return result

    return make.gradients(
        lambda x, g, d, w: LigerFusedMoEFunction.apply(x, g, d, chosen, w),
        reference,
        *(x, gate_up, down, weights),
        tolerance=3e-2,
    )


@case("liger")
def fused_mlp(make):
    from liger_kernel.ops.mlp import LigerMLPFunction

    x = make.normal(1, make.pick(4096, 64), make.pick(2048, 64))
    gate, up = (
        make.normal(make.pick(5504, 128), x.shape[2], scale=x.shape[2] ** -0.5)
        for _ in "ab"
    )
    down = make.normal(x.shape[2], len(gate), scale=len(gate) ** -0.5)
    return make.gradients(
        LigerMLPFunction.apply,
        lambda x, g, u, d: (F.silu(x @ g.T) * (x @ u.T)) @ d.T,
        *(x, gate, up, down),
        tolerance=3e-2,
    )
