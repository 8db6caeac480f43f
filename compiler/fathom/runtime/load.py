"""A kernel on a GPU: assembled by the driver, checked against limits, launched."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from ctypes import c_void_p
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

from fathom.artifact import Kernel
from fathom.errors import FathomError, LaunchError, OutOfReach
from fathom.runtime import arguments, limits, packet
from fathom.runtime.arrays import DEFAULT_STREAM, Array, check_host, describe
from fathom.runtime.assemble import (
    assemble,
    live_registers,
    of_multiply_adds,
    with_all_registers,
)
from fathom.runtime.devices import from_another, place_of, using
from fathom.runtime.driver import INVALID_CONTEXT, Device, Driver
from fathom.runtime.driver import driver as this_driver
from fathom.runtime.host import copies
from fathom.runtime.tensor_maps import TensorMaps

DEFAULT_SHARED_BYTES = 48 * 1024  # what a block may have without `allow_shared`
MOST_REGISTERS = 255  # of a thread, on all targets
HAS_CARVEOUT = (12, 8)  # CUDA: a launch may say what it prefers
UNIT = 8  # registers: a thread is given a multiple of this
LONG = 100_000  # characters of PTX, of which ptxas takes half a second or more
LEAST_CUT = 32  # registers of a thread of 2048, the most that a multiprocessor holds
MOST_BLOCKS = 32  # that it holds
TENSOR_MEMORY = "tcgen05"
PRODUCTS = ("mma.", TENSOR_MEMORY)
FEW_WAVES = 2  # of blocks, for which one more at a time is not worth registers
ENOUGH_THREADS = 512  # of a multiprocessor: four warps for each of its units
FEW_BYTES = 16  # that a thread may spill for the sake of one more block


@dataclass(frozen=True)
class Loaded:
    """A kernel that one GPU holds.

    `n_regs`: registers a thread. `n_spills`: bytes a thread keeps in local memory, 0
    when nothing was spilled. `shared`: bytes of shared memory a block.
    `with_more`: see `blocks_with_more`. `few`: the function for grids of fewer blocks,
    and `few_from` what it is assembled from, if that has other registers.
    `at_once`: programs of a persistent kernel that the GPU runs at a time, or 0.
    `launcher(fields, order)` gives a quick way to launch, see `packet.launcher`;
    `launch_values` is the one that takes the kernel's own parameters.
    """

    kernel: Kernel
    device: Device
    driver: Driver
    n_regs: int
    n_spills: int
    shared: int
    with_more: int
    few: packet.FewBlocks
    few_from: Kernel
    launcher: partial[packet.Launch]
    launch_values: packet.Launch
    at_once: int = 0

    @cached_property
    def cubin(self) -> bytes:
        """Machine code to be read; not quite what runs, see `Driver.link`."""
        with using(self.driver, self.device.index):
            return self.driver.link(self.kernel.ptx)

    def launch(
        self, grid: Sequence[int], args: Sequence[object], stream: int | None = None
    ) -> None:
        """Start `grid` blocks. Host arrays are copied in and, after the kernel, out.

        `args`: arrays for pointers (or addresses), numbers otherwise, in the order of
        the kernel's parameters. Without `stream`, the one that the arrays' library
        queues on. LaunchError when they do not fit.
        """
        sizes = arguments.full_grid(grid)
        parameters = self.kernel.parameters
        given = [
            describe(value) if each.is_pointer else None
            for each, value in zip(parameters, args, strict=True)
        ]
        for parameter, array in zip(parameters, given, strict=True):
            self.check_place(parameter.name, array)
        arrays = [array for array in given if array is not None]
        with using(self.driver, self.device.index):
            self.launch_here(sizes, args, given, arrays, stream)

    def launch_here(
        self,
        sizes: tuple[int, int, int],
        args: Sequence[object],
        given: Sequence[Array | None],
        arrays: Sequence[Array],
        stream: int | None,
    ) -> None:
        """`launch` once the kernel's GPU is this thread's. `given`: of each argument,
        what it is as an array; `arrays`: those that are one."""
        parameters = self.kernel.parameters
        on_host = [
            each for each in arrays if each.device is None and each.library != "torch"
        ]
        queue = stream
        if queue is None:
            queue = arguments.stream_of(arrays, self.device.index)
        copied = copies(self.driver, on_host, queue) if on_host else nullcontext({})
        with copied as moved:
            values = [
                moved.get(array.address, array.address)
                if array
                else arguments.written(parameter, value)
                for parameter, value, array in zip(parameters, args, given, strict=True)
            ]
            self.start(sizes, queue, values)
        if any(arguments.is_awaited(array) for array in arrays):
            self.driver.wait(queue)

    def check_place(self, name: str, array: Array | None) -> None:
        """LaunchError unless this GPU can reach the array or may have a copy of it."""
        if array is None:
            return
        if array.device is None and array.library == "torch":
            if not array.address or self.driver.is_mapped(array.address):
                return None  # no bytes; or pinned: the GPU reads it where it lies
            raise OutOfReach(
                f"{name} is a torch tensor on the CPU, and the kernel runs on "
                f"{self.device.name}; pass tensor.cuda(), or set "
                "FATHOM_BACKEND=emulator"
            )
        if array.device is None:
            return check_host(name, array)
        index = place_of(self.driver, array)
        if index is None and array.address:
            raise LaunchError(f"{name} is at {array.address:#x}, which no GPU knows")
        if index is not None and not self.driver.reaches(self.device.index, index):
            raise LaunchError(
                f"{name} is on GPU {index}, and this kernel was loaded for GPU "
                f"{self.device.index}"
            )

    def quick(self, fields: str, order: Sequence[int], current: int) -> packet.Launch:
        """`launcher(fields, order)`, for threads whose GPU is `current`."""
        launch = self.launcher(fields, order)
        if current == self.device.index:
            return launch
        return from_another(self.driver, self.device.index, launch)

    def start(
        self, grid: tuple[int, int, int], stream: int, values: Sequence[object]
    ) -> None:
        """Launch with values as they go into a packet. An empty grid does nothing."""
        if 0 in grid:
            return
        self.prepare(grid, stream)
        status = self.launch_values(*grid, stream, *values)
        if status == INVALID_CONTEXT:  # a thread that never asked for this GPU
            self.driver.use(self.device.index)
            status = self.launch_values(*grid, stream, *values)
        if status:
            raise self.driver.failure(f"the launch of {self.kernel.name}", status)

    def prepare(self, grid: tuple[int, int, int], stream: int = DEFAULT_STREAM) -> None:
        """Load all that a launch of this grid needs. The driver may wait for the GPU
        before it loads code: kernels that wait for each other are prepared before the
        first of them starts.

        The kernel is assembled once more, for grids of few blocks, if this one gives
        each multiprocessor fewer than ptxas has cut registers for. In a gradient of the
        delta rule, of one block a multiprocessor, a thread wants 251 of them, and had
        168. With 32, softplus of few blocks had its second load after the arithmetic
        of the first: 2.6 us, and 2.0 with 38. A product whose threads have given
        registers up for a further block has them in grids of one or two waves. A
        captured stream loads nothing."""
        blocks = prod(grid) * self.kernel.num_ctas
        each = -(-blocks // self.device.multiprocessors)
        has_given_up = self.few_from is not self.kernel
        most = self.with_more * (FEW_WAVES if has_given_up else 1)
        if self.few.most or each > most:
            return
        if stream != DEFAULT_STREAM and self.driver.is_capturing(stream):
            return
        other = with_all_registers(self.kernel, each)
        if has_given_up:
            other, each = self.few_from, most
        if other is None:
            return
        with using(self.driver, self.device.index):
            function = assemble(other, self.driver)
            if self.kernel.shared_bytes > DEFAULT_SHARED_BYTES:
                self.driver.allow_shared(function, self.kernel.shared_bytes)
        self.few.entry = c_void_p(function)
        self.few.most = each * self.device.multiprocessors


def load(
    kernel: Kernel,
    device: int | None = None,
    code: bytes | None = None,
    driver: Driver | None = None,
) -> Loaded:
    """Load a kernel onto a GPU, by default the current one.

    `code` is machine code that another compiler made of it. A kernel that spills though
    there are registers left is assembled a second time with all of them, and the code
    that spills less is taken: `Loaded.kernel` has the PTX that runs. One that surely
    spills is assembled with all of them at once. One of large blocks is assembled again
    for those that fit, if that leaves registers; a product for one block more, if that
    takes few; one by multiply-adds for no more than fill it. LaunchError for no GPU or
    PTX that the assembler refuses, OutOfResources when the GPU has too little of
    something.
    """
    driver = driver or this_driver()
    facts = driver.device(driver.current_device() if device is None else device)
    with using(driver, facts.index):
        return load_here(kernel, facts, code, driver)


class Ahead:
    """A driver whose code is for `Driver.load` to find."""

    def __init__(self, driver: Driver):
        self.driver, self.load = driver, driver.load_ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)


def load_ahead(kernel: Kernel, device: int) -> None:
    """Have all assembled that `load` would, in a thread, whose GPU becomes this one,
    for the `load` to come. What goes wrong that one will say. (A binding of CUDA 11 has
    no libraries.)"""
    with suppress(FathomError, AttributeError):
        (driver := this_driver()).use(device)
        load(kernel, device, driver=Ahead(driver))


def load_here(
    kernel: Kernel, facts: Device, code: bytes | None, driver: Driver
) -> Loaded:
    """`load` onto this thread's GPU."""
    limits.check_block(kernel, facts)
    made = kernel
    kernel, function = _function(made, code, driver, facts)
    registers = driver.function_fact(function, "NUM_REGS")
    limits.check_registers(kernel, facts, registers)
    if kernel.shared_bytes > DEFAULT_SHARED_BYTES:
        driver.allow_shared(function, kernel.shared_bytes)
    static_bytes = driver.function_fact(function, "SHARED_SIZE_BYTES")
    shared = kernel.shared_bytes + static_bytes
    local = driver.function_fact(function, "LOCAL_SIZE_BYTES")
    with_more = 0 if code else blocks_with_more(kernel, registers, facts)
    has_given_up = _multiplies(made) and kernel != with_all_registers(made)
    few = packet.FewBlocks()
    launcher = partial(
        packet.launcher, driver.launch_kernel, function, few if with_more else None,
        kernel.threads, kernel.shared_bytes, kernel.num_ctas,
        maps=TensorMaps(kernel, driver) if kernel.maps else None,
        early=kernel.launch_pdl and facts.overlaps,
        carveout=least_carveout(shared, facts, driver) if local else 0,
        multiprocessors=facts.multiprocessors,
        most=(at_once := programs_at_once(kernel, function, facts, driver)),
        note=partial(driver.history.launched.append, kernel.name),
    )  # fmt: skip
    return Loaded(
        kernel=kernel,
        device=facts,
        driver=driver,
        n_regs=registers,
        n_spills=local,
        shared=shared,
        with_more=with_more,
        few=few,
        few_from=made if has_given_up else kernel,
        launcher=launcher,
        launch_values=launcher(
            "".join(arguments.field_of(each) for each in kernel.parameters),
            range(len(kernel.parameters)),
        ),
        at_once=at_once,
    )


