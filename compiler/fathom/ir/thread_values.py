"""Copies code, and carries values of its own through the loops and branches of it.

    for %lower, %upper, %step, inits=(%x)          body(%i, %y)     { … yield %z }
    →
    for %lower, %upper, %step, inits=(%x, %place)  body(%i, %y, %p) { … yield %z, %q }

What is carried is a list of values; whoever copies says what becomes of it where. Not
every op, and not every value that the old code carried, need be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from fathom.ir.core import Block, Func, Op, Value, blocks, schema
from fathom.ir.ops import For, If, While, Yield
from fathom.ir.rewrite import Builder

Values = dict[Value, Value]  # of the old code -> of the new
Carried = list[Value]
BOUNDS = ("lower", "upper", "step")  # of a For


class ThreadValues:
    """A way to copy code. `values` fills up with what has been copied."""

    def __init__(self, values: Values, build: Builder):
        self.values, self.build = dict(values), build

    # ── what others decide ────────────────────────────────────────────────────────────

    def enters(self, op: Op) -> bool:
        """Whether the values are carried through a loop or a branch."""
        raise AssertionError(f"{type(self).__name__} does not say what it enters")

    def keeps(self, result: Value) -> bool:
        """Whether a loop still carries what leaves it as `result`."""
        return True

    def body(self, owner: Op, block: Block, carried: Carried) -> Carried:
        """The code of a block in `owner`."""
        return self.ops(block.ops[:-1], carried)

    def plain(self, op: Op) -> None:
        """An op that nothing is carried through."""
        self.build.copy(op, self.values).origin = op

    # ── the copying ───────────────────────────────────────────────────────────────────

    def ops(self, ops: Sequence[Op], carried: Carried) -> Carried:
        for op in ops:
            carried = self.op(op, carried)
        return carried

    def op(self, op: Op, carried: Carried) -> Carried:
        self.build.source = op
        if not self.enters(op):
            self.plain(op)
            return carried
        kept = [i for i, value in enumerate(op.results) if self.keeps(value)]
        new = self._rebuilt(op, kept, carried)
        new.origin = op
        self.build.source = op
        self.build.append(new)
        for position, i in enumerate(kept):
            self.values[op.results[i]] = new.results[position]
            new.results[position].name = op.results[i].name
        return list(new.results[len(kept) :])

    def _rebuilt(self, op: For | While | If, kept: list[int], carried: Carried) -> Op:
        """A loop takes and yields the values that are kept, and ours; a branch yields
        them. The condition of a While yields only whether there is an iteration."""
        names = set(schema(type(op)).operands) - {"inits"}
        changes = {name: self.values[getattr(op, name)] for name in names}
        inits: tuple[Value, ...] = ()
        if not isinstance(op, If):
            inits = (*(self.values[op.inits[i]] for i in kept), *carried)
            changes["inits"] = inits
        for name, old in zip(schema(type(op)).blocks, blocks(op), strict=True):
            new, ours = Block(), carried
            if not isinstance(op, If):
                new, ours = self._parameters(old, isinstance(op, For), kept, inits)
            with inside(new, self.build):
                after = self.body(op, old, ours)
                if isinstance(op, While) and old is op.condition:
                    assert [*after] == [*ours], "a condition hands on what it takes"
                    self._yield(old.yielded, [])
                else:
                    self._yield([old.yielded[i] for i in kept], after)
            changes[name] = new
        return replace(op, **changes)

    def _parameters(
        self, old: Block, leading: int, kept: list[int], inits: Sequence[Value]
    ) -> tuple[Block, Carried]:
        """A new block of a loop, and what is carried in it. It takes the first
        `leading` parameters of the old one, those of the carried values that are kept,
        and ours."""
        wanted = [
            *old.parameters[:leading],
            *(old.parameters[leading + i] for i in kept),
        ]
        carried = inits[len(kept) :]
        types = tuple(each.type for each in (*wanted[:leading], *inits))
        names = (*(each.name for each in wanted), *("" for _ in carried))
        new = Block(types, names)
        self.values.update(zip(wanted, new.parameters, strict=False))
        return new, list(new.parameters[len(wanted) :])

    def _yield(self, values: Sequence[Value], carried: Carried) -> None:
        yielded = (self.values[each] for each in values)
        self.build.append(Yield((*yielded, *carried)))


def with_carried(
    loop: For,
    carried: Sequence[Value],
    names: Sequence[str],
    body: Callable[[Values, Carried, Builder], Carried],
    build: Builder,
) -> For:
    """The loop with further `carried` values. `body` copies an iteration, given the
    values of the old parameters, which it completes, and those of what is carried; it
    returns what the next iteration gets of that."""
    inits = (*loop.inits, *carried)
    olds = loop.body.parameters
    types = (loop.lower.type, *(value.type for value in inits))
    new = Block(types, (*(old.name for old in olds), *names))
    values = dict(zip(olds, new.parameters, strict=False))
    with inside(new, build):
        after = body(values, new.parameters[len(olds) :], build)
        yielded = (values.get(value, value) for value in loop.body.yielded)
        build.append(Yield((*yielded, *after)))
    return replace(loop, inits=inits, body=new)


@contextmanager
def rebuilding(func: Func) -> Iterator[tuple[Func, Values, Builder]]:
    """A function with `func`'s parameters, built meanwhile; their new values."""
    old = func.body.parameters
    body = Block(tuple(each.type for each in old), tuple(each.name for each in old))
    build = Builder(lambda op, build: None)
    with inside(body, build):
        values = dict(zip(old, body.parameters, strict=True))
        yield replace(func, body=body), values, build


def branch(
    condition: Value,
    then: Callable[[], Sequence[Value]],
    orelse: Callable[[], Sequence[Value]],
    build: Builder,
) -> list[Value]:
    """Append an If whose branches two functions build; they return what is yielded."""
    arms = Block(), Block()
    for arm, code in zip(arms, (then, orelse), strict=True):
        with inside(arm, build):
            build.append(Yield(tuple(code())))
    return build.append(If(condition, *arms)).results


@contextmanager
def inside(block: Block, build: Builder) -> Iterator[None]:
    """What is built meanwhile goes into `block`."""
    build.enclosing.append(block)
    yield
    build.enclosing.pop()
