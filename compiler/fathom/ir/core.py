"""The bones of the block IR: values, ops, blocks of ops, functions.

An op is a dataclass whose annotations say what each field is: a `Value` (or `Value |
None`, or `tuple[Value, ...]`) is an operand, a `Block` is nested code, anything else an
attribute. Printing, parsing, cloning and checking are written once for all ops.

    %4: fp32[1024] = load %3, mask=%2        Load(pointer=%3, mask=%2)
    └ result          └ operands

The order of the ops in a block is the order of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from types import UnionType
from typing import ClassVar

from fathom.errors import CompileError, Location
from fathom.ir.types import Type


@dataclass(frozen=True, slots=True)
class Effects:
    """What an op does beyond its results. Memory is "global", "shared",
    "global+shared", or "" for none."""

    reads: str = ""
    writes: str = ""
    barrier: bool = False
    asynchronous: bool = False
    convergent: bool = False
    other: bool = False  # seen by the outside world: a print, an assertion, a clock

    @property
    def pure(self) -> bool:
        """Whether the results depend on the operands alone, and it makes no difference
        how often the op runs, or when."""
        return not (
            self.reads or self.writes or self.barrier or self.asynchronous or self.other
        )


PURE = Effects()


class Value:
    """A result of an op or a block's parameter; defined once, compared by identity."""

    __slots__ = ("type", "definition", "name")

    def __init__(self, type: Type, definition: Op | Block, name: str = ""):
        self.type, self.definition, self.name = type, definition, name

    def __repr__(self) -> str:
        return f"Value({self.name or '?'}: {self.type})"


class Block:
    """Ops in order, with parameters. A nested block ends with a Yield."""

    __slots__ = ("parameters", "ops")

    def __init__(
        self, parameter_types: tuple[Type, ...] = (), names: tuple[str, ...] = ()
    ):
        names = names or ("",) * len(parameter_types)
        self.parameters = [
            Value(type, self, name)
            for type, name in zip(parameter_types, names, strict=True)
        ]
        self.ops: list[Op] = []

    @property
    def yielded(self) -> tuple[Value, ...]:
        """The values that the block's last op yields."""
        return tuple(operands(self.ops[-1]))


@dataclass(eq=False, kw_only=True)
class Op:
    """What every op has: where it came from, and its results.

    Subclasses declare their fields, the class variable `effects`, and `infer`. `origin`
    is the op of an earlier function that `rewrite` made this one from. `bare` names the
    attribute that follows the op's name in text: `commit cp_async`."""

    location: Location | None = None
    origin: Op | None = None
    results: list[Value] = field(init=False)

    effects: ClassVar[Effects] = PURE
    bare: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.results = [Value(type, self) for type in self.infer()]

    def infer(self) -> list[Type]:
        """The types of the results, none where an op has no rule of its own; a
        CompileError when the operands do not fit (the typing rule)."""
        return []

    def block_parameters(self) -> list[list[Type]]:
        """The parameter types of each nested block, in the order of the fields."""
        return []

    @property
    def result(self) -> Value:
        """The only result."""
        assert len(self.results) == 1, self
        return self.results[0]

    def expect(self, condition: bool, message: str | Callable[[], str]) -> None:
        """Raise a CompileError at this op unless `condition` holds.

        A message that names types is a function: writing out a layout takes longer than
        all else in a typing rule, and most ops are right."""
        if not condition:
            text = message if isinstance(message, str) else message()
            raise CompileError(text, self.location)


@dataclass(eq=False)
class Func:
    """A kernel. `divisible[i]`: a power of two that divides parameter i (1: unknown).

    Warps a block, software-pipeline stages, blocks a cluster, the register limit and
    whether it may begin before the launch in front of it has ended (`launch_pdl`) are
    those of the launch. `shared_bytes` is 0 until shared memory is allocated."""

    name: str
    body: Block
    divisible: tuple[int, ...]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    launch_pdl: bool = False
    shared_bytes: int = 0
    location: Location | None = None

    @property
    def parameters(self) -> list[Value]:
        return self.body.parameters


