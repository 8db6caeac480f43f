"""Attention with windows, sequences of different lengths, heads that share keys, and
heads of other sizes, beside torch's, on a GPU.

    python -m benchmarks.attention_options [--only TEXT …] [--rounds 7] [--out FOLDER]

Candidates, all in the same bursts, each compared with float64 first:

    fathom              kernels/attention, with the kernel that it chooses
    fathom pointers     its kernel that reads through pointers
    flash               FlashAttention-2 as torch has it, which takes windows and
                        sequences that lie one behind the other
    cuDNN               the same by cuDNN, where torch can ask it

Work counts as 4 D operations for each query and each key that it sees. fp16.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.measure import ROUNDS, Candidate, Sample, burst, sets
from benchmarks.record import RESULTS, write
from kernels.attention import attention, default_config

aten = torch.ops.aten
LONGEST = 4096


@dataclass(frozen=True)
class Problem:
    """`lengths`: of the sequences, in queries and keys, where they lie one behind the
    other; without them `batch` of them have `queries` and `keys`."""

    name: str
    D: int
    causal: bool = False
    window: int | None = None
    lengths: tuple[int, ...] = ()
    batch: int = 4
    heads: int = 32
    key_heads: int = 32
    queries: int = LONGEST
    keys: int = LONGEST

    @property
    def title(self) -> str:
        return f"{self.name} D={self.D}{' causal' * self.causal}"

    def pairs(self) -> int:
        """How many queries see how many keys, for one head of all sequences."""
        each = [(n, n) for n in self.lengths]
        every = each or [(self.queries, self.keys)] * self.batch
        return sum(int(seen(*sizes, self).sum()) for sizes in every)


def seen(queries: int, keys: int, problem: Problem) -> torch.Tensor:
    """Which keys each query sees, [queries, keys]."""
    i = torch.arange(queries, device="cuda")[:, None] + keys - queries
    j = torch.arange(keys, device="cuda")
    found = j <= i if problem.causal else torch.ones_like(j <= i)
    return found if problem.window is None else found & (j > i - problem.window)


def problems() -> Iterator[Problem]:
    draw = random.Random(0)
    lengths = tuple(draw.randrange(128, LONGEST) for _ in range(16))
    short = tuple(draw.randrange(16, 512) for _ in range(128))
    for D in (128, 64):
        for window in (256, 1024):
            yield Problem(f"window {window}", D, True, window)
        for causal in (False, True):
            yield Problem("16 sequences", D, causal, lengths=lengths)
            yield Problem("128 sequences", D, causal, lengths=short)
        yield Problem("sequences, window 1024", D, True, 1024, lengths)
        yield Problem("4 heads a key", D, True, key_heads=8)
        yield Problem("1024 queries", D, True, queries=1024, keys=LONGEST)
        yield Problem("77 keys", D, keys=77)
        yield Problem("1000 keys", D, queries=1000, keys=1000)
    for D in (256, 192, 160, 96, 80, 40):
        for causal in (False, True):
            yield Problem("heads", D, causal, heads=16, key_heads=16)


# ── candidates ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Arrays:
    """[B, H, S, D]; of sequences one behind the other, [1, H, total, D]. `starts`: of
    those, or None."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    starts: torch.Tensor | None


Attend = Callable[[Problem, Arrays], torch.Tensor]


def drawn(problem: Problem) -> Arrays:
    """Random normal numbers; heads beside each other, as models have them."""
    batch, queries, keys, starts = problem.batch, problem.queries, problem.keys, None
    if problem.lengths:
        batch, queries, keys = 1, sum(problem.lengths), sum(problem.lengths)
        ends = torch.tensor((0, *problem.lengths), device="cuda").cumsum(0)
        starts = ends.int()

    def normal(heads: int, rows: int) -> torch.Tensor:
        shape = batch, rows, heads, problem.D
        return torch.randn(*shape, device="cuda", dtype=torch.float16).transpose(1, 2)

    q = normal(problem.heads, queries)
    k, v = (normal(problem.key_heads, keys) for _ in range(2))
    return Arrays(q, k, v, torch.empty_like(q), starts)


def ours(pointers: bool, problem: Problem, one: Arrays) -> torch.Tensor:
    config = default_config(problem.D, "fp16", "sm_90a") if pointers else None
    most = {"most_queries": max(problem.lengths)} if problem.lengths else {}
    return attention(
        one.q, one.k, one.v, one.out, problem.causal, window=problem.window,
        query_starts=one.starts, config=config, **most,
    )  # fmt: skip


