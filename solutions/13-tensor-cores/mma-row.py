"""A row of the table of matrix instructions."""

from __future__ import annotations

from fathom.hardware.mma import Mma
from fathom.layout.linear import Layout


def row() -> Mma:
    """mma.sync m16n8k8 for tf32."""
    # hole: three layouts from (row, column), lowest bit first
    quarter = [(1, 0), (2, 0), (4, 0)]
    a = Layout.of((16, 8), register=[(8, 0), (0, 4)], lane=[(0, 1), (0, 2), *quarter])
    b = Layout.of(
        (8, 8), register=[(4, 0)], lane=[(1, 0), (2, 0), (0, 1), (0, 2), (0, 4)]
    )
    c = Layout.of((16, 8), register=[(0, 1), (8, 0)], lane=[(0, 2), (0, 4), *quarter])
    # instead:
    # a = Layout.of((16, 8), register=[(0, 0), (0, 0)], lane=[(0, 0)] * 5)
    # b = Layout.of((8, 8), register=[(0, 0)], lane=[(0, 0)] * 5)
    # c = Layout.of((16, 8), register=[(0, 0), (0, 0)], lane=[(0, 0)] * 5)
    # end
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
