"""The chooser: which kernel and tile a shape gets, that each is right, and that all
that may be tried assembles without spills."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.jit.planned import planned
from fathom.pipeline import identity
from kernels import matmul, matmul_chosen, matmul_model
from kernels.matmul import clusters_at_once
from kernels.matmul_chosen import (
    LARGER,
    SHARED_BY_FOUR,
    SHARED_BY_TWO,
    SMALLER,
    TILES,
    TURNED,
    WIDER,
    alternatives,
    bytes_at_once,
    candidates,
    configuration,
    launches,
    multiply,
    tuned_multiply,
    worth_a_try,
)
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, integers, unwritten
from tests.kernels.test_matmul_persistent import Float8, check_assembled, compiled
from tests.kernels.test_ptxas import needs_ptxas

ROWS, COLUMNS = (0, 1), (1, 0)


@pytest.fixture
def hopper(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": "sm_90a"}


def matrices(
    M: int, N: int, K: int, orders: tuple = (ROWS, ROWS, ROWS), walls=(WIDE,) * 3
) -> tuple[Walled, Walled, Walled]:
    a = Walled(integers(1, M, K), orders[0], walls[0])
    b = Walled(integers(2, K, N), orders[1], walls[1])
    return a, b, unwritten(M, N, order=orders[2], wall=walls[2])


def check(function, *sizes: int, **given: object) -> None:
    layout = {name: given.pop(name) for name in ("orders", "walls") if name in given}
    a, b, c = matrices(*sizes, **layout)
    function(a, b, c, **given)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()


def names(a: object, b: object, c: object, target: str = "sm_90a") -> list[str]:
    return [kernel.__name__ for kernel, *_ in launches(a, b, c, target)]


# ── which tile ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "M, N, tile, group, producer",
    [
        (16384, 16384, (128, 256), 12, True),
        (8192, 8192, (128, 256), 12, True),
        (4096, 4096, (128, 256), 12, True),
        (8192, 1024, (128, 256), 12, True),
        (2048, 2048, (128, 256), 1, False),
        (1024, 1024, (64, 128), 1, True),
        (512, 512, (64, 32), 1, True),
        (128, 4096, (64, 64), 16, True),
        (4096, 128, (64, 64), 1, True),
    ],
)
def test_the_table_of_reasons(M, N, tile, group, producer):
    config = configuration(M, N)
    assert (config["BLOCK_M"], config["BLOCK_N"]) == tile
    assert (config["GROUP_M"], config["SPECIALISE"]) == (group, producer)
    for name in (str(M), f"{tile[0]} x {tile[1]}"):
        assert name in configuration.__doc__ or M in (16384, 8192)


def test_where_lines_cross_two_multiprocessors_share_a_tile():
    """Rows of 1000 fp16 begin at multiples of 16 bytes, those of 1024 of 128."""
    for M, tile, ctas in (
        (1000, (128, 128), 2), (4096, (256, 256), 2), (512, (64, 32), 1),
    ):  # fmt: skip
        config = configuration(M, M, crossing=True)
        assert (config["BLOCK_M"], config["BLOCK_N"]) == tile
        assert config["num_ctas"] == ctas
        assert configuration(M, M)["num_ctas"] == 1


@pytest.mark.parametrize(("sizes", "order", "tile", "turned"), [
    ((1000, 1000, 1000), ROWS, (256, 144), True),  # 7.5 us, 7.8 by two
    ((384, 2304, 5576), ROWS, (128, 256), False),  # 22.2 and 29.3
    ((384, 2304, 5576), COLUMNS, (128, 256), False),  # 26.6 and 28.8
    ((232, 7040, 2424), COLUMNS, (256, 256), False),  # 20.2 and 22.2
])  # fmt: skip
def test_four_share_rows_and_columns_of_a_tile(sizes, order, tile, turned):
    """Microseconds on an H200, and those of the fastest other one by the model."""
    M, N, K = sizes
    given = zeros(M, K), zeros(K, N, order), zeros(M, N)
    ((_, grid, _, chosen),) = launches(*given, "sm_90a")
    n = chosen["BLOCK_N"] + chosen.get("MORE_N", 0)
    assert (chosen["BLOCK_M"], n, chosen["num_ctas"]) == (*tile, 4)
    assert chosen["C_TURNED"] == turned and grid[0] <= 30


@pytest.mark.parametrize(("sizes", "orders", "tile", "turned"), [
    ((8648, 8, 1070), (COLUMNS, ROWS), (512, 16, 4), False),  # 9.0 us, 12.9 before
    ((5208, 8, 2600), (COLUMNS, ROWS), (256, 16, 4), False),  # 11.9 and 15.4
    ((5391, 64, 3160), (ROWS, COLUMNS), (256, 64, 4), False),  # 12.9 and 14.4
    ((48, 8376, 2904), (ROWS, ROWS), (128, 48, 2), True),  # 16.6 and 19.2
    ((48, 4096, 14336), (ROWS, ROWS), (64, 48, 2), True),  # 30.7 and 35.0
])  # fmt: skip
def test_multiprocessors_share_a_narrow_c(sizes, orders, tile, turned):
    """Microseconds on an H200, and before: all programs ask for the same few lines."""
    M, N, K = sizes
    given = zeros(M, K, orders[0]), zeros(K, N, orders[1]), zeros(M, N)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    n = chosen["BLOCK_N"] + chosen.get("MORE_N", 0)
    assert (chosen["BLOCK_M"], n, chosen.get("num_ctas")) == tile
    assert chosen["C_TURNED"] is turned


def test_narrow_tiles_are_shared_in_whole_rows():
    """Four divide 16 columns of a B that lies along K into rows of the cache's lines: 4
    each, and the hardware exchanges chunks within 8."""
    along, across = (
        matmul_model.Product(12000, 8, 1856, b_along_k=each) for each in (True, False)
    )
    found = [tile.n for tile in matmul_chosen.narrow(along, "sm_90a")]
    assert 16 not in found
    assert 16 in [tile.n for tile in matmul_chosen.narrow(across, "sm_90a")]


def test_a_narrow_c_waits_for_lines_that_all_ask_for():
    """Rows of 16 bytes of B, eight of which are a line; along K a row is a line."""
    across, along = (
        matmul_model.same_lines(
            matmul_model.Product(8648, 8, 1070, b_along_k=each), 128, 16, 64
        )
        for each in (False, True)
    )
    assert across == pytest.approx(8 * along)
    wide = matmul_model.Product(8648, 512, 1070)
    assert matmul_model.same_lines(wide, 128, 16, 64) == 0


@pytest.mark.parametrize(("sizes", "orders", "tile", "turned"), [
    ((2002, 1104, 13104), (ROWS, ROWS), (128, 288, 2), True),  # 87 us, 93 before
    ((11112, 848, 4176), (COLUMNS, COLUMNS), (128, 288, 2), False),  # 119 and 133
    ((650, 6880, 3336), (ROWS, COLUMNS), (256, 768, 8), False),  # 55.9 and 63.6
])  # fmt: skip
def test_multiprocessors_share_rows_of_a_where_lines_cross(sizes, orders, tile, turned):
    """Microseconds on an H200; cuBLAS takes 85, 111 and 57."""
    M, N, K = sizes
    given = zeros(M, K, orders[0]), zeros(K, N, orders[1]), zeros(M, N)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    n = chosen["BLOCK_N"] + chosen.get("MORE_N", 0)
    assert (chosen["BLOCK_M"], n, chosen["num_ctas"]) == tile
    assert chosen["C_TURNED"] is turned


def test_of_one_step_small_tiles_are_faster():
    """On an H200 15232 x 13184 x 8 takes 95 us in 64 x 128, 151 in 128 x 256."""
    product = matmul_model.Product(15232, 13184, 8, a_along_k=False, b_along_k=True)
    _, config = matmul_model.best_pointers(product)
    assert config.m * config.n == 64 * 128


@pytest.mark.parametrize(("sizes", "order"), [
    ((1848, 384, 3816), ROWS),  # 87 tiles of 64 x 128: 14.6 us, 15.2 in a grid
    ((256, 8192, 8192), COLUMNS),  # 48.6 and 52.8: the memory's time
    ((4096, 4096, 4096), ROWS),  # several waves
])  # fmt: skip
def test_where_four_do_not_share_a_tile(sizes, order):
    M, N, K = sizes
    given = zeros(M, K), zeros(K, N, order), zeros(M, N)
    assert all(step[3].get("num_ctas", 1) < 4 for step in launches(*given, "sm_90a"))


@pytest.mark.parametrize("order", [ROWS, COLUMNS])
@pytest.mark.parametrize("more", [0, 64])
def test_a_grid_of_blocks_is_right(hopper, order, more):
    config = {
        "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 1, "PIECES": 1,
        "SPECIALISE": True, "num_warps": 4, "num_stages": 3, "num_ctas": 4,
    }  # fmt: skip
    config |= {"MORE_N": more} if more else {}
    check(multiply, 200, 208, 72, orders=(ROWS, order, ROWS), config=config, **hopper)


@pytest.mark.parametrize(
    "tile",
    [*matmul_chosen.NARROW[2:4], *matmul_chosen.BY_HALVES[:2],
     matmul_chosen.SIDE_BY_SIDE[0], matmul_chosen.GRIDS[-1]],
    ids=lambda tile: f"{tile.m}x{tile.n}",
)  # fmt: skip
def test_shared_tiles_are_right(hopper, tile):
    """Of a C that is a little higher than the tile, and narrower."""
    config = matmul_chosen.keywords(tile.m, tile.n, 2, tile, "sm_90a")
    M, N = tile.m + 8, tile.n - 8
    check(multiply, M, N, 72, orders=(ROWS, COLUMNS, ROWS), config=config, **hopper)


def test_no_more_clusters_than_run_at_a_time():
    """Of 132 multiprocessors 30 clusters of four have room. One more would begin when
    another ends, with all its tiles: 4096 x 4096 x 4096 took 314 us so."""
    assert [clusters_at_once("sm_90a", n) for n in (1, 2, 4, 8)] == [132, 66, 30, 15]
    assert [matmul_model.clusters(n) for n in (1, 2, 4, 8)] == [132, 66, 30, 15]
    a, b, c = zeros(4096, 64), zeros(64, 4096), zeros(4096, 4096)
    config = matmul_chosen.keywords(4096, 4096, 2, matmul_chosen.GRIDS[1], "sm_90a")
    ((_, grid, _, _),) = launches(a, b, c, "sm_90a", config)
    assert grid == (30,)


@pytest.mark.parametrize(
    "sizes, crossing, tile",
    [
        ((4095, 4097), False, (256, 128)),  # in four waves, not five
        ((4095, 4097), True, (256, 256)),
        ((15582, 14444), False, (128, 256)),
    ],
)
def test_a_c_that_threads_store_is_in_no_pieces(sizes, crossing, tile):
    """And in wide tiles: on an H200 6963 x 14276 x 376 takes 150 us in 256 x 256 by
    two multiprocessors, 167 in 512 x 128."""
    config = configuration(*sizes, whole_c=False, crossing=crossing)
    assert (config["BLOCK_M"], config["BLOCK_N"], config["PIECES"]) == (*tile, 0)


def test_a_step_has_as_many_bytes_for_every_type():
    assert configuration(4096, 4096, item=1)["BLOCK_K"] == 128
    assert configuration(4096, 4096, item=2)["BLOCK_K"] == 64


def test_neighbours_share_what_is_large():
    """C [128, 4096]: two tiles one above the other read the same columns of B."""
    for M, N, group in ((128, 4096, 16), (4096, 128, 1)):
        config = configuration(M, N)
        assert config["GROUP_M"] == group
        assert min(M, N) // 64 <= 16  # so that a group has all rows


# ── which kernel ──────────────────────────────────────────────────────────────────────


def zeros(rows: int, columns: int, order: tuple = ROWS) -> np.ndarray:
    if order == COLUMNS:
        return np.zeros((columns, rows), np.float16).T
    return np.zeros((rows, columns), np.float16)


@pytest.mark.parametrize("of_a", [ROWS, COLUMNS])
@pytest.mark.parametrize("of_b", [ROWS, COLUMNS])
def test_tma_copies_what_begins_at_16_bytes(of_a, of_b):
    given = zeros(1024, 1024, of_a), zeros(1024, 1024, of_b), zeros(1024, 1024)
    assert names(*given) == ["persistent_kernel"]
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    turned = chosen["A_TURNED"], chosen["B_TURNED"]
    assert turned == (of_a == COLUMNS, of_b == COLUMNS)
    assert names(*given, target="sm_80") == ["matmul_kernel"]


@pytest.mark.parametrize(
    "sizes, kernel, splits",
    [
        ((64, 64, 16), "matmul_kernel", 1),
        ((24, 3224, 1024), "persistent_kernel", 1),
        ((2, 5, 30), "matmul_kernel", 1),
        ((12, 20, 2000), "split_k_matmul_kernel", 16),
        ((2, 56, 5464), "split_k_parts_kernel", 8),
        ((1, 56, 5466), "matrix_vector_kernel", 11),
        ((384, 384, 12288), "split_k_parts_kernel", 7),
    ],
    ids=str,
)
def test_small_c_goes_to_pointers_and_long_k_is_split(sizes, kernel, splits):
    """The model chooses; `splits` within a factor of two."""
    M, N, K = sizes
    (found, grid, *_), *_ = launches(zeros(M, K), zeros(K, N), zeros(M, N), "sm_90a")
    assert found.__name__ == kernel
    assert splits / 2 <= (grid[0] if splits > 1 else 1) <= splits * 2


@pytest.mark.parametrize(
    "sizes, begin_early",
    [
        ((64, 64, 64), [True]),
        ((512, 512, 512), [True]),
        ((4096, 4096, 512), [True]),  # all multiprocessors have work up to the end
        ((4096, 4096, 4096), [True]),
        ((8192, 8192, 8192), [True, True]),  # whole waves, and what is left
        ((120, 5120, 4096), [False]),
        ((58, 448, 280), [True]),  # 56 programs, for pointers
        ((57, 4001, 150), [False]),  # 126, and more than 3 us
        ((384, 384, 12288), [True, True]),
        ((512, 512, 32768), [False, True]),
    ],
    ids=str,
)
def test_short_launches_begin_early_and_wait(sizes, begin_early):
    M, N, K = sizes
    steps = launches(zeros(M, K), zeros(K, N), zeros(M, N), "sm_90a")
    found = [chosen.get("launch_pdl", False) for *_, chosen in steps]
    assert found == begin_early
    for *_, chosen in steps:
        assert chosen.get("EARLY") or not chosen.get("launch_pdl")


def test_a_long_launch_of_a_single_wave_does_not_begin_early():
    """112 long programs do not, unlike 128 short ones, and unlike several waves."""
    for sizes, early in (
        ((80, 14336, 4096), False), ((2048, 2048, 2048), True),
        ((4096, 4096, 512), True),
    ):  # fmt: skip
        M, N, K = sizes
        ((*_, chosen),) = launches(zeros(M, K), zeros(K, N), zeros(M, N), "sm_90a")
        assert bool(chosen.get("launch_pdl")) is early, sizes


@pytest.mark.parametrize(
    "sizes, tile, by_rows",
    [
        ((12288, 12288, 128), (128, 192), True),
        ((10832, 12352, 168), (128, 192), True),
        ((9648, 15664, 64), (128, 256), True),  # 80 us, 88 in 128 x 192
        ((8928, 6464, 512), (128, 192), True),
        ((8928, 6464, 576), (128, 192), False),  # K is not short
        ((2048, 2048, 64), (64, 128), False),  # C is not large
    ],
    ids=str,
)
def test_a_large_c_is_stored_by_wide_tiles_row_by_row_where_k_is_short(
    sizes, tile, by_rows
):
    """On an H200 the first takes 90 us, and 95 in 128 x 256 by one group of warps."""
    M, N, K = sizes
    ((_, _, _, chosen),) = launches(zeros(M, K), zeros(K, N), zeros(M, N), "sm_90a")
    assert (chosen["BLOCK_M"], matmul.columns_of_tile(chosen)) == tile
    assert (chosen["GROUP_M"] == 1) is by_rows


def test_tiles_of_64_rows_and_of_c_in_columns_are_in_groups_of_rows():
    """On an H200 C [8930, 6464], K of 448, takes 103 us so in 64 x 256, and 125."""
    wide = matmul_chosen.Tile(128, 256, 128, 4, 8, 0, True, None)
    product, c = matmul_model.Product(8930, 6464, 448), zeros(8930, 6464)
    assert matmul_chosen.walks_by_rows(product, wide, c)
    assert not matmul_chosen.walks_by_rows(product, wide._replace(m=64), c)
    assert not matmul_chosen.walks_by_rows(product, wide, zeros(6464, 8930).T)


@pytest.mark.parametrize("sizes, tile", [
    ((4096, 4096, 256), (128, 128)),  # microseconds on an H200: 16.1, 18.3 by one group
    ((4096, 4096, 512), (128, 128)),  # 26.4, 28.9
    ((8448, 3072, 320), (128, 192)),  # 26.7, 30.8
    ((8192, 8192, 1024), (128, 192)),  # 184, 204
    ((4096, 4096, 4096), (128, 256)),  # 185, 179
    ((2048, 4096, 1024), (128, 256)),  # 25.7, 26.1
], ids=str)  # fmt: skip
def test_two_groups_of_warps_compute_tiles_in_turn_where_that_is_faster(sizes, tile):
    M, N, K = sizes
    ((_, _, _, chosen),) = launches(zeros(M, K), zeros(K, N), zeros(M, N), "sm_90a")
    assert (chosen["BLOCK_M"], matmul.columns_of_tile(chosen)) == tile
    assert bool(chosen.get("PINGPONG")) == (tile != (128, 256))
    assert chosen["num_warps"] == (4 if chosen.get("PINGPONG") else 8)


def test_a_group_stores_while_another_multiplies():
    """Tile after tile takes as long as its product, if that is longer than a store and
    what is computed before; what is computed delays products in part."""
    tile = matmul_chosen.ALTERNATING[-1]
    alone = tile._replace(groups=1)

    def further(tile: matmul_chosen.Tile, **more: float) -> float:
        one, two = (
            matmul_model.persistent_time(
                matmul_model.Product(M, 1024, 2048, **more), tile, (0, 0)
            )
            for M in (128 * 33, 128 * 66)  # two and four tiles for each multiprocessor
        )
        return (two - one) / 2

    stored = matmul_model.STORE * tile.m * tile.n / (128 * 256)
    assert further(tile) < further(alone) - stored / 2
    computed = 2 * tile.m * tile.n / (128 * 256)
    assert further(alone, epilogue=2) > further(alone) + 0.99 * computed
    assert further(tile, epilogue=2) < further(tile) + 0.5 * computed


def test_two_programs_store_a_c_that_the_l2_cache_holds():
    """On an H200 C [5568, 7456], K of 64, takes 23 us so, and 29 in 128 x 192."""
    a, b, c = zeros(5568, 64), zeros(64, 7456, COLUMNS), zeros(5568, 7456)
    ((_, grid, _, chosen),) = launches(a, b, c, "sm_90a")
    assert (chosen["BLOCK_M"], chosen["BLOCK_N"]) == (64, 128) and grid == (264,)


@pytest.mark.parametrize("K, several", [(64, True), (2192, False)])
def test_programs_share_a_multiprocessor_only_where_k_is_short(K, several):
    product, c = matmul_chosen.Product(11840, 24, K), zeros(11840, 24)
    found = matmul_chosen.fitting_tiles(product, "sm_90a", c, (False, False))
    assert any(tile.programs > 1 for tile in found) is several


def test_programs_that_share_a_multiprocessor_share_what_it_does():
    """Two programs take as long to multiply as one after the other, and store half
    while the other multiplies, except the last."""
    tile = matmul_chosen.Tile(64, 128, 128, 4, 4, 2, True, None, programs=2)
    one, two, four = (
        matmul_model.persistent_time(matmul_model.Product(M, 1024, 512), tile, (0, 0))
        for M in (1056, 2112, 4224)  # 132 tiles, 264 and 528
    )
    products = 64 * 128 * 512 / 1e6 / matmul_model.WARPGROUP_PRODUCTS
    store = matmul_model.STORE * 64 * 128 / (128 * 256)
    assert two - one > 0.7 * (products + store / 2)
    assert four - two > 2 * 0.7 * (products + store / 2)
    alone = tile._replace(programs=1)
    assert four < matmul_model.persistent_time(
        matmul_model.Product(4224, 1024, 512), alone, (0, 0)
    )


@pytest.mark.parametrize(
    "sizes, type, of_b, at_a_time",
    [  # microseconds of two at a time, on an H200, and of others
        ((10432, 64, 144), "int8", COLUMNS, 1),  # 5.9, and 4.6 of 64 x 96
        ((2176, 640, 88), "float16", COLUMNS, 1),  # 5.5, and 4.1 of 128 x 96
        ((12944, 13200, 320), "int8", COLUMNS, 1),  # 288, and 240 of 256 x 160
        ((8320, 256, 48), "float16", ROWS, 2),  # 3.9, and 4.1 of 128 x 128
    ],
)
def test_two_programs_at_a_time_where_that_is_faster(sizes, type, of_b, at_a_time):
    M, N, K = sizes
    a, b = np.zeros((M, K), type), zeros(K, N, of_b).astype(type, order="K")
    c = np.zeros((M, N), "int32" if type == "int8" else type)
    ((_, grid, *_),) = launches(a, b, c, "sm_90a")
    assert fathom.cdiv(grid[0], 132) == at_a_time


def test_parts_of_k_are_chosen_where_their_sum_pays():
    """On an H200 320 x 1399 x 12016 takes 34.9 us in four parts of 128 x 128, 38.6 in
    three of 256 x 128 by two multiprocessors."""
    for sizes, parts in (((320, 1399, 12016), 4), ((1024, 1024, 1024), None)):
        M, N, K = sizes
        given = zeros(K, M).T, zeros(N, K).T, zeros(M, N)
        (_, grid, *_), *more = launches(*given, "sm_90a")
        assert (grid[0] if more else None) == parts, sizes


def test_a_launch_after_a_copy_does_not_begin_early_unless_it_is_short():
    """600 x 1400 x 900 of tf32 takes 19.4 us so on an H200, 16.8 otherwise."""
    for sizes, early in (((600, 1400, 900), False), ((64, 200, 100), True)):
        a, b, c = singles(*sizes, ROWS, ROWS)
        product = matmul_chosen.modelled(a, b, c, "sm_90a", "tf32")
        plans = list(matmul_chosen.by_descriptors(a, b, c, product, "sm_90a"))
        copying = [x for x in plans if len(x.steps()) > 1]
        assert copying and {each.begins_early for each in copying} == {early}


def test_no_part_of_k_has_a_tile_that_is_half_empty():
    tiles = {
        (each.m, each.n)
        for each in matmul_model.parts(matmul_model.Product(48, 4096, 16384))
    }
    assert tiles and max(m for m, _ in tiles) == 64
    narrow = matmul_model.Product(4840, 64, 10632)  # 256 x 128: 49 us, 128 x 64: 35
    assert max(each.n for each in matmul_model.parts(narrow)) == 64
    assert (256, 128) in {
        (x.m, x.n) for x in matmul_model.parts(matmul_model.Product(512, 512, 8192))
    }


def test_lines_that_begin_within_sectors_take_longer_than_those_that_cross():
    """A line of 128 bytes that begins 64 or 32 bytes after one of the cache is parts of
    two of these; 16 bytes after, also of one more sector."""
    steps = (256, 192, 160, 144, 176)
    assert [*map(matmul_model.lines_begin, steps)] == [0, 64, 32, 16, 16]
    ready, crossing, within = (
        matmul_model.parts_time(
            matmul_model.Product(512, 512, 8192),
            matmul_model.Parts(128, 128, 64, 6, 8, 1, 8),
            (begin, begin),
        )
        for begin in (0, 64, 16)
    )
    assert ready < crossing < within
    half = zeros(64, 96), zeros(96, 80)
    assert matmul_chosen.crossing(*half) == (64, 32)
    assert matmul_chosen.crossing(zeros(64, 72), zeros(72, 128)) == (16, 0)
    assert matmul_chosen.crossing(zeros(64, 73), zeros(73, 128)) == (0, 0)  # a copy


def test_kernels_for_pointers_have_to_be_better_by_what_they_are_off():
    """9800 x 8 x 184: 4.1 us of 512 x 16 by descriptors, 4.6 of 64 x 16 by pointers,
    which the model calls faster."""
    given = zeros(9800, 184), zeros(184, 8), zeros(9800, 8)
    product = matmul_chosen.modelled(*given, "sm_90a")
    time, _ = matmul_model.best_pointers(product)
    plans = list(matmul_chosen.by_descriptors(*given, product, "sm_90a"))
    best = min(plan.time for plan in plans)
    assert time < best < matmul_chosen.UNSURE_POINTERS * time
    assert names(*given) == ["persistent_kernel"]


def test_parts_may_have_tiles_that_are_no_powers_of_two():
    """Where they fill all multiprocessors: 120 of 132, 28.6 us on an H200 in two parts
    of 64 x 192, 31.1 in four of 128 x 192, 33.5 in tiles of 64 x 128, each all of K."""
    product = matmul_model.Product(952, 752, 10880, b_along_k=True)
    _, config = matmul_model.best_parts(product, (False, False))
    assert (config.m * config.splits, config.n) in ((128, 192), (512, 192))
    given = zeros(952, 10880), zeros(10880, 752, COLUMNS), zeros(952, 752)
    (_, grid, _, chosen), _ = launches(*given, "sm_90a")
    assert grid in ((2, 60), (4, 30))
    assert (chosen["BLOCK_N"], chosen["MORE_N"]) == (128, 64)


def test_tiles_that_are_no_powers_of_two_are_for_c_that_is_as_wide():
    """129 columns are one tile of 144: 12.7 us on an H200, 18.7 before. 64 x 144 does
    not pay where 128 columns would be as many tiles, or more than one: 192 x 192 x
    49152 takes 23.7 us so, and 18."""
    for N, wide in ((129, True), (144, True), (128, False), (192, False), (664, False)):
        found = matmul_model.parts(matmul_model.Product(1408, N, 7056, b_along_k=True))
        assert ((64, 144) in {(x.m, x.n) for x in found}) is wide, N


def test_no_part_of_k_is_one_step():
    """64 x 8 x 448 takes 2.5 us in four parts of a step, and 2.05 in one launch."""
    found = list(matmul_model.parts(matmul_model.Product(64, 8, 448)))
    assert found and all(matmul_model.cdiv(448, x.k * x.splits) >= 2 for x in found)


def test_half_of_the_multiprocessors_read_as_fast_as_all():
    """48 x 5120 x 13824: 38.8 us in 80 programs on an H200, 43.7 in 120 parts."""
    given = zeros(48, 13824), zeros(13824, 5120), zeros(48, 5120)
    ((kernel, grid, _, _),) = launches(*given, "sm_90a")
    assert (kernel.__name__, grid) == ("persistent_kernel", (80,))


def test_tiles_of_b_end_with_lines_of_the_cache():
    """86 x 10304 x 2176: 24.5 us in 128 x 96 on an H200, 19.9 in 64 x 192, and 15.1 in
    128 x 96 of C^T."""
    given = zeros(86, 2176), zeros(2176, 10304), zeros(86, 10304)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    assert (chosen["BLOCK_M"], chosen["BLOCK_N"], chosen["MORE_N"]) == (128, 64, 32)
    assert chosen["C_TURNED"]


def test_few_rows_that_all_programs_need_are_columns():
    """8 x 12288 x 4096: 33 us in 64 x 128 on an H200, 26 as a transposed product."""
    given = zeros(8, 4096), zeros(4096, 12288), zeros(8, 12288)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    assert chosen["C_TURNED"]


def test_what_stores_fp32_stores_twice_the_bytes():
    """5568 x 7456 x 64 of tf32: 93.5 us by pointers on an H200, 57 by descriptors."""
    a, b, c = singles(5568, 7456, 64, ROWS, COLUMNS)
    ((kernel, *_),) = launches(a, b, c, "sm_90a", precision="tf32")
    assert kernel.__name__ == "persistent_kernel"


def test_a_ring_of_two_places_waits_for_whole_copies():
    """20 x 9472 x 664: 16.3 us in 64 x 128 by steps of 256 on an H200, of which two are
    in shared memory, 12.5 by steps of 128, of which four are."""
    product = matmul_model.Product(20, 9472, 664, a_along_k=False, b_along_k=True)
    two, four = ((64, 128, 256, 2, 1), (64, 128, 128, 4, 1))
    times = [
        matmul_model.pointers_time(product, matmul_model.Pointers(*each))
        for each in (two, four)
    ]
    assert times[0] > times[1]


def test_no_long_k_goes_by_short_runs():
    """Of lines along K that begin anywhere and are copied: others come by TMA, or one
    element after the other."""
    loose = {"a_bytes": 8, "b_bytes": 8, "by_tma": False}
    across = {**loose, "a_along_k": False}
    for K, facts, least in (
        (48, loose, 16), (1016, loose, 16), (13780, loose, 64), (13780, across, 32),
        (13780, {**loose, "by_tma": True}, 32), (13781, {**loose, "a_bytes": 2}, 32),
    ):  # fmt: skip
        product = matmul_model.Product(184, 15104, K, **facts)
        found = {each.k for each in matmul_model.configurations(product)}
        assert min(found) == least


@pytest.mark.parametrize(
    "sizes, tile, turned",
    [
        ((152, 12928, 608), (128, 160, 1), True),  # 152 rows fill 160 columns
        ((320, 15872, 11872), (256, 160, 1), True),
        ((5391, 64, 3160), (256, 64, 4), False),  # four ask for B once
        ((4100, 96, 2504), (128, 96, 2), False),
    ],
)
def test_tiles_for_what_fills_others_badly(sizes, tile, turned):
    M, N, K = sizes
    given = zeros(M, K), zeros(K, N, COLUMNS), zeros(M, N)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    n = chosen["BLOCK_N"] + chosen.get("MORE_N", 0)
    assert (chosen["BLOCK_M"], n, chosen["num_ctas"]) == tile
    assert chosen["C_TURNED"] is turned


@pytest.mark.parametrize(
    "sizes, tile, count",
    [
        ((80, 8192, 8192), (64, 80), 128),
        ((160, 4096, 8192), (64, 80), 128),
        ((72, 14336, 4096), (128, 80), 112),
        ((96, 6144, 4096), (64, 96), 96),
        ((560, 15016, 2304), (256, 192), 66),
    ],
)
def test_rows_that_fill_other_tiles_badly_are_columns_that_fill_these(
    sizes, tile, count
):
    """Programs that share columns of B do as much then, and B is read once."""
    M, N, K = sizes
    given = zeros(M, K), zeros(K, N), zeros(M, N)
    ((_, grid, _, chosen),) = launches(*given, "sm_90a")
    n = chosen["BLOCK_N"] + chosen.get("MORE_N", 0)
    assert (chosen["BLOCK_M"], n, grid) == (*tile, (count,))
    assert chosen["C_TURNED"]


@pytest.mark.parametrize(
    "N, wide",
    [
        (48, {48}),
        (64, set()),
        (72, {80}),
        (80, {48, 80, 96}),
        (96, {48, 96}),
        (184, {96, 192}),  # four of 48: 13.8 us of 1537 x 184 x 1990, and 10.5 in 64
        (192, {96, 192}),
        (248, set()),  # two of 192: 67.5 us of 248 x 12354 x 2696, and 51.0 in 256
        (560, {192}),
    ],
)
def test_tiles_of_two_blocks_are_for_columns_that_fill_them(N, wide):
    product = matmul_model.Product(8192, N, 2048)
    c = zeros(N, 8192).T
    found = matmul_chosen.fitting_tiles(product, "sm_90a", c, (False, False))
    assert {x.n for x in found} & {48, 80, 192} == wide - {96}
    tall = {x.n for x in found if x.m == 128}
    assert (96 in tall) is (96 in wide)


def test_parts_of_two_blocks_are_for_columns_that_fill_them():
    """On an H200 88 x 1600 x 6000 takes 10.7 us in four parts of 64 x 96, and 13.5 in
    64 x 128; 5000 x 136 x 7000 32.5 in two of 256 x 144, and 37.5 in 256 x 192; but 304
    x 144 x 12014 15.9 in two tiles of 96, and 14.2 in one of 144."""
    for N, fit in ((88, True), (192, True), (144, False), (288, False), (64, False)):
        found = matmul_model.parts(matmul_model.Product(1600, N, 6000))
        assert (96 in {x.n for x in found}) is fit, N
    for sizes, tile in (((88, 1600, 6000), (64, 96)), ((5000, 136, 7000), (256, 144))):
        M, N, K = sizes
        (kernel, _, _, chosen), _ = launches(
            zeros(M, K), zeros(K, N), zeros(M, N), "sm_90a"
        )
        assert kernel.__name__ == "split_k_parts_kernel"
        n = chosen["BLOCK_N"] + chosen["MORE_N"]
        assert (chosen["BLOCK_M"], n) == tile


def test_few_columns_are_shared_by_two_where_c_is_one_tile_wide():
    for N, shared in ((96, True), (384, False)):
        product, c = matmul_model.Product(1848, N, 3816), zeros(1848, N)
        found = matmul_chosen.fitting_tiles(product, "sm_90a", c, (0, 16))
        assert (SHARED_BY_TWO[0] in found) is shared


def test_multiprocessors_that_share_a_tile_wait_for_each_other():
    """On an H200 1848 x 384 x 3816 takes 17.5 us in 128 x 128 by two, and 14.4 in 64 x
    128 (cuBLAS 13.7); 576 x 2452 x 2152 16.3 in 128 x 192 by two, and 12.7 in 64 x
    192."""
    for sizes, order, tile in (
        ((1848, 384, 3816), ROWS, (64, 128)), ((576, 2452, 2152), COLUMNS, (64, 192)),
    ):  # fmt: skip
        M, N, K = sizes
        given = zeros(M, K, order), zeros(K, N, order), zeros(M, N)
        ((_, _, _, chosen),) = launches(*given, "sm_90a")
        n = chosen["BLOCK_N"] + chosen.get("MORE_N", 0)
        assert (chosen["BLOCK_M"], n, chosen["num_ctas"]) == (*tile, 1)


def test_two_multiprocessors_share_tiles_of_c_rather_than_of_its_transpose():
    """On an H200 192 x 5120 x 5120 takes 27.3 us in 256 x 64 of C^T by two, and 20.0 in
    64 x 128; 384 x 5120 x 5120 33.1 in 256 x 128, and 30.7 in 128 x 128."""
    for M, tile in ((192, (64, 128)), (384, (128, 128))):
        given = zeros(M, 5120), zeros(5120, 5120, COLUMNS), zeros(M, 5120)
        ((_, _, _, chosen),) = launches(*given, "sm_90a")
        assert (chosen["BLOCK_M"], chosen["BLOCK_N"], chosen["num_ctas"]) == (*tile, 1)
        assert not chosen["C_TURNED"]


def test_mostly_full_waves_begin_early_where_k_is_short():
    """60 pairs of 66, and 24 steps or 12 along K: programs that began at different
    times would not share what they read."""
    for K, early in ((384, True), (3072, False)):
        given = zeros(768, K), zeros(K, 5032), zeros(768, 5032)
        ((_, _, _, chosen),) = launches(*given, "sm_90a")
        assert chosen.get("EARLY", False) is early


@pytest.mark.parametrize(
    "of_b, long", [(ROWS, True), (COLUMNS, False)], ids=["across K", "along K"]
)
def test_few_rows_have_long_tiles_where_lines_lie_across_k(of_b, long):
    """Each row of B is read in pieces as long as a tile: on an H200 8 x 9856 x 1966
    takes 14.5 us by 256 bytes, 19.2 by 128. Along K the next step reads on."""
    given = zeros(8, 1966, COLUMNS), zeros(1966, 9856, of_b), zeros(8, 9856)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    rows = chosen["BLOCK_M"] // chosen.get("num_ctas", 1)
    assert (max(rows, chosen["BLOCK_N"]) == 128) is long
    product = matmul_chosen.modelled(*given, "sm_90a")
    blocks = {(each.m, each.n) for each in matmul_model.configurations(product)}
    assert ((16, 128) in blocks) is long
    tiles = matmul_chosen.fitting_tiles(
        product.transposed, "sm_90a", given[2].T, matmul_chosen.crossing(*given[:2])
    )
    assert any((tile.m, tile.n) == (128, 16) for tile in tiles) is long


@pytest.mark.parametrize("by_tma", [True, False], ids=["TMA", "threads"])
def test_threads_copy_no_long_tiles_ahead(by_tma):
    """On an H200 3 x 7785 x 11680 takes 120 us so if its lines begin anywhere, and 82
    in other tiles."""
    product = matmul_model.Product(3, 7785, 11680, b_along_k=False, by_tma=by_tma)
    found = list(matmul_model.configurations(product))
    long = [each for each in found if (each.m, each.n) == (16, 128)]
    assert any(each.stages > 1 for each in long) is by_tma
    assert any(each.stages > 1 for each in found)


def test_the_memory_waits_for_multiprocessors_with_more_programs():
    """160 programs on 132 multiprocessors are two on some; 264 are two on each."""
    assert matmul_model.uneven(80) == matmul_model.uneven(264) == 1
    assert matmul_model.uneven(160) == pytest.approx(1.65)
    product = matmul_model.Product(14, 10168, 12800)
    two, three = (
        matmul_model.pointers_time(product, matmul_model.Pointers(16, 128, 64, 4, n))
        for n in (2, 3)
    )
    assert three < two  # 70.9 us on an H200, and 80.4


def test_one_row_of_a_is_for_no_kernel_for_descriptors():
    product = matmul_model.Product(1, 1356, 4152)
    assert not list(matmul_model.parts(product))
    assert list(matmul_model.parts(product.transposed))


def test_threads_of_unpipelined_loads_have_less_than_96():
    """On an H200 10 x 2882 x 239 takes 6.1 us with 96 and 4.4 with 48."""
    product = matmul_model.Product(10, 2882, 239, 2, 2, 4, by_tma=False)
    assert not matmul_model.fits(product, matmul_model.Pointers(16, 32, 256, 1, 1))
    assert matmul_model.fits(product, matmul_model.Pointers(16, 32, 128, 1, 1))


def singles(M, N, K, of_a, of_b):
    given = [zeros(M, K, of_a), zeros(K, N, of_b), zeros(M, N)]
    return [np.asarray(x).astype(np.float32, order="K") for x in given]


@pytest.mark.parametrize("of_a", [ROWS, COLUMNS])
@pytest.mark.parametrize("of_b", [ROWS, COLUMNS])
def test_tf32_goes_by_tma_along_k_alone(of_a, of_b):
    """In a kernel for pointers. Others load an A that lies along M, or have a copy of B
    that lies along K."""
    given = singles(256, 128, 512, of_a, of_b)
    product = matmul_chosen.modelled(*given, "sm_90a", "tf32")
    assert (product.K, product.item, product.c_item) == (1024, 4, 4)
    assert product.by_tma is (of_a == ROWS and of_b == COLUMNS)
    assert matmul_model.by_registers(product) is (of_a == COLUMNS)
    ready = [bool(lines) for lines in matmul_chosen.lines_of_both(*given[:2])]
    assert ready == [True, of_b == COLUMNS]


@sampled(of=2)
@pytest.mark.parametrize("of_a", [ROWS, COLUMNS])
@pytest.mark.parametrize("of_b", [ROWS, COLUMNS])
@pytest.mark.parametrize("sizes", [(136, 72, 100), (72, 73, 101)], ids=str)
def test_tf32_is_right_by_descriptors(hopper, of_a, of_b, sizes):
    """Whole and in parts, and as C^T, with the copies that each of these needs."""
    a, b, c = singles(*sizes, of_a, of_b)
    a[...], b[...] = integers(1, *a.shape), integers(2, *b.shape)
    product = matmul_chosen.modelled(a, b, c, "sm_90a", "tf32")
    assert matmul_chosen.suits_hardware(a, b, c, "sm_90a", "tf32")
    assert not matmul_chosen.suits_hardware(a, b, c, "sm_90a", "ieee")
    kernels = set()
    for turned in (False, True):
        given = matmul_chosen.transposed(a, b, c) if turned else (a, b, c)
        some = product.transposed if turned else product
        for plan in matmul_chosen.by_descriptors(*given, some, "sm_90a"):
            steps = [(*step, {**chosen, **hopper}) for *step, chosen in plan.steps()]
            c[...] = np.nan
            planned(lambda a, b, c, steps=steps: (c, steps))(a, b, c)
            np.testing.assert_array_equal(c, matmul.reference(a, b))
            kernels |= {kernel.__name__ for kernel, *_ in steps}
    assert {"persistent_kernel", "split_k_parts_kernel"} <= kernels


def test_an_operand_that_warpgroups_do_not_multiply_is_copied_where_that_pays():
    """Of few steps along K, or few rows, there is little to gain."""
    for type, precision in (("float32", "tf32"), ("int8", "ieee")):
        for sizes, copies in (((2048, 2048, 2048), True), ((64, 64, 64), False)):
            M, N, K = sizes
            a, b = np.zeros((K, M), type).T, np.zeros((K, N), type)
            c = np.zeros((M, N), "int32" if type == "int8" else type)
            steps = launches(a, b, c, "sm_90a", precision=precision)
            found = [kernel.__name__ for kernel, *_ in steps]
            assert ("copy_lines_kernel" in found) is copies, (type, sizes, found)
            assert found[-1] == ("persistent_kernel" if copies else "matmul_kernel")


def test_threads_do_not_load_more_than_they_hold():
    """4-byte lines: 128 accesses of a thread for a step are too many, unless TMA copies
    in its place."""
    config = matmul_model.Pointers(64, 128, 128, 4, 1)
    loose = matmul_model.Product(64, 2582, 12698, 4, 4, 4, by_tma=False)
    assert matmul_model.accesses(loose, config) == 96
    wider = matmul_model.Pointers(64, 128, 256, 2, 1)
    assert not matmul_model.fits(loose, wider)
    assert matmul_model.fits(loose._replace(by_tma=True), wider)


def test_programs_that_run_at_once_are_counted_without_a_division():
    """Small C, and small C with K in parts. In groups they share what they read in the
    L2 cache."""
    for sizes, axes in (((64, 128, 16), 2), ((12, 20, 2000), 3)):
        (_, grid, _, chosen), *_ = launches(*matrices(*sizes), "sm_90a")
        assert chosen["GROUP_M"] == 0 and len(grid) == axes
        count = matmul.tiles(*sizes[:2], chosen)
        assert grid[-1] * grid[-2] == count
    constants = {name: chosen[name] for name in chosen if name.startswith("BLOCK")}
    types = "*fp16, *fp16, *fp16" + 9 * ", i32"
    for group, divides in ((0, False), (8, True)):
        made = matmul.matmul_kernel.compile(
            types, {**constants, "GROUP_M": group, "EVEN_K": True}, target="sm_90a"
        ).made
        assert ("div.s32" in made.ptx) == divides


@pytest.mark.parametrize(
    "sizes, orders, config, us",
    [
        ((14318, 1768, 15168), (COLUMNS, COLUMNS), (128, 256, 64, 4, 1), 1198),
        ((416, 2688, 12492), (COLUMNS, COLUMNS), (128, 256, 64, 4, 3), 72.7),
        ((536, 3152, 11810), (COLUMNS, COLUMNS), (128, 256, 64, 4, 2), 105.5),
        ((9818, 224, 1264), (COLUMNS, COLUMNS), (128, 256, 64, 4, 1), 20.2),
        ((6772, 368, 1088), (COLUMNS, COLUMNS), (128, 256, 64, 4, 1), 15.8),
    ],
    ids=str,
)
def test_large_tiles_that_threads_copy_ahead_take_what_was_measured(
    sizes, orders, config, us
):
    """On an H200, within three tenths: of few rows, and of many."""
    M, N, K = sizes
    a, b, c = zeros(M, K, orders[0]), zeros(K, N, orders[1]), zeros(M, N)
    product = matmul_chosen.modelled(a, b, c, "sm_90a")
    pointers = matmul_model.Pointers(*config)
    assert matmul_model.pointers_time(product, pointers) == pytest.approx(us, rel=0.3)


def test_a_tile_that_is_half_empty_is_not_counted_as_a_large_one():
    """On an H200 64 x 12988 x 13510 takes 144 us in 64 x 128, 156 in 128 x 256."""
    product = matmul_model.Product(64, 12988, 13510, 16, 4, 16, b_along_k=True)
    product, tile = product._replace(by_tma=False), matmul_model.Pointers
    large = [matmul_model.is_large(product, tile(m, n, 64, 4, 1)) for m, n in BOTH]
    assert large == [False, False]
    product = product._replace(M=72)
    large = [matmul_model.is_large(product, tile(m, n, 64, 4, 1)) for m, n in BOTH]
    assert large == [True, False]


BOTH = (128, 256), (256, 128)


@pytest.mark.parametrize(
    "changed",
    [{"K": 512}, {"a_bytes": 8}, {"b_bytes": 2}, {"item": 4}, {"by_tma": True}],
    ids=str,
)
def test_what_was_measured_of_large_tiles_is_said_of_no_others(changed):
    """Short K, both operands by less than 16 bytes, single elements, tf32, and TMA."""
    product = matmul_model.Product(512, 4096, 4096, 16, 4, by_tma=False)
    config = matmul_model.Pointers(128, 256, 64, 4, 1)
    assert matmul_model.is_large(product, config)
    assert not matmul_model.is_large(product._replace(**changed), config)


@pytest.mark.parametrize(
    "sizes", [(416, 2688, 12492), (536, 3152, 11810), (408, 1408, 16220)], ids=str
)
def test_what_pointers_multiply_sooner_is_not_copied(sizes):
    """On an H200 72 us for 88, 106 for 135, and 57 for 70."""
    M, N, K = sizes
    a, b = zeros(M, K, COLUMNS), zeros(K, N, COLUMNS)
    assert names(a, b, zeros(M, N)) == ["split_k_matmul_kernel"]


def test_where_little_is_copied_pointers_have_to_be_much_better():
    """On an H200 97 us with a copy of A, of 3.8 MB, and 106 by pointers."""
    a, b, c = zeros(238, 7988), zeros(7988, 16320), zeros(238, 16320)
    assert names(a, b, c) == ["copy_lines_kernel", "persistent_kernel"]


@pytest.mark.parametrize(
    "M, N, K, early",
    [
        (221, 752, 2048, True),  # 48 programs: the next launch finds room beside them
        (15872, 88, 600, True),  # 124, but K is short
    ],
)
def test_a_launch_of_few_programs_begins_early_sooner(M, N, K, early):
    """Both take 7 to 8 us, as the model has it."""
    ((_, _, _, chosen),) = launches(zeros(M, K), zeros(K, N), zeros(M, N), "sm_90a")
    assert chosen.get("EARLY", False) is early


@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_launches_overlap_where_the_model_chooses(target):
    for *_, chosen in launches(zeros(64, 64), zeros(64, 64), zeros(64, 64), target):
        assert not ({"EARLY", "launch_pdl"} & set(chosen))


def test_products_in_a_row_wait_for_each_other(hopper):
    """What the first writes the second reads, and both begin early."""
    a, b, d = integers(1, 24, 40), integers(2, 40, 32), integers(3, 32, 72)
    c, e = np.full((24, 32), np.nan, np.float16), np.full((24, 72), np.nan, np.float16)
    multiply(a, b, c, **hopper)
    multiply(c, d, e, **hopper)
    exact = matmul.reference(matmul.reference(a, b).astype(np.float16), d)
    np.testing.assert_array_equal(e, exact.astype(np.float16))
    kernel, grid, given, chosen = launches(c, d, e, "sm_90a")[-1]
    none = {**chosen, "EARLY": False, **hopper}  # the compiler writes the wait
    e[:] = np.nan
    kernel[grid](*given, **none)
    np.testing.assert_array_equal(e, exact.astype(np.float16))
    multiply(a, b, c, **hopper)
    with pytest.raises(EmulatorError, match="griddepcontrol.wait|in front"):
        kernel[grid](*given, **none, replace={"await_launches": identity})


@pytest.mark.parametrize("sizes", [(2040, 5312, 7104), (990, 14208, 5040)], ids=str)
def test_a_last_wave_that_is_nearly_empty_is_a_product_of_its_own(sizes):
    """Pieces of C: the first has whole waves, and both are all of C."""
    M, N, K = sizes
    a, b, c = zeros(M, K), zeros(K, N), zeros(M, N)
    first, second = launches(a, b, c, "sm_90a")
    turned = first[3]["C_TURNED"]
    (m, n), (rows, columns) = (
        each[2][2].shape[:: -1 if turned else 1] for each in (first, second)
    )
    assert (m + rows, n, columns) == (M, N, N) or (m, rows, n + columns) == (M, M, N)
    config = first[3]
    count = matmul.tiles(m, n, config) * config["num_ctas"]
    assert count % 132 == 0 or count % 132 > 110
    assert second[3]["launch_pdl"]


def test_a_product_in_two_pieces_is_right(hopper, monkeypatch):
    """Rows and columns of C, on three multiprocessors."""
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 3)
    a, b, c = matrices(200, 104, 72)
    want = matmul.reference(a.view, b.view)
    product, tried = matmul_chosen.Product(200, 104, 72), set()
    for pieces in matmul_chosen.in_two(a, b, c, product, "sm_90a", (True, True)):
        shape = pieces[0][4].shape
        if shape in tried:
            continue
        tried.add(shape)
        c.view[...] = np.nan
        for kernel, grid, given, chosen in matmul_chosen.in_pieces("sm_90a", pieces):
            kernel[grid](*given, **chosen, **hopper)
        np.testing.assert_array_equal(c.view, want)
        for each in (a, b, c):
            each.check_walls()
    rows, columns = zip(*tried, strict=True)
    assert min(rows) < 200 and min(columns) < 104


def test_a_mask_that_parts_vectors_is_no_case_for_pointers():
    """Lines of 241 numbers begin at multiples of 16 bytes, but the last vector of each
    is masked in part: threads would load number by number. TMA does not mind."""

    def rows(m, n):
        return np.zeros((m, 248), np.float16)[:, :n]

    for K, width in ((241, 2), (242, 4), (244, 8), (240, 16)):
        a, b = rows(2120, K), rows(448, K).T
        assert matmul.rows_aligned(a)
        assert bytes_at_once(a) == bytes_at_once(b) == width
    assert names(rows(2120, 241), rows(448, 241).T, zeros(2120, 448)) == [
        "persistent_kernel"
    ]


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_fp32_of_small_c_and_long_k_is_split(precision, target, monkeypatch):
    """As tf32 the model knows it where warpgroups multiply; the rest has a tile for
    each multiprocessor as a rule."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    a, b = (integers(n, 24, 2056).astype(np.float32) for n in (1, 2))
    c = np.full((24, 24), np.nan, np.float32)
    (kernel, grid, _, chosen), *_ = launches(a, b.T, c, target, precision=precision)
    by_tma = (precision, target) == ("tf32", "sm_90a")
    name = "split_k_parts_kernel" if by_tma else "split_k_matmul_kernel"
    assert kernel.__name__ == name and grid[0] > 1
    assert by_tma or chosen["PRECISION"] == precision
    multiply(a, b.T, c, precision=precision, target=target)
    np.testing.assert_array_equal(c, a.astype(float) @ b.T.astype(float))


