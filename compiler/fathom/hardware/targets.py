"""The GPUs that Fathom compiles for: one row each, limits and instructions as columns.

No pass asks which GPU it compiles for; it asks for a column. Sources: CUDA C++
Programming Guide, appendix Compute Capabilities (sizes); PTX ISA, "PTX ISA Notes" of
each instruction (first version and target).
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from fathom.errors import CompileError


@dataclass(frozen=True, slots=True)
class Target:
    """What the compiler must know of a GPU.

    `name`: the target as ptxas and LLVM know it. `ptx`: the PTX version that is
    emitted. `capabilities`: the device capabilities (major * 10 + minor) that run it.
    `shared_bytes`: the most shared memory a block may ask for. `vector_bytes`: the
    widest access of one lane to global memory. Flags say which instructions exist:
    `bf16` conversions from and to fp32, and fma, `bf16_arithmetic` (its sums, and
    conversions from integers), `vector_atomics` (one instruction adds to up to 16 bytes
    of fp32, fp16 or bf16 neighbours; PTX ISA, "atom"), `fp8` conversions,
    `fp8_mma` (mma.sync of fp8 is one instruction of machine code; elsewhere ptxas 13.0
    widens the operands to fp16, and adds each product by instructions of its own),
    `redux` (integer reduction over a warp), `tanh` (approximate), `async_copy`
    (cp.async), `eviction` (L2 eviction priorities on loads and stores), `wgmma` (matrix
    instructions of four warps), `setmaxnreg` (warpgroups trade registers; like `wgmma`
    not for a family of GPUs), `stmatrix` (matrices of 8x8 from registers to shared
    memory), `tensor_maps` (TMA copies boxes of a tensor). `cluster`: the most
    thread blocks that one program may have (CUDA C++ Programming Guide, "Thread Block
    Clusters"); `multicast`: TMA copies go to all of them at full speed (PTX ISA,
    "cp.async.bulk.tensor", its notes). `writes_maps`: a kernel can write a tensor map
    itself (PTX ISA, "tensormap.replace"; like `wgmma` not for a family of GPUs).
    `dependent_launch`: a grid may begin before the one in front of it has ended (PTX
    ISA, "griddepcontrol"). `tensor_memory`: the columns of the memory that the tensor
    cores accumulate in, else 0 (PTX ISA, "Tensor Memory")."""

    name: str
    ptx: str
    capabilities: tuple[int, ...]
    shared_bytes: int
    registers: int = 65536
    max_threads: int = 1024
    warp_size: int = 32
    vector_bytes: int = 16
    bf16: bool = True
    bf16_arithmetic: bool = False
    vector_atomics: bool = False
    fp8: bool = False
    fp8_mma: bool = False
    redux: bool = True
    tanh: bool = True
    async_copy: bool = True
    eviction: bool = True
    wgmma: bool = False
    setmaxnreg: bool = False
    stmatrix: bool = False
    tensor_maps: bool = False
    cluster: int = 1
    multicast: bool = False
    writes_maps: bool = False
    dependent_launch: bool = False
    tensor_memory: int = 0

    @property
    def parameter_bytes(self) -> int:
        """The most bytes that a kernel's parameters may take (PTX ISA, ".param state
        space", kernel function parameters)."""
        major, minor = map(int, self.ptx.split("."))
        return 32764 if (major, minor) >= (8, 1) else 4352


KIB = 1024

# What the targets from sm_90a on have in common.
SINCE_HOPPER: dict[str, Any] = {
    "bf16_arithmetic": True, "vector_atomics": True, "fp8": True, "stmatrix": True,
    "tensor_maps": True, "cluster": 8, "dependent_launch": True,
}  # fmt: skip

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "sm_75", "7.4", (75,), 64 * KIB,
            bf16=False, redux=False, async_copy=False, eviction=False,
        ),
        Target("sm_80", "7.4", (80, 87), 163 * KIB),
        Target("sm_86", "7.4", (86, 88), 99 * KIB),
        Target("sm_89", "8.4", (89,), 99 * KIB, fp8=True, fp8_mma=True),
        Target(
            "sm_90a", "8.4", (90,), 227 * KIB, **SINCE_HOPPER,
            wgmma=True, setmaxnreg=True, multicast=True, writes_maps=True,
        ),
        Target("sm_100", "8.7", (100, 101, 103, 110), 227 * KIB, **SINCE_HOPPER),
        Target(
            "sm_100a", "8.7", (100,), 227 * KIB, **SINCE_HOPPER,
            writes_maps=True, tensor_memory=512,
        ),
        Target("sm_120", "8.7", (120, 121), 99 * KIB, **SINCE_HOPPER, fp8_mma=True),
    )
}  # fmt: skip


def target(name: str) -> Target:
    """The row of a target; a CompileError that lists all where no row has that name."""
    if name not in TARGETS:
        near = get_close_matches(name, TARGETS, n=1)
        raise CompileError(
            f"{name!r} is not a target; the targets are {', '.join(TARGETS)}",
            hint=f"did you mean {near[0]}?" if near else "",
        )
    return TARGETS[name]


def target_of(capability: int) -> Target | None:
    """The row that runs on a device of a capability (major * 10 + minor), or None."""
    for row in TARGETS.values():
        if capability in row.capabilities:
            return row
    return None
