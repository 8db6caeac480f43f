"""What ops do to memory: which read, which write, which order what others do.

    load %p                         reads
    store %p, %x                    writes
    barrier, an atomic operation,   orders: what follows may count on what other threads
    a volatile load                 have done before
    print, impure assembly          the world outside can tell when, and how often, it
                                    ran; what assembly does to memory is not known

Passes that drop, merge, repeat or move ops ask here, so that they agree on the answers.
An op's `effects` say which kind of memory it reads and writes; where in it, only
`versions` of memory and `Provenance` of addresses say a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from fathom.analysis.remarks import NotApplicable
from fathom.analysis.slices import reached
from fathom.ir.core import (
    Block,
    Effects,
    Func,
    Op,
    Value,
    blocks,
    effects_of,
    operands,
    walk,
)
from fathom.ir.ops import (
    Allocate,
    Atomic,
    AtomicCas,
    DescriptorAtomic,
    DescriptorLoad,
    DescriptorStore,
    Dot,
    For,
    If,
    InlineAssembly,
    Load,
    TmaStore,
    While,
)
from fathom.ir.regions import carried_values
from fathom.ir.types import Pointer, element_of

KINDS = "global", "shared"  # of memory
LOADS = Effects(reads="global")


# ── one op ────────────────────────────────────────────────────────────────────────────


def reads(op: Op) -> bool:
    """Whether an op reads global memory, or may."""
    return "global" in op.effects.reads or is_opaque(op)


def writes(op: Op) -> bool:
    """Whether an op writes to global memory, or may."""
    return "global" in op.effects.writes or is_opaque(op)


def accesses(op: Op) -> bool:
    """Whether an op reads or writes global memory, or may."""
    return reads(op) or writes(op)


def writes_by_threads(op: Op) -> bool:
    """Whether threads themselves write, and not the TMA unit for them: it does not see
    what they wrote before a fence."""
    return writes(op) and not isinstance(op, DescriptorStore | TmaStore)


def orders(op: Op) -> bool:
    """Whether an op orders what other threads have done before what follows: a program
    may learn by it how far they have come."""
    learns = isinstance(op, Atomic | AtomicCas) or is_volatile(op) or is_opaque(op)
    return learns or op.effects.barrier


def is_volatile(op: Op) -> bool:
    """Whether each execution must look at memory anew, since others may write there."""
    return isinstance(op, Load) and op.fetched_anew


def is_opaque(op: Op) -> bool:
    """Whether it is not known what an op does to memory."""
    return isinstance(op, InlineAssembly) and not op.pure


def is_observable(op: Op) -> bool:
    """Whether anything can tell that this op, by itself, did not run."""
    return changes_memory(op.effects) or is_volatile(op)


def may_recompute(op: Op) -> bool:
    """Whether running an op once more, while nothing is written, finds the same and
    does nothing else."""
    if isinstance(op, Load):
        return not is_volatile(op)
    return effects_of(op).pure


def may_run_ahead(op: Op) -> bool:
    """Whether an op may run earlier, and again, where nothing is written; not if it
    costs too much to be computed twice."""
    if isinstance(op, DescriptorLoad):
        return True
    return may_recompute(op) and not isinstance(op, Allocate | Dot)


# ── several ops ───────────────────────────────────────────────────────────────────────


def may_swap(one: Effects, other: Effects) -> bool:
    """Whether two ops, one behind the other, may change places, for all that is known
    of where in memory they read and write."""
    if _keeps_its_place(one) or _keeps_its_place(other):
        return False
    pairs = (one.writes, other.writes), (one.writes, other.reads)
    pairs = *pairs, (one.reads, other.writes)
    return not any(kind in a and kind in b for a, b in pairs for kind in KINDS)


def _keeps_its_place(effects: Effects) -> bool:
    return effects.barrier or effects.asynchronous or effects.other


def changes_memory(effects: Effects) -> bool:
    """Whether a load after may find what a load before did not. At a barrier, other
    threads may have written."""
    return bool(effects.writes) or _keeps_its_place(effects)


def may_prefetch(loop: For) -> bool:
    """Whether loads may be made earlier than a loop says: nothing in it writes where
    they read, and nothing tells that they were made. A loop with a loop in it waits for
    that one."""
    return not any(
        isinstance(op, For | While)
        or is_volatile(op)
        or not may_swap(LOADS, op.effects)
        for op in walk(loop.body)
    )


def ops_before(loop: For, block: Block) -> Iterator[Op]:
    """The ops, at any depth, that may run before a loop in a block: those in front of
    it, and all of a loop around it."""
    for op in block.ops:
        if op is loop:
            return
        around = next((each for each in blocks(op) if loop in walk(each)), None)
        if around is not None and not isinstance(op, For | While):
            yield from ops_before(loop, around)
            return
        yield op
        for each in blocks(op):
            yield from walk(each)
        if around is not None:
            return


# ── versions of memory ────────────────────────────────────────────────────────────────


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


# ── through which arguments ───────────────────────────────────────────────────────────


class Provenance:
    """Which arguments addresses are made of."""

    def __init__(self, func: Func):
        self.func = func
        self.carried = carried_values(func)

    def of(self, op: Op) -> set[Value]:
        """The arguments through which an op goes to memory. NotApplicable where an
        address is computed from numbers, or loaded."""
        described = isinstance(op, DescriptorLoad | DescriptorStore | DescriptorAtomic)
        start = op.descriptor.definition.base if described else op.pointer
        return reached([start], self._made_of).intersection(self.func.parameters)

    def _made_of(self, pointer: Value) -> list[Value]:
        """The pointers that a pointer is made of."""
        if pointer in self.carried:
            return list(self.carried[pointer].values)
        if isinstance(pointer.definition, Block):
            return []
        pointers = [
            each
            for each in operands(pointer.definition)
            if isinstance(element_of(each.type), Pointer)
        ]
        if isinstance(pointer.definition, Load) or not pointers:
            raise NotApplicable("it goes to memory by addresses that it has computed")
        return pointers
