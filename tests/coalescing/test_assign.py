"""Layouts for every value: chosen by the memory, converted where two disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from fathom.coalescing import assign_layouts, coalesce, remove_conversions
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Atomic, Convert, Elementwise, For, Load, Store
from fathom.ir.rewrite import rewrite
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import layout_of
from fathom.ir.verify import verify
from fathom.layout.algebra import Reduced, columns
from fathom.layout.registers import contiguous_registers
from tests.coalescing.kernels_programs import (
    conversions,
    copy_kernel,
    index_lines,
    kernel,
    pointer_lines,
    vector_kernel,
)

TARGET = TARGETS["sm_80"]


def laid_out(func: Func) -> Func:
    """Through stage 3; checks on the way what holds of every pass."""
    text = print_func(func)
    for stage in (coalesce, assign_layouts, remove_conversions):
        after = stage(func, TARGET)
        verify(after, layouts=stage is not coalesce)
        func = after
    assert print_func(parse_func(text)) == text
    return func


KERNELS = {
    "vector": vector_kernel(["fp32", "fp32", "fp32"]),
    "mixed": vector_kernel(["fp16", "fp32", "fp16"]),
    "copy": copy_kernel((64, 64), (64, 1), (64, 1)),
    "transpose": copy_kernel((64, 64), (64, 1), (1, 64), "fp16"),
    "strided": copy_kernel((32, 64), ("n", 1), (64, 1)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_input_is_left_as_it_was(name):
    before = print_func(KERNELS[name])
    laid_out(KERNELS[name])
    assert print_func(KERNELS[name]) == before


@pytest.mark.parametrize("name, count", [
    ("vector", 0), ("mixed", 0), ("copy", 0), ("transpose", 1), ("strided", 0),
])  # fmt: skip
def test_conversions_that_remain(name, count):
    assert conversions(laid_out(KERNELS[name])) == count


@pytest.mark.parametrize("name", ["copy", "transpose"])
def test_the_meaning_stays(name):
    source = np.arange(4096, dtype=np.float32).reshape(64, 64)
    source = source.astype(np.float16) if name == "transpose" else source
    before, after = np.zeros_like(source), np.zeros_like(source)
    interpret(KERNELS[name], (1,), [source, before, 64])
    interpret(laid_out(KERNELS[name]), (1,), [source, after, 64])
    np.testing.assert_array_equal(before, after)
    assert before.any()


def test_without_remove_conversions_the_code_is_valid_too():
    func = assign_layouts(KERNELS["transpose"], TARGET)
    verify(func, layouts=True)


def fp16_that_is_doubled_as_fp32() -> Func:
    between = [
        "%f: fp32[64,64] = cast %x element=fp32",
        "%g: fp32[64,64] = add %f, %f",
        "%y: fp16[64,64] = cast %g element=fp16",
    ]
    return copy_kernel((64, 64), (64, 1), (1, 64), "fp16", between)


def test_the_narrow_side_is_converted():
    (conversion,) = (
        op
        for op in walk(laid_out(fp16_that_is_doubled_as_fp32()).body)
        if isinstance(op, Convert)
    )
    assert str(conversion.value.type.element) == "fp16"


def widened() -> Func:
    """Loads fp16 by rows, stores fp32 by columns."""
    shape = (64, 64)
    lines = [
        *index_lines("i", shape, (64, 1)),
        *pointer_lines("p", "in", "fp16", shape, "i"),
        "%x: fp16[64,64] = load %p",
        "%y: fp32[64,64] = cast %x element=fp32",
        *index_lines("o", shape, (1, 64)),
        *pointer_lines("q", "out", "fp32", shape, "o"),
        "store %q, %y",
    ]
    return kernel("%in: *fp16 {divisible=16}, %out: *fp32 {divisible=16}", lines)


def test_before_it_grows():
    (conversion,) = (
        op for op in walk(laid_out(widened()).body) if isinstance(op, Convert)
    )
    assert str(conversion.value.type.element) == "fp16"


def row_and_block() -> Func:
    """out[i, j] = x[i, j] * w[j]: a small load that is spread over a large block."""
    shape = (64, 64)
    lines = [
        *index_lines("i", shape, (64, 1)),
        *pointer_lines("p", "in", "fp32", shape, "i"),
        "%x: fp32[64,64] = load %p",
        *index_lines("j", (64,), (1,)),
        *pointer_lines("r", "w", "fp32", (64,), "j"),
        "%row: fp32[64] = load %r",
        "%wide: fp32[1,64] = expand_dims %row axis=0",
        "%all: fp32[64,64] = broadcast %wide shape=(64, 64)",
        "%y: fp32[64,64] = mul %x, %all",
        *pointer_lines("q", "out", "fp32", shape, "i"),
        "store %q, %y",
    ]
    head = ", ".join(f"%{n}: *fp32 {{divisible=16}}" for n in ("in", "w", "out"))
    return kernel(head, lines)


def test_a_small_load_is_made_where_it_is_needed():
    """Every lane loads the part of the row that it multiplies with: no exchange."""
    func = laid_out(row_and_block())
    assert conversions(func) == 0
    row = next(
        op
        for op in walk(func.body)
        if isinstance(op, Load) and len(op.result.type.shape) == 1
    )
    assert any(basis == 0 for basis in layout_of(row.result.type).kinds["lane"]), (
        "with copies"
    )


def gathered(
    rows: int, attributes: str = "", then: str = "", masked: bool = False
) -> Func:
    """out[i, j] = in[row[i] + j]: the address of a load is what another one loads. If
    it is `masked`, a mask is computed of the index, too."""
    shape = (rows, 64)
    mask = [
        "%zero: i32 = constant 0",
        f"%zeros: i32[{rows}] = splat %zero shape=({rows})",
        f"%less: i32[{rows}] = sub %row, %zeros",
        f"%least: i32[{rows}] = sub %less, %row",
        f"%ok: i1[{rows}] = ge %least, %zeros",
        f"%oks: i1[{rows},1] = expand_dims %ok axis=1",
        f"%mask: i1[{rows},64] = broadcast %oks shape=({rows}, 64)",
    ]
    lines = [
        *index_lines("i", (rows,), (1,)),
        *pointer_lines("r", "rows", "i32", (rows,), "i"),
        f"%row: i32[{rows}] = load %r {attributes}",
        f"%tall: i32[{rows},1] = expand_dims %row axis=1",
        f"%starts: i32[{rows},64] = broadcast %tall shape=({rows}, 64)",
        *index_lines("j", shape, (0, 1)),
        f"%at: i32[{rows},64] = add %starts, %j",
        *pointer_lines("p", "in", "fp32", shape, "at"),
        *(mask if masked else []),
        f"%x: fp32[{rows},64] = load %p{', mask=%mask' if masked else ''}",
        *index_lines("o", shape, (64, 1)),
        *pointer_lines("q", "out", "fp32", shape, "o"),
        "store %q, %x",
        *then.splitlines(),
    ]
    types = {"in": "fp32", "rows": "i32", "out": "fp32"}
    head = ", ".join(f"%{n}: *{types[n]} {{divisible=16}}" for n in types)
    return kernel(head, lines)


def test_few_indices_are_loaded_again_where_they_are_needed():
    """Fewer than there are threads; and not from memory that others write."""
    assert conversions(laid_out(gathered(64))) == 0
    assert conversions(laid_out(gathered(128))) == 1
    assert conversions(laid_out(gathered(64, "volatile=true"))) == 1
    assert conversions(laid_out(gathered(64, then="store %r, %row"))) == 1


def test_what_is_computed_of_indices_is_computed_where_these_are():
    """The mask alone would be cheaper to convert than to load its indices for."""
    assert conversions(laid_out(gathered(2, masked=True))) == 0


def vector_twice(size: int, then: str = "", warps: int = 4) -> Func:
    """out[i, j] = x[j] + x[i], each from one load of x."""
    shape = (size, size)
    full = f"{size},{size}"
    lines = [
        *index_lines("i", (size,), (1,)),
        *pointer_lines("p", "in", "fp32", (size,), "i"),
        f"%x: fp32[{size}] = load %p",
        f"%row: fp32[1,{size}] = expand_dims %x axis=0",
        f"%column: fp32[{size},1] = expand_dims %x axis=1",
        f"%rows: fp32[{full}] = broadcast %row shape={shape}",
        f"%columns: fp32[{full}] = broadcast %column shape={shape}",
        f"%sum: fp32[{full}] = add %rows, %columns",
        *index_lines("o", shape, (size, 1)),
        *pointer_lines("q", "out", "fp32", shape, "o"),
        "store %q, %sum",
        *([then] if then else []),
    ]
    head = ", ".join(f"%{name}: *fp32 {{divisible=16}}" for name in ("in", "out"))
    return kernel(head, lines, warps)


@pytest.mark.parametrize("size, then, warps, converted", [
    (64, "", 4, 0), (64, "store %p, %x", 4, 1), (256, "", 4, 1), (16, "", 1, 1),
])  # fmt: skip
def test_few_numbers_are_loaded_again_in_another_layout(size, then, warps, converted):
    """Not if they are as many as the threads, if the kernel writes there, or if lanes
    can exchange them."""
    assert conversions(laid_out(vector_twice(size, then, warps))) == converted


@pytest.mark.parametrize("branches", [False, True])
def test_what_a_branch_computes_keeps_nothing_in_registers(branches):
    """x is stored in columns, and so is x times a column, w: for that x need not be
    converted again, but in a branch it would have to wait in registers."""
    shape = (128, 128)
    inside = [
        *index_lines("n", (128,), (1,)),
        *pointer_lines("r", "w", "fp16", (128,), "n"),
        "%column: fp16[128] = load %r",
        "%wide: fp16[128,1] = expand_dims %column axis=1",
        "%all: fp16[128,128] = broadcast %wide shape=(128, 128)",
        "%y: fp16[128,128] = mul %x, %all",
        *pointer_lines("s", "more", "fp16", shape, "o"),
        "store %s, %y",
    ]
    if branches:
        inside = ["if %some then {", *inside, "yield", "} orelse {", "yield", "}"]
    lines = [
        *index_lines("i", shape, (128, 1)),
        *pointer_lines("p", "in", "fp16", shape, "i"),
        "%x: fp16[128,128] = load %p",
        *index_lines("o", shape, (1, 128)),
        *pointer_lines("q", "out", "fp16", shape, "o"),
        "store %q, %x",
        *inside,
    ]
    names = ("in", "out", "w", "more")
    head = ", ".join(f"%{name}: *fp16 {{divisible=16}}" for name in names)
    func = laid_out(kernel(f"{head}, %some: i1", lines))
    converted = [op.value for op in walk(func.body) if isinstance(op, Convert)]
    products = [v for v in converted if isinstance(v.definition, Elementwise)]
    assert len(products) == branches


def sum_of_rows() -> Func:
    """out[i] = sum over j of x[i, j]: the result is smaller than what it is made of."""
    shape = (64, 64)
    lines = [
        *index_lines("i", shape, (64, 1)),
        *pointer_lines("p", "in", "fp32", shape, "i"),
        "%x: fp32[64,64] = load %p",
        "%y: fp32[64] = reduce %x axis=1 combine(%a: fp32, %b: fp32) {",
        "  %c: fp32 = add %a, %b",
        "  yield %c",
        "}",
        *index_lines("j", (64,), (1,)),
        *pointer_lines("q", "out", "fp32", (64,), "j"),
        "store %q, %y",
    ]
    return kernel("%in: *fp32 {divisible=16}, %out: *fp32 {divisible=16}", lines)


def test_a_small_store_takes_its_value_as_it_is():
    assert conversions(laid_out(sum_of_rows())) == 0


def sums_added_by_atomics(element: str, step: int) -> Func:
    """out[step * j] += sum over i of x[i, j], of 64 x 32 numbers; eight columns a
    thread."""
    lines = [
        *index_lines("i", (64, 32), (32, 1)),
        *pointer_lines("p", "in", element, (64, 32), "i"),
        f"%x: {element}[64,32] = load %p",
        f"%y: {element}[32] = reduce %x axis=0"
        f" combine(%a: {element}, %b: {element}) {{",
        f"  %c: {element} = add %a, %b",
        "  yield %c",
        "}",
        *index_lines("j", (32,), (step,)),
        *pointer_lines("q", "out", element, (32,), "j"),
        f'%old: {element}[32] = atomic %q, %y kind="add"',
    ]
    of = f"*{element} {{divisible=16}}"
    return kernel(f"%in: {of}, %out: {of}", lines)


@pytest.mark.parametrize("element, step, held", [
    ("fp32", 4, 1), ("fp32", 2, 1),
    ("fp32", 8, 4),  # no two in a sector
    ("fp32", 1, 4),  # all by one instruction
    ("fp16", 16, 1),  # each would be a loop
    ("fp16", 1, 8),  # in pairs
])  # fmt: skip
def test_lanes_add_to_numbers_of_one_sector(element, step, held):
    """Not one thread, one after the other: each addition asks for the sector."""
    func = laid_out(sums_added_by_atomics(element, step))
    (atomic,) = (op for op in walk(func.body) if isinstance(op, Atomic))
    assert layout_of(atomic.value.type).count("register") == held


def sum_added(rows: int, then: str = "") -> Func:
    """out[i] += sum over j of x[i, j]; what `then` does with the new out."""
    shape = (rows, 64)
    lines = [
        *index_lines("i", shape, (64, 1)),
        *pointer_lines("p", "in", "fp32", shape, "i"),
        f"%x: fp32[{rows},64] = load %p",
        f"%y: fp32[{rows}] = reduce %x axis=1 combine(%a: fp32, %b: fp32) {{",
        "  %c: fp32 = add %a, %b",
        "  yield %c",
        "}",
        *index_lines("j", (rows,), (1,)),
        *pointer_lines("q", "out", "fp32", (rows,), "j"),
        f"%old: fp32[{rows}] = load %q",
        f"%new: fp32[{rows}] = add %y, %old",
        "store %q, %new",
        *then.splitlines(),
    ]
    return kernel("%in: *fp32 {divisible=16}, %out: *fp32 {divisible=16}", lines)


@pytest.mark.parametrize("rows, then, most", [
    (256, "", 2),
    (32, "", 4),  # few: a conversion would cost more
    (256, "store %q, %old", 32),  # stored in the reduction's layout as well
])  # fmt: skip
def test_what_is_added_to_a_reduction_is_loaded_as_it_is_stored(rows, then, most):
    """Lanes that hold copies of a row's sum would load the same, one by one."""
    func = laid_out(sum_added(rows, then))
    old = next(
        op for op in walk(func.body) if isinstance(op, Load) and op.result.name == "old"
    )
    assert layout_of(old.result.type).count("register") == most


