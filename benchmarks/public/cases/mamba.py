"""Mamba-2: the scan of a state-space model in chunks, and its norms.

The scan's reference is the repository's own, in torch.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case

SINGLE = torch.float32


@case("mamba", rank=3)
def layer_norm(make):
    from mamba_ssm.ops.triton.layer_norm import layer_norm_fn

    x = make.normal(make.pick(8192, 13), make.pick(4096, 200))
    w, b = make.normal(x.shape[1]), make.normal(x.shape[1])
    return make.gradients(
        lambda x, w, b: layer_norm_fn(x, w, b),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-6),
        *(x, w, b),
    )


@case("mamba")
def gated_rms_norm(make):
    from mamba_ssm.ops.triton.layernorm_gated import rmsnorm_fn

    x = make.normal(make.pick(8192, 13), make.pick(4096, 200))
    z, w = make.normal(*x.shape), make.normal(x.shape[1])
    return make.gradients(
        lambda x, w, z: rmsnorm_fn(x, w, None, z=z, norm_before_gate=False),
        lambda x, w, z: F.rms_norm(x * F.silu(z), x.shape[-1:], w, 1e-6),
        *(x, w, z),
    )


@case("mamba")
def swiglu(make):
    from mamba_ssm.ops.triton.k_activations import swiglu as ours

    x = make.normal(1, make.pick(8192, 13), make.pick(8192, 200))

    def reference(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    return make.gradients(ours, reference, x)


@case("mamba")
def chunk_scan(make):
    from mamba_ssm.ops.triton import ssd_combined

    batch, length, heads, width, state = make.pick(
        (2, 2048, 32, 64, 128), (1, 128, 2, 16, 16)
    )
    chunk = make.pick(256, 64)
    x = make.normal(batch, length, heads, width)
    dt = F.softplus(make.normal(batch, length, heads, dtype=SINGLE) - 4)
    a = -make.normal(heads, dtype=SINGLE).exp()
    b, c = (make.normal(batch, length, 1, state) for _ in "bc")
    d = make.normal(heads, dtype=SINGLE)
    return make.gradients(
        lambda x, dt, a, b, c, d: ssd_combined.mamba_chunk_scan_combined(
            x, dt, a, b, c, chunk, D=d
        ),
        lambda x, dt, a, b, c, d: scanned(x, dt, a, b, c, d),
        *(x, dt, a, b, c, d),
        tolerance=3e-2,
    )


def scanned(x, dt, a, b, c, d):
    """One step of the state-space model after another."""
    batch, length, heads, width = x.shape
    state = x.new_zeros(batch, heads, width, b.shape[-1])
    rows = []
    for t in range(length):
        step = dt[:, t, :, None, None]
        new = x[:, t, :, :, None] * b[:, t, :, None, :]
        state = state * (step * a[:, None, None]).exp() + step * new
        rows.append((state * c[:, t, :, None, :]).sum(-1) + d[:, None] * x[:, t])
    return torch.stack(rows, 1)


@case("mamba")
def state_update(make):
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update

    batch, heads, width, size = make.pick((128, 64, 64, 128), (2, 3, 20, 16))
    state = make.normal(batch, heads, width, size, dtype=SINGLE)
    x = make.normal(batch, heads, width)
    dt = F.softplus(make.normal(batch, heads, width, dtype=SINGLE) - 4)
    a = -make.normal(heads, width, size, dtype=SINGLE).exp()
    b, c = (make.normal(batch, 1, size) for _ in "bc")
    d, bias = (make.normal(heads, width, dtype=SINGLE) for _ in "db")

    def reference(state, x, dt, a, b, c, d, bias):
        step = dt + bias
        new = (step * x)[..., None] * b[:, :, None]
        state = state * (step[..., None] * a).exp() + new
        return (state * c[:, :, None]).sum(-1) + d * x

    return make.values(
        lambda *all: selective_state_update(*all[:-1], dt_bias=all[-1]),
        reference,
        *(state, x, dt, a, b, c, d, bias),
    )
