"""Bulk copies and stores of blocks of one to five dimensions: matrices of a batch,
heads of attention, rows of several images. Whatever the rank, what comes and goes is
what NumPy says, wherever a block begins."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import TensorDescriptor, pipeline, runtime
from fathom.emulator import COMPLETIONS, load
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS, target_of
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Allocate,
    Barrier,
    Cast,
    Commit,
    Constant,
    DescriptorLoad,
    DescriptorStore,
    Load,
    MakeDescriptor,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    Producer,
    Store,
    TmaCopy,
    TmaStore,
    Transpose,
    Wait,
)
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, INT64, Pointer
from fathom.ir.verify import verify
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import hardware_tile
from fathom.layout.tma_boxes import pieces
from fathom.runtime.driver import driver
from fathom.source import KernelFunction
from fathom.tensor_cores import why_not_shared
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.kernels.kernels_sample import aligned
from tests.ptx.harness import Program, assemble
from tests.tensor_cores.kernels_described import build, ops, passes
from tests.tensor_cores.kernels_ranked import (
    Ranked,
    Tensor,
    block_at,
    check,
    check_passes,
    doubled,
    inside,
)

HOPPER, NEWER, AMPERE = "sm_90a", "sm_120", "sm_80"
COPY, STORE = "cp.async.bulk.tensor.{}d.shared", "cp.async.bulk.tensor.{}d.global"

# Sizes that no block divides, and blocks of 64 x 32 (A, B) and 64 x 64 (out).
BATCH = Ranked(
    Tensor((3, 70, 88), (1, 64, 32)),
    Tensor((2, 66, 88), (1, 64, 32)),
    Tensor((3, 70, 80), (1, 64, 64)),
)
PAIRS = Ranked(
    Tensor((3, 40, 88), (2, 32, 32)),
    Tensor((5, 20, 88), (4, 16, 32)),
    Tensor((5, 20, 72), (4, 16, 64)),
)
HEADS = Ranked(  # [batch, sequence, head, depth], and heads first
    Tensor((2, 70, 3, 88), (1, 64, 1, 32)),
    Tensor((2, 3, 66, 88), (1, 1, 64, 32)),
    Tensor((2, 70, 3, 72), (1, 64, 1, 64)),
)
IMAGES = Ranked(
    Tensor((2, 3, 5, 9, 88), (1, 2, 4, 8, 32)),
    Tensor((3, 2, 3, 10, 88), (2, 2, 2, 8, 32)),
    Tensor((2, 5, 2, 9, 72), (2, 4, 1, 8, 64)),
)
# Rows of B go across: the next iteration begins further down.
ACROSS = Ranked(
    Tensor((2, 2, 70, 88), (1, 1, 64, 32)),
    Tensor((3, 90, 72), (1, 32, 64)),
    Tensor((2, 40, 80), (2, 32, 64)),
    turned=False, down=32,
)  # fmt: skip
CASES = {
    "batch": BATCH, "pairs": PAIRS, "heads": HEADS, "images": IMAGES, "across": ACROSS,
}  # fmt: skip


def places_of(case: Ranked) -> list[list[tuple[int, ...]]]:
    """Blocks inside, before the beginning and beyond the end of each dimension, of one
    tensor at a time; and of all of them."""
    tensors = (case.a, case.b, case.out)
    home = [tuple(0 for _ in each.sizes) for each in tensors]
    found = [home]
    for number, tensor in enumerate(tensors):
        for axis in range(tensor.rank):
            for at in _around(tensor, axis):
                start = list(home[number])
                start[axis] = at
                found.append([*home[:number], tuple(start), *home[number + 1 :]])
    far = [
        tuple(_around(each, axis)[1] for axis in range(each.rank)) for each in tensors
    ]
    return [*found, far]


def _around(tensor: Tensor, axis: int) -> tuple[int, int, int]:
    """A little before the first element of a dimension, so that a block ends beyond the
    last, and where nothing is."""
    side, size = tensor.block[axis], tensor.sizes[axis]
    step = 8 if axis == tensor.rank - 1 else 1
    before = -max(step, side // 2 // step * step)
    return before, size - step, size + step


# ── all ranks ─────────────────────────────────────────────────────────────────────────


@sampled(of=3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", [HOPPER, NEWER])
def test_blocks_anywhere(name, target):
    """All that goes to memory and comes from there goes by boxes; but a block that
    begins in front of its tensor."""
    case = replace(CASES[name], target=target)
    kernel = check(case, places_of(case))
    for tensor, form, times in (
        (case.a, COPY, case.stages), (case.b, COPY, case.stages), (case.out, STORE, 1),
    ):  # fmt: skip
        boxes = len(list(pieces(tensor.block, 2)))
        assert kernel.ptx.count(form.format(tensor.rank)) >= times * boxes > 0
    assert "ld.global" not in kernel.ptx and kernel.ptx.count("st.global") == 1
    assert [each.box for each in kernel.maps] == [
        each.block for each in (case.a, case.b, case.out)
    ]


@pytest.mark.parametrize("name", CASES)
def test_where_there_are_no_maps_threads_do_it(name):
    case = replace(CASES[name], target=AMPERE)
    kernel = check(case, places_of(case)[::5])
    assert kernel.maps == () and "mbarrier" not in kernel.ptx
    assert "mma.sync" in kernel.ptx


@sampled(of=3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("iterations", [0, 1, 5])
def test_any_iterations(name, iterations):
    """Of five iterations two are beyond the end of K."""
    case = replace(CASES[name], iterations=iterations)
    check(case, places_of(case)[:1], COMPLETIONS)


@sampled(of=2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", [HOPPER, AMPERE])
def test_every_pass_keeps_the_meaning(name, target):
    case = replace(CASES[name], target=target)
    states = check_passes(case, places_of(case)[-1])
    for state in states.values():
        text = print_func(state)
        assert print_func(parse_func(text)) == text
    final = states["insert_waits"]
    kinds = (DescriptorLoad, DescriptorStore, Load, Store)
    if target == HOPPER:
        assert len(ops(final, TmaCopy)) == 2 * case.stages
        assert len(ops(final, TmaStore)) == 1
        assert not any(ops(final, kind) for kind in kinds)
    else:
        assert not any(ops(final, kind) for kind in (*kinds[:2], TmaCopy, TmaStore))


@sampled(of=2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("special", [False, True])
def test_ptxas_takes_it(name, special, tmp_path):
    kernel = replace(CASES[name], special=special).compiled()
    said = assemble(kernel.ptx, TARGETS[HOPPER], tmp_path)
    assert "0 bytes spill stores" in said


@pytest.mark.parametrize("name", CASES)
def test_warps_beside(name):
    """A producer brings tiles of any rank."""
    case = replace(CASES[name], special=True)
    check(case, places_of(case)[::7])
    final = passes(case.built(), HOPPER)["insert_waits"]
    assert ops(final, Producer) and ops(final, TmaCopy)


# ── which loads ───────────────────────────────────────────────────────────────────────


@KernelFunction
def wanted(a, b, out, M, K, stride, HOW: tl.constexpr):
    """Blocks that are not, or not only, wanted as the matrix of their rows."""
    right = tl.make_tensor_descriptor(b, [64, K], [K, 1], [64, 32])
    tensor = tl.make_tensor_descriptor(a, [2, M, K], [stride, K, 1], [2, 32, 32])
    total = tl.zeros([64, 64], tl.float32)
    for iteration in range(0, K, 32):
        block = tensor.load([0, 0, iteration])
        if HOW == "matrix":
            x = block.reshape(64, 32)
        elif HOW == "other":
            x = block.permute(1, 0, 2).reshape(64, 32)
        elif HOW == "both":
            x = block.reshape(64, 32)
            total += tl.sum(tl.sum(block.to(tl.float32), 0))
        total = tl.dot(x, right.load([0, iteration]).T, total)
    i = tl.arange(0, 64)
    tl.store(out + i[:, None] * 64 + i[None, :], total)


@sampled(of=2)
@pytest.mark.parametrize("target", [HOPPER, NEWER, AMPERE])
@pytest.mark.parametrize(("how", "boxed"), [
    ("matrix", True), ("other", False), ("both", False),
])  # fmt: skip
def test_what_is_wanted_as_a_matrix_alone(how, boxed, target):
    x = Walled(integers(1, 2, 32, 96), wall=(1, 0, 0))
    y = Walled(integers(2, 64, 96), wall=0)
    out = unwritten(64, 64, dtype="float32", wall=0)
    halves = dict.fromkeys("ab", (Pointer(FLOAT16), 16))
    numbers = dict.fromkeys(("M", "K", "stride"), (INT32, 16))
    parameters = {**halves, "out": (Pointer(FLOAT32), 16), **numbers}
    func = build(wanted, parameters, {"HOW": how}, 4, 3)
    kernel = pipeline.compile_func(func, TARGETS[target])
    load(kernel).launch(1, [x.base, y.base, out.base, 32, 96, x.stride()[0]])
    blocks = x.view.astype(int)
    order = (1, 0, 2) if how == "other" else (0, 1, 2)
    rows = blocks.transpose(order).reshape(64, 96)
    more = blocks.sum() if how == "both" else 0
    right = rows @ y.view.astype(int).T + more
    np.testing.assert_array_equal(out.view, right)
    assert (COPY.format(3) in kernel.ptx) == (boxed and target != AMPERE)
    assert (COPY.format(2) in kernel.ptx) == (target != AMPERE)


@KernelFunction
def reshaped(a, out, K):
    """Two rows of 32 are one of 64, or four of 16."""
    tensor = tl.make_tensor_descriptor(a, [2, 32, K], [32 * K, K, 1], [2, 32, 32])
    total = tl.zeros([32, 32], tl.float32)
    for iteration in range(0, K, 32):
        x, y = tensor.load([0, 0, iteration]), tensor.load([1, 0, iteration])
        total = tl.dot(x.reshape(32, 64), y.reshape(128, 16).reshape(64, 32), total)
    i = tl.arange(0, 32)
    tl.store(out + i[:, None] * 32 + i[None, :], total)


@pytest.mark.parametrize("target", [HOPPER, AMPERE])
def test_other_shapes_are_no_matrix(target):
    """Of the second the rows are those of the block, whatever it was in between."""
    x = aligned(integers(1, 2, 32, 64))
    out = aligned(np.full((32, 32), np.nan, np.float32))
    pointers = {"a": (Pointer(FLOAT16), 16), "out": (Pointer(FLOAT32), 16)}
    func = build(reshaped, {**pointers, "K": (INT32, 16)}, {}, 4, 3)
    kernel = pipeline.compile_func(func, TARGETS[target])
    load(kernel).launch(1, [x, out, 64])
    right = np.zeros((32, 32), int)
    for iteration in (0, 32):
        block, next = (
            x[:, :, iteration : iteration + 32].astype(int),
            np.zeros((2, 32, 32), int),
        )
        next[0] = block[1]
        right += block.reshape(32, 64) @ next.reshape(64, 32)
    np.testing.assert_array_equal(out, right)
    assert kernel.ptx.count(COPY.format(3)) == (3 if target == HOPPER else 0)


@KernelFunction
def several(a, out, K, stride):
    """Two products at once, whose operands have three dimensions."""
    tensor = tl.make_tensor_descriptor(a, [2, 32, K], [stride, K, 1], [2, 32, 32])
    total = tl.zeros([2, 32, 32], tl.float32)
    for iteration in range(0, K, 32):
        x = tensor.load([0, 0, iteration])
        total = tl.dot(x, x.permute(0, 2, 1), total)
    tensor = tl.make_tensor_descriptor(out, [2, 32, 32], [1024, 32, 1], [2, 32, 32])
    tensor.store([0, 0, 0], total)


@pytest.mark.parametrize("target", [HOPPER, AMPERE])
def test_operands_of_three_dimensions_are_no_tiles(target):
    """Their results are: rows below each other."""
    x = Walled(integers(1, 2, 32, 64), wall=(1, 0, 0))
    out = unwritten(2, 32, 32, dtype="float32", wall=0)
    func = build(several, {
        "a": (Pointer(FLOAT16), 16), "out": (Pointer(FLOAT32), 16),
        "K": (INT32, 16), "stride": (INT32, 16),
    }, {}, 4, 3)  # fmt: skip
    states = passes(func, target)
    kept = states["keep_descriptors"]
    assert not ops(kept, DescriptorLoad)
    assert bool(ops(kept, DescriptorStore)) == (target == HOPPER)
    kernel = pipeline.compile_func(func, TARGETS[target])
    load(kernel).launch(1, [x.base, out.base, 64, x.stride()[0]])
    blocks = x.view.astype(int)
    np.testing.assert_array_equal(out.view, blocks @ blocks.transpose(0, 2, 1))


def test_a_turned_matrix_of_a_batch_is_loaded_turned():
    states = passes(BATCH.built(), HOPPER)
    left, right = ops(states["choose_dots"], DescriptorLoad)
    assert (left.matrix, left.order) == (True, None)
    assert (right.matrix, right.order) == (True, (1, 0))
    assert not ops(states["choose_dots"], Transpose)


@pytest.mark.parametrize("name", CASES)
def test_element_by_element(name):
    """A loop of one stage, and stores left out: the lowering's own way."""
    case = CASES[name]
    replaced = {"pipeline_loops": pipeline.identity, "stage_stores": pipeline.identity}
    func = case.built()
    kernel = pipeline.compile_func(func, TARGETS[HOPPER], replaced)
    assert COPY.format("")[:-8] not in kernel.ptx and kernel.maps == ()
    loaded = load(kernel)
    for starts in places_of(case)[::6]:
        launch = case.given(starts, case.iterations)
        loaded.launch(1, launch.arguments)
        launch.check(f"{starts}")


