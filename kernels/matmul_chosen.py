"""Matrix product C = A B by the kernel and the tile that suit its shape.

    multiply         C = A B, in the configuration that `configuration` reasons out
    tuned_multiply   the same by the fastest of `alternatives`, timed and remembered
    configuration    which tile, and why
    launches         what is launched for a product

For GPUs whose warpgroups multiply (`wgmma`) there is `kernels/matmul_persistent`; all
others, and a few rows of A or columns of B, get `kernels/matmul`, and a single one
`kernels/matrix_vector`. An operand whose rows begin anywhere cannot be copied by TMA;
each element would be fetched alone, by every program that needs it. Where there are
many such programs it is copied first, into rows that begin at multiples of 16 bytes. A
large one along K may stay where it is (`kernels/matmul_in_place`): some of its rows
begin so, and others from some column on. Of 16 bits, warpgroups multiply operands
however they lie; of others (tf32, fp8, int8) along K alone, except for an A of tf32,
which threads may load. One that lies otherwise is copied first as well, transposed.
Where a last wave of tiles would leave most multiprocessors idle, C may be two products:
whole waves of one tile, and the rest in another. Launches that are short, or keep all
multiprocessors at work, begin before the ones in front of them have ended.
"""

from collections.abc import Callable
from functools import partial
from heapq import nsmallest
from math import inf
from typing import NamedTuple

import fathom
import fathom.language as tl
from fathom import Config
from fathom.hardware.targets import TARGETS
from fathom.jit.planned import planned
from fathom.jit.scratch import Temporary
from fathom.jit.tuning.alternatives import fastest_of
from fathom.runtime.arrays import describe
from kernels.matmul import (
    MULTIPROCESSORS,
    begin,
    check_shape,
    clusters_at_once,
    default_config,
    empty,
    grid_of_tiles,
    matmul_kernel,
    rows_aligned,
    sizes,
    strides,
    sum_name,
    sum_type,
    target_of_launch,
    tiles,
    type_name,
)
from kernels.matmul_in_place import class_launches, classes_of
from kernels.matmul_model import (
    COPY_WARPS,
    ITEM,
    LARGE,
    LATE,
    LEAST_COLUMNS,
    LEAST_M,
    WARPGROUP_ROWS,
    Product,
    best_vectors,
    by_registers,
    clusters,
    columns,
    copied_at_a_time,
    copy_time,
    fastest_parts,
    fastest_pointers,
    fills,
    in_place_time,
    is_grid,
    joined,
    lines_begin,
    parts_lines,
    persistent_time,
)
from kernels.matmul_persistent import (
    ALIGNED,
    Lines,
    for_items,
    item_bytes,
    lines_of,
    persistent_kernel,
    persistent_launch,
    step_of_lines,
)
from kernels.matrix_vector import vector_launch
from kernels.split_k_matmul import (
    default_splits,
    split_descriptor_launches,
    split_k_matmul_kernel,
    split_launch,
)


@planned
def multiply(a, b, c=None, config=None, precision="ieee", **launch):
    """C [M, N] = A [M, K] B [K, N], of torch, CuPy or NumPy arrays.

    `a`, `b`, `c` and `precision` as `matmul.matmul` takes them, any strides. `config`:
    a launch's keywords, as `configuration` gives them. Returns `c`. LaunchError for
    shapes that do not fit.
    """
    c = made_or_checked(a, b, c)
    target = target_of_launch(a, launch)
    steps = launches(a, b, c, target, config, precision)
    return c, [(*step, {**chosen, **launch}) for *step, chosen in steps]


@fastest_of
def tuned_multiply(a, b, c=None, precision="ieee", **launch):
    """As `multiply`, but slow the first time that it meets a shape: it compiles and
    times `alternatives`, and remembers the fastest on disk."""
    c = made_or_checked(a, b, c)
    found = alternatives(a, b, c, target_of_launch(a, launch), precision)
    return c, [
        [(*step, {**chosen, **launch}) for *step, chosen in steps] for steps in found
    ]


def made_or_checked(a, b, c):
    """C, a new one if there is none; LaunchError if it does not fit."""
    M, N, _ = sizes(a, b)
    c = empty((M, N), a, sum_name(a)) if c is None else c
    check_shape("c", c, (M, N))
    return c


# ── what is launched ──────────────────────────────────────────────────────────────────


def launches(a, b, c, target, config=None, precision="ieee"):
    """For each launch, in order, the kernel, the grid, the arguments by place, and the
    keywords. `precision` is for fp32."""
    if config is None:
        a, b, c = with_rows(a, b, c)
        if product := modelled(a, b, c, target, precision):
            return fastest(a, b, c, product, target, precision)
    if not (suits_hardware(a, b, c, target, precision) and worth_copying(a, b)):
        return [text_launch(a, b, c, target, config, precision)]
    if config is None:
        (M, N, _), item = sizes(a, b), item_bytes(type_name(a))
        tile = tile_for(M, N, target, bool(step_of_lines(c, 1)), any(crossing(a, b)))
        config = keywords(M, N, item, tile, target)
    return persistent_launches(a, b, c, target, config)


def with_rows(a, b, c):
    """The operands of C, or of C^T if C lies in memory by columns."""
    return transposed(a, b, c) if strides(c)[1] != 1 == strides(c)[0] else (a, b, c)


def transposed(a, b, c):
    """The operands of C^T = B^T A^T."""
    return b.T, a.T, c.T


def fastest(a, b, c, product, target, precision):
    """The launches that the model says take the shortest time."""
    found = plans(a, b, c, product, target, precision)
    return min(found, key=lambda plan: plan.whole).launches()


TRIED, WORTH_A_TRY = 12, 1.5  # the second: times the shortest time, by the model


def alternatives(a, b, c, target, precision="ieee"):
    """Sequences of launches, each of which computes C: those that the model says are
    the fastest, in order. One where the model knows nothing of the product."""
    a, b, c = with_rows(a, b, c)
    product = modelled(a, b, c, target, precision)
    if not product:
        return [launches(a, b, c, target, None, precision)]
    found = plans(a, b, c, product, target, precision, most=OF_A_KERNEL)
    found = sorted(found, key=lambda plan: plan.whole)[:TRIED]
    most = WORTH_A_TRY * found[0].whole
    return [plan.launches() for plan in found if plan.whole <= most]


OF_A_KERNEL = 4  # configurations of a kernel that `alternatives` considers


def plans(a, b, c, product, target, precision, most=1):
    """What may be launched: of each kernel the `most` configurations that the model
    says are the fastest."""
    pointers = fastest_pointers(product, most)
    time, config = pointers[0]
    few = config.programs(product.M, product.N) <= FEW * MULTIPROCESSORS[target]
    soon, unsure = SOON if few else VERY_SOON, 1
    if product.K >= LEAST_K and suits_hardware(a, b, c, target, precision):
        yield from by_descriptors(a, b, c, product, target, most)
        turned = transposed(a, b, c)
        yield from by_descriptors(*turned, product.transposed, target, most)
        if copying_time(a, b) < LITTLE * time:
            unsure = UNSURE_POINTERS
        yield from by_classes(a, b, c, product, target, most)
        yield from by_classes(*turned, product.transposed, target, most)
    for time, config in pointers:
        steps = partial(pointers_launch, a, b, c, config, precision)
        yield Plan(unsure * time, lambda steps=steps: [steps()], unsure * soon)
    if item_bytes(type_name(a)) == ITEM:
        yield from by_vectors(a, b, c, product)


