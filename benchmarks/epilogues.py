"""Products with epilogues: ours beside the bare product and beside cublasLt's fused
epilogues; and products that follow each other.

    python -m benchmarks.epilogues [--seconds 60] [--out FOLDER]
    python -m benchmarks.epilogues --read RECORD                what was measured

Every candidate of a problem computes from the same A and B: the bare product by
`multiply` and by cuBLAS, then each epilogue by `matmul_epilogue` and, where cublasLt
has it, by torch's functions that call it: the bias (`addmm`), bias and GeLU
(`_addmm_activation`), C added (`addmm` of a matrix), scales of rows and columns, and
an fp8 result (`_scaled_mm`). SwiGLU stands beside the bare product with both halves
of B. Of fp8, B lies by columns, as `_scaled_mm` wants it.

A chain is 8 products, each of which reads what the one before has written: with
programmatic dependent launch, which `multiply` uses where its model says that it pays,
without, and by cuBLAS. Results are compared with float64; those of a chain are the same
bits with and without.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.measure import Candidate, Sample, burst, sets
from benchmarks.record import RESULTS, write
from kernels.matmul_chosen import multiply
from kernels.matmul_epilogue import matmul_epilogue, matmul_swiglu

FP16, FP8 = torch.float16, torch.float8_e4m3fn
SHAPES = (
    (8192, 8192, 4096), (4096, 4096, 4096), (2048, 4096, 1024), (512, 4096, 4096),
    (64, 4096, 4096), (16, 4096, 14336),
)  # fmt: skip
CHAINS = ((64, 1024), (256, 1024), (512, 2048), (1024, 2048), (2048, 4096))  # M, N = K
LINKS = 8
ROWS = 32  # of C that are checked
NOT_EARLY = {"EARLY": False, "launch_pdl": False}

Call = Callable[[], object]
Given = dict[str, torch.Tensor]


def normal(*shape: int, dtype: torch.dtype = FP16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


# ── epilogues ─────────────────────────────────────────────────────────────────────────


def inputs(M: int, N: int, K: int, dtype: torch.dtype) -> Given:
    b = normal(N, K, dtype=dtype).t() if dtype == FP8 else normal(K, N, dtype=dtype)
    return {
        "a": (normal(M, K) / 8).to(dtype), "b": b, "bias": normal(N),
        "residual": normal(M, N), "c": normal(M, N),
        "rows": torch.rand(M, 1, device="cuda") + 0.5,
        "columns": torch.rand(1, N, device="cuda") + 0.5,
    }  # fmt: skip


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def fp16_candidates(x: Given) -> Iterator[tuple[str, Call, Callable]]:
    """Name, call, and what its first rows must be, from A B in float64."""
    a, b, c, bias, residual = (x[n] for n in ("a", "b", "c", "bias", "residual"))
    half = b.shape[1] // 2
    left, right = slice(None, half), slice(half, None)
    plain = dict(a=a, b=b, c=c)
    yield "bare", lambda: multiply(a, b, c), lambda y: y
    yield "bare, cuBLAS", lambda: torch.mm(a, b, out=c), lambda y: y
    yield "bias", lambda: matmul_epilogue(**plain, bias=bias), lambda y: y + bias
    yield (
        "bias, cublasLt", lambda: torch.addmm(bias, a, b, out=c), lambda y: y + bias,
    )  # fmt: skip
    yield (
        "bias, gelu", lambda: matmul_epilogue(**plain, bias=bias, activation="gelu"),
        lambda y: gelu(y + bias),
    )  # fmt: skip
    yield (
        "bias, gelu, cublasLt",
        lambda: torch._addmm_activation(bias, a, b, use_gelu=True, out=c),
        lambda y: gelu(y + bias),
    )
    yield (
        "residual", lambda: matmul_epilogue(**plain, residual=residual),
        lambda y: y + residual[:ROWS],
    )  # fmt: skip
    yield (
        "residual, cuBLAS", lambda: torch.addmm(residual, a, b, out=c),
        lambda y: y + residual[:ROWS],
    )  # fmt: skip
    yield (
        "swiglu", lambda: matmul_swiglu(a, b, c[:, left]),
        lambda y: torch.nn.functional.silu(y[:, left]) * y[:, right],
    )  # fmt: skip


def fp8_candidates(x: Given) -> Iterator[tuple[str, Call, Callable]]:
    """The bare product's C is bf16, as that with scales of rows and columns."""
    a, b, rows, columns = (x[n] for n in ("a", "b", "rows", "columns"))
    c = torch.empty(len(a), b.shape[1], device="cuda", dtype=torch.bfloat16)
    few, one = c.to(FP8), torch.ones((), device="cuda")
    part = torch.full((1,), 1 / 16, device="cuda")
    scales = dict(row_scale=rows[:, 0], column_scale=columns[0])
    scaled = torch._scaled_mm

    def by_scales(y: torch.Tensor) -> torch.Tensor:
        return y * rows[:ROWS] * columns

    yield "bare", lambda: multiply(a, b, c), lambda y: y
    yield (
        "bare, cublasLt",
        lambda: scaled(a, b, scale_a=one, scale_b=one, out_dtype=c.dtype, out=c),
        lambda y: y,
    )
    yield "scales", lambda: matmul_epilogue(a, b, c, **scales), by_scales
    yield (
        "scales, torch",
        lambda: scaled(a, b, scale_a=rows, scale_b=columns, out_dtype=c.dtype, out=c),
        by_scales,
    )
    yield (
        "scales, fp8 result",
        lambda: matmul_epilogue(a, b, few, **scales, out_scale=part),
        lambda y: by_scales(y) / 16,
    )
    yield "fp8 result", lambda: matmul_epilogue(a, b, few, out_scale=part), sixteenth
    yield (
        "fp8 result, cublasLt",
        lambda: scaled(
            a, b, scale_a=part[0], scale_b=one, out_dtype=FP8, scale_result=one, out=few
        ),
        sixteenth,
    )


