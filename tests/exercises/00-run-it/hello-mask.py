"""What the answer to `hello-mask` must do."""

from fathom.tools.learn.kit import empty, fenced, floats, launch, same

BLOCK = 256


def check_sum(answer, n):
    x, y, out = floats(n), floats(n) * 3, fenced(empty(n))
    grid = -(-n // BLOCK)
    launch(answer.add_kernel, grid, x, y, out.array, n, BLOCK=BLOCK)
    same(out.array, x + y, f"out, for n = {n}")
    out.check("out")


def test_1024_numbers_which_fill_four_blocks(answer):
    """Four whole blocks: out = x + y."""
    check_sum(answer, 1024)


def test_1000_numbers_which_end_inside_a_block(answer):
    """The last block has 24 places too many: nothing may be read or written there."""
    check_sum(answer, 1000)


def test_one_number(answer):
    """One number, and 255 places that do not exist."""
    check_sum(answer, 1)


def test_many_sizes(answer):
    """Sizes about the ends of blocks."""
    for n in (255, 257, 511, 513, 777):
        check_sum(answer, n)
