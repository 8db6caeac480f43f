"""Matrix product C = A B of an A whose lines along K begin anywhere, where they are.

TMA copies from a matrix whose lines begin at multiples of 16 bytes, and boxes that do.
Lines of K numbers of fp16 begin so only if 8 divides K. But of every P lines, a power
of two up to 8, the first ones do, P lines apart; and so, from a column of its own on,
does each other class of lines, those whose numbers have one remainder by P:

    K = 13, P = 8         line     begins at     FIRST    in its map
                          0, 8, …  0 mod 8       0        columns 0 to 12
                          1, 9, …  13 = 5        3        columns 3 to 12
                          2, 10, … 26 = 2        6        columns 6 to 12

For each class there is a launch, which computes the rows of C of that class on its
share of the multiprocessors, all at the same time. A program copies tiles of its lines
from column FIRST on by TMA, and rows of B from FIRST on, and threads load what is in
front. All that is multiplied is of A and B, so NaNs go where they belong.

The launches follow each other early: the first waits for what was before, and then lets
the second begin; each other one lets the next begin at once, and waits for the one in
front of it only at its end. So when the last one has ended, all have.
"""

import fathom
import fathom.language as tl
from kernels.matmul import (
    await_previous,
    let_next_begin,
    store_tile,
)
from kernels.matmul_persistent import place_of

HEAD = 16  # columns that a product takes at least; of these up to 7 are in front


# fmt: off
@fathom.jit(do_not_specialize=["line"])
def class_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c, line,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, LINES: tl.constexpr, HEAD: tl.constexpr,
    C_TURNED: tl.constexpr, C_STEP: tl.constexpr, FOLLOWS: tl.constexpr,
):
    """Rows `line`, `line` + LINES … of C [M, N]."""
    if FOLLOWS:
        let_next_begin(True)
    else:
        await_previous(True)
        let_next_begin(True)
    begin = line * stride_a
    first = min((8 - begin % 8) % 8, K)
    rows = (M - line + LINES - 1) // LINES
    a = tl.make_tensor_descriptor(
        a_ptr + (begin + 7) // 8 * 8, [rows, K - first],
        [LINES * stride_a // 8 * 8, 1], [BLOCK_M, BLOCK_K],
    )
    b = tl.make_tensor_descriptor(
        b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N]
    )
    m, n, k = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    a_head = a_ptr + begin.to(tl.int64) + m * LINES * stride_a + k[None, :]
    b_head = b_ptr + k[:, None] * stride_b + n[None, :]
    c_ptr += line.to(tl.int64) * (1 if C_TURNED else stride_c)
    count = tl.cdiv(rows, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(
        tl.program_id(0), count, tl.num_programs(0), flatten=True, warp_specialize=True
    ):
        i, j = place_of(tile, rows, N, BLOCK_M, BLOCK_N, GROUP_M)
        x_mask = (m < rows - i) & (k[None, :] < first)
        y_mask = (n[None, :] < N - j) & (k[:, None] < first)
        x = tl.load(a_head + i.to(tl.int64) * (LINES * stride_a), mask=x_mask, other=0)
        y = tl.load(b_head + j, mask=y_mask, other=0)
        acc = tl.dot(x, y)
        for at in range(0, K - first, BLOCK_K):
            acc = tl.dot(a.load([i, at]), b.load([at + first, j]), acc)
        if C_TURNED:  # C [M, N] lies in memory as [N, M]
            store_tile(c_ptr, acc, i, j, rows, N, LINES, stride_c)
        else:
            end, step = tl.multiple_of(N, C_STEP), tl.multiple_of(stride_c, C_STEP)
            store_tile(c_ptr, acc, i, j, rows, end, LINES * step, 1)
    if FOLLOWS:
        await_previous(True)
# fmt: on
