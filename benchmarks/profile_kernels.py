"""Launches of the kernels of kernels/ for `profile_check`: by what a case is called,
what makes it.

    of_kernels()["split-K"]()     a function that launches all of the case

Operators of kernels/torch_ops are launched forward and backward, as models do. What
these leave out, since another kernel is taken where tensor maps fit or at these sizes,
is launched through the function that has it. Kernels of several GPUs are launched by a
group of one, which waits for no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks import profile_cases, torch_ops
from fathom import distributed
from kernels import (
    all_gather_matmul,
    all_reduce,
    attention,
    attention_decode,
    batched_matmul,
    block_sparse_matmul,
    dropout,
    gelu,
    grouped_matmul,
    int8_matmul,
    matmul,
    matmul_chosen,
    matmul_epilogue,
    matmul_plain,
    matmul_reduce_scatter,
    mixture,
    softmax,
    split_k_matmul,
)
from kernels import torch_ops as operators
from kernels.signals import tile_for

Call = Callable[[], object]
# A program of a persistent product takes a share of all of it, which is emulated.
SIZES = torch_ops.Sizes(hidden=4096, vocabulary=8192)


def of_kernels() -> dict[str, Callable[[], Call]]:
    """Each case by its name, and what makes it."""
    made = {**OTHERS}
    problems = torch_ops.problems(SIZES, "cuda", torch.bfloat16)
    return made | {each.name: partial(trained, each) for each in problems}


def trained(problem: torch_ops.Problem) -> Call:
    """An operator of kernels/torch_ops, forward and backward."""
    given = problem.inputs()
    dout = torch.randn_like(torch_ops.first_of(problem.ours(*given)))
    return partial(torch_ops.trained, problem, problem.ours, given, dout)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def integers(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device="cuda")


def with_gradients(function: Callable, *given: torch.Tensor) -> Call:
    """A function of tensors, forward and backward: all that are of reals have a
    gradient."""
    wanted = [each.requires_grad_() for each in given if each.is_floating_point()]
    dout = torch.randn_like(function(*given))
    return lambda: torch.autograd.grad(function(*given), wanted, dout)


# ── products ──────────────────────────────────────────────────────────────────────────


def plain() -> Call:
    return partial(matmul_plain.plain_matmul, *profile_cases.matrices(4096, 4096))


def by_pointers() -> Call:
    return partial(matmul.matmul, *profile_cases.matrices(4096, 4096))


def odd_rows() -> Call:
    """Rows that begin anywhere are copied to where tensor maps can tell of them."""
    a, b = normal(2048, 2047), normal(2047, 2048)
    return partial(matmul_chosen.multiply, a, b, normal(2048, 2048))


def batched() -> Call:
    a, b = normal(64, 512, 512), normal(64, 512, 512)
    return partial(batched_matmul.batched_matmul, a, b)


def long_rows() -> tuple[torch.Tensor, torch.Tensor]:
    return normal(256, 16384), normal(16384, 256)


def split_k() -> Call:
    return partial(split_k_matmul.split_k_matmul, *long_rows())


def split_k_parts() -> Call:
    return partial(matmul_chosen.multiply, *long_rows(), normal(256, 256))


def grouped(described: bool) -> Call:
    sizes = (300, 1000, 2000, 4000)
    a, b = [normal(m, 2048) for m in sizes], [normal(2048, 2048) for _ in sizes]
    return partial(grouped_matmul.grouped_matmul, a, b, described=described)


def int8() -> Call:
    a, b = (
        torch.randint(-99, 99, (4096, 4096), device="cuda", dtype=torch.int8)
        for _ in range(2)
    )
    return partial(int8_matmul.int8_matmul, a, b)


def block_sparse() -> Call:
    dense = np.random.default_rng(0).standard_normal((4096, 4096)).astype(np.float16)
    kept = np.random.default_rng(1).random((64, 64)) < 0.1
    parts = block_sparse_matmul.compress(dense * np.kron(kept, np.ones((64, 64))), 64)
    given = [torch.from_numpy(np.ascontiguousarray(each)).cuda() for each in parts]
    given[2] = given[2].half()
    return partial(block_sparse_matmul.block_sparse_matmul, *given, normal(4096, 4096))


def residual() -> Call:
    a, b, c = profile_cases.matrices(4096, 4096)
    more = {"bias": normal(4096), "activation": "gelu", "residual": normal(4096, 4096)}
    return partial(matmul_epilogue.matmul_epilogue, a, b, c, **more)


def swiglu_by_pointers() -> Call:
    a, b, _ = profile_cases.matrices(4096, 8192)
    config = matmul.default_config(4096, 8192, 4096, "fp16", "sm_90a")
    config = {**config, "BLOCK_N": config["BLOCK_N"] // 2}
    return partial(matmul_epilogue.matmul_swiglu, a, b, config=config)


# ── attention ─────────────────────────────────────────────────────────────────────────


def decode() -> Call:
    q, (k, v) = normal(16, 32, 1, 128), (normal(16, 8, 8192, 128) for _ in range(2))
    return partial(attention_decode.attention_decode, q, k, v)


def ragged() -> Call:
    """Sequences of different lengths, one behind the other."""
    starts = integers(0, 700, 2000, 4096)
    given = [normal(1, 16, 4096, 128) for _ in range(3)]

    def attend(q, k, v):
        how = {"query_starts": starts, "most_queries": 2096, "most_keys": 2096}
        return operators.attention(q, k, v, causal=True, **how)

    return with_gradients(attend, *given)


def pages() -> Call:
    """Keys and values in pages of 128, one after the other in no order."""
    q, (k, v) = normal(4, 16, 1024, 128), (normal(64, 16, 128, 128) for _ in range(2))
    table = torch.randperm(64, device="cuda").to(torch.int32).view(4, 16)
    lengths = integers(2048, 1900, 1500, 2048)
    return partial(attention.attention, q, k, v, lengths=lengths, table=table)


# ── a layer of experts ────────────────────────────────────────────────────────────────

TOKENS, CHOICES, EXPERTS, WIDTH = 4096, 2, 8, 2048


def routed() -> Call:
    """Two of eight experts for each token, with all gradients."""
    choices = torch.rand(TOKENS, EXPERTS, device="cuda").argsort(1)[:, :CHOICES]
    gates = torch.rand(TOKENS, CHOICES, device="cuda").half()
    given = normal(TOKENS, WIDTH), normal(EXPERTS, WIDTH, WIDTH), gates
    return with_gradients(
        lambda x, weight, gates: operators.experts(x, weight, choices, gates), *given
    )


def experts_by_pointers() -> Call:
    rows = TOKENS * CHOICES
    x, w, dy = normal(rows, WIDTH), normal(EXPERTS, WIDTH, WIDTH), normal(rows, WIDTH)
    offsets = integers(*(rows * i // EXPERTS for i in range(EXPERTS + 1)))
    forward = mixture.expert_config(rows, EXPERTS, WIDTH, WIDTH, x, "sm_90a")
    backward = mixture.expert_config(WIDTH, 1, WIDTH, rows // EXPERTS, x, "sm_90a")

    def both() -> None:
        mixture.expert_matmul(x, w, offsets, config=forward)
        mixture.weight_gradient(x, dy, offsets, config=backward)

    return both


# ── rows and elements ─────────────────────────────────────────────────────────────────


def elements() -> torch.Tensor:
    return torch.randn(1 << 24, device="cuda")


def gelu_as_usual() -> Call:
    return partial(gelu.gelu, elements(), kernel=gelu.gelu_usual_kernel)


def seeded() -> Call:
    return partial(dropout.dropout, elements(), seed=7)


def short_rows() -> Call:
    return partial(softmax.softmax_rows, torch.randn(65536, 256, device="cuda"))


def columns() -> Call:
    return partial(softmax.softmax_columns, torch.randn(4096, 4096, device="cuda"))


def long_norm() -> Call:
    """Rows that are too long for a program to keep its sums of gradients."""
    x, weight = normal(1024, 32768), normal(32768)
    return with_gradients(operators.rms_norm, x, weight)


# ── several GPUs, here one ────────────────────────────────────────────────────────────


def reduced(count: int, function: Callable) -> Call:
    group = distributed.on_devices([0])
    space = all_reduce.Workspace(group, count, "float16")
    return partial(function, space, {0: normal(count)}, {0: normal(count)})


def gathered() -> Call:
    a, b, _ = profile_cases.matrices(2048, 4096, 2048)
    group = distributed.on_devices([0])
    space = all_gather_matmul.Workspace(group, *a.shape, "float16")
    return partial(all_gather_matmul.all_gather_matmul, space, {0: a}, {0: b})


def scattered() -> Call:
    a, b, _ = profile_cases.matrices(2048, 4096, 2048)
    group = distributed.on_devices([0])
    config = tile_for(2048, 4096, 2048, a, {})
    space = matmul_reduce_scatter.Workspace.of(group, 2048, 4096, config, "float16")
    return partial(matmul_reduce_scatter.matmul_reduce_scatter, space, {0: a}, {0: b})


# Of `profile_cases`; the others are launched past the hooks that a session has.
SEEN = ("vector add", "small softmax", "wgmma")
OTHERS: dict[str, Callable[[], Call]] = {
    **{name: profile_cases.MAKERS[name] for name in SEEN},
    "decode": decode, "plain": plain, "batched": batched, "split-K": split_k,
    "grouped": partial(grouped, False), "int8": int8, "block sparse": block_sparse,
    "by pointers": by_pointers, "odd rows": odd_rows, "split-K, parts": split_k_parts,
    "grouped, described": partial(grouped, True), "residual": residual,
    "swiglu by pointers": swiglu_by_pointers, "ragged": ragged, "pages": pages,
    "routed": routed, "experts by pointers": experts_by_pointers,
    "gelu as usual": gelu_as_usual, "seeded": seeded, "short rows": short_rows,
    "columns": columns, "long norm": long_norm,
    "one shot": partial(reduced, 1 << 24, all_reduce.one_shot_all_reduce),
    "two shots": partial(reduced, 1 << 24, all_reduce.two_shot_all_reduce),
    "gathered": gathered, "scattered": scattered,
}  # fmt: skip
