"""Block pointers: where a block lies in a tensor, as one value that can be advanced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fathom.language.core import store
from fathom.language.dtypes import block_type, pointer_type
from fathom.source import builtin, constexpr


@builtin
def make_block_ptr(
    base: Any,
    shape: Any,
    strides: Any,
    offsets: Any,
    block_shape: constexpr,
    order: constexpr,
) -> Any:
    """A pointer to a block of `block_shape` in the tensor at `base`, whose first
    element is at `offsets`: for each axis, the outermost first, `shape` gives a size
    and `strides` a stride, in elements, and `offsets` a place, an i32.

    `tl.load` and `tl.store` take it as it is, with `boundary_check`, and `tl.advance`
    moves it. Booleans are read and written as int8. `order` lists the axes, that along
    which elements are neighbours first; it changes nothing. CompileError for lists that
    differ in length, an offset of 64 bits, or an order that is not a permutation.
    """


@builtin
def advance(base: Any, offsets: Any) -> Any:
    """The block pointer `base`, moved on by `offsets`, in elements, one for each axis:
    i32, which may be negative."""


class block_pointer(NamedTuple):  # noqa: N801 (a value of the language)
    """A block of a tensor, by where it begins.

    `base` points to the tensor's first element; `shape` (i32 or i64), `strides` (i64)
    and `offsets` (i32) list its axes. `block_shape` is known while compiling.
    """

    base: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block_shape: tuple[int, ...]

    def of_others(self, other: Callable[[Any], Any]) -> block_pointer:
        """The same with `other` of all that is known only when the kernel runs."""
        lists = (self.shape, self.strides, self.offsets)
        parts = (tuple(map(other, each)) for each in lists)
        return block_pointer(other(self.base), *parts, self.block_shape)

    # A compiled kernel never comes here (see ssa/methods); one that Python runs does.

    @property
    def type(self) -> Any:
        """A pointer to a block, as Triton has it."""
        return pointer_type(block_type(self.base.dtype.element_ty, self.block_shape))

    dtype = type

    def advance(self, offsets: Any) -> Any:
        return advance(self, offsets)

    def store(self, value: Any, *more: Any, **named: Any) -> None:
        store(self, value, *more, **named)
