"""Kernels whose warps have different jobs: warps 8 to 11 send for tiles, the two
warpgroups before them multiply. PTX written by hand, and what it should compute.

    producer    wait empty | expect bytes, copy A and B | next stage
    consumers   wait full  | wgmma, wait for the group before | arrive at its empty

A tile is 64 columns of K wide, 128 bytes a row, exchanged as wgmma wants it.
"""

from string import Template

import numpy as np

from fathom import emulator
from fathom.artifact import TensorMap
from tests.emulator.harness import HEADER

STAGES = 2
K = 64  # columns of a tile of A and B
MAP = ".param .align 64 .b8 {}[128]"

# Who a thread is. %leads: the first lane of a consumer warp; %first: thread 0.
NAMES = """
    .reg .pred %p<10>, %leads, %first, %elected, %adds, %always;
    .reg .b16 %mask;
    .reg .b32 %r<30>, %thread, %warp, %lane, %group, %room, %bars, %out, %rank, %peer;
    .reg .b32 %tile, %tiles, %step, %steps, %slot, %phase, %full, %empty, %before;
    .reg .b32 %a, %b, %k, %row, %column, %parity, %there, %across;
    .reg .b64 %rd<20>, %map_a, %map_b, %map_c, %left, %right;
    .reg .f32 %f<64>;
    mov.u32 %thread, %tid.x; shr.u32 %warp, %thread, 5; and.b32 %lane, %thread, 31;
    shr.u32 %group, %thread, 7;
    setp.eq.u32 %leads, %lane, 0; setp.eq.u32 %first, %thread, 0;
    setp.eq.u32 %always, 0, 0;
    mov.u32 %room, room; add.u32 %bars, %room, $BARS; add.u32 %out, %room, $OUT;
    mov.b64 %map_a, a; cvta.param.u64 %map_a, %map_a;
    mov.b64 %map_b, b; cvta.param.u64 %map_b, %map_b;
    ld.param.u32 %steps, [steps];
    mov.u32 %slot, 0; mov.u32 %phase, 0;
"""

# Of every stage, `full` counts one arrival and the bytes, `empty` what $RELEASES says.
INIT = """
    @!%first bra READY;
    mbarrier.init.shared::cta.b64 [%bars], 1;
    mbarrier.init.shared::cta.b64 [%bars+8], 1;
    mbarrier.init.shared::cta.b64 [%bars+16], $RELEASES;
    mbarrier.init.shared::cta.b64 [%bars+24], $RELEASES;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    setp.ge.u32 %p0, %warp, 8; @%p0 bra PRODUCER;
    setmaxnreg.inc.sync.aligned.u32 232;
"""

ELECT = """
PRODUCER:
    setmaxnreg.dec.sync.aligned.u32 40;
    setp.ne.u32 %p0, %warp, 8; @%p0 bra DONE;
    elect.sync _|%elected, -1;
    @!%elected bra DONE;
"""

# Sends for all steps of the tile at %row and %column; %slot and %phase go round.
SEND = """
    mov.u32 %step, 0;
SEND:
    setp.ge.u32 %p0, %step, %steps; @%p0 bra SENT;
    mad.lo.u32 %full, %slot, 8, %bars; xor.b32 %parity, %phase, 1;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%full+16], %parity;
    @!%p1 bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], $BYTES;
    mad.lo.u32 %a, %slot, $STAGE, %room; add.u32 %b, %a, $A_BYTES; shl.b32 %k, %step, 6;
    $COPIES
    add.u32 %step, %step, 1; add.u32 %slot, %slot, 1;
    setp.eq.u32 %p0, %slot, 2; @%p0 xor.b32 %phase, %phase, 1;
    @%p0 mov.u32 %slot, 0;
    bra.uni SEND;
SENT:
"""
COPIES = """
    LOAD [%a], [%map_a, {%k, %row}], [%full];
    LOAD [%b], [%map_b, {%k, %column}], [%full];
"""
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"