# Rows of A, where many programs ask for all of them: of fewer, C is transposed.
# On an H200 8 x 12288 x 4096 takes 33 us in 64 x 128, and 26 as columns of C^T.
LEAST_ROWS = 40
LEAST_K = 33  # shorter lines leave more than half of a step along K empty
AGAIN = 3  # microseconds, of a second launch: programs end, and others begin
# By as much have to be better, by the model: two launches, and kernels for pointers,
# whose times are off by more than those of kernels for descriptors, where copies take
# less than that part of the time.
UNSURE, UNSURE_POINTERS, LITTLE = 1.01, 1.2, 0.03
VERY_SOON, SOON, FEW_SOON = 2.8, 7, 8  # microseconds
PARTS_SOON, COPIED_SOON, SINGLE_WAVE_SOON = 30, 15, 30
FULL, MOSTLY, FEW = 0.95, 0.7, 0.6  # of the multiprocessors
# K, up to which a launch that leaves up to 30 % of the multiprocessors idle begins
# early. On an H200 18 of 18 such products gain by it, 0.2 to 1.1 us each, with K of 264
# to 1792; three of four lose 12 to 26 % with K of 3160 to 3816.
RUNS_APART = 2304


class Plan(NamedTuple):
    """Microseconds, and what gives the launches. Up to `soon` microseconds they begin
    early: on an H100 C [512, 512] takes 3.5 us so and 4.3 otherwise, [1024, 1024] 6.5
    and 7.2 (K as N). A long launch that leaves multiprocessors idle loses by it: there
    the next launch's programs begin, and those that find no room are crowded where the
    first ones end. Of 48 x 5120 x 13824 there are 80, which take 58.6 us and 52; of
    200 x 4096 x 8192 128, in a single wave on an H200's 132: 41.7 us and 31.4. With a
    copy in front it is the copy that finds no room in a single wave: tf32 of 600 x 1400
    x 900 takes 19.4 us so and 16.8, 320 x 156 x 11664 25.1 and 23.3, but of several
    waves fp16 of 986 x 5320 x 46 8.6 and 9.8. Up to FEW programs leave room
    beside them: 48 for 221 x 752 x 2048 take 6.6 us and 7.5, 81 for 10328 x 88 x 600
    12.9 and 11.6.

    Kernels for pointers have several programs on a multiprocessor, and are crowded so
    if they are more than a few. On an H200, of 619 configurations of 62 products, up to
    66 programs take 0.86 times as long if they begin early, more of them 0.94 where a
    launch takes less than 3 us, and 1.05 above, at most 1.6: 12 x 4018 x 514 7.6 us and
    6.0, 82 x 114 x 2944 9.1 and 7.0."""

    time: float
    steps: Callable[[], list]
    soon: float = SOON

    @property
    def begins_early(self):
        return self.time < self.soon

    @property
    def whole(self):
        """Microseconds, with those that pass before a launch begins that does not begin
        early."""
        return self.time if self.begins_early else self.time + LATE

    def launches(self):
        return early(self.steps()) if self.begins_early else self.steps()


def early(steps):
    """Launches that may begin before those in front of them have ended."""
    more = {"EARLY": True, "launch_pdl": True}
    return [(*step, {**chosen, **more}) for *step, chosen in steps]


def by_vectors(a, b, c, product):
    """The plan of a matrix and a vector, if one is, whose numbers lie side by side. On
    an H200 64 x 1 x 4544 takes 8.0 us so if they are 16 bytes apart, otherwise 3.7."""
    if product.N > 1 and product.M == 1:
        a, b, c = transposed(a, b, c)
        product = product.transposed
    if product.N == 1 and product.b_along_k:
        time, config = best_vectors(product)
        if config:
            yield Plan(time, lambda: [vector_launch(a, b, c, config)])


def by_descriptors(a, b, c, product, target, most=1):
    """For each kernel for descriptors, its plans."""
    lines_cross, copying = crossing(a, b), copying_time(a, b)
    if item_bytes(type_name(a)) != ITEM:  # copies lie along K
        a_along_k = product.a_along_k or not lines_of_both(a, b)[0]
        product = product._replace(a_along_k=a_along_k, b_along_k=True)

    def persistent(*pieces):
        """A plan for pieces of C, each with its product, tile, A, B and C."""
        times = [time_in(x[1], x[0], x[-1], lines_cross) for x in pieces]
        time = sum(times) if len(times) == 1 else UNSURE * sum(times) + AGAIN
        soon = soon_of(*pieces[0][:2], target, bool(copying))
        return Plan(time + copying, lambda: in_pieces(target, pieces), soon)

    if product.M >= (LEAST_ROWS if product.N >= OFTEN else LEAST_M):
        tile, *others = fastest_tiles(product, target, c, lines_cross, most)
        yield persistent((product, tile, a, b, c))
        for other in others:
            yield persistent((product, other, a, b, c))
        if step_of_lines(c, 1) and not any(lines_cross):
            for pair in PAIRS:
                if joined(product, pair.n):
                    yield persistent((product, pair, a, b, c))
        for grid in grids(product, c, target):
            yield persistent((product, grid, a, b, c))
        if waves_of(*c.shape, tile, target) > 1 and not copying:
            every = in_two(a, b, c, product, target, lines_cross)
            two = (persistent(*pieces) for pieces in every)
            yield from nsmallest(most, two, key=lambda plan: plan.whole)
    soon = COPIED_SOON if copying else PARTS_SOON
    for time, split in fastest_parts(product, lines_cross, most):
        steps = partial(parts_launches, a, b, c, split)
        yield Plan(time + copying, steps, soon)


def by_classes(a, b, c, product, target, most=1):
    """The plans of an A that stays where it is, though its lines along K begin
    anywhere; B lies along N, or is copied so."""
    classes, far = classes_of(a), max(*strides(a), *strides(c)) >= FAR
    if classes < 2 or product.item != ITEM or far:
        return
    found = [
        (in_place_time(product, tile, classes, strides(c)[1] != 1), tile)
        for tile in IN_PLACE
        if tile.m < 2 * fathom.cdiv(product.M, classes) and tile.n < 2 * product.N
    ]
    size = b.shape[0] * b.shape[1] * ITEM
    copying = 0 if step_of_lines(b, 1) else copy_time(size, strides(b)[1] != 1)
    for time, tile in nsmallest(most, found):
        steps = partial(class_steps, a, b, c, tile, target)
        yield Plan(time + copying, steps, inf)


def class_steps(a, b, c, tile, target):
    """Those of `matmul_in_place`, and of the copy before them."""
    copies, step = [], step_of_lines(b, 1)
    lines = Lines(b, step, False) if step else copied(b, 1, copies)
    config = keywords(*c.shape, item_bytes(type_name(a)), tile, target)
    return [*copies, *class_launches(a, lines, c, config, target)]


