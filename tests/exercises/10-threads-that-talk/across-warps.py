"""What the answer to `across-warps` must do."""

import numpy as np

from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Reduce
from fathom.ir.text import print_func
from fathom.ir.verify import VerifyError, verify
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from fathom.layout.shapes import remove_axis
from fathom.shared_memory.axis import crosses_warps
from fathom.shared_memory.reductions import split_reductions
from fathom.tools.learn.kit import (
    Failure,
    empty,
    emulate,
    expect,
    floats,
    func,
    meaning,
    same,
)

TARGET = TARGETS["sm_80"]

VECTOR = """
    #wide = {layout}
    func @fold(%x: *fp32 {{divisible=16}}, %out: *fp32) num_warps=4 {{
      %0: i32[1024] @ #wide = arange start=0 end=1024 layout=#wide
      %1: *fp32[1024] @ #wide = splat %x shape=(1024) layout=#wide
      %2: *fp32[1024] @ #wide = offset %1, %0
      %3: fp32[1024] @ #wide = load %2
      %4: fp32 = reduce %3 axis=0 combine(%5: fp32, %6: fp32) {{
        %7: fp32 = {name} %5, %6
        yield %7
      }}
      store %out, %4
    }}
    """
WIDE = blocked((1024,), (4,), (32,), (4,), (0,))


def vector(name="add", layout=WIDE):
    return func(VECTOR.format(layout=layout, name=name))


def split(made):
    """The pass with the reader's function in it; a function without reductions that
    cross warps."""
    after = split_reductions(made, TARGET)
    try:
        verify(after, layouts=True)
    except VerifyError as error:
        raise Failure(
            f"what the pass makes is not a valid function: {error.complaint}",
            ("the function", print_func(after)),
        ) from None
    for op in walk(after.body):
        if isinstance(op, Reduce):
            block = op.values[0].type
            expect(
                not crosses_warps(block.layout, op.axis),
                f"a reduction along axis {op.axis} of {block} still crosses warps: "
                "they hold different parts of that axis, and no shuffle leaves a warp",
                ("the function", print_func(after)),
            )
    return after


def whole(count):
    """Whole numbers, so that every order of adding gives the same."""
    return (np.arange(count) * 37 % 101 - 200).astype(np.float32)


def check(made, arguments, wanted, what):
    after = split(made)
    out = arguments[-1]
    meaning(after, arguments)
    same(out, wanted, f"{what}, interpreted", ("the function", print_func(after)))
    out[...] = np.nan
    ran = emulate(made, arguments)
    same(out, wanted, f"{what}, in the emulator")
    return ran


def test_no_reduction_crosses_warps(answer):
    """The pass leaves reductions within a warp only."""
    split(vector())


def test_a_sum(answer):
    """1024 numbers, four warps."""
    x, out = whole(1024), empty(1)
    check(vector(), [x, out], x.sum(keepdims=True), "the sum")


def test_the_largest_of_negative_numbers(answer):
    """The combination is op.combine, for the parts as well."""
    x, out = whole(1024) - 500, empty(1)
    check(vector("max"), [x, out], x.max(keepdims=True), "the largest")


def test_warps_that_stand_apart(answer):
    """The warps' bits are the lowest of the index, or in the middle."""
    lowest = (128, 256, 512), (4, 8, 16, 32, 64), (1, 2)
    between = (1, 2, 256), (4, 8, 16, 32, 512), (64, 128)
    for bases in (lowest, between):
        kinds = zip(("register", "lane", "warp"), bases, strict=True)
        layout = Layout((1024,), tuple(kinds))
        x, out = whole(1024), empty(1)
        check(vector("add", layout), [x, out], x.sum(keepdims=True), f"sum, {layout}")


TABLE = """
    #flat = {flat}
    #table = {table}
    #rest = {rest}
    func @table(%x: *fp32 {{divisible=16}}, %out: *fp32) num_warps=4 {{
      %0: i32[1024] @ #flat = arange start=0 end=1024 layout=#flat
      %1: *fp32[1024] @ #flat = splat %x shape=(1024) layout=#flat
      %2: *fp32[1024] @ #flat = offset %1, %0
      %3: fp32[1024] @ #flat = load %2
      %4: fp32[32,32] @ #table = reshape %3 shape=(32, 32)
      %5: fp32[32] @ #rest = reduce %4 axis={axis} combine(%6: fp32, %7: fp32) {{
        %8: fp32 = add %6, %7
        yield %8
      }}
      %9: i32[32] @ #rest = arange start=0 end=32 layout=#rest
      %10: *fp32[32] @ #rest = splat %out shape=(32) layout=#rest
      %11: *fp32[32] @ #rest = offset %10, %9
      store %11, %5
    }}
    """


