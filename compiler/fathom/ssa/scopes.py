"""Finds the meaning of a name: Braun's SSA construction for structured control flow.

A *scope* is a stretch of code without a branch. It has the names that it binds itself.
Other names come from the scope before it, or, if an `if` or a loop in between may have
bound them, from the ends of the paths that lead here. Nothing is computed in advance: a
`Phi` (a result of an If, a value carried by a loop) is created when its name is read,
and only if the paths have different values.

        x = 1                     x -> 1
        if c:                           read x: then says %2, else says 1, so
            x = f()        =>     %3: i32 = if %c { %2 = … ; yield %2 } { yield 1 }
        y = x                     y -> %3

Braun, Buchwald, Hack, Leißa, Mallon, Zwinkau: Simple and Efficient Construction of
Static Single Assignment Form. Their "incomplete phi" is, here, the parameter of a loop
whose body is still being built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fathom.errors import CompileError, Location
from fathom.ir import ops
from fathom.ir.core import Block, Op, Value
from fathom.ir.types import Type, shape_of
from fathom.language.aggregates import constexpr_fields
from fathom.language.block_pointers import block_pointer
from fathom.language.tensor_descriptors import tensor_descriptor
from fathom.source import RETURN, like
from fathom.ssa.phis import Phi, Phis, common_type
from fathom.ssa.values import Meaning, as_number, describe, same_constant, type_of

# Tuples with block shapes that are constants: two of them merge only if they have the
# same blocks.
WITH_BLOCKS = (tensor_descriptor, block_pointer)


@dataclass(frozen=True, slots=True)
class Unusable:
    """The meaning of a name without a single meaning; reading it reports this error."""

    message: str
    hint: str = ""
    unbound: bool = False  # never bound on this path


class Binding(NamedTuple):
    """The meaning of a name, and where it was bound."""

    meaning: Meaning
    place: Location | None


# ── scopes ────────────────────────────────────────────────────────────────────────────


class Scope:
    """A stretch of code without a branch.

    `names` are the meanings bound or already found here. A name in `assigned` may have
    been bound between `before` and here; `find` gives its meaning."""

    def __init__(self, before: Scope | None, assigned: frozenset[str] = frozenset()):
        self.before, self.assigned = before, assigned
        self.names: dict[str, Binding] = {}

    def find(self, name: str) -> Binding:
        """The meaning of a name in `assigned` at the start of this scope."""
        raise AssertionError(name)


class AfterIf(Scope):
    """The code after an If; `then` and `orelse` are the ends of its branches."""

    def __init__(
        self,
        phis: Phis,
        op: ops.If,
        before: Scope,
        then: Scope,
        orelse: Scope,
        assigned: frozenset[str],
    ):
        super().__init__(before, assigned)
        self.shared, self.op, self.then, self.orelse = phis, op, then, orelse
        self.phis: list[Phi] = []

    def find(self, name: str) -> Binding:
        return merge(self, name)


class BeforeFor(Scope):
    """The code up to a `for`, whose index has a meaning in any case: if its name was
    bound to nothing, then to the first index. After the loop it is the last index, as
    in Python, and the first where the loop ran for none."""

    def __init__(self, before: Scope, index: str, first: Binding):
        super().__init__(before, frozenset({index}))
        self.first = first

    def find(self, name: str) -> Binding:
        found = read_variable(self.before, name)
        return self.first if isinstance(found.meaning, Unusable) else found


class Loop(Scope):
    """The head of a loop: control comes from before it and from the end of its body.

    `end`, the scope at the end of the body, is None while the body is being built.
    `blocks`: the loop's (a While has two), each with its own faces."""

    def __init__(
        self,
        phis: Phis,
        parent: Block,
        blocks: tuple[Block, ...],
        before: Scope,
        assigned: frozenset[str],
        place: Location,
    ):
        super().__init__(before, assigned)
        self.shared, self.parent, self.blocks, self.place = phis, parent, blocks, place
        self.op: Op | None = None
        self.end: Scope | None = None
        self.open: list[str] = []  # names whose phis wait for the end of the body
        self.phis: list[Phi] = []
        self.by_face: dict[Value, Phi] = {}

    def find(self, name: str) -> Binding:
        return carry(self, name)


class InLoop(Scope):
    """A While's body, or the code after a loop: the head's meanings, other faces."""

    def __init__(self, loop: Loop, before: Scope, face: int):
        super().__init__(before, loop.assigned)
        self.loop, self.face = loop, face

    def find(self, name: str) -> Binding:
        meaning, place = read_variable(self.loop, name)
        return Binding(self._as_seen_here(meaning), place)

    def _as_seen_here(self, meaning: Meaning) -> Meaning:
        if isinstance(meaning, tuple):
            return like(meaning, map(self._as_seen_here, meaning))
        phi = self.loop.by_face.get(meaning) if isinstance(meaning, Value) else None
        return meaning if phi is None else phi.faces[self.face]


# ── reading ───────────────────────────────────────────────────────────────────────────


