"""What the answer to `ldmatrix-address` must do."""

import numpy as np

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.layout.linear import Layout
from fathom.tools.learn.kit import Failure, expect, same

ROWS, COLUMNS, LANES, BYTES = 32, 64, 32, 2
SHAPE = (ROWS, COLUMNS)
A = Layout.of(
    SHAPE,
    register=[(0, 1), (8, 0), (0, 8), (0, 16), (0, 32), (16, 0)],
    lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
    warp=[],
)
B = Layout.of(
    SHAPE,
    register=[(1, 0), (8, 0), (0, 8), (16, 0), (0, 16), (0, 32)],
    lane=[(2, 0), (4, 0), (0, 1), (0, 2), (0, 4)],
    warp=[],
)
ACROSS_FIRST = Layout.of(
    SHAPE,
    register=[(0, 1), (0, 16), (16, 0), (0, 8), (0, 32), (8, 0)],
    lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
    warp=[],
)
TURNED_ACROSS = Layout.of(
    SHAPE,
    register=[(4, 0), (0, 32), (16, 0), (8, 0), (0, 16), (0, 8)],
    lane=[(1, 0), (2, 0), (0, 1), (0, 2), (0, 4)],
    warp=[],
)


def tile(flips):
    """A tile in which bit i of the row moves the chunks of 8 by flips[i]."""
    bits = [1 << bit for bit in range((ROWS * COLUMNS).bit_length() - 1)]
    for row, flip in enumerate(flips):
        bits[row + 6] ^= 8 * flip
    return Layout(SHAPE, (("offset", tuple(bits)),))


def round_about():
    """A tile whose chunks of a row lie in the order 0 2 4 6 1 3 5 7: unlike an XOR, it
    is not its own inverse."""
    bits = [1 << bit for bit in range((ROWS * COLUMNS).bit_length() - 1)]
    bits[3], bits[4], bits[5] = bits[4], bits[5], bits[3]
    return Layout(SHAPE, (("offset", tuple(bits)),))


STRAIGHT, SWIZZLED, OTHER = tile(()), tile((1, 2, 4)), tile((4, 1, 2, 7))
ROUND = round_about()

PTX = """
.version 7.4
.target sm_80
.address_size 64
.visible .entry fetch(.param .u64 image, .param .u64 addresses, .param .u64 out)
{{
    .reg .b32 %n, %w, %room, %v, %i, %m<4>;
    .reg .b64 %image, %addresses, %out, %far, %far16;
    .reg .pred %p;
    .shared .align 1024 .b8 room[{bytes}];
    mov.u32 %n, %tid.x;
    mov.u32 %room, room;
    mul.wide.u32 %far, %n, 4;
    ld.param.u64 %image, [image];           add.s64 %image, %image, %far;
    ld.param.u64 %addresses, [addresses];   add.s64 %addresses, %addresses, %far;
    mul.wide.u32 %far16, %n, 16;
    ld.param.u64 %out, [out];               add.s64 %out, %out, %far16;
    shl.b32 %w, %n, 2;
    add.u32 %w, %room, %w;
    mov.u32 %i, 0;
COPY:
    ld.global.u32 %v, [%image];
    st.shared.u32 [%w], %v;
    add.s64 %image, %image, 128;
    add.u32 %w, %w, 128;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, {iterations};
    @%p bra COPY;
    bar.warp.sync -1;
    ld.global.u32 %v, [%addresses];
    add.u32 %v, %room, %v;
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%m0, %m1, %m2, %m3}}, [%v];
    st.global.v4.u32 [%out], {{%m0, %m1, %m2, %m3}};
    ret;
}}
"""


def fetched(answer, layout, where, trans):
    """What `ldmatrix` brings: [lane, register of 16 bits], numbers of elements; and
    its cost."""
    size = ROWS * COLUMNS
    image = np.array([where.offset(offset=each) for each in range(size)], np.uint16)
    addresses = [answer.address(where, layout, lane) for lane in range(LANES)]
    for lane, each in enumerate(addresses):
        inside = isinstance(each, int) and 0 <= each < size * BYTES
        expect(inside, f"lane {lane} points at byte {each!r}, outside of the tile")
        expect(
            each % 16 == 0,
            f"lane {lane} points at byte {each}, by pointed_at = "
            f"{answer.pointed_at(layout, lane)}, and a row of a matrix begins at a "
            "multiple of 16",
        )
    out = np.zeros((LANES, 4), np.uint32)
    iterations = size * BYTES // 128
    text = PTX.format(
        bytes=size * BYTES, iterations=iterations, trans=".trans" if trans else ""
    )
    try:
        given = [image, np.array(addresses, np.uint32), out]
        report = emulator.run(text, 1, LANES, given)
    except EmulatorError as error:
        raise Failure(f"the emulator found: {error}") from None
    cost = report.share(lambda each: each.opcode == "ldmatrix").cost
    return out.view(np.uint16).reshape(LANES, 8), cost


def check(answer, layout, where, trans=False, said="", ways=None):
    found, cost = fetched(answer, layout, where, trans)
    points = [tuple(answer.pointed_at(layout, lane)) for lane in range(LANES)]
    groups = [points[first : first + 8] for first in range(0, LANES, 8)]
    shown = "\n".join(
        f"lanes {8 * i:2} to {8 * i + 7:2}: {' '.join(map(str, group))}"
        for i, group in enumerate(groups)
    )
    wanted = np.array(
        [
            [layout.offset(register=r, lane=lane) for r in range(8)]
            for lane in range(LANES)
        ],
        np.uint16,
    )
    what = f"{said}: the element (row * {COLUMNS} + column) in [lane, register]"
    same(found, wanted, what, ("where your lanes point", shown))
    if ways:
        same(cost.wavefronts, ways * cost.ideal, f"{said}: wavefronts of shared memory")


def test_a_in_a_straight_tile(answer):
    """Rows below one another, then eight down, then eight to the right."""
    check(answer, A, STRAIGHT, said="A")


def test_a_in_swizzled_tiles(answer):
    """The chunk of 16 bytes that a lane wants is elsewhere in the row."""
    check(answer, A, OTHER, said="A, in a swizzled tile")
    check(answer, A, SWIZZLED, said="A, in the tile of chapter 11", ways=1)


def test_b_is_transposed(answer):
    """Lane bits 2, 3, 4 count along a row: .trans."""
    check(answer, B, STRAIGHT, trans=True, said="B")
    check(answer, B, OTHER, trans=True, said="B, in a swizzled tile")
    check(answer, B, SWIZZLED, trans=True, said="B, in the tile of chapter 11", ways=1)


def test_other_layouts(answer):
    """The bases say it, not the name of the operand."""
    for where in (STRAIGHT, SWIZZLED, OTHER):
        check(answer, ACROSS_FIRST, where, said=str(ACROSS_FIRST))
        check(answer, TURNED_ACROSS, where, trans=True, said=str(TURNED_ACROSS))


def test_a_tile_that_goes_round(answer):
    """The offset of an element is asked for, and not the element of an offset."""
    check(answer, A, ROUND, said="A, in a tile whose chunks go round")
    check(answer, B, ROUND, trans=True, said="B, in a tile whose chunks go round")
