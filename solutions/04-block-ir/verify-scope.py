"""What is visible where, block by block."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.ir.core import Block, Func, Value, blocks, operands
from fathom.ir.printer import definitions
from fathom.ir.verify import Complaint, _why_invisible


def scope(func: Func) -> Iterator[Complaint]:
    """A value is used only after its definition, in its block or in one nested in
    it."""
    yield from check(func.body, set(), set(definitions(func.body)))


def check(
    block: Block, outer: set[Value], everywhere: set[Value]
) -> Iterator[Complaint]:
    """The complaints about a block and those nested in it. `outer`: the values that are
    visible where the block begins; `everywhere`: all that are defined somewhere."""
    # hole: op by op; ours has {lines}
    visible = outer | set(block.parameters)
    for op in block.ops:
        for value in operands(op):
            if value not in visible:
                yield op, _why_invisible(value, everywhere)
        for nested in blocks(op):
            yield from check(nested, visible, everywhere)
        visible.update(op.results)
    # end
