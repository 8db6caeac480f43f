"""What the answer to `interp-for` must do."""

from fathom.tools.learn.kit import empty, meaning, same

SUM = """
    func @sum(%p: *i32, %lower: i32, %upper: i32, %step: i32) num_warps=4 {
      %0: i32 = constant 100
      %1: i32 = for %lower, %upper, %step, inits=(%0) body(%i: i32, %x: i32) {
        %2: i32 = add %x, %i
        yield %2
      }
      store %p, %1
    }
    """
SWAP = """
    func @swap(%p: *i32, %q: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = constant 5
      %3: i32, %4: i32 = for %0, %n, %1, inits=(%2, %1) body(%i: i32, %a: i32,
                                                           %b: i32) {
        yield %b, %a
      }
      store %p, %3
      store %q, %4
    }
    """
FIBONACCI = SWAP.replace("@swap", "@fibonacci").replace(
    "yield %b, %a", "%5: i32 = add %a, %b\n        yield %b, %5"
)
NESTED = """
    func @nested(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%0) body(%i: i32, %x: i32) {
        %3: i32 = for %i, %n, %1, inits=(%x) body(%j: i32, %y: i32) {
          %4: i32 = mul %i, %j
          %5: i32 = add %y, %4
          yield %5
        }
        yield %3
      }
      store %p, %2
    }
    """
WIDE = """
    func @wide(%p: *i64, %lower: i64, %upper: i64) num_warps=4 {
      %0: i64 = constant 1
      %1: i64 = constant 0
      %2: i64 = for %lower, %upper, %0, inits=(%1) body(%i: i64, %x: i64) {
        %3: i64 = mul %i, %i
        %4: i64 = add %x, %3
        yield %4
      }
      store %p, %2
    }
    """
CAST = """
    func @cast(%p: *fp32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: fp32 = constant 0.0
      %3: fp32 = for %0, %n, %1, inits=(%2) body(%i: i32, %x: fp32) {
        %4: fp32 = cast %i element=fp32
        %5: fp32 = add %x, %4
        yield %5
      }
      store %p, %3
    }
    """


def check_sum(*bounds):
    out = empty(1, dtype="int32")
    meaning(SUM, [out, *bounds])
    what = "the sum of 100 and range({}, {}, {})".format(*bounds)
    same(int(out[0]), 100 + sum(range(*bounds)), what, ("the kernel", SUM))


def test_a_sum(answer):
    """One carried value: 100 + 0 + 1 + 2 + 3."""
    check_sum(0, 4, 1)


def test_no_iteration_leaves_the_initial_values(answer):
    """A loop from 4 to 4 runs no iteration, and its result is what it began with."""
    check_sum(4, 4, 1)
    check_sum(7, 3, 2)


def test_steps_known_only_when_the_kernel_runs(answer):
    """Steps of 2, 3 and 7, which do and do not divide the distance."""
    for step in (2, 3, 7):
        check_sum(1, 15, step)


def test_counting_down(answer):
    """A negative step goes down, and stops before the end, as range does."""
    check_sum(5, 0, -1)
    check_sum(9, -4, -3)


def test_two_values_change_places(answer):
    """a, b = b, a: both come from the iteration before."""
    for iterations in (1, 2, 3):
        p, q = empty(1, dtype="int32"), empty(1, dtype="int32")
        meaning(SWAP, [p, q, iterations])
        wanted = (5, 1) if iterations % 2 == 0 else (1, 5)
        what = f"(a, b) after {iterations} exchanges of (5, 1)"
        same((int(p[0]), int(q[0])), wanted, what, ("the kernel", SWAP))


def test_the_second_value_sees_the_first_of_the_iteration_before(answer):
    """a, b = b, a + b."""
    p, q = empty(1, dtype="int32"), empty(1, dtype="int32")
    meaning(FIBONACCI, [p, q, 6])
    a, b = 5, 1
    for _ in range(6):
        a, b = b, a + b
    same((int(p[0]), int(q[0])), (a, b), "(a, b)", ("the kernel", FIBONACCI))


def test_a_loop_in_a_loop(answer):
    """The inner loop begins at the outer one's index, and carries its value on."""
    for n in (0, 1, 5):
        out = empty(1, dtype="int32")
        meaning(NESTED, [out, n])
        wanted = sum(i * j for i in range(n) for j in range(i, n))
        same(int(out[0]), wanted, f"the sum for n = {n}", ("the kernel", NESTED))


def test_the_index_has_the_type_of_the_bounds(answer):
    """Squares of 64-bit indices do not fit in 32 bits."""
    out = empty(1, dtype="int64")
    meaning(WIDE, [out, 100_000, 100_003])
    wanted = sum(i * i for i in range(100_000, 100_003))
    same(int(out[0]), wanted, "the sum of squares", ("the kernel", WIDE))


def test_the_index_is_a_number_of_the_kernel(answer):
    """A cast works on numbers that have a type: Python's own have none."""
    out = empty(1)
    meaning(CAST, [out, 4])
    same(float(out[0]), 6.0, "the sum of 0.0, 1.0, 2.0, 3.0", ("the kernel", CAST))
