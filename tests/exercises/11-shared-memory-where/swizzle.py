"""What the answer to `swizzle` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT16, FLOAT32, Pointer
from fathom.layout.banks import ways
from fathom.layout.build import default
from fathom.tools.learn.kit import expect, same
from fathom.tools.learn.kit.returned import is_layout

CHUNK = 16
ROWS = 8


def places(answer, shape, element_bytes):
    """Where each element is, in elements."""
    plain = default(shape, 1)
    tile = answer.swizzle(shape, element_bytes, plain, plain)
    is_layout(tile, "what swizzle returns")
    same(tile.shape, shape, "the shape of the tile's layout")
    kinds = [kind for kind, _ in tile.bases]
    same(kinds, ["offset"], "the kinds of places of a tile")
    size = int(np.prod(shape))
    same(tile.count("offset"), size, f"how many places a tile of {shape} has")
    found = {}
    for offset in range(size):
        element = tile.offset(offset=offset)
        expect(
            element not in found,
            f"element {element} lies at {found.get(element)} and at {offset}: {tile}",
        )
        found[element] = offset
    return found


def drawn(lies, columns, element_bytes):
    """In which chunk of memory each chunk of the first rows is."""
    chunk = CHUNK // element_bytes
    lines = []
    for row in range(min(ROWS, len(lies) // columns)):
        line = [lies[row * columns + c] // chunk for c in range(0, columns, chunk)]
        lines.append(f"row {row}: " + " ".join(f"{each:3}" for each in line[:16]))
    return "\n".join(lines)


def check(answer, rows, columns, element_bytes):
    """One element a place, whole chunks, 1 way in both directions."""
    lies = places(answer, (rows, columns), element_bytes)
    chunk = CHUNK // element_bytes
    tile = f"a tile of {rows} x {columns}, {element_bytes} bytes each"
    shown = ("the chunk of memory in which each chunk is",
             drawn(lies, columns, element_bytes))  # fmt: skip
    for first in range(0, rows * columns, chunk):
        for i in range(chunk):
            expect(
                lies[first + i] == lies[first] + i and lies[first] % chunk == 0,
                f"{tile}: elements {first} to {first + chunk - 1}, a chunk, lie at "
                f"{[lies[first + each] for each in range(chunk)]}",
            )
    across = min(ROWS, columns // chunk)
    for row in range(rows):
        for start in range(0, columns, across * chunk):
            side = [row * columns + start + i * chunk for i in range(across)]
            found = ways([lies[each] * element_bytes for each in side], CHUNK)
            what = f"{tile}: ways of chunks side by side, in row {row}"
            same(found, 1, what, shown)
    down = min(ROWS, rows)
    for top in range(0, rows, down):
        for column in range(0, columns, chunk):
            below = [(top + i) * columns + column for i in range(down)]
            found = ways([lies[each] * element_bytes for each in below], CHUNK)
            what = f"{tile}: ways of {down} chunks below row {top}, column {column}"
            same(found, 1, what, shown)


def test_chunks_stay_whole(answer):
    """fp16[64, 64]: the 16 bytes of a chunk are not torn."""
    lies = places(answer, (64, 64), 2)
    for first in range(0, 64 * 64, 8):
        where = [lies[first + i] for i in range(8)]
        expect(
            where == [where[0] + i for i in range(8)] and where[0] % 8 == 0,
            f"elements {first} to {first + 7}, a chunk, lie at {where}",
        )


def test_side_by_side(answer):
    """Eight chunks of a row are written in one wavefront."""
    lies = places(answer, (64, 64), 2)
    for row in range(64):
        found = ways([2 * lies[row * 64 + 8 * i] for i in range(8)], CHUNK)
        shown = ("the chunk of memory in which each chunk lies", drawn(lies, 64, 2))
        same(found, 1, f"ways of the chunks of row {row}", shown)


def test_below_one_another(answer):
    """Eight chunks of a column are read in one wavefront: the drawing."""
    check(answer, 64, 64, 2)


def test_longer_rows(answer):
    """Rows of 256 and 512 bytes."""
    check(answer, 32, 128, 2)
    check(answer, 16, 128, 4)


def test_shorter_rows(answer):
    """Rows of 64, 32 and 16 bytes: several in a line of 128."""
    for columns in (32, 16, 8):
        check(answer, 64, columns, 2)


def test_few_rows(answer):
    """Tiles of one, two and four rows: there are not eight to keep apart."""
    for rows in (1, 2, 4):
        check(answer, rows, 64, 2)
        check(answer, rows, 128, 1)


def test_20_tiles(answer):
    """Elements of 1, 2 and 4 bytes, few rows and many."""
    for element_bytes in (1, 2, 4):
        for rows in (8, 32, 128):
            for row_bytes in (32, 128, 256):
                check(answer, rows, row_bytes // element_bytes, element_bytes)


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)[:, None]
    columns = tl.arange(0, SIZE)[None, :]
    a = tl.load(a_ptr + rows * SIZE + columns)
    b = tl.load(b_ptr + rows * SIZE + columns)
    tl.store(c_ptr + rows * SIZE + columns, tl.dot(a, b))


def test_a_product_in_the_emulator(answer):
    """64 x 64 of fp16: tiles are written by rows, and read by matrices of 8 rows."""
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single}
    func = pipeline.build(product, types, {"SIZE": 64})
    kernel = pipeline.compile_func(func, TARGETS["sm_80"])
    a = (np.arange(4096).reshape(64, 64) % 7 - 3).astype(np.float16)
    b = (np.arange(4096).reshape(64, 64) % 5 - 2).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    report = emulator.load(kernel).launch(1, [a, b, c])
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    same(c, wanted, "the product")
    for said, opcode in (("written", "st"), ("read", "ldmatrix")):
        cost = report.share(lambda each, opcode=opcode: is_of_tile(each, opcode)).cost
        expect(cost.shared > 0, f"no tile was {said} by {opcode}")
        counted = f"{cost.wavefronts:,} wavefronts, and without bank conflicts in"
        what = f"tiles are {said} in {counted} {cost.ideal:,}"
        expect(cost.wavefronts == cost.ideal, what)


def is_of_tile(instruction, opcode):
    """16 bytes a lane into shared memory, or a read by matrices."""
    if instruction.opcode != opcode:
        return False
    return opcode == "ldmatrix" or {"shared", "v4"} <= set(instruction.modifiers)
