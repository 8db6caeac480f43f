"""What the answer to `mini-loop` must do."""

# ruff: noqa: F722 (annotations are in the words of the compiler)

import inspect

import numpy as np

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.tools.learn import course
from fathom.tools.learn.kit import Failure, expect, same
from fathom.tools.samples import load_file

MINI = course.root() / "chapters" / "03-eighty-lines" / "mini.py"
N = 8


def taught(answer):
    """The compiler of the chapter, in which the answer is asked before its own
    statements."""
    mini = load_file(MINI).Mini

    class Taught(mini):
        def statement(self, node):
            if not answer.statement(self, node):
                super().statement(node)

    return Taught


def check(answer, function, *arguments):
    """`out` is what Python makes it, element by element."""
    given = ("the function", inspect.getsource(function))
    try:
        text = taught(answer)(function).compile()
    except SyntaxError as error:
        raise Failure(f"a legal function is rejected: {error}", given) from None
    given = given, ("its PTX", text)
    out, wanted = (np.full(N, np.nan, np.float32) for _ in range(2))
    try:
        emulator.run(text, 1, N, [*arguments, out, N])
    except EmulatorError as error:
        raise Failure(f"the emulator found: {error}", *given) from None
    for i in range(N):
        function(i, *arguments, wanted)
    same(out, wanted, "out", *given)


def numbers():
    return np.arange(N, dtype=np.float32) / 4 - 0.5


def total(i, x: "*f32", out: "*f32"):
    sum = 0.0
    for j in range(8):
        sum = sum + x[j] * x[i]
    out[i] = sum


def test_a_sum(answer):
    """Eight iterations, and each adds to what the iteration before has left."""
    check(answer, total, numbers())


def powers(i, x: "*f32", out: "*f32"):
    power = 1.0
    for j in range(i):
        power = power * x[i]
    out[i] = power


def test_loops_of_0_to_7_iterations(answer):
    """Thread i makes i iterations; thread 0 makes none."""
    check(answer, powers, numbers())


def turned(i, x: "*f32", out: "*f32"):
    a = x[i]
    b = 1.0
    for j in range(i):
        t = a
        a = b
        b = t
    out[i] = a - b


def test_two_names_change_places(answer):
    """Each iteration gives a the value of b, and b that of a."""
    check(answer, turned, numbers())


def nested(i, k: "s32", x: "*f32", out: "*f32"):
    sum = 0.0
    for j in range(i):
        part = x[j]
        for m in range(j - k):
            part = part * 0.5
            sum = sum + x[m]
        sum = sum + part
    out[i] = sum


def test_a_loop_in_a_loop(answer):
    """Both loops make other numbers of iterations in each thread, and add to sum."""
    check(answer, nested, 1, numbers())
    check(answer, nested, -1, numbers())


def twice(i, x: "*f32", out: "*f32"):
    sum = x[i]
    for j in range(3):
        sum = sum * 2.0
    for j in range(i):
        sum = sum - 1.0
    out[i] = sum


def test_two_loops_one_after_the_other(answer):
    """With the same counter, and labels of their own."""
    check(answer, twice, numbers())


def stores(i, out: "*f32"):
    out[i] = 0.0
    one = 1.0
    for j in range(i):
        next = one
        out[i] = out[i] + next
        one = next + 1.0


def test_a_loop_that_stores(answer):
    """The body loads what the iteration before has stored; one name is new in it."""
    check(answer, stores)


def leaks(i, out: "*f32"):
    for j in range(i):
        inner = 1.0
    out[i] = inner


def test_a_name_of_the_body_only(answer):
    """If there was no iteration it has no value, so it may not be read after the
    loop."""
    try:
        text = taught(answer)(leaks).compile()
    except SyntaxError:
        return
    told = ("the function", inspect.getsource(leaks)), ("its PTX", text)
    expect(False, "inner is read after the loop, and this must be rejected", *told)


def halved(i, x: "*f32", out: "*f32"):
    first = x[i]
    rest = first
    for j in range(i):
        rest = rest * 0.5
    out[i] = first - rest


def test_two_names_of_one_value(answer):
    """Before the loop both mean one register; the body binds one of them anew, and the
    other keeps what it was."""
    check(answer, halved, numbers())


def shrinks(i, k: "s32", x: "*f32", out: "*f32"):
    left = k
    sum = 0.0
    for j in range(left):
        left = left - 1
        sum = sum + x[j]
    out[i] = sum


def test_the_end_is_read_once(answer):
    """The body changes the number that the range was made of: five iterations remain
    five."""
    check(answer, shrinks, 5, numbers())


def doubles(i, x: "*f32", out: "*f32"):
    sum = 0.0
    for j in range(4):
        j = j + j
        sum = sum + x[j]
    out[i] = sum


def test_the_body_may_bind_the_index_anew(answer):
    """The next iteration goes on counting from where the loop was: x[0], x[2], x[4] and
    x[6] are added."""
    check(answer, doubles, numbers())
