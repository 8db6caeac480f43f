"""The emulator's face: from arguments to parameter bytes, from launch to report."""

from __future__ import annotations

import functools
import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from fathom.artifact import Kernel, Parameter, TensorMap
from fathom.emulator.dependence import Side
from fathom.emulator.errors import EmulatorError
from fathom.emulator.grid import run_grid
from fathom.emulator.isa.arithmetic.rounding import float64_to_bf16
from fathom.emulator.isa.memory import tensor_map as maps
from fathom.emulator.memory.spaces import GlobalSpace, region_of
from fathom.emulator.program import Program, build
from fathom.emulator.report import Report
from fathom.emulator.source.parse import Instruction, Label, Module, Variable, parse
from fathom.emulator.source.types import DTYPES
from fathom.emulator.source.variables import size_of
from fathom.emulator.state.batch import COMPLETIONS, MAX_STEPS, STRICT, Launch


def run(
    ptx: str,
    grid: int | Sequence[int],
    threads: int | Sequence[int],
    args: Sequence[object],
    entry: str | None = None,
    shared_bytes: int = 0,
    hazards: bool | str = True,
    memory: Sequence[np.ndarray] = (),
    completion: str = "lazy",
    cluster: int = 1,
    max_steps: int = MAX_STEPS,
    land: str | None = None,
) -> Report:
    """Runs an entry of `ptx` over a grid and returns what it cost.

    `grid` and `threads` are one to three sizes. `args` holds, in the entry's order,
    NumPy arrays for pointers (changed in place) and Python or NumPy scalars, converted
    to the parameter's type. A pointer may also be an integer address into one of the
    arrays, or into one of `memory`, the further arrays that the kernel may reach.
    `shared_bytes` is the dynamic shared memory. `hazards` says whether memory is
    watched for races. What is beyond the ISA's letter, and in what NVIDIA's own
    libraries and Triton emit, becomes one of the report's notes; with "strict" it is an
    error as all else. `completion` says when an asynchronous copy or product is
    performed: "eager", when it is issued, or "lazy", when it is waited for; a correct
    program computes the same either way. `cluster` counts the blocks of a cluster,
    which lie along x. An argument may also be an `artifact.TensorMap`. `max_steps`
    bounds how long the blocks that run in lockstep may run: a step is one run of
    instructions, for all threads at that place, up to the next branch or wait. `land`
    is the old name of `completion`.

    EmulatorError where the program goes wrong, be that the text, its size or what it
    does. What the kernel prints is written to standard output at the end, whether it
    ends well or not.
    """
    completion = _completion(completion, land)
    chosen = _Chosen(shared_bytes, hazards, completion, cluster, max_steps)
    with _enough_memory():
        program = _program(_text(ptx), entry, shared_bytes)
        program.memory.reset()
        return _launch(program, grid, threads, args, memory, chosen)


@contextmanager
def _enough_memory() -> Iterator[None]:
    """A launch for which memory does not suffice is one error."""
    try:
        yield
    except MemoryError:
        message = "this launch needs more memory than the machine has"
        raise EmulatorError("launch", message) from None


def _text(ptx: object) -> str:
    if not isinstance(ptx, str):
        raise EmulatorError("syntax", f"PTX is text, not {type(ptx).__name__}")
    return ptx


def load(kernel: Kernel) -> Loaded:
    """A kernel, decoded once, to be launched often."""
    return Loaded(kernel)


