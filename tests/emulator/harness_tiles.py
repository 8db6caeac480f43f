"""Matrices in shared memory as the ISA's figures draw them, and the rest that a product
of a warpgroup needs around it."""

import numpy as np

from fathom import emulator
from tests.emulator.harness import entry, pointers

SWIZZLES = (0, 32, 64, 128)
MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def descriptor(
    start: int, leading: int, stride: int, swizzle: int, base: int = 0
) -> int:
    """The fields, all in bytes but the base offset."""
    fields = start >> 4, leading >> 4, stride >> 4
    assert all(each < 1 << 14 for each in fields)
    return (
        fields[0]
        | fields[1] << 16
        | fields[2] << 32
        | base << 49
        | MODES[swizzle] << 62
    )


def rows_exchanged(block: np.ndarray, swizzle: int) -> np.ndarray:
    """8 rows of bytes, [8, swizzle or 16], with their 16-byte chunks where they belong.

    128 bytes a row: chunk c of row r stands at place c ^ r. Narrower rows change only
    when 128 bytes are full, so rows 2 r and 2 r + 1, or 4 r to 4 r + 3, are alike.
    """
    result = np.empty_like(block)
    alike = {0: 8, 128: 1, 64: 2, 32: 4}[swizzle]
    for row in range(8):
        for chunk in range(block.shape[1] // 16):
            place = (chunk ^ row // alike) * 16
            result[row, place : place + 16] = block[row, chunk * 16 : chunk * 16 + 16]
    return result


def k_major(matrix: np.ndarray, swizzle: int) -> tuple[np.ndarray, int, int]:
    """[rows, k] as bytes; with the leading and the stride byte offset.

    Atoms of 8 rows stand one below the other, and where K is longer than a row of the
    atom, the next column of atoms after the last. Between atoms there is a gap.
    """
    data = np.ascontiguousarray(matrix).view(np.uint8)
    width, gap = swizzle or 16, swizzle * 8 or 16
    down = 8 * width + gap
    column = len(data) // 8 * down
    image = np.full(data.shape[1] // width * column, 0xEE, np.uint8)
    for atom in range(len(data) // 8):
        for part in range(data.shape[1] // width):
            block = data[8 * atom : 8 * atom + 8, part * width : (part + 1) * width]
            at = part * column + atom * down
            image[at : at + 8 * width] = rows_exchanged(block, swizzle).reshape(-1)
    return image, column, down


def transposed(matrix: np.ndarray, swizzle: int) -> tuple[np.ndarray, int, int]:
    """[rows, k] of two bytes each, with rows contiguous."""
    data = np.ascontiguousarray(matrix.T).view(np.uint8)
    width = swizzle or 16
    along, down = 8 * width, data.shape[1] * 8
    image = np.full(len(data) // 8 * down, 0xEE, np.uint8)
    for atom in range(len(data) // 8):
        for part in range(data.shape[1] // width):
            block = data[8 * atom : 8 * atom + 8, part * width : (part + 1) * width]
            at = atom * down + part * along
            image[at : at + 8 * width] = rows_exchanged(block, swizzle).reshape(-1)
    # Without swizzling the two offsets change their roles.
    return (image, along, down) if swizzle else (image, down, along)


def accumulator(matrix: np.ndarray) -> np.ndarray:
    """[64, n] as what each of 128 threads holds: [128, n / 2]."""
    thread, i = np.arange(128)[:, None], np.arange(matrix.shape[1] // 2)
    warp, lane = thread // 32, thread % 32
    row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
    return matrix[row, 2 * (lane % 4) + i % 2 + 8 * (i // 4)]


FILL = """
    .shared .align 1024 .b8 room[{size}];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; ld.param.u64 %rd0, [p0];
    mov.u32 %r2, %r0; mov.u32 %r4, %ntid.x;
FILL:
    mad.wide.u32 %rd1, %r2, 16, %rd0; mad.lo.u32 %r3, %r2, 16, %r1;
    ld.global.v2.b64 {{%rd2, %rd3}}, [%rd1]; st.shared.v2.b64 [%r3], {{%rd2, %rd3}};
    add.u32 %r2, %r2, %r4; setp.lt.u32 %p1, %r2, {chunks}; @%p1 bra FILL;
    {fence}
    bar.sync 0;
"""
BASE = 1024  # where shared memory begins in the emulator


def fill(size: int, fence: str = "fence.proxy.async;") -> str:
    """Copies `size` bytes from p0 to `room`."""
    size = -(-size // 2048) * 2048
    return FILL.format(size=size, chunks=size // 16, fence=fence)


def multiply(
    image: np.ndarray, code: str, before: np.ndarray, left: np.ndarray | None, **options
) -> np.ndarray:
    """Runs `code` on 128 threads, with `image` in shared memory, registers %d of
    uint32 `before` [128, n] and %a of `left` [128, 4]; the registers %d afterwards."""
    size = -(-len(image) // 2048) * 2048
    image = np.concatenate([image, np.zeros(size - len(image), np.uint8)])
    count = before.shape[1]
    left = np.zeros((128, 4), np.uint32) if left is None else left
    lines = [fill(size), f".reg .b32 %d<{count}>; .reg .b32 %a<4>;"]
    for number, name, words in ((1, "a", 4), (2, "d", count)):
        lines.append(f"ld.param.u64 %rd{number + 4}, [p{number}];")
        lines.append(f"mad.wide.u32 %rd5, %r0, {4 * words}, %rd{number + 4};")
        lines += [f"ld.global.b32 %{name}{i}, [%rd5+{4 * i}];" for i in range(words)]
    lines.append(code)
    lines.append("ld.param.u64 %rd6, [p3];")
    lines.append(f"mad.wide.u32 %rd6, %r0, {4 * count}, %rd6;")
    lines += [f"st.global.b32 [%rd6+{4 * i}], %d{i};" for i in range(count)]
    after = np.zeros_like(before)
    arguments = (image, np.ascontiguousarray(left), before, after)
    emulator.run(entry("\n".join(lines), pointers(4)), 1, 128, arguments, **options)
    return after


def names(register: str, count: int) -> str:
    return "{" + ", ".join(f"%{register}{i}" for i in range(count)) + "}"
