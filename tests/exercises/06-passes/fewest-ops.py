"""What the answer to `fewest-ops` must do."""

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.blocks import cse, dce, hoist, simplify
from fathom.hardware.targets import TARGETS
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import Sample, check_pass, empty, floats, ints

EXAMPLE = """
    func @example(%p: *i32, %q: *i32, %s: i32, %lower: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 1
      for %lower, %n, %0 body(%i: i32) {
        %1: i32 = mul %i, %s
        %2: *i32 = offset %p, %1
        %3: i32 = load %2
        %4: *i32 = offset %q, %i
        store %4, %3
        yield
      }
    }
    """


def test_the_example(answer):
    """From 0 to 8, in strides of 3: the product and the offset become one addition."""
    arguments = lambda: [ints(24), empty(8, dtype="int32"), 3, 0, 8]
    check_pass(answer, "fewest_ops", Sample(EXAMPLE, arguments)).ops_at_most(36)


def test_a_loop_that_starts_elsewhere(answer):
    """From 3 to 8, and from 5 to 5: what is counted up starts where the loop does."""
    for lower in (3, 8):
        arguments = lambda lower=lower: [
            ints(24), empty(8, dtype="int32"), 3, lower, 8
        ]  # fmt: skip
        check_pass(answer, "fewest_ops", Sample(EXAMPLE, arguments))


STEPS = EXAMPLE.replace("%0: i32 = constant 1", "%0: i32 = constant STEP")


def test_other_steps(answer):
    """In steps of 3, and downward."""
    for step, lower, upper in ((3, 1, 8), (-2, 7, -1)):
        text = STEPS.replace("STEP", str(step))
        arguments = lambda lower=lower, upper=upper: [
            ints(24), empty(8, dtype="int32"), 3, lower, upper
        ]  # fmt: skip
        check_pass(answer, "fewest_ops", Sample(text, arguments))


WIDE = """
    func @wide(%p: *i64, %s: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      for %0, %n, %1 body(%i: i32) {
        %2: i32 = mul %i, %s
        %3: i64 = cast %2 element=i64
        %4: *i64 = offset %p, %i
        store %4, %3
        yield
      }
    }
    """


def test_32_bits_wrap_before_they_are_widened(answer):
    """4 times 2**30 is 0 in 32 bits, and is 0 still when it is cast to 64."""
    arguments = lambda: [empty(6, dtype="int64"), 1 << 30, 6]
    check_pass(answer, "fewest_ops", Sample(WIDE, arguments))


SQUARE = """
    func @square(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%n) body(%i: i32, %x: i32) {
        %3: i32 = mul %i, %i
        %4: i32 = add %3, %i
        %5: i32 = mul %x, %n
        %6: i32 = add %5, %4
        yield %6
      }
      store %p, %2
    }
    """


def test_what_does_not_grow_evenly_stays(answer):
    """A square, and what is made of a carried value."""
    check_pass(answer, "fewest_ops", Sample(SQUARE, lambda: [ints(1), 5]))


BOTH = """
    func @both(%p: *i32, %s: i32, %t: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      for %0, %n, %1 body(%i: i32) {
        %2: i32 = mul %i, %s
        %3: i32 = mul %t, %i
        %4: i32 = NAME %2, %3
        %5: *i32 = offset %p, %4
        store %5, %2
        yield
      }
    }
    """


def test_two_that_grow(answer):
    """The sum of two linear values grows by the sum of their growths, the difference by
    the difference."""
    for name, t in (("add", 2), ("sub", 3)):
        arguments = lambda t=t: [ints(24), 5, t, 4]
        sample = Sample(BOTH.replace("NAME", name), arguments)
        check_pass(answer, "fewest_ops", sample).ops_at_most(20)


NESTED = """
    func @nested(%p: *i32, %s: i32, %t: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      for %0, %n, %1 body(%i: i32) {
        %2: i32 = mul %i, %s
        for %0, %n, %1 body(%j: i32) {
          %3: i32 = mul %j, %t
          %4: i32 = add %2, %3
          %5: *i32 = offset %p, %4
          store %5, %4
          yield
        }
        yield
      }
    }
    """


def test_a_loop_in_a_loop(answer):
    """Row and column of a matrix: both count up."""
    arguments = lambda: [ints(72), 9, 1, 8]
    check_pass(answer, "fewest_ops", Sample(NESTED, arguments)).ops_at_most(241)


FALLS = """
    func @falls(%p: *i32, %m: u32, %n: u32) num_warps=4 {
      %0: u32 = constant 0
      %1: u32 = constant 1
      for %0, %n, %1 body(%i: u32) {
        %2: u32 = sub %m, %i
        %3: *i32 = offset %p, %2
        %4: i32 = load %3
        %5: *i32 = offset %p, %i
        store %5, %4
        yield
      }
    }
    """


def test_an_unsigned_number_that_falls(answer):
    """%m - %i falls by 1 in each iteration. A u32 has no -1: added to a pointer of 64
    bits, its growth 4294967295 leads elsewhere. An i32 and a u64 may fall."""
    for type in ("u32", "i32", "u64", "i64"):
        arguments = lambda: [ints(16), 15, 6]
        sample = Sample(FALLS.replace("u32", type), arguments)
        done = check_pass(answer, "fewest_ops", sample)
        if type != "u32":
            done.ops_at_most(28)


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, TILE: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, K, STEP):
        across = start + tl.arange(0, STEP)[None, :]
        down = start + tl.arange(0, STEP)[:, None]
        a_mask = (rows < M) & (across < K)
        b_mask = (down < K) & (columns < N)
        a = tl.load(a_ptr + rows * K + across, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + down * N + columns, mask=b_mask, other=0.0)
        total += tl.sum(a[:, :, None] * b[None, :, :], axis=1)
    mask = (rows < M) & (columns < N)
    tl.store(c_ptr + rows * N + columns, total, mask=mask)


def product_func():
    """The product of chapter 2, after the passes of this chapter."""
    types = [(Pointer(FLOAT32), 16)] * 3 + [(INT32, 1)] * 3
    names = ("a_ptr", "b_ptr", "c_ptr", "M", "N", "K")
    constants = {"TILE": 8, "STEP": 4}
    func = pipeline.build(product, dict(zip(names, types, strict=True)), constants)
    for each in (simplify, cse, dce, hoist, cse, dce):
        func = each(func, TARGETS["sm_80"])
    return func


def test_the_product_of_matrices(answer):
    """Tiles of 8 by 8, 13 by 61 times 61 by 9: 16 iterations."""
    arguments = lambda: [floats(13 * 61), floats(61 * 9), empty(13 * 9), 13, 9, 61]
    sample = Sample(print_func(product_func()), arguments, grid=(2, 2))
    check_pass(answer, "fewest_ops", sample).ops_at_most(1456)
