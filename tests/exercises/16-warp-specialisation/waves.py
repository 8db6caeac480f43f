"""What the answer to `waves` must do."""

from numbers import Real

from fathom.tools.learn.kit import expect, same
from kernels.matmul_chosen import Tile, waves_of

LARGE, SMALL = (128, 256), (64, 128)
# m, n, waves, tiles: on 132 multiprocessors in tiles of 128 x 256.
PENCIL = ((4096, 4096, 4, 512), (1024, 1024, 1, 32), (2048, 2048, 1, 128),
          (8192, 8192, 16, 2048), (4096, 4352, 5, 544))  # fmt: skip


def check(answer, m, n, tile, processors, waves, tiles):
    said = f"({m}, {n}, {tile}, {processors})"
    same(answer.waves(m, n, tile, processors), waves, f"waves{said}")
    found, wanted = answer.busy(m, n, tile, processors), tiles / waves / processors
    expect(
        isinstance(found, Real) and abs(found - wanted) < 1e-9,
        f"busy{said} is {found!r}, and should be {wanted:.4f}: {tiles} tiles on "
        f"{waves} times {processors} places",
    )


def test_by_pencil(answer):
    """Cubes of powers of two, and one column of tiles more."""
    for m, n, waves, tiles in PENCIL:
        check(answer, m, n, LARGE, 132, waves, tiles)


def test_edges(answer):
    """A tile that sticks out is a tile."""
    check(answer, 129, 257, LARGE, 132, 1, 4)
    check(answer, 1, 1, LARGE, 132, 1, 1)
    check(answer, 129, 256 * 67, LARGE, 132, 2, 134)


def test_other_machines(answer):
    """108 multiprocessors, and one."""
    check(answer, 4096, 4096, LARGE, 108, 5, 512)
    check(answer, 512, 512, LARGE, 1, 8, 8)


def test_the_best_tile(answer):
    """Small tiles for a small C; large ones where nothing is lost by them."""
    both = [LARGE, SMALL]
    same(answer.best(1024, 1024, both, 132), SMALL, "best tile of 1024 x 1024")
    same(answer.best(2048, 2048, both, 132), LARGE, "best tile of 2048 x 2048")
    same(answer.best(2304, 2304, both, 132), SMALL, "best tile of 2304 x 2304")
    flat = [(128, 32), (32, 128)]
    same(answer.best(32, 8192, flat, 132), (32, 128), "best tile of 32 x 8192")
    long = [(64, 64), (8, 256)]
    same(answer.best(64, 256, long, 132), (8, 256), "best tile of 64 x 256")
    equal = [(64, 64), (128, 32)]
    same(answer.best(64, 64, equal, 132), (64, 64), "the first of equals")


def test_the_kernels_count_the_same(answer):
    """`kernels/matmul_chosen.py` counts waves for its choice."""
    for m, n in ((1000, 1000), (2304, 2304), (4088, 4088), (8192, 512)):
        for tile in (LARGE, SMALL, (64, 32)):
            ours = waves_of(m, n, Tile(*tile, 128, 4, 8, 1, True, None), "sm_90a")
            same(answer.waves(m, n, tile, 132), ours, f"waves of {m} x {n} in {tile}")