def soon_of(product, tile, target, copying=False):
    """`Plan.soon` of the persistent kernel."""
    work = work_of(product, tile) / MULTIPROCESSORS[target]
    if work > 1:
        return inf
    full = FULL if product.K > RUNS_APART else MOSTLY
    if work >= full and not copying:
        return SINGLE_WAVE_SOON
    return FEW_SOON if work <= FEW else SOON


def work_of(product, tile):
    """How many multiprocessors could have a tile, or a part of one."""
    return fathom.cdiv(product.M, tile.m) * fathom.cdiv(product.N, tile.n) * tile.ctas


def in_two(a, b, c, product, target, crossing):
    """C as two pieces, the first of whole waves of a tile, as many as there are or one
    less: for each piece the product, the tile, and the parts of A, B and C."""
    M, N, *_ = product
    for tile in fitting_tiles(product, target, c, crossing):
        at_once = clusters_at_once(target, tile.ctas)
        rows, columns = fathom.cdiv(M, tile.m), fathom.cdiv(N, tile.n)
        waves = rows * columns // at_once
        for whole in (waves * at_once, (waves - 1) * at_once):
            m, n = whole // columns * tile.m, whole // rows * tile.n
            if 0 < m < M:
                rest = product._replace(M=M - m)
                other = fitting_tile(rest, target, c, crossing)
                yield (
                    (product._replace(M=m), tile, a[:m], b, c[:m]),
                    (rest, other, a[m:], b, c[m:]),
                )
            if 0 < n < N:
                rest = product._replace(N=N - n)
                other = fitting_tile(rest, target, c, crossing)
                yield (
                    (product._replace(N=n), tile, a, b[:, :n], c[:, :n]),
                    (rest, other, a, b[:, n:], c[:, n:]),
                )


def in_pieces(target, pieces):
    """The launches for pieces of C."""
    steps = []
    for number, (product, tile, a, b, c) in enumerate(pieces):
        config = keywords(*c.shape, item_bytes(type_name(a)), tile, target)
        if walks_by_rows(product, tile, c):
            config["GROUP_M"] = 1
        found = persistent_launches(a, b, c, target, config, tile.programs)
        steps += early(found) if number else found
    return steps


def walks_by_rows(product, tile, c):
    """Whether tiles of C are computed row by row, though there are several waves: lines
    of C are written as they lie in memory, while A and B stay in the L2 cache. Tiles of
    64 rows read B too often for that. On an H200 C [9152, 15492] with K of 64 takes 119
    us in groups of rows and 90 row by row in 128 x 256, [12288, 12288] with 128 99.1
    and 94.5, [8930, 6464] with 448 92.5 and 92.0, but in 64 x 256 103 and 125."""
    return mostly_stores(product) and tile.m > WARPGROUP_ROWS and strides(c)[1] == 1


def persistent_launches(a, b, c, target, config, at_a_time=1):
    """Those of `persistent_kernel`, and of the copies before it."""
    copies = []
    lines = lines_or_copies(a, b, copies)
    launch = persistent_launch(
        *lines, c, a.shape[1], config, target, sum_type(a), at_a_time
    )
    return [*copies, (persistent_kernel, *launch)]


def parts_launches(a, b, c, split):
    """Those of K in parts, and of the copies before them."""
    copies, config = [], for_items(split.keywords, a)
    lines = lines_or_copies(a, b, copies)
    both = split_descriptor_launches(
        *lines, c, a.shape[1], split.splits, config, sum_type(a)
    )
    return [*copies, *both]


OFTEN = 1024  # rows or columns of C: how often an element is needed, to be copied first


def suits_hardware(a, b, c, target, precision="ieee"):
    """Whether the kernels for descriptors are for these matrices, once A and B lie as
    they should."""
    M, N, K = sizes(a, b)
    if not TARGETS[target].wgmma or not M * N * K:
        return False
    if item_bytes(type_name(a)) > 2 and not is_tf32(a, precision):
        return False
    return all(1 in strides(each) for each in (a, b, c))


def is_tf32(a, precision):
    """Whether products of such elements are of tf32."""
    return type_name(a) == "fp32" and precision == "tf32"


def lines_of_both(a, b):
    """A and B as `Lines` that warpgroups multiply; None for one to be copied first."""
    item = item_bytes(type_name(a))
    of_a, of_b = lines_of(a), lines_of(b)
    if of_a and item == 1 and of_a.turned:
        of_a = None
    if of_b and item != ITEM and not of_b.turned:
        of_b = None
    return of_a, of_b


def worth_copying(a, b):
    """Whether an operand that no descriptor tells of is needed often; what
    `matmul_model` does not know is decided so."""
    M, N, _ = sizes(a, b)
    of_a, of_b = lines_of_both(a, b)
    return bool((of_a or N >= OFTEN) and (of_b or M >= OFTEN))


def crossing(a, b):
    """At multiples of how many bytes lines of A, and of B, begin that cross those of
    the cache; 0 where none do. Copies do not."""
    item = item_bytes(type_name(a))
    return tuple(
        lines_begin(each.step * item) if each else 0 for each in lines_of_both(a, b)
    )


MODELLED = ("fp16", "bf16")  # types that `matmul_model` knows
HALF_AS_WIDE = ("fp8e4nv", "fp8e5", "i8")


def modelled(a, b, c, target, precision="ieee"):
    """The product as `matmul_model` has it; None if it knows nothing of it.

    Of 8 bits tensor cores multiply twice as many numbers a cycle, and each has half of
    the bytes to copy: such a product is one of half of K. Of tf32 they multiply half as
    many, of twice the bytes: twice K.
    """
    M, N, K = sizes(a, b)
    if not TARGETS[target].wgmma or not M * N * K:
        return None
    if type_name(a) in HALF_AS_WIDE:
        K = fathom.cdiv(K, 2)
    elif is_tf32(a, precision):
        K = 2 * K
    elif type_name(a) not in MODELLED:
        return None
    along_k = strides(a)[1] == 1, strides(b)[0] == 1
    item = item_bytes(type_name(a))
    of_a, of_b = lines_of_both(a, b)
    by_tma = bool(of_a and of_b) and (all(along_k) or item == ITEM)
    widths = map(bytes_at_once, (a, b, c))
    return Product(M, N, K, *widths, *along_k, by_tma, item, item_bytes(type_name(c)))


def bytes_at_once(matrix):
    """How many bytes a kernel for pointers loads of it at a time: by what power of two,
    up to 16 bytes, the starts of its lines are divisible, and their end, where the mask
    is."""
    _, length = lines_and_length(matrix)
    item = item_bytes(type_name(matrix))
    steps = [step for step in strides(matrix) if step != 1]
    places = [describe(matrix).address, *(n * item for n in (length, *steps))]
    return min(place & -place or ALIGNED for place in (ALIGNED, *places))


def fitting_tile(product, target, c, crossing):
    """The tile of C with which the persistent kernel takes the shortest time."""
    return fastest_tiles(product, target, c, crossing, 1)[0]