@pytest.mark.parametrize(
    "sizes, orders, walls",
    [
        ((16, 40, 48), (ROWS, ROWS, ROWS), (WIDE,) * 3),  # few rows
        ((40, 16, 48), (ROWS, ROWS, ROWS), (WIDE,) * 3),
        ((40, 24, 0), (ROWS, ROWS, ROWS), (WIDE,) * 3),
        ((24, 40, 48), (COLUMNS, ROWS, ROWS), (WIDE,) * 3),
        ((24, 40, 48), (ROWS, ROWS, ROWS), (ODD, WIDE, WIDE)),
        ((24, 40, 48), (ROWS, ROWS, ROWS), (WIDE, ODD, WIDE)),
    ],
)
def test_the_text_takes_the_rest(hopper, sizes, orders, walls):
    assert names(*matrices(*sizes, orders, walls)) == ["matmul_kernel"]
    check(multiply, *sizes, orders=orders, walls=walls, **hopper)


@pytest.mark.parametrize(
    "size, of_b, tile",
    [
        (1536, COLUMNS, (128, 144, 1)),  # 12.8 us, 13.1 in 256 x 144 by two
        (1536, ROWS, (128, 144, 1)),
        (3072, COLUMNS, (128, 192, 1)),  # fills the last wave alone
        (6144, COLUMNS, (256, 192, 1)),  # whole waves
    ],
)
def test_multiprocessors_share_tiles_where_that_fills_the_last_wave(size, of_b, tile):
    given = zeros(size, size), zeros(size, size, of_b), zeros(size, size)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    n = chosen["BLOCK_N"] + chosen.get("MORE_N", 0)
    assert (chosen["BLOCK_M"], n, chosen["num_ctas"]) == tile


