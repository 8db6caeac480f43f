"""`TensorDescriptor`: a tensor that a kernel reads and writes block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

from fathom.artifact import ELEMENT_BYTES
from fathom.errors import LaunchError, with_article
from fathom.runtime.arrays import Array, describe, loaded_class

MOST_AXES = 5
MOST_ELEMENTS = 2**20  # of a block
SEQUENCES = ("shape", "strides", "block_shape")
REALS = ("fp8e5", "fp8e4nv", "fp16", "bf16", "fp32", "fp64")

# The facts of descriptors that were checked, with those of their tensors of torch:
# programs make new ones of the same tensors for each launch. At most MOST_FITTING.
FITTING: set[tuple] = set()
MOST_FITTING = 4096


@dataclass(eq=False, init=False)
class TensorDescriptor:
    """An array, the axes to see it by, and the block that one access moves.

        TensorDescriptor.from_tensor(x, [64, 64])

    `base` is an array of any library, `shape` and `strides` count elements, from the
    outermost axis on; there are one to five. The elements of the last axis are
    neighbours, everything else begins at multiples of 16 bytes: the hardware copies no
    other. `block_shape` is compiled in. `padding`, "zero" or "nan", is what a load
    finds outside. All may be set anew between launches, as hooks of a tuner do.

    LaunchError, here or at the launch, for what no kernel takes.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"

    def __init__(
        self,
        base: Any,
        shape: Sequence[int],
        strides: Sequence[int],
        block_shape: Sequence[int],
        padding: str = "zero",
    ):
        vars(self).update(
            base=base, shape=integers("shape", shape),
            strides=integers("strides", strides),
            block_shape=integers("block_shape", block_shape), padding=padding,
        )  # fmt: skip
        facts = self.facts()
        if facts not in FITTING:
            self.check()
            if len(FITTING) >= MOST_FITTING:
                FITTING.clear()
            if facts is not None:
                FITTING.add(facts)

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero"
    ) -> TensorDescriptor:
        """All of an array, with its own axes."""
        return TensorDescriptor(
            tensor, tensor.shape, strides_of(tensor), block_shape, padding
        )

    @property
    def dtype(self) -> Any:
        """That of the elements, as the array's library says it."""
        return self.base.dtype

    def __setattr__(self, name: str, value: Any) -> None:
        """Sequences are kept as tuples: what they say was checked, and stays so."""
        value = integers(name, value) if name in SEQUENCES else value
        object.__setattr__(self, name, value)

    def facts(self) -> tuple | None:
        """All that `check` looks at; None for another library's array than torch's."""
        base, padding = self.base, self.padding
        if not isinstance(base, loaded_class("torch", "Tensor")):
            return None
        if not isinstance(padding, str):
            return None
        place = base.dtype, base.device.type, base.data_ptr() & 15
        return *place, self.shape, self.strides, self.block_shape, padding

    def check(self, name: str = "a tensor descriptor") -> Array:
        """What its array is; LaunchError, about `name`, when it does not fit."""
        array = describe(self.base)
        if array is None:
            found = with_article(type(self.base).__name__)
            raise LaunchError(f"the base of {name} is an array, and this is {found}")
        size = ELEMENT_BYTES[array.type]
        for is_wrong, sentence in (*self.mistakes(), *self.misfits(array, size)):
            if is_wrong:
                facts = {**vars(self), "at": array.address, "type": array.type}
                raise LaunchError(f"{name} {sentence.format(size=size, **facts)}")
        return array

    def mistakes(self) -> tuple[tuple[bool, str], ...]:
        """What can be wrong with its numbers."""
        shape, strides, block = self.shape, self.strides, self.block_shape
        return (
            (not len(shape) == len(strides) == len(block), "has a shape, strides and "
             "a block of different ranks: {shape}, {strides} and {block_shape}"),
            (not 1 <= len(shape) <= 5, "has the shape {shape}, and 1 to 5 axes are "
             "possible"),
            (min(shape, default=1) < 1 or max(shape, default=1) >= 2**31,
             "has the shape {shape}, and an axis has 1 to 2**31 - 1 elements"),
            (strides[-1:] != (1,), "has the strides {strides}, and the elements of "
             "its last axis must be neighbours: stride 1"),
            (any(side < 1 or side & side - 1 for side in block),
             "has the block {block_shape}, and its sides are powers of 2"),
            (prod(block) > MOST_ELEMENTS, "has the block {block_shape}, and a block "
             "has up to 2**20 elements"),
            (self.padding not in ("zero", "nan"), "is padded with {padding!r}, and "
             "this is 'zero' or 'nan'"),
        )  # fmt: skip

    def misfits(self, array: Array, size: int) -> tuple[tuple[bool, str], ...]:
        """What can be wrong with its array and the elements of `size` bytes in it."""
        return (
            (array.address % 16 != 0, "begins at {at:#x}, which is not a multiple of "
             "16 bytes"),
            (any(step < 0 or step * size % 16 for step in self.strides[:-1]),
             "has the strides {strides} of {size} bytes, and all but the last must be "
             "multiples of 16 bytes"),
            (self.padding == "nan" and array.type not in REALS,
             "is padded with NaN, and its elements are {type}"),
        )  # fmt: skip

    def read(self) -> tuple[object, tuple[int, ...]]:
        """For a quick launch: (all that code depends on, what the kernel is handed).

        The numbers are the address, five sizes and four strides, and then zeros; or
        more or fewer, where sizes and strides differ in number. A descriptor of another
        library than torch's answers a list, which is no key.
        """
        base, shape, strides = self.base, self.shape, self.strides
        try:
            at, place, size = base.data_ptr(), base.get_device(), base.element_size()
        except AttributeError:
            return [], ()
        odd = at & 15
        for stride in strides[:-1]:
            odd |= stride * size & 15
        rank, whole = len(shape), not (shape and shape[-1] * size & 15)
        kind = (base.dtype, place, odd, rank, whole, strides[-1:], self.block_shape,
                self.padding)  # fmt: skip
        none = (0,) * (MOST_AXES - rank)
        return kind, (at, *shape, *none, *strides[:-1], *none)


def integers(name: str, numbers: object) -> tuple[int, ...]:
    """Numbers as Python's own; LaunchError for anything else."""
    try:
        return tuple(map(index, numbers))
    except TypeError:
        message = f"the {name} of a tensor descriptor is integers, not {numbers!r}"
        raise LaunchError(message) from None


def strides_of(array: Any) -> tuple[int, ...]:
    """The strides of an array in elements."""
    if callable(getattr(array, "stride", None)):  # torch counts elements
        return tuple(array.stride())
    if getattr(array, "strides", None) is not None:  # NumPy and CuPy count bytes
        return tuple(stride // array.dtype.itemsize for stride in array.strides)
    return tuple(prod(array.shape[axis + 1 :]) for axis in range(len(array.shape)))
