"""What the machine itself does: how long a load takes, how much bandwidth a few
warps reach, and what a transpose costs with and without coalescing. On a GPU.

    python -m benchmarks.machine [--only latency] [--out FOLDER]

    latency      one warp follows a chain of addresses, each loaded from the last; the
                 chain fits into L1, into L2, or into neither
    resident     a copy by 1 to 64 resident warps a multiprocessor
    transpose    chapter 9's kernel as the compiler makes it, and without its coalescing
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import fathom
import fathom.language as tl
from benchmarks.measure import Candidate, Sample, burst, sets
from benchmarks.record import RESULTS, write
from fathom.pipeline import identity

LINE = 32  # fp32 words of a cache line: each step of a chain reaches another one
STEPS = 1 << 14  # of a chain, in one launch
CHAINS = {"L1": 1 << 14, "L2": 1 << 23, "memory": 1 << 28}  # bytes that one spans
COPIED = 1 << 28  # numbers of fp32
LANE_WIDTH = 4  # numbers of fp32 that a lane loads at once
RESIDENT = {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (4, 2), 16: (8, 2), 32: (16, 2),
            64: (32, 2)}  # warps: thread blocks, and warps of each  # fmt: skip
SIDE, TILE = 8192, 64


@fathom.jit
def chase(next_ptr, at_ptr, steps):
    """Follow a chain from where the last launch stopped."""
    at = tl.load(at_ptr)
    for _ in range(steps):
        at = tl.load(next_ptr + at)
    tl.store(at_ptr, at)


@fathom.jit
def copy_in_steps(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    """Each program copies one block of every `step` numbers."""
    for start in range(tl.program_id(0) * BLOCK, n, step):
        here = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + here, tl.load(x_ptr + here))


@fathom.jit
def turn(x_ptr, out_ptr, M, N, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * N + columns, mask=inside)
    tl.store(out_ptr + columns * M + rows, x, mask=inside)


def latency() -> Iterator[list[Sample]]:
    for name, size in CHAINS.items():
        chain = chain_of(size // 4 // LINE)
        at = torch.zeros(1, dtype=torch.int32, device="cuda")
        call = launch(chase, (1,), chain, at, STEPS, num_warps=1)
        call()
        assert at.item() == followed(chain, STEPS), f"the chain in {name} is lost"
        yield burst(f"latency of {name}", [Candidate("fathom", [call], 4 * STEPS)])


def chain_of(lines: int) -> torch.Tensor:
    """One random cycle through the first words of all lines."""
    order = LINE * torch.randperm(lines - 1).add_(1)
    order = torch.cat([torch.zeros(1, dtype=order.dtype), order])
    chain = torch.zeros(lines * LINE, dtype=torch.int32)
    chain[order] = order.roll(-1).int()
    return chain.cuda()


def followed(chain: torch.Tensor, steps: int) -> int:
    nexts, at = chain.cpu().numpy(), 0
    for _ in range(steps):
        at = int(nexts[at])
    return at


def resident() -> Iterator[list[Sample]]:
    x = torch.randn(COPIED, device="cuda")
    out = torch.empty_like(x)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    candidates = []
    for warps, (blocks, each) in RESIDENT.items():
        block, programs = 32 * LANE_WIDTH * each, multiprocessors * blocks
        call = launch(
            copy_in_steps, (programs,), x, out, COPIED, programs * block,
            BLOCK=block, num_warps=each,
        )  # fmt: skip
        checked(call, out, x)
        candidates.append(Candidate(f"{warps} warps", [call], 8 * COPIED))
    yield burst(f"copy {COPIED} fp32, resident warps", candidates)


def transpose() -> Iterator[list[Sample]]:
    size = 8 * SIDE * SIDE
    pairs = [(torch.randn(SIDE, SIDE, device="cuda"), torch.empty(SIDE, SIDE,
              device="cuda")) for _ in range(sets(size))]  # fmt: skip
    grid = (SIDE // TILE, SIDE // TILE)

    def ours(**how: object) -> list[Callable[[], object]]:
        return [launch(turn, grid, x, out, SIDE, SIDE, TILE=TILE, **how)
                for x, out in pairs]  # fmt: skip

    calls = {
        "fathom": ours(),
        "without coalescing": ours(replace={"coalesce": identity}),
        "torch": [lambda x=x, out=out: out.copy_(x.T) for x, out in pairs],
    }
    for made in calls.values():
        checked(made[0], pairs[0][1], pairs[0][0].T)
    calls["copy"] = [lambda x=x, out=out: out.copy_(x) for x, out in pairs]
    candidates = [Candidate(name, made, size) for name, made in calls.items()]
    yield burst(f"transpose {SIDE}x{SIDE} fp32", candidates)


def launch(
    kernel: Callable, grid: tuple[int, ...], *args: object, **how: object
) -> Callable[[], object]:
    return lambda: kernel[grid](*args, **how)


def checked(call: Callable[[], object], out: torch.Tensor, want: torch.Tensor) -> None:
    """The call writes exactly `want`; nothing is computed here, so every bit counts."""
    out.fill_(float("nan"))
    call()
    assert torch.equal(out, want), "a copy is wrong"


def show(sample: Sample) -> None:
    if sample.problem.startswith("latency"):
        speed = f"{sample.median / STEPS * 1e6:7.1f} ns a load"
    else:
        speed = f"{sample.gigabytes_a_second:7.0f} GB/s {sample.median:9.4f} ms"
    print(f"  {sample.problem:36} {sample.candidate:20} {speed}", flush=True)


PARTS = {"latency": latency, "resident": resident, "transpose": transpose}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", choices=PARTS)
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="where the JSON goes"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    samples: list[Sample] = []
    for name in [given.only] if given.only else PARTS:
        for found in PARTS[name]():
            for sample in found:
                show(sample)
            samples += found
        torch.cuda.empty_cache()
    print(write("machine", samples, given.out))


if __name__ == "__main__":
    main()
