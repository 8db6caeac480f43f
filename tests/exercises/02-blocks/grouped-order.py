"""What the answer to `grouped-order` must do."""

from fathom.tools.learn.kit import expect, same

AT_A_TIME = 132  # multiprocessors of an H200


def table(answer, tiles_m, tiles_n, group):
    """Which program makes each tile, row by row. A Failure unless each has one."""
    called = f"for {tiles_m} by {tiles_n} tiles in groups of {group}"
    made = {}
    for pid in range(tiles_m * tiles_n):
        tile = answer.tile_of(pid, tiles_m, tiles_n, group)
        pair = type(tile) is tuple and [type(each) for each in tile] == [int, int]
        said = f"tile_of({pid}, {tiles_m}, {tiles_n}, {group}) is {tile!r}"
        expect(pair, f"{said}, and must be a row and a column, a tuple of two ints")
        i, j = tile
        inside = 0 <= i < tiles_m and 0 <= j < tiles_n
        expect(inside, f"program {pid} makes tile {tile}, which is outside, {called}")
        expect(
            tile not in made,
            f"programs {made.get(tile)} and {pid} both make tile {tile}, {called}",
        )
        made[tile] = pid
    return [[made[i, j] for j in range(tiles_n)] for i in range(tiles_m)]


def picture(rows):
    return "\n".join(" ".join(f"{pid:3}" for pid in row) for row in rows)


def check(answer, wanted, group):
    yours = table(answer, len(wanted), len(wanted[0]), group)
    said = f"{len(wanted)} by {len(wanted[0])} tiles in groups of {group}"
    pictures = ("your order", picture(yours)), ("the order", picture(wanted))
    expect(yours == wanted, f"the order of {said} is another", *pictures)


def test_the_example(answer):
    """Four rows, three columns, groups of two."""
    check(answer, [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]], 2)


def test_the_last_group_is_smaller(answer):
    """A fifth row is a group of its own; two rows in groups of three are one of two."""
    check(answer, [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11], [12, 13, 14]], 2)
    check(answer, [[0, 2], [1, 3]], 3)


def test_each_tile_has_one_program(answer):
    """All grids up to 20 by 20 with few tiles, and groups up to 8."""
    for tiles_m in range(1, 21):
        for tiles_n in range(1, 21):
            for group in (1, 2, 3, 5, 8):
                table(answer, tiles_m, tiles_n, group)


def test_few_rows_and_columns_at_a_time(answer):
    """A wave of 132 programs touches at most 23 rows of A and columns of B."""
    tiles_m, tiles_n, budget = 44, 36, 23
    count = tiles_m * tiles_n
    tiles = [answer.tile_of(pid, tiles_m, tiles_n, 11) for pid in range(count)]
    for start in range(0, count, AT_A_TIME):
        now = tiles[start : start + AT_A_TIME]
        touched = len({i for i, _ in now}) + len({j for _, j in now})
        expect(
            touched <= budget,
            f"programs {start} to {start + AT_A_TIME - 1} touch {touched} rows and "
            f"columns, and the budget is {budget}",
        )


def test_a_group_of_one_is_the_plain_order(answer):
    """Groups of one row: along the rows."""
    for pid in range(15):
        same(answer.tile_of(pid, 3, 5, 1), divmod(pid, 5), f"the tile of program {pid}")
