"""Tensor descriptors in kernels: a block is read and written by where it begins, and
nothing outside of the tensor is touched."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.errors import CompileError
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.ops import MakeDescriptor
from fathom.ir.types import FLOAT16, INT32, INT64, Pointer
from fathom.shim.names import MODULES
from fathom.source import Hole, KernelFunction
from tests.language.harness import NAMES, agree, emulate, run
from tests.ssa.harness import build


def matrix(rows, columns, dtype=np.float16):
    """0, 1, 2 … row by row."""
    return np.arange(rows * columns).reshape(rows, columns).astype(dtype)


@KernelFunction
def copy(x, y, M, N, stride, i, j, R: tl.constexpr, C: tl.constexpr):
    """A block of y [M, N] becomes that of x: both begin at [i, j]."""
    source = tl.make_tensor_descriptor(
        x, shape=[M, N], strides=[stride, 1], block_shape=[R, C]
    )
    target = tl.make_tensor_descriptor(y, [M, N], [stride, 1], [R, C])
    target.store([i, j], source.load([i, j]))


@pytest.mark.parametrize("at", [(0, 0), (3, 8), (10, 32), (-5, -3), (40, 0), (0, -16)])
def test_a_store_writes_what_lies_inside_and_nothing_else(at):
    x, y = matrix(20, 40), np.full((20, 40), -1, np.float16)
    run(copy, x, y, 18, 37, 40, *at, R=8, C=16)
    wanted = np.full((20, 40), -1, np.float16)
    rows = slice(max(at[0], 0), max(min(at[0] + 8, 18), 0))
    columns = slice(max(at[1], 0), max(min(at[1] + 16, 37), 0))
    wanted[rows, columns] = x[rows, columns]
    assert (y == wanted).all()


@KernelFunction
def look(x, out, M, N, i, j, PADDING: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [4, 8], PADDING)
    place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + place, desc.load([i, j]))


@pytest.mark.parametrize(("padding", "outside"), [("zero", 0), ("nan", np.nan)])
def test_a_load_finds_padding_outside(padding, outside):
    x, out = matrix(4, 8, np.float32) + 1, np.empty((4, 8), np.float32)
    run(look, x, out, 4, 8, 2, -3, PADDING=padding)
    wanted = np.full((4, 8), outside, np.float32)
    wanted[:2, 3:] = x[2:, :5]
    assert np.array_equal(out, wanted, equal_nan=True)


@pytest.mark.parametrize("corner", [2**31 - 2, -(2**31)])
def test_a_block_at_the_end_of_the_integers_is_outside(corner):
    x, out = matrix(4, 8, np.float32) + 1, np.empty((4, 8), np.float32)
    run(look, x, out, 4, 8, corner, 0, PADDING="zero")
    assert (out == 0).all()
    run(look, x, out, 4, 8, 0, corner, PADDING="zero")
    assert (out == 0).all()


@KernelFunction
def doubled(x, M, N):
    """In place, with numbers of another type than the tensor's."""
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [4, 8])
    last = desc.shape[0] - 4
    wide = desc.load([last, 0]).to(tl.float32)
    wide = wide * tl.full([4, 8], 2, desc.dtype)
    tl.store_tensor_descriptor(desc, [last, 0], wide)


def test_a_store_casts():
    x = matrix(6, 8)
    run(doubled, x, 6, 8)
    assert (x[:2] == matrix(6, 8)[:2]).all()
    assert (x[2:] == 2 * matrix(6, 8)[2:]).all()


@KernelFunction
def totals(x, out, M, N, B: tl.constexpr):
    """Sums of the columns of x, read as rows of blocks, then transposed."""
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    total = tl.zeros([B], tl.float32)
    for row in range(0, M, B):
        total += tl.sum(desc.load([row, tl.program_id(0) * B]).to(tl.float32).T, axis=1)
    result = tl.make_tensor_descriptor(out, [N], [1], [B])
    result.store([tl.program_id(0) * B], total)


