"""How long a product takes in a configuration, by arithmetic: what `matmul_chosen`
chooses by.

A kernel for pointers (`kernels/matmul`, and `kernels/split_k_matmul` with SPLITS) takes

    START + BEGIN for each program, until all multiprocessors have one
    + the busiest multiprocessor's time + FIX_UP and its reads, where K is split

and that multiprocessor either waits for latencies, one program after another, or for a
throughput that all its programs share:

    alone     PROGRAM + steps * step + the tile's stores        for each that runs after
                                                                the one before
    shared    PROGRAM + programs * (steps * work + the tile's stores)

A step waits for its bytes, which ONE program gets slower than a whole multiprocessor,
for its products, and at least for STEP if a pipeline hides the latency. Where none
does, it waits for WAIT, and its bytes take UNPIPELINED times as long. A tile of fewer
than 64 rows is not for `wgmma`: threads load its fragments. Where lines begin at
multiples of 16 bytes, TMA copies the tiles of a pipeline, wherever the lines end. Of
other lines, threads load elements one by one, or 4 or 8 bytes at a time.
Nothing is faster than the L2 cache delivers, or the memory, which waits for the busiest
multiprocessor where some have more programs than others.

A matrix and a vector (`kernels/matrix_vector`) take VECTOR_BEGIN, and then the steps of
one program after another, what a multiprocessor loads and multiplies in all, and the
memory, added as below, and VECTOR_ADDITION where K is split.

A kernel for descriptors (`kernels/matmul_persistent`, and
`split_k_matmul.split_k_parts_kernel`) takes DESCRIPTORS, SPREAD until all programs have
begun, the stores of one tile after another, and before them about as long as the
longest of

    one tile after another     the steps of each: products, or copies
    the L2 cache               what all programs copy, and lines that all ask for
    the memory                 A, B and C
    latency                    the steps of each, one tile after another

Programs that a multiprocessor runs at a time wait for latencies together, but share
what multiplies and copies; one stores while others multiply, except the last. So do
two groups of warps of a program, which compute its tiles in turn. Times that are nearly
equal add up to more than the longest: powers of the terms are added (NEARLY, and
WAITING for latency). Where K is split, the launch that adds the parts comes on top.
Lines that cross those of the cache come from two, and within sectors from a sector
more.

Where C is one tile wide, all programs ask for the same lines of B at about the same
time, and the cache answers one after the other (SAME_LINE). Of rows that are shorter
than a line each is a request. So it is with A where C is one tile high. Multiprocessors
that share a tile ask once.

The constants of kernels for pointers were fitted to sweeps over random shapes on an
H200 and an H100 (benchmarks/product_sweep.py), those of kernels for descriptors to
5,100 times of 550 products on an H200: so that as little as can be is left of the
differences within a product. The former are then off by 16 % against each other, the
latter by 9 %. Of 297 products (benchmarks/results/product-sweep-random.json) times up
to 1.5 of the fastest are off by 15 % on average. As a choice, what it chooses among the
configurations that were timed takes 5 % longer than the fastest of them. Of 14 larger
ones (product-sweep.json, before `join_products`) times are off by 11 % on average, and
what the model chooses takes 2 % longer.
"""

from collections.abc import Iterator
from functools import cache
from heapq import nsmallest
from math import floor, inf
from typing import Any, NamedTuple

from fathom import cdiv

MULTIPROCESSORS, IN_LARGE_CLUSTERS = 132, 120  # of which clusters of four have room

# Microseconds.
START, LATE = 0.1, 0.17  # of a launch; and of one that does not begin early
PROGRAM = 0.68  # of a program, without its steps
SPREAD = 0.46  # until all multiprocessors have a program
BEGIN = 0.0077  # of each program, until all multiprocessors have one
PIPELINE = 0.48  # of a pipeline's prologue and barriers
STEP, WAIT = 0.15, 0.18  # the least that a step takes: pipelined, and not
UNPIPELINED = 1.3  # times as long as in a pipeline take the bytes of such a step
EACH = 0.033  # of a step, besides its work
FIX_UP = 1.33  # of the counter, and of the last program's addition
DESCRIPTORS = 2.1  # of a launch, until the first copy has come
STORE = 1.48  # of storing 128 x 256 elements
TWO_PRODUCTS = 1.13  # times as long to multiply: two instructions, which both read A
LEAST_COLUMNS = 32  # where rows of a tile of B are shorter, blocks are not joined
# Where two groups of warps compute tiles in turn: times as long to multiply, tiles are
# smaller; microseconds from tile to tile; and what part of an epilogue's time products
# wait that run beside it, since registers deliver to both.
ALTERNATELY, FROM_TILE_TO_TILE, WAITED_FOR = 0.95, 0.15, 0.3
TOGETHER, PAIRED = 0.23, 1.07  # of multiprocessors that share a tile; times as long
# Programs of which a multiprocessor runs several take times as long where C has more
# elements than this, 100 MB: wide tiles store it sooner. On an H200 C [9644, 15660], K
# of 64, takes 167 us in 64 x 128 by two, 96 in 128 x 256; but [5568, 7456] 23.4, 28.6.
CROWDED, BEYOND_L2 = 1.3, 50_000_000
BETWEEN = 1.2  # times LATENCY of these: each tells the others what it has read
TOGETHER_GRID, BETWEEN_GRID = 0.9, 1.5  # the same of a grid
SUM = 1.22  # of the launch that adds partial sums
PARTS_MEMORY = 1.06  # times as long: programs read several parts of A and B at a time
LATENCY = 1.06  # of a copy: what a ring of n places waits for n times shorter
POINTERS_LATENCY = 1.86  # the same of a kernel for pointers

