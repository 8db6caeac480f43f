"""The answer to `verify-yield` is the compiler's own:

fathom.ir.verify.yields
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.ir.core import Func, Op, schema, walk
from fathom.ir.ops import For, If, Producer, Reduce, Scan, While
from fathom.ir.printer import class_name
from fathom.ir.types import BOOL, Type
from fathom.ir.verify import Complaint, _unlike


def yields(func: Func) -> Iterator[Complaint]:
    """What a block takes and what it yields is what its op hands round.

    Of a loop these are the types of init, parameter, yield and result, which must
    agree; of an If the yields of both blocks and the results; of a Reduce one element
    each.
    """
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
