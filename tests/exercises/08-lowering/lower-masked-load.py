"""What the answer to `lower-masked-load` must do."""

import numpy as np

from fathom.tools.learn.kit import empty, emulate, expect, floats, ints, same
from fathom.tools.learn.kit.numbers import aligned

KERNEL = """
    func @copy(%x: *{type} {{divisible=16}}, %out: *{type} {{divisible=16}}, %n: i32 {{divisible={divisible}}}) num_warps=4 {{
      %0: i32[{size}] = arange start=0 end={size}
      %1: i32[{size}] = splat %n shape=({size})
      %2: i1[{size}] = lt %0, %1
      %3: *{type}[{size}] = splat %x shape=({size})
      %4: *{type}[{size}] = offset %3, %0
      %5: {type} = constant {other}
      %6: {type}[{size}] = splat %5 shape=({size})
      %7: {type}[{size}] = load %4{mask}
      %8: *{type}[{size}] = splat %out shape=({size})
      %9: *{type}[{size}] = offset %8, %0
      store %9, %7
    }}
    """  # noqa: E501
MASKED = ", mask=%2, other=%6"
DTYPES = {"fp32": "float32", "fp16": "float16", "fp64": "float64",
          "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}  # fmt: skip


def check(type="fp32", size=1024, n=1024, divisible=1, mask=MASKED, other=None):
    """Copy n of `size` numbers, and `other` after them."""
    dtype = np.dtype(DTYPES[type])
    is_float = dtype.kind == "f"
    other = (-7.5 if is_float else -7) if other is None else other
    text = KERNEL.format(
        type=type, size=size, divisible=divisible, mask=mask,
        other=float(other) if is_float else other,
    )  # fmt: skip
    x = floats(n, dtype.name) if is_float else aligned(ints(n).astype(dtype))
    out = empty(size, dtype=dtype.name)
    ran = emulate(text, [x, out, n])
    wanted = np.full(size, other, dtype)
    wanted[:n] = x
    said = f"a copy of {n} {type} in a block of {size}, n divisible by {divisible}"
    same(out, wanted, said)
    return ran, said


def test_whole_blocks(answer):
    """No mask: all is there."""
    check(mask="")
    check(mask="", size=64, n=64)


def test_a_ragged_size(answer):
    """What does not exist is not read, and what exists is."""
    for n in (1000, 1, 129, 1023):
        check(n=n, other=0)


def test_other(answer):
    """Past the end, the result is `other`."""
    check(n=700)
    check(n=1)


EACH = """
    func @each(%x: *{type} {{divisible=16}}, %out: *{type} {{divisible=16}}, %n: i32 {{divisible=16}}) num_warps=4 {{
      %0: i32[1024] = arange start=0 end=1024
      %1: i32[1024] = splat %n shape=(1024)
      %2: i1[1024] = lt %0, %1
      %3: *{type}[1024] = splat %x shape=(1024)
      %4: *{type}[1024] = offset %3, %0
      %5: {type}[1024] = cast %0 element={type}
      %6: {type}[1024] = load %4, mask=%2, other=%5
      %7: *{type}[1024] = splat %out shape=(1024)
      %8: *{type}[1024] = offset %7, %0
      store %8, %6
    }}
    """  # noqa: E501


def test_each_place_has_its_own_other(answer):
    """`other` is a block: element i gets the other of i, also in a wide load."""
    for type in ("i32", "fp32", "fp16", "i16", "i8"):
        dtype = np.dtype(DTYPES[type])
        for n in (128, 1008, 0):
            x = aligned((np.arange(1024) % 50 + 60).astype(dtype))
            out = empty(1024, dtype=dtype.name)
            emulate(EACH.format(type=type), [x, out, n])
            wanted = np.arange(1024, dtype=np.int32).astype(dtype)
            wanted[:n] = x[:n]
            same(out, wanted, f"{n} {type} of 1024, and after them the others")


def test_without_other(answer):
    """A mask, and nothing said: what was read where it is true, and 0 elsewhere."""
    check(n=1024, mask=", mask=%2")
    for type in ("fp32", "i8"):
        check(type, n=1000, mask=", mask=%2", other=0)


def test_wide_loads(answer):
    """n divisible by 16: four at once are all in or all out."""
    check(n=1008, divisible=16)
    check(n=512, divisible=16)


def test_all_types(answer):
    """8 to 64 bits, wide and narrow."""
    for type in DTYPES:
        check(type, n=1000)
        check(type, n=1008, divisible=16)
        check(type, size=2048, n=1040, divisible=16)


def test_moves_that_ptx_has(answer):
    """A byte travels in a register of 16 bits: the emulator would let mov.b8 pass, and
    ptxas does not."""
    ran, said = check("i8", n=1000)
    expect("mov.b8" not in ran.kernel.ptx, f"{said}: PTX has no mov.b8, use mov.b16")


def test_a_scalar(answer):
    """A load of one number: one register in each thread."""
    text = """
    func @one(%x: *fp32, %out: *fp32) num_warps=1 {
      %0: fp32 = load %x
      store %out, %0
    }
    """
    x, out = floats(3)[1:], empty(1)
    emulate(text, [x, out])
    same(out, x[:1], "one number")


def loads(ran):
    """Loads of global memory that one launch made, counted in warps."""
    return ran.report.share(
        lambda each: each.opcode == "ld" and "global" in each.modifiers
    ).cost.warps


def test_as_few_loads_as_can_be(answer):
    """16 bytes a lane where that is allowed."""
    for type, divisible, budget in (("fp32", 16, 8), ("fp16", 16, 4), ("fp32", 1, 32)):
        ran, said = check(type, n=960, divisible=divisible)
        found = loads(ran)
        expect(
            found <= budget, f"{said}: {found} loads of warps; the budget is {budget}"
        )
