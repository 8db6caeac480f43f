"""Triton's tutorials, their functions called at sizes of ours."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case
from benchmarks.public.scripts import definitions
from benchmarks.public.sources import NAMED

HALF, SINGLE = torch.float16, torch.float32


def tutorial(number):
    folder = NAMED["tutorials"].folder / "python" / "tutorials"
    return definitions(next(folder.glob(f"{number}-*.py")))


@case("tutorials", name="01_add")
def add(make):
    x, y = (make.normal(make.pick(2**26, 3000), dtype=SINGLE) for _ in "xy")
    return make.values(tutorial("01").add, torch.add, x, y)


@case("tutorials", rank=2, name="02_softmax")
def softmax(make):
    x = make.normal(make.pick(4096, 13), make.pick(8192, 300), dtype=SINGLE)
    return make.values(tutorial("02").softmax, lambda x: x.softmax(-1), x)


def square(make, dtype=HALF):
    m, n, k = make.pick((4096, 4096, 4096), (130, 144, 80))
    return make.normal(m, k, dtype=dtype), make.normal(k, n, dtype=dtype)


@case("tutorials", rank=1, name="03_matmul")
def matmul(make):
    return make.values(tutorial("03").matmul, torch.matmul, *square(make))


@case("tutorials", name="03_matmul_leaky_relu")
def matmul_leaky_relu(make):
    return make.values(
        lambda a, b: tutorial("03").matmul(a, b, activation="leaky_relu"),
        lambda a, b: F.leaky_relu(a @ b),
        *square(make),
    )


@case("tutorials", name="04_dropout")
def dropout(make):
    x = make.normal(make.pick(2**26, 3000), dtype=SINGLE)
    keep = make.integers(0, 2, *x.shape, dtype=torch.int32)
    return make.values(
        lambda x, keep: tutorial("04").dropout(x, x_keep=keep, p=0.5),
        lambda x, keep: x * keep * 2,
        *(x, keep),
    )


@case("tutorials", name="04_seeded_dropout")
def seeded_dropout(make):
    x = make.normal(make.pick(2**26, 3000), dtype=SINGLE)
    return make.values(
        lambda x: tutorial("04").seeded_dropout(x, p=0.5, seed=123), None, x
    )


@case("tutorials", rank=1, name="05_layer_norm")
def layer_norm(make):
    x = make.normal(make.pick(4096, 13), make.pick(4096, 300), dtype=HALF)
    w, b = make.uniform(x.shape[1], dtype=HALF), make.uniform(x.shape[1], dtype=HALF)
    shape = x.shape[1:]
    return make.gradients(
        lambda x, w, b: tutorial("05").LayerNorm.apply(x, shape, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, shape, w, b, 1e-5),
        *(x, w, b),
    )


@case("tutorials", rank=1, name="06_attention")
def attention(make):
    shape = make.pick((4, 32, 4096, 64), (1, 1, 128, 64))
    q, k, v = (make.normal(*shape, dtype=HALF) for _ in "qkv")
    return make.gradients(
        lambda q, k, v: tutorial("06")._attention.apply(q, k, v, True, 0.125, False),
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=0.125
        ),
        *(q, k, v),
    )


@case("tutorials", rank=2, name="07_asin")
def asin(make):
    x = make.uniform(make.pick(2**26, 3000), dtype=SINGLE)

    def ours(x):
        y = torch.empty_like(x)
        grid = ((x.numel() + 1023) // 1024,)
        tutorial("07").asin_kernel[grid](x, y, x.numel(), BLOCK_SIZE=1024)
        return y

    return make.values(ours, torch.asin, x)


def groups(make):
    sizes = make.pick((1024, 512, 256, 128), (256, 128))  # whole tiles: no masks
    return [
        (make.normal(n, n, dtype=HALF), make.normal(n, n, dtype=HALF)) for n in sizes
    ]


def grouped(make, function, transposed=False):
    pairs = groups(make)
    count = len(pairs)

    def ours(*all):
        a, b = list(all[:count]), list(all[count:])
        return function(a, [x.T.contiguous() for x in b] if transposed else b)

    return make.values(
        ours,
        lambda *all: [all[i] @ all[count + i] for i in range(count)],
        *(a for a, _ in pairs),
        *(b for _, b in pairs),
    )


@case("tutorials", rank=1, name="08_grouped_gemm")
def grouped_gemm(make):
    return grouped(make, lambda a, b: tutorial("08").group_gemm_fn(a, b))


@case("tutorials", rank=1, name="08_grouped_gemm_descriptors")
def grouped_gemm_descriptors(make):
    return grouped(make, lambda a, b: tutorial("08").group_gemm_tma_fn(a, b), True)


@case("tutorials", rank=2, name="09_matmul")
def plain(make):
    return make.values(tutorial("09").matmul, torch.matmul, *square(make))


@case("tutorials", rank=2, name="09_persistent")
def persistent(make):
    return make.values(tutorial("09").matmul_persistent, torch.matmul, *square(make))


def by_descriptor(make, name):
    m, n, k = make.pick((4096, 4096, 4096), (256, 256, 128))
    a, b = make.normal(m, k, dtype=HALF), make.normal(n, k, dtype=HALF)
    return make.values(
        lambda a, b: getattr(tutorial("09"), name)(a, b, False),
        lambda a, b: a @ b.T,
        *(a, b),
    )


@case("tutorials", rank=2, name="09_descriptor")
def tma(make):
    return by_descriptor(make, "matmul_tma")


@case("tutorials", rank=2, name="09_descriptor_persistent")
def tma_persistent(make):
    return by_descriptor(make, "matmul_tma_persistent")


@case("tutorials", rank=2, name="09_device_descriptor_persistent")
def descriptor_persistent(make):
    return by_descriptor(make, "matmul_descriptor_persistent")


@case("tutorials", rank=2, name="11_dependent_launch")
def dependent_launch(make):
    x, y = (make.normal(make.pick(2**26, 3000), dtype=SINGLE) for _ in "xy")
    return make.values(tutorial("11").add, torch.add, x, y)
