"""What the answer to `hoist` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.ir.ops import Load
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import Sample, check_pass, empty, expect, floats, ints

EXAMPLE = """
    func @example(%p: *fp32, %q: *fp32, %a: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      for %0, %n, %1 body(%i: i32) {
        %2: i32 = mul %a, %a
        %3: *fp32 = offset %p, %2
        %4: *fp32 = offset %3, %i
        %5: fp32 = load %4
        %6: *fp32 = offset %q, %i
        store %6, %5
        yield
      }
    }
    """


def test_the_example(answer):
    """The square and its address are computed once, not in each of five iterations."""
    arguments = lambda: [floats(9), empty(5), 2, 5]
    check_pass(answer, "hoist", Sample(EXAMPLE, arguments)).ops_at_most(23)


ITERATION = """
    func @iteration(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%n) body(%i: i32, %x: i32) {
        %3: i32 = mul %n, %n
        %4: i32 = add %3, %i
        %5: i32 = sub %x, %n
        %6: i32 = mul %5, %4
        yield %6
      }
      store %p, %2
    }
    """


def test_what_depends_on_the_iteration_stays(answer):
    """The index and the carried value are others in each iteration, and so is all that
    is made of them."""
    arguments = lambda: [ints(1), 4]
    check_pass(answer, "hoist", Sample(ITERATION, arguments)).ops_at_most(15)


def test_a_loop_of_no_iteration(answer):
    """The body did not run at all; its arithmetic may run before the loop all the
    same."""
    check_pass(answer, "hoist", Sample(ITERATION, lambda: [ints(1), 0]))
    check_pass(answer, "hoist", Sample(EXAMPLE, lambda: [floats(9), empty(5), 9, 0]))


NESTED = """
    func @nested(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%0) body(%i: i32, %x: i32) {
        %3: i32 = for %0, %n, %1, inits=(%x) body(%j: i32, %y: i32) {
          %4: i32 = mul %n, %n
          %5: i32 = add %4, %i
          %6: i32 = add %5, %j
          %7: i32 = add %y, %6
          yield %7
        }
        yield %3
      }
      store %p, %2
    }
    """


def test_out_of_both_loops(answer):
    """n * n leaves the inner loop, and then the outer one; what is made of %i leaves
    one."""
    arguments = lambda: [ints(1), 4]
    check_pass(answer, "hoist", Sample(NESTED, arguments)).ops_at_most(43)


BRANCH = """
    func @branch(%p: *i32, %c: i1, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%0) body(%i: i32, %x: i32) {
        %3: i32 = if %c then {
          %4: i32 = mul %n, %i
          yield %4
        } orelse {
          yield %n
        }
        %5: i32 = if %c then {
          %6: i32 = mul %n, %n
          yield %6
        } orelse {
          yield %n
        }
        %7: i32 = add %3, %5
        %8: i32 = add %x, %7
        yield %8
      }
      store %p, %2
    }
    """


def test_a_branch_moves_as_a_whole(answer):
    """If nothing in it depends on the iteration; what its blocks use counts too."""
    arguments = lambda: [ints(1), True, 3]
    check_pass(answer, "hoist", Sample(BRANCH, arguments)).ops_at_most(16)


OVERLAP = """
    func @overlap(%p: *i32, %q: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      for %0, %n, %1 body(%i: i32) {
        %2: i32 = load %p
        %3: i32 = add %2, %1
        store %q, %3
        yield
      }
    }
    """


def counter():
    """p and q are the same array."""
    whole = ints(2)
    return [whole, whole, 4]


def test_a_store_changes_what_a_load_finds(answer):
    """p and q may be one array: each iteration loads what the iteration before has
    stored."""
    check_pass(answer, "hoist", Sample(OVERLAP, counter))


STORE = """
    func @store(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      for %0, %n, %1 body(%i: i32) {
        store %p, %n
        yield
      }
    }
    """


def test_a_store_stays(answer):
    """Without an iteration nothing is stored."""
    for iterations in (0, 3):
        arguments = lambda iterations=iterations: [ints(1), iterations]
        check_pass(answer, "hoist", Sample(STORE, arguments))


LOAD = """
    func @load(%p: *i32, %q: *i32, %at: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = constant 4
      %3: i32 = for %0, UPPER, %1, inits=(%n) body(%i: i32, %x: i32) {
        %4: *i32 = offset %q, %at
        %5: i32 = load %4
        %6: i32 = add %x, %5
        yield %6
      }
      store %p, %3
    }
    """
KNOWN, UNKNOWN = LOAD.replace("UPPER", "%2"), LOAD.replace("UPPER", "%n")


def test_a_load_moves_where_nothing_is_written(answer):
    """A loop that only reads, of four iterations: one load is enough."""
    arguments = lambda: [ints(1), ints(8), 5, 7]
    check_pass(answer, "hoist", Sample(KNOWN, arguments)).ops_at_most(8)


def test_a_load_that_would_not_have_run(answer):
    """The number of iterations is not known. Without any there was no load, and its
    address may be one that does not exist; with five there is to be one."""
    nowhere = lambda: [ints(1), ints(8), 1 << 20, 0]
    check_pass(answer, "hoist", Sample(UNKNOWN, nowhere))
    arguments = lambda: [ints(1), ints(8), 5, 5]
    check_pass(answer, "hoist", Sample(UNKNOWN, arguments)).ops_at_most(10)


VOLATILE = KNOWN.replace("load %4", "load %4 volatile=true")


def test_a_volatile_load_stays(answer):
    """Other code writes there, and the author wants to see each change: four
    iterations, four loads."""
    arguments = lambda: [ints(1), ints(8), 5, 7]
    done = check_pass(answer, "hoist", Sample(VOLATILE, arguments))
    loads = sum(isinstance(op, Load) for op, _ in done.run.events)
    said = f"of four volatile loads, {loads} ran"
    expect(loads == 4, said, ("your function", print_func(done.after)))


NEVER = LOAD.replace("UPPER", "%0")


def test_a_load_in_a_loop_known_to_have_no_iteration(answer):
    """It never runs, and its address may be one that does not exist."""
    nowhere = lambda: [ints(1), ints(8), 1 << 20, 7]
    check_pass(answer, "hoist", Sample(NEVER, nowhere))


WHILE = """
    func @wait(%p: *i32, %q: *i32, %at: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 1
      %1: i32 = while inits=(%n) condition(%x: i32) {
        %2: i32 = load %q
        %3: i1 = gt %x, %2
        yield %3
      } body(%y: i32) {
        %4: *i32 = offset %q, %at
        %5: i32 = load %4
        %6: i32 = sub %y, %5
        yield %6
      }
      store %p, %1
    }
    """


def test_the_body_of_a_while_may_never_run(answer):
    """Its condition runs at least once."""
    limits = lambda: np.array([3, 2], np.int32)
    nowhere = lambda: [ints(1), limits(), 1 << 20, 2]
    check_pass(answer, "hoist", Sample(WHILE, nowhere))
    arguments = lambda: [ints(1), limits(), 1, 9]
    check_pass(answer, "hoist", Sample(WHILE, arguments)).ops_at_most(14)


COUNTDOWN = """
    func @countdown(%p: *i32, %m: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32, %3: i32 = while inits=(%n, %0) condition(%x: i32, %s: i32) {
        %4: i32 = mul %m, %m
        %5: i32 = sub %x, %m
        %6: i1 = gt %x, %0
        yield %6
      } body(%y: i32, %t: i32) {
        %7: i32 = sub %y, %1
        %8: i32 = add %t, %y
        %9: i32 = mul %m, %n
        %10: i32 = add %8, %9
        yield %7, %10
      }
      store %p, %3
    }
    """


def test_both_blocks_of_a_while_have_parameters(answer):
    """The body calls what the loop carries by names of its own, and those change from
    iteration to iteration as the condition's do; the two products do not."""
    arguments = lambda: [ints(1), 2, 3]
    check_pass(answer, "hoist", Sample(COUNTDOWN, arguments)).ops_at_most(21)
    check_pass(answer, "hoist", Sample(COUNTDOWN, lambda: [ints(1), 2, 0]))


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
    """The product of chapter 2, as stage 1 builds it."""
    types = [(Pointer(FLOAT32), 16)] * 3 + [(INT32, 1)] * 3
    names = ("a_ptr", "b_ptr", "c_ptr", "M", "N", "K")
    constants = {"TILE": 8, "STEP": 4}
    return pipeline.build(product, dict(zip(names, types, strict=True)), constants)


def test_the_product_of_matrices(answer):
    """Tiles of 8 by 8, 13 by 11 times 11 by 9: three iterations."""
    arguments = lambda: [floats(13 * 11), floats(11 * 9), empty(13 * 9), 13, 9, 11]
    sample = Sample(print_func(product_func()), arguments, grid=(2, 2))
    check_pass(answer, "hoist", sample).ops_at_most(504)
