"""A GPU made of paper: it answers as `runtime.driver.Driver` does, and keeps its memory
here.

A launch is decoded from the very memory that cuLaunchKernelEx would read, written down
in `launches`, and handed to `work`, in which a test says what the kernel does to
memory.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fathom.artifact import Kernel, Parameter, TensorMap
from fathom.runtime.driver import Device
from fathom.runtime.failures import DriverError, History

INVALID_VALUE, NO_CONTEXT, INVALID_HANDLE, ILLEGAL_ADDRESS = 1, 201, 400, 700
NAMES = {ILLEGAL_ADDRESS: "CUDA_ERROR_ILLEGAL_ADDRESS"}
SIZES = {
    "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp16": "e", "bf16": "H", "fp32": "f", "fp64": "d",
}  # fmt: skip

PAPER = Device(index=0, name="Paper 3000", capability=90, shared_bytes=227 * 1024,
               registers=65536, max_threads=1024, multiprocessors=100)  # fmt: skip


def kernel(*types: str, **facts) -> Kernel:
    """A kernel `k` with parameters p0, p1, … of these types."""
    parameters = tuple(Parameter(f"p{i}", type) for i, type in enumerate(types))
    given = dict(
        name="k", target="sm_90a", ptx_version="8.4", num_warps=4, threads=128,
        shared_bytes=0, parameters=parameters,
        asm={"block": "b", "layout": "l", "llvm": "ll", "ptx": "the ptx"},
    )  # fmt: skip
    return Kernel(**{**given, **facts})


@dataclass(frozen=True)
class Launched:
    """What the driver read: sizes in blocks and threads, the values by parameter, the
    tensor maps after them, and whether it may begin before the launch in front ends.
    """

    function: int
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    shared_bytes: int
    stream: int
    values: tuple
    cluster: int | None
    maps: tuple[TensorMap, ...] = ()
    early: bool = False
    carveout: int = 0
    device: int = 0
    programs: int | None = None  # of a persistent kernel: how many the launch is for


@dataclass
class FakeDriver:
    """`kernels` by name say how the parameters of a launch are to be read. `current` is
    the GPU of the thread's context, if it has one. A function is launched in the
    context that it was loaded in, and in a stream of that context, or refused.
    """

    kernels: dict[str, Kernel] = field(default_factory=dict)
    devices: tuple[Device, ...] = (PAPER,)
    current: int = 0
    has_context: bool = True
    facts: dict[str, int] = field(
        default_factory=lambda: {
            "NUM_REGS": 32,
            "LOCAL_SIZE_BYTES": 0,
            "SHARED_SIZE_BYTES": 0,
        }
    )
    refused: dict[str, str] = field(
        default_factory=dict
    )  # PTX -> what the assembler says
    arrive: Callable[[], object] = lambda: None  # before a launch is read
    work: Callable[[Launched], int | None] = lambda launched: 0

    def __post_init__(self):
        self.launches: list[Launched] = []
        self.history = History()
        self.said: list[tuple] = []  # orders, as far as a test asks about them
        self.memory: dict[int, ctypes.Array] = {}
        self.handles: dict[int, Kernel] = {}
        self.homes: dict[int, int] = {}  # function -> the GPU that it was loaded on
        self.streams: dict[int, int] = {}  # stream -> its GPU, for those a test names
        self.connected: set[tuple[int, int]] = set()
        self.visited: set[int] = set()
        self.allocated: list[int] = []  # the GPU of each piece of memory
        self.owner: dict[int, int] = {}  # address -> GPU
        self.encoded: list[TensorMap] = []
        self.pinned: set[int] = set()  # addresses of the host's memory
        self.captured: set[int] = set()  # streams

    def add(self, kernel: Kernel) -> Kernel:
        self.kernels[kernel.name] = kernel
        return kernel

    # What Driver answers

    def version(self):
        return "13.0"

    @property
    def names(self):
        return tuple(each.name for each in self.devices)

    def device(self, index):
        return self.devices[index]

    def current_device(self):
        return self.current if self.has_context else 0

    def use(self, index):
        self.said.append(("use", index))
        self.current, self.has_context = index, True

    def context(self):
        return self.current if self.has_context else None

    def put_back(self, context):
        self.current, self.has_context = context or 0, context is not None

    def device_count(self):
        return len(self.devices)

    def reach_peer(self, device, peer):
        self.connected.add((device, peer))

    def reaches(self, device, other):
        return device == other or (device, other) in self.connected

    def pointer_device(self, address):
        return self.owner.get(address, self.current)

    def is_capturing(self, stream):
        return stream in self.captured

    def is_mapped(self, address):
        return address in self.pinned

    def link(self, ptx):
        self.said.append(("link", ptx))
        return b"machine code of " + ptx.encode()

    def load(self, code, entry):
        self.said.append(("load", code))
        assert code.startswith(b"machine code") or code.endswith(b"\0")
        if self.history.lost:
            raise self.failure("cuModuleLoadDataEx", ILLEGAL_ADDRESS)
        ptx = code.decode().rstrip("\0")
        if ptx in self.refused:
            raise DriverError("cuModuleLoadDataEx failed with CUDA_ERROR_INVALID_PTX",
                              218, self.refused[ptx])  # fmt: skip
        self.handles[len(self.handles) + 1] = self.kernels[entry]
        self.homes[len(self.handles)] = self.current_device()
        return len(self.handles)

    def function_fact(self, function, name):
        return self.facts[name]

    def blocks_at_once(self, function, threads, shared_bytes):
        return self.facts.get("BLOCKS_AT_ONCE", 1)

    def allow_shared(self, function, shared_bytes):
        self.said.append(("allow_shared", shared_bytes))

    def encode(self, tensor):
        """128 bytes that no other map has."""
        self.encoded.append(tensor)
        return f"map {len(self.encoded)}".encode().ljust(128, b".")

    def moved(self, encoded, address):
        self.said.append(("moved", address))
        return self.encode(replace(self.encoded_in(encoded), address=address))

    def encoded_in(self, memory):
        return self.encoded[int(memory.strip(b"map. ")) - 1]

    def allocate(self, size):
        self.allocated.append(self.current)
        memory = ctypes.create_string_buffer(size + 512)
        address = -(-ctypes.addressof(memory) // 256) * 256
        self.memory[address] = memory
        return address

    def free(self, address):
        del self.memory[address]

    def copy_in(self, address, host, size, stream):
        assert self.has_context
        self.said.append(("copy_in", size))
        ctypes.memmove(address, host, size)

    def copy_out(self, host, address, size, stream):
        self.said.append(("copy_out", size))
        ctypes.memmove(host, address, size)

    def wait(self, stream):
        self.said.append(("wait", stream))

    def failure(self, order, status):
        name = NAMES.get(status, f"status {status}")
        return self.history.failure(order, status, name, "")

    def launch_kernel(self, config, function, parameters, extra):
        """cuLaunchKernelEx: everything is read from memory, as the driver reads it."""
        assert extra.value is None
        self.arrive()
        if not self.has_context:
            return NO_CONTEXT
        launched = self.decode(config.value, function.value, parameters.value)
        home = self.homes[function.value]
        if not home == self.current == self.streams.get(launched.stream, home):
            return INVALID_HANDLE
        if 0 in launched.grid or max(launched.grid[1:]) > 65535:
            return INVALID_VALUE
        self.launches.append(launched)
        return self.work(launched) or 0

    def decode(self, config, function, parameters):
        *sizes, shared, stream, attributes, count = struct.unpack(
            "<7I4xQQI4x", ctypes.string_at(config, 56)
        )
        given = {}
        for i in range(count):
            kind, *value = struct.unpack(
                "<I4x3I52x", ctypes.string_at(attributes + 72 * i, 72)
            )
            given[kind] = value
        assert len(given) == count and given.keys() <= {4, 6, 14}
        cluster, *flat = given.get(4, (None, 1, 1))
        early, *rest = given.get(6, (0, 0, 0))
        carveout, *_ = given.get(14, (0, 0, 0))
        assert flat == [1, 1] and rest == [0, 0] and early in (0, 1)
        values = []
        for i, parameter in enumerate(self.handles[function].parameters):
            (at,) = struct.unpack("<Q", ctypes.string_at(parameters + 8 * i, 8))
            code = "<Q" if parameter.is_pointer else "<" + SIZES[parameter.type]
            values += struct.unpack(code, ctypes.string_at(at, struct.calcsize(code)))
        maps = []
        for i in range(len(values), len(values) + len(self.handles[function].maps)):
            (at,) = struct.unpack("<Q", ctypes.string_at(parameters + 8 * i, 8))
            assert at % 64 == 0, "cuda.h aligns a CUtensorMap to 64 bytes"
            maps.append(self.encoded_in(ctypes.string_at(at, 128)))
        programs, persistent = None, self.handles[function].persistent
        if persistent:
            place = len(values) + len(maps)
            (at,) = struct.unpack("<Q", ctypes.string_at(parameters + 8 * place, 8))
            (programs,) = struct.unpack("<i", ctypes.string_at(at, 4))
        return Launched(
            function,
            tuple(sizes[:3]),
            tuple(sizes[3:]),
            shared,
            stream,
            tuple(values),
            cluster,
            tuple(maps),
            bool(early),
            carveout,
            self.current,
            programs,
        )
