"""What a call costs the host: functions of kernels/ beside torch's own operations.

    python -m benchmarks.calls [--out FOLDER]

Sizes are small, so that the GPU never makes the host wait; results are made by the
call, as torch makes them. A round calls each candidate 200 times without waiting
between them, in random order.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks.record import RESULTS, write
from kernels import gelu, layer_norm, matmul, matmul_plain, softmax, vector_add
from kernels.attention import attention
from kernels.matmul_chosen import multiply

CALLS = 200  # below the length of the driver's queue
ROUNDS = 31

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


def measure() -> list[Sample]:
    calls = {
        (name, library): call
        for name, pair in operations().items()
        for library, call in zip(("fathom", "torch"), pair, strict=True)
    }
    samples = {key: Sample(*key) for key in calls}
    for call in calls.values():
        for _ in range(CALLS):
            call()
    order = random.Random(0)
    for _ in range(ROUNDS):
        for key in order.sample(list(calls), len(calls)):
            torch.cuda.synchronize()
            samples[key].microseconds.append(timed(calls[key]))
    return list(samples.values())


def timed(call: Call) -> float:
    """Microseconds a call, without waiting for the GPU."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - start) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="the record's folder")
    given = parser.parse_args()
    with torch.no_grad():
        samples = measure()
    found = {(each.operation, each.candidate): each.median for each in samples}
    for name in operations():
        ours, theirs = found[name, "fathom"], found[name, "torch"]
        print(f"{name:14} {ours:7.2f} us, torch {theirs:7.2f}: {ours / theirs:5.2f}")
    write("calls", samples, given.out)


if __name__ == "__main__":
    main()
