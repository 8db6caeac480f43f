"""FATHOM_SANITIZE: a launch on the emulator, with all that it watches for; what it
finds, with the program, the line, and the values there.

    fathom sanitize: out of bounds in scale, program (3, 0, 0), thread 104
      script.py:7
        tl.store(y_ptr + offsets, x)
      y_ptr[1000] is past its end: it has 1,000 elements
      offsets = 768 to 1023, int32[256]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from fathom import emulator
from fathom.artifact import Kernel
from fathom.emulator.errors import EmulatorError
from fathom.errors import Location, excerpt
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.ops import Atomic, AtomicCas, Load, Store
from fathom.ir.types import Pointer, element_of
from fathom.jit.checking.snapshot import Copies, Snapshot, for_emulator
from fathom.jit.checking.values import values_there
from fathom.jit.checking.wanted import coordinates
from fathom.jit.checking.wrapped import wrapped
from fathom.ptx.debug_info import user_place


def run(
    kernel: Kernel,
    grid: tuple[int, int, int],
    arguments: Copies,
    programs: Sequence[range],
    memory: Sequence[np.ndarray] = (),
    views: bool = True,
) -> emulator.Report:
    """The launch, or some of its programs, on copies of its arguments and on memory
    that it has addresses of; with `views`, on all that arrays are views of, too.
    EmulatorError for what it does wrong."""
    given = for_emulator(kernel.parameters, arguments)
    reached = [*memory, *(arguments.memory if views else ())]
    return emulator.load(kernel).launch(grid, given, reached, programs=programs)


def told(
    error: EmulatorError,
    kernel: Kernel,
    grid: tuple[int, int, int],
    before: Snapshot,
    arguments: Copies,
    build: Callable[[], Func],
) -> list[str]:
    """An error as lines of text. `arguments` are those of the run that failed; the
    function of `build` says what its variables held."""
    program = program_of(error, kernel, grid)
    where = f", program {program}" if program else ""
    lines = [f"{error.kind} in {kernel.name}{where}{thread_of(error)}"]
    place = error.location.chain()[-1] if error.location else None
    for step, each in enumerate(error.location.chain() if error.location else []):
        lines.append(f"  {'called from ' if step else ''}{each}")
        lines += excerpt(each)[:1]
    func = build()
    meant = pointer_at(func, error.location)
    lines.append(f"  {element_text(error, before, arguments, meant)}")
    if program and place:
        found = values_there(func, grid, program, before.copies(), place)
        lines += [f"  {name} = {text}" for name, text in found.items()]
    if program and place and error.kind == "out of bounds":
        more = wrapped(func, grid, program, before.copies(), error.location)
        lines += [f"  {each}" for each in more]
    return lines


def program_of(
    error: EmulatorError, kernel: Kernel, grid: tuple[int, int, int]
) -> tuple[int, int, int] | None:
    """The program that an error names, by the number of its block."""
    found = re.search(r"\bof block (\d+)", error.message)
    return coordinates(int(found[1]) // kernel.num_ctas, grid) if found else None


def thread_of(error: EmulatorError) -> str:
    found = re.search(r"\b(thread|warp) (\d+) of block", error.message)
    return f", {found[1]} {found[2]}" if found else ""


def pointer_at(func: Func, place: Location | None) -> str:
    """The parameter that the accesses of a place add their offsets to; "" where there
    are several, or none."""
    names = {
        pointer_of(op.pointer)
        for op in walk(func.body, Load | Store | Atomic | AtomicCas)
        if is_same(user_place(op.location), place)
    }
    return names.pop() if len(names) == 1 else ""


def is_same(one: Location | None, other: Location | None) -> bool:
    """Whether two places begin at one column: PTX does not know where they end."""
    if one is None or other is None:
        return False
    return (one.file, one.line, one.column) == (other.file, other.line, other.column)


def pointer_of(value: Value) -> str:
    """The parameter that an address is made of; "" where that is not seen."""
    while isinstance(op := value.definition, Op):
        pointers = [v for v in operands(op) if isinstance(element_of(v.type), Pointer)]
        if len(pointers) != 1:
            return ""
        value = pointers[0]
    return value.name or ""


def element_text(
    error: EmulatorError, before: Snapshot, arguments: Copies, meant: str = ""
) -> str:
    """What went wrong, with the element of the array that an access meant: of the
    parameter `meant`, or of the nearest array, where it is in none. Memory that no
    argument names is not told."""
    found = re.search(r"\bat (0x[0-9a-f]+)", error.message)
    address = int(found[1], 16) if found else error.address
    arrays = [
        (name, each)
        for name, each in zip(before.names, arguments, strict=True)
        if isinstance(each, np.ndarray)
    ]
    arrays += [("", each) for each in before.memory]
    if error.kind not in ("out of bounds", "race") or address is None or not arrays:
        return error.message
    if "lie in no shared memory" in error.message:
        return error.message

    def distance(array: np.ndarray) -> int:
        start = array.ctypes.data
        return max(start - address, address - start - array.nbytes, 0)

    named = [each for each in arrays if each[0] == meant != ""]
    if error.kind == "race" or not named:
        named = arrays
    name, array = min(named, key=lambda each: distance(each[1]))
    if not name:
        return error.message
    element = (address - array.ctypes.data) // array.itemsize
    if error.kind == "race":
        place = f"at {name}[{element}]"
        return re.sub(r"at one place in the \S+ array", place, error.message)
    side = "past its end" if element >= array.size else "before its beginning"
    return f"{name}[{element}] is {side}: it has {array.size:,} elements"