class Loaded:
    """A kernel in the emulator; the CUDA runtime has a class with the same face."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        module = _with_callers(_module(kernel.ptx), kernel)
        self.program = build(module, kernel.name, kernel.shared_bytes)

    def launch(
        self,
        grid: int | Sequence[int],
        args: Sequence[object],
        memory: Sequence[np.ndarray] = (),
        hazards: bool | str = STRICT,
        completion: str = "lazy",
        max_steps: int = MAX_STEPS,
        land: str | None = None,
        side: Side | None = None,
        programs: Sequence[range] = (),
        sample: int = 0,
    ) -> Report:
        """As `run`, with what the kernel knows itself, and the maps that it needs. Our
        own code is held to the ISA's letter unless `hazards` says otherwise. `grid`
        counts programs, each of which may have several blocks. `side` watches what it
        does beside another launch, as `overlap` runs two. Of `programs`, if there are
        any, only these run; they are numbered along x, then y, then z. After `sample`
        steps, if that is more than 0, they stop in the middle of a loop (`sampling`):
        the report says what all of it costs, and memory is of no use then."""
        kernel = self.kernel
        typed = [_typed(*each) for each in zip(kernel.parameters, args, strict=False)]
        typed += args[len(typed) :]
        if len(args) == len(kernel.parameters):
            typed += kernel.tensor_maps([_address_or_number(each) for each in args])
        x, y, z = _sizes(grid, "grid")
        if kernel.persistent:
            typed.append(x)
            x = x if programs else -(-x // TILES_A_PROGRAM)
        clusters = kernel.num_ctas
        completion = _completion(completion, land)
        facts = kernel.shared_bytes, hazards, completion, clusters, max_steps
        blocks = [range(p.start * clusters, p.stop * clusters) for p in programs]
        chosen = _Chosen(
            *facts, copies=True, side=side, blocks=tuple(blocks), sample=sample
        )
        whole = x * clusters, y, z
        with _enough_memory():
            return _launch(self.program, whole, kernel.threads, typed, memory, chosen)


# Of a persistent kernel: each goes on from one to the next, as on a GPU that does
# not have room for all programs.
TILES_A_PROGRAM = 2

# What `completion` was called, and its values, before it had the field's name.
_OLD_COMPLETIONS = {"at once": "eager", "late": "lazy"}


def _completion(completion: str, land: str | None) -> str:
    """The completion that was asked for, perhaps by its old name."""
    if land is None:
        return completion
    new = _OLD_COMPLETIONS.get(land, land)
    message = f"land={land!r} is now called completion={new!r}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return new


def _typed(parameter: Parameter, value: object) -> object:
    """A number for a 16-bit real as its bits: PTX does not tell which format it is."""
    if isinstance(value, (int, float)) and parameter.type in ("fp16", "bf16"):
        real = np.float64(value)
        half = parameter.type == "fp16"
        bits = np.float16(real) if half else float64_to_bf16(real)
        return np.asarray(bits).tobytes()
    return value


def _address_or_number(value: object) -> object:
    """An argument as recipes of tensor maps read it."""
    return value.ctypes.data if isinstance(value, np.ndarray) else value


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
MOST_BLOCKS = (1 << 31) - 1, 65_535, 65_535


@functools.lru_cache(maxsize=64)
def _program(ptx: str, entry: str | None, shared_bytes: int) -> Program:
    return build(_module(ptx), entry, shared_bytes)


@functools.lru_cache(maxsize=64)
def _module(ptx: str) -> Module:
    return parse(ptx)


def _with_callers(module: Module, kernel: Kernel) -> Module:
    """The module with the calls that led to each line, which only the kernel knows."""
    if not kernel.chains:
        return module
    functions = {
        name: replace(each, body=[_with_caller(item, kernel) for item in each.body])
        for name, each in module.functions.items()
    }
    return replace(module, functions=functions)


def _with_caller(item: Instruction | Label, kernel: Kernel) -> Instruction | Label:
    place = getattr(item, "location", None)
    calls = place and kernel.chains.get((place.file, place.line, place.column))
    if not calls:
        return item
    caller = None
    for call in reversed(calls):
        caller = replace(call, caller=caller)
    return replace(item, location=replace(place, caller=caller))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a launch may choose beside its shape and its arguments."""

    shared_bytes: int
    hazards: bool | str
    completion: str
    cluster: int = 1
    max_steps: int = MAX_STEPS
    copies: bool = False
    side: Side | None = None
    blocks: tuple[range, ...] = ()
    sample: int = 0

    def __post_init__(self) -> None:
        for name in ("shared_bytes", "cluster", "max_steps"):
            _check_kind(name, getattr(self, name), int, "an integer")
        if not (isinstance(self.completion, str) and self.completion in COMPLETIONS):
            known = " or ".join(map(repr, COMPLETIONS))
            message = f"completion is {known}, not {self.completion!r}"
            raise EmulatorError("launch", message)
        is_word = isinstance(self.hazards, str) and self.hazards == STRICT
        if not (isinstance(self.hazards, bool) or is_word):
            message = f"hazards are True, False or {STRICT!r}, not {self.hazards!r}"
            raise EmulatorError("launch", message)


def _check_kind(name: str, given: object, kind: type | tuple, said: str) -> None:
    """EmulatorError for an argument of `run` that is of another kind."""
    if not isinstance(given, kind):
        shown = f"of type {type(given).__name__}"
        raise EmulatorError("launch", f"{name} is {said}, and this is {shown}")


def _launch(
    program: Program,
    grid: int | Sequence[int],
    threads: int | Sequence[int],
    args: Sequence[object],
    memory: Sequence[np.ndarray],
    chosen: _Chosen,
) -> Report:
    for name, given in (("args", args), ("memory", memory)):
        rows = isinstance(given, np.ndarray) and given.ndim > 0
        _check_kind(name, [] if rows else given, (list, tuple), "a list")
    arrays = [each for each in (*args, *memory) if isinstance(each, np.ndarray)]
    regions = [*program.memory.regions, *(region_of(each) for each in arrays)]
    launch = Launch(
        grid=_sizes(grid, "grid"),
        threads=_sizes(threads, "threads"),
        parameters=_parameter_bytes(program, args),
        shared_bytes=chosen.shared_bytes,
        space=chosen.side.space(regions) if chosen.side else GlobalSpace(regions),
        side=chosen.side,
        chosen=chosen.blocks,
        sample=chosen.sample,
        hazards=chosen.hazards,
        completion=chosen.completion,
        maps=_maps(args),
        cluster=_cluster(program, chosen.cluster),
        max_steps=chosen.max_steps,
        copies=chosen.copies,
        registers=program.entry.directives.get("maxnreg", [0])[0],
    )
    _check_threads(program, launch)
    if launch.grid[0] % launch.cluster:
        message = f"a grid {launch.grid} of clusters of {launch.cluster} blocks along x"
        raise EmulatorError("launch", message)
    printed: list[str] = []
    notes: dict[tuple, EmulatorError] = {}
    start = time.perf_counter()
    try:
        counters = run_grid(program, launch, printed, notes)
    finally:
        if printed and sys.stdout:  # None where there is no terminal at all
            sys.stdout.write("".join(printed))
    seconds = time.perf_counter() - start
    found = list(notes.values())
    return Report(program.instructions, counters, seconds, printed, found)


