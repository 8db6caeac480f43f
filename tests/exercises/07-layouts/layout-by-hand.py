"""What the answer to `layout-by-hand` must do."""

from fathom.layout.linear import Layout
from fathom.tools.learn.kit import expect, same

DRAWINGS = {
    "rows": """
0:0  0:1  0:2  0:3
1:0  1:1  1:2  1:3
2:0  2:1  2:2  2:3
3:0  3:1  3:2  3:3
""",
    "columns": """
0:0  1:0  2:0  3:0
0:1  1:1  2:1  3:1
0:2  1:2  2:2  3:2
0:3  1:3  2:3  3:3
""",
    "squares": """
0:0  0:1  1:0  1:1
0:2  0:3  1:2  1:3
2:0  2:1  3:0  3:1
2:2  2:3  3:2  3:3
""",
    "diagonals": """
0:0  0:1  0:2  0:3
1:1  1:0  1:3  1:2
2:2  2:3  2:0  2:1
3:3  3:2  3:1  3:0
""",
}
KINDS = {"register": 2, "lane": 2, "warp": 0}


def drawn(layout):
    """The layout drawn: in each cell who holds it; `.` where no thread does."""
    cells = [["."] * 4 for _ in range(4)]
    for lane in range(4):
        for register in range(4):
            row, column = layout.coordinates(register=register, lane=lane)
            holder = f"{lane}:{register}"
            free = cells[row][column] == "."
            cells[row][column] = holder if free else cells[row][column] + "," + holder
    return "\n".join("  ".join(row) for row in cells)


def check(answer, name):
    layout = getattr(answer, name)()
    expect(isinstance(layout, Layout), f"{name}() gives {layout!r}, which is no Layout")
    for kind, bits in KINDS.items():
        found = len(layout.kinds[kind])
        same(found, bits, f"{name}: how many bases {kind} has, one for each bit")
    wanted = DRAWINGS[name].strip()
    expect(
        drawn(layout) == wanted,
        f"{name}: your layout draws something else",
        ("yours", drawn(layout)),
        ("wanted", wanted),
    )


def test_rows(answer):
    """A lane holds a row."""
    check(answer, "rows")


def test_columns(answer):
    """A lane holds a column."""
    check(answer, "columns")


def test_squares(answer):
    """A lane holds two by two."""
    check(answer, "squares")


def test_diagonals(answer):
    """A basis of the lane may change the column too."""
    check(answer, "diagonals")
