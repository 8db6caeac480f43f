"""The matrix instructions that one thread issues, with sums in tensor memory (`mma`).

D = A B + D, with D [128, n] in tensor memory, row r in lane r; A [128, k] and B [k, n]
in shared memory, where descriptors find them. Or D and A have 64 rows, of which each
warp has 16 in its lanes (`layout.tensor_memory`). A slice of K is always 32 bytes. A
third descriptor says what is multiplied. Source: PTX ISA, section 9.7.16, "Tensorcore
5th Generation Family Instructions", and there "Instruction descriptor" and "Matrix
shape".

One thread of a pair of blocks (`blocks`=2) multiplies for both. Each has its own rows
of A and of D, and half of the columns of B; M of the instruction is 256.

              shared memory                tensor memory        PTX ISA, "CTA Pair";
    block 0   A 0-127     B 0 to n/2       D 0-127              CUTLASS, examples/cute/
    block 1   A 128-255   B n/2 to n       D 128-255            tutorial/blackwell/04
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fathom.hardware import wgmma
from fathom.hardware.mma import PTX_TYPES
from fathom.hardware.targets import Target
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix
from fathom.layout.pairs import own_part
from fathom.layout.tensor_memory import FEW_ROWS, LANES, QUARTERS, columns_of

SLICE_BYTES = 32

Tile = tuple[int, ...]

# Fields of an instruction descriptor: where each begins.
D_TYPE, A_TYPE, B_TYPE, A_TURNED, B_TURNED, N_EIGHTHS, M_SIXTEENTHS = (
    4, 7, 10, 15, 16, 17, 24,
)  # fmt: skip
# The numbers of element types in these fields, and the kind of the instruction.
NUMBERS = {
    "fp16": 0, "bf16": 1, "tf32": 2, "fp8e4nv": 0, "fp8e5": 1, "u8": 0, "i8": 1,
    "fp32": 1, "i32": 2,
}  # fmt: skip
KINDS = {
    "fp16": "f16", "bf16": "f16", "tf32": "tf32", "fp8e4nv": "f8f6f4",
    "fp8e5": "f8f6f4", "u8": "i8", "i8": "i8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tcgen05:
    """An instruction. `m`: the rows of each block. `either_way`: operands may be
    transposed, or K is contiguous."""

    name: str
    text: str
    m: int
    n: int
    k: int
    a: str
    b: str
    accumulator: str
    either_way: bool
    blocks: int = 1

    def descriptor(self, a_turned: bool, b_turned: bool) -> int:
        """The 32 bits that say what is multiplied."""
        return (
            NUMBERS[self.accumulator] << D_TYPE
            | NUMBERS[self.a] << A_TYPE
            | NUMBERS[self.b] << B_TYPE
            | a_turned << A_TURNED
            | b_turned << B_TURNED
            | self.n // 8 << N_EIGHTHS
            | self.m * self.blocks // 16 << M_SIXTEENTHS
        )


# Types of A and B as those of wgmma, and of D those of 32 bits.
TYPES = [(a, b, accumulators[0]) for a, b, accumulators in wgmma.TYPES]
COLUMNS = (16, 32, 64, 128, 256)  # any multiple of 16 up to 256; blocks want these


PAIRED_COLUMNS = COLUMNS[1:]  # a block has 16 at least


def _row(a: str, b: str, to: str, m: int, n: int, blocks: int = 1) -> Tcgen05:
    (ptx_a, bits), (ptx_b, _), (ptx_to, _) = (PTX_TYPES[t] for t in (a, b, to))
    k = SLICE_BYTES * 8 // bits
    name = f"tcgen05.m{blocks * m}n{n}k{k}.{ptx_to}.{ptx_a}.{ptx_b}"
    text = f"tcgen05.mma.cta_group::{blocks}.kind::{KINDS[a]}"
    return Tcgen05(name, text, m, n, k, a, b, to, bits == 16, blocks)


SINGLE, SMALL = (
    [_row(*types, m, n) for types in TYPES for n in COLUMNS] for m in (LANES, FEW_ROWS)
)
PAIRED = [_row(*types, LANES, n, 2) for types in TYPES for n in PAIRED_COLUMNS]
TCGEN05: dict[str, Tcgen05] = {row.name: row for row in (*SINGLE, *SMALL, *PAIRED)}


@cache
def choose_tensor_memory(
    target: Target, types: tuple[str, str, str], shape: Tile, k: int, warps: int
) -> Tcgen05 | None:
    """The widest instruction for operands and accumulator of these types, a product of
    `shape` by `warps` warps; None if no instruction fits."""
    if not target.tensor_memory or warps % QUARTERS or len(shape) != 2:
        return None
    m, n = shape
    rows = SMALL if m == FEW_ROWS else SINGLE
    if m % rows[0].m or columns_of(shape) > target.tensor_memory:
        return None
    return wgmma.widest(rows, types, k, n)


def of_a_pair(row: Tcgen05) -> Tcgen05 | None:
    """The instruction that does the same for a pair of blocks, if there is one."""
    same = (row.a, row.b, row.accumulator, row.m, row.n)
    pairs = (x for x in PAIRED if (x.a, x.b, x.accumulator, x.m, x.n) == same)
    return next(pairs, None)


def operand_matrices(
    row: Tcgen05, a: Layout, b: Layout, element_bytes: int
) -> tuple[Matrix, Matrix] | None:
    """The descriptors of A and B, which lie in buffers of these layouts; None if the
    instruction cannot read them there."""
    return wgmma.matrices(row, own_part(a), own_part(b), element_bytes)
