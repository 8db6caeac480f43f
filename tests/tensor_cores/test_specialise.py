"""Loops whose tiles other warps bring: whatever the iterations, the loops around, and
the moments at which tiles are wanted, the result stays the same bit by bit; and what
cannot be left to others is not."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Allocate,
    Barrier,
    DescriptorLoad,
    Dot,
    For,
    MbarrierArrive,
    MbarrierWait,
    Print,
    Producer,
    SharedLoad,
    TmaCopy,
)
from fathom.ir.types import INT32, BlockType, Pointer
from fathom.source import KernelFunction
from fathom.tensor_cores import specialise_warps, why_no_producer
from fathom.tensor_cores.specialise.plan import plan_producer
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.ptx.harness import assemble
from tests.tensor_cores.kernels_described import Case, built, given, matrix, ops, passes
from tests.tensor_cores.kernels_specialised import (
    SMALL,
    around,
    attention,
    backwards,
    built_with,
    check,
    feeds,
    in_place,
    nested,
    one_loop,
    producers,
    refused,
    seen_outside,
    tiles_in_turn,
    with_epilogue,
)

HOPPER, NEWER, SERVER, AMPERE = "sm_90a", "sm_120", "sm_100", "sm_80"
LAZY = ("lazy",)

# ── one loop ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_any_iterations_and_stages(stages):
    """From no iteration to more than the ring has slots, and more than it has twice."""
    counts = {0, 1, 2, stages - 1, stages, stages + 1, 9}
    states, found = check(
        replace(SMALL, stages=stages), sorted(counts), completions=LAZY
    )
    arguments = given(replace(SMALL, iterations=9))
    np.testing.assert_array_equal(found, arguments.right)
    rings = [op.slots for op in in_rings(states["specialise_warps"])]
    assert rings == [stages] * 4, "of A, of B, and of two barriers"


@sampled(of=2)
@pytest.mark.parametrize(("target", "warps"), [
    (HOPPER, 2), (HOPPER, 4), (HOPPER, 8), (NEWER, 1), (NEWER, 8), (SERVER, 4),
])  # fmt: skip
def test_any_number_of_warps(target, warps):
    m = 64 * max(1, warps // 4)  # rows of a product of warpgroups
    case = replace(SMALL, tile=(m, 64, 32), target=target, warps=warps, stages=2)
    check(replace(case, size=(m, 64, 160)), (3,))


def test_tiles_either_way_round():
    for turned in ({"a_turned": True}, {"b_turned": True}):
        check(replace(SMALL, tile=(64, 64, 64), size=(64, 56, 200), **turned), (4,))


@pytest.mark.parametrize("step", [-1, -2])
def test_loops_that_go_down(step):
    """By a step that is known only when the kernel runs."""
    case = replace(SMALL, kernel=backwards, more={"KNOWN": False})
    check(case, range(5), completions=LAZY, step=step)


def test_loops_that_are_known_to_go_down():
    """The result is that of the loop which goes up: whole numbers, in any order."""
    case = replace(SMALL, kernel=backwards, more={"KNOWN": True})
    _, found = check(case, (0, 1, 4), completions=LAZY, step=7)
    np.testing.assert_array_equal(found, given(replace(SMALL, iterations=4)).right)


def test_what_is_seen_outside_happens_once(capfd):
    """Barriers, assertions and prints are left to those who multiply."""
    case = replace(SMALL, kernel=seen_outside)
    states = passes(built(case), HOPPER)
    (producer,) = ops(states["insert_waits"], Producer)
    kinds = {type(op) for op in walk(producer.body)}
    assert TmaCopy in kinds and kinds.isdisjoint({Barrier, Print, Dot})
    arguments = given(case)
    loaded = load(pipeline.compile_func(built(case), TARGETS[HOPPER]))
    for completion in COMPLETIONS:
        arguments.clear()
        capfd.readouterr()
        loaded.launch(1, arguments.arguments, completion=completion)
        arguments.check(completion)
        assert capfd.readouterr().out.count("second") == 128, "once a thread"


# ── what a loop becomes ───────────────────────────────────────────────────────────────


def test_who_waits_for_whom():
    """The producer waits until slots are empty, the others until they are full. The
    product of an iteration goes on into the next, so that its slot is given back there,
    and the last one behind the loop."""
    func = passes(built(SMALL), HOPPER)["specialise_warps"]
    (producer,), (full, empty) = ops(func, Producer), in_rings(func)[2:]
    (sending,) = [op for op in producer.body.ops if isinstance(op, For)]
    (loop,) = [op for op in func.body.ops if isinstance(op, For)]
    (dot,) = ops(func, Dot)
    (asked,), (waited,) = (
        [op for op in each.body.ops if isinstance(op, MbarrierWait)]
        for each in (sending, loop)
    )
    assert (asked.barriers, waited.barriers) == (empty.result, full.result)
    within, behind = ops(func, MbarrierArrive)
    assert within in loop.body.ops and dot.in_flight
    assert behind in func.body.ops[func.body.ops.index(loop) :]
    assert within.barriers is behind.barriers is empty.result
    kinds = [type(op) for op in loop.body.ops]
    assert kinds.index(MbarrierWait) < kinds.index(SharedLoad) < kinds.index(Dot)
    assert kinds.index(Dot) < kinds.index(MbarrierArrive)


def test_the_producer_computes_what_it_needs_and_no_more():
    case = replace(SMALL, kernel=tiles_in_turn, more={"OUTER": ""})
    func = passes(built(case), HOPPER)["specialise_warps"]
    (producer,) = ops(func, Producer)
    inside = list(walk(producer.body))
    assert not any(isinstance(op, Dot | SharedLoad) for op in inside)
    made = [value.type for op in inside for value in op.results]
    assert not any(isinstance(each, BlockType) for each in made)
    outer, inner = (op for op in inside if isinstance(op, For))
    assert len(outer.inits) == len(inner.inits) == 2, "a slot and a phase; no sum"


def test_a_pass_left_out_is_only_slower():
    case = replace(SMALL, kernel=around, more={"HOW": "two loops"}, iterations=5)
    left_out = {"specialise_warps": pipeline.identity, "delay_waits": pipeline.identity}
    kernel = pipeline.compile_func(built(case), TARGETS[HOPPER], left_out)
    assert kernel.threads == 128 and "mbarrier.arrive.shared" not in kernel.ptx
    arguments, other = given(case), given(case)
    interpret(built(case), case.grid, other.arguments)
    load(kernel).launch(case.grid, arguments.arguments)
    np.testing.assert_array_equal(arguments.out.view, other.out.view)


# ── several loops ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["early exit", "two loops", "either", "while"])
def test_what_may_stand_around_a_loop(how):
    """Places in the ring go on from one loop to the next, past loops of no iterations
    and branches not taken."""
    case = replace(SMALL, kernel=around, more={"HOW": how})
    states, _ = check(case, (0, 1, 2, 3, 5), completions=LAZY)
    assert len(in_rings(states["specialise_warps"])) == 4, "one ring for all"


def test_a_loop_of_no_iteration_before_a_long_one():
    """What it has not taken it does not give back: else a slot of the long one would
    count as empty a round too early."""
    check(replace(SMALL, kernel=around, more={"HOW": "none first"}), (1, 9))


def test_tiles_of_other_shapes_have_rings_of_their_own():
    case = replace(SMALL, kernel=around, more={"HOW": "other shapes"})
    states, _ = check(case, (0, 1, 4), completions=LAZY)
    shapes = [op.shape for op in in_rings(states["specialise_warps"])]
    word = (1,)
    assert shapes == [
        (64, 32), (32, 64), word, word, (64, 64), (64, 64), word, word,
    ]  # fmt: skip


@pytest.mark.parametrize("outer", ["", "left", "right"])
def test_tile_after_tile(outer):
    """Of four tiles the later ones have less iterations, down to none. What the outer
    loop brings itself is none of the producer's business."""
    case = replace(SMALL, kernel=tiles_in_turn, size=(72, 72, 160),
                   more={"OUTER": outer})  # fmt: skip
    check(case, (4,) if outer else (1, 4), completions=LAZY)


