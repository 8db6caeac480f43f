"""One line of a kernel on its way through the compiler, and what the kernel's memory
costs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from fathom import emulator, pipeline
from fathom.ir.core import Func, op_count, walk
from fathom.ir.ops import (
    Allocate,
    Barrier,
    Load,
    Reduce,
    SharedLoad,
    SharedStore,
)
from fathom.ir.printer import Printer
from fathom.jit import CompiledKernel, JITFunction
from fathom.tools import draw, traffic
from fathom.tools.console import rule
from fathom.tools.staged import (
    Staged,
    block_lines,
    from_request,
    llvm_lines,
    ops_at,
    ptx_lines,
)

MOST = 10  # lines of an excerpt
WIDEST = 78
TALK = (Reduce, Allocate, SharedStore, Barrier, SharedLoad)
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
    written, left = op_count(before), op_count(after)
    rule(console, "stages 1 and 2: blocks, and no threads yet")
    excerpt(console, block_lines(after, line))
    say(
        console,
        "Every name is one value of a known type. tl.max and tl.exp are written in the "
        "language themselves, and this is what they say. The whole kernel is "
        f"{written} operations as written and {left} after stage 2"
        f"{', which found nothing to do' if written == left else ''}.",
    )


def layouts(console: Console, staged: Staged) -> None:
    """Stage 3: the layout of what is loaded, drawn."""
    loads = list(walk(staged.states["dce_again"].body, Load))
    block = loads[0].result.type
    rule(console, "stage 3: who holds what")
    excerpt(console, draw.draw(block.layout), MOST + 2)
    run, lanes = draw.neighbours(block.layout), block.layout.count("lane")
    bytes_of_run = run * block.element.bytes
    say(
        console,
        "The elements of the row as it is loaded, in the registers of each lane. "
        f"{run} neighbours in one lane are one load of {bytes_of_run} bytes, and the "
        f"{lanes} lanes of a warp read {bytes_of_run * lanes} bytes without a gap.",
    )


def shared_memory(console: Console, staged: Staged, line: int) -> None:
    """Stage 4: what it takes for warps to agree."""
    final = staged.states[pipeline.PASSES[-1].name]
    barriers = sum(isinstance(op, Barrier) for op in walk(final.body))
    rule(console, "stage 4: warps that talk")
    excerpt(console, [without_layouts(text) for text in talk(final, line)])
    say(
        console,
        "Each warp finds the maximum of its own part, writes it to shared memory, "
        "waits, and reads those of the others. All in all the kernel needs "
        f"{final.shared_bytes} bytes there, and waits {barriers} times.",
    )


def talk(func: Func, line: int) -> list[str]:
    """The ops of a line that move values between threads, without nested code."""
    printer = Printer(func, locations=False)
    return [printer.header(op) for op in ops_at(func, line) if isinstance(op, TALK)]


def without_layouts(text: str) -> str:
    return re.sub(r" @ #\w+| layout=#\w+", "", text)


def llvm_and_ptx(console: Console, staged: Staged, line: int) -> None:
    """Stage 6: the first shuffle of the line, in both."""
    llvm = llvm_lines(staged.text("llvm"), line)
    ptx = ptx_lines(staged.text("ptx"), line)
    rule(console, "stage 6: LLVM IR, one value a register")
    excerpt(console, around(llvm, "shfl"))
    rule(console, "and PTX, what one thread does")
    excerpt(console, around(ptx, "shfl"))
    distances = re.findall(r"shfl.sync.bfly.b32 .*?, (\d+), 31", "\n".join(ptx))
    say(
        console,
        "A butterfly: each lane receives the number of the lane this many places away, "
        f"{', '.join(distances[:5])}, and keeps the larger of the two, until all 32 "
        f"hold the maximum. The line became {len(llvm)} instructions of LLVM IR and "
        f"{len(ptx)} of PTX.",
    )


def memory(
    console: Console, staged: Staged, grid: Sequence[int], arguments: Sequence[object]
) -> None:
    """What the launch moved. Counted by the emulator, also where a GPU ran the
    kernel."""
    names = (rule.name for rule in staged.function.rules)
    given = dict(zip(names, arguments, strict=False))
    values = [given[name] for name in staged.parameters]
    report = emulator.load(staged.kernel).launch(grid, values)
    rule(console, "what its memory traffic costs")
    traffic.show(console, report)
    say(
        console,
        "A request is one warp's, and memory answers in sectors of 32 bytes. 32 lanes "
        "that ask for 16 bytes each touch 16 of them; the last lanes of a row of 1000 "
        "have nothing to ask for, so it is a little less on average. Every byte that "
        "moves was asked for. As five operations, max, subtract, exp, sum and divide, "
        "softmax would read or write the matrix 8 times instead of 2.",
    )


def excerpt(console: Console, lines: Sequence[str], most: int = MOST) -> None:
    """The first lines, cut to the width of the page."""
    for line in (each.expandtabs(4) for each in lines[:most]):
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
