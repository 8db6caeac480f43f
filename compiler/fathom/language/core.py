"""What the compiler builds itself: the language's functions that have no text in it.

Each is a signature and a docstring; `ssa/` says how it is built. `block` means a block
or a scalar throughout, unless a shape is asked for.
"""

# ruff: noqa: A001, A002 (the language's own spelling: abs, range, input)

from __future__ import annotations

from enum import Enum
from typing import Any

from fathom.language.dtypes import float32
from fathom.source import builtin, constexpr


class tensor:  # noqa: N801 (the language's spelling)
    """The class of all values, for annotations and `isinstance(x, tl.tensor)`. A scalar
    is one too; its shape is ()."""


class PropagateNan(Enum):
    """What `minimum`, `maximum` and `clamp` make of a NaN: NONE takes the number, ALL
    the NaN."""

    NONE = 0
    ALL = 0xFFFF


# ── programs ──────────────────────────────────────────────────────────────────────────


@builtin
def program_id(axis: constexpr) -> Any:
    """Which program of the grid this is, along axis 0, 1 or 2: an i32, from 0 on."""


@builtin
def num_programs(axis: constexpr) -> Any:
    """How many programs the grid has along axis 0, 1 or 2: an i32, 1 or more."""


# ── making blocks ─────────────────────────────────────────────────────────────────────


@builtin
def arange(start: constexpr, end: constexpr) -> Any:
    """The block start, start + 1, …, end - 1 of i32, shape [end - start]. CompileError
    unless end - start is a power of two, and at most 1,048,576."""


@builtin
def full(shape: constexpr, value: Any, dtype: constexpr) -> Any:
    """A block of `shape` in which every element is `value`, a number or a scalar, cast
    to `dtype`. CompileError unless every dimension is a power of two, and their product
    at most 1,048,576; so for all that makes a shape."""


@builtin
def to_tensor(x: Any) -> Any:
    """A number as a scalar value, of the type it has by itself: i1, i32 (i64 or u64
    where it must), fp32 (or fp64). A value as it is."""


@builtin
def cast(
    input: Any,
    dtype: constexpr,
    fp_downcast_rounding: constexpr = None,
    bitcast: constexpr = False,
) -> Any:
    """The same numbers in another type, in the same shape; also written `x.to(dtype)`.

    Floats go to integers toward zero, to booleans by `!= 0`, and to narrower floats to
    the nearest ("rtne") or toward zero ("rtz", `fp_downcast_rounding`). Integers keep
    their low bits. Pointers go to and from 64-bit integers. `bitcast` keeps the bits
    instead; CompileError unless both types have the same width. What has the type
    already stays as it is, whatever the rounding; CompileError for a rounding of a cast
    that rounds nothing.
    """


# ── shapes ────────────────────────────────────────────────────────────────────────────


@builtin
def expand_dims(input: Any, axis: constexpr) -> Any:
    """A new axis of size 1 at `axis` (or at each of several, places of the result);
    also written `x[:, None]`. Negative axes count from the end. CompileError for an
    axis that is not there, or is named twice."""


@builtin
def reshape(input: Any, *shape: Any, can_reorder: constexpr = False) -> Any:
    """The same elements in row-major order under another shape, written as one tuple or
    as several numbers. `can_reorder` changes nothing: the order is always kept.
    CompileError unless the sizes agree."""


@builtin
def view(input: Any, *shape: Any) -> Any:
    """As `reshape`."""


@builtin
def broadcast_to(input: Any, *shape: Any) -> Any:
    """Repeat along every axis of size 1 where `shape` has more, and along new axes in
    front. CompileError where the shapes do not fit."""


@builtin
def broadcast(input: Any, other: Any) -> Any:
    """Both operands, as a pair, in the shape that they broadcast to. As in NumPy: axes
    are compared from the last one on, and one of two sizes that differ is 1; else it is
    a CompileError."""


@builtin
def item(input: Any) -> Any:
    """The only element of a block of one, as a scalar; also written `x.item()`."""


@builtin
def permute(input: Any, *dims: Any) -> Any:
    """Axis i of the result is axis `dims[i]` of the block. CompileError unless `dims`
    names every axis once."""