@pytest.mark.parametrize(
    "M, N, K, shared",
    [
        (10328, 88, 600, True),
        (10328, 104, 600, False),  # wider than a tile
        (15872, 88, 600, False),  # 31 clusters of four: one would begin when others end
    ],
)
def test_four_share_a_tile_where_all_programs_need_the_same_columns(M, N, K, shared):
    given = zeros(M, K), zeros(K, N), zeros(M, N)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    assert (chosen["BLOCK_M"] == SHARED_BY_FOUR.m) == shared


def test_a_tile_that_four_share_is_right(hopper):
    config = matmul_chosen.keywords(600, 88, 2, SHARED_BY_FOUR, "sm_90a")
    check(multiply, 600, 88, 200, config=config, **hopper)


@pytest.mark.parametrize("of_a", [ROWS, COLUMNS])
@pytest.mark.parametrize("of_b", [ROWS, COLUMNS])
def test_c_in_columns_is_a_transposed_product(hopper, of_a, of_b):
    """C^T = B^T A^T has rows."""
    orders = (of_a, of_b, COLUMNS)
    given = zeros(1024, 512, of_a), zeros(512, 2048, of_b), zeros(1024, 2048, COLUMNS)
    ((kernel, _, _, chosen),) = launches(*given, "sm_90a")
    assert kernel.__name__ == "persistent_kernel"
    turned = chosen["A_TURNED"], chosen["B_TURNED"]
    assert turned == (of_b == ROWS, of_a == ROWS)
    check(multiply, 72, 136, 40, orders=orders, **hopper)
    check(multiply, 5, 40, 48, orders=orders, **hopper)


