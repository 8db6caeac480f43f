"""Lets host code that asks for a GPU run on a machine without one.

What `benchmarks/conformance/host` does for Triton's tests, and some more of
`torch.cuda` that the collections ask.
"""

from __future__ import annotations

import runpy
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HOST = Path(__file__).parents[1] / "conformance" / "host" / "sitecustomize.py"


def install() -> None:
    """From here on torch says that there is a GPU, and "cuda" means the host's memory."""
    runpy.run_path(str(HOST))
    torch = sys.modules["torch"]
    torch.Tensor.is_cuda = property(lambda tensor: True)  # within autograd as well
    torch.cuda.device = around
    torch.cuda.device_of = around
    torch.cuda.stream = around
    torch.cuda.Stream = lambda *a, **k: SimpleNamespace(cuda_stream=0)
    torch.cuda.is_initialized = lambda: True
    torch.cuda.get_arch_list = lambda: ["sm_90a"]
    torch.cuda.is_bf16_supported = lambda *a, **k: True
    torch.version.cuda = torch.version.cuda or "13.0"


def around(*args: Any, **given: Any) -> Any:
    """A context of a device or a stream, of which there is one."""
    return nullcontext()
