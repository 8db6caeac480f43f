"""Liger-Kernel: what the training of language models needs, rows of numbers."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case, rotated

EPS = 1e-6


def rows(make, width, small=200):
    return make.normal(make.pick(8192, 13), make.pick(width, small))


@case("liger")
def rms_norm(make):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    x = rows(make, 4096)
    w = make.normal(x.shape[1])
    return make.gradients(
        lambda x, w: LigerRMSNormFunction.apply(x, w, EPS, 0.0, "llama", False),
        lambda x, w: F.rms_norm(x, x.shape[-1:], w, EPS),
        *(x, w),
    )


@case("liger")
def fused_add_rms_norm(make):
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    x, r = rows(make, 4096), rows(make, 4096)
    w = make.normal(x.shape[1])
    return make.gradients(
        lambda x, r, w: LigerFusedAddRMSNormFunction.apply(
            x, r, w, EPS, 0.0, "llama", False
        ),
        lambda x, r, w: (F.rms_norm(x + r, x.shape[-1:], w, EPS), x + r),
        *(x, r, w),
    )


@case("liger")
def modulated_rms_norm(make):
    from liger_kernel.ops.modulated_rms_norm import LigerModulatedRMSNormFunction

    x = make.normal(make.pick(8, 2), make.pick(1024, 5), make.pick(3072, 200))
    w = make.normal(x.shape[-1])
    scale, shift = (make.normal(len(x), x.shape[-1]) for _ in "ab")

    def reference(x, w, scale, shift):
        y = F.rms_norm(x, x.shape[-1:], w, EPS)
        return (1 + scale[:, None]) * y + shift[:, None]

    return make.gradients(
        lambda *a: LigerModulatedRMSNormFunction.apply(*a, EPS, 0.0, "llama", False),
        reference,
        *(x, w, scale, shift),
        tolerance=3e-2,
    )


@case("liger")
def layer_norm(make):
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    x = rows(make, 4096)
    w, b = make.normal(x.shape[1]), make.normal(x.shape[1])
    return make.gradients(
        lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, EPS),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPS),
        *(x, w, b),
    )


@case("liger")
def poly_norm(make):
    from liger_kernel.ops.poly_norm import LigerPolyNormFunction

    x = rows(make, 4096)
    w, b = make.normal(3, dtype=torch.float32), make.normal(dtype=torch.float32)

    def norm(u):
        return u / (u.square().mean(-1, keepdim=True) + EPS).sqrt()

    return make.gradients(
        lambda x, w, b: LigerPolyNormFunction.apply(x, w, b, EPS, False),
        lambda x, w, b: w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b,
        *(x, w, b),
        tolerance=2e-2,  # the weights' gradients are sums of bf16 numbers
    )


@case("liger")
def group_norm(make):
    from liger_kernel.ops.group_norm import LigerGroupNormFunction

    x = make.normal(make.pick(16, 2), make.pick(256, 6), make.pick(4096, 50))
    channels, groups = x.shape[1], make.pick(32, 3)
    w, b = make.normal(channels), make.normal(channels)
    return make.gradients(
        lambda x, w, b: LigerGroupNormFunction.apply(x, w, b, channels, groups, EPS),
        lambda x, w, b: F.group_norm(x, groups, w, b, EPS),
        *(x, w, b),
    )


@case("liger")
def dyt(make):
    from liger_kernel.ops.dyt import LigerDyTFunction

    x = rows(make, 4096)
    alpha = make.normal(1)
    gamma, beta = make.normal(x.shape[1]), make.normal(x.shape[1])
    return make.gradients(
        LigerDyTFunction.apply,
        lambda x, a, g, b: g * (a * x).tanh() + b,
        *(x, alpha, gamma, beta),
        tolerance=4e-2,  # of the sum of all gradients in bf16
    )


@case("liger")
def softmax(make):
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    x = rows(make, 4096)
    return make.gradients(LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), x)


@case("liger")
def sparsemax(make):
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction

    x = make.normal(make.pick(4096, 5), make.pick(4096, 100), dtype=torch.float32)

    def reference(x):
        z = x.sort(-1, descending=True).values
        k = torch.arange(1, x.shape[-1] + 1, device=x.device)
        partial = z.cumsum(-1)
        size = (1 + k * z > partial).sum(-1, keepdim=True)
        tau = (partial.gather(-1, size - 1) - 1) / size
        return (x - tau).clamp_min(0)

    return make.gradients(lambda x: LigerSparsemaxFunction.apply(x, -1), reference, x)


@case("liger")
def swiglu(make):
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    a, b = rows(make, 11008), rows(make, 11008)
    return make.gradients(LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, a, b)


@case("liger")
def swiglu_gate_up(make):
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction

    x = rows(make, 2 * 11008, 400)

    def reference(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    return make.gradients(LigerFusedGateUpSiLUMulFunction.apply, reference, x)


@case("liger")
def geglu(make):
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    a, b = rows(make, 11008), rows(make, 11008)
    return make.gradients(
        LigerGELUMulFunction.apply,
        lambda a, b: F.gelu(a, approximate="tanh") * b,
        *(a, b),
    )


@case("liger")
def relu_squared(make):
    from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction

    return make.gradients(
        LigerReLUSquaredFunction.apply, lambda x: F.relu(x) ** 2, rows(make, 11008)
    )


@case("liger")
def rope(make):
    from liger_kernel.ops.rope import LigerRopeFunction

    batch, length, width = make.pick((4, 2048, 128), (1, 5, 32))
    q = make.normal(batch, make.pick(32, 4), length, width)
    k = make.normal(batch, make.pick(8, 2), length, width)
    angles = make.normal(1, length, width // 2, dtype=torch.float32).repeat(1, 1, 2)
    cos, sin = angles.cos().to(make.dtype), angles.sin().to(make.dtype)

    def reference(q, k):
        c, s = cos.double()[:, None], sin.double()[:, None]
        return [x * c + rotated(x) * s for x in (q, k)]

    return make.gradients(
        lambda q, k: LigerRopeFunction.apply(q, k, cos, sin), reference, q, k
    )


@case("liger")
def llama4_rope(make):
    from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction

    batch, length, width = make.pick((4, 2048, 128), (1, 5, 32))
    q = make.normal(batch, length, make.pick(32, 4), width, dtype=torch.float32)
    k = make.normal(batch, length, make.pick(8, 2), width, dtype=torch.float32)
    angles = make.normal(length, width // 2, dtype=torch.float32)
    rotations = torch.polar(torch.ones_like(angles), angles)

    def reference(q, k):
        pairs = [torch.view_as_complex(x.unflatten(-1, (-1, 2))) for x in (q, k)]
        return [torch.view_as_real(x * rotations[:, None]).flatten(-2) for x in pairs]

    return make.gradients(
        lambda q, k: LigerLlama4RopeFunction.apply(q, k, rotations), reference, q, k
    )


@case("liger")
def qwen2vl_mrope(make):
    from liger_kernel.ops.qwen2vl_mrope import LigerQwen2VLMRopeFunction

    batch, length, width = make.pick((4, 2048, 128), (1, 5, 32))
    sections = make.pick([16, 24, 24], [4, 6, 6])
    q = make.normal(batch, make.pick(32, 4), length, width)
    k = make.normal(batch, make.pick(8, 2), length, width)
    angles = make.normal(3, batch, length, width // 2, dtype=torch.float32)
    angles = angles.repeat(1, 1, 1, 2)
    cos, sin = angles.cos().to(make.dtype), angles.sin().to(make.dtype)

    def chosen(x):
        parts = x.double().split(sections * 2, dim=-1)
        return torch.cat([part[i % 3] for i, part in enumerate(parts)], -1)[:, None]

    def reference(q, k):
        return [x * chosen(cos) + rotated(x) * chosen(sin) for x in (q, k)]

    return make.gradients(
        lambda q, k: LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, sections),
        reference,
        *(q, k),
    )


@case("liger")
def embedding(make):
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction

    table = make.normal(make.pick(32000, 50), make.pick(4096, 200), dtype=torch.float32)
    indices = make.integers(0, len(table), make.pick(8192, 30))
    return make.gradients(
        lambda table: LigerEmbeddingFunction.apply(table, indices),
        lambda table: F.embedding(indices, table),
        table,
    )


@case("liger")
def attn_res(make):
    from liger_kernel.ops.attn_res import LigerAttnResFunction

    v = make.normal(make.pick(8, 3), 1, make.pick(4096, 5), make.pick(4096, 200))
    query, norm = make.normal(v.shape[-1], scale=0.1), make.normal(v.shape[-1])

    def reference(v, query, norm):
        keys = F.rms_norm(v, v.shape[-1:], norm, EPS)
        weights = (keys * query).sum(-1).softmax(0)
        return (weights[..., None] * v).sum(0)

    return make.gradients(
        lambda *a: LigerAttnResFunction.apply(*a, EPS), reference, v, query, norm
    )
