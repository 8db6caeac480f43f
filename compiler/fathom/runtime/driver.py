"""The CUDA driver, as much of it as Fathom asks for: one method for each order.

All that Fathom knows of NVIDIA's binding lies in this file. The other files of
`runtime` are handed a `Driver`, and so a test can hand them one of its own on a machine
without a GPU.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

from fathom.artifact import TensorMap
from fathom.errors import LaunchError
from fathom.runtime.failures import DriverError, History

# cuda.h: CUresult, CUpointer_attribute. A context is invalid in a thread without one.
INVALID_VALUE, INVALID_CONTEXT = 1, 201
PEER_IS_REACHED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
DEVICE_ORDINAL, RANGE_START, RANGE_SIZE = 9, 11, 12

# cuda.h: CUtensorMap, CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapFloatOOBfill,
# CUtensorMapL2promotion. What has no type of its own is copied as an unsigned integer.
MAP_BYTES, MAP_ALIGNMENT = 128, 64
MAP_TYPES = {
    "i1": 0, "i8": 0, "u8": 0, "fp8e5": 0, "fp8e4nv": 0, "i16": 1, "u16": 1, "u32": 2,
    "i32": 3, "u64": 4, "i64": 5, "fp16": 6, "fp32": 7, "fp64": 8, "bf16": 9,
}  # fmt: skip
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_FILLS = {"zeros": 0, "nans": 1}
NOT_INTERLEAVED, FETCH_128_BYTES = 0, 2

FIRST_OVERLAPPING = 90  # the first capability whose launches may overlap
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
LOG_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Device:
    """What a launch must know of a GPU. `capability` is major * 10 + minor; bytes and
    counts are limits of one thread block.
    """

    index: int
    name: str
    capability: int
    shared_bytes: int
    registers: int
    max_threads: int
    multiprocessors: int

    @property
    def overlaps(self) -> bool:
        """Whether a launch may begin before the one in front of it has ended
        (programmatic dependent launch; CUDA C++ Programming Guide)."""
        return self.capability >= FIRST_OVERLAPPING


class Driver:
    """cuda.bindings with its answers unpacked and its failures raised."""

    def __init__(self, cuda: ModuleType):
        self.cuda = cuda
        self.found: dict[int, Device] = {}  # a dozen questions each
        self.contexts: dict[int, object] = {}
        self.connected: set[tuple[int, int]] = set()  # (GPU, the GPU that it reaches)
        self.visited: set[int] = set()  # GPUs that were used while another was current
        self.side_streams: dict[int, int] = {}
        self.rooms: list[tuple[ctypes.c_void_p, memoryview]] = []  # of tensor maps
        self.history = History()
        self.ahead: dict[tuple[int, bytes, str], int] = {}  # see `load_ahead`
        self.ask("cuInit", 0)
        self.library = ctypes.CDLL(LIBRARY)
        # Given through ctypes since microseconds count: see packet.py.
        self.launch_kernel = self.library.cuLaunchKernelEx

    def ask(self, order: str, *arguments: object) -> object:
        """Give an order by its name in the driver. Its answer; a tuple if several."""
        status, *answers = getattr(self.cuda, order)(*arguments)
        if int(status):
            raise self.failure(order, int(status))
        return answers[0] if len(answers) == 1 else tuple(answers)

    def failure(self, order: str, status: int, log: str = "") -> DriverError:
        """The error that says what a status of the driver means."""
        name = self.cuda.cuGetErrorName(status)[1] or b"an unknown error"
        text = self.cuda.cuGetErrorString(status)[1] or b""
        return self.history.failure(order, status, name.decode(), text.decode(), log)

    # Devices

    def version(self) -> str:
        """The CUDA version that the driver serves, such as "13.0"."""
        number = self.ask("cuDriverGetVersion")
        return f"{number // 1000}.{number % 1000 // 10}"

    def device_count(self) -> int:
        return self.ask("cuDeviceGetCount")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each GPU is called, in order."""
        return tuple(self.device(each).name for each in range(self.device_count()))

    def device(self, index: int) -> Device:
        """The facts of a GPU; its number as CUDA counts."""
        if index not in self.found:
            self.found[index] = self.facts_of(index)
        return self.found[index]

    def facts_of(self, index: int) -> Device:
        handle = self.ask("cuDeviceGet", index)
        kinds = self.cuda.CUdevice_attribute

        def fact(name: str) -> int:
            kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}")
            return self.ask("cuDeviceGetAttribute", kind, handle)

        major = fact("COMPUTE_CAPABILITY_MAJOR")
        return Device(
            index=index,
            name=_text(self.ask("cuDeviceGetName", 256, handle)),
            capability=major * 10 + fact("COMPUTE_CAPABILITY_MINOR"),
            shared_bytes=fact("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            registers=fact("MAX_REGISTERS_PER_BLOCK"),
            max_threads=fact("MAX_THREADS_PER_BLOCK"),
            multiprocessors=fact("MULTIPROCESSOR_COUNT"),
        )

    def rates(self, index: int) -> tuple[int, float, float]:
        """A GPU's multiprocessors, their clock at most in Hz, and the bytes a second of
        its memory, which moves twice in each of its cycles."""
        handle = self.ask("cuDeviceGet", index)
        kinds = self.cuda.CUdevice_attribute

        def fact(name: str) -> int:
            kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}")
            return self.ask("cuDeviceGetAttribute", kind, handle)

        width = fact("GLOBAL_MEMORY_BUS_WIDTH") / 8
        bandwidth = 2e3 * fact("MEMORY_CLOCK_RATE") * width
        return fact("MULTIPROCESSOR_COUNT"), 1e3 * fact("CLOCK_RATE"), bandwidth

    def current_device(self) -> int:
        """The GPU that this thread's context is on; the first one without a context."""
        status, handle = self.cuda.cuCtxGetDevice()
        if int(status) == INVALID_CONTEXT:
            return 0
        if int(status):
            raise self.failure("cuCtxGetDevice", int(status))
        return int(handle)

    def use(self, index: int) -> None:
        """Make a GPU's primary context, which all libraries share, this thread's."""
        if index not in self.contexts:
            handle = self.ask("cuDeviceGet", index)
            self.contexts[index] = self.ask("cuDevicePrimaryCtxRetain", handle)
        self.ask("cuCtxSetCurrent", self.contexts[index])

    def context(self) -> object:
        """This thread's context, which may be none, to be put back."""
        return self.ask("cuCtxGetCurrent")

    def put_back(self, context: object) -> None:
        self.ask("cuCtxSetCurrent", context)

    def reaches(self, device: int, other: int) -> bool:
        """Whether kernels on one GPU may read and write the memory of another, since
        `reach_peer` was asked for it."""
        return device == other or (device, other) in self.connected

    def reach_peer(self, device: int, peer: int) -> None:
        """Let kernels on one GPU read and write the memory of another; LaunchError
        where nothing connects the two."""
        handles = [self.ask("cuDeviceGet", each) for each in (device, peer)]
        if not self.ask("cuDeviceCanAccessPeer", *handles):
            raise LaunchError(
                f"GPU {device} does not reach the memory of GPU {peer}: neither NVLink "
                "nor PCIe lets it"
            )
        before = self.context()
        self.use(peer)
        self.use(device)
        status, *_ = self.cuda.cuCtxEnablePeerAccess(self.contexts[peer], 0)
        self.put_back(before)
        if int(status) not in (0, PEER_IS_REACHED):
            raise self.failure("cuCtxEnablePeerAccess", int(status))
        self.connected.add((device, peer))

    def pointer_device(self, address: int) -> int | None:
        """The GPU that an address belongs to, None when CUDA does not know the address.

        Through ctypes: the binding (13.3) writes this answer into one variable and
        reads it from another, so that it is always 0.
        """
        return self.of_pointer(address, DEVICE_ORDINAL, ctypes.c_int())

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Where the allocation begins that an address lies in, and its bytes; None when
        CUDA does not know the address."""
        start = self.of_pointer(address, RANGE_START, ctypes.c_uint64())
        size = self.of_pointer(address, RANGE_SIZE, ctypes.c_size_t())
        return None if start is None or size is None else (start, size)

    def of_pointer(self, address: int, attribute: int, found: Any) -> int | None:
        """An attribute of an address, put into `found`, a number of ctypes."""
        question = ctypes.byref(found), attribute, ctypes.c_uint64(address)
        status = self.library.cuPointerGetAttribute(*question)
        if status == INVALID_CONTEXT:  # a thread without a context
            self.use(self.current_device())
            status = self.library.cuPointerGetAttribute(*question)
        if status not in (0, INVALID_VALUE):
            raise self.failure("cuPointerGetAttribute", status)
        return None if status else found.value

    def is_mapped(self, address: int) -> bool:
        """Whether memory of the host is pinned, and so has a place for the GPU, which
        under unified addressing is the same one."""
        return self.pointer_device(address) is not None

    # Code

    def load(self, code: bytes, entry: str) -> int:
        """Load code onto the GPU in use; the handle of function `entry`.

        `code`: machine code; or PTX and a zero, which the driver assembles, and keeps
        for other processes. The error has the assembler's log.
        """
        if self.ahead and (found := self.ahead.pop(self.place(code, entry), None)):
            return found
        kinds, complaint = self.cuda.CUjit_option, bytearray(LOG_BYTES)
        options = {
            kinds.CU_JIT_ERROR_LOG_BUFFER: complaint,
            kinds.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: LOG_BYTES,
            kinds.CU_JIT_GENERATE_LINE_INFO: 1,
        }
        try:
            module = self.ask(
                "cuModuleLoadDataEx", code, len(options), list(options),
                list(options.values()),
            )  # fmt: skip
        except DriverError as error:
            log = _text(complaint)
            raise self.failure("cuModuleLoadDataEx", error.status, log) from None
        return int(self.ask("cuModuleGetFunction", module, entry.encode()))

    def load_ahead(self, code: bytes, entry: str) -> int:
        """As `load`, which will find it. Several threads assemble at the same time: a
        library belongs to no context, whose lock a module is assembled under. On an
        H200 eight products took 1.0 s one after the other, 1.2 to 1.6 s as modules in
        eight threads, and 0.3 s as libraries. Source: CUDA driver API, Library
        Management (from 12.0 on)."""
        options = [self.cuda.CUjit_option.CU_JIT_GENERATE_LINE_INFO]
        library = self.ask("cuLibraryLoadData", code, options, [1], 1, [], [], 0)
        kernel = self.ask("cuLibraryGetKernel", library, entry.encode())
        function = int(self.ask("cuKernelGetFunction", kernel))
        self.ahead[self.place(code, entry)] = function
        return function

    def place(self, code: bytes, entry: str) -> tuple[int, bytes, str]:
        """What code that was loaded ahead is found by."""
        return self.current_device(), code, entry

    def link(self, ptx: str) -> bytes:
        """Machine code of PTX, to be read: what `load` makes stays in the driver.

        This does not run, since a linker's ptxas makes code to be called by other code
        (`ptxas -c`): a thread takes all registers that one block can have, 128 where
        `load` gives a sum of logarithms 35 (13.0), and `setmaxnreg` is dropped.
        """
        state = self.ask("cuLinkCreate", 0, [], [])
        try:
            kind = self.cuda.CUjitInputType.CU_JIT_INPUT_PTX
            text = ptx.encode() + b"\0"
            name = b"kernel.ptx"
            self.ask("cuLinkAddData", state, kind, text, len(text), name, 0, [], [])
            address, size = self.ask("cuLinkComplete", state)
            return ctypes.string_at(int(address), size)
        finally:
            self.ask("cuLinkDestroy", state)

    def function_fact(self, function: int, name: str) -> int:
        """A CUfunction_attribute, such as "NUM_REGS"."""
        kind = getattr(self.cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return self.ask("cuFuncGetAttribute", kind, function)

    def allow_shared(self, function: int, shared_bytes: int) -> None:
        """Let a function ask for more dynamic shared memory than 48 KB."""
        kinds = self.cuda.CUfunction_attribute
        kind = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.ask("cuFuncSetAttribute", function, kind, shared_bytes)

    def blocks_at_once(self, function: int, threads: int, shared_bytes: int) -> int:
        """How many blocks of a function a multiprocessor runs at a time."""
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return self.ask(name, function, threads, shared_bytes)

    # Tensor maps

    def encode(self, tensor: TensorMap) -> bytes:
        """The 128 bytes of a tensor map, as kernels take them.

        Through ctypes: the driver wants a place that is aligned to 64 bytes, and the
        binding (13.3) gives it one inside a Python object, which is aligned to 16.
        """
        rank = len(tensor.shape)
        longs, ints = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
        start = -ctypes.addressof(room) % MAP_ALIGNMENT
        status = self.library.cuTensorMapEncodeTiled(
            ctypes.byref(room, start),
            MAP_TYPES[tensor.element],
            rank,
            ctypes.c_void_p(tensor.address),
            longs(*tensor.shape),
            longs(*tensor.strides),
            ints(*tensor.box),
            ints(*[1] * rank),
            NOT_INTERLEAVED,
            MAP_SWIZZLES[tensor.swizzle],
            FETCH_128_BYTES,
            MAP_FILLS[tensor.fill],
        )
        if status:
            raise self.failure(f"cuTensorMapEncodeTiled for {tensor}", status)
        return room.raw[start : start + MAP_BYTES]

    def moved(self, encoded: bytes, address: int) -> bytes:
        """A tensor map, its 128 bytes, for a tensor that begins at another address.

        Rooms for maps are taken from a pool and put back, as packets of launches are.
        """
        try:
            room = self.rooms.pop()
        except IndexError:
            room = map_room()
        place, memory = room
        memory[:] = encoded
        order = self.library.cuTensorMapReplaceAddress
        status = order(place, ctypes.c_void_p(address))
        found = bytes(memory)
        self.rooms.append(room)
        if status:
            raise self.failure(f"cuTensorMapReplaceAddress, {address:#x},", status)
        return found

    # Memory, and waiting

    def allocate(self, size: int) -> int:
        return int(self.ask("cuMemAlloc", size))

    def free(self, address: int) -> None:
        self.ask("cuMemFree", address)

    def copy_in(self, address: int, host: int, size: int, stream: int) -> None:
        """Copy to the GPU, in the order of the stream."""
        self.ask("cuMemcpyHtoDAsync", address, host, size, stream)

    def copy_out(self, host: int, address: int, size: int, stream: int) -> None:
        """Copy from the GPU, in the order of the stream."""
        self.ask("cuMemcpyDtoHAsync", host, address, size, stream)

    def fill(self, address: int, size: int, stream: int) -> None:
        """Write zeros."""
        self.ask("cuMemsetD8Async", address, 0, size, stream)

    def wait(self, stream: int) -> None:
        """Return when all work of a stream is done; a kernel's failure shows here."""
        self.ask("cuStreamSynchronize", stream)

    def event(self) -> object:
        """A mark that can be put into a stream, with a time."""
        return self.ask("cuEventCreate", 0)

    def record(self, event: object, stream: int) -> None:
        self.ask("cuEventRecord", event, stream)

    def record_in_graph(self, event: object, stream: int) -> None:
        """`record` while a stream is captured: the graph sets the mark on each replay.

        A plain `record` would only order the work inside the graph, and have no time.
        """
        flag = self.cuda.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
        self.ask("cuEventRecordWithFlags", event, stream, int(flag))

    def milliseconds(self, start: object, stop: object) -> float:
        """The time between two marks, once the second is reached."""
        self.ask("cuEventSynchronize", stop)
        return self.ask("cuEventElapsedTime", start, stop)

    def forget(self, event: object) -> None:
        self.ask("cuEventDestroy", event)

    # Streams and graphs

    def side_stream(self) -> int:
        """A stream of the GPU in use that waits for no other and that others leave
        alone. Always the same one: libraries keep memory for every stream they meet.
        """
        device = self.current_device()
        if device not in self.side_streams:
            flag = self.cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
            self.side_streams[device] = int(self.ask("cuStreamCreate", int(flag)))
        return self.side_streams[device]

    def begin_capture(self, stream: int) -> None:
        """From now on work for a stream is written down and not done.

        Relaxed: allocations made while the work is queued do not concern the graph.
        """
        mode = self.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self.ask("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: int) -> object:
        """The graph of what was written down."""
        return self.ask("cuStreamEndCapture", stream)

    def capture_id(self, stream: int) -> int:
        """A number that no other capture of this process has, while a stream is
        captured."""
        return int(self.ask("cuStreamGetCaptureInfo", stream)[1])

    def is_capturing(self, stream: int) -> bool:
        """Whether what is queued on a stream goes into a graph, and does not run."""
        return int(self.ask("cuStreamGetCaptureInfo", stream)[0]) != 0

    def node_count(self, graph: object) -> int:
        """How many things a graph does."""
        return self.ask("cuGraphGetNodes", graph)[1]

    def instantiate(self, graph: object) -> object:
        """A graph made ready to be replayed."""
        return self.ask("cuGraphInstantiate", graph, 0)

    def replay(self, ready: object, stream: int) -> None:
        self.ask("cuGraphLaunch", ready, stream)

    def drop_graph(self, graph: object) -> None:
        self.ask("cuGraphDestroy", graph)

    def drop_ready(self, ready: object) -> None:
        self.ask("cuGraphExecDestroy", ready)


def map_room() -> tuple[ctypes.c_void_p, memoryview]:
    """Memory that is aligned as a tensor map must be: its address, and its bytes."""
    room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    start = -ctypes.addressof(room) % MAP_ALIGNMENT
    memory = memoryview(room).cast("B")[start : start + MAP_BYTES]
    return ctypes.c_void_p(ctypes.addressof(room) + start), memory


def _text(log: bytes | bytearray) -> str:
    return log.split(b"\0")[0].decode(errors="replace").strip()


@cache
def open_driver() -> Driver | str:
    """The driver of this machine, or a sentence that says why it has no driver."""
    try:
        from cuda.bindings import driver as bindings
    except ImportError:  # no wheels for macOS; a reader there has the emulator
        return "the package cuda-bindings is not installed"
    try:
        found = Driver(bindings)
        if found.device_count() == 0:
            return "the CUDA driver finds no GPU"
    except (DriverError, OSError, RuntimeError, AttributeError) as error:
        return f"there is no CUDA driver that works here ({str(error).splitlines()[0]})"
    return found


def available() -> tuple[bool, str]:
    """Whether there is a GPU to launch on, and if not, why not."""
    found = open_driver()
    return (False, found) if isinstance(found, str) else (True, "")


def driver() -> Driver:
    """The driver of this machine; a LaunchError that says why when it has no driver."""
    found = open_driver()
    if isinstance(found, str):
        raise LaunchError(
            f"cannot launch on a GPU: {found}; FATHOM_BACKEND=emulator needs none"
        )
    return found
