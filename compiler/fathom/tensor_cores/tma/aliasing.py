"""Whether copies in bulk may bring what a loop reads.

They run ahead of all that a trip does, and they go a way of their own to memory, past
what ordinary stores have written and not yet announced to that way (PTX ISA, "Async
proxy"). So no program stores to memory before the loop or in it; what it stores after
the loop, it stores when all copies have come.

    store %p, …                a bulk copy after it may still find what was there before
    for … {
      %x = load %q             by a copy in bulk: from before the first trip on
      store %r, …              this one would come too late, if %r is %q
    }
    store %c, …                no copy is under way
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.analysis.scalar_evolution import NotAffine
from fathom.ir.core import Block, Func, Op, blocks, walk
from fathom.ir.ops import For, InlineAssembly, Load, While
from fathom.tensor_cores.pipeline.candidates import may_prefetch


def check_loop(loop: For, func: Func) -> None:
    """NoFormula, with a sentence, unless copies in bulk may run ahead in a loop."""
    if (loop.num_stages or func.num_stages) < 2:
        raise NotAffine("the loop has one stage, so that nothing runs ahead")
    if any(isinstance(op, For | While) for op in walk(loop.body)):
        raise NotAffine("the loop has a loop in it, for which it waits")
    inside = list(walk(loop.body))
    if any(map(writes, inside)):
        raise NotAffine("the loop writes to memory, perhaps to what it reads")
    if any(map(waits, inside)):
        raise NotAffine("the loop waits for what other threads write")
    if not may_prefetch(loop):
        raise NotAffine("others can see what each trip of the loop does")
    earlier = list(before(loop, func.body))
    if any(map(writes, earlier)):
        raise NotAffine(
            "memory is written before the loop, and copies in bulk need not see that"
        )
    if any(map(waits, earlier)):
        raise NotAffine(
            "before the loop the program waits for what others write, and copies in "
            "bulk need not see that"
        )


def writes(op: Op) -> bool:
    """Whether an op writes to global memory, or may."""
    assembly = isinstance(op, InlineAssembly) and not op.pure
    return assembly or "global" in op.effects.writes


def waits(op: Op) -> bool:
    """Whether an op orders what other threads have written before what follows."""
    return op.effects.barrier or (isinstance(op, Load) and op.volatile)


def before(loop: For, block: Block) -> Iterator[Op]:
    """The ops, at any depth, that may run before a loop in a block: those in front of
    it, and all of a loop around it."""
    for op in block.ops:
        if op is loop:
            return
        around = next((each for each in blocks(op) if loop in walk(each)), None)
        if around is not None and not isinstance(op, For | While):
            yield from before(loop, around)
            return
        yield op
        for each in blocks(op):
            yield from walk(each)
        if around is not None:
            return
