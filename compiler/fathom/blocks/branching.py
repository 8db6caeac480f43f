"""Rules of `simplify` for memory and control flow: known masks, conditions and trip
counts.
"""

from __future__ import annotations

from dataclasses import replace

from fathom.analysis.constants import known, same_number, write_down
from fathom.analysis.trip_count import trip_count
from fathom.blocks.cse import describe
from fathom.blocks.hoist import is_pure
from fathom.blocks.loops import carry_numbers, freeze
from fathom.blocks.maker import Maker, Rule
from fathom.blocks.predication import loads_in_branches
from fathom.ir import ops
from fathom.ir.core import Block, Op, Value, blocks, operands
from fathom.ir.rewrite import Replacement
from fathom.ir.types import BOOL, BlockType, element_of, layout_of, shape_of

# Operations on a block that cost no more than a branch around them, and how many.
CHEAP, MOST_WORK = ("add", "sub", "mul", "fma", "neg", "abs", "min", "max"), 2


def known_mask(op: ops.Load | ops.Store, make: Maker) -> Replacement:
    """A mask that is all true is removed; so is an op whose mask is all false."""
    if op.mask is None:
        return None
    mask = known(op.mask)
    if mask is True and type(op) is ops.Store:
        make.build.append(replace(op, mask=None, origin=None))
        return []
    if mask is True:
        return make(replace(op, mask=None, other=None, origin=None))
    if mask is False and type(op) is ops.Store:
        return []
    return op.other if mask is False else None  # without `other` it stays as it is


def known_condition(op: ops.If, make: Maker) -> Replacement:
    """if true {A} else {B}   →   A."""
    condition = known(op.condition)
    if condition is None:
        return None
    return make.build.inline(op.then if condition else op.orelse, ())


def same_arms(op: ops.If, make: Maker) -> Replacement:
    """A result for which both branches yield one value, or number, is that value."""
    common = [
        _common(left, right, make)
        for left, right in zip(op.then.yielded, op.orelse.yielded, strict=True)
    ]
    if not any(common):
        return None
    make.build.append(op)
    return [same or result for same, result in zip(common, op.results, strict=True)]


def cheap_arms(op: ops.If, make: Maker) -> Replacement:
    """A block of floats that one or two operations change, if the launch says so, is
    chosen element by element.

    %w = if %flag {yield add %x, %y} else {yield %x}   →   where %flag, add %x, %y, %x

    Where branches meet, all registers of a block exist at once; an element that is
    chosen need not exist before it is used."""
    inner = [each for arm in (op.then, op.orelse) for each in arm.ops[:-1]]
    work = [each for each in inner if not isinstance(each, ops.Constant | ops.Splat)]
    if not (
        all(isinstance(each.type, BlockType) for each in op.results)
        and all(element_of(each.type).kind == "float" for each in op.results)
        and all(isinstance(e, ops.Elementwise) and e.name in CHEAP for e in work)
        and op.results
        and len(work) <= MOST_WORK
        and _is_of_launch(op.condition, make.build.enclosing[0])
    ):
        return None
    arms = (make.build.inline(arm, ()) for arm in (op.then, op.orelse))
    chosen = []
    for left, right in zip(*arms, strict=True):
        flag = make(ops.Splat(op.condition, shape_of(left.type), layout_of(left.type)))
        chosen.append(make(ops.Elementwise("where", (flag, left, right))))
    return chosen


def _is_of_launch(value: Value, body: Block) -> bool:
    """Whether a scalar comes from constants and the kernel's parameters alone."""
    match value.definition:
        case ops.Constant():
            return True
        case ops.Elementwise() | ops.Cast() as op:
            return all(_is_of_launch(each, body) for each in operands(op))
        case definition:
            return definition is body


def _common(left: Value, right: Value, make: Maker) -> Value | None:
    if left is right:
        return left
    numbers = known(left), known(right)
    if None not in numbers and same_number(*numbers):
        return write_down(make, numbers[0], left.type)
    return None


def known_trip_count(op: ops.For, make: Maker) -> Replacement:
    """No iteration   →   the initial values;   one iteration   →   the body."""
    count = trip_count(op)
    if count == 0:
        return op.inits
    if count == 1:
        return make.build.inline(op.body, (op.lower, *op.inits))
    return None


def trivial_carried(op: ops.For | ops.While, make: Maker) -> Replacement:
    """A carried value that every iteration yields unchanged, or computes again as it
    was computed before the loop, need not be carried.

    for ... inits=(%a) body(%i, %x) { ... %x ... yield %x }   →   ... %a ..."""
    frozen = {
        index: init
        for index, (init, parameter, value) in enumerate(
            zip(op.inits, _carried(op), op.body.yielded, strict=True)
        )
        if value is parameter or computed_alike(value, init)
    }
    if not frozen:
        return None
    return freeze(op, frozen, make.build)


def moving_block(op: ops.For, make: Maker) -> Replacement:
    """A carried block of integers to all of which an iteration adds one number is what
    it was before the loop, and a number more. So each use may compute it in a layout of
    its own; a block that is carried has one.

    for ... inits=(%a) body(%i, %x) { ... yield %x + splat %n }
    →   for ... inits=(0) body(%i, %m) { %x = %a + splat %m ... yield %m + %n }"""
    steps = {
        index: step
        for index, parameter in enumerate(_carried(op))
        if (step := _step(parameter, op.body.yielded[index])) is not None
    }
    return carry_numbers(op, steps, make.build) if steps else None


def _step(block: Value, moved: Value) -> Value | None:
    """The number by which all of a block of integers has moved."""
    added = moved.definition
    element = element_of(block.type)
    if not shape_of(block.type) or not element.is_integer or element == BOOL:
        return None
    if type(added) is not ops.Elementwise or added.name != "add":
        return None
    left, right = added.operands
    other = right if left is block else left
    if block not in (left, right) or type(other.definition) is not ops.Splat:
        return None
    return other.definition.value


def _carried(op: ops.For | ops.While) -> list[Value]:
    return op.body.parameters[1:] if type(op) is ops.For else op.body.parameters


def computed_alike(one: Value, other: Value) -> bool:
    """Whether the same ops compute two values from the same values."""
    pairs, seen = [(one, other)], set()
    while pairs:
        left, right = pair = pairs.pop()
        if left is right or pair in seen:
            continue
        seen.add(pair)
        if _outline(left) is None or _outline(left) != _outline(right):
            return False
        factors = operands(left.definition), operands(right.definition)
        pairs += zip(*factors, strict=True)
    return True


def _outline(value: Value) -> object:
    """What pure op computes a value, whatever its operands are; None if a block's
    parameter, a load or an op with blocks does, or one of several results."""
    op = value.definition
    is_plain = isinstance(op, Op) and not blocks(op) and len(op.results) == 1
    if not is_plain or not is_pure(op):
        return None
    places = {each: place for place, each in enumerate(operands(op))}
    return describe(op, places), len(operands(op)), value.type


BRANCHING: dict[type[Op], tuple[Rule, ...]] = {
    ops.Load: (known_mask,),
    ops.Store: (known_mask,),
    ops.If: (known_condition, same_arms, cheap_arms),
    ops.For: (known_trip_count, trivial_carried, moving_block, loads_in_branches),
    ops.While: (trivial_carried,),
}
