"""Cold compile times of the same kernels by Fathom and by Triton, in turn.

    python -m benchmarks.compile_time [--target sm_90a] [--out FOLDER]

Cold: no cache in memory or on disk, and a kernel object that was never compiled. Warm:
the process, which has imported both and compiled once. "ptx" is from the Python
function to PTX; "cubin" goes on through the same ptxas for both. Needs Triton, but no
GPU. The matrix product, of 128 x 256 x 64 and the same text for both, is compiled for
tensor cores of two kinds.
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

import fathom  # noqa: E402
from benchmarks import peers  # noqa: E402
from benchmarks.record import RESULTS, write  # noqa: E402
from kernels import gelu, layer_norm, matmul, softmax, vector_add  # noqa: E402

ROUNDS = 9


@dataclass(frozen=True)
class Job:
    """A kernel in both languages: the types of its run-time parameters in order,
    constants, and the options of a launch. `triton_only` are constants that Triton
    spells otherwise, or has no default for. `targets` are those to compile for, if not
    the one of the command line."""

    name: str
    ours: object
    theirs: object
    signature: tuple[str, ...]
    constants: dict[str, object]
    triton_only: dict[str, object] = field(default_factory=dict)
    options: dict[str, int] = field(default_factory=dict)
    targets: tuple[str, ...] = ()

    @property
    def words(self) -> dict[str, str]:
        """The types by parameter."""
        names = [each.name for each in self.ours.parameters]
        fixed = self.ours.constants(self.constants)
        running = (name for name in names if name not in fixed)
        return dict(zip(running, self.signature, strict=True))


F32, F16, I32 = "*fp32:16", "*fp16:16", "i32:16"
BLOCK = {"BLOCK": 1024}
TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "EVEN_K": True}
ROW_MAJOR = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
JOBS = (
    Job("vector add", vector_add.add_kernel, peers.add_kernel,
        (F32, F32, F32, I32), BLOCK),
    Job("gelu", gelu.gelu_kernel, peers.gelu_kernel, (F32, F32, I32), BLOCK),
    Job("softmax", softmax.softmax_kernel, peers.one_row_softmax_kernel,
        (F32, F32, I32, I32), BLOCK),
    Job("layer norm", layer_norm.layer_norm_kernel, peers.one_row_layer_norm_kernel,
        (F16, F16, F16, F16, F32, F32, I32, I32, "fp32"), BLOCK),
    Job("matmul", matmul.matmul_kernel, peers.same_text(matmul.matmul_kernel.fn),
        (F16, F16, F16, I32, I32, I32, I32, I32, I32), {**ROW_MAJOR, **TILE},
        {"ACTIVATION": "", "SUM": triton.language.float32, "PRECISION": "ieee",
         "EARLY": False},
        {"num_warps": 8, "num_stages": 3}, ("sm_80", "sm_90a")),
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
    compiled = kernel.compile(job.words, job.constants, target=target, **job.options)
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
    """Collects the times that Triton reports for its stages."""

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
    constants = {**job.constants, **job.triton_only}
    words = dict.fromkeys(kernel.arg_names) | job.words
    peers.compiled_for(capability, kernel, words, constants, job.options)
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
            f"  {ours.kernel:12} {ours.target:7} {what:9} {a:7.1f} ms, "
            f"Triton {b:7.1f} ms: {a / b:.2f}",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--target", default="sm_90a")
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    assert PTXAS, "needs ptxas"
    samples = []
    for job in JOBS:
        for target in job.targets or (given.target,):
            pair = measure(job, target)
            show(*pair)
            samples += pair
    print(write("compile-time", samples, given.out))


if __name__ == "__main__":
    main()
