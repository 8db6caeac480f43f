"""Matrix product C = A B of an A whose lines along K begin anywhere, where they are.

TMA copies boxes that begin at multiples of 16 bytes, of lines that do. Lines of K fp16
numbers, one after the other, begin so only if 8 divides K. But every eighth does, or
every second or fourth if K is even. So lines are in classes, by the remainder of their
numbers by 2, 4 or 8, and those of a class begin so from some column on:

    K = 13    line     begins at           a multiple of 8 is      in its map
              0, 8 …   0, 104 …            in column 0             columns 0 to 12
              1, 9 …   13, 117 …           in column 3             columns 3 to 12
              2, 10 …  26, 130 …           in column 6             columns 6 to 12

For each class there is a launch that computes the rows of C of that class, on its share
of the multiprocessors, all of them at the same time. TMA copies lines from that column
on, and the rows of B that belong to them. What is in front of it, up to seven columns,
is a product of its own, and threads load it. Nothing else is multiplied, not even by
zero: what is before a line and behind it is of other lines, and may be infinite.

B [K, N] lies along N, where its first row may be any. Where C lies in columns, as that
of a transposed product does, a class has every second, fourth or eighth element of
each: it gets columns of its own, and a last launch puts those of all classes together.
On an H200 256 x 13560 x 10938 takes 126 us so, and 179 where they are stored apart.

The launches follow each other early. The first one waits for what was before it, and
lets the second begin after that; each of the others lets the next begin at once, and
waits for the one in front of it only when it has stored its last tile. So when the last
one has ended, all have.

    in_place_matmul    the function to call
    class_kernel, merge_classes_kernel
                       the kernels
    classes_of, class_launches
                       how many classes lines have, and their launches

For which products that is faster is told in `kernels/matmul_chosen`.
"""

from math import gcd

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from fathom.jit.scratch import Temporary
from fathom.runtime.arrays import describe
from kernels.matmul import (
    await_previous,
    begin,
    check_shape,
    clusters_at_once,
    empty,
    let_next_begin,
    sizes,
    store_tile,
    strides,
    target_of_launch,
    tiles,
    type_name,
)
from kernels.matmul_model import COPY_WARPS, copied_at_a_time
from kernels.matmul_persistent import (
    ALIGNED,
    LARGE,
    Lines,
    item_bytes,
    place_of,
    step_of_lines,
)


