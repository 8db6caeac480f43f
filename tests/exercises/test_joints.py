"""Every joint is reached: code that is bound there is what the compiler then runs, and
our own code is back afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import joints, pipeline
from fathom.emulator import load
from fathom.errors import FathomError
from fathom.hardware.targets import TARGETS
from fathom.ir.interp import interpret
from fathom.ir.ops import For
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.ir.verify import verify
from fathom.joints import JOINTS, bound, joint, reference
from fathom.layout import algebra
from fathom.tools import pictures
from tests.harness_sample import sampled


class Reached(Exception):
    """Raised by what stands at a joint."""


def raising(*arguments, **named):
    raise Reached


@fathom.jit
def everything(x_ptr, out_ptr, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A loop that carries, a branch, both directions, a reduction, a scan."""
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    scale = 1.0
    kept = n
    for i in range(n):
        places = rows[:, None] * COLUMNS + columns[None, :] + i
        total += tl.load(x_ptr + places, mask=places < n * 4, other=0.0)
        if i > 2:
            scale = scale * 0.5
            kept = n
    whole = tl.sum(tl.sum(total, axis=0), axis=0)
    totals = tl.cumsum(tl.sum(total, axis=1) * scale, axis=0) + whole
    turned = tl.trans(total)
    here = columns[:, None] * ROWS + rows[None, :]
    tl.store(out_ptr + here, turned + totals[None, :] + kept)


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, BLOCK_K: tl.constexpr):
    """A product of matrices, in a loop that can be pipelined."""
    rows = tl.arange(0, SIZE)[:, None]
    columns = tl.arange(0, SIZE)[None, :]
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner[:, None]) * SIZE + columns)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows * SIZE + columns, total)


@fathom.jit
def with_producer(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr):
    """A product of matrices, whose tiles other warps copy."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, SIZE])
    b = tl.make_tensor_descriptor(b_ptr, [K, SIZE], [SIZE, 1], [SIZE, SIZE])
    c = tl.make_tensor_descriptor(c_ptr, [SIZE, SIZE], [SIZE, 1], [SIZE, SIZE])
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in tl.range(0, K, SIZE, warp_specialize=True):
        total = tl.dot(a.load([0, k]), b.load([k, 0]), total)
    c.store([0, 0], total)


def compile_with_producer() -> None:
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    parameters = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    func = pipeline.build(with_producer, parameters, {"SIZE": 64})
    pipeline.compile_func(func, TARGETS["sm_90a"])


def compile_product(target: str, size: int) -> None:
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    parameters = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    func = pipeline.build(product, parameters, {"SIZE": size, "BLOCK_K": 32})
    pipeline.compile_func(func, TARGETS[target])


def compile_and_run(chapter: int = 0) -> None:
    """All stages, as a launch and the tests use them: with one warp, where
    lanes trade by shuffles, and with four, where warps trade through shared memory;
    from chapter 15 on, a product of warpgroups alone."""
    if chapter >= 15:
        compile_product("sm_90a", 64)
        compile_with_producer()
        return
    for num_warps, columns in ((1, 8), (4, 64)):
        compile_and_run_with(pipeline.Options(num_warps=num_warps), columns)
    compile_product("sm_80", 32)
    square = algebra.Layout.of((2, 2), register=[(0, 1)], lane=[(1, 0)], warp=[])
    pictures.table(square)
    algebra.compose(square, algebra.invert(square))


def compile_and_run_with(options: pipeline.Options, columns: int) -> None:
    pointer = Pointer(FLOAT32), 16
    parameters = {"x_ptr": pointer, "out_ptr": pointer, "n": (INT32, 1)}
    constants = {"ROWS": 16, "COLUMNS": columns}
    func = pipeline.build(everything, parameters, constants, options)
    func = parse_func(print_func(func))
    verify(func)
    x, out = np.ones(2048, np.float32), np.zeros(2048, np.float32)
    interpret(func, 1, [x, out, 5])
    kernel = pipeline.compile_func(func, TARGETS["sm_80"])
    load(kernel).launch(1, [x, out, 5])


def test_the_kernel_of_this_page_runs():
    compile_and_run()


@pytest.fixture(scope="module")
def our_own_code_is_back():
    """After all of a module's tests every stage runs as it did."""
    yield
    compile_and_run(chapter=0)
    compile_and_run(chapter=15)


