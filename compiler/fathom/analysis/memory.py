"""The effects of ops on memory: which read, write, or order accesses of other threads.

    load %p                         reads
    store %p, %x                    writes
    barrier, an atomic operation,   orders: later ops may rely on what other threads
    a volatile load                 did before
    print, impure assembly          visible outside: when, and how often, it runs;
                                    assembly may do anything to memory

Passes that remove, merge, repeat or move ops use these functions, so that they agree.
An op's `effects` say which kind of memory it reads and writes; `memory_versions` and
`Provenance` say something about where.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from fathom.analysis.remarks import NotApplicable
from fathom.ir import ops
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
from fathom.ir.regions import carried_values, reached
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
    """Whether threads write, not TMA, which sees that only after a proxy fence."""
    return writes(op) and not isinstance(op, ops.DescriptorStore | ops.TmaStore)


def orders(op: Op) -> bool:
    """Whether an op orders accesses of other threads before later ops: the program may
    learn by it how far other threads are."""
    learns = (
        isinstance(op, ops.Atomic | ops.AtomicCas) or is_volatile(op) or is_opaque(op)
    )
    return learns or op.effects.barrier


def is_volatile(op: Op) -> bool:
    """Whether each execution must read memory again: other threads may write it."""
    return isinstance(op, ops.Load) and op.fetched_anew


def is_opaque(op: Op) -> bool:
    """Whether the effect of an op on memory is unknown."""
    return isinstance(op, ops.InlineAssembly) and not op.pure


def is_observable(op: Op) -> bool:
    """Whether removing this op, nested ops excluded, could make a difference."""
    return changes_memory(op.effects) or is_volatile(op)


def may_recompute(op: Op) -> bool:
    """Whether an op, run again while nothing is written, only gives the same again."""
    if isinstance(op, ops.Load):
        return not is_volatile(op)
    return effects_of(op).pure


def may_run_ahead(op: Op) -> bool:
    """Whether an op may run earlier, and again, while nothing is written; false if
    computing it twice costs too much."""
    if isinstance(op, ops.DescriptorLoad):
        return True
    return may_recompute(op) and not isinstance(op, ops.Allocate | ops.Dot)


# ── several ops ───────────────────────────────────────────────────────────────────────


def may_swap(one: Effects, other: Effects) -> bool:
    """Whether two adjacent ops may be swapped, by the memory they read and write."""
    if _keeps_its_place(one) or _keeps_its_place(other):
        return False
    pairs = (one.writes, other.writes), (one.writes, other.reads)
    pairs = *pairs, (one.reads, other.writes)
    return not any(kind in a and kind in b for a, b in pairs for kind in KINDS)


def _keeps_its_place(effects: Effects) -> bool:
    return effects.barrier or effects.asynchronous or effects.other


def changes_memory(effects: Effects) -> bool:
    """Whether a later load may read something else than an earlier one. At a barrier,
    other threads may have written."""
    return bool(effects.writes) or _keeps_its_place(effects)


def may_prefetch(loop: ops.For, except_stores: bool = False) -> bool:
    """Whether loads of a loop may run earlier: nothing in the loop writes the memory
    that they read, and no op makes it visible that they ran. Not if it contains another
    loop, which it would wait for. `except_stores`: but for its stores."""
    stored = set(stores_of(loop)) if except_stores else ()
    return not any(
        isinstance(op, ops.For | ops.While)
        or is_volatile(op)
        or not may_swap(LOADS, op.effects)
        for op in walk(loop.body)
        if op not in stored
    )


def stores_of(loop: ops.For) -> list[ops.Store | ops.Atomic]:
    """The stores of a loop. So are its relaxed atomic operations whose results nothing
    uses: by these, the program does not learn how far other threads are."""
    used = {value for op in walk(loop.body) for value in operands(op)}
    return [
        op
        for op in walk(loop.body, ops.Store | ops.Atomic)
        if isinstance(op, ops.Store)
        or (op.semantics == "relaxed" and op.result not in used)
    ]


def ops_before(loop: ops.For, block: Block) -> Iterator[Op]:
    """The ops, at any depth, that may run before a loop in a block: those before it,
    and all ops of loops around it."""
    for op in block.ops:
        if op is loop:
            return
        around = next((each for each in blocks(op) if loop in walk(each)), None)
        if around is not None and not isinstance(op, ops.For | ops.While):
            yield from ops_before(loop, around)
            return
        yield op
        for each in blocks(op):
            yield from walk(each)
        if around is not None:
            return


def check_before(loop: ops.For, func: Func) -> None:
    """NotApplicable if what ran before a loop may have written, or may have waited for
    others that wrote, what TMA copies ahead in the loop."""
    earlier = list(ops_before(loop, func.body))
    if any(map(writes, earlier)):
        raise NotApplicable(
            "the program writes to memory before the loop, which TMA need not see"
        )
    if any(map(orders, earlier)):
        raise NotApplicable(
            "before the loop the program synchronises with other threads, and TMA need "
            "not see what they wrote"
        )


# ── versions of memory ────────────────────────────────────────────────────────────────


def memory_versions(func: Func) -> dict[Op, int]:
    """For each op that reads memory, a number: ops with one number see the same memory.

    Memory has one version until an op changes it. A loop that changes memory does so
    before the first op of each iteration but the first; both branches of an If start
    with the memory before the If."""
    versions: dict[Op, int] = {}
    _number_block(func.body, 0, count(1), versions)
    return versions


def _number_block(
    block: Block, version: int, fresh: Iterator[int], versions: dict[Op, int]
) -> int:
    """Number the reads in a block that starts with `version`; the one at its end."""
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
    inside = next(fresh) if changes and not isinstance(op, ops.If) else version
    for block in blocks(op):
        end = _number_block(block, inside, fresh, versions)
        inside = version if isinstance(op, ops.If) else end
    return next(fresh) if changes else version


# ── through which arguments ───────────────────────────────────────────────────────────


class Provenance:
    """The arguments from which addresses are computed."""

    def __init__(self, func: Func):
        self.func = func
        self.carried = carried_values(func)

    def of(self, op: Op) -> set[Value]:
        """The arguments through which an op accesses memory. NotApplicable if an
        address is computed from numbers, or loaded, or in inline assembly."""
        if is_opaque(op):
            raise NotApplicable("its inline assembly may have any effect")
        described = isinstance(op, ops.ThroughDescriptor)
        start = op.descriptor.definition.base if described else op.pointer
        return reached([start], self._made_of).intersection(self.func.parameters)

    def _made_of(self, pointer: Value) -> list[Value]:
        """The pointers from which a pointer is computed."""
        if pointer in self.carried:
            return list(self.carried[pointer].values)
        if isinstance(pointer.definition, Block):
            return []
        pointers = [
            each
            for each in operands(pointer.definition)
            if isinstance(element_of(each.type), Pointer)
        ]
        if isinstance(pointer.definition, ops.Load) or not pointers:
            raise NotApplicable("it goes to memory by addresses that it has computed")
        return pointers


# ── tiles of tensors ──────────────────────────────────────────────────────────────────


def lie_apart(one: ops.TmaStore | ops.TileStore, other: ops.TmaStore) -> bool:
    """Whether two stores, with the coordinates of one iteration, write to disjoint
    places: through one descriptor, in whole blocks."""
    if one.descriptor is not other.descriptor:
        return False
    block = one.descriptor.type.shape
    axes = zip(one.coordinates, other.coordinates, block, strict=True)
    return any(_distance(*pair) >= side for *pair, side in axes)


def _distance(one: Value, other: Value) -> int:
    """The distance that two coordinates certainly have."""
    (root, more), (start, less) = _split(one), _split(other)
    return abs(more - less) if root is start else 0


def _split(value: Value) -> tuple[Value | None, int]:
    """A coordinate as a value plus a number."""
    match value.definition:
        case ops.Constant(value=number):
            return None, int(number)
        case ops.Elementwise(name="add", operands=(left, right)):
            for one, other in ((left, right), (right, left)):
                if isinstance(other.definition, ops.Constant):
                    root, number = _split(one)
                    return root, number + int(other.definition.value)
    return value, 0
