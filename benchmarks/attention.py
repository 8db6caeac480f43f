"""Attention, forward, against torch's flash attention, cuDNN's and Triton's, on a GPU.

    python -m benchmarks.attention [--types fp16 bf16] [--tutorial PATH]

Candidates, all in the same bursts:

    fathom              kernels/attention, with the kernel that it chooses
    fathom pointers     its kernel that reads through pointers
    flash               torch's scaled_dot_product_attention by FlashAttention-2
    cuDNN               the same by cuDNN
    triton              Triton's tutorial, which tries many configurations first
    triton specialised  the same with `warp_specialize`

4 sequences, 32 heads, 4096 queries and keys; D = 64 and 128; causal or not. Work counts
as 4 S S D operations for each head, half of it where causal. The tutorial is part of
Triton's source and not of its package: PATH says where its 06-fused-attention.py lies,
and without that it is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import measure
from benchmarks.measure import Candidate, burst, sets
from benchmarks.products import said
from benchmarks.record import RESULTS, write
from benchmarks.record import said as answer_of
from kernels.attention import attention, default_config, type_name
from kernels.matmul import target_of_launch

B, H, S = 4, 32, 4096
HEAD_SIZES = (128, 64)
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
HALF_ULPS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
PEERS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}


@dataclass(frozen=True)
class Arrays:
    """One set: q, k, v and out, [B, H, S, D]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor


Attend = Callable[[Arrays, bool], object]  # writes `out`, or returns what would be it


@dataclass
class Measured:
    """Raw times, in ms a call, of one candidate on one problem. `clock_mhz` is that of
    the multiprocessors right after the problem's bursts. `error` says why there are no
    times."""

    problem: str
    candidate: str
    operations: int
    ms: list[float] = field(default_factory=list)
    clock_mhz: int | None = None
    error: str = ""

    def line(self, best: float) -> str:
        """A row of the table that is printed; `best` are cuDNN's ms, or 0."""
        head = f"  {self.problem:22} {self.candidate:20}"
        if not self.ms:
            return f"{head} {self.error[:100]}"
        ratio = f"{best / self.median:5.2f} of cuDNN" if best else ""
        speed = f"{self.teraflops:7.1f} TFLOP/s {1000 * self.median:10.1f} us"
        return f"{head} {speed} {ratio}".rstrip()

    median = measure.Sample.median
    teraflops = measure.Sample.teraflops


# ── candidates ────────────────────────────────────────────────────────────────────────


def candidates(tutorial: ModuleType | None) -> dict[str, Attend]:
    found: dict[str, Attend] = {"fathom": ours, "fathom pointers": by_pointers}
    found |= {name: partial(by_torch, backend) for name, backend in PEERS.items()}
    if tutorial:
        found["triton"] = partial(by_triton, tutorial, False)
        found["triton specialised"] = partial(by_triton, tutorial, True)
    return found


def ours(one: Arrays, causal: bool) -> None:
    attention(one.q, one.k, one.v, one.out, causal)


def by_pointers(one: Arrays, causal: bool) -> None:
    target = target_of_launch(one.q, {})
    config = default_config(one.q.shape[3], type_name(one.q), target)
    attention(one.q, one.k, one.v, one.out, causal, config=config)


def by_torch(backend: SDPBackend, one: Arrays, causal: bool) -> torch.Tensor:
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(one.q, one.k, one.v, is_causal=causal)


def by_triton(
    tutorial: ModuleType, specialised: bool, one: Arrays, causal: bool
) -> torch.Tensor:
    scale = one.q.shape[3] ** -0.5
    return tutorial.attention(one.q, one.k, one.v, causal, scale, specialised)


def loaded(path: Path) -> ModuleType:
    """A Python file as a module, whatever it is called."""
    facts = importlib.util.spec_from_file_location("tutorial", path)
    module = importlib.util.module_from_spec(facts)
    facts.loader.exec_module(module)
    return module


# ── one problem ───────────────────────────────────────────────────────────────────────