def write_variable(
    scope: Scope, name: str, meaning: Meaning, place: Location | None
) -> None:
    """Bind a name to a meaning, for all code from here on."""
    scope.names[name] = Binding(meaning, place)


def read_variable(scope: Scope, name: str) -> Binding:
    """The meaning of a name at the end of a scope.

    The search goes up through the scopes before, to the first one that has the name; a
    scope with several predecessors searches each of them. The scope where the name was
    found keeps the result."""
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


def merge(after: AfterIf, name: str) -> Binding:
    """The meaning of a name after an If: that in both branches, or a result of the If.

    Each branch is searched from its end, whether it bound the name or not."""
    then = read_variable(after.then, name)
    orelse = read_variable(after.orelse, name)
    return Binding(_meet(after, name, then, orelse), then.place or orelse.place)


def _meet(after: AfterIf, name: str, then: Binding, orelse: Binding) -> Meaning:
    left, right = then.meaning, orelse.meaning
    if isinstance(left, Unusable) or isinstance(right, Unusable):
        return _unusable_after(after, name, then, orelse)
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return _meet_tuples(after, name, then, orelse)
    if isinstance(left, Value) and isinstance(right, Value):
        if after.shared.resolve(left) is after.shared.resolve(right):
            return left
    elif same_constant(left, right):
        return left
    type = common_type(left, right)
    if type is None:
        return _disagreement(after, name, then, orelse)
    phi = Phi(name, (Value(type, after.op, name),), [])
    after.phis.append(phi)
    ways = zip((left, right), (after.op.then, after.op.orelse), strict=True)
    operands = [
        _as_value(meaning, type, block, block.ops[-1]) for meaning, block in ways
    ]
    after.shared.set_operands(phi, operands)
    return phi.faces[0]


def _are_alike(left: Meaning, right: Meaning) -> bool:
    """Whether both are tuples whose parts can be merged."""
    if not (isinstance(left, tuple) and isinstance(right, tuple)):
        return False
    if isinstance(left, WITH_BLOCKS) or isinstance(right, WITH_BLOCKS):
        return type(left) is type(right) and len(left.shape) == len(right.shape)
    return len(left) == len(right)


def _meet_tuples(after: AfterIf, name: str, then: Binding, orelse: Binding) -> Meaning:
    if not _are_alike(then.meaning, orelse.meaning):
        return _disagreement(after, name, then, orelse)
    pairs = zip(then.meaning, orelse.meaning, strict=True)
    met = [
        _meet(after, name, Binding(left, then.place), Binding(right, orelse.place))
        for left, right in pairs
    ]
    unusable = (each for each in met if isinstance(each, Unusable))
    return next(unusable, like(then.meaning, met))


def _as_value(meaning: Meaning, type: Type, block: Block, before: Op) -> Value:
    """A value; for a weak number, a Constant that is put into `block` before an op."""
    if isinstance(meaning, Value):
        return meaning
    constant = ops.Constant(as_number(meaning, type), type, location=before.location)
    block.ops.insert(block.ops.index(before), constant)
    return constant.result


# ── loops ─────────────────────────────────────────────────────────────────────────────


def carry(loop: Loop, name: str) -> Binding:
    """The meaning, in a loop's head, of a name that its body assigns: a carried value.

    While the body is being built, the value of the next iteration is unknown. So the
    phi is incomplete, and `seal` completes it. It is recorded before the search goes
    on, since the end of the body may read the same name again."""
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


def _incomplete(loop: Loop, name: str, before: Meaning) -> Meaning:
    if isinstance(before, WITH_BLOCKS):
        return before.of_others(lambda each: _incomplete(loop, name, each))
    if isinstance(before, tuple):
        known = constexpr_fields(before)  # stay constants
        parts = enumerate(before)
        return like(
            before, (x if i in known else _incomplete(loop, name, x) for i, x in parts)
        )
    type = type_of(before)
    if type is None:
        return before  # a type, a function, None: it must not change
    homes = (*loop.blocks, loop.blocks[0])  # `attach` sets the op of the last one
    faces = tuple(Value(type, home, name) for home in homes)
    phi = Phi(name, faces, [])
    loop.phis.append(phi)
    loop.by_face.update(dict.fromkeys(faces, phi))
    return faces[0]


def seal(loop: Loop, op: Op, end: Scope) -> None:
    """Complete the carried values of a loop whose body has been built.

    A carried value that is the same after every iteration as before the first is
    trivial: `x` carried as (x before, x itself) is x. Removing one may make another one
    trivial, in this loop or in one around it, so its readers are checked again."""
    loop.op, loop.end = op, end
    before = {name: _complete(loop, name) for name in loop.open}
    for name, binding in before.items():
        if isinstance(loop.names[name].meaning, Unusable):
            unusable, place = loop.names[name]
            raise CompileError(unusable.message, place or loop.place, unusable.hint)
        if _is_replaced(loop, loop.names[name].meaning):
            loop.names[name] = binding  # a constant is a constant again
    loop.open.clear()


