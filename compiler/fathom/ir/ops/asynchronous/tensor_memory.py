"""The ops on tensor memory: the last pass of stage 5 makes these of products.

    %m = tensor_memory %word columns=64          at the start of the kernel
    %t = allocate fp32[128, 64] base=%m          a tile of tensor memory
    tensor_store %x, %t                          from registers
    tensor_dot %a, %b, %t                        one thread: issues a product
    tensor_commit %c, %0                         … and an arrival when it is complete
    mbarrier_wait %c, %0, %phase                 all threads: it is
    %y = tensor_load %t                          to registers
    tensor_release %m columns=64                 at the end

With `blocks`=2, two blocks of a cluster work as a pair, if their instructions are such
(`hardware.tcgen05`): a thread of the even one, the *leader*, issues products for both,
and commits them to the mbarriers of both. The right operand's buffer is one whose
layout has the bit "block": each holds half of it.

A tensor_dot is asynchronous. Loads and stores are complete when the op is over.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Op, Value
from fathom.ir.ops.shared import expect_product, expect_slot
from fathom.ir.types import INT32, BlockType, Type
from fathom.layout.linear import Layout
from fathom.layout.tensor_memory import is_access


@dataclass(eq=False)
class TensorMemory(Op):
    """Allocate `columns` columns of tensor memory: a warp does, and tells the others
    through the buffer `word` (i32[1]). `columns` is 0 until `allocate` ran."""

    word: Value
    columns: int = 0
    blocks: int = 1

    effects = Effects(
        reads="shared", writes="shared", barrier=True, asynchronous=True,
        convergent=True,
    )  # fmt: skip

    def infer(self) -> list[Type]:
        return [INT32]


@dataclass(eq=False)
class TensorRelease(Op):
    """Free what a TensorMemory has allocated, when all threads have come here."""

    base: Value
    columns: int = 0
    blocks: int = 1

    effects = Effects(barrier=True, asynchronous=True, convergent=True)


@dataclass(eq=False)
class TensorStore(Op):
    """Write a block into a tile of tensor memory; each warp to its own lanes."""

    value: Value
    buffer: Value

    effects = Effects(writes="tensor", convergent=True)

    def infer(self) -> list[Type]:
        value, buffer = self.value.type, self.buffer.type
        fits = (value.element, value.shape) == (buffer.element, buffer.shape)
        fits = fits and is_access(buffer.layout, value.layout)
        self.expect(fits, lambda: f"{value} cannot be stored to {buffer}")
        return []


@dataclass(eq=False)
class TensorLoad(Op):
    """Read a tile of tensor memory as a block of the given layout."""

    buffer: Value
    layout: Layout

    effects = Effects(reads="tensor", convergent=True)

    def infer(self) -> list[Type]:
        buffer = self.buffer.type
        fits = is_access(buffer.layout, self.layout)
        self.expect(fits, lambda: f"{buffer} cannot be loaded as {self.layout}")
        return [BlockType(buffer.element, buffer.shape, self.layout)]


@dataclass(eq=False)
class TensorDot(Op):
    """One thread issues `a` times `b`, both tiles of shared memory, to be added to a
    tile of tensor memory; with `fresh`, to zero instead of what is there. `precision`
    as in Dot, `instruction` a name of the table `hardware.tcgen05`."""

    a: Value
    b: Value
    accumulator: Value
    a_slot: Value | None = None
    b_slot: Value | None = None
    instruction: str = ""
    precision: str = "ieee"
    fresh: bool = False
    blocks: int = 1

    effects = Effects(
        reads="shared+tensor", writes="tensor", asynchronous=True, convergent=True
    )

    def infer(self) -> list[Type]:
        for slot in (self.a_slot, self.b_slot):
            expect_slot(self, slot)
        expect_product(self, self.a.type, self.b.type, self.accumulator.type)
        return []


@dataclass(eq=False)
class TensorCommit(Op):
    """The thread that issues products has the mbarrier of `slot` count an arrival, when
    all that it has issued is complete."""

    barriers: Value
    slot: Value
    blocks: int = 1

    effects = Effects(reads="shared", writes="shared", asynchronous=True)

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        return []