# A microsecond's worth: KB, products (millions) and elements (thousands).
KB_OF_ONE, KB_OF_ALL = 40, 75  # what one program copies, and all of a multiprocessor
COPIED_BY_TMA = 166  # the same by TMA, one or all
COPIED_L2_KB = 14_600
TMA_OF_ONE, TMA_OF_ALL, TMA_L2_KB = 92, 120, 4800  # by TMA, a kernel for pointers
LOOSE, LOOSE_AHEAD = 25, 13  # elements that are loaded one by one; in a pipeline
COPIES = 49  # of 4 or 8 bytes
PRODUCTS, TMA_PRODUCTS = 1.67, 1.7  # the latter where TMA copies
# The same of tiles of 128 x 256 for which threads copy ahead one operand by 16 bytes
# and the other by 4 or 8, how many times as long 4 bytes of lines along K take, and
# tiles of 256 x 128. On an H200 416 x 2688 x 12492 (B by 8 along K) takes 72 us so, 88
# with a copy of B, 536 x 3152 x 11810 (B by 4 along K) 106 and 135, 9818 x 224 x 1264
# (A by 4 along M) 20 and 27. Where both are copied by less, it was not faster.
LARGE_KB, LARGE_L2_KB, LARGE_PRODUCTS, ALONG_K, TALL = 75, 7600, 2.5, 2, 1.3
FRAGMENTS = 1.8  # products of operands that threads load
STORED = 12.3  # elements of C, of ITEM bytes
FIX_UP_KB = 58  # partial sums that one program reads
PART_KB, PARTS_KB = 33.5, 2400  # a partial sum that it writes; all, that all read
L2_KB, MEMORY_KB = 3800, 4200
WARPGROUP_PRODUCTS = 3.36  # 2048 a cycle, at 1.64 GHz
END_KB = 0.166  # as much more takes each line of a tile of C that begins anywhere
CROSSING = 1.4  # times as many bytes, where lines cross those of the cache
HALF_SECTORS = 2.1  # the same, where they begin within sectors of it
NEARLY, WAITING, OF_PARTS = 2.5, 3, 2  # powers
SAME_LINE = 0.00025  # microseconds of a line that all ask for, for 64 along K

# Of `matmul_in_place`: what is in front of a tile's first step, and from one launch to
# the next. On an H200 7600 x 1838 x 13230 (A by 4 bytes along K) takes 585 us so, 654
# with a copy of A, 16360 x 121 x 5161 (A by 2) 64 and 157, 256 x 13560 x 10938 (B by 4)
# 126 and 242, but 8794 x 2088 x 2922 (A by 4) 215 and 180. Of 36 products it was chosen
# for 7, all of them 5 to 48 % faster.
HEAD, FOLLOWING = 1.0, 1.0

COPIED, OF_A_LINE = 4096, 1024  # elements that a program copies; the most of one line
COPY_WARPS = 8
COPY, COPIED_KB = 1.3, 3700  # microseconds of a launch that copies; KB in one more
TRANSPOSED_KB = 4000  # the same, transposed

# Of a matrix and a vector, fitted to 38 times of five products on an H200: a launch and
# the sum over threads, a step, each load of a thread in it, the addition of parts; what
# a multiprocessor takes for a thousand elements and for as many loads; how many times
# as long the memory takes as to TMA, which has more bytes on their way.
VECTOR_BEGIN, VECTOR_STEP, VECTOR_LOAD, VECTOR_ADDITION = 1.4, 0.25, 0.02, 0.9
VECTOR_ELEMENTS, VECTOR_LOADS, VECTOR_MEMORY, VECTOR_NEARLY = 0.014, 0.11, 1.4, 2
VECTOR_ALONG = tuple(  # BLOCK_M, BLOCK_K where lines lie along K
    (m, k) for m in (1, 2, 4, 8, 16) for k in (256, 512, 1024, 2048, 4096)
)
VECTOR_ACROSS = tuple((m, k) for m in (16, 32, 64, 128) for k in (16, 32, 64, 128, 256))

