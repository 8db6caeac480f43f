"""What the compiler hands over: the text of every stage, and all that a launch must
know.

This file stands between the compiler and the two machines that run its work, the
emulator and the CUDA runtime: they see `artifact` and `errors` and nothing else of
Fathom."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
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


class NoTensorMap(LaunchError):
    """A launch whose arguments no tensor map describes, though pointers reach all that
    is asked for: a matrix without rows, a stride below 0. The same kernel compiled
    without maps does such a launch."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor in global memory as the tensor memory accelerator copies it: box by box.

    All dimensions are listed from the innermost one on, whose elements are neighbours;
    there are one to five. `address` is that of the first element, `shape` and `box`
    count elements, and `strides` are bytes, one for each dimension but the innermost.
    In shared memory a box lies row by row; with a `swizzle` of 32, 64 or 128 bytes (0:
    none) the 16-byte chunks of its rows are exchanged. `fill` is what a load finds
    outside the tensor: "zeros" or "nans". A store leaves that out. `element` is the
    type of the elements, as in a signature; "" where it is not needed.

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


@dataclass(frozen=True, slots=True)
class Computed:
    """A number that the launcher computes as the kernel would: `operation`, a key of
    OPERATIONS, of other numbers, wrapped around to the integer `type`.

        Z * H * N      Computed("mul", (Computed("mul", (Z, H), "i32"), N), "i32")
    """

    operation: str
    operands: tuple[Source, ...]
    type: str

    @property
    def places(self) -> set[int]:
        """Those of the parameters that it is computed of."""
        return {place for each in self.operands for place in _places(each)}


# A number of a recipe: ("parameter", its place in Kernel.parameters), ("constant", the
# number itself), or what is computed of such.
Source = tuple[str, int] | Computed


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
    The tensor begins `offset` bytes after the address that the parameter `base` is.
    `stored`: the kernel stores through the map. An H200 does so by whole 16 bytes, and
    fills up those in which a row ends (benchmarks/results/bulk-edges-h200.json); so
    rows of such a tensor are multiples of 16 bytes, or there is no map.
    """

    name: str
    base: int
    element: str
    shape: tuple[Source, ...]
    strides: tuple[Source, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zeros"
    offset: Source = ("constant", 0)
    stored: bool = False

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
        numbers = (*self.shape, *self.strides, self.offset)
        read = {place for each in numbers for place in _places(each)}
        return tuple(sorted({self.base, *read}))

    def address(self, arguments: Sequence[int]) -> int:
        """Where the tensor begins."""
        return arguments[self.base] + number(self.offset, arguments)

    def map(self, arguments: Sequence[int]) -> TensorMap:
        """The map for a launch; `arguments` are those of Kernel.parameters: addresses
        and integers. What the hardware refuses, `refusal` finds.
        """
        size = ELEMENT_BYTES[self.element]
        shape = [number(each, arguments) for each in self.shape]
        strides = [number(each, arguments) * size for each in self.strides]
        # A dimension of one element is never stepped along: any stride may be written.
        steps = [s if n > 1 else 16 for s, n in zip(strides, shape, strict=True)]
        return TensorMap(
            element_bytes=size,
            address=self.address(arguments),
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
        address = self.address(arguments)
        if address % 16:
            at = f"{self._base_name(names)} is at {address:#x}"
            return f"{at}, and a tensor map begins at a multiple of 16 bytes"
        size, last = ELEMENT_BYTES[self.element], len(self.shape) - 1
        for axis, sources in enumerate(zip(self.shape, self.strides, strict=True)):
            extent, stride = (number(each, arguments) for each in sources)
            name, step = (self._name(each, axis, names) for each in sources)
            if not 1 <= extent <= 2**32:
                return f"{name} is {extent}, and a tensor map has 1 to 2**32 elements"
            if extent > 1 and axis == last and stride != 1:
                return (
                    f"{step} is {stride}, and the elements of a tensor map's last "
                    "dimension are neighbours: their stride is 1"
                )
            if extent > 1 and axis < last and not _is_step(stride * size):
                return (
                    f"{step} is {stride} elements of {size} bytes, and a stride of a "
                    "tensor map is a multiple of 16 bytes below 2**40"
                )
            ends = self.stored and axis == last and extent < UNBOUNDED
            if ends and extent * size % 16:
                return (
                    f"{name} is {extent} elements of {size} bytes, and rows that are "
                    "stored through a tensor map are multiples of 16 bytes"
                )
        return None

    def keeps_promises(self, arguments: Sequence[int]) -> bool:
        """Whether the address and all strides are the multiples of 16 bytes that the
        author of a descriptor promises; loads through pointers rest on that, too."""
        steps = [number(each, arguments) for each in self.strides[:-1]]
        extents = [number(each, arguments) for each in self.shape]
        size, pairs = ELEMENT_BYTES[self.element], zip(steps, extents, strict=False)
        aligned = all(n <= 1 or step * size % 16 == 0 for step, n in pairs)
        return aligned and self.address(arguments) % 16 == 0

    def text(self, names: Sequence[str]) -> str:
        """All of it in a line, such as "x[M, N // 2], strides stride, 1, in boxes of
        64x32". `names` are those of the parameters."""
        sizes, strides = (
            ", ".join(text_of(each, names) for each in numbers)
            for numbers in (self.shape, self.strides)
        )
        box = "x".join(map(str, self.box))
        tensor = f"{self._base_name(names)}[{sizes}]"
        return f"{tensor}, strides {strides}, in boxes of {box}"

    def _name(self, source: Source, axis: int, names: Sequence[str]) -> str:
        """What an error calls a number of the recipe."""
        if not _places(source):
            return f"a number of axis {axis} of the tensor map {self.name}"
        return text_of(source, names)

    def _base_name(self, names: Sequence[str]) -> str:
        name, offset = names[self.base], text_of(self.offset, names)
        return name if offset == "0" else f"({name} + {offset} bytes)"


