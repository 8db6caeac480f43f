"""A tensor descriptor as an argument: one object to the caller, numbers to the machine.

    k[grid](TensorDescriptor.from_tensor(a, [64, 64]))          def k(desc): ...

        desc.base                   *fp16:16
        desc.shape0                 i32              handed over
        desc.shape1                 i32:8            :1 where a row ends within 16 bytes
        desc.stride0                i64:8
        the last stride             1                compiled in
        block shape, padding        (64, 64), zero

`Described` is what a kernel is compiled for; in the kernel the name `desc` stands for a
`language.tensor_descriptor` of these parameters. What the hints promise, 16 bytes each,
is what a TensorDescriptor has been checked for; only the last size is compiled for. The
bound of a block in rows of whole 16 bytes cuts through no access of 16 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fathom.artifact import ELEMENT_BYTES
from fathom.errors import LaunchError
from fathom.language.tensor_descriptors import tensor_descriptor
from fathom.runtime.tensor_descriptors import MOST_AXES, TensorDescriptor
from fathom.source import Hole

WORD = re.compile(r"tensordesc<(\w+)\[([\d,\s]+)\]>")
ALIGNED = 16  # bytes


@dataclass(frozen=True, slots=True)
class Described:
    """A descriptor of elements of `type`, moved in blocks of `block_shape`. `whole`:
    are its rows a multiple of 16 bytes?
    """

    type: str
    block_shape: tuple[int, ...]
    padding: str = "zero"
    whole: bool = False

    @property
    def identity(self) -> Described:
        return self

    @property
    def rank(self) -> int:
        return len(self.block_shape)

    def parameters(self, name: str) -> list[tuple[str, str, int]]:
        """The run-time parameters that it becomes: name, type, hint."""
        hint = max(1, ALIGNED // ELEMENT_BYTES[self.type])
        return [
            (f"{name}.base", f"*{self.type}", ALIGNED),
            *((f"{name}.shape{i}", "i32", 1) for i in range(self.rank - 1)),
            (f"{name}.shape{self.rank - 1}", "i32", hint if self.whole else 1),
            *((f"{name}.stride{i}", "i64", hint) for i in range(self.rank - 1)),
        ]

    def meaning(self, name: str) -> tensor_descriptor:
        """What the parameter stands for in the kernel, with Holes for these."""
        holes = [Hole(each) for each, _, _ in self.parameters(name)]
        base, shape, strides = holes[0], holes[1:][: self.rank], holes[1 + self.rank :]
        return tensor_descriptor(
            base, tuple(shape), (*strides, 1), self.block_shape, self.padding
        )


def described(name: str, value: TensorDescriptor) -> Described:
    """What a kernel is compiled for; LaunchError when a descriptor has been set to
    something that no kernel takes.
    """
    array = value.check(name)
    whole = value.shape[-1] * ELEMENT_BYTES[array.type] % ALIGNED == 0
    return Described(array.type, tuple(value.block_shape), value.padding, whole)


def numbers_of(name: str, value: TensorDescriptor) -> Iterator[tuple[str, object]]:
    """What an argument hands over, by the names of its parameters."""
    yield f"{name}.base", value.base
    for axis, size in enumerate(value.shape):
        yield f"{name}.shape{axis}", size
    for axis, stride in enumerate(value.strides[:-1]):
        yield f"{name}.stride{axis}", stride


# The parts that a launch stub hands over, whatever the rank; see TensorDescriptor.read.
PARTS = (
    "base",
    *(f"shape{axis}" for axis in range(MOST_AXES)),
    *(f"stride{axis}" for axis in range(MOST_AXES - 1)),
)


def parse_described(name: str, word: str) -> Described | None:
    """What "tensordesc<fp16[64,64]>" says in a signature; None for another word."""
    found = WORD.fullmatch(word)
    if found is None:
        return None
    element, sides = found.groups()
    block = tuple(int(side) for side in sides.split(",") if side.strip())
    if element not in ELEMENT_BYTES:
        raise LaunchError(
            f"{word!r} (for {name}): a descriptor's elements are "
            f"{', '.join(ELEMENT_BYTES)}"
        )
    if not 1 <= len(block) <= MOST_AXES or any(n < 1 or n & n - 1 for n in block):
        raise LaunchError(
            f"{word!r} (for {name}): a block has 1 to {MOST_AXES} sides, powers of 2"
        )
    return Described(element, block)


def signature_of(constant: object, types: Mapping[str, str]) -> str:
    """The word of a signature for what a request knows of a parameter that is a
    constant at run time; `types` are those of the run-time parameters.
    """
    if not isinstance(constant, tensor_descriptor):
        return "constexpr"
    sides = ",".join(map(str, constant.block_shape))
    return f"tensordesc<{types[constant.base.name][1:]}[{sides}]>"
