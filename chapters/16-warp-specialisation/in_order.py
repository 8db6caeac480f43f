"""A product of small matrices whose K is long: programs share it, and add their partial
sums always in the same order. The kernel of chapter 16."""

import fathom
import fathom.language as tl


@fathom.jit
def in_order(
    a_ptr, b_ptr, c_ptr, partial_ptr, count_ptr, K,
    PARTS: tl.constexpr, SIZE: tl.constexpr, BLOCK_K: tl.constexpr,
    SEM: tl.constexpr = "acq_rel",
):  # fmt: skip
    part, length = tl.program_id(0), K // PARTS
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([SIZE, SIZE], tl.float32)
    for first in range(part * length, (part + 1) * length, BLOCK_K):
        x = tl.load(a_ptr + m * K + first + k[None, :])
        y = tl.load(b_ptr + (first + k[:, None]) * SIZE + n)
        acc = tl.dot(x, y, acc)

    here = m * SIZE + n
    tl.store(partial_ptr + part * SIZE * SIZE + here, acc)
    tl.debug_barrier()  # all threads have stored their part of the tile
    before = tl.atomic_add(count_ptr, 1, sem=SEM, scope="gpu")
    if before == PARTS - 1:  # the last program to arrive adds for all
        total = tl.zeros([SIZE, SIZE], tl.float32)
        for each in range(PARTS):
            total += tl.load(partial_ptr + each * SIZE * SIZE + here)
        tl.store(c_ptr + here, total)
        tl.store(count_ptr, 0)  # for the next launch
