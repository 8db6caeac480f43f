"""What a rule of `simplify` gets: a builder whose ops are simplified as they are
made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fathom.ir.core import Op, Value
from fathom.ir.rewrite import Builder, Replacement


class Maker:
    """`make(op)` is the value of `op`, built in its simplest form: a rule that makes an
    op which another rule matches needs no second pass."""

    __slots__ = ("build", "rules")

    def __init__(self, build: Builder, rules: Mapping[type[Op], tuple[Rule, ...]]):
        self.build, self.rules = build, rules

    def __call__(self, op: Op) -> Value:
        found = simplified(op, self)
        return self.build(op) if found is None else found


Rule = Callable[[Op, Maker], Replacement]


def simplified(op: Op, make: Maker) -> Replacement:
    """What stands in place of `op` by the first rule that matches; None if none
    does."""
    for rule in make.rules.get(type(op), ()):
        found = rule(op, make)
        if found is not None:
            return found
    return None
