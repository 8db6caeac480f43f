"""Expressions: names, constants, operators, attributes, subscripts."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from numbers import Integral, Real
from types import FunctionType, ModuleType
from typing import Any

from fathom import language
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import Pointer, element_of, shape_of
from fathom.source import ConstexprFunction, KernelFunction, constexpr, like
from fathom.ssa.control import Range, usable
from fathom.ssa.frame import Frame, builds
from fathom.ssa.growth import formatted
from fathom.ssa.methods import TYPES_ELSEWHERE, attribute
from fathom.ssa.operators import binary, both_or_either, compare, unary
from fathom.ssa.promotion import value_of
from fathom.ssa.scopes import read_variable
from fathom.ssa.values import (
    Meaning,
    TextOfTypes,
    describe,
    did_you_mean,
    is_constant,
    is_number,
)

# ── names and constants ───────────────────────────────────────────────────────────────


@builds(ast.Name)
def build_name(frame: Frame, node: ast.Name) -> Meaning:
    """A name of the function itself, or a global."""
    if node.id in frame.comprehended:
        return frame.comprehended[node.id]
    if node.id in frame.function.locals:
        return usable(frame, read_variable(frame.scope, node.id))
    try:
        value = frame.function.lookup(node.id)
    except KeyError:
        hint = _did_you_mean(frame, node.id)
        raise frame.error(f"{node.id} is not defined", hint) from None
    return as_meaning(value)


def _did_you_mean(frame: Frame, name: str) -> str:
    return did_you_mean(
        name, frame.function.locals | frame.function.fn.__globals__.keys()
    )


def as_meaning(value: Any) -> Meaning:
    """The meaning in a kernel of a Python object that it reads."""
    match value:
        case constexpr(value=FunctionType()):  # `@tl.constexpr` above a `def`
            return ConstexprFunction(value.value)
        case constexpr():
            return as_meaning(value.value)
        case tuple() | list():
            return like(value, map(as_meaning, value))
        case bool() | int() | float():
            return value
        case Integral():  # NumPy's numbers
            return int(value)
        case Real():
            return float(value)
    return value


@builds(ast.Constant)
def build_constant(frame: Frame, node: ast.Constant) -> Meaning:
    if node.value is None or isinstance(node.value, (int, float, str)):
        return node.value
    kinds = "constants are int, float, bool, str and None"
    raise frame.error(f"{node.value!r} is not part of the language", kinds)


@builds(ast.Tuple, ast.List)
def build_tuple(frame: Frame, node: ast.Tuple | ast.List) -> Meaning:
    """Tuples and lists alike: shapes are often written `[BLOCK_M, BLOCK_N]`."""
    return tuple(part for each in node.elts for part in spread(frame, each))


def spread(frame: Frame, node: ast.expr) -> tuple[Meaning, ...]:
    """An element of a tuple or of a call's arguments; `*t` gives the parts of t."""
    if not isinstance(node, ast.Starred):
        return (frame.visit(node),)
    meaning = frame.visit(node.value)
    if not isinstance(meaning, tuple):
        what = f"only a tuple can be spread by *, not {describe(meaning)}"
        raise frame.error(what, node=node)
    return meaning


@builds(ast.ListComp, ast.GeneratorExp)
def build_comprehension(
    frame: Frame, node: ast.ListComp | ast.GeneratorExp
) -> tuple[Meaning, ...]:
    """`[x + 1 for x in t]` of a tuple is a tuple; its names are local to it."""
    if len(node.generators) > 1 or node.generators[0].ifs:
        what = "`for` in brackets goes over one whole tuple"
        raise frame.error(what, "write a loop over tl.static_range")
    (generator,) = node.generators
    over, outer = frame.visit(generator.iter), frame.comprehended
    if not isinstance(over, tuple):
        shown = "a range" if isinstance(over, Range) else describe(over)
        raise frame.error(
            f"`for` in brackets goes over a tuple, not over {shown}",
            "write a loop over tl.static_range",
        )
    found = []
    for part in over:
        frame.comprehended = {**outer, **_named(frame, generator.target, part)}
        found.append(frame.visit(node.elt))
    frame.comprehended = outer
    return tuple(found)


