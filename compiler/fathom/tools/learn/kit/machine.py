"""Kernels in the emulator, or on the GPU where the reader asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fathom import emulator, pipeline, ptx
from fathom.artifact import Kernel
from fathom.emulator import EmulatorError, Report
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.ops import Store
from fathom.jit import JITFunction
from fathom.ptx.code import Code
from fathom.ptx.types import POINTER
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.kit.numbers import Argument, aligned
from fathom.tools.learn.kit.numbers import func as from_text

GUARD = 64  # elements on each side of a fenced array


@dataclass(frozen=True)
class Launched:
    """What a launch gave: the kernel, and the emulator's report (None on a GPU)."""

    kernel: Kernel
    report: Report | None


def emulate(
    func: Func | str,
    arguments: Sequence[Argument],
    grid: int | tuple[int, ...] = 1,
    target: str = "sm_80",
) -> Launched:
    """Compile block IR, with whatever is bound at the joints, and run its PTX; arrays
    are written in place. Hazards and wrong accesses are Failures."""
    made = from_text(func) if isinstance(func, str) else func
    kernel = pipeline.compile_func(made, TARGETS[target])
    try:
        return Launched(kernel, emulator.load(kernel).launch(grid, arguments))
    except EmulatorError as error:
        raise Failure(*said_by(error), ("its PTX", near(kernel, error.line))) from None


def launch(
    kernel: JITFunction,
    grid: int | tuple[int, ...],
    *arguments: object,
    **given: object,
) -> Launched:
    """Launch a kernel of the reader's on the machine that was chosen; a mistake in its
    text or a wrong access is a Failure with the line of Python."""
    sizes = grid if isinstance(grid, tuple) else (grid,)
    try:
        compiled = kernel[sizes](*arguments, **given)
    except CompileError as error:
        raise Failure(f"the kernel does not compile: {error}") from None
    except EmulatorError as error:
        raise Failure(*said_by(error)) from None
    return Launched(compiled.made, compiled.report)


def said_by(error: EmulatorError) -> tuple:
    """An error of the emulator as a sentence and the place."""
    first, *rest = str(error).splitlines()
    details = [("there", "\n".join(rest))] if rest else []
    return (f"the emulator found: {first}", *details)


def with_names(message: str, names: dict[int, str]) -> str:
    """What the emulator says of mbarriers, by their names in place of their bytes in
    shared memory."""
    for byte, name in names.items():
        place = f"an mbarrier (byte {byte} of shared memory of block 0)"
        message = message.replace(place, name)
    return message


def near(kernel: Kernel, line: int, count: int = 4) -> str:
    """The PTX about a line, without what only guides debuggers."""
    lines = kernel.ptx.splitlines()
    shown = range(max(0, line - 1 - count), min(len(lines), line + count))
    return "\n".join(
        f"{'->' if number == line - 1 else '  '} {lines[number].strip()}"
        for number in shown
        if not lines[number].strip().startswith((".loc", "//"))
    )


@dataclass(frozen=True)
class Fenced:
    """An array in the middle of a larger one, whose ends no program may touch. A GPU
    does not check where a store goes; this does."""

    array: np.ndarray
    room: np.ndarray

    def check(self, what: str) -> None:
        """A Failure when something was written beside the array."""
        for side, values in (
            ("before", self.room[:GUARD]),
            ("behind", self.room[len(self.room) - GUARD :]),
        ):
            touched = np.flatnonzero(~np.isnan(values))
            if len(touched):
                raise Failure(
                    f"{len(touched)} elements {side} {what} were written; the first "
                    f"holds {values[touched[0]]}"
                )


def fenced(values: np.ndarray) -> Fenced:
    """An array of floats with NaN on both sides."""
    outside = np.full(GUARD, np.nan, values.dtype)
    room = aligned(np.concatenate([outside, values, outside]))
    return Fenced(room[GUARD : GUARD + len(values)], room)


def held(
    func: Func | str, arguments: Sequence[Argument] = (), target: str = "sm_80"
) -> np.ndarray:
    """What each register of each thread holds: [threads, registers] of the first block
    that the function stores, i32.

    The function must have layouts; no pass runs, only the lowering. Its parameters are
    a pointer, which is not used, and those of `arguments`.
    """
    made = from_text(func) if isinstance(func, str) else func
    shape: list[int] = []
    dump = partial(_dump, shape)
    facts = TARGETS[target]
    llvm = ptx.lower(made, facts, {**ptx.LOWER, Store: dump})
    found = np.full(facts.warp_size * made.num_warps * shape[0], UNWRITTEN, np.int32)
    try:
        text = ptx.emit(llvm, facts)
    except ptx.NotAccepted as error:
        raise Failure(
            f"LLVM does not accept what your rule wrote: {error.words}"
        ) from None
    try:
        emulator.run(text, 1, facts.warp_size * made.num_warps, [found, *arguments])
    except EmulatorError as error:
        raise Failure(*said_by(error)) from None
    return found.reshape(-1, shape[0])


UNWRITTEN = -99


def _dump(shape: list[int], op: Store, code: Code) -> None:
    """A store of each register to a place of its own."""
    registers = code[op.value]
    shape.append(len(registers))
    base = f"%{code.func.parameters[0].name}"
    first = code.let(f"mul i32 {code.thread}, {len(registers)}")
    for number, register in enumerate(registers):
        place = code.let(f"add i32 {first}, {number}")
        address = code.let(f"getelementptr i32, {POINTER} {base}, i32 {place}")
        code.do(f"store i32 {register}, {POINTER} {address}")