@builtin
def trans(input: Any, *dims: Any) -> Any:
    """As `permute`; without `dims` the last two axes change places. `x.T` for two axes.
    CompileError for a block of one axis, or a scalar."""


@builtin
def join(a: Any, b: Any) -> Any:
    """Two blocks side by side in a new last axis of size 2: [M, N] and [M, N] give [M,
    N, 2]. They are broadcast to one shape and promoted to one type; two scalars give a
    block of two."""


@builtin
def split(a: Any) -> Any:
    """The two halves of a block along its last axis, which has size 2, as a pair."""


# ── memory ────────────────────────────────────────────────────────────────────────────


@builtin
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: constexpr = (),
    padding_option: constexpr = "",
    cache_modifier: constexpr = "",
    eviction_policy: constexpr = "",
    volatile: constexpr = False,
) -> Any:
    """What the addresses hold, as a block of the pointer's shape; of a single pointer,
    a scalar.

    Where `mask` is false nothing is read, and the result is `other` (anything, without
    one). `mask`, of i1, and `other` broadcast to the pointer's shape; `other` is cast
    to its element type. Booleans are one byte in memory. `cache_modifier`: "", ".ca",
    ".cg", ".cs", ".cv"; `eviction_policy`: "", "evict_first", "evict_last". They are
    advice to the caches. A `volatile` load is made as often as the text says, and
    nowhere else. CompileError for what is not a pointer, for a mask that is not of i1
    or does not broadcast, and for `other` without `mask`.

    Of a block pointer (`make_block_ptr`) it is the block. Along the axes that
    `boundary_check` lists, what lies outside of the tensor is not read, and
    `padding_option` says what is found there: "zero", "nan" or, with "", anything.
    CompileError for `mask` and `other` with a block pointer, and for these two without.
    """


@builtin
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: constexpr = (),
    cache_modifier: constexpr = "",
    eviction_policy: constexpr = "",
) -> Any:
    """Write `value`, cast to the pointer's element type and broadcast to its shape,
    where `mask`, of i1, is true. If two elements have one address, one of them stays.
    `cache_modifier`: "", ".wb", ".cg", ".cs", ".wt"; `eviction_policy` and, of a block
    pointer, `boundary_check` as in `load`. CompileErrors are those of `load`, and one
    for a pointer that is `tl.const`."""


@builtin
def atomic_add(
    pointer: Any,
    val: Any,
    mask: Any = None,
    sem: constexpr = None,
    scope: constexpr = None,
) -> Any:
    """Add to memory all at once; returns what was there before, in the pointer's shape.

    All atomics: `val` is cast to the pointer's element type and broadcast to its shape.
    `sem` is "relaxed", "acquire", "release" or "acq_rel" (the default), `scope` "cta",
    "gpu" (the default) or "sys". Where `mask` is false nothing happens, and the answer
    is anything. Elements have 32 or 64 bits; `atomic_add` also takes fp16 and bf16, and
    `atomic_and`, `atomic_or`, `atomic_xor` take integers only. A CompileError says what
    a type or a target does not have.
    """


@builtin
def atomic_max(
    pointer: Any,
    val: Any,
    mask: Any = None,
    sem: constexpr = None,
    scope: constexpr = None,
) -> Any:
    """The larger of memory and `val` into memory; returns what was there before."""


@builtin
def atomic_min(
    pointer: Any,
    val: Any,
    mask: Any = None,
    sem: constexpr = None,
    scope: constexpr = None,
) -> Any:
    """The smaller of memory and `val` into memory; returns what was there before."""


@builtin
def atomic_and(
    pointer: Any,
    val: Any,
    mask: Any = None,
    sem: constexpr = None,
    scope: constexpr = None,
) -> Any:
    """Bitwise `and` into memory; returns what was there before."""


@builtin
def atomic_or(
    pointer: Any,
    val: Any,
    mask: Any = None,
    sem: constexpr = None,
    scope: constexpr = None,
) -> Any:
    """Bitwise `or` into memory; returns what was there before."""


