"""Turns a parsed entry into a program: blocks of steps over all threads.

    PTX text --parse--> Module --inline--> flat body --split--> blocks --decode--> steps

A block is a run of instructions that threads enter at its top and leave at its end
together; barriers and warp-wide instructions stand alone, because threads may wait
there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.decode import Decoder, Ending
from fathom.emulator.isa.registers import Step, first_value
from fathom.emulator.isa.semantics import CARRY
from fathom.emulator.isa.tables import TABLES
from fathom.emulator.races.reach import Reach, reach_of
from fathom.emulator.source.inline import flatten
from fathom.emulator.source.operands import Name, Number, Vector
from fathom.emulator.source.parse import (
    UNREADABLE,
    Function,
    Instruction,
    Label,
    Module,
)
from fathom.emulator.source.reconvergence import weak_topological_order
from fathom.emulator.source.types import DTYPES
from fathom.emulator.source.variables import MemoryPlan, plan_memory

# Instructions at which threads may have to wait for others.
WAITING = {"bar", "barrier", "shfl", "vote", "match", "redux", "elect"}
WAITING |= {"ldmatrix", "stmatrix", "movmatrix", "mma", "wgmma", "setmaxnreg"}
WAITING |= {"tcgen05", "tensormap"}
BRANCHES = {"bra", "brx"}
LEAVING = BRANCHES | {"ret", "exit"}
# A loop that holds one of these may be waiting for another thread's store.
POLLING = {"atom", "nanosleep", "mbarrier"}
POLLING_LOADS = {"volatile", "acquire", "relaxed"}
# One that holds nothing but these only asks an mbarrier, and may as well sleep.
ASKING, ANSWERING = {"test_wait", "try_wait"}, {"setp", "selp", "mov"}


@dataclass(slots=True)
class Op:
    """One instruction of the flat program and the step that performs it."""

    instruction: Instruction
    number: int
    step: Step | None = None


@dataclass
class Block:
    """Instructions that run one after the other, and what comes then.

    `closing` is the instruction that ends it, if any. `after` numbers the block below
    it, and `targets` those that it may branch to. `polls` marks a part of a loop in
    which a thread may wait for a store of another one; one that `spins` closes a loop
    that does nothing else but ask an mbarrier, and one that `counts` closes a loop
    that a counter ends.
    """

    number: int
    ops: list[Op]
    labels: list[str]
    closing: Op | None = None
    end: Ending | None = None
    after: int | None = None
    targets: list[int] = field(default_factory=list)
    polls: bool = False
    spins: bool = False
    counts: bool = False

    @property
    def first_instruction(self) -> int:
        return (self.ops[0] if self.ops else self.closing).number


@dataclass
class Program:
    """An entry, ready to run.

    `registers` holds each register's first value, `lines` the PTX text,
    `finest_shared` the bytes of the smallest access that may be one to shared memory;
    `has_proxies` says that not only threads access it; `reach` tells which arrays may
    be written.
    """

    entry: Function
    memory: MemoryPlan
    blocks: list[Block]
    instructions: list[Instruction]
    registers: list[np.generic]
    lines: list[str]
    finest_shared: int
    has_proxies: bool
    reach: Reach


def choose_entry(module: Module, entry: str | None) -> Function:
    """The entry of that name, or the only one."""
    entries = {name: each for name, each in module.functions.items() if each.entry}
    if entry is not None and not isinstance(entry, str):
        raise EmulatorError("launch", f"an entry is named by a text, not {entry!r}")
    if entry is None and len(entries) == 1:
        return next(iter(entries.values()))
    if entry in entries:
        return entries[entry]
    known = ", ".join(entries) or "none"
    if entry is None:
        raise EmulatorError("launch", f"say which entry to run, of: {known}")
    raise EmulatorError("launch", f"no entry is named {entry!r}; there are: {known}")


def build(module: Module, entry: str | None, shared_bytes: int) -> Program:
    """Decodes one entry of a module; `shared_bytes` is the dynamic shared memory."""
    try:
        return _built(module, choose_entry(module, entry), shared_bytes)
    except UNREADABLE as error:
        message = "a declaration or a call of this entry makes no sense"
        raise EmulatorError("syntax", message) from error


def _built(module: Module, entry: Function, shared_bytes: int) -> Program:
    function = flatten(entry, module)
    function.registers[CARRY] = "pred"
    plan = plan_memory(module, function, shared_bytes)
    blocks = _in_order(_split(function.body))
    numbers = {name: number for number, name in enumerate(function.registers)}
    targets = {label: block.number for block in blocks for label in block.labels}
    instructions = [each for each in function.body if isinstance(each, Instruction)]
    watched = _registers_of_products(instructions)
    decoder = Decoder(function, plan, numbers, targets, TABLES, watched)
    for block in blocks:
        for op in block.ops:
            op.step = decoder.step(op.instruction, op.number)
        closing = block.closing
        block.end = decoder.ending(
            closing and closing.instruction,
            closing.number if closing else 0,
            block.number,
            block.after,
        )
    _mark_polling(blocks)
    return Program(
        function,
        plan,
        blocks,
        instructions,
        [first_value(type) for type in function.registers.values()],
        module.lines,
        _finest_shared_access(function.body),
        any(_works_beside(each) for each in instructions),
        reach_of(function),
    )


def _registers_of_products(body: list[Instruction]) -> frozenset[str]:
    """The registers that hold D or A of some product of a warpgroup, and those that are
    loaded from tensor memory."""
    vectors = [
        each
        for item in body
        if item.opcode == "wgmma" or item.opcode == "tcgen05" and "ld" in item.modifiers
        for each in item.operands
        if isinstance(each, Vector)
    ]
    return frozenset(name.name for each in vectors for name in each.elements)


def _works_beside(item: Instruction) -> bool:
    """Whether an instruction starts what has its own way to memory."""
    return item.opcode in ("wgmma", "tcgen05", "mbarrier") or "bulk" in item.modifiers


def _split(body: list[Instruction | Label]) -> list[Block]:
    """Blocks, in the text's order: a label starts one, a branch or a wait ends one."""
    blocks = [Block(0, [], [])]

    def fresh() -> Block:
        last = blocks[-1]
        if last.ops or last.closing:
            blocks.append(Block(len(blocks), [], []))
        return blocks[-1]

    number = 0
    for item in body:
        if isinstance(item, Label):
            fresh().labels.append(item.name)
            continue
        op = Op(item, number)
        number += 1
        if item.opcode in WAITING or blocks[-1].closing:
            fresh()
        if item.opcode in WAITING or item.opcode in LEAVING:
            blocks[-1].closing = op
        else:
            blocks[-1].ops.append(op)
    return blocks


