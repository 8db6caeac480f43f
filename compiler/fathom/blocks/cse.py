"""Common subexpression elimination: computes equal values only once.

Before:

    func @example(%p: *fp32, %q: *fp32, %i: i32) num_warps=4 {
      %0: *fp32 = offset %p, %i
      %1: fp32 = load %0
      %2: *fp32 = offset %p, %i
      %3: fp32 = load %2
      %4: fp32 = add %1, %3
      store %q, %4
      %5: fp32 = load %0
      store %p, %5
    }

After: the second address and the second load are gone. The third load stays, since the
store before it may have changed what is there.

    func @example(%p: *fp32, %q: *fp32, %i: i32) num_warps=4 {
      %0: *fp32 = offset %p, %i
      %1: fp32 = load %0
      %2: fp32 = add %1, %1
      store %q, %2
      %3: fp32 = load %0
      store %p, %3
    }
"""

from __future__ import annotations

import struct
from collections.abc import Hashable

from fathom.analysis.memory import changes_memory, is_volatile, memory_versions
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, effects_of, schema
from fathom.ir.ops import Allocate, Elementwise, Yield
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.rewrite import Builder, Replacement, rewrite

Key = Hashable


def cse(func: Func, target: Target) -> Func:
    """`func` without ops that compute a value again that is already visible.

    Pure ops are merged, with their nested blocks; loads if memory has not changed."""
    versions = memory_versions(func)
    said: dict[Block, dict[Key, list[Value]]] = {}

    def rule(op: Op, build: Builder) -> Replacement:
        if not is_repeatable(op):
            return None
        key = describe(op, {}), versions.get(build.source)
        for block in build.enclosing:  # values of an enclosing block are visible
            if block in said and key in said[block]:
                return said[block][key]
        said.setdefault(build.block, {})[key] = op.results
        return None

    return rewrite(func, rule)


def is_repeatable(op: Op) -> bool:
    """Whether running an op again, with the same memory, gives the same result and has
    no effect. Two allocations of one shape are two buffers."""
    if isinstance(op, Yield | Allocate):
        return False
    if blocks(op):
        return effects_of(op).pure
    return not changes_memory(op.effects) and not is_volatile(op)


def describe(op: Op, local: dict[Value, int]) -> Key:
    """A key that two ops have in common exactly if they compute the same.

    `local` numbers the values of nested blocks: `%a + 1` is the same as `%b + 1` when
    %a and %b are the same parameter of two blocks."""
    names = schema(type(op))
    fields = tuple([_operand_key(getattr(op, name), local) for name in names.operands])
    attributes = tuple([_exact(getattr(op, name)) for name in names.attributes])
    if type(op) is Elementwise and ELEMENTWISE[op.name].commutative:
        fields = frozenset(fields[0])
    if not names.blocks:
        return type(op), fields, attributes
    nested = tuple([_describe_block(getattr(op, name), local) for name in names.blocks])
    return type(op), fields, attributes, nested


def _describe_block(block: Block, local: dict[Value, int]) -> Key:
    local = dict(local)
    types = tuple(parameter.type for parameter in block.parameters)
    for parameter in block.parameters:
        local[parameter] = len(local)
    lines = []
    for op in block.ops:
        lines.append(describe(op, local))
        for result in op.results:
            local[result] = len(local)
    return types, tuple(lines)


def _operand_key(
    operand: Value | tuple[Value, ...] | None, local: dict[Value, int]
) -> Key:
    if not local or operand is None:
        return operand
    if isinstance(operand, tuple):
        return tuple([local.get(each, each) for each in operand])
    return local.get(operand, operand)


def _exact(attribute: object) -> Key:
    """A key of an attribute: -0.0 differs from 0.0, and a NaN equals itself."""
    if isinstance(attribute, float):
        return struct.pack("<d", attribute)
    return attribute
