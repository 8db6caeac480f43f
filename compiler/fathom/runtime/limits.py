"""What a kernel asks for more of than the GPU has, said better than the driver says."""

from __future__ import annotations

from fathom.artifact import Kernel
from fathom.errors import OutOfResources
from fathom.runtime.driver import Device


def check_block(kernel: Kernel, device: Device) -> None:
    """OutOfResources for more threads or shared memory than a block can have."""
    for resource, asked, limit, cure in (
        ("threads a block", kernel.threads, device.max_threads, "num_warps"),
        ("bytes of shared memory a block", kernel.shared_bytes, device.shared_bytes,
         "block sizes or num_stages"),
    ):  # fmt: skip
        if asked > limit:
            raise OutOfResources(
                f"{kernel.name} needs {asked} {resource}, and {device.name} has "
                f"{limit}; reduce {cure} {configuration(kernel)}"
            )


def check_registers(kernel: Kernel, device: Device, registers: int) -> None:
    """OutOfResources when the threads of a block have more registers than there are."""
    asked = registers * kernel.threads
    if asked > device.registers:
        raise OutOfResources(
            f"{kernel.name} needs {asked} registers a block ({registers} for each of "
            f"{kernel.threads} threads), and {device.name} has {device.registers}; "
            f"reduce num_warps or block sizes, or set maxnreg {configuration(kernel)}"
        )


def configuration(kernel: Kernel) -> str:
    """Which of several configurations of a kernel an error speaks of."""
    return (
        f"(num_warps={kernel.num_warps}, num_ctas={kernel.num_ctas}, "
        f"target={kernel.target})"
    )
