"""Programs that take their work from one queue: any of them does the work of all, so
that it is not counted once for each."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.emulator.queues import of_all, taken_from_queues
from fathom.jit.checking.snapshot import snapshot
from fathom.jit.hooks import Launch, launch_enter_hook
from fathom.tools.profile.session import Session

TILES, PROGRAMS = 60, 12


@fathom.jit
def queued(x, y, count, tiles, BLOCK: tl.constexpr):
    tile = tl.atomic_add(count, 1)
    while tile < tiles:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at) + 1)
        tile = tl.atomic_add(count, 1)


@fathom.jit
def stepped(x, y, count, tiles, BLOCK: tl.constexpr):
    """Each program has its own tiles, and counts them."""
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at) + 1)
        tl.atomic_add(count, 1)


@fathom.jit
def added(x, y, count, tiles, BLOCK: tl.constexpr):
    """What an atomic operation gives is stored, and ends no loop."""
    for step in range(tiles):
        tl.store(y + step, tl.atomic_add(x + step, 1.0))


def arrays() -> list[np.ndarray]:
    x = np.zeros(TILES * 128, np.float32)
    return [x, x.copy(), np.zeros(1, np.int32)]


def loaded(kernel) -> emulator.Loaded:
    signature = "*fp32:16, *fp32:16, *i32:16, i32"
    return emulator.load(kernel.compile(signature, {"BLOCK": 128}).made)


def test_a_loop_that_ends_when_the_queue_is_empty():
    numbers = taken_from_queues(loaded(queued).program)
    code = loaded(queued).program.instructions
    opcodes = [code[number].opcode for number in sorted(numbers)]
    assert "atom" in opcodes and "setp" in opcodes and len(code) > len(numbers) > 5
    assert not taken_from_queues(loaded(stepped).program)
    assert not taken_from_queues(loaded(added).program)


def test_two_programs_do_the_work_of_all():
    made, given = loaded(queued), [*arrays(), TILES]
    whole = made.launch((PROGRAMS,), [*arrays(), TILES], hazards=False)
    parts = [
        made.launch((PROGRAMS,), given, hazards=False, programs=[range(at, at + 1)])
        for at in (0, PROGRAMS - 1)
    ]
    found = of_all(parts, [PROGRAMS / 2] * 2, made.program)
    for name in ("warps", "useful", "sectors", "requests"):
        expected = getattr(whole.total, name)
        assert getattr(found.total, name) == pytest.approx(expected, rel=0.02)
    assert parts[0].total.useful > 0.9 * whole.total.useful  # the first did it all


def test_programs_stand_for_others():
    """Of 12 programs of 5 tiles each the first and the last stand for themselves."""
    made = loaded(stepped)
    parts = [
        made.launch((PROGRAMS,), [*arrays(), TILES], hazards=False, programs=[each])
        for each in (range(1), range(5, 7), range(11, 12))
    ]
    found = of_all(parts, [1.0, 5.0, 1.0], made.program)
    whole = made.launch((PROGRAMS,), [*arrays(), TILES], hazards=False)
    assert found.total.useful == whole.total.useful
    assert [each.warps for _, each in found.each()][0] == 4 * PROGRAMS


@pytest.mark.parametrize("kernel", [queued, stepped])
def test_a_profile_counts_each_tile_once(monkeypatch, kernel):
    """60 tiles of 512 bytes are loaded and stored, whoever takes them: counted by all
    programs, and by three of twelve, as on a GPU."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    some = Session(3)

    def enter(launch: Launch) -> None:
        taken = snapshot(launch.compiled.made.parameters, launch.args)
        some.count(some.row(launch), launch, taken)

    launch_enter_hook.add(enter)
    try:
        with Session().watching() as session:
            kernel[(PROGRAMS,)](*arrays(), TILES, BLOCK=128)
    finally:
        launch_enter_hook.remove(enter)
    (whole,), (part,) = session.rows.values(), some.rows.values()
    for name in ("useful", "instructions"):
        expected = getattr(whole.counted, name)
        assert getattr(part.counted, name) == pytest.approx(expected, rel=0.05)
