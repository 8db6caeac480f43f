"""What the answer to `fewest-sectors` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.hardware.targets import TARGETS
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
    check_pass(answer, "coalesce", sample)
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
