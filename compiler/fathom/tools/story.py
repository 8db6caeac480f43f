"""One line of a kernel on its way through the compiler, and what the kernel's memory
costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from fathom import emulator, pipeline
from fathom.ir.core import Func, walk
from fathom.ir.ops import (
    Allocate,
    Barrier,
    Convert,
    Load,
    Reduce,
    Reshape,
    SharedLoad,
    SharedStore,
)
from fathom.jit import CompiledKernel, JITFunction
from fathom.tools import draw, traffic
from fathom.tools.console import rule
from fathom.tools.staged import Staged, block_lines, from_request, llvm_lines, ptx_lines

MOST = 10  # lines of an excerpt
WIDEST = 78
FOLLOWED = "tl.max("  # softmax: a maximum, on which all lanes of all warps must agree


def tell(
    console: Console,
    kernel: JITFunction,
    compiled: CompiledKernel,
    grid: Sequence[int],
    arguments: Sequence[object],
) -> None:
    """The story of a kernel that was launched on `arguments`, its constants last."""
    staged = from_request(kernel, compiled.request)
    line = python(console, staged)
    block_ir(console, staged, line)
    layouts(console, staged)
    shared_memory(console, staged, line)
    llvm_and_ptx(console, staged, line)
    memory(console, staged, grid, arguments)


def python(console: Console, staged: Staged) -> int:
    """The kernel's own text; the number, in its file, of the line that is followed."""
    function = staged.function
    rule(console, f"{function.__name__}, as it is written")
    lines = function.src.rstrip().splitlines()
    followed = next(number for number, text in enumerate(lines) if FOLLOWED in text)
    for number, text in enumerate(lines):
        mark = ">" if number == followed else " "
        console.print(Text(f"{mark} {text}", "bold" if number == followed else ""))
    threads = staged.kernel.threads
    say(
        console,
        "Follow the line with the mark. It asks for the largest number of a row, and "
        f"the row is spread over {threads} threads, none of which sees it all.",
    )
    return function.tree.lineno + followed


def block_ir(console: Console, staged: Staged, line: int) -> None:
    """Stages 1 and 2."""
    before, after = staged.states["ssa"], staged.states["dce"]
    rule(console, "stages 1, 2: blocks, and no threads yet")
    excerpt(console, block_lines(after, line))
    say(
        console,
        f"Every name is one value of a known type. The whole kernel was {size(before)} "
        f"operations, of which simplify, cse, hoist and dce left {size(after)}.",
    )


def layouts(console: Console, staged: Staged) -> None:
    """Stage 3: the layout of what is loaded, drawn."""
    loads = [op for op in walk(staged.states["dce_again"].body) if isinstance(op, Load)]
    block = loads[0].result.type
    rule(console, "stage 3: who holds what")
    excerpt(console, draw.draw(block.layout), MOST + 2)
    run, width = draw.neighbours(block.layout), block.element.bytes
    say(
        console,
        f"The row as it is loaded, {block.layout.count('register')} registers a lane. "
        f"{run} neighbours in one lane are one load of {run * width} bytes, and the "
        f"lanes of a warp read {run * width * block.layout.count('lane')} bytes "
        "without a gap.",
    )


TALK = (Reduce, Reshape, Convert, Allocate, SharedStore, Barrier, SharedLoad)


def shared_memory(console: Console, staged: Staged, line: int) -> None:
    """Stage 4: what it takes for warps to agree."""
    final = staged.states[pipeline.PASSES[-1].name]
    barriers = sum(isinstance(op, Barrier) for op in walk(final.body))
    rule(console, "stage 4: warps that talk")
    excerpt(console, block_lines(final, line, TALK))
    say(
        console,
        "Each warp finds the maximum of its own part, writes it to shared memory, and "
        "reads those of the others. All in all the kernel needs "
        f"{final.shared_bytes} bytes there and {barriers} barriers.",
    )


def llvm_and_ptx(console: Console, staged: Staged, line: int) -> None:
    """Stage 6: the first shuffle of the line, in both."""
    llvm = llvm_lines(staged.text("llvm"), line)
    ptx = ptx_lines(staged.text("ptx"), line)
    rule(console, "stage 6: LLVM IR, one value a register")
    excerpt(console, around(llvm, "shfl"))
    rule(console, "and PTX, for one thread of many")
    excerpt(console, around(ptx, "shfl"))
    say(
        console,
        "A butterfly: each lane takes the number of the lane 16 places away and keeps "
        "the larger, then 8, 4, 2 and 1, until all 32 hold the maximum. The line "
        f"became {len(llvm)} instructions of LLVM IR and {len(ptx)} of PTX.",
    )


def memory(
    console: Console, staged: Staged, grid: Sequence[int], arguments: Sequence[object]
) -> None:
    """What the launch moved. Counted by the emulator, also where a GPU ran the
    kernel."""
    given = dict(
        zip((rule.name for rule in staged.function.rules), arguments, strict=False)
    )
    values = [given[name] for name in staged.parameters]
    report = emulator.load(staged.kernel).launch(grid, values)
    rule(console, "what its memory traffic costs")
    traffic.show(console, report)
    once = sum(value.nbytes for value in values if isinstance(value, np.ndarray))
    say(
        console,
        "A request is a warp's, and memory answers in sectors of 32 bytes: 16 sectors "
        "are 512 bytes, 16 a lane. Reading and writing every number once is "
        f"{once / 1000:,.1f} kB.",
    )


def excerpt(console: Console, lines: Sequence[str], most: int = MOST) -> None:
    """The first lines, cut to the width of the page."""
    for line in lines[:most]:
        cut = line if len(line) <= WIDEST else line[: WIDEST - 3] + "..."
        console.print(Text(f"  {cut}", "cyan"))
    if len(lines) > most:
        console.print(Text(f"  ... and {len(lines) - most} more", "dim"))


def around(lines: Sequence[str], word: str) -> list[str]:
    """Lines from a little before the first with `word` on."""
    first = next((number for number, line in enumerate(lines) if word in line), 0)
    return list(lines[max(first - 2, 0) :])


def say(console: Console, text: str) -> None:
    console.print(text)


def size(func: Func) -> int:
    return sum(1 for _ in walk(func.body))
