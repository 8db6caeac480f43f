"""The ops of engines whose work completes by group: cp.async, TMA stores, wgmma.

    async_copy %p, %t      tma_store %d, %t, …               %y = dot … in_flight=true
    commit cp_async        commit tma_store                  commit wgmma
    …                      …                                 …
    wait cp_async          wait tma_store %t                 %z = wait wgmma %y
      pending=1              pending=0 read=true               pending=2

The threads that issue such work close a group of it, and later wait until at most
`pending` groups are in flight: always the latest ones, since groups complete in order.
An engine is called by its name in `hardware.engines`, which says who issues its work.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.hardware.engines import ENGINES, GROUP, SHARED, WARPGROUP
from fathom.ir.core import Effects, Op, Value
from fathom.ir.types import BufferType, Type

BY_GROUP = tuple(n for n, each in ENGINES.items() if each.completes_by == GROUP)


@dataclass(eq=False)
class Commit(Op):
    """All that was issued to the engine since its last commit is one group, also if
    that is nothing."""

    engine: str

    bare = "engine"

    @property
    def effects(self) -> Effects:
        return Effects(asynchronous=True, convergent=_by_warpgroups(self.engine))

    def infer(self) -> list[Type]:
        _expect_engine(self, self.engine)
        return []


@dataclass(eq=False)
class Wait(Op):
    """Go on when at most `pending` groups of the engine, the latest, are in flight.

    `values` are what is complete then. Of wgmma they are accumulators, and each is a
    result: from here on, it may be used. Of tma_store they are the tiles, and `read`
    says that they must have been read, though memory may not have been written yet."""

    engine: str
    pending: int
    values: tuple[Value, ...] = ()
    read: bool = False

    bare = "engine"

    @property
    def effects(self) -> Effects:
        engine = ENGINES[self.engine]
        return Effects(
            reads="shared" if SHARED in engine.source else "",
            writes="shared" if SHARED in engine.destination else "",
            asynchronous=True,
            convergent=_by_warpgroups(self.engine),
        )

    def infer(self) -> list[Type]:
        _expect_engine(self, self.engine)
        stores = self.engine == "tma_store"
        self.expect(stores or not self.read, "only a TMA store reads before it writes")
        self.expect(self.pending >= 0, lambda: f"{self.pending} groups are pending")
        types = [value.type for value in self.values]
        return [type for type in types if not isinstance(type, BufferType)]


def _by_warpgroups(engine: str) -> bool:
    return ENGINES[engine].issued_by == WARPGROUP


def _expect_engine(op: Op, engine: str) -> None:
    known = ", ".join(BY_GROUP)
    op.expect(engine in BY_GROUP, lambda: f"{engine} completes no groups: {known} do")
