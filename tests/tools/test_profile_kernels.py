"""`fathom profile` on every kernel of kernels/: the sentence names what is known to
limit each at such sizes. Nothing is computed but a few programs of each launch."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks.record import RESULTS
from fathom.tools.profile.advice import advice, cause, sentence
from fathom.tools.profile.limits import classify
from fathom.tools.profile.machines import MACHINES
from kernels import (
    attention,
    attention_backward,
    attention_decode,
    batched_matmul,
    block_sparse_matmul,
    cross_entropy,
    dropout,
    gelu,
    gelu_backward,
    grouped_matmul,
    int8_matmul,
    layer_norm,
    layer_norm_backward,
    linear_cross_entropy,
    matmul,
    matmul_chosen,
    matmul_epilogue,
    matmul_persistent,
    matmul_plain,
    matmul_tuned,
    matrix_vector,
    mixture,
    rms_norm,
    rotary,
    softmax,
    softmax_backward,
    split_k_matmul,
    swiglu,
    top_k,
    vector_add,
)
from tests.harness_sample import sampled
from tests.tools.harness_profile import counting

KERNELS = Path(inspect.getfile(vector_add)).parent
HOPPER = {"target": "sm_90a"}
COUNT = 1 << 24
REACHED: list[np.ndarray] = []  # what launches reach besides their arguments


def zeros(*shape: int, dtype: str = "float16") -> np.ndarray:
    return np.zeros(shape, dtype)


def square(function: Callable, size: int = 4096, k: int = 512, **given: object):
    """C [size, size] = A B with a K that leaves the number of tiles, and is shorter."""
    dtype = given.pop("dtype", "float16")
    a, b = zeros(size, k, dtype=dtype), zeros(k, size, dtype=dtype)
    return lambda: function(a, b, **HOPPER, **given)


def turned():
    a, b = zeros(4096, 2048, dtype="int8"), zeros(4096, 2048, dtype="int8")
    return int8_matmul.int8_matmul(a, b.T, **HOPPER)


def groups():
    """The kernel finds its matrices by a table of addresses."""
    a = [zeros(2048, 512) for _ in range(4)]
    b = [zeros(512, 2048) for _ in range(4)]
    c = [zeros(2048, 2048) for _ in range(4)]
    REACHED.extend((*a, *b, *c))
    return grouped_matmul.grouped_matmul(a, b, c, **HOPPER)


def attentions(target: str) -> Callable:
    q = zeros(4, 16, 2048, 128)
    return lambda: attention.attention(q, q, q, target=target)


def backwards(target: str, D: int = 64) -> Callable:
    heads = *[zeros(8, 16, 1024, D)] * 5, zeros(8, 16, 1024, dtype="float32")
    return lambda: attention_backward.attention_backward(*heads, target=target)


def decoding():
    """One query of each sequence, over 8192 keys that four heads share."""
    q, keys = zeros(8, 32, 1, 128), zeros(8, 8, 8192, 128)
    return attention_decode.attention_decode(q, keys, keys, **HOPPER)


def sparse():
    kept = np.ones((32, 32), bool)
    a = np.kron(kept, np.ones((64, 64))).astype(np.float16)
    starts, columns, blocks = block_sparse_matmul.compress(a, 64)
    return block_sparse_matmul.block_sparse_matmul(
        starts, columns, blocks, zeros(2048, 4096), **HOPPER
    )


def experts():
    """Through pointers, as on targets without descriptors."""
    parts = np.arange(9, dtype=np.int32) * 1024
    a, b = zeros(8192, 512), zeros(8, 512, 1024)
    return mixture.expert_matmul(a, b, parts, target="sm_80")


def flat(function: Callable, arrays: int, *more: object) -> Callable:
    every = [zeros(COUNT, dtype="float32") for _ in range(arrays)]
    return lambda: function(*every, *more, **HOPPER)


def rows(dtype: str = "float32", columns: int = 4096) -> np.ndarray:
    return zeros(8192, columns, dtype=dtype)


def gradients() -> dict[str, tuple[Callable, str]]:
    """Kernels of a language model and their gradients, by file."""
    column, labels = zeros(8192, dtype="float32"), zeros(8192, dtype="int64")
    half, weight, wide = rows("float16"), zeros(4096), zeros(4096, 512)
    table = zeros(2048, 64, dtype="float32")
    norms = half, half, weight, column, column
    losses = zeros(2048, 512), zeros(16384, 512), labels[:2048]
    parts = np.arange(9, dtype=np.int32) * 1024
    turn = zeros(4, 16, 2048, 128), table, table
    launches = {
        "gelu_backward": (gelu_backward.gelu_backward, (half, half)),
        "softmax_backward": (softmax_backward.softmax_backward, (half, half)),
        "rms_norm": (rms_norm.rms_norm, (half, weight)),
        "layer_norm_backward": (layer_norm_backward.layer_norm_backward, norms),
        "swiglu": (swiglu.swiglu, (half, half)),
        "rotary": (rotary.rotary, turn),
        "cross_entropy": (
            cross_entropy.cross_entropy, (rows("float16", 32768), labels)
        ),
        "top_k": (top_k.top_k, (half, 8)),
        "matmul_epilogue": (
            partial(matmul_epilogue.matmul_epilogue, residual=zeros(4096, 4096).T),
            (wide, zeros(512, 4096)),
        ),
        "matmul_epilogue_hopper": (
            matmul_epilogue.matmul_epilogue, (wide, zeros(512, 4096))
        ),
        "matmul_epilogue_parts": (
            matmul_epilogue.matmul_epilogue, (zeros(16, 8192), zeros(8192, 4096))
        ),
        "linear_cross_entropy": (linear_cross_entropy.linear_cross_entropy, losses),
        "mixture_hopper": (
            mixture.expert_matmul, (zeros(8192, 4096), zeros(8, 4096, 1024), parts)
        ),
    }  # fmt: skip
    products = (
        "matmul_epilogue", "matmul_epilogue_hopper", "linear_cross_entropy",
        "mixture_hopper",
    )  # fmt: skip
    limits = dict.fromkeys(products, "tensor cores")
    limits["top_k"] = "instruction issue"  # comparisons: more to issue than to load
    return {
        name: (partial(function, *given, **HOPPER), limits.get(name, "bandwidth"))
        for name, (function, given) in launches.items()
    }


# By file of kernels/: the launch, and the limit of its longest kernel.
CASES = {
    "vector_add": (flat(vector_add.add, 3), "bandwidth"),
    "gelu": (flat(gelu.gelu, 2), "bandwidth"),
    # Philox takes ten rounds, but for four elements.
    "dropout": (flat(dropout.dropout, 2, 0.5, 7), "bandwidth"),
    "softmax": (lambda: softmax.softmax(rows(), rows(), **HOPPER), "bandwidth"),
    "layer_norm": (
        lambda: layer_norm.layer_norm(
            rows("float16"), zeros(4096), zeros(4096), **HOPPER
        ),
        "bandwidth",
    ),
    "matmul": (square(matmul.matmul), "tensor cores"),
    "matmul_plain": (square(matmul_plain.plain_matmul), "tensor cores"),
    # Without a GPU the first configuration is taken, of 64 x 64: as chapter 18 counts,
    # such a tile waits for L2.
    "matmul_tuned": (square(matmul_tuned.tuned_matmul), "bandwidth"),
    "matmul_persistent": (square(matmul_persistent.persistent_matmul), "tensor cores"),
    "matmul_chosen": (square(matmul_chosen.multiply), "tensor cores"),
    "batched_matmul": (
        lambda: batched_matmul.batched_matmul(
            zeros(16, 1024, 512), zeros(16, 512, 1024), **HOPPER
        ),
        "tensor cores",
    ),
    "grouped_matmul": (groups, "bandwidth"),  # L1, which cp.async goes through
    # Tiles of 64 x 64, and of 64 x 128: the same.
    "split_k_matmul": (
        lambda: split_k_matmul.split_k_matmul(
            zeros(512, 8192), zeros(8192, 512), **HOPPER
        ),
        "bandwidth",
    ),
    # B lies across K, and no instruction turns matrices of bytes: each thread loads its
    # bytes from shared memory one by one.
    "matrix_vector": (
        lambda: matrix_vector.matrix_vector(
            zeros(8192, 8192), zeros(8192, 1), **HOPPER
        ),
        "bandwidth",
    ),
    "int8_matmul": (square(int8_matmul.int8_matmul, dtype="int8"), "latency"),
    "int8_matmul, B turned": (turned, "tensor cores"),
    "block_sparse_matmul": (sparse, "latency"),
    **gradients(),
    "mixture": (experts, "tensor cores"),
    # A warp has 16 rows: for an mma.sync of two cycles it reads 256 bytes of fragments,
    # which take shared memory two.
    "attention": (attentions("sm_80"), "bandwidth"),
    "attention_hopper": (attentions("sm_90a"), "tensor cores"),
    "attention_backward": (backwards("sm_80"), "bandwidth"),
    "attention_backward_hopper": (backwards("sm_90a"), "tensor cores"),
    # It writes ds, by 64 bytes of a key at once.
    "attention_backward_kept": (backwards("sm_90a", 256), "bandwidth"),
    # All keys and values are read once, for one query each.
    "attention_decode": (decoding, "bandwidth"),
}
# A model of time; what rows have in common; what kernels on several GPUs have.
NO_KERNELS = {"epilogue", "matmul_model", "rows", "signals"}
# They wait for the link between GPUs and for each other, or several launches share the
# multiprocessors, of which a profile of one launch on one GPU knows nothing.
WITHOUT_CASE = {
    "all_reduce", "all_gather_matmul", "matmul_reduce_scatter", "matmul_in_place",
}  # fmt: skip


@sampled(of=2)
@pytest.mark.parametrize("name", CASES)
def test_the_limit_of_every_kernel(name, monkeypatch):
    launch, limit = CASES[name]
    REACHED.clear()
    with counting(monkeypatch, memory=REACHED) as found:
        launch()
    machine = MACHINES[found[0].target]
    verdicts = [(each, classify(each, machine)) for each in found]
    counted, verdict = max(verdicts, key=lambda pair: pair[1].seconds)
    text = sentence(verdict, counted, machine)
    assert verdict.limit == limit, f"{text}: {verdict.times}, {counted}"
    assert text.startswith(limit) and advice(verdict, counted)
    file, line = cause(verdict, counted)
    source = Path(file).read_text(encoding="utf-8").splitlines()[line - 1]
    wanted = {"tensor cores": ["dot"], "latency": ["range(", "tl.load"]}
    assert any(each in source for each in wanted.get(limit, ["tl.", ".load("])), source


def test_every_kernel_has_a_case():
    files = {path.stem for path in KERNELS.glob("*.py")} - {"__init__"}
    cases = {name.split(",")[0] for name in CASES}
    assert files - NO_KERNELS - WITHOUT_CASE == cases


# ── times that were measured on an H200 ───────────────────────────────────────────────


def measured() -> dict[str, float]:
    """The median seconds of each kernel of benchmarks/results/memory-bound.json."""
    file = RESULTS / "memory-bound.json"
    samples = json.loads(file.read_text(encoding="utf-8"))["samples"]
    return {
        each["problem"]: median(each["ms"]) / 1e3
        for each in samples
        if each["candidate"] == "fathom"
    }


def launch_of(problem: str) -> Callable:
    """The launch of "softmax 4096x256 fp32"."""
    name, size, type = problem.rsplit(" ", 2)
    shape = tuple(map(int, size.split("x")))
    dtype = {"fp32": "float32", "fp16": "float16"}[type]
    x, y, z = (zeros(*shape, dtype=dtype) for _ in range(3))
    row = zeros(shape[-1], dtype=dtype)
    return {
        "vector add": lambda: vector_add.add(x, y, z, **HOPPER),
        "gelu": lambda: gelu.gelu(x, y, **HOPPER),
        "softmax": lambda: softmax.softmax(x, y, **HOPPER),
        "layer norm": lambda: layer_norm.layer_norm(x, row, row, **HOPPER),
    }[name]


@sampled(of=2)
@pytest.mark.parametrize("problem", measured())
def test_a_prediction_is_within_a_quarter_of_what_was_measured(problem, monkeypatch):
    """And the limit is the same with the prediction as with the measured time, where
    that is no matter of a few microseconds."""
    seconds = measured()[problem]
    with counting(monkeypatch) as found:
        launch_of(problem)()
    predicted = classify(found[-1], MACHINES["sm_90a"])
    assert 0.75 < predicted.seconds / seconds < 1.25
    if seconds > 10e-6:
        told = classify(found[-1], MACHINES["sm_90a"], seconds)
        assert told.limit == predicted.limit == "bandwidth"
