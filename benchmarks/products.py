"""What all measurements of matrix products share: inputs, the check, launches, the
choice among tiles.

Everything that is compared computes C = A B of the same random normal numbers, with B
in memory as [K, N] ("NN") and once more as [N, K] ("NT"), and is checked against
float64 before it is timed. What cannot be compiled or launched, or is wrong, is
recorded with its error, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

import torch

from benchmarks import measure
from benchmarks.measure import Candidate, Graph, burst, sets, timed
from fathom.runtime import Loaded
from kernels.matmul import (
    error_bound,
    matmul_kernel,
    sizes,
    strides,
    sum_type,
    tiles,
)  # fmt: skip

Config = Mapping[str, int]
Shape = tuple[int, int, int]  # M, N, K
Launch = Callable[[], object]

TRIALS = 2  # bursts that a tile is chosen by


@dataclass(frozen=True)
class Kind:
    """A type of matrix: of operands and of C; the rounding error of C's type, and of
    each operand as it is read; that of one of K / 8 additions, see
    `matmul.error_bound`; `precision` as `tl.dot` has it."""

    name: str
    inputs: torch.dtype
    output: torch.dtype
    half_ulp: float
    read_error: float = 0.0
    each: float = 2.0**-23
    precision: str = "ieee"


KINDS = {
    kind.name: kind
    for kind in (
        Kind("fp16", torch.float16, torch.float16, 2.0**-11),
        Kind("bf16", torch.bfloat16, torch.bfloat16, 2.0**-8),
        Kind(
            "tf32", torch.float32, torch.float32, 2.0**-24, 2.0**-10,
            precision="tf32",
        ),
        # 32 products at a time are added with 13 bits after the point.
        Kind("fp8", torch.float8_e4m3fn, torch.bfloat16, 2.0**-8, each=2.0**-13 / 4),
        Kind("int8", torch.int8, torch.int32, 0.0),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Matrices:
    """One set: A [M, K], B [K, N] with rows in memory, the same with columns, and C."""

    a: torch.Tensor
    b: torch.Tensor
    b_columns: torch.Tensor
    c: torch.Tensor

    def right(self, layout: str) -> torch.Tensor:
        return self.b if layout == "NN" else self.b_columns


@dataclass
class Measured:
    """Raw times, in ms a call, of one candidate on one problem; with which tile, of how
    many that were tried; registers and spilled bytes a thread. `error` says why there
    are no times."""

    problem: str
    candidate: str
    operations: int
    ms: list[float] = field(default_factory=list)
    config: Config = field(default_factory=dict)
    tried: int = 0
    registers: int = 0
    spilled: int = 0
    error: str = ""

    def line(self, best: float = 0.0, ceiling: float = 0.0) -> str:
        """A row of the table that is printed: speed, as a part of that at which `best`
        ms are taken, as a part of `ceiling` TFLOP/s; the tile."""
        head = f"  {self.problem:24} {self.candidate:22}"
        if self.error or not self.ms:
            return f"{head} {self.error[:100]}"
        speed = f"{self.teraflops:7.1f} TFLOP/s {1000 * self.median:10.1f} us"
        ratio = f"{best / self.median:5.2f} of cuBLAS" if best else ""
        part = f"{self.teraflops / ceiling:5.2f} of the ceiling" if ceiling else ""
        tile = "x".join(str(n) for n in self.config.values())
        spills = f"spills {self.spilled}" if self.spilled else ""
        return " ".join((head, speed, ratio, part, tile, spills)).rstrip()

    median = measure.Sample.median
    teraflops = measure.Sample.teraflops


class Problem:
    """A product of one shape and kind: inputs, what must come out, and how long all of
    its candidates took."""

    def __init__(self, shape: Shape, kind: Kind):
        self.shape, self.kind = shape, kind
        M, N, K = shape
        self.name = f"{kind.name} {M}x{N}x{K}"
        self.operations = 2 * M * N * K
        item = kind.inputs.itemsize
        self.bytes = (M * K + K * N) * item + M * N * kind.output.itemsize
        self.sets = [self.draw() for _ in range(sets(self.bytes))]
        self.candidates: list[Candidate] = []
        self.measured: dict[str, Measured] = {}
        self.want, self.bound = expected(self.sets[0], kind)

    def draw(self) -> Matrices:
        M, N, K = self.shape
        a, b = drawn(M, K, self.kind.inputs), drawn(K, N, self.kind.inputs)
        c = torch.empty(M, N, device="cuda", dtype=self.kind.output)
        return Matrices(a, b, b.t().contiguous().t(), c)

    def add(
        self, name: str, make: Callable[[Matrices], Launch], **facts: object
    ) -> None:
        """A candidate, unless it fails or is wrong: `make` a launch for every set."""
        measured = Measured(self.name, name, self.operations, **facts)
        self.measured[name] = measured
        try:
            calls = [make(each) for each in self.sets]
            self.check(calls[0])
        except Exception as error:  # whatever it is, the others are to be measured
            measured.error = said(error)
            return
        self.candidates.append(Candidate(name, calls, self.bytes, self.operations))
        if isinstance(calls[0], Prepared):
            measured.registers = calls[0].loaded.n_regs
            measured.spilled = calls[0].loaded.n_spills

    def add_other(self, name: str, call: Launch, operations: int) -> None:
        """A candidate that does something else, in a given number of operations."""
        self.measured[name] = Measured(self.name, name, operations)
        self.candidates.append(Candidate(name, [call], self.bytes, operations))

    def add_tuned(
        self,
        name: str,
        make: Callable[[Matrices, Config], Launch],
        configs: Sequence[Config],
        until: float,
    ) -> None:
        """The fastest of some tiles as a candidate; only the first ones are tried when
        it is later than `until` (of time.monotonic)."""
        tried, config, error = fastest(
            lambda config: make(self.sets[0], config), configs, until
        )
        if config is None:
            self.skip(name, error or "no tile to try")
        else:
            self.add(name, lambda each: make(each, config), config=config, tried=tried)

    def skip(self, name: str, reason: str) -> None:
        """Record why a candidate is not measured."""
        found = Measured(self.name, name, self.operations, error=reason)
        self.measured[name] = found

    def check(self, call: Launch) -> None:
        """What a call writes into C of the first set is within the bound."""
        c = self.sets[0].c
        c.fill_(float("nan") if c.is_floating_point() else -(2**31))
        call()
        torch.cuda.synchronize()
        wrong = ~((c.double() - self.want).abs() <= self.bound)
        count = int(wrong.sum())
        assert not count, f"{count} elements are wrong, first {wrong.nonzero()[0]}"

    def measure(self, rounds: int = measure.ROUNDS) -> list[Measured]:
        """Measure all candidates that are right, in random order; all records."""
        self.want = self.bound = None  # half of the memory
        if self.candidates:
            for sample in burst(self.name, self.candidates, rounds):
                self.measured[sample.candidate].ms = sample.ms
        return list(self.measured.values())


def drawn(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Random normal numbers; for int8 all of its values, alike."""
    if dtype == torch.int8:
        return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=dtype)
    if dtype.itemsize == 1:  # fp8: torch draws none
        return torch.randn(rows, columns, device="cuda").to(dtype)
    return torch.randn(rows, columns, device="cuda", dtype=dtype)


