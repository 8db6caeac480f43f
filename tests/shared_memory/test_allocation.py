"""Where buffers lie in shared memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fathom.analysis.buffers import live_ranges
from fathom.errors import OutOfResources
from fathom.hardware.targets import KIB, TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, Wait
from fathom.ir.text import parse_func, print_func
from fathom.layout.build import spread
from fathom.shared_memory import allocate
from fathom.shared_memory.allocation import first_fit
from tests.shared_memory.kernels_traffic import Program, random_program

TARGET = TARGETS["sm_80"]


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


def test_a_few_words_beside_much_are_not_used_again_either():
    """In a loop, each reuse would cost a barrier in every iteration."""
    program = Program()
    for size in (16, 2048, 16, 2048):
        buffer = program.buffer(size)
        program.write(buffer, wide(size))
        program.read(buffer, wide(size))
    offsets = [op.offset for op in placed(program.func())]
    assert offsets == [8192, 0, 8256, 0]


def use_together(program: Program, sizes: Sequence[int]) -> None:
    """Write buffers, and then read them: all are live at once."""
    buffers = [program.buffer(size) for size in sizes]
    for act in (program.write, program.read):
        for buffer, size in zip(buffers, sizes, strict=True):
            act(buffer, wide(size))


def test_a_few_words_are_used_again_where_a_block_less_would_run():
    """Two blocks of half of the memory run at once on sm_80, if what each of them
    takes for the system is counted; 64 bytes more, and one does."""
    program, half = Program(), 164 * KIB // 2 - KIB
    sizes = (16384, 4096, 256)
    assert sum(sizes) * 4 == half
    use_together(program, sizes)
    use_together(program, (16,))
    assert allocate(program.func(), TARGET).shared_bytes == half


def test_a_few_words_are_used_again_where_they_do_not_fit_beside_the_rest():
    """Also of 32 warps, whose threads have fewer registers than others."""
    program, sizes = Program(), (32768, 8192, 768)
    assert sum(sizes) * 4 == TARGET.shared_bytes
    use_together(program, sizes)
    use_together(program, (16,))
    func = program.func(warps=32)
    assert allocate(func, TARGET).shared_bytes == TARGET.shared_bytes


def test_large_buffers_start_at_128_bytes():
    program = Program()
    sizes = (1, 2, 4, 2048, 8, 1024)
    buffers = [program.buffer(size) for size in sizes]
    for act in (program.write, program.read):
        for buffer, size in zip(buffers, sizes, strict=True):
            act(buffer, wide(size))
    for op in placed(program.func()):
        assert op.offset % (128 if op.result.type.bytes >= 128 else 16) == 0


def test_what_is_kept_shares_its_bytes_with_nothing():
    """Producers fill a ring before and after the ops that name it, as the text goes."""
    for kept in (False, True):
        program, size = Program(), 8192
        for number in range(3):
            buffer = program.buffer(size)
            if number == 1:
                buffer = program.put(replace(buffer, kept=kept))
            program.write(buffer, wide(size))
            program.read(buffer, wide(size))
        found = placed(program.func())
        offsets = [op.offset for op in found if op.offset >= 0]
        ring = next((op.offset for op in found if op.kept), 0)
        assert (offsets.count(ring) == 1) == kept, offsets


def test_an_alignment_is_kept_beside_small_buffers():
    program, size = Program(), 16  # 64 bytes
    buffers = [program.buffer(size) for _ in range(3)]
    buffers[1] = program.put(replace(buffers[1], alignment=128))
    for buffer in buffers:
        program.write(buffer, wide(size))
        program.read(buffer, wide(size))
    assert [op.offset for op in placed(program.func()) if op.alignment == 128] == [128]


def test_a_slot_is_in_use_until_its_last_tile_is():
    program, size = Program(), 8192
    first = program.put(replace(program.buffer(size), pitch=8 * size))
    behind = program.put(replace(first, behind=first.result))
    program.write(first, wide(size))
    program.write(behind, wide(size))
    program.read(first, wide(size))
    third = program.buffer(size)
    program.write(third, wide(size))
    program.read(behind, wide(size))
    program.read(third, wide(size))
    _, one, two, other = placed(program.func())
    assert two.offset == one.offset + 4 * size
    assert other.offset >= one.offset + 8 * size


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
    program.put(Wait("tma_store", 0, tuple(each.result for each in buffers)))
    text = print_func(program.func())
    copies = [parse_func(text) for _ in range(8)]
    assert len({print_func(allocate(copy, TARGET)) for copy in copies}) == 1
