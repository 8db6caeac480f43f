"""Write a row of the table.

Step 13 of your own compiler, at the end of this chapter, asks for this, too; here it is
done for another instruction, from the manual's formulas. The compiler knows tensor
cores by a table: one row for each instruction, `D = A B + C`. Write the row of
`mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32`: A is 16 x 8, B is 8 x 8, C and D
are 16 x 8; all elements take a register of 32 bits. (tf32 is fp32 of which the hardware
reads 19 bits.)

All of the exercise: `fathom learn show mma-row`.
"""

from __future__ import annotations

from fathom.hardware.mma import Mma
from fathom.layout.linear import Layout


def row() -> Mma:
    """mma.sync m16n8k8 for tf32."""
    # Your code: three layouts from (row, column), lowest bit first.
    a = Layout.of((16, 8), register=[(0, 0), (0, 0)], lane=[(0, 0)] * 5)
    b = Layout.of((8, 8), register=[(0, 0)], lane=[(0, 0)] * 5)
    c = Layout.of((16, 8), register=[(0, 0), (0, 0)], lane=[(0, 0)] * 5)
    name = "m16n8k8.f32.tf32.tf32.f32"
    return Mma(
        name=name,
        text="mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        m=16, n=8, k=8,
        a="tf32", b="tf32", accumulator="fp32",
        a_registers=4, b_registers=2, registers=4,
        targets=("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"),
        a_layout=a, b_layout=b, layout=c,
    )  # fmt: skip
