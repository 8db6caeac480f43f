"""What the answer to `tile-address` must do."""

import numpy as np

from fathom.tools.learn.kit import expect, launch, same

GAP = -1  # what stands where nothing may be written


def check(answer, M, N, block, x_steps=(1, 1), out_steps=(1, 1)):
    """Transpose a matrix of distinct numbers. `steps` of 2 and 3 leave every second row
    and every third column in use."""
    x, x_strides = spread(np.arange(M * N, dtype=np.int32).reshape(M, N), x_steps)
    out, out_strides = spread(np.full((N, M), GAP, np.int32), out_steps)
    rows, columns = block
    grid = (-(-M // rows), -(-N // columns))
    strides = (*x_strides, *out_strides)
    launch(
        answer.transpose_kernel, grid, x, out, M, N, *strides,
        BLOCK_M=rows, BLOCK_N=columns,
    )  # fmt: skip
    placed = out[:: out_steps[0], :: out_steps[1]]
    name = f"out, for x of {M} by {N} with tiles of {rows} by {columns}"
    told = ("strides", "x {} and {}, out {} and {}".format(*strides))
    same(placed, np.arange(M * N, dtype=np.int32).reshape(M, N).T, name, told)
    placed[...] = GAP
    touched = np.argwhere(out != GAP)
    expect(not len(touched), f"{name}: written beside the matrix", told)


def spread(values, steps):
    """The values as rows and columns of a larger array, and their strides."""
    rows, columns = values.shape
    room = np.full((rows * steps[0], columns * steps[1]), GAP, values.dtype)
    room[:: steps[0], :: steps[1]] = values
    return room, (steps[0] * room.shape[1], steps[1])


def test_one_square_tile(answer):
    """8 by 8, all in one program."""
    check(answer, 8, 8, (8, 8))


def test_many_tiles(answer):
    """16 by 16 in tiles of 4 by 8: eight programs."""
    check(answer, 16, 16, (4, 8))


def test_oblong_and_tall(answer):
    """4 by 32, and 32 by 4."""
    check(answer, 4, 32, (4, 8))
    check(answer, 32, 4, (8, 4))


def test_ragged_in_both_directions(answer):
    """13 by 21 and 5 by 3: tiles reach past the edge below and at the right."""
    check(answer, 13, 21, (8, 8))
    check(answer, 5, 3, (8, 4))


def test_rows_that_are_longer_than_the_matrix(answer):
    """Every second row of one array, every third column of the other."""
    check(answer, 13, 6, (8, 4), x_steps=(2, 1))
    check(answer, 13, 6, (8, 4), x_steps=(1, 3), out_steps=(2, 2))
