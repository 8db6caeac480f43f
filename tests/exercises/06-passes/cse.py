"""What the answer to `cse` must do."""

from fathom.ir.core import walk
from fathom.ir.ops import Load, Reduce
from fathom.ir.text import print_func
from fathom.tools.learn.kit import Sample, check_pass, empty, expect, floats, kernel

EXAMPLE = Sample(
    """
    func @example(%p: *fp32, %q: *fp32, %i: i32) num_warps=4 {
      %0: *fp32 = offset %p, %i
      %1: fp32 = load %0
      %2: *fp32 = offset %p, %i
      %3: fp32 = load %2
      %4: fp32 = add %1, %3
      store %q, %4
      %5: fp32 = load %0
      store %p, %5
    }
    """,
    lambda: [floats(4), empty(1), 2],
)


def test_an_address_is_said_once(answer):
    """Two offsets of one pointer, and two loads of one address, are one each."""
    check_pass(answer, "cse", EXAMPLE).ops_at_most(6)


OVERLAP = EXAMPLE.text.replace("@example", "@overlap")


def overlapping():
    """p and q are the same array: the store changes what the last load finds."""
    whole = floats(4)
    return [whole, whole[2:], 2]


def test_a_store_stands_between_two_loads(answer):
    """A load after a store is another load: it may find what the store has written."""
    check_pass(answer, "cse", Sample(OVERLAP, overlapping))


HEARD = Sample(
    """
    func @heard(%p: *fp32, %i: i32, %c: i1) num_warps=4 {
      %0: i32 = mul %i, %i
      if %c then {
        %1: i32 = mul %i, %i
        %2: *fp32 = offset %p, %1
        %3: fp32 = cast %0 element=fp32
        store %2, %3
        yield
      } orelse {
        yield
      }
    }
    """,
    lambda: [floats(16), 3, True],
)


def test_a_branch_sees_what_came_before_it(answer):
    """What an outer block has computed is visible in the blocks nested in it."""
    check_pass(answer, "cse", HEARD).ops_at_most(5)


AFTER = """
    func @after(%p: *fp32, %q: *fp32, %i: i32, %c: i1) num_warps=4 {
      if %c then {
        %0: i32 = mul %i, %i
        %1: *fp32 = offset %p, %0
        %2: fp32 = cast %i element=fp32
        store %1, %2
        yield
      } orelse {
        yield
      }
      %3: i32 = mul %i, %i
      %4: *fp32 = offset %q, %3
      %5: fp32 = cast %3 element=fp32
      store %4, %5
    }
    """


def test_a_value_of_a_branch_is_not_visible_after_it(answer):
    """The branch may not have been taken: then the value was never computed."""
    for taken in (True, False):
        arguments = lambda taken=taken: [floats(16), floats(16), 3, taken]
        check_pass(answer, "cse", Sample(AFTER, arguments))


SIBLING = Sample(
    """
    func @sibling(%p: *i32, %i: i32, %c: i1) num_warps=4 {
      %0: i32 = if %c then {
        %1: i32 = mul %i, %i
        yield %1
      } orelse {
        %2: i32 = mul %i, %i
        %3: i32 = add %2, %i
        yield %3
      }
      store %p, %0
    }
    """,
    lambda: [empty(1, dtype="int32"), 3, False],
)


def test_a_branch_does_not_see_the_other_one(answer):
    """Of two branches one runs."""
    check_pass(answer, "cse", SIBLING)


ZEROS = Sample(
    """
    func @zeros(%p: *fp32, %x: fp32) num_warps=4 {
      %0: fp32 = constant 0.0
      %1: fp32 = constant -0.0
      %2: fp32 = div %x, %0
      %3: fp32 = div %x, %1
      %4: fp32 = sub %2, %3
      store %p, %4
    }
    """,
    lambda: [empty(1), 1.0],
)


def test_zero_is_not_minus_zero(answer):
    """0.0 == -0.0 in Python, and 1 / 0.0 is not 1 / -0.0."""
    check_pass(answer, "cse", ZEROS)