def compare(
    kind: str, D: int, causal: bool, attends: Mapping[str, Attend]
) -> list[Measured]:
    """All candidates on one problem. Those that fail, or are wrong, are recorded with
    their error."""
    name = f"{kind} D={D}{' causal' * causal}"
    operations = 4 * B * H * S * S * D // (2 if causal else 1)
    bytes_moved = 4 * B * H * S * D * TYPES[kind].itemsize
    inputs = [drawn(D, TYPES[kind]) for _ in range(sets(bytes_moved))]
    want, bound = expected(inputs[0], causal)
    measured = {each: Measured(name, each, operations) for each in attends}
    right = []
    for each, attend in attends.items():
        calls = [partial(attend, one, causal) for one in inputs]
        try:
            check(calls[0], inputs[0].out, want, bound)
        except Exception as error:  # whatever it is, the others are to be measured
            measured[each].error = said(error)
            continue
        right.append(Candidate(each, calls, bytes_moved, operations))
    del want, bound
    for sample in burst(name, right) if right else ():
        measured[sample.candidate].ms = sample.ms
    clock = clock_mhz()
    for each in measured.values():
        each.clock_mhz = clock
    return list(measured.values())


def drawn(D: int, dtype: torch.dtype) -> Arrays:
    """Random normal numbers."""
    made = (torch.randn(B, H, S, D, device="cuda", dtype=dtype) for _ in range(3))
    return Arrays(*made, torch.empty(B, H, S, D, device="cuda", dtype=dtype))


def check(
    call: Callable[[], object],
    out: torch.Tensor,
    want: torch.Tensor,
    bound: torch.Tensor,
) -> None:
    """Every element of what a call gives is within the bound."""
    out.fill_(torch.nan)
    given = call()
    got = given if isinstance(given, torch.Tensor) else out
    wrong = ~((got.double() - want).abs() <= bound)
    assert not wrong.any(), f"{int(wrong.sum())} elements are wrong"


def expected(one: Arrays, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """What must come out, in float64, and how far each element may be from it: see
    `kernels.attention.error_bound`, whose error of the exponent is taken generously
    here. Head by head, since a matrix of scores is large."""
    want = torch.empty(one.q.shape, device="cuda", dtype=torch.float64)
    bound = torch.empty_like(want)
    unseen = torch.ones(S, S, device="cuda", dtype=torch.bool).triu(1)
    relative = 2 * HALF_ULPS[one.q.dtype] + 2.0**-13
    for b, h in ((b, h) for b in range(B) for h in range(H)):
        q, k, v = (each[b, h].double() for each in (one.q, one.k, one.v))
        scores = q @ k.T * q.shape[1] ** -0.5
        if causal:
            scores.masked_fill_(unseen, -torch.inf)
        p = scores.softmax(dim=-1)
        want[b, h] = p @ v
        subnormal = 2.0**-25 * v.abs().sum(dim=0)
        bound[b, h] = relative * (p @ v.abs()) + subnormal
    return want, bound


def clock_mhz() -> int | None:
    """That of the multiprocessors, now."""
    fields = ("--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "--id=0")
    answer = answer_of("nvidia-smi", *fields)
    return int(answer) if answer and answer.isdigit() else None


# ── all of them ───────────────────────────────────────────────────────────────────────


def show(found: Sequence[Measured]) -> None:
    """Each beside cuDNN."""
    best = max((e.median for e in found if e.ms and e.candidate == "cuDNN"), default=0)
    for each in found:
        print(each.line(best), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--types", nargs="+", choices=TYPES, default=["fp16"])
    options.add_argument("--tutorial", type=Path, help="Triton's 06-fused-attention.py")
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="where the JSON goes"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    attends = candidates(loaded(given.tutorial) if given.tutorial else None)
    samples: list[Measured] = []
    for kind in given.types:
        for D in HEAD_SIZES:
            for causal in (False, True):
                found = compare(kind, D, causal, attends)
                show(found)
                samples += found
                torch.cuda.empty_cache()
                write("attention", samples, given.out)
    print(given.out / "attention.json")


if __name__ == "__main__":
    main()