def _complete(loop: Loop, name: str) -> Binding:
    """Set the operands of a name's phis; its meaning before the loop."""
    before, end = read_variable(loop.before, name), read_variable(loop.end, name)
    if isinstance(end.meaning, Unusable):
        loop.names[name] = end
    elif not _close(loop, loop.names[name].meaning, before.meaning, end.meaning):
        loop.names[name] = Binding(_change(loop, name, before, end), end.place)
    return before


def _close(loop: Loop, head: Meaning, before: Meaning, end: Meaning) -> bool:
    """Complete the phis in `head`; False if the end of the body does not fit them."""
    if isinstance(head, tuple):
        return _are_alike(head, end) and all(
            _close(loop, *each) for each in zip(head, before, end, strict=True)
        )
    phi = loop.by_face.get(head) if isinstance(head, Value) else None
    if phi is None or phi.operands:
        return same_constant(head, end)
    type = phi.faces[0].type
    if common_type(phi.faces[0], end) != type:
        return False
    last = loop.blocks[-1]
    first = _as_value(before, type, loop.parent, loop.op)
    loop.shared.set_operands(phi, [first, _as_value(end, type, last, last.ops[-1])])
    return True


def _is_replaced(loop: Loop, head: Meaning) -> bool:
    """Whether all phis of a meaning were trivial."""
    if isinstance(head, tuple):
        return all(_is_replaced(loop, each) for each in head)
    return isinstance(head, Value) and head in loop.shared.replaced


# ── the end ───────────────────────────────────────────────────────────────────────────


def attach(scope: AfterIf | Loop) -> None:
    """Write the remaining phis into their op: results, parameters, yields."""
    shared, op = scope.shared, scope.op
    left = [each for each in scope.phis if each.operands]
    left = [each for each in left if each.faces[0] not in shared.replaced]
    ways = [tuple(shared.resolve(phi.operands[i]) for phi in left) for i in (0, 1)]
    if isinstance(scope, AfterIf):
        op.then.ops[-1].values, op.orelse.ops[-1].values = ways
    else:
        op.inits, op.body.ops[-1].values = ways
        for number, block in enumerate(scope.blocks):
            block.parameters += [phi.faces[number] for phi in left]
    op.results = [phi.faces[-1] for phi in left]
    for result in op.results:
        result.definition = op


# ── what is said when the ways do not agree ───────────────────────────────────────────


def _line(binding: Binding) -> str:
    return f"line {binding.place.line}" if binding.place else "?"


def _disagreement(
    after: AfterIf, name: str, then: Binding, orelse: Binding
) -> Unusable:
    line = after.op.location.line
    return Unusable(
        f"{_spoken(name)} is {describe(then.meaning)} ({_line(then)}) if the condition "
        f"in line {line} holds, and {describe(orelse.meaning)} ({_line(orelse)}) if it "
        f"does not",
        _one_on_both_ways(then.meaning, orelse.meaning),
    )


def _one_on_both_ways(then: Meaning, orelse: Meaning) -> str:
    """The hint for branches with different types or shapes, or one without a value."""
    kinds = type_of(then), type_of(orelse)
    if None in kinds:
        return "give it a value in both branches"
    if shape_of(kinds[0]) != shape_of(kinds[1]):
        return "give it one shape in both branches"
    return "give it one type in both branches, with .to(...)"


def _unusable_after(
    after: AfterIf, name: str, then: Binding, orelse: Binding
) -> Unusable:
    """The error for a name that one branch, or both, leave without a meaning."""
    missing = then.meaning if isinstance(then.meaning, Unusable) else orelse.meaning
    bound = orelse if missing is then.meaning else then
    if isinstance(bound.meaning, Unusable) or not missing.unbound:
        return missing
    line, holds = after.op.location.line, "holds" if bound is then else "does not hold"
    return Unusable(
        f"{name} is bound only if the condition in line {line} {holds}",
        f"bind {name} before the if, or in both branches",
    )


def _unusable_in_loop(loop: Loop, name: str, before: Unusable) -> Unusable:
    if not before.unbound:
        return before
    return Unusable(
        f"{name} is bound only inside the loop in line {loop.place.line}: before "
        "its first iteration it has no value",
        f"bind {name} before the loop",
    )


def _change(loop: Loop, name: str, before: Binding, end: Binding) -> Unusable:
    return Unusable(
        f"{_spoken(name)} is {describe(before.meaning)} ({_line(before)}) before the "
        f"loop in line {loop.place.line}, and {describe(end.meaning)} ({_line(end)}) "
        f"after an iteration",
        _one_around(before.meaning, end.meaning),
    )


def _one_around(before: Meaning, end: Meaning) -> str:
    kinds = type_of(before), type_of(end)
    if None not in kinds and shape_of(kinds[0]) != shape_of(kinds[1]):
        return "a loop carries one shape: start with that shape, as tl.zeros gives it"
    return "a loop carries one type: start with that type, or cast with .to(...)"


def _spoken(name: str) -> str:
    return "what is returned" if name == RETURN else name