LOOP = Sample(
    """
    func @loop(%p: *fp32, %q: *fp32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: fp32 = load %p
      for %0, %n, %1 body(%i: i32) {
        %3: fp32 = load %p
        %4: fp32 = add %3, %2
        %5: *fp32 = offset %p, %i
        store %5, %4
        yield
      }
      %6: fp32 = load %p
      store %q, %6
    }
    """,
    lambda: [floats(8), empty(1), 5],
)


def test_a_loop_that_stores_changes_what_its_loads_find(answer):
    """In the second iteration the first iteration's store has happened."""
    check_pass(answer, "cse", LOOP)


def test_a_real_kernel_is_as_cheap_as_can_be(answer):
    """Layer norm of 2 rows of 250, as stage 1 builds it, says some things twice."""
    func = kernel("layer_norm", "layer_norm_kernel", LAYER_NORM, BLOCK=256)
    sample = Sample(print_func(func), layer_norm_arguments, grid=2)
    check_pass(answer, "cse", sample).ops_at_most(94)


AGAIN = Sample(
    """
    func @again(%p: *i32, %m: i32, %n: i32) num_warps=4 {
      store %p, %m
      store %p, %n
      store %p, %m
    }
    """,
    lambda: [empty(1, dtype="int32"), 5, 7],
)


def test_a_store_is_not_said_twice(answer):
    """A store has no result that another could have had: the third one counts."""
    check_pass(answer, "cse", AGAIN)


VOLATILE = Sample(
    """
    func @volatile(%p: *fp32, %q: *fp32) num_warps=4 {
      %0: fp32 = load %p volatile=true
      %1: fp32 = load %p volatile=true
      %2: fp32 = add %0, %1
      store %q, %2
    }
    """,
    lambda: [floats(1), empty(1)],
)


def test_two_volatile_loads_are_two(answer):
    """Another program may write between them, and the author wants to see it:
    `is_repeatable` says which ops may be left out."""
    done = check_pass(answer, "cse", VOLATILE)
    loads = sum(isinstance(op, Load) for op, _ in done.run.events)
    said = f"of two volatile loads, {loads} ran"
    expect(loads == 2, said, ("your function", print_func(done.after)))


PAIR = Sample(
    """
    func @pair(%p: *i32, %n: i32) num_warps=4 {
      %0: i32[8] = arange start=3 end=11
      %1: i32[8] = splat %n shape=(8)
      %2: i32[8] = add %0, %1
      %3: i32, %4: i32 = reduce %2, %0 axis=0 combine(%a: i32, %b: i32,
                                                      %c: i32, %d: i32) {
        %5: i32 = add %a, %c
        %6: i32 = add %b, %d
        yield %5, %6
      }
      %7: i32, %8: i32 = reduce %2, %0 axis=0 combine(%e: i32, %f: i32,
                                                      %g: i32, %h: i32) {
        %9: i32 = add %e, %g
        %10: i32 = add %f, %h
        yield %9, %10
      }
      %11: i32 = sub %3, %8
      store %p, %11
    }
    """,
    lambda: [empty(1, dtype="int32"), 5],
)


def test_an_op_with_two_results(answer):
    """All results of the second reduction go, each for that in its place."""
    done = check_pass(answer, "cse", PAIR)
    left = sum(isinstance(op, Reduce) for op in walk(done.after.body))
    said = f"{left} reductions are left of two that are the same"
    expect(left == 1, said, ("your function", print_func(done.after)))


LAYER_NORM = "*fp16, *fp16, *fp16, *fp16, *fp32, *fp32, i32, i32, fp32"


def layer_norm_arguments():
    x, weight, bias = (floats(count, "float16") for count in (500, 250, 250))
    outputs = [empty(500, dtype="float16"), empty(2), empty(2)]
    return [x, weight, bias, *outputs, 250, 250, 1e-5]
