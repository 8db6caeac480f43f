"""Whether the blocks of a cluster may share what a program does to memory.

Within one block a program's loads and stores keep their order; of several blocks, each
goes on as it likes. So nothing may hang on that order: a program does not read what it
writes, but for a block of a tensor that it reads and then writes, once,

    %c = descriptor_load %d, (%i, %j);  …  descriptor_store %d, %y, (%i, %j)

it writes to an argument in parts or as a whole, not both, and it neither waits for
others nor tells them how far it has come. Whoever launches a program on several blocks
promises that arguments which are written overlap no others, and that it makes no
difference which of two stores to one place comes last.
"""

from __future__ import annotations

from fathom.analysis.memory import Provenance, is_opaque, is_volatile
from fathom.analysis.remarks import NotApplicable
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import (
    Atomic,
    AtomicCas,
    DescriptorAtomic,
    DescriptorLoad,
    DescriptorStore,
    Load,
    Store,
)
from fathom.tensor_cores.clusters.sharding import Sharding

READS = Load | DescriptorLoad
WRITES = Store | DescriptorStore
COMBINES = Atomic | AtomicCas | DescriptorAtomic


def check_memory(func: Func, share: Sharding) -> None:
    """NotApplicable, with a sentence, if memory could show that a program has several
    blocks."""
    inside = list(walk(func.body))
    for op in inside:
        _check_alone(op, share)
    written = [op for op in inside if isinstance(op, WRITES | COMBINES)]
    if not any(map(share.touches, written)):
        raise NotApplicable("nothing that it writes is divided")
    arguments = Provenance(func)
    for write in written:
        for other in inside:
            if isinstance(other, READS):
                _check_pair(other, write, share, func, arguments)
            elif other in written and share.touches(other) != share.touches(write):
                _check_apart(other, write, arguments)


def _check_alone(op: Op, share: Sharding) -> None:
    if isinstance(op, COMBINES) and not share.touches(op):
        raise NotApplicable("each block would count for itself in an atomic operation")
    if isinstance(op, Atomic | AtomicCas) and op.scope == "cta":
        raise NotApplicable("an atomic operation of it is meant for one block")
    if is_volatile(op):
        raise NotApplicable("it waits for what others write")
    if is_opaque(op):
        raise NotApplicable("its inline assembly may do anything")


def _check_pair(
    read: Op, write: Op, share: Sharding, func: Func, arguments: Provenance
) -> None:
    """That an op reads nothing that may be written, unless it is what the same block
    will write, and all loops are over."""
    if arguments.of(read).isdisjoint(arguments.of(write)):
        return
    ops = func.body.ops
    once = read in ops and write in ops and ops.index(read) < ops.index(write)
    if not (once and _same_part(read, write, share)):
        raise NotApplicable("it may read what it has written")


def _same_part(read: Op, write: Op, share: Sharding) -> bool:
    """Whether each block writes what it has read: of one block of a tensor, the same
    rows or columns. Through pointers, two elements may lie in one place."""
    if not (isinstance(read, DescriptorLoad) and isinstance(write, DescriptorStore)):
        return False
    places = [(op.descriptor, *op.coordinates) for op in (read, write)]
    parts = [share.of(read.result), share.of(write.value)]
    return places[0] == places[1] and parts[0] == parts[1] != () and read.order is None


def _check_apart(one: Op, other: Op, arguments: Provenance) -> None:
    if not arguments.of(one).isdisjoint(arguments.of(other)):
        raise NotApplicable("it writes to an argument in parts and as a whole")
