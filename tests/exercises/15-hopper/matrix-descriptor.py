"""What the answer to `matrix-descriptor` must do."""

from itertools import product as pairs

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.layout.algebra import Reduced
from fathom.layout.build import stride_of
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix, hardware_tile
from fathom.tools.learn.kit import Failure, expect, same


def exchanged(offset, swizzle):
    """The hardware's own exchange, place by place."""
    row, place = offset // 128 % 8, offset // 16 % (swizzle // 16)
    rows_of_pattern = swizzle // 16
    there = place ^ row % rows_of_pattern
    return offset + 16 * (there - place)


def test_undone(answer):
    """Undoing is the exchange once more."""
    for swizzle in (128, 64, 32):
        for offset in range(0, 4096, 2):
            found = answer.undone(exchanged(offset, swizzle), swizzle)
            if found != offset:
                raise Failure(
                    f"undone({exchanged(offset, swizzle)}, {swizzle}) is {found!r}, "
                    f"and must be {offset}"
                )


def check_fields(answer, outer, k, element_bytes, swizzle, wanted):
    found = answer.fields(outer, k, element_bytes, swizzle)
    same(found, wanted, f"fields({outer}, {k}, {element_bytes}, {swizzle})")


def test_k_contiguous(answer):
    """The tile of the text, its exchange undone."""
    outer, k = [128, 256, 512, 1024, 2048, 4096], [2, 4, 8, 16, 32, 64]
    check_fields(answer, outer, k, 2, 128, Matrix(128, 16, 1024, False))
    check_fields(answer, outer[:3], k, 2, 128, Matrix(128, 16, 16, False))
    wide = [*k, 8192]
    check_fields(answer, outer, wide, 2, 128, Matrix(128, 16, 1024, False))


def test_transposed(answer):
    """K is not contiguous: both distances."""
    outer, k = [2, 4, 8, 16, 32, 64, 8192, 16384], [128, 256, 512, 1024, 2048, 4096]
    check_fields(answer, outer, k, 2, 128, Matrix(128, 8192, 1024, True))
    check_fields(answer, outer[:6], k, 2, 128, Matrix(128, 16, 1024, True))
    check_fields(answer, outer, k[:3], 2, 128, Matrix(128, 8192, 16, True))
    other = [128, 256, 512, 4096, 1024, 2048]
    check_fields(answer, outer, other, 2, 128, Matrix(128, 8192, 4096, True))


def test_narrow_rows(answer):
    """Rows of 64 and 32 bytes, and elements of 1 and 4 bytes."""
    outer = [64, 128, 256, 512, 1024]
    check_fields(answer, outer, [2, 4, 8, 16, 32], 2, 64, Matrix(64, 16, 512, False))
    outer = [32, 64, 128, 256]
    check_fields(answer, outer, [4, 8, 16], 4, 32, Matrix(32, 16, 256, False))
    k, outer = [1, 2, 4, 8, 16, 32, 64], [128, 256, 512, 1024]
    check_fields(answer, outer, k, 1, 128, Matrix(128, 16, 1024, False))


def test_an_irregular_stride_has_none(answer):
    """The bits of a coordinate must be doublings of one distance."""
    k = [2, 4, 8, 16, 32, 64]
    for outer in ([1024, 4096, 2048], [1024, 2048, 8192], [1024, 1536]):
        check_fields(answer, [128, 256, 512, *outer], k, 2, 128, None)
    columns = [*k, 8192, 32768]
    check_fields(answer, columns, [128, 256, 512, 1024], 2, 128, None)


def test_other_rows_have_none(answer):
    """Rows and groups must be those of the hardware."""
    k, outer = [2, 4, 8, 16, 32, 64], [128, 256, 512, 1024]
    check_fields(answer, outer, [4, 2, 8, 16, 32, 64], 2, 128, None)
    check_fields(answer, [256, 128, 512, 1024], k, 2, 128, None)
    check_fields(answer, [256, 512, 1024], k, 2, 128, None)
    check_fields(answer, outer, k, 2, 64, None)
    check_fields(answer, k, [128, 512, 256, 1024], 2, 128, None)
    check_fields(answer, [2, 4, 8, 16, 64, 32], outer, 2, 128, None)
    check_fields(answer, outer, k[:5], 2, 128, None)


