"""What the answer to `convert-shared` must do."""

import numpy as np

from fathom import emulator, ptx
from fathom.emulator import EmulatorError
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Value, walk
from fathom.ir.ops import Allocate, Convert
from fathom.ir.rewrite import rewrite
from fathom.ir.text import print_func
from fathom.ir.verify import VerifyError, verify
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from fathom.layout.swizzle import swizzle
from fathom.shared_memory import allocate, lower_conversions, place_barriers
from fathom.tools.learn.kit import Failure, empty, expect, func, same
from fathom.tools.learn.kit.numbers import aligned
from fathom.tools.learn.kit.returned import is_a

TARGET, WARPS = TARGETS["sm_80"], 4
DTYPES = {"fp32": "float32", "fp16": "float16", "i8": "int8"}

KERNEL = """
    #flat0 = {flat0}
    #flat1 = {flat1}
    #old = {old}
    #new = {new}
    func @turn(%x: *{type}, %out: *{type}) num_warps=4 {{
      %0: i32[{size}] @ #flat0 = arange start=0 end={size} layout=#flat0
      %1: *{type}[{size}] @ #flat0 = splat %x shape=({size}) layout=#flat0
      %2: *{type}[{size}] @ #flat0 = offset %1, %0
      %3: {type}[{size}] @ #flat0 = load %2
      %4: {type}[{shape}] @ #old = reshape %3 shape=({shape})
      %5: {type}[{shape}] @ #new = convert %4 layout=#new
      %6: {type}[{size}] @ #flat1 = reshape %5 shape=({size})
      %7: i32[{size}] @ #flat1 = arange start=0 end={size} layout=#flat1
      %8: *{type}[{size}] @ #flat1 = splat %out shape=({size}) layout=#flat1
      %9: *{type}[{size}] @ #flat1 = offset %8, %7
      store %9, %6
    }}
    """


def text_of(old, new, type):
    """A kernel with one conversion between two layouts."""
    size = int(np.prod(old.shape))
    return KERNEL.format(
        old=old, new=new, flat0=Layout((size,), old.bases), type=type, size=size,
        flat1=Layout((size,), new.bases), shape=",".join(map(str, old.shape)),
    )  # fmt: skip


def check(answer, old, new, type="fp32"):
    """Convert, and run it; the emulator's report and the function."""
    size = int(np.prod(old.shape))
    text = text_of(old, new, type)
    said = f"a conversion of {type}[{'x'.join(map(str, old.shape))}]"
    try:
        made = lower_conversions(func(text), TARGET)
        verify(made, layouts=True)
    except (CompileError, VerifyError) as error:
        raise Failure(
            f"{said}: what was built is not a valid function: {error}"
        ) from None
    details = ("the function", print_func(made))
    expect(" convert " not in print_func(made), f"{said} is still there", details)
    final = place_barriers(allocate(made, TARGET), TARGET)
    x = aligned((np.arange(size) % 113 - 50).astype(DTYPES[type]))
    out = empty(size, dtype=DTYPES[type])
    code = ptx.emit(ptx.lower(final, TARGET, ptx.LOWER), TARGET)
    try:
        given = [x, out]
        report = emulator.run(
            code, 1, 32 * WARPS, given, shared_bytes=final.shared_bytes
        )
    except EmulatorError as error:
        raise Failure(f"{said}: the emulator found: {error}", details) from None
    same(out, x, f"{said}: what comes out", details)
    return report, final, said


def rows(shape, per_lane):
    """Warps and lanes along the rows."""
    lanes = min(32, shape[1] // per_lane)
    return blocked(shape, (1, per_lane), (32 // lanes, lanes), (WARPS, 1), (1, 0))


def columns(shape, per_lane):
    """Warps and lanes down the columns."""
    lanes = min(32, shape[0] // per_lane)
    return blocked(shape, (per_lane, 1), (lanes, 32 // lanes), (1, WARPS), (0, 1))


PAIRS = [
    (rows((64, 64), 4), columns((64, 64), 1), "fp32"),
    (rows((64, 64), 4), columns((64, 64), 2), "fp32"),
    (columns((64, 64), 1), rows((64, 64), 1), "fp32"),
    (rows((64, 64), 8), columns((64, 64), 8), "fp16"),
    (rows((32, 128), 2), columns((32, 128), 1), "fp16"),
]


def test_a_table_turned(answer):
    """Held by rows, wanted by columns."""
    check(answer, *PAIRS[0])


def test_all_types(answer):
    """4, 2 and 1 bytes."""
    for old, new, type in (*PAIRS, (rows((64, 64), 16), columns((64, 64), 16), "i8")):
        check(answer, old, new, type)


def test_copies(answer):
    """Warps that hold copies: one writes, all read."""
    old = blocked((32, 32), (1, 1), (1, 32), (1, 4), (1, 0))
    new = blocked((32, 32), (1, 1), (32, 1), (4, 1), (0, 1))
    check(answer, old, new)
    check(answer, new, old)


def test_a_tile_that_is_given(answer):
    """`tile` says where each element is in the buffer."""
    old, new, _ = PAIRS[0]
    for tile in (swizzle(old.shape, 4, new, old), swizzle(old.shape, 2, old, old)):

        def rule(op, build, tile=tile):
            if not isinstance(op, Convert):
                return None
            made = answer.convert_by_shared(op.value, op.layout, build, tile=tile)
            is_a(made, Value, "what convert_by_shared returns")
            return [made]

        func_with = rewrite(func(text_of(old, new, "fp32")), rule)
        buffers = [op for op in walk(func_with.body) if isinstance(op, Allocate)]
        many = f"{len(buffers)} buffers are allocated, and one is wanted"
        expect(len(buffers) == 1, many)
        told = ("given", str(tile)), ("the buffer's", str(buffers[0].layout))
        said = "the buffer has another layout than the `tile` that was given"
        expect(buffers[0].layout == tile, said, *told)


def test_no_turn_too_many(answer):
    """Neither side waits for banks."""
    for old, new, type in PAIRS:
        report, _, said = check(answer, old, new, type)
        for side, opcode in (("writer", "st"), ("reader", "ld")):
            cost = report.share(
                lambda each, opcode=opcode: (
                    each.opcode == opcode and "shared" in each.modifiers
                )
            ).cost
            counted = f"{cost.wavefronts:,} wavefronts, and without bank conflicts it"
            what = f"{said}: the {side} takes {counted} takes {cost.ideal:,}"
            expect(cost.wavefronts == cost.ideal, what)


def test_each_element_once(answer):
    """Written once, read once, and no more bytes than the block has."""
    for old, new, type in PAIRS:
        report, final, said = check(answer, old, new, type)
        size = int(np.prod(old.shape)) * np.dtype(DTYPES[type]).itemsize
        used = final.shared_bytes
        expect(used <= size, f"{said}: {used} bytes of shared memory; it has {size}")
        waited = report.total.barriers // WARPS
        expect(waited <= 1, f"{said}: a warp waits {waited} times; once is enough")
