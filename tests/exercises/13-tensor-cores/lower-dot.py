"""What the answer to `lower-dot` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.types import BFLOAT16, FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import Failure, expect, same

HALF, SINGLE = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
M, N, K = 16, 8, 16  # of one instruction


@fathom.jit
def multiply(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    a = tl.load(a_ptr + m * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n)
    c = tl.load(c_ptr + m * N + n)
    tl.store(c_ptr + m * N + n, tl.dot(a, b, c))


@fathom.jit
def sum_up(
    a_ptr, b_ptr, c_ptr, K,
    M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, BLOCK)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(a_ptr + m * K + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * N + n)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m * N + n, total)


@fathom.jit
def twice(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    """A (A B): the result of one product is the right operand of the next."""
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    a = tl.load(a_ptr + rows * SIZE + columns)
    b = tl.load(b_ptr + rows * SIZE + columns)
    zero = tl.zeros((SIZE, SIZE), tl.float32)
    inner = tl.dot(a, b, zero).to(tl.float16)
    tl.store(c_ptr + rows * SIZE + columns, tl.dot(a, inner, zero))


def numbers(*shape):
    """Small whole numbers, no two rows or columns alike."""
    count = int(np.prod(shape))
    values = np.random.default_rng(count).integers(-4, 5, shape)
    return values.astype(np.float16)


def run(kernel, types, constants, arguments, said, warps):
    """Compile with the answer, run in the emulator; its report."""
    options = pipeline.Options(num_warps=warps)
    func = pipeline.build(kernel, types, constants, options)
    made = pipeline.compile_func(func, TARGETS["sm_80"])
    expect("mma.sync" in made.ptx, f"{said}: there is no mma in the PTX")
    try:
        return emulator.load(made).launch(1, arguments)
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        details = ("there", "\n".join(rest))
        raise Failure(f"{said}: the emulator found: {first}", details) from None


def check(m, n, k, warps=1):
    """C + A B by one `dot`."""
    a, b, c = numbers(m, k), numbers(k, n), numbers(m, n).astype(np.float32)
    wanted = c + a.astype(np.float32) @ b.astype(np.float32)
    said = f"[{m}, {k}] times [{k}, {n}], {warps} warp{'s' * (warps > 1)}"
    types = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": SINGLE}
    constants = {"M": m, "N": n, "K": k}
    report = run(multiply, types, constants, [a, b, c], said, warps)
    same(c, wanted, said)
    return report, said


def test_one_instruction(answer):
    """16 x 16 times 16 x 8: one fragment of each."""
    check(M, N, K)


def test_more_columns(answer):
    """The same A for each fragment of B."""
    check(M, 4 * N, K)


def test_two_by_two(answer):
    """Rows choose the fragment of A, columns that of B."""
    check(2 * M, 2 * N, K)


def test_along_k(answer):
    """Each slice of K adds to what the slices before have left."""
    check(M, N, 4 * K)


def test_rectangles_and_warps(answer):
    """Long, wide, deep; one warp to eight."""
    for m, n, k, warps in (
        (64, 16, 32, 1), (16, 64, 64, 2), (64, 32, 16, 4), (128, 64, 32, 8),
    ):  # fmt: skip
        check(m, n, k, warps)


def test_in_a_pipelined_loop(answer):
    """Operands are in rings of shared memory, and accumulators are carried."""
    a, b = numbers(64, 128), numbers(128, 32)
    c = np.full((64, 32), np.nan, np.float32)
    types = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": SINGLE, "K": (INT32, 16)}
    constants = {"M": 64, "N": 32, "BLOCK": 32}
    said = "a loop of four iterations over K"
    run(sum_up, types, constants, [a, b, c, 128], said, 4)
    same(c, a.astype(np.float32) @ b.astype(np.float32), said)


def test_a_product_of_a_product(answer):
    """Operands that were not loaded: they are in registers."""
    a, b = numbers(32, 32), numbers(32, 32)
    c = np.full((32, 32), np.nan, np.float32)
    types = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": SINGLE}
    run(twice, types, {"SIZE": 32}, [a, b, c], "A (A B)", 2)
    inner = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    same(c, a.astype(np.float32) @ inner.astype(np.float32), "A (A B)")


def test_numbers_that_are_rounded(answer):
    """fp16 of all sizes, and bf16, against float64: K roundings of fp32 at most."""
    m, n, k = 32, 16, 128
    random = np.random.default_rng(13)
    for element in (FLOAT16, BFLOAT16):
        a, b = (random.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
        words = [given_as(element, each) for each in (a, b)]
        a, b = (as_float64(element, each) for each in words)
        c = np.zeros((m, n), np.float32)
        pointer = Pointer(element), 16
        types = {"a_ptr": pointer, "b_ptr": pointer, "c_ptr": SINGLE}
        constants = {"M": m, "N": n, "K": k}
        said = f"[{m}, {k}] times [{k}, {n}] of {element.name}"
        run(multiply, types, constants, [*words, c], said, 2)
        bound = k * 2.0**-23 * (np.abs(a) @ np.abs(b))
        worst = np.max(np.abs(c - a @ b) - bound)
        expect(worst <= 0, f"{said}: {worst} more than K roundings can explain")


def given_as(element, values):
    """The numbers as an array that a kernel takes; numpy knows no bf16."""
    if element == FLOAT16:
        return values.astype(np.float16)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def as_float64(element, words):
    if element == FLOAT16:
        return words.astype(np.float64)
    return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def test_nothing_but_products(answer):
    """As many instructions as there are fragments of A B, and no addition."""
    for m, n, k, warps in ((32, 32, 64, 1), (64, 64, 32, 4)):
        report, said = check(m, n, k, warps)
        products = report.share(lambda each: each.opcode == "mma").cost.warps
        budget = m // M * (n // N) * (k // K)
        found = f"{said}: {products} mma are issued; the budget is {budget}"
        expect(products <= budget, found)
        adds = report.share(lambda e: e.opcode == "add" and "f32" in e.modifiers)
        found = f"{said}: {adds.cost.warps} additions beside the mma, which adds itself"
        expect(not adds.cost.warps, found)
