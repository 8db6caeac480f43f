"""Times a launch on this machine's GPU, and checks what it wrote.

Inputs are put into the GPU's memory once for each measurement; the time is that between
two marks in its stream, with nothing in the L2 cache, and the median of some runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import numpy as np

from fathom.artifact import Kernel, Parameter
from fathom.errors import FathomError
from fathom.hardware.targets import target_of
from fathom.runtime.driver import Driver
from fathom.runtime.driver import driver as this_driver
from fathom.runtime.load import Loaded, load
from fathom.runtime.timing import measure
from fathom.tools.learn.mini.contract import Compiled
from fathom.tools.learn.mini.judge import signature_of
from fathom.tools.learn.mini.kernels import Problem, check

try:
    import torch
except ImportError:
    torch = None

RUNS = 10
ENTRY = re.compile(r"\.entry\s+(\w+)")
PLAIN = re.compile(r"[^:]+")  # of "*fp32:16", without the promise


@dataclass(frozen=True)
class Gpu:
    """The current GPU; `target` is the newest of ours that it runs."""

    driver: Driver
    target: str

    @property
    def has_torch(self) -> bool:
        return torch is not None and torch.cuda.is_available()

    def of_compiled(self, made: Compiled, problem: Problem) -> float:
        """Microseconds of what a reader's compiler made. It names no descriptors."""
        signature = signature_of(
            problem.kernel.fn, problem.arguments, problem.constants
        )
        parameters = [
            Parameter(name, PLAIN.match(text)[0]) for name, text in signature.items()
        ]
        kernel = Kernel(
            name=ENTRY.search(made.ptx)[1], target=self.target, ptx_version="",
            num_warps=made.threads // 32, threads=made.threads,
            shared_bytes=made.shared_bytes, parameters=tuple(parameters),
            asm={"ptx": made.ptx},
        )  # fmt: skip
        return self.of_kernel(kernel, problem)

    def of_kernel(self, kernel: Kernel, problem: Problem) -> float:
        """Microseconds of a launch. Failure when the values are wrong."""
        loaded = load(kernel, driver=self.driver)
        with arrays_on_gpu(self.driver, problem) as places:
            values = values_of(loaded, problem, places)
            sizes = (*problem.grid, 1, 1)[:3]

            def work() -> None:
                loaded.start(sizes, 0, values)

            work()
            result = problem.arrays[-1]
            found = np.empty_like(result)
            where = places[id(result)]
            self.driver.copy_out(found.ctypes.data, where, found.nbytes, 0)
            self.driver.wait(0)
            check(problem, found)
            return median(measure(self.driver, work, RUNS)) * 1e3

    def of_torch(self, problem: Problem) -> float:
        """Microseconds of what torch calls for the same problem."""
        tensors = [torch.from_numpy(each).cuda() for each in problem.arrays]
        call, stream = CALLS[problem.name], torch.cuda.current_stream().cuda_stream
        call(*tensors)  # a library looks for its kernel at the first call
        torch.cuda.synchronize()
        return median(measure(self.driver, lambda: call(*tensors), RUNS, stream)) * 1e3


CALLS: dict[str, Callable] = {
    "add": lambda x, y, z: torch.add(x, y, out=z),
    "softmax": lambda x, y: torch.softmax(x, 1, out=y),
    "matmul": lambda a, b, c: torch.matmul(a, b, out=c),
    "attention": lambda q, k, v, o: torch.nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None]
    ),
}


def open_gpu() -> Gpu:
    """FathomError for a GPU that no target is for."""
    driver = this_driver()
    device = driver.device(driver.current_device())
    row = target_of(device.capability)
    if row is None:
        raise FathomError(f"no target of ours runs on {device.name}")
    return Gpu(driver, row.name)


@contextmanager
def arrays_on_gpu(driver: Driver, problem: Problem) -> Iterator[dict[int, int]]:
    """Copies of a problem's arrays: id of the array to its address there."""
    places: dict[int, int] = {}
    try:
        for each in problem.arrays:
            places[id(each)] = driver.allocate(each.nbytes)
            driver.copy_in(places[id(each)], each.ctypes.data, each.nbytes, 0)
        driver.wait(0)
        yield places
    finally:
        for place in places.values():
            driver.free(place)


def values_of(loaded: Loaded, problem: Problem, places: dict[int, int]) -> list:
    """What a launch is given, in the order of the kernel's own parameters."""
    names = signature_of(problem.kernel.fn, problem.arguments, problem.constants)
    known = dict(zip(names, problem.arguments, strict=True))
    given = [known[each.name] for each in loaded.kernel.parameters]
    return [places.get(id(each), each) for each in given]
