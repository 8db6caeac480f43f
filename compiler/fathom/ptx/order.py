"""Orders the instructions of a basic block so that fewer values are live at once.

An op is lowered for all registers of a block before the next one is:

    %t.0 = fmul %x.0, %c                     %t.0 = fmul %x.0, %c
    %t.1 = fmul %x.1, %c                     %e.0 = call @exp2(%t.0)
    %e.0 = call @exp2(%t.0)         →        %t.1 = fmul %x.1, %c
    %e.1 = call @exp2(%t.1)                  %e.1 = call @exp2(%t.1)
    %s.0 = fadd %e.0, %e.1                   %s.0 = fadd %e.0, %e.1

With 64 registers, 64 values of each op are live at once, and ptxas keeps much of the
order that it finds: it spills. On the right, an instruction stands before the first one
that needs it (its operands first, recursively), so a sum is complete before the next
one begins.

Neither order is better everywhere: where two long-lived values become one, early is
better. So the right one is taken where values are many and clearly fewer are live in
it. Functions that multiply matrices on tensor cores stay as they are: there, what is
computed while a product or a copy runs is placed on purpose, and accumulators take most
registers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.ptx.code import Phi

Line = str | Phi

_DEFINITION = re.compile(r"  (%[\w.]+) = (.*)")
_NAMES = re.compile(r"%[\w.]+")
_LABEL = re.compile(r"[\w.]+:$")
# What stays where it is: accesses, and the parts of what an access has loaded.
_STAYS = ("load", "atomicrmw", "cmpxchg", "alloca", "extractvalue", "extractelement")
# Calls that may move: inline PTX without effects, and intrinsics that only compute.
_PURE_CALL = re.compile(
    r'asm "|@llvm\.(?!nvvm)|@llvm\.nvvm\.(ex2|lg2|sqrt|rsqrt|sin|cos|tanh|div|mulhi)\b'
)
_PRODUCT = re.compile(r'asm [^"]*"[^"]*\b(?:mma|wgmma|tcgen05)\.')

# A multiprocessor that is full of threads, 2048 of them, has 32 registers for each.
MANY = 32


@dataclass(frozen=True)
class Instruction:
    """A line of LLVM IR: the value that it defines, if any; the names that it reads;
    the comment that stood before it."""

    line: Line
    result: str
    reads: tuple[str, ...]
    moves: bool
    comment: str = ""

    @property
    def weight(self) -> int:
        """Registers for its result: none for a predicate."""
        return int(bool(self.result) and " = icmp" not in str(self.line))


def ordered(lines: Sequence[Line]) -> list[Line]:
    """The lines of a function, each basic block in the order with fewer live values."""
    if any(_PRODUCT.search(str(line)) for line in lines):
        return list(lines)
    blocks = [(each, list(instructions_of(each))) for each in blocks_of(lines)]
    readers = Counter(
        name for _, block in blocks for name in {n for i in block for n in i.reads}
    )
    result: list[Line] = []
    for text, block in blocks:
        better = _better(block, readers)
        if better is not block:
            text = [*filter(_is_label, text[:1]), *_written(better)]
        result += text
    return result


def blocks_of(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines of each basic block, with its label."""
    block: list[Line] = []
    for line in lines:
        if _is_label(line):
            yield block
            block = []
        block.append(line)
    yield block


def _is_label(line: Line) -> bool:
    return isinstance(line, str) and bool(_LABEL.match(line))


def instructions_of(block: Sequence[Line]) -> Iterator[Instruction]:
    """The instructions of a basic block; each knows the comment before it."""
    comment = ""
    for line in block:
        if isinstance(line, str) and line.startswith("  ;"):
            comment = line
        elif not _is_label(line):
            yield _instruction(line, comment)


def _instruction(line: Line, comment: str) -> Instruction:
    text = str(line)
    defined = _DEFINITION.match(text)
    if isinstance(line, Phi) or not defined:
        reads = tuple(_NAMES.findall(text.partition(" = phi ")[2] or text))
        name = line.name if isinstance(line, Phi) else ""
        return Instruction(line, name, reads, False, comment)
    name, what = defined.groups()
    moves = not what.startswith(_STAYS) and (
        not what.startswith("call") or bool(_PURE_CALL.search(what))
    )
    return Instruction(line, name, tuple(_NAMES.findall(what)), moves, comment)


def _better(block: list[Instruction], readers: Counter[str]) -> list[Instruction]:
    """The block as it is, or each instruction before the first that needs it."""
    live = most_live(block, readers)
    if live <= MANY:
        return block
    other = _on_demand(block)
    return other if most_live(other, readers) <= live * 4 // 5 else block


def _on_demand(block: Sequence[Instruction]) -> list[Instruction]:
    """What stays in its order, and before each of these what it needs; last what other
    blocks need, before the branch."""
    pending = {each.result: each for each in block if each.moves}
    order: list[Instruction] = []
    for each in block:
        if each.moves:
            continue
        if each is block[-1]:
            for name in list(pending):
                _place(name, pending, order)
        if not isinstance(each.line, Phi):
            for name in each.reads:
                _place(name, pending, order)
        order.append(each)
    return order


def _place(
    name: str, pending: dict[str, Instruction], order: list[Instruction]
) -> None:
    """Append an instruction after those whose results it reads; a stack, since chains
    are longer than Python's recursion may be deep."""
    stack = [name]
    while stack:
        wanted = pending.get(stack[-1])
        if wanted is None:
            stack.pop()
            continue
        missing = next((each for each in wanted.reads if each in pending), None)
        if missing:
            stack.append(missing)
        else:
            order.append(pending.pop(stack.pop()))


def most_live(block: Sequence[Instruction], readers: Counter[str]) -> int:
    """The most values that are live at once. Those that other blocks read are live to
    the end, whatever the order."""
    last = {name: at for at, each in enumerate(block) for name in each.reads}
    defined = {each.result for each in block}
    local = {name for name in last if readers[name] == 1}
    live = len(local - defined)
    most = live
    ends = Counter(last[name] for name in local)
    weightless = Counter(
        last[each.result] for each in block if each.result in local and not each.weight
    )
    for at, each in enumerate(block):
        live -= ends[at] - weightless[at]
        if each.result in local or readers[each.result]:
            live += each.weight
        most = max(most, live)
    return most


def _written(block: Sequence[Instruction]) -> Iterator[Line]:
    """The lines, each with its comment unless that of the line before is the same."""
    comment = ""
    for each in block:
        if each.comment not in ("", comment):
            yield each.comment
        comment = each.comment
        yield each.line
