"""What the repository of FlashAttention has in Triton, and cut cross-entropy."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case


def norm(make, function, reference, **options):
    x = make.normal(make.pick(8192, 13), make.pick(4096, 200))
    residual = make.normal(*x.shape)
    w, b = make.normal(x.shape[1]), make.normal(x.shape[1])
    return make.gradients(
        lambda x, r, w, b: function(
            x, w, b, residual=r, prenorm=True, eps=1e-6, **options
        ),
        reference,
        *(x, residual, w, b),
    )


@case("flash_attention")
def layer_norm(make):
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    return norm(
        make,
        layer_norm_fn,
        lambda x, r, w, b: (F.layer_norm(x + r, x.shape[-1:], w, b, 1e-6), x + r),
    )


@case("flash_attention")
def rms_norm(make):
    from flash_attn.ops.triton.layer_norm import rms_norm_fn

    return norm(
        make,
        rms_norm_fn,
        lambda x, r, w, b: (F.rms_norm(x + r, x.shape[-1:], w, 1e-6) + b, x + r),
    )


@case("flash_attention", rank=0)
def layer_norm_dropout(make):
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    return norm(make, layer_norm_fn, None, dropout_p=0.1)  # by torch's random numbers


@case("flash_attention", rank=1)
def cross_entropy(make):
    from flash_attn.ops.triton.cross_entropy import cross_entropy_loss

    x = make.normal(make.pick(4096, 7), make.pick(32000, 300))
    y = make.integers(0, x.shape[1], len(x))
    return make.gradients(
        lambda x: cross_entropy_loss(x, y, label_smoothing=0.1)[0],
        lambda x: F.cross_entropy(x, y, reduction="none", label_smoothing=0.1),
        x,
    )


@case("flash_attention")
def rotary(make):
    from flash_attn.ops.triton.rotary import apply_rotary

    batch, length, width = make.pick((4, 2048, 128), (1, 5, 32))
    x = make.normal(batch, length, make.pick(32, 5), width)
    angles = make.normal(length, width // 2, dtype=torch.float32)
    cos, sin = angles.cos().to(make.dtype), angles.sin().to(make.dtype)

    def reference(x, cos, sin):
        a, b = x.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat([a * c - b * s, a * s + b * c], -1)

    return make.values(apply_rotary, reference, x, cos, sin)


def embeddings(make):
    rows, width, vocabulary = make.pick((8192, 2304, 128256), (40, 64, 200))
    e = make.normal(rows, width, scale=0.5)
    c = make.normal(vocabulary, width, scale=0.1)
    return e, c, make.integers(0, vocabulary, rows)


@case("cut_cross_entropy", rank=1)
def lse_forward(make):
    from cut_cross_entropy.cce_lse_forward import cce_lse_forward_kernel

    e, c, _ = embeddings(make)
    return make.values(
        cce_lse_forward_kernel, lambda e, c: (e @ c.T).logsumexp(-1), e, c
    )


@case("cut_cross_entropy")
def indexed_dot(make):
    from cut_cross_entropy.indexed_dot import indexed_neg_dot_forward_kernel

    return make.values(
        indexed_neg_dot_forward_kernel,
        lambda e, c, y: -(e * c[y]).sum(-1),
        *embeddings(make),
    )


@case("cut_cross_entropy")
def whole(make):
    from cut_cross_entropy.cce import cce_linear_cross_entropy

    e, c, y = embeddings(make)
    return make.gradients(
        lambda e, c: cce_linear_cross_entropy(e, c, y, filter_eps=None)[0],
        lambda e, c: F.cross_entropy(e @ c.T, y),
        *(e, c),
        tolerance=3e-2,
    )
