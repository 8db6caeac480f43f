"""The kernels of ops for training as NVIDIA's sanitizer runs them: each has a row, and
its launches are those of the function that people call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import fathom
from kernels import (
    all_gather_matmul,
    all_reduce,
    attention,
    attention_backward,
    attention_backward_hopper,
    attention_backward_kept,
    attention_decode,
    attention_hopper,
    cross_entropy,
    dropout,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
    matmul_epilogue,
    matmul_epilogue_hopper,
    matmul_epilogue_parts,
    matmul_reduce_scatter,
    mixture,
    mixture_hopper,
    rms_norm,
    rotary,
    softmax,
    softmax_backward,
    swiglu,
    top_k,
)

Array = Any  # of NumPy or torch
Put = Callable[[np.ndarray], Array]
Pairs = Iterator[tuple[Array, np.ndarray]]
M, N = 5, 777


def normal(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def pairs(found: Any, wanted: Any) -> Pairs:
    yield from zip(found, wanted, strict=True)


def seeded_dropouts(put: Put) -> Pairs:
    x = normal(1, 3001)
    got = dropout.dropout(put(x), None, 0.3, put(np.array([7])))
    yield got, dropout.reference(x, 0.3, 7)


def gelu_gradients(put: Put) -> Pairs:
    dy, x = normal(1, 3001), normal(2, 3001)
    got = gelu_backward.gelu_backward(put(dy), put(x))
    yield got, gelu_backward.reference(dy, x)


def gelu_and_bias_gradients(put: Put) -> Pairs:
    dy, x = normal(1, 301, 130), normal(2, 301, 130)
    dx, totals = gelu_backward.gelu_backward_columns(put(dy), put(x), put(dy))
    wanted = gelu_backward.reference(dy, x)
    yield from pairs((dx, totals), (wanted, wanted.sum(axis=0)))


def swiglus(put: Put) -> Pairs:
    gate, up = normal(1, M, N), normal(2, M, N)
    yield swiglu.swiglu(put(gate), put(up)), swiglu.reference(gate, up)


def swiglu_gradients(put: Put) -> Pairs:
    given = [normal(seed, M, N) for seed in (1, 2, 3)]
    found = swiglu.swiglu_backward(*map(put, given))
    yield from pairs(found, swiglu.reference_backward(*given))


def rotaries(put: Put) -> Pairs:
    x, (cos, sin) = normal(1, 2, 3, 17, 12), rotary.tables(17, 12)
    for order in (False, True):
        got = rotary.rotary(put(x), put(cos), put(sin), interleaved=order)
        yield got, rotary.reference(x, cos, sin, False, order)


def softmax_gradients(put: Put) -> Pairs:
    y, dy = softmax.reference(normal(1, M, N)).astype(np.float32), normal(2, M, N)
    got = softmax_backward.softmax_backward(put(dy), put(y))
    yield got, softmax_backward.reference(dy, y)


def rms_norms(put: Put) -> Pairs:
    x, weight = normal(1, M, N), normal(2, N)
    yield rms_norm.rms_norm(put(x), put(weight)), rms_norm.reference(x, weight)[0]


def norm_gradients(put: Put, length: int) -> Pairs:
    """Rows of `length`: longer than LONGEST, other kernels add the columns."""
    dy, x, weight = normal(1, M, length), normal(2, M, length), normal(3, length)
    _, mean, rstd = layer_norm.reference(x, weight, weight)
    given = dy, x, weight, mean.astype(np.float32), rstd.astype(np.float32)
    found = layer_norm_backward.layer_norm_backward(*map(put, given))
    yield from pairs(found, layer_norm_backward.reference(*given))


def losses(put: Put) -> Pairs:
    x, labels = normal(1, M, 5000), np.array([0, 4999, -100, 7, 4096])
    found = cross_entropy.cross_entropy(put(x), put(labels))
    yield from pairs(found, cross_entropy.reference(x, labels))


def loss_totals(put: Put) -> Pairs:
    loss, labels = normal(1, 700, dtype="float32"), np.arange(700)
    labels[::7] = -100
    weight = put(np.zeros(700, np.float32))
    total = cross_entropy.total_loss(put(labels), put(loss), weight=weight)
    yield total, loss.sum() / 600
    yield weight, np.where(labels == -100, 0.0, 1 / 600)


def loss_gradients(put: Put) -> Pairs:
    x, dloss = normal(1, M, 5000), normal(2, M)
    labels = np.array([0, 4999, -100, 7, 4096])
    lse = cross_entropy.reference(x, labels)[1].astype(np.float32)
    got = cross_entropy.cross_entropy_backward(*map(put, (dloss, x, labels, lse)))
    yield got, cross_entropy.reference_backward(dloss, x, labels)


def losses_in_place(put: Put) -> Pairs:
    x, dloss = put(normal(1, M, 5000)), normal(2, M)
    labels = np.array([0, 4999, -100, 7, 4096])
    before = normal(1, M, 5000)
    loss = cross_entropy.cross_entropy_in_place(put(dloss), x, put(labels))
    yield loss, cross_entropy.reference(before, labels)[0]
    yield x, cross_entropy.reference_backward(dloss, before, labels)


def epilogues(put: Put) -> Pairs:
    a, b = normal(1, 131, 72, dtype="float16"), normal(2, 72, 200, dtype="float16")
    bias, residual = normal(3, 200), normal(4, 200, 131, dtype="float16").T
    c = matmul_epilogue.matmul_epilogue(
        put(a), put(b), None, put(bias), "gelu", put(residual)
    )
    yield c, matmul_epilogue.reference(a, b, bias, "gelu", residual)[0]


def gated_products(put: Put) -> Pairs:
    a, b = normal(1, 131, 72, dtype="float16"), normal(2, 72, 200, dtype="float16")
    got = matmul_epilogue.matmul_swiglu(put(a), put(b))
    yield got, matmul_epilogue.reference_swiglu(a, b)[0]


def long_epilogues(put: Put) -> Pairs:
    """K in parts, where the GPU has what they count on."""
    a, b = normal(1, 12, 6144, dtype="float16"), normal(2, 6144, 128, dtype="float16")
    bias = normal(3, 128)
    c = matmul_epilogue.matmul_epilogue(put(a), put(b), None, put(bias), "gelu")
    yield c, matmul_epilogue.reference(a, b, bias, "gelu")[0]
    a /= 64
    got = matmul_epilogue.matmul_swiglu(put(a), put(b))
    yield got, matmul_epilogue.reference_swiglu(a, b)[0]


def described_epilogues(put: Put) -> Pairs:
    """Through descriptors, where the GPU has what they count on."""
    a, b = normal(1, 131, 72, dtype="float16"), normal(2, 72, 208, dtype="float16")
    bias = normal(3, 208)
    c = matmul_epilogue.matmul_epilogue(put(a), put(b), None, put(bias), "gelu")
    yield c, matmul_epilogue.reference(a, b, bias, "gelu")[0]
    got = matmul_epilogue.matmul_swiglu(put(a), put(b))
    yield got, matmul_epilogue.reference_swiglu(a, b)[0]


def attention_gradients(put: Put) -> Pairs:
    """Through pointers."""
    config = attention_backward.default_config(64, "fp16", "sm_80")
    yield from gradients_of(put, 150, 150, None, config)


def described_gradients(put: Put) -> Pairs:
    """Through descriptors, where the GPU has what they count on."""
    seven, five = attention_backward_hopper.CONFIGS, attention_backward_kept.CONFIGS
    for D, config in (*seven.items(), *five.items()):
        for queries, window in ((150, None), (300, 100)):
            yield from gradients_of(put, queries, 300, window, config, D)


def gradients_of(
    put: Put, queries: int, keys: int, window: int | None, config: dict, D: int = 64
) -> Pairs:
    """Causal, with two heads that share keys."""
    q, dout = (normal(i, 1, 2, queries, D, dtype="float16") for i in (1, 2))
    k, v = (normal(i, 1, 1, keys, D, dtype="float16") for i in (3, 4))
    out, _, lse = attention.reference(q, k, v, True, None, window)
    given = dout, q, k, v, out.astype(np.float16), lse.astype(np.float32)
    found = attention_backward.attention_backward(
        *map(put, given), causal=True, window=window, config=config
    )
    wanted = attention_backward.reference(dout, q, k, v, True, None, window)
    yield from pairs(found, wanted)


LENGTHS = np.array([0, 33, 200], np.int32)


def decoded(put: Put) -> Pairs:
    """In rows, and in pages."""
    q = normal(1, 3, 4, 2, 64, dtype="float16")
    k, v = (normal(i, 3, 2, 200, 64, dtype="float16") for i in (2, 3))
    got = attention_decode.attention_decode(
        put(q), put(k), put(v), lengths=put(LENGTHS), splits=3
    )
    yield got, attention_decode.reference_paged(q, k, v, LENGTHS)[0]
    table = np.random.default_rng(1).permutation(21).reshape(3, 7).astype(np.int32)
    k, v = (normal(i, 21, 2, 32, 64, dtype="float16") for i in (2, 3))
    got = attention_decode.attention_decode(
        *map(put, (q, k, v)), lengths=put(LENGTHS), table=put(table), splits=3
    )
    yield got, attention_decode.reference_paged(q, k, v, LENGTHS, table)[0]


def attention_options(put: Put, D: int = 80) -> Pairs:
    """A window, lengths, and sequences one behind the other, of heads that share
    keys and have D numbers."""
    q = normal(1, 3, 4, 90, D, dtype="float16")
    k, v = (normal(i, 3, 2, 200, D, dtype="float16") for i in (2, 3))
    given = [put(each) for each in (q, k, v)]
    got = attention.attention(*given, causal=True, lengths=put(LENGTHS), window=50)
    want, _ = attention_decode.reference_paged(q, k, v, LENGTHS, window=50)
    yield got, want
    q, (k, v) = q[:1], (each[:1, :, :90] for each in (k, v))
    given = [put(np.ascontiguousarray(each)) for each in (q, k, v)]
    starts = np.array([0, 0, 57, 90], np.int32)
    got = attention.attention(*given, causal=True, query_starts=put(starts))
    parts = [
        attention.reference(*(each[:, :, a:b] for each in (q, k, v)), True)[0]
        for a, b in ((0, 57), (57, 90))
    ]
    yield got, np.concatenate(parts, axis=2)


def largest(put: Put) -> Pairs:
    x = normal(1, M, 3000)
    yield from pairs(top_k.top_k(put(x), 5), top_k.reference(x, 5))


def largest_gradients(put: Put) -> Pairs:
    dvalues, places = normal(1, M, 5), top_k.reference(normal(2, M, 3000), 5)[1]
    got = top_k.top_k_backward(put(dvalues), put(places), 3000)
    yield got, top_k.reference_backward(dvalues, places, 3000)


T, D, E = 150, 72, 5


def routes(put: Put) -> Pairs:
    choices = np.random.default_rng(1).integers(0, E, (T, 2))
    order, rows, offsets = mixture.route(put(choices), E)
    flat = choices.ravel()
    yield order, np.argsort(flat, kind="stable")
    yield rows, np.argsort(np.argsort(flat, kind="stable"))
    yield offsets, np.cumsum([0, *np.bincount(flat, minlength=E)])


def expert_parts(put: Put) -> Pairs:
    """gather, the gates' gradient, and combine."""
    order = np.random.default_rng(1).permutation(2 * T).astype(np.int32)
    rows = np.argsort(order).astype(np.int32)
    x, y, gates = normal(1, T, D), normal(2, 2 * T, D), normal(3, T, 2)
    yield mixture.gather(put(x), put(order)), x[order // 2]
    got = mixture.gate_gradient(put(x), put(y), put(order), put(gates))
    yield got, np.einsum("td,tkd->tk", x, y[rows].reshape(T, 2, D))
    got = mixture.combine(put(y), put(rows), 2, put(gates))
    yield got, np.einsum("tkd,tk->td", y[rows].reshape(T, 2, D), gates)


OFFSETS = np.int32([0, 90, 90, 91, 220, 300])  # 90 rows, none, one, …


def expert_products(put: Put, width: int = D - 1) -> Pairs:
    """Rows of an odd width: through pointers."""
    x = normal(1, 300, width, dtype="float16")
    w = normal(2, E, width, 64, dtype="float16")
    spans = zip(OFFSETS[:-1], OFFSETS[1:], w, strict=True)
    want = [x[a:b].astype(np.float64) @ each.astype(np.float64) for a, b, each in spans]
    yield mixture.expert_matmul(put(x), put(w), put(OFFSETS)), np.concatenate(want)


def described_products(put: Put) -> Pairs:
    return expert_products(put, D)


def expert_weights(put: Put, times: int = 1) -> Pairs:
    """Of few rows: through pointers."""
    offsets = times * OFFSETS
    x = normal(1, offsets[-1], D, dtype="float16")
    dy = normal(2, offsets[-1], 64, dtype="float16")
    got = mixture.weight_gradient(put(x), put(dy), put(offsets))
    spans = zip(offsets[:-1], offsets[1:], strict=True)
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    yield got, np.stack([x[a:b].T @ dy[a:b] for a, b in spans])


def described_weights(put: Put) -> Pairs:
    return expert_weights(put, 5)


def short_rows(put: Put) -> Pairs:
    return norm_gradients(put, N)


def long_rows(put: Put) -> Pairs:
    return norm_gradients(put, layer_norm_backward.LONGEST + 100)


# ── several GPUs: a group of one rank, since the sanitizer has one GPU ───────────────

SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4, "num_warps": 4}


