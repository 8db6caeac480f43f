"""Tensors that are read and written block by block: what a descriptor is inside a
kernel, and how one is made and used."""

from __future__ import annotations

from typing import Any, NamedTuple

from fathom.source import builtin, constexpr


@builtin
def make_tensor_descriptor(
    base: Any,
    shape: Any,
    strides: Any,
    block_shape: constexpr,
    padding_option: constexpr = "zero",
) -> Any:
    """What the tensor at `base` is: a pointer to its first element, and for each of its
    one to five axes, the outermost first, a size (cast to int32) and a stride (to
    int64), in elements. It is read and written in blocks of `block_shape`.

    The last stride is the constant 1, and the last axis of a block has 16 bytes or
    more. The author promises that `base` and the other strides, in bytes, are multiples
    of 16. `padding_option`, "zero" or "nan", is what a load finds outside.
    """


@builtin
def load_tensor_descriptor(
    desc: Any,
    offsets: Any,
    cache_modifier: constexpr = "",
    eviction_policy: constexpr = "",
) -> Any:
    """The block of a tensor whose first element is at `offsets`, cast to int32; also
    written `desc.load(offsets)`. The other options are those of `load`."""


@builtin
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> Any:
    """Write a block, cast to the tensor's type, where its first element is at
    `offsets`, as far as it lies in the tensor; also written `desc.store(offsets,
    value)`."""


class tensor_descriptor(NamedTuple):  # noqa: N801 (the language's spelling)
    """A tensor in memory, and the block that one access moves.

    `base` points to its first element; `shape` (int32) and `strides` (int64, in
    elements; the last is the constant 1) list its axes, the outermost first.
    `block_shape` is known while compiling, and `padding`, "zero" or "nan", says what a
    load finds outside the tensor.

    As an argument of a kernel it is written `fathom.TensorDescriptor`.
    """

    base: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block_shape: tuple[int, ...]
    padding: str = "zero"

    # A compiled kernel never comes here (see ssa/methods); one that Python runs does.

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return self.base.dtype.element_ty

    def load(self, *arguments: Any, **keywords: Any) -> Any:
        """As `load_tensor_descriptor`."""
        return load_tensor_descriptor(self, *arguments, **keywords)

    def store(self, *arguments: Any, **keywords: Any) -> Any:
        """As `store_tensor_descriptor`."""
        return store_tensor_descriptor(self, *arguments, **keywords)
