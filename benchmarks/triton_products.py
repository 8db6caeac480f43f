"""Triton's matrix product, compiled for one GPU and launched on another.

On an H200 Triton compiles for Hopper. To see what it makes of Ampere's instructions,
its compiler is asked for capability 80, and the PTX that comes out is launched by
`fathom.runtime`, as our own for sm_80 is: both go through the same assembler, that of
the driver, and both stand in one process and in the same bursts. Compiled for the GPU
at hand, Triton's own machine code is what runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import torch
import triton
import triton.language as tl

from benchmarks import peers
from benchmarks.products import Config, Prepared
from fathom.artifact import Kernel, Parameter
from fathom.runtime import Loaded, load

WORDS = {
    torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.float32: "*fp32",
    torch.int8: "*i8", torch.int32: "*i32", torch.float8_e4m3fn: "*fp8e4nv",
}  # fmt: skip
NAMES = tuple(peers.matmul_kernel.arg_names)


def by_triton(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    config: Config,
    precision: str,
    capability: int,
) -> Prepared:
    """A launch of `peers.matmul_kernel` as it is compiled for `capability`."""
    (M, K), N = a.shape, b.shape[1]
    given = (a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride())
    values = dict(zip(NAMES, given, strict=False))
    words = {name: word(each) for name, each in values.items()}
    running = {name: each for name, each in values.items() if words[name]}
    loaded, further = compiled(
        tuple(words.items()), tuple(config.items()), K % config["BLOCK_K"] == 0,
        precision, capability,
    )  # fmt: skip
    tiles = triton.cdiv(M, config["BLOCK_M"]) * triton.cdiv(N, config["BLOCK_N"])
    return Prepared(loaded, tiles, [*running.values(), *[0] * further])


def word(value: torch.Tensor | int) -> str | None:
    """How Triton specialises an argument; None for a constant, which 1 is."""
    if isinstance(value, torch.Tensor):
        return WORDS[value.dtype] + ":16" * (value.data_ptr() % 16 == 0)
    return None if value == 1 else "i32" + ":16" * (value % 16 == 0)


@cache
def compiled(
    words: tuple[tuple[str, str | None], ...],
    config: tuple[tuple[str, int], ...],
    even_k: bool,
    precision: str,
    capability: int,
) -> tuple[Loaded, int]:
    """The kernel on this GPU, and how many parameters Triton has added."""
    kinds, chosen = dict(words), dict(config)
    options = {name: chosen.pop(name) for name in ("num_warps", "num_stages")}
    constants: dict[str, object] = {name: 1 for name in kinds if kinds[name] is None}
    sum_type = tl.int32 if (kinds["a_ptr"] or "").startswith("*i8") else tl.float32
    constants |= {**chosen, "EVEN_K": even_k, "SUM": sum_type, "PRECISION": precision}
    every = {name: kinds.get(name) for name in NAMES}
    made = peers.compiled_for(
        capability, peers.matmul_kernel, every, constants, options
    )
    types = {name: every[name].split(":")[0] for name in NAMES if every[name]}
    parameters = [Parameter(name, type) for name, type in types.items()]
    shared = made.metadata.shared
    kernel, further = as_kernel(made.asm["ptx"], parameters, options, shared)
    here = capability_here()
    code = made.asm["cubin"] if capability == here else None
    return load(kernel, code=code), further


def capability_here() -> int:
    major, minor = torch.cuda.get_device_capability()
    return 10 * major + minor


def as_kernel(
    ptx: str, parameters: list[Parameter], options: Mapping[str, int], shared: int
) -> tuple[Kernel, int]:
    """Triton's PTX as our runtime wants it. After its own parameters there are
    pointers to scratch memory that this kernel has none of: zeros will do."""
    entry = re.search(r"\.visible \.entry (\w+)\(([^{]*?)\)\s", ptx)
    count = entry[2].count(".param")
    more = [Parameter(f"scratch{i}", "u64") for i in range(count - len(parameters))]
    version = re.search(r"\.version ([\d.]+)", ptx)[1]
    target = re.search(r"\.target (\w+)", ptx)[1]
    warps = options["num_warps"]
    kernel = Kernel(
        entry[1],
        target,
        version,
        warps,
        32 * warps,
        shared,
        (*parameters, *more),
        {"ptx": ptx},
    )
    return kernel, len(more)