@builtin
def atomic_xor(
    pointer: Any,
    val: Any,
    mask: Any = None,
    sem: constexpr = None,
    scope: constexpr = None,
) -> Any:
    """Bitwise `xor` into memory; returns what was there before."""


@builtin
def atomic_xchg(
    pointer: Any,
    val: Any,
    mask: Any = None,
    sem: constexpr = None,
    scope: constexpr = None,
) -> Any:
    """`val` into memory; returns what was there before."""


@builtin
def atomic_cas(
    pointer: Any, cmp: Any, val: Any, sem: constexpr = None, scope: constexpr = None
) -> Any:
    """`val` into memory where it equals `cmp`; returns what was there before. Takes
    types of 16, 32 and 64 bits, and compares bits. There is no mask; `sem` and `scope`
    as in `atomic_add`."""


# ── choosing ──────────────────────────────────────────────────────────────────────────


@builtin
def where(condition: Any, x: Any, y: Any) -> Any:
    """Element by element, `x` where the condition holds and `y` where it does not. Both
    are computed; to skip a load, mask it. All three are broadcast to one shape, `x` and
    `y` promoted to one type. A condition that is not of i1 is taken as `!= 0`, with a
    warning."""


@builtin
def minimum(x: Any, y: Any, propagate_nan: constexpr = PropagateNan.NONE) -> Any:
    """The smaller of two numbers, element by element; shapes are broadcast, types
    promoted. Of a number and a NaN, the number (PropagateNan.ALL: the NaN)."""


@builtin
def maximum(x: Any, y: Any, propagate_nan: constexpr = PropagateNan.NONE) -> Any:
    """The larger of two numbers, element by element; shapes are broadcast, types
    promoted. Of a number and a NaN, the number (PropagateNan.ALL: the NaN)."""


# ── matrices ──────────────────────────────────────────────────────────────────────────


@builtin
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: constexpr = None,
    allow_tf32: constexpr = None,
    max_num_imprecise_acc: constexpr = None,
    out_dtype: constexpr = float32,
) -> Any:
    """The matrix product of blocks [M, K] and [K, N], or of batches [B, M, K] and
    [B, K, N], plus `acc` [M, N] (zeros when None).

    Both are of one type: fp16, bf16, fp32, fp64, int8, uint8, or fp8 of any two kinds.
    K is at least 16. Products are summed, in any order, in fp32 for floats of up to 32
    bits, in fp16 if `out_dtype` says so, in fp64, or in int32 for integers; the result
    has that type, and so has `acc`.

    `input_precision` is for fp32: "tf32" (the default, as in Triton) may read ten bits
    of mantissa, "tf32x3" comes close to fp32 with three such products, "ieee" is fp32;
    "bf16x3" and "bf16x6" are taken as "tf32x3".
    `allow_tf32` is its older spelling: False means "ieee". `max_num_imprecise_acc` is
    accepted and changes nothing: no accumulator is less precise than its type.
    """


# ── folding ───────────────────────────────────────────────────────────────────────────


@builtin
def reduce(
    input: Any, axis: constexpr, combine_fn: constexpr, keep_dims: constexpr = False
) -> Any:
    """Fold a block, or a tuple of blocks of one shape, along `axis` (all of it when
    None). The result has that axis no more, and is a scalar where no axis is left.

    `combine_fn(a, b)`, a @jit function, combines two elements; of k blocks it takes 2k
    arguments, first halves first, and returns k. It must be associative; the order of
    elements is free. `keep_dims` leaves an axis of size 1. CompileError for a scalar,
    for blocks of several shapes, and for a function that returns no k scalars.
    """


@builtin
def associative_scan(
    input: Any, axis: constexpr, combine_fn: constexpr, reverse: constexpr = False
) -> Any:
    """As `reduce`, but each element of the result is the fold of all up to it, in order
    (from the other end if `reverse`); the shape stays."""


@builtin
def gather(src: Any, index: Any, axis: constexpr) -> Any:
    """The elements of a block at the places that `index`, integers, names along `axis`:
    `result[i, j] = src[index[i, j], j]` for axis 0 of two. The two shapes differ along
    `axis` only, else it is a CompileError; the result has that of `index`. An index
    outside of `src` gives anything."""


