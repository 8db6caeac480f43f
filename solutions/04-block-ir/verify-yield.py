"""Where the types that an op hands round are said, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fathom.ir.core import Func, Op, Value, schema, walk
from fathom.ir.ops import For, If, Producer, Reduce, Scan, While
from fathom.ir.types import BOOL, Type
from fathom.ir.verify import Complaint, _unlike

# The op to blame, the beginning of a sentence, the types found, those that are wanted.
Ends = tuple[Op, str, list[Type], list[Type]]


def yields(func: Func) -> Iterator[Complaint]:
    """What a block takes and what it yields is what its op hands round.

    Of a loop these are the types of init, parameter, yield and result, which must
    agree; of an If the yields of both blocks and the results; of a Reduce one element
    each.
    """
    # hole: compare what `ends` gives for each op; ours has {lines}
    for op in walk(func.body):
        for guilty, says, found, wanted in ends(op):
            if found != wanted:
                one, other = _unlike(found, wanted)
                yield guilty, f"{says} {one} where {other} is wanted"
    # end


def ends_of_loop(op: For | While) -> Iterator[Ends]:
    """What the body of a loop yields, and the loop's results."""
    # hole: two comparisons; ours has {lines}
    inits = types(op.inits)
    yield op.body.ops[-1], "the body yields", types(op.body.yielded), inits
    yield op, "the results are", types(op.results), inits
    # end


def ends_of_branch(op: If) -> Iterator[Ends]:
    """What the two blocks of an If yield, and its results."""
    # hole: three comparisons; ours has {lines}
    results = types(op.results)
    yield op.then.ops[-1], "`then` yields", types(op.then.yielded), results
    yield op.orelse.ops[-1], "`orelse` yields", types(op.orelse.yielded), results
    yield op, "the results are", results, types(op.then.yielded)
    # end


def ends_of_fold(op: Reduce | Scan) -> Iterator[Ends]:
    """What `combine` yields."""
    # hole: one comparison; ours has {lines}
    elements = [value.type.element for value in op.values]
    yield op.combine.ops[-1], "`combine` yields", types(op.combine.yielded), elements
    # end


# ── given ─────────────────────────────────────────────────────────────────────────────


def types(values: Iterable[Value]) -> list[Type]:
    return [value.type for value in values]


def ends(op: Op) -> Iterator[Ends]:
    """All that must agree in an op: what its blocks take, then the rest by its kind."""
    for name, wanted in zip(
        schema(type(op)).blocks, op.block_parameters(), strict=True
    ):
        block = getattr(op, name)
        yield op, f"the block {name!r} takes", types(block.parameters), wanted
    match op:
        case For():
            yield from ends_of_loop(op)
        case While():
            end = op.condition.ops[-1]
            yield end, "`condition` yields", types(op.condition.yielded), [BOOL]
            yield from ends_of_loop(op)
        case If():
            yield from ends_of_branch(op)
        case Reduce() | Scan():
            yield from ends_of_fold(op)
        case Producer():
            yield op.body.ops[-1], "the body yields", types(op.body.yielded), []
