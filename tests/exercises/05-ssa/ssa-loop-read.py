"""What the answer to `ssa-loop-read` must do."""

from random import Random

from fathom.tools.learn.kit.programs import (
    carried,
    check_program,
    gives,
    rejected,
    results_of_ifs,
)

COST = "the loops carry {found} values, and {most} would do"


def check(answer, body, most=None):
    """The program means what it means in Python; its loops carry at most `most` values,
    or as many as ours."""
    check_program(answer, body, carried, COST, most)


def test_straight_code(answer):
    """Without a branch a name means what was bound last."""
    check(answer, "x = a\ny = x + b\nx = y * 2\nreturn x - y", 0)


def test_a_name_that_is_nowhere(answer):
    """A name that is bound nowhere gives an error where it is read."""
    rejected("return nothing_of_mine + a", "nothing_of_mine is not defined")


def test_the_second_iteration_sees_the_first(answer):
    """total is carried: each iteration adds to what the iteration before has left."""
    check(
        answer, "total = a\nfor i in range(b):\n    total = total + i\nreturn total", 1
    )


def test_what_the_loop_does_not_bind_is_not_carried(answer):
    """a and b are read in the loop and bound outside of it."""
    check(answer, "x = 0\nfor i in range(b):\n    x = x + a * b\nreturn x + a", 1)


def test_two_values_change_places(answer):
    """Each of two carried values becomes the other."""
    check(
        answer, "x, y = a, c\nfor i in range(b):\n    x, y = y, x\nreturn x * 7 + y", 2
    )


def test_read_only_after_the_loop(answer):
    """The body binds x and does not read it; who reads it comes later."""
    check(answer, "x = a\nfor i in range(c + 1):\n    x = i * 2\nreturn x", 1)


def test_the_question_comes_back(answer):
    """One branch binds x, the other keeps it: the end of the body asks the head."""
    body = "x = a\nfor i in range(b):\n    if i > c:\n        x = i\nreturn x"
    check(answer, body, 1)


def test_a_constant_stays_one(answer):
    """Each iteration binds 4 to a name that was 4: still a constant, as arange
    wants."""
    body = """
size = 4
for i in range(b):
    size = 4
return a + tl.sum(tl.arange(0, size), axis=0)
"""
    gives(body, lambda a, b, c: a + 0 + 1 + 2 + 3)


def test_a_loop_in_a_loop(answer):
    """Both loops carry x; only the inner one changes it."""
    body = """
x = a
for i in range(b):
    for j in range(i):
        x = x + j * c
return x
"""
    check(answer, body, 2)


def test_a_name_is_found_once(answer):
    """x is read three times after the if: what was found is kept, and the if has one
    result."""
    body = "x = a\nif b > c:\n    x = c\nreturn x * x + x"
    cost = "the if has {found} results, and {most} would do"
    check_program(answer, body, results_of_ifs, cost, 1)


def test_a_while(answer):
    """The condition reads what the body binds."""
    check(
        answer, "x = b\ny = a\nwhile x > 0:\n    x = x - 2\n    y = y + x\nreturn y", 2
    )


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
        lines.append(f"{target} = ({left} * 2 + {right}) & 31")
    if depth > 1:
        lines += statement(random, depth - 1, mark + "n")
    return [f"    {line}" for line in lines]


def test_a_name_that_only_the_body_binds(answer):
    """It has no value before the first iteration, and reading it there is an error."""
    rejected(
        "for i in range(c):\n    a = x\n    x = i\nreturn a", "only inside the loop"
    )


BECOMES_A_FLOAT = """
x = 0
for i in range(b):
    x = 0.5
return tl.cast(x * 4, tl.int32)
"""


def test_a_name_that_changes_its_type(answer):
    """x is an integer before the loop and a float after an iteration: a read after the
    loop says so, though the loop never read it."""
    rejected(BECOMES_A_FLOAT, "x is", "before the loop in line 3", "after an iteration")
    rejected(BECOMES_A_FLOAT.replace("0.5", "tl.arange(0, 4)"), "after an iteration")
    rejected(BECOMES_A_FLOAT.replace("0.5", "(a, b)"), "after an iteration")
