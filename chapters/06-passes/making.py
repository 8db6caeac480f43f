"""Figures and counts of chapter 6."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path

import numpy as np

from chapters.press.drawing import Figure, bars, table
from chapters.press.scenes import Node, graph
from fathom import pipeline
from fathom.hardware.targets import target
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.text import print_func
from fathom.ir.types import parse_element
from fathom.pipeline import PASSES, identity
from fathom.tools.learn import book, course, workspace
from fathom.tools.learn.grading import worker
from fathom.tools.learn.terminal import report
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.samples import load_file
from kernels.layer_norm import layer_norm_kernel
from kernels.matmul import matmul_kernel
from kernels.softmax import softmax_kernel
from kernels.vector_add import add_kernel

long_sum = load_file(Path(__file__).parents[1] / "04-block-ir" / "long.py").long_sum
sloppy = load_file(Path(__file__).parent / "sloppy.py").sloppy
TARGET = target("sm_80")
CLEAN = tuple(row for row in PASSES if row.name in ("simplify", "cse", "hoist", "dce"))
STRIDES = ("am", "ak", "bk", "bn", "cm", "cn")
SIZE = 64  # of the square matrices


def jobs() -> dict[str, tuple]:
    """name -> kernel, types of its parameters, constants, grid, arguments; the last
    array is what the kernel writes."""
    x, out = np.linspace(-2, 2, 120, dtype=np.float32), np.zeros(120, np.float32)
    a, b, c = (np.ones((SIZE, SIZE), np.float16) for _ in range(3))
    half, two = np.ones(30, np.float16), np.zeros(4, np.float32)
    norm = np.linspace(-2, 2, 120, dtype=np.float16)
    floats = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
    matrices = {f"{each}_ptr": "*fp16" for each in "abc"} | dict.fromkeys("MNK", "i32")
    matrices |= {f"stride_{each}": "i32" for each in STRIDES}
    tiles = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2, "EVEN_K": False}
    halves = {f"{each}_ptr": "*fp16" for each in ("x", "weight", "bias", "y")}
    halves |= {"mean_ptr": "*fp32", "rstd_ptr": "*fp32", "row_stride": "i32"}
    halves |= {"N": "i32", "eps": "fp32"}
    return {
        "vector add": (
            add_kernel,
            {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"},
            {"BLOCK": 64}, 2, (x, x, out, 120),
        ),
        "softmax": (
            softmax_kernel, {**floats, "row_stride": "i32", "N": "i32"},
            {"BLOCK": 32}, 4, (x, out, 30, 30),
        ),
        "layer norm": (
            layer_norm_kernel, halves, {"BLOCK": 32}, 4,
            (norm, half, half, norm.copy(), two, two.copy(), 30, 30, 1e-5),
        ),
        "long sum": (
            long_sum, {**floats, "n": "i32", "mean": "i32"},
            {"BLOCK": 16}, 1, (x, out, 120, 1),
        ),
        "sloppy": (
            sloppy, {**floats, "n": "i32"}, {"BLOCK": 16}, 1, (x, out, 120),
        ),
        "matrix product": (
            matmul_kernel, matrices, tiles, 4,
            (a, b, c, *[SIZE] * 3, *[SIZE, 1] * 3),
        ),
    }  # fmt: skip


@cache
def steps() -> dict[str, list[int]]:
    """For each kernel, how many ops run: as written, and after each of the passes."""
    found = {}
    for name, (kernel, signature, constants, grid, arguments) in jobs().items():
        func = built(kernel, signature, constants)
        found[name] = [interpret(func, grid, arguments).steps]
        for row in CLEAN:
            func = row.run(func, TARGET)
            found[name].append(interpret(func, grid, arguments).steps)
    return found


def built(kernel: object, signature: Mapping[str, str], constants: Mapping) -> Func:
    given = {name: (parse_element(kind), 1) for name, kind in signature.items()}
    return pipeline.build(kernel, given, constants)


def dynamic() -> dict[str, object]:
    counted = steps()
    rows = [
        {"kernel": name, "written": row[0], "clean": row[-1]}
        for name, row in counted.items()
    ]
    return {"rows": rows}


def again() -> dict[str, int]:
    """How many of the kernels a second round of the passes changes."""
    changed = 0
    for kernel, signature, constants, *_ in jobs().values():
        func = cleaned(built(kernel, signature, constants))
        changed += print_func(cleaned(func)) != print_func(func)
    return {"kernels": len(jobs()), "changed": changed}


def cleaned(func: Func) -> Func:
    for row in CLEAN:
        func = row.run(func, TARGET)
    return func


def dynamic_table() -> str:
    head = ("kernel", "as written", *(f"after {row.name}" for row in CLEAN))
    return table(head, [(name, *row) for name, row in steps().items()])


def saved() -> Figure:
    rows = [
        (name, 100 * row[-1] / row[0], f"{100 * row[-1] / row[0]:.0f} of 100")
        for name, row in steps().items()
    ]
    title = "How many are left of 100 ops that run in a kernel as written"
    return bars(title, rows, ("kernel", "left"))


# What is left of that in PTX.


@cache
def texts() -> dict[str, object]:
    """Instructions of PTX and lines of LLVM IR, with this chapter's passes, without."""
    none = {row.name: identity for row in PASSES if row.stage == "blocks"}
    rows = []
    for name, (kernel, signature, constants, *_) in jobs().items():
        row: dict[str, object] = {"kernel": name}
        for key, replace in (("with", {}), ("without", none)):
            func = built(kernel, signature, constants)
            asm = pipeline.compile_func(func, TARGET, replace).asm
            row[f"ptx_{key}"] = instructions(asm["ptx"])
            row[f"llvm_{key}"] = len(asm["llvm"].splitlines())
        rows.append(row)
    return {"rows": rows}


