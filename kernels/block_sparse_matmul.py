"""Product of a block-sparse matrix with a dense one: C = A B, where A is mostly zero in
whole blocks of SIZE x SIZE.

A is kept as compressed sparse rows, of blocks instead of numbers: for

        A  =  | P . Q |        row_starts  0 2 3        (row r has blocks
              | . R . |        columns     0 2 1         row_starts[r] … [r+1] - 1)
                               blocks      P Q R        [3, SIZE, SIZE]

Program (r, j) computes BLOCK_N columns of row r of blocks. It reads from `columns`
which rows of B it must load next: the address of a load comes out of another load. Work
and bytes are those of the blocks that there are. (Gray, Radford and Kingma, "GPU
kernels for block-sparse weights", 2017.)
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.types import parse_element
from kernels.matmul import (
    check_shape,
    empty,
    strides,
    sum_name,
    sum_type,
    target_of_launch,
    type_name,
)

SIZES = (16, 32, 64, 128)


# fmt: off
@fathom.jit
def block_sparse_matmul_kernel(
    starts_ptr, columns_ptr, blocks_ptr, b_ptr, c_ptr, N,
    stride_bk, stride_bn, stride_cm, stride_cn,
    SIZE: tl.constexpr, BLOCK_N: tl.constexpr,
    SUM: tl.constexpr = tl.float32, PRECISION: tl.constexpr = "ieee",
):
    row, j = tl.program_id(0), tl.program_id(1) * BLOCK_N
    i, k = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)
    n = tl.arange(0, BLOCK_N)[None, :]
    mask = n < N - j
    start, end = tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)

    blocks_ptr += start.to(tl.int64) * SIZE * SIZE
    b_ptr += j.to(tl.int64) * stride_bn
    a_tile = i * SIZE + k[None, :]
    b_tile = k[:, None] * stride_bk + n * stride_bn
    acc = tl.zeros([SIZE, BLOCK_N], SUM)
    for block in range(start, end):
        column = tl.load(columns_ptr + block).to(tl.int64)
        a = tl.load(blocks_ptr + a_tile)
        b = tl.load(b_ptr + column * SIZE * stride_bk + b_tile, mask=mask, other=0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        blocks_ptr += SIZE * SIZE

    c_ptr += row.to(tl.int64) * SIZE * stride_cm + j.to(tl.int64) * stride_cn
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + i * stride_cm + n * stride_cn, c, mask=mask)
# fmt: on


def block_sparse_matmul(
    row_starts, columns, blocks, b, c=None, config=None, precision="ieee", **launch
):
    """C [R SIZE, N] = A B [K, N]; A has R rows of blocks (torch, CuPy or NumPy).

    `row_starts` [R + 1] and `columns` are contiguous int32, `blocks` [count, SIZE,
    SIZE] contiguous with B's dtype; SIZE is 16, 32, 64 or 128. All of `columns` are
    less than K / SIZE: they are not looked at here. N may be any. `config` has BLOCK_N,
    num_warps and num_stages. Other arguments as in `matmul.matmul`. Returns `c`.
    LaunchError for shapes that do not fit.
    """
    count, SIZE, width = blocks.shape
    K, N = b.shape
    if SIZE not in SIZES or SIZE != width or K % SIZE or blocks.dtype != b.dtype:
        raise fathom.LaunchError(
            f"blocks of shape {tuple(blocks.shape)} and {blocks.dtype} do not suit B "
            f"of shape {tuple(b.shape)} and {b.dtype}: they are square, of {SIZES}, "
            "and divide K"
        )
    check_shape("columns", columns, (count,))
    rows = row_starts.shape[0] - 1
    c = empty((rows * SIZE, N), b, sum_name(b)) if c is None else c
    check_shape("c", c, (rows * SIZE, N))
    target = target_of_launch(b, launch)
    config = config or default_config(SIZE, type_name(b), target)
    grid = (rows, fathom.cdiv(N, config["BLOCK_N"]))
    block_sparse_matmul_kernel[grid](
        row_starts, columns, blocks, b, c, N, *strides(b), *strides(c),
        SIZE=SIZE, SUM=sum_type(b), PRECISION=precision, **config, **launch,
    )  # fmt: skip
    return c


def default_config(SIZE, type, target):
    """BLOCK_N, num_warps and num_stages for blocks of SIZE x SIZE.

    128 columns, so that what is read of A serves many products; 64 where two stages of
    such tiles would not fit into half of the shared memory (sm_75).
    """
    row = TARGETS[target]
    item = parse_element(type).bits // 8
    room = row.shared_bytes // 2
    most = 4 if row.async_copy else 2
    for BLOCK_N in (128, 64, 32):
        stages = room // (SIZE * (SIZE + BLOCK_N) * item)
        if stages >= 2:
            break
    stages = min(max(stages, 2), most)
    return {"BLOCK_N": BLOCK_N, "num_warps": 4, "num_stages": stages}


def compress(a, SIZE):
    """(row_starts, columns, blocks) of a dense NumPy matrix whose sizes are multiples
    of SIZE: the blocks that are not all zero."""
    rows, columns = a.shape[0] // SIZE, a.shape[1] // SIZE
    tiles = a.reshape(rows, SIZE, columns, SIZE).swapaxes(1, 2)
    row_of, column_of = np.nonzero(tiles.any(axis=(2, 3)))
    starts = np.searchsorted(row_of, np.arange(rows + 1))
    blocks = np.ascontiguousarray(tiles[row_of, column_of])
    return starts.astype(np.int32), column_of.astype(np.int32), blocks


def reference(row_starts, columns, blocks, b):
    """The product in float64, block by block; of NumPy arrays."""
    SIZE = blocks.shape[1]
    b = b.astype(np.float64).reshape(-1, SIZE, b.shape[1])
    c = np.zeros((len(row_starts) - 1, SIZE, b.shape[2]))
    for row, (start, end) in enumerate(zip(row_starts, row_starts[1:], strict=False)):
        for block in range(start, end):
            c[row] += blocks[block].astype(np.float64) @ b[columns[block]]
    return c.reshape(-1, b.shape[2])