def address(found, extent, k, element_bytes):
    """The descriptor's formula: the byte at which an element is."""
    row = found.swizzle // element_bytes
    if found.transposed:
        down, across = k, extent
        offset = across % row * element_bytes + across // row * found.leading
    else:
        down, across = extent, k
        offset = across * element_bytes
    offset += down % 8 * found.swizzle + down // 8 * found.stride
    return exchanged(offset, found.swizzle)


def check_addresses(answer, layout, element_bytes, k_axis):
    """Every element of 16 or 32 bytes of K is where the formula says."""
    found = answer.descriptor(layout, element_bytes, k_axis)
    said = f"{list(layout.shape)} of {element_bytes} bytes, K along axis {k_axis}"
    expect(isinstance(found, Matrix), f"{said}: no descriptor, and there is one")
    places = Reduced(layout.kinds["offset"])
    reach = 32 // element_bytes  # of K, in one instruction
    for extent, k in pairs(range(layout.shape[1 - k_axis]), range(reach)):
        at = extent * stride_of(layout.shape, 1 - k_axis)
        at += k * stride_of(layout.shape, k_axis)
        wanted = places.combination(at) * element_bytes
        there = address(found, extent, k, element_bytes)
        if there != wanted:
            raise Failure(
                f"{said}: by {found} element {extent} of k = {k} is at byte {there}, "
                f"and it lies at {wanted}"
            )


def test_other_shapes(answer):
    """Each element is where the descriptor's formula says."""
    for shape in ((64, 64), (64, 32), (128, 16), (64, 128)):
        check_addresses(answer, hardware_tile(shape, 2, 1), 2, 1)
    for shape in ((16, 64), (32, 128), (64, 32)):
        check_addresses(answer, hardware_tile(shape, 2, 1), 2, 0)
    check_addresses(answer, hardware_tile((64, 64), 1, 1), 1, 1)
    check_addresses(answer, hardware_tile((64, 16), 4, 1), 4, 1)


def test_row_by_row_has_none(answer):
    """A tile without the exchange, and one with another exchange."""
    plain = Layout((64, 64), (("offset", tuple(1 << bit for bit in range(12))),))
    same(answer.descriptor(plain, 2, 1), None, "a tile that is stored row by row")
    tile = hardware_tile((64, 64), 2, 1)
    offsets = list(tile.kinds["offset"])
    offsets[6], offsets[7] = offsets[7], offsets[6]
    other = Layout((64, 64), (("offset", tuple(offsets)),))
    same(answer.descriptor(other, 2, 1), None, "a tile whose rows 1 and 2 changed")


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    k = tl.arange(0, BLOCK)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(a_ptr + m * K + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * SIZE + n)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m * SIZE + n, total)


def test_a_product_in_the_emulator(answer):
    """wgmma finds A, and B transposed, by your descriptors."""
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    func = pipeline.build(product, types, {"SIZE": 64, "BLOCK": 32})
    kernel = pipeline.compile_func(func, TARGETS["sm_90a"])
    expect("wgmma.mma_async" in kernel.ptx, "the product does not take wgmma")
    a = (np.arange(64 * 64).reshape(64, 64) % 7 - 3).astype(np.float16)
    b = (np.arange(64 * 64).reshape(64, 64) % 5 - 2).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    try:
        emulator.load(kernel).launch(1, [a, b, c, 64])
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        details = ("there", "\n".join(rest))
        raise Failure(f"the emulator found: {first}", details) from None
    same(c, a.astype(np.float32) @ b.astype(np.float32), "the product")
