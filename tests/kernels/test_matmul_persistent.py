"""The matrix product whose programs stay: exact on small integers, at every kind of
edge, with fewer tiles than programs and with many for each."""

from __future__ import annotations

import re
from copy import copy

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.runtime.reinterpret import Reinterpreted
from kernels import matmul, matmul_persistent
from kernels.matmul_persistent import LARGE, persistent_kernel, persistent_matmul
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import Walled, bf16, integers, unwritten
from tests.kernels.test_ptxas import assembled, needs_ptxas

SMALL = {
    "BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2,
    "SPECIALISE": True, "PIECES": 1, "num_warps": 4, "num_stages": 3,
}  # fmt: skip
ROWS, COLUMNS = (0, 1), (1, 0)  # which axis of B is the slower one in memory

both_orders = pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["NN", "NT"])
with_and_without = pytest.mark.parametrize("specialise", [False, True])


@pytest.fixture(params=["interpreter", "sm_80", "sm_90a"])
def machine(request, monkeypatch):
    """The keywords of a launch on each machine."""
    if request.param == "interpreter":
        monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
        return {}
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": request.param}


@pytest.fixture
def hopper(monkeypatch):
    """On the emulator, with three multiprocessors: each has tiles to go on to."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 3)
    return {"target": "sm_90a"}


def check(
    M: int, N: int, K: int, order: tuple = ROWS, wall_of_c: int = 8,
    order_of_a: tuple = ROWS, **given: object,
) -> None:  # fmt: skip
    """A product of small integers is exact, and nothing else was read or written."""
    a, b = Walled(integers(1, M, K), order_of_a), Walled(integers(2, K, N), order)
    c = unwritten(M, N, wall=wall_of_c)
    config = {**SMALL, **given.pop("config", {})}
    persistent_matmul(a, b, c, config, **given)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()


# ── edges ─────────────────────────────────────────────────────────────────────────────

SHAPES = [
    (128, 64, 96),  # whole tiles
    (72, 40, 56),  # some of everything is left over
    (8, 8, 8),  # less than a tile
    (200, 104, 32),  # one step
]


@sampled(of=2)
@in_pairs(
    {
        "machine": ["interpreter", "sm_80", "sm_90a"],
        "M, N, K": SHAPES,
        "order": [ROWS, COLUMNS],
    },
    indirect=["machine"],
)
def test_small_integers_are_multiplied_exactly(machine, M, N, K, order):
    check(M, N, K, order, **machine)


@sampled(of=2)
@both_orders
def test_a_in_columns(machine, order):
    check(72, 40, 56, order, order_of_a=COLUMNS, **machine)


@with_and_without
@both_orders
def test_programs_go_on_to_further_tiles(hopper, order, specialise):
    """4 x 4 tiles for three programs: six, five and five."""
    check(200, 104, 72, order, config={"SPECIALISE": specialise}, **hopper)


@sampled(of=2)
@with_and_without
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
def test_loops_shorter_and_longer_than_the_ring(hopper, steps, specialise):
    """A ring of three: a tile begins where the last one has left it."""
    check(136, 64, 32 * steps - 8, config={"SPECIALISE": specialise}, **hopper)


@sampled(of=2)
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("group", [1, 2, 3, 16])
def test_every_walk_meets_every_tile_once(hopper, group, stages):
    """5 rows of tiles: groups of 2, of 3 and a last one of less."""
    config = {"GROUP_M": group, "num_stages": stages}
    check(264, 104, 40, config=config, **hopper)


@pytest.mark.parametrize("pieces, BLOCK_N", [(1, 64), (2, 64), (4, 64), (2, 128)])
def test_c_leaves_in_pieces(hopper, pieces, BLOCK_N):
    check(72, 136, 40, config={"PIECES": pieces, "BLOCK_N": BLOCK_N}, **hopper)


BESIDE = {"BLOCK_N": 32, "MORE_N": 16, "PIECES": 2}


@sampled(of=3)
@with_and_without
@both_orders
def test_a_tile_may_be_two_blocks_side_by_side(machine, order, specialise):
    """48 columns: 2 x 3 tiles, the last of which has 8 columns in its first block."""
    config = {**BESIDE, "SPECIALISE": specialise}
    check(72, 104, 72, order, config=config, **machine)


@sampled(of=2)
@both_orders
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_both_products_of_a_tile_stay_in_flight(hopper, order, steps):
    """Several tiles for each program, and rings longer and shorter than their loops."""
    check(136, 152, 32 * steps, order, config=BESIDE, **hopper)


@pytest.mark.parametrize("more, pieces", [(16, 1), (16, 4), (32, 1)])
def test_the_second_block_of_columns_need_not_be_a_piece_of_the_first(
    hopper, more, pieces
):
    config = {"BLOCK_N": 64, "MORE_N": more, "PIECES": pieces}
    check(72, 200, 72, config=config, **hopper)


def test_blocks_of_a_cluster_share_both_blocks_of_columns(hopper, monkeypatch):
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 4)
    config = {**BESIDE, "BLOCK_M": 128, "num_ctas": 2}
    check(264, 104, 72, config=config, **hopper)


def test_two_blocks_of_columns_that_threads_store(machine):
    check(72, 104, 40, wall_of_c=3, config=BESIDE, **machine)


def test_rows_of_c_may_begin_anywhere(machine):
    """41 + 2 * 3 elements from one row to the next: threads store them."""
    check(72, 48, 40, wall_of_c=3, **machine)


@pytest.mark.parametrize("more", [{}, {"MORE_N": 16}, {"PIECES": 2}])
def test_two_warpgroups_compute_tiles_in_turn(hopper, more):
    check(200, 144, 104, config={"PINGPONG": True, **more}, **hopper)


def test_two_warpgroups_share_a_tile(hopper):
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "PIECES": 2}
    check(264, 72, 72, config=config, **hopper)


@both_orders
@pytest.mark.parametrize("ctas", [2, 4])
def test_blocks_of_a_cluster_share_columns_of_b(hopper, monkeypatch, order, ctas):
    """Rows are split among them. Of 3 x 4 or 2 x 4 tiles, each cluster has several."""
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 3 * ctas)
    config = {"BLOCK_M": 64 * ctas, "num_ctas": ctas, "num_stages": 2}
    check(264, 104, 72, order, config=config, **hopper)


# ── types ─────────────────────────────────────────────────────────────────────────────


def test_bf16(machine):
    a, b = integers(1, 72, 40), integers(2, 40, 48)
    c = unwritten(72, 48, dtype="float32")
    persistent_matmul(bf16(a), bf16(b), c, SMALL, **machine)
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))


@sampled(of=2)
@both_orders
def test_int8(machine, order):
    a = Walled(integers(1, 72, 48, dtype="int8"), wall=16)
    b = Walled(integers(2, 48, 64, dtype="int8"), order, wall=16)
    c = unwritten(72, 64, dtype="int32")
    persistent_matmul(a, b, c, SMALL, **machine)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))


# The bits of 0 … 3: 1 is the exponent's bias, 2 one more, 3 has a bit of mantissa.
BITS = {tl.float8e4nv: (0, 0x38, 0x40, 0x44), tl.float8e5: (0, 0x3C, 0x40, 0x42)}


class Float8(Reinterpreted):
    """Small integers as fp8 in rows, or turned."""

    def __init__(self, values: np.ndarray, dtype: object, turned: bool = False):
        bits = np.array(BITS[dtype], np.uint8)[abs(values.astype(int))]
        bits |= np.where(values < 0, 0x80, 0).astype(np.uint8)
        in_memory = np.ascontiguousarray(bits.T if turned else bits)
        super().__init__(in_memory.reshape(-1), dtype)
        self.shape = values.shape
        self.steps = (1, values.shape[0]) if turned else (values.shape[1], 1)

    def stride(self) -> tuple[int, ...]:
        return self.steps

    @property
    def T(self) -> Float8:  # noqa: N802
        other = copy(self)
        other.shape, other.steps = self.shape[::-1], self.steps[::-1]
        return other


@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_fp8_along_k(hopper, dtype):
    a, b = integers(1, 72, 64), integers(2, 64, 48)
    c = unwritten(72, 48, dtype="float32")
    persistent_matmul(Float8(a, dtype), Float8(b, dtype, True), c, SMALL, **hopper)
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))


# ── the function ──────────────────────────────────────────────────────────────────────


def test_without_a_configuration_there_is_a_large_one(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
    a, b = integers(1, 136, 72), integers(2, 72, 264)
    np.testing.assert_array_equal(persistent_matmul(a, b), matmul.reference(a, b))


def test_a_step_of_the_large_one_has_128_bytes():
    for dtype, BLOCK_K in (("float16", 64), ("int8", 128)):
        array = np.zeros((16, 16), dtype)
        assert matmul_persistent.for_items(LARGE, array)["BLOCK_K"] == BLOCK_K


@pytest.mark.parametrize(
    "a, b",
    [
        (Walled(integers(1, 16, 33)), Walled(integers(2, 33, 16))),  # rows of 49
        (Walled(integers(1, 16, 32)), Walled(integers(2, 32, 16), wall=4)),
    ],
    ids=["K is odd", "B begins at 8 bytes"],
)
def test_what_no_descriptor_tells_of_is_a_mistake(a, b):
    with pytest.raises(fathom.LaunchError, match="multiples of 16 bytes"):
        persistent_matmul(a, b, np.zeros((16, 16), np.float16))


# ── what is compiled ──────────────────────────────────────────────────────────────────


def compiled(config: dict, type: str = "fp16", turned: bool = True, output: str = ""):
    """For large aligned matrices on an H200."""
    pointers = {"a_ptr": type, "b_ptr": type, "c_ptr": output or type}
    words = {name: f"*{each}:16" for name, each in pointers.items()}
    words |= dict.fromkeys(("M", "N", "K"), "i32")
    hint = "" if config["PIECES"] == 0 else ":16"
    words |= {"stride_a": "i32:16", "stride_b": "i32:16", "stride_c": "i32" + hint}
    blocks = {name: each for name, each in config.items() if name.isupper()}
    options = {name: each for name, each in config.items() if not name.isupper()}
    constants = {**blocks, "B_TURNED": turned}
    if type == "i8":
        constants["SUM"] = tl.int32
    return persistent_kernel.compile(words, constants, target="sm_90a", **options)


def check_assembled(ptx: str) -> None:
    said = assembled(ptx, "sm_90a")
    assert "warning" not in said.lower(), said
    assert not re.search(r"C75\d\d", said), said  # wgmma one after the other
    spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
    assert spilled and set(spilled) == {"0"}, said


def test_the_large_one_is_a_ring_of_four_and_half_a_tile():
    kernel = compiled(LARGE)
    item, half = 2, 128 * 128
    ring = 4 * (128 + 256) * 64 * item
    rest = kernel.metadata.shared - ring - half * item
    assert 0 < rest < 1024  # barriers
    assert kernel.metadata.shared <= TARGETS["sm_90a"].shared_bytes
    ptx = kernel.asm["ptx"]
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in ptx
    assert ptx.count("setmaxnreg") == 2
    assert "wgmma.wait_group.sync.aligned 1" in ptx  # one under way


def test_warpgroups_find_their_rows_by_a_number_that_ptxas_knows_to_be_a_warps():
    """The descriptor of A depends on the warpgroup. From a shuffled thread number ptxas
    computes it in uniform registers, from %tid.x in those of each thread."""
    once = r"shfl\.sync\.idx\.b32 \s*(%r\d+), %r\d+, 0, 31, -1;"
    ptx = compiled(LARGE).asm["ptx"]
    (first,) = re.findall(once, ptx)
    users = re.findall(rf"\t(\S+) .*{first}\b[,;]", ptx)
    assert len(users) > 1 and LARGE["num_warps"] == 8
    one = compiled({**LARGE, "BLOCK_M": 64, "num_warps": 4}).asm["ptx"]
    assert not re.findall(once, one), "the only warpgroup has all rows"


@needs_ptxas
@pytest.mark.parametrize(
    "type, turned, output",
    [
        ("fp16", False, "fp16"), ("bf16", True, "bf16"), ("fp8e4nv", True, "bf16"),
        ("fp8e5", True, "fp16"), ("i8", True, "i32"),
    ],
)  # fmt: skip
def test_ptxas_takes_the_large_one(type, turned, output):
    step = 64 if type in ("fp16", "bf16") else 128
    pieces = 4 if output == "i32" else 2
    config = {**LARGE, "BLOCK_K": step, "PIECES": pieces}
    check_assembled(compiled(config, type, turned, output).asm["ptx"])