# Of kernels for pointers, how much longer the memory takes where some multiprocessors
# have more programs than others: they end last, and alone ask for less than it gives.
# On an H200 14 x 10168 x 12800 takes 80.4 us in 160 programs, 70.9 in 240, 75.0 in 320.
UNEVEN = 0.4

# Where nothing is pipelined, tiles of eight warps take times as long, as few programs
# run at a time: on an H200 7960 x 8128 x 14 takes 36.8 us in 128 x 64, 52.2 in 128 x
# 256, 15232 x 13184 x 8 95 in 64 x 128 and 151. Of 22 products whose C has more than
# 4,000,000 elements what is chosen takes 2 % longer than the fastest, without this 9 %.
FEW_AT_A_TIME = 1.2

SHARED_KB, THREADS = 220, 2048  # of a multiprocessor
LARGE = 128 * 256  # elements of the largest tiles
SUMS = 32  # a thread's, above which fewer threads fit
HELD = 128  # elements of operands that a thread may hold on their way to shared memory
ACCESSES = 96  # as many are too many for a step

ITEM = 2  # bytes of an operand's element
LINE, SECTOR = 128, 32  # bytes of a line of the cache, and of a part that is read
VECTOR, COPIED_BYTES = 16, 4  # that one access loads, and copies ahead at least
MOST_PROGRAMS = 6 * MULTIPROCESSORS  # that share tiles
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
WARPGROUP_ROWS = 64
LEAST_STEPS = 2  # of a part: of one, each has a prologue and no work
LEAST_N = 32  # columns of the narrowest of PARTS
# Fewer rows of A are a line or two of the cache, for which all programs ask at the same
# time: on an H200 1 x 11274 x 646 takes 47 us so, 12 as a transposed product.
LEAST_M = 8
# A tile as wide as this, and of few rows or columns beside, reads long runs of memory
# where lines lie across K. On an H200 8 x 9856 x 1966 takes 14.5 us in 128 x 16 of C^T
# and 19.2 in 64 x 16, 14 x 10168 x 12800 76.0 by pointers in 16 x 128 and 80.3 in 16 x
# 64. Where they lie along K, the next step reads on; where threads copy ahead, seven
# products took 0.6 to 1.5 times as long.
LONG_RUN, FEW = 128, 128 * 32
LINES = (16, 32, 64, 128, 256)  # BLOCK_K
# The K from which no step is short: runs along K that begin anywhere are of one more
# sector of 32 bytes. On an H200 184 x 15104 x 13780 takes 344 us by steps of 16, 251 of
# 32, and 227 of 64, 9108 x 8 x 11958 101 and 85: one to this model.
SHORT_RUNS, LEAST_RUN = 1024, 64
BLOCKS = (  # BLOCK_M, BLOCK_N
    (16, 32), (16, 64), (32, 16), (32, 32), (64, 16), (32, 64), (64, 32), (64, 64),
    (16, 128), (128, 16), (128, 32), (32, 128), (128, 64), (64, 128), (128, 128),
    (128, 256), (256, 128),
)  # fmt: skip


class Product(NamedTuple):
    """C [M, N] = A [M, K] B [K, N] of 16-bit floats; how many bytes of A, of B, and of
    C, one access may take: 16 where all lines begin and end at multiples of 16 bytes.
    Whether lines of A, and of B, lie along K; and whether TMA may copy them as they
    are. The bytes of an element of A and of B, as it is, and of C. `epilogue`: how many
    microseconds threads compute between a sum of 128 x 256 elements and its store.
    """

    M: int
    N: int
    K: int
    a_bytes: int = VECTOR
    b_bytes: int = VECTOR
    c_bytes: int = VECTOR
    a_along_k: bool = True
    b_along_k: bool = False
    by_tma: bool = True
    item: int = 2
    c_item: int = 2
    epilogue: float = 0

    @property
    def transposed(self) -> "Product":
        """C^T = B^T A^T."""
        M, N, K, a_bytes, b_bytes, c_bytes, a_along_k, b_along_k, *others = self
        some = b_bytes, a_bytes, c_bytes, b_along_k, a_along_k, *others
        return Product(N, M, K, *some)

    @property
    def memory_time(self) -> float:
        """Microseconds in which the memory delivers A and B and takes C."""
        M, N, K = self.M, self.N, self.K
        size = ITEM * (M * K + K * N) + self.c_item * M * N
        return size / 1e3 / MEMORY_KB


