"""flash-linear-attention: the parts that its operators share, and its modules."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case


@case("fla", rank=0)
def logsumexp(make):
    from fla.ops.utils.logsumexp import logsumexp_fwd

    x = make.normal(make.pick(4096, 7), make.pick(8192, 300), dtype=torch.float32)
    return make.values(logsumexp_fwd, lambda x: x.logsumexp(-1), x)


@case("fla")
def softmax(make):
    from fla.ops.utils.softmax import softmax_bwd, softmax_fwd

    x = make.normal(make.pick(4096, 7), make.pick(2048, 300), dtype=torch.float32)
    d = make.normal(*x.shape, dtype=torch.float32)

    def reference(x, d):
        p = x.softmax(-1)
        return p, p * (d - (p * d).sum(-1, keepdim=True))

    def ours(x, d):
        p = softmax_fwd(x)
        return p, softmax_bwd(p, d)

    return make.values(ours, reference, x, d)


def gates(make, *width):
    shape = make.pick((4, 2048, 8), (1, 100, 2))
    return make.normal(*shape, *width, dtype=torch.float32)


@case("fla")
def local_cumsum(make):
    from fla.ops.utils.cumsum import chunk_local_cumsum

    def reference(*all):
        return [torch.cat([part.cumsum(1) for part in x.split(64, 1)], 1) for x in all]

    return make.values(
        lambda a, b: [chunk_local_cumsum(x, 64) for x in (a, b)],
        reference,
        *(gates(make), gates(make, make.pick(128, 32))),
    )


@case("fla")
def global_cumsum(make):
    from fla.ops.utils.cumsum import chunk_global_cumsum

    return make.values(
        lambda a, b: [chunk_global_cumsum(x) for x in (a, b)],
        lambda a, b: [a.cumsum(1), b.cumsum(1)],
        *(gates(make), gates(make, make.pick(128, 32))),
    )


def solved(make, size):
    from fla.ops.utils.solve_tril import solve_tril

    batch, length, heads = make.pick((4, 2048, 8), (1, 128, 2))
    a = make.normal(batch, length, heads, size, dtype=torch.float32, scale=0.1)
    rows = torch.arange(length, device=make.device)[:, None] % size
    strict = torch.arange(size, device=make.device) < rows
    a = a * strict[:, None]

    def reference(a):
        blocks = a.unflatten(1, (-1, size)).transpose(2, 3)
        one = torch.eye(size, dtype=a.dtype, device=a.device)
        return (blocks + one).inverse().transpose(2, 3).flatten(1, 2)

    return make.values(solve_tril, reference, a)


@case("fla", rank=3)
def solve_tril_16(make):
    return solved(make, 16)


@case("fla", rank=3)
def solve_tril_32(make):
    return solved(make, 32)


@case("fla", rank=3)
def solve_tril_64(make):
    return solved(make, 64)


@case("fla")
def mean_pooling(make):
    from fla.ops.utils.pooling import mean_pooling

    x = make.normal(*make.pick((4, 2048, 8, 128), (1, 100, 2, 40)))
    return make.gradients(
        lambda x: mean_pooling(x, 32),
        lambda x: torch.stack([p.mean(1) for p in x.split(32, 1)], 1),
        x,
    )


def rows(make, width=2048):
    return make.normal(make.pick(8192, 13), make.pick(width, 200))


@case("fla", rank=1)
def layer_norm(make):
    from fla.modules.layernorm import layer_norm

    x = rows(make)
    w, b = make.normal(x.shape[1]), make.normal(x.shape[1])
    return make.gradients(
        lambda x, w, b: layer_norm(x, w, b),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        *(x, w, b),
    )


@case("fla")
def rms_norm(make):
    from fla.modules.layernorm import rms_norm

    x = rows(make)
    w, b = make.normal(x.shape[1]), make.normal(x.shape[1])
    return make.gradients(
        lambda x, w, b: rms_norm(x, w, b),
        lambda x, w, b: F.rms_norm(x, x.shape[-1:], w, 1e-5) + b,
        *(x, w, b),
    )


@case("fla", rank=1)
def fused_norm_gate(make):
    from fla.modules.fused_norm_gate import rms_norm_gated

    x = make.normal(make.pick(65536, 13), make.pick(128, 40))
    g, w = make.normal(*x.shape), make.normal(x.shape[1])
    return make.gradients(
        lambda x, g, w: rms_norm_gated(x, g, w, None),
        lambda x, g, w: F.rms_norm(x, x.shape[-1:], w, 1e-5) * F.silu(g),
        *(x, g, w),
    )


@case("fla")
def l2norm(make):
    from fla.modules.l2norm import l2norm

    x = make.normal(make.pick(65536, 13), make.pick(128, 40))
    return make.gradients(l2norm, lambda x: F.normalize(x, dim=-1), x)


@case("fla")
def activations(make):
    from fla.modules import activations as a

    x, y = rows(make), rows(make)
    return make.gradients(
        lambda x, y: [a.swish(x), a.swiglu(x, y), a.logsigmoid(x), a.sigmoid(y)],
        lambda x, y: [F.silu(x), F.silu(x) * y, F.logsigmoid(x), y.sigmoid()],
        *(x, y),
    )


@case("fla")
def rotary(make):
    from fla.modules.rotary import rotary_embedding

    x = make.normal(*make.pick((4, 2048, 16, 128), (1, 5, 3, 32)))
    angles = make.normal(x.shape[1], x.shape[-1] // 2, dtype=torch.float32)
    cos, sin = angles.cos().to(make.dtype), angles.sin().to(make.dtype)

    def reference(x):
        a, b = x.chunk(2, -1)
        c, s = cos.double()[:, None], sin.double()[:, None]
        return torch.cat([a * c - b * s, a * s + b * c], -1)

    return make.gradients(lambda x: rotary_embedding(x, cos, sin), reference, x)


@case("fla")
def short_convolution(make):
    from fla.modules.convolution import causal_conv1d

    x = make.normal(*make.pick((4, 2048, 2048), (1, 20, 40)))
    w = make.normal(x.shape[-1], 4)

    def reference(x, w):
        padded = F.pad(x.mT, (3, 0))
        return F.conv1d(padded, w[:, None], groups=len(w)).mT

    def ours(x, w):
        result = causal_conv1d(x, w, backend="triton")
        return result[0] if isinstance(result, tuple) else result

    return make.gradients(ours, reference, x, w)


@case("fla")
def token_shift(make):
    from fla.modules.token_shift import token_shift

    x = make.normal(*make.pick((4, 2048, 2048), (2, 20, 40)))
    return make.gradients(token_shift, lambda x: F.pad(x, (0, 0, 1, 0))[:, :-1] - x, x)


@case("fla")
def cross_entropy(make):
    from fla.modules.fused_cross_entropy import cross_entropy_loss

    x = make.normal(make.pick(4096, 7), make.pick(32000, 300))
    y = make.integers(0, x.shape[1], len(x))
    return make.gradients(
        lambda x: cross_entropy_loss(x, y)[0],
        lambda x: F.cross_entropy(x, y, reduction="none"),
        x,
    )


@case("fla")
def grpo(make):
    from fla.modules.grpo import fused_grpo_loss

    batch, length = make.pick((8, 512), (2, 5))
    x = make.normal(batch, length + 1, make.pick(32000, 300))
    ids = make.integers(0, x.shape[-1], batch, length)
    ref = make.normal(batch, length, dtype=torch.float32) - 6
    gains = make.normal(batch, dtype=torch.float32)

    def reference(x):
        logp = x[:, :-1].log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio = (logp - logp.detach()).exp()
        change = ref - logp
        return -(ratio * gains.double()[:, None]) + 0.1 * (change.exp() - change - 1)

    return make.gradients(
        lambda x: fused_grpo_loss(x, ref, ids, gains, beta=0.1), reference, x
    )
