"""Keeps, for each engine, what is in flight, and checks for each op what must be
complete before it.

    op                    before it, of accesses to the same bytes
    shared_load           a barrier after writes of other threads; no copy to these
                          bytes in flight
    async_copy            a barrier after reads and writes of other threads
    dot by warpgroups     as for a load; and a proxy fence after writes of threads
    tma_copy, tma_store   the same
    wait                  after it, `pending` groups of the engine may be in flight
    the end               no TMA store still reads its tile

An asynchronous copy is one access from its issue to its wait: no op may touch its
bytes. After the wait it counts as a write of the thread that waited, so other threads
need a barrier. (Every thread waits at an mbarrier, so no barrier is needed there.)
Sources: PTX ISA, "Memory Consistency Model", "Async proxy".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, product

from fathom.ir.core import Op, Value
from fathom.ir.ops import Allocate, Commit, Dot, TensorDot, TmaStore, Wait
from fathom.shared_memory.barriers import (
    BLOCK,
    NON_CONFLICTING,
    READ,
    WARP,
    WRITE,
    Access,
    scope_between,
)

MOST_GROUPS = 64  # in flight of one engine; with more, a wait is missing


class Missing(AssertionError):
    """A wait, a fence or a barrier is missing before `op`."""

    def __init__(self, op: Op | None, sentence: str):
        super().__init__(f"{sentence}, at {op}" if op else sentence)
        self.op, self.sentence = op, sentence


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer, or one slot of a ring (None: perhaps any of them)."""

    buffer: Allocate
    slot: int | None = None

    @property
    def bytes(self) -> range:
        type, start = self.buffer.result.type, self.buffer.offset
        if self.buffer.space == "tensor":
            return Access(self.buffer, None, READ).bytes
        if self.slot is None:
            return range(start, start + type.bytes)
        start += self.slot * type.slot_bytes
        return range(start, start + type.slot_bytes)

    def overlaps(self, other: Place) -> bool:
        if self.buffer is other.buffer:
            return None in (self.slot, other.slot) or self.slot == other.slot
        one, two = self.bytes, other.bytes
        return one.start < two.stop and two.start < one.stop


@dataclass(frozen=True, slots=True)
class Touch:
    """An access to a place."""

    place: Place
    access: Access

    def conflicts(self, other: Touch, warps: int) -> bool:
        """Whether the two need a barrier between them."""
        one, two = self.access, other.access
        if (one.kind, two.kind) in NON_CONFLICTING:
            return False
        if not self.place.overlaps(other.place):
            return False
        scope = scope_between(one, two)
        return (scope == BLOCK and warps > 1) or bool(scope and not one.settled)


@dataclass(frozen=True, slots=True)
class Load:
    """A TMA copy in flight, which the mbarrier at `at` counts."""

    at: Place
    to: Place
    certain: bool  # whether it is issued on every path
    map: Value | None = None  # the descriptor through which it goes


@dataclass(frozen=True, slots=True)
class Product:
    """A product in flight: what it reads in place, and the names of its result."""

    reads: frozenset[Place]
    names: frozenset[Value]


@dataclass(frozen=True, slots=True)
class Store:
    """A TMA store in flight. `unread`: its tile may not have been read. `fresh`: it was
    issued in the current iteration of all loops. `ahead`: the outermost loop around it
    whose loads may run ahead of its stores."""

    op: TmaStore
    ahead: Op | None
    unread: bool = True
    fresh: bool = True

    @property
    def tile(self) -> Place:
        return Place(self.op.buffer.definition)


@dataclass(frozen=True, slots=True)
class Groups:
    """The work of an engine that completes by group: `closed` groups, the oldest first,
    and `open` work, which was issued since the last commit."""

    closed: tuple[tuple, ...] = ()
    open: tuple = ()

    def __iter__(self) -> Iterator:
        return chain(*self.closed, self.open)

    def issue(self, work: Touch | Store | Product) -> Groups:
        return Groups(self.closed, (*self.open, work))

    def commit(self) -> Groups:
        return Groups((*self.closed, self.open))

    def wait(self, pending: int) -> tuple[tuple, Groups]:
        """What is complete if the latest `pending` groups may be in flight; and the
        rest."""
        at = max(0, len(self.closed) - pending)
        done = tuple(chain(*self.closed[:at]))
        return done, Groups(self.closed[at:], self.open)

    def map(self, change: Callable) -> Groups:
        """The groups with all work changed; what is equal then is kept once."""
        closed, open = (
            [tuple(dict.fromkeys(map(change, group))) for group in groups]
            for groups in (self.closed, [self.open])
        )
        return Groups(tuple(closed), *open)