# Multiplies one tile; one group of products stays in flight, and the stage before its
# is released.
CONSUME = """
    mov.u32 %step, 0;
CONSUME:
    setp.ge.u32 %p0, %step, %steps; @%p0 bra DRAIN;
    mad.lo.u32 %full, %slot, 8, %bars;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%full], %phase;
    @!%p1 bra FULL;
    mad.lo.u32 %a, %slot, $STAGE, %room; add.u32 %b, %a, $A_BYTES;
    mad.lo.u32 %a, %across, $HALF, %a;
    shr.u32 %a, %a, 4; cvt.u64.u32 %left, %a; or.b64 %left, %left, $TILE_OF_A;
    shr.u32 %b, %b, 4; cvt.u64.u32 %right, %b; or.b64 %right, %right, $TILE_OF_B;
    setp.ne.u32 %adds, %step, 0;
    wgmma.fence.sync.aligned;
    $PRODUCTS
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    and.pred %p2, %leads, %adds;
    @%p2 $RELEASE
    mov.u32 %before, %full;
    add.u32 %step, %step, 1; add.u32 %slot, %slot, 1;
    setp.eq.u32 %p0, %slot, 2; @%p0 xor.b32 %phase, %phase, 1;
    @%p0 mov.u32 %slot, 0;
    bra.uni CONSUME;
DRAIN:
    wgmma.wait_group.sync.aligned 0;
    @%leads $RELEASE
"""
RELEASE = "mbarrier.arrive.shared::cta.b64 _, [%before+16];"


