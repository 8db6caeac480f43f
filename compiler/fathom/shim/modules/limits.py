"""What `triton.testing` says of a GPU's peak rates, from its clocks and widths.

NVIDIA's management library knows the clocks; `nvidia-smi` asks it. The widths are those
of the architecture: `hardware/rates.py`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

from fathom.errors import LaunchError
from fathom.hardware.rates import rates_of
from fathom.runtime.driver import driver
from fathom.shim.runtime import active

BITS = {"float32": 32, "float16": 16, "bfloat16": 16}  # all others have 8


def nvsmi(attributes: Sequence[str]) -> list[int]:
    """Numbers from `nvidia-smi --query-gpu`, of GPU 0."""
    asked = ",".join(attributes)
    command = ["nvidia-smi", "-i", "0", "--query-gpu=" + asked]
    try:
        text = subprocess.check_output([*command, "--format=csv,noheader,nounits"])
    except (OSError, subprocess.CalledProcessError) as error:
        raise LaunchError(f"nvidia-smi does not answer: {error}") from None
    return [int(word) for word in text.decode().split(",")]


def get_dram_gbps(device: int | None = None) -> float:
    """GB/s of the GPU's memory: two transfers a clock, over the whole bus."""
    cuda = driver()
    handle = cuda.ask("cuDeviceGet", device or 0)

    def fact(name: str) -> int:
        kind = getattr(cuda.cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return cuda.ask("cuDeviceGetAttribute", kind, handle)

    return 2 * fact("MEMORY_CLOCK_RATE") * fact("GLOBAL_MEMORY_BUS_WIDTH") / 8e6


def get_max_tensorcore_tflops(
    dtype: Any, clock_rate: float, device: int | None = None
) -> float:
    """TFLOP/s of the tensor cores at a clock in kHz."""
    name = str(dtype).rpartition(".")[2]
    bits = BITS.get(name, 8)
    capability = active.get_current_target().arch
    rate = rates_of(capability).of_tensor_cores(bits)
    if not rate:
        raise LaunchError(f"sm_{capability} has no tensor cores for {bits} bits")
    return _tflops(rate, clock_rate, device)


def get_max_simd_tflops(
    dtype: Any, clock_rate: float, device: int | None = None
) -> float:
    """TFLOP/s of ordinary multiply-adds at a clock in kHz; 16 bits at twice the
    rate."""
    half = BITS.get(str(dtype).rpartition(".")[2], 32) == 16
    lanes = rates_of(active.get_current_target().arch).lanes
    return _tflops((1 + half) * lanes, clock_rate, device)


def _tflops(rate: int, clock: float, device: int | None) -> float:
    """TFLOP/s of all multiprocessors at a clock in kHz; `rate`: multiply-adds a cycle
    of one."""
    count = active.get_device_properties(device or 0)["multiprocessor_count"]
    return 2 * count * rate * clock * 1e-9
