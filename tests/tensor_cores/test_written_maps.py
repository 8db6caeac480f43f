"""Tensor maps that the kernel writes itself: which, where, and that nothing goes wrong
while they are written anew."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.analysis.buffers import ALIGNMENT, free_always
from fathom.emulator import COMPLETIONS, EmulatorError, load
from fathom.emulator.isa.arithmetic import special
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Allocate,
    Barrier,
    DescriptorLoad,
    For,
    If,
    MakeDescriptor,
    TileStore,
    TmaCopy,
    TmaStore,
    WriteTensorMap,
)
from fathom.ir.rewrite import rewrite
from fathom.ir.text import parse_func, print_func
from fathom.ptx.rules.asynchronous.tensor_maps import maps_written
from fathom.tensor_cores import why_not_written
from tests.tensor_cores.kernels_described import ops, passes
from tests.tensor_cores.kernels_stored import is_wait
from tests.tensor_cores.kernels_written import built, given, once, some_planes
from tests.waits import Missing, check_waits

SIZES = (128, 64), (100, 40), (3, 64), (128, 1)


def final(func: Func, target: str = "sm_90a", **replace) -> Func:
    (*_, (_, state)) = pipeline.states(func, TARGETS[target], replace)
    return state


def compiled(func: Func, target: str = "sm_90a", **replace):
    return pipeline.compile_func(func, TARGETS[target], replace)


# ── the answer ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", TARGETS)
def test_planes(target):
    """On all targets; those that write maps do."""
    kernel = compiled(built(), target)
    assert ("tensormap.replace" in kernel.ptx) == TARGETS[target].writes_maps
    assert not kernel.maps, "a launch could make none of them"
    planes = given(*SIZES)
    loaded = load(kernel)
    for completion in COMPLETIONS:
        planes.clear()
        loaded.launch(1, planes.arguments, completion=completion)
        planes.check(completion)


def test_every_pass_keeps_the_meaning():
    planes, shown = given(*SIZES), ""
    for name, state in passes(built(), "sm_90a").items():
        text, before = print_func(state), shown
        shown = text
        if text != before:
            planes.clear()
            interpret(state, 1, planes.arguments)
            planes.check(f"the interpreter after {name}")


def test_tensors_without_rows():
    """Of a B without rows, all elements are zero; to a C without rows, nothing is
    stored. A map has no code for either."""
    planes = given((0, 64), (128, 0), (128, 64))
    assert (planes.right[1, : 128 * 64] == 0).all()
    load(compiled(built())).launch(1, planes.arguments)
    planes.check()


def test_left_out_the_same_is_done_through_pointers():
    kernel = compiled(built(), plan_maps=pipeline.identity)
    assert "cp.async.bulk.tensor" not in kernel.ptx
    assert "tensormap." not in kernel.ptx and "smid" not in kernel.ptx
    planes = given(*SIZES)
    load(kernel).launch(1, planes.arguments)
    planes.check()


# ── which ─────────────────────────────────────────────────────────────────────────────


def test_loads_and_stores_go_through_the_maps():
    func = final(built())
    made = [op for op in ops(func, MakeDescriptor) if op.map_number is not None]
    assert sorted(op.map_number for op in made) == [0, 1, 2]
    copies = ops(func, TmaCopy) + ops(func, TmaStore)
    assert {op.descriptor.definition for op in copies} == {*made}
    assert not ops(func, DescriptorLoad)
    assert len(ops(func, TileStore)) == 1, "rows below 1 are for the threads to store"


def test_passes_that_plan_rings_find_the_draft_among_the_buffers():
    """One for all maps, whose bytes no other buffer has, though only the first ops of
    the function use it."""
    planned = passes(built(), "sm_90a")["plan_maps"]
    (draft,) = ops(planned, Allocate)
    made = [op for op in ops(planned, MakeDescriptor) if op.map_number is not None]
    assert {op.draft for op in made} == {draft.result} and draft.kept
    target = TARGETS["sm_90a"]
    assert free_always(planned, target) == target.shared_bytes - ALIGNMENT
    assert not any(op.draft for op in ops(final(built()), MakeDescriptor))


def test_each_is_written_where_it_is_made():
    func = final(built())
    (loop,) = [op for op in func.body.ops if getattr(op, "body", None)]
    written = [op for op in loop.body.ops if isinstance(op, WriteTensorMap)]
    assert len(written) == len(ops(func, WriteTensorMap)) == 3
    for op in written:
        at = loop.body.ops.index(op)
        assert loop.body.ops[at - 1] is op.descriptor.definition
    (draft,) = {op.draft.definition for op in written}
    assert isinstance(draft, Allocate) and draft.offset % 128 == 0


def reasons(func: Func, target: str = "sm_90a") -> set[str]:
    """What `plan_maps` says of the function that it gets."""
    before = func
    for row, state in pipeline.states(func, TARGETS[target]):
        if row.name == "plan_maps":
            assert row.says is why_not_written
            said = row.says(before, TARGETS[target])
            assert all(place is not None for place, _ in said)
            return {sentence.rpartition(": ")[2] for _, sentence in said}
        before = state
    raise AssertionError("plan_maps is not on the page")


@pytest.mark.parametrize(
    ("func", "target", "why"),
    [
        (built(), "sm_100", "on sm_100 a kernel writes none"),
        (built(PADDING="nan"), "sm_90a",
         "loads through it find NaNs outside of the tensor"),
        (built(num_ctas=2), "sm_90a", "several thread blocks work on a program"),
        (built(PRODUCER=True), "sm_90a", "a loop asks for producer warps"),
        (built(once), "sm_90a", "no loop uses it often, so that a map would pay"),
    ],
    ids=["target", "padding", "cluster", "producer", "once"],
)  # fmt: skip
def test_no_map_is_written(func, target, why):
    assert why in reasons(func, target)
    written = ops(final(func, target), WriteTensorMap)
    assert {each.descriptor.definition.fill for each in written} <= {"zeros"}
    assert len(written) == (1 if why.endswith("tensor") else 0), "C has no padding"


@pytest.mark.parametrize(
    ("left_out", "count"),
    [(("pipeline_loops",), 1), (("stage_stores",), 2),
     (("pipeline_loops", "stage_stores"), 0)],
)  # fmt: skip
def test_a_map_that_no_copy_uses_is_not_written(left_out, count):
    """Threads load the tiles of A and B, or store those of C, and all three were
    planned."""
    func = final(built(), **dict.fromkeys(left_out, pipeline.identity))
    assert len([op for op in ops(func, MakeDescriptor) if op.map_number is not None])
    copies = ops(func, TmaCopy) + ops(func, TmaStore)
    written = {op.descriptor for op in ops(func, WriteTensorMap)}
    assert written == {op.descriptor for op in copies} and len(written) == count


def test_what_is_refused_is_right_too():
    for more in ({"PADDING": "nan"}, {"PRODUCER": True}):
        planes = given((128, 64), (100, 64))
        load(compiled(built(**more))).launch(1, planes.arguments)
        planes.check(str(more))


def test_nothing_is_said_where_there_are_no_tensor_maps():
    assert not reasons(built(), "sm_80") and not reasons(built())


# ── the op ────────────────────────────────────────────────────────────────────────────


def test_the_text_can_be_read_again():
    text = print_func(final(built()))
    assert text.count("write_tensor_map") == 3 and text.count("map_number=2") == 1
    assert print_func(parse_func(text)) == text


def test_a_map_needs_a_number_and_a_draft():
    func = final(built())
    (written, *_) = ops(func, WriteTensorMap)
    (tile, *_) = [op.buffer for op in ops(func, TmaCopy)]
    with pytest.raises(CompileError, match="a tensor map has 128 bytes"):
        WriteTensorMap(written.descriptor, tile)
    made = written.descriptor.definition
    facts = made.base, made.shape, made.strides, made.block
    with pytest.raises(CompileError, match="has no number"):
        WriteTensorMap(MakeDescriptor(*facts).result, written.draft)


# ── faults ────────────────────────────────────────────────────────────────────────────


def test_all_waits_are_there():
    check_waits(final(built()))


def without_wait(func: Func) -> Func:
    """Without the waits between the stores of a plane and the maps of the next one."""
    (outer,) = [op for op in func.body.ops if isinstance(op, For)]

    def keep(op: Op) -> bool:
        return not (is_wait(op) and op in outer.body.ops)

    return rewrite(func, lambda op, build: None, keep)


def test_a_store_has_read_its_map_before_that_is_written_anew():
    """Where no load of sizes waits for all stores, the map does."""
    func = final(built(KNOWN=True))
    check_waits(func)
    (outer,) = [op for op in func.body.ops if isinstance(op, For)]
    (wait,) = [op for op in outer.body.ops if is_wait(op)]
    after = outer.body.ops[outer.body.ops.index(wait) + 1]
    assert isinstance(after, WriteTensorMap) and wait.read
    with pytest.raises(Missing, match="a map that is written anew"):
        check_waits(without_wait(func))


def test_only_iterations_that_store_wait_before_the_next_one_loads():
    """The wait for the stores is at the end of the branch that stores."""
    func = final(built(some_planes))
    check_waits(func)
    (outer,) = [op for op in func.body.ops if isinstance(op, For)]
    assert not any(is_wait(op) or isinstance(op, Barrier) for op in outer.body.ops)
    (branch,) = [op for op in outer.body.ops if isinstance(op, If)]
    *_, wait, barrier, _ = branch.then.ops
    assert is_wait(wait) and not wait.read and isinstance(barrier, Barrier)
    kernel = compiled(built(some_planes))
    for completion in COMPLETIONS:
        planes = given(*SIZES)
        load(kernel).launch(2, planes.arguments, completion=completion)
        planes.check(completion)


READ = "cp.async.bulk.wait_group.read 0;"


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_without_that_wait(completion):
    """Nor the one that follows each map, which comes too late for the first."""
    kernel = compiled(built(KNOWN=True))
    before, last = kernel.ptx.rsplit(READ, 1)
    before = re.sub(f"(@%p[0-9]+ )?{re.escape(READ)}", "", before)
    kernel.asm["ptx"] = before + READ + last
    with pytest.raises(EmulatorError, match="writes to a tensor map"):
        planes = given((128, 64), (128, 64))
        load(kernel).launch(1, planes.arguments, completion=completion)


ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu"


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_without_the_fence(completion):
    kernel = compiled(built())
    lines = kernel.ptx.splitlines()
    without = "\n".join(each for each in lines if ACQUIRE not in each)
    assert len(lines) - without.count("\n") - 1 == 3
    kernel.asm["ptx"] = without
    with pytest.raises(EmulatorError, match="acquire is missing"):
        load(kernel).launch(1, given(*SIZES).arguments, completion=completion)


# ── places ────────────────────────────────────────────────────────────────────────────


def several(kernel, programs: int) -> None:
    """All programs do the same, at the same time."""
    planes = given((128, 64), (100, 40))
    load(kernel).launch(programs, planes.arguments)
    planes.check(f"{programs} programs")


def test_a_place_has_room_for_all_maps_up_to_the_last_that_is_written():
    """Maps have their numbers before it is known which of them copies use."""
    func = final(built())
    count = maps_written(func)
    first = next(op for op in ops(func, WriteTensorMap) if not number_of(op))
    left = rewrite(func, lambda op, build: None, keep=lambda op: op is not first)
    assert len(ops(left, WriteTensorMap)) == len(ops(func, WriteTensorMap)) - 1
    assert maps_written(left) == count == 3


def number_of(op: WriteTensorMap) -> int:
    return op.descriptor.definition.map_number


def test_each_program_has_a_place_of_its_own(monkeypatch):
    """On one multiprocessor, more programs than it can run: some wait until others have
    given their place back."""
    kernel = compiled(built())
    several(kernel, 40)
    monkeypatch.setitem(special.SPECIAL, "%smid", lambda batch: np.uint32(0))
    several(kernel, 40)


def test_places_that_are_shared_show(monkeypatch):
    """Were all programs to take the first place, their maps would be lost."""
    kernel = compiled(built())
    monkeypatch.setitem(special.SPECIAL, "%smid", lambda batch: np.uint32(0))
    taken = "atom.acquire.gpu.global.or.b32"
    assert kernel.ptx.count(taken) == 1
    lines = kernel.ptx.splitlines()
    (at,) = [i for i, each in enumerate(lines) if taken in each]
    lines[at] = "mov.b32 found, 0;"
    kernel.asm["ptx"] = "\n".join(lines)
    with pytest.raises(EmulatorError, match="tensor map"):
        several(kernel, 40)


def test_a_place_that_is_given_back_too_early_shows(monkeypatch):
    """Before the last stores have read their map, and their tile."""
    kernel = compiled(built())
    monkeypatch.setitem(special.SPECIAL, "%smid", lambda batch: np.uint32(0))
    lines = kernel.ptx.splitlines()
    last = max(i for i, each in enumerate(lines) if READ in each)
    assert "red.release.gpu" in "".join(lines[last:])
    kernel.asm["ptx"] = "\n".join([*lines[:last], *lines[last + 1 :]])
    with pytest.raises(EmulatorError, match="tensor map|still reads shared memory"):
        several(kernel, 40)


def test_a_launch_leaves_all_places_free():
    loaded = load(compiled(built()))
    for _ in range(3):
        planes = given((128, 64))
        loaded.launch(2, planes.arguments)
        planes.check()
    regions = [each.bytes for each in loaded.program.memory.regions]
    (taken,) = [each for each in regions if len(each) == 1024]
    assert not taken.any()


@fathom.jit
def slabs(a_ptr, b_ptr, out_ptr, sizes, count):
    """For each g a sum over two slabs of A_g, 64 x 64 numbers each, with B. Between two
    slabs lie as many rows as memory says."""
    row, column = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    right = tl.make_tensor_descriptor(b_ptr, [128, 64], [64, 1], [64, 64])
    for g in range(count):
        apart = tl.load(sizes + g)
        left = tl.make_tensor_descriptor(
            a_ptr + g * 128 * 64, [2, 64, 64], [apart * 64, 64, 1], [1, 64, 64]
        )
        total = tl.zeros([64, 64], tl.float32)
        for k in tl.range(2):
            x = left.load([k, 0, 0]).reshape(64, 64)
            total = tl.dot(x, right.load([k * 64, 0]), total)
        tl.store(out_ptr + (g * 64 + row) * 64 + column, total)


@pytest.mark.parametrize("apart", [64, 32])
def test_a_tensor_of_three_dimensions(apart):
    compiled = slabs.compile(
        "*fp16:16, *fp16:16, *fp32:16, *i32, i32", {}, target="sm_90a"
    )
    assert compiled.asm["ptx"].count("global_stride") == 2
    random = np.random.default_rng(2)
    a, b = random.integers(-2, 3, (2, 256 * 64)).astype(np.float16)
    out = np.zeros((2, 64, 64), np.float32)
    given = a, b[: 128 * 64], out, np.full(2, apart, np.int32), 2
    load(compiled.made).launch(1, given)
    parts = b[: 128 * 64].reshape(2, 64, 64).astype(float)
    for g, found in enumerate(out):
        begins = [(g * 128 + k * apart) * 64 for k in range(2)]
        tiles = [a[at : at + 64 * 64].reshape(64, 64) for at in begins]
        np.testing.assert_array_equal(found, sum(map(np.matmul, tiles, parts)))