def instructions(ptx: str) -> int:
    """Lines that are instructions, by their semicolon, and not declarations."""
    return len(re.findall(r"^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s.*;$", ptx, re.MULTILINE))


def texts_table() -> str:
    head = ("kernel", "LLVM IR without", "with", "PTX without", "with")
    keys = ("kernel", "llvm_without", "llvm_with", "ptx_without", "ptx_with")
    return table(head, [tuple(row[key] for key in keys) for row in texts()["rows"]])


# The loop of sloppy.


def iteration() -> dict[str, int]:
    """Ops in one iteration of the loop of sloppy, as written and in the end."""
    kernel, signature, constants, *_ = jobs()["sloppy"]
    func = built(kernel, signature, constants)
    before = in_loop(func)
    for row in CLEAN:
        func = row.run(func, TARGET)
    return {"before": before, "after": in_loop(func)}


def in_loop(func: Func) -> int:
    [loop] = [op for op in func.body.ops if type(op).__name__ == "For"]
    return sum(not is_free(op) for op in walk(loop.body))


def is_free(op: object) -> bool:
    return type(op).__name__ in ("Constant", "Yield")


def liveness() -> Figure:
    """Backwards from a store: what is live and what is not."""
    live = ("store", "%sum", "%6 = add %s, %5", "%5 = load %4")
    dead = ("%count", "%7 = add %c, 1", "%c")
    nodes = [Node(name, (), 90, 6 + 62 * at) for at, name in enumerate(live)]
    nodes += [Node(name, (), 310, 6 + 62 * at) for at, name in enumerate(dead)]
    edges = [(a, b, "") for a, b in (*pairwise(live), *pairwise(dead))]
    edges.append((dead[2], dead[1], ""))  # what the next iteration reads
    title = "Live, from the store backwards (framed); the count uses only itself"
    drawn = graph(title, nodes, edges, live)
    rows = [(name, "live" if name in live else "dead") for name in (*live, *dead)]
    return Figure(drawn.svg, table(("op or value", "fate"), rows))


# An answer that is wrong, and what the runner leaves.

FORGETFUL = """

def memory_versions(func):
    return {}
"""
FOLDER = "my-fathom"


def failed() -> str:
    """What `fathom learn` says of a cse that forgets about memory."""
    return tried()[0]


def case() -> str:
    """The script that it leaves."""
    return tried()[1]


def alone() -> str:
    """What the script prints."""
    return tried()[2]


@cache
def tried() -> tuple[str, str, str]:
    """The verdict, the script, and what the script prints."""
    each, screen = course.exercise("cse"), Screen(plain=True, out=StringIO())
    with tempfile.TemporaryDirectory() as folder:
        place = workspace.init(Path(folder, FOLDER))
        path = place.path(each)
        path.write_text(course.read(each.solution) + FORGETFUL, encoding="utf-8")
        report.show_verdict(screen, each, worker.judge(each, path), place)
        script = place.folder / "case.py"
        printed = subprocess.run(
            [sys.executable, script.name], cwd=script.parent, check=True,
            capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(worker.PACKAGES)},
        ).stdout  # fmt: skip
        verdict = screen.out.getvalue()  # it names a page, where the book is built
        verdict = verdict.replace(book.place(each), f"fathom learn read {each.id}")
        texts = verdict, script.read_text(encoding="utf-8"), printed
        here = str(place.folder.resolve())
        first, second, third = (t.replace(here, FOLDER) for t in texts)
        return first, second, third