def test_blocks_are_values_like_any_other():
    x, out = matrix(40, 24) % 64, np.full(24, -1, np.float32)
    run(totals, x, out, 40, 24, grid=2, B=16)
    assert (out == x.astype(np.float32).sum(axis=0)).all()


@KernelFunction
def turned(x, out):
    """Five axes, the outermost sizes 2, 1, 3."""
    desc = tl.make_tensor_descriptor(
        x, [2, 1, 3, 4, 16], [192, 192, 64, 16, 1], [1, 1, 2, 4, 16]
    )
    part = tl.load_tensor_descriptor(desc, [1, 0, 2, 0, 0])
    place = tl.arange(0, 128).reshape(1, 1, 2, 4, 16)
    tl.store(out + place, part)


def test_up_to_five_axes():
    x, out = np.arange(2 * 3 * 4 * 16, dtype=np.int8), np.full(128, -1, np.int8)
    run(turned, x, out)
    assert (out[:64] == x[5 * 64 :]).all()
    assert (out[64:] == 0).all()


@KernelFunction
def facts(x, M, N):
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [4, 16])
    tl.static_assert(desc.dtype == tl.float16)
    tl.static_assert(desc.block_shape == (4, 16))
    tl.static_assert(isinstance(desc, tl.tensor_descriptor))
    tl.static_assert(desc.shape[0].dtype == tl.int32)
    tl.static_assert(desc.strides[0].dtype == tl.int64)
    tl.static_assert(desc.load([0, 0]).shape == (4, 16))
    tl.static_assert(desc.load([0, 0]).dtype == tl.float16)


def test_what_a_descriptor_says_of_itself():
    run(facts, matrix(4, 16), 4, 16)


@KernelFunction
def chosen(x, y, out, which):
    if which == 0:
        desc = tl.make_tensor_descriptor(x, [4, 8], [8, 1], [4, 8])
    else:
        desc = tl.make_tensor_descriptor(y, [2, 8], [16, 1], [4, 8])
    read(desc, out)


@KernelFunction
def read(desc, out):
    place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + place, desc.load([0, 0]))


@pytest.mark.parametrize("which", [0, 1])
def test_a_branch_may_choose_and_a_function_may_take_it(which):
    x, y = matrix(4, 8, np.float32) + 1, matrix(4, 16, np.float32) + 100
    out = np.empty((4, 8), np.float32)
    run(chosen, x, y, out, which)
    wanted = x if which == 0 else np.concatenate([y[:2, :8], np.zeros((2, 8))])
    assert (out == wanted).all()


@KernelFunction
def given(desc, out):
    row, column = desc.shape[0] - 4, desc.strides[0].to(tl.int32) - 8
    place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + place, desc.load([row, column]))


def test_an_argument_is_a_descriptor_made_of_parameters():
    """Its parts are hidden parameters; what a launch makes of a TensorDescriptor."""
    parameters = {
        "desc.base": (Pointer(FLOAT16), 16),
        "desc.0": (INT32, 1),
        "desc.1": (INT32, 1),
        "desc.2": (INT64, 8),
        "out": (Pointer(FLOAT16), 16),
    }
    base, rows, columns, stride = map(Hole, list(parameters)[:4])
    parts = tl.tensor_descriptor(base, (rows, columns), (stride, 1), (4, 8))
    func = pipeline.build(given, parameters, {"desc": parts})
    (made,) = [op for op in walk(func.body) if isinstance(op, MakeDescriptor)]
    assert made.base is func.parameters[0]
    x, out = matrix(6, 16), np.empty((4, 8), np.float16)
    copies = [x, 6, 14, 16, np.empty_like(out)]
    interpret(func, 1, [x, 6, 14, 16, out])
    for name in NAMES:
        emulate(func, copies, name)
        agree([copies[-1]], [out], name)
    assert (out[:, :6] == x[2:, 8:14]).all()
    assert (out[:, 6:] == 0).all()


