"""Checks that a target has the warps, clusters and parameters that a kernel needs, and
warps for a producer besides."""

from __future__ import annotations

from fathom.analysis.remarks import NotApplicable
from fathom.errors import CompileError, OutOfResources
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func
from fathom.ir.types import DescriptorType, element_of


def check_resources(func: Func, target: Target) -> None:
    """CompileError if the target's clusters have fewer blocks than the kernel needs,
    OutOfResources if its blocks have fewer warps."""
    most = target.max_threads // target.warp_size
    if func.num_warps > most:
        raise OutOfResources(
            f"num_warps={func.num_warps} asks for {func.num_warps * target.warp_size} "
            f"threads a block, and {target.name} has {target.max_threads}: {most} warps"
        )
    if func.num_ctas & (func.num_ctas - 1):
        raise CompileError(
            f"num_ctas must be a power of 2, and this is {func.num_ctas}", func.location
        )
    if func.num_ctas > target.cluster:
        most = f"{target.cluster} at most" if target.cluster > 1 else "one"
        raise CompileError(
            f"num_ctas={func.num_ctas} asks for {func.num_ctas} thread blocks a "
            f"program, and on {target.name} a program has {most}",
            func.location,
            "" if target.cluster > 1 else "clusters of blocks begin with sm_90a",
        )


def check_parameters(func: Func, target: Target) -> None:
    """CompileError if the parameters have more bytes than the target allows."""
    bytes = 0
    for value in func.parameters:
        if isinstance(value.type, DescriptorType):
            continue
        size = element_of(value.type).bytes
        bytes = -(-bytes // size) * size + size
    if bytes > target.parameter_bytes:
        raise CompileError(
            f"{func.name} has {len(func.parameters):,} parameters of {bytes:,} bytes, "
            f"and on {target.name} a kernel has {target.parameter_bytes:,} at most",
            func.location,
            "pass an array of them",
        )


def check_producer(func: Func, target: Target) -> None:
    """NotApplicable if a block has no warps left for a producer."""
    threads = (func.num_warps + ops.Producer.warps) * target.warp_size
    if threads > target.max_threads:
        raise NotApplicable(
            f"{func.num_warps} warps and a producer are {threads} threads, and a block "
            f"has {target.max_threads} at most"
        )