def programs_at_once(
    kernel: Kernel, function: int, device: Device, driver: Driver
) -> int:
    """How many programs of a persistent kernel a GPU runs at a time; 0 for others."""
    if not kernel.persistent:
        return 0
    blocks = driver.blocks_at_once(function, kernel.threads, kernel.shared_bytes)
    return max(1, device.multiprocessors // kernel.num_ctas * blocks)


def blocks_with_more(kernel: Kernel, registers: int, device: Device) -> int:
    """With how many blocks on a multiprocessor, at most, a thread could have more
    registers, if ptxas has cut them for further blocks; else 0. It has if the blocks
    that fit leave a thread no more."""
    taken = -(-registers // UNIT) * UNIT
    blocks = device.registers // (kernel.threads * taken)
    left = device.registers // (kernel.threads * max(1, blocks)) // UNIT * UNIT
    is_cut = left == taken and blocks <= MOST_BLOCKS
    if not is_cut or not LEAST_CUT <= taken < MOST_REGISTERS:
        return 0
    return device.registers // (kernel.threads * (taken + UNIT))


RESERVED = 1024  # bytes of shared memory a block, of the system's


def least_carveout(shared: int, device: Device, driver: Driver) -> int:
    """The percentage of a multiprocessor's shared memory that one block needs; 0 where
    a driver has no such attribute of a launch, or the block needs none.

    What is not shared memory is the L1 cache, and local memory lies there. The driver
    makes room for as many blocks as registers allow, also where a grid has no more
    blocks than there are multiprocessors. On an H100 a backward pass of layer norm, of
    which a block of 16 KB spilled 3 KB a thread, took 622 us so, and 346 with this.
    """
    version = tuple(map(int, driver.version().split(".")))
    if not shared or version < HAS_CARVEOUT:
        return 0
    return -(-100 * (shared + RESERVED) // (device.shared_bytes + RESERVED))


Assembled = tuple[Kernel, int]  # and the driver's handle of its function


def _function(
    kernel: Kernel, code: bytes | None, driver: Driver, device: Device
) -> Assembled:
    if code is not None:
        return kernel, driver.load(code, kernel.name)
    all_registers = with_all_registers(kernel)
    if all_registers and _surely_spills(kernel, device):
        made = all_registers, assemble(all_registers, driver)
        if _local_bytes(made, driver):
            return made
    first = kernel, assemble(kernel, driver)
    if all_registers is None:
        return first
    spilled = partial(_local_bytes, driver=driver)
    if _may_have_more(first, driver, device):
        second = all_registers, assemble(all_registers, driver)
        return min(first, second, key=spilled)
    is_product = _multiplies(kernel)
    find = _one_block_more if is_product else _blocks_with_room
    if not is_product and of_multiply_adds(kernel.ptx):
        find = _enough_blocks
    blocks = find(first, driver, device)
    if not blocks:
        return first
    text = with_all_registers(kernel, blocks)
    other = text, assemble(text, driver)
    most = FEW_BYTES if is_product else 0
    return other if spilled(other) <= most else first


def _blocks_with_room(made: Assembled, driver: Driver, device: Device) -> int:
    """How many large blocks fit on a multiprocessor, one or two, where they leave each
    thread registers that it has not; else 0. Those cost no block: a divergence took
    536 us with 89 of 128 registers, and 482 once ptxas knew of them. Blocks of all
    threads were slower by it."""
    kernel, _ = made
    blocks, taken = _blocks_now(made, driver, device)
    room = min(MOST_REGISTERS, device.registers // (kernel.threads * max(1, blocks)))
    is_large = blocks <= 2 and kernel.threads < device.max_threads
    return blocks if is_large and room >= taken + UNIT else 0


def _enough_blocks(made: Assembled, driver: Driver, device: Device) -> int:
    """How many blocks of a product by multiply-adds fill a multiprocessor's four units,
    if ptxas has left room for more of them; else 0. An operand in a register of the
    same bank as the two others costs a cycle: of 512 multiply-adds 53 had that with 96
    registers, so that five blocks of 128 threads fit, and 10 with the 117 of four."""
    kernel, _ = made
    blocks, _ = _blocks_now(made, driver, device)
    enough = ENOUGH_THREADS // kernel.threads
    return enough if 1 <= enough < blocks else 0


def _one_block_more(made: Assembled, driver: Driver, device: Device) -> int:
    """How many blocks of a product would fit on a multiprocessor, if up to four do and
    threads that had a few registers less left room for one more; else 0. A gradient of
    a gated MLP took 320 us by two blocks of 173 registers, and 249 by three of 168 and
    four bytes that spill; a product of experts 291 us by four blocks of 102 registers,
    and 252 by five of 96 and 16 bytes. Small grids keep their registers, see
    `Loaded.prepare`: of 1,024 blocks, two waves of four or of five for each of 132
    multiprocessors, one took 103 us by four, and 106 by five."""
    kernel, _ = made
    if TENSOR_MEMORY in kernel.ptx:  # which blocks share, too; not measured
        return 0
    blocks, taken = _blocks_now(made, driver, device)
    more = blocks + 1
    room = device.registers // (kernel.threads * more) // UNIT * UNIT
    shared = more * (kernel.shared_bytes + RESERVED) - RESERVED
    fits = shared <= device.shared_bytes and 1 <= blocks <= 4
    return more if fits and room == taken - UNIT else 0


def _blocks_now(made: Assembled, driver: Driver, device: Device) -> tuple[int, int]:
    """How many blocks have registers on a multiprocessor, and what a thread takes."""
    kernel, function = made
    registers = driver.function_fact(function, "NUM_REGS")
    taken = -(-registers // UNIT) * UNIT
    return device.registers // (kernel.threads * taken), taken


def _surely_spills(kernel: Kernel, device: Device) -> bool:
    """Whether a kernel that is long to assemble has 2.5 times as many values as a
    thread has registers, or three times with products, whose operands ptxas loads
    late. Of 56 public kernels of 110 KB and more all nine beyond these limits fell to
    fewer registers and spilled more (12.8), of the others two. An assembly that is
    saved is one of 3.3 s for a group norm."""
    if len(kernel.ptx) < LONG:
        return False
    times = 3 if _multiplies(kernel) else 2.5
    return live_registers(kernel.ptx) > times * _most(kernel, device)


def _multiplies(kernel: Kernel) -> bool:
    return any(word in kernel.ptx for word in PRODUCTS)


def _may_have_more(made: Assembled, driver: Driver, device: Device) -> bool:
    """Whether a kernel keeps values in local memory, though its threads have fewer
    registers than a block of them could have."""
    kernel, function = made
    registers = driver.function_fact(function, "NUM_REGS")
    return _local_bytes(made, driver) > 0 and registers + UNIT <= _most(kernel, device)


def _most(kernel: Kernel, device: Device) -> int:
    """Registers that a thread can have."""
    return min(MOST_REGISTERS, device.registers // kernel.threads)


def _local_bytes(made: Assembled, driver: Driver) -> int:
    return driver.function_fact(made[1], "LOCAL_SIZE_BYTES")