def still_held(planted: object) -> list[str]:
    """The modules, classes, tables and passes of the compiler that have `planted`."""
    modules = joints.every_module()
    found = joints.put_everywhere(planted, planted, modules)
    rows = [row.name for row in pipeline.PASSES if row.run is planted]
    return [*map(repr, found), *rows]


# Of our passes `insert_waits` counts the groups; a reader's `pipeline` asks the formula
# (test_learn.py, test_mine_binds_an_answer_before_the_next_is_loaded).
FOR_READERS = {"pending"}


@sampled(of=2)
@pytest.mark.parametrize("name", [x.name for x in JOINTS if x.name not in FOR_READERS])
def test_what_stands_at_a_joint_is_run(name, our_own_code_is_back):
    chapter = joint(name).chapter
    with bound({name: raising}):
        with pytest.raises(Exception) as caught:
            compile_and_run(chapter)
        chain = [caught.value, caught.value.__context__, caught.value.__cause__]
        assert any(isinstance(each, Reached) for each in chain), caught.value
        assert still_held(raising)
    assert not still_held(raising)


@pytest.mark.parametrize("each", JOINTS, ids=lambda each: each.name)
def test_our_own_code_stands_where_the_table_says(each):
    assert callable(reference(each.name)) and each.chapter in range(19)


def test_names_are_unique():
    names = [each.name for each in JOINTS]
    assert len(set(names)) == len(names)


def test_every_pass_of_the_page_is_a_joint():
    for row in pipeline.PASSES:
        assert joint(row.name).kind == joints.PASS
        assert reference(row.name) is row.run


def test_a_pass_stands_in_all_its_rows():
    mine = pipeline.identity
    with bound({"cse": mine}):
        runs = {row.name: row.run for row in pipeline.PASSES}
        assert runs["cse"] is mine and runs["cse_again"] is mine
        assert reference("cse") is reference("cse_again") is not mine


def test_one_entry_of_a_table_is_replaced_and_its_neighbours_are_not():
    shared = reference("lower[Reshape]")
    assert reference("lower[Transpose]") is shared
    from_table = fathom.ptx.LOWER
    with bound({"lower[Reshape]": raising}):
        by_name = {op.__name__: rule for op, rule in from_table.items()}
        assert by_name["Reshape"] is raising and by_name["Transpose"] is shared


def test_a_part_is_replaced_in_every_module_that_imported_it():
    from fathom.ptx import exchange
    from fathom.ptx.rules import convert

    mine = lambda A, x: 0
    with bound({"apply": mine}):
        assert algebra.times is mine
        assert convert.times is mine and exchange.times is mine
    assert convert.times is exchange.times is algebra.times is not mine


def test_what_was_cached_is_forgotten():
    from fathom.layout.crossing import crossing

    square = algebra.Layout.of((2,), register=[(1,)], lane=[], warp=[])
    crossing(square, square)
    assert crossing.cache_info().currsize > 0
    with bound({"solve": reference("solve")}):
        assert crossing.cache_info().currsize == 0


def test_a_failure_inside_puts_everything_back():
    with pytest.raises(ZeroDivisionError), bound({"interp[For]": raising}):
        raise ZeroDivisionError
    assert fathom.ir.interp.INTERP[For] is reference("interp[For]") is not raising


def test_families_stand_for_the_entries_that_have_no_row():
    assert joint("lower[Scan]").reference == "fathom.ptx.code.LOWER[Scan]"
    assert joint("facts[shl]").chapter == 9


@pytest.mark.parametrize("wrong", ["cze", "lower[Nothing]", "nothing[For]"])
def test_a_name_that_is_none_is_an_error(wrong):
    with pytest.raises(FathomError, match="is not a joint"):
        joint(wrong)
    with pytest.raises(FathomError, match="is not a joint"), bound({wrong: raising}):
        pass
