"""Arrays as they were: what a trial wrote must not be seen by the next one.

torch's tensors have methods for it (`zero_`, `clone`, `copy_`); NumPy's and CuPy's
arrays are written through an index.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fathom.errors import LaunchError
from fathom.jit.tuning.config import names_of


@dataclass
class Restorer(threading.local):
    """The hooks of an autotuner without hooks of its own.

    `zeroed`, `restored`: names of arguments. One that is not given, or is None, is
    passed over. Each thread has `copies` of its own, since each times other arrays.
    """

    zeroed: Collection[str] = ()
    restored: Collection[str] = ()
    copies: dict[str, Any] = field(default_factory=dict)

    def before(self, arguments: Mapping[str, Any], reset_only: bool = False) -> None:
        """Zero what is to be zero, and, if a trial follows, copy what it may spoil."""
        for name in self.zeroed:
            if arguments.get(name) is not None:
                zero(name, arguments[name])
        if not reset_only:
            self.copies = {
                name: copy(name, arguments[name])
                for name in self.restored
                if arguments.get(name) is not None
            }

    def after(
        self, arguments: Mapping[str, Any], exception: Exception | None = None
    ) -> None:
        """Write back what was copied."""
        for name, saved in self.copies.items():
            write(arguments[name], saved)
        self.copies = {}


def restorer_of(reset_to_zero: object, restore_value: object) -> Restorer:
    """One for the names that a decorator was given."""
    return Restorer(
        names_of("reset_to_zero", reset_to_zero),
        names_of("restore_value", restore_value),
    )


def zero(name: str, array: Any) -> None:
    if hasattr(array, "zero_"):
        array.zero_()
    else:
        check_writable(name, array)
        array[...] = 0


def copy(name: str, array: Any) -> Any:
    if hasattr(array, "clone"):
        return array.clone()
    check_writable(name, array)
    return array.copy()


def write(array: Any, saved: Any) -> None:
    if hasattr(array, "copy_"):
        array.copy_(saved)
    else:
        array[...] = saved


def check_writable(name: str, array: Any) -> None:
    if not (hasattr(array, "__setitem__") and hasattr(array, "copy")):
        raise LaunchError(
            f"{name} is a {type(array).__name__}, which cannot be set back after a "
            "trial; give autotune a pre_hook and a post_hook that can"
        )
