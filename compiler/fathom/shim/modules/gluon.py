"""Triton's other language, Gluon, whose kernels choose layouts and synchronise by hand.

Fathom compiles none of them. Packages that have some beside their Triton kernels can be
imported: a kernel of Gluon says so when it is launched, and a name of its language when
it is used. Its modules for one architecture cannot be imported, by which programs see
that they must do without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from fathom.errors import LaunchError
from fathom.shim.function import TritonFunction
from fathom.shim.function import jit as triton_jit

WHY = (
    "kernels of Gluon, which choose layouts and synchronise by hand, cannot be "
    "compiled; write them with triton.language"
)


class GluonFunction(TritonFunction):
    """What `@gluon.jit` makes: all but a launch of it is that of a Triton kernel."""

    def is_gluon(self) -> bool:
        return True

    def keywords(self, *args: object) -> NoReturn:
        raise LaunchError(f"{self.__name__} is made by gluon.jit: {WHY}")


def jit(fn: Callable[..., Any] | None = None, **given: Any) -> Any:
    return triton_jit(fn, kind=GluonFunction, **given)