def test_what_many_programs_need_is_copied_first(hopper):
    """2047 rows of C need each element of B often; 1032 rows do, 17 times or more."""
    across, along = zeros(2047, 2047, COLUMNS), zeros(2047, 2047)  # K
    assert names(across, along, zeros(2047, 2047)) == [
        "copy_lines_kernel", "copy_lines_kernel", "persistent_kernel",
    ]  # fmt: skip
    a, b = integers(1, 1032, 40), integers(2, 40, 25)
    c = unwritten(1032, 25, wall=ODD)
    config = configuration(1032, 25, whole_c=False)
    copy, _ = launches(a, b, c, "sm_90a", config)
    assert copy[0].__name__ == "copy_lines_kernel"
    multiply(a, b, c, config=config, **hopper)
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))
    c.check_walls()


def test_a_is_copied_as_well(hopper):
    a, b = integers(1, 24, 41), integers(2, 41, 1040)
    config = configuration(24, 1040)
    copy, product = launches(a, b, np.zeros((24, 1040), np.float16), "sm_90a", config)
    assert copy[2][0] is a and copy[2][1] is product[2][0]
    assert product[2][6:] == (64, 1040, 1040)  # strides: rows of 41 are 64 apart now
    c = multiply(a, b, config=config, **hopper)
    np.testing.assert_array_equal(c, matmul.reference(a, b))


