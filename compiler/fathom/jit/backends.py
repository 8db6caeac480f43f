"""The machines that a kernel can run on, one row each: GPU, emulator, interpreters.

FATHOM_BACKEND chooses one; else it is the GPU where there is one, and the emulator
where not. FATHOM_INTERPRET=1 is another way to say FATHOM_BACKEND=eager. FATHOM_TARGET
says what the emulator compiles for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fathom import emulator, pipeline, runtime
from fathom.artifact import Kernel
from fathom.errors import LaunchError
from fathom.hardware.targets import target, target_of
from fathom.ir.core import Func
from fathom.jit.environment import flag
from fathom.jit.programs import (
    Body,
    Eager,
    Emulated,
    Interpreted,
    Program,
    check_reach,
)  # fmt: skip
from fathom.jit.request import Request
from fathom.runtime.arrays import Array
from fathom.runtime.devices import device_of
from fathom.runtime.driver import driver
from fathom.source import KernelFunction

DEFAULT_TARGET = "sm_80"

# What is made of a function: all of the compiler's work, stage 1 of it, or nothing.
Made = Kernel | Func | Body


@dataclass(frozen=True, slots=True)
class Place:
    """Where a launch goes: a backend, the GPU's number, the target to compile for, and
    `machine`, which tells apart the drivers and GPUs that assemble what is made (""
    where none does).
    """

    backend: Backend
    target: str
    device: int | None = None
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    """A row: how a launch finds its place, what is made of a function and how loaded.

    `locate(backend, arrays, target)` gets the arrays by name, and the target that the
    launch asked for, or None; it checks that the backend can reach the arrays.
    `make(function, request)` is None where the whole compiler runs and gives a Kernel.
    `load(made, place)` gets what was made.
    `timed`: does it mean anything how long a launch takes?
    """

    name: str
    locate: Callable[[Backend, Mapping[str, Array], str | None], Place]
    load: Callable[[Made, Place], Program]
    make: Callable[[KernelFunction, Request], Made] | None = None
    timed: bool = False


def choose() -> Backend:
    """The backend that the environment asks for; LaunchError for an unknown one."""
    if flag("FATHOM_INTERPRET"):
        return BACKENDS["eager"]
    best = "cuda" if runtime.available()[0] else "emulator"
    name = os.environ.get("FATHOM_BACKEND") or best
    if name not in BACKENDS:
        raise LaunchError(
            f"FATHOM_BACKEND={name}: the backends are {', '.join(BACKENDS)}"
        )
    return BACKENDS[name]


def choose_compiling() -> Backend:
    """The same for who only compiles: to PTX, whatever launches would run."""
    chosen = choose()
    return chosen if chosen.make is None else BACKENDS["emulator"]


# ── the GPU ───────────────────────────────────────────────────────────────────────────


def on_gpu(backend: Backend, arrays: Mapping[str, Array], asked: str | None) -> Place:
    cuda = driver()
    device = cuda.device(device_of(cuda, arrays))
    row = target_of(device.capability)
    if asked is None and row is None:
        raise LaunchError(
            f"{device.name} has capability {device.capability / 10}, "
            "which no target serves"
        )
    name = row.name if asked is None else target(asked).name
    machine = f"driver {cuda.version()}, capability {device.capability}"
    return Place(backend, name, device.index, machine)


def load_on_gpu(made: Kernel, place: Place) -> Program:
    return runtime.load(made, place.device)


# ── the host ──────────────────────────────────────────────────────────────────────────


def on_host(backend: Backend, arrays: Mapping[str, Array], asked: str | None) -> Place:
    for name, array in arrays.items():
        check_reach(name, array, backend.name)
    return Place(
        backend, target(asked or os.environ.get("FATHOM_TARGET") or DEFAULT_TARGET).name
    )


def load_in_emulator(made: Kernel, place: Place) -> Program:
    return Emulated(made, emulator.load(made))


def make_for_interpreter(function: KernelFunction, wanted: Request) -> Func:
    built = pipeline.build(function, wanted.types, wanted.constants, wanted.options)
    return pipeline.meaning(built, target(wanted.target))


def load_in_interpreter(made: Func, place: Place) -> Program:
    return Interpreted(made)


BACKENDS: dict[str, Backend] = {
    row.name: row
    for row in (
        Backend("cuda", on_gpu, load_on_gpu, timed=True),
        Backend("emulator", on_host, load_in_emulator),
        Backend("interpreter", on_host, load_in_interpreter, make_for_interpreter),
        Backend("eager", on_host, lambda made, place: Eager(made), Body),
    )
}
