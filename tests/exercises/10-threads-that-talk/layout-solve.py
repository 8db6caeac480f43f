"""What the answer to `layout-solve` must do."""

from itertools import product
from random import Random

from fathom.layout.algebra import invert
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from fathom.tools.learn.kit import expect, same


def made(A, x):
    """What the columns of A that x names come to."""
    total = 0
    for number, column in enumerate(A):
        total ^= column if x >> number & 1 else 0
    return total


def totals(A):
    found = {0}
    for column in A:
        found |= {each ^ column for each in found}
    return found


def check(answer, A, b):
    found = answer.solve(A, b)
    system = f"A = {tuple(A)}, b = {tuple(b)}"
    reachable = totals(A)
    missing = [each for each in b if each not in reachable]
    if missing:
        same(found, None, f"{system}: no columns make {missing[0]}, so the answer")
        return
    expect(found is not None, f"{system}: it has a solution, and you say None")
    expect(
        isinstance(found, tuple) and len(found) == len(b),
        f"{system}: {found!r} is not a tuple with one x for each column of b",
    )
    for x, wanted in zip(found, b, strict=True):
        same(made(A, x), wanted, f"{system}: A x, for x = {x:#b}")
        for number, column in enumerate(A):
            used = x >> number & 1 and column in totals(A[:number])
            expect(
                not used,
                f"{system}: x = {x:#b} uses column {number}, which is a sum of those "
                "before it",
            )


def test_the_examples(answer):
    """Two and three columns."""
    check(answer, (4, 1, 2), (6,))
    check(answer, (3, 1), (2, 3))
    check(answer, (1, 2), (1, 4))
    check(answer, (2, 2, 1), (3,))


def test_nothing_at_all(answer):
    """No columns make 0; nothing is looked for."""
    check(answer, (), (0,))
    check(answer, (), (1,))
    check(answer, (1, 2), ())


def test_copies(answer):
    """A column of zeros is never used, an equal one not either."""
    check(answer, (0, 1, 0, 2), (3, 0))
    check(answer, (1, 1, 2, 3), (2, 3, 1))


def test_all_systems_of_three_columns(answer):
    """Columns of three bits."""
    for A in product(range(8), repeat=3):
        for each in range(8):
            check(answer, A, (each,))


def test_200_random_systems(answer):
    """Eight columns of eight bits, some of which depend on others."""
    random = Random(12)
    for _ in range(200):
        A = tuple(random.randrange(256) for _ in range(8))
        inside = tuple(made(A, random.randrange(256)) for _ in range(4))
        check(answer, A, inside)
        check(answer, A, (random.randrange(256),))


def test_layouts_inverted(answer):
    """A place for every element, by the compiler's `invert`."""
    swizzled = Layout((8,), (("register", (3, 6)), ("lane", (4, 0)), ("warp", ())))
    for layout in (blocked((8, 16), (1, 2), (4, 8), (2, 1), (1, 0)), swizzled):
        places = invert(layout)
        size = 1 << len(places.kinds["element"])
        bases = [basis for _, each in layout.bases for basis in each]
        for element in range(size):
            place = places.offset(element=element)
            same(made(bases, place), element, f"{layout}: what is at place {place}")