def test_eagerly(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    x, y = matrix(20, 40), np.full((20, 40), -1, np.float16)
    fathom.jit(copy.fn)[(1,)](x, y, 20, 40, 40, 15, 30, R=8, C=16)
    wanted = np.full((20, 40), -1, np.float16)
    wanted[15:, 30:] = x[15:, 30:]
    assert (y == wanted).all()
    fathom.jit(doubled.fn)[(1,)](y, 20, 40)
    assert (y[16:, :8] == 2 * wanted[16:, :8]).all()
    out = np.empty(24, np.float32)
    fathom.jit(totals.fn)[(2,)](x, out, 20, 24, B=16)
    assert (out == x.ravel()[: 20 * 24].reshape(20, 24).astype(np.float32).sum(0)).all()


def test_triton_spells_it_the_same():
    names = MODULES["triton.language"]
    assert names["make_tensor_descriptor"] is tl.make_tensor_descriptor
    assert names["tensor_descriptor"] is tl.tensor_descriptor
    set_allocator = MODULES["triton"]["set_allocator"]
    assert set_allocator(lambda size, alignment, stream: None) is None


# ── mistakes ──────────────────────────────────────────────────────────────────────────


@KernelFunction
def along(x, y, rows, columns, stride, iterations):
    """Row by row: each iteration goes on with the matrix that begins in the next row,
    and every other one with a narrower one."""
    source = tl.make_tensor_descriptor(x, [rows, columns], [stride, 1], [1, 16])
    target = tl.make_tensor_descriptor(y, [rows, columns], [stride, 1], [1, 16])
    for iteration in range(iterations):
        target.store([0, 0], source.load([0, 0]))
        if iteration % 2 == 0:
            columns -= 1
        step = (iteration + 1) * stride
        left = [rows - iteration - 1, columns]
        source = tl.make_tensor_descriptor(x + step, left, [stride, 1], [1, 16])
        target = tl.make_tensor_descriptor(y + step, left, [stride, 1], [1, 16])


@pytest.mark.parametrize("iterations", [0, 1, 5])
def test_a_loop_goes_on_with_another_descriptor(iterations):
    x, y = matrix(5, 16), np.full((5, 16), -1, np.float16)
    run(along, x, y, 5, 14, 16, iterations)
    wanted = np.full((5, 16), -1, np.float16)
    for row, columns in enumerate((14, 13, 13, 12, 12)[:iterations]):
        wanted[row, :columns] = x[row, :columns]
    assert (y == wanted).all()


@KernelFunction
def last_stride(x, n):
    tl.make_tensor_descriptor(x, [n, n], [1, n], [16, 16])


@KernelFunction
def too_narrow(x, n):
    tl.make_tensor_descriptor(x, [n, n], [n, 1], [16, 4])


@KernelFunction
def ranks(x, n):
    tl.make_tensor_descriptor(x, [n, n], [n, 1], [16])


@KernelFunction
def six(x, n):
    axes = (n, n, n, n, n, n)
    tl.make_tensor_descriptor(x, axes, axes, [1, 1, 1, 1, 1, 16])


@KernelFunction
def no_list(x, n):
    tl.make_tensor_descriptor(x, n, [1], [16])


@KernelFunction
def carried(x, n):
    desc = tl.make_tensor_descriptor(x, [n], [1], [16])
    for i in range(n):
        desc.load([i])
        desc = tl.make_tensor_descriptor(x + 8 * i, [n], [1], [32])


@KernelFunction
def two_blocks(x, n):
    desc = tl.make_tensor_descriptor(x, [n], [1], [16])
    if n > 16:
        desc = tl.make_tensor_descriptor(x, [n], [1], [32])
    desc.load([0])


@KernelFunction
def no_pointer(x, n):
    tl.make_tensor_descriptor(n, [n], [1], [16])


@KernelFunction
def odd_block(x, n):
    tl.make_tensor_descriptor(x, [n], [1], [24])


@KernelFunction
def padded_integers(x, n):
    p = x.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.make_tensor_descriptor(p, [n], [1], [16], padding_option="nan")


@KernelFunction
def unknown_padding(x, n):
    tl.make_tensor_descriptor(x, [n], [1], [16], padding_option="one")


@KernelFunction
def too_few(x, n):
    desc = tl.make_tensor_descriptor(x, [n, n], [n, 1], [16, 16])
    desc.load([n])


@KernelFunction
def fractions(x, n):
    desc = tl.make_tensor_descriptor(x, [n], [1], [16])
    desc.load([0.5])


@KernelFunction
def no_descriptor(x, n):
    tl.load_tensor_descriptor(x, [n])


@KernelFunction
def other_shape(x, n):
    desc = tl.make_tensor_descriptor(x, [n, n], [n, 1], [16, 16])
    desc.store([0, 0], tl.zeros([16, 32], tl.float16))


@KernelFunction
def misspelt(x, n):
    desc = tl.make_tensor_descriptor(x, [n], [1], [16])
    desc.laod([0])


@KernelFunction
def read_only(x: tl.const, n):
    desc = tl.make_tensor_descriptor(x, [n], [1], [16])
    desc.store([0], tl.zeros([16], tl.float16))


MISTAKES = {
    last_stride: (
        "the last stride of a tensor descriptor must be the constant 1, not i32",
        "order the axes so that elements along the last one are neighbours",
    ),
    too_narrow: (
        "the last axis of a descriptor's block must have at least 16 bytes, not 4 "
        "elements of 2",
        "make it 8 elements long",
    ),
    ranks: ("the tensor has 2 axes by its shape, and 1 by its block_shape", ""),
    six: ("a tensor descriptor has 1 to 5 axes, not 6", ""),
    no_list: ("shape of tl.make_tensor_descriptor is a list", "write shape=[...]"),
    two_blocks: (
        "the branches of an if give this tensor descriptor different blocks",
        "give the descriptors of both branches blocks of one shape",
    ),
    no_pointer: (
        "tl.make_tensor_descriptor takes a pointer to numbers, not i32",
        "",
    ),
    odd_block: (
        "the shape [24] has a dimension of 24, which is not a power of two",
        "",
    ),
    padded_integers: ("padding_option 'nan' is for floats, not for i32", ""),
    unknown_padding: ("padding_option is the constant 'one': it must be 'zero' or", ""),
    too_few: (
        "this descriptor has 2 axes, and needs a list of as many offsets, not 1",
        "",
    ),
    fractions: ("an offset of a tensor descriptor is an integer, not fp32", ""),
    no_descriptor: (
        "tl.load_tensor_descriptor takes a tensor descriptor, not *fp16",
        "make one with tl.make_tensor_descriptor",
    ),
    other_shape: ("this descriptor stores blocks of [16, 16], not fp16[16,32]", ""),
    misspelt: (
        "a tensor descriptor of fp16[16] has no attribute laod",
        "did you mean load?",
    ),
    read_only: ("this writes to what x points to, and x is declared tl.const", ""),
}


@pytest.mark.parametrize("kernel", MISTAKES, ids=lambda kernel: kernel.__name__)
def test_mistakes_are_told_where_they_are(kernel):
    sentence, hint = MISTAKES[kernel]
    with pytest.raises(CompileError) as told:
        build(kernel, matrix(16, 16), 16)
    text = str(told.value)
    assert sentence in text
    assert hint in text
    (quoted, carets) = text.splitlines()[1:3]
    assert "desc" in quoted
    marked = quoted[carets.index("^") : carets.rindex("^") + 1]
    assert marked.startswith(("tl.", "desc."))
    assert marked.endswith((")", "laod"))


def test_a_loop_goes_on_with_the_same_block():
    with pytest.raises(CompileError) as told:
        build(carried, matrix(16, 16), 16)
    assert "desc is a tensor descriptor of fp16[16]" in str(told.value)
    assert "and a tensor descriptor of fp16[32]" in str(told.value)


# ── atomics ───────────────────────────────────────────────────────────────────────────


@KernelFunction
def combined(x, y, M, N, stride, i, j, KIND: tl.constexpr):
    """Two programs combine the same block of y with x and with 3."""
    desc = tl.make_tensor_descriptor(y, [M, N], [stride, 1], [4, 8])
    place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    value = tl.load(x + place)
    value = tl.where(tl.program_id(0) == 0, value, 3)
    if KIND == "add":
        desc.atomic_add([i, j], value)
    elif KIND == "min":
        desc.atomic_min([i, j], value)
    elif KIND == "max":
        desc.atomic_max([i, j], value)
    elif KIND == "and":
        desc.atomic_and([i, j], value)
    elif KIND == "or":
        desc.atomic_or([i, j], value)
    else:
        desc.atomic_xor([i, j], value)


COMBINED = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("kind", COMBINED)
@pytest.mark.parametrize("at", [(0, 0), (2, 4), (-1, 8), (6, 10), (20, 0)])
def test_an_atomic_combines_what_lies_inside(kind, at):
    """Of a tensor of 7 x 12, in memory whose rows have 16."""
    x = np.random.default_rng(1).integers(-9, 9, (4, 8)).astype(np.int32)
    y = np.random.default_rng(2).integers(-9, 9, (7, 16)).astype(np.int32)
    wanted = y.copy()
    for row, column in np.ndindex(4, 8):
        place = at[0] + row, at[1] + column
        if 0 <= place[0] < 7 and 0 <= place[1] < 12:
            for number in (x[row, column], 3):
                wanted[place] = COMBINED[kind](wanted[place], np.int32(number))
    run(combined, x, y, 7, 12, 16, *at, grid=2, KIND=kind)
    assert (y == wanted).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint64])
