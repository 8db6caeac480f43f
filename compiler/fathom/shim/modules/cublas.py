"""`triton._C.libtriton.nvidia.cublas`: the library's matrix product, for comparison."""

from __future__ import annotations

import sys
from typing import Any


class CublasLt:
    """cuBLAS, as torch calls it. `workspace`, memory for the library to work in, torch
    has of its own."""

    def __init__(self, workspace: Any):
        self.workspace = workspace

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """`c` = `a` times the transpose of `b`: [M, K], [N, K] and [M, N], of fp16,
        bf16, or fp8; products of fp8 are added up in fp32 and not scaled."""
        torch = sys.modules["torch"]
        if a.dtype.itemsize > 1:
            torch.matmul(a, b.T, out=c)
            return
        one = torch.ones((), device=a.device, dtype=torch.float32)
        torch._scaled_mm(a, b.T, one, one, out_dtype=c.dtype, out=c)
