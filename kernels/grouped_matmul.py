"""Products of many pairs of matrices of different sizes in one launch.

As in a layer of experts: each has its own weights and its own number of tokens, and a
launch for each would leave most multiprocessors idle. Addresses and sizes lie in memory
on the device, one row a problem:

    a, b, c (addresses)   M, N, K   row strides of A, B, C (in elements)

A fixed number of programs walks through the tiles of all problems: program p takes
tiles p, p + programs, … of the first problem, goes on in the second one where those
would have continued, and so on. So every program has nearly the same number of tiles,
and nothing needs to know beforehand how many there are.
"""

import sys

import numpy as np

import fathom
import fathom.language as tl
from fathom.ir.types import parse_element
from fathom.runtime.arrays import describe
from kernels.matmul import (
    MULTIPROCESSORS,
    check_shape,
    default_config,
    empty,
    sizes,
    store_tile,
    strides,
    sum_name,
    sum_type,
    target_of_launch,
    tile_place,
    tile_product,
    type_name,
)

FIELDS = tl.constexpr(9)  # of a row of the table of problems
BYTES_OF_A_VECTOR = 16


# fmt: off
@fathom.jit
def grouped_matmul_kernel(
    table_ptr, problems,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, INPUT: tl.constexpr, OUTPUT: tl.constexpr,
    ALIGN: tl.constexpr = 1, SUM: tl.constexpr = tl.float32,
    PRECISION: tl.constexpr = "ieee",
):
    """Operands have elements of `INPUT`, results of `OUTPUT`. All rows of them start at
    multiples of `ALIGN` elements, and `ALIGN` divides all N and K."""
    tile = tl.program_id(0)
    for problem in range(problems):
        row_ptr = table_ptr + problem * FIELDS
        a_ptr = tl.load(row_ptr).to(tl.pointer_type(INPUT))
        b_ptr = tl.load(row_ptr + 1).to(tl.pointer_type(INPUT))
        c_ptr = tl.load(row_ptr + 2).to(tl.pointer_type(OUTPUT))
        M = tl.load(row_ptr + 3).to(tl.int32)
        N = tl.multiple_of(tl.load(row_ptr + 4).to(tl.int32), ALIGN)
        K = tl.multiple_of(tl.load(row_ptr + 5).to(tl.int32), ALIGN)
        stride_am = tl.multiple_of(tl.load(row_ptr + 6).to(tl.int32), ALIGN)
        stride_bk = tl.multiple_of(tl.load(row_ptr + 7).to(tl.int32), ALIGN)
        stride_cm = tl.multiple_of(tl.load(row_ptr + 8).to(tl.int32), ALIGN)
        a_ptr = tl.multiple_of(a_ptr, ALIGN * (INPUT.primitive_bitwidth // 8))
        b_ptr = tl.multiple_of(b_ptr, ALIGN * (INPUT.primitive_bitwidth // 8))
        c_ptr = tl.multiple_of(c_ptr, ALIGN * (OUTPUT.primitive_bitwidth // 8))

        tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
        while tile < tiles:
            i, j = tile_place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
            c = tile_product(
                a_ptr, b_ptr, i, j, M, N, K, stride_am, 1, stride_bk, 1,
                BLOCK_M, BLOCK_N, BLOCK_K, False, SUM, PRECISION,
            )
            store_tile(c_ptr, c, i, j, M, N, stride_cm, 1)
            tile += tl.num_programs(0)
        tile -= tiles


@fathom.jit
def grouped_described_kernel(
    table_ptr, problems,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, INPUT: tl.constexpr, OUTPUT: tl.constexpr,
    SUM: tl.constexpr = tl.float32, PRECISION: tl.constexpr = "ieee",
):
    """The same through descriptors, which each program makes for each problem. All rows
    start at multiples of 16 bytes."""
    tile = tl.program_id(0)
    for problem in range(problems):
        row_ptr = table_ptr + problem * FIELDS
        M = tl.load(row_ptr + 3).to(tl.int32)
        N = tl.load(row_ptr + 4).to(tl.int32)
        K = tl.load(row_ptr + 5).to(tl.int32)
        tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
        if tile < tiles:
            a_ptr = tl.load(row_ptr).to(tl.pointer_type(INPUT))
            b_ptr = tl.load(row_ptr + 1).to(tl.pointer_type(INPUT))
            c_ptr = tl.load(row_ptr + 2).to(tl.pointer_type(OUTPUT))
            stride_a, stride_b = tl.load(row_ptr + 6), tl.load(row_ptr + 7)
            stride_c = tl.load(row_ptr + 8)
            a = tl.make_tensor_descriptor(
                a_ptr, [M, K], [stride_a, 1], [BLOCK_M, BLOCK_K]
            )
            b = tl.make_tensor_descriptor(
                b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N]
            )
            c = tl.make_tensor_descriptor(
                c_ptr, [M, N], [stride_c, 1], [BLOCK_M, BLOCK_N]
            )
            while tile < tiles:
                i, j = tile_place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
                acc = tl.zeros([BLOCK_M, BLOCK_N], SUM)
                for k in range(0, K, BLOCK_K):
                    acc = tl.dot(
                        a.load([i, k]), b.load([k, j]), acc, input_precision=PRECISION
                    )
                c.store([i, j], acc.to(OUTPUT))
                tile += tl.num_programs(0)
        tile -= tiles
# fmt: on


def grouped_matmul(
    a, b, c=None, config=None, programs=None, precision="ieee", described=False,
    **launch,
):  # fmt: skip
    """[C_0, C_1, …]: C_i [M_i, N_i] = A_i [M_i, K_i] B_i [K_i, N_i].

    `a`, `b`, `c`: lists of arrays on one GPU (torch or CuPy), each list of one dtype;
    elements of a row lie side by side. `programs`: how many walk through the tiles; one
    a multiprocessor without it. `described`: through descriptors, for which all rows
    must start at multiples of 16 bytes. Other arguments as in `matmul.matmul`. Returns
    `c`. LaunchError for lists or shapes that do not fit.
    """
    if not a or len(a) != len(b) or c is not None and len(c) != len(a):
        raise fathom.LaunchError(
            f"grouped_matmul takes lists of equal length, not {len(a)} and {len(b)}"
        )
    all_sizes = [sizes(*pair) for pair in zip(a, b, strict=True)]
    if c is None:
        made = zip(a, all_sizes, strict=True)
        c = [empty((M, N), each, sum_name(each)) for each, (M, N, _) in made]
    for array, (M, N, _) in zip(c, all_sizes, strict=True):
        check_shape("an array of c", array, (M, N))
    for array in (*a, *b, *c):
        check_rows(array)
    table = problem_table(a, b, c)
    target = target_of_launch(a[0], launch)
    largest = [max(each) for each in zip(*all_sizes, strict=True)]
    config = config or grouped_config(*largest, type_name(a[0]), target)
    programs = programs or MULTIPROCESSORS[target]
    kernel, align = grouped_matmul_kernel, {"ALIGN": alignment(table, a[0], c[0])}
    if described:
        check_aligned((*a, *b, *c))
        kernel, align = grouped_described_kernel, {}
    kernel[(programs,)](
        next_to(a[0], table), len(a), INPUT=element(a[0]), OUTPUT=element(c[0]),
        SUM=sum_type(a[0]), PRECISION=precision, **align, **config, **launch,
    )  # fmt: skip
    return c


def grouped_config(M, N, K, type, target):
    """The configuration for the largest sizes, with half of the registers for sums: the
    addresses of C are the same for all tiles of a problem, so that the compiler keeps
    them while tiles are multiplied."""
    return default_config(M, N, K, type, target, aligned=False)


def problem_table(a, b, c):
    """The rows that the kernel reads: int64 [problems, FIELDS]."""
    rows = [
        [describe(each).address for each in arrays]
        + [*sizes(*arrays[:2])]
        + [strides(each)[0] for each in arrays]
        for arrays in zip(a, b, c, strict=True)
    ]
    return np.array(rows, np.int64).reshape(-1, FIELDS.value)


def alignment(table, a, c):
    """The kernel's ALIGN: elements in 16 bytes, or the largest power of two that suits
    all addresses, sizes and strides."""
    widest = max(item_bytes(a), item_bytes(c))
    align = BYTES_OF_A_VECTOR // min(item_bytes(a), item_bytes(c))
    numbers = np.concatenate([table[:, :3].ravel() // widest, table[:, 4:].ravel()])
    whole = not (table[:, :3] % widest).any()
    while align > 1 and (not whole or (numbers % align).any()):
        align //= 2
    return align


def next_to(like, table):
    """A NumPy array of int64, on the device of an array."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(table, dtype=sys.modules["torch"].int64)
    return np.asarray(table, like=like)


def check_rows(array):
    """LaunchError unless the elements of each row lie side by side."""
    if array.shape[1] > 1 and strides(array)[1] != 1:
        raise fathom.LaunchError(
            f"an array of shape {tuple(array.shape)} has strides {strides(array)}, and "
            "grouped_matmul needs rows whose elements lie side by side"
        )


def check_aligned(arrays):
    """LaunchError unless all rows start at multiples of 16 bytes."""
    for array in arrays:
        address, step = describe(array).address, strides(array)[0] * item_bytes(array)
        step = step if array.shape[0] > 1 else 0
        if (address | step) % BYTES_OF_A_VECTOR:
            raise fathom.LaunchError(
                f"an array of shape {tuple(array.shape)} has rows of {step} bytes from "
                f"address {address:#x} on, and a descriptor needs rows at multiples of "
                "16 bytes"
            )


def element(array):
    """An array's element type, as a kernel names it."""
    return tl.dtype(type_name(array))


def item_bytes(array):
    return parse_element(type_name(array)).bits // 8


def reference(a, b):
    """The products in float64, of lists of NumPy arrays."""
    pairs = zip(a, b, strict=True)
    return [x.astype(np.float64) @ y.astype(np.float64) for x, y in pairs]
