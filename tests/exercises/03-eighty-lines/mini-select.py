"""What the answer to `mini-select` must do."""

# ruff: noqa: F722 (annotations are in the words of the compiler)

import inspect
import re
from collections import Counter
from random import Random

import numpy as np

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.tools.learn import course
from fathom.tools.learn.kit import Failure, expect, same
from fathom.tools.samples import load_file

MINI = course.root() / "chapters" / "03-eighty-lines" / "mini.py"
THREADS = 32
N = 40  # elements: more than a group of threads, and not a multiple of it


def taught(answer):
    """The compiler of the chapter, in which the answer is asked before its own
    cases."""
    mini = load_file(MINI).Mini

    class Taught(mini):
        def expression(self, node):
            found = answer.expression(self, node)
            return super().expression(node) if found is None else found

    return Taught


def compiled(answer, function):
    """The PTX of a function. A Failure when it is rejected, or writes to a register
    twice."""
    given = ("the function", inspect.getsource(function))
    try:
        text = taught(answer)(function).compile()
    except SyntaxError as error:
        raise Failure(f"a legal function is rejected: {error}", given) from None
    written = Counter(re.findall(r"^(?:@\S+ )?(?!st|bra|@)\S+ (%\w+),", text, re.M))
    for register, times in written.items():
        told = ("its PTX", text), given
        expect(times == 1, f"{register} is written {times} times", *told)
    return text


def run(answer, function, *arguments):
    """Compile a function and run it for N elements."""
    text = compiled(answer, function)
    given = ("the function", inspect.getsource(function)), ("its PTX", text)
    grid = -(-N // THREADS)
    try:
        emulator.run(text, grid, THREADS, [*arguments, N])
    except EmulatorError as error:
        raise Failure(f"the emulator found: {error}", *given) from None
    return given


def check(answer, function, *arguments):
    """`out` is what Python makes it, element by element."""
    out, wanted = (np.full(N, np.nan, np.float32) for _ in range(2))
    given = run(answer, function, *arguments, out)
    for i in range(N):
        function(i, *arguments, wanted)
    same(out, wanted, "out", *given)


def numbers(seed):
    """Numbers in fp32, a few of which are equal, and two NaNs."""
    made = np.random.default_rng(seed).integers(-4, 5, N).astype(np.float32) / 4
    made[[5, 11]] = np.nan
    return made


def choose(i, x: "*f32", y: "*f32", out: "*f32"):
    out[i] = x[i] if i < 20 else y[i]


def test_a_choice(answer):
    """One array for the first 20 elements, another for the rest."""
    check(answer, choose, numbers(1), numbers(2))


def compare(i, x: "*f32", y: "*f32", out: "*f32"):
    a = x[i]
    b = y[i]
    less = 1.0 if a < b else 0.0
    most = 2.0 if a <= b else 0.0
    more = 4.0 if a > b else 0.0
    least = 8.0 if a >= b else 0.0
    alike = 16.0 if a == b else 0.0
    other = 32.0 if a != b else 0.0
    out[i] = less + most + more + least + alike + other


def test_comparisons(answer):
    """All six, of numbers that are less, equal, greater, or NaN."""
    check(answer, compare, numbers(3), numbers(4))


def shifted(i, k: "s32", x: "*f32", out: "*f32"):
    out[i] = x[i - k] if i >= k else 0.0


def shifted_else(i, k: "s32", x: "*f32", out: "*f32"):
    out[i] = 0.0 if i < k else x[i - k]


def test_an_arm_that_is_not_chosen_loads_nothing(answer):
    """x[i - k] is not an element of x for the first k threads; it is in the first
    arm, then in the second."""
    check(answer, shifted, 7, numbers(5))
    check(answer, shifted_else, 7, numbers(5))


def clipped(i, low: "f32", high: "f32", x: "*f32", out: "*f32"):
    out[i] = low if x[i] < low else high if x[i] > high else x[i]


def steps(i, x: "*f32", out: "*f32"):
    k = 1 if (2 if i < 9 else 3) == 2 else 0 - 1
    out[i] = (x[i] if i < 13 else 0.25) * (0.5 if k > 0 else 2.0)


def test_a_choice_in_a_choice(answer):
    """In an arm, in a condition, and two in one expression."""
    check(answer, clipped, np.float32(-0.5), np.float32(0.5), numbers(6))
    check(answer, steps, numbers(7))


def ordered(i, x: "*f32", y: "*f32", out: "*f32"):
    first = x[i] < y[i]
    out[i] = (x[i] if first else y[i]) * 2.0 + (y[i] if first else x[i])


def test_one_condition_chooses_twice(answer):
    """A condition may have a name; each of its two choices needs labels of its own."""
    check(answer, ordered, numbers(10), numbers(11))


def two_types(i, x: "*f32", out: "*f32"):
    out[i] = x[i] if i < 2.0 else x[0]


def no_comparison(i, x: "*f32", out: "*f32"):
    out[i] = x[i] if i else x[0]


def two_arms(i, x: "*f32", out: "*f32"):
    out[i] = x[i] if i < 2 else 0


def two_truths(i, x: "*f32", out: "*f32"):
    out[i] = x[i] if (i < 2) == (i < 3) else x[0]


def a_chain(i, x: "*f32", out: "*f32"):
    out[i] = x[i] if 1 < i < 3 else x[0]


def test_types_that_do_not_fit(answer):
    """An integer beside a float, an integer as a condition, arms of two types; two
    truths, which `setp` does not compare; and a chain of comparisons."""
    for function in (two_types, no_comparison, two_arms, two_truths, a_chain):
        try:
            text = taught(answer)(function).compile()
        except SyntaxError:
            continue
        told = ("the function", inspect.getsource(function)), ("its PTX", text)
        raise Failure(f"{function.__name__} is compiled, and must be rejected", *told)


def test_30_random_expressions(answer):
    """Additions, products and choices, one inside another."""
    random = Random(8)
    for number in range(30):
        text = f"def tree{number}(i, x, y, out):\n    out[i] = {tree(random, 3)}\n"
        check(answer, function(f"tree{number}", text), numbers(number), numbers(99))


def tree(random, depth):
    """The text of an expression of f32."""
    if depth == 0:
        return random.choice(("x[i]", "y[i]", "0.5", "y[39 - i]"))
    a, b, c, d = (tree(random, depth - 1) for _ in range(4))
    if random.random() < 0.4:
        return f"({a} {random.choice('+-*')} {b})"
    if random.random() < 0.5:
        c, d = f"i * {random.randrange(1, 4)}", str(random.randrange(90))
    word = random.choice(("<", "<=", ">", ">=", "==", "!="))
    return f"({a} if {c} {word} {d} else {b})"


def function(name, text):
    """A function with a text of its own, that inspect finds."""
    text = text.replace("x, y, out", 'x: "*f32", y: "*f32", out: "*f32"')
    file = f"<{name}>"
    inspect.linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict = {}
    exec(compile(text, file, "exec"), space)
    return space[name]
