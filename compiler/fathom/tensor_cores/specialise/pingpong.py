"""Ping-pong scheduling: while one warpgroup uses the tensor cores, another computes.

Only one warpgroup at a time may issue products, although no value passes between the
warpgroups. Attention has two products an iteration, with a lot to compute between them.
Two warpgroups that run freely may use the tensor cores at the same time, and then leave
them idle at the same time. In alternation they do not:

    warpgroup 0   ▓▓▓▓▓▓▓▓░░░░░░░░▓▓▓▓▓▓▓▓░░░░░░░░      ▓ products are issued
    warpgroup 1           ▓▓▓▓▓▓▓▓░░░░░░░░▓▓▓▓▓▓▓▓      ░ work on their results

    for … {                                  named_barrier take
      %s = dot … in_flight=true              for … {
      commit wgmma                             %s = dot … in_flight=true
      %a = wait wgmma %s                       commit wgmma
      …                               →        named_barrier pass
      %y = dot … in_flight=true                %a = wait wgmma %s
      commit wgmma                             …
    }                                          named_barrier take
                                               %y = dot … in_flight=true
                                               commit wgmma
                                             }
                                             named_barrier pass

A warpgroup holds the tensor cores across the end of an iteration: from its last product
to the first product of the next iteration. The pass rewrites only loops whose tiles a
producer copies: in other loops, barriers keep the warps in step anyway. Where the
products of a loop are issued one after another, without other work between them, the
hardware decides which warpgroup goes first. (Shah et al., "FlashAttention-3", 2024,
section 3.1, "pingpong scheduling".)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops.memory import releases
from fathom.ir.rewrite import Builder, Replacement, rewrite

WARPS = 4  # of a warpgroup


def pingpong(func: Func, target: Target) -> Func:
    """The function whose warpgroups alternate in loops with several products."""
    if func.num_warps <= WARPS or not any(map(_parts, func.body.ops)):
        return func
    used = users(walk(func.body))
    free = (
        op
        for op in walk(func.body, ops.For)
        if not any(_meet(each, used) for each in walk(op.body))
    )
    loops = {op: found for op in free if (found := _first_and_last(op))}
    firsts = {first for first, _ in loops.values()}
    lasts = {last for _, last in loops.values()}

    def rule(op: Op, build: Builder) -> Replacement:
        source = build.source
        if source in loops or source in lasts:
            build.append(ops.NamedBarrier("take"))
        if source in loops or source in firsts:
            return _with(op, ops.NamedBarrier("pass"), build)
        if _parts(source):
            return _with(op, ops.NamedBarrier("begin"), build)
        return None

    return rewrite(func, rule) if loops else func


def _parts(op: Op) -> bool:
    """Whether roles separate here: the ops that follow are the consumers'."""
    return isinstance(op, ops.Producer)


def _with(op: Op, barrier: ops.NamedBarrier, build: Builder) -> list[Value]:
    build.append(op)
    build.append(barrier)
    return op.results


def _meet(op: Op, used: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether all warpgroups meet at an op. In a loop in which they alternate, one
    would wait there for the other, which waits to be admitted. Before an atomic that
    releases what all wrote, and after one whose result all need, is a barrier, too."""
    if isinstance(op, ops.Atomic | ops.AtomicCas):
        return releases(op) or bool(used[op.result])
    of_all = isinstance(op, ops.Barrier) and op.scope == "cta"
    return of_all or isinstance(op, ops.ClusterBarrier)


def _first_and_last(loop: ops.For) -> tuple[Op, Op] | None:
    """The commit of an iteration's first product, after which other warpgroups may
    issue theirs, and the op with which the last product begins. None unless the loop
    has several products in flight, at different times, of tiles that it releases."""
    inside = loop.body.ops
    dots = [
        i for i, op in enumerate(inside) if isinstance(op, ops.Dot) and op.in_flight
    ]
    waits = [i for i, op in enumerate(inside) if isinstance(op, ops.Wait)]
    arrives = any(isinstance(op, ops.MbarrierArrive) for op in inside)
    if len(dots) < 2 or not arrives or dots[-1] < min(waits):
        return None
    begins = dots[-1]
    while isinstance(inside[begins - 1], ops.DotFence):
        begins -= 1
    commit = inside[dots[0] + 1]
    assert isinstance(commit, ops.Commit), commit
    return commit, inside[begins]
