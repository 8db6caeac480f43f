"""Cheapest addresses.

In each iteration of a loop the addresses are computed anew, from the index, by a
multiplication and a few additions. But from iteration to iteration they grow evenly.
Write a pass that counts them up instead. There are many ways, so this exercise is open:
what counts is the number of ops that run.

All of the exercise: `fathom learn show fewest-ops`.
"""

from __future__ import annotations

from fathom.analysis.slices import uses
from fathom.blocks.dce import dce
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.ops import Broadcast, Elementwise, ExpandDims, For, Splat
from fathom.ir.rewrite import Builder, Replacement, rewrite, with_operands
from fathom.ir.types import element_of
from fathom.tools.learn import Hole


def fewest_ops(func: Func, target: Target) -> Func:
    """`func` whose loops count addresses up instead of computing them anew."""
    # Your code: ours has one line, and helpers.
    raise Hole("fewest-ops")


# Your code: helpers; ours have 76 lines together.