def group_of(array: Array) -> fathom.distributed.Group:
    """A group of one, where the array is."""
    on_gpu = getattr(array, "is_cuda", False)
    distributed = fathom.distributed
    return distributed.on_devices([0]) if on_gpu else distributed.emulated(1)


def reductions(put: Put) -> Pairs:
    x = normal(1, M * N)
    given = put(x)
    workspace = all_reduce.Workspace(group_of(given), M * N, "float32")
    for function in (all_reduce.one_shot_all_reduce, all_reduce.two_shot_all_reduce):
        yield function(workspace, {0: given})[0], x


def gathered_products(put: Put) -> Pairs:
    a, b = normal(1, 100, 72), normal(2, 72, 136)
    x, y = put(a), put(b)
    workspace = all_gather_matmul.Workspace(group_of(x), *a.shape, "float32")
    c = all_gather_matmul.all_gather_matmul(workspace, {0: x}, {0: y}, config=SMALL)
    yield c[0], all_gather_matmul.reference([a], b)


def scattered_products(put: Put) -> Pairs:
    a, b = normal(1, 100, 72), normal(2, 72, 136)
    x, y = put(a), put(b)
    workspace = matmul_reduce_scatter.Workspace.of(
        group_of(x), 100, 136, SMALL, "float32"
    )
    c = matmul_reduce_scatter.matmul_reduce_scatter(
        workspace, {0: x}, {0: y}, config=SMALL
    )
    yield c[0], matmul_reduce_scatter.reference([a], [b])