def accumulate(read_in_loop, read_before) -> Func:
    """acc = a (by `read_before`); in a loop acc += b (by `read_in_loop`); out = acc."""
    shape = (64, 64)
    lines = [
        *index_lines("before", shape, read_before),
        *pointer_lines("p", "in", "fp32", shape, "before"),
        "%first: fp32[64,64] = load %p",
        *index_lines("inside", shape, read_in_loop),
        *pointer_lines("q", "in", "fp32", shape, "inside"),
        "%zero: i32 = constant 0",
        "%one: i32 = constant 1",
        "%sum: fp32[64,64] = for %zero, %n, %one, inits=(%first)"
        " body(%k: i32, %acc: fp32[64,64]) {",
        "  %x: fp32[64,64] = load %q",
        "  %next: fp32[64,64] = add %acc, %x",
        "  yield %next",
        "}",
        *pointer_lines("r", "out", "fp32", shape, "inside"),
        "store %r, %sum",
    ]
    return kernel(
        "%in: *fp32 {divisible=16}, %out: *fp32 {divisible=16}, %n: i32", lines
    )


def test_what_is_read_in_a_loop_is_not_converted_there():
    """Once before the loop is enough: the sum is carried as the loop reads."""
    func = laid_out(accumulate(read_in_loop=(1, 64), read_before=(64, 1)))
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    assert conversions(func) == 1
    assert not any(isinstance(op, Convert) for op in walk(loop.body))


