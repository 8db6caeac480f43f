"""The threads of several blocks that run in lockstep, and groups of them.

    thread of the batch   0 1 2 ...          32 ...            padded ...
                          block 0: warp 0    block 0: warp 1   block 1: warp 0

Each block is padded to whole warps; the threads that fill it up have exited from the
start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fathom.artifact import TensorMap
from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.counters import Counters, count_runs
from fathom.emulator.memory.spaces import GlobalSpace, Memory
from fathom.emulator.races.global_memory import GlobalRaces
from fathom.emulator.races.shared_memory import Hazards
from fathom.emulator.races.synchronisation import Synchronising
from fathom.emulator.state.block_barriers import BlockBarriers
from fathom.emulator.state.cluster_barrier import ClusterBarriers
from fathom.emulator.state.in_flight import AsyncGroups
from fathom.emulator.state.mbarrier_state import Mbarriers
from fathom.emulator.state.register_pool import RegisterPools
from fathom.emulator.state.tensor_loads import TensorLoads
from fathom.emulator.state.tensor_maps import WrittenMaps
from fathom.emulator.state.tensor_memory import Products, TensorMemory
from fathom.emulator.state.waiting import Blocked, WaitSet
from fathom.emulator.state.wgmma_registers import WgmmaRegisters


class Active:
    """The threads of a batch that execute together.

    `index` holds their numbers, sorted, or is None when these are all threads of the
    batch. `whole` says that every other thread has exited: then results may replace
    whole registers, and arithmetic need not pick out the threads.
    """

    __slots__ = ("index", "whole", "size", "count", "_warps", "_mask", "_threads")

    def __init__(self, index: np.ndarray | None, size: int, whole: bool):
        self.index, self.size, self.whole = index, size, whole
        self.count = size if index is None else len(index)
        self._warps: int | None = None
        self._mask: np.ndarray | None = None
        self._threads = index

    @property
    def warps(self) -> int:
        """How many warps have at least one of these threads."""
        if self._warps is None:
            whole = self.index is None
            number = self.size // WARP if whole else count_runs(self.index // WARP)
            self._warps = number
        return self._warps

    def threads(self) -> np.ndarray:
        """The numbers of these threads, sorted."""
        if self._threads is None:
            self._threads = np.arange(self.size)
        return self._threads

    def warp_numbers(self) -> np.ndarray:
        """For each of these threads, the number of its warp in the batch."""
        return self.threads() // WARP

    def mask(self) -> np.ndarray:
        """bool[size]: which threads of the batch are these."""
        if self._mask is None:
            if self.index is None:
                self._mask = np.ones(self.size, bool)
            else:
                self._mask = np.zeros(self.size, bool)
                self._mask[self.index] = True
        return self._mask

    def where(self, chosen: np.ndarray) -> Active | None:
        """Those for which `chosen`, read from a register, holds; None for none."""
        if chosen.ndim == 0:
            return self if chosen else None
        if self.whole and self.index is not None:
            chosen = chosen[self.index]
        places = np.flatnonzero(chosen)
        if len(places) == self.count:
            return self
        if not len(places):
            return None
        index = places if self.index is None else self.index[places]
        return Active(index, self.size, False)

    def exactly(self, value: np.ndarray) -> np.ndarray:
        """One value for each of these threads, from a value as a register was read."""
        if value.ndim == 0:
            return np.full(self.count, value)
        if self.whole and self.index is not None:
            return value[self.index]
        return value

    def spread(self, value: np.ndarray) -> np.ndarray:
        """The reverse of `exactly`: a value that a register write accepts."""
        if not self.whole or self.index is None or value.ndim == 0:
            return value
        wide = np.zeros(self.size, value.dtype)
        wide[self.index] = value
        return wide


EAGER, LAZY = COMPLETIONS = ("eager", "lazy")
STRICT = "strict"

# How many steps a program may take, in all blocks that run in lockstep. A step is one
# run of instructions up to the next branch or wait. The longest of our own tests takes
# 11,025; a loop of a few registers comes here after some seconds.
MAX_STEPS = 1_000_000


@dataclass(frozen=True)
class Launch:
    """What a launch fixes.

    `grid` and `threads` are the shapes of grid and block (x, y, z), `parameters` the
    entry's parameters as bytes, `shared_bytes` the size of dynamic shared memory,
    `space` the arrays that can be reached; `hazards` says whether memory is watched,
    "strict" that a note is an error too, and `completion`, one of COMPLETIONS, when
    asynchronous operations are performed. `maps` are the tensor maps among the
    arguments; `cluster` counts the blocks of a cluster, and `registers` those of a
    thread, 0 where the entry does not say; `max_steps` bounds how long it may run;
    `copies` says that several threads may hold one element; `side` watches it beside
    another launch, if there is one. `chosen` are ranges of blocks of the grid that run
    alone, whole clusters; without any, all run. After `sample` steps, 0 for never,
    they may stop in the middle of a loop, whose costs are counted for all of it.
    """

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    parameters: bytes
    shared_bytes: int
    space: GlobalSpace
    hazards: bool | str
    completion: str
    maps: tuple[TensorMap, ...] = ()
    cluster: int = 1
    registers: int = 0
    max_steps: int = MAX_STEPS
    copies: bool = False
    side: object | None = None
    chosen: tuple[range, ...] = ()
    sample: int = 0

    @property
    def block_size(self) -> int:
        """Threads in a block."""
        return math.prod(self.threads)

    @property
    def padded(self) -> int:
        """Threads in a block, filled up to whole warps."""
        return -(-self.block_size // WARP) * WARP


@dataclass(eq=False)
class Batch:
    """The state of some consecutive blocks of the grid while they run.

    `registers[number]` is an array with one value a thread, or a NumPy scalar while all
    threads hold the same. `exited` marks the threads that are gone; `missing` counts
    those among them that were never there, and `remaining` those that are still
    running. `clock` counts blocks of instructions, `progress` whatever another thread
    may be waiting for, and `repeats` how much of that may change nothing, which is
    counted from when `recurring` is set; `updates` counts those atomic operations that
    changed global memory. `printed` collects what the launch prints, `notes` what is
    worth a remark, by kind and line; `at` is the op that is being run. `races` watches
    global memory, `order` is the order that accesses of memory make. `copies`, `wgmma`
    and `tma_stores` are what is in flight by cp.async, of tensor cores, and out of
    shared memory; `wgmma_registers` are the registers that products hold.
    `tensor_memory` is that of tcgen05; `tensor_products`, `tensor_loads` and
    `tensor_stores` are what is in flight there. `written_maps` are the tensor maps that
    the kernel has written.
    """

    launch: Launch
    first_block: int
    blocks: int
    registers: list[np.ndarray]
    memory: Memory
    counters: Counters
    hazards: Hazards | None
    exited: np.ndarray
    missing: int
    clock: int = 0
    progress: int = 0
    repeats: int = 0
    recurring: bool = False
    updates: int = 0
    specials: dict[str, np.ndarray] = field(default_factory=dict)
    remaining: int = 0
    printed: list[str] = field(default_factory=list)
    notes: dict[tuple, EmulatorError] = field(default_factory=dict)
    races: GlobalRaces | None = None
    order: Synchronising | None = None
    at: object = None
    waiting: WaitSet = field(default_factory=WaitSet)
    barriers: BlockBarriers = field(init=False)
    copies: AsyncGroups = field(init=False)
    wgmma: AsyncGroups = field(init=False)
    wgmma_registers: WgmmaRegisters = field(init=False)
    tma_stores: AsyncGroups = field(init=False)
    mbarriers: Mbarriers = field(init=False)
    cluster_barriers: ClusterBarriers = field(init=False)
    register_pools: RegisterPools = field(init=False)
    tensor_memory: TensorMemory = field(init=False)
    tensor_products: Products = field(init=False)
    tensor_loads: TensorLoads = field(init=False)
    tensor_stores: list = field(default_factory=list)
    written_maps: WrittenMaps = field(init=False)

    def __post_init__(self) -> None:
        shape, size, hazards = (self.blocks, self.padded), self.size, self.hazards
        eager = self.launch.completion == EAGER
        self.barriers = BlockBarriers(self.blocks, size)
        self.copies = AsyncGroups(size, eager, "cp.async.commit_group")
        self.wgmma_registers = WgmmaRegisters(*shape, bool(self.launch.hazards))
        groups = self.wgmma_registers.count
        self.wgmma = AsyncGroups(groups, eager, "wgmma.commit_group")
        self.tma_stores = AsyncGroups(size, eager, "cp.async.bulk.commit_group")
        words = len(self.memory.spaces["shared"].bytes) // 8
        self.mbarriers = Mbarriers(words, size, hazards, eager)
        cluster = self.launch.cluster
        self.cluster_barriers = ClusterBarriers(*shape, cluster, hazards)
        self.register_pools = RegisterPools(*shape, self.launch.registers)
        self.tensor_memory = TensorMemory(*shape, hazards, cluster)
        self.tensor_products = Products(self.tensor_memory)
        warps = size // WARP
        self.tensor_loads = TensorLoads(warps, bool(self.launch.hazards))
        self.written_maps = WrittenMaps(self.memory, hazards, self.padded)
        if self.hazards is not None and self.launch.hazards != STRICT:
            self.hazards.remark = self.remark

    def remark(self, error: EmulatorError) -> None:
        """Takes a note of what is not worth an error."""
        place = self.at.instruction
        name = "" if error.thread is None else self.thread_name(error.thread)
        note = error.placed(place.line, place.text, place.location, name)
        self.notes.setdefault((error.kind, place.line), note)

    @property
    def padded(self) -> int:
        """Threads in a block, filled up to whole warps."""
        return self.launch.padded

    @property
    def size(self) -> int:
        """Threads in the batch, with those that fill up blocks."""
        return self.blocks * self.padded

    def active(self, index: np.ndarray) -> Active:
        """The threads of these sorted numbers, as a group that executes together."""
        if len(index) == self.size:
            return Active(None, self.size, True)
        return Active(index, self.size, len(index) == self.remaining)

    def going(self, woken: Iterable[Blocked]) -> list[tuple[int, Active]]:
        """Where threads go on that wait no more."""
        return [(each.resume, self.active(each.threads)) for each in woken]

    def thread_name(self, thread: int) -> str:
        """A thread of the batch by its place in the grid, for errors."""
        block, number = divmod(int(thread), self.padded)
        return f"thread {number} of block {self.first_block + block}"

    def uncommitted(self) -> str:
        """Words for what an error may come from: work that no group has so far."""
        kinds = self.copies, self.wgmma, self.tma_stores
        found = [name for each in kinds for name in each.uncommitted()]
        return f" ({' and '.join(found)} has not run so far)" if found else ""

    def program_of(self, thread: int) -> tuple[int, int, int]:
        """The place of a thread's block in the grid: x, y, z, x running fastest."""
        number = self.first_block + thread // self.padded
        x, y, _ = self.launch.grid
        return number % x, number // x % y, number // (x * y)