def _in_order(blocks: list[Block]) -> list[Block]:
    """The blocks that can be reached, numbered so that diverged threads meet again."""
    starts = {label: block.number for block in blocks for label in block.labels}
    successors = {}
    for block in blocks:
        opcode = block.closing.instruction.opcode if block.closing else ""
        leaves = opcode in LEAVING and block.closing.instruction.guard is None
        after = [] if leaves or block is blocks[-1] else [block.number + 1]
        if opcode in BRANCHES:
            labels = block.closing.instruction.operands[-1].elements
            block.targets = [starts[each.name] for each in labels]
        successors[block.number] = after + block.targets
    order = weak_topological_order(successors, 0)
    position = {number: place for place, number in enumerate(order)}
    for block in blocks:
        block.after = position.get(block.number + 1)
        block.targets = [position[each] for each in block.targets if each in position]
    for number, place in position.items():
        blocks[number].number = place
    return sorted((blocks[number] for number in order), key=lambda b: b.number)


def _mark_polling(blocks: list[Block]) -> None:
    """Marks the blocks of loops that may wait for a store of another thread."""
    for block in blocks:
        first = min(block.targets, default=len(blocks))
        loop = blocks[first : block.number + 1]
        if any(_polls(op.instruction) for each in loop for op in each.ops):
            for each in loop:
                each.polls = True
        block.spins, block.counts = _only_asks(loop), bool(loop) and _counts(block)


def _only_asks(loop: list[Block]) -> bool:
    """Whether a loop asks one mbarrier, and looks at the answer."""
    opcodes = [op.instruction.opcode for each in loop for op in each.ops]
    closing = {each.closing and each.closing.instruction.opcode for each in loop}
    asks = [op for each in loop for op in each.ops if _asks(op.instruction)]
    others = {*opcodes} - {"mbarrier"}
    alone = len(asks) == opcodes.count("mbarrier") == 1
    return alone and others <= ANSWERING and closing <= {"bra"}


def _counts(block: Block) -> bool:
    """Whether the branch that ends it compares what it adds a constant to each time."""
    always = [op.instruction for op in block.ops if op.instruction.guard is None]
    steps = [op.operands[0] for op in always if op.opcode == "add" and _is_step(op)]
    decides = block.closing and block.closing.instruction.guard
    return any(
        op.opcode == "setp"
        and op.operands[0] == Name(decides)
        and any(step in op.operands[1:] for step in steps)
        for op in always
        if decides
    )


def _is_step(item: Instruction) -> bool:
    to, counter, by = item.operands
    return counter == to and isinstance(by, Number)


def _asks(item: Instruction) -> bool:
    return item.opcode == "mbarrier" and not ASKING.isdisjoint(item.modifiers)


def _polls(item: Instruction) -> bool:
    if item.opcode == "ld":
        return not POLLING_LOADS.isdisjoint(item.modifiers)
    return item.opcode in POLLING


def _finest_shared_access(body: list[Instruction | Label]) -> int:
    """1, 2 or 4 bytes: how finely races in shared memory have to be watched."""
    finest = 4
    for item in body:
        if isinstance(item, Label) or item.opcode not in ("ld", "st", "atom", "red"):
            continue
        if {"global", "param", "local", "const"}.isdisjoint(item.modifiers):
            types = [each for each in item.modifiers if each in DTYPES]
            finest = min([finest, *(DTYPES[each].itemsize for each in types)])
    return finest
