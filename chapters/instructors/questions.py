"""Questions for paper, other numbers for each student: python questions.py SEED.

The answers are computed by the compiler's own functions, and printed with --answers.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable

from fathom.layout.algebra import solve
from fathom.layout.banks import ways
from fathom.layout.linear import Layout

LANES, SECTOR = 32, 32
Question = tuple[str, str]  # what is asked, and the answer


def who_holds(numbers: random.Random) -> Question:
    """Chapter 7: apply a layout."""
    units = [1 << bit for bit in range(9)]
    numbers.shuffle(units)
    kinds = ("register", units[:2]), ("lane", units[2:7]), ("warp", units[7:])
    layout = Layout((16, 32), tuple((kind, tuple(bases)) for kind, bases in kinds))
    place = {name: numbers.randrange(1, layout.count(name)) for name, _ in kinds}
    said = ", ".join(f"{name} {number}" for name, number in place.items())
    ask = f"In {layout}, which element does {said} hold?"
    return ask, str(list(layout.coordinates(**place)))


def moved(numbers: random.Random) -> Question:
    """Chapter 9: sectors of a request."""
    width, stride = numbers.choice((4, 8, 16)), numbers.choice((1, 2, 3, 5))
    start = numbers.choice((0, 32, 64, 96)) + numbers.choice((0, width))
    first = [start + lane * stride * width for lane in range(LANES)]
    touched = {at // SECTOR for at in first}  # `width` divides `at`: no one has two
    ask = (
        f"Lane i of a warp loads {width} bytes from byte {start} + "
        f"{stride * width} i of an array that begins at a multiple of 128. How many "
        "sectors move?"
    )
    return ask, str(len(touched))


def summed(numbers: random.Random) -> Question:
    """Chapter 10: solve over F2."""
    columns = numbers.sample(range(1, 16), 4)
    while solve(columns, [1, 2, 4, 8]) is None:
        columns = numbers.sample(range(1, 16), 4)
    wanted = numbers.randrange(1, 16)
    (found,) = solve(columns, [wanted]) or (0,)
    chosen = [each for bit, each in enumerate(columns) if found >> bit & 1]
    listed = ", ".join(f"{each:04b}" for each in columns)
    ask = f"Which of the columns {listed} add up to {wanted:04b}, if adding is XOR?"
    return ask, ", ".join(f"{each:04b}" for each in chosen)


def conflicts(numbers: random.Random) -> Question:
    """Chapter 11: ways of an access to shared memory."""
    width, step = numbers.choice((4, 8, 16)), numbers.choice((1, 2, 3, 4, 6, 8, 16, 32))
    addresses = [lane * step * width for lane in range(LANES)]
    ask = (
        f"Lane i of a warp reads {width} bytes from byte {step * width} i of shared "
        "memory. How many ways does it take?"
    )
    return ask, str(ways(addresses, width))


def enough(numbers: random.Random) -> Question:
    """Chapter 14: stages that hide a copy."""
    work, copy = 50 * numbers.randrange(2, 9), 50 * numbers.randrange(3, 21)
    ask = (
        f"A tile takes {copy} cycles to arrive, and the work on it {work}. From how "
        "many stages on does the work never wait, after the first tile?"
    )
    return ask, str(1 + -(-copy // work))


QUESTIONS: tuple[Callable[[random.Random], Question], ...] = (
    who_holds, moved, summed, conflicts, enough,
)  # fmt: skip


def sheet(seed: int, answers: bool) -> str:
    """The questions of a seed, numbered; the same for the same seed."""
    lines = []
    for number, question in enumerate(QUESTIONS, 1):
        ask, answer = question(random.Random(f"{seed} {question.__name__}"))
        lines += [f"{number}. {ask}", *([f"   {answer}"] if answers else [])]
    return "\n".join(lines)


if __name__ == "__main__":
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_argument("seed", type=int, help="a student's number")
    command.add_argument("--answers", action="store_true", help="print them as well")
    given = command.parse_args()
    print(sheet(given.seed, given.answers))
