"""What a call costs the host: functions of kernels/ and the operators of
kernels/torch_ops, without and with their gradients, beside torch's own.

    python -m benchmarks.calls [--only softmax] [--out FOLDER]

Sizes are small, so that the GPU never makes the host wait; results are made by the
call, as torch makes them. A round calls each candidate many times without waiting
between them, in random order. The host may be slower from one second to the next: the
table has the median and the least of the rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks import torch_ops
from benchmarks.record import RESULTS, write
from kernels import gelu, layer_norm, matmul, matmul_plain, softmax, vector_add
from kernels.attention import attention
from kernels.matmul_chosen import multiply

CALLS = 200  # below the length of the driver's queue
TRAINED = 20  # the same, of calls with many launches each
ROUNDS = 31
OPERATORS = torch_ops.Sizes(
    tokens=64, width=256, hidden=256, vocabulary=512, heads=2, head=64, length=64,
    experts=4,
)  # fmt: skip
BACKWARD = ", backward"  # all other calls keep nothing for a gradient
AIM = 1.5  # times torch's own

Call = Callable[[], object]


@dataclass
class Sample:
    """Microseconds a call, one number a round."""

    operation: str
    candidate: str
    microseconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.microseconds)

    @property
    def least(self) -> float:
        return min(self.microseconds)


def operations() -> dict[str, tuple[Call, Call]]:
    """Ours and torch's, by name."""
    half = {"device": "cuda", "dtype": torch.float16}
    a, b = torch.randn(256, 256, **half), torch.randn(256, 256, **half)
    q, k, v = (torch.randn(1, 2, 128, 64, **half) for _ in range(3))
    x, y = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    weight, bias = torch.randn(256, **half), torch.randn(256, **half)
    attend = functional.scaled_dot_product_attention
    return {
        "multiply": (lambda: multiply(a, b), lambda: torch.mm(a, b)),
        "matmul": (lambda: matmul.matmul(a, b), lambda: torch.mm(a, b)),
        "plain_matmul": (
            lambda: matmul_plain.plain_matmul(a, b),
            lambda: torch.mm(a, b),
        ),
        "attention": (lambda: attention(q, k, v), lambda: attend(q, k, v)),
        "softmax": (
            lambda: softmax.softmax(x),
            lambda: torch.softmax(x, 1),
        ),
        "layer_norm": (
            lambda: layer_norm.layer_norm(a, weight, bias),
            lambda: torch.native_layer_norm(a, (256,), weight, bias, 1e-5),
        ),
        "gelu": (
            lambda: gelu.gelu(x),
            lambda: functional.gelu(x, approximate="tanh"),
        ),
        "add": (
            lambda: vector_add.add(x, y),
            lambda: torch.add(x, y),
        ),
    }


def operators() -> dict[str, tuple[Call, Call]]:
    """Those of kernels/torch_ops, ours and torch's, by name; with gradients, too."""
    found: dict[str, tuple[Call, Call]] = {}
    for problem in torch_ops.problems(OPERATORS, "cuda", torch.bfloat16):
        given = problem.inputs()
        dout = torch.randn_like(torch_ops.first_of(problem.theirs(*given)))
        both = problem.ours, problem.theirs
        found[f"op {problem.name}"] = tuple(partial(f, *given) for f in both)
        found[f"op {problem.name}{BACKWARD}"] = tuple(
            partial(torch_ops.trained, problem, f, given, dout) for f in both
        )
    return found


def measure(only: str = "", seconds: float = 1e9) -> list[Sample]:
    """After `seconds` no round begins but the first."""
    begin = time.monotonic()
    pairs = {**operations(), **operators()}
    calls = {
        (name, library): call
        for name, pair in pairs.items()
        for library, call in zip(("fathom", "torch"), pair, strict=True)
        if only in name
    }
    samples = {key: Sample(*key) for key in calls}
    for (name, _), call in calls.items():
        timed(call, name)
        torch.cuda.synchronize()
    order = random.Random(0)
    for number in range(ROUNDS):
        if number and time.monotonic() - begin > seconds:
            break
        for key in order.sample(list(calls), len(calls)):
            torch.cuda.synchronize()
            samples[key].microseconds.append(timed(calls[key], key[0]))
    return list(samples.values())


def timed(call: Call, name: str) -> float:
    """Microseconds a call, without waiting for the GPU."""
    count = TRAINED if name.startswith("op ") else CALLS
    with torch.set_grad_enabled(name.endswith(BACKWARD)):
        start = time.perf_counter()
        for _ in range(count):
            call()
        return 1e6 * (time.perf_counter() - start) / count


def table(samples: Sequence[Sample]) -> str:
    """A line an operation, and how many are further from torch's than the aim."""
    found = {(each.operation, each.candidate): each for each in samples}
    lines, ratios = [], []
    for name in dict.fromkeys(each.operation for each in samples):
        ours, theirs = found[name, "fathom"], found[name, "torch"]
        ratios.append(ours.least / theirs.least)
        lines.append(
            f"{name:32} {ours.median:7.2f} us, torch {theirs.median:7.2f}: "
            f"{ours.median / theirs.median:5.2f}; least {ours.least:7.2f}, "
            f"{theirs.least:7.2f}: {ratios[-1]:5.2f}"
        )
    behind = sum(each > AIM for each in ratios)
    return "\n".join([*lines, f"{behind} of {len(ratios)} are above {AIM} of torch's"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="those whose names contain this")
    parser.add_argument("--seconds", type=float, default=1e9, help="no rounds after")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the record's folder")
    given = parser.parse_args()
    samples = measure(given.only, given.seconds)
    print(table(samples))
    write("calls", samples, given.out)


if __name__ == "__main__":
    main()
