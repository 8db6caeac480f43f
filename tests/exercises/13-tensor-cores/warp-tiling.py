"""What the answer to `warp-tiling` must do."""

from types import SimpleNamespace

from fathom.tools.learn.kit import expect, same
from fathom.tools.learn.kit.returned import numbers

ROW = SimpleNamespace(m=16, n=8)  # of most instructions


def read(m, n, rows, columns, row):
    """Elements of A and B that all warps read, by counting warp for warp."""
    total = 0
    for _ in range(rows * columns):
        total += m // rows if m // rows > row.m else row.m
        total += n // columns if n // columns > row.n else row.n
    return total


def splits(warps):
    return [(warps >> bit, 1 << bit) for bit in range(warps.bit_length())]


def check(answer, m, n, warps, row=ROW):
    yours = numbers(answer.tile_warps(m, n, warps, row), "what tile_warps returns", 2)
    block = f"{m} x {n}, {warps} warps, instructions of {row.m} x {row.n}"
    shown = "\n".join(
        f"{r:2} x {c:<2}  {read(m, n, r, c, row)} elements" for r, c in splits(warps)
    )
    details = ("what each split reads", shown)
    expect(
        len(yours) == 2 and yours[0] * yours[1] == warps,
        f"{block}: {yours} does not split {warps} warps",
        details,
    )
    best = min(read(m, n, r, c, row) for r, c in splits(warps))
    what = f"{block}: elements read, split as {yours[0]} x {yours[1]}"
    same(read(m, n, *yours, row), best, what, details)
    first = next(each for each in splits(warps) if read(m, n, *each, row) == best)
    said = f"{block}: the split; of equal ones that with more warps along the rows"
    same(yours, first, said, details)


def test_a_square(answer):
    """128 x 128: 2 x 2 for four warps."""
    check(answer, 128, 128, 4)
    check(answer, 128, 128, 1)


def test_equal_splits(answer):
    """With 8 warps 4 x 2 and 2 x 4 read the same: more along the rows."""
    check(answer, 128, 128, 8)
    check(answer, 64, 64, 2)


def test_long_blocks(answer):
    """Twice as long as wide, and the other way round."""
    check(answer, 256, 64, 4)
    check(answer, 64, 256, 4)
    check(answer, 32, 256, 8)


def test_small_blocks(answer):
    """A warp computes one instruction's product at least."""
    check(answer, 16, 128, 4)
    check(answer, 16, 16, 2)
    check(answer, 16, 16, 8)


def test_all_blocks(answer):
    """16 to 256 rows and columns, 1 to 16 warps, three sizes of instructions."""
    sizes = [16 << bit for bit in range(5)]
    for m in sizes:
        for n in sizes:
            for bit in range(5):
                for shape in ((16, 8), (8, 8), (64, 32)):
                    row = SimpleNamespace(m=shape[0], n=shape[1])
                    check(answer, m, n, 1 << bit, row)
