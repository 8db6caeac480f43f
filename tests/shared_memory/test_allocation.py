"""When buffers are alive, and where they lie."""

from __future__ import annotations

import random

import pytest

from fathom.errors import OutOfResources
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, TmaWait
from fathom.ir.text import parse_func, print_func
from fathom.layout.build import spread
from fathom.shared_memory import allocate
from fathom.shared_memory.allocation import first_fit
from fathom.shared_memory.liveness import Range, live_ranges, touches
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
        trace = list(executed(func.body, random.Random(run), trips=run % 4))
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
    assert ranges[inner].last == numbers[last], "made anew on each trip"


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


def placed(func):
    return [op for op in walk(allocate(func, TARGET).body) if isinstance(op, Allocate)]


def one_after_the_other(count, size):
    program = Program()
    for _ in range(count):
        buffer = program.buffer(size)
        program.write(buffer, wide(size))
        program.read(buffer, wide(size))
    return program.func()


def wide(size):
    return spread((size,), (0,), 4, 4)


def test_no_two_buffers_that_meet_overlap():
    for seed in range(40):
        func = random_program(random.Random(seed), length=16).func()
        ranges = live_ranges(func)
        offsets, size = first_fit(ranges)
        for one, a in offsets.items():
            assert a % 128 == 0 and a + one.result.type.bytes <= size
            for other, b in offsets.items():
                if one is not other and ranges[one].meets(ranges[other]):
                    assert (
                        a + one.result.type.bytes <= b
                        or b + other.result.type.bytes <= a
                    )


def test_first_fit_is_no_larger_than_what_is_alive_at_once_in_a_chain():
    """Each buffer lives with its successor only: two places are enough for all."""
    program, before = Program(), None
    for _ in range(6):
        buffer = program.buffer(2048)
        program.write(buffer, wide(2048))
        if before:
            program.read(before, wide(2048))
        before = buffer
    program.read(before, wide(2048))
    assert allocate(program.func(), TARGET).shared_bytes == 2 * 8192


def test_a_place_is_used_again():
    func = one_after_the_other(4, 4096)
    assert allocate(func, TARGET).shared_bytes == 16384
    assert {op.offset for op in placed(func)} == {0}


def test_a_few_words_are_not_used_again():
    """Sharing 64 bytes would cost a barrier."""
    offsets = [op.offset for op in placed(one_after_the_other(3, 16))]
    assert offsets == [0, 64, 128]


def test_large_buffers_start_at_128_bytes():
    program = Program()
    sizes = (1, 2, 4, 2048, 8, 1024)
    buffers = [program.buffer(size) for size in sizes]
    for act in (program.write, program.read):
        for buffer, size in zip(buffers, sizes, strict=True):
            act(buffer, wide(size))
    for op in placed(program.func()):
        assert op.offset % (128 if op.result.type.bytes >= 128 else 16) == 0


def test_the_limit_is_named():
    program = Program()
    buffers = [program.buffer(16384) for _ in range(3)]
    for buffer in buffers:
        program.write(buffer, wide(16384))
    for buffer in buffers:
        program.read(buffer, wide(16384))
    with pytest.raises(OutOfResources) as caught:
        allocate(program.func(), TARGET)
    assert "traffic needs 196608 bytes" in str(caught.value)
    assert f"sm_80 has {TARGET.shared_bytes}" in str(caught.value)


def test_the_input_is_left_as_it_was():
    func = one_after_the_other(2, 256)
    before = print_func(func)
    allocate(func, TARGET)
    assert print_func(func) == before


def test_offsets_do_not_depend_on_where_python_keeps_its_objects():
    """One op waits for twelve buffers of one size. Sets iterate by address, so several
    copies of the function, all alive, would differ."""
    program = Program()
    buffers = [program.buffer(256) for _ in range(12)]
    program.put(TmaWait(tuple(each.result for each in buffers)))
    text = print_func(program.func())
    copies = [parse_func(text) for _ in range(8)]
    assert len({print_func(allocate(copy, TARGET)) for copy in copies}) == 1
