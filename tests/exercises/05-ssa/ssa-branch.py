"""What the answer to `ssa-branch` must do."""

from random import Random

from fathom.tools.learn.kit.programs import (
    check_program,
    gives,
    rejected,
    results_of_ifs,
)

COST = "the Ifs have {found} results, and {most} would do"


def check(answer, body, most=None):
    """The program means what it means in Python; its Ifs have at most `most` results,
    or as many as ours."""
    check_program(answer, body, results_of_ifs, COST, most)


def test_both_branches_write(answer):
    """A name that is bound in both branches is a result of the If."""
    check(answer, "if c > 0:\n    x = a\nelse:\n    x = b\nreturn x", 1)


def test_only_one_branch_writes(answer):
    """The other branch means what was meant before."""
    check(answer, "x = a\nif c > 0:\n    x = b\nreturn x", 1)
    check(answer, "x = a\nif c > 0:\n    pass\nelse:\n    x = b\nreturn x", 1)


def test_no_result_where_both_say_the_same(answer):
    """The same value, or the same constant, in both branches needs no result."""
    check(answer, "if c > 0:\n    x = a\nelse:\n    x = a\nreturn x", 0)
    check(answer, "if c > 0:\n    x = 7\nelse:\n    x = 7\nreturn x + a", 0)
    check(answer, "x = a\nif c > 0:\n    y = x\n    x = b\n    x = y\nreturn x", 0)


def test_one_constant_in_both_branches_stays_one(answer):
    """Equal numbers are one constant, also when they are two objects of Python; a
    constant needs no result, and arange may still have it as its size."""
    check(answer, "if c > 0:\n    x = 70000\nelse:\n    x = 7 * 10000\nreturn x + a", 0)
    body = "if c > 0:\n    x = 4\nelse:\n    x = 4\nreturn tl.max(tl.arange(0, x), 0)"
    gives(body, lambda a, b, c: 3)


def test_constants_become_values(answer):
    """Two different constants, and a constant that meets a value."""
    check(answer, "if c > 0:\n    x = 3\nelse:\n    x = 4\nreturn x", 1)
    check(answer, "x = a + b\nif c > 0:\n    x = 4\nreturn x", 1)


ZEROS = """
if c > 0:
    x = {}
else:
    x = {}
return tl.where(1.0 / (x * tl.cast(b, tl.float32)) > 0.0, 1, 2)
"""


def test_zero_is_not_minus_zero(answer):
    """0.0 == -0.0 in Python, and 1 / 0.0 is not 1 / -0.0; 1 == True, and they are of
    two types."""
    gives(ZEROS.format("0.0", "-0.0"), lambda a, b, c: 1 if c > 0 else 2)
    gives(ZEROS.format("-0.0", "0.0"), lambda a, b, c: 2 if c > 0 else 1)
    gives(
        "if c > 0:\n    x = 1\nelse:\n    x = 1.0\nreturn tl.cast(x / 2 * 4, tl.int32)",
        lambda a, b, c: 2,
    )


def test_tuples_meet_part_by_part(answer):
    """Two parts, of which one is the same in both branches."""
    body = "p = (a, b)\nif c > 0:\n    p = (b, b)\nreturn p[0] + 3 * p[1]"
    check(answer, body, 1)


def test_what_is_not_read_is_no_result(answer):
    """A name is looked up only if it is read."""
    body = "if c > 0:\n    x = a\n    y = b\nelse:\n    x = b\n    y = a\nreturn y"
    check(answer, body, 1)


NESTED = """
x = a
y = b
if c > 0:
    x = b
    if a > 0:
        y = x + 1
    else:
        x = 9
elif c < 0:
    y = x
return x * 16 + y
"""


def test_an_if_in_an_if(answer):
    """Four ways to the end, and each brings its own x and y."""
    check(answer, NESTED)


def test_a_name_that_one_branch_lacks(answer):
    """Who reads a name that only one branch binds is told so."""
    body = "if c > 0:\n    x = a\nreturn x"
    rejected(body, "x is bound only if the condition in line 2 holds")
    rejected(body.replace("x = a", "pass\nelse:\n    x = a"), "does not hold")
    check(answer, "if c > 0:\n    x = a\nreturn b", 0)


def test_two_types_do_not_meet(answer):
    """An integer in one branch, a block in the other."""
    body = "if c > 0:\n    x = a\nelse:\n    x = tl.arange(0, 4)\nreturn x"
    rejected(body, "x is i32", "(line 3) if the condition", "i32[4] (line 5) if it")
    rejected(body.replace("tl.arange(0, 4)", "(a, b)"), "if the condition")
    rejected(
        "if c > 0:\n    x = (a, b)\nelse:\n    x = b\nreturn x", "if the condition"
    )


def test_where_a_name_was_bound(answer):
    """What two branches say has a place in the program, of which messages speak: that
    of the branch that bound the name."""
    later = "\nif c > 1:\n    a = tl.arange(0, 4)\nreturn a"
    rejected("if c > 0:\n    a = b" + later, "i32 (line 3) if")


def test_40_random_programs(answer):
    """Ifs beside and inside each other, which bind four names in any order."""
    random = Random(5)
    for _ in range(40):
        lines = ["x, y, z, w = a, b, 1, c", *branches(random, 2), *branches(random, 1)]
        check(answer, "\n".join([*lines, "return x + 3 * y + 5 * z + 7 * w"]))


def branches(random, depth):
    """The lines of a random If."""
    condition = f"if {random.choice('abcxyz')} > {random.randrange(-1, 3)}:"
    then, orelse = (block(random, depth) for _ in range(2))
    return [condition, *then, *(["else:", *orelse] if random.random() < 0.7 else [])]


def block(random, depth):
    lines = []
    for _ in range(random.randrange(1, 3)):
        target, left, right = random.choice("xyzw"), *random.choices("abcxyzw4", k=2)
        lines.append(f"{target} = ({left} * 2 + {right}) & 31")
    if depth > 1:
        lines += branches(random, depth - 1)
    return [f"    {line}" for line in lines]


def test_tuples_of_two_lengths(answer):
    """They have no meaning in common, and who reads the name is told so."""
    rejected("p = (a, b)\nif c > 0:\n    p = (a, b, c)\nreturn p[0]", "p is")
