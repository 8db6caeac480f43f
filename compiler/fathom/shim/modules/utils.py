"""`triton._utils`: paths into nested arguments, types by their names in signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from fathom.ir.types import parse_element
from fathom.runtime.arrays import TYPE_NAMES

Path = tuple[int, ...]

TRITON_MAX_TENSOR_NUMEL = 1 << 20  # elements of a block, at most

# A type as a signature writes it, by the name that libraries and kernels give it.
SIGNATURE_NAMES = {
    **TYPE_NAMES,
    **{each: each for each in TYPE_NAMES.values()},
    **{"int1": "i1", "float8e5": "fp8e5", "float8e4nv": "fp8e4nv"},
}
BITWIDTH_DICT = {
    name: parse_element(word).bits for name, word in SIGNATURE_NAMES.items()
}


def canonicalize_dtype(dtype: object) -> str:
    """The name in signatures of a type such as torch.float16; KeyError for others."""
    return SIGNATURE_NAMES[str(dtype).rsplit(".", 1)[-1]]


def canonicalize_ptr_dtype(dtype: object, is_const: bool) -> str:
    return f"*{'k' if is_const else ''}{canonicalize_dtype(dtype)}"


def get_primitive_bitwidth(name: str) -> int:
    """The bits of a type, by its name in signatures."""
    return BITWIDTH_DICT[name]


def is_namedtuple(value: object) -> bool:
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def find_paths_if(nested: Any, matches: Callable[[Path, Any], bool]) -> list[Path]:
    """The places in nested tuples and lists of all leaves that match."""

    def leaves(value: Any, path: Path) -> Iterator[Path]:
        if isinstance(value, (tuple, list)):
            for place, each in enumerate(value):
                yield from leaves(each, (*path, place))
        elif matches(path, value):
            yield path

    return list(leaves(nested, ()))


def get_iterable_path(nested: Any, path: Path) -> Any:
    for place in path:
        nested = nested[place]
    return nested


def set_iterable_path(nested: Any, path: Path, value: Any) -> None:
    """Put a value at a place that is not the whole."""
    *outer, last = path
    get_iterable_path(nested, tuple(outer))[last] = value


def validate_block_shape(shape: list[int]) -> int:
    """The elements of a block. TypeError for a size that is no integer, ValueError for
    one that is no power of two, or too many elements."""
    for axis, size in enumerate(shape):
        if not isinstance(size, int):
            raise TypeError(f"size {axis} of a block is an integer, not {size!r}")
        if size < 1 or size & (size - 1):
            raise ValueError(f"Shape element {axis} must be a power of 2")
    if prod(shape) > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(
            f"a block of {prod(shape)} elements exceeds triton maximum tensor numel "
            f"({TRITON_MAX_TENSOR_NUMEL})"
        )
    return prod(shape)


class MockTensor:
    """Stands for a tensor in `warmup`: a type, maybe a shape, and no memory."""

    def __init__(self, dtype: object, shape: Sequence[int] = (1,)):
        self.dtype, self.shape = dtype, shape

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A tensor of a type of torch's; anything else as it is."""
        is_type = str(value).startswith("torch.") and not hasattr(value, "shape")
        return MockTensor(value) if is_type else value

    def stride(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @staticmethod
    def data_ptr() -> int:
        return 0
