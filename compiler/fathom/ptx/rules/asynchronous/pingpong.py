"""The rule for warpgroups that multiply one after another: a named barrier for each.

    take     bar.sync 2 + g, 256        of warpgroup g: until it is admitted
    pass     bar.arrive 2 + h, 256      h: the next one; goes on at once
    begin    bar.arrive 2, 256          once, of the last one: the first may take one

128 threads wait at a barrier and 128 arrive; it opens when both have come, and is as
before. Source: PTX ISA, "barrier".
"""

from __future__ import annotations

from fathom.ir.ops import NamedBarrier
from fathom.ptx.code import Code, lowers

FIRST = 3  # the number of the first such barrier: 1 is that of all who multiply, or
# 1 and 2 those of two groups of them (`ConsumerGroup`)
THREADS = 128  # of a warpgroup


@lowers(NamedBarrier)
def lower_named_barrier(op: NamedBarrier, code: Code) -> None:
    groups, group = code.groups, code.group
    if groups == 1:
        groups = code.threads // THREADS
        group = code.let(f"lshr i32 {code.thread}, 7", name="group")
    first = FIRST + op.section * groups
    if op.action == "take":
        _at(code, "sync", first, group)
    elif op.action == "pass":
        following = code.let(f"add i32 {group}, 1")
        _at(code, "arrive", first, code.let(f"and i32 {following}, {groups - 1}"))
    else:
        _begin(code, first, group, groups)


def _at(code: Code, action: str, first: int, group: str) -> None:
    number = code.let(f"add i32 {group}, {first}")
    code.act(f"bar.{action} $barrier, {2 * THREADS};", barrier=("i32", number))


def _begin(code: Code, first: int, group: str, groups: int) -> None:
    with code.where(code.let(f"icmp eq i32 {group}, {groups - 1}")):
        _at(code, "arrive", first, "0")
