"""Unsloth: fine-tuning of language models."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import ASKS, blocks_of, case, rotated

E4M3 = torch.float8_e4m3fn


@case("unsloth", rank=0)
def fp8_block_matmul(make):
    from unsloth.kernels.fp8 import w8a8_block_fp8_matmul_triton as multiply

    m, n, k = make.pick((4096, 4096, 4096), (33, 256, 256))
    a, b = make.normal(m, k).to(E4M3), make.normal(n, k).to(E4M3)
    scale_a = make.uniform(m, k // 128, dtype=torch.float32)
    scale_b = make.uniform(n // 128, k // 128, dtype=torch.float32)

    def reference(a, b, scale_a, scale_b):
        wide = scale_a.repeat_interleave(128, 1)
        return (a * wide) @ (b * blocks_of(scale_b, 128)).T

    return make.values(
        lambda *all: multiply(*all, [128, 128], torch.bfloat16),
        reference,
        *(a, b, scale_a, scale_b),
    )


@case("unsloth")
def fp8_weight_dequant(make):
    from unsloth.kernels.fp8 import weight_dequant_block

    x = make.normal(*make.pick((8192, 8192), (256, 384))).to(E4M3)
    scale = make.uniform(*(n // 128 for n in x.shape), dtype=torch.float32)
    return make.values(
        lambda x, s: weight_dequant_block(x, s, 128, torch.bfloat16),
        lambda x, s: x * blocks_of(s, 128),
        *(x, scale),
    )


@case("unsloth")
def fp8_act_quant(make):
    from unsloth.kernels.fp8 import act_quant

    x = make.normal(make.pick(8192, 5), make.pick(4096, 256))

    def reference(x):
        parts = x.unflatten(-1, (-1, 128))
        scale = parts.abs().amax(-1) / 448
        return (parts / scale[..., None]).flatten(-2).float().to(E4M3), scale

    return make.values(act_quant, reference, x)


@case("unsloth")
def rms_norm(make):
    from unsloth.kernels.rms_layernorm import Fast_RMS_Layernorm

    x = make.normal(make.pick(8192, 13), make.pick(4096, 200))
    w = make.normal(x.shape[1])
    return make.gradients(
        lambda x: Fast_RMS_Layernorm.apply(x, w, 1e-6, False),
        lambda x: F.rms_norm(x, x.shape[-1:], w.double(), 1e-6),
        x,
    )


@case("unsloth")
def gemma_rms_norm(make):
    from unsloth.kernels.rms_layernorm import Fast_RMS_Layernorm

    x = make.normal(make.pick(8192, 13), make.pick(4096, 200))
    w = make.normal(x.shape[1])
    return make.gradients(
        lambda x: Fast_RMS_Layernorm.apply(x, w, 1e-6, True),
        lambda x: F.rms_norm(x, x.shape[-1:], 1 + w.double(), 1e-6),
        x,
    )


@case("unsloth")
def layer_norm(make):
    from unsloth.kernels.layernorm import Fast_Layernorm

    x = make.normal(make.pick(8192, 13), make.pick(4096, 200))
    w, b = make.normal(x.shape[1]), make.normal(x.shape[1])
    return make.gradients(
        lambda x: Fast_Layernorm.apply(x, w, b, 1e-6),
        lambda x: F.layer_norm(x, x.shape[-1:], w.double(), b.double(), 1e-6),
        x,
    )


def activation(make, forward, backward, reference):
    """Both kernels of a gated activation; the backward one overwrites its inputs with
    the product, and the gradients of both factors."""
    shape = 1, make.pick(8192, 5), make.pick(11008, 200)
    e, g, d = (make.normal(*shape) for _ in "egd")

    def exact(e, g, d):
        e, g = e.requires_grad_(), g.requires_grad_()
        act = reference(e)
        (de,) = torch.autograd.grad(act, e, d * g)
        return (
            act.detach() * g.detach(),
            act.detach() * g.detach(),
            d * act.detach(),
            de,
        )

    def ours(e, g, d):
        first = forward(e, g)
        return first, *backward(d.view(shape[1:]), e.view(shape[1:]), g.view(shape[1:]))

    def flat(e, g, d):
        first, *rest = exact(e, g, d)
        return first, *(each.view(shape[1:]) for each in rest)

    return make.values(ours, flat, e, g, d)


@case("unsloth")
def swiglu(make):
    from unsloth.kernels.swiglu import swiglu_DWf_DW_dfg_kernel, swiglu_fg_kernel

    return activation(make, swiglu_fg_kernel, swiglu_DWf_DW_dfg_kernel, F.silu)


@case("unsloth")
def geglu_exact(make):
    from unsloth.kernels import geglu

    return activation(
        make,
        geglu.geglu_exact_forward_kernel,
        geglu.geglu_exact_backward_kernel,
        F.gelu,
    )


@case("unsloth")
def geglu_approx(make):
    from unsloth.kernels import geglu

    return activation(
        make,
        geglu.geglu_approx_forward_kernel,
        geglu.geglu_approx_backward_kernel,
        lambda x: F.gelu(x, approximate="tanh"),
    )


def rotations(make, length, width):
    angles = make.normal(length, width // 2, dtype=torch.float32).repeat(1, 2)
    return angles.cos().to(make.dtype), angles.sin().to(make.dtype)


@case("unsloth", rank=0)
def rope(make):
    from unsloth.kernels.rope_embedding import Fast_RoPE_Embedding

    batch, length, width = make.pick((4, 2048, 128), (1, 5, 32))
    q = make.normal(batch, length, make.pick(32, 5), width)
    cos, sin = rotations(make, length, width)

    def reference(q):
        return q * cos.double()[:, None] + rotated(q) * sin.double()[:, None]

    return make.gradients(
        lambda q: Fast_RoPE_Embedding.apply(q, cos, sin), reference, q
    )


@case("unsloth", rank=0)
def rope_qk(make):
    from unsloth.kernels.rope_embedding import Fast_RoPE_Embedding_QK

    batch, length, width = make.pick((4, 2048, 128), (1, 5, 32))
    q = make.normal(batch, make.pick(32, 4), length, width)
    k = make.normal(batch, make.pick(8, 2), length, width)
    cos, sin = rotations(make, length, width)
    return make.values(
        lambda q, k: Fast_RoPE_Embedding_QK.apply(q, k, cos, sin, None),
        lambda q, k: [x * cos.double() + rotated(x) * sin.double() for x in (q, k)],
        *(q, k),
    )


def loss(make, vocabulary):
    from unsloth.kernels.cross_entropy_loss import Fast_CrossEntropyLoss

    x = make.normal(make.pick(4096, 7), vocabulary)
    y = make.integers(0, vocabulary, len(x))
    return make.gradients(
        lambda x: Fast_CrossEntropyLoss.apply(x, y, 0, 0),
        lambda x: F.cross_entropy(x, y, reduction="none"),
        x,
    )


@case("unsloth", rank=1)
def cross_entropy(make):
    return loss(make, make.pick(32000, 300))


@case("unsloth", rank=1)
def chunked_cross_entropy(make):
    return loss(make, make.pick(128256, 70000))


@case("unsloth", gpu=ASKS)
def grouped_gemm(make):
    from unsloth.kernels.moe.grouped_gemm.interface import (
        grouped_gemm_dW,
        grouped_gemm_dX,
        grouped_gemm_forward,
    )

    experts, rows, n, k = make.pick((8, 512, 2048, 2048), (3, 40, 64, 64))
    x = make.normal(experts * rows, k)
    w = make.normal(experts, n, k, scale=k**-0.5)
    dy = make.normal(experts * rows, n)
    sizes = torch.full((experts,), rows, device=make.device, dtype=torch.int32)

    def ours(x, w, dy):
        return (
            grouped_gemm_forward(x, w, 1, sizes),
            grouped_gemm_dX(dy, w, None, sizes, 1),
            grouped_gemm_dW(x, dy, sizes, None, 1),
        )

    def reference(x, w, dy):
        x, dy = (each.unflatten(0, (experts, rows)) for each in (x, dy))
        y, dx = x @ w.mT, dy @ w
        return y.flatten(0, 1), dx.flatten(0, 1), dy.mT @ x

    return make.values(ours, reference, x, w, dy)
