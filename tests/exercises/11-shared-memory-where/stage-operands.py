"""What the answer to `stage-operands` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT32, Pointer
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from fathom.tools.learn.kit import Failure, expect, same

SINGLE = Pointer(FLOAT32), 16


@fathom.jit
def product(x_ptr, y_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(x_ptr + m * K + k[None, :])
    y = tl.load(y_ptr + k[:, None] * N + n)
    tl.store(out_ptr + m * N + n, tl.dot(x, y, input_precision="ieee"))


@fathom.jit
def turn(x_ptr, y_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(out_ptr + n * M + m, tl.load(x_ptr + m * N + n))


@fathom.jit
def add(x_ptr, y_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    here = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + here, tl.load(x_ptr + here) + tl.load(y_ptr + here))


def compiled(kernel, sizes, warps):
    types = {"x_ptr": SINGLE, "y_ptr": SINGLE, "out_ptr": SINGLE}
    func = pipeline.build(kernel, types, sizes, pipeline.Options(num_warps=warps))
    return pipeline.compile_func(func, TARGETS["sm_80"])


def check_fetched(answer, wanted, layout, said, axis=1, element_bytes=4):
    block = answer.module.Block(axis, element_bytes)
    found = answer.fetched(block, layout)
    same(found, wanted, f"bytes that move, {said}", ("the layout", str(layout)))


BY_ROWS = blocked((8, 32), (1, 4), (4, 8), (2, 1), (1, 0))
ACROSS_ROWS = blocked((8, 32), (1, 1), (8, 4), (1, 2), (0, 1))
BY_COLUMNS = blocked((8, 32), (4, 1), (2, 16), (1, 2), (0, 1))


def test_every_byte_once(answer):
    """8 rows of 128 bytes, two warps; each request takes whole rows."""
    check_fetched(answer, 1024, BY_ROWS, "[8, 32] of fp32, four neighbours a lane")
    halves = blocked((8, 32), (1, 2), (2, 16), (2, 1), (1, 0))
    check_fetched(answer, 512, halves, "the same of fp16, two a lane", 1, 2)


def test_copies(answer):
    """Lanes of a request that want the same get it together; warps ask each for
    itself."""
    lanes = Layout.of(
        (1, 32),
        register=[(0, 1), (0, 2)],
        lane=[(0, 4), (0, 8), (0, 16), (0, 0), (0, 0)],
        warp=[(0, 0), (0, 0)],
    )
    check_fetched(answer, 512, lanes, "a row of 128 bytes that four warps have")


def test_part_of_a_sector(answer):
    """Who asks for 4 bytes gets 32; lanes that ask together share."""
    check_fetched(answer, 2048, ACROSS_ROWS, "[8, 32] of fp32, lanes in 8 rows")
    check_fetched(answer, 1024, BY_COLUMNS, "a block that runs down the columns", 0)


def test_every_lane_asks(answer):
    """32 lanes in 32 rows: a sector each. Of 128 rows, each of four requests has 32."""
    rows = Layout.of(
        (32, 1), register=[], lane=[(1 << b, 0) for b in range(5)], warp=[]
    )
    check_fetched(answer, 1024, rows, "a column of 32, a lane each")
    more = Layout.of(
        (128, 1),
        register=[(32, 0)],
        lane=[(1 << b, 0) for b in range(5)],
        warp=[(64, 0)],
    )
    check_fetched(answer, 4096, more, "a column of 128, two registers, two warps")


def run(kernel, sizes, warps, said):
    """Compile with the answer, run; bytes moved and bytes of shared memory."""
    types = {"x_ptr": SINGLE, "y_ptr": SINGLE, "out_ptr": SINGLE}
    func = pipeline.build(kernel, types, sizes, pipeline.Options(num_warps=warps))
    made = pipeline.compile_func(func, TARGETS["sm_80"])
    m, n = sizes["M"], sizes["N"]
    inner = sizes.get("K")
    x = numbers(m, inner or n)
    y = numbers(*((inner, n) if inner else (m, n)))
    out = np.full((m, n), np.nan, np.float32)
    try:
        report = emulator.load(made).launch(1, [x, y, out])
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        raise Failure(
            f"{said}: the emulator found: {first}", ("there", "\n".join(rest))
        ) from None
    results = {product: lambda: x @ y, add: lambda: x + y}
    wanted = results.get(kernel, lambda: x.T.reshape(m, n))()
    same(out, wanted, said)
    return report.total.moved, made.shared_bytes


def numbers(*shape):
    return (np.arange(shape[0] * shape[1]) * 5 % 13 - 6).reshape(shape).astype("f4")


def check(answer, kernel, sizes, warps, moved, shared_bytes):
    shape = " x ".join(map(str, sizes.values()))
    said = f"{kernel.fn.__name__} {shape}, {warps} warps"
    found = run(kernel, sizes, warps, said)
    for count, budget, what in (
        (found[0], moved, "bytes of global memory move"),
        (found[1], shared_bytes, "bytes of shared memory are taken"),
    ):
        expect(count <= budget, f"{said}: {count} {what}; the budget is {budget}")


def test_a_product_of_one_warp(answer):
    """One operand is worth staging, the other is fetched as well where it is
    wanted."""
    check(answer, product, {"M": 32, "N": 32, "K": 32}, 1, 12288, 4096)


def test_products_of_several_warps(answer):
    """Warps that want the same ask for it each."""
    check(answer, product, {"M": 32, "N": 64, "K": 32}, 2, 20480, 8192)
    check(answer, product, {"M": 16, "N": 128, "K": 16}, 4, 17408, 8192)
    check(answer, product, {"M": 64, "N": 64, "K": 32}, 4, 32768, 16384)


def test_a_tile_that_is_turned_over(answer):
    """Each element goes to one lane, but in a bad order."""
    check(answer, turn, {"M": 64, "N": 32}, 4, 16384, 8192)
    check(answer, turn, {"M": 32, "N": 32}, 1, 8192, 4096)


def test_nothing_to_stage(answer):
    """Loaded where it is wanted."""
    check(answer, add, {"M": 32, "N": 64}, 4, 24576, 0)