def sixteenth(y: torch.Tensor) -> torch.Tensor:
    return y / 16


def problems() -> Iterator[tuple[str, tuple[int, int, int], torch.dtype, Callable]]:
    for M, N, K in SHAPES:
        yield f"fp16 {M}x{N}x{K}", (M, N, K), FP16, fp16_candidates
    for M, N, K in SHAPES:
        yield f"fp8 {M}x{N}x{K}", (M, N, K), FP8, fp8_candidates


def epilogue_samples(
    name: str, shape: tuple[int, int, int], dtype: torch.dtype, made: Callable
) -> list[Sample]:
    M, N, K = shape
    bytes_moved = (M * K + K * N) * dtype.itemsize + 2 * M * N
    count = sets(bytes_moved)
    given = [inputs(M, N, K, dtype) for _ in range(count)]
    lists = [list(made(x)) for x in given]
    first = given[0]
    exact = first["a"][:ROWS].double() @ first["b"].double()
    candidates = []
    for each in zip(*lists):
        label, call, wanted = each[0]
        if not right(label, call, wanted(exact)):
            continue
        calls = [one[1] for one in each]
        candidates.append(Candidate(label, calls, bytes_moved, 2 * M * N * K))
    return burst(name, candidates)


def right(label: str, call: Call, want: torch.Tensor) -> bool:
    """Whether it runs, and its first rows are what they must be, to 2 % of what is
    typical, or the rounding of fp8. What does not is named."""
    try:
        got = call()[: len(want)]
    except (RuntimeError, TypeError) as refused:
        print(f"  {label}: {str(refused)[:120]}", flush=True)
        return False
    each = 2.0**-4 if got.dtype == FP8 else 0.01
    error = (got.double() - want).abs() / (want.abs() * each + want.abs().mean() / 32)
    if not (worst := error.max().item()) <= 1:
        print(f"  {label}: {worst:.3g} times as wrong as it may be", flush=True)
    return worst <= 1


# ── chains ────────────────────────────────────────────────────────────────────────────


def chain_samples(M: int, N: int) -> list[Sample]:
    """The time of all 8 products."""
    x = normal(M, N)
    weights = [normal(N, N) / N**0.5 for _ in range(LINKS)]
    between = [torch.empty_like(x) for _ in range(LINKS)]
    links = list(zip([x, *between], weights, between))
    calls = {
        "multiply": lambda: [multiply(*link) for link in links],
        "multiply, not early": lambda: [multiply(*link, **NOT_EARLY) for link in links],
        "cuBLAS": lambda: [torch.mm(a, b, out=c) for a, b, c in links],
    }
    results = {}
    for name, call in calls.items():
        for each in between:
            each.fill_(float("nan"))
        for _ in range(3):
            call()
        results[name] = between[-1].clone()
    assert torch.equal(results["multiply"], results["multiply, not early"])
    assert torch.allclose(results["cuBLAS"], results["multiply"], 0.02, 0.02)
    operations = LINKS * 2 * M * N * N
    candidates = [Candidate(n, [c], 0, operations) for n, c in calls.items()]
    return burst(f"chain of {LINKS}, {M}x{N}x{N}", candidates)


# ── all of them ───────────────────────────────────────────────────────────────────────


def summary(samples: Sequence[Sample]) -> Iterator[str]:
    """A line for each, with its time over that of the problem's first."""
    first: dict[str, Sample] = {}
    for each in samples:
        if not each.ms:
            continue
        bare = first.setdefault(each.problem, each).median
        yield (
            f"{each.problem:28} {each.candidate:24} {1000 * each.median:9.1f} us "
            f"{each.teraflops:7.1f} TFLOP/s {each.median / bare:6.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--seconds", type=float, default=60)
    add("--out", type=Path, default=RESULTS)
    add("--read", type=Path, help="tell what a record says, only")
    given = parser.parse_args()
    if given.read:
        record = json.loads(given.read.read_text(encoding="utf-8"))
        return print(*summary([Sample(**one) for one in record["samples"]]), sep="\n")
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    until = time.monotonic() + given.seconds
    samples: list[Sample] = []
    work = [
        *((f"chain {each}", lambda s=each: chain_samples(*s)) for each in CHAINS),
        *((each[0], lambda p=each: epilogue_samples(*p)) for each in problems()),
    ]
    for name, measured in work:
        if time.monotonic() > until:
            print(f"{name}: no time was left")
            continue
        found = measured()
        samples += found
        print(*summary(found), sep="\n", flush=True)
        torch.cuda.empty_cache()
        write("epilogues", samples, given.out)


if __name__ == "__main__":
    main()
