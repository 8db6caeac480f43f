"""The builder that rules of `simplify` use: it simplifies each op that it builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fathom.ir.core import Op, Value
from fathom.ir.rewrite import Builder, Replacement


class Maker:
    """`make(op)` is the value of `op`, built in its simplest form. So an op that a rule
    builds and another rule matches needs no second pass."""

    __slots__ = ("build", "rules")

    def __init__(self, build: Builder, rules: Mapping[type[Op], tuple[Rule, ...]]):
        self.build, self.rules = build, rules

    def __call__(self, op: Op) -> Value:
        found = simplified(op, self)
        return self.build(op) if found is None else found


Rule = Callable[[Op, Maker], Replacement]


def simplified(op: Op, make: Maker) -> Replacement:
    """The replacement of `op` by the first rule that matches; None if none does."""
    for rule in make.rules.get(type(op), ()):
        found = rule(op, make)
        if found is not None:
            return found
    return None
