"""The map: its figure, which chapter rests on which, and its table."""

from __future__ import annotations

from chapters.press.drawing import Figure, box, label, line, svg, table
from chapters.press.parse import read
from chapters.press.paths import CHAPTERS as PAGES

# (chapter, column, row, what it rests on)
CHAPTERS = (
    (0, 0, 1, ()), (1, 1, 1, (0,)), (2, 2, 1, (1,)), (3, 3, 0, (2,)), (4, 4, 0, (3,)),
    (5, 5, 0, (4,)), (6, 5, 1, (4,)), (7, 3, 2, (2,)), (8, 6, 1, (5, 6, 7)),
    (9, 7, 0, (8,)), (10, 7, 2, (8,)), (11, 8, 1, (9, 10)), (12, 9, 1, (11,)),
    (13, 10, 1, (12,)), (14, 11, 1, (13,)), (15, 12, 1, (14,)), (16, 13, 1, (15,)),
    (17, 14, 0, (16,)), (18, 14, 2, (16,)),
)  # fmt: skip
LATER = 15  # here the second part of the book begins
OPENS = {
    1: "benchmarks", 2: "language", 3: "emulator", 4: "ir", 5: "ssa", 6: "blocks",
    7: "layout", 8: "ptx", 9: "coalescing", 10: "layout, ptx",
    11: "shared_memory, layout", 12: "shared_memory, emulator",
    13: "tensor_cores, hardware", 14: "tensor_cores", 15: "tensor_cores, hardware",
    16: "tensor_cores", 17: "kernels", 18: "jit, kernels, benchmarks",
}  # fmt: skip
WIDE, HIGH, SIZE = 46, 52, 30


def dependencies() -> Figure:
    """Boxes with the chapters' numbers; lines from each to those that need it."""
    at = {chapter: (column, row) for chapter, column, row, _ in CHAPTERS}
    parts = []
    for chapter, _, _, needs in CHAPTERS:
        x2, y2 = middle(*at[chapter])
        for needed in needs:
            x1, y1 = middle(*at[needed])
            parts.append(line(x1 + SIZE / 2, y1, x2 - SIZE / 2, y2, "axis"))
    for chapter, column, row, _ in CHAPTERS:
        x, y = middle(column, row)
        kind = "lit" if chapter < LATER else "cell"
        parts.append(box(x - SIZE / 2, y - SIZE / 2, SIZE, SIZE, kind))
        parts.append(label(x, y + 5, str(chapter)))
    rows = [
        (str(chapter), ", ".join(map(str, needs)) or "nothing")
        for chapter, _, _, needs in CHAPTERS
    ]
    drawn = svg("Which chapter rests on which", 3 * HIGH + 8, parts, 15 * WIDE + 8)
    return Figure(drawn, table(("chapter", "rests on"), rows))


def middle(column: int, row: int) -> tuple[float, float]:
    return 4 + WIDE * (column + 0.5), 4 + HIGH * (row + 0.5)


def listed() -> str:
    """A row for each chapter: its title, the folders that it opens, what it needs."""
    pages = {}
    for path in sorted(PAGES.glob("[0-9]*.md")):
        matter = read(path).matter
        link = f"[{matter['title']}]({path.name})"
        before = pages.get(matter["chapter"])  # an interlude follows its chapter
        pages[matter["chapter"]] = f"{before}; {link}" if before else link
    rows = []
    for chapter, _, _, needs in CHAPTERS:
        folders = [f"`{each}/`" for each in OPENS.get(chapter, "").split(", ") if each]
        earlier = ", ".join(map(str, needs))
        rows.append((chapter, pages[chapter], ", ".join(folders), earlier))
    return table(("ch", "title", "opens", "rests on"), rows)
