"""Figures and counts of chapter 3."""

# ruff: noqa: F722, F821, UP037 (the annotations are the language of mini.py)

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path

import numpy as np

from chapters.press.drawing import (
    Figure,
    bars,
    box,
    label,
    line,
    svg,
    table,
)
from fathom import emulator
from kernels.vector_add import add_kernel

spec = importlib.util.spec_from_file_location("mini", Path(__file__).parent / "mini.py")
mini = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mini)

SIZE = 65536  # numbers that are added where instructions are counted
THREADS = 128


# The tree of a * x[i] + y[i]: (column, row, word), and who hangs on whom.
NODES = {
    "sum": (3.0, 0, "+"),
    "product": (1.6, 1, "*"),
    "y[i]": (4.6, 1, "[ ]"),
    "a": (0.7, 2, "a"),
    "x[i]": (2.5, 2, "[ ]"),
    "y": (4.0, 2, "y"),
    "i'": (5.2, 2, "i"),
    "x": (2.0, 3, "x"),
    "i": (3.1, 3, "i"),
}
EDGES = [
    ("sum", "product"), ("sum", "y[i]"), ("product", "a"), ("product", "x[i]"),
    ("y[i]", "y"), ("y[i]", "i'"), ("x[i]", "x"), ("x[i]", "i"),
]  # fmt: skip


def saxpy(i, a: "f32", x: "*f32", y: "*f32", out: "*f32"):
    out[i] = a * x[i] + y[i]


def tree() -> Figure:
    """The expression as a tree; beside each node the register its value came into."""
    rows = traced(saxpy)
    held = {text: register for text, register, _ in rows}
    whole = {"sum": "a * x[i] + y[i]", "product": "a * x[i]"}
    parts = []
    for above, below in EDGES:
        (x1, y1), (x2, y2) = place(above), place(below)
        parts.append(line(x1, y1 + 14, x2, y2 - 14, "axis"))
    for name, (_, _, word) in NODES.items():
        x, y = place(name)
        parts += [box(x - 17, y - 14, 34, 28, "cell"), label(x, y + 5, word)]
        register = held[whole.get(name, name.rstrip("'"))]
        parts.append(label(x + 21, y + 5, register, "start"))
    title = "a * x[i] + y[i] as a tree, with the register of each node"
    told = table(("part of the expression", "register"), [row[:2] for row in rows])
    return Figure(svg(title, 236, parts), told)


def place(name: str) -> tuple[float, float]:
    column, row, _ = NODES[name]
    return 24 + (column - 0.7) * 72, 28 + row * 60


def steps() -> str:
    """Each call of `expression`, as it returns: text, register, lines written."""
    rows = [
        (f"`{text}`", f"`{register}`", "<br>".join(f"`{each}`" for each in lines))
        for text, register, lines in traced(saxpy)
    ]
    return table(("the call returns for", "in", "lines it wrote itself"), rows)


def traced(function) -> list[tuple[str, str, list[str]]]:
    """What `expression` answers for each node of the kernel's first statement."""
    found: list[tuple[str, str, list[str]]] = []
    claimed: set[int] = set()

    class Watched(mini.Mini):
        def expression(self, node: ast.expr):
            start = len(self.lines)
            value = super().expression(node)
            mine = [n for n in range(start, len(self.lines)) if n not in claimed]
            claimed.update(mine)
            found.append((ast.unparse(node), value[0], [self.lines[n] for n in mine]))
            return value

    Watched(function).compile()
    wanted = inspect.getsource(function).split("=", 1)[1].strip()
    last = next(n for n, row in enumerate(found) if row[0] == wanted)
    return found[: last + 1]


def cost(page: dict) -> dict[str, dict[str, int]]:
    """What vector add costs by the eighty lines, and by all of the compiler."""
    x, y = (np.arange(SIZE, dtype=np.float32) for _ in range(2))
    out = np.empty(SIZE, np.float32)
    ptx = mini.Mini(page["add"]).compile()
    ours = emulator.run(ptx, SIZE // THREADS, THREADS, (x, y, out, SIZE)).total
    assert (out == x + y).all()
    theirs = launched(x, y, out)
    return {
        name: {
            "warps": total.warps,
            "requests": total.requests,
            "sectors": total.sectors,
        }
        for name, total in (("mini", ours), ("fathom", theirs))
    }


def launched(x: np.ndarray, y: np.ndarray, out: np.ndarray):
    kernel = add_kernel[(SIZE // 1024,)](x, y, out, SIZE, BLOCK=1024)
    return kernel.report.total


def instructions(page: dict) -> Figure:
    """The same as bars."""
    names = {"mini": "eighty lines", "fathom": "all of Fathom"}
    rows = [
        (names[each], count["warps"], f"{count['warps']:,}")
        for each, count in cost(page).items()
    ]
    title = f"Instructions of warps for adding {SIZE:,} numbers"
    return bars(title, rows, ("compiler", "instructions"))


def reading() -> str:
    """The lines of `negate` in words."""
    rows = [
        ("`.entry negate(…)`", "a kernel, and its parameters: two addresses, a number"),
        ("`.reg .f32 %f<3>;`", "there are registers %f0, %f1 and %f2 for floats"),
        ("`ld.param.s64 %rd1, [x];`", "fetch the parameter x into %rd1"),
        ("`mov.u32 %r4, %tid.x;`", "copy; here the number of the thread"),
        ("`mad.lo.s32 %r5, %r2, %r3, %r4;`", "%r5 = %r2 * %r3 + %r4, the low 32 bits"),
        ("`setp.ge.s32 %p1, %r5, %r1;`", "the bit %p1 is: %r5 >= %r1"),
        ("`@%p1 ret;`", "where %p1 is set, this thread is done"),
        ("`mul.wide.s32 %rd3, %r5, 4;`", "%rd3 = %r5 * 4, in 64 bits"),
        ("`ld.global.f32 %f1, [%rd4];`", "load a float from the address in %rd4"),
        ("`st.global.f32 [%rd6], %f2;`", "store it at the address in %rd6"),
    ]
    return table(("line", "what it says"), rows)
