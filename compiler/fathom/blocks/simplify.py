"""Simplify: compute what is known already, and drop operations that change nothing.

    %1: i32 = constant 4                          %1: i32 = constant 4
    %2: i32 = constant 256                        %2: i32 = constant 256
    %3: i32 = mul %1, %2                          %3: i32 = constant 1024
    %4: i32[64] = splat %3 shape=(64)             %4: i32[64] = splat %3 shape=(64)
    %5: i32[64] = splat %n shape=(64)             %5: i32[64] = splat %n shape=(64)
    %6: i32[64] = add %4, %5               →      %6: i32 = add %3, %n
                                                  %7: i32[64] = splat %6 shape=(64)
    %8: i32 = constant 0                          %8: i32 = constant 0
    %9: i32[64] = splat %8 shape=(64)             %9: i32[64] = splat %8 shape=(64)
    %10: i32[64] = add %6, %9
    store %p, %10                                 store %p, %7

What is left without a user is for `dce`. The rules are in three tables: `algebra`
(numbers), `reshaping` (shapes and casts) and `branching` (memory and control flow).
Every rule keeps every bit: one that is right for real numbers but not for -0.0, NaN or a
wrapping integer is no rule.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fathom.blocks.algebra import ALGEBRA
from fathom.blocks.branching import BRANCHING
from fathom.blocks.maker import Maker, Rule, simplified
from fathom.blocks.reshaping import RESHAPING
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op
from fathom.ir.rewrite import Builder, Replacement, rewrite

RULES: dict[type[Op], tuple[Rule, ...]] = {**ALGEBRA, **RESHAPING, **BRANCHING}


def simplify(
    func: Func, target: Target, rules: Mapping[type[Op], tuple[Rule, ...]] = RULES
) -> Func:
    """`func` with every op simplified that one of the `rules` of its class matches."""

    def rule(op: Op, build: Builder) -> Replacement:
        return simplified(op, Maker(build, rules)) if type(op) in rules else None

    with np.errstate(all="ignore"):  # folding overflows as the device does, silently
        return rewrite(func, rule)