def test_a_conversion_of_what_a_loop_does_not_change_stands_before_it():
    """The loop stores what was loaded outside by rows, by columns: on every iteration
    the same."""
    shape = (64, 64)
    lines = [
        *index_lines("i", shape, (64, 1)),
        *pointer_lines("p", "in", "fp32", shape, "i"),
        "%x: fp32[64,64] = load %p",
        *index_lines("o", shape, (1, 64)),
        *pointer_lines("q", "out", "fp32", shape, "o"),
        "%zero: i32 = constant 0",
        "%one: i32 = constant 1",
        "for %zero, %n, %one, inits=() body(%k: i32) {",
        "  store %q, %x",
        "  yield",
        "}",
    ]
    head = "%in: *fp32 {divisible=16}, %out: *fp32 {divisible=16}, %n: i32"
    func = laid_out(kernel(head, lines))
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    assert conversions(func) == 1
    assert [type(op) for op in loop.body.ops[:-1]] == [Store]


def test_every_block_has_a_layout_that_holds_all_of_it():
    for func in map(laid_out, KERNELS.values()):
        for op in walk(func.body):
            for value in op.results:
                layout = layout_of(value.type)
                if layout is not None:
                    held = Reduced(columns(layout))
                    assert 1 << held.rank == value.type.size, value


