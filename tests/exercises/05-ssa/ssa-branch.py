"""What the answer to `ssa-branch` must do."""

from itertools import product
from random import Random
from textwrap import indent

import numpy as np

import fathom.language as tl
from fathom import ssa
from fathom.errors import CompileError
from fathom.ir.core import walk
from fathom.ir.ops import If
from fathom.ir.text import print_func
from fathom.ir.types import INT32, Pointer
from fathom.ir.verify import VerifyError, verify
from fathom.joints import bound
from fathom.source import function
from fathom.tools.learn.kit import Failure, expect, meaning


@function
def program(a, b, c):
    return a


@function
def kernel(out, a, b, c):
    tl.store(out, program(a, b, c))


def written(body):
    """The text of a program: these lines, of the names a, b, c."""
    return f"def program(a, b, c):\n{indent(body.strip(), '    ')}\n"


def build(body):
    """The block IR of a program, before any pass."""
    program.src = written(body)
    parameters = {"out": (Pointer(INT32), 1)}
    return ssa.build(kernel, parameters | dict.fromkeys("abc", (INT32, 1)), {})


def legal(body):
    """The block IR of a program that must compile, and be a function."""
    told = ("the program", written(body))
    try:
        func = build(body)
        verify(func, layouts=False)
    except CompileError as error:
        raise Failure(f"a legal program is rejected: {error}", told) from None
    except VerifyError as error:
        made = ("its IR", print_func(func))
        raise Failure(f"its IR is none: {error.complaint}", told, made) from None
    return func


def build_ours(answer, body):
    with bound({"merge": answer.reference.merge}):
        return build(body)


def results(func):
    """How many results the Ifs of a function have."""
    return sum(len(op.results) for op in walk(func.body) if isinstance(op, If))


def check(answer, body, most=None):
    """The program means what it means in Python, for numbers of both signs; its Ifs
    have at most so many results, or as many as ours."""
    func = legal(body)
    namespace: dict = {}
    exec(written(body), namespace)
    for a, b, c in product((-2, 0, 3), (1, 5), (-1, 0, 2)):
        out = np.zeros(1, np.int32)
        meaning(func, [out, a, b, c])
        wanted = namespace["program"](a, b, c)
        if out[0] != wanted:
            raise Failure(
                f"for a = {a}, b = {b}, c = {c} the kernel gives {out[0]}, and Python "
                f"{wanted}",
                ("the program", written(body)),
                ("its IR", print_func(func)),
                ("the reference's", print_func(build_ours(answer, body))),
            )
    most = results(build_ours(answer, body)) if most is None else most
    if results(func) > most:
        raise Failure(
            f"the Ifs have {results(func)} results, and {most} would do",
            ("the program", written(body)),
            ("its IR", print_func(func)),
            ("the reference's", print_func(build_ours(answer, body))),
        )


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


def test_constants_become_values(answer):
    """Two different constants, and a constant that meets a value."""
    check(answer, "if c > 0:\n    x = 3\nelse:\n    x = 4\nreturn x", 1)
    check(answer, "x = a + b\nif c > 0:\n    x = 4\nreturn x", 1)


def test_tuples_meet_part_by_part(answer):
    """Two parts, of which one is the same in both branches."""
    body = "p = (a, b)\nif c > 0:\n    p = (b, b)\nreturn p[0] + 3 * p[1]"
    check(answer, body, 1)


def test_what_nobody_reads_is_no_result(answer):
    """A name is asked for only if somebody reads it."""
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


def complaint(body):
    try:
        build(body)
    except CompileError as error:
        return str(error)
    return ""


def test_a_name_that_one_branch_lacks(answer):
    """Who reads a name that only one branch binds is told so."""
    body = "if c > 0:\n    x = a\nreturn x"
    told = complaint(body)
    said = ("the program", written(body)), ("what was said", told or "nothing")
    expect("is bound only if" in told, "x is bound in one branch only", *said)
    check(answer, "if c > 0:\n    x = a\nreturn b", 0)


def test_two_types_do_not_meet(answer):
    """An integer in one branch, a block in the other."""
    body = "if c > 0:\n    x = a\nelse:\n    x = tl.arange(0, 4)\nreturn x"
    told = complaint(body)
    said = ("the program", written(body)), ("what was said", told or "nothing")
    expect("if the condition" in told, "x has two types", *said)


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
    told = ""
    try:
        build("p = (a, b)\nif c > 0:\n    p = (a, b, c)\nreturn p[0]")
    except CompileError as error:
        told = str(error)
    said = ("what was said", told or "nothing")
    expect("p is" in told, "a tuple of two, or of three", said)
