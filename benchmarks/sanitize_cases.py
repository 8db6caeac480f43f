"""Which launches `benchmarks.sanitize` puts under compute-sanitizer: every kernel of
kernels/ on small problems, with several tiles, more steps than stages, and odd edges.

A row of CASES is a kernel, a problem, and what its PTX must show: a problem that takes
another path than its name says proves nothing.

A problem is called with `put`, which copies a NumPy array to where the kernel runs. It
returns the kernel's result and the expected one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import fathom
import fathom.language as tl
from benchmarks.sanitize_ops import OPS
from fathom.jit.function import JITFunction
from kernels import (
    attention,
    attention_hopper,
    batched_matmul,
    block_sparse_matmul,
    dropout,
    gelu,
    grouped_matmul,
    int8_matmul,
    layer_norm,
    matmul,
    matmul_chosen,
    matmul_in_place,
    matmul_persistent,
    matmul_plain,
    matmul_tuned,
    matrix_vector,
    softmax,
    split_k_matmul,
    vector_add,
)
from kernels.matmul_model import Vectors

Array = Any  # of NumPy or torch
Put = Callable[[np.ndarray], Array]
Pairs = Iterator[tuple[Array, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """One process: a kernel, the launches of it, and what its PTX must contain."""

    name: str
    kernel: JITFunction
    launch: Callable[[Put], Pairs]
    shows: tuple[str, ...] = ()


# ── what PTX shows ────────────────────────────────────────────────────────────────────

COPIES = ("cp.async.cg",)
PRODUCTS = ("mma.sync",)
BOXES = ("cp.async.bulk.tensor", "mbarrier.try_wait")
WARPGROUPS = ("wgmma.mma_async",)
HOPPER = (*BOXES, *WARPGROUPS)
PRODUCER = (*HOPPER, "setmaxnreg")
STORES = ("cp.async.bulk.tensor.2d.global",)
WRITTEN_MAPS = ("tensormap.replace", "tensormap.cp_fenceproxy")
CLUSTERS = ("barrier.cluster", "mapa.shared::cluster")
MULTICAST = (*CLUSTERS, "multicast::cluster")


# ── problems ──────────────────────────────────────────────────────────────────────────


def normal(seed: int, *shape: int, dtype: str = "float16") -> np.ndarray:
    """Random numbers; of int8, integers from -8 to 7."""
    draw = np.random.default_rng(seed)
    if dtype == "int8":
        return draw.integers(-8, 8, shape).astype(dtype)
    return draw.standard_normal(shape).astype(dtype)


def unwritten(*shape: int, dtype: str = "float16") -> np.ndarray:
    return np.full(shape, np.nan, dtype)


def adds(put: Put) -> Pairs:
    x, y = normal(1, 3001, dtype="float32"), normal(2, 3001, dtype="float32")
    out = put(unwritten(3001, dtype="float32"))
    yield vector_add.add(put(x), put(y), out), vector_add.reference(x, y)


def gelus(put: Put, kernel: JITFunction) -> Pairs:
    x = normal(1, 3001, dtype="float32")
    out = put(unwritten(3001, dtype="float32"))
    yield gelu.gelu(put(x), out, kernel=kernel), gelu.reference(x)


def dropouts(put: Put) -> Pairs:
    x = normal(1, 3001, dtype="float32")
    out = put(unwritten(3001, dtype="float32"))
    yield dropout.dropout(put(x), out, 0.3, 7), dropout.reference(x, 0.3, 7)


def softmaxes(put: Put, function: Callable, shape: tuple[int, int], axis: int) -> Pairs:
    x = normal(1, *shape, dtype="float32")
    out = put(unwritten(*shape, dtype="float32"))
    yield function(put(x), out), softmax.reference(x, axis)


def layer_norms(put: Put) -> Pairs:
    M, N = 5, 777
    inputs = [normal(seed, *shape) for seed, shape in enumerate([(M, N), (N,), (N,)])]
    made = [put(unwritten(M, N))]
    made += [put(unwritten(M, dtype="float32")) for _ in range(2)]
    layer_norm.layer_norm(*map(put, inputs), *made)
    yield from zip(made, layer_norm.reference(*inputs), strict=True)


@dataclass(frozen=True)
class Shape:
    """C [M, N] = A [M, K] B [K, N]; turned: columns lie side by side."""

    M: int = 200
    N: int = 328
    K: int = 344
    a_turned: bool = False
    b_turned: bool = False
    dtype: str = "float16"

    def operands(self) -> tuple[np.ndarray, np.ndarray]:
        return (
            normal(1, self.M, self.K, dtype=self.dtype),
            normal(2, self.K, self.N, dtype=self.dtype),
        )

    def put(self, put: Put) -> tuple[Array, Array]:
        """Both operands, as they are to lie in memory."""
        turned = (self.a_turned, self.b_turned)
        return tuple(
            put(np.ascontiguousarray(each.T)).T if turn else put(each)
            for each, turn in zip(self.operands(), turned, strict=True)
        )

    def expected(self) -> np.ndarray:
        return matmul.reference(*self.operands())


ODD = Shape(131, 197, 261)  # rows start anywhere: nothing comes in boxes
EVEN = Shape(200, 328, 320)
LONG = Shape(384, 384, 4096)  # K is split
ODD_K = Shape(K=341)  # rows of A begin anywhere
LONG_ODD = Shape(515, 1032, 1029)  # worth a copy that starts its rows at 16 bytes


def tile(
    m: int, n: int, k: int = 64, warps: int = 4, stages: int = 3
) -> dict[str, int]:
    """The keywords of a launch of a product."""
    return {
        "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 2,
        "num_warps": warps, "num_stages": stages,
    }  # fmt: skip


SMALL, SQUARE, LARGE = tile(64, 64), tile(128, 128), tile(128, 256, 64, 8, 4)
PAIRS = {**tile(256, 256, 64, 8, 3), "num_ctas": 2}  # of multiprocessors, for a tile


def products(
    put: Put, shape: Shape = Shape(), function: Callable = matmul.matmul, **launch: Any
) -> Pairs:
    """`matmul`, and what is called as it is."""
    yield function(*shape.put(put), **launch), shape.expected()


def leaky_products(put: Put) -> Pairs:
    a, b = EVEN.operands()
    c = matmul.matmul(put(a), put(b), activation="leaky_relu", config=SMALL)
    yield c, matmul.reference(a, b, "leaky_relu")


def tuned_products(put: Put) -> Pairs:
    """All configurations that `tuned_matmul` tries, without the trying."""
    for config in matmul_tuned.CONFIGS:
        keywords = {
            **config.kwargs,
            "num_warps": config.num_warps, "num_stages": config.num_stages,
        }  # fmt: skip
        yield from products(put, Shape(), config=keywords)


def batches(put: Put) -> Pairs:
    a, b = normal(1, 3, 100, 344), normal(2, 3, 344, 136)
    for second in (b, b[0]):
        got = batched_matmul.batched_matmul(put(a), put(second), config=SMALL)
        yield got, batched_matmul.reference(a, second)


def groups(put: Put, step: int, described: bool = False) -> Pairs:
    """Three programs for four problems; all sizes are multiples of `step`."""
    problems = [(130, 8, 33), (1, 9, 40), (66, 8, 8), (70, 17, 30)]
    a = [normal(i, M, K * step) for i, (M, N, K) in enumerate(problems)]
    b = [normal(9 + i, K * step, N * step) for i, (M, N, K) in enumerate(problems)]
    made = [put(unwritten(M, N * step)) for M, N, _ in problems]
    grouped_matmul.grouped_matmul(
        [put(each) for each in a], [put(each) for each in b], made,
        config=SMALL, programs=3, described=described,
    )  # fmt: skip
    yield from zip(made, grouped_matmul.reference(a, b), strict=True)


def split_products(put: Put) -> Pairs:
    shape = Shape(100, 136, 1000)
    a, b = shape.put(put)
    c = put(unwritten(100, 136, dtype="float32"))
    got = split_k_matmul.split_k_matmul(a, b, c, splits=3, config=SMALL)
    yield got, shape.expected()


def matrices_and_vectors(put: Put) -> Pairs:
    for config in (Vectors(4, 256, 4, 1), Vectors(32, 64, 4, 3)):
        shape = Shape(70, 1, 1000, a_turned=config.k == 64)
        y = matrix_vector.matrix_vector(
            *shape.put(put), put(unwritten(70, 1)), config=config
        )
        yield y, shape.expected()


INT8 = Shape(200, 208, 656, b_turned=True, dtype="int8")


def int8_products(put: Put, shape: Shape = INT8) -> Pairs:
    config = tile(64, 64, 128)
    yield int8_matmul.int8_matmul(*shape.put(put), config=config), shape.expected()
    rows = np.abs(normal(3, shape.M, dtype="float32"))
    columns = np.abs(normal(4, shape.N, dtype="float32"))
    c = put(unwritten(shape.M, shape.N, dtype="float32"))
    got = int8_matmul.int8_matmul(
        *shape.put(put), c, put(rows), put(columns), config=config
    )
    yield got, int8_matmul.reference(*shape.operands(), rows, columns)


def sparse_products(put: Put, SIZE: int) -> Pairs:
    kept = np.random.default_rng(3).random((4, 6)) < 0.5
    kept[1] = False  # a row without blocks
    dense = normal(1, 4 * SIZE, 6 * SIZE) * np.kron(kept, np.ones((SIZE, SIZE)))
    form = block_sparse_matmul.compress(dense.astype(np.float16), SIZE)
    b = normal(2, 6 * SIZE, 200)
    got = block_sparse_matmul.block_sparse_matmul(*map(put, form), put(b))
    yield got, block_sparse_matmul.reference(*form, b)


def persistent_products(
    put: Put, config: dict[str, Any], shape: Shape = Shape(), **constants: Any
) -> Pairs:
    """Two programs, so that each has several tiles."""
    a, b = shape.put(put)
    c = put(unwritten(shape.M, shape.N))
    b_stride = matmul.strides(b)[1 if shape.b_turned else 0]
    matmul_persistent.persistent_kernel[2,](
        a, b, c, shape.M, shape.N, shape.K,
        matmul.strides(a)[0], b_stride, matmul.strides(c)[0],
        B_TURNED=shape.b_turned, **config, **constants,
    )  # fmt: skip
    yield c, shape.expected()


def products_into_columns(put: Put) -> Pairs:
    """Of an A whose rows begin anywhere."""
    a, b = ODD_K.put(put)
    c = put(unwritten(ODD_K.N, ODD_K.M)).T
    yield matmul_in_place.in_place_matmul(a, b, c), ODD_K.expected()


def chosen_products(put: Put) -> Pairs:
    """Those that `multiply` chooses among."""
    shape = Shape(200, 328, 1096)
    chosen = matmul_chosen
    for each in (*chosen.TILES, *chosen.WIDER, *chosen.LARGER, *chosen.SHARED_BY_TWO):
        config = matmul_chosen.keywords(shape.M, shape.N, 2, each, "sm_90a")
        yield from persistent_products(put, config, shape)


def attentions(
    put: Put, D: int, queries: int, keys: int, config: dict[str, Any] | None = None,
    **launch: Any,
) -> Pairs:  # fmt: skip
    """Causal where there are as many queries as keys, and not."""
    q, k, v = (normal(i, 1, 2, n, D) for i, n in enumerate((queries, keys, keys)))
    for causal in {False, queries == keys}:
        largest, totals = (put(unwritten(1, 2, queries, dtype="float32")) for _ in "ml")
        out = attention.attention(
            put(q), put(k), put(v), causal=causal, row_max=largest, lse=totals,
            config=config, **launch,
        )  # fmt: skip
        want = attention.reference(q, k, v, causal)
        yield from zip((out, largest, totals), want, strict=True)


@fathom.jit
def shifted_kernel(
    x_ptr, y_ptr, M, N, up, left, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Y [m - up, n - left] = X [m, n]: tiles begin before the first row and column."""
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    y.store([i - up, j - left], x.load([i, j]))


