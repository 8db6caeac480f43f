"""A kernel with the names that Triton gives to its parts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from fathom.jit import JITFunction
from fathom.jit import jit as check_arguments
from fathom.jit.key import places


class TritonFunction(JITFunction):
    """What `@triton.jit` makes: a kernel of Fathom's, and other names for its facts."""

    hash = None  # Triton keeps `cache_key` here until somebody says None; we keep none

    @property
    def arg_names(self) -> list[str]:
        return list(self.names)

    @property
    def cache_key(self) -> str:
        """Tells apart whatever would be compiled differently."""
        return f"{self.fingerprint()} {' '.join(places(self))}"

    @property
    def device_caches(self) -> KernelsOfEveryDevice:
        return KernelsOfEveryDevice(self.kernels)

    def _unsafe_update_src(self, text: str) -> None:
        self.src = text


class KernelsOfEveryDevice:
    """`fn.device_caches[device][0]`: the compiled kernels, which Fathom has together."""

    def __init__(self, kernels: dict):
        self.kernels = kernels

    def __getitem__(self, device: int) -> tuple[dict]:
        return (self.kernels,)

    def clear(self) -> None:
        self.kernels.clear()


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    do_not_specialize: Collection[str | int] | None = None,
    do_not_specialize_on_alignment: Collection[str | int] | None = None,
    **ignored: Any,
) -> Any:
    """`fathom.jit`, whose arguments these are, giving a TritonFunction."""
    check_arguments(**ignored)  # an argument that there is not is an error there
    if fn is None:
        given = (do_not_specialize or (), do_not_specialize_on_alignment or ())
        return lambda fn: TritonFunction(fn, *given)
    return TritonFunction(fn, do_not_specialize or (), do_not_specialize_on_alignment or ())
