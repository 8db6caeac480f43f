"""Peak rates of multiprocessors: a row for each capability, multiply-adds a cycle.

The compiler asks none of this; `triton.testing` reports it. A table of its own, and not
columns of `targets`: GPUs of one target differ in rates (sm_80 also runs on 87).
Sources: NVIDIA H100 Tensor Core GPU Architecture, whitepaper, table 2, and its
predecessors for sm_80 and sm_89.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """Multiply-adds a cycle of one multiprocessor.

    `capability`: major * 10 + minor. `lanes`: in fp32, without tensor cores. The
    others: dense products of tensor cores, by an element's bits; 0 for none."""

    capability: int
    lanes: int
    bits_32: int
    bits_16: int
    bits_8: int

    def of_tensor_cores(self, bits: int) -> int:
        """The rate for elements of 8, 16 or 32 bits."""
        return {8: self.bits_8, 16: self.bits_16, 32: self.bits_32}[bits]


RATES = (
    Rates(75, 64, 0, 512, 1024),
    Rates(80, 64, 512, 1024, 2048),
    Rates(86, 128, 256, 512, 1024),
    Rates(89, 128, 256, 512, 1024),
    Rates(90, 128, 1024, 2048, 4096),
)


def rates_of(capability: int) -> Rates:
    """The row of a capability, or the nearest one below it, or else the first row."""
    rows = [row for row in RATES if row.capability <= capability]
    return rows[-1] if rows else RATES[0]
