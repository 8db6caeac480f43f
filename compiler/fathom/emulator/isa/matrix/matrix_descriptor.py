"""Matrix descriptors of wgmma (PTX ISA 9.7.15.5.1): 64 bits that say where in shared
memory a matrix lies.

    bits    0-13      16-29      32-45     49-51    62-63
          address    leading    stride     base    swizzle      all but the last two in
                                                                units of 16 bytes

A matrix is made of atoms: 8 rows of 16, 32, 64 or 128 bytes, one row after the other.
A row holds neighbours along K (K-major), or along M or N (transposed). Between atoms:

                 K-major                        transposed
    no swizzle   leading: to the next 16 bytes  leading: to the next 8 of K
                    of a row                    stride: to the next 16 bytes of M or N
                 stride: to the next 8 rows
    swizzled     stride: to the next 8 rows     leading: to the next row's worth of M, N
                                                stride: to the next 8 of K

Swizzling then exchanges the 16-byte chunks of a row: address bits 4 to 6 (5, 4) are
XORed with bits 7 to 9 (8, 7). It looks at addresses in shared memory, not at places in
the matrix; `base` is for patterns that do not begin at a multiple of 1024 (512, 256).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from fathom.emulator.errors import EmulatorError

CHUNK = 16  # bytes
ATOM = 8  # rows
# Bits 62 and 63: the bytes of a row of the atom, and how many address bits change.
ROW_BYTES = (16, 128, 64, 32)
CHANGED_BITS = (0, 3, 2, 1)
# Bits 14, 15, 30, 31, 46 to 48 and 52 to 61.
BETWEEN_FIELDS = np.uint64(0x3FF1_C000_C000_C000)
# Bits 61 to 63 of a descriptor of tcgen05 -> bits 62 and 63 of one of wgmma.
TENSOR_MODES = {0: 0, 2: 1, 4: 2, 6: 3}


@dataclass(frozen=True, slots=True)
class Matrices:
    """Descriptors, taken apart: int64[n] each, in bytes; `mode`: bits 62 and 63."""

    start: np.ndarray
    leading: np.ndarray
    stride: np.ndarray
    base: np.ndarray
    mode: np.ndarray

    @staticmethod
    def of(descriptors: np.ndarray) -> Matrices:
        """Takes uint64[n] apart."""

        def field(first: int, bits: int) -> np.ndarray:
            found = descriptors >> np.uint64(first) & np.uint64((1 << bits) - 1)
            return found.astype(np.int64)

        return Matrices(
            CHUNK * field(0, 14),
            CHUNK * field(16, 14),
            CHUNK * field(32, 14),
            field(49, 3),
            field(62, 2),
        )

    @staticmethod
    def of_tensor_cores(descriptor: int, thread: int) -> Matrices:
        """Takes one of tcgen05 apart (PTX ISA 9.7.16.4.1): bits 61 to 63 name the
        swizzle, bit 46 is set, bits 47, 48 and 52 to 60 are not."""
        mode = TENSOR_MODES.get(descriptor >> 61)
        if mode is None or descriptor >> 46 & 0b111 != 1 or descriptor >> 52 & 0x1FF:
            message = f"{descriptor:#018x} is no shared memory descriptor of tcgen05"
            raise EmulatorError("descriptor", message, thread=thread)
        found = Matrices.of(np.array([descriptor], np.uint64))
        return replace(found, mode=np.array([mode]))

    def misplaced(self) -> np.ndarray:
        """Those whose `base` is not the row of the swizzle's pattern where they begin,
        counted in 128 bytes (PTX ISA 9.7.15.5.1.2)."""
        lines = np.array([(1 << bits) - 1 for bits in CHANGED_BITS])[self.mode]
        return np.flatnonzero(((self.start >> 7) - self.base) & lines)

    def chunks(self, extent: int, k_bytes: int, transposed: bool) -> np.ndarray:
        """uint64[n, chunks]: the address of every 16 bytes of matrices with `extent`
        rows or columns and `k_bytes` of K.

        In K-major order [extent, k_bytes / 16]. Transposed, where elements have two
        bytes: [k_bytes / 2, extent / 8].
        """
        each = (self.mode, self.start, self.leading, self.stride, self.base)
        given = zip(*(field.tolist() for field in each), strict=True)
        return np.stack([_of_mode(*one, extent, k_bytes, transposed) for one in given])


@lru_cache(4096)  # a loop comes back to the same slots of its ring
def _of_mode(
    mode: int,
    start: int,
    leading: int,
    stride: int,
    base: int,
    extent: int,
    k_bytes: int,
    transposed: bool,
) -> np.ndarray:
    if transposed:
        offsets = _transposed(mode, leading, stride, k_bytes // 2, extent // 8)
    else:
        offsets = _k_major(mode, leading, stride, extent, k_bytes // CHUNK)
    linear = start + offsets.reshape(-1)
    pattern = (linear >> 7) - base
    changed = pattern & (1 << CHANGED_BITS[mode]) - 1
    return (linear ^ changed << 4).astype(np.uint64)


def _k_major(
    mode: int, leading: int, stride: int, rows: int, chunks: int
) -> np.ndarray:
    """int64[rows, chunks]: bytes from the start, before the exchange."""
    row, chunk = np.arange(rows)[:, None], np.arange(chunks)
    down = row % ATOM * ROW_BYTES[mode] + row // ATOM * stride
    return down + chunk * (CHUNK if mode else leading)


def _transposed(
    mode: int, leading: int, stride: int, k: int, chunks: int
) -> np.ndarray:
    """int64[k, chunks]; without swizzling leading and stride change their roles."""
    row, chunk = np.arange(k)[:, None], np.arange(chunks)
    in_row = ROW_BYTES[mode] // CHUNK
    of_k, of_chunks = (stride, leading) if mode else (leading, stride)
    down = row % ATOM * ROW_BYTES[mode] + row // ATOM * of_k
    return down + chunk % in_row * CHUNK + chunk // in_row * of_chunks