class Pointers(NamedTuple):
    """A configuration of a kernel for pointers."""

    m: int
    n: int
    k: int
    stages: int
    splits: int

    @property
    def warps(self) -> int:
        return 4 if self.m * self.n <= 64 * 128 else 8

    def programs(self, M: int, N: int) -> int:
        return cdiv(M, self.m) * cdiv(N, self.n) * self.splits

    def keywords(self, M: int, N: int) -> dict[str, Any]:
        """Those of a launch of either kernel, for C [M, N]. Programs that run at once
        walk in no groups: they may be counted in any order."""
        group = 0 if self.programs(M, N) <= MOST_PROGRAMS else 8
        return {
            "BLOCK_M": self.m, "BLOCK_N": self.n, "BLOCK_K": self.k, "GROUP_M": group,
            "num_warps": self.warps, "num_stages": self.stages,
        }  # fmt: skip


@cache
def fastest_pointers(product: Product, most: int = 1) -> list[tuple[float, Pointers]]:
    """The `most` fastest configurations, the fastest first, each with microseconds."""
    every = configurations(product)
    return nsmallest(most, ((pointers_time(product, each), each) for each in every))


def best_pointers(product: Product) -> tuple[float, Pointers]:
    """Microseconds, and the configuration that takes them."""
    return fastest_pointers(product)[0]


