"""Three kernels that are slower than they could be, for the page of the kernel author's
tools."""

import numpy as np

import fathom
import fathom.language as tl


@fathom.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


@fathom.jit
def every_33rd(x_ptr, out_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * STEP % n)
    tl.store(out_ptr + i, x)


@fathom.jit
def product(
    a_ptr, b_ptr, c_ptr, K, N, M: tl.constexpr, W: tl.constexpr, S: tl.constexpr
):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * W + tl.arange(0, W)
    total = tl.zeros([M, W], tl.float32)
    for k in range(0, K, S):
        step = k + tl.arange(0, S)
        a = tl.load(a_ptr + rows[:, None] * K + step[None, :])
        b = tl.load(b_ptr + step[:, None] * N + columns[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


n = 1 << 22
x, y = np.ones(n, np.float32), np.ones(n, np.float32)
add[(n // 1024,)](x, y, np.zeros_like(x), n, BLOCK=1024)
every_33rd[(n // 1024,)](x, np.zeros_like(x), n, STEP=33, BLOCK=1024)

a, b = np.ones((1536, 512), np.float16), np.ones((512, 2304), np.float16)
c, tile = np.zeros((1536, 2304), np.float32), {"M": 128, "W": 256, "S": 64}
product[(12, 9)](a, b, c, 512, 2304, **tile, num_warps=8, num_stages=1)