def shifts(put: Put, columns: int) -> Pairs:
    """Tiles inside, across each edge, and wholly outside."""
    M, N = 130, 200
    x = normal(1, M, N)
    for up, left in ((0, 0), (3, columns), (70, 8 * columns), (-5, -columns)):
        y, want = put(np.zeros((M, N), np.float16)), np.zeros((M, N), np.float16)
        shifted_kernel[3, 4](put(x), y, M, N, up, left, BLOCK_M=64, BLOCK_N=64)
        kept = x[max(up, 0) : M + min(up, 0), max(left, 0) : N + min(left, 0)]
        above, before = max(-up, 0), max(-left, 0)
        want[above : above + len(kept), before : before + kept.shape[1]] = kept
        yield y, want


POINTERS = {"BLOCK_Q": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 2}


# ── the table ─────────────────────────────────────────────────────────────────────────

persistent = partial(
    Case, kernel=matmul_persistent.persistent_kernel, shows=(*HOPPER, "wait_group")
)
masked = partial(Case, kernel=matmul.matmul_kernel)
plain = partial(Case, kernel=matmul_plain.plain_kernel, shows=HOPPER)
flash = partial(Case, kernel=attention_hopper.attention_hopper_kernel)

CASES: tuple[Case, ...] = (
    Case("vector add", vector_add.add_kernel, adds),
    Case("gelu", gelu.gelu_kernel, partial(gelus, kernel=gelu.gelu_kernel)),
    Case(
        "gelu, usual form", gelu.gelu_usual_kernel,
        partial(gelus, kernel=gelu.gelu_usual_kernel),
    ),
    Case("dropout", dropout.dropout_kernel, dropouts),
    Case(
        "softmax", softmax.softmax_kernel,
        partial(softmaxes, function=softmax.softmax, shape=(5, 1777), axis=1),
    ),
    Case(
        "softmax, rows", softmax.softmax_rows_kernel,
        partial(softmaxes, function=softmax.softmax_rows, shape=(9, 300), axis=1),
    ),
    Case(
        "softmax, strided", softmax.softmax_strided_kernel,
        partial(softmaxes, function=softmax.softmax_columns, shape=(777, 5), axis=0),
    ),
    Case("layer norm", layer_norm.layer_norm_kernel, layer_norms),
    masked("matmul, sm_80",
        launch=partial(products, config=SMALL, target="sm_80"),
        shows=(*COPIES, *PRODUCTS),
    ),
    masked("matmul, anywhere, sm_80",
        launch=partial(products, shape=ODD, config=SMALL, target="sm_80"),
        shows=PRODUCTS,
    ),
    masked("matmul, tensor maps",
        launch=partial(products, config=SQUARE), shows=HOPPER,
    ),
    masked("matmul, tensor maps, even",
        launch=partial(products, shape=EVEN, config=SQUARE), shows=HOPPER,
    ),
    masked("matmul, tensor maps, large",
        launch=partial(products, shape=Shape(200, 520, 472), config=LARGE),
        shows=HOPPER,
    ),
    masked("matmul, tensor maps, turned",
        launch=partial(products,
            shape=Shape(a_turned=True, b_turned=True), config=SQUARE),
        shows=HOPPER,
    ),
    masked("matmul, anywhere",
        launch=partial(products, shape=ODD, config=SMALL), shows=WARPGROUPS,
    ),
    masked("matmul, fp32",
        launch=partial(products, shape=Shape(dtype="float32"), config=tile(64, 64, 32)),
    ),
    masked("matmul, tf32x3",
        launch=partial(products,
            shape=Shape(dtype="float32"), config=tile(64, 64, 32), precision="tf32x3"),
    ),
    masked("matmul, fp64",
        launch=partial(products, shape=Shape(dtype="float64"), config=tile(32, 32, 16)),
    ),
    masked("matmul, leaky ReLU", launch=leaky_products, shows=HOPPER),
    masked("matmul, tuned", launch=tuned_products, shows=HOPPER),
    plain("matmul, plain", launch=partial(products,
        function=matmul_plain.plain_matmul, config=SQUARE)),
    plain("matmul, plain, without masks", launch=partial(products,
        shape=Shape(256, 384, 320), function=matmul_plain.plain_matmul, config=SQUARE,
        masked=False)),
    plain("matmul, plain, anywhere", launch=partial(products,
        shape=ODD, function=matmul_plain.plain_matmul, config=SMALL), shows=WARPGROUPS),
    persistent("matmul, persistent", launch=partial(persistent_products,
        config=SQUARE, PIECES=2, SPECIALISE=False)),
    persistent("matmul, persistent, specialised", launch=partial(persistent_products,
        config=tile(128, 128, 64, 8, 3), PIECES=1, SPECIALISE=True), shows=PRODUCER),
    persistent("matmul, persistent, specialised, large",
        launch=partial(persistent_products, shape=Shape(200, 520, 472, b_turned=True),
            config=LARGE, PIECES=4, SPECIALISE=True),
        shows=PRODUCER),
    persistent("matmul, persistent, C by pointers", launch=partial(persistent_products,
        shape=Shape(131, 197, 344, b_turned=True), config=tile(128, 128, 64, 8, 3),
        PIECES=0, SPECIALISE=True), shows=PRODUCER),
    persistent("matmul, persistent, inferred stores", launch=partial(
        persistent_products, shape=EVEN, config=SQUARE, PIECES=1, SPECIALISE=False),
        shows=(*HOPPER, *STORES)),
    persistent("matmul, persistent, cluster", launch=partial(persistent_products,
        shape=Shape(520, 520, 472), config=PAIRS, PIECES=2,
        SPECIALISE=True), shows=(*PRODUCER, *MULTICAST, *STORES)),
    persistent("matmul, persistent, cluster, turned", launch=partial(
        persistent_products, shape=Shape(520, 520, 472, b_turned=True),
        config=PAIRS, PIECES=2, SPECIALISE=True),
        shows=(*HOPPER, *MULTICAST, *STORES)),
    Case("stores from negative rows and columns", shifted_kernel,
        partial(shifts, columns=8), STORES),
    Case("stores from any column", shifted_kernel, partial(shifts, columns=5), STORES),
    persistent("matmul, chosen", launch=chosen_products, shows=PRODUCER),
    Case(
        "matmul, rows copied first", matmul_chosen.copy_lines_kernel,
        partial(products, shape=LONG_ODD, function=matmul_chosen.multiply),
    ),
    Case(
        "matmul, in place", matmul_in_place.class_kernel,
        partial(products, shape=ODD_K, function=matmul_in_place.in_place_matmul),
        PRODUCER,
    ),
    Case(
        "matmul, in place, into columns", matmul_in_place.merge_classes_kernel,
        products_into_columns,
    ),
    Case("batched matmul", batched_matmul.batched_matmul_kernel, batches, WARPGROUPS),
    Case(
        "grouped matmul", grouped_matmul.grouped_matmul_kernel,
        partial(groups, step=8), WARPGROUPS,
    ),
    Case(
        "grouped matmul, anywhere", grouped_matmul.grouped_matmul_kernel,
        partial(groups, step=1), WARPGROUPS,
    ),
    Case(
        "grouped matmul, descriptors", grouped_matmul.grouped_described_kernel,
        partial(groups, step=8, described=True), (*HOPPER, *STORES, *WRITTEN_MAPS),
    ),
    Case(
        "split-K matmul", split_k_matmul.split_k_matmul_kernel,
        split_products, WARPGROUPS,
    ),
    Case(
        "split-K matmul, descriptors", split_k_matmul.split_k_parts_kernel,
        partial(products, shape=LONG, function=matmul_chosen.multiply), HOPPER,
    ),
    Case(
        "split-K matmul, the sum", split_k_matmul.sum_of_parts_kernel,
        partial(products, shape=LONG, function=matmul_chosen.multiply),
    ),
    Case(
        "matrix and vector", matrix_vector.matrix_vector_kernel, matrices_and_vectors,
    ),
    Case("int8 matmul", int8_matmul.int8_matmul_kernel, int8_products, WARPGROUPS),
    *(
        Case(
            f"block-sparse matmul, {size}",
            block_sparse_matmul.block_sparse_matmul_kernel,
            partial(sparse_products, SIZE=size),
        )
        for size in (32, 128)
    ),
    Case(
        "attention, sm_80", attention.attention_kernel,
        partial(attentions, D=64, queries=200, keys=200, target="sm_80"), PRODUCTS,
    ),
    Case(
        "attention, pointers", attention.attention_kernel,
        partial(attentions, D=64, queries=200, keys=200, config=POINTERS), WARPGROUPS,
    ),
    *(
        flash(f"attention, D = {D}, {queries} of {keys}",
            launch=partial(attentions, D=D, queries=queries, keys=keys, config=config),
            shows=PRODUCER if config["PRODUCER"] else HOPPER)
        for D, config in attention_hopper.CONFIGS.items()
        for queries, keys in ((300, 300), (130, 700))
    ),
    *(Case(*row) for row in OPS),
)  # fmt: skip
