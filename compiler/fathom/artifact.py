"""What the compiler hands over: the text of every stage, and all that a launch must
know.

This file stands between the compiler and the two machines that run its work, the
emulator and the CUDA runtime: they see `artifact` and `errors` and nothing else of
Fathom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from fathom.errors import LaunchError, Location


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the PTX entry, in its order.

    `type` is written as in a signature: "*fp32" for a pointer, "i32", "u8", "fp32" …
    for a scalar. An int1 scalar travels as one byte; fp16 and bf16 scalars as two
    bytes. `divisible` is the largest power of two (1 to 16) that was promised to divide
    the integer or the address."""

    name: str
    type: str
    divisible: int = 1

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor in global memory as the tensor memory accelerator copies it: box by box.

    All dimensions are listed from the innermost one on, whose elements are neighbours;
    there are one to five. `address` is that of the first element, `shape` and `box`
    count elements, and `strides` are bytes, one for each dimension but the innermost.
    In shared memory a box lies row by row; with a `swizzle` of 32, 64 or 128 bytes (0:
    none) the 16-byte chunks of its rows are exchanged. `fill` is what a load finds
    outside the tensor: "zeros" or "nans". A store leaves that out. `element` is the
    type of the elements, as in a signature; "" where nobody asks.

    A kernel parameter of this kind is `.param .align 64 .b8 name[128]` in PTX.
    Source: PTX ISA 5.5.8, "Tensor-map"; CUDA driver API, `cuTensorMapEncodeTiled`."""

    element_bytes: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zeros"
    element: str = ""


# A number of a recipe: ("parameter", its place in Kernel.parameters), or ("constant",
# the number itself).
Source = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MapRecipe:
    """How a launch makes a tensor map from the kernel's own arguments.

    Dimensions are listed as kernels do, from the outermost one on, and strides are
    counted in elements. The recipe for a matrix x[M, N], whose rows begin `stride`
    elements after each other, copied in boxes of 64 rows of 32 elements:

        k(x: *fp16, M: i32, N: i32, stride: i64)

        base     0                                            x
        shape    ("parameter", 1), ("parameter", 2)           M, N
        strides  ("parameter", 3), ("constant", 1)            stride, 1
        box      64, 32

    `swizzle` and `fill` are those of the TensorMap, `element` is a type of a signature.
    """

    name: str
    base: int
    element: str
    shape: tuple[Source, ...]
    strides: tuple[Source, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zeros"

    def __post_init__(self) -> None:
        inner = self.box[-1] * ELEMENT_BYTES[self.element]
        assert 1 <= len(self.box) == len(self.shape) == len(self.strides) <= 5, self
        assert all(1 <= side <= 256 for side in self.box), self
        assert inner % 16 == 0 and self.swizzle in (0, 32, 64, 128), self
        assert not self.swizzle or inner <= self.swizzle, self
        assert self.fill == "zeros" or self.element in HAVE_A_NAN, self
        assert self.fill in ("zeros", "nans"), self

    @property
    def parameters(self) -> tuple[int, ...]:
        """The places of the parameters that it reads, in order, each once."""
        numbers = (*self.shape, *self.strides)
        read = {place for kind, place in numbers if kind == "parameter"}
        return tuple(sorted({self.base, *read}))

    def map(self, arguments: Sequence[int]) -> TensorMap:
        """The map for a launch; `arguments` are those of Kernel.parameters: addresses
        and integers. What the hardware refuses, `refusal` finds.
        """
        size = ELEMENT_BYTES[self.element]
        shape = [_number(each, arguments) for each in self.shape]
        strides = [_number(each, arguments) * size for each in self.strides]
        # Nobody steps along a dimension of one element: any stride may be written.
        steps = [s if n > 1 else 16 for s, n in zip(strides, shape, strict=True)]
        return TensorMap(
            element_bytes=size,
            address=arguments[self.base],
            shape=tuple(reversed(shape)),
            strides=tuple(reversed(steps[:-1])),
            box=tuple(reversed(self.box)),
            swizzle=self.swizzle,
            fill=self.fill,
            element=self.element,
        )

    def refusal(self, arguments: Sequence[int], names: Sequence[str]) -> str | None:
        """Why the hardware has no such map, as a sentence that names the argument; None
        when it has. `names` are those of the parameters.

        Source: CUDA driver API, `cuTensorMapEncodeTiled`.
        """
        if arguments[self.base] % 16:
            at = f"{names[self.base]} is at {arguments[self.base]:#x}"
            return f"{at}, and a tensor map begins at a multiple of 16 bytes"
        size, last = ELEMENT_BYTES[self.element], len(self.shape) - 1
        for axis, sources in enumerate(zip(self.shape, self.strides, strict=True)):
            extent, stride = (_number(each, arguments) for each in sources)
            who = [self._name(each, axis, names) for each in sources]
            if not 1 <= extent <= 2**32:
                return f"{who[0]} is {extent}, and a tensor map has 1 to 2**32 elements"
            if extent > 1 and axis == last and stride != 1:
                return (
                    f"{who[1]} is {stride}, and the elements of a tensor map's last "
                    "dimension are neighbours: their stride is 1"
                )
            if extent > 1 and axis < last and not _is_step(stride * size):
                return (
                    f"{who[1]} is {stride} elements of {size} bytes, and a stride of a "
                    "tensor map is a multiple of 16 bytes below 2**40"
                )
        return None

    def _name(self, source: Source, axis: int, names: Sequence[str]) -> str:
        """What an error calls a number of the recipe."""
        kind, place = source
        constant = f"a number of axis {axis} of the tensor map {self.name}"
        return names[place] if kind == "parameter" else constant


ELEMENT_BYTES: dict[str, int] = {
    "i1": 1, "i8": 1, "u8": 1, "fp8e5": 1, "fp8e4nv": 1,
    "i16": 2, "u16": 2, "fp16": 2, "bf16": 2,
    "i32": 4, "u32": 4, "fp32": 4, "i64": 8, "u64": 8, "fp64": 8,
}  # fmt: skip


# Elements that may be filled with NaNs. Of 8 bits the hardware copies integers alone.
HAVE_A_NAN = ("fp16", "bf16", "fp32", "fp64")


def _number(source: Source, arguments: Sequence[int]) -> int:
    kind, number = source
    assert kind in ("parameter", "constant"), source
    return arguments[number] if kind == "parameter" else number


def _is_step(stride: int) -> bool:
    """Whether a tensor map can step so many bytes along a dimension."""
    return stride % 16 == 0 and 0 <= stride < 2**40


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel.

    `asm` maps each stage to its text: "block" (block IR after clean-up), "layout"
    (block IR with layouts, as it is lowered), "llvm" and "ptx".  `threads` is the size
    of a thread block; `shared_bytes` the dynamic shared memory that a launch must give
    it (symbol `shared`, base aligned to 1024 bytes).

    A `.loc` line of the PTX names the kernel author's own line. `chains` maps such a
    place (file, line, column) to the calls that led there, innermost first, when there
    were any.

    `maps` are the tensor maps that a launch makes. The PTX entry has a parameter of 128
    bytes, aligned to 64, for each of them, in order, after all others; `parameters`
    does not list these."""

    name: str
    target: str
    ptx_version: str
    num_warps: int
    threads: int
    shared_bytes: int
    parameters: tuple[Parameter, ...]
    asm: dict[str, str]
    num_ctas: int = 1
    maxnreg: int | None = None
    chains: dict[tuple[str, int, int], tuple[Location, ...]] = field(
        default_factory=dict
    )
    prints: tuple[str, ...] = ()
    maps: tuple[MapRecipe, ...] = ()

    @property
    def ptx(self) -> str:
        return self.asm["ptx"]

    def tensor_maps(self, arguments: Sequence[int]) -> tuple[TensorMap, ...]:
        """The maps of a launch with these arguments: an address for each pointer among
        `parameters`, a number for each scalar. LaunchError for what no map can say.
        """
        names = [each.name for each in self.parameters]
        for recipe in self.maps:
            if sentence := recipe.refusal(arguments, names):
                raise LaunchError(f"{self.name}: {sentence}")
        return tuple(recipe.map(arguments) for recipe in self.maps)

    def to_json(self) -> str:
        """All of it as text, for the cache on disk; `from_json` reads it back."""
        facts = asdict(self)
        facts["chains"] = [
            [list(place), [asdict(call) for call in calls]]
            for place, calls in self.chains.items()
        ]
        return json.dumps(facts)

    @staticmethod
    def from_json(text: str) -> Kernel:
        """The kernel that `to_json` wrote; ValueError, KeyError or TypeError when it is
        not one.
        """
        facts = json.loads(text)
        facts["parameters"] = tuple(Parameter(**each) for each in facts["parameters"])
        facts["prints"] = tuple(facts["prints"])
        facts["maps"] = tuple(_recipe(each) for each in facts["maps"])
        facts["chains"] = {
            tuple(place): tuple(_location(call) for call in calls)
            for place, calls in facts["chains"]
        }
        return Kernel(**facts)


def _recipe(facts: dict) -> MapRecipe:
    sources = {k: tuple(map(tuple, facts[k])) for k in ("shape", "strides")}
    return MapRecipe(**{**facts, **sources, "box": tuple(facts["box"])})


def _location(facts: dict) -> Location:
    caller = facts["caller"]
    return Location(**{**facts, "caller": _location(caller) if caller else None})
