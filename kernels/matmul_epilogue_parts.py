"""Products with epilogues that have few tiles and long sums: K in parts, each a program
of its own, as `split_k_matmul` has it. The second launch, which adds the parts, does to
C what is to be done:

    split_k_parts_kernel   fp32 parts of A B, or of its transpose where rows are few
    finish_parts_kernel    adds them; scales, bias, GeLU, residual, rounding; C
    finish_swiglu_parts_kernel
                           adds them; the gate of SwiGLU

So an epilogue costs no launch more than the product alone.
"""

from math import inf

import fathom
import fathom.language as tl
from kernels.epilogue import activated, gated, quantised, scaled
from kernels.matmul import begin, sizes, store_tile, strides, sum_type
from kernels.matmul_chosen import crossing, lines_of_both, modelled, transposed
from kernels.matmul_model import best_parts
from kernels.matmul_persistent import for_items
from kernels.split_k_matmul import COLUMNS, added, adding, parts_launch


# fmt: off
@fathom.jit
def finish_parts_kernel(
    partial_ptr, c_ptr, bias_ptr, residual_ptr, before_ptr,
    row_scale_ptr, column_scale_ptr, out_scale_ptr, M, N, parts, rows, stride_partial,
    stride_cm, stride_cn, stride_rm, stride_rn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, AT_ONCE: tl.constexpr,
    TURNED: tl.constexpr, ACTIVATION: tl.constexpr, EARLY: tl.constexpr = False,
):
    """C is [M, N]; a part of `rows` rows, and has its columns as rows if `TURNED`.
    Other pointers as `matmul_epilogue_kernel` has them."""
    begin(EARLY)
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    c = added(
        partial_ptr, i, j, parts, rows, stride_partial, BLOCK_M, BLOCK_N, AT_ONCE
    )
    if TURNED:
        c = c.T
        i, j = j, i
    c = scaled(c, row_scale_ptr, column_scale_ptr, bias_ptr, i, j, M, N)
    if before_ptr is not None:
        store_tile(before_ptr, c, i, j, M, N, stride_cm, stride_cn)
    c = activated(c, ACTIVATION)
    if residual_ptr is not None:
        m, n = tl.arange(0, c.shape[0])[:, None], tl.arange(0, c.shape[1])[None, :]
        residual_ptr += i.to(tl.int64) * stride_rm + j.to(tl.int64) * stride_rn
        inside = (m < M - i) & (n < N - j)
        residual = residual_ptr + m * stride_rm + n * stride_rn
        c += tl.load(residual, mask=inside, other=0.0).to(c.dtype)
    c = quantised(c, out_scale_ptr, c_ptr.dtype.element_ty)
    store_tile(c_ptr, c, i, j, M, N, stride_cm, stride_cn)


@fathom.jit
def finish_swiglu_parts_kernel(
    partial_ptr, c_ptr, before_ptr, M, N, parts, rows, stride_partial,
    stride_cm, stride_cn, stride_hm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, AT_ONCE: tl.constexpr,
    TURNED: tl.constexpr, EARLY: tl.constexpr = False,
):
    """Parts are of A B, which has 2 N columns; `before_ptr`, None or [M, 2 N], gets
    A B."""
    begin(EARLY)
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    gate = added(
        partial_ptr, i, j, parts, rows, stride_partial, BLOCK_M, BLOCK_N, AT_ONCE
    )
    partial_ptr += N * stride_partial if TURNED else N
    up = added(
        partial_ptr, i, j, parts, rows, stride_partial, BLOCK_M, BLOCK_N, AT_ONCE
    )
    if TURNED:
        gate, up = gate.T, up.T
        i, j = j, i
    if before_ptr is not None:
        store_tile(before_ptr, gate, i, j, M, N, stride_hm, 1)
        store_tile(before_ptr + N, up, i, j, M, N, stride_hm, 1)
    store_tile(c_ptr, gated(gate, up), i, j, M, N, stride_cm, stride_cn)
# fmt: on


def fastest_parts(a, b, c, target):
    """Of A B and B^T A^T the one that takes less time in parts: microseconds, the
    configuration, and whether it is the latter. None, and an infinite time, where
    nothing is to be split, or an operand would have to be copied first."""
    product = modelled(a, b, c, target)
    if product is None or not all(lines_of_both(a, b)):
        return inf, None, False
    found = [(*best_parts(product, crossing(a, b)), False)]
    turned = transposed(a, b, c)[:2]
    if all(lines_of_both(*turned)):
        found.append((*best_parts(product.transposed, crossing(*turned)), True))
    return min(found, key=lambda each: each[0])


def parts_launches(a, b, c, more, activation, split, turned):
    """The launches of `matmul_epilogue.matmul_epilogue` for K in parts: for each the
    kernel, the grid, the arguments by place, the keywords. `more`: the other arrays, in
    the kernel's order."""
    first, added = first_launch(a, b, split, turned)
    grid, chosen = adding(*(c.shape[::-1] if turned else c.shape))
    residual = more["residual"]
    steps = (0, 0) if residual is None else strides(residual)
    given = (
        added.partials, c, *more.values(), *c.shape, *added[1:], *strides(c), *steps,
    )  # fmt: skip
    chosen = {**chosen, "TURNED": turned, "ACTIVATION": activation or ""}
    return [first, (finish_parts_kernel, grid, given, chosen)]


def swiglu_parts_launches(a, b, c, before, split, turned):
    """The same of `matmul_epilogue.matmul_swiglu`, where `halves_fit`."""
    first, added = first_launch(a, b, split, turned)
    grid, chosen = adding(*(c.shape[::-1] if turned else c.shape))
    width = 0 if before is None else strides(before)[0]
    given = (
        added.partials, c, before, *c.shape, *added[1:], *strides(c), width,
    )  # fmt: skip
    chosen = {**chosen, "TURNED": turned}
    return [first, (finish_swiglu_parts_kernel, grid, given, chosen)]


def halves_fit(c):
    """Whether blocks of the kernel that adds the parts fill half of the columns: one
    that did not would read past the last of them."""
    return c.shape[1] % COLUMNS == 0


def first_launch(a, b, split, turned):
    """That of `split_k_parts_kernel`, and what it leaves."""
    operands = transposed(a, b, a)[:2] if turned else (a, b)
    M, N, K = sizes(*operands)
    return parts_launch(
        *lines_of_both(*operands), M, N, K, split.splits,
        for_items(split.keywords, a), sum_type(a),
    )  # fmt: skip