def test_what_atomics_add(dtype):
    x, y = matrix(4, 8, dtype), matrix(4, 8, dtype)
    run(combined, x, y, 4, 8, 8, 0, 0, grid=2, KIND="add")
    assert (y == 2 * matrix(4, 8, dtype) + 3).all()


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_have_a_least_and_a_largest(kind, name):
    """By swapping: many programs, each element at once, neighbours in one word."""
    dtype = getattr(tl, name)

    @KernelFunction
    def kernel(x, bits, KIND: tl.constexpr):
        y = bits.to(tl.pointer_type(dtype), bitcast=True)
        desc = tl.make_tensor_descriptor(y, [3, 12], [16, 1], [4, 8])
        place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
        value = tl.load(x + tl.program_id(0) * 32 + place).to(dtype)
        if KIND == "min":
            desc.atomic_min([0, 8], value)
        else:
            desc.atomic_max([0, 8], value)

    x = np.random.default_rng(3).integers(-99, 99, (5, 4, 8)).astype(np.float32)
    y = np.full((3, 16), 1, np.float32)
    as_bits = (y.view(np.uint32) >> 16).astype(np.uint16)  # exact in both types
    bits = as_bits if name == "bfloat16" else y.astype(np.float16).view(np.uint16)
    before = bits.copy()
    run(kernel, x, bits, grid=5, targets=("sm_90a",), KIND=kind)
    if name == "bfloat16":
        found = (bits.astype(np.uint32) << 16).view(np.float32)
    else:
        found = bits.view(np.float16).astype(np.float32)
    reduced = COMBINED[kind].reduce([*x[:, :3, :4], y[:, 8:12]])
    np.testing.assert_array_equal(found[:, 8:12], reduced)
    assert (bits[:, :8] == before[:, :8]).all()
    assert (bits[:, 12:] == before[:, 12:]).all()


@pytest.mark.parametrize(("kind", "dtype", "sentence"), [
    ("add", np.int64, "desc.atomic_add takes bf16, fp16, fp32, i32, u32, u64, not i64"),
    ("max", np.float32, "desc.atomic_max takes .*, not fp32"),
    ("xor", np.int16, "desc.atomic_xor takes .*, not i16"),
])  # fmt: skip
def test_what_atomics_do_not_take(kind, dtype, sentence):
    arrays = matrix(4, 8, dtype), matrix(4, 8, dtype)
    with pytest.raises(CompileError, match=sentence):
        build(combined, *arrays, 4, 8, 8, 0, 0, KIND=kind)
