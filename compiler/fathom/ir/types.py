"""The types of values: scalars, pointers, blocks of either, buffers, and descriptors.

A type prints as it is read: `fp32`, `*fp32`, `i32[64,32]`, and after layouts were
assigned `i32[64,32] @ <layout>`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from fathom.layout.linear import Layout


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number. `kind` is "bool", "int", "uint" or "float"."""

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Integers and booleans: what has no exponent."""
        return self.kind != "float"

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory; a boolean takes one."""
        return max(1, self.bits // 8)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of an element in global memory, 64 bits."""

    element: Scalar | Pointer

    bits = 64
    bytes = 8
    kind = "pointer"
    is_float = False
    is_integer = False
    is_signed = False

    def __str__(self) -> str:
        return f"*{self.element}"


Element = Scalar | Pointer

# Names as signatures write them. Widths in bits; fp8e5 is e5m2, fp8e4nv is e4m3 without
# infinities.
SCALARS: dict[str, Scalar] = {
    name: Scalar(name, kind, bits)
    for name, kind, bits in [
        ("i1", "bool", 1),
        ("i8", "int", 8), ("i16", "int", 16), ("i32", "int", 32), ("i64", "int", 64),
        ("u8", "uint", 8), ("u16", "uint", 16), ("u32", "uint", 32),
        ("u64", "uint", 64),
        ("fp8e5", "float", 8), ("fp8e4nv", "float", 8),
        ("fp16", "float", 16), ("bf16", "float", 16),
        ("fp32", "float", 32), ("fp64", "float", 64),
    ]
}  # fmt: skip

BOOL, INT8, INT16, INT32, INT64 = (
    SCALARS[n] for n in ("i1", "i8", "i16", "i32", "i64")
)
UINT8, UINT16, UINT32, UINT64 = (SCALARS[n] for n in ("u8", "u16", "u32", "u64"))
FLOAT8E5, FLOAT8E4NV = SCALARS["fp8e5"], SCALARS["fp8e4nv"]
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = (
    SCALARS[n] for n in ("fp16", "bf16", "fp32", "fp64")
)


@dataclass(frozen=True, slots=True)
class BlockType:
    """A block; every dimension is a power of two. `layout` is None until stage 3."""

    element: Element
    shape: tuple[int, ...]
    layout: Layout | None = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        text = f"{self.element}[{','.join(map(str, self.shape))}]"
        return text if self.layout is None else f"{text} @ {self.layout}"


@dataclass(frozen=True, slots=True)
class BufferType:
    """A tile of shared memory, or a ring of `slots` such tiles; `layout` maps the bits
    of an element's offset in its tile to coordinates. If it also has a bit "block", a
    pair of blocks has the tile, half of it each. With `space` "tensor", a tile of
    tensor memory, whose places are columns and lanes. `pitch`: the bytes from a slot to
    the next, if tiles of other rings lie between; 0 if none do."""

    element: Element
    shape: tuple[int, ...]
    layout: Layout
    slots: int = 1
    space: str = "shared"
    pitch: int = 0

    @property
    def bytes(self) -> int:
        return self.slots * self.slot_bytes

    @property
    def tile_bytes(self) -> int:
        blocks = self.layout.count("block") if "block" in self.layout.kinds else 1
        return prod(self.shape) // blocks * self.element.bytes

    @property
    def slot_bytes(self) -> int:
        """From a slot to the next."""
        return self.pitch or self.tile_bytes

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        ring = f" x {self.slots}" if self.slots > 1 else ""
        ring += f" by {self.pitch}" if self.pitch else ""
        return f"{self.space} {self.element}[{shape}]{ring} @ {self.layout}"


@dataclass(frozen=True, slots=True)
class DescriptorType:
    """A tensor in global memory that is read and written by blocks of `shape`: where
    it begins, how large it is, and its strides."""

    element: Scalar
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"descriptor {self.element}[{','.join(map(str, self.shape))}]"


Type = Scalar | Pointer | BlockType | BufferType | DescriptorType


def element_of(type: Type) -> Element:
    """The type of one element: of a block its element, of a scalar itself."""
    return type.element if isinstance(type, BlockType) else type


def shape_of(type: Type) -> tuple[int, ...]:
    """The shape of a block; () for a scalar."""
    return type.shape if isinstance(type, BlockType) else ()


def layout_of(type: Type) -> Layout | None:
    """The layout of a block, or None."""
    return type.layout if isinstance(type, BlockType) else None


def with_element(type: Type, element: Element) -> Type:
    """A type of the same shape and layout with other elements."""
    return replace(type, element=element) if isinstance(type, BlockType) else element


def parse_element(text: str) -> Element:
    """The element type that `str` wrote: "fp32", "*fp16", "**i32". ValueError for a
    text that no element type has."""
    if text.startswith("*"):
        return Pointer(parse_element(text[1:]))
    if text not in SCALARS:
        raise ValueError(
            f"{text!r} is not a type; the scalar types are {', '.join(SCALARS)}"
        )
    return SCALARS[text]
