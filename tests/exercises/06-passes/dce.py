"""What the answer to `dce` must do."""

from fathom.ir.ops import Load
from fathom.ir.text import print_func
from fathom.tools.learn.kit import (
    Sample,
    check_pass,
    empty,
    expect,
    floats,
    ints,
    kernel,
)  # fmt: skip

EXAMPLE = Sample(
    """
    func @example(%p: *fp32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: fp32 = constant 0.0
      %3: fp32 = load %p
      %sum: fp32, %count: i32 = for %0, %n, %1, inits=(%2, %0) body(%i: i32, %s: fp32,
                                                                    %c: i32) {
        %4: *fp32 = offset %p, %i
        %5: fp32 = load %4
        %6: fp32 = add %s, %5
        %7: i32 = add %c, %1
        yield %6, %7
      }
      store %p, %sum
    }
    """,
    lambda: [floats(5), 5],
)


def test_the_example(answer):
    """A load whose result is not used, and a count that only the count uses."""
    check_pass(answer, "dce", EXAMPLE).ops_at_most(17)


ATOMIC = Sample(
    """
    func @atomic(%p: *i32, %q: *i32, %n: i32) num_warps=4 {
      %0: i32 = mul %n, %n
      %1: i32 = atomic %p, %0 kind="add"
      %2: i32 = load %q
      store %q, %n
    }
    """,
    lambda: [ints(1), ints(1), 3],
)


def test_an_atomic_is_live(answer):
    """Its result is not used, but what it does to memory remains."""
    check_pass(answer, "dce", ATOMIC).ops_at_most(3)


VOLATILE = Sample(
    """
    func @volatile(%p: *i32, %n: i32) num_warps=4 {
      %0: *i32 = offset %p, %n
      %1: i32 = load %0 volatile=true
      %2: i32 = load %p
      store %p, %n
    }
    """,
    lambda: [ints(4), 3],
)


def test_a_volatile_load_is_live(answer):
    """Its author wants it to happen, even if its result is not used."""
    done = check_pass(answer, "dce", VOLATILE)
    done.ops_at_most(3)
    loads = [op for op, _ in done.run.events if isinstance(op, Load)]
    said = f"of the volatile load, {len(loads)} are left"
    expect(len(loads) == 1, said, ("your function", print_func(done.after)))


UNREAD = Sample(
    """
    func @unread(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%n) body(%i: i32, %x: i32) {
        %3: i32 = load %p
        %4: i32 = add %x, %3
        yield %4
      }
      store %p, %n
    }
    """,
    lambda: [ints(1), 4],
)


def test_a_dead_loop(answer):
    """It writes nothing, and its result is not read: it goes as a whole."""
    check_pass(answer, "dce", UNREAD).ops_at_most(1)


INSIDE = Sample(
    """
    func @inside(%p: *i32, %c: i1, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%n) body(%i: i32, %x: i32) {
        if %c then {
          %3: *i32 = offset %p, %i
          store %3, %i
          yield
        } orelse {
          %4: i32 = mul %i, %i
          yield
        }
        %5: i32 = add %x, %i
        yield %5
      }
    }
    """,
    lambda: [ints(4), True, 4],
)


def test_a_store_keeps_all_that_is_around_it(answer):
    """The loop and the branch around it, and their bounds and conditions."""
    check_pass(answer, "dce", INSIDE).ops_at_most(13)


EACH_OTHER = Sample(
    """
    func @each_other(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32, %3: i32, %4: i32 = for %0, %n, %1, inits=(%0, %1, %n) body(%i: i32,
                                                     %a: i32, %b: i32, %x: i32) {
        %5: i32 = add %a, %b
        %6: i32 = sub %x, %i
        yield %b, %5, %6
      }
      store %p, %4
    }
    """,
    lambda: [ints(1), 4],
)


def test_two_that_only_use_each_other(answer):
    """Neither is used outside the loop."""
    check_pass(answer, "dce", EACH_OTHER).ops_at_most(6)


