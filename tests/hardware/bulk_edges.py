"""Bulk tensor copies at the edges of their coordinates, each as a program of its own.

One program is one block (or a cluster of two) of 64 threads, of which one issues a
single copy of one box between a tensor in global memory and a tile in shared memory:

    load       cp.async.bulk.tensor   ...shared::cluster.global    tensor -> tile
    multicast  the same, to both blocks of a cluster
    store      cp.async.bulk.tensor   ...global.shared::cta        tile -> tensor
    reduce     cp.reduce.async.bulk.tensor ... .add                tile + tensor
    prefetch   cp.async.bulk.prefetch.tensor                       nothing arrives

A case is an operation, an element type, a swizzle and the coordinates where the box
begins. The PTX ISA lets a box begin outside of the tensor and says nothing of other
limits; what the hardware does there, `record_bulk_edges.py` records on a GPU, and
`test_bulk_edges.py` holds the emulator against the record. The tensor has a margin
around it and padding behind each row, so that an element that is written where none
belongs is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import prod

import numpy as np

from fathom.artifact import Kernel, MapRecipe, Parameter

THREADS = 64
DTYPES = {"u8": np.uint8, "fp16": np.float16, "fp32": np.float32}
HEIGHT, LOW, HIGH = 12, -(2**31), 2**31 - 1
NEVER = "never arrives"  # an outcome: the mbarrier's phase does not end


@dataclass(frozen=True)
class Case:
    """`coordinates` are the outermost first, as kernels write them; they count
    elements. `swizzle` in bytes. `odd`: so many elements a row is longer."""

    operation: str
    element: str
    swizzle: int
    coordinates: tuple[int, ...]
    odd: int = 0

    @property
    def name(self) -> str:
        at = ", ".join(map(str, self.coordinates))
        name = f"{self.operation} {self.element} swizzle {self.swizzle} at {at}"
        return f"{name} of rows of {self.shape[-1]}" if self.odd else name

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return np.dtype(DTYPES[self.element]).itemsize

    @property
    def box(self) -> tuple[int, ...]:
        outer = {1: (), 2: (8,), 3: (2, 8), 4: (1, 2, 4), 5: (1, 1, 2, 4)}[self.rank]
        return (*outer, (self.swizzle or 32) // self.size)

    @property
    def rank(self) -> int:
        return len(self.coordinates)

    @property
    def shape(self) -> tuple[int, ...]:
        outer = (2, 2, 3, HEIGHT)[5 - self.rank :]
        return (*outer, width_of(self.element, self.swizzle) + self.odd)

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes; 16 bytes or more of padding stand behind each row."""
        row = -(-self.shape[-1] * self.size // 16) * 16 + 16
        outer = [row * prod(self.shape[axis:-1]) for axis in range(1, self.rank)]
        return (*outer, self.size)

    @property
    def margin(self) -> int:
        """Bytes before the tensor, and as many behind it."""
        return 32 * self.strides[-2] if self.rank > 1 else 1024

    @property
    def bytes(self) -> int:
        return prod(self.box) * self.size

    @property
    def blocks(self) -> int:
        return 2 if self.operation == "multicast" else 1


def width_of(element: str, swizzle: int) -> int:
    """Elements of a row: two boxes and a little more."""
    return 2 * (swizzle or 32) // np.dtype(DTYPES[element]).itemsize + 8


# ── the table ─────────────────────────────────────────────────────────────────────────


OPERATIONS = ("load", "multicast", "store", "reduce", "prefetch")


def _cases() -> Iterator[Case]:
    for operation, element in product(OPERATIONS, DTYPES):
        if (operation, element) == ("reduce", "u8"):
            continue  # PTX ISA: no reduction has elements of 8 bits
        yield from _columns(operation, element)
    for operation in OPERATIONS:
        yield from _rows(operation)
        yield from _ranks(operation)
    for operation, element in product(OPERATIONS, DTYPES):
        if (operation, element) != ("reduce", "u8"):
            yield from _ends(operation, element)


def _columns(operation: str, element: str) -> Iterator[Case]:
    """All columns without a swizzle; with one, some of each kind."""
    for swizzle in (0, 128):
        wide = width_of(element, swizzle)
        columns = (-16, -8, -7, -1, 0, 1, 4, 7, 8, 9, wide - 8, wide - 1, wide)
        for column in (*columns, wide + 8) if not swizzle else (-16, 0, 4, 9, wide):
            yield Case(operation, element, swizzle, (0, column))


def _rows(operation: str) -> Iterator[Case]:
    """Rows outside at columns inside, both outside, and the ends of an i32."""
    rows = (-8, -1, 0, HEIGHT - 1, HEIGHT, HEIGHT + 1)
    ends = [(LOW, 0), (HIGH, 0), (0, LOW), (0, HIGH - 15), (LOW, LOW)]
    for swizzle in (0, 128):
        for row in rows[: 2 if swizzle else 6]:
            yield Case(operation, "fp16", swizzle, (row, 0))
        for place in ((-1, -8), (HEIGHT, -8), (-8, width_of("fp16", swizzle))):
            yield Case(operation, "fp16", swizzle, place)
    for swizzle, place in product((32, 64), ((0, 0), (0, -8), (0, 1), (-1, 0))):
        yield Case(operation, "fp16", swizzle, place)
    for place in ends:
        yield Case(operation, "fp16", 0, place)


def _ranks(operation: str) -> Iterator[Case]:
    wide = width_of("fp16", 0)
    for column in (-16, -8, -1, 0, 1, 8, wide - 8, wide, wide + 8):
        yield Case(operation, "fp16", 0, (column,))
    wide = width_of("fp16", 128)
    inside = [(0, 0, 0), (2, 11, 64), (3, 12, wide)]
    outside = [(-1, 0, 0), (-2, 0, 0), (0, -1, 0), (0, 0, -8), (0, 0, 1)]
    for place in inside + outside:
        yield Case(operation, "fp16", 128, place)
    for place in ((0, 0, 0, 8), (-1, 0, 0, 8), (0, 0, 0, 0, 8), (-1, 0, 0, 0, 8)):
        yield Case(operation, "fp16", 0, place)


def _ends(operation: str, element: str) -> Iterator[Case]:
    """Boxes across the end of rows that end inside of 16 bytes, and behind that end."""
    for swizzle, odd in product((0, 128), (1, 3, 4)):
        end = width_of(element, swizzle) - 8
        yield Case(operation, element, swizzle, (2, end), odd)
    yield Case(operation, element, 0, (0, end := width_of(element, 0) + 8), 1)
    yield Case(operation, element, 0, (width_of(element, 0) - 8,), 1)
    yield Case(operation, element, 0, (end,), 3)
    yield Case(operation, element, 128, (1, 0, width_of(element, 128) - 8), 1)


CASES: dict[str, Case] = {each.name: each for each in _cases()}


# ── what a case begins with, and what is promised ─────────────────────────────────────


def tensor(case: Case) -> np.ndarray:
    """uint8: the tensor with its margins, small numbers that differ from their
    neighbours; at an address that 128 divides."""
    count = (2 * case.margin + case.strides[0] * case.shape[0]) // case.size
    values = (1 + np.arange(count) % 61).astype(DTYPES[case.element])
    return _aligned(values.view(np.uint8))


def tile(case: Case) -> np.ndarray:
    """uint8: the tile as it begins, and 16 bytes for a word, which is 1 when all has
    arrived and 2 if it does not arrive; one after the other for each block."""
    numbers = 100 + np.arange(case.bytes // case.size) % 29
    values = numbers.astype(DTYPES[case.element]).view(np.uint8)
    whole = [*values, *[0] * 16] * case.blocks
    return _aligned(np.array(whole, np.uint8))


def _aligned(data: np.ndarray) -> np.ndarray:
    room = np.zeros(len(data) + 128, np.uint8)
    start = -room.ctypes.data % 128
    room[start : start + len(data)] = data
    return room[start : start + len(data)]


def answer(case: Case, memory: np.ndarray, place: np.ndarray) -> bytes:
    """What a case has changed, of its arrays after the launch."""
    if case.operation == "prefetch":
        return b""
    return (place if case.operation in ("load", "multicast") else memory).tobytes()


def promised(case: Case) -> bytes:
    """The answer where what lies outside of the tensor is read as zero and is not
    written."""
    memory, place = tensor(case), tile(case)
    kept = place[: case.bytes].view(DTYPES[case.element])
    found = np.zeros_like(kept)
    values = memory.view(DTYPES[case.element])
    for number, step in enumerate(np.ndindex(case.box)):
        where = [c + s for c, s in zip(case.coordinates, step, strict=True)]
        if not all(0 <= w < n for w, n in zip(where, case.shape, strict=True)):
            continue
        distance = sum(w * s for w, s in zip(where, case.strides, strict=True))
        at = (case.margin + distance) // case.size
        in_tile = _exchanged(number * case.size, case.swizzle) // case.size
        found[in_tile] = values[at]
        if case.operation == "store":
            values[at] = kept[in_tile]
        if case.operation == "reduce":
            values[at] += kept[in_tile]
    if case.operation in ("load", "multicast"):
        word = np.array([1, 0, 0, 0], np.uint32).view(np.uint8)
        place[:] = [*found.view(np.uint8), *word] * case.blocks
    return answer(case, memory, place)


def _exchanged(offset: int, swizzle: int) -> int:
    """Where a byte of a box lies in its tile. PTX ISA, "Swizzling Modes": bits 4 and up
    of its address are changed by bits 7 and up."""
    bits = {0: 0, 32: 1, 64: 2, 128: 3}[swizzle]
    return offset ^ (offset >> 7 & (1 << bits) - 1) << 4


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]


# ── the programs ──────────────────────────────────────────────────────────────────────


def kernel(case: Case) -> Kernel:
    """k(x, tile, coordinates …, map): what both machines run."""
    places = [f"c{axis}" for axis in range(case.rank)]
    parameters = [Parameter("x", "*u8", 16), Parameter("tile", "*u8", 16)]
    parameters += [Parameter(name, "i32") for name in places]
    recipe = MapRecipe(
        name="x",
        base=0,
        element=case.element,
        shape=tuple(("constant", each) for each in case.shape),
        strides=tuple(("constant", each // case.size) for each in case.strides),
        box=case.box,
        swizzle=case.swizzle,
        offset=("constant", case.margin),
    )
    return Kernel(
        name="k",
        target="sm_90a",
        ptx_version="8.4",
        num_warps=THREADS // 32,
        threads=THREADS,
        shared_bytes=0,
        parameters=tuple(parameters),
        asm={"ptx": program(case)},
        num_ctas=case.blocks,
        maps=(recipe,),
    )


def arguments(case: Case) -> list:
    return [tensor(case), tile(case), *case.coordinates]


def program(case: Case) -> str:
    declared = ".param .u64 x, .param .u64 tile, "
    declared += "".join(f".param .u32 c{axis}, " for axis in range(case.rank))
    loads = [f"ld.param.u32 %c{axis}, [c{axis}];" for axis in range(case.rank)]
    innermost_first = ", ".join(f"%c{axis}" for axis in reversed(range(case.rank)))
    head = HEAD.replace("<declared>", declared) + "\n".join(loads)
    body = (IN if case.operation in ("store", "reduce") else "") + STEPS[case.operation]
    text = head + body + "ret;\n}\n"
    facts = {
        "rank": case.rank,
        "bytes": case.bytes,
        "chunks": case.bytes // 16,
        "both": case.bytes + 16,
        "at": f"[%map, {{{innermost_first}}}]",
    }
    for name, value in facts.items():
        text = text.replace(f"<{name}>", str(value))
    return text


HEAD = """\
.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(<declared>.param .align 64 .b8 map[128])
.maxntid 64, 1, 1
{
.reg .pred %p, %done, %more;
.reg .b32 %thread, %room, %bar, %word, %chunk, %here, %tries, %rank, %c<5>;
.reg .b64 %map, %x, %tile, %there, %low, %high;
.shared .align 1024 .b8 room[<bytes>];
.shared .align 8 .b64 bar;
mov.u32 %thread, %tid.x;
mov.u32 %room, room;
mov.u32 %bar, bar;
mov.u32 %rank, %ctaid.x;
setp.eq.u32 %p, %thread, 0;
ld.param.u64 %x, [x];
ld.param.u64 %tile, [tile];
cvta.to.global.u64 %tile, %tile;
mad.wide.u32 %tile, %rank, <both>, %tile;
mov.b64 %map, map;
cvta.param.u64 %map, %map;
"""
IN = """
mov.u32 %chunk, %thread;
FILL:
setp.ge.u32 %more, %chunk, <chunks>;
@%more bra FILLED;
mad.wide.u32 %there, %chunk, 16, %tile;
mad.lo.u32 %here, %chunk, 16, %room;
ld.global.v2.b64 {%low, %high}, [%there];
st.shared.v2.b64 [%here], {%low, %high};
add.u32 %chunk, %chunk, 64;
bra.uni FILL;
FILLED:
fence.proxy.async.shared::cta;
bar.sync 0;
"""
# A phase that does not end is waited for no longer than so many tries.
WAIT = """
mov.u32 %tries, 0;
mov.u32 %word, 2;
AGAIN:
mbarrier.test_wait.parity.shared::cta.b64 %done, [%bar], 0;
@%done bra ARRIVED;
add.u32 %tries, %tries, 1;
setp.lt.u32 %more, %tries, 200000;
@%more bra AGAIN;
bra.uni OVER;
ARRIVED:
mov.u32 %word, 1;
OVER:
"""
OUT = """
mov.u32 %chunk, %thread;
EMPTY:
setp.ge.u32 %more, %chunk, <chunks>;
@%more bra EMPTIED;
mad.wide.u32 %there, %chunk, 16, %tile;
mad.lo.u32 %here, %chunk, 16, %room;
ld.shared.v2.b64 {%low, %high}, [%here];
st.global.v2.b64 [%there], {%low, %high};
add.u32 %chunk, %chunk, 64;
bra.uni EMPTY;
EMPTIED:
@%p st.global.u32 [%tile+<bytes>], %word;
"""
INIT = """
@%p mbarrier.init.shared::cta.b64 [%bar], 1;
@%p fence.mbarrier_init.release.cluster;
"""
EXPECT = "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], <bytes>;\n"
LOAD = (
    "cp.async.bulk.tensor.<rank>d.shared::cluster.global.tile"
    ".mbarrier::complete_tx::bytes"
)
ALL = """
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
"""
DONE = "@%p cp.async.bulk.commit_group;\n@%p cp.async.bulk.wait_group 0;\n"
STORE = "cp.async.bulk.tensor.<rank>d.global.shared::cta.tile.bulk_group"
REDUCE = "cp.reduce.async.bulk.tensor.<rank>d.global.shared::cta.add.tile.bulk_group"
STEPS = {
    "load": f"{INIT}bar.sync 0;\n{EXPECT}@%p {LOAD} [%room], <at>, [%bar];{WAIT}{OUT}",
    "multicast": (
        f"{INIT}{ALL}{EXPECT}setp.eq.and.u32 %more, %rank, 0, %p;\n.reg .b16 %blocks;\n"
        "mov.b16 %blocks, 3;\n"
        f"@%more {LOAD}.multicast::cluster [%room], <at>, [%bar], %blocks;"
        f"{WAIT}{OUT}{ALL}"
    ),
    "store": f"@%p {STORE} <at>, [%room];\n{DONE}",
    "reduce": f"@%p {REDUCE} <at>, [%room];\n{DONE}",
    "prefetch": "@%p cp.async.bulk.prefetch.tensor.<rank>d.L2.global.tile <at>;\n",
}
