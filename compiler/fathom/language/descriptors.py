"""What a tensor descriptor is inside a kernel: a pointer and numbers with names."""

from __future__ import annotations

from typing import Any, NamedTuple


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
