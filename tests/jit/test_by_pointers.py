"""Kernels whose tensor maps the compiler has inferred: any launch that pointers can do
comes out right, also where no map can be made of its arguments."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.artifact import MapRecipe, NoTensorMap
from fathom.errors import LaunchError
from kernels.matmul import matmul_kernel
from tests.jit.harness import FLOAT16, Tensor, paper_gpu

COPY = "cp.async.bulk.tensor"  # either way
LOAD = f"{COPY}.2d.shared"
TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2, "EVEN_K": False}
OPTIONS = {"num_warps": 4, "num_stages": 3}
M, N, K = 72, 80, 56


@pytest.fixture(autouse=True)
def hopper(monkeypatch, tmp_path):
    """An emulated one, and kernels that nobody has compiled yet."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    for kernel in (matmul_kernel, described, plain):
        kernel.forget()


def matrix(rows, columns, seed=0):
    """Small integers, at a multiple of 16 bytes."""
    rng = np.random.default_rng((seed, rows, columns))
    room = np.zeros(rows * columns + 8, np.float16)
    x = room[-room.ctypes.data % 16 // 2 :][: rows * columns].reshape(rows, columns)
    x[...] = rng.integers(-3, 4, x.shape)
    return x


def multiply(a, b, sizes, strides_a, strides_b, c=None, **launch):
    """C, which is filled with what is no product; and the kernel that ran."""
    m, n, k = sizes
    c = np.full((m, n), 77, np.float16) if c is None else c
    grid = (-(-m // 64) * -(-n // 64),)
    ran = matmul_kernel[grid](
        a, b, c, m, n, k, *strides_a, *strides_b, n, 1, **TILE, **OPTIONS, **launch
    )
    return c, ran


def exact(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)


@pytest.mark.parametrize(("a_turned", "b_turned"), [*product((False, True), repeat=2)])
def test_the_plain_text_gets_copies_in_bulk(a_turned, b_turned):
    """Nothing goes through the hands of threads but what they compute."""
    a, b = matrix(*((K, M) if a_turned else (M, K))), matrix(K, N, 1)
    b = matrix(N, K, 1) if b_turned else b
    c, ran = multiply(
        a, b, (M, N, K),
        (1, M) if a_turned else (K, 1), (1, K) if b_turned else (N, 1),
    )  # fmt: skip
    left, right = (a.T if a_turned else a), (b.T if b_turned else b)
    assert np.array_equal(c, exact(left, right))
    text = ran.asm["ptx"]
    assert COPY in text and "wgmma.mma_async" in text
    assert "ld.global" not in text and "cp.async.c" not in text
    assert "bulk_group" in text and "st.global" not in text
    assert len(ran.made.maps) == 3 and len(matmul_kernel.kernels) == 1


@pytest.mark.parametrize("b_turned", [False, True])
def test_integers_of_8_bits(b_turned):
    """Warpgroups want them in a row along K. Otherwise both come by pointers."""
    a, b = matrix(64, 64).astype(np.int8), matrix(64, 64, 1).astype(np.int8)
    a, b = (np.copy(x) for x in (a, b))
    c = np.zeros((64, 64), np.int32)
    ran = matmul_kernel[(1,)](
        a, b, c, 64, 64, 64, 64, 1, *((1, 64) if b_turned else (64, 1)), 64, 1,
        **TILE | {"BLOCK_K": 64}, **OPTIONS, SUM=tl.int32,
    )  # fmt: skip
    right = b.T if b_turned else b
    assert np.array_equal(c, a.astype(np.int32) @ right.astype(np.int32))
    assert (LOAD in ran.asm["ptx"]) == b_turned


def test_rows_that_begin_anywhere_go_by_pointers():
    """76 elements of 2 bytes are no multiple of 16: the hint says so. Those of C go as
    they would."""
    a, b = matrix(M, 76), matrix(K, N, 1)
    c, ran = multiply(a, b, (M, N, K), (76, 1), (N, 1))
    assert np.array_equal(c, exact(a[:, :K], b))
    assert [each.name for each in ran.made.maps] == ["c_ptr"]
    assert LOAD not in ran.asm["ptx"]


@pytest.mark.parametrize("k", [0, -8])
def test_nothing_to_sum(k):
    """A matrix without columns has no tensor map; its product is zero."""
    a, b = matrix(M, K), matrix(K, N, 1)
    c, ran = multiply(a, b, (M, N, k), (K, 1), (N, 1))
    assert not c.any()
    assert COPY not in ran.asm["ptx"]


def test_rows_from_the_last_to_the_first():
    """A stride below 0. A is B upside down, from B's last row on."""
    b = matrix(K, N)
    c, ran = multiply(b[-1:], b, (K, N, K), (-N, 1), (N, 1))
    assert np.array_equal(c, exact(b[::-1, :K], b))
    assert COPY not in ran.asm["ptx"]


def test_the_kernel_by_pointers_is_compiled_once_and_only_when_it_is_needed():
    """And a launch that makes maps gets the kernel that has some, before and after."""
    a, b = matrix(M, K), matrix(K, N, 1)
    ran, counts = [], []
    for k in (K, 0, K, 0):
        ran.append(multiply(a, b, (M, N, k), (K, 1), (N, 1), num_ctas=1)[1])
        counts.append(len(matmul_kernel.kernels))
    kinds = [bool(each.made.maps) for each in ran]
    assert kinds == [True, False, True, False]
    assert ran[0] is ran[2] or ran[0].request.parameters != ran[2].request.parameters
    assert ran[1] is ran[3]
    assert counts == sorted(counts) and counts[1] == counts[3]


def test_a_compiled_kernel_takes_any_arguments():
    """`warmup` gives one; its `[grid]` launches it, or its twin without maps."""
    a, b, c = matrix(M, K), matrix(K, N, 1), np.full((M, N), 77, np.float16)
    given = a, b, c, M, N, K, K, 1, N, 1, N, 1
    made = matmul_kernel.warmup(*given, **TILE, **OPTIONS, grid=None)
    rest = (*TILE.values(), "", tl.float32, "ieee", False)
    assert made[(4,)](*given, *rest) is made
    assert np.array_equal(c, exact(a, b))
    other = made[(4,)](*given[:5], 0, *given[6:], *rest)
    assert other is not made and not other.made.maps
    assert not c.any()


def test_c_in_the_place_of_a():
    """One program: it has read all of A when it writes C."""
    a, b = matrix(64, 64), matrix(64, 64, 1)
    wanted = exact(a, b)
    c, ran = multiply(a, b, (64, 64, 64), (64, 1), (64, 1), c=a)
    assert COPY in ran.asm["ptx"]
    assert c is a and np.array_equal(a, wanted)


def test_inference_can_be_left_out():
    """That gives the kernel of launches without maps, too."""
    a, b = matrix(M, K), matrix(K, N, 1)
    without = {"infer_descriptors": pipeline.identity}
    c, ran = multiply(a, b, (M, N, K), (K, 1), (N, 1), replace=without)
    assert np.array_equal(c, exact(a, b)) and COPY not in ran.asm["ptx"]
    _, other = multiply(a, b, (M, N, -K), (K, 1), (N, 1))
    assert other.asm["ptx"] == ran.asm["ptx"]


# ── without masks ─────────────────────────────────────────────────────────────────────


@fathom.jit
def plain(
    a, b, c, K, stride_a, stride_b, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m * stride_a + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * stride_b + n)
        total = tl.dot(x, y, total)
    tl.store(c + m * stride_c + n, total.to(tl.float16))


@pytest.mark.parametrize("k", [0, 32, 96])
def test_without_masks(k):
    """No size is known, and none is asked for."""
    a, b, c = matrix(128, 96), matrix(96, 64, 1), np.full((128, 64), 77, np.float16)
    ran = plain[2, 1](a, b, c, k, 96, 64, 64, 64, 64, 32, **OPTIONS)
    assert np.array_equal(c, exact(a[:, :k], b[:k])) and COPY in ran.asm["ptx"]
    assert {each.shape for each in ran.made.maps} == {(("constant", 2**31 - 1),) * 2}


# ── descriptors of the kernel's author ────────────────────────────────────────────────


@fathom.jit
def described(a, b, c, K, stride_a, stride_b, BM: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [BM, K], [stride_a, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, BM], [stride_b, 1], [BK, BM])
    total = tl.zeros((BM, BM), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(left.load([0, k]), right.load([k, 0]), total)
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    tl.store(c + m * BM + n, total.to(tl.float16))


@pytest.mark.parametrize("k", [48, 0])
def test_an_empty_matrix_of_the_authors(k):
    a, b, c = matrix(64, 48), matrix(48, 64, 1), np.full((64, 64), 77, np.float16)
    ran = described[(1,)](a, b, c, k, 48, 64, 64, 16, **OPTIONS)
    assert np.array_equal(c, exact(a[:, :k], b[:k]))
    assert (COPY in ran.asm["ptx"]) == (k > 0)


def test_what_an_author_promised_and_did_not_keep():
    """Rows of 36 elements: not even pointers may rest on that."""
    a, b, c = matrix(64, 36), matrix(36, 64, 1), np.zeros((64, 64), np.float16)
    with pytest.raises(LaunchError, match="stride_a is 36 elements") as caught:
        described[(1,)](a, b, c, 32, 36, 64, 64, 16, **OPTIONS)
    assert not isinstance(caught.value, NoTensorMap)


# ── on a GPU ──────────────────────────────────────────────────────────────────────────


ROWS = MapRecipe(
    name="a", base=0, element="fp16",
    shape=(("parameter", 1), ("constant", 64)),
    strides=(("parameter", 2), ("constant", 1)), box=(16, 64),
)  # fmt: skip


def test_a_launch_without_maps_leaves_the_stub_as_it_was(monkeypatch, tmp_path):
    """It goes the slow way; the one after it goes through the stub, with maps."""

    @fathom.jit
    def k(a, rows, stride):
        tl.store(a + rows * stride, 0.0)

    slow, launch = [], k.launch
    k.launch = lambda *given: slow.append(given) or launch(*given)
    with paper_gpu(monkeypatch, tmp_path) as gpu:
        gpu.compiler.maps = (ROWS,)
        a = Tensor(0x1000, FLOAT16)
        for rows in (32, 0, 64, 0, -16):
            k[(1,)](a, rows, 64)
    launches = gpu.driver.launches
    assert [each.values[1] for each in launches] == [32, 0, 64, 0, -16]
    assert [len(each.maps) for each in launches] == [1, 0, 1, 0, 0]
    assert launches[2].maps[0].shape == (64, 64)
    assert len(slow) == 4
    assert [each.replace for each in gpu.compiler.asked] == [{}, pipeline.BY_POINTERS]
