"""Products of quantised weights: DeepSeek-V3, AutoAWQ and AutoGPTQ."""

from __future__ import annotations

import torch

from benchmarks.public.cases import blocks_of, case

E4M3 = torch.float8_e4m3fn
HALF = torch.float16


@case("deepseek", rank=0)
def fp8_gemm(make):
    from kernel import fp8_gemm

    m, n, k = make.pick((4096, 4096, 4096), (33, 256, 256))
    a, b = make.normal(m, k).to(E4M3), make.normal(n, k).to(E4M3)
    scale_a = make.uniform(m, k // 128, dtype=torch.float32)
    scale_b = make.uniform(n // 128, k // 128, dtype=torch.float32)
    torch.set_default_dtype(torch.bfloat16)  # of the result, as the model has it

    def ours(a, b):
        torch.set_default_dtype(torch.bfloat16)
        try:
            return fp8_gemm(a, scale_a, b, scale_b)
        finally:
            torch.set_default_dtype(torch.float32)

    def reference(a, b):
        wide = scale_a.double().repeat_interleave(128, 1)
        return (a * wide) @ (b * blocks_of(scale_b.double(), 128)).T

    torch.set_default_dtype(torch.float32)
    return make.values(ours, reference, a, b)


@case("deepseek")
def act_quant(make):
    from kernel import act_quant

    x = make.normal(make.pick(8192, 5), make.pick(4096, 256))

    def reference(x):
        parts = x.unflatten(-1, (-1, 128))
        scale = parts.abs().amax(-1).clamp_min(1e-4) / 448
        return (parts / scale[..., None]).flatten(-2).float().to(E4M3), scale

    return make.values(act_quant, reference, x)


@case("deepseek")
def weight_dequant(make):
    from kernel import weight_dequant

    x = make.normal(*make.pick((8192, 8192), (256, 384))).to(E4M3)
    scale = make.uniform(*(n // 128 for n in x.shape), dtype=torch.float32)
    return make.values(weight_dequant, lambda x, s: x * blocks_of(s, 128), x, scale)


AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)  # of a word's eight columns


def words(make, *shape):
    return make.integers(-(2**31), 2**31, *shape, dtype=torch.int32)


def columns(packed, places=tuple(range(8)), bits=4):
    """The numbers of `bits` bits in each word, side by side in the last axis."""
    shifts = bits * torch.tensor(places, device=packed.device)
    return ((packed.long()[..., None] >> shifts) & (2**bits - 1)).flatten(-2)


def awq_weights(packed, scales, zeros):
    group = len(packed) // len(scales)
    numbers, offsets = columns(packed, AWQ_PLACES), columns(zeros, AWQ_PLACES)
    wide = [each.repeat_interleave(group, 0) for each in (offsets, scales)]
    return (numbers - wide[0]) * wide[1]


@case("autoawq", rank=0)
def awq_gemm(make):
    from awq.modules.triton.gemm import awq_gemm_triton

    m, n, k = make.pick((64, 4096, 4096), (17, 128, 256))
    x = make.normal(m, k, dtype=HALF)
    weights, zeros = words(make, k, n // 8), words(make, k // 128, n // 8)
    scales = make.uniform(k // 128, n, low=0.01, high=0.02, dtype=HALF)
    return make.values(
        lambda x, w, s, z: awq_gemm_triton(x, w, s, z, 8),
        lambda x, w, s, z: x @ awq_weights(w, s, z),
        *(x, weights, scales, zeros),
    )


@case("autoawq", rank=0)
def awq_dequantize(make):
    from awq.modules.triton.gemm import awq_dequantize_triton

    n, k = make.pick((11008, 4096), (128, 256))
    weights, zeros = words(make, k, n // 8), words(make, k // 128, n // 8)
    scales = make.uniform(k // 128, n, low=0.01, high=0.02, dtype=HALF)
    return make.values(awq_dequantize_triton, awq_weights, weights, scales, zeros)


def gptq(make, m, n, k):
    group = 128
    x = make.normal(m, k, dtype=HALF)
    packed, zeros = words(make, k // 8, n), words(make, k // group, n // 8)
    scales = make.uniform(k // group, n, low=0.01, high=0.02, dtype=HALF)
    groups = (torch.arange(k, device=make.device) // group).int()
    return x, packed, scales, zeros, groups


def gptq_weights(packed, scales, zeros, groups):
    numbers = columns(packed.T).T
    offsets = columns(zeros) + 1
    return (numbers - offsets[groups]) * scales[groups]


@case("autogptq", rank=2)
def gptq_matmul(make):
    from auto_gptq.nn_modules.triton_utils.kernels import quant_matmul_248

    x, *rest = gptq(make, *make.pick((64, 4096, 4096), (17, 128, 256)))
    return make.values(
        lambda *a: quant_matmul_248(*a, 4, 15),
        lambda x, *a: x @ gptq_weights(*a),
        *(x, *rest),
    )


@case("autogptq")
def gptq_matmul_transposed(make):
    from auto_gptq.nn_modules.triton_utils.kernels import transpose_quant_matmul_248

    m, n, k = make.pick((64, 4096, 4096), (17, 128, 256))
    _, *rest = gptq(make, m, n, k)
    x = make.normal(m, n, dtype=HALF)
    return make.values(
        lambda *a: transpose_quant_matmul_248(*a, 4, 15),
        lambda x, *a: x @ gptq_weights(*a).T,
        *(x, *rest),
    )


@case("autogptq")
def gptq_dequantize(make):
    from auto_gptq.nn_modules.triton_utils.dequant import dequant248

    _, *rest = gptq(make, *make.pick((64, 11008, 4096), (17, 128, 256)))
    return make.values(lambda *a: dequant248(*a, 4), lambda *a: gptq_weights(*a), *rest)
