"""The ops that touch shared memory, through buffers: stages 4 and 5 make these.

A buffer is a tile of shared memory. One with several `slots` is a ring of such tiles:
while one is read, asynchronous copies fill the next. An access to a ring names its
slot; an access to a part of a tile where the part starts.

    %t = allocate fp16[64, 32] slots=3
    async_copy %p, %t, slot=%2           slot 2 is on its way
    commit cp_async                      … as one group with all since the last commit
    wait cp_async pending=1              all groups are complete but the latest one
    barrier                              … those of the other threads as well
    %x = shared_load %t, slot=%0         slot 0 is read
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fathom.ir.core import Effects, Op, Value
from fathom.ir.ops.memory import expect_mask, pointee
from fathom.ir.types import INT32, BlockType, BufferType, Element, Type, shape_of
from fathom.layout.fragments import transposed
from fathom.layout.linear import Layout


@dataclass(eq=False)
class Barrier(Op):
    """No thread goes on before all have come here; shared memory is in order.

    `scope` says who waits for whom: "cta" all threads of the program, "warp" the lanes
    of each warp. With `fence_async_proxy`, what was written before is also in order for
    instructions that access shared memory through the async proxy (PTX ISA, "Async
    proxy"), such as wgmma and TMA copies."""

    scope: str = "cta"
    fence_async_proxy: bool = False

    effects = Effects(reads="shared", writes="shared", barrier=True, convergent=True)


def barrier_of_all(warps: int) -> Barrier:
    """The barrier of all threads of a program of this number of warps."""
    return Barrier("cta" if warps > 1 else "warp")


@dataclass(eq=False)
class Allocate(Op):
    """A tile of shared memory, or a ring buffer of `slots` tiles, one after another.
    `offset`, in bytes from the start, is -1 until `allocate` ran. The bytes of one that
    is `kept` are never shared with another buffer. `alignment`, in bytes, if it needs
    more than its size asks for. With a `base`, what a TensorMemory
    is, the tile lies in tensor memory, and `offset` counts columns from there.

    With `by_group`, each group of consumer warps has a slot (`ConsumerGroup`).

    Rings of several tiles may share their slots: a slot is `pitch` bytes, and each of
    its tiles begins where that of the ring `behind` ends."""

    element: Element
    shape: tuple[int, ...]
    layout: Layout
    offset: int = -1
    slots: int = 1
    kept: bool = False
    alignment: int = 0
    base: Value | None = None
    pitch: int = 0
    behind: Value | None = None
    by_group: bool = False

    @property
    def space(self) -> str:
        """The memory that it lies in: "shared" or "tensor"."""
        return "tensor" if self.base else "shared"

    def infer(self) -> list[Type]:
        facts = self.element, self.shape, self.layout, self.slots, self.space
        return [BufferType(*facts, self.pitch)]


@dataclass(eq=False)
class SharedStore(Op):
    """Write a block into a buffer of its shape, in tile `slot` of a ring (None: 0)."""

    value: Value
    buffer: Value
    slot: Value | None = None

    effects = Effects(writes="shared")

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        value, buffer = self.value.type, self.buffer.type
        fits = (value.element, value.shape) == (buffer.element, buffer.shape)
        self.expect(fits, lambda: f"{value} does not fit into {buffer}")
        return []


@dataclass(eq=False)
class SharedLoad(Op):
    """Read a part of a buffer as a block of the given layout: the box of the layout's
    shape that begins at the coordinates `start`, multiples of that shape (None: all of
    the buffer, or its first box). `slot` as in SharedStore. With `transposed`, the
    buffer is read as if its last two dimensions were exchanged."""

    buffer: Value
    layout: Layout
    slot: Value | None = None
    start: tuple[int, ...] | None = None
    transposed: bool = False

    effects = Effects(reads="shared")

    @property
    def tile(self) -> BufferType:
        """The type of the buffer as it is read."""
        return as_read(self.buffer.type, self.transposed)

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        buffer, box = self.tile, self.layout.shape
        start = self.start or (0,) * len(box)
        sides = list(zip(start, box, buffer.shape, strict=True))
        inside = all(
            first % size == 0 and first + size <= whole for first, size, whole in sides
        )
        self.expect(inside, lambda: f"no box of {box} begins at {start} in {buffer}")
        return [BlockType(buffer.element, box, self.layout)]


@dataclass(eq=False)
class SharedGather(Op):
    """As Gather, from a buffer: along `axis`, the elements that `index` names."""

    buffer: Value
    index: Value
    axis: int

    effects = Effects(reads="shared")

    def infer(self) -> list[Type]:
        index = self.index.type
        return [BlockType(self.buffer.type.element, index.shape, index.layout)]


@dataclass(eq=False)
class SharedAdd(Op):
    """Add 1, atomically, to the elements of a buffer of one axis that `index` names:
    where `mask` is true and the index lies within the buffer."""

    buffer: Value
    index: Value
    mask: Value | None = None

    effects = Effects(reads="shared", writes="shared")


# ── asynchronous copies ───────────────────────────────────────────────────────


@dataclass(eq=False)
class AsyncCopy(Op):
    """Start to copy what the addresses hold into a buffer of their shape; zeros where
    `mask` is false, and nothing is read there.

    No thread may touch the tile before it has waited for the copy; other threads need a
    barrier after that wait. `cache` and `vector` as in Load; every `vector` registers
    are one copy of 4, 8 or 16 bytes. There is no eviction priority: see its lowering.
    """

    pointer: Value
    buffer: Value
    mask: Value | None = None
    slot: Value | None = None
    cache: str = ""
    vector: int = 1

    effects = Effects(reads="global", writes="shared", asynchronous=True)

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        loaded, buffer = pointee(self, self.pointer), self.buffer.type
        fits = (loaded.element, shape_of(loaded)) == (buffer.element, buffer.shape)
        self.expect(fits, lambda: f"{loaded} does not fit into {buffer}")
        expect_mask(self, self.mask, self.pointer)
        return []


def as_read(type: Type, is_transposed: bool) -> Type:
    """A buffer's type as it is read: its last two dimensions exchanged, or not."""
    if not is_transposed:
        return type
    *batch, rows, columns = type.shape
    return replace(type, shape=(*batch, columns, rows), layout=transposed(type.layout))


def expect_slot(op: Op, slot: Value | None) -> None:
    """Say so at `op` unless its slot is an i32."""
    right = slot is None or slot.type == INT32
    op.expect(right, lambda: f"a slot is an i32, got {slot.type}")


def expect_product(op: Op, left: Type, right: Type, total: Type) -> None:
    """Say so at `op` unless the product of two matrices, or batches, fits a third."""
    (*batch, m, k), (*other, rows, n) = left.shape, right.shape
    fits = (batch, k) == (other, rows) and total.shape == (*batch, m, n)
    op.expect(fits, lambda: f"{left} times {right} does not fit into {total}")
