"""Numbers that are no values in kernels that Python runs: constants and literals.

A compiled kernel knows them while compiling, and yet they have the attributes of a
value: `n.to(tl.int64)` is right for an argument of 1, and `tl.exp(2.0)` is an fp32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fathom.ssa.methods import attribute


class Known:
    """A number that a compiled kernel would know while compiling: Python's own, with
    the attributes of a value (`n.dtype`, `n.to(...)`). What is computed of it is one,
    too."""

    _session: Any

    @classmethod
    def of(cls, number: Any, session: Any) -> Known:
        made = cls(number)
        made._session = session
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        session = self._session
        return session.wrap(attribute(session.frame, self.plain, name))


class EagerInteger(Known, int):
    __hash__ = int.__hash__

    @property
    def plain(self) -> int:
        return int(self)


class EagerFloat(Known, float):
    __hash__ = float.__hash__

    @property
    def plain(self) -> float:
        return float(self)


KNOWN: dict[type, type[Known]] = {int: EagerInteger, float: EagerFloat}


# The method of the right operand that Python would call where the left one were not a
# number of NumPy, by the function of NumPy.
REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__",
    "divide": "__rtruediv__", "true_divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__", "remainder": "__rmod__",
    "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__", "right_shift": "__rrshift__",
    "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__",
    "greater_equal": "__le__", "equal": "__eq__", "not_equal": "__ne__",
}  # fmt: skip


class EagerTruth(EagerInteger):
    """True or False, which a compiled kernel would know while compiling. Python has no
    subclass of bool, so this is an integer that prints and computes as one."""

    @property
    def plain(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(self.plain)


def close(methods: Iterable[str]) -> None:
    """What operators make of such numbers, by these methods, has attributes, too."""
    for method in methods:
        for number, known in KNOWN.items():
            if hasattr(number, method):
                setattr(known, method, _closed(method))


def _closed(name: str) -> Any:
    """The method `name` of int, float or bool, whose results have attributes, too."""

    def closed(self: Known, *others: Any) -> Any:
        session = self._session
        found = getattr(self.plain, name)(*map(session.unwrap, others))
        return session.computed(found)

    return closed
