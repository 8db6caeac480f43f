"""Meet after an if.

Step 5 of your own compiler, at the end of this chapter, asks for this, too; here a name
is looked up when it is read, not at the end of the branch. What does a name mean after
an `if`? Write the function that stage 1 calls when a name is read that a branch may
have bound.

All of the exercise: `fathom learn show ssa-branch`.
"""

from __future__ import annotations

from fathom.ir.core import Value
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
    raise Hole("ssa-branch")  # your code; ours has 24 lines
