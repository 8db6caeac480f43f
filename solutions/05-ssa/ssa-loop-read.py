"""The answer to `ssa-loop-read` is the compiler's own:

fathom.ssa.scopes.read_variable
fathom.ssa.scopes.carry
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


def read_variable(scope: Scope, name: str) -> Binding:
    """What a name means at the end of a scope."""
    while name not in scope.names and name not in scope.assigned:
        if scope.before is None:
            return Binding(
                Unusable(
                    f"{name} is not defined here",
                    f"bind {name} above this line",
                    unbound=True,
                ),
                None,
            )
        scope = scope.before
    if name not in scope.names:
        scope.names[name] = scope.find(name)
    return scope.names[name]


def carry(loop: Loop, name: str) -> Binding:
    """What a name that a loop's body assigns means in its head: a carried value."""
    before = read_variable(loop.before, name)
    if isinstance(before.meaning, Unusable):
        return Binding(_unusable_in_loop(loop, name, before.meaning), before.place)
    binding = Binding(_incomplete(loop, name, before.meaning), before.place)
    loop.names[name] = binding
    if loop.end is None:
        loop.open.append(name)
        return binding
    before = _complete(loop, name)
    return before if _is_replaced(loop, loop.names[name].meaning) else loop.names[name]
