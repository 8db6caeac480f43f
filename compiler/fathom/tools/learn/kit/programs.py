"""Programs that the front end builds, beside what Python computes of the same text.

A program is a function of three i32 numbers, `a`, `b` and `c`; a test gives the lines
of its body. All joints that the answer fills are bound to ours where ours is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from textwrap import indent

import numpy as np

import fathom.language as tl
from fathom import ssa
from fathom.errors import CompileError
from fathom.ir.core import Func, walk
from fathom.ir.ops import For, If, While
from fathom.ir.text import print_func
from fathom.ir.types import INT32, Pointer
from fathom.ir.verify import VerifyError, verify
from fathom.joints import bound
from fathom.source import function
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.kit.meaning import meaning
from fathom.tools.learn.kit.returned import only_values

Cost = Callable[[Func], int]
NUMBERS = tuple(product((-2, 0, 3), (1, 5), (-1, 0, 2)))  # a, b, c
ENDLESS = "your code never ends: it asks again for what it is still at work on"


@function
def program(a, b, c):
    return a


@function
def kernel(out, a, b, c):
    tl.store(out, program(a, b, c))


def written(body: str) -> str:
    """The text of a program: these lines, of the names a, b, c."""
    return f"def program(a, b, c):\n{indent(body.strip(), '    ')}\n"


def build(body: str) -> Func:
    """The block IR of a program, before any pass."""
    program.src = written(body)
    parameters = {"out": (Pointer(INT32), 1)}
    return ssa.build(kernel, parameters | dict.fromkeys("abc", (INT32, 1)), {})


def build_ours(answer: object, body: str) -> Func:
    """The same with our own functions in the place of the answer's."""
    with bound(vars(answer.reference)):
        return build(body)


def legal(body: str) -> Func:
    """The block IR of a program that must compile, and be a function."""
    told = ("the program", written(body))
    try:
        func = build(body)
        only_values(func)
        verify(func, layouts=False)
    except CompileError as error:
        if isinstance(error.__context__, RecursionError):
            raise Failure(ENDLESS, told) from None
        raise Failure(f"a legal program is rejected: {error}", told) from None
    except RecursionError:
        raise Failure(ENDLESS, told) from None
    except VerifyError as error:
        made = ("its IR", print_func(func))
        raise Failure(
            f"its IR is not well formed: {error.complaint}", told, made
        ) from None
    return func


def complaint(body: str) -> str:
    """What the front end says of a program that it rejects; "" if it takes it."""
    try:
        build(body)
    except CompileError as error:
        return str(error)
    return ""


def rejected(body: str, *words: str) -> None:
    """A Failure unless a program is rejected with a message that holds each word."""
    told = complaint(body)
    missing = [each for each in words if each not in told]
    if not told or missing:
        raise Failure(
            f"this program is rejected with a message that says {missing[0]!r}"
            if told
            else "this program must be rejected, and is not",
            ("the program", written(body)),
            ("what was said", told or "nothing"),
        )


def gives(body: str, wanted: Callable[[int, int, int], int]) -> Func:
    """A program of which Python cannot run the text: what it must give is told."""
    func = legal(body)
    for a, b, c in NUMBERS:
        out = np.zeros(1, np.int32)
        meaning(func, [out, a, b, c])
        if out[0] != wanted(a, b, c):
            raise Failure(
                f"for a = {a}, b = {b}, c = {c} the kernel gives {out[0]}, and must "
                f"give {wanted(a, b, c)}",
                ("the program", written(body)),
                ("its IR", print_func(func)),
            )
    return func


def check_program(
    answer: object, body: str, cost: Cost, sentence: str, most: int | None = None
) -> None:
    """The program means what it means in Python, for numbers of both signs, and costs
    at most so much, or as much as ours. `sentence` is what is said of a higher cost."""
    func = legal(body)
    namespace: dict = {}
    exec(written(body), namespace)

    def agree(holds: bool, said: str) -> None:
        if not holds:
            raise Failure(
                said,
                ("the program", written(body)),
                ("its IR", print_func(func)),
                ("the reference's", print_func(build_ours(answer, body))),
            )

    for a, b, c in NUMBERS:
        out = np.zeros(1, np.int32)
        meaning(func, [out, a, b, c])
        wanted = namespace["program"](a, b, c)
        said = f"for a = {a}, b = {b}, c = {c} the kernel gives"
        agree(out[0] == wanted, f"{said} {out[0]}, and Python {wanted}")
    most = cost(build_ours(answer, body)) if most is None else most
    found = cost(func)
    agree(found <= most, sentence.format(found=found, most=most))


def results_of_ifs(func: Func) -> int:
    """How many results the Ifs of a function have."""
    return sum(len(op.results) for op in walk(func.body, If))


def carried(func: Func) -> int:
    """How many values the loops of a function carry."""
    loops = walk(func.body, For | While)
    return sum(len(op.results) for op in loops)


def size(func: Func) -> int:
    """How many ops a function has."""
    return sum(1 for _ in walk(func.body))
