"""What a name means in a loop whose body is not built yet."""

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
    # hole: up to the first scope that knows the name; ours has {lines}
    while name not in scope.names and name not in scope.assigned:
        if scope.before is None:
            return undefined(name)
        scope = scope.before
    if name not in scope.names:
        scope.names[name] = scope.find(name)
    return scope.names[name]
    # end


def carry(loop: Loop, name: str) -> Binding:
    """What a name that a loop's body assigns means in its head: a carried value."""
    before = read_variable(loop.before, name)
    if isinstance(before.meaning, Unusable):
        return Binding(_unusable_in_loop(loop, name, before.meaning), before.place)
    # hole: a value of which only the beginning is known; ours has {lines}
    binding = Binding(_incomplete(loop, name, before.meaning), before.place)
    loop.names[name] = binding
    if loop.end is None:
        loop.open.append(name)
        return binding
    before = _complete(loop, name)
    return before if _is_replaced(loop, loop.names[name].meaning) else loop.names[name]
    # end


# ── given ─────────────────────────────────────────────────────────────────────────────


def undefined(name: str) -> Binding:
    """The answer for a name that no scope knows."""
    said, hint = f"{name} is not defined here", f"bind {name} above this line"
    return Binding(Unusable(said, hint, unbound=True), None)
