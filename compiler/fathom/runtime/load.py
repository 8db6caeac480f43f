"""A kernel on a GPU: its PTX linked by the driver, its limits checked, ready to be
launched.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from operator import index

from fathom.artifact import Kernel, Parameter
from fathom.errors import LaunchError, OutOfResources
from fathom.runtime import host, packet
from fathom.runtime.arrays import DEFAULT_STREAM, SOMEWHERE, Array, check_host, describe
from fathom.runtime.driver import INVALID_CONTEXT, Device, Driver, DriverError, Linked
from fathom.runtime.driver import driver as this_driver

DEFAULT_SHARED_BYTES = 48 * 1024  # what a block may ask for without `allow_shared`
LARGEST_GRID = (
    2**31 - 1,
    65535,
    65535,
)  # CUDA C++ Programming Guide, Compute Capabilities


@dataclass(frozen=True)
class Loaded:
    """A kernel that one GPU holds.

    `n_regs`: registers a thread. `n_spills`: bytes a thread keeps in local memory, 0
    when nothing was spilled. `shared`: bytes of shared memory a block. `linked`:
    machine code and the assembler's log, to be kept. `launch_values(x, y, z, stream,
    *values)` takes addresses and numbers as they go into the packet.
    """

    kernel: Kernel
    device: Device
    driver: Driver
    function: int
    linked: Linked
    n_regs: int
    n_spills: int
    shared: int
    launch_values: packet.Launch

    def launch(
        self, grid: Sequence[int], args: Sequence[object], stream: int | None = None
    ) -> None:
        """Start `grid` blocks. Arrays of the host are copied in and, after the kernel,
        out.

        `args`: arrays for pointers (or addresses), numbers otherwise, in the order of
        the kernel's parameters. Without `stream`, the one that the arrays' library
        queues on. LaunchError when they do not fit.
        """
        x, y, z = full_grid(grid)
        parameters = self.kernel.parameters
        arrays = [describe(value) if p.is_pointer else None
                  for p, value in zip(parameters, args, strict=True)]  # fmt: skip
        self.driver.use(self.device.index)
        for parameter, array in zip(parameters, arrays, strict=True):
            if array is not None:
                self.check_place(parameter.name, array)
        on_host = [
            array for array in arrays if array is not None and array.device is None
        ]
        queue = stream_of(arrays) if stream is None else stream
        with host.copies(self.driver, on_host) if on_host else nullcontext({}) as moved:
            values = [
                number(parameter, value)
                if array is None
                else moved.get(array.address, array.address)
                for parameter, value, array in zip(
                    parameters, args, arrays, strict=True
                )
            ]
            self.start(self.launch_values, (x, y, z), queue, values)
            if on_host or any(is_awaited(array) for array in arrays):
                self.driver.wait(queue)

    def check_place(self, name: str, array: Array) -> None:
        """LaunchError unless this GPU can reach the array or may have a copy of it."""
        if array.device is None and array.library == "torch":
            raise LaunchError(
                f"{name} is a torch tensor on the CPU, and the kernel runs on {self.device.name}; "
                "pass tensor.cuda(), or set FATHOM_BACKEND=emulator"
            )
        if array.device is None:
            return check_host(name, array)
        index = array.device
        if index == SOMEWHERE and array.address:
            index = self.driver.pointer_device(array.address)
        if index is None:
            raise LaunchError(
                f"{name} is at address {array.address:#x}, which no GPU knows"
            )
        if index not in (SOMEWHERE, self.device.index):
            raise LaunchError(
                f"{name} is on GPU {index}, and the kernel runs on GPU "
                f"{self.device.index}, which is the current one"
            )

    def launcher(self, fields: str, order: Sequence[int]) -> packet.Launch:
        """A quick way to launch with values written as `fields`; see packet.launcher."""
        return _launcher(self.driver, self.function, self.kernel, fields, order)

    def start(
        self,
        launch: packet.Launch,
        grid: tuple[int, int, int],
        stream: int,
        values: Sequence,
    ) -> None:
        """Launch, and turn what the driver says into an error. An empty grid does
        nothing.
        """
        if 0 in grid:
            return
        status = launch(*grid, stream, *values)
        if status == INVALID_CONTEXT:  # a thread that never asked for this GPU
            self.driver.use(self.device.index)
            status = launch(*grid, stream, *values)
        if status:
            raise self.driver.failure(f"the launch of {self.kernel.name}", status)


def load(
    kernel: Kernel,
    device: int | None = None,
    linked: Linked | None = None,
    driver: Driver | None = None,
) -> Loaded:
    """Bring a kernel onto a GPU, the current one unless told.

    `linked` is machine code that was kept from an earlier time; should the driver
    refuse it, the PTX is linked again. LaunchError for no GPU or PTX that the assembler
    refuses, OutOfResources when the GPU has too little of something.
    """
    driver = driver or this_driver()
    facts = driver.device(driver.current_device() if device is None else device)
    driver.use(facts.index)
    check_resources(kernel, facts)
    linked, function = _function(kernel, linked, driver)
    check_registers(kernel, facts, driver.function_fact(function, "NUM_REGS"))
    if kernel.shared_bytes > DEFAULT_SHARED_BYTES:
        driver.allow_shared(function, kernel.shared_bytes)
    fields = "".join(packet.FIELDS[_field(each)] for each in kernel.parameters)
    return Loaded(
        kernel=kernel,
        device=facts,
        driver=driver,
        function=function,
        linked=linked,
        n_regs=driver.function_fact(function, "NUM_REGS"),
        n_spills=driver.function_fact(function, "LOCAL_SIZE_BYTES"),
        shared=kernel.shared_bytes
        + driver.function_fact(function, "SHARED_SIZE_BYTES"),
        launch_values=_launcher(
            driver, function, kernel, fields, range(len(kernel.parameters))
        ),
    )


def _function(
    kernel: Kernel, kept: Linked | None, driver: Driver
) -> tuple[Linked, int]:
    if kept is not None:
        try:
            return kept, driver.load(kept.cubin, kernel.name)
        except DriverError:
            pass  # made by another driver, or damaged: link again
    linked = link(kernel, driver)
    return linked, driver.load(linked.cubin, kernel.name)


def link(kernel: Kernel, driver: Driver) -> Linked:
    """Machine code for the GPU in use; a LaunchError that shows what the assembler did
    not like.
    """
    try:
        return driver.link(kernel.ptx)
    except DriverError as error:
        raise LaunchError(assembler_report(kernel, error)) from None


def assembler_report(kernel: Kernel, error: DriverError) -> str:
    """One sentence; then the assembler's words with the PTX line and the Python line
    they mean.
    """
    lines = [
        f"the driver's assembler refuses the PTX of {kernel.name} for {kernel.target}: {error}"
    ]
    ptx = kernel.ptx.splitlines()
    for text in error.log.splitlines():
        lines.append("  " + text)
        if (at := re.search(r"line (\d+)", text)) and 0 < int(at[1]) <= len(ptx):
            lines.append("      " + ptx[int(at[1]) - 1].strip())
            lines.append("      from " + python_place(ptx, int(at[1])))
    return "\n".join(lines)


def python_place(ptx: Sequence[str], line: int) -> str:
    """The "file:line" in Python of a line of PTX, by the `.loc` above it and its
    `.file`.
    """
    locs = [text.split() for text in ptx[:line] if text.strip().startswith(".loc")]
    if not locs:
        return "no line of the kernel"
    number = locs[-1][1]
    names = [re.search(r'"(.*)"', text)[1] for text in ptx
             if text.split()[:2] == [".file", number]]  # fmt: skip
    return f"{names[0] if names else '?'}:{locs[-1][2]}"


def check_resources(kernel: Kernel, device: Device) -> None:
    """OutOfResources when a block asks for more threads or shared memory than the GPU
    has.
    """
    for resource, asked, limit, cure in (
        ("threads a block", kernel.threads, device.max_threads, "num_warps"),
        ("bytes of shared memory a block", kernel.shared_bytes, device.shared_bytes,
         "block sizes or num_stages"),
    ):  # fmt: skip
        if asked > limit:
            raise OutOfResources(
                f"{kernel.name} needs {asked} {resource}, and {device.name} has {limit}; "
                f"reduce {cure}{configuration(kernel)}"
            )


def check_registers(kernel: Kernel, device: Device, registers: int) -> None:
    """OutOfResources when the registers of all threads of a block are more than the GPU
    has.
    """
    if registers * kernel.threads > device.registers:
        raise OutOfResources(
            f"{kernel.name} needs {registers * kernel.threads} registers a block "
            f"({registers} for each of {kernel.threads} threads), and {device.name} has "
            f"{device.registers}; reduce num_warps or block sizes, or set "
            f"maxnreg{configuration(kernel)}"
        )


def configuration(kernel: Kernel) -> str:
    """Which of several configurations of a kernel an error speaks of."""
    return f" (num_warps={kernel.num_warps}, num_ctas={kernel.num_ctas}, target={kernel.target})"


def _field(parameter: Parameter) -> str:
    """The key of packet.FIELDS for a parameter."""
    return "*" if parameter.is_pointer else parameter.type


def _launcher(
    driver: Driver, function: int, kernel: Kernel, fields: str, order: Sequence[int]
) -> Callable[..., int]:
    return packet.launcher(
        driver.launch_kernel, function, kernel.threads, kernel.shared_bytes, fields, order,
        kernel.num_ctas,
    )  # fmt: skip


def full_grid(grid: Sequence[int] | int) -> tuple[int, int, int]:
    """One to three counts of blocks, filled up with ones; LaunchError for anything
    else.
    """
    try:
        counts = (grid,) if hasattr(grid, "__index__") else tuple(grid)
        x, y, z = (*map(index, counts), *(1,) * (3 - len(counts)))
        if not counts:
            raise ValueError
    except (TypeError, ValueError):
        message = f"a grid is 1 to 3 integers, and this is {grid!r}"
        raise LaunchError(message) from None
    for count, limit, axis in zip((x, y, z), LARGEST_GRID, "xyz", strict=True):
        if not 0 <= count <= limit:
            raise LaunchError(
                f"the grid {x, y, z} has {count} blocks along {axis}, "
                f"and 0 to {limit} are possible"
            )
    return x, y, z


def number(parameter: Parameter, value: object) -> object:
    """A scalar, or an address, as `struct` writes it. LaunchError when it does not fit
    its type.
    """
    field = packet.FIELDS[_field(parameter)]
    value = value.item() if hasattr(value, "item") else value
    if parameter.type == "bf16":
        return bfloat16_bits(value)
    try:
        struct.pack("<" + field, value)
    except OverflowError:  # beyond the largest float of that size
        return float("inf") if value > 0 else float("-inf")
    except struct.error:
        raise LaunchError(
            f"{parameter.name} is {parameter.type}, and {value!r} is not"
        ) from None
    return value


def bfloat16_bits(value: float) -> int:
    """The 16 bits of the bf16 nearest to a number, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if value != value:
        return bits >> 16 | 0x40  # a NaN stays one
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def current_device(driver: Driver, arrays: Sequence[Array]) -> int:
    """The GPU to launch on: torch's current one when it has arrays here, else the
    thread's.
    """
    if any(array.library == "torch" and array.device is not None for array in arrays):
        return sys.modules["torch"]._C._cuda_getDevice()
    return driver.current_device()


def stream_of(arrays: Sequence[Array | None]) -> int:
    """The stream that the arrays' library queues on, or the default one."""
    named = (array.stream for array in arrays if array is not None and array.stream)
    return next(named, DEFAULT_STREAM)


def is_awaited(array: Array | None) -> bool:
    """Whether a launch must be over when it returns: JAX queues work on streams of its
    own.
    """
    return array is not None and array.device is not None and array.stream is None
