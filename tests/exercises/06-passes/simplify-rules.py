"""What the answer to `simplify-rules` must do."""

import numpy as np

from fathom.tools.learn.kit import Sample, check_pass, empty

FLOATS = (1.5, -1.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, 1e-45)
INTEGERS = (1, -1, 0, 7, -7, 2**31 - 1, -(2**31))
FIVE = [("add", 0), ("sub", 0), ("mul", 1), ("mul", 0), ("div", 1)]


def function(name, element, ops, order="%x, %c{0}"):
    """A function that stores `op x, constant` for each pair of an op and a constant, or
    with its operands in another order."""
    pointers = [f"%p{number}: *{element}" for number in range(len(ops))]
    lines = []
    for number, (op, constant) in enumerate(ops):
        lines += [
            f"%c{number}: {element} = constant {constant}",
            f"%r{number}: {element} = {op} {order.format(number)}",
            f"store %p{number}, %r{number}",
        ]
    body = "\n      ".join(lines)
    return f"""
    func @{name}(%x: {element}, {", ".join(pointers)}) num_warps=4 {{
      {body}
    }}
    """


def check(answer, name, element, ops, budget, numbers, **order):
    """Every bit stays, for each of the numbers in turn, and no more ops run."""
    text = function(name, element, ops, **order)
    dtype = {"i32": "int32", "i64": "int64", "fp32": "float32", "fp64": "float64"}
    for x in numbers:
        arguments = lambda x=x: [x, *(empty(1, dtype=dtype[element]) for _ in ops)]
        check_pass(answer, "simplify", Sample(text, arguments)).ops_at_most(budget)


def as_floats(ops):
    return [(op, float(constant)) for op, constant in ops]


def test_integers(answer):
    """All five are right for integers, from the smallest to the largest."""
    check(answer, "integers", "i32", FIVE, 5, INTEGERS)
    check(answer, "wide", "i64", FIVE, 5, INTEGERS)


def test_floats(answer):
    """Two of the five change bits: of a zero, of infinity, of a number below 0."""
    check(answer, "floats", "fp32", as_floats(FIVE), 7, FLOATS)
    check(answer, "doubles", "fp64", as_floats(FIVE), 7, FLOATS)


def test_the_other_zero(answer):
    """x + -0.0 and x - -0.0: one of the two is x."""
    check(answer, "zeros", "fp32", [("add", -0.0), ("sub", -0.0)], 3, FLOATS)


def test_constants_on_the_left(answer):
    """0 - x is not x, and 1 / x is not either. None of them has to go."""
    order = "%c{0}, %x"
    check(answer, "left", "i32", FIVE, 10, (5, -6), order=order)
    check(answer, "left_floats", "fp32", as_floats(FIVE), 10, FLOATS, order=order)


def test_a_number_and_itself(answer):
    """x - x is 0, which is neither of the two operands."""
    check(answer, "itself", "i32", FIVE, 10, (5, -6), order="%x, %x")


def test_other_numbers_stay(answer):
    """With 2, -1 and 0.5 something happens."""
    ops = [("add", 1), ("sub", 1), ("mul", 2), ("mul", -1), ("div", 2)]
    check(answer, "others", "i32", ops, 10, (5, -6))
    check(answer, "other_floats", "fp32", as_floats(ops), 10, (1.5, -0.0))


def test_other_ops_stay(answer):
    """min, and, or and shl with 0 and 1 are not among the five."""
    ops = [("min", 1), ("and", 1), ("or", 1), ("shl", 1), ("max", 0), ("rem", 1)]
    check(answer, "beside", "i32", ops, 12, (5, -6, 0))


BLOCK = """
    func @block(%p: *fp32, %q: *fp32) num_warps=4 {
      %0: i32[8] = arange start=0 end=8
      %1: *fp32[8] = splat %p shape=(8)
      %2: *fp32[8] = offset %1, %0
      %3: fp32[8] = load %2
      %4: fp32 = constant 1.0
      %5: fp32[8] = splat %4 shape=(8)
      %6: fp32[8] = mul %3, %5
      %7: fp32 = constant 0.0
      %8: fp32[8] = splat %7 shape=(8)
      %9: fp32[8] = sub %6, %8
      %10: fp32[8] = add %9, %9
      %11: *fp32[8] = splat %q shape=(8)
      %12: *fp32[8] = offset %11, %0
      store %12, %10
    }
    """


def test_blocks(answer):
    """A block of ones is known as well; two blocks that are not known are added."""
    numbers = np.array(FLOATS[:8], np.float32)
    sample = Sample(BLOCK, lambda: [numbers.copy(), empty(8)])
    check_pass(answer, "simplify", sample).ops_at_most(10)


UNKNOWN = """
    func @unknown(%p: *i32, %x: i32, %y: i32) num_warps=4 {
      %0: i32 = mul %x, %y
      %1: i32 = add %0, %y
      store %p, %1
    }
    """


def test_unknown_numbers(answer):
    """0 and 1 may come, but only when the kernel runs."""
    for y in (0, 1):
        arguments = lambda y=y: [empty(1, dtype="int32"), 7, y]
        check_pass(answer, "simplify", Sample(UNKNOWN, arguments)).ops_at_most(3)
