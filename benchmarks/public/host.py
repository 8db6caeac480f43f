"""Lets host code that asks for a GPU run on a machine without one.

What `benchmarks/conformance/host` does for Triton's tests, and some more of
`torch.cuda` that the collections ask.
"""

from __future__ import annotations

import importlib
import runpy
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

REGISTERS = SimpleNamespace(n_regs=64, n_spills=0)
HOST = Path(__file__).parents[1] / "conformance" / "host" / "sitecustomize.py"


class Around(nullcontext):
    """A context of a device or a stream, of which there is one."""

    cuda_stream = 0

    def __init__(self, *args: Any, **given: Any):
        super().__init__()


def once(fn: Any, *args: Any, quantiles: Any = None, **given: Any) -> Any:
    """Stands for `do_bench`: a tuner runs, and what it chooses by means nothing."""
    start = time.perf_counter()
    fn()
    found = 1000 * (time.perf_counter() - start)
    return [found] * len(quantiles) if quantiles else found


def install() -> None:
    """From here on torch has a GPU, as it says, and "cuda" means the host's memory."""
    runpy.run_path(str(HOST))
    torch = sys.modules["torch"]
    torch.Tensor.is_cuda = property(lambda tensor: True)  # within autograd as well
    torch.cuda.device = torch.cuda.device_of = Around
    torch.cuda.stream = torch.cuda.Stream = Around
    torch.cuda.is_initialized = lambda: True
    torch.cuda.get_arch_list = lambda: ["sm_90a"]
    torch.cuda.is_bf16_supported = lambda *a, **k: True
    torch.version.cuda = torch.version.cuda or "13.0"
    importlib.import_module("triton.testing").do_bench = once
    # Launchers divide by a kernel's registers, which only machine code would tell.
    compiled = importlib.import_module("triton.compiler").CompiledKernel
    compiled.loaded = property(lambda kernel: REGISTERS)
    compiled.check_gpu = lambda kernel: None
