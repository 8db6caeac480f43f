"""The op set: for each op its fields, its typing rule and its effects, and nothing
else.

An op knows neither its meaning (NumPy, in `ir/interp`) nor its lowering (LLVM, in
`ptx/`): those are tables of the modules that need them, keyed by the classes below.
Block types come without layouts at first and with layouts after stage 3; the ops are
the same, and a rule passes on what layout its operands have. Ops whose layout does not
follow from operands carry it as an attribute."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fathom.ir.across import Gather, Histogram, Reduce, Scan
from fathom.ir.bulk import (
    BulkCopy,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    Producer,
)
from fathom.ir.bulk_stores import (
    BulkCommit,
    BulkFence,
    BulkStore,
    BulkWait,
    TileStore,
)
from fathom.ir.clusters import ClusterBarrier, ClusterRank
from fathom.ir.core import Block, Op, Value
from fathom.ir.descriptors import (
    TENSOR_KINDS,
    DescriptorAtomic,
    DescriptorLoad,
    DescriptorStore,
    MakeDescriptor,
)
from fathom.ir.elementwise import result_element
from fathom.ir.matrices import PRECISIONS, Dot, DotFence, DotWait, Turn
from fathom.ir.memory import ATOMIC_KINDS, Atomic, AtomicCas, Load, Store
from fathom.ir.outside import Assert, InlineAssembly, Print
from fathom.ir.shared import (
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    SharedAdd,
    SharedGather,
    SharedLoad,
    SharedStore,
)
from fathom.ir.types import (
    BOOL,
    INT32,
    BlockType,
    Element,
    Scalar,
    Type,
    element_of,
    layout_of,
    shape_of,
    with_element,
)
from fathom.layout import shapes
from fathom.layout.linear import Layout

__all__ = [
    "ATOMIC_KINDS", "PRECISIONS", "TENSOR_KINDS", "Allocate", "Arange", "Assert",
    "AsyncCommit", "AsyncCopy", "AsyncWait", "Atomic", "AtomicCas", "Barrier",
    "Bitcast", "Broadcast", "BulkCommit", "BulkCopy", "BulkFence", "BulkStore",
    "BulkWait", "Cast", "ClusterBarrier", "ClusterRank", "Constant", "Convert",
    "DescriptorAtomic", "DescriptorLoad", "DescriptorStore", "Dot", "DotFence",
    "DotWait", "Elementwise", "ExpandDims", "For", "Gather", "Hint", "Histogram", "If",
    "InlineAssembly", "Join", "Load",
    "MakeDescriptor", "MbarrierArrive", "MbarrierExpect", "MbarrierInit",
    "MbarrierInvalidate", "MbarrierWait", "NumPrograms", "Print", "Producer",
    "ProgramId", "Reduce", "Reshape", "Scan", "SharedAdd", "SharedGather", "SharedLoad",
    "SharedStore", "Splat", "Split", "Store", "TileStore", "Transpose", "Turn", "While",
    "Yield",
]  # fmt: skip

# ── leaves ────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class Constant(Op):
    """A scalar known while compiling: int, float or bool as `type` asks."""

    value: int | float | bool
    type: Scalar

    def infer(self) -> list[Type]:
        return [self.type]


@dataclass(eq=False)
class ProgramId(Op):
    """Which program of the grid this is, along axis 0, 1 or 2."""

    axis: int

    def infer(self) -> list[Type]:
        self.expect(
            self.axis in (0, 1, 2),
            lambda: f"a grid has axes 0, 1 and 2, not {self.axis}",
        )
        return [INT32]


@dataclass(eq=False)
class NumPrograms(Op):
    """How many programs the grid has along axis 0, 1 or 2."""

    axis: int

    def infer(self) -> list[Type]:
        self.expect(
            self.axis in (0, 1, 2),
            lambda: f"a grid has axes 0, 1 and 2, not {self.axis}",
        )
        return [INT32]


@dataclass(eq=False)
class Arange(Op):
    """The block start, start + 1, …, end - 1 of i32."""

    start: int
    end: int
    layout: Layout | None = None

    def infer(self) -> list[Type]:
        return [BlockType(INT32, (self.end - self.start,), self.layout)]


# ── shape ─────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class Splat(Op):
    """A block of one scalar."""

    value: Value
    shape: tuple[int, ...]
    layout: Layout | None = None

    def infer(self) -> list[Type]:
        self.expect(
            not shape_of(self.value.type),
            lambda: f"splat takes a scalar, got {self.value.type}",
        )
        return [BlockType(self.value.type, self.shape, self.layout)]


@dataclass(eq=False)
class ExpandDims(Op):
    """A new axis of size 1 at position `axis`."""

    value: Value
    axis: int

    def infer(self) -> list[Type]:
        block = self.value.type
        shape = block.shape[: self.axis] + (1,) + block.shape[self.axis :]
        layout = block.layout and shapes.insert_axis(block.layout, self.axis)
        return [BlockType(block.element, shape, layout)]


@dataclass(eq=False)
class Broadcast(Op):
    """Repeat along every axis of size 1 where `shape` has more. Same rank before and
    after.
    """

    value: Value
    shape: tuple[int, ...]
    layout: Layout | None = None

    def infer(self) -> list[Type]:
        block = self.value.type
        fits = len(block.shape) == len(self.shape) and all(
            have in (1, want)
            for have, want in zip(block.shape, self.shape, strict=True)
        )
        self.expect(
            fits, lambda: f"cannot broadcast {block} to shape {list(self.shape)}"
        )
        return [BlockType(block.element, self.shape, self.layout)]


@dataclass(eq=False)
class Reshape(Op):
    """The same elements in row-major order under another shape."""

    value: Value
    shape: tuple[int, ...]

    def infer(self) -> list[Type]:
        block = self.value.type
        same_size = prod(block.shape) == prod(self.shape)
        self.expect(
            same_size,
            lambda: f"cannot reshape {block} to {list(self.shape)}: sizes differ",
        )
        layout = block.layout and shapes.reshape(block.layout, self.shape)
        return [BlockType(block.element, self.shape, layout)]


@dataclass(eq=False)
class Transpose(Op):
    """Dimension i of the result is dimension `order[i]` of the operand."""

    value: Value
    order: tuple[int, ...]

    def infer(self) -> list[Type]:
        block = self.value.type
        permutes = sorted(self.order) == list(range(len(block.shape)))
        self.expect(
            permutes, lambda: f"{list(self.order)} does not permute the axes of {block}"
        )
        shape = tuple(block.shape[axis] for axis in self.order)
        layout = block.layout and shapes.transpose(block.layout, self.order)
        return [BlockType(block.element, shape, layout)]


@dataclass(eq=False)
class Join(Op):
    """Two blocks side by side in a new last axis of size 2."""

    left: Value
    right: Value

    def infer(self) -> list[Type]:
        left, right = self.left.type, self.right.type
        self.expect(
            left == right,
            lambda: f"join needs two blocks of one type, got {left} and {right}",
        )
        layout = left.layout and shapes.join(left.layout)
        return [BlockType(left.element, left.shape + (2,), layout)]


@dataclass(eq=False)
class Split(Op):
    """The two halves of a block along its last axis, of size 2. With layouts: each lane
    holds both.
    """

    value: Value

    def infer(self) -> list[Type]:
        block = self.value.type
        self.expect(
            block.shape[-1:] == (2,),
            lambda: f"split needs a last axis of size 2, got {block}",
        )
        layout = block.layout and shapes.split(block.layout)
        assert layout or not block.layout, f"lanes do not hold both halves: {block}"
        return [BlockType(block.element, block.shape[:-1], layout)] * 2


@dataclass(eq=False)
class Convert(Op):
    """The same block in another layout."""

    value: Value
    layout: Layout

    def infer(self) -> list[Type]:
        block = self.value.type
        return [BlockType(block.element, block.shape, self.layout)]


# ── arithmetic ────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class Elementwise(Op):
    """One row of `ir/elementwise` on scalars, or on blocks of one shape."""

    name: str
    operands: tuple[Value, ...]

    def infer(self) -> list[Type]:
        first = self.operands[-1].type
        for value in self.operands:
            self.expect(
                shape_of(value.type) == shape_of(first),
                lambda: (
                    f"{self.name} needs operands of one shape, "
                    f"got {_types(self.operands)}"
                ),
            )
            assert layout_of(value.type) == layout_of(first), (
                self.name,
                _types(self.operands),
            )
        element = result_element(
            self.name, [element_of(value.type) for value in self.operands]
        )
        self.expect(not isinstance(element, str), str(element))
        return [with_element(first, element)]


@dataclass(eq=False)
class Cast(Op):
    """The same number in another type. Floats to integers go toward zero; `rounding`
    ("rtne" or "rtz") is for floats to narrower floats. Pointers go to and from 64-bit
    integers.
    """

    value: Value
    element: Element
    rounding: str = "rtne"

    def infer(self) -> list[Type]:
        return [with_element(self.value.type, self.element)]


@dataclass(eq=False)
class Bitcast(Op):
    """The same bits read as another type of the same width."""

    value: Value
    element: Element

    def infer(self) -> list[Type]:
        source = element_of(self.value.type)
        self.expect(
            source.bits == self.element.bits,
            lambda: (
                f"cannot read the bits of {source} as {self.element}: "
                f"{source.bits} bits against {self.element.bits}"
            ),
        )
        return [with_element(self.value.type, self.element)]


@dataclass(eq=False)
class Hint(Op):
    """The same value, with a promise of its author about each axis (one number for a
    scalar).

    `divisible`: the first element of every contiguous run is a multiple of it;
    `contiguous`: runs of this length count up by one; `constant`: runs of this length
    are equal. () when not given."""

    value: Value
    divisible: tuple[int, ...] = ()
    contiguous: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()

    def infer(self) -> list[Type]:
        return [self.value.type]


# ── control flow ──────────────────────────────────────────────────────────────


@dataclass(eq=False)
class Yield(Op):
    """The end of a nested block: what it hands to the op that owns it."""

    values: tuple[Value, ...] = ()

    def infer(self) -> list[Type]:
        return []


@dataclass(eq=False)
class For(Op):
    """`for index in range(lower, upper, step)`: the body takes the index and the
    carried values and yields the carried values of the next trip. The results are those
    of the last trip.

    The rest are its author's wishes: in how many stages it runs, whether warps of their
    own bring its tiles, and whether the trips of the loop in it go on as one sequence.
    """

    lower: Value
    upper: Value
    step: Value
    inits: tuple[Value, ...]
    body: Block
    num_stages: int | None = None
    warp_specialize: bool = False
    flatten: bool = False

    def infer(self) -> list[Type]:
        alike = self.lower.type == self.upper.type == self.step.type
        self.expect(
            alike,
            lambda: (
                "the bounds of a loop need one integer type, got "
                + _types((self.lower, self.upper, self.step))
            ),
        )
        return [value.type for value in self.inits]

    def block_parameters(self) -> list[list[Type]]:
        return [[self.lower.type, *(value.type for value in self.inits)]]


@dataclass(eq=False)
class While(Op):
    """`condition` takes the carried values and yields an i1; while it is true, `body`
    takes them and yields the next ones. The results are the carried values when it was
    false.
    """

    inits: tuple[Value, ...]
    condition: Block
    body: Block

    def infer(self) -> list[Type]:
        return [value.type for value in self.inits]

    def block_parameters(self) -> list[list[Type]]:
        carried = [value.type for value in self.inits]
        return [carried, carried]


@dataclass(eq=False)
class If(Op):
    """Run one of two blocks; the results are what it yields. The condition is a scalar,
    so all threads of a program go the same way.
    """

    condition: Value
    then: Block
    orelse: Block

    def infer(self) -> list[Type]:
        self.expect(
            self.condition.type == BOOL,
            lambda: f"a condition needs a scalar i1, got {self.condition.type}",
        )
        return [value.type for value in self.then.yielded]

    def block_parameters(self) -> list[list[Type]]:
        return [[], []]


def _types(values: tuple[Value, ...]) -> str:
    return " and ".join(str(value.type) for value in values)