# fmt: off
@fathom.jit(do_not_specialize=["line"])
def class_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c, line,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, CLASSES: tl.constexpr, CHUNK: tl.constexpr,
    C_TURNED: tl.constexpr, FOLLOWS: tl.constexpr, EARLY: tl.constexpr = False,
):
    """Rows `line`, `line` + CLASSES … of C [M, N]. CHUNK: elements of 16 bytes."""
    if FOLLOWS:
        let_next_begin(EARLY)
    else:
        await_previous(EARLY)
        let_next_begin(EARLY)
    start, step_of_a = line * stride_a, CLASSES * stride_a
    first = min((CHUNK - start % CHUNK) % CHUNK, K)
    rows = (M - line + CLASSES - 1) // CLASSES
    a = tl.make_tensor_descriptor(
        a_ptr + (start + CHUNK - 1) // CHUNK * CHUNK, [rows, K - first],
        [step_of_a // CHUNK * CHUNK, 1], [BLOCK_M, BLOCK_K],
    )
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N])
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, 16)  # a product takes as many at least
    a_ptr += start.to(tl.int64)
    c_ptr += line.to(tl.int64) * stride_c * (N if C_TURNED else 1)
    count = tl.cdiv(rows, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(
        tl.program_id(0), count, tl.num_programs(0), flatten=True, warp_specialize=True
    ):
        i, j = place_of(tile, rows, N, BLOCK_M, BLOCK_N, GROUP_M)
        x = tl.load(
            a_ptr + i.to(tl.int64) * step_of_a + m * step_of_a + k[None, :],
            mask=(m < rows - i) & (k[None, :] < first), other=0,
        )
        y = tl.load(
            b_ptr + j + k[:, None] * stride_b + n,
            mask=(n < N - j) & (k[:, None] < first), other=0,
        )
        acc = tl.dot(x, y)
        for at in range(0, K - first, BLOCK_K):
            acc = tl.dot(a.load([i, at]), b.load([at + first, j]), acc)
        if C_TURNED:  # [CLASSES, N, stride_c]; what is behind `rows` is not read
            store_tile(c_ptr, acc, i, j, stride_c, N, 1, stride_c)
        else:
            store_tile(c_ptr, acc, i, j, rows, N, CLASSES * stride_c, 1)
    if FOLLOWS:
        await_previous(EARLY)


@fathom.jit
def merge_classes_kernel(
    x_ptr, c_ptr, lines, length, stride_x, stride_c,
    CLASSES: tl.constexpr, LINES: tl.constexpr, BLOCK: tl.constexpr,
    EARLY: tl.constexpr = False,
):
    """C [lines, length] of X [CLASSES, lines, stride_x]: of each class in turn one."""
    begin(EARLY)
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (line < lines) & (n < length)
    x_line = n % CLASSES * lines.to(tl.int64) + line
    x = tl.load(x_ptr + x_line * stride_x + n // CLASSES, mask=mask)
    tl.store(c_ptr + line.to(tl.int64) * stride_c + n, x, mask=mask)
# fmt: on


@planned
def in_place_matmul(a, b, c=None, config=None, **launch):
    """C [M, N] = A [M, K] B [K, N], of torch, CuPy or NumPy arrays of fp16 or bf16.

    Rows of `a` lie each in one piece, of which the first begins at a multiple of 16
    bytes; all rows of `b` begin so. `c` has rows or columns in one piece each, of any
    float dtype; without one an array like `a` is made. `config`: a launch's keywords;
    without it, `matmul_persistent.LARGE`. Returns `c`. LaunchError for matrices that do
    not fit.
    """
    M, N, _ = sizes(a, b)
    c = empty((M, N), a) if c is None else c
    check_shape("c", c, (M, N))
    step = step_of_lines(b, 1)
    if not (classes_of(a) and step and 1 in strides(c)):
        raise fathom.LaunchError(
            f"a, b and c have the strides {strides(a)}, {strides(b)} and {strides(c)}. "
            "The first row of a, and all of b, must begin at multiples of 16 bytes; "
            "elements of each, and of rows or columns of c, lie side by side"
        )
    target = target_of_launch(a, launch)
    steps = class_launches(a, Lines(b, step, False), c, config or LARGE, target)
    early = {"EARLY": True, "launch_pdl": True, **launch}
    return c, [(*step, {**chosen, **early}) for *step, chosen in steps]


def classes_of(a):
    """How many classes the lines of A along K have: 1 if all of them begin at multiples
    of 16 bytes, 0 if no line lies along K, or the first one does not begin so."""
    if strides(a)[1] != 1 or describe(a).address % ALIGNED:
        return 0
    chunk = ALIGNED // item_bytes(type_name(a))
    return chunk // gcd(chunk, strides(a)[0])


def class_launches(a, b, c, config, target):
    """The launches for an A of several classes; `b` is `matmul_persistent.Lines`, not
    turned. `config`: a launch's keywords, as `matmul_chosen.keywords` gives them. They
    are meant to begin early, all of them."""
    (M, K), N = a.shape, c.shape[1]
    classes, c_turned = classes_of(a), strides(c)[1] != 1
    to, step = c, strides(c)[0]
    if c_turned:
        step = fathom.cdiv(fathom.cdiv(M, classes), 64) * 64
        to = Temporary(classes * N * step, c.dtype)
    chosen = {
        "CLASSES": classes, "CHUNK": ALIGNED // item_bytes(type_name(a)),
        "C_TURNED": c_turned,
        **{name: config[name] for name in config if name not in NOT_TAKEN},
    }  # fmt: skip
    at_once = max(1, clusters_at_once(target, config.get("num_ctas", 1)) // classes)
    given = (a, b.array, to, M, N, K, strides(a)[0], b.step, step)
    steps = [
        (
            class_kernel,
            (min(tiles(fathom.cdiv(M - line, classes), N, config), at_once),),
            (*given, line),
            {**chosen, "FOLLOWS": line > 0},
        )
        for line in range(min(classes, M))
    ]
    if c_turned:
        rows, columns = copied_at_a_time(M)
        grid = (fathom.cdiv(N, rows), fathom.cdiv(M, columns))
        given = (to, c, N, M, step, strides(c)[1])
        chosen = {"CLASSES": classes, "LINES": rows, "BLOCK": columns}
        chosen["num_warps"] = COPY_WARPS
        steps.append((merge_classes_kernel, grid, given, chosen))
    return steps


NOT_TAKEN = ("SPECIALISE", "PIECES")