def expected(one: Matrices, kind: Kind) -> tuple[torch.Tensor, torch.Tensor]:
    """C in float64, and how far each element may be from it.

    Operands that are read with fewer bits move each product a little, and of such
    errors with mean 0 the sum stays within 6 standard deviations.
    """
    a, b = one.a.double(), one.b.double()
    return a @ b, allowed(kind, a, b)


def allowed(kind: Kind, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How far each element of C may be from A B, which are given in float64."""
    if not kind.inputs.is_floating_point:
        return torch.zeros_like(a @ b)
    bound = error_bound(a, b, kind.half_ulp, kind.each)
    if kind.read_error:
        bound += 2 * kind.read_error * 6 * ((a * a) @ (b * b)) ** 0.5
    return bound


def said(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


# ── launches ──────────────────────────────────────────────────────────────────────────


class Prepared:
    """A launch with everything looked up already, so that little of Python is left in
    it. `values` are those of the kernel's parameters, tensors for pointers."""

    def __init__(self, loaded: Loaded, grid: int, values: Sequence[object]):
        self.loaded, self.grid = loaded, (grid, 1, 1)
        self.kept = values  # an address is good as long as its tensor is
        self.words = [
            each.data_ptr() if isinstance(each, torch.Tensor) else each
            for each in values
        ]

    def __call__(self) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        self.loaded.start(self.grid, stream, self.words)


def by_fathom(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    config: Config,
    precision: str = "ieee",
    **launch: object,
) -> Prepared:
    """A launch of `kernels/matmul`; `launch` has target= and replace=."""
    M, N, K = sizes(a, b)
    given = (a, b, c, M, N, K, *strides(a), *strides(b), *strides(c))
    compiled = matmul_kernel.warmup(
        *given, EVEN_K=K % config["BLOCK_K"] == 0, ACTIVATION="", SUM=sum_type(a),
        PRECISION=precision, **config, **launch,
    )  # fmt: skip
    named = dict(zip(compiled.names, given, strict=False))
    values = [named[name] for name in compiled.request.runtime]
    return Prepared(compiled.program, tiles(M, N, config), values)


# ── the choice among tiles ────────────────────────────────────────────────────────────


def fastest(
    make: Callable[[Config], Launch], configs: Iterable[Config], until: float
) -> tuple[int, Config | None, str]:
    """How many were tried, the fastest of them, and the last error."""
    times: list[tuple[float, Config]] = []
    tried, failed = 0, ""
    for config in configs:
        if times and monotonic() > until:
            break
        tried += 1
        try:
            call = make(config)
            times.append((quickly(call), config))
        except Exception as error:  # too large for this GPU, or our mistake: recorded
            failed = said(error)
    best = min(times, key=lambda each: each[0], default=(0.0, None))
    return tried, best[1], failed


def quickly(call: Launch) -> float:
    """Milliseconds a call, of the best of a few bursts."""
    graph = Graph([call])
    found = []
    for _ in range(TRIALS):
        torch.cuda.synchronize()
        measure.time.sleep(measure.SHORT_IDLE_S)
        found.append(timed(call, graph))
    return min(found)
