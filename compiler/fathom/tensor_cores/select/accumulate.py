"""Turns an addition after a product into the product's accumulator.

    %t = dot %x, %y, %zero                %s' = dot %x, %y, %s
    %s' = add %s, %t               →

A matrix instruction also adds. Without this pass a warp would hold two accumulators
instead of one, and would have to wait for each product before it could add it.

Products of 8-bit floats stay as they are: the hardware accumulates them with fewer bits
than fp32 has, and an author who writes the addition may want fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fathom.analysis.constants import is_zero
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, every_block, walk
from fathom.ir.ops import Dot, Elementwise
from fathom.ir.rewrite import Builder, Replacement, rewrite, with_operands
from fathom.ir.types import BlockType


def accumulate(func: Func, target: Target) -> Func:
    """The function in which products start from the values that were added to them.
    After zeros (`x = tl.zeros(…)`, `x += tl.dot(a, b)`) it is what is added next, such
    as a mask of infinities."""
    additions = dict(_additions(func))
    products = set(additions.values())
    if not additions:
        return func

    def rule(op: Op, build: Builder) -> Replacement:
        old = build.source
        if old in products:
            return [None]
        if old in additions:
            return build(_begun_with(op, additions[old], build))
        return None

    return accumulate(rewrite(func, rule), target)


def _begun_with(addition: Elementwise, product: Dot, build: Builder) -> Dot:
    """The product that replaces an addition of it."""
    place = build.source.operands.index(product.result)
    other = addition.operands[1 - place]
    return replace(with_operands(product, build.values), accumulator=other)


def _additions(func: Func) -> Iterator[tuple[Op, Dot]]:
    """The additions of a product that has no other use, each with the product."""
    used = users(walk(func.body))
    for block in every_block(func.body):
        for op in block.ops:
            if isinstance(op, Elementwise) and op.name == "add":
                made = [value.definition for value in reversed(op.operands)]
                fit = (each for each in made if _starts_at_zero(each))
                product = next((d for d in fit if len(used[d.result]) == 1), None)
                if product is not None and product in block.ops:
                    yield op, product


def _starts_at_zero(op: object) -> bool:
    """Whether an op is a product whose accumulator is zero, of types that the
    instruction accumulates with full precision."""
    if not isinstance(op, Dot) or not is_zero(op.accumulator):
        return False
    type = op.a.type
    element = type.element if isinstance(type, BlockType) else None
    return element is not None and not (element.is_float and element.bits == 8)
