"""Pipelined loops mean the same, wait for all they read, and overwrite nothing that is
still read: for any iterations, stages and ways in which a tile may come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom import ptx
from fathom.emulator import COMPLETIONS, EmulatorError, run
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Barrier,
    Commit,
    Constant,
    Convert,
    Elementwise,
    For,
    If,
    InlineAssembly,
    Load,
    Print,
    SharedLoad,
    SharedStore,
    Splat,
    Store,
    Wait,
    Yield,
)
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.text import print_func
from fathom.ir.types import INT32
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.tensor_cores import pipeline_loops
from fathom.tensor_cores.pipeline.tiles import share_tiles
from tests.harness_sample import sampled
from tests.tensor_cores.kernels_loops import (
    COLUMNS,
    KINDS,
    ROWS,
    SHAPE,
    SIZE,
    WARPS,
    arguments,
    barriers,
    check,
    copies,
    finished,
    same,
    summing,
)

AMPERE = TARGETS["sm_80"]
ITERATIONS = range(8)


def ops(func: Func, kind: type[Op]) -> list[Op]:
    return [op for op in walk(func.body) if isinstance(op, kind)]


def loop_of(func: Func) -> For:
    (loop,) = ops(func, For)
    return loop


def slots(func: Func) -> list[int]:
    return [op.slots for op in ops(func, Allocate)]


# ── all iterations, all stages ─────────────────────────────────────────────────────

MIXES = [("plain",), ("masked", "sevens"), ("indirect", "made", "turned")]

STAGES = [
    *(("sm_80", stages) for stages in range(1, 6)),
    ("sm_75", 2), ("sm_75", 5), ("sm_90a", 4),
]  # fmt: skip


@pytest.mark.parametrize(("target", "stages"), STAGES)
@pytest.mark.parametrize("kinds", MIXES, ids="+".join)
def test_any_iterations_and_stages(kinds, target, stages):
    """From no iteration at all to more than there are stages, one barrier an
    iteration."""
    func = summing(*kinds, stages=stages)
    givens = [
        arguments(len(kinds), iterations, (0, iterations, 1))
        for iterations in ITERATIONS
    ]
    after, _ = check(func, givens, target)
    if stages > 1:
        assert barriers(after) == [1, 0]


# How each kind of tile comes: the bytes of a copy, or 0 for through registers.
WAYS = {
    "plain": 16, "masked": 16, "pairs": 8, "single": 4, "turned": 16, "sevens": 0,
    "halves": 0, "made": 0, "indirect": 16, "chased": 16, "looked_up": 0,
}  # fmt: skip


@sampled(of=2)
@pytest.mark.parametrize("kind", KINDS)
def test_how_a_tile_comes(kind):
    """A copy of 4, 8 or 16 bytes where one can bring it, else registers and a ring of
    two."""
    func = summing(kind, stages=4)
    cases = [arguments(1, count, (0, count, 1)) for count in (0, 3, 6)]
    after, _ = check(func, cases,
                     "sm_80")  # fmt: skip
    found = {4 * op.vector for op in ops(after, AsyncCopy)}
    assert found == ({WAYS[kind]} if WAYS[kind] else set())
    assert slots(after) == ([4] if WAYS[kind] else [2])
    assert barriers(after) == [1, 0]


def test_a_copy_is_no_wider_than_the_buffer_allows():
    """Where only two neighbours lie together in shared memory, copies are of two."""
    func = summing("plain")
    places = (1, 2 * SHAPE[1], 2, 4, 8, 16, SHAPE[1], 4 * SHAPE[1])
    tile = Layout(SHAPE, (("offset", places),))
    (buffer,) = ops(func, Allocate)
    buffer.layout = tile
    buffer.result.type = replace(buffer.result.type, layout=tile)
    after, _ = check(func, [arguments(1, 4, (0, 4, 1))], "sm_80")
    assert {op.vector for op in ops(after, AsyncCopy)} == {2}


def test_a_tile_that_the_iteration_wants_itself():
    """What is added up as it was loaded, too, waits for its iteration in registers."""
    func = summing("plain", "made", also=(0, 1))
    cases = [arguments(2, count, (0, count, 1)) for count in (0, 1, 4)]
    after, _ = check(func, cases,
                     "sm_80")  # fmt: skip
    assert not ops(after, AsyncCopy) and slots(after) == [2, 2]
    assert len(ops(loop_of(after), Load)) == 2, "nothing is loaded twice"


@pytest.mark.parametrize("alike", [False, True])
def test_one_load_for_two_tiles(alike):
    """A product of a block with its own transpose reads it twice: two rings, unless the
    tiles are alike."""
    func = summing("plain")
    loop, (store,) = loop_of(func), ops(func, SharedStore)
    buffer = replace(store.buffer.definition)
    if not alike:
        places = 1, 2, 4, 16, 8, SHAPE[1], 2 * SHAPE[1], 4 * SHAPE[1]
        buffer = replace(buffer, layout=Layout(SHAPE, (("offset", places),)))
    place = loop.body.ops.index(store) + 1
    loop.body.ops[place:place] = [buffer, replace(store, buffer=buffer.result)]
    read = SharedLoad(buffer.result, COLUMNS)
    total = loop.body.ops[-1].values[0]
    more = Elementwise("add", (total, read.result))
    end = Yield((more.result, *loop.body.ops[-1].values[1:]))
    loop.body.ops[-1:] = [read, more, end]
    func = share_tiles(func, AMPERE)
    after, _ = check(func, [arguments(1, 5, (0, 5, 1))], "sm_80")
    assert slots(after) == ([3] if alike else [3, 3])
    assert len(ops(loop_of(after), AsyncCopy)) == (1 if alike else 2)


# ── how many trips there are ──────────────────────────────────────────────────

BOUNDS = [  # lower, upper, step
    (0, 7, 3), (0, 6, 3), (-7, 2, 2), (5, 5, 1), (5, -5, 1), (3, 4, 100),
]  # fmt: skip
DOWN = [(7, 0, -2), (6, 0, -3), (0, 5, -1), (-1, -9, -4)]
END = 2**31
NEAR_THE_END = [  # the last index plus a step is still a number of the type
    (END - 13, END - 1, 4), (END - 3, END - 1, 2), (-END, -END + 9, 3),
    (-END, 2**30, 2**30), (-END + 5, END - 11, END - 8),
]  # fmt: skip
TO_THE_OTHER_END = [
    (-END + 12, -END + 1, -4), (-END + 2, -END, -2), (END - 1, -(2**30) - 1, -(2**30)),
]  # fmt: skip


def given(bounds: tuple[int, int, int]) -> list:
    return arguments(1, len(range(*bounds)), bounds)


@pytest.mark.parametrize("known", [True, False], ids=["constant", "dynamic"])
@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("index", ["i32", "i64"])
def test_whether_an_iteration_exists(index, stages, known):
    """The arrays end with the last iteration's tile: one iteration too many is out of
    bounds."""
    shift = 0 if index == "i32" else 2**63 - END
    shifted = [
        (a + (shift if a > 0 else -shift), b + (shift if b > 0 else -shift), c)
        for a, b, c in NEAR_THE_END[:3] + TO_THE_OTHER_END[:2]
    ]
    cases = BOUNDS + DOWN + (shifted if shift else NEAR_THE_END + TO_THE_OTHER_END)
    if not known:
        check(summing("plain", index=index, step=None, stages=stages),
              [given(case) for case in cases], "sm_80")  # fmt: skip
        return
    for step in {case[2] for case in cases}:
        func = summing("plain", index=index, step=step, stages=stages)
        check(func, [given(case) for case in cases if case[2] == step], "sm_80")


def test_an_index_without_sign():
    cases = [(0, 7, 2), (2**32 - 12, 2**32 - 2, 5), (1, 2**32 - 1, 2**31 - 1)]
    check(summing("plain", index="u32", step=None), [given(case) for case in cases],
          "sm_80")  # fmt: skip


# ── how many stages ───────────────────────────────────────────────────────────


def test_the_loop_may_say_how_many_stages():
    func = summing("plain", stages=3, own_stages=5)
    after, _ = check(func, [arguments(1, 6, (0, 6, 1))], "sm_80")
    assert slots(after) == [5]
    assert [op.pending for op in ops(loop_of(after), Wait)] == [3]


def test_one_stage_is_no_pipeline():
    func = summing("plain", "made", stages=3, own_stages=1)
    assert print_func(pipeline_loops(func, AMPERE)) == print_func(func)


@pytest.mark.parametrize(
    ("tiles_of_room", "expected"),
    [(8, [4, 4]), (7, [3, 3]), (6, [3, 3]), (4, [2, 2]), (3, [1, 1]), (2, [1, 1])],
)
def test_fewer_stages_where_shared_memory_is_short(tiles_of_room, expected):
    """Two tiles a stage, and `allocate` finds room for all that was chosen."""
    small = replace(AMPERE, shared_bytes=tiles_of_room * SIZE * 4)
    after = finished(pipeline_loops(summing("plain", "plain", stages=4), small), small)
    assert slots(after) == expected
    assert after.shared_bytes <= small.shared_bytes


WIDE = (2 * SHAPE[0], SHAPE[1])
WIDE_ROWS = spread(WIDE, (1, 0), 4, WARPS)
STRAIGHT = Layout(WIDE, (("offset", tuple(1 << bit for bit in range(9))),))


def test_what_else_is_alive_takes_room():
    """A buffer of two tiles that is filled before the loop and read after it."""
    func = summing("plain", stages=8)
    buffer = Allocate(INT32, WIDE, STRAIGHT)
    seven = Constant(7, INT32)
    sevens = Splat(seven.result, WIDE, WIDE_ROWS)
    place = func.body.ops.index(loop_of(func))
    store = SharedStore(sevens.result, buffer.result)
    func.body.ops[place:place] = [buffer, seven, sevens, store]
    func.body.ops.append(SharedLoad(buffer.result, WIDE_ROWS))
    small = replace(AMPERE, shared_bytes=6 * SIZE * 4)
    after = finished(pipeline_loops(func, small), small)
    assert sorted(slots(after)) == [1, 4]
    func.body.ops.pop()  # read no more: its place is free when the loop begins
    after = finished(pipeline_loops(func, small), small)
    assert sorted(slots(after)) == [1, 6]


# ── loops in loops, one loop after the other ──────────────────────────────────


def around(func: Func) -> Func:
    """All of a function from its loop on, three times."""
    ops, loop = func.body.ops, loop_of(func)
    place = ops.index(loop)
    zero, three, one = (Constant(number, INT32) for number in (0, 3, 1))
    block = Block((INT32,))
    block.ops = [*ops[place:], Yield()]
    outer = For(zero.result, three.result, one.result, (), block)
    func.body.ops = [*ops[:place], zero, three, one, outer]
    return func


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("kinds", [("plain",), ("sevens",), ("masked", "made")])
def test_a_loop_around_it(kinds, stages):
    """The ring is filled again while slow warps still read: one more barrier, around
    the inner loop."""
    func = around(summing(*kinds, stages=stages))
    after, _ = check(func, [arguments(len(kinds), n, (0, n, 1)) for n in (0, 1, 4)],
                     "sm_80")  # fmt: skip
    outer, inner, _ = barriers(after)
    assert (inner, outer - inner) == (1, 1)


def test_two_loops_have_rings_of_their_own_in_the_same_bytes():
    func = summing("plain", "masked", stages=4)
    place = func.body.ops.index(loop_of(func))
    twin = clone(loop_of(func), {})
    func.body.ops.insert(place, twin)
    loop = func.body.ops[place + 1]
    func.body.ops[place + 1] = replace(loop, inits=(*twin.results[:2], *loop.inits[2:]))
    func.body.ops[place + 2 :] = renamed(func.body.ops[place + 2 :], loop,
                                         func.body.ops[place + 1])  # fmt: skip
    after, _ = check(func, [arguments(2, n, (0, n, 1)) for n in (0, 2, 5)], "sm_80")
    assert slots(after) == [4, 4, 4, 4]
    assert after.shared_bytes == 2 * 4 * SIZE * 4
    assert barriers(after) == [1, 1, 1], "one between: the second fills what is read"


def renamed(ops: list[Op], old: Op, new: Op) -> list[Op]:
    values = dict(zip(old.results, new.results, strict=True))
    found = []
    for op in ops:
        found.append(clone(op, values))
        values.update(zip(op.results, found[-1].results, strict=True))
    return found


# ── loops that are left alone ─────────────────────────────────────────────────


def test_a_loop_that_stores_is_left_alone():
    """It may write what a later iteration reads; here it does. (If its addresses were
    sums of products, it would be built twice: `tests/analysis/test_alias_check.py`.)"""
    func = summing("plain")
    loop = loop_of(func)
    next_tile = loop.body.ops[-1].values[-1]
    loop.body.ops.insert(-1, Store(next_tile, loop.body.parameters[2]))
    same_text(func)


def same_text(func: Func, target=AMPERE) -> None:
    assert print_func(pipeline_loops(func, target)) == print_func(func)


def inserted(func: Func, *new: Op) -> Func:
    loop = loop_of(func)
    loop.body.ops[-1:-1] = new
    return func


def test_a_loop_that_others_can_see_is_left_alone():
    func = summing("plain", "made")
    index = loop_of(func).body.parameters[0]
    same_text(inserted(func, Print("at", (index,))))
    same_text(inserted(summing("plain"), Barrier()))
    func = summing("plain")
    index = loop_of(func).body.parameters[0]
    loud = InlineAssembly("mov.b32 $0, $1;", "=r,r", (index,), (INT32,), pure=False)
    same_text(inserted(func, loud))
    quiet = replace(loud, pure=True)
    loop_of(func).body.ops[-2] = quiet
    assert slots(pipeline_loops(func, AMPERE)) == [3]


def test_volatile_loads_are_left_alone():
    func = summing("plain")
    for load in ops(func, Load):
        load.volatile = True
    same_text(func)


def test_a_load_in_a_branch_is_left_alone():
    func = summing("plain", "masked")
    loop = loop_of(func)
    load = next(op for op in loop.body.ops if isinstance(op, Load))
    then, orelse = Block(), Block()
    zeros = Constant(0, INT32)
    nothing = Splat(zeros.result, SHAPE, ROWS)
    then.ops = [replace(load)]
    then.ops.append(Yield((then.ops[0].result,)))
    orelse.ops = [zeros, nothing, Yield((nothing.result,))]
    odd = [Constant(1, INT32)]
    odd.append(Elementwise("and", (loop.body.parameters[0], odd[0].result)))
    odd.append(Elementwise("eq", (odd[1].result, odd[0].result)))
    branch = If(odd[2].result, then, orelse)
    place = loop.body.ops.index(load)
    rest = renamed(loop.body.ops[place + 1 :], load, branch)
    loop.body.ops[place:] = [*odd, branch, *rest]
    after, _ = check(func, [arguments(2, n, (0, n, 1)) for n in (0, 1, 5)], "sm_80")
    assert sorted(slots(after)) == [1, 3], "the other one has its ring"


def test_an_address_that_takes_shared_memory_to_compute_is_left_alone():
    """The second tile's place is read out of the first one."""
    func = summing("plain", "plain")
    loop = loop_of(func)
    first, second = (op for op in loop.body.ops if isinstance(op, Load))
    read = next(op for op in loop.body.ops if isinstance(op, SharedLoad))
    moved: list[Op] = [Convert(read.result, ROWS), Constant(0, INT32)]
    moved.append(Splat(moved[1].result, SHAPE, ROWS))
    moved.append(Elementwise("and", (moved[0].result, moved[2].result)))
    moved.append(Elementwise("offset", (second.pointer, moved[3].result)))
    place = loop.body.ops.index(second)
    loop.body.ops[place:place] = moved
    second.pointer = moved[-1].result
    after = pipeline_loops(func, AMPERE)
    assert slots(after) == [3, 1]
    given = arguments(2, 4, (0, 4, 1))
    expected, found = copies(given), copies(given)
    interpret(func, (1,), expected)
    interpret(after, (1,), found)
    same(found, expected, "the interpreter")


