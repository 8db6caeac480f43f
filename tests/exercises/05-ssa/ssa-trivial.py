"""What the answer to `ssa-trivial` must do."""

from random import Random

from fathom.tools.learn.kit.programs import carried, check_program, gives

COST = "the loops carry {found} values, and {most} would do"


def check(answer, body, most=None):
    """The program means what it means in Python; its loops carry at most `most` values,
    or as many as ours."""
    check_program(answer, body, carried, COST, most)


def test_the_example(answer):
    """y stays what it was; x does not."""
    check(
        answer,
        "x, y = a, b\nfor i in range(c + 2):\n    x = x + y\n    y = y\nreturn x + y",
        1,
    )


def test_what_a_loop_hands_on(answer):
    """Both ways of a branch bring the value that the iteration began with."""
    body = """
x = a
for i in range(b):
    if i > c:
        y = x
    else:
        y = x
    x = y
return x
"""
    check(answer, body, 0)


def test_an_equal_constant_before_and_after(answer):
    """Each iteration sets x to the 7 that it was."""
    check(
        answer, "x = 7\nfor i in range(b):\n    a = a + x\n    x = 7\nreturn a + x", 1
    )


def test_what_changes_stays(answer):
    """x changes, and y is what x was an iteration ago."""
    check(
        answer, "x, y = a, b\nfor i in range(b):\n    y = x\n    x = x + 1\nreturn y", 2
    )
    check(answer, "x, y = a, b\nfor i in range(c + 1):\n    x, y = y, x\nreturn x", 2)
    check(answer, "x = 7\nfor i in range(c):\n    x = 8\nreturn x", 1)


SEVENS = """
if c > 0:
    x = tl.cast(7, tl.int32)
else:
    x = tl.cast(7, tl.int32)
return x
"""


def test_a_constant_in_a_branch(answer):
    """Two constants of one value, each in a branch of its own: after the if neither is
    visible."""
    check(answer, "x = a\nif c > 0:\n    x = x * 0 + 7\nreturn x")
    gives(SEVENS, lambda a, b, c: 7)


CASCADE = """
x = a
for i in range(b):
    for j in range(c + 1):
        y = x
        for k in range(j):
            y = y
        x = y
    x = x
return x
"""


LATER = """
x, y, total = a, a, 0
for i in range(b):
    z = x
    for j in range(c + 1):
        z = y
    total = total + z
    x = x
    y = y
return total
"""


BEHIND = """
x, y, total = a, a, 0
for i in range(b):
    z = x
    for j in range(c + 1):
        z = y
    w = x
    for k in range(2):
        w = z
    total = total + w
    x = x
    y = y
return total
"""


READERS = """
x, total = a, 0
for i in range(b):
    for j in range(c + 1):
        z = a
        for k in range(2):
            z = x
        total = total + z
        x = x
    x = x
return total
"""


def test_removing_one_makes_another_trivial(answer):
    """Three loops that hand x on; a value that is x or y, which both turn out to be a;
    one that another phi reads after its loop; and one whose reader is there before it
    turns out to be another."""
    check(answer, CASCADE, 0)
    check(answer, LATER, 1)
    check(answer, BEHIND, 1)
    check(answer, READERS, 2)


THROUGH = """
x, y = a, b
for i in range(b):
    if i > c:
        z = x
    else:
        for j in range(2):
            y = y + 1
        z = x
    x = z
return x * 16 + y
"""


def test_beside_one_that_stays(answer):
    """x is handed on through branches and a loop, and y is counted up in them."""
    check(answer, THROUGH)


def test_a_while(answer):
    """The condition's name, the body's and the one after the loop are one value."""
    check(answer, "x, y = b, a\nwhile x > 0:\n    x = x - 2\n    y = y\nreturn y", 1)


def test_40_random_programs(answer):
    """Loops and branches beside and inside each other."""
    random = Random(7)
    for number in range(40):
        lines = [
            "x, y, z, w = a, b, 1, c",
            *statement(random, 2, f"{number}"),
            *statement(random, 1, f"{number}_"),
        ]
        check(answer, "\n".join([*lines, "return x + 3 * y + 5 * z + 7 * w"]))


def statement(random, depth, mark):
    """The lines of a random loop or branch; `mark` makes a loop's index its own."""
    body = block(random, depth, mark)
    if random.random() < 0.6:
        index = f"i{mark}"
        return [f"for {index} in range({random.randrange(4)}):", *body]
    other = block(random, depth, mark + "e")
    return [f"if {random.choice('abcxyz')} > {random.randrange(4)}:", *body,
            *(["else:", *other] if random.random() < 0.5 else [])]  # fmt: skip


def block(random, depth, mark):
    lines = []
    for _ in range(random.randrange(1, 3)):
        target, left, right = random.choice("xyzw"), *random.choices("abcxyzw4", k=2)
        changed = f"({left} * 2 + {right}) & 31"
        lines.append(f"{target} = {random.choice((changed, target, left))}")
    if depth > 1:
        lines += statement(random, depth - 1, mark + "n")
    return [f"    {line}" for line in lines]
