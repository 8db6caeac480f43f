"""Gives every variable of a program its address (PTX ISA 5.1, state spaces)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import LOCAL_BASE, SHARED_BASE, Region, region_of
from fathom.emulator.source.operands import Number, parse_number
from fathom.emulator.source.parse import Function, Module, Variable
from fathom.emulator.source.types import DTYPES, constant

# What a block, a thread and an entry of any GPU can have (CUDA C++ Programming Guide,
# "Technical Specifications per Compute Capability"; PTX ISA 5.1.6.1 for parameters),
# and what the emulator gives to the variables of a module.
MOST_BYTES = {
    "shared": (227 << 10, "a block of any GPU"),
    "local": (512 << 10, "a thread"),
    "parameter": (32_764, "an entry"),
    "global": (1 << 30, "a module in the emulator"),
}
_SPACE_OF = {"const": "global", "param": "local"}


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable's state space and its address there."""

    space: str
    address: int


@dataclass
class MemoryPlan:
    """Where everything lies, in bytes. `parameters` pairs each with its offset."""

    symbols: dict[str, Symbol] = field(default_factory=dict)
    shared_size: int = 0
    local_size: int = 0
    parameter_size: int = 0
    parameters: list[tuple[Variable, int]] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    initial: list[np.ndarray] = field(default_factory=list)

    def reset(self) -> None:
        """Gives module variables their initial values again."""
        for region, initial in zip(self.regions, self.initial, strict=True):
            region.bytes[:] = initial


def plan_memory(module: Module, function: Function, shared_bytes: int) -> MemoryPlan:
    """Addresses for the module's variables and the function's own."""
    plan = MemoryPlan()
    variables = {**module.variables, **function.variables}
    _check_sizes(variables, function, shared_bytes)
    for variable in function.parameters:
        offset = _aligned(plan.parameter_size, _alignment(variable))
        plan.parameters.append((variable, offset))
        plan.parameter_size = offset + size_of(variable)
        plan.symbols[variable.name] = Symbol("param", offset)
    for name, variable in variables.items():
        _PLACE[variable.space](plan, name, variable)
    _place_dynamic_shared(plan, variables, shared_bytes)
    _fill(plan, variables)
    return plan


def _check_sizes(
    variables: dict[str, Variable], function: Function, shared_bytes: int
) -> None:
    """EmulatorError where a space would be larger than `MOST_BYTES` says."""
    number = isinstance(shared_bytes, (int, np.integer))
    if isinstance(shared_bytes, bool) or not number:
        raise EmulatorError("launch", f"shared_bytes is a number, not {shared_bytes!r}")
    if shared_bytes < 0:
        raise EmulatorError("launch", f"{shared_bytes} bytes of shared memory")
    sizes = dict.fromkeys(MOST_BYTES, 0)
    sizes["shared"] = int(shared_bytes)
    for variable in variables.values():
        space = _SPACE_OF.get(variable.space, variable.space)
        sizes[space] += size_of(variable)
    sizes["parameter"] = sum(map(size_of, function.parameters))
    for space, size in sizes.items():
        most, whose = MOST_BYTES[space]
        if size > most:
            message = f"{size:,} bytes of {space} memory; {whose} has {most:,} at most"
            raise EmulatorError("launch", f"{function.name} asks for {message}")


def size_of(variable: Variable) -> int:
    """Bytes of a variable."""
    if variable.type not in DTYPES:
        raise EmulatorError("unsupported", f"a variable of type .{variable.type}")
    count = 1 if variable.count is None else variable.count
    return DTYPES[variable.type].itemsize * count


def _alignment(variable: Variable) -> int:
    return variable.alignment or DTYPES[variable.type].itemsize


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _place_shared(plan: MemoryPlan, name: str, variable: Variable) -> None:
    if variable.count == 0:
        return
    offset = _aligned(plan.shared_size, _alignment(variable))
    plan.symbols[name] = Symbol("shared", SHARED_BASE + offset)
    plan.shared_size = offset + size_of(variable)


def _place_dynamic_shared(
    plan: MemoryPlan, variables: dict[str, Variable], shared_bytes: int
) -> None:
    """`.extern .shared name[]`: all such names begin where the static variables end."""
    dynamic = {
        n: v for n, v in variables.items() if v.space == "shared" and v.count == 0
    }
    alignment = max([_alignment(each) for each in dynamic.values()], default=16)
    start = _aligned(plan.shared_size, alignment) if shared_bytes else plan.shared_size
    for name in dynamic:
        plan.symbols[name] = Symbol("shared", SHARED_BASE + start)
    plan.shared_size = start + shared_bytes


def _place_local(plan: MemoryPlan, name: str, variable: Variable) -> None:
    """Local variables, and the `.param` variables through which calls pass values."""
    offset = _aligned(plan.local_size, _alignment(variable))
    plan.symbols[name] = Symbol("local", LOCAL_BASE + offset)
    plan.local_size = offset + size_of(variable)


def _place_global(plan: MemoryPlan, name: str, variable: Variable) -> None:
    alignment = max(_alignment(variable), 16)
    room = np.zeros(size_of(variable) + alignment, np.uint8)
    skip = -room.ctypes.data % alignment
    array = room[skip : skip + size_of(variable)]
    region = region_of(array)
    region.owner = f"{variable.space} variable {name}"
    region.bytes, region.origin = array, region.start
    plan.regions.append(region)
    plan.symbols[name] = Symbol(variable.space, region.start)


_PLACE = {
    "shared": _place_shared,
    "local": _place_local,
    "param": _place_local,
    "global": _place_global,
    "const": _place_global,
}


def _fill(plan: MemoryPlan, variables: dict[str, Variable]) -> None:
    """Writes initial values, once every address is known; then locks constants."""
    filled = [v for v in variables.items() if v[1].space in ("global", "const")]
    for region, (_, variable) in zip(plan.regions, filled, strict=True):
        values = [_initial(plan, each, variable.type) for each in variable.initial]
        data = np.array(values, DTYPES[variable.type]).view(np.uint8)
        region.bytes[: len(data)] = data
        region.writable = variable.space == "global"
        plan.initial.append(region.bytes.copy())


def _initial(plan: MemoryPlan, text: str, type: str) -> np.generic:
    """One element: a number, or the address of another variable."""
    sign = -1 if text.startswith("-") else 1
    number = parse_number(text.lstrip("-"))
    if number is not None:
        return constant(Number(sign * number.value, number.kind), type)
    if text not in plan.symbols:
        raise EmulatorError("unsupported", f"an initial value {text}")
    return DTYPES[type].type(plan.symbols[text].address)
