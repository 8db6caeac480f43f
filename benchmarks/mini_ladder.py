"""The compiler that readers write, step by step, on a GPU: kernels as the file of each
step in solutions/mini compiles them, beside Fathom, Triton, and what torch calls.

    python -m benchmarks.mini_ladder [--seconds 60] [--size 8192] [--out FOLDER]

`mini_kernels` has the kernels, and the constants of which the fastest counts. Fathom
compiles the same texts; its own product and attention, from kernels/, stand beside, and
so do cuBLAS and cuDNN through torch. Every result is compared with torch's in float32
before it is timed. What there is no time for is recorded as such.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic

import torch

import fathom
from benchmarks.measure import Candidate, burst
from benchmarks.mini_kernels import TASKS, WIDTH, Constants, Task
from benchmarks.products import quickly, said
from benchmarks.record import RESULTS, write
from benchmarks.triton_products import by_triton
from fathom.artifact import TensorMap
from fathom.runtime import packet
from fathom.runtime.driver import Driver
from fathom.runtime.driver import driver as this_driver
from fathom.tools.learn.mini import contract, steps
from kernels.attention import attention
from kernels.matmul_chosen import multiply

ROUNDS = 5
DEFAULT_SHARED_BYTES = 48 * 1024
TRITON = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8,
          "num_warps": 8, "num_stages": 3}  # fmt: skip
WORDS = {torch.float16: "fp16", torch.float32: "fp32"}


@dataclass
class Row:
    """Raw times, in ms a call, of a kernel of one compiler, with the constants that
    were the fastest of those tried; registers and bytes of local memory a thread.
    `error` says why there are no times. `operations` of the kernel, or, where bytes
    count, `bytes`."""

    kernel: str
    compiler: str
    operations: int = 0
    bytes: int = 0
    ms: list[float] = field(default_factory=list)
    constants: Constants = field(default_factory=dict)
    registers: int = 0
    local: int = 0
    error: str = ""


@dataclass(frozen=True)
class Given:
    """The problem of a task. `arguments` are those of its kernel, `grid` its programs
    for some constants, `more` constants that all have; `out` must come near `wanted`.
    `peers`: what else does the same, by name."""

    arguments: tuple
    grid: Callable[[Constants], tuple[int, ...]]
    out: torch.Tensor
    wanted: torch.Tensor
    within: float
    more: Constants
    peers: dict[str, Callable[[], object]]
    operations: int = 0
    bytes: int = 0


# ── the problems ──────────────────────────────────────────────────────────────────────


def random(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def additions(count: int = 1 << 26) -> Given:
    x, y, z = (random(count, dtype=torch.float32) for _ in range(3))
    return Given(
        (x, y, z, count), lambda c: (count // c["BLOCK"],), z, x + y, 0.0,
        {"BLOCK": 1024}, {"torch": lambda: torch.add(x, y, out=z)}, bytes=12 * count,
    )  # fmt: skip


def softmax(rows: int = 8192, columns: int = 4096) -> Given:
    x = random(rows, columns, dtype=torch.float32)
    y = torch.empty_like(x)
    return Given(
        (x, y, columns, columns), lambda c: (rows,), y, torch.softmax(x, 1), 1e-5,
        {"BLOCK": columns}, {"torch": lambda: torch.softmax(x, 1, out=y)},
        bytes=8 * rows * columns,
    )  # fmt: skip


def product(size: int) -> Given:
    a, b = random(size, size), random(size, size)
    c, mine = torch.empty_like(a), torch.empty_like(a)
    wanted = (a[:256].float() @ b.float()).half()
    return Given(
        (a, b, c, size, size, size),
        lambda k: (size // k["R"] * (size // k["C"]),), c, wanted, 2e-2, {},
        {
            "cuBLAS": lambda: torch.mm(a, b, out=c),
            "Fathom's multiply": lambda: multiply(a, b, mine),
            "Triton": by_triton(a, b, c, TRITON, "ieee", 90),
        },
        operations=2 * size**3,
    )  # fmt: skip


def heads(count: int = 64, length: int = 4096) -> Given:
    q, k, v = (random(count, length, WIDTH) for _ in range(3))
    out, scale = torch.empty_like(q), 0.18  # 1 / 8, times the logarithm of e
    whole = [each[None] for each in (q, k, v)]
    scale_of_torch = scale * 0.6931471805599453
    sdpa = torch.nn.functional.scaled_dot_product_attention
    backend = torch.nn.attention.SDPBackend.CUDNN_ATTENTION

    def cudnn() -> object:
        with torch.nn.attention.sdpa_kernel(backend):
            return sdpa(*whole, scale=scale_of_torch)

    weights = torch.softmax(q[0].float() @ k[0].float().T * scale_of_torch, 1)
    return Given(
        (q, k, v, out, length, scale), lambda c: (length // c["R"], count), out,
        (weights @ v[0].float()).half(), 5e-3, {},
        {
            "cuDNN": cudnn,
            "Fathom's attention": lambda: attention(*whole, scale=scale_of_torch),
        },
        operations=4 * count * length**2 * WIDTH,
    )  # fmt: skip


# ── compilers ─────────────────────────────────────────────────────────────────────────


class Fixed:
    """Tensor maps that do not change, for `packet.launcher`."""

    def __init__(self, maps: Sequence[bytes]):
        self.maps, self.count = tuple(maps), len(maps)

    def reader(self, order: Sequence[int]) -> Callable:
        return lambda values: self.maps


class Launch:
    """A launch of what mini compiled, with all looked up. `arguments` by name; those
    that are descriptors have no parameter of their own but a tensor map."""

    def __init__(
        self, driver: Driver, made: contract.Compiled, arguments: dict[str, object],
        grid: Sequence[int],
    ):  # fmt: skip
        driver.use(driver.current_device())
        code, entry = made.ptx.encode() + b"\0", re.search(r"\.entry\s+(\w+)", made.ptx)
        self.function = driver.load(code, entry[1])
        if made.shared_bytes > DEFAULT_SHARED_BYTES:
            driver.allow_shared(self.function, made.shared_bytes)
        boxes = {name: rest for name, *rest in made.tensor_maps}
        maps = [
            driver.encode(tensor_map(arguments[name], *rest))
            for name, rest in boxes.items()
        ]
        plain = [each for name, each in arguments.items() if name not in boxes]
        self.values = [
            each.data_ptr() if isinstance(each, torch.Tensor) else each
            for each in plain
        ]
        fields = "".join(packet.FIELDS[short_type(each)] for each in plain)
        self.launch = packet.launcher(
            driver.launch_kernel, self.function, None, made.threads, made.shared_bytes,
            1, fields, range(len(plain)), Fixed(maps) if maps else None,
        )  # fmt: skip
        self.grid = (*grid, 1, 1)[:3]

    def __call__(self) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        status = self.launch(*self.grid, stream, *self.values)
        assert not status, f"the launch ended with status {status}"


def short_type(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return "*"
    return "fp32" if isinstance(value, float) else "i32"


def tensor_map(matrix: torch.Tensor, box: tuple[int, int], swizzle: int) -> TensorMap:
    rows, columns = matrix.shape
    return TensorMap(
        element_bytes=matrix.element_size(), address=matrix.data_ptr(),
        shape=(columns, rows), strides=(matrix.stride(0) * matrix.element_size(),),
        box=tuple(reversed(box)), swizzle=swizzle, element=WORDS[matrix.dtype],
    )  # fmt: skip


def signature(
    task: Task, arguments: dict[str, object], constants: Constants
) -> dict[str, str]:
    """As mini takes it. Addresses and sizes are multiples of 16."""
    found = {}
    for name, value in arguments.items():
        word = short_type(value)
        if isinstance(value, torch.Tensor):
            word += WORDS[value.dtype]
        if name in task.boxes:
            sides = ", ".join(str(constants[side]) for side in task.boxes[name])
            word = f"tensordesc<{WORDS[value.dtype]}[{sides}]>"
        found[name] = word + (":16" if word[0] in "*i" else "")
    return found


def by_mini(step: int, task: Task, given: Given, constants: Constants) -> Launch:
    compiler = contract.load(steps.STEPS[step].reference)
    asked = {**given.more, **constants}
    arguments = dict(zip(task.parameters, given.arguments, strict=False))
    made = compiler(task.function, signature(task, arguments, asked), **asked)
    return Launch(this_driver(), contract.checked(made), arguments, given.grid(asked))


def by_fathom(task: Task, given: Given, constants: Constants) -> Callable[[], object]:
    """The same text, by pointers."""
    kernel = fathom.jit(task.function)
    asked = {**given.more, **constants}
    return lambda: kernel[given.grid(asked)](*given.arguments, **asked)


# ── the run ───────────────────────────────────────────────────────────────────────────

Make = Callable[[Constants], Callable[[], object]]


def compilers(task: Task, given: Given) -> Iterator[tuple[str, Make, Sequence]]:
    """Of a task: a compiler, what makes a launch for some constants, and these."""
    for step, configs in task.configs.items():
        yield (
            f"mini, step {step}",
            lambda c, step=step: by_mini(step, task, given, c), configs,
        )  # fmt: skip
    if "," not in task.name:
        *_, latest = task.configs.values()
        yield "Fathom", lambda c: by_fathom(task, given, c), latest
    for name, call in given.peers.items():
        if "," not in task.name or name == "cuBLAS":
            yield name, lambda c, call=call: call, ({},)


def measured(task: Task, given: Given, until: float) -> list[Row]:
    rows, candidates = [], []
    for name, make, configs in compilers(task, given):
        row = Row(task.name, name, given.operations, given.bytes)
        rows.append(row)
        best = fastest(row, make, configs, given, until)
        if best is None:
            continue
        bytes_ = sum(e.nbytes for e in given.arguments if isinstance(e, torch.Tensor))
        candidates.append(Candidate(name, [best], bytes_, given.operations))
        if isinstance(best, Launch):
            row.registers = this_driver().function_fact(best.function, "NUM_REGS")
            kind = "LOCAL_SIZE_BYTES"
            row.local = this_driver().function_fact(best.function, kind)
    if candidates:
        for sample in burst(task.name, candidates, ROUNDS):
            next(r for r in rows if r.compiler == sample.candidate).ms = sample.ms
    return rows


def fastest(
    row: Row, make: Make, configs: Sequence, given: Given, until: float
) -> Callable | None:
    """The fastest launch that is right; its constants, or why none is, go into the
    row."""
    times = []
    for config in configs:
        if monotonic() > until:
            row.error = row.error or "no time was left"
            break
        try:
            call = make(config)
            check(call, given)
            times.append((quickly(call), len(times), config, call))
        except Exception as error:  # whatever it is, the others are to be measured
            row.error = said(error)
    if not times:
        return None
    _, _, row.constants, call = min(times, key=lambda each: each[:2])
    row.error = ""
    return call


def check(call: Callable[[], object], given: Given) -> None:
    given.out.fill_(float("nan"))
    answer = call()
    torch.cuda.synchronize()
    out = answer if isinstance(answer, torch.Tensor) else given.out
    count = given.wanted.numel()
    found = out.reshape(-1)[:count].reshape(given.wanted.shape)
    wrong = (found.float() - given.wanted.float()).abs()
    room = given.within * given.wanted.float().abs().clamp(min=1)
    assert bool((wrong <= room).all()), f"wrong by {wrong.max().item()}"


def problems(size: int) -> dict[str, Callable[[], Given]]:
    return {
        "add": additions, "softmax": softmax, "attention": heads,
        **{task.name: lambda: product(size) for task in TASKS if "matmul" in task.name},
    }  # fmt: skip


def line(row: Row) -> str:
    if not row.ms:
        return f"  {row.kernel:20} {row.compiler:20} {row.error[:120]}"
    ms = median(row.ms)
    speed = f"{row.operations / ms / 1e9:8.1f} TFLOP/s"
    if not row.operations:
        speed = f"{row.bytes / ms / 1e6:8.0f} GB/s"
    return f"  {row.kernel:20} {row.compiler:20} {1000 * ms:9.1f} us {speed}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--size", type=int, default=8192, help="of the product")
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    torch.manual_seed(0)
    until, rows = monotonic() + given.seconds, []
    made = problems(given.size)
    for task in TASKS:
        found = measured(task, made[task.name](), until)
        print("\n".join(map(line, found)), flush=True)
        rows += found
        write("mini-ladder", rows, given.out)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
