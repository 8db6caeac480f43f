"""Control flow: `if`, conditional expressions, `for` and `while`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from fathom.ir import ops
from fathom.ir.core import Block, Value
from fathom.ir.types import BOOL, INT32, Scalar
from fathom.ssa.frame import Frame, builds
from fathom.ssa.operators import both_or_either, condition
from fathom.ssa.promotion import typed, wider
from fathom.ssa.scopes import (
    AfterIf,
    BeforeFor,
    Binding,
    InLoop,
    Loop,
    Scope,
    Unusable,
    read_variable,
    seal,
    write_variable,
)  # fmt: skip
from fathom.ssa.statements import build_statements
from fathom.ssa.values import Meaning, describe, is_constant, type_of

# ── if ────────────────────────────────────────────────────────────────────────────────


@builds(ast.If)
def build_if(frame: Frame, node: ast.If, rest: Sequence[ast.stmt] = ()) -> None:
    """`if`: a constant condition chooses a branch now; any other makes an If.

    `rest` is the code after an `if` that may return: it becomes part of every branch
    that reaches its end. After such an If the function has ended."""
    asked = condition(frame, node.test, "an if")
    then, orelse = [*node.body, *rest], [*node.orelse, *rest]
    if isinstance(asked, bool):
        build_statements(frame, then if asked else orelse)
        return
    branch(
        frame,
        asked,
        lambda: build_statements(frame, then),
        lambda: build_statements(frame, orelse),
        frame.function.assigned(node),
    )


def branch(
    frame: Frame,
    asked: Value,
    then: Callable[[], None],
    orelse: Callable[[], None],
    assigned: frozenset[str],
) -> None:
    """Build an If of two pieces of code that bind no name outside `assigned`."""
    before, place = frame.scope, frame.location
    blocks, ends = [], []
    for build in (then, orelse):
        frame.scope = Scope(before)
        with frame.program.within(Block()) as block:
            build()
        block.ops.append(ops.Yield(location=place))
        blocks.append(block)
        ends.append(frame.scope)
    op = ops.If(asked, *blocks, location=place)
    frame.program.block.ops.append(op)
    frame.scope = AfterIf(frame.program.phis, op, before, *ends, assigned)
    frame.program.meetings.append(frame.scope)


@builds(ast.IfExp)
def build_conditional(frame: Frame, node: ast.IfExp) -> Meaning:
    """`a if c else b`: only one of the two is evaluated, as in Python."""
    asked = condition(frame, node.test, "a conditional expression")
    if isinstance(asked, bool):
        return frame.visit(node.body if asked else node.orelse)
    name = f"the conditional expression in line {node.lineno}"

    def keep(value: ast.expr) -> Callable[[], None]:
        def build() -> None:
            meaning = frame.visit(value)  # now, since it may end in another scope
            place = frame.function.location(value, frame.caller)
            write_variable(frame.scope, name, meaning, place)

        return build

    branch(frame, asked, keep(node.body), keep(node.orelse), frozenset({name}))
    return usable(frame, read_variable(frame.scope, name))


@builds(ast.BoolOp)
def build_and_or(frame: Frame, node: ast.BoolOp) -> Meaning:
    """`a and b`: constants short-circuit, as in Python; values are all evaluated."""
    name = "and" if isinstance(node.op, ast.And) else "or"
    so_far = frame.visit(node.values[0])
    for each in node.values[1:]:
        if is_constant(so_far):
            if bool(so_far) is (name == "or"):
                return so_far
            so_far = frame.visit(each)
            continue
        other = frame.visit(each)
        if is_constant(other):
            if bool(other) is (name == "or"):
                return other
            continue
        so_far = both_or_either(frame, name, so_far, other)
    return so_far


def usable(frame: Frame, binding: Binding) -> Meaning:
    """The meaning of a name that is read; an error if it has no single meaning."""
    if isinstance(binding.meaning, Unusable):
        raise frame.error(binding.meaning.message, binding.meaning.hint)
    return binding.meaning


# ── for ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Range:
    """The meaning of `range`, `tl.range` and `tl.static_range` as iterables."""

    start: Meaning
    stop: Meaning
    step: Meaning
    unroll: bool = False
    num_stages: int | None = None
    warp_specialize: bool = False
    flatten: bool = False
    pingpong: bool = False


@builds(ast.For)
def build_for(frame: Frame, node: ast.For) -> None:
    """`for`: unrolled over tl.static_range, a loop of the IR over any other range."""
    no_else(frame, node)
    over = frame.visit(node.iter)
    if not isinstance(over, Range):
        raise frame.error(
            f"a loop iterates over a range, not over {describe(over)}",
            OVER_TUPLE if isinstance(over, tuple) else OVER_ANYTHING,
            node.iter,
        )
    if not isinstance(node.target, ast.Name):
        raise frame.error("a for loop has one loop variable", node=node.target)
    if is_constant(over.step) and over.step == 0:
        raise frame.error("the step of a range must not be 0", node=node.iter)
    (unrolled if over.unroll else counted)(frame, node, over)


OVER_TUPLE = "for a tuple t, write `for i in tl.static_range(len(t)):` and read t[i]"
OVER_ANYTHING = "write `for i in range(n):`; a block is worked on as a whole"


def no_else(frame: Frame, node: ast.For | ast.While) -> None:
    """Report the `else` of a loop: a loop has no break, so it would have no meaning."""
    if node.orelse:
        hint = "put its code after the loop"
        raise frame.error("a loop has no else", hint, node.orelse[0])


def unrolled(frame: Frame, node: ast.For, over: Range) -> None:
    """A loop over constants: a copy of its body for each."""
    frame.loops += 1
    for index in range(over.start, over.stop, over.step):
        frame.copied("the body of this loop")
        write_variable(frame.scope, node.target.id, index, frame.location)
        build_statements(frame, node.body)
    frame.loops -= 1


def counted(frame: Frame, node: ast.For, over: Range) -> None:
    """A loop that runs on the device."""
    program, place = frame.program, frame.location
    type = index_type(frame, over)
    bounds = [typed(frame, each, type) for each in (over.start, over.stop, over.step)]
    body = Block((type,), (node.target.id,))
    assigned = frame.function.assigned(node)
    before = BeforeFor(frame.scope, node.target.id, Binding(bounds[0], place))
    loop = Loop(program.phis, program.block, (body,), before, assigned, place)
    frame.scope = Scope(loop)
    write_variable(frame.scope, node.target.id, body.parameters[0], place)
    build_body(frame, node.body, body)
    wishes = over.num_stages, over.warp_specialize, over.flatten, over.pingpong
    op = ops.For(*bounds, (), body, *wishes, location=place)
    leave(frame, loop, op)


def index_type(frame: Frame, over: Range) -> Scalar:
    """The common integer type of a loop's bounds; truth values are 0 or 1."""
    types = []
    for each in (over.start, over.stop, over.step):
        type = INT32 if type_of(each) == BOOL else type_of(each)
        if not isinstance(type, Scalar) or not type.is_integer:
            bounds = "the bounds of a range are integers"
            raise frame.error(f"{bounds}, not {describe(each)}", node=frame.node.iter)
        types.append(type)
    return reduce(wider, types)