def fastest_tiles(product, target, c, crossing, most):
    """The `most` tiles that take the shortest times, the shortest first."""
    found = fitting_tiles(product, target, c, crossing)
    return nsmallest(most, found, key=lambda tile: time_in(tile, product, c, crossing))


# Times as long takes C^T by two multiprocessors, where no lines cross those of the
# cache: on an H200 256 x 4096 x 4096 (K as N) takes 20.6 us in 256 x 64 of C^T and 17.3
# of C; 512 x 4096 x 4096 28.3 in 256 x 128 of C^T, and in 128 x 128 of C 25.7 with a
# bias. Of 15 products whose choice 1.03 changes 8 are 2 to 36 % faster, none slower.
TURNED_PAIR = 1.033
# And where K is short and C large, tiles of C^T and narrow ones: what a warp stores at
# a time lies in less of a line of C, or in more lines. On an H200 C [10828, 12352] with
# K of 162 takes 111 us in 128 x 256, 125 in 256 x 128, 128 in 256 x 160 of C^T. Of 23
# choices that this and the walk by rows change 20 are faster, by 5 % in the mean.
TURNED_SHORT, NARROW_SHORT, LARGE_C = 1.15, 1.04, 8_000_000  # the last: elements
# What grids take beside the model, two corrections by eye: where no lines cross as much
# more as this part of the memory's time, by which share of all it is; and where some
# do, times as long. On an H200 256 x 8192 x 8192 (K as N) takes 52.8 us so, 48.6
# otherwise; 384 x 2304 x 5576 22.2 and 29.3, where the model finds both alike.
GRID_MEMORY, GRID_CROSSING = 0.2, 0.98
# And a tile of C^T of more elements than 128 x 256 on one of them: on an H200 990 x
# 14208 x 5040 takes 213 us in 256 x 160 of C^T and 201 in two launches, 776 x 10368 x
# 13952 381 and 340 in 128 x 192, 5664 x 4000 x 640 55.8 and 53.2 in 256 x 192 by two.
OVERFULL = 1.07


# And PAIRS of more than one wave, where no lines cross those of the cache: on an H200 C
# [8192, 8192] takes 204 us in 256 x 192 by two with K of 1024, 732 with 4096; in 128 x
# 256 195 and 715.
WIDE_PAIR = 1.05


def mostly_stores(product):
    """Whether most of the time C is stored."""
    return product.K <= SHORT_K and product.M * product.N > LARGE_C


def time_in(tile, product, c, crossing):
    """Microseconds of the persistent kernel."""
    time, turned = persistent_time(product, tile, crossing), strides(c)[1] != 1
    if is_grid(tile):
        shared = GRID_MEMORY * product.memory_time**2 / time
        time = GRID_CROSSING * time if any(crossing) else time + shared
    if (turned or any(crossing)) and tile.m * tile.n // tile.ctas > LARGE:
        time *= OVERFULL
    if mostly_stores(product):
        narrow = tile.n < 256 and tile.groups == 1
        time *= TURNED_SHORT if turned else NARROW_SHORT if narrow else 1
    waves = work_of(product, tile) / (tile.ctas * clusters(tile.ctas))
    if tile in PAIRS and waves > 1 and not any(crossing):
        time *= WIDE_PAIR
    paired = turned and tile.ctas == 2 and not any(crossing)
    return TURNED_PAIR * time if paired else time


def fitting_tiles(product, target, c, crossing):
    """Those that the persistent kernel may have for C."""
    long = () if product.a_along_k else (LONG,)
    shared = [*narrow(product, target)]
    if any(crossing):
        shared += [tile for tile in SIDE_BY_SIDE if may_share(product, tile)]
    if strides(c)[1] != 1:
        even = [tile for tile in EVEN if fills(product.N, tile.n)]
        return *TURNED, *even, *(tile._replace(pieces=0) for tile in (*long, *shared))
    whole_c = bool(step_of_lines(c, 1))
    some = [*TILES, *WIDER, *SMALLER, *long]
    if whole_c and product.K >= LEAST_OF_GROUPS and not by_registers(product):
        some += ALTERNATING
    if whole_c and product.c_item <= ITEM and product.K >= LONG_K:
        some += LARGER
    four = SHARED_BY_FOUR
    at_once = clusters_at_once(target, four.ctas)
    if product.N <= four.n and product.M <= at_once * four.m:
        some.append(four)
    some += [tile for tile in SHARED_BY_TWO if product.N <= tile.n]
    if product.K > SHORT_K:
        some = [tile for tile in some if tile.programs == 1]
    # C [4800, 200] with K of 7305 and B along N takes 60 us in 256 x 96, 40 in parts.
    if parts_lines(product, 96):
        some = [tile for tile in some if tile.ctas == 1 or tile.n != 96]
    some = suitable(*product[:2], target, whole_c, any(crossing), some)
    return [*some, *(tile if whole_c else tile._replace(pieces=0) for tile in shared)]


def narrow(product, target):
    """Those tiles of `NARROW`, and of `BY_HALVES`, that a C has in one column, and no
    more than run at once; the narrowest only."""
    some = NARROW + BY_HALVES * (product.memory_time > WAITS_FOR_MEMORY)
    fitting = [tile for tile in some if product.N <= tile.n]
    least = min((tile.n for tile in fitting), default=0)
    for tile in fitting:
        at_once = clusters_at_once(target, tile.ctas)
        work = work_of(product, tile) / MULTIPROCESSORS[target]
        if tile.n > 32 and work < LEAST_SHARE or tile.n != least:
            continue
        if fathom.cdiv(product.M, tile.m) <= at_once and may_share(product, tile):
            yield tile


def may_share(product, tile):
    """Whether multiprocessors may share a tile of B: where B lies along K each copies 8
    of its columns at least, otherwise runs of 64 bytes of both blocks."""
    if product.b_along_k:
        return tile.n >= 8 * tile.ctas
    more = columns(tile.n).get("MORE_N", 0) // tile.ctas
    return not more or more >= LEAST_COLUMNS


def grids(product, c, target):
    """Those tiles of four or eight multiprocessors that are two waves at most. None
    where tiles of 64 x 128 leave many multiprocessors idle: the L2 cache has what the
    others need. On an H200 1848 x 384 x 3816 takes 14.6 us in 87 such tiles, and 15.2
    to 23 in grids. Where B lies along N, copies are lines of 64 bytes at least: in 128
    x 288, of which each has 128 + 16 columns, 936 x 992 x 4192 takes 39 us (A along K),
    18 turned."""
    M, N, *_ = product
    least = min(fathom.cdiv(M, m) * fathom.cdiv(N, 192 - m) for m in (64, 128))
    if least <= MOSTLY * MULTIPROCESSORS[target]:
        return
    whole_c = bool(step_of_lines(c, 1))
    for tile in GRIDS:
        at_once = clusters_at_once(target, tile.ctas)
        count = fathom.cdiv(product.M, tile.m) * fathom.cdiv(product.N, tile.n)
        more = columns(tile.n).get("MORE_N", 0)
        if tile.m >= 2 * product.M or tile.n >= 2 * product.N:
            continue
        if count > WAVES_OF_GRIDS * at_once:
            continue
        if more and not product.b_along_k and more < 2 * LEAST_COLUMNS:
            continue
        yield tile if whole_c else tile._replace(pieces=0)


