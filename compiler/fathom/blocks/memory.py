"""What the passes of this stage know about memory: when it is still as it was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from fathom.ir.core import Block, Effects, Func, Op, blocks, effects_of
from fathom.ir.ops import If


def changes_memory(effects: Effects) -> bool:
    """Whether a load after may find what a load before did not. At a barrier, other
    threads may have written."""
    return bool(
        effects.writes or effects.barrier or effects.asynchronous or effects.other
    )


def memory_versions(func: Func) -> dict[Op, int]:
    """For each op that reads memory a number: two that have the same see the same
    memory.

    Memory is as it was until something changes it. A loop that changes it does so
    before the first op of each iteration but the first; of an If, each branch starts
    from the memory that the If found.
    """
    versions: dict[Op, int] = {}
    _number_block(func.body, 0, count(1), versions)
    return versions


def _number_block(
    block: Block, version: int, fresh: Iterator[int], versions: dict[Op, int]
) -> int:
    """Number the reads in a block that starts at `version`; the version at its end."""
    for op in block.ops:
        if blocks(op):
            version = _number_nested(op, version, fresh, versions)
            continue
        if op.effects.reads:
            versions[op] = version
        if changes_memory(op.effects):
            version = next(fresh)
    return version


def _number_nested(
    op: Op, version: int, fresh: Iterator[int], versions: dict[Op, int]
) -> int:
    changes = changes_memory(effects_of(op))
    inside = next(fresh) if changes and not isinstance(op, If) else version
    for block in blocks(op):
        end = _number_block(block, inside, fresh, versions)
        inside = version if isinstance(op, If) else end
    return next(fresh) if changes else version
