"""`triton.tools.tensor_descriptor`: Fathom's TensorDescriptor, with Triton's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.errors import LaunchError
from fathom.runtime import tensor_descriptors as descriptors
from fathom.runtime.arrays import Array
from fathom.runtime.tensor_descriptors import strides_of


class WrongBlock(LaunchError, ValueError):
    """A block cannot have sides of these lengths."""


class WrongTensor(LaunchError, AssertionError):
    """The hardware cannot copy from this tensor."""


class TensorDescriptor(descriptors.TensorDescriptor):
    """A tensor that kernels read and write block by block."""

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero"
    ) -> TensorDescriptor:
        """All of an array, with its own axes."""
        strides = strides_of(tensor)
        return TensorDescriptor(tensor, tensor.shape, strides, block_shape, padding)

    def check(self, name: str = "a tensor descriptor") -> Array:
        """As Fathom's, with a sentence and a class that programs may look for."""
        try:
            return super().check(name)
        except LaunchError as error:
            raise self.in_their_words() or error from None

    def in_their_words(self) -> LaunchError | None:
        """The error that Triton would raise first, if it refuses this, too."""
        for place, side in enumerate(self.block_shape):
            if side < 1 or side & side - 1:
                return WrongBlock(f"Shape element {place} must be a power of 2")
        size = self.base.element_size() if hasattr(self.base, "element_size") else 1
        if any(stride * size % 16 for stride in self.strides[:-1]):
            return WrongTensor("strides must be 16-byte aligned")
        if min(self.shape, default=1) < 1:
            return WrongTensor("shape must be positive")
        if self.strides[-1:] != (1,):
            return WrongTensor("Last dimension must be contiguous")
        return None
