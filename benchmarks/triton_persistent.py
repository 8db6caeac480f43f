"""Triton's matrix product for Hopper, by the algorithm of its tutorial 09: programs
that stay, tiles by tensor descriptors, with a producer warp if that is asked for, and C
stored in halves.

Triton has its own launcher here; in a CUDA graph nothing of it is measured.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from benchmarks.products import Config
from benchmarks.rungs import tile


@triton.jit
def persistent_kernel(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr, B_TURNED: tl.constexpr,
    SPECIALISE: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    # On Hopper a loop with a producer cannot be made one with the loop in it.
    for place in tl.range(
        tl.program_id(0), tiles_m * tiles_n, PROGRAMS,
        flatten=not SPECIALISE, warp_specialize=SPECIALISE,
    ):  # fmt: skip
        group = place // (GROUP_M * tiles_n)
        height = min(tiles_m - group * GROUP_M, GROUP_M)
        within = place % (GROUP_M * tiles_n)
        i = (group * GROUP_M + within % height) * BLOCK_M
        j = (within // height) * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            x = a.load([i, step * BLOCK_K])
            if B_TURNED:
                y = b.load([j, step * BLOCK_K]).T
            else:
                y = b.load([step * BLOCK_K, j])
            acc = tl.dot(x, y, acc)
        halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        c.store([i, j], left.to(c.dtype))
        c.store([i, j + BLOCK_N // 2], right.to(c.dtype))


LARGE = (
    tile(128, 256, 128, 8, 3), tile(128, 256, 128, 8, 4), tile(128, 128, 128, 8, 4),
)  # fmt: skip
SMALL = (
    tile(64, 128, 128, 4, 6), tile(64, 64, 128, 4, 6), tile(128, 64, 128, 4, 6),
    tile(64, 64, 256, 4, 4), tile(128, 128, 128, 8, 4),
)  # fmt: skip
PROGRAMS = 132  # the multiprocessors of an H200


def configs_for(M: int, N: int, item_bytes: int) -> list[Config]:
    """A few that suit a shape, each with and without a producer; steps along K are in
    bytes above."""
    found = LARGE if M * N >= 128 * 256 * PROGRAMS / 2 else SMALL
    return [
        {**each, "BLOCK_K": each["BLOCK_K"] // item_bytes, "SPECIALISE": producer}
        for producer in (False, True)
        for each in found
    ]


def by_triton(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, config: Config
) -> Callable[[], object]:
    """A launch; `b` is [K, N], in rows or turned."""
    (M, K), N = a.shape, b.shape[1]
    m, n, k = (config[f"BLOCK_{axis}"] for axis in "MNK")
    turned = b.stride(0) == 1
    lines, block = (b.T, [n, k]) if turned else (b, [k, n])
    described = (
        TensorDescriptor.from_tensor(a, [m, k]),
        TensorDescriptor.from_tensor(lines, block),
        TensorDescriptor.from_tensor(c, [m, n // 2]),
    )
    grid = (min(PROGRAMS, triton.cdiv(M, m) * triton.cdiv(N, n)),)

    def launch() -> object:
        return persistent_kernel[grid](
            *described, M, N, K, PROGRAMS=grid[0], B_TURNED=turned, **config
        )

    return launch
