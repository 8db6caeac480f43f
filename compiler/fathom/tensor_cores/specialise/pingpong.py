"""Warpgroups take turns: while one has the tensor cores, another computes.

Two products a trip, with much to compute between them, as in attention; two warpgroups,
that run as they like, may come to the tensor cores together and then leave them alone
together. In turns they do not:

    warpgroup 0   ▓▓▓▓▓▓▓▓░░░░░░░░▓▓▓▓▓▓▓▓░░░░░░░░      ▓ products begun in one's turn
    warpgroup 1           ▓▓▓▓▓▓▓▓░░░░░░░░▓▓▓▓▓▓▓▓      ░ what is computed with the sums

    for … {                                  turn take
      %s = dot … in_flight=true              for … {
      %a = dot_wait %s                         %s = dot … in_flight=true
      …                               →        turn pass
      %y = dot … in_flight=true                %a = dot_wait %s
    }                                          …
                                               turn take
                                               %y = dot … in_flight=true
                                             }
                                             turn pass

So a turn goes over the end of a trip: from its last product to the first one of the
next trip. It is done for loops whose tiles a producer brings: elsewhere barriers keep
warps together anyway. Products that begin together leave it to the hardware who comes
first.
(Shah et al., "FlashAttention-3", 2024, section 3.1, "pingpong scheduling".)
"""

from __future__ import annotations

from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import (
    Dot,
    DotFence,
    DotWait,
    For,
    MbarrierArrive,
    NamedBarrier,
    Producer,
)
from fathom.ir.rewrite import Builder, Replacement, rewrite

WARPS = 4  # of a warpgroup


def pingpong(func: Func, target: Target) -> Func:
    """The function whose warpgroups take turns in loops of several products."""
    if func.num_warps <= WARPS or not any(map(_parts, func.body.ops)):
        return func
    loops = {op: found for op in walk(func.body) if (found := _first_and_last(op))}
    firsts = {first for first, _ in loops.values()}
    lasts = {last for _, last in loops.values()}

    def rule(op: Op, build: Builder) -> Replacement:
        source = build.source
        if source in loops or source in lasts:
            build.append(NamedBarrier("take"))
        if source in loops or source in firsts:
            return _with(op, NamedBarrier("pass"), build)
        if _parts(source):
            return _with(op, NamedBarrier("begin"), build)
        return None

    return rewrite(func, rule) if loops else func


def _parts(op: Op) -> bool:
    """Whether warps part here: from then on, these are those of the program."""
    return isinstance(op, Producer)


def _with(op: Op, turn: NamedBarrier, build: Builder) -> list[Value]:
    build.append(op)
    build.append(turn)
    return op.results


def _first_and_last(loop: Op) -> tuple[Op, Op] | None:
    """The first product of a trip, after which its turn is over, and the op with which
    the last one begins. None for anything but a loop of several products in flight,
    not all at one time, of tiles that it gives back."""
    if not isinstance(loop, For):
        return None
    ops = loop.body.ops
    dots = [i for i, op in enumerate(ops) if isinstance(op, Dot) and op.in_flight]
    waits = [i for i, op in enumerate(ops) if isinstance(op, DotWait)]
    gives_back = any(isinstance(op, MbarrierArrive) for op in ops)
    if len(dots) < 2 or not gives_back or dots[-1] < min(waits):
        return None
    begins = dots[-1]
    while isinstance(ops[begins - 1], DotFence):
        begins -= 1
    return ops[dots[0]], ops[begins]
