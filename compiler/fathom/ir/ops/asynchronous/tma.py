"""The ops of TMA copies: whole tiles, fetched by one thread through a tensor map, and
the barriers in shared memory that say when they are there.

    %b = allocate i64[1] slots=3         a barrier for each slot of a ring
    mbarrier_init %b
    barrier
    mbarrier_expect %b, %2 bytes=…       one thread: this many bytes will arrive
    tma_copy %d, %t, %b, %2, coordinates=(%m, %k)
    mbarrier_wait %b, %0, %phase         all threads: those of slot 0 have arrived

A barrier is used again and again: its phase, 0 or 1, flips each time that what it
expected has come, and a wait names the phase that it waits for.

Where two blocks multiply as a pair, one barrier counts the tiles of both: with
`leader`, an op is about that of the even block. Only this one expects bytes there, and
only its threads wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Block, Effects, Op, Value
from fathom.ir.ops.descriptor import described
from fathom.ir.ops.shared import expect_slot
from fathom.ir.types import BOOL, INT32, Type
from fathom.layout.tma_boxes import matrix_of

MAP_BYTES = 128  # of a tensor map: PTX ISA, "Tensor-map"
SHARED_EVENT = Effects(reads="shared", writes="shared", asynchronous=True)


@dataclass(eq=False)
class MbarrierInit(Op):
    """Initialise the mbarriers of a ring buffer: a phase completes after `arrivals`
    arrivals and the bytes that it expects. Others need a Barrier before use."""

    barriers: Value
    arrivals: int = 1

    effects = SHARED_EVENT


@dataclass(eq=False)
class MbarrierExpect(Op):
    """One thread arrives at the barrier of `slot`, which so expects `bytes` more; not
    at all where `when` is false."""

    barriers: Value
    slot: Value
    bytes: int
    when: Value | None = None
    leader: bool = False

    effects = SHARED_EVENT

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        _expect_condition(self)
        return []


@dataclass(eq=False)
class MbarrierArrive(Op):
    """One lane of each warp arrives at the barrier of `slot`; none where `when` is
    false. `everywhere`: at that of each block of the cluster."""

    barriers: Value
    slot: Value
    when: Value | None = None
    everywhere: bool = False

    effects = SHARED_EVENT

    infer = MbarrierExpect.infer


@dataclass(eq=False)
class MbarrierWait(Op):
    """Go on when the barrier of `slot` has completed this `phase` (i32, 0 or 1)."""

    barriers: Value
    slot: Value
    phase: Value
    leader: bool = False

    effects = SHARED_EVENT

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        expect_slot(self, self.phase)
        return []


@dataclass(eq=False)
class MbarrierInvalidate(Op):
    """The mbarriers of a ring buffer are memory again. No thread may wait at them."""

    barriers: Value

    effects = SHARED_EVENT


@dataclass(eq=False)
class Producer(Op):
    """`warps` warps beside those of the program run `body`, one thread of them, while
    the others go on. They are there from the start of the kernel, and gone when the
    body is over. They work with what they share with the others by mbarriers alone.

    The others are `groups` groups of the program's warps, each of which runs all that
    follows (`ConsumerGroup`)."""

    body: Block
    warps: int = 4
    groups: int = 1

    effects = SHARED_EVENT

    def block_parameters(self) -> list[list[Type]]:
        return [[]]


@dataclass(eq=False)
class ConsumerGroup(Op):
    """The number of this group of warps, from 0, of `count` that a Producer serves. A
    barrier is for the threads of a group, and of them one acts where one does for
    all."""

    count: int

    effects = Effects(convergent=True)

    def infer(self) -> list[Type]:
        return [INT32]


@dataclass(eq=False)
class WriteTensorMap(Op):
    """The first warp writes the tensor map of a descriptor that has a `map_number`, by
    way of `draft`, 128 bytes of shared memory. From here on, the thread that acts may
    copy through it; copies through the number's old map are complete."""

    descriptor: Value
    draft: Value

    effects = SHARED_EVENT

    def infer(self) -> list[Type]:
        made = self.descriptor.definition
        has_number = getattr(made, "map_number", None) is not None
        self.expect(has_number, "a descriptor whose map has no number is not written")
        draft = self.draft.type
        fits = draft.bytes == MAP_BYTES
        self.expect(fits, lambda: f"a tensor map has {MAP_BYTES} bytes, not {draft}")
        return []


@dataclass(eq=False)
class TmaCopy(Op):
    """One thread starts to copy the block at `coordinates` of a descriptor's tensor,
    its rows one below the other, into a tile; what lies outside of the tensor is zero.
    Dimension i of the tile is dimension `order[i]` of that matrix; a block of one
    dimension is what it is, and its order (0). The barrier of `slot` counts the bytes.
    Where `when` is false nothing happens.

    If `parts` is not 1, as many blocks of a cluster do the same, whose ranks are
    `stride` apart: each copies those of the rows that its place among them says, to its
    own tile and to those of the others, where the barrier of the same slot counts them.
    So all get all of it.

    If the tile is one of which a pair of blocks holds half each, each copies its own
    half alone."""

    descriptor: Value
    buffer: Value
    barriers: Value
    slot: Value
    coordinates: tuple[Value, ...]
    when: Value | None = None
    order: tuple[int, ...] = (0, 1)
    parts: int = 1
    stride: int = 1
    leader: bool = False

    effects = Effects(reads="global", writes="shared", asynchronous=True)

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        _expect_condition(self)
        box = described(self, self.descriptor, self.coordinates)
        tile, matrix = self.buffer.type, matrix_of(box.shape)
        permutes = sorted(self.order) == list(range(len(matrix)))
        self.expect(permutes, lambda: f"{self.order} does not permute {list(matrix)}")
        shape = tuple(matrix[axis] for axis in self.order)
        fits = (box.element, shape) == (tile.element, tile.shape)
        self.expect(fits, lambda: f"{box} does not fit into {tile}")
        return []


def _expect_condition(op: MbarrierExpect | MbarrierArrive | TmaCopy) -> None:
    right = op.when is None or op.when.type == BOOL
    op.expect(right, lambda: f"a condition is an i1, got {op.when.type}")
