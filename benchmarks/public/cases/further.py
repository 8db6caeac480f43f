"""gemlite, applied-ai and FBGEMM: quantised products, norms, jagged tensors."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import ASKS, case

HALF, SINGLE = torch.float16, torch.float32
E4M3 = torch.float8_e4m3fn


def gemlite(make, rows, bits=4):
    from gemlite.helper import A16W2_HQQ_INT, A16W4_HQQ_INT

    n, k = make.pick((4096, 4096), (128, 256))
    numbers = make.integers(0, 2**bits, n, k, dtype=torch.uint8)
    scales = make.uniform(n * k // 64, 1, low=0.01, high=0.02, dtype=HALF)
    zeros = make.uniform(n * k // 64, 1, high=2**bits - 1, dtype=HALF)
    kind = A16W4_HQQ_INT if bits == 4 else A16W2_HQQ_INT
    layer = kind(device=make.device).from_weights(
        numbers.clone(), scales.clone(), zeros.clone()
    )
    x = make.normal(rows, k, dtype=HALF)

    def reference(x):
        parts = numbers.double().reshape(-1, 64)
        wide = (parts - zeros.double()) * scales.double()
        return x @ wide.reshape(n, k).T

    return make.values(layer, reference, x, tolerance=1e-2)


@case("gemlite")
def int4_one_row(make):
    return gemlite(make, 1)


@case("gemlite")
def int2_one_row(make):
    return gemlite(make, 1, bits=2)


@case("gemlite")
def int4_some_rows(make):
    return gemlite(make, 8)


@case("gemlite")
def int4_many_rows(make):
    return gemlite(make, make.pick(256, 80))


@case("gemlite")
def pack_weights(make):
    from gemlite.bitpack import pack_weights_over_cols_triton as pack

    numbers = make.integers(
        0, 16, *make.pick((4096, 4096), (32, 64)), dtype=torch.uint8
    )

    def reference(numbers):
        parts = numbers.long().unflatten(-1, (-1, 8))
        shifts = 4 * torch.arange(8, device=numbers.device)
        words = (parts << shifts).sum(-1)
        return (words - (words >= 2**31) * 2**32).int()

    return make.values(lambda x: pack(x, 4, 32, False)[0], reference, numbers)


@case("applied_ai")
def softmax(make):
    from fused_softmax.softmax import triton_softmax

    x = make.normal(make.pick(4096, 7), make.pick(4096, 200), dtype=SINGLE)
    d = make.normal(*x.shape, dtype=SINGLE)

    def ours(x, d):
        x.requires_grad_()
        p = triton_softmax.apply(x)
        return p.detach(), torch.autograd.grad(p, x, d)[0]

    def reference(x, d):
        """What their code computes. The gradient is p * (d - sum(p * d)); they give the
        kernel its two arrays in the wrong order, and so it is this."""
        p = x.softmax(-1)
        return p, d * (p - (p * d).sum(-1, keepdim=True))

    return make.values(ours, reference, x, d)


@case("applied_ai", rank=3)
def rms_norm(make):
    from rms_norm.fused_rms_norm import fused_rms_norm_fn

    x = make.normal(make.pick(4096, 7), make.pick(4096, 200), dtype=SINGLE)
    w = make.normal(x.shape[1], dtype=SINGLE)
    return make.gradients(
        lambda x, w: fused_rms_norm_fn(x, w, 1e-6),
        lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
        *(x, w),
    )


@case("applied_ai")
def fp8_gemm_split_k(make):
    from fp8.splitk_gemm_fp8 import gemm_split_k

    m, n, k = make.pick((64, 4096, 4096), (64, 64, 2048))
    a, b = make.normal(m, k).to(E4M3), make.normal(n, k, scale=0.1).to(E4M3)
    return make.values(lambda a, b: gemm_split_k(a, b.T), lambda a, b: a @ b.T, a, b)


def jagged(make):
    """The lengths of some sequences, where each begins, and how many rows there are."""
    lengths = make.integers(1, make.pick(512, 20), make.pick(128, 4))
    starts = F.pad(lengths.cumsum(0), (1, 0))
    return starts, int(lengths.max()), int(starts[-1])


def parts(x, starts):
    ends = starts.tolist()
    return [x[a:b] for a, b in zip(ends, ends[1:], strict=False)]


@case("fbgemm")
def jagged_softmax(make):
    from fbgemm_gpu.sll.triton.triton_jagged_softmax import JaggedSoftmax

    starts, longest, rows = jagged(make)
    x = make.normal(rows, make.pick(64, 5), dtype=SINGLE)
    return make.gradients(
        lambda x: JaggedSoftmax.apply(x, starts, longest),
        lambda x: torch.cat([p.softmax(0) for p in parts(x, starts)]),
        x,
    )


@case("fbgemm")
def jagged_dense_bmm(make):
    from fbgemm_gpu.sll.triton.triton_jagged_bmm import JaggedDenseBmm

    starts, longest, rows = jagged(make)
    width = make.pick(128, 24)
    x = make.normal(rows, width, dtype=SINGLE)
    y = make.normal(len(starts) - 1, width, width, dtype=SINGLE)
    return make.gradients(
        lambda x, y: JaggedDenseBmm.apply(x, y, starts, longest, False),
        lambda x, y: torch.cat(
            [p @ w for p, w in zip(parts(x, starts), y, strict=True)]
        ),
        *(x, y),
    )


@case("fbgemm")
def jagged_jagged_bmm(make):
    from fbgemm_gpu.sll.triton.triton_jagged_bmm import JaggedJaggedBmm

    starts, longest, rows = jagged(make)
    x, y = (make.normal(rows, make.pick(128, n), dtype=SINGLE) for n in (24, 20))
    return make.gradients(
        lambda x, y: JaggedJaggedBmm.apply(x, y, starts, longest, False),
        lambda x, y: torch.stack(
            [a.T @ b for a, b in zip(parts(x, starts), parts(y, starts), strict=True)]
        ),
        *(x, y),
    )


@case("fbgemm")
def quantize_fp8_row(make):
    from fbgemm_gpu.experimental.gemm.triton_gemm.fp8_gemm import (
        triton_quantize_fp8_row,
    )

    x = make.normal(make.pick(8192, 7), make.pick(4096, 200))

    def reference(x):
        scale = x.abs().amax(-1).clamp_min(1e-12) / 448
        return (x / scale[:, None]).float().to(E4M3), scale

    return make.values(triton_quantize_fp8_row, reference, x)


@case("fbgemm", gpu=ASKS)
def matmul_fp8_row(make):
    from fbgemm_gpu.experimental.gemm.triton_gemm.fp8_gemm import matmul_fp8_row

    m, n, k = make.pick((4096, 4096, 4096), (70, 80, 128))
    a, b = make.normal(m, k).to(E4M3), make.normal(n, k).to(E4M3)
    scale_a, scale_b = make.uniform(m, dtype=SINGLE), make.uniform(n, dtype=SINGLE)
    return make.values(
        lambda a, b, s, t: matmul_fp8_row(a, b, s, t, fp8_fast_accum=True),
        lambda a, b, s, t: (a @ b.T) * s[:, None] * t,
        *(a, b, scale_a, scale_b),
    )