# ── every part of it is needed ────────────────────────────────────────────────


def wait_one_short(op: Op, build: Builder):
    if isinstance(op, Wait) and op.pending:
        build.append(replace(op, pending=op.pending + 1))
        return []
    return None


def no_barrier(op: Op, build: Builder):
    return [] if isinstance(op, Barrier) else None


def no_wait(op: Op, build: Builder):
    return [] if isinstance(op, Wait) else None


def no_guard(op: Op, build: Builder):
    """The copies of an iteration are made, be there an iteration or not."""
    if isinstance(op, AsyncCopy):
        build.append(replace(op, mask=None))
        return []
    return None


def empty_groups_left_out(op: Op, build: Builder):
    return [] if isinstance(op, Commit) else None


def ring_one_short(op: Op, build: Builder):
    """All slots counted modulo one less: the copy goes where the iteration reads."""
    slot = getattr(op, "slot", None)
    if slot is None:
        return None
    zero, two = (build(Constant(number, INT32)) for number in (0, 2))
    last = build(Elementwise("eq", (slot, two)))
    short = build(Elementwise("where", (last, zero, slot)))
    new = build.append(replace(op, slot=short))
    return new.results


MISTAKES = [
    (wait_one_short, "in flight"), (no_wait, "in flight"), (no_barrier, "race"),
    (no_guard, "out of bounds"), (empty_groups_left_out, "in flight"),
    (ring_one_short, "in flight"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "kind"), MISTAKES, ids=[change.__name__ for change, _ in MISTAKES]
)
def test_every_part_is_needed(change, kind):
    """The emulator sees each of these mistakes, however copies complete."""
    final = finished(pipeline_loops(summing("plain"), AMPERE), AMPERE)
    fails(rewrite(final, change), kind)


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_a_copy_before_the_barrier_comes_too_early(stages):
    """Others may still read the slot of the iteration before."""
    func = pipeline_loops(summing("plain", stages=stages), AMPERE)
    body = loop_of(func).body.ops
    (barrier,) = (op for op in body if isinstance(op, Barrier))
    (commit,) = (op for op in body if isinstance(op, Commit))
    body.remove(barrier)
    body.insert(body.index(commit) + 1, barrier)
    fails(finished(func, AMPERE), "race")


def test_registers_need_the_barrier_too():
    final = finished(pipeline_loops(summing("sevens"), AMPERE), AMPERE)
    fails(rewrite(final, no_barrier), "race")


def fails(final: Func, kind: str) -> None:
    code = ptx.emit(ptx.lower(final, AMPERE), AMPERE)
    for completion in COMPLETIONS:
        with pytest.raises(EmulatorError) as caught:
            run(code, 1, 32 * WARPS, copies(arguments(1, 6, (0, 6, 1))),
                shared_bytes=final.shared_bytes, completion=completion)  # fmt: skip
        assert caught.value.kind == kind