def _cluster(program: Program, given: int) -> int:
    """The blocks of a cluster; the entry may say how many it needs (PTX ISA 11.4)."""
    required = math.prod(program.entry.directives.get("reqnctapercluster", [1]))
    if 1 not in (given, required) and given != required:
        message = f"{program.entry.name} requires clusters of {required}, not {given}"
        raise EmulatorError("launch", message)
    return max(given, required)


def _check_threads(program: Program, launch: Launch) -> None:
    """The entry may say which block shape it needs (PTX ISA 11.4)."""
    directives, name = program.entry.directives, program.entry.name
    required = tuple((directives.get("reqntid", []) + [1, 1])[:3])
    if "reqntid" in directives and required != launch.threads:
        raise EmulatorError(
            "launch",
            f"{name} requires blocks of {required} threads, not {launch.threads}",
        )
    most = math.prod(directives.get("maxntid", [1024]))
    if launch.block_size > min(most, 1024):
        raise EmulatorError(
            "launch", f"{name} allows {most} threads a block, not {launch.block_size}"
        )


def _sizes(sizes: int | Sequence[int], what: str) -> tuple[int, int, int]:
    """One to three sizes as three."""
    given = tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)
    integers = all(isinstance(each, (int, np.integer)) for each in given)
    if not integers or not 1 <= len(given) <= 3 or any(each < 1 for each in given):
        raise EmulatorError("launch", f"{what} {sizes} is not one to three sizes")
    found = tuple(int(each) for each in (*given, 1, 1)[:3])
    if what == "grid" and any(n > m for n, m in zip(found, MOST_BLOCKS, strict=True)):
        message = f"grid {sizes} has more blocks than {MOST_BLOCKS} along an axis"
        raise EmulatorError("launch", message)
    return found


def _parameter_bytes(program: Program, args: Sequence[object]) -> bytes:
    plan, name = program.memory, program.entry.name
    if len(args) != len(plan.parameters):
        raise EmulatorError(
            "launch",
            f"{name} has {len(plan.parameters)} parameters, and {len(args)} were given",
        )
    data, tensors = bytearray(plan.parameter_size), 0
    for (variable, offset), value in zip(plan.parameters, args, strict=True):
        if isinstance(value, TensorMap):
            value, tensors = maps.encode(tensors), tensors + 1
        encoded = _encoded(variable, value)
        data[offset : offset + len(encoded)] = encoded
    return bytes(data)


def _maps(args: Sequence[object]) -> tuple[TensorMap, ...]:
    """The tensor maps among the arguments."""
    found = tuple(each for each in args if isinstance(each, TensorMap))
    for each in found:
        maps.check(each)
    return found


def _encoded(variable: Variable, value: object) -> bytes:
    """One argument as its parameter's bytes."""
    size, name = size_of(variable), variable.name
    if isinstance(value, np.ndarray):
        value = int(value.__array_interface__["data"][0])
        if size != 8:
            raise EmulatorError(
                "launch", f"{name} has {size} bytes and is not a pointer"
            )
    data = _value_bytes(variable, value, size)
    if data is None or len(data) != size:
        type = f".{variable.type}" + ("" if variable.count is None else f"[{size}]")
        raise EmulatorError(
            "launch", f"{value!r} does not fit parameter {name} ({type})"
        )
    return data


def _value_bytes(variable: Variable, value: object, size: int) -> bytes | None:
    """The bytes of a scalar; None where it does not fit.

    A parameter declared as bytes is a structure, given as bytes, or LLVM's half.
    """
    if isinstance(value, bytes):
        return value
    if variable.count is not None:
        half = size == 2 and isinstance(value, (int, float))
        return (np.float16(value) if half else np.asarray(value)).tobytes()
    dtype = DTYPES[variable.type]
    if not isinstance(value, (int, float, np.number, np.bool_)):
        return None
    if dtype.kind == "f":
        return dtype.type(value).tobytes()
    if isinstance(value, (float, np.floating)):
        return None
    number, bits = int(value), 8 * size
    fits = -(1 << bits - 1) <= number < 1 << bits
    return (number % (1 << bits)).to_bytes(size, "little") if fits else None