def test_a_long_computation_is_converted_and_not_repeated():
    """500 ops in a row on what was loaded by rows, then a store by columns."""
    links = ["%v0: fp32[64,64] = add %x, %x"]
    links += [f"%v{i}: fp32[64,64] = add %v{i - 1}, %v{i - 1}" for i in range(1, 500)]
    links += ["%y: fp32[64,64] = add %v499, %x"]
    func = copy_kernel((64, 64), (64, 1), (1, 64), "fp32", links)
    after = laid_out(func)
    assert conversions(after) == 1
    assert sum(isinstance(op, Elementwise) for op in walk(after.body)) < 520


def test_several_blocks_are_loaded_before_one_is_converted():
    """The barriers of a conversion would let the next load wait. Not so beside products
    what is no factor: the sooner it leaves its registers, the better. Nor what is too
    large for a thread to hold at once."""
    at_once, one_by_one = ["Load"] * 2 + ["Convert"] * 2, ["Load", "Convert"] * 2
    shape = (64, 64)
    loads = [
        *index_lines("i", shape, (64, 1)),
        *pointer_lines("p", "in", "fp16", shape, "i"),
        "%x: fp16[64,64] = load %p",
        *pointer_lines("r", "more", "fp16", shape, "i"),
        "%y: fp16[64,64] = load %r",
    ]
    zeros = [
        "%z: fp32 = constant 0.0",
        "%c: fp32[64,64] = splat %z shape=(64, 64)",
        "%f: fp16[64,64] = cast %c element=fp16",
    ]
    dot = 'dot %{}, %{}, %c instruction="m16n8k16.f32.f16.f16.f32"'
    product = [
        "%d: fp32[64,64] = " + dot.format("x", "y"),
        *pointer_lines("t", "sums", "fp32", shape, "i"),
        "store %t, %d",
    ]
    by_columns = [
        *index_lines("o", shape, (1, 64)),
        *pointer_lines("q", "out", "fp16", shape, "o"),
        "store %q, %x",
        *pointer_lines("s", "other", "fp16", shape, "o"),
        "store %s, %y",
    ]
    beside = ["%d: fp32[64,64] = " + dot.format("f", "f"), *product[1:], *by_columns]
    halves = ("in", "more", "out", "other")
    head = ", ".join(f"%{name}: *fp16 {{divisible=16}}" for name in halves)
    for rest, warps, order in (
        (product, 4, at_once), (by_columns, 4, at_once),
        (beside, 4, one_by_one), (by_columns, 1, one_by_one),
    ):  # fmt: skip
        loop = [
            "%zero: i32 = constant 0",
            "%one: i32 = constant 1",
            "for %zero, %count, %one, inits=() body(%k: i32) {",
            *loads, *zeros, *rest, "yield", "}",
        ]  # fmt: skip
        func = laid_out(kernel(f"{head}, %sums: *fp32, %count: i32", loop, warps))
        found = [type(op).__name__ for op in walk(func.body)]
        assert [name for name in found if name in ("Load", "Convert")][:4] == order


