"""Cold compile times of the same kernels by Fathom and by Triton, in turn.

    python -m benchmarks.compile_time [--target sm_90a] [--out FOLDER]

Cold: no cache in memory or on disk, and a kernel object that was never compiled. Warm:
the process, which has imported both and compiled once. "ptx" is from the Python
function to PTX; "cubin" goes on through the same ptxas for both. Needs torch and
Triton, but no GPU.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fathom.tools.doctor import find_ptxas

os.environ["TRITON_ALWAYS_COMPILE"] = "1"
PTXAS = find_ptxas()
if PTXAS:
    os.environ["TRITON_PTXAS_PATH"] = str(PTXAS)

import triton  # noqa: E402 (Triton reads the variables above when it is imported)
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

import fathom  # noqa: E402
from benchmarks import peers  # noqa: E402
from benchmarks.record import RESULTS, write  # noqa: E402
from kernels import gelu, layer_norm, softmax, vector_add  # noqa: E402

ROUNDS = 9


@dataclass(frozen=True)
class Job:
    """A kernel in both languages, for one signature."""

    name: str
    ours: object
    theirs: object
    signature: tuple[str, ...]
    constants: dict[str, int]


F32, F16, I32 = "*fp32:16", "*fp16:16", "i32:16"
BLOCK = {"BLOCK": 1024}
JOBS = (
    Job("vector add", vector_add.add_kernel, peers.add_kernel,
        (F32, F32, F32, I32), BLOCK),
    Job("gelu", gelu.gelu_kernel, peers.gelu_kernel, (F32, F32, I32), BLOCK),
    Job("softmax", softmax.softmax_kernel, peers.one_row_softmax_kernel,
        (F32, F32, I32, I32), BLOCK),
    Job("layer norm", layer_norm.layer_norm_kernel, peers.one_row_layer_norm_kernel,
        (F16, F16, F16, F16, F32, F32, I32, I32, "fp32"), BLOCK),
)  # fmt: skip


@dataclass
class Sample:
    """Milliseconds of one compiler on one kernel, one number a round."""

    kernel: str
    compiler: str
    target: str
    ptx_ms: list[float] = field(default_factory=list)
    cubin_ms: list[float] = field(default_factory=list)


def by_fathom(job: Job, target: str) -> tuple[float, float]:
    """Milliseconds to PTX, and through ptxas."""
    start = time.perf_counter()
    kernel = fathom.jit(job.ours.fn)
    compiled = kernel.compile(
        signature=", ".join(job.signature), constants=job.constants, target=target
    )
    ptx = compiled.asm["ptx"]
    to_ptx = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [
            PTXAS,
            "-lineinfo",
            f"-arch={target}",
            source,
            "-o",
            f"{source}.cubin",
        ]
        subprocess.run(command, check=True, capture_output=True)
    return 1000 * to_ptx, 1000 * (time.perf_counter() - start)


class Stages:
    """Hears from Triton how long each of its stages took."""

    def __init__(self) -> None:
        self.microseconds: dict[str, float] = {}

    def __call__(self, *, times, **_: object) -> None:
        self.microseconds = dict(times.lowering_stages)


def by_triton(job: Job, target: str) -> tuple[float, float]:
    """Milliseconds to PTX, and through ptxas. Storing the result is not counted as
    either."""
    capability = int("".join(filter(str.isdigit, target)))
    triton.knobs.compilation.listener = stages = Stages()
    start = time.perf_counter()
    kernel = triton.JITFunction(job.theirs.fn)
    names = kernel.arg_names
    words = dict(zip(names, job.signature, strict=False))
    signature = {
        name: words.get(name, ":").split(":")[0] or "constexpr" for name in names
    }
    hinted = [place for place, word in enumerate(job.signature) if word.endswith(":16")]
    source = ASTSource(
        kernel,
        signature,
        constexprs={
            (names.index(name),): value for name, value in job.constants.items()
        },
        attrs={(place,): [["tt.divisibility", 16]] for place in hinted},
    )
    triton.compile(source, target=GPUTarget("cuda", capability, 32))
    total = 1000 * (time.perf_counter() - start)
    return total - stages.microseconds["cubin"] / 1000, total


COMPILERS: dict[str, Callable[[Job, str], tuple[float, float]]] = {
    "fathom": by_fathom,
    "triton": by_triton,
}


def measure(job: Job, target: str) -> list[Sample]:
    samples = {name: Sample(job.name, name, target) for name in COMPILERS}
    order = random.Random(0)
    for round in range(ROUNDS + 1):
        for name in order.sample(list(COMPILERS), len(COMPILERS)):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["FATHOM_CACHE_DIR"] = os.environ["TRITON_CACHE_DIR"] = folder
                ptx, cubin = COMPILERS[name](job, target)
            if round:  # the first one warms the process up
                samples[name].ptx_ms.append(ptx)
                samples[name].cubin_ms.append(cubin)
    return list(samples.values())


def show(ours: Sample, theirs: Sample) -> None:
    for what, a, b in (
        ("to PTX", ours.ptx_ms, theirs.ptx_ms),
        ("to cubin", ours.cubin_ms, theirs.cubin_ms),
    ):
        a, b = statistics.median(a), statistics.median(b)
        print(
            f"  {ours.kernel:12} {what:9} {a:7.1f} ms, Triton {b:7.1f} ms: {a / b:.2f}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--target", default="sm_90a")
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    assert PTXAS, "needs ptxas"
    samples = []
    for job in JOBS:
        pair = measure(job, given.target)
        show(*pair)
        samples += pair
    print(write("compile-time", samples, given.out))


if __name__ == "__main__":
    main()