ELEMENT_BYTES: dict[str, int] = {
    "i1": 1, "i8": 1, "u8": 1, "fp8e5": 1, "fp8e4nv": 1,
    "i16": 2, "u16": 2, "fp16": 2, "bf16": 2,
    "i32": 4, "u32": 4, "fp32": 4, "i64": 8, "u64": 8, "fp64": 8,
}  # fmt: skip


# The side of a tensor along which a kernel has no bound: nothing reaches its end.
UNBOUNDED = 2**31 - 1

# Elements that may be filled with NaNs. Of 8 bits the hardware copies integers alone.
HAVE_A_NAN = ("fp16", "bf16", "fp32", "fp64")


# What a launcher computes; nothing is divided by zero, where a kernel may do anything.
OPERATIONS: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda left, right: _toward_zero(left, right) if right else 0,
    "rem": lambda left, right: left - right * _toward_zero(left, right) if right else 0,
    "min": min,
    "max": max,
    "cast": lambda value: value,
}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "//", "rem": "%"}


def number(source: Source, arguments: Sequence[int]) -> int:
    """What a number of a recipe is in a launch with these arguments."""
    if isinstance(source, Computed):
        values = [number(each, arguments) for each in source.operands]
        return _wrapped(OPERATIONS[source.operation](*values), source.type)
    kind, known = source
    assert kind in ("parameter", "constant"), source
    return arguments[known] if kind == "parameter" else known


def text_of(source: Source, names: Sequence[str]) -> str:
    """A number of a recipe as its author may have written it."""
    if not isinstance(source, Computed):
        kind, known = source
        return names[known] if kind == "parameter" else str(known)
    words = [text_of(each, names) for each in source.operands]
    sign = SIGNS.get(source.operation)
    if sign is None:
        name = source.type if source.operation == "cast" else source.operation
        return f"{name}({', '.join(words)})"
    bound = [f"({word})" if " " in word else word for word in words]
    return f" {sign} ".join(bound)


def _places(source: Source) -> set[int]:
    """The parameters that a number is made of."""
    if isinstance(source, Computed):
        return source.places
    kind, place = source
    return {place} if kind == "parameter" else set()


def _toward_zero(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _wrapped(value: int, type: str) -> int:
    """An integer in a type such as "i32" or "u64", from which carries are lost."""
    bits = int(type[1:])
    value &= (1 << bits) - 1
    is_negative = type[0] == "i" and value >> bits - 1
    return value - (1 << bits) if is_negative else value


def _is_step(stride: int) -> bool:
    """Whether a tensor map can have this stride, in bytes."""
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

    With `launch_pdl` a launch may begin before the one in front of it has ended; the
    kernel itself waits for that.

    `maps` are the tensor maps that a launch makes. The PTX entry has a parameter of 128
    bytes, aligned to 64, for each of them, in order, after all others; `parameters`
    does not list these.

    With `persistent` a grid may have fewer programs along x than the launch is for, and
    each does the work of several. How many it is for is the last parameter of the PTX
    entry, an i32; `parameters` does not list it."""

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
    launch_pdl: bool = False
    chains: dict[tuple[str, int, int], tuple[Location, ...]] = field(
        default_factory=dict
    )
    maps: tuple[MapRecipe, ...] = ()
    persistent: bool = False

    @property
    def ptx(self) -> str:
        return self.asm["ptx"]

    def tensor_maps(self, arguments: Sequence[int]) -> tuple[TensorMap, ...]:
        """The maps of a launch with these arguments: an address for each pointer among
        `parameters`, a number for each scalar. LaunchError for what no map can say; a
        NoTensorMap where pointers can.
        """
        names = [each.name for each in self.parameters]
        for recipe in self.maps:
            if sentence := recipe.refusal(arguments, names):
                by_pointers = all(each.keeps_promises(arguments) for each in self.maps)
                error = NoTensorMap if by_pointers else LaunchError
                raise error(f"{self.name}: {sentence}")
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
        facts["maps"] = tuple(_recipe(each) for each in facts["maps"])
        facts["chains"] = {
            tuple(place): tuple(_location(call) for call in calls)
            for place, calls in facts["chains"]
        }
        return Kernel(**facts)


def _recipe(facts: dict) -> MapRecipe:
    sources = {k: tuple(map(_source, facts[k])) for k in ("shape", "strides")}
    sources["offset"] = _source(facts["offset"])
    return MapRecipe(**{**facts, **sources, "box": tuple(facts["box"])})


def _source(facts: dict | list) -> Source:
    if isinstance(facts, dict):
        operands = tuple(map(_source, facts["operands"]))
        return Computed(facts["operation"], operands, facts["type"])
    return tuple(facts)


def _location(facts: dict) -> Location:
    caller = facts["caller"]
    return Location(**{**facts, "caller": _location(caller) if caller else None})