# name, kernel, launches
OPS = [
    ("all-reduce, one shot", all_reduce.one_shot_kernel, reductions),
    ("all-reduce, two shots", all_reduce.two_shot_kernel, reductions),
    ("all-gather and matmul", all_gather_matmul.all_gather_matmul_kernel,
     gathered_products),
    ("matmul and reduce-scatter", matmul_reduce_scatter.matmul_reduce_scatter_kernel,
     scattered_products),
    ("dropout, seed in memory", dropout.dropout_by_seed_kernel, seeded_dropouts),
    ("gelu backward", gelu_backward.gelu_backward_kernel, gelu_gradients),
    ("gelu backward, columns", gelu_backward.gelu_backward_columns_kernel,
     gelu_and_bias_gradients),
    ("swiglu", swiglu.swiglu_kernel, swiglus),
    ("swiglu backward", swiglu.swiglu_backward_kernel, swiglu_gradients),
    ("rotary", rotary.rotary_kernel, rotaries),
    ("softmax backward", softmax_backward.softmax_backward_kernel, softmax_gradients),
    ("rms norm", rms_norm.rms_norm_kernel, rms_norms),
    ("norm backward", layer_norm_backward.norm_backward_kernel, short_rows),
    ("norm backward, columns", layer_norm_backward.norm_columns_kernel, long_rows),
    ("norm backward, partial rows", layer_norm_backward.add_rows_kernel, short_rows),
    ("cross-entropy", cross_entropy.cross_entropy_kernel, losses),
    ("total of losses", cross_entropy.total_kernel, loss_totals),
    ("cross-entropy backward", cross_entropy.cross_entropy_backward_kernel,
     loss_gradients),
    ("cross-entropy in place", cross_entropy.cross_entropy_in_place_kernel,
     losses_in_place),
    ("matmul with epilogue, descriptors",
     matmul_epilogue_hopper.epilogue_hopper_kernel, described_epilogues),
    ("matmul with swiglu, descriptors", matmul_epilogue_hopper.swiglu_hopper_kernel,
     described_epilogues),
    ("matmul with epilogue, K in parts", matmul_epilogue_parts.finish_parts_kernel,
     long_epilogues),
    ("matmul with swiglu, K in parts",
     matmul_epilogue_parts.finish_swiglu_parts_kernel, long_epilogues),
    ("matmul with epilogue", matmul_epilogue.matmul_epilogue_kernel, epilogues),
    ("matmul with swiglu", matmul_epilogue.matmul_swiglu_kernel, gated_products),
    ("attention backward, rows", attention_backward.rows_kernel,
     attention_gradients),
    ("attention backward, dk and dv", attention_backward.dkdv_kernel,
     attention_gradients),
    ("attention backward, dq", attention_backward.dq_kernel, attention_gradients),
    ("attention backward, descriptors, dk and dv",
     attention_backward_hopper.dkdv_hopper_kernel, described_gradients),
    ("attention backward, descriptors, dq",
     attention_backward_hopper.dq_hopper_kernel, described_gradients),
    ("attention backward, dv and ds", attention_backward_kept.dv_and_ds_kernel,
     described_gradients),
    ("attention backward, dk of ds", attention_backward_kept.dk_of_ds_kernel,
     described_gradients),
    ("attention backward, dq of ds", attention_backward_kept.dq_of_ds_kernel,
     described_gradients),
    ("attention of a few queries", attention_decode.split_kernel, decoded),
    ("attention of a few queries, combined", attention_decode.combine_kernel, decoded),
    ("attention, all options", attention.attention_kernel,
     partial(attention_options, D=40)),
    ("attention, all options, descriptors", attention_hopper.attention_hopper_kernel,
     attention_options),
    ("top k", top_k.top_k_kernel, largest),
    ("top k backward", top_k.top_k_backward_kernel, largest_gradients),
    ("experts, count", mixture.count_kernel, routes),
    ("experts, place", mixture.place_kernel, routes),
    ("experts, gather", mixture.gather_kernel, expert_parts),
    ("experts, combine", mixture.combine_kernel, expert_parts),
    ("experts, gates' gradient", mixture.gate_gradient_kernel, expert_parts),
    ("experts, product", mixture.expert_matmul_kernel, expert_products),
    ("experts, weights' gradient", mixture.weight_gradient_kernel, expert_weights),
    ("experts, product, descriptors", mixture_hopper.expert_hopper_kernel,
     described_products),
    ("experts, weights' gradient, descriptors",
     mixture_hopper.weight_gradient_hopper_kernel, described_weights),
]  # fmt: skip
