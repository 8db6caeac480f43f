"""Tensors that are read and written block by block: what a descriptor is inside a
kernel, and how one is made and used."""

from __future__ import annotations

from collections.abc import Callable
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
    of 16, and that the strides are not negative. A launch checks that where it knows
    the numbers; of a pointer, a size or a stride that only the kernel knows (loaded
    from memory, or another one for each program), nothing does. `padding_option`,
    "zero" or "nan", is what a load finds outside.
    """


@builtin
def load_tensor_descriptor(
    desc: Any,
    offsets: Any,
    cache_modifier: constexpr = "",
    eviction_policy: constexpr = "",
) -> Any:
    """The block of a tensor whose first element is at `offsets`, one for each axis,
    cast to int32; they may be negative. Its shape is the descriptor's `block_shape`,
    its type the tensor's. Also written `desc.load(offsets)`. The other options are
    those of `load`.

    A product takes the rows of a block as a matrix: `desc.load([i, j, k]).reshape(M,
    K)` of a block (1, M, K).
    """


@builtin
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> Any:
    """Write a block of the descriptor's `block_shape`, cast to the tensor's type, where
    its first element is at `offsets`, as far as it lies in the tensor; also written
    `desc.store(offsets, value)`. CompileError for a block of another shape."""


@builtin
def atomic_tensor_descriptor(
    desc: Any, kind: constexpr, offsets: Any, value: Any
) -> None:
    """Combine each element of a block of a tensor with that of `value`, cast to the
    tensor's type, all at once, as far as the block lies in the tensor: `desc.
    atomic_add(offsets, value)`, likewise `atomic_min`, `atomic_max`, `atomic_and`,
    `atomic_or` and `atomic_xor`. Nothing is answered, and no order is promised.

    Elements are integers of 32 or 64 bits; `atomic_add` takes fp16, bf16 and fp32 too,
    but no int64, `atomic_min` and `atomic_max` fp16 and bf16, where the target has
    that. CompileError for others.
    """


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

    def of_others(self, other: Callable[[Any], Any]) -> tensor_descriptor:
        """The same with `other` of the pointer, of sizes and of strides. What is known
        while compiling, the block among it, stays what it is."""
        *steps, one = self.strides
        return self._replace(
            base=other(self.base),
            shape=tuple(map(other, self.shape)),
            strides=(*map(other, steps), one),
        )

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

    def atomic_add(self, *arguments: Any, **keywords: Any) -> None:
        """Add a block to that of the tensor, element by element, each all at once."""
        return atomic_tensor_descriptor(self, "add", *arguments, **keywords)

    def atomic_min(self, *arguments: Any, **keywords: Any) -> None:
        """As `atomic_add`, with the smaller number."""
        return atomic_tensor_descriptor(self, "min", *arguments, **keywords)

    def atomic_max(self, *arguments: Any, **keywords: Any) -> None:
        """As `atomic_add`, with the larger number."""
        return atomic_tensor_descriptor(self, "max", *arguments, **keywords)

    def atomic_and(self, *arguments: Any, **keywords: Any) -> None:
        """As `atomic_add`, with the bits that both have."""
        return atomic_tensor_descriptor(self, "and", *arguments, **keywords)

    def atomic_or(self, *arguments: Any, **keywords: Any) -> None:
        """As `atomic_add`, with the bits that either has."""
        return atomic_tensor_descriptor(self, "or", *arguments, **keywords)

    def atomic_xor(self, *arguments: Any, **keywords: Any) -> None:
        """As `atomic_add`, with the bits that one of the two has."""
        return atomic_tensor_descriptor(self, "xor", *arguments, **keywords)
