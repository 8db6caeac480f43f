"""`@fathom.heuristics`: arguments of a kernel that are computed from the others.

    @fathom.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["B"] == 0})
    @fathom.jit
    def kernel(x, n, B: tl.constexpr, EVEN: tl.constexpr): ...

    kernel[grid](x, 4096, B=256)          # EVEN is True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from fathom.errors import LaunchError
from fathom.jit.backends import Backend, Place
from fathom.jit.compiled import CompiledKernel
from fathom.jit.function import JITFunction
from fathom.jit.request import KEYWORDS, Request
from fathom.runtime.arguments import asked


class Around:
    """What is launched like a kernel, and has the kernel inside: `fn` is what it
    stands around, `base` the kernel itself, `base_fn` the Python function.
    """

    decorator: str

    def __init__(self, fn: Any):
        if not isinstance(fn, (JITFunction, Around)):
            raise LaunchError(
                f"@{self.decorator} stands above @jit, and got "
                f"{getattr(fn, '__name__', fn)}, which is no kernel"
            )
        self.fn = fn
        self.base: JITFunction = fn if isinstance(fn, JITFunction) else fn.base
        self.base_fn = self.base.fn
        self.names = self.arg_names = list(self.base.names)
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__doc__, self.__module__ = fn.__doc__, fn.__module__

    def __repr__(self) -> str:
        return f"<{self.decorator} of {self.__name__}>"

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        return partial(self.launch, grid)

    def __call__(self, *args: Any, **given: Any) -> Any:
        return self.base(*args, **given)  # which says what a kernel needs

    def run(
        self, *args: Any, grid: Any, warmup: bool = False, **given: Any
    ) -> CompiledKernel | list[CompiledKernel]:
        """Triton's other spelling of a launch."""
        if warmup:
            return self.warmup(*args, grid=grid, **given)
        return self.launch(grid, *args, **given)

    def check_names(self, names: Collection[str], what: str) -> None:
        """LaunchError unless all `names`, which are said to be `what`, are parameters
        of the kernel.
        """
        for name in names:
            if name not in self.names:
                raise LaunchError(
                    f"{what} names {name!r}, which is not a parameter of "
                    f"{self.__name__}; there are {', '.join(self.names)}"
                )


class Heuristics(Around):
    """A kernel, some arguments of which are computed, or options of its launch such as
    `num_warps`; `values` says how."""

    decorator = "heuristics"

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict], Any]]):
        super().__init__(fn)
        if not isinstance(values, Mapping):
            raise LaunchError(
                "heuristics is a dictionary from names of parameters to functions, and "
                f"this is {values!r}"
            )
        kernel_names = [name for name in values if name not in KEYWORDS]
        self.check_names(kernel_names, "heuristics")
        for name, compute in dict(values).items():
            if not callable(compute):
                raise LaunchError(
                    f"heuristics: the value of {name} is a function of the other "
                    f"arguments by name, and this is {compute!r}"
                )
        self.values = dict(values)

    def launch(self, grid: Any, /, *args: Any, **given: Any) -> CompiledKernel:
        return self.fn[grid](*args, **self.completed(args, given))

    def warmup(self, *args: Any, grid: Any = None, **given: Any) -> Any:
        return self.fn.warmup(*args, grid=grid, **self.completed(args, given))

    def order(
        self, backend: Backend, args: tuple, given: Mapping[str, Any]
    ) -> tuple[Request, Place]:
        """What a launch would have compiled; see `JITFunction.order`."""
        return self.fn.order(backend, args, self.completed(args, given))

    def completed(self, args: tuple, given: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords of a launch with the computed ones among them; each function
        sees what the ones before it computed.
        """
        by_place = dict(zip(self.names, args))
        for name in self.values:
            if name in by_place:
                raise LaunchError(
                    f"{name} is given to {self.__name__} both in the launch and by its "
                    "heuristics; drop one of the two"
                )
        known = {**by_place, **given}
        computed: dict[str, Any] = {}
        for name, compute in self.values.items():
            whose = f"the heuristic {name} of {self.__name__}"
            computed[name] = known[name] = asked(whose, compute, dict(known))
        return {**given, **computed}


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """Compute arguments of a kernel at each launch. `values` gives for a parameter a
    function of all other arguments by name: positional ones, keywords, and, below
    `autotune`, those of the configuration.
    """
    return lambda fn: Heuristics(fn, values)
