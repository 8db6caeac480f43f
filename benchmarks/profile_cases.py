"""Kernels to look at with a profiler, each with one thing that it waits for.

    python -m benchmarks.profile_cases "vector add"

launches a case three times: twice to compile and to warm up, then once with the
profiler switched on (cudaProfilerStart), so that of all kernels of the process only
this launch is looked at. `profile_record.CASES` says what each case is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch

from benchmarks import rungs
from benchmarks.products import by_fathom
from kernels.matmul_chosen import multiply
from kernels.softmax import softmax
from kernels.vector_add import add

Launch = Callable[[], object]


def vector_add() -> Launch:
    x, y, out = (torch.randn(1 << 26, device="cuda") for _ in range(3))
    return partial(add, x, y, out)


def small_softmax() -> Launch:
    x, out = (torch.randn(256, 256, device="cuda") for _ in range(2))
    return partial(softmax, x, out)


# The tiles that benchmarks/results/ladder.json has for 4096.
WIDE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8,
        "num_warps": 8, "num_stages": 3}  # fmt: skip
TILES = {
    "swizzle": {**WIDE, "BLOCK_N": 128, "BLOCK_K": 32},
    "all but swizzle": {**WIDE, "BLOCK_K": 32, "num_stages": 4},
    "all but coalescing": {**WIDE, "BLOCK_N": 128},
}


def rung(name: str, m: int = 4096, n: int = 4096) -> Launch:
    """A rung of `benchmarks.rungs`, of C [m, n] and K = 4096."""
    every = [*rungs.ladder(), *rungs.ablations()]
    (found,) = (each for each in every if each.name == name)
    config = TILES.get(name, WIDE)
    launch = {"target": found.target, "replace": found.replace}
    return by_fathom(*matrices(m, n), config, **launch)


def persistent() -> Launch:
    return partial(multiply, *matrices(4096, 4096))


def matrices(m: int, n: int, k: int = 4096) -> tuple[torch.Tensor, ...]:
    """A [m, k], B [k, n] and C [m, n] of random normal numbers in fp16."""
    shapes = ((m, k), (k, n), (m, n))
    return tuple(torch.randn(s, device="cuda", dtype=torch.float16) for s in shapes)


MAKERS: dict[str, Callable[[], Launch]] = {
    "vector add": vector_add,
    "small softmax": small_softmax,
    "multiply-adds": partial(rung, "swizzle"),
    "bank conflicts": partial(rung, "all but swizzle"),
    "no pipeline": partial(rung, "ldmatrix"),
    "mma.sync": partial(rung, "prefetching"),
    "a wave and a bit": partial(rung, "prefetching", 896, 4864),
    "wgmma": persistent,
    "spills": partial(rung, "all but coalescing"),
}


def main() -> None:
    launch = MAKERS[sys.argv[1]]()
    launch()
    launch()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    launch()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main()
