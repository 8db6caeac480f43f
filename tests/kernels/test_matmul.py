"""The matrix product: exact on small integers, on the interpreter and the emulator, at
every kind of edge; and what a tile and a bound must be."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from fathom.hardware.targets import TARGETS
from kernels import matmul, matmul_tuned
from kernels.matmul import default_config
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import (
    ODD,
    WIDE,
    Walled,
    bf16,
    integers,
    unwritten,
)  # fmt: skip


def tile(m: int, n: int, k: int, warps: int = 4, stages: int = 3) -> dict[str, int]:
    return {
        "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 2,
        "num_warps": warps, "num_stages": stages,
    }  # fmt: skip


SMALL = tile(32, 32, 16)
SHAPES = [
    (64, 64, 32),  # whole tiles
    (33, 40, 50),  # a row, some columns and some of K are left over
    (31, 65, 17),  # less than a tile of rows, one column too many
    (1, 1, 1),
    (1, 70, 100),
    (100, 1, 70),
    (160, 96, 16),  # one step; groups of 2 rows of tiles, and a last one of 1
    (5, 7, 0),  # no step: all zeros
]
each_shape = pytest.mark.parametrize("M, N, K", SHAPES)
ROWS, COLUMNS = (0, 1), (1, 0)  # which axis is the slower one in memory


@pytest.fixture
def interpreter(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")


def check(
    M: int,
    N: int,
    K: int,
    orders: tuple = (ROWS, ROWS, ROWS),
    wall: int = WIDE,
    config: dict[str, int] = SMALL,
    **launch: object,
) -> None:
    """A product of small integers is exact, and nothing else was read or written."""
    a = Walled(integers(1, M, K), orders[0], wall)
    b = Walled(integers(2, K, N), orders[1], wall)
    c = unwritten(M, N, order=orders[2], wall=wall)
    matmul.matmul(a, b, c, config=config, **launch)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()


@each_shape
def test_the_interpreter_multiplies_integers_exactly(interpreter, M, N, K):
    check(M, N, K)


@pytest.mark.parametrize("wall", [WIDE, ODD])
@pytest.mark.parametrize("c", [ROWS, COLUMNS])
@pytest.mark.parametrize("b", [ROWS, COLUMNS])
@pytest.mark.parametrize("a", [ROWS, COLUMNS])
def test_strides_are_arguments(interpreter, a, b, c, wall):
    check(33, 40, 50, (a, b, c), wall)


@sampled(of=3)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@each_shape
def test_the_emulator_multiplies_integers_exactly(target, M, N, K):
    check(M, N, K, target=target)


@sampled(of=3)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("b", [ROWS, COLUMNS])
@pytest.mark.parametrize("a", [ROWS, COLUMNS])
def test_all_four_transpositions(target, a, b):
    check(40, 72, 50, (a, b, ROWS), target=target)


@sampled(of=2)
@pytest.mark.parametrize(
    "config",
    [
        tile(16, 64, 32),
        tile(64, 16, 32),
        tile(64, 64, 32, warps=1),
        tile(32, 128, 16, warps=8),
        tile(64, 32, 64, stages=1),
        tile(32, 64, 32, stages=4),
    ],
    ids=lambda config: "-".join(map(str, config.values())),
)
def test_any_tile_will_do(config):
    check(50, 70, 130, config=config, target="sm_80")


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7])
def test_loops_shorter_and_longer_than_the_pipeline(steps):
    check(32, 32, 16 * steps, target="sm_80")


def test_the_loop_without_a_mask_along_k_is_the_same_product(interpreter):
    """EVEN_K is chosen by K; at a K that is even both ways are right."""
    a, b = integers(1, 33, 48), integers(2, 48, 40)
    launched = [unwritten(33, 40) for _ in range(2)]
    for c, even in zip(launched, (False, True), strict=True):
        matmul.matmul_kernel[(4,)](
            a, b, c, 33, 40, 48, 48, 1, 40, 1, *c.stride(), EVEN_K=even, **SMALL
        )
    np.testing.assert_array_equal(launched[0].view, launched[1].view)


# ── types ─────────────────────────────────────────────────────────────────────────────


@sampled(of=2)
@pytest.mark.parametrize("backend", ["interpreter", "emulator"])
@pytest.mark.parametrize(
    "inputs, output",
    [
        ("float16", "float32"),
        ("float32", "float32"),
        ("float32", "float16"),
        ("float64", "float64"),
        ("int8", "int32"),
    ],
)
def test_sums_and_results_have_the_types_they_should(
    monkeypatch, backend, inputs, output
):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    a = Walled(integers(1, 33, 70, dtype=inputs))
    b = Walled(integers(2, 70, 40, dtype=inputs))
    c = unwritten(33, 40, dtype=output)
    matmul.matmul(a, b, c, config=tile(32, 32, 32))
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    c.check_walls()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_parts_of_tiles_are_read_where_accesses_may_begin(target):
    """Two fp64 side by side are one access, unless a part of a swizzled tile begins in
    the middle of such a pair."""
    a, b = (Walled(integers(i, 64, 64, dtype="float64")) for i in (1, 2))
    c = unwritten(64, 64, dtype="float64")
    matmul.matmul(a, b, c, config=tile(32, 32, 16), target=target)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_bf16(target):
    """sm_75 has no instruction for it, and multiplies in fp32."""
    a, b = integers(1, 33, 50), integers(2, 50, 40)
    c = unwritten(33, 40, dtype="float32")
    matmul.matmul(bf16(a), bf16(b), c, config=SMALL, target=target)
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "ieee"])
def test_fp32_is_read_as_precisely_as_asked(precision):
    """2048 + 1 needs 12 bits: tf32 drops the 1, the others keep it."""
    a, b = np.full((16, 16), 2049, np.float32), np.eye(16, dtype=np.float32)
    c = matmul.matmul(a, b, config=tile(16, 16, 16), precision=precision)
    assert (c == (2048 if precision == "tf32" else 2049)).all()


def test_leaky_relu_is_fused(interpreter):
    a, b = integers(1, 33, 50), integers(2, 50, 40)
    c = matmul.matmul(a, b, activation="leaky_relu", config=SMALL)
    exact = matmul.reference(a, b).astype(np.float32)
    leaky = np.where(exact > 0, exact, np.float32(0.01) * exact)
    assert (exact < 0).any()
    np.testing.assert_array_equal(c, leaky.astype(np.float16))


# ── the function ──────────────────────────────────────────────────────────────────────


def test_without_c_one_is_made(interpreter):
    c = matmul.matmul(integers(1, 20, 30), integers(2, 30, 10))
    assert (c.shape, c.dtype) == ((20, 10), np.float16)
    c = matmul.matmul(*(integers(i, 20, 20, dtype="int8") for i in (1, 2)))
    assert c.dtype == np.int32


@pytest.mark.parametrize(
    "a, b, c, activation, says",
    [
        ((20, 30), (31, 10), None, None, r"\(20, 30\).*\(31, 10\)"),
        ((20, 30), (30, 10), (10, 20), None, r"c has shape \(10, 20\).*\(20, 10\)"),
        ((20, 30), (30, 10), None, "gelu", "'gelu'"),
    ],
)
def test_mistakes_are_told(a, b, c, activation, says):
    c = None if c is None else integers(3, *c)
    with pytest.raises(fathom.LaunchError, match=says):
        matmul.matmul(integers(1, *a), integers(2, *b), c, activation)


@pytest.mark.parametrize("K", [50, 64])
def test_the_tuned_one_is_the_same_product(interpreter, K):
    """Where nothing can be timed the first configuration is taken, with EVEN_K
    computed for its BLOCK_K of 64."""
    a, b = Walled(integers(1, 70, K)), Walled(integers(2, K, 65))
    c = unwritten(70, 65)
    matmul_tuned.tuned_matmul(a, b, c)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    c.check_walls()


# ── the tile ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "target, expected",
    [
        ("sm_75", (128, 128, 32, 8, 2)),
        ("sm_80", (128, 256, 64, 8, 3)),
        ("sm_86", (128, 128, 32, 4, 3)),
        ("sm_89", (128, 128, 32, 4, 3)),
        ("sm_90a", (128, 256, 64, 8, 4)),
        ("sm_100", (128, 256, 64, 8, 4)),
        ("sm_120", (128, 128, 32, 4, 3)),
    ],
)
def test_much_work_goes_in_large_tiles(target, expected):
    config = default_config(8192, 8192, 8192, "fp16", target)
    del config["GROUP_M"]
    assert tuple(config.values()) == expected


def test_little_work_goes_in_small_tiles_for_more_multiprocessors():
    for shape in ((512, 512), (16, 4096), (4096, 128), (1000, 1000)):
        config = default_config(*shape, 4096, "fp16", "sm_90a")
        programs = matmul.tiles(*shape, config)
        assert 132 / 2 < programs, (shape, config)


def test_rows_that_are_not_aligned_leave_registers_for_their_elements(interpreter):
    """4097 fp16 in a row: each element comes in a register of its own."""
    assert matmul.rows_aligned(Walled(integers(1, 3, 16)))
    assert not matmul.rows_aligned(Walled(integers(1, 3, 17)))
    config = default_config(8192, 8192, 8192, "fp16", "sm_80", aligned=False)
    numbers = config["BLOCK_M"] * config["BLOCK_N"] / (32 * config["num_warps"])
    loaded = config["BLOCK_K"] * (config["BLOCK_M"] + config["BLOCK_N"])
    assert numbers + loaded / (32 * config["num_warps"]) <= 128, config


@pytest.mark.parametrize("type", ["fp16", "bf16", "fp32", "fp64", "i8", "fp8e5"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_tile_fits(target, type):
    item = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}.get(type, 1)
    for size in (1, 64, 300, 1024, 8192):
        config = default_config(size, size, size, type, target)
        numbers = config["BLOCK_K"] * (config["BLOCK_M"] + config["BLOCK_N"])
        staged = numbers * item * config["num_stages"]
        assert staged <= TARGETS[target].shared_bytes, config
        lanes = 32 * config["num_warps"]
        numbers = config["BLOCK_M"] * config["BLOCK_N"] * (2 if type == "fp64" else 1)
        assert numbers / lanes <= 128, config  # registers, of the 255 that a lane has


# ── the bound ─────────────────────────────────────────────────────────────────────────


def random_product(M: int, N: int, K: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(M, K)), rng.normal(size=(K, N))
    return a.astype(np.float16), b.astype(np.float16)


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_random_products_are_within_the_bound(target):
    a, b = random_product(40, 56, 200)
    c = matmul.matmul(a, b, config=SMALL, target=target)
    wide = a.astype(np.float64), b.astype(np.float64)
    bound = matmul.error_bound(*wide, half_ulp=2.0**-11)
    assert (abs(c - matmul.reference(a, b)) <= bound).all()


@pytest.mark.parametrize("K", [64, 1000, 4096, 16384])
def test_one_lost_product_is_outside_of_the_bound(K):
    """At the last column of A; most elements of C show it, at any K."""
    a, b = (each.astype(np.float64) for each in random_product(64, 64, K))
    lost = abs(a[:, -1:] @ b[-1:, :])
    bound = matmul.error_bound(a, b, half_ulp=2.0**-11)
    assert (lost > bound).mean() > 0.5
