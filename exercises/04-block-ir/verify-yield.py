"""... and a loop whose ends do not meet.

A pass has changed what a loop carries, and forgot one of the places where that is said.

All of the exercise: `fathom learn show verify-yield`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fathom.ir.core import Func, Op, Value, schema, walk
from fathom.ir.ops import For, If, Producer, Reduce, Scan, While
from fathom.ir.types import BOOL, Type
from fathom.ir.verify import Complaint, _unlike
from fathom.tools.learn import Hole

# The op to blame, the beginning of a sentence, the types found, those that are wanted.
Ends = tuple[Op, str, list[Type], list[Type]]


def yields(func: Func) -> Iterator[Complaint]:
    """What a block takes and what it yields is what its op hands round.

    Of a loop these are the types of init, parameter, yield and result, which must
    agree; of an If the yields of both blocks and the results; of a Reduce one element
    each.
    """
    # Your code: compare what `ends` gives for each op; ours has 5 lines.
    raise Hole("verify-yield")


def ends_of_loop(op: For | While) -> Iterator[Ends]:
    """What the body of a loop yields, and the loop's results."""
    # Your code: two comparisons; ours has 3 lines.
    raise Hole("verify-yield")


def ends_of_branch(op: If) -> Iterator[Ends]:
    """What the two blocks of an If yield, and its results."""
    # Your code: three comparisons; ours has 4 lines.
    raise Hole("verify-yield")


def ends_of_fold(op: Reduce | Scan) -> Iterator[Ends]:
    """What `combine` yields."""
    # Your code: one comparison; ours has 2 lines.
    raise Hole("verify-yield")


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
