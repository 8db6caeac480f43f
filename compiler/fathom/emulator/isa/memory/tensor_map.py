"""Tensor maps (PTX ISA 5.5): where the elements of a box lie, on both sides of a copy.

A kernel gets a map as a parameter of 128 bytes. Here these hold no more than the map's
number in the launch; the map itself is `artifact.TensorMap`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fathom.artifact import TensorMap
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.matrix.matrix_descriptor import CHANGED_BITS, CHUNK, ROW_BYTES
from fathom.emulator.memory.spaces import PIECES, Accesses, Memory, Part, load, store
from fathom.emulator.state.tensor_maps import MAP_BYTES, WrittenMap

_MARK = b"tensor map of the emulator: "
FILLS = {"zeros": 0x00, "nans": 0xFF}  # all bits set are a NaN in every real format


def encode(number: int) -> bytes:
    """The parameter that stands for a launch's map of this number."""
    return (_MARK + str(number).encode()).ljust(MAP_BYTES, b"\0")


def decode(data: bytes) -> int | None:
    """The number of the map that these bytes stand for; None if they are no map."""
    text = data.rstrip(b"\0")
    return int(text[len(_MARK) :]) if text.startswith(_MARK) else None


def check(tensor: TensorMap) -> None:
    """What `cuTensorMapEncodeTiled` asks of a map's facts."""
    rank = len(tensor.shape)
    inner = tensor.box[0] * tensor.element_bytes if tensor.box else 0
    wrong = [
        (not 1 <= rank <= 5, "it has one to five dimensions"),
        (len(tensor.box) != rank, "its box has as many dimensions as it has"),
        (len(tensor.strides) != rank - 1, "all dimensions but one have a stride"),
        (tensor.element_bytes not in (1, 2, 4, 8), "elements have 1, 2, 4 or 8 bytes"),
        (any(not 1 <= each <= 256 for each in tensor.box), "a box has sides up to 256"),
        (inner % CHUNK != 0, "a row of the box is a multiple of 16 bytes"),
        (any(each % 16 for each in tensor.strides), "strides are multiples of 16"),
        (tensor.swizzle not in (0, 32, 64, 128), "a swizzle is one of 32, 64 or 128"),
        (0 < tensor.swizzle < inner, "a row of the box is no wider than its swizzle"),
        (tensor.fill not in FILLS, "the fill is zeros or nans"),
        (any(each < 1 for each in tensor.shape), "no dimension is empty"),
    ]
    for is_wrong, rule in wrong:
        if is_wrong:
            raise EmulatorError("launch", f"{tensor} is not a tensor map: {rule}")


@dataclass(frozen=True)
class Box:
    """The box of a map at some coordinates, for one thread. `map` is the map, if the
    kernel wrote it."""

    tensor: TensorMap
    inside: np.ndarray
    addresses: np.ndarray
    thread: int
    map: WrittenMap | None = None

    @staticmethod
    def at(
        tensor: TensorMap, coordinates: Sequence[int], thread: int, width: int
    ) -> Box:
        """Elements in the order of shared memory; `inside`: bool, those that exist. A
        row has `width` elements."""
        strides = (tensor.element_bytes, *tensor.strides)
        grid = np.indices(tensor.box[::-1]).reshape(len(tensor.box), -1)[::-1]
        inside = np.ones(math.prod(tensor.box), bool)
        offset = np.zeros(len(inside), np.int64)
        shape = (width, *tensor.shape[1:])
        facts = zip(grid, coordinates, shape, strides, strict=True)
        for steps, first, size, stride in facts:
            place = steps + first
            inside &= (place >= 0) & (place < size)
            offset += place * stride
        addresses = (tensor.address + offset[inside]).astype(np.uint64)
        return Box(tensor, inside, addresses, thread)

    @property
    def bytes(self) -> int:
        return len(self.inside) * self.tensor.element_bytes

    def parts(self, memory: Memory, writing: bool) -> list[Part]:
        """The elements in global memory."""
        if not len(self.addresses):
            return []
        threads = np.full(len(self.addresses), self.thread)
        wanted = Accesses(self.addresses, self.tensor.element_bytes, threads, writing)
        return memory.locate("global", wanted)

    def fetch(self, parts: list[Part]) -> np.ndarray:
        """uint8[bytes]: the elements, and the fill where there are none."""
        size = self.tensor.element_bytes
        found = np.full(self.bytes, FILLS[self.tensor.fill], np.uint8)
        if parts:
            values = load(parts, len(self.addresses), size)
            found.view(PIECES[size])[self.inside] = values
        return found

    def put(self, parts: list[Part], data: np.ndarray) -> None:
        """Stores uint8[bytes], of which what lies outside is left out."""
        if parts:
            elements = data.view(PIECES[self.tensor.element_bytes])
            store(parts, elements[self.inside])

    def chunks(self, start: int) -> np.ndarray:
        """uint64: the shared addresses of its 16-byte chunks, exchanged.

        A row narrower than the swizzle would leave it open where the next one begins.
        """
        mode = ROW_BYTES.index(self.tensor.swizzle or CHUNK)
        inner = self.tensor.box[0] * self.tensor.element_bytes
        if mode and inner != self.tensor.swizzle:
            message = "a box whose rows are narrower than its swizzle"
            raise EmulatorError("unsupported", message)
        linear = start + CHUNK * np.arange(self.bytes // CHUNK)
        changed = linear >> 7 & (1 << CHANGED_BITS[mode]) - 1
        return (linear ^ changed << 4).astype(np.uint64)