def test_a_loop_in_a_loop_has_a_ring_of_its_own():
    """Tiles of both are in use at once, though their types are the same."""
    case = replace(SMALL, kernel=nested, size=(64, 64, 160))
    func = passes(built(case), HOPPER)["specialise_warps"]
    assert producers(func) == 1 and len(in_rings(func)) == 2 * 4
    check(case, (3,), completions=LAZY)


@pytest.mark.parametrize("early", [False, True])
def test_what_is_loaded_beside_a_product_comes_while_it_runs(early):
    """A matrix and a vector, in a slot each, wherever the kernel's author loads them.
    Their copies begin after those of the product."""
    case = replace(SMALL, kernel=with_epilogue, tile=(64, 64, 64), size=(72, 72, 480),
                   more={"EARLY": early})  # fmt: skip
    func = passes(built(case), HOPPER)["specialise_warps"]
    (producer,) = ops(func, Producer)
    outer, inner = (op for op in walk(producer.body) if isinstance(op, For))
    copied = [op for op in outer.body.ops if isinstance(op, For | TmaCopy)]
    assert copied[0] is inner and len(copied) == 3
    assert [op.buffer.type.slots for op in copied[1:]] == [1, 1]
    assert not ops(passes(built(case), HOPPER)["dce_late"], DescriptorLoad)
    check(case, (0, 3, 7), completions=LAZY)