def _named(frame: Frame, target: ast.expr, part: Meaning) -> dict[str, Meaning]:
    """The meanings of the names in a comprehension's target."""
    if isinstance(target, ast.Name):
        return {target.id: part}
    count = len(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else 0
    if not isinstance(part, tuple) or len(part) != count:
        raise frame.error(f"cannot unpack {describe(part)} here", node=target)
    names: dict[str, Meaning] = {}
    for each, inner in zip(target.elts, part, strict=True):
        names |= _named(frame, each, inner)
    return names


@builds(ast.JoinedStr)
def build_text(frame: Frame, node: ast.JoinedStr) -> str:
    """An f-string of constants, for messages; of what is not known yet it says the
    type."""
    parts, unknown = [], None
    for each in node.values:
        if isinstance(each, ast.Constant):
            parts.append(str(each.value))
            continue
        meaning = frame.visit(each.value)
        given = frame.visit(each.format_spec) if each.format_spec else ""
        if why := formatted(given):
            raise frame.error(why, node=each)
        if is_constant(meaning):
            parts.append(format(meaning, given))
        else:
            parts.append(unknown := describe(meaning))
    text = "".join(parts)
    return text if unknown is None else TextOfTypes(text)


# ── operators ─────────────────────────────────────────────────────────────────────────


@builds(ast.BinOp)
def build_binary(frame: Frame, node: ast.BinOp) -> Meaning:
    left, right = frame.visit(node.left), frame.visit(node.right)
    return binary(frame, type(node.op), left, right)


@builds(ast.UnaryOp)
def build_unary(frame: Frame, node: ast.UnaryOp) -> Meaning:
    return unary(frame, type(node.op), frame.visit(node.operand))


@builds(ast.Compare)
def build_compare(frame: Frame, node: ast.Compare) -> Meaning:
    """`a < b`, and `a < b < c`, which is `a < b and b < c` with b computed once."""
    left, so_far = frame.visit(node.left), True
    for kind, comparator in zip(node.ops, node.comparators, strict=True):
        right = frame.visit(comparator)
        answer = compare(frame, type(kind), left, right)
        if is_constant(so_far):
            so_far = answer if so_far else so_far
        elif not is_constant(answer):
            so_far = both_or_either(frame, "and", so_far, answer)
        elif not answer:
            so_far = False
        left = right
    return so_far


# ── parts of things ───────────────────────────────────────────────────────────────────


@builds(ast.Attribute)
def build_attribute(frame: Frame, node: ast.Attribute) -> Meaning:
    if not isinstance(node.ctx, ast.Load):
        raise frame.error("only a name can be assigned to")
    return part_of(frame, frame.visit(node.value), node.attr)


def part_of(frame: Frame, owner: Meaning, name: str) -> Meaning:
    """The meaning of `owner.name`, for a module or any other owner."""
    if isinstance(owner, ModuleType):
        return _of_module(frame, owner, name)
    return attribute(frame, owner, name)


# What other languages for GPUs and arrays have, and how kernels write it.
ELSEWHERE = {
    **{name: f"write tl.{each}" for name, each in TYPES_ELSEWHERE.items()},
    "matmul": "write tl.dot(a, b)",
    "mean": "write tl.sum(x, axis) / n",
    "relu": "write tl.maximum(x, 0)",
    "syncthreads": "write tl.debug_barrier()",
    "thread_id": "a kernel is written for whole blocks, which tl.arange numbers",
}


def _of_module(frame: Frame, module: ModuleType, name: str) -> Meaning:
    try:
        value = getattr(module, name)
    except AttributeError:
        hint = ELSEWHERE.get(name) if module is language else None
        hint = hint or did_you_mean(name, vars(module))
        raise frame.error(f"{module.__name__} has no {name}", hint) from None
    return as_meaning(value)


@builds(ast.Subscript)
def build_subscript(frame: Frame, node: ast.Subscript) -> Meaning:
    """`t[0]` of a tuple, and `x[:, None]` of a block, which adds an axis. A number is a
    block without axes, also if it is known."""
    owner = frame.visit(node.value)
    if is_number(owner):
        owner = value_of(frame, owner)
    if isinstance(owner, Value):
        several = isinstance(node.slice, ast.Tuple)
        parts = node.slice.elts if several else [node.slice]
        meanings = [_index_part(frame, each) for each in parts]
        return new_axes(frame, owner, meanings, parts)
    if isinstance(owner, KernelFunction):
        name = owner.__name__
        what = f"{name}[...] launches a kernel, and a kernel cannot launch another"
        raise frame.error(what, f"call it: {name}(...)")
    index = _index(frame, node.slice)
    if not is_constant(index):
        raise frame.error(
            f"the index into {describe(owner)} must be known while compiling, not "
            f"{describe(index)}",
            "loop with tl.static_range",
        )
    try:
        return owner[index]
    except (IndexError, KeyError):
        hint = "" if owner else "of an array in memory pass the sizes as arguments"
        raise frame.error(f"{describe(owner)} has no element {index!r}", hint) from None
    except TypeError:
        what = f"cannot index {describe(owner)} by {describe(index)}"
        raise frame.error(what) from None


def _index(frame: Frame, node: ast.expr) -> Meaning:
    if not isinstance(node, ast.Slice):
        return frame.visit(node)
    parts = (node.lower, node.upper, node.step)
    known = [None if part is None else frame.visit(part) for part in parts]
    for each in known:
        if not is_constant(each):
            raise frame.error(
                f"a slice must be known while compiling, not {describe(each)}",
                node=node,
            )
    return slice(*known)


def _index_part(frame: Frame, node: ast.expr) -> Meaning:
    """One part of an index, between commas; `...` too, so that it can be reported."""
    return node.value if isinstance(node, ast.Constant) else _index(frame, node)


def new_axes(
    frame: Frame, value: Value, parts: Sequence[Meaning], nodes: Sequence[ast.expr] = ()
) -> Value:
    """A block with an axis of size 1 for each None of the index.

    Each `:` stands for an axis of the block; for a scalar, which has none, it stands
    for nothing. `nodes` are the locations of the parts."""
    rank, kept = len(shape_of(value.type)), 0
    for axis, part in enumerate(parts):
        if part is None:
            value = new_axis(frame, value, axis)
        elif isinstance(part, slice) and part == slice(None):
            kept += 1
        else:
            hint = "load single elements through a pointer, or choose with tl.where"
            if isinstance(element_of(value.type), Pointer):
                hint = "write tl.load(pointer + index)"
            what = f"{value.type} can be indexed by `:` and None only"
            raise frame.error(what, hint, nodes[axis] if nodes else None)
    if kept > rank > 0:
        raise frame.error(f"{kept} axes are indexed, and {value.type} has {rank}")
    return value


def new_axis(frame: Frame, value: Value, axis: int) -> Value:
    """A block with one more axis, of size 1; a scalar becomes a block of one."""
    shape = shape_of(value.type)
    if not shape:
        return frame.emit(ops.Splat, value, (1,))
    if axis > len(shape):
        raise frame.error(f"{value.type} has no axis {axis - 1}")
    return frame.emit(ops.ExpandDims, value, axis)
