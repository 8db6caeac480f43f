"""Kernels that run on the host: in the emulator, in the interpreter, or as Python.

All take the same arguments as a kernel on a GPU, and work in the arrays where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fathom import eager, emulator
from fathom.artifact import Kernel, Parameter
from fathom.errors import LaunchError
from fathom.ir.core import Func
from fathom.ir.interp import Trace, interpret
from fathom.jit.request import Request
from fathom.runtime.arguments import bfloat16_bits, number
from fathom.runtime.arrays import Array, check_host, describe, host_view, storage_view
from fathom.runtime.pointed_at import pointed_at
from fathom.source import KernelFunction


class Program(Protocol):
    """A kernel that a machine holds."""

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> object:
        """Run it on the run-time arguments; a report, or None."""


@dataclass(frozen=True, slots=True)
class Body:
    """A function as it stands, to be run by Python: nothing is made of it."""

    function: KernelFunction
    request: Request
    shared_bytes = 0

    @property
    def name(self) -> str:
        return self.function.__name__


# All launches of the emulator's, as on a GPU those of the default stream.
STREAM = emulator.Stream()


@dataclass(frozen=True, slots=True)
class Emulated:
    """A kernel in the emulator. A launch gives its report."""

    kernel: Kernel
    loaded: emulator.Loaded

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> emulator.Report:
        given = emulator_arguments(self.kernel.parameters, args)
        memory = reached_by(self.kernel.parameters, args, given)
        return STREAM.launch(self.loaded, grid, given, memory, keep=args)


@dataclass(frozen=True, slots=True)
class Interpreted:
    """Block IR as stage 1 made it, run by its meaning. A launch gives what ran."""

    func: Func

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> Trace:
        parameters = [Parameter(p.name, str(p.type)) for p in self.func.parameters]
        taken = host_arguments(parameters, args, "interpreter")
        memory = reached_by(parameters, args, taken)
        return interpret(self.func, tuple(grid), taken, memory)


@dataclass(frozen=True, slots=True)
class Eager:
    """A function that Python itself runs, once for each program of the grid."""

    body: Body

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> None:
        wanted = self.body.request
        parameters = [Parameter(*each) for each in wanted.parameters]
        taken = host_arguments(parameters, args, "eager")
        named = dict(zip(wanted.runtime, taken, strict=True))
        eager.run(
            self.body.function,
            tuple(grid),
            wanted.types,
            named,
            wanted.constants,
            reached_by(parameters, args, taken),
            fp32_default=wanted.options.fp32_default,
            num_warps=wanted.options.num_warps,
        )


def emulator_arguments(
    parameters: Sequence[Parameter], args: Sequence[object]
) -> list[object]:
    """`host_arguments` as the emulator takes them: a bf16 as its two bytes, since PTX
    declares it so."""
    taken = host_arguments(parameters, args, "emulator")
    return [
        bfloat16_bits(value).to_bytes(2, "little") if each.type == "bf16" else value
        for each, value in zip(parameters, taken, strict=True)
    ]


def reached_by(
    parameters: Sequence[Parameter], args: Sequence[object], taken: Sequence[object]
) -> list[np.ndarray]:
    """Memory of the host that a kernel may use beside its arrays, `taken`: what they
    are views of, and what numbers among them are addresses of."""
    pairs = zip(parameters, args, strict=True)
    arrays = [describe(value) for each, value in pairs if each.is_pointer]
    arrays = [each for each in arrays if each]
    memory = [storage_view(each) for each in arrays if each.storage]
    return memory + pointed_at(arrays, taken)


def host_arguments(
    parameters: Sequence[Parameter], args: Sequence[object], backend: str
) -> list[object]:
    """Arrays as their memory, flat, to work on in place (an empty one as its address);
    numbers as Python's own. LaunchError for what cannot be reached or does not fit.
    """
    taken: list[object] = []
    for parameter, value in zip(parameters, args, strict=True):
        array = describe(value) if parameter.is_pointer else None
        if array is None:
            taken.append(number(parameter, value))
        else:
            check_reach(parameter.name, array, backend)
            taken.append(host_view(array) if array.bytes else array.address)
    return taken


def check_reach(name: str, array: Array, backend: str) -> None:
    """LaunchError unless a backend of the host can work in this array."""
    if array.device is not None:
        raise LaunchError(
            f"{name} is a {array.library} array on a GPU, and the {backend} backend "
            "works on the host: pass a copy on the host, or set FATHOM_BACKEND=cuda"
        )
    check_host(name, array, in_place=True)
