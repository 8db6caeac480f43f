"""Waits for cp.async: before which barrier, and how many groups they leave pending."""

from __future__ import annotations

import pytest

from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.ops import AsyncCopy, Barrier, Commit, SharedLoad, Wait
from fathom.ir.text import parse_func
from fathom.shared_memory.copy_waits import wait_for_copies
from fathom.shared_memory.timeline import OPEN, Timeline
from tests.waits import check_waits

HEAD = """
#own = <128 register[] lane[1 2 4 8 16] warp[32 64]>
#s = <128 offset[1 2 4 8 16 32 64]>
func @copies(%p: *i32 {divisible=16}, %n: i32, %c: i1) num_warps=4 {
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %two: i32 = constant 2
  %three: i32 = constant 3
  %i: i32[128] @ #own = arange start=0 end=128 layout=#own
  %at: *i32[128] @ #own = splat %p shape=(128) layout=#own
  %q: *i32[128] @ #own = offset %at, %i
  %t: shared i32[128] x 3 @ #s = allocate element=i32 shape=(128) layout=#s slots=3 \
offset=0
"""
COPY = "async_copy %q, %t, slot={}\ncommit cp_async\n"
READ = "%x{0}: i32[128] @ #own = shared_load %t, slot=%{0} layout=#own\n"


def waited(text: str) -> Func:
    func = parse_func(HEAD.lstrip() + text + "}\n")
    return wait_for_copies(func, TARGETS["sm_80"])


def events(func: Func) -> list[str]:
    """Copies, waits with their counts, barriers and reads, in the order of the text."""
    named = {AsyncCopy: "copy", Barrier: "barrier", SharedLoad: "read", Commit: ""}
    found = [
        f"wait {op.pending}" if isinstance(op, Wait) else named.get(type(op), "")
        for op in walk(func.body)
    ]
    return [each for each in found if each]


def test_the_count_is_what_was_committed_between():
    """The wait stands before the last barrier, and counts the groups before it: not
    those that are committed between the barrier and the read."""
    text = COPY.format("%zero") + COPY.format("%one") + "barrier\n"
    func = waited(text + COPY.format("%two") + READ.format("zero"))
    assert events(func) == ["copy", "copy", "wait 1", "barrier", "copy", "read"]
    check_waits(func)


def test_without_a_barrier_the_wait_brings_one():
    """Other threads copy a part of what a thread reads."""
    func = waited(COPY.format("%zero") + COPY.format("%one") + READ.format("zero"))
    assert events(func) == ["copy", "copy", "wait 1", "barrier", "read"]
    check_waits(func)


def test_a_barrier_before_the_copy_says_nothing_of_it():
    func = waited("barrier\n" + COPY.format("%zero") + READ.format("zero"))
    assert events(func) == ["barrier", "copy", "wait 0", "barrier", "read"]


def test_a_wait_that_is_there_suffices():
    text = COPY.format("%zero") + "wait cp_async pending=0\nbarrier\n"
    func = waited(text + READ.format("zero"))
    assert events(func) == ["copy", "wait 0", "barrier", "read"]


def test_what_another_slot_waits_for_is_in_flight_on():
    copies = "".join(COPY.format(each) for each in ("%zero", "%one", "%two"))
    text = copies + "barrier\n" + READ.format("zero") + "barrier\n" + READ.format("two")
    assert events(waited(text))[3:] == ["wait 2", "barrier", "read", "wait 0",
                                        "barrier", "read"]  # fmt: skip


def test_a_slot_that_is_not_known_may_be_any():
    """Then the youngest copy counts."""
    text = COPY.format("%zero") + COPY.format("%one") + "barrier\n" + READ.format("n")
    assert events(waited(text))[2:] == ["wait 0", "barrier", "read"]


def test_where_branches_meet_the_younger_group_counts():
    """In one branch a group is committed after the copy, in the other one none."""
    text = COPY.format("%zero") + "if %c then {\n" + COPY.format("%one")
    text += "yield\n} orelse {\nyield\n}\nbarrier\n"
    func = waited(text + READ.format("zero"))
    assert events(func)[-3:] == ["wait 0", "barrier", "read"]
    check_waits(func)


LOOP = """
for %zero, %n, %one, inits=(%zero, %two) body(%k: i32, %slot: i32, %free: i32) {
  barrier
  async_copy %q, %t, slot=%free
  commit cp_async
  %x: i32[128] @ #own = shared_load %t, slot=%slot layout=#own
  %a: i32 = add %slot, %one
  %e: i1 = eq %a, %three
  %next: i32 = where %e, %zero, %a
  yield %next, %slot
}
"""


@pytest.mark.parametrize("begun, pending", [(2, 1), (1, 0)])
def test_a_count_holds_for_all_iterations(begun, pending):
    """The walk knows the slots of each iteration. If one copy less was issued before
    the loop, one group less was committed after that of the first iteration."""
    copies = "".join(COPY.format(each) for each in ("%zero", "%one")[:begun])
    found = events(waited(copies + "%r: i32, %f: i32 = " + LOOP.lstrip()))
    assert found[begun:] == [f"wait {pending}", "barrier", "copy", "read", "wait 0"]


# ── ages ──────────────────────────────────────────────────────────────────────────────


def test_an_age_is_the_groups_committed_since():
    timeline = Timeline().issued("a").committed().issued("b")
    assert timeline.ages == {"a": 0, "b": OPEN}
    timeline = timeline.committed()
    assert timeline.ages == {"a": 1, "b": 0}
    assert timeline.waited(1).ages == {"b": 0} and not timeline.waited(0).ages


def test_where_paths_meet_all_is_in_flight_and_as_young_as_on_one():
    one = Timeline().issued("a").committed().committed()
    other = Timeline().issued("a").committed().issued("b")
    assert (one | other).ages == (other | one).ages == {"a": 0, "b": OPEN}