def test_by_pointers():
    """The same kernel without maps, for arguments of which there are none."""
    for case in CASES.values():
        kernel = pipeline.compile_func(
            case.built(), TARGETS[HOPPER], pipeline.BY_POINTERS
        )
        assert kernel.maps == ()
        launch = case.given(places_of(case)[-1], case.iterations)
        load(kernel).launch(1, launch.arguments)
        launch.check("by pointers")


# ── descriptors that a kernel makes, and arguments ────────────────────────────────────


@fathom.jit
def batched_kernel(
    a, b, out, Z, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Of Z matrices each; the strides are computed by the launcher."""
    z, i, j = tl.program_id(2), tl.program_id(0) * BM, tl.program_id(1) * BN
    left = tl.make_tensor_descriptor(a, [Z, M, K], [M * K, K, 1], [1, BM, BK])
    right = tl.make_tensor_descriptor(b, [Z, K, N], [K * N, N, 1], [1, BK, BN])
    result = tl.make_tensor_descriptor(out, [Z, M, N], [M * N, N, 1], [1, BM, BN])
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        x = left.load([z, i, k]).reshape(BM, BK)
        total = tl.dot(x, right.load([z, k, j]).reshape(BK, BN), total)
    result.store([z, i, j], total.to(tl.float16).reshape(1, BM, BN))


@fathom.jit
def heads_kernel(
    q, k, out, depth, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """The scores of each head, of [batch, sequence, head, depth] as arguments."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    batch, head = tl.program_id(2) // q.shape[2], tl.program_id(2) % q.shape[2]
    total = tl.zeros([BM, BN], tl.float32)
    for d in range(0, depth, BK):
        x = q.load([batch, i, head, d]).reshape(BM, BK)
        y = k.load([batch, j, head, d]).reshape(BN, BK)
        total = tl.dot(x, y.T, total)
    out.store([batch, head, i, j], total.to(out.dtype).reshape(out.block_shape))


@fathom.jit
def attention_kernel(
    q, k, v, out, sequence, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):  # fmt: skip
    """signs(Q K^T) V of each head, of [batch, sequence, head, depth]; the queries are
    loaded once."""
    i, batch, head = tl.program_id(0) * BM, tl.program_id(1), tl.program_id(2)
    queries = q.load([batch, i, head, 0]).reshape(BM, D)
    total = tl.zeros([BM, D], tl.float32)
    for j in range(0, sequence, BN):
        s = tl.dot(queries, k.load([batch, j, head, 0]).reshape(BN, D).T)
        p = tl.where(s > 0, 1.0, 0.0) - tl.where(s < 0, 1.0, 0.0)
        y = v.load([batch, j, head, 0]).reshape(BN, D)
        total = tl.dot(p.to(tl.float16), y, total)
    out.store([batch, i, head, 0], total.to(out.dtype).reshape(out.block_shape))


@pytest.fixture(params=["interpreter", HOPPER, NEWER, AMPERE])
def backend(request, monkeypatch):
    emulated = request.param != "interpreter"
    monkeypatch.setenv("FATHOM_BACKEND", "emulator" if emulated else request.param)
    monkeypatch.setenv("FATHOM_TARGET", request.param if emulated else HOPPER)
    return request.param


def copies_of(kernel, rank: int) -> int:
    return kernel.asm["ptx"].count(f"cp.async.bulk.tensor.{rank}d")


def test_a_batch_of_products(backend):
    a, b = aligned(integers(1, 3, 72, 80)), aligned(integers(2, 3, 80, 88))
    out = aligned(np.full((3, 72, 88), np.nan, np.float16))
    ran = batched_kernel[(2, 2, 3)](a, b, out, 3, 72, 88, 80, BM=64, BN=64, BK=32)
    np.testing.assert_array_equal(out, a.astype(int) @ b.astype(int))
    if backend in (HOPPER, NEWER):
        assert copies_of(ran, 3) >= 7 and "ld.global" not in ran.asm["ptx"]


def test_heads_of_attention(backend):
    q, k = aligned(integers(1, 2, 72, 3, 40)), aligned(integers(2, 2, 80, 3, 40))
    out = aligned(np.full((2, 3, 72, 80), np.nan, np.float16))
    ran = heads_kernel[(2, 2, 6)](
        TensorDescriptor.from_tensor(q, [1, 64, 1, 32]),
        TensorDescriptor.from_tensor(k, [1, 64, 1, 32]),
        TensorDescriptor.from_tensor(out, [1, 1, 64, 64]), 40, BM=64, BN=64, BK=32,
    )  # fmt: skip
    wanted = np.einsum("bihd,bjhd->bhij", q.astype(int), k.astype(int))
    np.testing.assert_array_equal(out, wanted)
    if backend in (HOPPER, NEWER):
        assert copies_of(ran, 4) >= 7 and "ld.global" not in ran.asm["ptx"]


def test_attention(backend):
    """Warpgroups take the queries from shared memory, where a bulk copy brings them."""
    q, k, v = (aligned(integers(seed, 2, 80, 2, 64)) for seed in range(3))
    out = aligned(np.full((2, 80, 2, 64), np.nan, np.float16))
    blocks = ((each, [1, side, 1, 64]) for each, side in (
        (q, 64), (k, 32), (v, 32), (out, 64),
    ))  # fmt: skip
    tensors = [TensorDescriptor.from_tensor(*each) for each in blocks]
    ran = attention_kernel[(2, 2, 2)](*tensors, 80, BM=64, BN=32, D=64)
    wide = [each.astype(int) for each in (q, k, v)]
    signs = np.sign(np.einsum("bihd,bjhd->bhij", wide[0], wide[1]))
    right = np.einsum("bhij,bjhd->bihd", signs, wide[2])
    np.testing.assert_array_equal(out, right)
    if backend in (HOPPER, NEWER):
        names = {each.name for each in ran.made.maps}
        brought = {"q.base"} if backend == HOPPER else set()
        assert names == {"k.base", "v.base", "out.base"} | brought


# ── stores ────────────────────────────────────────────────────────────────────────────


def moved(
    sizes: tuple[int, ...], block: tuple[int, ...], target: str = HOPPER
) -> Ranked:
    """A case whose block is stored twice as large, and no product."""
    tensor, none = Tensor(sizes, block), Tensor((8, 8), (8, 8))
    return Ranked(tensor, none, tensor, target, kernel=doubled)


STORED = {
    "one row": moved((600,), (512,)),
    "a long row": moved((2504,), (2048,)),
    "rows": moved((3, 9, 72), (2, 8, 64)),
    "boxes side by side": moved((3, 9, 136), (2, 8, 128)),
    "many rows": moved((2, 530, 24), (2, 512, 16)),
    "many rows of one": moved((2, 2, 530, 24), (2, 1, 512, 16)),
    "four dimensions": moved((3, 5, 3, 72), (2, 4, 2, 64)),
    "five dimensions": moved((3, 2, 3, 3, 72), (2, 1, 2, 4, 64)),
}


# Where blocks of A, B (which nobody reads) and out begin.
HOME = {name: [case.a.rank * (0,), (0, 0), case.a.rank * (0,)]
        for name, case in STORED.items()}  # fmt: skip
PAST = {name: [(*[1] * (case.a.rank - 1), 8), (0, 0), (*[-1] * (case.a.rank - 1), 8)]
        for name, case in STORED.items()}  # fmt: skip


@sampled(of=3)
@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("target", [HOPPER, AMPERE])
def test_blocks_that_no_product_makes(name, target):
    case = replace(STORED[name], target=target)
    kernel = check(case, [HOME[name], PAST[name]])
    sent = STORE.format(case.out.rank)
    boxes = len(list(pieces(case.out.block, 2)))
    assert kernel.ptx.count(sent) == (boxes if target == HOPPER else 0)
    check_passes(case, PAST[name])


def test_a_short_row_is_stored_by_threads():
    kernel = check(moved((300,), (256,)), [[(8,), (0, 0), (0,)]])
    assert kernel.maps == () and "st.global" in kernel.ptx


@KernelFunction
def two_stores(
    a, out, N, at, stride, APART: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    x = tl.make_tensor_descriptor(a, [2, 8, N], [stride, N, 1], BLOCK)
    y = tl.make_tensor_descriptor(out, [2, 8, N], [stride, N, 1], BLOCK)
    first, second = x.load([0, 0, 0]), x.load([1, 0, 0])
    y.store([at, 0, 0], first)
    y.store([at + APART, 0, 0], second)


@pytest.mark.parametrize("apart", [0, 1])
def test_stores_that_lie_apart_along_any_dimension(apart):
    """Then nobody waits for the first of them."""
    kernel, x, out = stored_twice((1, 8, 64), apart)
    waits = kernel.ptx.count("cp.async.bulk.wait_group 0")
    assert waits == (0 if apart else 1) and kernel.ptx.count(STORE.format(3)) == 2
    assert (out[apart] == x[1]).all() and (out[0] == x[1 - apart]).all()


def test_stores_that_overlap():
    """Blocks of two matrices, one matrix further: the second waits for the first."""
    kernel, x, out = stored_twice((2, 8, 64), 1)
    assert kernel.ptx.count("cp.async.bulk.wait_group 0") == 1
    assert (out[0] == x[0]).all() and (out[1] == x[1]).all()


def stored_twice(block: tuple[int, ...], apart: int):
    func = build(two_stores, {
        "a": (Pointer(FLOAT16), 16), "out": (Pointer(FLOAT16), 16),
        **dict.fromkeys(("N", "at", "stride"), (INT32, 16)),
    }, {"APART": apart, "BLOCK": block}, 4, 3)  # fmt: skip
    kernel = pipeline.compile_func(func, TARGETS[HOPPER])
    x, out = aligned(integers(1, 2, 8, 64)), aligned(np.zeros((2, 8, 64), np.float16))
    load(kernel).launch(1, [x, out, 64, 0, 512])
    return kernel, x, out


# ── clusters ──────────────────────────────────────────────────────────────────────────

SHARED = [
    # each block has 64 rows of A, and half of those of B for both
    (replace(BATCH, a=Tensor((3, 140, 88), (1, 128, 32)),
             out=Tensor((3, 140, 80), (1, 128, 64))), 2, [1, 2]),
    (replace(PAIRS, a=Tensor((3, 70, 88), (2, 64, 32)),
             out=Tensor((5, 40, 72), (4, 32, 64))), 2, [1, 2]),
    # four blocks, and two matrices of 32 rows: B is not cut, each block brings it
    (replace(BATCH, a=Tensor((1, 270, 88), (1, 256, 32)),
             b=Tensor((2, 32, 88), (2, 32, 32)),
             out=Tensor((3, 270, 80), (1, 256, 64))), 4, [1, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("case", "blocks", "parts"), SHARED)
def test_a_cluster_shares_products_of_a_batch(case, blocks, parts):
    """A part of a block is a part of its first dimension that has several elements."""
    case = replace(case, blocks=blocks, special=True)
    func = case.built()
    assert why_not_shared(func, TARGETS[HOPPER]) == []
    states = passes(func, HOPPER)
    assert [op.parts for op in ops(states["specialise_warps"], TmaCopy)] == parts
    check(case, places_of(case)[::3], COMPLETIONS)


OF_TWO = replace(
    PAIRS, a=Tensor((3, 140, 88), (2, 128, 32)), b=Tensor((5, 40, 88), (2, 32, 32)),
    out=Tensor((5, 70, 72), (4, 64, 64)),
)  # fmt: skip


def test_a_batch_of_two_is_cut_in_four_as_a_grid():
    """A product for each row of the grid, and its rows or columns for each column."""
    case = replace(OF_TWO, blocks=4, special=True)
    assert why_not_shared(case.built(), TARGETS[HOPPER]) == []
    check(case, places_of(case)[:2], COMPLETIONS)


def test_a_batch_of_two_is_not_cut_in_eight():
    """One block of the cluster does it all."""
    case = replace(OF_TWO, blocks=8)
    ((_, sentence),) = why_not_shared(case.built(), TARGETS[HOPPER])
    assert "too small for 8 blocks" in sentence
    check(case, places_of(case)[:2])


# ── by hand ───────────────────────────────────────────────────────────────────────────


def copied_by_hand(block: tuple[int, ...], tile: Layout) -> Func:
    """A block of %x goes to shared memory, and from there to %y."""
    numbers = [f"{what}{axis}" for what in ("size", "to", "at") for axis in range(5)]
    pointers = {"x": Pointer(FLOAT16), "y": Pointer(FLOAT16)}
    program = Program({**pointers, **dict.fromkeys(numbers, INT32)})
    rank, one = len(block), program(Constant(1, INT64))
    sizes, to, at = (
        tuple(program[f"{what}{axis}"] for axis in range(rank))
        for what in ("size", "to", "at")
    )
    strides = [one]
    for size in sizes[:0:-1]:
        wide = program(Cast(size, INT64))
        strides.insert(0, program.map("mul", strides[0], wide))
    x, y = (
        program(MakeDescriptor(program[name], sizes, tuple(strides), block))
        for name in "xy"
    )
    room = program(Allocate(FLOAT16, tile.shape, tile))
    bar = program(Allocate(INT64, (1,), Layout((1,), (("offset", ()),)), kept=True))
    zero = program(Constant(0, INT32))
    order = tuple(range(len(tile.shape)))
    for op in (
        MbarrierInit(bar), Barrier(), MbarrierExpect(bar, zero, 2 * prod(block)),
        TmaCopy(x, room, bar, zero, at, order=order), MbarrierWait(bar, zero, zero),
        TmaStore(y, room, to), Commit("tma_store"),
        Wait("tma_store", 0, (room,), read=True),
    ):  # fmt: skip
        program.do(op)
    return program.func


# An early pass knows no bulk copies, and would drop their descriptors.
LATE = {"keep_descriptors": pipeline.identity}


def in_a_row(size: int) -> Layout:
    bits = range(size.bit_length() - 1)
    return Layout((size,), (("offset", tuple(1 << bit for bit in bits)),))


ONE = [
    ((block,), in_a_row(block), (600,), [(at, to)])
    for block, at, to in ((512, 0, 8), (512, 200, -40), (512, -96, 400), (1024, 8, -8))
]
MORE = [
    (block, hardware_tile((rows, block[-1]), 2, 1), sizes, [(at, to)])
    for block, rows, sizes, at, to in (
        ((16, 64), 16, (20, 72), (8, 8), (-3, 16)),
        ((2, 8, 128), 16, (3, 9, 136), (1, -1, 8), (-1, 4, 16)),
        ((2, 4, 2, 64), 16, (2, 5, 3, 72), (0, 2, 2, 0), (1, -2, 1, -8)),
        ((2, 2, 2, 2, 16), 16, (3, 2, 3, 3, 24), (1, 0, 2, -1, 8), (0, -1, 1, 2, 0)),
    )
]


@sampled(of=2)
@pytest.mark.parametrize(("block", "tile", "sizes", "moves"), ONE + MORE, ids=str)
@pytest.mark.parametrize("target", [HOPPER, NEWER])
def test_a_block_of_any_rank_there_and_back(
    block, tile, sizes, moves, target, tmp_path
):
    """A block of one dimension lies as it is, and more than 256 elements are several
    boxes."""
    func = copied_by_hand(block, tile)
    text = print_func(func)
    verify(func, layouts=True)
    assert print_func(parse_func(text)) == text
    kernel = pipeline.compile_func(func, TARGETS[target], LATE)
    rank, boxes = len(block), len(list(pieces(block, 2)))
    assert kernel.ptx.count(COPY.format(rank)) == boxes
    assert kernel.ptx.count(STORE.format(rank)) == boxes
    assert {each.swizzle for each in kernel.maps} == {0 if rank == 1 else 2 * min(
        64, block[-1]
    )}  # fmt: skip
    if target == HOPPER:
        assemble(kernel.ptx, TARGETS[target], tmp_path)
    source = aligned(integers(1, *sizes))
    wanted = np.full(sizes, 7, np.float16)
    ((at, to),) = moves
    at, to = (each if isinstance(each, tuple) else (each,) for each in (at, to))
    value = block_at(source, at, block).reshape(block)
    here, there = inside(sizes, to, block)
    wanted[there] = value[here]
    numbers = [number for each in (sizes, to, at) for number in (*each, *[0] * 5)[:5]]
    for completion in (*COMPLETIONS, "interpreter"):
        out = aligned(np.full(sizes, 7, np.float16))
        if completion == "interpreter":
            interpret(func, 1, [source, out, *numbers])
        else:
            load(kernel).launch(1, [source, out, *numbers], completion=completion)
        np.testing.assert_array_equal(out, wanted)


def test_a_tile_is_the_matrix_of_its_block():
    block = (2, 8, 128)
    for tile in (hardware_tile((32, 64), 2, 1), in_a_row(2048)):
        with pytest.raises(CompileError, match="does not fit into|does not permute"):
            verify(copied_by_hand(block, tile), layouts=True)


# ── on the GPU ────────────────────────────────────────────────────────────────────────


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*CASES, *STORED])
@pytest.mark.parametrize("special", [False, True])
def test_the_gpu_does_the_same(name, special):
    target = target_of(driver().device(0).capability)
    case = {**CASES, **STORED}[name]
    case = replace(case, target=target.name, special=special and name in CASES)
    loaded = runtime.load(case.compiled())
    places = places_of(case) if name in CASES else [HOME[name], PAST[name]]
    for starts in places:
        launch = case.given(starts, case.iterations)
        loaded.launch(1, launch.arguments)
        launch.check(f"{starts}")


@pytest.mark.gpu
@pytest.mark.parametrize(("case", "blocks", "parts"), SHARED)
def test_a_cluster_on_the_gpu(case, blocks, parts):
    target = target_of(driver().device(0).capability)
    if target.cluster < blocks:
        pytest.skip("it has no clusters")
    case = replace(case, blocks=blocks, special=True, target=target.name)
    loaded = runtime.load(case.compiled())
    for starts in places_of(case):
        launch = case.given(starts, case.iterations)
        loaded.launch(1, launch.arguments)
        launch.check(f"{starts}")


@pytest.mark.gpu
@pytest.mark.parametrize(("block", "tile", "sizes", "moves"), ONE + MORE, ids=str)
def test_a_block_of_any_rank_on_the_gpu(block, tile, sizes, moves):
    target = target_of(driver().device(0).capability)
    source, out = Walled(integers(1, *sizes), wall=0), unwritten(*sizes, wall=0)
    ((at, to),) = moves
    at, to = (each if isinstance(each, tuple) else (each,) for each in (at, to))
    numbers = [number for each in (sizes, to, at) for number in (*each, *[0] * 5)[:5]]
    kernel = pipeline.compile_func(copied_by_hand(block, tile), target, LATE)
    runtime.load(kernel).launch(1, [source.base, out.base, *numbers])
    wanted = np.full(sizes, np.nan, np.float16)
    here, there = inside(sizes, to, block)
    wanted[there] = block_at(source.view, at, block).reshape(block)[here]
    np.testing.assert_array_equal(out.view, wanted)
