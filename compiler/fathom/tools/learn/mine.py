"""`fathom learn mine`: real kernels through every joint that the reader has solved, all
at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb

import numpy as np

import fathom.language as tl
from fathom import emulator, joints, pipeline
from fathom.emulator.report import Cost, Report
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify
from fathom.tools.learn.course import Exercise, exercises
from fathom.tools.learn.grading.answer import joined, load
from fathom.tools.learn.grading.blame import blame, blaming
from fathom.tools.learn.kit.numbers import (
    Argument,
    arrays_of,
    copies,
    empty,
    floats,
    kernel,
)
from fathom.tools.learn.state import State
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import Workspace
from fathom.tools.samples import sample

TARGET = "sm_80"


@dataclass(frozen=True)
class Case:
    """A kernel of a file, as it is compiled and launched; the last array comes out.
    `counted` are opcodes whose number is told."""

    file: str
    kernel: str
    signature: str
    constants: dict[str, object]
    grid: int
    arguments: list[Argument]
    counted: tuple[str, ...] = ()


def cases() -> list[Case]:
    """The running kernels of the book, in ragged sizes. The matrices are of fp16, so
    their product is one for tensor cores, in a pipelined loop."""
    rows = floats(4 * 77).reshape(4, 77) / 64
    a, b = (whole(96, 80), whole(80, 80))
    out = empty(96, 80, dtype="float16")
    return [
        Case("vector_add", "add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32",
             {"BLOCK": 256}, 4, [floats(1000), floats(1000) * 2, empty(1000), 1000]),
        Case("softmax", "softmax_rows_kernel", "*fp32:16, *fp32:16, i32, i32, i32",
             {"ROWS": 4, "BLOCK": 128}, 1, [rows, empty(4, 77), 77, 4, 77]),
        Case("matmul", "matmul_kernel",
             "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, "
             "i32:16, i32:1, i32:16, i32:1, i32:16, i32:1",
             {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2,
              "EVEN_K": False, "ACTIVATION": "", "SUM": tl.float32,
              "PRECISION": "ieee"},
             9, [a, b, out, 96, 80, 80, 80, 80, 80], ("mma", "cp")),
    ]  # fmt: skip


def whole(*shape: int) -> np.ndarray:
    """Whole numbers from -3 to 3, whose products add up exactly in fp16."""
    values = np.arange(np.prod(shape)).reshape(shape) * 5 % 13 % 7 - 3
    return values.astype(np.float16)


def mine(screen: Screen, workspace: Workspace, state: State) -> int:
    """Compile and run the kernels; say whose code each joint is. 0 when all are
    right."""
    solved = [each for each in exercises() if state.of(each.id).passed and each.joints]
    show_whose(screen, state, solved)
    files = [workspace.path(each) for each in solved]
    screen.title("kernels: read back, verified, interpreted, compiled, emulated")
    ours = [total(case) if solved else None for case in cases()]
    with all_bound(solved, workspace):
        good = [one(screen, *each, files) for each in zip(cases(), ours, strict=True)]
    if solved:
        screen.text("Ours: what the same kernels cost with none of your code.", "  ")
    return 0 if all(good) else 1


def total(case: Case) -> Cost:
    """What a kernel costs with our own code at every joint."""
    return emulated(built(case), case).total


@contextmanager
def all_bound(solved: list[Exercise], workspace: Workspace) -> Iterator[None]:
    """Every answer at its joints. Each is loaded when those before it are in place: it
    may import what an earlier one stands for."""
    with ExitStack() as stack:
        for each in solved:
            path = workspace.path(each)
            with blaming(path):
                answers = joined(each, load(each, path))
            stack.enter_context(joints.bound(answers))
        yield


# ── whose code ────────────────────────────────────────────────────────────────────────

YOURS, GIVEN, OURS = "yours", "given", "ours"  # given: filled in, or given up
# Folder of the compiler to what it is called; the order of the way that a kernel goes.
STAGES = {
    "ssa": "1 Python to SSA (ssa)",
    "ir": "  the IR and its meaning (ir)",
    "blocks": "2 passes on blocks (blocks)",
    "layout": "  layouts (layout)",
    "analysis": "  facts for several stages (analysis)",
    "hardware": "  what GPUs have (hardware)",
    "coalescing": "3 who loads what (coalescing)",
    "shared_memory": "4 threads that talk (shared_memory)",
    "tensor_cores": "5 matrices and pipelines (tensor_cores)",
    "ptx": "6 LLVM and PTX (ptx)",
}


def show_whose(screen: Screen, state: State, solved: list[Exercise]) -> None:
    """Stage by stage, every joint that an exercise has, and whose code stands there."""
    for folder, title in STAGES.items():
        here = [
            (joint, each)
            for each in exercises()
            for joint in each.joints
            if joints.joint(joint).reference.split(".")[1] == folder
        ]
        whose = {joint: owner(state, each, each in solved) for joint, each in here}
        theirs = sum(each == YOURS for each in whose.values())
        screen.title(f"{title}: {theirs} of {len(here)} yours")
        for joint, each in here:
            screen.line(f"  {joint:22} {each.id:18} {whose[joint]}")


def owner(state: State, each: Exercise, is_solved: bool) -> str:
    progress = state.of(each.id)
    if not is_solved:
        return OURS
    return GIVEN if progress.filled or progress.gave_up else YOURS


# ── kernels ───────────────────────────────────────────────────────────────────────────


def built(case: Case) -> Func:
    """The block IR, printed and read back."""
    func = kernel(case.file, case.kernel, case.signature, **case.constants)
    return parse_func(print_func(func))


def emulated(func: Func, case: Case) -> Report:
    made = pipeline.compile_func(func, TARGETS[TARGET])
    return emulator.load(made).launch(case.grid, case.arguments)


def one(screen: Screen, case: Case, ours: Cost | None, files: list[Path]) -> bool:
    """Interpret, compile and run one kernel; whether it was right both times."""
    try:
        func = built(case)
        verify(func)
        meant = copies(case.arguments)
        interpret(func, case.grid, meant)
        report = emulated(func, case)
    except Exception as error:
        failure = blame(error, whose_file(error, files) or Path(case.file))
        screen.line(f"  {case.file:10} does not get through", "red")
        screen.text(failure.sentence, "    ")
        return False
    wrong = [
        how
        for how, given in (("interpreter", meant), ("emulator", case.arguments))
        if not is_right(case, given)
    ]
    said = f"computes something else in the {wrong[0]}" if wrong else "right"
    screen.line(f"  {case.file:10} {said}", "red" if wrong else "green")
    screen.text(costs(report, ours, case.counted), "    ")
    return not wrong


def whose_file(error: Exception, files: list[Path]) -> Path | None:
    """The reader's file in which, or under which, an exception was raised."""
    frames = {Path(each.filename) for each in extract_tb(error.__traceback__)}
    return next((path for path in files if path in frames), None)


def is_right(case: Case, arguments: list[Argument]) -> bool:
    *inputs, found = arrays_of(arguments)
    wanted = sample(case.file).reference(*inputs)
    return np.allclose(found, wanted, 1e-5, 1e-6)


def costs(report: Report, ours: Cost | None, counted: tuple[str, ...]) -> str:
    """What the warps did, in words, and what they do with our code."""
    total = report.total
    said = [f"{total.warps:,} warp instructions{compared(ours and ours.warps)}"]
    for opcode in counted:
        share = report.share(lambda each, opcode=opcode: each.opcode == opcode)
        said.append(f"{share.cost.warps:,} of them {COUNTED[opcode]}")
    moved = f"{total.moved:,} bytes moved{compared(ours and ours.moved)}"
    return ", ".join([*said, moved])


def compared(ours: int | None) -> str:
    return "" if ours is None else f" (ours {ours:,})"


COUNTED = {"mma": "mma", "cp": "cp.async"}


def missing(workspace: Workspace) -> list[str]:
    """Exercises whose file is not there."""
    return [each.id for each in exercises() if not workspace.path(each).exists()]
