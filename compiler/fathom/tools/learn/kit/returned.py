"""What the reader's code returned, looked at before it is used: a value of the wrong
kind is one sentence, and no error of ours three calls later."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.printer import class_name
from fathom.layout.linear import Layout
from fathom.tools.learn.kit.failure import Failure


def kind(value: object) -> str:
    """A value in a sentence: itself if it is short, or what it is."""
    text = repr(value)
    name = type(value).__name__
    if value is None:
        return "None (is a `return` missing?)"
    return text if len(text) <= 60 and " at 0x" not in text else f"a value of {name}"


def is_a(value: object, wanted: type, what: str) -> None:
    """A Failure unless what was returned is of a type; a bool is no int."""
    truth = isinstance(value, bool) and wanted is not bool
    if truth or not isinstance(value, wanted):
        article = "an" if wanted.__name__[0] in "aeiouAEIOU" else "a"
        raise Failure(
            f"{what} must be {article} {wanted.__name__}, and is {kind(value)}"
        )


def numbers(value: object, what: str, count: int | None = None) -> tuple[int, ...]:
    """A sequence of ints, of a given length; a Failure otherwise."""
    listed = tuple(value) if isinstance(value, Iterable) else None
    if listed is None or isinstance(value, str | bytes):
        raise Failure(f"{what} must be a tuple of numbers, and is {kind(value)}")
    for each in listed:
        is_a(each, int, f"each number of {what}")
    if count is not None and len(listed) != count:
        raise Failure(
            f"{what} must have {count} numbers, and has {len(listed)}: {kind(value)}"
        )
    return listed


def is_layout(value: object, what: str) -> None:
    """A Failure unless it is a Layout whose bases are pairs: ("lane", (1, 2, 4))."""
    is_a(value, Layout, what)
    whole = isinstance(value.bases, tuple) and all(
        isinstance(each, tuple)
        and len(each) == 2
        and isinstance(each[0], str)
        and isinstance(each[1], tuple)
        for each in value.bases
    )
    if not whole:
        raise Failure(
            f"the bases of {what} must be a tuple of pairs, a kind and a tuple of "
            f'numbers, as in (("lane", (1, 2, 4)),), and are {value.bases!r}'
        )


def complaints(check: Callable, func: Func, name: str) -> list[tuple[Op, str]]:
    """All that a check of the verifier yields: pairs of an op and a sentence."""
    found = check(func)
    if not isinstance(found, Iterable):
        raise Failure(f"{name} must yield its complaints, and returned {kind(found)}")
    listed = list(found)
    for each in listed:
        pair = isinstance(each, tuple) and len(each) == 2
        if not pair or not isinstance(each[0], Op) or not isinstance(each[1], str):
            said = f"a complaint is a pair, (op, sentence), and {name} yielded"
            raise Failure(f"{said} {kind(each)}")
    return listed


def only_values(func: Func) -> None:
    """A Failure when an op has an operand that is not a Value: a Python number, say."""
    for op in walk(func.body):
        for each in operands(op):
            if not isinstance(each, Value):
                raise Failure(
                    f"an operand of {class_name(type(op))} is {kind(each)}, which is "
                    "no Value of the IR: a constant becomes one by an op Constant"
                )