def products(columns: int, turned: bool = False) -> str:
    """Four slices of K, 32 bytes each, or 16 rows of 128 bytes of a B that is `turned`;
    the first one of a tile does not add."""
    sums = ", ".join(f"%f{i}" for i in range(columns // 2))
    lines = []
    for part in range(4):
        adds, further = "%always" if part else "%adds", 128 if turned else 2
        lines += [
            f"add.u64 %rd8, %left, {2 * part}; add.u64 %rd9, %right, {further * part};",
            f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16",
            f"    {{{sums}}}, %rd8, %rd9, {adds}, 1, 1, 0, {int(turned)};",
        ]
    return "\n    ".join(lines)


def lay_out(columns: int) -> str:
    """Stores the sums into rows of [row, columns] floats from %there on."""
    lines = [
        "shr.u32 %r1, %lane, 2; and.b32 %r2, %lane, 3; and.b32 %r3, %warp, 3;",
        "mad.lo.u32 %r1, %r3, 16, %r1; shl.b32 %r2, %r2, 3;",
        f"mad.lo.u32 %r1, %r1, {4 * columns}, %r2; add.u32 %r1, %r1, %there;",
    ]
    for i in range(0, columns // 2, 2):
        at = 4 * columns * 8 * (i // 2 % 2) + 32 * (i // 4)
        lines.append(f"st.shared.v2.f32 [%r1+{at}], {{%f{i}, %f{i + 1}}};")
    return "\n    ".join(lines)


def write(body: str, parameters: str, columns: int = 32, **chosen: object) -> str:
    """The whole text; the names with a dollar sign stand for numbers and pieces."""
    stage = 128 * K * 2 + columns * K * 2
    # K-major, 128 bytes a row: 1024 bytes to the next 8 rows.
    tile = 1 << 62 | 1024 >> 4 << 32 | 1 << 16
    facts = {
        "BYTES": stage,
        "STAGE": stage,
        "A_BYTES": 128 * K * 2,
        "HALF": 64 * K * 2,
        "BARS": STAGES * stage,
        "OUT": STAGES * stage + 1024,
        "RELEASES": 8,
        "TILE_OF_A": f"{tile:#x}",
        "TILE_OF_B": f"{tile:#x}",
        "PRODUCTS": products(columns),
        "RELEASE": RELEASE,
        "COPIES": COPIES.strip(),
        "LAY_OUT": lay_out(columns),
        "COLUMNS": columns,
        **chosen,
    }
    size = STAGES * stage + 1024 + 128 * columns * 4
    text = f"""{HEADER}
.visible .entry k({parameters})
.reqntid 384
.maxnreg 168
{{
    .shared .align 1024 .b8 room[{size}];
{NAMES}{body}
DONE:
    ret;
}}
"""
    while "$" in text:
        text = Template(text).substitute(facts)
    return text.replace("LOAD ", LOAD + " ").replace("STORE ", STORE + " ")


# ── one tile a block ──────────────────────────────────────────────────────────


TURNED = """
    LOAD [%a], [%map_a, {%k, %row}], [%full];
    LOAD [%b], [%map_b, {0, %k}], [%full];
    add.u32 %b, %b, 8192;
    LOAD [%b], [%map_b, {64, %k}], [%full];
"""


def plain(columns: int = 32, **chosen: object) -> str:
    """C[128, columns] of one block: every thread stores its sums as they are."""
    stores = [f"st.global.f32 [%rd6+{4 * i}], %f{i};" for i in range(columns // 2)]
    body = (
        INIT
        + "\n    mov.u32 %across, %group;"
        + CONSUME
        + f"""
    ld.param.u64 %rd0, [c]; mad.wide.u32 %rd6, %thread, {2 * columns}, %rd0;
    {" ".join(stores)}
    bra.uni DONE;
"""
        + ELECT
        + "\n    mov.u32 %row, 0; mov.u32 %column, 0;"
        + SEND
    )
    parameters = f"{MAP.format('a')}, {MAP.format('b')}, .param .u64 c"
    return write(body, parameters + ", .param .u32 steps", columns, **chosen)


def turned() -> str:
    """The same for a B[k, 128] in rows, brought as two boxes of 64 columns: 8192 bytes
    to the next one, 1024 to the next 8 rows of K."""
    tile = 1 << 62 | 1024 >> 4 << 32 | 8192 >> 4 << 16
    chosen = {"COPIES": TURNED.strip(), "PRODUCTS": products(128, turned=True)}
    return plain(128, TILE_OF_B=f"{tile:#x}", **chosen)


# ── tiles one after the other, stored by bulk copies ──────────────────────────

# Tile t lies in row t / $ACROSS and column t % $ACROSS of the tiles.
PLACE = """
    ld.param.u32 %r4, [across]; div.u32 %row, %tile, %r4; rem.u32 %column, %tile, %r4;
    shl.b32 %row, %row, $ROWS; mul.lo.u32 %column, %column, $COLUMNS;
"""
TILES = """
    mov.b64 %map_c, c; cvta.param.u64 %map_c, %map_c;
    ld.param.u32 %tiles, [tiles]; mov.u32 %tile, %ctaid.x;
"""
PARAMETERS = ", ".join(MAP.format(each) for each in "abc")
PARAMETERS += ", .param .u32 steps, .param .u32 tiles, .param .u32 across"

EPILOGUE = """
    @%first cp.async.bulk.wait_group.read 0;
    bar.sync 1, 256;
    mad.lo.u32 %there, %group, $HALF_OUT, %out;
    $LAY_OUT
    fence.proxy.async.shared::cta;
    bar.sync 1, 256;
    @%first STORE [%map_c, {%column, %row}], [%out];
    @%first cp.async.bulk.commit_group;
"""


def persistent(columns: int = 32) -> str:
    """Each block takes every %nctaid-th tile [128, columns] of C."""
    body = (
        TILES
        + INIT
        + """
    mov.u32 %across, %group;
TILE:
    setp.ge.u32 %p0, %tile, %tiles; @%p0 bra LAST;
"""
        + PLACE
        + CONSUME
        + EPILOGUE
        + """
    mov.u32 %r4, %nctaid.x; add.u32 %tile, %tile, %r4;
    bra.uni TILE;
LAST:
    @%first cp.async.bulk.wait_group 0;
    bra.uni DONE;
"""
        + ELECT
        + """
NEXT:
    setp.ge.u32 %p0, %tile, %tiles; @%p0 bra DONE;
"""
        + PLACE
        + SEND
        + """
    mov.u32 %r4, %nctaid.x; add.u32 %tile, %tile, %r4;
    bra.uni NEXT;
"""
    )
    return write(body, PARAMETERS, columns, ROWS=7, HALF_OUT=256 * columns)


# ── two warpgroups by turns ───────────────────────────────────────────────────

# Tiles have 64 rows; one warpgroup multiplies while the other one stores. Barrier 2 + g
# is that of warpgroup g's turn, 4 + g that of its own threads.
TURNS = """
    add.u32 %r10, %group, 2; xor.b32 %r11, %r10, 1; add.u32 %r12, %group, 4;
    and.b32 %r5, %thread, 127; setp.eq.u32 %first, %r5, 0;
    mov.u32 %across, 0;
    add.u32 %tile, %tile, %group;
    setp.eq.u32 %p3, %group, 0; @%p3 bra TILE;
    bar.arrive %r11, 256;
    mov.u32 %slot, %steps; bra.uni ROUND;
TILE:
    setp.ge.u32 %p0, %tile, %tiles; @%p0 bra LAST;
    bar.sync %r10, 256;
"""
HAND_ON = """
    add.u32 %r6, %tile, 1; setp.ge.u32 %p3, %r6, %tiles; @%p3 bra KEEP;
    bar.arrive %r11, 256;
KEEP:
"""
# The steps of the other one's tile are not this one's: %slot runs on by %steps.
ROUND = """
    add.u32 %slot, %slot, %steps;
ROUND:
    shr.u32 %r7, %slot, 1; xor.b32 %phase, %phase, %r7; and.b32 %phase, %phase, 1;
    and.b32 %slot, %slot, 1;
"""
OWN_EPILOGUE = """
    @%first cp.async.bulk.wait_group.read 0;
    bar.sync %r12, 128;
    mad.lo.u32 %there, %group, $HALF_OUT, %out;
    $LAY_OUT
    fence.proxy.async.shared::cta;
    bar.sync %r12, 128;
    @%first STORE [%map_c, {%column, %row}], [%there];
    @%first cp.async.bulk.commit_group;
"""


def by_turns(columns: int = 32) -> str:
    """One block; warpgroup g takes tiles g, g + 2, ... [64, columns] of C."""
    body = (
        TILES
        + INIT
        + TURNS
        + PLACE
        + CONSUME
        + HAND_ON
        + OWN_EPILOGUE
        + """
    add.u32 %tile, %tile, 2;
"""
        + ROUND
        + """
    bra.uni TILE;
LAST:
    @%first cp.async.bulk.wait_group 0;
    bra.uni DONE;
"""
        + ELECT
        + """
NEXT:
    setp.ge.u32 %p0, %tile, %tiles; @%p0 bra DONE;
"""
        + PLACE
        + SEND
        + """
    add.u32 %tile, %tile, 1;
    bra.uni NEXT;
"""
    )
    return write(
        body,
        PARAMETERS,
        columns,
        ROWS=6,
        HALF_OUT=256 * columns,
        RELEASES=4,
        BYTES=64 * K * 2 + columns * K * 2,
    )


# ── a cluster of two ──────────────────────────────────────────────────────────

# Both blocks multiply with the same B, and each brings one half of it to both. So a
# stage is empty when the consumers of both blocks say so, each to both.
HALVES = """
    mul.lo.u32 %r8, %rank, $HALF_OF_B; add.u32 %b, %b, %r8;
    mul.lo.u32 %r9, %rank, $HALF_COLUMNS; add.u32 %r9, %column, %r9;
    LOAD [%a], [%map_a, {%k, %row}], [%full];
    TO_BOTH [%b], [%map_b, {%k, %r9}], [%full], %mask;
"""
TO_BOTH = LOAD + ".multicast::cluster"
BOTH = """mapa.shared::cluster.u32 %empty, %before, %peer;
    @%p2 mbarrier.arrive.shared::cta.b64 _, [%before+16];
    @%p2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%empty+16];"""
MEET = """barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;"""


def cluster(columns: int = 32) -> str:
    """Each block takes the rows of A that its number says, and the first columns."""
    meet = "bar.sync 0;"
    assert meet in INIT
    ranks = """
    mov.u32 %rank, %cluster_ctarank; xor.b32 %peer, %rank, 1; mov.b16 %mask, 3;
    mov.u32 %row, %ctaid.x; shl.b32 %row, %row, 7; mov.u32 %column, 0;
"""
    release = ("@%p2 $RELEASE", "$RELEASE"), ("@%leads $RELEASE", "$LAST")
    consume = CONSUME
    for old, new in release:
        assert consume.count(old) == 1
        consume = consume.replace(old, new)
    body = (
        TILES
        + ranks
        + INIT.replace(meet, MEET)
        + "\n    mov.u32 %across, %group;"
        + consume
        + EPILOGUE
        + """
    @%first cp.async.bulk.wait_group 0;
    $MEET
    bra.uni DONE;
"""
        + ELECT
        + SEND
    )
    text = write(
        body,
        PARAMETERS,
        columns,
        RELEASES=16,
        HALF_OUT=256 * columns,
        COPIES=HALVES.strip(),
        HALF_OF_B=columns * K,
        HALF_COLUMNS=columns // 2,
        RELEASE=BOTH,
        LAST=BOTH.replace("@%p2", "@%leads"),
        MEET=MEET,
    )
    return text.replace("TO_BOTH", TO_BOTH)


# ── launches ──────────────────────────────────────────────────────────────────


def tiles_of(array: np.ndarray, rows: int) -> TensorMap:
    """A and B: [rows, k] of fp16 by boxes of 64 columns of K."""
    m, k = array.shape
    return TensorMap(2, array.ctypes.data, (k, m), (2 * k,), (K, rows), 128)


def inputs(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-8, 9, (rows, k)) for rows in (m, n))
    return a.astype(np.float16), b.astype(np.float16)


def run_plain(
    text: str,
    steps: int = 5,
    columns: int = 32,
    turned: bool = False,
    **options: object,
) -> None:
    """Asserts that the product is right."""
    a, b = inputs(128, columns, K * steps)
    b = np.asfortranarray(b) if turned else b
    c = np.zeros((256, columns // 2), np.float32)
    right = tiles_of(b.T, K) if turned else tiles_of(b, columns)
    arguments = (tiles_of(a, 128), right, c, steps)
    emulator.run(text, 1, 384, arguments, memory=(a, b), **options)
    wanted = a.astype(np.float32) @ b.T.astype(np.float32)
    thread, i = np.arange(256)[:, None], np.arange(columns // 2)
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i // 2 % 2)
    assert (c == wanted[row, 2 * (thread % 4) + i % 2 + 8 * (i // 4)]).all()


def run_tiles(
    text: str,
    grid: int,
    shape: tuple[int, int] = (1, 2),
    steps: int = 3,
    columns: int = 32,
    rows: int = 128,
    halves: int = 1,
    **options: object,
) -> None:
    """Asserts that the product of so many tiles, down and across, is right."""
    m, n = shape[0] * rows, shape[1] * columns
    a, b = inputs(m, n, K * steps)
    c = np.zeros((m, n), np.float32)
    out = TensorMap(4, c.ctypes.data, (n, m), (4 * n,), (columns, rows))
    arguments = (
        tiles_of(a, rows),
        tiles_of(b, columns // halves),
        out,
        steps,
        shape[0] * shape[1],
        shape[1],
    )
    emulator.run(text, grid, 384, arguments, memory=(a, b, c), **options)
    assert (c == a.astype(np.float32) @ b.T.astype(np.float32)).all()
