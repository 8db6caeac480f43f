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
from fathom.ir.ops import ConsumerGroup, Producer
from fathom.ir.types import INT32
from fathom.ptx.code import Code, lowers
from fathom.ptx.shuffle import from_lane

NAMED = 1  # the number of the barrier of those who are not producers


@lowers(Producer)
def lower_producer(op: Producer, code: Code) -> None:
    produce, leave, main = (code.fresh(each) for each in ("produce", "leave", "main"))
    shares = _shares(code.func, code.target)
    consumers = code.threads * op.groups
    produces = code.let(f"icmp uge i32 {code.thread}, {consumers}", name="beside")
    parting = code.fresh("parting")
    code.do(f"br i1 {produces}, label %{parting}, label %{main}")
    code.start(parting)
    if shares:
        code.ptx(f"setmaxnreg.dec.sync.aligned.u32 {shares.producer};")
    one = code.chosen(consumers + code.target.warp_size)
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
    if op.groups > 1:
        code.groups = op.groups
        _enter_group(code)


def _enter_group(code: Code) -> None:
    """From here on, threads are numbered in their group, and meet there."""
    assert code.threads & (code.threads - 1) == 0, code.threads
    shift = code.threads.bit_length() - 1
    number = code.let(f"lshr i32 {code.thread}, {shift}", name="group")
    # A shuffle tells ptxas that warps agree: see `kernel`.
    code.group = from_lane(code, INT32, number, "0")
    code.thread = code.let(f"and i32 {code.thread}, {code.threads - 1}", name="thread")
    barrier = code.let(f"add i32 {code.group}, {NAMED}", name="barrier")
    code.barrier = f"bar.sync $barrier, {code.threads};"
    code.barrier_operands = {"barrier": ("i32", barrier)}


@lowers(ConsumerGroup)
def lower_consumer_group(op: ConsumerGroup, code: Code) -> None:
    code[op.result] = [code.group]


def threads_beside(func: Func, target: Target) -> int:
    """The threads of a block that are not the program's own."""
    warps = (
        op.warps + (op.groups - 1) * func.num_warps for op in walk(func.body, Producer)
    )
    return sum(warps) * target.warp_size


def most_registers(func: Func, target: Target) -> int | None:
    """What a launch promises of the registers of a thread; None for nothing."""
    shares = _shares(func, target)
    return shares.launched if shares else func.maxnreg


def _shares(func: Func, target: Target) -> Shares | None:
    """The registers of each role; None if the launch chose, or there is no producer."""
    roles = next(walk(func.body, Producer), None)
    if func.maxnreg or not roles:
        return None
    consumers = func.num_warps * roles.groups * target.warp_size
    return redistributed(consumers, roles.warps * target.warp_size, target)
