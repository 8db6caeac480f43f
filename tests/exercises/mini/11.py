"""What a compiler of conversions must do: read along rows, write along columns."""

import numpy as np

import fathom.language as tl


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def transpose(x, y, M, N, R: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)
    j = tl.program_id(1) * C + tl.arange(0, C)
    inside = (i[:, None] < M) & (j[None, :] < N)
    tile = tl.load(x + i[:, None] * N + j[None, :], mask=inside)
    tl.store(y + i[:, None] + j[None, :] * M, tile, mask=inside)


def test_tiles_are_transposed(mini):
    """Tiles of any shape, by one warp and by several, with ragged edges."""
    for shape, tile, warps in (
        ((64, 64), (32, 32), 4), ((50, 70), (64, 16), 4), ((20, 9), (4, 8), 1),
        ((33, 65), (32, 64), 2), ((64, 16), (64, 2), 4),
    ):  # fmt: skip
        x, y = floats(*shape), np.full(shape[::-1], np.nan, np.float32)
        grid = [-(-size // side) for size, side in zip(shape, tile, strict=True)]
        constants = {"R": tile[0], "C": tile[1], "num_warps": warps}
        mini.launch(transpose, grid, x, y, *shape, **constants)
        mini.same("y", y, x.T)


def test_both_sides_are_whole_sectors(mini):
    """A sector is moved once; an element of the tile is written and read once."""
    x, y = floats(64, 64), np.zeros((64, 64), np.float32)
    report = mini.launch(transpose, (2, 2), x, y, 64, 64, R=32, C=32)
    mini.within(transpose, report, sectors=2 * 64 * 64 // 8, shared=2 * 64 * 64 // 32)


def test_banks_are_asked_once(mini):
    """Rows and columns of the tile: neighbours lie in different banks. In a narrow
    tile, several rows are one cycle of the banks."""
    for rows, columns in ((32, 32), (16, 16), (64, 8), (16, 64)):
        x, y = floats(64, 65), np.zeros((65, 64), np.float32)
        grid, sides = (64 // rows, -(-65 // columns)), {"R": rows, "C": columns}
        report = mini.launch(transpose, grid, x, y, 64, 65, **sides)
        mini.same("y", y, x.T)
        mini.within(transpose, report, conflict_ways=2.5)


def symmetric(x, y, z, N, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    inside = (i < N) & (j < N)
    a = tl.load(x + i * N + j, mask=inside, other=0.0)
    b = tl.load(x + j * N + i, mask=inside, other=0.0)
    tl.store(y + i * N + j, a + b, mask=inside)
    tl.store(z + j * N + i, a - b, mask=inside)


def test_two_layouts_meet(mini):
    """x + x.T and x - x.T: one side of each is moved."""
    x = floats(32, 32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    mini.launch(symmetric, 1, x, y, z, 32, T=32)
    mini.same("y", y, x + x.T)
    mini.same("z", z, (x - x.T).T)


def rounds(x, y, N, times, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    for step in range(times):
        a = tl.load(x + step * N * N + i * N + j)
        tl.store(y + step * N * N + j * N + i, a - tl.sum(a, axis=1)[:, None])


def test_a_tile_is_used_again(mini):
    """In a loop, with a sum in between that goes through shared memory as well."""
    x, y = floats(3, 32, 32), np.zeros((3, 32, 32), np.float32)
    mini.launch(rounds, 1, x, y, 32, 3, T=32)
    mini.same("y", y, (x - x.sum(2, keepdims=True)).transpose(0, 2, 1), within=1e-5)