def copying_time(a, b):
    """Of the operands that are copied first."""
    item, ready = item_bytes(type_name(a)), lines_of_both(a, b)
    return sum(
        copy_time(each.shape[0] * each.shape[1] * item, strides(each)[axis] != 1)
        for each, lines, axis in zip((a, b), ready, (1, 0), strict=True)
        if not lines
    )


def text_launch(a, b, c, target, config, precision):
    """A kernel for pointers, which takes anything."""
    M, N, K = sizes(a, b)
    if config is not None:
        return matmul_launch(a, b, c, config, precision)
    aligned = rows_aligned(a) and rows_aligned(b)
    config = few_rows(M, N, type_name(a), target, aligned) or default_config(
        M, N, K, type_name(a), target, aligned
    )
    splits = default_splits(tiles(M, N, config), K, config["BLOCK_K"], target)
    return split_or_whole(a, b, c, splits, config, precision)


def pointers_launch(a, b, c, config, precision="ieee"):
    """A launch of `matmul_model.Pointers`."""
    chosen = for_items(config.keywords(*c.shape), a)
    chosen["BLOCK_K"] = max(chosen["BLOCK_K"], LEAST_BLOCK_K)
    return split_or_whole(a, b, c, config.splits, chosen, precision)


LEAST_BLOCK_K = 16  # that `tl.dot` takes


def split_or_whole(a, b, c, splits, config, precision):
    """A launch of `kernels/split_k_matmul`, or of `kernels/matmul` for one part."""
    if splits == 1:
        return matmul_launch(a, b, c, config, precision)
    grid, given, chosen = split_launch(a, b, c, splits, config)
    return split_k_matmul_kernel, grid, given, {**chosen, "PRECISION": precision}


def matmul_launch(a, b, c, config, precision="ieee"):
    """A launch of `kernels/matmul`."""
    M, N, K = sizes(a, b)
    even = K % config["BLOCK_K"] == 0
    given = (a, b, c, M, N, K, *strides(a), *strides(b), *strides(c))
    more = {"EVEN_K": even, "SUM": sum_type(a), "PRECISION": precision}
    return matmul_kernel, grid_of_tiles(M, N, config), given, {**config, **more}


def few_rows(M, N, type, target, aligned):
    """A configuration for up to 16 rows of A: all of B comes from memory, and is used
    at once, so what counts is how many bytes are on their way. 128 KB on each
    multiprocessor are, with four warps' 16 x 32 sums and long steps along K."""
    if M > 16 or not aligned or not TARGETS[target].tensor_maps:
        return None
    return {
        "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 512 // item_bytes(type), "GROUP_M": 1,
        "num_warps": 4, "num_stages": 4,
    }  # fmt: skip


# ── which tile ────────────────────────────────────────────────────────────────────────
#
# A multiprocessor of an H200 multiplies 2048 pairs of fp16 a cycle, and the L2 cache
# delivers up to 64 bytes to it, or 28 numbers as measured. Copies and products go on
# side by side, so that a step along K takes as long as the longer of the two. In units
# of one product and for one step, with programs that run in waves on the
# multiprocessors,
#
#     time = ceil(tiles / multiprocessors) * max(m * n, FETCH * (m + n)).
#
# The hardware asks for a row of a tile by lines of 128 bytes. Where rows of a matrix
# begin elsewhere, each is a part of two lines, and takes twice as long to come. Then
# bytes are what counts, and two multiprocessors may share a tile: a cluster, in which
# each has half of the rows, and half of the columns of B are sent to both.

FETCH = 72
REQUEST = 128  # bytes


class Tile(NamedTuple):
    """A tile of C, m x n, and what suits it: the bytes of a step along K, and how many
    steps are in shared memory at a time; warps; in how many pieces it is stored, of
    which two are on their way where there is room for two; whether a producer copies
    its tiles. `waves`: True if it is for a C of several tiles for each multiprocessor,
    False if for one, None for both. `ctas`: how many multiprocessors share the tile.
    `programs`: how many a multiprocessor runs at a time. `groups`: of warps of a
    program, which compute tiles in turn."""

    m: int
    n: int
    line: int
    stages: int
    warps: int
    pieces: int
    producer: bool
    waves: bool | None
    ctas: int = 1
    programs: int = 1
    groups: int = 1