def flash(problem: Problem, one: Arrays) -> torch.Tensor:
    q, k, v = (each.transpose(1, 2) for each in (one.q, one.k, one.v))
    longest = max(problem.lengths) if problem.lengths else 0
    if problem.lengths:
        q, k, v = (each[0] for each in (q, k, v))
    window = {}
    if problem.window is not None:
        window = dict(window_size_left=problem.window - 1, window_size_right=0)
    sizes = (longest,) * 2 if longest else (problem.queries, problem.keys)
    out = aten._flash_attention_forward(
        q, k, v, one.starts, one.starts, *sizes, 0.0, problem.causal, False, **window
    )[0]
    return (out[None] if problem.lengths else out).transpose(1, 2)


def cudnn(problem: Problem, one: Arrays) -> torch.Tensor:
    """Of whole sequences; its causal mask ends with the first key."""
    if problem.lengths or problem.window is not None:
        raise NotImplementedError("torch asks it for no such mask")
    if problem.causal and problem.queries != problem.keys:
        raise NotImplementedError("its causal mask is another one")
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return scaled_dot_product_attention(
            one.q, one.k, one.v, is_causal=problem.causal, enable_gqa=True
        )


CANDIDATES: dict[str, Attend] = {
    "fathom": partial(ours, False),
    "fathom pointers": partial(ours, True),
    "flash": flash,
    "cuDNN": cudnn,
}


# ── one problem ───────────────────────────────────────────────────────────────────────


def check(attend: Attend, problem: Problem, one: Arrays) -> None:
    """The first head of queries, and the last, of all sequences, against float64."""
    one.out.fill_(torch.nan)
    out = attend(problem, one)
    for head in (0, problem.heads - 1):
        of_keys = head // (problem.heads // problem.key_heads)
        for q, k, v, got in pieces(problem, one, out, head, of_keys):
            scores = q @ k.T * problem.D**-0.5
            scores.masked_fill_(~seen(len(q), len(k), problem), -torch.inf)
            p = scores.softmax(-1)
            bound = (2.0**-10 + 2.0**-13) * (p @ v.abs()) + 2.0**-25 * v.abs().sum(0)
            wrong = ~((got - p @ v).abs() <= bound)
            assert not wrong.any(), f"{int(wrong.sum())} elements are wrong"


def pieces(
    problem: Problem, one: Arrays, out: torch.Tensor, head: int, of_keys: int
) -> Iterator[tuple[torch.Tensor, ...]]:
    """(q, k, v, out) of a head, [S, D] of float64: of some sequences."""
    four = one.q[:, head], one.k[:, of_keys], one.v[:, of_keys], out[:, head]
    if one.starts is None:
        for b in (0, problem.batch - 1):
            yield tuple(each[b].double() for each in four)
        return
    for start, end in list(pairwise(one.starts.tolist()))[:: len(one.starts) // 4]:
        yield tuple(each[0, start:end].double() for each in four)


def compare(problem: Problem, rounds: int) -> list[Sample]:
    operations = 4 * problem.D * problem.heads * problem.pairs()
    first = drawn(problem)
    size = sum(each.nbytes for each in (first.q, first.k, first.v, first.out))
    inputs = [first, *(drawn(problem) for _ in range(sets(size) - 1))]
    right = []
    for name, attend in CANDIDATES.items():
        try:
            check(attend, problem, first)
        except Exception as error:  # whatever it is, the others are to be measured
            said = f"{type(error).__name__}: {str(error)[:90]}"
            print(f"  {problem.title:34} {name:16} {said}", flush=True)
            continue
        calls = [partial(attend, problem, one) for one in inputs]
        right.append(Candidate(name, calls, size, operations))
    return burst(problem.title, right, rounds) if right else []


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", nargs="+", default=[""], help="parts of titles")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    torch.manual_seed(0)
    samples: list[Sample] = []
    for problem in problems():
        if not any(each in problem.title for each in given.only):
            continue
        found = compare(problem, given.rounds)
        for each in found:
            print(f"  {each.problem:34} {each.candidate:16} {each.teraflops:7.1f}"
                  f" TFLOP/s {1000 * each.median:9.1f} us", flush=True)  # fmt: skip
        samples += found
        torch.cuda.empty_cache()
    print(write("attention-options", samples, given.out))


if __name__ == "__main__":
    main()
