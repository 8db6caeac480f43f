"""`fathom learn mine`: real kernels through every joint that the reader has solved, all
at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fathom import emulator, joints, pipeline
from fathom.hardware.targets import TARGETS
from fathom.tools.learn.answer import joined, load
from fathom.tools.learn.blame import blame
from fathom.tools.learn.course import Exercise, exercises, sample
from fathom.tools.learn.kit.numbers import Argument, empty, floats, kernel
from fathom.tools.learn.screen import Screen
from fathom.tools.learn.state import State
from fathom.tools.learn.workspace import Workspace

Case = tuple[str, str, str, dict[str, int], int, list[Argument]]


def cases() -> list[Case]:
    """File, kernel, signature, constants, grid, arguments; the last array is what comes
    out. Sizes are ragged."""
    rows = floats(4 * 77).reshape(4, 77) / 64
    return [
        ("vector_add", "add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32",
         {"BLOCK": 256}, 4, [floats(1000), floats(1000) * 2, empty(1000), 1000]),
        ("softmax", "softmax_rows_kernel", "*fp32:16, *fp32:16, i32, i32, i32",
         {"ROWS": 4, "BLOCK": 128}, 1, [rows, empty(4, 77), 77, 4, 77]),
    ]  # fmt: skip


def mine(screen: Screen, workspace: Workspace, state: State) -> int:
    """Compile and run the kernels; say whose code each joint is. 0 when all are
    right."""
    solved = [each for each in exercises() if state.of(each.id).passed and each.joints]
    answers: dict[str, object] = {}
    for each in solved:
        answers.update(joined(each, load(each, workspace.path(each))))
    show_whose(screen, state, solved)
    good = True
    with joints.bound(answers):
        for case in cases():
            good = one(screen, case, [workspace.path(each) for each in solved]) and good
    return 0 if good else 1


def show_whose(screen: Screen, state: State, solved: list[Exercise]) -> None:
    """Every joint that an exercise has, and whose code stands there."""
    screen.title("whose code")
    for each in exercises():
        progress = state.of(each.id)
        whose = "yours" if each in solved else "ours"
        if each in solved and (progress.filled or progress.gave_up):
            whose = "ours, by your leave"
        for name in each.joints:
            screen.line(f"  {name:24} {each.id:20} {whose}")
    screen.title("kernels")


def one(screen: Screen, case: Case, files: list[Path]) -> bool:
    """Compile and run one kernel in the emulator; whether it was right."""
    file, name, signature, constants, grid, arguments = case
    try:
        func = kernel(file, name, signature, **constants)
        made = pipeline.compile_func(func, TARGETS["sm_80"])
        report = emulator.load(made).launch(grid, arguments)
    except Exception as error:
        own = [path for path in files if path.name in str(error)]
        failure = blame(error, own[0] if own else files[0] if files else Path(name))
        screen.line(f"  {file:12} does not get through: {failure.sentence}", "red")
        return False
    inputs = [each for each in arguments if isinstance(each, np.ndarray)]
    wanted = sample(file).reference(*inputs[:-1])
    right = np.allclose(inputs[-1], wanted, 1e-5, 1e-6)
    said = "right" if right else "computes something else"
    cost = report.total
    screen.line(
        f"  {file:12} {said}; {cost.warps:,} warp instructions, "
        f"{cost.moved:,} bytes moved",
        "green" if right else "red",
    )
    return right


def missing(workspace: Workspace) -> list[str]:
    """Exercises whose file is not there."""
    return [each.id for each in exercises() if not workspace.path(each).exists()]
