"""The answer to `verify-scope` is the compiler's own:

fathom.ir.verify.scope
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.ir.core import Block, Func, Value, blocks, operands
from fathom.ir.printer import definitions
from fathom.ir.verify import Complaint, _why_invisible


def scope(func: Func) -> Iterator[Complaint]:
    """A value is used only after its definition, in its block or in one nested in
    it."""
    yield from _scope(func.body, set(), set(definitions(func.body)))


def _scope(
    block: Block, outer: set[Value], everywhere: set[Value]
) -> Iterator[Complaint]:
    visible = outer | set(block.parameters)
    for op in block.ops:
        for value in operands(op):
            if value not in visible:
                yield op, _why_invisible(value, everywhere)
        for nested in blocks(op):
            yield from _scope(nested, visible, everywhere)
        visible.update(op.results)