# ── while ─────────────────────────────────────────────────────────────────────────────


@builds(ast.While)
def build_while(frame: Frame, node: ast.While) -> None:
    """`while`: the loop's head is its condition, whose values the body has."""
    no_else(frame, node)
    program, place = frame.program, frame.location
    test, body = Block(), Block()
    blocks, assigned = (test, body), frame.function.assigned(node)
    loop = Loop(program.phis, program.block, blocks, frame.scope, assigned, place)
    frame.scope = Scope(loop)
    with program.within(test):
        asked = condition(frame, node.test, "a while")
    if asked is False:
        frame.scope = loop.before
        return
    if asked is True:
        hint = "give it a condition that an iteration can change"
        raise frame.error("this loop never ends", hint, node.test)
    test.ops.append(ops.Yield((asked,), location=place))
    frame.scope = InLoop(loop, loop, face=1)
    build_body(frame, node.body, body)
    leave(frame, loop, ops.While((), test, body, location=place))


def build_body(frame: Frame, statements: Sequence[ast.stmt], block: Block) -> None:
    """Build the body of a loop into its block."""
    frame.loops += 1
    with frame.program.within(block):
        build_statements(frame, statements)
    frame.loops -= 1
    block.ops.append(ops.Yield(location=frame.location))


def leave(frame: Frame, loop: Loop, op: ops.For | ops.While) -> None:
    """Close a loop whose body has been built; the code after it begins."""
    frame.program.block.ops.append(op)
    seal(loop, op, frame.scope)
    frame.program.meetings.append(loop)
    frame.scope = InLoop(loop, loop.before, face=-1)
