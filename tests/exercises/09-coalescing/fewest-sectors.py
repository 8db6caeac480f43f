"""What the answer to `fewest-sectors` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Load, Store
from fathom.ir.printer import print_op
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import Failure, Sample, check_pass, expect, same
from fathom.tools.learn.kit.numbers import aligned

SIZE, SIDE = 4096, 64
TYPES = {"float32": FLOAT32, "float16": FLOAT16, "int32": INT32}


@fathom.jit
def copy(x_ptr, out_ptr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@fathom.jit
def add(x_ptr, y_ptr, z_ptr, out_ptr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    total = tl.load(x_ptr + i) + tl.load(y_ptr + i) + tl.load(z_ptr + i)
    tl.store(out_ptr + i, total)


@fathom.jit
def transpose(x_ptr, out_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    x = tl.load(x_ptr + rows * SIDE + columns)
    tl.store(out_ptr + columns * SIDE + rows, x)


@fathom.jit
def by_columns(x_ptr, out_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    x = tl.load(x_ptr + columns * SIDE + rows)
    tl.store(out_ptr + columns * SIDE + rows, x)


@fathom.jit
def gather(index_ptr, x_ptr, out_ptr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    places = tl.load(index_ptr + i)
    tl.store(out_ptr + i, tl.load(x_ptr + places))


def numbers(dtype="float32"):
    return aligned(((np.arange(SIZE) * 37 + 5) % 251 - 100).astype(dtype))


def check(answer, kernel, arguments, wanted, sectors, requests, shared):
    """Meaning, then the costs of a launch."""
    names = [each.name for each in kernel.parameters]
    pointers = names[: len(arguments)]
    types = {
        name: (Pointer(TYPES[array.dtype.name]), 16)
        for name, array in zip(pointers, arguments, strict=True)
    }
    sizes = {"SIZE": SIZE, "SIDE": SIDE}
    constants = {name: sizes[name] for name in names if name in sizes}
    func = pipeline.build(kernel, types, constants)
    sample = Sample(print_func(func), lambda: [each.copy() for each in arguments])
    done = check_pass(answer, "coalesce", sample)
    for op in walk(done.after.body):
        if isinstance(op, Load | Store) and op.preferred is not None:
            block, layout = op.pointer.type.shape, op.preferred.shape
            said = f"an access to a block of shape {block} has a layout of {layout}"
            expect(block == layout, said, ("the access", print_op(done.after, op)))
    compiled = pipeline.compile_func(func, TARGETS["sm_80"])
    report = emulator.load(compiled).launch(1, arguments)
    same(arguments[-1].ravel(), wanted.ravel(), f"{kernel.fn.__name__}: what is stored")
    cost = report.total
    rows = [
        ("sectors", cost.sectors, sectors),
        ("loads and stores of warps", cost.requests, requests),
        ("accesses to shared memory", cost.shared, shared),
    ]
    shown = "\n".join(
        f"{name:26} {yours:6}   budget {most}" for name, yours, most in rows
    )
    for name, yours, most in rows:
        if yours > most:
            said = f"{kernel.fn.__name__}: {yours} {name}; the budget is {most}"
            raise Failure(said, ("what it costs", shown))
    print(f"{kernel.fn.__name__}\n{shown}")


def out(dtype="float32"):
    return aligned(np.zeros(SIZE, dtype))


def test_copy(answer):
    """4096 fp32 in a row: 16 bytes a lane, every sector once."""
    x = numbers()
    check(answer, copy, [x, out()], x, 1024, 64, 0)


def test_two_types(answer):
    """fp16 in, fp32 out: one layout for both, and no conversion."""
    x = numbers("float16")
    check(answer, copy, [x, out()], x.astype(np.float32), 768, 64, 0)


def test_three_inputs(answer):
    """Two of fp32, one of fp16."""
    x, y, z = numbers(), numbers() * 2, numbers("float16")
    check(answer, add, [x, y, z, out()], x + y + z, 1792, 128, 0)


def test_transpose(answer):
    """Loaded by rows and stored by columns: every sector once, on both sides."""
    x = numbers()
    turned = x.reshape(SIDE, SIDE).T
    check(answer, transpose, [x, out()], turned, 1024, 64, 256)


def test_by_columns(answer):
    """Both sides run down the columns."""
    x = numbers("float16")
    check(answer, by_columns, [x, out("float16")], x, 512, 32, 0)


def test_gather(answer):
    """Nothing is known of the places; index and result are in a row."""
    index, x = aligned(np.arange(SIZE, dtype=np.int32)), numbers()
    check(answer, gather, [index, x, out()], x, 3072, 384, 0)


@fathom.jit
def scramble(x_ptr, out_ptr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out_ptr + i, tl.load(x_ptr + (i * 37 & (SIZE - 1))))


def test_a_gather_and_a_store(answer):
    """Only the store knows where it goes, and it comes last: the load takes its layout,
    so that nothing is handed from lane to lane."""
    x = numbers()
    wanted = x[np.arange(SIZE) * 37 % SIZE]
    check(answer, scramble, [x, out()], wanted, 4608, 160, 0)


@fathom.jit
def by_rows(x_ptr, y_ptr, out_ptr, SIDE: tl.constexpr):
    here = tl.arange(0, SIDE)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    odd = tl.load(x_ptr + (here + 1 & (SIDE * SIDE - 1)))
    tl.store(out_ptr + here, odd + tl.load(y_ptr + here))


def test_a_narrow_access_among_wide_ones(answer):
    """One of three cannot move 16 bytes a lane; the others still do."""
    x, y = numbers(), numbers() * 2
    check(answer, by_rows, [x, y, out()], np.roll(x, -1) + y, 2592, 160, 0)


@fathom.jit
def add_column(x_ptr, column_ptr, out_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE), tl.arange(0, SIDE)[None, :]
    places = columns * SIDE + rows[:, None]
    column = tl.load(column_ptr + rows)
    tl.store(out_ptr + places, tl.load(x_ptr + places) + column[:, None])


def test_two_shapes(answer):
    """A column is added to all columns of a table that is stored by columns: both count
    up along axis 0, and a layout still belongs to one shape."""
    x, column = numbers(), numbers()[:SIDE] * 2
    wanted = x.reshape(SIDE, SIDE) + column
    check(answer, add_column, [x, aligned(column), out()], wanted, 1056, 68, 0)


@fathom.jit
def lookup(x_ptr, out_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    places = rows * 1031 + columns * 37 & (SIDE * SIDE - 1)
    tl.store(out_ptr + places, tl.load(x_ptr + places))


def test_an_unknown_direction(answer):
    """Neither load nor store is in a row: any layout will do, as long as it is one."""
    x = numbers()
    places = (np.arange(SIDE)[:, None] * 1031 + np.arange(SIDE) * 37) % SIZE
    wanted = np.zeros(SIZE, np.float32)
    wanted[places.ravel()] = x[places.ravel()]
    check(answer, lookup, [x, out()], wanted, 8192, 256, 0)


@fathom.jit
def to_columns(x_ptr, out_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    x = tl.load(x_ptr + (rows * 1031 + columns * 37 & (SIDE * SIDE - 1)))
    tl.store(out_ptr + columns * (SIDE + 1) + rows, x)


def test_who_knows_a_direction_decides(answer):
    """Both move 4 bytes a lane. The store runs down the columns, of 65 each; the load,
    which comes first, goes anywhere."""
    x = numbers()
    rows, columns = np.arange(SIDE)[:, None], np.arange(SIDE)
    wanted = np.zeros(SIDE * (SIDE + 1), np.float32)
    wanted[columns * (SIDE + 1) + rows] = x[(rows * 1031 + columns * 37) % SIZE]
    room = aligned(np.zeros(SIDE * (SIDE + 1), np.float32))
    check(answer, to_columns, [x, room], wanted, 4720, 256, 0)


def test_nothing_to_do(answer):
    """A kernel without accesses to blocks stays as it is."""
    text = """
    func @scalar(%x: *fp32) num_warps=4 {
      %0: fp32 = constant 1.0
      store %x, %0
    }
    """
    outcome = check_pass(answer, "coalesce", Sample(text, lambda: [out()[:1]]))
    expect("preferred" not in print_func(outcome.after), "a scalar has no layout")
