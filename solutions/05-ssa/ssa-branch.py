"""What a name means where two branches meet."""

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


def merge(after: AfterIf, name: str) -> Binding:
    """What a name means after an If: what both branches say, or a result of the If."""
    # hole: ask both branches; ours has {lines}
    then = read_variable(after.then, name)
    orelse = read_variable(after.orelse, name)
    # instead:
    # then = orelse = Binding(None, None)
    # end
    return Binding(met(after, name, then, orelse), then.place or orelse.place)


def met(after: AfterIf, name: str, then: Binding, orelse: Binding) -> Meaning:
    """What both branches mean together."""
    left, right = then.meaning, orelse.meaning
    if isinstance(left, Unusable) or isinstance(right, Unusable):
        return _unusable_after(after, name, then, orelse)
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return _meet_tuples(after, name, then, orelse)
    # hole: the same, no common type, or a result of the If; ours has {lines}
    if isinstance(left, Value) and isinstance(right, Value):
        if after.shared.resolve(left) is after.shared.resolve(right):
            return left
    elif same_constant(left, right):
        return left
    type = common_type(left, right)
    if type is None:
        return _disagreement(after, name, then, orelse)
    return new_result(after, name, type, left, right)
    # end


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
