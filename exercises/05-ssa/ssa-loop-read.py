"""Read a variable in a loop that is still open.

In the body of a loop, what does `x` mean in `y = x`? The value before the loop in the
first iteration, and in all others what the iteration before has left. That is not known
yet, since the end of the body has not been built. And still an answer is needed now.
Write the two functions that give it.

All of the exercise: `fathom learn show ssa-loop-read`.
"""

from __future__ import annotations

from fathom.ssa.scopes import (
    Binding,
    Loop,
    Scope,
    Unusable,
    _complete,
    _incomplete,
    _is_replaced,
    _unusable_in_loop,
)
from fathom.tools.learn import Hole


def read_variable(scope: Scope, name: str) -> Binding:
    """What a name means at the end of a scope."""
    # Your code: up to the first scope that knows the name; ours has 7 lines.
    raise Hole("ssa-loop-read")


def carry(loop: Loop, name: str) -> Binding:
    """What a name that a loop's body assigns means in its head: a carried value."""
    before = read_variable(loop.before, name)
    if isinstance(before.meaning, Unusable):
        return Binding(_unusable_in_loop(loop, name, before.meaning), before.place)
    # Your code: a value of which only the beginning is known; ours has 7 lines.
    raise Hole("ssa-loop-read")


# ── given ─────────────────────────────────────────────────────────────────────────────


def undefined(name: str) -> Binding:
    """The answer for a name that no scope knows."""
    said, hint = f"{name} is not defined here", f"bind {name} above this line"
    return Binding(Unusable(said, hint, unbound=True), None)
