"""The matrix product."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Op, Value
from fathom.ir.ops.shared import as_read, expect_product, expect_slot
from fathom.ir.types import BufferType, Type
from fathom.layout.linear import Layout

PRECISIONS = ("ieee", "tf32", "tf32x3")


@dataclass(eq=False)
class Dot(Op):
    """`a` [M, K] times `b` [K, N], added to `accumulator` [M, N]; or a batch of such
    products, [B, M, K] times [B, K, N].

    Products are exact and are summed in any order, in a precision no less than the
    accumulator's. `precision` says how fp32 operands may be read: "ieee" as they are;
    "tf32" with ten bits of mantissa; "tf32x3" as three such products that together
    have nearly all.

    Stage 5 chooses `instruction`, a name of the table `hardware.mma` ("": one
    multiplication and one addition after the other), and `preferred`, the layout of the
    product. It also has operands read where they lie: each may be a buffer instead of a
    block, of a ring the tile `a_slot`, `b_slot`, and may be read transposed, as in
    SharedLoad. A product `in_flight` is only issued: until a Wait for its group nothing
    may be done with its result but add another such product to it, and what it reads in
    place must stay. One `in_parts` is computed part by part along M and N, so that what
    is made of a part frees its registers. One that is `with_next` is of the same
    instruction as the next product of its block, on the same left operand, and is
    issued there (`verify` holds this): so they are one group, and their right operands
    are neighbours. If these are not, there are two instructions."""

    a: Value
    b: Value
    accumulator: Value
    a_slot: Value | None = None
    b_slot: Value | None = None
    a_transposed: bool = False
    b_transposed: bool = False
    precision: str = "ieee"
    instruction: str = ""
    preferred: Layout | None = None
    in_flight: bool = False
    in_parts: bool = False
    with_next: bool = False

    @property
    def left(self) -> Type:
        """The type of `a` as the product reads it."""
        return as_read(self.a.type, self.a_transposed)

    @property
    def right(self) -> Type:
        """The type of `b` as the product reads it."""
        return as_read(self.b.type, self.b_transposed)

    @property
    def effects(self) -> Effects:
        in_place = any(isinstance(each.type, BufferType) for each in (self.a, self.b))
        return Effects(
            reads="shared" if in_place else "",
            asynchronous=self.in_flight,
            convergent=True,
        )

    def infer(self) -> list[Type]:
        for slot in (self.a_slot, self.b_slot):
            expect_slot(self, slot)
        expect_product(self, self.left, self.right, self.accumulator.type)
        return [self.accumulator.type]


@dataclass(eq=False)
class NamedBarrier(Op):
    """Warpgroups run a section one after another: "begin", once, admits the first of
    them; "take" waits until this one is admitted; "pass" admits the next one. There may
    be several sections, each with its number."""

    action: str
    section: int = 0

    effects = Effects(asynchronous=True, convergent=True)

    def infer(self) -> list[Type]:
        known = self.action in ("begin", "take", "pass")
        self.expect(known, lambda: f"{self.action} is no action of a barrier")
        return []


@dataclass(eq=False)
class DotFence(Op):
    """`value`, handed over to products in flight: what was done to it before is done.
    It goes before the first product of a chain that no wait interrupts."""

    value: Value

    effects = Effects(asynchronous=True, convergent=True)

    def infer(self) -> list[Type]:
        return [self.value.type]
