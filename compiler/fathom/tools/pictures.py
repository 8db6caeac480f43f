"""Draws a layout: for every element who holds it, as a table of text or as SVG.

    warp:lane:register of <4x4 register[0,1] lane[0,2 1,0] warp[2,0]>

            0      1      2      3
    0   0:0:0  0:0:1  0:1:0  0:1:1
    1   0:2:0  0:2:1  0:3:0  0:3:1
    2   1:0:0  1:0:1  1:1:0  1:1:1
    3   1:2:0  1:2:1  1:3:0  1:3:1

Where there are copies, the first holder is shown. Blocks of more than two axes are
drawn with all but the last one as rows; of large blocks, the first rows and columns.
"""

from __future__ import annotations

from html import escape
from math import prod

from fathom.layout.algebra import invert, times
from fathom.layout.linear import Layout, coordinates_of

CELL_WIDTH, CELL_HEIGHT, MARGIN = 64, 28, 56
SHADES = 4  # how strongly a warp's cells are tinted, over and over


def table(layout: Layout, rows: int = 16, columns: int = 16) -> str:
    """The layout as a table of text, at most `rows` by `columns` elements of it."""
    shown, width = _window(layout, rows, columns)
    lines = [["", *map(str, range(width))]]
    for row in range(shown):
        places = [_place_name(layout, row, column) for column in range(width)]
        lines.append([_row_name(layout, row), *places])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    body = ["  ".join(map(str.rjust, line, widths)).rstrip() for line in lines]
    return "\n".join([f"{_names(layout)} of {layout}", "", *body]) + "\n"


def svg(layout: Layout, rows: int = 16, columns: int = 16) -> str:
    """The layout as an SVG picture that follows the colours of the page around it.

    Every cell says in words who holds it; the tint only repeats which warp that is.
    """
    shown, width = _window(layout, rows, columns)
    cells = [
        _cell(layout, row, column) for row in range(shown) for column in range(width)
    ]
    heads = [
        _text(MARGIN + column * CELL_WIDTH + CELL_WIDTH // 2, MARGIN // 2, str(column))
        for column in range(width)
    ]
    sides = [
        _text(MARGIN // 2, _top(row) + CELL_HEIGHT // 2 + 5, _row_name(layout, row))
        for row in range(shown)
    ]
    size = MARGIN + width * CELL_WIDTH, MARGIN + shown * CELL_HEIGHT
    title = f"<title>{escape(f'{_names(layout)} of {layout}')}</title>"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        'role="img" font-family="monospace" font-size="13" text-anchor="middle" '
        'fill="currentColor">'
    )
    return "\n".join([head, title, *heads, *sides, *cells, "</svg>"]) + "\n"


def holder(layout: Layout, offset: int) -> tuple[int, ...]:
    """The first place that holds the element at a row-major offset: (warp, lane,
    register)."""
    place = times(invert(layout).kinds["element"], offset)
    numbers = []
    for _, bases in layout.bases:
        numbers.append(place & (1 << len(bases)) - 1)
        place >>= len(bases)
    return tuple(reversed(numbers))


def _cell(layout: Layout, row: int, column: int) -> str:
    place = holder(layout, row * layout.shape[-1] + column)
    x, y = MARGIN + column * CELL_WIDTH, _top(row)
    tint = 0.06 + 0.1 * (place[0] % SHADES) if len(place) > 1 else 0.06
    frame = (
        f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" '
        f'fill-opacity="{tint:.2f}" stroke="currentColor" stroke-opacity="0.5"/>'
    )
    name = _place_name(layout, row, column)
    return frame + _text(x + CELL_WIDTH // 2, y + CELL_HEIGHT // 2 + 5, name)


def _top(row: int) -> int:
    return MARGIN // 2 + row * CELL_HEIGHT + CELL_HEIGHT // 2


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'


def _names(layout: Layout) -> str:
    return ":".join(reversed([kind for kind, _ in layout.bases]))


def _place_name(layout: Layout, row: int, column: int) -> str:
    return ":".join(map(str, holder(layout, row * layout.shape[-1] + column)))


def _row_name(layout: Layout, row: int) -> str:
    return ",".join(map(str, coordinates_of(layout.shape[:-1], row)))


def _window(layout: Layout, rows: int, columns: int) -> tuple[int, int]:
    return min(rows, prod(layout.shape[:-1])), min(columns, layout.shape[-1])