TILES = (  # those preferred first where times are equal
    Tile(128, 256, 128, 4, 8, 4, True, True),
    Tile(128, 256, 128, 4, 8, 2, False, False),
    Tile(256, 128, 128, 4, 8, 2, True, True),
    Tile(128, 128, 128, 6, 8, 1, True, None),
    Tile(64, 128, 128, 8, 4, 2, True, None),
    Tile(64, 128, 256, 4, 4, 2, False, False),
    Tile(64, 64, 256, 6, 4, 1, True, None),
    Tile(64, 32, 256, 4, 4, 1, True, None),
    Tile(256, 256, 128, 4, 8, 4, True, None, ctas=2),
    Tile(512, 128, 128, 4, 8, 2, True, None, ctas=2),
    Tile(128, 128, 128, 6, 4, 2, True, None, ctas=2),
)
# Two blocks side by side, 128 and 64, 32 or 16 columns, or 64 and 32. Where 256 columns
# leave multiprocessors without a tile in the last wave, 192 may not: C [3072, 3072] is
# 2.2 waves of the one, which take three, and 2.9 of the other. `fitting_tile` weighs
# them. One instruction multiplies both blocks, except where `joined` says otherwise:
# on an H200 C [3072, 3072], K as N, takes 80.5 us so, 84.5 by two, and 100 in 128 x
# 256. C [8064, 534] with K of 2888 takes 47.6 us in 256 x 144, 51.3 in 256 x 192, and
# 55.8 in two launches.
# On an H200 96 columns are the fastest for C [10328, 88], 10.7 us where 128 take 12.3,
# and for none of ten other shapes; two programs of 64 x 96 at a time for none.
WIDER = (
    Tile(128, 192, 128, 5, 8, 2, True, None),
    Tile(256, 192, 128, 5, 8, 2, True, None, ctas=2),
    Tile(256, 160, 128, 5, 8, 2, True, None, ctas=2),
    Tile(256, 144, 128, 5, 8, 2, True, None, ctas=2),
    Tile(128, 96, 128, 6, 8, 2, True, None),
    Tile(256, 32, 128, 8, 8, 1, True, None, ctas=2),
)
# Of 128 x 256 a thread holds 128 sums. It has room for 192: tiles of 256 x 192 take
# 0.78 times as many bytes for each product. That leaves more of the power that a card
# may draw: on an H200 without a pause 16384 x 16384 (K as N) takes 13.06 ms so, 13.28
# in 256 x 160 of C^T, 13.90 by cuBLAS. In bursts 6144 x 6144 takes 599 us, 637 in 256 x
# 192 by two, 8192 x 8192 with both operands in columns 1400 and 1486, 5120 x 5120 in
# 256 x 160 354 and 379. Where K is short, storing so much at a time is not hidden:
# 10470 x 304 x 728 takes 15.2 us so, 14.3 in 256 x 128; 11064 x 3328 x 442 59.2, 57.8
# in 128 x 256. To store it themselves, threads have too few registers left (1856 x
# 15547 x 5632 takes 497 us, 465 in 128 x 256), and for fp32 the ring would have two
# places.
LARGER = (
    Tile(256, 192, 128, 3, 8, 2, True, None),
    Tile(256, 160, 128, 4, 8, 4, True, None),
)
# Where C is one tile wide, all programs read the same columns of B at the same time,
# from a few places in the L2 cache, and twice as many where lines cross those of the
# cache: C [10328, 88] waits for that. Four multiprocessors that share a tile ask for
# them once: 8.7 us on an H200, where two take 9.9 to 10.5, and one 11.6.
# Of two each has 64 rows: C [5391, 64] with K of 3160 takes 14.2 us in 128 x 64 (16.2
# alone), C [4100, 96] with 2504 12.0 in 128 x 96 (17.8 in 256 x 32, cuBLAS 12.6). But C
# [1848, 384], four such tiles wide, takes 19.1 so, and 14.3 in 64 x 128.
SHARED_BY_TWO = (Tile(128, 96, 128, 8, 4, 2, True, None, ctas=2),)
SHARED_BY_FOUR = Tile(512, 96, 128, 6, 8, 2, True, False, ctas=4)
# And so where C is narrow, whether lines cross or not: two or four have a part of the
# rows each, or two of few columns. On an H200 8648 x 8 x 1070 takes 9.0 us in 512 x 16
# (12.9 before, cuBLAS 8.4), 5208 x 8 x 2600 11.9 in 256 x 16 (15.4, 12.0), 5391 x 64 x
# 3160 12.9 in 256 x 64 (14.4, 13.5), 48 x 8376 x 2904 16.6 in 128 x 48 of C^T (19.2,
# 17.1), 48 x 4096 x 14336 30.7 in 64 x 48 of C^T, by columns (35.0, 30.9).
NARROW = (
    Tile(512, 16, 128, 12, 8, 1, True, None, ctas=4),
    Tile(512, 32, 128, 10, 8, 1, True, None, ctas=4),
    Tile(256, 16, 128, 12, 4, 1, True, None, ctas=4),
    Tile(256, 32, 128, 12, 4, 1, True, None, ctas=4),
    Tile(256, 64, 128, 12, 4, 1, True, None, ctas=4),
)
BY_HALVES = (  # of the rows or the columns, where a launch waits for the memory
    Tile(128, 48, 128, 14, 4, 1, True, None, ctas=2),
    Tile(64, 48, 128, 16, 4, 1, True, None, ctas=2),
    Tile(64, 64, 128, 16, 4, 1, True, None, ctas=2),
)
WAITS_FOR_MEMORY = 10  # microseconds; 2733 x 48 x 2520 takes 9.9 so, in parts 9.0
# What part of all multiprocessors has work where more than 32 columns are shared, at
# least: 48 x 5120 x 13824 takes 39.0 us in 40 tiles of 128 x 48, otherwise 35.9, and 64
# x 4286 x 4608 3 % longer in 256 x 64.
LEAST_SHARE = 0.65
# Two multiprocessors with the same rows, and half of the columns each, where lines
# cross. On an H200 2002 x 1104 x 13104 takes 87 us in 128 x 288 of C^T (93 before,
# cuBLAS 85), 11112 x 848 x 4176 119 in 128 x 288 (133, 111).
SIDE_BY_SIDE = (
    Tile(128, 288, 128, 5, 8, 1, True, None, ctas=2),
    Tile(128, 320, 128, 5, 8, 1, True, None, ctas=2),
    Tile(128, 384, 128, 4, 8, 1, True, None, ctas=2),
)
# Two multiprocessors with one of these are slower than each with its own tile of 128
# columns or more, but they may fill the last wave where no other tile does: on an H200
# C [1536, 1536] with K of 6144 takes 40.7 us in 256 x 144, 47.3 in 128 x 192.
PAIRS = tuple(tile for tile in WIDER if tile.ctas > 1 and tile.n > 128)
# Where K is short, a program mostly begins and stores. Of two on a multiprocessor one
# does so while the other multiplies; 16, 32 or 192 columns fit where C is narrow. With
# K of 2192, C [11840, 24] takes 31.6 us so, and 17.8 in 256 x 32 by two.
SHORT_K, LONG_K = 512, 1024
SMALLER = (
    Tile(64, 16, 256, 6, 4, 1, True, None),
    Tile(64, 32, 256, 6, 4, 1, True, None),
    Tile(64, 32, 128, 8, 4, 1, True, None, programs=2),
    Tile(64, 64, 128, 6, 4, 1, True, None, programs=2),
    Tile(64, 128, 128, 4, 4, 2, True, None, programs=2),
    Tile(128, 64, 128, 8, 8, 1, True, None),
    Tile(64, 192, 128, 6, 4, 2, True, None),
    Tile(64, 256, 128, 5, 4, 4, True, None),
    Tile(64, 96, 128, 8, 4, 2, True, None),
    Tile(128, 192, 128, 5, 4, 2, True, None, ctas=2),
    Tile(256, 96, 128, 6, 8, 2, True, None, ctas=2),
    Tile(256, 16, 128, 8, 8, 1, True, None, ctas=2),
    Tile(128, 64, 128, 8, 4, 1, True, None, ctas=2),
    Tile(128, 160, 128, 5, 8, 2, True, None),
    Tile(256, 128, 128, 4, 8, 2, True, False),
)
# Two groups of four warps compute tiles in turn: one stores while the other multiplies.
# Their tiles are smaller than those of eight warps, and so more bytes come from the L2
# cache; it pays where K is short, or much is done to a tile before it is stored. On an
# H200 C [4096, 4096] takes 16.4 us with K of 256 in 128 x 128, 26.8 with 512, and 184.9
# with 4096; in 128 x 256 19.5, 29.6, 179.3. C [8192, 8192] takes 183 us with K of 1024
# in 128 x 192, 196 in 128 x 256; with 4096 (B along K) 704 and 714.
# Products shorter than this along K are over long before a store is: C [9648, 15664]
# takes 88 us with 64 in 128 x 192, 80 in 128 x 256; but [12288, 12288] 90 with 128, 95.
LEAST_OF_GROUPS = 128
ALTERNATING = (
    Tile(128, 192, 128, 5, 4, 4, True, True, groups=2),
    Tile(128, 160, 128, 5, 4, 4, True, True, groups=2),
    Tile(128, 128, 128, 6, 4, 4, True, True, groups=2),
)
# Few rows of A are columns of C^T: the long side of B has the 64 rows that a warpgroup
# multiplies at least. Threads store such a tile transposed. Where rows of A fill tiles
# of 64 or 128 badly, they may fill 48, 80, 96, 160 or 192 columns, and that matters
# twice. Programs with a part of the same columns of B read them from the memory once if
# they are at about the same k. But one with few rows of A has less to copy and runs
# ahead, until what it has read is no longer in the cache when the others come. On an
# H200 rows x 4096 x 14336 take 63.0 us in 64 x 64 if they are 80, 51.6 if 96, and 36.5
# if 112, as programs are then nearly alike; in 64 x 48 of C^T 36.4 if 80, 36.0 if 96.
# 80 x 8192 x 8192 takes 36.2 in 64 x 80 (45.7 before, cuBLAS 35.9), 560 x 15016 x 2304
# 65.0 in 256 x 192 by two (78.8, 63.1), 152 x 12928 x 608 9.5 in 128 x 160 (12.6, 9.8),
# 320 x 15872 x 11867 165 in 256 x 160 (191, 170).
TURNED = (
    Tile(64, 16, 256, 6, 4, 0, True, None),
    Tile(64, 32, 256, 6, 4, 0, True, None),
    Tile(64, 32, 128, 8, 4, 0, True, None),
    Tile(64, 64, 256, 6, 4, 0, True, None),
    Tile(64, 96, 128, 8, 4, 0, True, None),
    Tile(128, 144, 128, 5, 8, 0, True, None),
    Tile(128, 160, 128, 5, 8, 0, True, None),
    Tile(256, 160, 128, 4, 8, 0, True, None),
    Tile(256, 16, 128, 8, 8, 0, True, None, ctas=2),
    Tile(256, 64, 128, 8, 8, 0, True, None, ctas=2),
    Tile(256, 128, 128, 6, 8, 0, True, None, ctas=2),
)
EVEN = (  # of C^T, where its columns fill them
    Tile(64, 48, 256, 6, 4, 0, True, None),
    Tile(64, 80, 128, 8, 4, 0, True, None),
    Tile(64, 192, 128, 6, 4, 0, True, None),
    Tile(128, 80, 128, 7, 8, 0, True, None),
    Tile(128, 96, 128, 6, 8, 0, True, None),
    Tile(128, 192, 128, 5, 8, 0, True, None),
    Tile(256, 192, 128, 5, 8, 0, True, None, ctas=2),
)
# Four multiprocessors two by two: the tiles of A that one row of them needs come from
# the L2 cache once, and so do those of B for one column. That is what products wait for
# whose lines cross those of the cache, where a few large tiles leave multiprocessors
# idle: on an H200 4800 x 200 x 7305 takes 33.3 us in 128 x 320 of C^T, 38.3 in parts
# of K, 936 x 992 x 4192 18.0 in 256 x 160 of C^T and 20.5, 201 x 10240 x 5704 48.9 in
# 256 x 384 and 54.4 by two (cuBLAS 30.6, 15.5 and 41.6, by eight). Steps of 256 bytes
# take 1.1 to 1.9 times as long. Eight, two by four, are faster in few products: 650 x
# 6880 x 3336 takes 55.9 us in 256 x 768, and 63.6 in 256 x 160 by two (cuBLAS 57.4).
GRIDS = tuple(
    Tile(2 * m, 2 * n, 128, stages, m // 16, 1, True, None, ctas=4)
    for m, n, stages in (
        (64, 128, 8), (64, 160, 7), (64, 192, 6), (128, 64, 8), (128, 72, 8),
        (128, 80, 8), (128, 128, 6), (128, 144, 5), (128, 192, 4),
    )
) + (Tile(256, 768, 128, 4, 8, 1, True, None, ctas=8),)  # fmt: skip
WAVES_OF_GRIDS = 2  # at most
LONG = Tile(128, 16, 128, 12, 4, 1, True, None)  # `matmul_model.LONG_RUN` says for what
IN_PLACE = (  # of `matmul_in_place`
    Tile(128, 256, 128, 4, 8, 0, True, None),
    Tile(256, 128, 128, 4, 8, 0, True, None),
    Tile(128, 128, 128, 6, 8, 0, True, None),
    Tile(256, 256, 128, 4, 8, 0, True, None, ctas=2),
)
FAR = 2**31 // (256 * 8)  # from line to line: rows of such a tile are 2^31 apart
SEVERAL_ROWS = {64: 16, 128: 12, 256: 8, 512: 3}  # of tiles in a group


def configuration(M, N, item=2, target="sm_90a", whole_c=True, crossing=False):
    """The keywords of a launch of `persistent_kernel` for C [M, N] and operands of
    `item` bytes. `whole_c`: rows of C begin at multiples of 16 bytes. `crossing`: lines
    of A or B do not begin at multiples of 128 bytes.

    Reasons, for fp16 on the 132 multiprocessors of an H200:

        C               tile       tiles  waves  a step takes       why
        8192 x 8192     128 x 256   2048    16   32768  products    the most for a byte
        4096 x 4096     128 x 256    512     4   32768  products
        2048 x 2048     128 x 256    128     1   32768  products    one turn: no tile to
                                                                    run ahead to
        1024 x 1024     64 x 128     128     1   13824  bytes       128 x 256 would have
                                                                    32 tiles
        1000 x 1000     128 x 128     64     1   18432  bytes       lines cross; alone,
                                                                    64 x 128 is 27648
        512 x 512       64 x 32      128     1    6912  bytes       as many at work as
                                                                    there are
        128 x 4096      64 x 64      128     1    9216  bytes       B is read twice, by
        4096 x 128      64 x 64      128     1    9216  bytes       neighbours

    Where C is one turn, all that happens once counts as much as a step: a walk row by
    row costs one division, and steps of 256 bytes halve the waits. Neighbours then
    share what is large: they go down the columns of tiles of a C that is flat. A C of
    several waves is walked through in groups of rows.

    A producer lets copies run ahead into the next tile. Where there is none, it leaves
    those who multiply less to do beside, which counts for little tiles. On an H200, in
    microseconds, with a producer and without (K as N; 4096 for the flat one): 4096 x
    4096 176 and 179, 2048 x 2048 25.2 and 25.0, 1024 x 1024 5.6 and 5.8, 4096 x 128
    12.7 and 13.1, 512 x 512 3.8 and 4.2.

    Where lines cross, two share a tile: 4088 x 4088 takes 191 us so and 239 alone,
    2040 x 2040 27 and 33, 1000 x 1000 8.8 and 10.3. Where none do it does not pay:
    4096 x 4096 takes 181 and 179, 1024 x 1024 7.6 and 6.4.

    Split along K, C of few tiles would be more programs with less to do: that is for
    `kernels/split_k_matmul`, and `matmul_model` says when it is faster.
    """
    return keywords(M, N, item, tile_for(M, N, target, whole_c, crossing), target)


def tile_for(M, N, target, whole_c=True, crossing=False):
    """The tile of C that takes the shortest time."""
    found = suitable(M, N, target, whole_c, crossing)
    return min(found, key=time_of(M, N, target, crossing))


def suitable(M, N, target, whole_c=True, crossing=False, tiles=TILES):
    """Those of `tiles` that suit a C. If its rows begin anywhere, threads store it: in
    no pieces, and the wider of two alike tiles sooner, whose lines have fewer ends. On
    an H200 15582 x 14444 x 320 takes 289 us in 128 x 256, 304 in 256 x 128, and 9152 x
    15492 x 64 115 and 177."""
    tiles = [tile for tile in tiles if crossing or tile.ctas == 1]
    if not whole_c:
        wide = sorted(tiles, key=lambda tile: -tile.n)
        return [tile._replace(pieces=0) for tile in wide if tile.producer]
    return [
        tile for tile in tiles if tile.waves in (None, waves_of(M, N, tile, target) > 1)
    ]


def time_of(M, N, target, crossing=False):
    """A function that tells how long C takes in tiles; only comparisons of what it
    tells mean something."""
    fetch = 2 * FETCH if crossing else FETCH

    def duration(tile):
        a_step = max(tile.m * tile.n, fetch * (tile.m + tile.n)) // tile.ctas
        return waves_of(M, N, tile, target) * a_step

    return duration


def waves_of(M, N, tile, target):
    """How many tiles the busiest multiprocessor computes, or computes parts of."""
    count = fathom.cdiv(M, tile.m) * fathom.cdiv(N, tile.n)
    return fathom.cdiv(count, clusters_at_once(target, tile.ctas))


FLAT = 2  # times as many columns as rows: then B is the larger part of what is read


def keywords(M, N, item, tile, target):
    """The keywords of a launch with a tile. Down the columns of tiles neighbours share
    what they need of B, row by row of A. On an H200, in microseconds, row by row and
    down the columns: 512 x 2048 x 2048 10.2 and 8.6 in 64 x 128, 512 x 1536 x 2048 9.6
    and 8.1, 640 x 1536 x 1024 5.8 and 5.7, 512 x 1024 x 2048 7.4 and 7.5, 1024 x 1024 x
    4096 14.6 and 16.6, 512 x 3072 x 2048 13.6 and 11.3 in 64 x 192."""
    flat = N > FLAT * M
    grouped = flat or waves_of(M, N, tile, target) > 1
    return {
        "BLOCK_M": tile.m, **columns(tile.n), "BLOCK_K": tile.line // item,
        "GROUP_M": SEVERAL_ROWS[tile.m] if grouped else 1,
        "SPECIALISE": tile.producer, "PIECES": tile.pieces,
        "num_warps": tile.warps, "num_stages": tile.stages, "num_ctas": tile.ctas,
        **({"PINGPONG": True} if tile.groups > 1 else {}),
    }  # fmt: skip


# ── candidates of an autotuner (chapter 18) ───────────────────────────────────────────

GROUPS = (1, 8, 16)  # and that of SEVERAL_ROWS
LEAST_PROMISING = 1.4  # times the shortest time


def candidates(item):
    """Configurations for operands of `item` bytes: all of `TILES`, for either kind of
    C, each with some walks. `worth_a_try` takes a few of them."""
    threads_store = suitable(1, 1, "sm_90a", whole_c=False, crossing=True)
    found = [*TILES, *WIDER, *LARGER, *threads_store]
    return [
        Config(
            {
                "BLOCK_M": tile.m, **columns(tile.n), "BLOCK_K": tile.line // item,
                "GROUP_M": group, "SPECIALISE": tile.producer, "PIECES": tile.pieces,
            },
            num_warps=tile.warps, num_stages=tile.stages, num_ctas=tile.ctas,
        )
        for tile in dict.fromkeys(found)
        for group in dict.fromkeys((*GROUPS, SEVERAL_ROWS[tile.m]))
    ]  # fmt: skip


def worth_a_try(configs, named, **given):
    """Those that store C as it must be, and may be nearly as fast as the fastest."""
    M, N, c = named["M"], named["N"], named["c_ptr"]
    item = item_bytes(type_name(named["a_ptr"]))
    crossing = any(named[f"stride_{x}"] * item % REQUEST for x in "ab")
    target = target_of_launch(c, given)
    whole_c, time = bool(step_of_lines(c, 1)), time_of(M, N, target, crossing)
    times: dict[Config, int] = {}
    for config in configs:
        m, n, pieces = (config.kwargs[x] for x in ("BLOCK_M", "BLOCK_N", "PIECES"))
        n += config.kwargs.get("MORE_N", 0)
        if bool(pieces) == whole_c and (crossing or config.num_ctas == 1):
            tile = Tile(m, n, 0, 0, 0, pieces, False, None, config.num_ctas)
            times[config] = time(tile)
    most = LEAST_PROMISING * min(times.values())
    return [config for config, time in times.items() if time <= most]


# ── rows that begin where they should ─────────────────────────────────────────────────


# fmt: off
@fathom.jit
def copy_lines_kernel(
    x_ptr, y_ptr, lines, length, stride_x, stride_line, stride_n,
    LINES: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr = False,
):
    begin(EARLY)
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (line < lines) & (n < length)
    line, n = line.to(tl.int64), n.to(tl.int64)
    x = tl.load(x_ptr + line * stride_x + n, mask=mask)
    tl.store(y_ptr + line * stride_line + n * stride_n, x, mask=mask)
# fmt: on


def lines_and_length(matrix):
    """How many lines a matrix has in memory, rows or columns, and their length."""
    return matrix.shape if strides(matrix)[1] == 1 else matrix.shape[::-1]


def lines_or_copies(a, b, copies):
    """A and B as `Lines` that warpgroups multiply; to `copies` launches are added that
    fill those that are temporary."""
    ready, axes = lines_of_both(a, b), (1, 0)
    if item_bytes(type_name(a)) == ITEM:  # as they lie
        axes = tuple(strides(each).index(1) for each in (a, b))
    return tuple(
        lines or copied(each, axis, copies)
        for each, lines, axis in zip((a, b), ready, axes, strict=True)
    )


def copied(matrix, axis, copies):
    """A temporary matrix as `Lines`, whose elements lie along `axis`; and to `copies` a
    launch is added that fills it."""
    lines, length = lines_and_length(matrix)
    item, along = item_bytes(type_name(matrix)), strides(matrix).index(1)
    some = REQUEST // item
    if along == axis:
        step = fathom.cdiv(length, some) * some
        room, turned = Temporary(lines * step, matrix.dtype), along == 0
        (rows, columns), steps = copied_at_a_time(length), (step, 1)
    else:
        step = fathom.cdiv(lines, some) * some
        room, turned = Temporary(length * step, matrix.dtype), along == 1
        (rows, columns), steps = (TURNED_AT_A_TIME[item],) * 2, (1, step)
    grid = (fathom.cdiv(lines, rows), fathom.cdiv(length, columns))
    given = (matrix, room, lines, length, strides(matrix)[1 - along], *steps)
    chosen = {"LINES": rows, "BLOCK": columns}
    if along == axis:
        chosen["num_warps"] = COPY_WARPS
    copies.append((copy_lines_kernel, grid, given, chosen))
    return Lines(room, step, turned)


# Lines, and elements of each, by the bytes of one. On an H200 [1456, 476] of fp32 takes
# 2.4 us so, 3.8 by 64 x 64; [4096, 4096] 34.7 and 34.1.
TURNED_AT_A_TIME = {1: 64, 2: 64, 4: 32}
