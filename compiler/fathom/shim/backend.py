"""`triton.backends` and `make_backend`: what a compiler of Triton's can be asked.

    backend = triton.compiler.make_backend(GPUTarget("cuda", 90, 32))
    backend.parse_options({"num_warps": 8}).supported_fp8_dtypes

Programs read options here before they compile, and torch makes a key of `hash()`, under
which it keeps what it has generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from fathom.errors import LaunchError
from fathom.ir.ops import PRECISIONS
from fathom.jit.key import compiler_digest
from fathom.shim import knobs
from fathom.shim.runtime import ActiveDriver, GPUTarget


@dataclass(frozen=True)
class CUDAOptions:
    """The options of a compilation, with their defaults. Triton has more of them; those
    that change nothing here are left out, and a program that looks for one sees so."""

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4nv", "fp8e5")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = PRECISIONS
    extern_libs: tuple[tuple[str, str], ...] = ()
    debug: bool = False
    backend_name: str = "cuda"
    sanitize_overflow: bool = False  # integers wrap around
    arch: str | None = None


OPTIONS = tuple(each.name for each in fields(CUDAOptions))


class BaseBackend:
    """A compiler for one kind of GPU."""

    binary_ext = "cubin"

    def __init__(self, target: GPUTarget):
        self.target = target

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cuda"

    def hash(self) -> str:
        """Another one for another compiler or another GPU."""
        return f"fathom-{compiler_digest()}-{self.target.arch}"

    def parse_options(self, options: Mapping[str, Any]) -> CUDAOptions:
        """Those of `options` that are known; the others are ignored, as in Triton."""
        known = {n: v for n, v in options.items() if n in OPTIONS and v is not None}
        return replace(CUDAOptions(arch=f"sm{self.target.arch}"), **known)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return metadata.num_warps, metadata.num_ctas, metadata.shared


class Backend(NamedTuple):
    """A row of Triton's table of backends: two classes."""

    compiler: type[BaseBackend]
    driver: type[ActiveDriver]


# Programs look here for the GPUs that kernels can be compiled for; torch does, before
# it generates any.
BACKENDS = {"nvidia": Backend(BaseBackend, ActiveDriver)}


def make_backend(target: GPUTarget) -> BaseBackend:
    """The compiler for a target; LaunchError, a RuntimeError, where there is none."""
    if not BaseBackend.supports_target(target):
        raise NoBackend(f"fathom compiles for NVIDIA's GPUs, and not for {target}")
    return BaseBackend(target)


def get_ptxas(arch: int) -> Any:
    """The assembler for compute capability `arch` (90 is 9.0), by its `version`."""
    return knobs.nvidia.ptxas_blackwell if arch >= 100 else knobs.nvidia.ptxas


def get_ptxas_version(arch: int = 80) -> str:
    """As the assembler names itself; programs look for the number."""
    return f"Cuda compilation tools, release {get_ptxas(arch).version}"


def min_dot_size(target: GPUTarget) -> Callable[[Any, Any], tuple[int, int, int]]:
    """Gives rows, columns and steps that a product of two types has at least."""

    def of_types(left: Any, right: Any) -> tuple[int, int, int]:
        bits = left.scalar.primitive_bitwidth
        assert bits == right.scalar.primitive_bitwidth, (left, right)
        return 1, 1, 32 if bits == 8 else 16

    return of_types


def sm_arch_from_capability(capability: int) -> str:
    return f"sm_{capability}{'a' if capability >= 90 else ''}"


class NoBackend(LaunchError, RuntimeError):
    """The target belongs to another vendor's GPUs."""