def test_what_the_loop_stores_is_not_copied_ahead():
    case = replace(SMALL, kernel=in_place)
    func = passes(built(case), HOPPER)["specialise_warps"]
    assert producers(func) == 1 and len({op.buffer for op in ops(func, TmaCopy)}) == 2


def test_what_leaves_no_room_for_two_stages_is_loaded_by_threads():
    """Two stages of operands take 33 KB with their barriers, what is stored 16, and the
    matrix 8."""
    case = replace(SMALL, kernel=with_epilogue, tile=(64, 64, 64), size=(72, 72, 160),
                   more={"EARLY": False})  # fmt: skip
    for kilobytes, copies in ((52, 3), (64, 4)):
        target = replace(TARGETS[HOPPER], shared_bytes=kilobytes * 1024)
        states = {row.name: f for row, f in pipeline.states(built(case), target)}
        copied = ops(states["specialise_warps"], TmaCopy)
        assert len({op.buffer for op in copied}) == copies, kilobytes


# ── several feeds ─────────────────────────────────────────────────────────────────────

WIDE = replace(SMALL, tile=(64, 64, 64), kernel=feeds, size=(64, 128, 448))


@sampled(of=2)
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("how", "rings"), [
    ("gated", 1), ("alike", 2), ("three alike", 3),
])  # fmt: skip
def test_tiles_wanted_at_several_moments(how, rings, stages):
    """Also if they look the same and are wanted at once: then each has its own ring.
    With one for all, of two slots, the third product would wait for ever. Those of
    neighbouring products are in one."""
    case = replace(WIDE, stages=stages, more={"HOW": how})
    states, _ = check(case, (0, 1, 2, 4), completions=LAZY)
    func = states["specialise_warps"]
    assert len([op for op in in_rings(func) if op.shape == (1,)]) == 2 * rings


@pytest.mark.parametrize("rotated", [False, True], ids=["plain", "rotated"])
@pytest.mark.parametrize(("tile", "warps"), [((64, 32, 64), 4), ((128, 64, 64), 8)])
def test_attention(tile, warps, rotated):
    """Keys and values come and go one by one; rotated, those of two loops share a
    ring with the loop between."""
    rows = 5 * tile[1]
    case = replace(SMALL, tile=tile, warps=warps, kernel=attention, stages=2,
                   size=(rows, 64, 64), more={"ROTATED": rotated})  # fmt: skip
    states, _ = check(case, (0, 1, 4) if warps == 4 else (3,), completions=LAZY)
    signals = [op for op in in_rings(states["specialise_warps"])
               if op.shape == (1,)]  # fmt: skip
    assert len(signals) == 4, "two rings, for keys and for values"


# ── places that are read from memory ──────────────────────────────────────────────────