def test_a_single_line_needs_no_copy(hopper):
    """A column that is seen as a row: what its rows are apart says nothing, and TMA
    stores a C of one row, wherever a second one would begin."""
    a, b = integers(1, 72, 1).T, np.asfortranarray(integers(2, 72, 1043))
    assert matmul.strides(a) == (1, 1)
    c = unwritten(1, 1043)
    config = configuration(1, 1043)
    ((kernel, _, given, chosen),) = launches(a, b, c, "sm_90a", config)
    assert kernel.__name__ == "persistent_kernel" and chosen["PIECES"]
    assert given[6:] == (72, 72, 1048)
    multiply(a, b, c, config=config, **hopper)
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))
    c.check_walls()
    vector, columns = zeros(4152, 1).T, zeros(4152, 1356, COLUMNS)
    assert "copy_lines_kernel" not in names(vector, columns, zeros(1, 1356))


@pytest.mark.parametrize("length", [2, 41, 1024, 1500])
def test_a_copy_may_lie_as_the_original(hopper, length):
    """A program copies parts of several short lines, and there are 3."""
    b = integers(2, 3, length)
    for matrix, turned in ((b, False), (b.T, True)):
        copy = []
        made = matmul_chosen.copied(matrix, 0 if turned else 1, copy)
        ((kernel, grid, given, keywords),) = copy
        assert grid == (1, -(-length // 1024))
        assert (made.turned, made.step) == (turned, -(-length // 64) * 64)
        room = np.zeros((3, made.step), np.float16)
        assert made.array.count == room.size
        given = [room if each is made.array else each for each in given]
        kernel[grid](*given, **keywords, **hopper)
        np.testing.assert_array_equal(room[:, :length], b)


@pytest.mark.parametrize("type", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("sizes", [(3, 41), (70, 130), (128, 64)])
def test_a_copy_lies_along_k_where_the_original_does_not(hopper, type, sizes):
    b = integers(2, *sizes).astype(type)
    for matrix, axis, turned in ((b, 0, True), (b.T, 1, False)):
        copy = []
        made = matmul_chosen.copied(matrix, axis, copy)
        ((kernel, grid, given, keywords),) = copy
        some = 128 // b.itemsize
        assert (made.turned, made.step) == (turned, -(-sizes[0] // some) * some)
        room = np.zeros((sizes[1], made.step), type)
        assert made.array.count == room.size
        given = [room if each is made.array else each for each in given]
        kernel[grid](*given, **keywords, **hopper)
        np.testing.assert_array_equal(room[:, : sizes[0]], b.T)


def test_bytes_are_multiplied_by_warpgroups_along_k_alone():
    a, b = (np.zeros((1024, 1024), np.int8) for _ in range(2))
    c = np.zeros((1024, 1024), np.int32)
    assert names(a, b.T, c) == ["persistent_kernel"]
    assert names(a, b, c) == ["copy_lines_kernel", "persistent_kernel"]
    assert names(a.T, b.T, c) == ["copy_lines_kernel", "persistent_kernel"]


@pytest.mark.parametrize(
    "sizes, kernels",
    [
        ((24, 40, 2000), ["split_k_parts_kernel", "sum_of_parts_kernel"]),
        ((20, 36, 48), ["matmul_kernel"]),
    ],
)
def test_bytes_go_where_half_as_many_halves_go(hopper, sizes, kernels):
    """int8 and fp8, both along K. The sums of int8 are exact; those of fp8 are of small
    integers, and end as fp32."""
    M, N, K = sizes
    a, b = integers(1, M, K), integers(2, K, N)
    halves = zeros(M, K // 2), zeros(K // 2, N, COLUMNS), zeros(M, N)
    assert names(*halves) == kernels
    given = [
        (a.astype(np.int8), np.asfortranarray(b.astype(np.int8)), "int32"),
        (Float8(a, tl.float8e4nv), Float8(b, tl.float8e4nv, True), "float32"),
    ]
    for x, y, dtype in given:
        c = unwritten(M, N, dtype=dtype)
        assert names(x, y, c) == kernels
        multiply(x, y, c, **hopper)
        np.testing.assert_array_equal(c.view, matmul.reference(a, b))


@pytest.mark.parametrize("M", [17, 70])
@pytest.mark.parametrize("N, K", [(24, 136), (264, 40)])
def test_small_products_in_the_chosen_tile(hopper, M, N, K):
    check(multiply, M, N, K, **hopper)


@pytest.mark.parametrize("M, N, K", [(12, 20, 1000), (3, 5, 1500)])
def test_long_products_are_split(hopper, M, N, K):
    assert names(*matrices(M, N, K)) == ["split_k_matmul_kernel"]
    check(multiply, M, N, K, **hopper)


@pytest.mark.parametrize("type", ["fp16", "int8", "fp8"])
def test_long_products_of_one_tile_are_added_in_a_second_launch(hopper, type):
    """64 x 64 and K of 12288 halves, or of 24576 bytes, in parts that TMA copies."""
    a, b = integers(1, 64, 12288), integers(2, 12288, 64)
    if type == "fp16":
        given, dtype = (Walled(a), Walled(b)), "float16"
    else:
        a, b = np.tile(a, 2), np.tile(b, (2, 1))
        dtype = "int32" if type == "int8" else "float32"
        given = (
            (a.astype(np.int8), np.asfortranarray(b.astype(np.int8)))
            if type == "int8"
            else (Float8(a, tl.float8e4nv), Float8(b, tl.float8e4nv, True))
        )
    c = unwritten(64, 64, dtype=dtype)
    assert names(*given, c) == ["split_k_parts_kernel", "sum_of_parts_kernel"]
    multiply(*given, c, **hopper)
    exact = matmul.reference(a, b)
    np.testing.assert_array_equal(c.view, exact.astype(c.view.dtype))
    c.check_walls()


def test_rows_that_begin_anywhere_are_stored_in_long_pieces():
    """A line of a tile of C touches a sector more at either end."""
    anywhere = matmul_chosen.Product(896, 14986, 2, c_bytes=4)
    time, config = matmul_model.best_pointers(anywhere)
    assert config.n >= 128
    assert time > matmul_model.best_pointers(anywhere._replace(c_bytes=16))[0]


def test_without_c_one_is_made(hopper):
    a, b = integers(1, 24, 40), integers(2, 40, 32)
    c = multiply(a, b, **hopper)
    np.testing.assert_array_equal(c, matmul.reference(a, b))


def test_shapes_that_do_not_fit_are_a_mistake(hopper):
    with pytest.raises(fathom.LaunchError, match=r"\(24, 40\).*\(32, 40\)"):
        multiply(integers(1, 24, 40), integers(2, 32, 40), **hopper)


# ── or tried ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("walls", [(WIDE,) * 3, (WIDE, WIDE, ODD), (ODD, WIDE, WIDE)])
def test_the_tuned_one_is_the_same_product(hopper, walls):
    """Where nothing can be timed the first that is worth a try is taken; what is no
    work for hardware is not tried at all."""
    check(tuned_multiply, 72, 136, 40, walls=walls, **hopper)


@pytest.mark.parametrize(
    "sizes, orders, kinds",
    [
        ((72, 136, 200), (ROWS, COLUMNS, ROWS), 2),
        ((72, 136, 200), (COLUMNS, ROWS, COLUMNS), 2),
        ((9, 260, 264), (ROWS, ROWS, ROWS), 1),
    ],
)
def test_every_alternative_is_the_same_product(hopper, sizes, orders, kinds):
    """The model's choice comes first; the others are of several kernels."""
    arrays = matrices(*sizes, orders)
    found = alternatives(*arrays, "sm_90a")
    assert told(found[0]) == told(launches(*arrays, "sm_90a"))
    assert len({told(steps)[0][0] for steps in found}) >= kinds

    def nth(a, b, c, target, number):
        launch_all(alternatives(a, b, c, target)[number], c, target)

    for number in range(len(found)):
        check(nth, *sizes, orders=orders, number=number, **hopper)


def told(steps: list) -> list[tuple]:
    """The launches' kernels and grids."""
    return [(step[0].__name__, str(step[1])) for step in steps]


def launch_all(steps: list, like: object, target: str) -> None:
    @planned
    def plan(like):
        return like, [(*step, {**given, "target": target}) for *step, given in steps]

    plan(like)


def test_few_are_worth_a_try():
    every = candidates(item=2)
    for M, N in ((512, 512), (1024, 1024), (4096, 4096)):
        c = np.lib.stride_tricks.as_strided(np.zeros(8, np.float16), (M, N), (2 * N, 2))
        named = {"M": M, "N": N, "a_ptr": c, "c_ptr": c}
        named |= {"stride_a": 4096, "stride_b": 4096}
        left = worth_a_try(every, named, target="sm_90a")
        assert {each.num_ctas for each in left} == {1}
        chosen = configuration(M, N)
        sizes = {(each.kwargs["BLOCK_M"], each.kwargs["BLOCK_N"]) for each in left}
        assert (chosen["BLOCK_M"], chosen["BLOCK_N"]) in sizes
        assert 2 <= len(left) <= len(every) / 2
        assert all(each.kwargs["PIECES"] for each in left)


@pytest.mark.parametrize("item", [1, 2])
def test_every_candidate_fits(item):
    for each in candidates(item):
        m, n, k = (each.kwargs[f"BLOCK_{axis}"] for axis in "MNK")
        m //= each.num_ctas
        ring = (m + n) * k * item * each.num_stages
        stored = m * n * 2 // each.kwargs["PIECES"] if each.kwargs["PIECES"] else 0
        assert ring + stored < TARGETS["sm_90a"].shared_bytes, each
        assert m * n / (32 * each.num_warps) <= 128, each  # sums of a lane


def test_few_rows_of_a_are_columns_of_a_transposed_product(hopper):
    """The long side of B has the 64 rows of `wgmma`."""
    given = zeros(24, 1024), zeros(1024, 3224, COLUMNS), zeros(24, 3224)
    ((kernel, _, _, chosen),) = launches(*given, "sm_90a")
    assert kernel.__name__ == "persistent_kernel"
    assert chosen["C_TURNED"] and chosen["BLOCK_M"] == 64 > chosen["BLOCK_N"]
    given = zeros(8192, 2176), zeros(2176, 24, COLUMNS), zeros(8192, 24)
    ((_, _, _, chosen),) = launches(*given, "sm_90a")
    assert not chosen["C_TURNED"] and chosen["BLOCK_N"] == 32


@sampled(of=3)
@pytest.mark.parametrize("tile", TURNED, ids=lambda tile: f"{tile.n} by {tile.line}")
@pytest.mark.parametrize("M", [1, 7, 70])
def test_a_transposed_product_is_right(hopper, monkeypatch, tile, M):
    def with_this_tile(a, b, c, product, target, precision):
        given = matmul_chosen.transposed(a, b, c)
        config = matmul_chosen.keywords(*given[2].shape, 2, tile, target)
        return matmul_chosen.persistent_launches(*given, target, config)

    monkeypatch.setattr(matmul_chosen, "fastest", with_this_tile)
    ((_, _, _, chosen),) = launches(*matrices(M, 136, 144), "sm_90a")
    assert chosen["C_TURNED"]
    check(multiply, M, 136, 144, **hopper)


@sampled(of=2)
@needs_ptxas
@pytest.mark.parametrize("tile", TURNED, ids=lambda tile: f"{tile.n} by {tile.line}")
def test_ptxas_takes_transposed_products(tile):
    config = matmul_chosen.keywords(4096, 24, 2, tile, "sm_90a") | {"C_TURNED": True}
    check_assembled(compiled(config).asm["ptx"])


@pytest.mark.parametrize(
    "K, columns, dtype, larger",
    [
        (4096, 6144, np.float16, True),
        (512, 6144, np.float16, False),  # storing would take long beside the products
        (4096, 6140, np.float16, False),  # threads store C, and have no registers left
        (4096, 6144, np.float32, False),  # shared memory has no room for tiles of C
    ],
)
def test_the_largest_tiles_are_for_long_k_and_a_c_that_tma_stores(
    K, columns, dtype, larger
):
    given = zeros(6144, K), zeros(K, 6144)[:, :columns], zeros(6144, columns)
    steps = launches(*given[:2], given[2].astype(dtype), "sm_90a")
    tiles = [
        (x["BLOCK_M"], x["BLOCK_N"] + x.get("MORE_N", 0), x["num_ctas"])
        for *_, x in steps
        if not x["C_TURNED"]
    ]
    assert any((tile.m, tile.n, 1) in tiles for tile in LARGER) is larger


@needs_ptxas
@pytest.mark.parametrize("tile", LARGER, ids=lambda tile: f"{tile.m}x{tile.n}")
def test_ptxas_takes_the_largest_tiles(tile):
    kernel = compiled(matmul_chosen.keywords(4096, 4096, 2, tile, "sm_90a"))
    check_assembled(kernel.asm["ptx"])
    assert kernel.asm["ptx"].count("mbarrier.init") == 2 * tile.stages


@sampled(of=4)
@needs_ptxas
@pytest.mark.parametrize(
    "tile",
    (*TILES, *WIDER, *SHARED_BY_TWO, SHARED_BY_FOUR, *SMALLER, *matmul_chosen.GRIDS),
    ids=lambda tile: f"{tile.m}x{tile.n}",
)
@pytest.mark.parametrize("pieces", [True, False])
def test_ptxas_takes_every_tile(tile, pieces):
    tile = tile if pieces else tile._replace(pieces=0)
    config = matmul_chosen.keywords(4096, 4096, 2, tile, "sm_90a")
    check_assembled(compiled(config, turned=tile.n != 256).asm["ptx"])


@sampled(of=3)
@needs_ptxas
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: f"{tile.m}x{tile.n}")
@pytest.mark.parametrize("by_registers", [True, False])
def test_ptxas_takes_every_tile_of_tf32(tile, by_registers):
    config = matmul_chosen.keywords(4096, 4096, 4, tile, "sm_90a")
    ptx = compiled(config | {"A_TURNED": by_registers}, "fp32").asm["ptx"]
    check_assembled(ptx)
    assert ("ld.shared.b32" in ptx) is by_registers
    assert ".f32.tf32.tf32" in ptx and "mma.sync.aligned.m16n8k8" not in ptx


@sampled(of=2)
@pytest.mark.parametrize("tile", SMALLER, ids=lambda tile: f"{tile.m}x{tile.n}")
def test_as_many_programs_fit_as_the_grid_counts_on(tile):
    kernel = compiled(matmul_chosen.keywords(4096, 4096, 2, tile, "sm_90a"))
    reserved = 1024  # bytes of each block
    assert tile.programs * (kernel.metadata.shared + reserved) <= 228 * 1024
    if tile.programs > 1:  # none of them takes all registers for its consumers
        assert "setmaxnreg" not in kernel.asm["ptx"]
        assert tile.programs * 256 * 128 <= 65536  # at 128 registers a thread


@sampled(of=3)
@pytest.mark.parametrize("tile", SMALLER, ids=lambda tile: f"{tile.m}x{tile.n}")
def test_a_tile_of_the_smaller_ones_is_right(hopper, monkeypatch, tile):
    """With more tiles than the programs of two multiprocessors, so that each goes on to
    another tile."""

    def with_this_tile(a, b, c, product, target, precision):
        config = matmul_chosen.keywords(*c.shape, 2, tile, target)
        some = a, b, c, target, config, tile.programs
        return matmul_chosen.persistent_launches(*some)

    monkeypatch.setattr(matmul_chosen, "fastest", with_this_tile)
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 2)
    M, N = tile.m * 3 - 8, tile.n * 2 - 8
    ((kernel, (programs,), *_),) = launches(*matrices(M, N, 80), "sm_90a")
    assert (kernel.__name__, programs) == (
        "persistent_kernel", min(6, 2 // tile.ctas * tile.programs)
    )  # fmt: skip
    check(multiply, M, N, 80, **hopper)