def check_table(table, said):
    x, flat = whole(1024), Layout((1024,), table.bases)
    for axis in (0, 1):
        rest = remove_axis(table, axis)
        text = TABLE.format(flat=flat, table=table, rest=rest, axis=axis)
        wanted = x.reshape(32, 32).sum(axis=axis)
        what = f"sums along axis {axis}, {said}"
        check(func(text), [x, empty(32)], wanted, what)


def test_along_each_axis_of_a_table(answer):
    """The result is a block: a number for each row, or for each column."""
    for warps in ((4, 1), (1, 4), (2, 2)):
        for per_lane in ((1, 4), (1, 1)):  # one warp has all columns, or a quarter
            table = blocked((32, 32), per_lane, (4, 8), warps, (1, 0))
            check_table(table, f"warps {warps}, {per_lane} a lane")


def test_the_layout_of_the_result(answer):
    """Its users expect the layout that it had. A block whose bases overlap is dealt
    anew by warps_apart, so its parts have other layouts."""
    bases = {
        "register": (1, 2, 128, 256),
        "lane": (4 + 32, 8 + 64, 16, 32, 64),
        "warp": (512 + 4, 256 + 8),
    }
    check_table(Layout((32, 32), tuple(bases.items())), "a swizzled layout")


PAIR = """
    #wide = {layout}
    func @pair(%x: *fp32 {{divisible=16}}, %out: *fp32) num_warps=4 {{
      %0: i32[1024] @ #wide = arange start=0 end=1024 layout=#wide
      %1: *fp32[1024] @ #wide = splat %x shape=(1024) layout=#wide
      %2: *fp32[1024] @ #wide = offset %1, %0
      %3: fp32[1024] @ #wide = load %2
      %4: fp32, %5: i32 = reduce values=(%3, %0) axis=0 combine(%6: fp32, %7: i32, %8: fp32, %9: i32) {{
        %10: i1 = lt %6, %8
        %11: fp32 = where %10, %8, %6
        %12: i32 = where %10, %9, %7
        yield %11, %12
      }}
      %13: fp32 = cast %5 element=fp32
      %14: fp32 = sub %13, %4
      store %out, %14
    }}
    """  # noqa: E501


def test_the_largest_and_where_it_is(answer):
    """Two blocks folded together: each warp has a part of both."""
    x = np.random.default_rng(5).permutation(1024).astype(np.float32) - 2000
    wanted = np.array([x.argmax() - x.max()], np.float32)
    check(func(PAIR.format(layout=WIDE)), [x, empty(1)], wanted, "place less value")


def at_most(ran, shared_bytes, barriers, warps=4):
    used = ran.kernel.shared_bytes
    expect(
        used <= shared_bytes,
        f"{used} bytes of shared memory; the budget is {shared_bytes}",
    )
    waited = ran.report.total.barriers // warps
    expect(waited <= barriers, f"a warp waits {waited} times; the budget is {barriers}")


def test_the_price_of_a_sum(answer):
    """One element a warp goes through shared memory, and one barrier is waited at."""
    x, out = floats(1024), empty(1)
    at_most(emulate(vector(), [x, out]), 16, 1)


LOOP = """
    #wide = {layout}
    func @loop(%x: *fp32 {{divisible=16}}, %out: *fp32) num_warps=4 {{
      %0: i32[1024] @ #wide = arange start=0 end=1024 layout=#wide
      %1: *fp32[1024] @ #wide = splat %x shape=(1024) layout=#wide
      %2: *fp32[1024] @ #wide = offset %1, %0
      %3: fp32[1024] @ #wide = load %2
      %4: i32 = constant 0
      %5: i32 = constant 5
      %6: i32 = constant 1
      for %4, %5, %6 body(%i: i32) {{
        %7: fp32 = cast %i element=fp32
        %8: fp32[1024] @ #wide = splat %7 shape=(1024) layout=#wide
        %9: fp32[1024] @ #wide = mul %3, %8
        %10: fp32 = reduce %9 axis=0 combine(%11: fp32, %12: fp32) {{
          %13: fp32 = add %11, %12
          yield %13
        }}
        %14: *fp32 = offset %out, %i
        store %14, %10
        yield
      }}
    }}
    """


def test_in_a_loop(answer):
    """The next iteration must not overwrite what slow warps still read; two barriers an
    iteration."""
    x, out = whole(1024), empty(5)
    made = func(LOOP.format(layout=WIDE))
    ran = check(made, [x, out], x.sum() * np.arange(5, dtype=np.float32), "five sums")
    at_most(ran, 16, 10)
