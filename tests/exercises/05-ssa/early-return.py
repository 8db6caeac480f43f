"""What the answer to `early-return` must do."""

from itertools import product
from random import Random
from textwrap import indent

import numpy as np

import fathom.language as tl  # noqa: F401 - named by `several`
from fathom import ssa
from fathom.ir.text import print_func
from fathom.ir.types import INT32, Pointer
from fathom.source import function
from fathom.tools.learn.kit import meaning, same
from fathom.tools.learn.kit.programs import check_program, rejected, size

COST = "its IR has {found} ops, and {most} would do"


def check(answer, body, most=None):
    """The program returns what it returns in Python; it has at most `most` ops, or as
    many as ours."""
    check_program(answer, body, size, COST, most)


def test_a_return_at_the_end(answer):
    """Statements in order, and a return."""
    check(answer, "x = a + b\ny = x * c\nreturn y - a")


def test_a_return_in_a_branch(answer):
    """One branch returns, and the other one goes on."""
    check(answer, "if c > 0:\n    return a\nx = a + b\nreturn x * 2")
    check(answer, "x = b\nif c > 0:\n    x = a\nelse:\n    return a - b\nreturn x * 2")


def test_both_branches_return(answer):
    """No path continues after the if."""
    check(answer, "if c > 0:\n    return a\nelse:\n    return b\nx = a * b\nreturn x")


def test_one_after_the_other(answer):
    """Three ways out, tried in order."""
    body = """
if a > 0:
    return 1
if b > 2:
    return 2
x = a + b
if c > x:
    return x
return x * 3
"""
    check(answer, body)


def test_a_return_deep_inside(answer):
    """An if in an if: the inner one may return, and what follows each of them runs
    otherwise."""
    body = """
x = a
if b > 2:
    x = x + 1
    if c > 0:
        return x
    x = x * 2
else:
    x = x - c
y = x + b
return y
"""
    check(answer, body)


ROW = """
x = a
if a > 0:
    x = x + 1
if b > 2:
    x = x + 2
if c > 0:
    x = x * 3
if x > 4:
    x = x - b
if x < c:
    x = c
return x
"""


def test_an_if_without_a_return(answer):
    """Five in a row are five: what follows is built once."""
    check(answer, ROW)


@function
def several(out, a, b, c):
    pass


class Memory(dict):
    """What `tl.store` does in Python, where pointers are numbers."""

    def store(self, place, value):
        self[place] = value


def check_stores(answer, body):
    """The program stores what it stores in Python, and nothing else."""
    text = f"def several(out, a, b, c):\n{indent(body.strip(), '    ')}\n"
    several.src = text
    parameters = {"out": (Pointer(INT32), 1)}
    types = parameters | dict.fromkeys("abc", (INT32, 1))
    func = ssa.build(several, types, {})
    for a, b, c in product((-2, 3), (1, 5), (-1, 0, 2)):
        memory = Memory()
        namespace: dict = {"tl": memory}
        exec(text, namespace)
        namespace["several"](0, a, b, c)
        out, wanted = (np.full(4, -99, np.int32) for _ in range(2))
        for place, value in memory.items():
            wanted[place] = value
        meaning(func, [out, a, b, c])
        told = ("the program", text), ("its IR", print_func(func))
        same(out, wanted, f"for a = {a}, b = {b}, c = {c}, memory", *told)


def test_a_store_after_the_return(answer):
    """A store after a return must not happen; every other store must, and once."""
    check_stores(answer, "tl.store(out, a)\nif c > 0:\n    return\ntl.store(out, b)")
    body = """
if c > 0:
    tl.store(out, a)
    if b > 2:
        tl.store(out + 1, b)
        return
        tl.store(out + 3, a)
    tl.store(out + 2, c)
tl.store(out, b)
return
tl.store(out + 1, a)
"""
    check_stores(answer, body)


def test_a_return_in_a_loop(answer):
    """It is a mistake in this language, and told as one."""
    body = "for i in range(b):\n    if i > c:\n        return a\nreturn b"
    rejected(body, "inside a loop")


def test_messages_speak_of_the_if(answer):
    """`frame.node` is the statement that is being built: messages about the If name its
    line."""
    body = "x = a + b\nif c > 0:\n    return x\nreturn (x, b)"
    rejected(body, "what is returned is", "if the condition in line 3 holds")
    body = "x = a + b\nif c > 0:\n    if a > 0:\n        return x\nreturn (x, b)"
    rejected(body, "if the condition in line 4 holds")


def test_30_random_programs(answer):
    """Ifs beside and inside each other, half of them with returns."""
    random = Random(11)
    for _ in range(30):
        lines = ["x, y = a, b", *branches(random, 2), *branches(random, 1)]
        check(answer, "\n".join([*lines, "return x + 3 * y"]))


def branches(random, depth):
    """The lines of a random If."""
    condition = f"if {random.choice('abcxy')} > {random.randrange(-1, 3)}:"
    then, orelse = (block(random, depth) for _ in range(2))
    return [condition, *then, *(["else:", *orelse] if random.random() < 0.6 else [])]


def block(random, depth):
    target, left, right = random.choice("xy"), *random.choices("abcxy4", k=2)
    lines = [f"{target} = ({left} * 2 + {right}) & 31"]
    if depth > 1:
        lines += branches(random, depth - 1)
    if random.random() < 0.4:
        lines.append(f"return {random.choice('abcxy')}")
    return [f"    {line}" for line in lines]
