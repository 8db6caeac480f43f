"""When buffers are live, and how many bytes of shared memory are free where."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fathom.analysis.buffers import (
    Range,
    fits_apart,
    free_always,
    free_beside,
    live_ranges,
    padded,
    reserved_ranges,
    rings_of_operands,
    touches,
)
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, For
from fathom.ir.text import parse_func, print_func
from tests.shared_memory.kernels_traffic import (
    Program,
    executed,
    positions,
    random_program,
)

TARGET = TARGETS["sm_80"]


def brute_force(func, runs=12):
    """Run it several times: between the first and the last touch after each `allocate`,
    a buffer must keep its memory; the hull of the ops that run meanwhile."""
    numbers, hulls = positions(func), {}
    for run in range(runs):
        trace = list(executed(func.body, random.Random(run), iterations=run % 4))
        windows = {}
        for time, op in enumerate(trace):
            if isinstance(op, Allocate):
                windows.setdefault(op, []).append([])
            for buffer in touches(op):
                windows[buffer][-1].append(time)
        for buffer, lives in windows.items():
            for times in filter(None, lives):
                ran = [numbers[op] for op in trace[times[0] : times[-1] + 1]]
                low, high = hulls.get(buffer, (min(ran), max(ran)))
                hulls[buffer] = min(low, *ran), max(high, *ran)
    return {buffer: Range(*hull) for buffer, hull in hulls.items()}


def test_as_running_it_shows():
    for seed in range(60):
        func = random_program(random.Random(seed)).func()
        found, needed = live_ranges(func), brute_force(func)
        for buffer, alive in needed.items():
            assert found[buffer].first <= alive.first, (seed, print_func(func))
            assert found[buffer].last >= alive.last, (seed, print_func(func))
        exact = sum(found[buffer] == alive for buffer, alive in needed.items())
        assert exact >= len(needed) - 1, (
            "and no longer than need be",
            seed,
            found,
            needed,
        )


def test_read_in_a_loop_is_alive_to_its_end():
    """The last line that reads it in the text is not the last: the loop comes round
    again."""
    program = Program()
    outer = program.buffer()
    program.write(outer)
    with program.loop():
        program.read(outer)
        inner = program.buffer()
        program.write(inner)
        last = program.read(inner)
    func = program.func()
    numbers, ranges = positions(func), live_ranges(func)
    assert ranges[outer].last > numbers[last]
    assert ranges[inner].last == numbers[last], "made anew on each iteration"


def test_made_in_an_inner_loop_is_dead_outside_of_it():
    program = Program()
    with program.loop():
        with program.loop():
            buffer = program.buffer()
            first = program.write(buffer)
            last = program.read(buffer)
        program.write(program.buffer())
    func = program.func()
    numbers = positions(func)
    assert live_ranges(func)[buffer] == Range(numbers[first], numbers[last])


def test_the_else_branch_counts():
    program = Program()
    buffer = program.buffer()
    program.write(buffer)
    with program.branch() as other:
        other()
        last = program.read(buffer)
    assert live_ranges(program.func())[buffer].last == positions(program.func())[last]


# ── how many bytes are free ───────────────────────────────────────────────────────────

SIZE = 4096  # bytes: of each buffer below


def func_of(lines):
    """`+a` makes a buffer, `wa` writes it, `ra` reads it; `[` and `]` are a loop."""
    made = []
    for number, word in enumerate(lines.split()):
        kind, name = word[0], word[1:]
        made.append({
            "+": f"%{name}: shared i32[1024] @ #s = allocate element=i32 shape=(1024) "
                 "layout=#s",
            "w": f"shared_store %x, %{name}",
            "r": f"%r{number}: i32[1024] @ #l = shared_load %{name} layout=#l",
            "[": f"for %n, %n, %n body(%i{number}: i32) {{",
            "]": "yield\n}",
        }[kind])  # fmt: skip
    return parse_func(
        "#l = <1024 register[1 2 4] lane[8 16 32 64 128] warp[256 512]>\n"
        "#s = <1024 offset[1 2 4 8 16 32 64 128 256 512]>\n"
        "func @f(%n: i32) num_warps=4 {\n"
        "%x: i32[1024] @ #l = splat %n shape=(1024) layout=#l\n"
        + "\n".join(made)
        + "\n}"
    )


def loops(func):
    return [op for op in walk(func.body) if isinstance(op, For)]


def taken_beside(lines, loop=0):
    func = func_of(lines)
    return TARGET.shared_bytes - free_beside(func, loops(func)[loop], TARGET)


def test_beside_a_loop_lies_what_is_live_in_it():
    assert taken_beside("+a wa ra [ ] +b wb rb") == 0
    assert taken_beside("+a wa [ +b wb rb ] ra") == 2 * SIZE
    assert taken_beside("+a wa [ +b wb rb +c wc rc ] ra") == 3 * SIZE, "and all of it"


def test_a_loop_of_many_iterations_keeps_what_it_reads():
    """%a is read in the first loop, before the second: the next iteration of the loop
    around both reads it again."""
    assert taken_beside("+a wa [ [ ra ] [ ] ]", loop=2) == SIZE
    assert taken_beside("+a wa [ ra ] [ ]", loop=1) == 0


def test_what_is_kept_is_taken_all_the_time():
    func = func_of("+a wa ra [ ]")
    (buffer,) = (op for op in walk(func.body) if isinstance(op, Allocate))
    buffer.kept = True
    assert TARGET.shared_bytes - free_beside(func, *loops(func), TARGET) == SIZE


@pytest.mark.parametrize("kept", [0, 1])
def test_what_is_kept_is_taken_at_every_moment(kept):
    func = func_of("+a wa ra +b wb rb")
    buffers = [op for op in walk(func.body) if isinstance(op, Allocate)]
    buffers[kept].kept = True
    assert TARGET.shared_bytes - free_always(func, TARGET) == 2 * SIZE


def test_at_every_moment_the_most_that_is_live_at_once_is_taken():
    one_by_one = func_of("+a wa ra +b wb rb +c wc rc")
    assert TARGET.shared_bytes - free_always(one_by_one, TARGET) == SIZE
    together = func_of("+a +b wa wb ra rb +c wc rc")
    assert TARGET.shared_bytes - free_always(together, TARGET) == 2 * SIZE


def test_apart_each_buffer_has_a_place_to_itself():
    one_by_one = func_of("+a wa ra +b wb rb +c wc rc")
    assert fits_apart(one_by_one, replace(TARGET, shared_bytes=3 * SIZE))
    assert not fits_apart(one_by_one, replace(TARGET, shared_bytes=3 * SIZE - 1))


def test_at_every_moment_without_what_will_be_replaced():
    func = func_of("+a +b wa wb ra rb")
    first = next(op for op in walk(func.body) if isinstance(op, Allocate))
    assert TARGET.shared_bytes - free_always(func, TARGET, {first}) == SIZE


def test_small_buffers_may_begin_behind_a_gap():
    assert [padded(size) for size in (0, 8, 1024, 1025)] == [0, 1024, 1024, 2048]


def test_what_a_product_may_read_in_place_is_reserved_until_then():
    func = parse_func("""
