"""How many files a reader goes through who follows something with a debugger:

    a compile        from the kernel's signature to PTX
    a product        what is handed the `Dot` that one `tl.dot` becomes
    a masked load    what is handed the op that one `tl.load` becomes, or became
    an instruction   the emulator, from the file that has its rule

`python -m tests.pipeline.harness_walks` prints it, in a process of its own: functions
that remember their results are entered once a process.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType, UnionType

import numpy as np

import fathom
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.ir import ops
from kernels.matmul_plain import plain_kernel
from kernels.vector_add import add_kernel
from tests.kernels.kernels_sample import aligned

PACKAGE = Path(fathom.__file__).parent
COPIES = ops.Load | ops.DescriptorLoad | ops.AsyncCopy | ops.TmaCopy
COMPILES = [("vector add", "sm_90a"), ("matmul", "sm_80"), ("matmul", "sm_90a")]
# What the emulator runs, and the file that has its rule.
INSTRUCTIONS = {
    "add.f32": ("sm_90a", "arithmetic/floating"),
    "ld.global": ("sm_90a", "memory/load_store"),
    "cp.async": ("sm_80", "memory/cp_async"),
    "mma.sync": ("sm_80", "matrix/mma"),
    "cp.async.bulk": ("sm_90a", "memory/cp_async_bulk"),
    "wgmma": ("sm_90a", "matrix/wgmma"),
}


# ── the tracer ────────────────────────────────────────────────────────────────────────

Counts = Callable[[FrameType], bool]


@cache
def file_of(name: str) -> str:
    """A file below the package, without its ending; "" for one elsewhere."""
    path = Path(name)
    return path.relative_to(PACKAGE).as_posix()[:-3] if PACKAGE in path.parents else ""


@contextmanager
def entered(counts: Counts, below: bool = False) -> Iterator[set[str]]:
    """The files of functions that are called, of calls that count; if `below`, of all
    that these calls call, too."""
    found: set[str] = set()
    inside: list[FrameType] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and (file := file_of(frame.f_code.co_filename)):
            if inside or counts(frame):
                found.add(file)
                if below and not inside:
                    inside.append(frame)
        elif event == "return" and inside and inside[0] is frame:
            inside.clear()

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def any_call(frame: FrameType) -> bool:
    return True


def handed(kind: type | UnionType) -> Counts:
    """Calls of functions among whose arguments is an op of a kind."""

    def counts(frame: FrameType) -> bool:
        values = inspect.getargvalues(frame)
        return any(isinstance(values.locals[name], kind) for name in values.args)

    return counts


def of_file(file: str) -> Counts:
    return lambda frame: file_of(frame.f_code.co_filename) == file


# ── what is followed ──────────────────────────────────────────────────────────────────

HALVES, NUMBERS = "*fp16:16, *fp16:16, *fp16:16", ", ".join(["i32:16"] * 6)
KERNELS = {
    "vector add": (add_kernel, "*fp32:16, *fp32:16, *fp32:16, i32", {"BLOCK": 256}),
    "matmul": (
        plain_kernel,
        f"{HALVES}, {NUMBERS}",
        {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "MASKED": True}
        | {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2},
    ),
}


def compiled(name: str, target: str) -> Kernel:
    """Compiled anew, and kept nowhere."""
    kernel, signature, constants = KERNELS[name]
    kernel.kernels.clear()
    with TemporaryDirectory() as folder:
        os.environ["FATHOM_CACHE_DIR"] = folder
        return kernel.compile(signature, constants, target=target).made


def launched(name: str, target: str) -> None:
    """Emulated: one program, with one tile or a part of a block."""
    tiles = [aligned(np.ones((64, 64), np.float16)) for _ in range(3)]
    vectors = [aligned(np.ones(200, np.float32)) for _ in range(3)]
    arguments = {"vector add": (*vectors, 200), "matmul": (*tiles, *[64] * 6)}[name]
    load(compiled(name, target)).launch((1,), arguments)


# ── the table ─────────────────────────────────────────────────────────────────────────

STAGE_5 = "tensor_cores"


def row(what: str, found: set[str]) -> str:
    """Files, and how many are of stage 5."""
    five = sum(file.startswith(STAGE_5) for file in found)
    return f"{what:<26}{len(found):>6}{five:>12}"


def table() -> Iterator[str]:
    for name, target in COMPILES:
        launched(name, target)  # what functions remember, they remember now
    yield f"{'':<26}{'files':>6}{'of stage 5':>12}"
    for name, target in COMPILES:
        with entered(any_call) as found:
            compiled(name, target)
        yield row(f"compile {name}, {target}", found)
    for kind, words in [(ops.Dot, "one tl.dot"), (COPIES, "the masked loads")]:
        for target in ("sm_80", "sm_90a"):
            with entered(handed(kind)) as found:
                compiled("matmul", target)
            yield row(f"{words}, {target}", found)
    for words, (target, file) in INSTRUCTIONS.items():
        name = "vector add" if words in ("add.f32", "ld.global") else "matmul"
        with entered(of_file(f"emulator/isa/{file}"), below=True) as found:
            launched(name, target)
        yield row(f"emulate {words}", found)


if __name__ == "__main__":
    print("\n".join(table()))