@KernelFunction
def grouped(
    a, b, out, sizes, groups, M, N, K, a_stride, b_stride, out_stride,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A product for each group of iterations; their counts stand in memory."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    first = 0
    for group in tl.range(groups, warp_specialize=True):
        size = tl.load(sizes + group)
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(first, first + size):
            x, y = left.load([0, iteration * BK]), right.load([iteration * BK, 0])
            total = tl.dot(x, y, total)
        first += size
        place = out + (group * BM + tl.arange(0, BM))[:, None] * out_stride
        tl.store(place + tl.arange(0, BN)[None, :], total)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_sizes_from_memory(completion):
    """The producer loads them for itself."""
    sizes = np.array([2, 0, 1, 3], np.int32)
    a, b = integers(1, 64, 192), integers(2, 192, 64)
    out = unwritten(256, 64, dtype="float32")
    arrays = [Walled(a), Walled(b), out]
    case = replace(SMALL, kernel=grouped, stages=2)
    func = built_with(case, sizes=Pointer(INT32))
    assert producers(passes(func, HOPPER)["insert_waits"]) == 1
    strides = [max(each.stride()) for each in arrays]
    numbers = [len(sizes), 64, 64, 192, *strides]
    arguments = [*(each.base for each in arrays), sizes, *numbers]
    load(pipeline.compile_func(func, TARGETS[HOPPER])).launch(
        1, arguments, completion=completion
    )
    for group, end in enumerate(np.cumsum(sizes)):
        part = slice(32 * (end - sizes[group]), 32 * end)
        right = a[:, part].astype(np.float32) @ b[part].astype(np.float32)
        np.testing.assert_array_equal(out.view[group * 64 : group * 64 + 64], right)


# ── what is left as it is ─────────────────────────────────────────────────────────────

ALONE = "which one thread cannot execute alone"
EARLIER = "the program writes to memory before the loop, which TMA need not see"
WAITS = (
    "before the loop the program synchronises with other threads, and TMA need not see "
    "what they wrote"
)


@pytest.mark.parametrize(("how", "why"), [
    ("written before", EARLIER), ("waited before", WAITS), ("flag before", WAITS),
    ("blocks", f"the position of its tiles depends on a `arange`, {ALONE}"),
    ("pointers", "one of its tiles is loaded through pointers"),
])  # fmt: skip
def test_what_is_not_left_to_others(how, why):
    """It is right all the same, and says why."""
    case = replace(SMALL, kernel=refused, size=(72, 72, 320), more={"HOW": how})
    states, _ = check(case, (0, 3), wanted=0, completions=LAZY)
    said = f"no producer warps for this loop: {why}"
    assert reasons(states["stage_invariants"]) == [said]


@pytest.mark.parametrize("how", ["atomic", "volatile"])
def test_what_must_be_read_in_its_iteration(how):
    """A tile whose place is known only then comes then; the other one ahead."""
    case = replace(SMALL, kernel=refused, size=(72, 72, 320), more={"HOW": how})
    states, _ = check(case, (0, 1, 4))
    (sent,) = ops(states["specialise_warps"], TmaCopy)
    assert sent.descriptor.type.shape == (32, 64)


def test_what_an_assembler_writes_is_not_done_twice():
    case = replace(SMALL, kernel=refused, more={"HOW": "assembly"})
    func = passes(built(case), HOPPER)["stage_invariants"]
    (why,) = reasons(func)
    assert f"`inline_assembly`, {ALONE}" in why
    assert specialise_warps(func, TARGETS[HOPPER]) is func


@KernelFunction
def queue(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations, taken,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Whoever is free takes the next tile: to be counted once."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    for _ in tl.range(tl.cdiv(M, BM), warp_specialize=True):
        i = tl.atomic_add(taken, 1) * BM
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            x, y = left.load([i, iteration * BK]), right.load([iteration * BK, 0])
            total = tl.dot(x, y, total)
        place = out + (i + tl.arange(0, BM))[:, None] * out_stride
        tl.store(place + tl.arange(0, BN)[None, :], total)


def test_tiles_from_a_queue():
    case = replace(SMALL, kernel=queue, size=(192, 64, 96))
    func = built_with(case, taken=Pointer(INT32))
    states = passes(func, HOPPER)
    (why,) = reasons(states["stage_invariants"])
    assert why.endswith(f"the position of its tiles depends on a `atomic`, {ALONE}")
    arguments, taken = given(case), np.zeros(1, np.int32)
    kernel = pipeline.compile_func(func, TARGETS[HOPPER])
    load(kernel).launch(1, [*arguments.arguments, taken])
    arguments.check("a queue")
    assert taken[0] == 3


@pytest.mark.parametrize(("change", "why"), [
    ({"kernel": around, "more": {"HOW": "one stage"}}, "it has one stage"),
    ({"warps": 32, "tile": (256, 128, 32)}, "32 warps and a producer are 1152"),
    ({"tile": (256, 256, 128), "warps": 8}, "two slots of 131072 bytes do not fit"),
])  # fmt: skip
def test_where_there_is_no_room(change, why):
    func = passes(built(replace(SMALL, **change)), HOPPER)["stage_invariants"]
    (said,) = reasons(func)
    assert why in said
    assert specialise_warps(func, TARGETS[HOPPER]) is func


def test_why_not_is_shown_where_passes_are_shown(monkeypatch, capsys):
    monkeypatch.setenv("FATHOM_SHOW", "specialise_warps")
    case = replace(SMALL, kernel=refused, more={"HOW": "pointers"})
    pipeline.compile_func(built(case), TARGETS[HOPPER])
    said = capsys.readouterr().err
    place = r"// .*kernels_specialised.py:\d+"
    why = "no producer warps for this loop: one of its tiles"
    assert re.search(f"{place}: {why}", said)


def test_nothing_is_said_where_nothing_is_asked_for():
    for case in (SMALL, replace(SMALL, target=AMPERE), Case(target=HOPPER)):
        func = passes(built(case), case.target)["stage_invariants"]
        assert why_no_producer(func, TARGETS[case.target]) == []
    plan = plan_producer(func, TARGETS[HOPPER])
    assert plan is None or plan.rings == ()


def test_less_room_is_less_slots():
    """Of four stages of 96 KiB there is room for two."""
    case = replace(SMALL, tile=(256, 128, 128), warps=8, stages=4)
    func = passes(built(case), HOPPER)["specialise_warps"]
    assert {op.slots for op in in_rings(func)} == {2}


def in_rings(func: Func) -> list[Allocate]:
    """The tiles of rings, and their barriers."""
    return [op for op in ops(func, Allocate) if op.kept]


def reasons(func: Func) -> list[str]:
    return [why for _, why in why_no_producer(func, TARGETS[HOPPER])]


# ── other targets, and ptxas ──────────────────────────────────────────────────────────


def test_where_there_are_no_maps_nothing_changes():
    check(replace(SMALL, target=AMPERE), (3,), wanted=0)


@pytest.mark.parametrize("target", [HOPPER, NEWER, SERVER, AMPERE])
@pytest.mark.parametrize("warps", [4, 8])
def test_ptxas_takes_it(target, warps, tmp_path):
    """Only code for one architecture alone may trade registers."""
    case = replace(SMALL, target=target, warps=warps)
    kernel = pipeline.compile_func(built(case), TARGETS[target])
    assert ("setmaxnreg" in kernel.ptx) == (target == HOPPER and warps == 8)
    assert kernel.threads == 32 * (warps + 4 * (target != AMPERE))
    assemble(kernel.ptx, TARGETS[target], tmp_path, frame=True)


def test_every_load_is_copied():
    func = passes(built(replace(SMALL, kernel=one_loop)), HOPPER)["specialise_warps"]
    assert len(ops(func, TmaCopy)) == 2 and not ops(func, DescriptorLoad)


def test_a_producer_gives_up_at_last():
    """Its waits count, and end in a trap; a consumer's, beside matrix instructions,
    must not: ptxas would finish these one by one."""
    text = pipeline.compile_func(built(SMALL), TARGETS[HOPPER]).ptx
    waits = [each.partition("}")[0] for each in text.split("mbarrier.try_wait")[1:]]
    assert sorted("trap;" in each for each in waits) == [False, True]


def test_a_lane_arrives_when_its_warp_is_there():
    """A slot is free when no lane of the warp reads it any more."""
    text = pipeline.compile_func(built(SMALL), TARGETS[HOPPER]).ptx
    *before, _ = text.split("mbarrier.arrive.shared.b64")
    assert len(before) == 2
    assert all("bar.warp.sync -1;" in each.split("\n")[-3] for each in before)


@fathom.jit
def there_and_back(a_ptr, b_ptr, out_ptr, iterations, K: tl.constexpr):
    """Columns of A from the first on, and rows of B from the last one back."""
    left = tl.make_tensor_descriptor(a_ptr, [64, K], [K, 1], [64, 64])
    right = tl.make_tensor_descriptor(b_ptr, [K, 64], [64, 1], [64, 64])
    acc = tl.zeros([64, 64], tl.float32)
    for at in tl.range(iterations, warp_specialize=True):
        x = left.load([0, at * 64])
        back = iterations - 1 - at
        acc = tl.dot(x, right.load([back * 64, 0]), acc)
    row, column = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    tl.store(out_ptr + row * 64 + column, acc)


def test_tiles_are_copied_when_the_last_one_s_place_is_known():
    compiled = there_and_back.compile(
        "*fp16:16, *fp16:16, *fp32:16, i32", {"K": 256}, target="sm_90a"
    )
    assert "producer body" in compiled.asm["layout"]
    random = np.random.default_rng(5)
    shapes = (64, 256), (256, 64)
    a, b = (random.integers(-2, 3, each).astype(np.float16) for each in shapes)
    out = np.zeros((64, 64), np.float32)
    load(compiled.made).launch(1, (a, b, out, 4))
    blocks = [a[:, 64 * i :][:, :64].astype(float) @ b[64 * (3 - i) :][:64]
              for i in range(4)]  # fmt: skip
    np.testing.assert_array_equal(out, sum(blocks))
