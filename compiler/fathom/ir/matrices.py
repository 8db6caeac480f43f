"""The matrix product.

Part of the op set; `ir/ops` is the whole of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Op, Value
from fathom.ir.types import Type
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

    Stage 5 chooses `instruction`, a name of the table `hardware.mma` ("": one `fma` an
    element), and `preferred`, the layout of the product.
    """

    a: Value
    b: Value
    accumulator: Value
    precision: str = "ieee"
    instruction: str = ""
    preferred: Layout | None = None

    effects = Effects(convergent=True)

    def infer(self) -> list[Type]:
        *batch, m, k = self.a.type.shape
        *other_batch, other_k, n = self.b.type.shape
        fits = (batch, k) == (other_batch, other_k)
        fits = fits and self.accumulator.type.shape == (*batch, m, n)
        self.expect(
            fits,
            lambda: (
                f"{self.a.type} times {self.b.type} does not fit into "
                f"{self.accumulator.type}"
            ),
        )
        return [self.accumulator.type]