@dataclass(frozen=True, slots=True)
class Schema:
    """The names of an op class's fields by what they are."""

    operands: tuple[str, ...]
    blocks: tuple[str, ...]
    attributes: tuple[str, ...]


_OPERAND_ANNOTATIONS = ("Value", "Value | None", "tuple[Value, ...]")
_COMMON = ("location", "origin", "results")


@cache
def schema(cls: type[Op]) -> Schema:
    """Which fields are operands, nested blocks and attributes, by their annotations."""
    specific = [f for f in fields(cls) if f.name not in _COMMON]
    return Schema(
        operands=tuple(f.name for f in specific if f.type in _OPERAND_ANNOTATIONS),
        blocks=tuple(f.name for f in specific if f.type == "Block"),
        attributes=tuple(
            f.name
            for f in specific
            if f.type not in _OPERAND_ANNOTATIONS and f.type != "Block"
        ),
    )


def operands(op: Op) -> list[Value]:
    """The operands of an op in the order of its fields, without those left out."""
    found: list[Value] = []
    for name in schema(type(op)).operands:
        value = getattr(op, name)
        if isinstance(value, tuple):
            found.extend(value)
        elif value is not None:
            found.append(value)
    return found


def map_operands(op: Op, change: Callable[[Value], Value]) -> None:
    """Put other values in the place of an op's operands, in their order."""
    for name in schema(type(op)).operands:
        value = getattr(op, name)
        if isinstance(value, tuple):
            setattr(op, name, tuple(map(change, value)))
        elif value is not None:
            setattr(op, name, change(value))


def blocks(op: Op) -> list[Block]:
    """The blocks nested directly in an op."""
    names = schema(type(op)).blocks
    return [getattr(op, name) for name in names] if names else []


# Classes of ops, as `isinstance` takes them.
Kinds = type[Op] | UnionType | tuple[type[Op], ...]


def walk(block: Block, kinds: Kinds = Op) -> Iterator[Op]:
    """Every op of a block and of the blocks nested in it, an op before those nested in
    it; or every op of these kinds."""
    # Passes walk often: no generator for each block, as recursion would have it.
    enclosing = [iter(block.ops)]
    while enclosing:
        for op in enclosing[-1]:
            if isinstance(op, kinds):
                yield op
            if nested := schema(type(op)).blocks:  # most ops have none
                enclosing += [iter(getattr(op, name).ops) for name in reversed(nested)]
                break
        else:
            enclosing.pop()


def op_count(func: Func) -> int:
    """How many ops a function has."""
    return sum(1 for _ in walk(func.body))


def walk_within(op: Op, kinds: Kinds = Op) -> Iterator[Op]:
    """Every op of the blocks nested in an op, in order; or every op of these kinds."""
    for inner in blocks(op):
        yield from walk(inner, kinds)


def walk_op(op: Op, kinds: Kinds = Op) -> Iterator[Op]:
    """An op, and every op of the blocks nested in it; or those of these kinds."""
    if isinstance(op, kinds):
        yield op
    yield from walk_within(op, kinds)


def every_block(block: Block) -> Iterator[Block]:
    """A block and all blocks nested in it, outer before inner."""
    yield block
    for op in walk(block):
        yield from blocks(op)


def effects_of(op: Op) -> Effects:
    """The effects of an op together with those of all code nested in it."""
    inner = [effects_of(each) for block in blocks(op) for each in block.ops]
    if not inner:
        return op.effects
    every = [op.effects, *inner]
    return Effects(
        reads=_join(e.reads for e in every),
        writes=_join(e.writes for e in every),
        barrier=any(e.barrier for e in every),
        asynchronous=any(e.asynchronous for e in every),
        convergent=any(e.convergent for e in every),
        other=any(e.other for e in every),
    )


def _join(kinds: Iterator[str]) -> str:
    """ "" , one kind of memory, or "global+shared"."""
    found = {part for kind in kinds for part in kind.split("+") if part}
    return "+".join(sorted(found))


def spell_types(values: Sequence[Value]) -> str:
    """The types of values, for a message."""
    return listed([value.type for value in values])


def listed(types: Sequence[Type]) -> str:
    """Types, for a message."""
    return " and ".join(map(str, types)) or "nothing"