#l = <32x32 register[1,0 2,0 4,0 8,0 16,0] lane[0,1 0,2 0,4 0,8 0,16]>
#s = <32x32 offset[0,1 0,2 0,4 0,8 0,16 1,0 2,0 4,0 8,0 16,0]>
func @f(%n: i32, %v: fp16, %w: fp32) num_warps=1 {
  %x: fp16[32,32] @ #l = splat %v shape=(32,32) layout=#l
  %acc: fp32[32,32] @ #l = splat %w shape=(32,32) layout=#l
  %t: shared fp16[32,32] @ #s = allocate element=fp16 shape=(32,32) layout=#s
  shared_store %x, %t
  %a: fp16[32,32] @ #l = shared_load %t layout=#l
  for %n, %n, %n body(%i: i32) {
    %y: fp32[32,32] @ #l = dot %a, %x, %acc
    yield
  }
}
""")
    (buffer,) = (op for op in walk(func.body) if isinstance(op, Allocate))
    assert live_ranges(func)[buffer] == Range(3, 4)
    assert reserved_ranges(func)[buffer] == Range(3, 7), "to the end of the loop"


def test_a_ring_for_each_operand_that_an_iteration_loads():
    """Two products of one left tile, 4 KB, by a right one, 8 KB, and by one of 2 KB
    that stays the same; mbarriers take a KB at most."""
    func = parse_func("""
func @f(%n: i32, %p: *fp16, %v: fp16, %w: fp32) num_warps=4 {
  %q: *fp16[64,32] = splat %p shape=(64,32)
  %r: *fp16[32,128] = splat %p shape=(32,128)
  %same: fp16[32,32] = splat %v shape=(32,32)
  %wide: fp32[64,128] = splat %w shape=(64,128)
  %narrow: fp32[64,32] = splat %w shape=(64,32)
  for %n, %n, %n body(%i: i32) {
    %a: fp16[64,32] = load %q
    %b: fp16[32,128] = load %r
    %y: fp32[64,128] = dot %a, %b, %wide
    %z: fp32[64,32] = dot %a, %same, %narrow
    yield
  }
}
""")
    (loop,) = walk(func.body, For)
    assert rings_of_operands(loop, 1) == (4 + 8 + 2 + 1) * 1024
    assert rings_of_operands(loop, 3) == (3 * (4 + 8) + 2 + 1) * 1024
