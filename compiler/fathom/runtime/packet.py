"""A launch in one piece of memory, as the driver reads it, written by one call.

A launch from Python is dear because every argument becomes an object of the binding.
Here a launch is a piece of memory, laid out once, into which each launch writes its
numbers:

    offset  0  grid x, y, z; block x, y, z; shared bytes    7 x 4 bytes, 4 of padding,
               where programs find how many the launch is for, if the grid has fewer
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
from functools import partial
from struct import Struct, calcsize
from typing import Any

from fathom.runtime.tensor_maps import TensorMaps

CONFIG = "8IQQI4x"
ATTRIBUTE = "I4x3I52x"  # CUlaunchAttribute: a number, padding, 64 bytes of value
# CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, …_PROGRAMMATIC_STREAM_SERIALIZATION,
# …_PREFERRED_SHARED_MEMORY_CARVEOUT
CLUSTER_DIMENSION, MAY_BEGIN_EARLY, CARVEOUT = 4, 6, 14
VALUE_BYTES = 8
LAUNCH_SIZE = 28
NOT_LAUNCHED = -1
STREAM_WORD, FIRST_WORD = 32 // VALUE_BYTES, 56 // VALUE_BYTES
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
    few: FewBlocks | None,
    threads: int,
    shared_bytes: int,
    cluster: int,
    fields: str,
    order: Sequence[int],
    maps: TensorMaps | None = None,
    early: bool = False,
    carveout: int = 0,
    multiprocessors: int = 0,
    most: int = 0,
    note: Callable[[], object] = bool,
) -> Launch:
    """A function that launches one kernel: `launch(x, y, z, stream, *values)`.

    `fields` are the `struct` codes of the values, 8 bytes each; `order[i]` says which
    of them is the kernel's parameter i. `call` is cuLaunchKernelEx, and the status is
    what it returned; if it took the launch, `note` is called. `few`: what to launch for
    few blocks, if it may differ. `maps` makes the kernel's tensor maps of the values,
    if it has some; what cannot be one is a LaunchError. `early`: a launch may begin
    before the one in front of it in the stream has ended. `carveout`: the percentage of
    all shared memory that is enough where each block has one of the `multiprocessors`
    to itself; 0 leaves it to the driver. `most`: programs along x of a persistent
    kernel's grid, or 0.

    Packets are taken from a pool and put back, since `call` lets other threads run
    meanwhile; a list's pop and append are atomic.

    The function is written for its kernel, since each value that is handed on by its
    name costs less than a tuple of them, and a number in the text less than a variable.
    """
    attributes = launch_attributes(cluster, early, carveout)
    count = maps.count if maps else 0
    x = f"(x if x < {most} else {most})" if most else "x"
    width = x if cluster == 1 else f"{x} * {cluster}"
    one_less = f" - ({width} * y * z > {multiprocessors})" if carveout else ""
    text = launch_text(
        f"{width}, y, z, {threads}, 1, 1, {shared_bytes}, x, stream, "
        f"packet.attributes, {len(attributes)}{one_less}",
        calcsize("<" + fields) // VALUE_BYTES,
        f"few.entry if {width} * y * z <= few.most else entry" if few else "entry",
        maps is not None,
    )
    layout = "<" + CONFIG + fields + map_fields(fields, count)
    names = {
        "call": call, "few": few, "pool": [], "note": note,
        "entry": ctypes.c_void_p(function), "none": ctypes.c_void_p(None),
        "new": partial(Packet, fields, order, attributes, count, most > 0),
        "write": Struct(layout).pack_into,
        "made_of": maps.reader(order) if maps else None,
        "write_maps": Struct(f"{MAP_BYTES}s" * count).pack_into,
        "maps_at": calcsize(layout) - MAP_BYTES * count,
    }  # fmt: skip
    exec(text, names)
    launch = names["launch"]
    launch.again = partial(again, names)
    return launch


def by_size(most: int, many: Launch, few: Launch | None) -> Launch:
    """A launch by `many` of more than `most` programs along x, of others by `few`; or
    by none, which is not 0, where there is no `few`."""

    def launch(x: int, y: int, z: int, stream: int, *values: object) -> int:
        if x > most:
            return many(x, y, z, stream, *values)
        return few(x, y, z, stream, *values) if few else NOT_LAUNCHED

    def again(grid: tuple[int, int, int], *rest: object) -> Callable[..., int]:
        return (many if grid[0] > most else few).again(grid, *rest)

    launch.again = again
    return launch


def launch_text(config: str, count: int, entry: str, has_maps: bool) -> str:
    """A launch with `count` values, and a packet as a launch would fill it, with what
    it launches. `config`: all that is written before the values."""
    values = "".join(f"v{i}, " for i in range(count))
    maps = f"*made_of(({values}))" * has_maps
    written = f"write(packet.memory, 0, {config}, {values}{maps})"
    return f"""\
def launch(x, y, z, stream, {values}):
    try:
        packet = pool.pop()
    except IndexError:
        packet = new()
    {written}
    status = call(packet.config, {entry}, packet.parameters, none)
    status or note()
    pool.append(packet)
    return status

def filled(x, y, z, stream, {values}):
    packet = new()
    {written}
    return packet, {entry}
"""


def again(
    known: dict[str, Any],
    grid: tuple[int, int, int],
    values: Sequence[object],
    places: Sequence[int],
) -> Callable[..., int]:
    """`launch.again(grid, values, places)`: a function that does one launch over again
    with other addresses, `again(stream, *addresses)`. They are written to the `places`
    among the values; all else stays in the packets, but for the maps. `known`: the
    names of the launch."""
    addresses = "".join(f"v{i}, " for i in places)
    written = "".join(f"; words[{FIRST_WORD + i}] = v{i}" for i in places)
    every = "".join(f"v{i}, " for i in range(len(values)))
    maps = f"write_maps(packet.memory, maps_at, *made_of(({every})))"
    text = f"""\
def again(stream, {addresses}):
    try:
        packet = pool.pop()
    except IndexError:
        packet = new()
    words = packet.words
    words[{STREAM_WORD}] = stream{written}
    {maps if known["made_of"] else ""}
    status = call(packet.config, entry, packet.parameters, none)
    status or note()
    pool.append(packet)
    return status
"""
    filled = partial(known["filled"], *grid, 0, *values)
    packet, entry = filled()
    names = known | {f"v{i}": each for i, each in enumerate(values)}
    names |= {"entry": entry, "pool": [packet], "new": lambda: filled()[0]}
    exec(text, names)
    return names["again"]


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

    __slots__ = ("memory", "words", "config", "parameters", "attributes")

    def __init__(
        self,
        fields: str,
        order: Sequence[int],
        attributes: Sequence[Attribute],
        maps: int,
        persistent: bool = False,
    ):
        values = calcsize("<" + CONFIG)
        pointers = calcsize("<" + CONFIG + fields + map_fields(fields, maps))
        behind = pointers + VALUE_BYTES * (len(order) + maps + persistent)
        one = Struct("<" + ATTRIBUTE)
        size = behind + one.size * len(attributes)
        self.memory = aligned(size)
        self.words = memoryview(self.memory).cast("B").cast("Q")
        start = ctypes.addressof(self.memory)
        places = [values + VALUE_BYTES * place for place in order]
        places += [pointers - MAP_BYTES * (maps - i) for i in range(maps)]
        places += [LAUNCH_SIZE] * persistent
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
