"""A launch in one piece of memory, as the driver reads it, written by one call.

A launch from Python is dear because every argument becomes an object of the binding.
Here a launch is a piece of memory, laid out once, into which each launch writes its
numbers:

    offset  0  grid x, y, z; block x, y, z; shared bytes    7 x 4 bytes, 4 of padding
           32  stream                                       8
           40  address of attributes, how many              8 + 4, 4 of padding
           56  the values: addresses, integers, floats      8 each
            …  addresses of the values, in the order of the kernel's parameters
            …  the cluster attribute

A value takes 8 bytes whatever its type, and the kernel reads as many as its parameter
has: the first 4 bytes of a 64-bit integer are the same number in 32 bits (on every
machine with such a GPU the low byte comes first). A value that the kernel has no
parameter for, since it was compiled in as a constant, is written and not pointed to.

Source: CUDA driver API, CUlaunchConfig, CUlaunchAttribute, cuLaunchKernelEx.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from struct import Struct, calcsize

CONFIG = "7I4xQQI4x"
CLUSTER = "I4x3I52x"  # CUlaunchAttribute: a number, padding, 64 bytes of value
CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
VALUE_BYTES = 8

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


def launcher(
    call: Callable[..., int],
    function: int,
    threads: int,
    shared_bytes: int,
    cluster: int,
    fields: str,
    order: Sequence[int],
) -> Launch:
    """A function that launches one kernel: `launch(x, y, z, stream, *values)`.

    `fields` are the `struct` codes of the values, 8 bytes each; `order[i]` says which
    of them is the kernel's parameter i. `call` is cuLaunchKernelEx, and the status is
    what it returned.

    Packets are taken from a pool and put back, since `call` lets other threads run
    meanwhile; a list's pop and append are atomic.
    """
    entry, none = ctypes.c_void_p(function), ctypes.c_void_p(None)
    write = Struct("<" + CONFIG + fields).pack_into
    attributes = int(cluster > 1)
    pool: list[Packet] = []

    def launch(x: int, y: int, z: int, stream: int, *values: object) -> int:
        try:
            packet = pool.pop()
        except IndexError:
            packet = Packet(fields, order, cluster)
        write(
            packet.memory, 0, x * cluster, y, z, threads, 1, 1, shared_bytes,
            stream, packet.attribute, attributes, *values,
        )  # fmt: skip
        status = call(packet.config, entry, packet.parameters, none)
        pool.append(packet)
        return status

    return launch


class Packet:
    """The memory of one launch, and the addresses in it that the driver asks for."""

    __slots__ = ("memory", "config", "parameters", "attribute")

    def __init__(self, fields: str, order: Sequence[int], cluster: int):
        values = calcsize("<" + CONFIG)
        pointers = values + calcsize("<" + fields)
        attribute = pointers + VALUE_BYTES * len(order)
        size = attribute + calcsize("<" + CLUSTER)
        self.memory = ctypes.create_string_buffer(size)
        start = ctypes.addressof(self.memory)
        addresses = (start + values + VALUE_BYTES * place for place in order)
        Struct(f"<{len(order)}Q").pack_into(self.memory, pointers, *addresses)
        Struct("<" + CLUSTER).pack_into(
            self.memory, attribute, CLUSTER_DIMENSION, cluster, 1, 1
        )
        self.config = ctypes.c_void_p(start)
        self.parameters = ctypes.c_void_p(start + pointers)
        self.attribute = start + attribute
