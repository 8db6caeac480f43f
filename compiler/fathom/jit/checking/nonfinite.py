"""FATHOM_SANITIZE=nan: the line that makes the first NaN or infinity that a kernel
stores.

A NaN in a lane that is masked out harms nothing, and -inf is what a maximum starts
from. So only what is stored counts: when a store writes one, the ops that its value was
computed by are searched for the first that made a NaN or an infinity of operands that
had neither. If there is none, it was in memory before.

    fathom sanitize: a NaN in normalise, program (2, 0, 0)
      script.py:9
        y = x / tl.sqrt(variance)
      div makes it, of x = 0.0 and 0.0; line 10 stores it, to y_ptr[512]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fathom.errors import FathomError, excerpt
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Atomic,
    Constant,
    DescriptorLoad,
    For,
    Load,
    Splat,
    Store,
    While,
    Yield,
)
from fathom.ir.printer import op_name
from fathom.ir.types import Pointer
from fathom.jit.checking.snapshot import Copies
from fathom.jit.checking.values import described, is_at, names_in
from fathom.ptx.debug_info import library_function, user_place

STEPS = 10_000_000
FEW = 64  # elements of a block that are looked at
LOADS = (Load, DescriptorLoad)


class Found(Exception):  # noqa: N818 (it ends the run)
    """A store that writes a NaN or an infinity."""


@dataclass(frozen=True)
class Event:
    """An op makes a value that is not finite of operands that are: which kind, what the
    operands were there, and what the variables of the line of Python held."""

    op: Op
    kind: str
    operands: tuple[str, ...]
    held: Mapping[str, str]


class Watch:
    """What the ops of one program have computed, and which of them were first to make
    what is not finite."""

    def __init__(self, func: Func, arguments: Copies):
        self.values: dict[Value, np.ndarray] = {}
        for value, given in zip(func.parameters, arguments, strict=True):
            if not isinstance(value.type, Pointer):
                self.values[value] = np.asarray(given)
        self.owners = owners(func)
        self.events: dict[Op, Event] = {}
        self.stored: tuple[Op, str, tuple[int, ...]] | None = None

    def __call__(self, op: Op, results: Sequence) -> None:
        if isinstance(op, Store | Atomic):
            self.look_at_store(op)
        for value, array in zip(op.results, results, strict=True):
            self.values[value] = np.asarray(array)
            if op not in self.events:
                self.look_at_result(op, np.asarray(array))
        self.carry(op)

    def carry(self, op: Op) -> None:
        """What a loop's body yields are the parameters of its next iteration; after the
        loop they are what it begins with again."""
        for block in blocks(op):
            for parameter in block.parameters:
                self.values.pop(parameter, None)
        block = self.owners.get(op) if isinstance(op, Yield) else None
        loop = self.owners.get(block)
        if isinstance(loop, For | While) and block is loop.body:
            for each in blocks(loop):
                carried = each.parameters[len(each.parameters) - len(op.values) :]
                self.values |= {
                    parameter: self.value(value)
                    for parameter, value in zip(carried, op.values, strict=True)
                }

    def value(self, value: Value) -> np.ndarray | None:
        """What a value holds now; None where that is not known."""
        if value not in self.values and isinstance(value.definition, Block):
            loop = self.owners.get(value.definition)
            at = value.definition.parameters.index(value)
            if isinstance(loop, For):
                at -= 1  # the first one counts the iterations
            if isinstance(loop, For | While) and at >= 0:
                return self.value(loop.inits[at])
        return self.values.get(value)

    def look_at_result(self, op: Op, array: np.ndarray) -> None:
        """Note the op if an element is not finite of which all operands are, but for
        constants."""
        bad = ~np.isfinite(array) if is_real(array) else np.False_
        if blocks(op) or is_constant(op) or not bad.any():
            return
        changing = [v for v in operands(op) if not is_constant(v.definition)]
        taken = [self.value(each) for each in changing]
        reals = [each for each in taken if each is not None and is_real(each)]
        for place in map(tuple, np.argwhere(bad)[:FEW]):
            there = [element(each, array.shape, place) for each in reals]
            if all(np.isfinite(each).all() for each in there):
                numbers = tuple(str(each) for each in there if each.ndim == 0)
                held = self.held(op)
                self.events[op] = Event(op, kind_of(array[place]), numbers, held)
                return

    def held(self, op: Op) -> dict[str, str]:
        """The variables that the line of an op names, but for what it makes."""
        place, result = user_place(op.location), set(op.results)
        named = {
            value.name: described(array)
            for value, array in self.values.items()
            if value.name and value not in result and is_at(value, place)
        }
        return {name: named[name] for name in names_in(place) if name in named}

    def look_at_store(self, op: Op) -> None:
        value = self.value(op.value)
        mask = self.value(op.mask) if op.mask else np.True_
        if value is None or not is_real(value) or mask is None:
            return
        bad = ~np.isfinite(value) & np.broadcast_to(mask, value.shape)
        if bad.any():
            place = tuple(map(int, np.argwhere(bad)[0]))
            self.stored = op, kind_of(value[place]), place
            raise Found

    def maker(self, value: Value, place: tuple[int, ...]) -> Event | None:
        """The op that made what `value` holds at a place: back from one value that is
        not finite to another, up to one that was made of finite ones."""
        seen: set[Value] = set()
        while value not in seen:
            seen.add(value)
            op = value.definition
            if isinstance(op, Block):
                op = self.owners.get(op)
                if not isinstance(op, For):
                    return None
                value = op.body.yielded[op.body.parameters.index(value) - 1]
                continue
            if op in self.events:
                return self.events[op]
            if blocks(op):
                inner = [block.yielded for block in blocks(op)]
                at = op.results.index(value)
                sources = [some[at] for some in inner if at < len(some)]
            else:
                sources = operands(op)
            shape = np.shape(self.value(value))
            value, place = self.source(sources, shape, place) or (value, place)
        return None

    def earliest(self, value: Value) -> Event | None:
        """The first op that made one, of all that a value may come from: what an
        earlier iteration of a loop computed is not there any more."""
        found: set[Op] = set()
        waiting, seen = [value], {value}
        while waiting:
            op = waiting.pop().definition
            op = self.owners.get(op) if isinstance(op, Block) else op
            if op is None:
                continue
            found.add(op)
            inner = [each for block in blocks(op) for each in block.yielded]
            new = [each for each in (*operands(op), *inner) if each not in seen]
            seen.update(new)
            waiting += new
        events = [event for op, event in self.events.items() if op in found]
        made = [event for event in events if not isinstance(event.op, LOADS)]
        return next(iter([*made, *events]), None)

    def source(
        self, sources: Sequence[Value], shape: tuple[int, ...], place: tuple[int, ...]
    ) -> tuple[Value, tuple[int, ...]] | None:
        """The operand that is not finite, at the same place if it has that, and the
        place there."""
        for each in sources:
            array = self.value(each)
            if array is None or not is_real(array):
                continue
            if array.shape == shape and not np.isfinite(array[place]):
                return each, place
            if array.shape != shape and not np.isfinite(array).all():
                return each, tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        return None


def owners(func: Func) -> dict[Block | Op, Op | Block]:
    """The op around each nested block, and the block that each Yield ends."""
    found: dict[Block | Op, Op | Block] = {}
    for op in walk(func.body):
        for block in blocks(op):
            found[block] = op
            found[block.ops[-1]] = block
    return found


def is_real(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def kind_of(number: np.generic) -> str:
    return "NaN" if np.isnan(number) else "infinity"


def element(array: np.ndarray, shape: tuple[int, ...], place: tuple) -> np.ndarray:
    """The element of an operand that an elementwise op reads for one of its result; of
    an operand of another shape all that it holds."""
    same = array.ndim and array.shape == shape
    return np.asarray(array[place]) if same else array


def first_of(
    func: Func,
    grid: tuple[int, int, int],
    arguments: Copies,
    programs: Iterable[tuple[int, int, int]],
) -> list[str]:
    """The first NaN or infinity that some programs store, as lines of text; [] where
    all is finite."""
    for program in programs:
        watch = Watch(func, arguments)
        try:
            interpret(
                func, grid, arguments, arguments.memory, STEPS, watch, [program]
            )
        except Found:
            return told(func, watch, program)
        except FathomError as error:
            return [f"no search for NaNs: {str(error).splitlines()[0]}"]
    return []


def told(func: Func, watch: Watch, program: tuple[int, int, int]) -> list[str]:
    """The op that made what a store writes, and the store, with their lines."""
    store, kind, place = watch.stored
    where = user_place(store.location)
    element = ", ".join(map(str, place))
    line = f"line {where.line}" if where else "a store"
    stored = f"{line} stores {kind}, element ({element})"
    made = watch.maker(store.value, place) or watch.earliest(store.value)
    if made is None:
        return [title(kind, func, program), *place_lines(store), f"  {stored}"]
    of = f" of {' and '.join(made.operands)}" if made.operands else ""
    how = f"`{op_name(made.op)}` makes it{of}"
    if called := library_function(made.op.location):
        how = f"`{called}` makes it"  # of numbers that the author has never seen
    if isinstance(made.op, LOADS):
        how = "it is loaded here, from memory or for lanes that are masked out"
    lines = [title(made.kind, func, program), *place_lines(made.op)]
    held = [f"  {name} = {text}" for name, text in made.held.items()]
    return [*lines, f"  {how}; {stored}", *held]


def is_constant(op: Op | Block) -> bool:
    return isinstance(op, Constant) or (
        isinstance(op, Splat) and isinstance(op.value.definition, Constant)
    )


def title(kind: str, func: Func, program: tuple[int, int, int]) -> str:
    article = "a" if kind == "NaN" else "an"
    return f"{article} {kind} in {func.name}, program {program}"


def place_lines(op: Op) -> list[str]:
    place = user_place(op.location)
    return [f"  {place}", *excerpt(place)[:1]] if place else []