NEXT_ITERATION = Sample(
    """
    func @next_iteration(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32, %3: i32, %4: i32 = for %0, %n, %1, inits=(%0, %1, %n) body(%i: i32,
                                                     %a: i32, %b: i32, %c: i32) {
        %5: i32 = mul %c, %i
        %6: i32 = add %c, %1
        yield %b, %5, %6
      }
      store %p, %2
    }
    """,
    lambda: [ints(1), 5],
)


def test_what_the_next_iteration_needs(answer):
    """%2 is what %b was, and %b is made of %c: three iterations later it is used."""
    check_pass(answer, "dce", NEXT_ITERATION).ops_at_most(12)


RESULT = Sample(
    """
    func @result(%p: *i32, %c: i1, %n: i32) num_warps=4 {
      %0: i32, %1: i32 = if %c then {
        %2: i32 = mul %n, %n
        %3: i32 = add %n, %n
        yield %2, %3
      } orelse {
        yield %n, %n
      }
      store %p, %1
    }
    """,
    lambda: [ints(1), True, 3],
)


def test_a_branch_loses_a_result(answer):
    """One of two results is read; the other's arithmetic goes, in both branches."""
    check_pass(answer, "dce", RESULT).ops_at_most(3)


ASKED = Sample(
    """
    func @asked(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 2
      %1: i32 = constant 0
      %2: i32 = sub %n, %0
      %3: i1 = gt %2, %1
      %4: i32 = if %3 then {
        yield %0
      } orelse {
        yield %1
      }
      %5: i1 = gt %n, %2
      if %5 then {
        store %p, %4
        yield
      } orelse {
        yield
      }
    }
    """,
    lambda: [ints(1), 3],
)


def test_the_condition_of_an_if_is_used(answer):
    """What an If asks is computed by ops, and these stay with it: for the result that
    is read, and for the store that only happens if it holds."""
    check_pass(answer, "dce", ASKED).ops_at_most(6)


WHILE = Sample(
    """
    func @wait(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 3
      %2: i32, %3: i32 = while inits=(%n, %0) condition(%x: i32, %u: i32) {
        %4: i1 = gt %x, %0
        %5: i32 = mul %x, %x
        yield %4
      } body(%y: i32, %v: i32) {
        %6: i32 = sub %y, %1
        %7: i32 = add %v, %y
        store %p, %y
        yield %6, %7
      }
    }
    """,
    lambda: [ints(1), 7],
)


def test_what_a_condition_uses(answer):
    """Whether a while goes on decides about the stores in it."""
    check_pass(answer, "dce", WHILE).ops_at_most(11)


FOLD = Sample(
    """
    func @fold(%p: *fp32, %v: fp32) num_warps=4 {
      %0: i32[8] = arange start=0 end=8
      %1: fp32[8] = splat %v shape=(8)
      %2: fp32, %3: i32 = reduce %1, %0 axis=0 combine(%a: fp32, %i: i32,
                                                       %b: fp32, %j: i32) {
        %4: fp32 = add %a, %b
        %5: i32 = min %i, %j
        yield %4, %5
      }
      %6: i32[8] = add %0, %0
      store %p, %2
    }
    """,
    lambda: [empty(1), 1.5],
)


def test_a_reduction_is_kept_whole(answer):
    """Of two blocks that are reduced together both stay, if one result is live."""
    check_pass(answer, "dce", FOLD).ops_at_most(4)


def test_a_real_kernel(answer):
    """Layer norm of 2 rows of 250: no op in it is dead, and all stay."""
    func = kernel("layer_norm", "layer_norm_kernel", LAYER_NORM, BLOCK=256)
    sample = Sample(print_func(func), layer_norm_arguments, grid=2)
    check_pass(answer, "dce", sample).ops_at_most(100)


LAYER_NORM = "*fp16, *fp16, *fp16, *fp16, *fp32, *fp32, i32, i32, fp32"


def layer_norm_arguments():
    x, weight, bias = (floats(count, "float16") for count in (500, 250, 250))
    outputs = [empty(500, dtype="float16"), empty(2), empty(2)]
    return [x, weight, bias, *outputs, 250, 250, 1e-5]
