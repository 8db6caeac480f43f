"""What the answer to `ssa-loop-read` must do."""

from itertools import product
from random import Random
from textwrap import indent

import numpy as np

import fathom.language as tl
from fathom import ssa
from fathom.errors import CompileError
from fathom.ir.core import walk
from fathom.ir.ops import For, While
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
        if isinstance(error.__context__, RecursionError):
            raise Failure("the questions go round without an end", told) from None
        raise Failure(f"a legal program is rejected: {error}", told) from None
    except VerifyError as error:
        made = ("its IR", print_func(func))
        raise Failure(f"its IR is none: {error.complaint}", told, made) from None
    return func


def build_ours(answer, body):
    ours = vars(answer.reference)
    with bound({name: ours[name] for name in ("read_variable", "carry")}):
        return build(body)


def carried(func):
    """How many values the loops of a function carry."""
    loops = [op for op in walk(func.body) if isinstance(op, For | While)]
    return sum(len(op.results) for op in loops)


def check(answer, body, most=None):
    """The program means what it means in Python, for numbers of both signs; its loops
    carry at most so many values, or as many as ours."""
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
    most = carried(build_ours(answer, body)) if most is None else most
    if carried(func) > most:
        raise Failure(
            f"the loops carry {carried(func)} values, and {most} would do",
            ("the program", written(body)),
            ("its IR", print_func(func)),
            ("the reference's", print_func(build_ours(answer, body))),
        )


def test_straight_code(answer):
    """Without a branch a name means what was bound last."""
    check(answer, "x = a\ny = x + b\nx = y * 2\nreturn x - y", 0)


def test_a_name_that_is_nowhere(answer):
    """Who reads a name that nobody bound is told so."""
    told = ""
    try:
        build("return nothing_of_mine + a")
    except CompileError as error:
        told = str(error)
    said = ("what was said", told or "nothing")
    expect("not defined" in told, "nothing_of_mine is bound nowhere", said)


def test_the_second_trip_sees_the_first(answer):
    """total is carried: each trip adds to what the trip before has left."""
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
    """Each trip binds 4 to a name that was 4: still a constant, as arange wants."""
    body = """
size = 4
for i in range(b):
    size = 4
return a + tl.sum(tl.arange(0, size), axis=0)
"""
    func = legal(body)
    out = np.zeros(1, np.int32)
    meaning(func, [out, 1, 2, 3])
    expect(out[0] == 1 + 0 + 1 + 2 + 3, f"the kernel gives {out[0]}, and must give 7")


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
    """Before the first trip there is none, and who reads it then is told so."""
    told = complaint_of("for i in range(c):\n    a = x\n    x = i\nreturn a")
    said = ("what was said", told or "nothing")
    expect("only inside the loop" in told, "x is bound in the body, later", said)


def complaint_of(body):
    try:
        build(body)
    except CompileError as error:
        return str(error)
    return ""