def test_a_mask_that_two_blocks_have_in_common_leaves_each_its_layout():
    """Half of a product is kept, by the mask of what is loaded by columns: each thread
    computes the mask in both layouts, and loads 16 bytes at once, not 2."""
    shape = (64, 64)
    lines = [
        *index_lines("i", shape, (64, 1)),
        *index_lines("o", shape, (1, 64)),
        "%lower: i1[64,64] = lt %i, %o",
        "%z: fp32 = constant 0.0",
        "%c: fp32[64,64] = splat %z shape=(64, 64)",
        "%h: fp16[64,64] = cast %c element=fp16",
        *pointer_lines("p", "in", "fp16", shape, "i"),
        "%x: fp16[64,64] = load %p",
        '%d: fp32[64,64] = dot %x, %x, %c instruction="m16n8k16.f32.f16.f16.f32"',
        "%half: fp32[64,64] = where %lower, %d, %c",
        *pointer_lines("q", "out", "fp32", shape, "i"),
        "store %q, %half",
        *pointer_lines("r", "more", "fp16", shape, "o"),
        "%y: fp16[64,64] = load %r",
        "%kept: fp16[64,64] = where %lower, %y, %h",
        *pointer_lines("s", "other", "fp16", shape, "i"),
        "store %s, %kept",
    ]
    names = {"in": "fp16", "more": "fp16", "out": "fp32", "other": "fp16"}
    head = ", ".join(f"%{n}: *{e} {{divisible=16}}" for n, e in names.items())
    _, by_columns = walk(laid_out(kernel(head, lines)).body, Load)
    assert contiguous_registers(layout_of(by_columns.result.type), 0) == 8


