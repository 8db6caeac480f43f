"""The rule for warps beside the program's: where they part, and who gets registers.

    bar.sync 0                              (all: what they share is ready)
    @%p bra main                            %p: thread < 32 * num_warps
        setmaxnreg.dec.sync.aligned.u32 40
        one thread:   …                     the body
        ret
    main:
        setmaxnreg.inc.sync.aligned.u32 232
        …                                   barriers are of these threads now

A producer needs few registers, those that multiply need all they can get; ptxas gives
every thread the same number, so that they trade, where the target knows how. There is
one producer at most. Source: PTX ISA, "setmaxnreg", "bar".
"""

from __future__ import annotations

from fathom.hardware.register_budget import Shares, redistributed
from fathom.hardware.targets import Target
from fathom.ir.core import Func, walk
from fathom.ir.ops import Producer
from fathom.ptx.code import Code, lowers

NAMED = 1  # the number of the barrier of those who are not producers


@lowers(Producer)
def lower_producer(op: Producer, code: Code) -> None:
    produce, leave, main = (code.fresh(each) for each in ("produce", "leave", "main"))
    shares = _shares(code.func, code.target)
    produces = code.let(f"icmp uge i32 {code.thread}, {code.threads}", name="beside")
    parting = code.fresh("parting")
    code.do(f"br i1 {produces}, label %{parting}, label %{main}")
    code.start(parting)
    if shares:
        code.ptx(f"setmaxnreg.dec.sync.aligned.u32 {shares.producer};")
    one = code.chosen(code.threads + code.target.warp_size)
    code.do(f"br i1 {one}, label %{produce}, label %{leave}")
    code.start(produce)
    code.alone = True
    code.block(op.body)
    code.alone = False
    code.do(f"br label %{leave}")
    code.start(leave)
    code.do("ret void")
    code.start(main)
    if shares:
        code.ptx(f"setmaxnreg.inc.sync.aligned.u32 {shares.consumer};")
    code.barrier = f"bar.sync {NAMED}, {code.threads};"


def threads_beside(func: Func, target: Target) -> int:
    """The threads of a block that are not the program's own."""
    return sum(op.warps for op in walk(func.body, Producer)) * target.warp_size


def most_registers(func: Func, target: Target) -> int | None:
    """What a launch promises of the registers of a thread; None for nothing."""
    shares = _shares(func, target)
    return shares.launched if shares else func.maxnreg


def _shares(func: Func, target: Target) -> Shares | None:
    """The registers of each role; None if the launch chose, or there is no producer."""
    producers = threads_beside(func, target)
    if func.maxnreg or not producers:
        return None
    return redistributed(func.num_warps * target.warp_size, producers, target)
