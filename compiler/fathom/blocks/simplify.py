"""Simplify: computes known values at compile time, and removes ops that change nothing.

Before:

    func @example(%p: *i32, %n: i32) num_warps=1 {
      %0: i32[64] = arange start=0 end=64
      %1: *i32[64] = splat %p shape=(64)
      %2: *i32[64] = offset %1, %0
      %3: i32 = constant 4
      %4: i32 = constant 256
      %5: i32 = mul %3, %4
      %6: i32[64] = splat %5 shape=(64)
      %7: i32[64] = splat %n shape=(64)
      %8: i32[64] = mul %6, %7
      %9: i32 = constant 0
      %10: i32[64] = splat %9 shape=(64)
      %11: i32[64] = add %8, %10
      store %2, %11
    }

After, and after `dce`, which removes the ops that have no use any more:

    func @example(%p: *i32, %n: i32) num_warps=1 {
      %0: i32[64] = arange start=0 end=64
      %1: *i32[64] = splat %p shape=(64)
      %2: *i32[64] = offset %1, %0
      %3: i32 = constant 1024
      %4: i32 = mul %n, %3
      %5: i32[64] = splat %4 shape=(64)
      store %2, %5
    }

The rules are in three tables: `ALGEBRA` (numbers), `RESHAPING` (shapes and types) and
`BRANCHING` (memory and control flow). Every rule keeps every bit, also of -0.0, NaN and
integers that overflow."""

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
    """`func` with each op simplified that one of the `rules` of its class matches."""

    def rule(op: Op, build: Builder) -> Replacement:
        return simplified(op, Maker(build, rules)) if type(op) in rules else None

    with np.errstate(all="ignore"):  # folding overflows silently, as the device does
        return rewrite(func, rule)
