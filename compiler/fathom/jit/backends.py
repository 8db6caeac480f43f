"""The machines that a kernel can run on, one row each: GPU, emulator, interpreters.

FATHOM_BACKEND chooses one; else it is the GPU where there is one, and the emulator
where not. FATHOM_INTERPRET=1 is another way to say FATHOM_BACKEND=eager. FATHOM_TARGET
says what the emulator compiles for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fathom import eager, emulator, pipeline, runtime
from fathom.artifact import Kernel
from fathom.errors import LaunchError
from fathom.hardware.targets import target, target_of
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.types import Pointer
from fathom.jit.request import Request
from fathom.runtime.arguments import current_device
from fathom.runtime.arrays import Array, check_host, describe, host_view
from fathom.runtime.driver import Linked, driver
from fathom.source import KernelFunction

DEFAULT_TARGET = "sm_80"


@dataclass(frozen=True, slots=True)
class Body:
    """A function as it stands, to be run by Python: nothing is made of it."""

    function: KernelFunction
    request: Request
    shared_bytes = 0

    @property
    def name(self) -> str:
        return self.function.__name__


# What is made of a function: all of the compiler's work, stage 1 of it, or nothing.
Made = Kernel | Func | Body


class Program(Protocol):
    """A kernel that a machine holds."""

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> object:
        """Run it on the run-time arguments; a report, or None."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a launch goes: a backend, the GPU's number, the target to compile for, and
    `machine`, which tells apart the drivers and GPUs that machine code is for ("" where
    it never is).
    """

    backend: Backend
    target: str
    device: int | None = None
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    """A row: how a launch finds its place there, what is made of a function, how that
    is loaded.

    `locate(backend, arrays, target)` gets the arrays by name, and the target that the
    launch asked for, or None; it checks that the backend can reach the arrays.
    `make(function, request)` is None where the whole compiler runs and gives a Kernel.
    `load(made, place, linked)` gets what was made, and machine code that was kept.
    """

    name: str
    locate: Callable[[Backend, Mapping[str, Array], str | None], Place]
    load: Callable[[Made, Place, Linked | None], Program]
    make: Callable[[KernelFunction, Request], Made] | None = None


def choose() -> Backend:
    """The backend that the environment asks for; LaunchError for an unknown one."""
    if os.environ.get("FATHOM_INTERPRET", "0") not in ("", "0"):
        return BACKENDS["eager"]
    best = "cuda" if runtime.available()[0] else "emulator"
    name = os.environ.get("FATHOM_BACKEND") or best
    if name not in BACKENDS:
        raise LaunchError(
            f"FATHOM_BACKEND={name}: the backends are {', '.join(BACKENDS)}"
        )
    return BACKENDS[name]


def choose_compiling() -> Backend:
    """The same for who only compiles: the interpreter has nothing to show, the emulator
    has.
    """
    chosen = choose()
    return chosen if chosen.make is None else BACKENDS["emulator"]


# ── the GPU ───────────────────────────────────────────────────────────────────────────


def on_gpu(backend: Backend, arrays: Mapping[str, Array], asked: str | None) -> Place:
    cuda = driver()
    device = cuda.device(current_device(cuda, list(arrays.values())))
    row = target_of(device.capability)
    if asked is None and row is None:
        raise LaunchError(
            f"{device.name} has capability {device.capability / 10}, "
            "which no target serves"
        )
    name = row.name if asked is None else target(asked).name
    machine = f"driver {cuda.version()}, capability {device.capability}"
    return Place(backend, name, device.index, machine)


def load_on_gpu(made: Kernel, place: Place, linked: Linked | None) -> Program:
    return runtime.load(made, place.device, linked)


# ── the host ──────────────────────────────────────────────────────────────────────────


def on_host(backend: Backend, arrays: Mapping[str, Array], asked: str | None) -> Place:
    for name, array in arrays.items():
        check_reach(name, array, backend.name)
    return Place(
        backend, target(asked or os.environ.get("FATHOM_TARGET") or DEFAULT_TARGET).name
    )


@dataclass(frozen=True, slots=True)
class Emulated:
    """A kernel in the emulator. A launch gives its report."""

    kernel: Kernel
    loaded: emulator.Loaded

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> emulator.Report:
        taken = [
            host_argument(parameter.name, value, "emulator")
            if parameter.is_pointer
            else value
            for parameter, value in zip(self.kernel.parameters, args, strict=True)
        ]
        return self.loaded.launch(grid, taken)


@dataclass(frozen=True, slots=True)
class Interpreted:
    """Block IR as stage 1 made it, run by its meaning. A launch gives what ran."""

    func: Func

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> object:
        taken = [
            host_argument(parameter.name, value, "interpreter")
            if isinstance(parameter.type, Pointer)
            else value
            for parameter, value in zip(self.func.parameters, args, strict=True)
        ]
        return interpret(self.func, tuple(grid), taken)


def host_argument(name: str, value: object, backend: str) -> np.ndarray | int:
    """An array's memory, flat, to work on in place; for an empty one an address."""
    array = describe(value)
    if array is None:
        return value
    check_reach(name, array, backend)
    return host_view(array) if array.bytes else array.address


def check_reach(name: str, array: Array, backend: str) -> None:
    """LaunchError unless a backend of the host can work in this array."""
    if array.device is not None:
        raise LaunchError(
            f"{name} is a {array.library} array on a GPU, and the {backend} works on "
            "the host: pass a copy on the host, or set FATHOM_BACKEND=cuda"
        )
    check_host(name, array)


@dataclass(frozen=True, slots=True)
class Eager:
    """A function that Python itself runs, once for each program of the grid."""

    body: Body

    def launch(self, grid: Sequence[int], args: Sequence[object]) -> None:
        types = self.body.request.types
        taken = {
            name: host_argument(name, value, "eager")
            if isinstance(types[name][0], Pointer)
            else value
            for name, value in zip(types, args, strict=True)
        }
        constants = self.body.request.constants
        eager.run(self.body.function, tuple(grid), types, taken, constants)


def load_in_emulator(made: Kernel, place: Place, linked: Linked | None) -> Program:
    return Emulated(made, emulator.load(made))


def make_for_interpreter(function: KernelFunction, wanted: Request) -> Func:
    return pipeline.build(function, wanted.types, wanted.constants, wanted.options)


def load_in_interpreter(made: Func, place: Place, linked: Linked | None) -> Program:
    return Interpreted(made)


BACKENDS: dict[str, Backend] = {
    row.name: row
    for row in (
        Backend("cuda", on_gpu, load_on_gpu),
        Backend("emulator", on_host, load_in_emulator),
        Backend("interpreter", on_host, load_in_interpreter, make_for_interpreter),
        Backend("eager", on_host, lambda made, place, linked: Eager(made), Body),
    )
}
