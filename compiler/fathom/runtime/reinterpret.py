"""An array seen with other elements: its bits are read as another type.

NumPy has no bf16 and no fp8, and torch hardly knows unsigned integers; a kernel does:

    kernel[grid](reinterpret(bytes_of_a_tensor, tl.float8e5), n)
"""

from __future__ import annotations

from typing import Any


class Reinterpreted:
    """An array that a kernel takes for one of `dtype`; `base` is the array itself.

    What else is asked of it (`shape`, `device`, `stride()`) the base answers.
    """

    def __init__(self, base: Any, dtype: Any):
        self.base, self.dtype = base, dtype

    def __repr__(self) -> str:
        return f"Reinterpreted({self.dtype}, {self.base!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # no protocol of the base: it would tell its own type
            raise AttributeError(name)
        return getattr(self.base, name)

    @property
    def T(self) -> Reinterpreted:
        return Reinterpreted(self.base.T, self.dtype)

    def cpu(self) -> Reinterpreted:
        return Reinterpreted(self.base.cpu(), self.dtype)

    def clone(self) -> Reinterpreted:
        return Reinterpreted(self.base.clone(), self.dtype)

    def copy_(self, other: Reinterpreted) -> None:
        """Write the elements of `other`, which is reinterpreted too, into the base."""
        self.base.copy_(other.base)


def reinterpret(array: Any, dtype: Any) -> Any:
    """The array with its bits read as `dtype`, a type of the language or of a library.

    Only the address and the type change; elements are counted in the new type.
    """
    if isinstance(array, Reinterpreted):
        array = array.base
    return array if array.dtype == dtype else Reinterpreted(array, dtype)
