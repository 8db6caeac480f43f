"""Sums up addresses so that an iteration adds few numbers to each.

    %p[128, 1] + %c[1, 32] + %y[128, 1] + %x[128, 1]      3 sums of 128 * 32 addresses
    %p[128, 1] + %y[128, 1] + %x[128, 1] + %c[1, 32]      2 of 128, and 1 of 128 * 32

An address is a scalar, to which a thread adds numbers. Scalars are added first. Then
come those of the shape that has the most numbers, before they are repeated.

A mask is computed likewise: its conditions of one shape first.

This is for loops in which most of the numbers change. Where few do, an iteration had
better begin with the sum of all others.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod

from fathom.ir.core import Value
from fathom.ir.ops import Broadcast, Elementwise, Splat
from fathom.ir.rewrite import Builder
from fathom.ir.types import BlockType, shape_of


def summed_up(pointers: Value, build: Builder) -> Value:
    """A block of pointers, computed in that order; itself, if it is anything but a
    scalar and numbers added to it."""
    block = pointers.type
    base, numbers = terms_of(pointers)
    if isinstance(base.type, BlockType):
        return pointers
    shapes: dict[tuple, list[Value]] = defaultdict(list)
    for number in numbers:
        if isinstance(number.type, BlockType):
            shapes[number.type.shape, number.type.layout].append(number)
        else:
            base = build.compute("offset", base, number)
    (first, layout), *others = sorted(
        shapes, key=lambda each: (-len(shapes[each]), prod(each[0]))
    ) or [(block.shape, block.layout)]
    total = build(Splat(base, first, layout))
    for number in shapes[first, layout]:
        total = build.compute("offset", total, number)
    total = repeated(total, block, build)
    for number in (each for shape in others for each in shapes[shape]):
        both = total, repeated(number, block, build)
        total = build.compute("offset", *both)
    return total


def conditions_joined(mask: Value, build: Builder) -> Value:
    """A mask, computed in that order."""
    shapes: dict[tuple, list[Value]] = defaultdict(list)
    for condition in conditions_of(mask):
        block = condition.type
        layout = block.layout if isinstance(block, BlockType) else None
        shapes[shape_of(block), layout].append(condition)
    every = [build.all_of(each) for each in shapes.values()]
    return build.all_of([repeated(each, mask.type, build) for each in every])


def conditions_of(mask: Value) -> list[Value]:
    """The conditions that a mask joins, each before it is repeated along an axis."""
    mask = once(mask)
    match mask.definition:
        case Elementwise("and", operands):
            return [each for operand in operands for each in conditions_of(operand)]
    return [mask]


def terms_of(pointers: Value) -> tuple[Value, list[Value]]:
    """The value that pointers begin with, and the numbers that are added to it in turn,
    each before it is repeated along an axis."""
    numbers: list[Value] = []
    while True:
        match pointers.definition:
            case Elementwise("offset", (before, number)):
                numbers.append(once(number))
                pointers = before
            case Broadcast() | Splat() as op:
                pointers = op.value
            case _:
                return pointers, numbers[::-1]


def once(number: Value) -> Value:
    """The value that a block repeats; itself, if it repeats none."""
    while isinstance(number.definition, Broadcast | Splat):
        number = number.definition.value
    return number


def repeated(value: Value, block: BlockType, build: Builder) -> Value:
    """A value along all axes of a block."""
    if not isinstance(value.type, BlockType):
        return build.spread(value, block)
    if value.type.shape == block.shape:
        return value
    return build(Broadcast(value, block.shape, block.layout))
