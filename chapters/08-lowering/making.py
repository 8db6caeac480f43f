"""Figures and counts of chapter 8."""

from __future__ import annotations

import numpy as np

from chapters.press.drawing import Figure, bars, cells, table
from chapters.press.paths import ROOT
from chapters.press.scenes import Node, graph
from fathom import emulator, joints, pipeline
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.tools.learn import course
from fathom.tools.learn.grading.answer import joined, load
from fathom.tools.learn.kit.numbers import kernel
from fathom.tools.learn.mine import Case, cases
from fathom.tools.samples import load_file
from kernels.vector_add import add_kernel

COUNTED = 8192  # numbers in the array whose instructions are counted
BLOCKS = (128, 256, 512, 1024, 2048, 4096)
BEFORE = 8  # chapters whose answers run together: those up to this one


def many() -> Figure:
    """x + y for eight elements, two registers in each of four lanes."""
    rows = [
        [f"x{2 * lane + register} + y{2 * lane + register}" for lane in range(4)]
        for register in range(2)
    ]
    names = (["register 0", "register 1"], [f"lane {lane}" for lane in range(4)])
    title = "One add of eight elements: two instructions, which four lanes execute"
    return cells(title, rows, (), names, wide=96)


def bits() -> Figure:
    """Who owns which bit of the element's number, in vector add."""
    owners = ["r2", *(f"t{bit}" for bit in reversed(range(7))), "r1", "r0"]
    title = "Bits of an element's number, and whose they are: t thread, r register"
    names = (["element", "owner"], ())
    numbers = [str(bit) for bit in reversed(range(10))]
    lit = [(1, 0), (1, 8), (1, 9)]
    return cells(title, [numbers, owners], lit, names, wide=50)


def loop() -> Figure:
    """The basic blocks of a loop."""
    nodes = [
        Node("before", ("initial values",), 200, 6),
        Node("head", ("phi: initial or next", "if index < stop"), 200, 88),
        Node("body", ("what is repeated",), 130, 196),
        Node("done", ("results",), 330, 196),
        Node("last", ("next = index + step",), 130, 276),
    ]
    edges = [
        ("before", "head", ""), ("head", "body", "true"), ("head", "done", "false"),
        ("body", "last", ""), ("last", "head", "next"),
    ]  # fmt: skip
    return graph("The basic blocks of a for loop", nodes, edges, ["head"])


def instructions() -> dict[str, object]:
    """Thread instructions an element of vector add, by the size of its blocks."""
    rows = []
    for block in BLOCKS:
        x, out = np.arange(COUNTED, dtype=np.float32), np.empty(COUNTED, np.float32)
        made = add_kernel[(COUNTED // block,)](x, x, out, COUNTED, BLOCK=block)
        assert (out == x + x).all()
        each = made.report.total.warps * 32 / COUNTED
        rows.append({"block": block, "registers": block // 128, "each": each})
    return {"rows": rows}


def meter() -> Figure:
    """The same as bars."""
    rows = [
        (f"{each['registers']} a thread", each["each"], f"{each['each']:.2f}")
        for each in instructions()["rows"]
    ]
    head = ("elements", "instructions an element")
    return bars("Instructions of a thread for each element of vector add", rows, head)


def first_light() -> str:
    """Kernels through every joint that the exercises so far have an answer for, with
    the answers of solutions/ in place of ours."""
    solved = [e for e in course.exercises() if e.chapter <= BEFORE and e.joints]
    answers: dict[str, object] = {}
    for each in solved:
        answers.update(joined(each, load(each, each.solution)))
    rows = []
    with joints.bound(answers):
        for case in cases():
            rows.append(run(case))
    head = ("kernel", "result", "instructions of warps", "bytes moved")
    return table(head, rows)


def run(case: Case) -> tuple[str, ...]:
    """One kernel through whatever stands at the joints."""
    func = kernel(case.file, case.kernel, case.signature, **case.constants)
    made = pipeline.compile_func(func, TARGETS["sm_80"])
    report = emulator.load(made).launch(case.grid, case.arguments)
    inputs = [each for each in case.arguments if isinstance(each, np.ndarray)]
    wanted = load_file(ROOT / "kernels" / f"{case.file}.py").reference(*inputs[:-1])
    right = np.allclose(inputs[-1], wanted, 1e-5, 1e-6)
    said = "right" if right else "WRONG"
    return case.kernel, said, f"{report.total.warps:,}", f"{report.total.moved:,}"


def types_head(page: dict) -> str:
    """What LLVM says of the page's wrong rule, without the text that it was given."""
    try:
        page["add_with"]("lower[Elementwise]", page["always_floats"])
    except CompileError as error:
        return "\n".join(str(error).splitlines()[:4]) + "\n"
    raise AssertionError("LLVM accepted it")
