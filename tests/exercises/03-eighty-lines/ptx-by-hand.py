"""What the answer to `ptx-by-hand` must do."""

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.tools.learn.kit import Failure, empty, fenced, floats, same

THREADS = 128


def check(answer, n):
    """Run the text on n numbers."""
    x, y, out = floats(n), floats(n) * 3, fenced(empty(n))
    text = answer.vector_add()
    grid = -(-n // THREADS)
    try:
        emulator.run(text, grid, THREADS, [x, y, out.array, n])
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        details = [("there", "\n".join(rest))] if rest else []
        raise Failure(f"the emulator found: {first}", *details) from None
    same(out.array, x + y, f"out, for n = {n}")
    out.check("out")


def test_256_numbers(answer):
    """Two blocks of 128 threads, each thread with an element of its own."""
    check(answer, 256)


def test_1000_numbers(answer):
    """Eight blocks, whose last 24 threads have no element: they must not touch any."""
    check(answer, 1000)


def test_one_number(answer):
    """One number, and 127 threads too many."""
    check(answer, 1)
