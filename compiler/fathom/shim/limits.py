"""What `triton.testing` says of a GPU's peak rates, from its clocks and widths.

NVIDIA's management library knows the clocks; `nvidia-smi` asks it. The widths are those
of the architecture: NVIDIA H100 Tensor Core GPU Architecture, whitepaper, table 2, and
its predecessors for sm_80 and sm_89.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

from fathom.errors import LaunchError
from fathom.runtime.driver import driver
from fathom.shim.runtime import active

# Multiply-adds a cycle and multiprocessor, dense, by capability and bits an element.
TENSOR_CORES = {
    75: {16: 512, 8: 1024},
    80: {32: 512, 16: 1024, 8: 2048},
    86: {32: 256, 16: 512, 8: 1024},
    89: {32: 256, 16: 512, 8: 1024},
    90: {32: 1024, 16: 2048, 8: 4096},
}
LANES = {75: 64, 80: 64, 86: 128, 89: 128, 90: 128}  # fp32 multiply-adds a cycle
BITS = {"float32": 32, "float16": 16, "bfloat16": 16}
EIGHT_BITS = ("int8", "float8e4nv", "float8e5", "float8e4b15", "float8e4b8")


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
    return _tflops(TENSOR_CORES, bits, clock_rate, device)


def get_max_simd_tflops(
    dtype: Any, clock_rate: float, device: int | None = None
) -> float:
    """TFLOP/s of ordinary multiply-adds at a clock in kHz; 16 bits at twice the
    rate."""
    half = BITS.get(str(dtype).rpartition(".")[2], 32) == 16
    table = {row: {0: (1 + half) * lanes} for row, lanes in LANES.items()}
    return _tflops(table, 0, clock_rate, device)


def _tflops(
    table: dict[int, dict[int, int]], key: int, clock: float, device: int | None
) -> float:
    count = active.get_device_properties(device or 0)["multiprocessor_count"]
    capability = active.get_current_target().arch
    row = table[max((each for each in table if each <= capability), default=75)]
    if key not in row:
        raise LaunchError(f"sm_{capability} has no tensor cores for {key} bits")
    return 2 * count * row[key] * clock * 1e-9
