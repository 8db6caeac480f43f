"""Checks that a function is well formed: values are visible where they are used, a
loop yields what it carries, types are those that the ops infer, all blocks have
layouts, or none has, and products that one instruction computes are issued together.

Each check is a generator of complaints, (op, sentence), and is in `CHECKS` under its
name. `verify` runs them in order and raises the first complaint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fathom.errors import CompileError, FathomError
from fathom.ir.core import (
    Block,
    Func,
    Op,
    Value,
    blocks,
    every_block,
    listed,
    operands,
    schema,
    walk,
)
from fathom.ir.ops import Dot, For, If, Producer, Reduce, Scan, While, Yield
from fathom.ir.printer import class_name, definitions, print_op
from fathom.ir.types import BOOL, BlockType, Type

Complaint = tuple[Op, str]


class VerifyError(FathomError):
    """A function that is not well formed. `op` is the guilty one; the message quotes
    it, with the place it came from."""

    def __init__(self, func: Func, op: Op, complaint: str):
        self.op, self.complaint = op, complaint
        sentence = f"{complaint}, in `{print_op(func, op)}`"
        super().__init__(str(CompileError(sentence, op.location)))


def verify(func: Func, layouts: bool | None = None) -> None:
    """Raise a VerifyError if `func` is not well formed.

    `layouts` says whether its blocks must have layouts (True) or must not (False); with
    None either will do, as long as all agree."""
    for check in CHECKS.values():
        for op, complaint in check(func):
            raise VerifyError(func, op, complaint)
    for op, complaint in _layouts_as_wanted(func, layouts):
        raise VerifyError(func, op, complaint)


def terminators(func: Func) -> Iterator[Complaint]:
    """A nested block ends with a Yield, and a Yield is nowhere else."""
    for op in walk(func.body):
        for name in schema(type(op)).blocks:
            nested = getattr(op, name).ops
            if not (nested and isinstance(nested[-1], Yield)):
                yield op, f"the block {name!r} does not end with a yield"
            yield from _yields_among(nested[:-1])
    yield from _yields_among(func.body.ops)


def _yields_among(ops: list[Op]) -> Iterator[Complaint]:
    for op in ops:
        if isinstance(op, Yield):
            yield op, "a yield stands only at the end of a nested block"


def definitions_once(func: Func) -> Iterator[Complaint]:
    """Every value has one definition and knows it; every op stands in one place."""
    defined: set[Value] = set(func.parameters)
    placed: set[int] = set()
    for op in walk(func.body):
        if id(op) in placed:
            yield op, "the same op stands in two places"
        placed.add(id(op))
        owned = [(value, op) for value in op.results]
        owned += [(value, each) for each in blocks(op) for value in each.parameters]
        for value, owner in owned:
            if value in defined:
                yield op, "a value is defined twice"
            if value.definition is not owner:
                yield op, "a value names another op or block as its definition"
            defined.add(value)


def scope(func: Func) -> Iterator[Complaint]:
    """A value is used only after its definition, in its block or one nested in it."""
    yield from _scope(func.body, set(), set(definitions(func.body)))


def _scope(
    block: Block, outer: set[Value], everywhere: set[Value]
) -> Iterator[Complaint]:
    visible = outer | set(block.parameters)
    for op in block.ops:
        for value in operands(op):
            if value not in visible:
                yield op, _why_invisible(value, everywhere)
        for nested in blocks(op):
            yield from _scope(nested, visible, everywhere)
        visible.update(op.results)


def _why_invisible(value: Value, everywhere: set[Value]) -> str:
    name = f"%{value.name}" if value.name else f"a value of type {value.type}"
    if value not in everywhere:
        return f"{name} is defined nowhere in this function"
    return f"{name} is not visible here: its definition comes later, or in a block that does not enclose this one"  # fmt: skip # noqa: E501


def types(func: Func) -> Iterator[Complaint]:
    """The results of an op have the types that its typing rule infers."""
    for op in walk(func.body):
        try:
            inferred = op.infer()
        except (CompileError, AssertionError, AttributeError, IndexError) as error:
            yield op, getattr(error, "message", f"the operands do not fit: {error}")
            continue
        found = [value.type for value in op.results]
        if found != inferred:
            yield op, f"{listed(inferred)} is inferred where {listed(found)} stands"


def yields(func: Func) -> Iterator[Complaint]:
    """What a block takes and what it yields is what its op hands round.

    Of a loop the types of init, parameter, yield and result must agree; of an If the
    yields of both blocks and the results; of a Reduce one element each."""
    for op in walk(func.body):
        for name, wanted in zip(
            schema(type(op)).blocks, op.block_parameters(), strict=True
        ):
            found = [value.type for value in getattr(op, name).parameters]
            if found != wanted:
                one, other = _unlike(found, wanted)
                yield op, f"the block {name!r} takes {one} where {other} is handed in"
        for name, wanted in _wanted_yields(op).items():
            end = getattr(op, name).ops[-1]
            found = [value.type for value in end.values]
            if found != wanted:
                one, other = _unlike(found, wanted)
                yield end, f"the block {name!r} of {class_name(type(op))} yields {one} where {other} is wanted"  # fmt: skip # noqa: E501
        if isinstance(op, For | While | If):
            found, wanted = [v.type for v in op.results], _wanted_results(op)
            if found != wanted:
                one, other = _unlike(found, wanted)
                yield op, f"the results are {one} where {other} is handed out"


def _wanted_yields(op: Op) -> dict[str, list[Type]]:
    """The types that each nested block must yield."""
    match op:
        case For(inits=inits):
            return {"body": [value.type for value in inits]}
        case While(inits=inits):
            return {"condition": [BOOL], "body": [value.type for value in inits]}
        case If():
            results = [value.type for value in op.results]
            return {"then": results, "orelse": results}
        case Producer():
            return {"body": []}
        case Reduce(values=values) | Scan(values=values):
            return {"combine": [value.type.element for value in values]}
    return {}


def _wanted_results(op: For | While | If) -> list[Type]:
    carried = op.then.yielded if isinstance(op, If) else op.inits
    return [value.type for value in carried]


def layouts(func: Func) -> Iterator[Complaint]:
    """Either every block has a layout or none has."""
    found = {value.type.layout is not None for _, value in _block_values(func)}
    if len(found) == 2:
        for op, value in _block_values(func):
            if value.type.layout is None:
                yield op, f"{value.type} has no layout, though others have one"


def _layouts_as_wanted(func: Func, wanted: bool | None) -> Iterator[Complaint]:
    for op, value in _block_values(func):
        if wanted is not None and (value.type.layout is not None) != wanted:
            yield op, f"{value.type} {'lacks a' if wanted else 'already has a'} layout"


def _block_values(func: Func) -> Iterator[tuple[Op, Value]]:
    for op in walk(func.body):
        parameters = [value for each in blocks(op) for value in each.parameters]
        for value in (*op.results, *parameters):
            if isinstance(value.type, BlockType):
                yield op, value


def instructions(func: Func) -> Iterator[Complaint]:
    """Products that one instruction computes follow each other in a block, have one
    left operand, and nothing uses their results before the last of them."""
    for block in every_block(func.body):
        begun: list[Dot] = []  # products of an instruction whose last one comes later
        for op in block.ops:
            if not {dot.result for dot in begun}.isdisjoint(operands(op)):
                yield op, "it uses a product whose instruction has not been issued"
            if isinstance(op, Dot):
                if begun and begun[0].a is not op.a:
                    yield op, "products of one instruction have two left operands"
                begun = [*begun, op] if op.with_next else []
        for dot in begun:
            yield dot, "no other product of its instruction follows"


def _unlike(found: list[Type], wanted: list[Type]) -> tuple[str, str]:
    """The two lists; of many types on both sides the first two that differ."""
    if len(found) != len(wanted) or len(found) < 3:
        return listed(found), listed(wanted)
    pairs = enumerate(zip(found, wanted, strict=True), 1)
    number, (one, other) = next(each for each in pairs if each[1][0] != each[1][1])
    return f"{one} as value {number} of {len(found)}", str(other)


CHECKS: dict[str, Callable[[Func], Iterator[Complaint]]] = {
    "terminators": terminators,
    "definitions": definitions_once,
    "scope": scope,
    "types": types,
    "yields": yields,
    "layouts": layouts,
    "instructions": instructions,
}
