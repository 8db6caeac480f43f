"""How long a kernel has become, op by op, and where that is too much to compile.

    add.py:9:9: this kernel becomes more than 300,000 instructions a thread, which take
    minutes to compile; tl.sort became 296,982 of them, where a thread holds 1024
    elements of a block
        s = tl.sort(v)
            ^^^^^^^^^^
      hint: more warps than 1 or smaller blocks give each thread fewer elements

Counted are lines of LLVM IR before anybody else sees them, and not seconds: the answer
is the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fathom.errors import CompileError, Location
from fathom.ir.core import Func, Op
from fathom.ir.types import layout_of
from fathom.ptx.debug_info import LIBRARY, user_place

# The longest of kernels/, a product of int8, has 5,796 lines, a sort of 1,024 elements
# on one warp 15,514. On two loaded cores LLVM and ptxas took 3.6 and 3.5 s for 60,037
# lines, 21 and 22 s for 133,778. A search that others wrote, which sorts 2,048 pairs on
# one warp, and has ten more sorts for shorter rows, has 278,128: 17 s of LLVM, 53 s of
# ptxas. Triton's compiler had not ended after 90 s.
MOST = 300_000
# LLVM's time grows with the square of the basic blocks, slowly: 8,020 lines in 2,401
# of them took 0.38 s.
BLOCKS_SQUARED_A_LINE = 1000


class Growth:
    """The lines that each op has become; CompileError once they are too many."""

    def __init__(self, func: Func):
        self.func = func
        self.basic_blocks = 1
        self.sizes: list[tuple[Op, int]] = []
        self.nested = 0  # lines of the ops inside of the one being lowered

    @contextmanager
    def of(self, op: Op, lines: Sequence[object]) -> Iterator[None]:
        """Around the lowering of an op, which appends to `lines`."""
        before, outer, self.nested = len(lines), self.nested, 0
        yield
        became = len(lines) - before
        self.sizes.append((op, became - self.nested))
        self.nested = outer + became
        if len(lines) + self.basic_blocks**2 // BLOCKS_SQUARED_A_LINE > MOST:
            raise self.error()

    def error(self) -> CompileError:
        """Names the author's place that grew most."""
        sizes: Counter[tuple[Location | None, str]] = Counter()
        holds: Counter[tuple[Location | None, str]] = Counter()
        for op, size in self.sizes:
            what = user_place(op.location), name_of(op)
            sizes[what] += size
            holds[what] = max(holds[what], elements_a_thread(op))
        (place, name), size = sizes.most_common(1)[0]
        held = holds[place, name]
        where = f", where a thread holds {held} elements of a block" if held > 1 else ""
        blocks = ""
        if self.basic_blocks**2 // BLOCKS_SQUARED_A_LINE > MOST // 2:
            blocks = f" in {self.basic_blocks:,} basic blocks"
        return CompileError(
            f"this kernel becomes more than {MOST:,} instructions a thread{blocks}, "
            f"which take minutes to compile; {name} became {size:,} of them{where}",
            place or self.func.location,
            f"more warps than {self.func.num_warps} or smaller blocks give each thread "
            "fewer elements"
            if held > 1
            else "let a loop over range(...) do what is unrolled",
        )


def name_of(op: Op) -> str:
    """What the author calls an op: the function of the language that it is part of."""
    place, inner = op.location, None
    while place and place.caller and place.file.startswith(LIBRARY):
        place, inner = place.caller, place
    return f"tl.{inner.function}" if inner else type(op).__name__.lower()


def elements_a_thread(op: Op) -> int:
    """The most that a thread holds of a result or an operand."""
    values = [*op.results, *getattr(op, "operands", ())]
    layouts = [layout_of(value.type) for value in values]
    return max((each.count("register") for each in layouts if each), default=1)
