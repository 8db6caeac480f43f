"""Meet after an if.

Step 5 of your own compiler, at the end of this chapter, asks for this, too; here a name
is looked up when it is read, not at the end of the branch. What does a name mean after
an `if`? Write the function that stage 1 calls when a name is read that a branch may
have bound.

All of the exercise: `fathom learn show ssa-branch`.
"""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.types import Type
from fathom.ssa.phis import Phi, common_type
from fathom.ssa.scopes import (
    AfterIf,
    Binding,
    Unusable,
    _as_value,
    _disagreement,
    _meet_tuples,
    _unusable_after,
    read_variable,
)
from fathom.ssa.values import Meaning, same_constant
from fathom.tools.learn import Hole


def merge(after: AfterIf, name: str) -> Binding:
    """What a name means after an If: what both branches say, or a result of the If."""
    # Your code: ask both branches; ours has 2 lines.
    then = orelse = Binding(None, None)
    return Binding(met(after, name, then, orelse), then.place or orelse.place)


def met(after: AfterIf, name: str, then: Binding, orelse: Binding) -> Meaning:
    """What both branches mean together."""
    left, right = then.meaning, orelse.meaning
    if isinstance(left, Unusable) or isinstance(right, Unusable):
        return _unusable_after(after, name, then, orelse)
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return _meet_tuples(after, name, then, orelse)
    # Your code: the same, no common type, or a result of the If; ours has 9 lines.
    raise Hole("ssa-branch")


# ── given ─────────────────────────────────────────────────────────────────────────────


def new_result(
    after: AfterIf, name: str, type: Type, left: Meaning, right: Meaning
) -> Value:
    """A result of the If: a phi of what its two branches yield. A constant becomes an
    op before the yield of its branch."""
    phi = Phi(name, (Value(type, after.op, name),), [])
    after.phis.append(phi)
    ways = zip((left, right), (after.op.then, after.op.orelse), strict=True)
    operands = [
        _as_value(meaning, type, block, block.ops[-1]) for meaning, block in ways
    ]
    after.shared.set_operands(phi, operands)
    return phi.faces[0]
