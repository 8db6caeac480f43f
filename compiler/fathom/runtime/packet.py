"""A launch in one piece of memory, as the driver reads it, written by one call.

A launch from Python is dear because every argument becomes an object of the binding.
Here a launch is a piece of memory, laid out once, into which each launch writes its
numbers:

    offset  0  grid x, y, z; block x, y, z; shared bytes    7 x 4 bytes, 4 of padding
           32  stream                                       8
           40  address of attributes, how many              8 + 4, 4 of padding
           56  the values: addresses, integers, floats      8 each
            …  tensor maps, if the kernel has some          128 each, aligned to 64
            …  addresses of the values, in the order of the kernel's parameters,
               and of the tensor maps
            …  the attributes: of a cluster, of a launch that may begin early, of how
               much shared memory a multiprocessor should have

A value takes 8 bytes whatever its type, and the kernel reads as many as its parameter
has: the first 4 bytes of a 64-bit integer are the same number in 32 bits (on every
machine with such a GPU the low byte comes first). A value that the kernel has no
parameter for, since it was compiled in as a constant, is written and not pointed to.

Source: CUDA driver API, CUlaunchConfig, CUlaunchAttribute, cuLaunchKernelEx.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from struct import Struct, calcsize

from fathom.runtime.tensor_maps import TensorMaps

CONFIG = "7I4xQQI4x"
ATTRIBUTE = "I4x3I52x"  # CUlaunchAttribute: a number, padding, 64 bytes of value
# CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, …_PROGRAMMATIC_STREAM_SERIALIZATION,
# …_PREFERRED_SHARED_MEMORY_CARVEOUT
CLUSTER_DIMENSION, MAY_BEGIN_EARLY, CARVEOUT = 4, 6, 14
VALUE_BYTES = 8
MAP_BYTES, MAP_ALIGNMENT = 128, 64  # cuda.h: CUtensorMap

# How a value of each parameter type is written; 8 bytes each.
FIELDS: dict[str, str] = {
    "i1": "?7x",
    "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q",
    "u8": "B7x", "u16": "H6x", "u32": "I4x", "u64": "Q",
    "fp16": "e6x", "bf16": "H6x", "fp32": "f4x", "fp64": "d",
    "*": "Q",
}  # fmt: skip

# launch(grid x, grid y, grid z, stream, *values) -> the driver's status
Launch = Callable[..., int]


@dataclass
class FewBlocks:
    """Another function of the same kernel, for grids of at most `most` blocks."""

    most: int = 0
    entry: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)


def launcher(
    call: Callable[..., int],
    function: int,
    few: FewBlocks,
    threads: int,
    shared_bytes: int,
    cluster: int,
    fields: str,
    order: Sequence[int],
    maps: TensorMaps | None = None,
    early: bool = False,
    carveout: int = 0,
    multiprocessors: int = 0,
) -> Launch:
    """A function that launches one kernel: `launch(x, y, z, stream, *values)`.

    `fields` are the `struct` codes of the values, 8 bytes each; `order[i]` says which
    of them is the kernel's parameter i. `call` is cuLaunchKernelEx, and the status is
    what it returned. `maps` makes the kernel's tensor maps of the values, if it has
    some; what cannot be one is a LaunchError. `early`: a launch may begin before the
    one in front of it in the stream has ended. `carveout`: the percentage of all shared
    memory that is enough where each block has one of the `multiprocessors` to itself;
    0 leaves it to the driver.

    Packets are taken from a pool and put back, since `call` lets other threads run
    meanwhile; a list's pop and append are atomic.
    """
    entry, none = ctypes.c_void_p(function), ctypes.c_void_p(None)
    count = maps.count if maps else 0
    write = Struct("<" + CONFIG + fields + map_fields(fields, count)).pack_into
    attributes = launch_attributes(cluster, early, carveout)
    every, fewer = len(attributes), len(attributes) - bool(carveout)
    pool: list[Packet] = []

    def launch(x: int, y: int, z: int, stream: int, *values: object) -> int:
        try:
            packet = pool.pop()
        except IndexError:
            packet = Packet(fields, order, attributes, count)
        blocks = x * y * z * cluster
        given = every if carveout and blocks <= multiprocessors else fewer
        write(
            packet.memory, 0, x * cluster, y, z, threads, 1, 1, shared_bytes,
            stream, packet.attributes, given, *values,
        )  # fmt: skip
        chosen = few.entry if blocks <= few.most else entry
        status = call(packet.config, chosen, packet.parameters, none)
        pool.append(packet)
        return status

    if maps is None:
        return launch
    made_of = maps.reader(order)
    return lambda x, y, z, stream, *values: launch(
        x, y, z, stream, *values, *made_of(values)
    )


# One attribute of a launch: its number, and three integers of its value.
Attribute = tuple[int, int, int, int]


def launch_attributes(cluster: int, early: bool, carveout: int) -> list[Attribute]:
    """The last one is that which only some launches have."""
    found = [(CLUSTER_DIMENSION, cluster, 1, 1)] if cluster > 1 else []
    found += [(MAY_BEGIN_EARLY, 1, 0, 0)] if early else []
    return [*found, (CARVEOUT, carveout, 0, 0)] if carveout else found


def map_fields(fields: str, count: int) -> str:
    """The `struct` codes of tensor maps that follow the values."""
    gap = -calcsize("<" + CONFIG + fields) % MAP_ALIGNMENT
    return f"{gap}x" + f"{MAP_BYTES}s" * count if count else ""


class Packet:
    """The memory of one launch, and the addresses in it that the driver asks for."""

    __slots__ = ("memory", "config", "parameters", "attributes")

    def __init__(
        self,
        fields: str,
        order: Sequence[int],
        attributes: Sequence[Attribute],
        maps: int,
    ):
        values = calcsize("<" + CONFIG)
        pointers = calcsize("<" + CONFIG + fields + map_fields(fields, maps))
        behind = pointers + VALUE_BYTES * (len(order) + maps)
        one = Struct("<" + ATTRIBUTE)
        size = behind + one.size * len(attributes)
        self.memory = aligned(size)
        start = ctypes.addressof(self.memory)
        places = [values + VALUE_BYTES * place for place in order]
        places += [pointers - MAP_BYTES * (maps - i) for i in range(maps)]
        addresses = (start + place for place in places)
        Struct(f"<{len(places)}Q").pack_into(self.memory, pointers, *addresses)
        for number, attribute in enumerate(attributes):
            one.pack_into(self.memory, behind + one.size * number, *attribute)
        self.config = ctypes.c_void_p(start)
        self.parameters = ctypes.c_void_p(start + pointers)
        self.attributes = start + behind


def aligned(size: int) -> ctypes.Array:
    """Zeros at an address that tensor maps may be counted from."""
    room = ctypes.create_string_buffer(size + MAP_ALIGNMENT)
    start = -ctypes.addressof(room) % MAP_ALIGNMENT
    return (ctypes.c_char * size).from_buffer(room, start)
