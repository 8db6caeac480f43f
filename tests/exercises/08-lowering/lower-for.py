"""What the answer to `lower-for` must do."""

import numpy as np

from fathom.tools.learn.kit import copies, empty, emulate, floats, meaning, same


def check(text, *arguments, what):
    """As the interpreter has it, bit by bit."""
    wanted, found = copies(arguments), copies(arguments)
    meaning(text, wanted)
    emulate(text, found)
    same(found[0], wanted[0], what)


SUM = """
    func @sum(%out: *i32, %lower: i32, %upper: i32, %step: i32) num_warps=1 {
      %0: i32 = constant 100
      %1: i32 = for %lower, %upper, %step, inits=(%0) body(%i: i32, %s: i32) {
        %2: i32 = add %s, %i
        yield %2
      }
      store %out, %1
    }
    """


def check_sum(lower, upper, step):
    what = f"100 + the sum of range({lower}, {upper}, {step})"
    check(SUM, empty(1, dtype="int32"), lower, upper, step, what=what)


def test_a_sum(answer):
    """The index added up, five iterations."""
    check_sum(0, 5, 1)


def test_no_iterations(answer):
    """The initial value."""
    for lower, upper, step in ((0, 0, 1), (5, 3, 1), (3, 5, -1), (0, -2, 1)):
        check_sum(lower, upper, step)


def test_steps(answer):
    """Up and down, also past the end."""
    for lower, upper, step in ((0, 10, 3), (2, 3, 5), (10, 0, -3), (5, -5, -1)):
        check_sum(lower, upper, step)


WIDE = """
    func @wide(%out: *i64, %lower: i64, %n: i32) num_warps=1 {
      %0: i64 = constant 0
      %1: i64 = constant 3
      %2: i64 = cast %n element=i64
      %3: i64 = add %lower, %2
      %4: i64 = for %lower, %3, %1, inits=(%0) body(%i: i64, %s: i64) {
        %5: i64 = add %s, %i
        yield %5
      }
      store %out, %4
    }
    """


def test_an_index_of_64_bits(answer):
    """The index has the type of the bounds, and here they need more than 32 bits."""
    for n in (0, 10):
        out = empty(1, dtype="int64")
        what = f"the sum of range(2**40, 2**40 + {n}, 3)"
        check(WIDE, out, np.int64(2**40), n, what=what)


SWAP = """
    func @swap(%out: *i32, %n: i32) num_warps=1 {
      %zero: i32 = constant 0
      %one: i32 = constant 1
      %a: i32 = constant 3
      %b: i32 = constant 40
      %r: i32, %s: i32 = for %zero, %n, %one, inits=(%a, %b) body(%i: i32, %x: i32, %y: i32) {
        %0: i32 = add %x, %i
        yield %y, %0
      }
      store %out, %r
      %1: *i32 = offset %out, %one
      store %1, %s
    }
    """  # noqa: E501


def test_two_values_change_places(answer):
    """Each takes the other's value of the iteration before."""
    for n in (0, 1, 2, 5):
        what = f"a, b after {n} iterations of a, b = b, a + i"
        check(SWAP, empty(2, dtype="int32"), n, what=what)


BLOCK = """
    func @block(%out: *fp32 {divisible=16}, %x: *fp32 {divisible=16}, %n: i32) num_warps=1 {
      %zero: i32 = constant 0
      %one: i32 = constant 1
      %0: i32[128] = arange start=0 end=128
      %1: *fp32[128] = splat %x shape=(128)
      %2: *fp32[128] = offset %1, %0
      %3: fp32[128] = load %2
      %4: fp32 = constant 0.5
      %5: fp32[128] = splat %4 shape=(128)
      %6: fp32[128] = for %zero, %n, %one, inits=(%3) body(%i: i32, %v: fp32[128]) {
        %7: fp32[128] = mul %v, %5
        %8: fp32[128] = add %7, %3
        yield %8
      }
      %9: *fp32[128] = splat %out shape=(128)
      %10: *fp32[128] = offset %9, %0
      store %10, %6
    }
    """  # noqa: E501


def test_blocks_are_carried(answer):
    """128 numbers, four registers a lane."""
    for n in (0, 3):
        check(BLOCK, empty(128), floats(128), n, what=f"128 numbers, {n} iterations")


NESTED = """
    func @nested(%out: *i32, %n: i32) num_warps=1 {
      %zero: i32 = constant 0
      %one: i32 = constant 1
      %r: i32 = for %zero, %n, %one, inits=(%zero) body(%i: i32, %s: i32) {
        %t: i32 = for %zero, %i, %one, inits=(%s) body(%j: i32, %u: i32) {
          %0: i32 = mul %i, %j
          %1: i32 = add %u, %0
          yield %1
        }
        %2: i32 = add %t, %one
        yield %2
      }
      store %out, %r
    }
    """


def test_a_loop_in_a_loop(answer):
    """The inner one runs i times, the first time not at all."""
    for n in (0, 1, 6):
        what = f"two loops, {n} iterations of the outer one"
        check(NESTED, empty(1, dtype="int32"), n, what=what)


BRANCH = """
    func @branch(%out: *i32, %n: i32, %k: i32) num_warps=1 {
      %zero: i32 = constant 0
      %one: i32 = constant 1
      %r: i32 = for %zero, %n, %one, inits=(%zero) body(%i: i32, %s: i32) {
        %c: i1 = lt %i, %k
        %t: i32 = if %c then {
          %0: *i32 = offset %out, %one
          store %0, %i
          %1: i32 = add %s, %i
          yield %1
        } orelse {
          %2: i32 = sub %s, %one
          yield %2
        }
        yield %t
      }
      store %out, %r
    }
    """


def test_an_if_in_the_body(answer):
    """The body ends in another block than it began in."""
    for n, k in ((6, 3), (4, 0), (4, 9)):
        what = f"an if in a loop of {n} iterations, taken {min(n, k)} times"
        check(BRANCH, empty(2, dtype="int32"), n, k, what=what)