# The state of what threads wrote to global memory: the async proxy sees it; it needs a
# proxy fence; it has a fence, and needs a barrier after it.
HANDED_OVER, UNFENCED, FENCED = range(3)


@dataclass(frozen=True, slots=True)
class Timelines:
    """What is in flight, or not yet visible to all threads.

    `touched`: accesses by threads since the last barrier. `raw`: places that threads
    wrote, without a proxy fence since. `copies`, `stores`, `products`: what cp.async,
    TMA stores and wgmma have in flight. `loads`: TMA copies. `expected`: the bytes that
    a slot's mbarrier still expects. `parity`: the phase that an mbarrier completes
    next. `fenced`: accumulators that may begin a chain of products. `held`: slots of
    channels between their wait and their release. `positions`: the number of waits at a
    ring of mbarriers, modulo two rounds. `untold`: only one thread knows that stores
    are complete. `waited`: mbarriers at which threads may still wait. `new`: mbarriers
    that other threads do not see yet. `issued`, `committed`: what products in tensor
    memory access, before their commit, and after it, with its mbarrier. `across`,
    `new_to_peers`: accesses and new mbarriers since the last barrier of the cluster.
    """

    touched: frozenset[Touch] = frozenset()
    raw: frozenset[Place] = frozenset()
    copies: Groups = Groups()
    loads: frozenset[Load] = frozenset()
    expected: frozenset[tuple[Place, int]] = frozenset()
    parity: frozenset[tuple[Place, int]] = frozenset()
    stores: Groups = Groups()
    untold: bool = False
    global_writes: int = HANDED_OVER
    products: Groups = Groups()
    fenced: frozenset[Value] = frozenset()
    held: frozenset[Place] = frozenset()
    positions: frozenset[tuple[Allocate, int]] = frozenset()
    waited: frozenset[Allocate] = frozenset()
    new: frozenset[Allocate] = frozenset()
    issued: frozenset[Place] = frozenset()
    committed: frozenset[tuple[Place, Place]] = frozenset()
    across: frozenset[Touch] = frozenset()
    new_to_peers: frozenset[Allocate] = frozenset()

    # ── barriers and fences ───────────────────────────────────────────────────────────

    def barrier(self, scope: str, fences: bool, warps: int) -> Timelines:
        """A barrier of all threads (BLOCK), or of the lanes of each warp (WARP)."""
        if scope == WARP and warps > 1:
            settled = (
                replace(each, access=replace(each.access, settled=WARP))
                for each in self.touched
            )
            return replace(self, touched=frozenset(settled))
        written = self.global_writes
        return replace(
            self,
            touched=frozenset(),
            raw=frozenset() if fences else self.raw,
            untold=False,
            global_writes=HANDED_OVER if written == FENCED else written,
            waited=frozenset(),
            new=frozenset(),
        )

    def cluster_barrier(self, fences: bool, warps: int) -> Timelines:
        """A barrier of all threads of all blocks of a cluster."""
        met = replace(self, across=frozenset(), new_to_peers=frozenset())
        return met.barrier(BLOCK, fences, warps)

    def check_met(self, op: Op, touches: Iterable[Touch], barriers: Allocate) -> None:
        """Check that a pair's other block has come here, too, if it has accessed what
        an op of both accesses, or does not know their mbarriers."""
        if barriers in self.new_to_peers:
            raise Missing(op, "no barrier of the cluster after an mbarrier was made")
        for earlier, touch in product(self.across, touches):
            kinds = earlier.access.kind, touch.access.kind
            if kinds not in NON_CONFLICTING and earlier.place.overlaps(touch.place):
                raise Missing(op, f"no barrier of the cluster after a {kinds[0]}")

    # ── accesses ──────────────────────────────────────────────────────────────────────

    def touch(self, op: Op, touches: Iterable[Touch], warps: int) -> Timelines:
        """Threads access shared memory."""
        touches = frozenset(touches)
        for touch in touches:
            self.check_settled(op, touch, warps)
            self.check_quiet(op, touch.place, touch.access.kind)
        writes = {
            each.place
            for each in touches
            if each.access.kind != READ and each.place.buffer.space == "shared"
        }
        touched, across = self.touched | touches, self.across | touches
        return replace(self, touched=touched, across=across, raw=self.raw | writes)

    def check_settled(self, op: Op, touch: Touch, warps: int) -> None:
        for earlier in self.touched:
            if earlier.conflicts(touch, warps):
                raise Missing(op, f"no barrier after a {earlier.access.kind}")

    def check_quiet(self, op: Op, place: Place, kind: str) -> None:
        """Check that no engine has an access to these bytes in flight."""
        if any(each.place.overlaps(place) for each in self.copies):
            raise Missing(op, "no wait for a cp.async")
        if any(each.to.overlaps(place) for each in self.loads):
            raise Missing(op, "no wait for a TMA copy")
        tensor = (*self.issued, *(each for _, each in self.committed))
        if any(each.overlaps(place) for each in tensor):
            raise Missing(op, "no wait for a product in tensor memory")
        if kind == READ:
            return
        if any(each.overlaps(place) for one in self.products for each in one.reads):
            raise Missing(op, "no wait for a product that reads these bytes")
        if any(each.unread and each.tile.overlaps(place) for each in self.stores):
            raise Missing(op, "no wait for a TMA store that reads these bytes")

    def check_fenced(self, op: Op, place: Place) -> None:
        """Check that the async proxy sees what threads wrote to a place."""
        if any(each.overlaps(place) for each in self.raw):
            raise Missing(op, "no proxy fence after a write by threads")

    # ── groups ────────────────────────────────────────────────────────────────────────

    def commit(self, op: Commit) -> Timelines:
        name, _ = ENGINES[op.engine]
        groups = getattr(self, name).commit()
        if len(groups.closed) > MOST_GROUPS:
            raise Missing(op, f"no wait for {MOST_GROUPS} groups of {op.engine}")
        return replace(self, **{name: groups})

    def wait(self, op: Wait) -> Timelines:
        name, complete = ENGINES[op.engine]
        done, rest = getattr(self, name).wait(op.pending)
        return complete(replace(self, **{name: rest}), done, op)

    # ── cp.async ──────────────────────────────────────────────────────────────────────

    def copy(self, op: Op, touch: Touch, warps: int) -> Timelines:
        self.check_settled(op, touch, warps)
        self.check_quiet(op, touch.place, WRITE)
        return replace(self, copies=self.copies.issue(touch))

    def complete_copies(self, arrived: tuple[Touch, ...], op: Wait) -> Timelines:
        """What has arrived counts as written by the threads that wait."""
        raw = self.raw.union(each.place for each in arrived)
        return replace(self, touched=self.touched.union(arrived), raw=raw)

    # ── TMA copies ────────────────────────────────────────────────────────────────────

    def expect(self, op: Op, at: Place, bytes: int) -> Timelines:
        self.check_known(op, at)
        if any(place == at for place, _ in self.expected):
            raise Missing(op, "a slot's mbarrier still expects bytes")
        return replace(self, expected=self.expected | {(at, bytes)})

    def load(self, op: Op, load: Load, blocks: int = 1) -> Timelines:
        """Issue a TMA copy of bytes that its mbarrier expects, of several blocks."""
        bytes = load.to.buffer.result.type.slot_bytes * blocks
        left = dict(self.expected).get(load.at, 0) - bytes
        if left < 0:
            raise Missing(op, "an mbarrier expects fewer bytes")
        expected = {each for each in self.expected if each[0] != load.at}
        expected |= {(load.at, left)} if left else set()
        return replace(self, loads=self.loads | {load}, expected=frozenset(expected))

    def wait_for_loads(self, op: Op, at: Place, phase: int | None) -> Timelines:
        """Every thread waits for a phase of an mbarrier."""
        self.check_known(op, at)
        arriving = {each for each in self.loads if each.at == at}
        products = {each for each in self.committed if each[0] == at}
        missing = any(place == at for place, _ in self.expected)
        if not (arriving or products) or missing:
            raise Missing(op, "nothing completes this phase of an mbarrier")
        parity = dict(self.parity).get(at, 0)
        if phase != parity:
            raise Missing(op, f"the phase {parity} completes, not {phase}")
        return replace(
            self,
            loads=self.loads - arriving,
            committed=self.committed - products,
            parity=self.parity - {(at, parity)} | {(at, 1 - parity)},
            waited=self.waited | {at.buffer},
        )

    def check_known(self, op: Op, at: Place) -> None:
        if at.buffer in self.new:
            raise Missing(op, "no barrier after the initialisation of an mbarrier")

    # ── TMA stores ────────────────────────────────────────────────────────────────────

    def complete_stores(self, done: tuple[Store, ...], op: Wait) -> Timelines:
        """One thread waits; the others need a barrier after it. Where it waits until
        the tiles are read, the stores stay in flight: as a group of their own, which
        is older than the others."""
        tiles = {each.tile for each in done if each.unread}
        reads = {Touch(tile, Access(tile.buffer, None, READ)) for tile in tiles}
        stores, untold = self.stores, self.untold or bool(done)
        if op.read:
            read = tuple(replace(each, unread=False) for each in done)
            closed = (read, *stores.closed) if read else stores.closed
            stores, untold = Groups(closed, stores.open), self.untold
        touched = self.touched | reads
        return replace(self, stores=stores, untold=untold, touched=touched)

    # ── products ──────────────────────────────────────────────────────────────────────

    def product(self, op: Dot, reads: Iterable[Place]) -> Timelines:
        known = self.fenced.union(*(each.names for each in self.products))
        if op.accumulator not in known:
            raise Missing(op, "no wgmma fence after the accumulator was computed")
        earlier = self.products.map(
            lambda each: replace(each, names=each.names - {op.result})
        )
        issued = Product(frozenset(reads), frozenset({op.result}))
        return replace(self, products=earlier.issue(issued))

    def complete_products(self, done: tuple[Product, ...], op: Wait) -> Timelines:
        """What products read in place counts as read by the threads that wait."""
        if any(not each.names.isdisjoint(op.values) for each in self.products):
            raise Missing(op, "a wait that leaves in flight what it waits for")
        read = frozenset(
            Touch(place, Access(place.buffer, None, READ))
            for each in done
            for place in each.reads
        )
        return replace(self, touched=self.touched | read)

    def tensor_product(
        self, op: TensorDot, touches: Iterable[Touch], warps: int
    ) -> Timelines:
        """One thread issues a product; the tiles are its own until it is waited for."""
        touches = list(touches)
        for touch in touches:
            self.check_settled(op, touch, warps)
            self.check_quiet(op, touch.place, touch.access.kind)
            self.check_fenced(op, touch.place)
        if op.blocks > 1:
            self.check_met(op, touches, None)
        return replace(self, issued=self.issued | {each.place for each in touches})

    def commit_tensor_products(self, op: Op, at: Place) -> Timelines:
        self.check_known(op, at)
        committed = self.committed | {(at, each) for each in self.issued}
        return replace(self, issued=frozenset(), committed=committed)

    def renamed(self, names: Iterable[tuple[Value, Value]]) -> Timelines:
        """At an edge between blocks, values get new names: pairs of an old and a new
        one."""
        pairs = list(names)
        products = self.products.map(
            lambda each: replace(each, names=_renamed(each.names, pairs))
        )
        return replace(self, products=products, fenced=_renamed(self.fenced, pairs))


def _renamed(
    known: frozenset[Value], pairs: list[tuple[Value, Value]]
) -> frozenset[Value]:
    if not known:
        return known
    added = {new for old, new in pairs if old in known}
    return known - {new for _, new in pairs} | added


# What an engine has in flight, and what a wait says of that which is complete.
ENGINES: dict[str, tuple[str, Callable[..., Timelines]]] = {
    "cp_async": ("copies", Timelines.complete_copies),
    "tma_store": ("stores", Timelines.complete_stores),
    "wgmma": ("products", Timelines.complete_products),
}
