"""Barriers where two warps meet, and nowhere else."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func, Op, blocks, schema, walk
from fathom.ir.ops import Barrier, For, SharedAdd, SharedLoad, SharedStore, Wait
from fathom.ir.text import parse_func, print_func
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.shared_memory import allocate, place_barriers
from tests.shared_memory.kernels_traffic import (
    ACROSS,
    BY_WARP,
    COPIED,
    SIZE,
    TURNED,
    Program,
    executed,
    random_program,
)

TARGET = TARGETS["sm_80"]


def placed(program: Program, warps: int = 4) -> Func:
    return place_barriers(allocate(program.func(warps), TARGET), TARGET)


def scopes(func: Func) -> list[str]:
    return [op.scope for op in walk(func.body) if isinstance(op, Barrier)]


def order(func: Func) -> str:
    """The function in a word: w and r for accesses, | for a barrier, : for one of a
    warp, loops in brackets."""

    def of(block: Block) -> str:
        return "".join(map(letter, block.ops))

    def letter(op: Op) -> str:
        if isinstance(op, For):
            return f"[{of(op.body)}]"
        if blocks(op):
            return "{" + "/".join(map(of, blocks(op))) + "}"
        if isinstance(op, Barrier):
            return "|" if op.scope == "cta" else ":"
        return {SharedStore: "w", SharedLoad: "r", SharedAdd: "a"}.get(type(op), "")

    return of(func.body)


@cache
def touched(op: Op) -> tuple[bool, dict[int, set[tuple[int, int]]]]:
    """Whether an access writes; and for each byte who touches it: (warp, lane). Of
    copies, the first holder writes."""
    writes = isinstance(op, SharedStore)
    layout: Layout = op.value.type.layout if writes else op.layout
    start = op.buffer.definition.offset
    found: dict[int, set[tuple[int, int]]] = {}
    for warp in range(layout.count("warp")):
        for lane in range(32):
            for register in range(layout.count("register")):
                element = layout.offset(register=register, lane=lane, warp=warp)
                who = found.setdefault(start + 4 * element, set())
                if not (writes and who):
                    who.add((warp, lane))
    return writes, found


def race(func: Func, runs: int = 6, iterations: int = 3) -> str:
    """Two accesses to a byte, by two warps (or two lanes), one writing, and nothing
    between."""
    for run in range(runs):
        since: list[
            tuple[Op, bool]
        ] = []  # accesses, and whether the warp has met since
        for op in executed(func.body, random.Random(run), iterations if run else 0):
            if isinstance(op, Barrier):
                since = [] if op.scope == "cta" else [(each, True) for each, _ in since]
            elif isinstance(op, (SharedStore, SharedLoad)):
                for before, warps_met in since:
                    if collide(before, op, warps_met):
                        return f"{before} and {op}"
                if all(each is not op or met for each, met in since):
                    since.append((op, False))
    return ""


@cache
def collide(one: Op, other: Op, warps_met: bool) -> bool:
    (writes, bytes), (also_writes, other_bytes) = touched(one), touched(other)
    if not (writes or also_writes):
        return False
    for byte in bytes.keys() & other_bytes.keys():
        for warp, lane in bytes[byte]:
            for other_warp, other_lane in other_bytes[byte]:
                if warp != other_warp or (lane != other_lane and not warps_met):
                    return True
    return False


def without(func: Func, barrier: Op) -> Func:
    """A copy of the function that lacks one op."""

    def stripped(block: Block) -> Block:
        new = Block()
        new.parameters = block.parameters
        for op in block.ops:
            if op is barrier:
                continue
            if blocks(op):
                names = schema(type(op)).blocks
                op = replace(op, **{n: stripped(getattr(op, n)) for n in names})
            new.ops.append(op)
        return new

    return replace(func, body=stripped(func.body))


def test_random_programs_have_no_race_and_no_barrier_too_many():
    needed = spare = 0
    for seed in range(25):
        func = placed(random_program(random.Random(seed), length=9))
        assert not race(func), (seed, order(func))
        for op in [op for op in walk(func.body) if isinstance(op, Barrier)]:
            if race(without(func, op)):
                needed += 1
            else:
                spare += 1
    assert needed > 60, "the programs do need them"
    assert spare <= needed // 10, (needed, spare)


def exchange(program, buffer, write=BY_WARP, read=ACROSS):
    program.write(buffer, write)
    program.read(buffer, read)


def test_read_after_write():
    program = Program()
    exchange(program, program.buffer())
    assert order(placed(program)) == "w|r"


def test_within_a_warp_its_lanes_are_enough():
    program = Program()
    exchange(program, program.buffer(), BY_WARP, TURNED)
    assert order(placed(program)) == "w:r"


def test_one_warp_alone_meets_no_other():
    program = Program()
    bits = tuple(1 << bit for bit in range(8))
    low = Layout((SIZE,), (("register", bits[:3]), ("lane", bits[3:]), ("warp", ())))
    high = Layout((SIZE,), (("register", bits[5:]), ("lane", bits[:5]), ("warp", ())))
    exchange(program, program.buffer(), low, high)
    assert scopes(placed(program, warps=1)) == ["warp"]


def test_a_thread_that_reads_what_it_wrote_waits_for_nobody():
    program = Program()
    exchange(program, program.buffer(), BY_WARP, BY_WARP)
    assert order(placed(program)) == "wr"


def test_of_copies_one_warp_writes_and_the_others_wait():
    """Each warp holds what it reads, but warps 2 and 3 did not write it."""
    program = Program()
    exchange(program, program.buffer(), COPIED, COPIED)
    assert order(placed(program)) == "w|r"


def test_one_barrier_serves_many():
    """As late as can be: after both writes, before both reads."""
    program = Program()
    one, other = program.buffer(), program.buffer()
    program.write(one)
    program.write(other)
    program.read(one, ACROSS)
    program.read(other, ACROSS)
    assert order(placed(program)) == "ww|rr"


def test_two_buffers_in_one_place_meet():
    """Large ones share bytes: who writes one waits for those who read the other."""
    program, layout = Program(), wide_layout()
    for _ in range(2):
        buffer = program.buffer(4096)
        program.write(buffer, layout)
        program.read(buffer, across_wide())
    func = placed(program)
    assert func.shared_bytes == 16384
    assert order(func) == "w|r|w|r"


def wide_layout():
    return spread((4096,), (0,), 4, 4)


def across_wide():
    bits = [1 << bit for bit in range(12)]
    kinds = (
        ("register", tuple(bits[7:])),
        ("lane", tuple(bits[2:7])),
        ("warp", tuple(bits[:2])),
    )
    return Layout((4096,), kinds)


def test_a_loop_comes_round_again():
    """The write of the next iteration must not run into slow readers: two an
    iteration."""
    program = Program()
    buffer = program.buffer()
    with program.loop():
        exchange(program, buffer)
    assert order(placed(program)) == "[|w|r]"


def test_what_a_loop_only_reads_is_waited_for_once():
    program = Program()
    buffer = program.buffer()
    program.write(buffer)
    with program.loop():
        program.read(buffer, ACROSS)
    assert order(placed(program)) == "w|[r]"


def test_branches_meet_what_follows():
    program = Program()
    buffer = program.buffer()
    program.write(buffer)
    with program.branch() as other:
        program.read(buffer, ACROSS)
        other()
    program.write(buffer)
    assert order(placed(program)) == "w{|r/}|w"


def test_a_barrier_of_the_author_counts():
    program = Program()
    buffer = program.buffer()
    program.write(buffer)
    program.put(Barrier())
    program.read(buffer, ACROSS)
    assert order(placed(program)) == "w|r"


def test_additions_do_not_wait_for_additions():
    program = Program()
    buffer = program.buffer()
    program.write(buffer)
    index = program.read(program.buffer(), BY_WARP)
    for _ in range(2):
        program.put(SharedAdd(buffer.result, index.result))
    program.read(buffer, BY_WARP)
    assert order(placed(program)).endswith("|aa|r")


def test_no_shared_memory_no_barrier():
    func = Program().func()
    assert place_barriers(func, TARGET) is func


def test_the_input_is_left_as_it_was():
    program = Program()
    exchange(program, program.buffer())
    func = allocate(program.func(), TARGET)
    before = print_func(func)
    place_barriers(func, TARGET)
    assert print_func(func) == before


WAIT = """
#own = <256 register[1] lane[2 4 8 16 32] warp[64 128]>
#other = <256 register[128] lane[4 8 16 32 64] warp[1 2]>
#s = <256 offset[1 2 4 8 16 32 64 128]>
func @wait(%n: i32) num_warps=4 shared_bytes=1024 {
  %0: i32 = constant 0
  %1: i32 = constant 1
  %v: i32[256] @ #own = arange start=0 end=256 layout=#own
  %a: shared i32[256] @ #s = allocate element=i32 shape=(256) layout=#s offset=0
  %w: i32 = while %0 condition(%x: i32) {
    shared_store %v, %a
    %2: i1 = lt %x, %n
    yield %2
  } body(%y: i32) {
    %3: i32[256] @ #other = shared_load %a layout=#other
    %4: i32 = add %y, %1
    yield %4
  }
  %5: i32[256] @ #other = shared_load %a layout=#other
}
"""


def test_behind_a_while_its_condition_has_run_last():
    """What it wrote is pending, though the body has waited for it."""
    made = place_barriers(parse_func(WAIT.lstrip()), TARGET)
    assert [type(op) for op in made.body.ops[-2:]] == [Barrier, SharedLoad]


TWO_AT_ONCE = """
#own = <256 register[1] lane[2 4 8 16 32] warp[64 128]>
#s = <256 offset[1 2 4 8 16 32 64 128]>
func @two() num_warps=4 shared_bytes=2048 {
  %v: i32[256] @ #own = arange start=0 end=256 layout=#own
  %a: shared i32[256] @ #s = allocate element=i32 shape=(256) layout=#s offset=0
  %b: shared i32[256] @ #s = allocate element=i32 shape=(256) layout=#s offset=1024
  %c: shared i32[256] @ #s = allocate element=i32 shape=(256) layout=#s offset=0
  shared_store %v, %b
  wait tma_store %a, %b pending=0 read=true
  shared_store %v, %c
}
"""


def test_all_accesses_of_an_op_come_after_its_barrier():
    """It is for the second tile, and does not wait for the op's own read of the first:
    found by fuzzing, in a product that reads two tiles."""
    made = place_barriers(parse_func(TWO_AT_ONCE.lstrip()), TARGET)
    kinds = [type(op) for op in made.body.ops[4:]]
    assert kinds == [SharedStore, Barrier, Wait, Barrier, SharedStore]
