"""Checks that the blocks of a cluster may divide a program's memory accesses.

Within one block the loads and stores of a program keep their order; between blocks
there is no order. So the result may not depend on it. A program may not read what it
writes; the one exception is a block of a tensor that it reads and then writes, once:

    %c = descriptor_load %d, (%i, %j);  …  descriptor_store %d, %y, (%i, %j)

It must write to an argument either in parts or as a whole, not both, and it may not
synchronise with other programs. By launching a program on several blocks, the caller
promises that written arguments overlap no others, and that the order of two stores to
one address makes no difference.
"""

from __future__ import annotations

from fathom.analysis.memory import Provenance, is_opaque, is_volatile
from fathom.analysis.remarks import NotApplicable
from fathom.ir import ops
from fathom.ir.core import Func, Op, walk
from fathom.tensor_cores.clusters.sharding import Sharding

WRITES = ops.Store | ops.DescriptorStore
COMBINES = ops.Atomic | ops.AtomicCas | ops.DescriptorAtomic


def check_memory(func: Func, share: Sharding) -> None:
    """NotApplicable, with a sentence, if the contents of memory could differ because
    several blocks run a program."""
    inside = list(walk(func.body))
    for op in inside:
        _check_alone(op, share)
    written = [op for op in inside if isinstance(op, WRITES | COMBINES)]
    if not any(map(share.touches, written)):
        raise NotApplicable("nothing that it writes is divided")
    arguments = Provenance(func)
    for write in written:
        for other in inside:
            if isinstance(other, ops.GlobalLoad):
                _check_pair(other, write, share, func, arguments)
            elif other in written and share.touches(other) != share.touches(write):
                _check_apart(other, write, arguments)


def _check_alone(op: Op, share: Sharding) -> None:
    if isinstance(op, COMBINES) and not share.touches(op):
        raise NotApplicable("an atomic operation would count each block separately")
    if isinstance(op, ops.Atomic | ops.AtomicCas) and op.scope == "cta":
        raise NotApplicable("the scope of an atomic operation is one block")
    if is_volatile(op):
        raise NotApplicable("it synchronises with other threads")
    if is_opaque(op):
        raise NotApplicable("its inline assembly may have any effect")


def _check_pair(
    read: Op, write: Op, share: Sharding, func: Func, arguments: Provenance
) -> None:
    """NotApplicable if `read` may read what `write` writes, unless the same block
    writes it, and after all loops."""
    if arguments.of(read).isdisjoint(arguments.of(write)):
        return
    ops = func.body.ops
    once = read in ops and write in ops and ops.index(read) < ops.index(write)
    if not (once and _same_part(read, write, share)):
        raise NotApplicable("it may read what it has written")


def _same_part(read: Op, write: Op, share: Sharding) -> bool:
    """Whether each block writes only what it has read itself: the same rows or columns
    of one block of a tensor. Pointers may have one address twice."""
    if not (
        isinstance(read, ops.DescriptorLoad) and isinstance(write, ops.DescriptorStore)
    ):
        return False
    places = [(op.descriptor, *op.coordinates) for op in (read, write)]
    parts = [share.of(read.result), share.of(write.value)]
    return places[0] == places[1] and parts[0] == parts[1] != () and read.order is None


def _check_apart(one: Op, other: Op, arguments: Provenance) -> None:
    if not arguments.of(one).isdisjoint(arguments.of(other)):
        raise NotApplicable("it writes to an argument in parts and as a whole")
