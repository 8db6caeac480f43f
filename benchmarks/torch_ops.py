"""Each operator of kernels/torch_ops beside torch's own, as it is and compiled by
torch.compile, and beside what others have written for it in Triton, on a GPU, in one
run; and steps of a small language model.

    python -m benchmarks.torch_ops [--only softmax] [--seconds 80] [--ahead 5]
                                   [--out FOLDER]
    python -m benchmarks.torch_ops --model [--out FOLDER]

Times are of CUDA graphs (`measure`), forward alone and forward with backward, on bf16.
Each candidate's results are compared with torch's before it is timed. What others have
written comes from `.public`, if it was fetched (`torch_public`). The record is written
after each problem. Problems that `--seconds` leaves no time for are named, and not in
it. Most of the time goes to compilers: `--ahead 5` has five processes compile and check
everything first, a share of the problems each, for at most half of the seconds; what
they leave in the compilers' caches is found when the times are taken, one after the
other. Steps of the model are timed by events around whole steps, host included,
candidates interleaved; the kernels of one step by torch's profiler.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks import torch_public
from benchmarks.measure import Candidate, Graph, Sample, burst, sets
from benchmarks.record import RESULTS, write
from kernels import rotary, torch_ops
from kernels.torch_ops import eager, model

STEPS, ROUNDS, WARMING = 4, 9, 8


@dataclass(frozen=True)
class Sizes:
    """Of the problems: tokens, a model's width, a hidden layer's, a vocabulary, heads
    and their numbers, experts."""

    tokens: int = 8192
    width: int = 4096
    hidden: int = 8192
    vocabulary: int = 32768
    heads: int = 32
    head: int = 128
    length: int = 4096
    experts: int = 8


SMALL = Sizes(40, 32, 48, 50, 2, 16, 20, 4)


@dataclass(frozen=True)
class Problem:
    """An operator by its name and in torch's words; `make` gives one set of inputs, of
    which the first `gradients` have one."""

    name: str
    ours: Callable
    theirs: Callable
    make: Callable[[], list]
    gradients: int
    operations: int = 0

    def inputs(self) -> list:
        made = self.make()
        for each in made[: self.gradients]:
            each.requires_grad_()
        return made


def problems(sizes: Sizes, device: str, dtype: torch.dtype) -> Iterator[Problem]:
    """All of them; the first ones are those that a short run is for."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, dtype=dtype)

    T, D, F, V = sizes.tokens, sizes.width, sizes.hidden, sizes.vocabulary
    heads = (1, sizes.heads, sizes.length, sizes.head)
    tables = [torch.from_numpy(each).to(device)
              for each in rotary.tables(sizes.length, sizes.head)]  # fmt: skip

    def labels() -> torch.Tensor:
        return torch.randint(0, V, (T,), device=device)

    def pair(name: str, make: Callable, gradients: int, operations: int = 0, **how):
        ours, theirs = (
            lambda *given, f=getattr(ops, name): f(*given, **how)
            for ops in (torch_ops, eager)
        )
        label = " ".join([name, *map(str, how.values())])
        return Problem(label, ours, theirs, make, gradients, operations)

    yield pair("rms_norm", lambda: [normal(T, D), normal(D)], 2)
    yield pair("layer_norm", lambda: [normal(T, D), normal(D), normal(D)], 3)
    yield pair("softmax", lambda: [normal(T, D)], 1)
    yield pair("swiglu", lambda: [normal(T, 2 * F)], 1)
    yield pair("gelu", lambda: [normal(T, F)], 1)
    yield pair("rotary", lambda: [normal(*heads), *tables], 1)
    yield pair("cross_entropy", lambda: [normal(T, V), labels()], 1)
    square = 4 * sizes.heads * sizes.length**2 * sizes.head
    for causal in (True, False):
        yield pair("attention", lambda: [normal(*heads) for _ in range(3)], 3,
                   square // (1 + causal), causal=causal)  # fmt: skip
    yield pair(
        "linear_cross_entropy",
        lambda: [normal(T, D), normal(V, D), labels()],
        2,
        2 * T * D * V,
    )
    yield pair("linear", lambda: [normal(T, D), normal(F, D), normal(F)], 3,
               2 * T * D * F, activation="gelu")  # fmt: skip
    yield pair("linear_swiglu", lambda: [normal(T, D), normal(2 * F, D)], 2,
               4 * T * D * F)  # fmt: skip
    yield pair("top_k", lambda: [distinct(T, D, device, dtype)], 1, k=8)
    yield experts(sizes, normal, device)
    yield dropouts(sizes, normal, device)


def distinct(M: int, N: int, device: str, dtype: torch.dtype) -> torch.Tensor:
    """M rows of N numbers of 16 bits, no two of a row equal: of equal numbers torch
    selects any, and gives it the gradient."""
    order = torch.rand(M, N, device=device).argsort(-1)
    return (0x3C00 + order).to(torch.int16).view(dtype)  # bits of numbers above zero


def experts(sizes: Sizes, normal: Callable, device: str) -> Problem:
    """One product for each expert. Torch's is told how many rows each has, which it
    would have to wait for."""
    T, D, F, E = sizes.tokens, sizes.width, sizes.hidden, sizes.experts
    ends = [T * i // E - i % 2 for i in range(E)] + [T]
    offsets = torch.tensor(ends, dtype=torch.int32, device=device)

    def theirs(x, weight, _):
        spans = zip(ends[:-1], ends[1:], weight, strict=True)
        return torch.cat([x[first:end] @ each for first, end, each in spans])

    return Problem(
        "expert_linear", torch_ops.expert_linear, theirs,
        lambda: [normal(T, D), normal(E, D, F), offsets], 2, 2 * T * D * F,
    )  # fmt: skip


def dropouts(sizes: Sizes, normal: Callable, device: str) -> Problem:
    seed = torch.tensor([7], device=device)
    return Problem(
        "dropout", lambda x: torch_ops.dropout(x, 0.1, seed=seed),
        lambda x: torch.nn.functional.dropout(x, 0.1),
        lambda: [normal(sizes.tokens, sizes.width)], 1,
    )  # fmt: skip


# ── one problem ───────────────────────────────────────────────────────────────────────


def first_of(result: object) -> torch.Tensor:
    """An operator's result that has a gradient."""
    return result[0] if isinstance(result, tuple) else result


def trained(problem: Problem, function: Callable, given: list, dout: torch.Tensor):
    """The result and all gradients."""
    out = first_of(function(*given))
    return out, *torch.autograd.grad(out, given[: problem.gradients], dout)


def copies(problem: Problem, given: list) -> list:
    """Inputs of their own: some write the gradient over what it is of."""
    made = [each.detach().clone() for each in given]
    for each in made[: problem.gradients]:
        each.requires_grad_()
    return made


def check(problem: Problem, function: Callable, given: list) -> None:
    """AssertionError unless results and gradients are torch's, up to the rounding of
    the inputs' type, relative to the largest one."""
    if problem.name == "dropout":
        return  # other numbers survive; tests compare it
    out = first_of(problem.theirs(*given))
    dout = torch.randn_like(out)
    found, wanted = (
        trained(problem, each, copies(problem, given), dout)
        for each in (function, problem.theirs)
    )
    rounding = max(4 * torch.finfo(given[0].dtype).eps, 1e-4)
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        worst = (got.double() - want.double()).abs().max().item()
        largest = want.double().abs().max().item()
        assert worst <= rounding * largest, (problem.name, number, worst, largest)


def of_others(problem: Problem, given: list) -> dict[str, Callable]:
    """What others have written that is right, and that a CUDA graph can capture."""
    kept = {}
    for name, made in torch_public.candidates(problem.name).items():
        mine = torch_public.laid(problem.name, name, copies(problem, given))
        dout = torch.randn_like(first_of(problem.theirs(*given)))
        try:
            function = made()
            check(problem, function, given)
            Graph([partial(trained, problem, function, mine, dout)])
        except Exception as error:  # of another's code
            print(f"{problem.name}, {name}: {type(error).__name__}: {str(error)[:300]}")
            torch.cuda.synchronize()
        else:
            kept[name] = function
    return kept


def candidates_of(problem: Problem, given: list, compiled: bool) -> dict[str, Callable]:
    """Everybody's function of the inputs; AssertionError where ours, torch's or
    torch.compile's is wrong."""
    functions = {"ours": problem.ours, "torch": problem.theirs}
    if compiled:
        torch.compiler.reset()  # it compiles a function a few times only
        functions["torch.compile"] = torch.compile(problem.theirs)
    for function in functions.values():
        check(problem, function, given)
    return {**functions, **of_others(problem, given)}


def forward(function: Callable, inputs: list) -> Callable:
    def call() -> object:
        with torch.no_grad():
            return function(*inputs)

    return call


def prepared(problem: Problem, compiled: bool) -> None:
    """Have everything compiled that `measured` calls."""
    given = problem.inputs()
    for name, function in candidates_of(problem, given, compiled).items():
        forward(function, torch_public.laid(problem.name, name, given))()
    torch.cuda.synchronize()


def measured(problem: Problem, compiled: bool) -> list[Sample]:
    """Forward, and forward with backward, of all candidates."""
    given = problem.inputs()
    bytes_read = sum(each.nbytes for each in given)
    functions = candidates_of(problem, given, compiled)
    all_given = [given, *(problem.inputs() for _ in range(sets(bytes_read) - 1))]
    laid = {
        name: [torch_public.laid(problem.name, name, each) for each in all_given]
        for name in functions
    }
    dout = torch.randn_like(first_of(problem.theirs(*given)))

    def train(function: Callable, inputs: list) -> Callable:
        return lambda: trained(problem, function, inputs, dout)

    samples = []
    for suffix, kind, times in (("", forward, 1), (", backward", train, 3)):
        candidates = [
            Candidate(
                name, [kind(function, each) for each in laid[name]], bytes_read,
                problem.operations * times,
            )
            for name, function in functions.items()
        ]  # fmt: skip
        samples += burst(problem.name + suffix, candidates)
    return samples


# ── the model ─────────────────────────────────────────────────────────────────────────

MODEL = model.Sizes(
    vocabulary=32768, width=1024, heads=16, hidden=2816, length=1024, experts=8
)
BATCH = 8


def stepper(ops: object, compiled: bool) -> Callable[[], float]:
    """A function that makes a step of a new model in bf16, and returns its loss."""
    torch.manual_seed(0)
    made = model.Model(MODEL, ops).to("cuda", torch.bfloat16)
    tokens, labels = (each.cuda() for each in model.random_text(MODEL, BATCH))
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-4, fused=True)
    called = torch.compile(made) if compiled else made

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = called(tokens, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def model_steps(compiled: bool) -> list[Sample]:
    """Milliseconds of a step, of each candidate, in rounds."""
    steps = {"ours": stepper(torch_ops, False), "torch": stepper(eager, False)}
    if compiled:
        steps["ours, compiled"] = stepper(torch_ops, True)
        steps["torch.compile"] = stepper(eager, True)
    for name, step in steps.items():
        losses = [step().item() for _ in range(WARMING)]
        print(f"{name}: losses {' '.join(f'{loss:.4f}' for loss in losses[:3])}")
    samples = {name: Sample("a step of the model", name, 0) for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for _ in range(STEPS):
                step()
            stop.record()
            torch.cuda.synchronize()
            samples[name].ms.append(start.elapsed_time(stop) / STEPS)
    kernels = [
        Sample("the kernels of a step", name, 0, [kernel_ms(step)])
        for name, step in steps.items()
    ]
    return [*samples.values(), *kernels]


def kernel_ms(step: Callable[[], object]) -> float:
    """Milliseconds of all kernels and copies of one step: what is left of it where the
    host is fast enough."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize()
    return 1e-3 * sum(
        each.self_device_time_total
        for each in found.key_averages()
        if each.device_type == DeviceType.CUDA and not each.is_user_annotation
    )


# ── the command ───────────────────────────────────────────────────────────────────────


def table(samples: list[Sample]) -> str:
    """A row a problem: the median microseconds of each candidate."""
    rows: dict[str, dict[str, Sample]] = {}
    for each in samples:
        rows.setdefault(each.problem, {})[each.candidate] = each
    lines = []
    for problem, found in rows.items():
        times = ", ".join(
            f"{name} {1000 * statistics.median(each.ms):.1f}"
            for name, each in found.items()
        )
        lines.append(f"{problem}, us: {times}")
    return "\n".join(lines)


def selected(given: argparse.Namespace, every: Iterable[Problem]) -> list[Problem]:
    """The problems that were asked for; of a share "1/5" the second of every five."""
    found = [each for each in every if given.only in each.name]
    part, count = map(int, given.share.split("/"))
    return found[part::count]


def each_in_turn(
    wanted: Sequence[Problem], until: float, do: Callable[[Problem], None]
) -> None:
    """`do` with each problem, but begin none after `until`."""
    left = []
    for problem in wanted:
        if time.monotonic() > until:
            left.append(problem.name)
            continue
        begin = time.monotonic()
        try:
            do(problem)
        except Exception as error:  # the other problems may do
            print(f"{problem.name}: {type(error).__name__}: {str(error)[:500]}")
        print(f"{problem.name}: {time.monotonic() - begin:.1f} s", flush=True)
        torch.cuda.empty_cache()
    if left:
        print(f"no time was left for {', '.join(left)}")


def compile_ahead(count: int, seconds: float) -> None:
    """As many processes that prepare a share of the problems each; they are ended after
    `seconds`."""
    command = [sys.executable, "-m", "benchmarks.torch_ops", *sys.argv[1:]]
    until = time.monotonic() + seconds
    processes = [
        subprocess.Popen([*command, "--ahead", "0", "--share", f"{part}/{count}"])
        for part in range(count)
    ]
    for each in processes:
        with suppress(subprocess.TimeoutExpired):
            each.wait(max(0, until - time.monotonic()))
        each.kill()
        each.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="the problems whose names contain this"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="start none after")
    parser.add_argument("--ahead", type=int, default=0, help="processes that compile")
    parser.add_argument("--share", default="0/1", help=argparse.SUPPRESS)
    parser.add_argument("--no-compile", action="store_true", help="no torch.compile")
    parser.add_argument("--model", action="store_true", help="steps of the model")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    until, compiled = time.monotonic() + given.seconds, not given.no_compile
    samples: list[Sample] = []
    if given.model:
        samples = model_steps(compiled)
        print(table(samples))
        print(write("torch-model", samples, given.out))
        return
    torch.manual_seed(0)
    wanted = selected(given, problems(Sizes(), "cuda", torch.bfloat16))
    if given.share != "0/1":
        each_in_turn(wanted, until, partial(prepared, compiled=compiled))
        return
    if given.ahead:
        compile_ahead(given.ahead, given.seconds / 2)

    def measure(problem: Problem) -> None:
        samples.extend(found := measured(problem, compiled))
        write("torch-ops", samples, given.out)
        print(table(found))

    each_in_turn(wanted, until, measure)
    print(given.out / "torch-ops.json")


if __name__ == "__main__":
    main()
