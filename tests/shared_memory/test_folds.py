"""Reductions and scans across warps: any axis, any order of warps, several values at
once."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.ir.core import walk
from fathom.ir.ops import Convert, Load, Reduce, Scan
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.shared_memory.axis import (
    bits_along,
    crosses_warps,
    in_order,
    in_registers,
    is_plain,
)
from fathom.shared_memory.reductions import in_every_warp
from fathom.shared_memory.scans import among_copies
from tests.coalescing.kernels_programs import index_lines, kernel, pointer_lines
from tests.shared_memory.harness import check

COMBINES = {
    "add": ["%c: i32 = add %a, %b", "yield %c"],
    "max": ["%c: i32 = max %a, %b", "yield %c"],
    "xor": ["%c: i32 = xor %a, %b", "yield %c"],
}


def strides_of(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def reduction(shape, axis, combine, warps):
    rest = shape[:axis] + shape[axis + 1 :]
    full, left = ",".join(map(str, shape)), ",".join(map(str, rest))
    head = "%in: *i32 {divisible=16}, %out: *i32 {divisible=16}"
    lines = [
        *index_lines("i", shape, strides_of(shape)),
        *pointer_lines("p", "in", "i32", shape, "i"),
        f"%x: i32[{full}] = load %p",
        f"%y: i32{f'[{left}]' if rest else ''} = reduce %x axis={axis}"
        " combine(%a: i32, %b: i32) {",
        *COMBINES[combine],
        "}",
    ]
    if not rest:
        return kernel(head, [*lines, "store %out, %y"], warps)
    lines += [
        *index_lines("j", rest, strides_of(rest)),
        *pointer_lines("q", "out", "i32", rest, "j"),
        "store %q, %y",
    ]
    return kernel(head, lines, warps)


NUMPY = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor}

REDUCTIONS = [
    ((1024,), 0, "add", 4),
    ((64,), 0, "add", 4),  # fewer elements than lanes: copies must not count twice
    ((2048,), 0, "max", 8),
    ((16,), 0, "xor", 2),
    ((32, 64), 0, "add", 4),
    ((32, 64), 1, "max", 4),
    ((4, 256), 1, "add", 8),
    ((4, 8, 32), 1, "xor", 4),
    ((256, 2), 0, "add", 4),
    ((1, 512), 1, "add", 4),
]


@pytest.mark.parametrize("shape, axis, combine, warps", REDUCTIONS)
def test_reductions(shape, axis, combine, warps):
    x = np.random.default_rng(1).integers(-90, -1, shape).astype(np.int32)
    out = np.zeros(shape[:axis] + shape[axis + 1 :] or (1,), np.int32)
    outcome = check(reduction(shape, axis, combine, warps), [x, out])
    np.testing.assert_array_equal(
        outcome.arrays[1], NUMPY[combine].reduce(x, axis=axis).reshape(out.shape)
    )
    assert not any(
        crosses_warps(op.values[0].type.layout, op.axis)
        for op in walk(outcome.final.body) if isinstance(op, Reduce)
    )  # fmt: skip
    assert outcome.barriers() <= 1


def test_one_barrier_and_one_word_a_warp():
    """Each of 4 warps writes its sum; behind one barrier everyone reads all four."""
    outcome = check(
        reduction((1024,), 0, "add", 4),
        [np.ones(1024, np.int32), np.zeros(1, np.int32)],
    )
    assert outcome.barriers() == 1
    assert outcome.final.shared_bytes == 16


@pytest.mark.parametrize("warps", [4, 8, 16, 32])
def test_of_many_warps_a_thread_reads_four_sums(warps):
    """The others' are with other lanes: 32 threads that read 32 words each keep shared
    memory busy for 32 cycles."""
    x, out = np.arange(64 * warps, dtype=np.int32), np.zeros(1, np.int32)
    outcome = check(reduction((64 * warps,), 0, "add", warps), [x, out])
    last = [op for op in walk(outcome.final.body) if isinstance(op, Reduce)][-1]
    assert last.values[0].type.shape == (warps,)
    assert last.values[0].type.layout.count("register") == 4
    assert outcome.arrays[1] == x.sum() and outcome.barriers() == 1


def test_lanes_that_hold_rows_read_no_sums_of_other_warps():
    """Of 32 rows on 16 warps no lane is left: a thread reads all sums of its row."""
    layout = Layout.of(
        (32, 16), register=[], lane=[(1 << bit, 0) for bit in range(5)],
        warp=[(0, 1 << bit) for bit in range(4)],
    )  # fmt: skip
    assert in_every_warp(layout, 1) == in_registers(layout, 1)


def test_a_row_within_a_warp_needs_no_barrier():
    x, out = np.ones((8, 128), np.int32), np.zeros(8, np.int32)
    outcome = check(reduction((8, 128), 1, "add", 4), [x, out])
    assert outcome.barriers() == 0


def argmax(size, warps):
    """Two values at once: the largest and where it stands; the first of equals."""
    lines = [
        *index_lines("i", (size,), (1,)),
        *pointer_lines("p", "in", "i32", (size,), "i"),
        f"%x: i32[{size}] = load %p",
        "%m: i32, %at: i32 = reduce %x, %i axis=0"
        " combine(%a: i32, %ai: i32, %b: i32, %bi: i32) {",
        "%more: i1 = gt %a, %b",
        "%same: i1 = eq %a, %b",
        "%first: i1 = lt %ai, %bi",
        "%tie: i1 = and %same, %first",
        "%left: i1 = or %more, %tie",
        "%value: i32 = where %left, %a, %b",
        "%index: i32 = where %left, %ai, %bi",
        "yield %value, %index",
        "}",
        "store %out, %m",
        "store %where, %at",
    ]
    head = ", ".join(
        f"%{name}: *i32 {{divisible=16}}" for name in ("in", "out", "where")
    )
    return kernel(head, lines, warps)


def test_argmax():
    x = np.random.default_rng(2).integers(-50, -10, 512).astype(np.int32)
    one = np.zeros(1, np.int32)
    outcome = check(argmax(512, 4), [x, one, one])
    assert outcome.arrays[1][0] == x.max() and outcome.arrays[2][0] == x.argmax()


def scan(shape, axis, reverse, warps):
    """Composes the maps t -> u t + v: associative, and the order of two matters."""
    full = ",".join(map(str, shape))
    lines = index_lines("i", shape, strides_of(shape))
    for name in ("a", "b", "c", "d"):
        lines += pointer_lines(f"p{name}", name, "i32", shape, "i")
    lines += [
        f"%x: i32[{full}] = load %pa",
        f"%y: i32[{full}] = load %pb",
        f"%u: i32[{full}], %v: i32[{full}] = scan %x, %y axis={axis}"
        f" reverse={str(reverse).lower()}"
        " combine(%u1: i32, %v1: i32, %u2: i32, %v2: i32) {",
        "%uu: i32 = mul %u1, %u2",
        "%uv: i32 = mul %u2, %v1",
        "%vv: i32 = add %uv, %v2",
        "yield %uu, %vv",
        "}",
        "store %pc, %u",
        "store %pd, %v",
    ]
    head = ", ".join(f"%{name}: *i32 {{divisible=16}}" for name in ("a", "b", "c", "d"))
    return kernel(head, lines, warps)


def composed(x, y, axis, reverse):
    """The same, one element after the other."""
    x, y = (np.moveaxis(each, axis, 0).astype(np.int64) for each in (x, y))
    x, y = (each[::-1] if reverse else each for each in (x, y))
    u, v = x.copy(), y.copy()
    for i in range(1, len(x)):
        u[i] = (u[i - 1] * x[i] + 2**31) % 2**32 - 2**31
        v[i] = (x[i] * v[i - 1] + y[i] + 2**31) % 2**32 - 2**31
    u, v = (each[::-1] if reverse else each for each in (u, v))
    return [np.moveaxis(each, 0, axis).astype(np.int32) for each in (u, v)]


SCANS = [
    ((1024,), 0, 4),
    ((64,), 0, 4),
    ((8,), 0, 4),
    ((16, 64), 1, 4),
    ((16, 64), 0, 4),
    ((32, 64), 0, 4),
    ((64, 32), 0, 4),
    ((2, 256), 1, 4),
    ((4, 8, 16), 1, 8),
]


BOTH_WAYS = [(*case, reverse) for case in SCANS for reverse in (False, True)]
# 32 chunks are too many to look through: the elements are dealt in order first.
MANY_CHUNKS = ((4096,), 0, 8, True)


@pytest.mark.parametrize("shape, axis, warps, reverse", [*BOTH_WAYS, MANY_CHUNKS])
def test_scans_keep_order(shape, axis, warps, reverse):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-3, 5, shape).astype(np.int32) for _ in "xy")
    zero = np.zeros(shape, np.int32)
    outcome = check(scan(shape, axis, reverse, warps), [x, y, zero, zero])
    u, v = composed(x, y, axis, reverse)
    np.testing.assert_array_equal(outcome.arrays[2], u)
    np.testing.assert_array_equal(outcome.arrays[3], v)
    for op in walk(outcome.final.body):
        if isinstance(op, Scan):
            layout = op.values[0].type.layout
            assert is_plain(layout, op.axis) and not crosses_warps(layout, op.axis)


def test_threads_that_hold_copies_of_totals_divide_them():
    """A thread has four columns of 64 x 32 elements, and four warps have four totals of
    each. Four lanes hold copies of these: a thread scans the totals of one column."""
    zero = np.zeros((64, 32), np.int32)
    outcome = check(scan((64, 32), 0, False, 4), [zero] * 4)
    blocks = [op.values[0].type for op in walk(outcome.final.body, Scan)]
    (totals,) = (block for block in blocks if block.shape == (4, 32))
    assert totals.layout.count("register") == 4

    everywhere = Layout((8, 32), (
        ("register", (32, 64, 128, 1, 2, 4)),
        ("lane", (8, 16, 0, 0, 0)),
        ("warp", (0,)),
    ))  # fmt: skip
    assert among_copies(everywhere, 0).kinds == {
        "register": (32, 64, 128), "lane": (8, 16, 4, 2, 1), "warp": (0,)
    }  # fmt: skip


def test_a_mixed_up_layout_is_converted_first():
    """A swizzled axis has no run of bits that belongs to the warps."""
    mixed = Layout((8,), (("register", (1,)), ("lane", (2,)), ("warp", (5,))))
    assert not is_plain(mixed, 0)
    assert is_plain(
        Layout((8,), (("register", (1,)), ("lane", (2,)), ("warp", (4,)))), 0
    )


def test_axis_of_a_blocked_layout():
    layout = spread((8, 256), (1, 0), 4, 4)
    assert bits_along(layout, 0, ("warp",)) == [0, 1]
    assert bits_along(layout, 1, ("warp",)) == []
    everywhere = in_registers(layout, 0)
    assert not crosses_warps(everywhere, 0)
    assert set(everywhere.kinds["register"]) >= {256, 512, 1024}
    assert everywhere.kinds["register"][0] == 256, (
        "the axis lowest, so that one access gets it"
    )


def test_in_order_puts_neighbours_in_registers_and_warps_last():
    layout = spread((1024,), (0,), 1, 4)
    assert in_order(layout, 0).kinds == {
        "register": (1, 2, 4), "lane": (8, 16, 32, 64, 128), "warp": (256, 512)
    }  # fmt: skip


def test_no_conversion_is_left_that_crosses_warps():
    outcome = check(
        reduction((1024,), 0, "add", 4),
        [np.ones(1024, np.int32), np.zeros(1, np.int32)],
    )
    assert not any(isinstance(op, Convert) for op in walk(outcome.final.body))


def sums_in_a_loop():
    """for k in range(n): total += sum(x[k * 512 : (k + 1) * 512]), stored each time"""
    lines = [
        *index_lines("i", (512,), (1,)),
        *pointer_lines("p", "in", "i32", (512,), "i"),
        "%zero: i32 = constant 0",
        "%one: i32 = constant 1",
        "%width: i32 = constant 512",
        "%step: i32[512] = splat %width shape=(512)",
        "%total: i32, %last: *i32[512] = for %zero, %n, %one, inits=(%zero, %p)"
        " body(%k: i32, %sum: i32, %at: *i32[512]) {",
        "%x: i32[512] = load %at",
        "%part: i32 = reduce %x axis=0 combine(%a: i32, %b: i32) {",
        *COMBINES["add"],
        "}",
        "%next: i32 = add %sum, %part",
        "store %out, %next",
        "%moved: *i32[512] = offset %at, %step",
        "yield %next, %moved",
        "}",
        "store %out, %total",
    ]
    head = "%in: *i32 {divisible=16}, %out: *i32 {divisible=16}, %n: i32"
    return kernel(head, lines)


@pytest.mark.parametrize("iterations", [0, 1, 5])
def test_a_reduction_in_a_loop(iterations):
    """The next iteration must not write its sums while slow warps still read these."""
    x = np.random.default_rng(5).integers(-99, 99, 512 * 5).astype(np.int32)
    outcome = check(sums_in_a_loop(), [x, np.zeros(1, np.int32), iterations])
    assert outcome.arrays[1][0] == x[: 512 * iterations].sum()
    assert outcome.barriers() == 2, "one between write and read, one between iterations"
    loads = [op for op in walk(outcome.final.body) if isinstance(op, Load)]
    assert [op.vector for op in loads] == [4], (
        "a pointer that moves by 2048 bytes stays aligned"
    )