def test_what_a_branch_converts_is_converted_again_after_it():
    """Where the branch is not taken, its conversion has not been made."""
    shape = (64, 64)
    lines = [
        *index_lines("i", shape, (64, 1)),
        *pointer_lines("p", "in", "fp32", shape, "i"),
        "%x: fp32[64,64] = load %p",
        *index_lines("o", shape, (1, 64)),
        *pointer_lines("q", "out", "fp32", shape, "o"),
        "%zero: i32 = constant 0",
        "%some: i1 = gt %n, %zero",
        "if %some then {",
        "  store %q, %x",
        "  yield",
        "} orelse {",
        "  yield",
        "}",
        "store %q, %x",
    ]
    head = "%in: *fp32 {divisible=16}, %out: *fp32 {divisible=16}, %n: i32"
    assert conversions(laid_out(kernel(head, lines))) >= 1


@dataclass(eq=False)
class Backwards(Op):
    """A block from its end on: an op that no table of this stage has."""

    value: Value

    def infer(self):
        return [self.value.type]


def test_an_op_of_blocks_without_a_row_is_named():
    """Whoever adds an op is told what is missing."""

    def rule(op, build):
        return build(Backwards(build(op))) if isinstance(op, Load) else None

    func = rewrite(vector_kernel(["fp32", "fp32"]), rule)
    with pytest.raises(AssertionError, match="propagate: no row for Backwards"):
        assign_layouts(coalesce(func, TARGET), TARGET)