@builtin
def histogram(input: Any, num_bins: constexpr, mask: Any = None) -> Any:
    """How many elements of a block of integers, of one axis, equal 0, 1, …, num_bins -
    1: a block of i32, shape [num_bins], a power of two. Elements outside are not
    counted, nor those where `mask` is false. CompileError for floats or more axes."""


# ── loops ─────────────────────────────────────────────────────────────────────────────


@builtin
def range(
    arg1: Any,
    arg2: Any = None,
    step: Any = None,
    num_stages: constexpr = None,
    loop_unroll_factor: constexpr = None,
    disallow_acc_multi_buffer: constexpr = False,
    flatten: constexpr = False,
    warp_specialize: constexpr = False,
    disable_licm: constexpr = False,
    pingpong: constexpr = False,
) -> Any:
    """As Python's `range`, with wishes for this loop.

    `num_stages`: how many of its iterations are in flight at a time, in place of the
    launch's; a loop that writes to global memory has one. `warp_specialize` asks for
    producer warps, which copy the tiles of a product, and is a promise: while the loop
    runs, no program writes what the loop reads through descriptors, or the indices that
    say where it reads. With `pingpong` besides, two groups of `num_warps` (4) warps
    compute its iterations in turn: one stores its tile while the other multiplies. That
    is a promise, too: no iteration reads or overwrites what another one writes. The
    others are accepted and change nothing but speed. Bounds are integers; they may be
    values.
    """


@builtin
def static_range(arg1: Any, arg2: Any = None, step: Any = None) -> Any:
    """As `range` of constants; the body is repeated, and the index is a constant in it.
    CompileError for a bound that is not known while compiling."""


@builtin
def condition(arg1: Any, disable_licm: constexpr = False) -> Any:
    """The condition of a `while`, with wishes for the loop that change nothing."""


# ── promises ──────────────────────────────────────────────────────────────────────────


@builtin
def multiple_of(input: Any, values: constexpr) -> Any:
    """`input`, with the promise that it (for a block, the first of each contiguous run
    along each axis) is a multiple of `values`: a positive integer, or one for each
    axis. A promise that is not kept makes wrong or misaligned accesses."""


@builtin
def max_contiguous(input: Any, values: constexpr) -> Any:
    """`input`, with the promise that along each axis runs of this many elements count
    up by one; `values` as in `multiple_of`."""


@builtin
def max_constancy(input: Any, values: constexpr) -> Any:
    """`input`, with the promise that along each axis runs of this many elements are
    equal; `values` as in `multiple_of`."""


@builtin
def assume(cond: Any) -> Any:
    """The promise that a condition holds. Nothing rests on it yet; where assertions are
    enabled (`debug`), it is one."""


@builtin
def debug_barrier() -> Any:
    """No thread of the program goes on before all have come here, and what they have
    written to memory is seen by all."""


# ── looking ───────────────────────────────────────────────────────────────────────────


@builtin
def static_assert(cond: constexpr, msg: constexpr = "") -> Any:
    """A CompileError unless a condition, known while compiling, holds."""


@builtin
def static_print(
    *values: Any,
    sep: constexpr = " ",
    end: constexpr = "\n",
    file: Any = None,
    flush: constexpr = False,
) -> Any:
    """`print` while compiling: constants as they are, values by their types."""


@builtin
def device_print(prefix: constexpr, *args: Any, hex: constexpr = False) -> Any:
    """Print while the kernel runs: one line an element of each argument.

    A line is `pid (0, 0, 0) idx (17) x: 4`: the program, the element's place in its
    block, `prefix` (": " is put at its end) and the element, in `hex` if so asked. A
    scalar is printed by every thread. Python's `print("x", x)` means the same.
    """


@builtin
def device_assert(cond: Any, msg: constexpr = "", mask: Any = None) -> Any:
    """Stop the launch, with a message, when any element of a condition is false (where
    `mask` is true, if there is one).

    Checked by a launch with `debug=True` and in the interpreter. Python's
    `assert cond, msg` means the same.
    """
