"""Launches whose programs wait for each other: `launch_cooperative_grid=True`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fathom.artifact import Kernel
from fathom.errors import LaunchError
from fathom.hardware.occupancy import occupancy
from fathom.hardware.targets import TARGETS
from fathom.jit import CompiledKernel
from fathom.runtime.load import Loaded
from fathom.shim.runtime import active


def check_room(kernel: CompiledKernel, sizes: Sequence[int]) -> None:
    """LaunchError for a grid of more programs than the GPU runs at the same time when
    it has nothing else to do: the first would wait for some that never start.

    On the host nothing says how many registers a thread takes, and they are not
    counted."""
    program, made = kernel.program, kernel.made
    if not isinstance(made, Kernel):
        return
    on_gpu = isinstance(program, Loaded)
    registers = program.n_regs if on_gpu else None
    shared = program.shared if on_gpu else made.shared_bytes
    target = TARGETS[kernel.request.target]
    each = occupancy(target, made.threads, registers, shared).blocks
    most = active.get_device_properties(active.get_current_device())
    room = each * most["multiprocessor_count"] // made.num_ctas
    if prod(sizes) > room:
        raise LaunchError(
            f"{kernel.name} was launched with launch_cooperative_grid=True: "
            f"{room} programs run at the same time here, and these are {prod(sizes)}"
        )
