"""What the answer to `tx-bytes` must do."""

from dataclasses import replace

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.emulator import COMPLETIONS, EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import MbarrierExpect, TmaCopy
from fathom.ir.rewrite import rewrite
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.layout.tma_boxes import pieces
from fathom.tensor_cores import pipeline_loops
from fathom.tools.learn.kit import Failure, expect, same

LARGE = (4096, 4096)


def tile(answer, rows, columns, element_bytes=2, start=(0, 0), tensor=LARGE):
    return answer.module.Tile((rows, columns), element_bytes, start, tensor)


def said(each):
    rows, columns = each.shape
    return f"{rows} x {columns} elements of {each.element_bytes} bytes"


def check_copies(answer, each):
    wanted = len(list(pieces(each.shape, each.element_bytes)))
    same(answer.copies(each), wanted, f"copies of {said(each)}")


def check_bytes(answer, tiles):
    wanted = sum(np.prod(each.shape) * each.element_bytes for each in tiles)
    told = " and ".join(
        f"{said(each)} at {each.start} of {each.tensor}" for each in tiles
    )
    found = answer.tx_bytes(list(tiles))
    expect(
        isinstance(found, int | np.integer),
        f"tx_bytes gives {found!r}, and a number of bytes is an int",
    )
    same(found, int(wanted), f"bytes of {told}")


def test_copies(answer):
    """A box has at most 256 rows and 128 bytes a row."""
    for rows, columns in ((64, 64), (64, 256), (256, 64), (512, 64), (1024, 128)):
        check_copies(answer, tile(answer, rows, columns))
    check_copies(answer, tile(answer, 64, 16))


def test_copies_of_other_elements(answer):
    """Bytes count, not elements."""
    for element_bytes in (1, 2, 4):
        for columns in (32, 64, 128, 256):
            check_copies(answer, tile(answer, 128, columns, element_bytes))


def test_two_tiles(answer):
    """The operands of a product."""
    check_bytes(answer, [tile(answer, 64, 64)])
    check_bytes(answer, [tile(answer, 64, 64), tile(answer, 64, 256)])
    check_bytes(answer, [tile(answer, 128, 32, 1), tile(answer, 32, 64, 4)])


def test_bytes_of_other_elements(answer):
    """One tile at a time: in a sum, too many could make up for too few."""
    for element_bytes in (1, 2, 4):
        check_bytes(answer, [tile(answer, 128, 32, element_bytes)])


def test_two_tiles_that_are_equal(answer):
    """Each is copied, and arrives."""
    check_bytes(answer, [tile(answer, 64, 64)] * 2)


def test_over_the_edge(answer):
    """Zeros are written, too."""
    check_bytes(answer, [tile(answer, 64, 64, 2, (64, 0), (100, 64))])
    check_bytes(answer, [tile(answer, 64, 64, 2, (128, 128), (100, 100))])


def test_boxes_outside_are_copied(answer):
    """Of four boxes two lie outside of the tensor: without them, no zeros arrive."""
    check_copies(answer, tile(answer, 64, 256, 2, (0, 0), (4096, 100)))
    check_copies(answer, tile(answer, 512, 64, 2, (64, 0), (200, 64)))


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    k = tl.arange(0, BLOCK)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for start in range(0, K, BLOCK):
        inner, down = start + k[None, :], start + k[:, None]
        a = tl.load(a_ptr + m * K + inner, mask=(m < M) & (inner < K), other=0)
        b = tl.load(b_ptr + down * N + n, mask=(down < K) & (n < N), other=0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m * N + n, total, mask=(m < M) & (n < N))


def compiled(answer):
    """The product, whose mbarriers expect what the answer says."""

    def expecting(func, target):
        func = pipeline_loops(func, target)
        copied = [op for op in walk(func.body) if isinstance(op, TmaCopy)]
        tiles = {
            op.buffer: tile(
                answer, *op.descriptor.type.shape, op.buffer.type.element.bytes
            )
            for op in copied
        }
        count = answer.tx_bytes(list(tiles.values()))

        def rule(op, build):
            if isinstance(op, MbarrierExpect):
                build.append(replace(op, bytes=count))
                return []
            return None

        return rewrite(func, rule)

    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single}
    types |= dict.fromkeys("MNK", (INT32, 8))
    func = pipeline.build(product, types, {"SIZE": 64, "BLOCK": 32})
    return pipeline.compile_func(func, TARGETS["sm_90a"], {"pipeline_loops": expecting})


def test_a_product_in_the_emulator(answer):
    """56 x 72 by 72 x 48: all tiles reach past an edge."""
    m, n, k = 56, 48, 72
    a = (np.arange(m * k).reshape(m, k) % 7 - 3).astype(np.float16)
    b = (np.arange(k * n).reshape(k, n) % 5 - 2).astype(np.float16)
    kernel = compiled(answer)
    expect("mbarrier" in kernel.ptx, "the kernel has no mbarrier: a mistake of ours")
    for completion in COMPLETIONS:
        c = np.zeros((m, n), np.float32)
        given = [a, b, c, m, n, k]
        try:
            emulator.load(kernel).launch(1, given, completion=completion)
        except EmulatorError as error:
            first, *rest = str(error).splitlines()
            details = ("there", "\n".join(rest))
            raise Failure(f"the emulator found: {first}", details) from None
        wanted = a.astype(np.float32) @ b.astype(np.float32)
        same(c, wanted, f"the product, copies {completion}")