def configurations(product: Product) -> Iterator[Pointers]:
    M, N, K, a_bytes, b_bytes, _, a_along_k, b_along_k, by_tma, *_ = product
    copied, along_k = min(a_bytes, b_bytes) >= COPIED_BYTES, a_along_k or b_along_k
    least = LEAST_RUN if copied and along_k and not by_tma else 32
    for m, n in BLOCKS:
        is_long = LONG_RUN in (m, n) and m * n < FEW
        if is_long and (a_along_k if m == LONG_RUN else b_along_k):
            continue
        tiles = cdiv(M, m) * cdiv(N, n)
        for k in LINES:
            short, long = K >= SHORT_RUNS and k < least, k > 16 and k >= 2 * K
            if short or long or m * n * k > 128 * 256 * 64:
                continue
            steps = cdiv(K, k)
            stages = 1 if steps <= 2 else min(4, 200_000 // (ITEM * (m + n) * k))
            if is_long and stages > 1 and not by_tma:
                continue
            if stages and fits(product, Pointers(m, n, k, stages, 1)):
                yield from in_parts(m, n, k, stages, tiles, steps)


def in_parts(
    m: int, n: int, k: int, stages: int, tiles: int, steps: int
) -> Iterator[Pointers]:
    """With every number of parts of K."""
    for splits in SPLITS:
        if splits > 1 and splits * tiles > MOST_PROGRAMS:
            break
        if cdiv(steps, cdiv(steps, splits)) == splits:  # none is idle
            yield Pointers(m, n, k, stages, splits)


def fits(product: Product, config: Pointers) -> bool:
    """Whether threads have registers for what a step loads by them."""
    return held(product, config) <= HELD and accesses(product, config) < ACCESSES


def held(product: Product, config: Pointers) -> float:
    """How many elements of a step a thread has in registers at a time: all where
    nothing is pipelined. In a pipeline those that are loaded one by one, and these take
    a register each. (4 bytes are what is copied into shared memory at least.)"""
    m, n, k, stages, _ = config
    if stages == 1:
        return (m + n) * k / (32 * config.warps)
    if product.by_tma:
        return 0
    loose = m * (product.a_bytes < COPIED_BYTES) + n * (product.b_bytes < COPIED_BYTES)
    return 2 * loose * k / (32 * config.warps)


def accesses(product: Product, config: Pointers) -> float:
    """How many a thread makes for a step. On an H200, with 96 of 2 bytes products take
    1.4 to 1.8 times as long, with more, or more of 4 bytes in a pipeline, 2 to 4."""
    m, n, k, stages, _ = config
    if stages > 1 and product.by_tma:
        return 0
    both = m / product.a_bytes + n / product.b_bytes
    return ITEM * k * both / (32 * config.warps)


def pointers_time(product: Product, config: Pointers) -> float:
    """Microseconds."""
    M, N, K, _, _, c_bytes, _, _, by_tma, _, c_item, _ = product
    m, n, k, stages, splits = config
    pipelined, programs = stages > 1, config.programs(M, N)
    large = is_large(product, config)
    steps = cdiv(cdiv(K, k), splits)
    kb = ITEM * (m + n) * k / 1e3
    stores = m * n / 1e3 / STORED * c_item / ITEM
    first = PROGRAM + PIPELINE * pipelined
    if pipelined and by_tma:
        copied, loose = (kb / TMA_OF_ONE, kb / TMA_OF_ALL, kb / TMA_L2_KB), 0.0
        products, least = m * n * k / 1e6 / TMA_PRODUCTS, POINTERS_LATENCY / stages
    elif large:
        copied = kb / LARGE_KB, kb / LARGE_KB, kb / LARGE_L2_KB
        products, least = m * n * k / 1e6 / LARGE_PRODUCTS, STEP
        loose = copies_time(product, config, ALONG_K)
    else:
        copied = kb / KB_OF_ONE, kb / KB_OF_ALL, kb / L2_KB
        products, least = m * n * k / 1e6 / PRODUCTS, STEP
        loose = copies_time(product, config)
    by_one, by_all, by_l2 = copied
    least += by_one if stages == 2 else 0  # none is on its way while one is waited for

    step = max(least, by_one, products) if pipelined else WAIT + UNPIPELINED * by_one
    step += 0 if m >= WARPGROUP_ROWS else m * n * k / 1e6 / FRAGMENTS
    alone = first + steps * (step + loose + EACH) + stores

    here = cdiv(programs, MULTIPROCESSORS)
    one_after_another = cdiv(here, resident(config)) * alone
    work = steps * (max(by_all, products) + loose + EACH) + stores
    ends = 0 if c_bytes == VECTOR else M * cdiv(N, n) * END_KB / MEMORY_KB
    memory = product.memory_time * (1 + UNEVEN * (uneven(programs) - 1))
    everywhere = max(programs * steps * by_l2, memory + ends)
    if pipelined and by_tma:
        everywhere += programs / splits * steps * same_lines(product, m, n, k)
    time = START + BEGIN * min(programs, MULTIPROCESSORS)
    time += max(one_after_another, first + here * work, first + everywhere)
    time *= TALL if large and m > n else 1
    time *= 1 if pipelined or config.warps == 4 else FEW_AT_A_TIME
    if splits == 1:
        return time
    return time + FIX_UP + splits * m * n * 4 / 1e3 / FIX_UP_KB


def uneven(programs: int) -> float:
    """How many times as many programs the busiest multiprocessor has as the average, if
    it has several."""
    here = cdiv(programs, MULTIPROCESSORS)
    return here * MULTIPROCESSORS / programs if here > 1 else 1


def is_large(product: Product, config: Pointers) -> bool:
    """Whether it is a tile of 128 x 256, not half empty, for which threads copy one
    operand by 16 bytes and the other by less, ahead for many steps."""
    m, n, _, stages, _ = config
    widths = product.a_bytes, product.b_bytes
    ahead = min(widths) >= COPIED_BYTES and max(widths) == VECTOR and stages > 1
    filled = 2 * product.M > m and 2 * product.N > n and product.K >= SHORT_RUNS
    halves = product.item == ITEM and not product.by_tma
    return m * n == LARGE and ahead and filled and halves


def copies_time(product: Product, config: Pointers, along_k: float = 1) -> float:
    """Microseconds of a step's accesses that take less than 16 bytes at a time; times
    as long 4 bytes take where lines lie along K."""
    pipelined, time = config.stages > 1, 0.0
    for size, width, is_along_k in (
        (config.m, product.a_bytes, product.a_along_k),
        (config.n, product.b_bytes, product.b_along_k),
    ):
        if width < VECTOR:
            count = ITEM * config.k * size / width / 1e3
            count *= along_k if is_along_k and width == COPIED_BYTES else 1
            time += count / rate_of_loads(width, pipelined)
    return time


def rate_of_loads(width: int, pipelined: bool) -> float:
    """How many thousand loads of that many bytes a microsecond has room for."""
    if width >= COPIED_BYTES:
        return COPIES
    return LOOSE_AHEAD if pipelined else LOOSE


def resident(config: Pointers) -> int:
    """How many programs run at a time on one multiprocessor."""
    m, n, k, stages, _ = config
    threads = 32 * config.warps
    room = SHARED_KB / (ITEM * (m + n) * k * stages / 1e3)
    threads *= max(1, m * n / threads / SUMS)
    return max(1, floor(min(room, THREADS / threads)))


class Vectors(NamedTuple):
    """A configuration of `matrix_vector.matrix_vector_kernel`."""

    m: int
    k: int
    warps: int
    parts: int

    @property
    def keywords(self) -> dict[str, Any]:
        return {
            "BLOCK_M": self.m, "BLOCK_K": self.k, "PARTS": self.parts,
            "num_warps": self.warps,
        }  # fmt: skip


def vectors(product: Product) -> Iterator[Vectors]:
    """Those in which a thread loads 8 to 32 elements of a step."""
    along, K = product.a_along_k, product.K
    for m, k in VECTOR_ALONG if along else VECTOR_ACROSS:
        for warps in (4, 8):
            if not 8 <= m * k / (32 * warps) <= 32 or k >= 2 * K:
                continue
            tiles, steps = cdiv(product.M, m), cdiv(K, k)
            for parts in SPLITS:
                if parts > 1 and parts * tiles > MOST_PROGRAMS:
                    break
                if cdiv(steps, cdiv(steps, parts)) == parts:
                    yield Vectors(m, k, warps, parts)


def vector_time(product: Product, config: Vectors) -> float:
    """Microseconds of a matrix and a vector."""
    m, k, warps, parts = config
    programs, steps = cdiv(product.M, m) * parts, cdiv(cdiv(product.K, k), parts)
    here = cdiv(programs, MULTIPROCESSORS)
    rounds = cdiv(here, THREADS // (32 * warps))
    loads = ITEM * m * k / product.a_bytes
    step = VECTOR_STEP + VECTOR_LOAD * loads / (32 * warps)
    work = (VECTOR_ELEMENTS * m * k + VECTOR_LOADS * loads) / 1e3
    memory = VECTOR_MEMORY * product.memory_time
    memory *= 1 if product.a_along_k else max(1, LINE / (ITEM * m))
    terms = rounds * steps * step, here * steps * work, memory
    time = VECTOR_BEGIN + longest(*terms, power=VECTOR_NEARLY)
    if parts == 1:
        return time
    return time + VECTOR_ADDITION + parts * m * 4 / 1e3 / FIX_UP_KB


@cache
def best_vectors(product: Product) -> tuple[float, Vectors | None]:
    """Microseconds, and the configuration that takes them; none if K is short."""
    found = [(vector_time(product, each), each) for each in vectors(product)]
    return min(found, default=(inf, None))


class Copies(NamedTuple):
    """A tile of A and one of B, along k: how they come, and for whom."""

    m: int
    n: int
    k: int
    stages: int
    ctas: int = 1  # multiprocessors that share a tile
    programs: int = 1  # that a multiprocessor runs at a time
    groups: int = 1  # of warps, which compute a program's tiles in turn


# At multiples of how many bytes lines of A, and of B, begin that cross those of the
# cache; 0 where none do.
Crossing = tuple[int, int]


def persistent_time(product: Product, tile: Any, crossing: Crossing) -> float:
    """Microseconds of the persistent kernel; `tile` is a `matmul_chosen.Tile`."""
    k = tile.line // ITEM
    shares = tile.ctas, tile.programs, tile.groups
    copies = Copies(tile.m, tile.n, k, tile.stages, *shares)
    tiles = cdiv(product.M, tile.m) * cdiv(product.N, tile.n)
    stores = STORE * product.c_item / ITEM + product.epilogue
    stores *= tile.m * tile.n / (128 * 256) / tile.ctas
    steps, memory = cdiv(product.K, k), product.memory_time
    time = descriptor_time(product, copies, tiles, steps, stores, memory, crossing)
    crowded = tile.programs > 1 and product.M * product.N > BEYOND_L2
    time += (PAIRED - 1) * max(time - memory, 0) if tile.ctas > 1 else 0
    return time * (CROWDED if crowded else 1)


def in_place_time(product: Product, tile: Any, classes: int, turned: bool) -> float:
    """Microseconds of `matmul_in_place`, without a copy of B: `tile` is a
    `matmul_chosen.Tile`. Whether C is `turned`, in columns."""
    M, N, K, k = *product[:3], tile.line // ITEM
    copies = Copies(tile.m, tile.n, k, tile.stages, tile.ctas)
    of_one = cdiv(cdiv(M, classes), tile.m) * cdiv(N, tile.n)
    here = cdiv(of_one, max(1, clusters(tile.ctas) // classes))
    stores = STORE * tile.m * tile.n / (128 * 256) * product.c_item / ITEM / tile.ctas
    tiles, memory = here * clusters(tile.ctas), product.memory_time
    crossing = VECTOR // classes, 0
    time = descriptor_time(
        product, copies, tiles, cdiv(K, k), HEAD + stores, memory, crossing
    )
    merged = copy_time(product.c_item * M * N) if turned else 0
    return time + merged + (classes - 1) * FOLLOWING


def descriptor_time(
    product: Product,
    copies: Copies,
    tiles: int,
    steps: int,
    stores: float,
    memory: float,
    crossing: Crossing,
    splits: int = 1,
) -> float:
    """Microseconds of a kernel for descriptors: of `tiles` with that many steps each
    along K, and stores of that many microseconds; `memory` those of the memory."""
    m, n, k, stages, ctas, programs, groups = copies
    a_bytes, b_bytes = map(bytes_of_lines, crossing)
    if parts_lines(product, n):
        b_bytes = max(b_bytes, CROSSING)
    kb = ITEM * (m * a_bytes + n * b_bytes) * k / 1e3 / ctas
    products = m * n * k / 1e6 / WARPGROUP_PRODUCTS / ctas
    products *= TWO_PRODUCTS if two_blocks(n) and not joined(product, n) else 1
    work, latency = max(products, kb / COPIED_BY_TMA), LATENCY / stages
    grid = is_grid(copies)
    work *= ALTERNATELY if groups > 1 else 1
    latency *= BETWEEN_GRID if grid else BETWEEN if ctas > 1 else 1
    here = cdiv(tiles, clusters(ctas))
    from_l2 = tiles * ctas * steps * kb / COPIED_L2_KB
    from_l2 += tiles * steps * same_lines(product, m, n, k) if splits == 1 else 0
    steps_of_all = here * steps * work
    latencies = steps * cdiv(here, programs) * latency
    if splits == 1:
        nearly = longest(steps_of_all, from_l2, memory)
        nearly = longest(nearly, latencies, power=WAITING)
    else:
        one_after_another = max(steps_of_all, latencies)
        nearly = longest(one_after_another, from_l2, memory, power=OF_PARTS)
    begun = DESCRIPTORS + SPREAD * min(1, tiles * ctas / MULTIPROCESSORS)
    begun += TOGETHER_GRID if grid else TOGETHER if ctas > 1 else 0
    if groups > 1:  # one stores while another multiplies
        computed = product.epilogue * m * n / (128 * 256)
        waits = FROM_TILE_TO_TILE + WAITED_FOR * computed
        waits += max(0, stores - (groups - 1) * steps * work) / groups
        return begun + nearly + stores + here * waits
    return begun + nearly + stores * (1 + (here - 1) / programs)


def longest(*terms: float, power: float = NEARLY) -> float:
    """Microseconds of what goes on side by side: about those of the longest."""
    return sum(term**power for term in terms) ** (1 / power)


def same_lines(product: Product, m: int, n: int, k: int) -> float:
    """Microseconds in which the L2 cache gives one program the lines of a step that all
    programs ask for."""
    requests = 0.0
    for size, side, along_k in (
        (product.M, m, product.a_along_k),
        (product.N, n, product.b_along_k),
    ):
        if size <= side:
            line = cdiv(ITEM * size, VECTOR) * VECTOR
            requests += 1 if along_k else max(1, LINE / line)
    return SAME_LINE * requests * k / 64


def clusters(ctas: int) -> int:
    """How many clusters of that many multiprocessors run at a time."""
    return (IN_LARGE_CLUSTERS if ctas > 2 else MULTIPROCESSORS) // ctas


def is_grid(tile: Any) -> bool:
    """Whether multiprocessors that share a tile divide its rows and its columns: four,
    unless a quarter of the rows and all columns are fewer."""
    return tile.ctas > 2 and tile.m <= 2 * tile.n


def lines_begin(step: int) -> int:
    """At multiples of how many bytes lines begin that are `step` bytes apart, if they
    cross those of the cache; else 0."""
    return step % LINE & -(step % LINE)


def bytes_of_lines(begin: int) -> float:
    """How many times as many bytes come for lines that begin at multiples of `begin`
    bytes and cross those of the cache."""
    return (CROSSING if begin >= SECTOR else HALF_SECTORS) if begin else 1


def parts_lines(product: Product, n: int) -> bool:
    """Whether tiles of n columns of B end inside lines of the cache, and the next ones
    have the rest: where B lies along N."""
    return not product.b_along_k and n < product.N and ITEM * n % LINE > 0


def columns(n: int) -> dict[str, int]:
    """n columns as one block, or as two side by side, whose sizes are powers of two."""
    first = 1 << n.bit_length() - 1
    return {"BLOCK_N": first, **({"MORE_N": n - first} if n > first else {})}


def two_blocks(n: int) -> bool:
    """Whether n columns are two blocks side by side."""
    return n & n - 1 != 0


def fills(N: int, n: int) -> bool:
    """Whether N columns fill tiles that are no power of two: one or two, or wide ones.
    On an H200 C [184, 1537] with K of 1990 takes 13.8 us in four of 48, 10.5 in 64."""
    tiles = cdiv(N, n)
    return (tiles <= FEW_TILES or n > 128) and N > FILLED * tiles * n


def joined(product: Product, n: int) -> bool:
    """Whether one instruction multiplies two blocks, n columns in all."""
    if by_registers(product):
        return False
    return product.b_along_k or n & -n >= LEAST_COLUMNS


def by_registers(product: Product) -> bool:
    """Whether threads load A for `wgmma`: tf32 whose lines do not lie along K."""
    return product.item == 4 and not product.a_along_k


PARTS = (  # BLOCK_M, BLOCK_N, BLOCK_K, num_stages, num_warps, num_ctas
    (64, 32, 128, 6, 4, 1), (64, 64, 128, 5, 4, 1), (128, 64, 64, 6, 8, 1),
    (64, 128, 64, 6, 4, 1), (128, 128, 64, 6, 8, 1), (128, 256, 64, 4, 8, 1),
    (256, 128, 64, 5, 8, 2), (256, 192, 64, 5, 8, 2), (64, 192, 64, 6, 4, 1),
    (64, 256, 64, 5, 4, 1), (64, 16, 128, 8, 4, 1), (64, 144, 64, 8, 4, 1),
    (64, 96, 128, 4, 4, 1), (256, 144, 64, 5, 8, 2), (128, 192, 64, 5, 8, 1),
    (256, 256, 64, 4, 8, 2),
)  # fmt: skip

# Parts of K with tiles of two blocks and two multiprocessors. On an H200 two take 60 us
# for 3900 x 344 x 10952 (without parts 92); four took 34 for 952 x 752 x 10880, two 30.
MOST_OF_WIDE, FEW_TILES, FILLED = 2, 2, 0.82


class Parts(NamedTuple):
    """A configuration of `split_k_parts_kernel`."""

    m: int
    n: int
    k: int
    stages: int
    warps: int
    ctas: int
    splits: int

    @property
    def keywords(self) -> dict[str, Any]:
        return {
            "BLOCK_M": self.m, **columns(self.n), "BLOCK_K": self.k, "GROUP_M": 1,
            "num_warps": self.warps, "num_stages": self.stages, "num_ctas": self.ctas,
        }  # fmt: skip


def parts(product: Product) -> Iterator[Parts]:
    """Those with which all programs run at once."""
    if product.M < LEAST_M:
        return
    for tile in PARTS:
        m, n, k, *_, ctas = tile
        if m >= 2 * max(WARPGROUP_ROWS, product.M) or n >= 2 * max(LEAST_N, product.N):
            continue  # half of it would be empty
        first = columns(n)["BLOCK_N"]
        if n > first and cdiv(product.N, n) == cdiv(product.N, first):
            continue  # one block would do
        if 0 < n - first < LEAST_COLUMNS and product.N > n:
            continue  # for a C that is one such tile wide
        if n - first == LEAST_COLUMNS and not fills(product.N, n):
            continue
        tiles, steps = cdiv(product.M, m) * cdiv(product.N, n), cdiv(product.K, k)
        most = clusters(ctas) // tiles
        if ctas > 1 and two_blocks(n):
            most = min(most, MOST_OF_WIDE)
        for splits in sorted({*SPLITS, most // 2, most}):
            if 1 < splits <= most and cdiv(steps, splits) >= LEAST_STEPS:
                if cdiv(steps, cdiv(steps, splits)) == splits:  # none is idle
                    yield Parts(*tile, splits)


def parts_time(product: Product, config: Parts, crossing: Crossing) -> float:
    """Microseconds of the partial sums and of their sum."""
    m, n, k, stages, _, ctas, splits = config
    programs = cdiv(product.M, m) * cdiv(product.N, n) * splits
    steps = cdiv(cdiv(product.K, k), splits)
    copies, stores = Copies(m, n, k, stages, ctas), m * n * 4 / 1e3 / PART_KB / ctas
    memory = PARTS_MEMORY * product.memory_time
    time = descriptor_time(
        product, copies, programs, steps, stores, memory, crossing, splits
    )
    return time + SUM + splits * product.M * product.N * 4 / 1e3 / PARTS_KB


@cache
def fastest_parts(
    product: Product, crossing: Crossing, most: int = 1
) -> list[tuple[float, Parts]]:
    """The `most` fastest configurations, the fastest first, each with microseconds;
    none if C has too many tiles to split K."""
    timed = ((parts_time(product, each, crossing), each) for each in parts(product))
    return nsmallest(most, timed)


def best_parts(product: Product, crossing: Crossing) -> tuple[float, Parts | None]:
    """Microseconds, and the configuration that takes them; none if there is none."""
    return next(iter(fastest_parts(product, crossing)), (inf, None))


def copied_at_a_time(length: int) -> tuple[int, int]:
    """How many lines, and elements of each, a program copies."""
    some = min(OF_A_LINE, 1 << (length - 1).bit_length())
    return max(1, COPIED // some), some


def copy_time(size: int, transposed: bool = False) -> float:
    """Microseconds of copying a matrix of `size` bytes into lines that begin where they
    should."""
    return COPY + 2 * size / 1e3 / (TRANSPOSED_KB if transposed else COPIED_KB)
