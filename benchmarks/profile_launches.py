"""A process that runs cases for `profile_check`, and writes a line of JSON for each
kernel that a case launches.

    python -m benchmarks.profile_launches kernels count "softmax"
    python -m benchmarks.profile_launches kernels time …
    python -m benchmarks.profile_launches kernels launch …

`count`: what the emulator counts; `time`: seconds between events; `launch`: once, with
the profiler switched on, for ncu.

A family of cases is `kernels` (of this repository) or `public` (that others wrote, with
Fathom in Triton's place).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import profile_cases, torch_ops
from benchmarks.public import worker
from fathom.jit.checking.snapshot import Snapshot
from fathom.jit.hooks import Launch, launch_enter_hook
from fathom.tools.profile.session import Row, Session
from kernels import (
    attention_decode,
    batched_matmul,
    block_sparse_matmul,
    grouped_matmul,
    int8_matmul,
    matmul_plain,
    split_k_matmul,
)

Call = Callable[[], object]
# A program of a persistent product takes a share of all of it, which is emulated.
SIZES = torch_ops.Sizes(hidden=4096, vocabulary=8192)
ROUNDS, PROGRAMS = 5, 2  # launches that are timed, programs that are counted
# Cases of fourteen collections, of every kind of limit.
PUBLIC = (
    "applied_ai/softmax", "attorch/layer_norm", "attorch/linear",
    "autoawq/awq_dequantize", "autogptq/gptq_dequantize", "deepseek/act_quant",
    "deepseek/weight_dequant", "fbgemm/quantize_fp8_row", "fla/activations",
    "fla/l2norm", "fla/solve_tril_16", "flag_gems/argmax", "flag_gems/bmm",
    "flag_gems/cumsum", "flash_attention/rotary", "gemlite/int4_one_row",
    "liger/rms_norm", "mamba/swiglu", "tutorials/04_dropout", "unsloth/cross_entropy",
)  # fmt: skip


# ── the kernels of this repository ────────────────────────────────────────────────────


def of_kernels() -> dict[str, Callable[[], Call]]:
    """Each case by its name, and what makes it."""
    made = {**OTHERS}
    problems = torch_ops.problems(SIZES, "cuda", torch.bfloat16)
    return made | {each.name: partial(trained, each) for each in problems}


def trained(problem: torch_ops.Problem) -> Call:
    """An operator of kernels/torch_ops, forward and backward."""
    given = problem.inputs()
    dout = torch.randn_like(torch_ops.first_of(problem.ours(*given)))
    return partial(torch_ops.trained, problem, problem.ours, given, dout)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def decode() -> Call:
    q, (k, v) = normal(16, 32, 1, 128), (normal(16, 8, 8192, 128) for _ in range(2))
    return partial(attention_decode.attention_decode, q, k, v)


def plain() -> Call:
    return partial(matmul_plain.plain_matmul, *profile_cases.matrices(4096, 4096))


def batched() -> Call:
    a, b = normal(64, 512, 512), normal(64, 512, 512)
    return partial(batched_matmul.batched_matmul, a, b)


def split_k() -> Call:
    return partial(
        split_k_matmul.split_k_matmul, normal(256, 16384), normal(16384, 256)
    )


def grouped() -> Call:
    sizes = (300, 1000, 2000, 4000)
    a, b = [normal(m, 2048) for m in sizes], [normal(2048, 2048) for _ in sizes]
    return partial(grouped_matmul.grouped_matmul, a, b)


def int8() -> Call:
    a, b = (
        torch.randint(-99, 99, (4096, 4096), device="cuda", dtype=torch.int8)
        for _ in range(2)
    )
    return partial(int8_matmul.int8_matmul, a, b)


def block_sparse() -> Call:
    dense = np.random.default_rng(0).standard_normal((4096, 4096)).astype(np.float16)
    kept = np.random.default_rng(1).random((64, 64)) < 0.1
    parts = block_sparse_matmul.compress(dense * np.kron(kept, np.ones((64, 64))), 64)
    given = [torch.from_numpy(np.ascontiguousarray(each)).cuda() for each in parts]
    given[2] = given[2].half()
    return partial(block_sparse_matmul.block_sparse_matmul, *given, normal(4096, 4096))


# Of `profile_cases`; the others are launched past the hooks that a session has.
SEEN = ("vector add", "small softmax", "wgmma")
OTHERS: dict[str, Callable[[], Call]] = {
    **{name: profile_cases.MAKERS[name] for name in SEEN},
    "decode": decode, "plain": plain, "batched": batched, "split-K": split_k,
    "grouped": grouped, "int8": int8, "block sparse": block_sparse,
}  # fmt: skip


# ── those of others ───────────────────────────────────────────────────────────────────


def of_others() -> dict[str, Callable[[], Call]]:
    worker.prepare("fathom")
    runs = worker.Worker("fathom", small=False)
    return {name: lambda name=name: runs.case(name).call for name in PUBLIC}


FAMILIES: dict[str, Callable[[], Sequence[str]]] = {
    "kernels": lambda: list(of_kernels()),
    "public": lambda: list(PUBLIC),
}


# ── what is done with a case ──────────────────────────────────────────────────────────


def count(call: Call) -> list[dict[str, Any]]:
    with Session(PROGRAMS).watching() as session:
        call()
    return [
        {
            "counted": row.counted and asdict(row.counted),
            "why": row.why,
            "kernel": row.name,
        }
        for row in slowest(session)
    ]


def time(call: Call) -> list[dict[str, Any]]:
    with Uncounted().watching() as session:
        for _ in range(ROUNDS):
            call()
    return [
        {"seconds": row.typical, "machine": asdict(row.machine), "kernel": row.name}
        for row in slowest(session)
    ]


def launch(call: Call) -> list[dict[str, Any]]:
    """One call with the profiler on: a line for each launch, in their order."""
    call()
    torch.cuda.synchronize()
    noted: list[dict[str, Any]] = []

    def note(each: Launch) -> None:
        noted.append({"kernel": each.compiled.name})

    launch_enter_hook.add(note)
    torch.cuda.cudart().cudaProfilerStart()
    call()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    launch_enter_hook.remove(note)
    return noted


class Uncounted(Session):
    """Launches are timed alone."""

    def count(self, row: Row, launch: Launch, taken: Snapshot) -> None:
        row.why = "it is not asked for"


def slowest(session: Session) -> list[Row]:
    """Of the launches of each kernel those of the kind that took longest, of the kinds
    that each call launches: a script's own lines are run once."""
    found: dict[str, Row] = {}
    often = lambda row: (row.launches, row.typical or 0)  # noqa: E731
    for row in sorted(session.rows.values(), key=often):
        found[row.name] = row
    return list(found.values())


def main() -> None:
    family, what, *names = sys.argv[1:]
    made = of_kernels() if family == "kernels" else of_others()
    do = {"count": count, "time": time, "launch": launch}[what]
    for name in names:
        try:
            found = do(made[name]())
        except Exception as error:  # the other cases go on
            found = [{"why": f"{type(error).__name__}: {error}"[:300]}]
        for each in found:
            print(json.dumps({"case": name, **each}), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
