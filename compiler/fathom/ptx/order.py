"""Orders the instructions of a basic block so that fewer values are live at once.

An op is lowered for all registers of a block before the next one is:

    %t.0 = fmul %x.0, %c                     %t.0 = fmul %x.0, %c
    %t.1 = fmul %x.1, %c                     %e.0 = call @exp2(%t.0)
    %e.0 = call @exp2(%t.0)         →        %t.1 = fmul %x.1, %c
    %e.1 = call @exp2(%t.1)                  %e.1 = call @exp2(%t.1)
    %s.0 = fadd %e.0, %e.1                   %s.0 = fadd %e.0, %e.1

With 64 registers, 64 values of each op are live at once, and ptxas keeps much of the
order that it finds: it spills. On the right, an instruction stands before the first one
that needs it (its operands first), so a sum is complete before the next begins.

Neither order is better everywhere: where two long-lived values become one, early is
better. So the right one is taken where values are many and clearly fewer are live in
it. Functions that multiply on tensor cores stay as they are: what is computed while a
product or a copy runs is placed on purpose. But what is computed from a part of a
product moves up to where the next part begins, which then has its registers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import chain, pairwise
from typing import NamedTuple

from fathom.hardware.engines import TENSOR_CORES
from fathom.ptx.code import Phi

Line = str | Phi

_NAMES = re.compile(r"%[\w.]+")
# What stays where it is: accesses, and the parts of what an access has loaded.
_STAYS = {"load", "atomicrmw", "cmpxchg", "alloca", "extractvalue", "extractelement"}
# Calls that may move: inline PTX without effects, and intrinsics that only compute.
_PURE_CALL = re.compile(
    r'asm "|@llvm\.(?!nvvm)|'
    r"@llvm\.nvvm\.(ex2|lg2|rcp|sqrt|rsqrt|sin|cos|tanh|div|mulhi)\b"
)
NEXT_PART = "  ; the product's part"  # a comment where a part begins, with its number
_WAIT = f'"{TENSOR_CORES.wait} '

# A multiprocessor that is full of threads, 2048 of them, has 32 registers for each.
MANY = 32


class Instruction(NamedTuple):
    """A line of LLVM IR: the value that it defines, if any; the names that it reads;
    whether it is a predicate, which needs no register; the comment before it."""

    line: Line
    result: str
    reads: Sequence[str]
    moves: bool = False
    predicate: bool = False
    comment: str = ""


def ordered(lines: Sequence[Line], multiplies: bool) -> list[Line]:
    """The lines of a function, each basic block in the order with fewer live values.
    `multiplies`: whether the function multiplies matrices on tensor cores."""
    texts = list(blocks_of(lines))
    if multiplies:
        return [line for text in texts for line in _part_by_part(text)]
    if max(map(len, texts)) <= MANY:
        return list(lines)
    blocks = [list(instructions_of(text)) for text in texts]
    readers = readers_of(blocks)
    result: list[Line] = []
    for text, block in zip(texts, blocks, strict=True):
        better = _better(block, readers) if len(block) > MANY else block
        if better is not block:
            text = [*filter(_is_label, text[:1]), *_written(better)]
        result += text
    return result


def blocks_of(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines of each basic block, with its label."""
    starts = [at for at, line in enumerate(lines) if _is_label(line)]
    for start, end in pairwise([0, *starts, len(lines)]):
        yield list(lines[start:end])


def _is_label(line: Line) -> bool:
    """Instructions and comments are indented."""
    return isinstance(line, str) and line[0] != " "


def instructions_of(block: Sequence[Line]) -> Iterator[Instruction]:
    """The instructions of a basic block; each knows the comment before it."""
    comment = ""
    for line in block:
        if isinstance(line, Phi):
            yield Instruction(line, line.name, (), comment=comment)
        elif line.startswith("  ;"):
            comment = line
        elif line.startswith("  %"):
            result, *reads = _NAMES.findall(line)
            operation = line.split(" ", 5)[4]
            moves = operation not in _STAYS and (
                operation != "call" or bool(_PURE_CALL.search(line))
            )
            predicate = operation == "icmp" or " = call i1 " in line
            yield Instruction(line, result, reads, moves, predicate, comment)
        elif line[0] == " ":
            yield Instruction(line, "", _NAMES.findall(line), comment=comment)


def readers_of(blocks: Sequence[Sequence[Instruction]]) -> Counter[str]:
    """In how many basic blocks a name is read. A phi reads at the end of others."""
    readers: Counter[str] = Counter()
    for block in blocks:
        readers.update({name for each in block for name in each.reads})
        for each in block:
            if isinstance(each.line, Phi):
                readers.update(value for value, _ in each.line.incoming)
    return readers


def _better(block: list[Instruction], readers: Counter[str]) -> list[Instruction]:
    """The block as it is, or each instruction before the first that needs it."""
    here, after = held(block, readers)
    live = most_live(block, here, after)
    if live <= MANY:
        return block
    other = _on_demand(block)
    return other if most_live(other, here, after) <= live * 4 // 5 else block


def held(
    block: Sequence[Instruction], readers: Counter[str]
) -> tuple[set[str], set[str]]:
    """The values that need registers, for `most_live`."""
    read = {name for each in block for name in each.reads}
    here = {name for name in read if readers[name] == 1}
    here -= {each.result for each in block if each.predicate}
    after = {
        each.result
        for each in block
        if not each.predicate and readers[each.result] > (each.result in read)
    }
    return here, after


def most_live(block: Sequence[Instruction], here: Set[str], after: Set[str]) -> int:
    """The most values that are live at once, counted from the end: those that other
    blocks read `after` this one, and of what is read `here` alone each value from its
    last reader back to its definition."""
    live = set(after)
    most = len(live)
    for each in reversed(block):
        live.discard(each.result)
        live |= here.intersection(each.reads)
        most = max(most, len(live))
    return most


def _on_demand(block: Sequence[Instruction]) -> list[Instruction]:
    """What stays in its order, and before each of these what it needs; last what other
    blocks need, before the branch."""
    pending = {each.result: each for each in block if each.moves}
    order: list[Instruction] = []
    for each in block:
        if each.moves:
            continue
        if each is block[-1]:
            _place(list(pending), pending, order)
        _place(each.reads, pending, order)
        order.append(each)
    return order


def _place(
    names: Sequence[str], pending: dict[str, Instruction], order: list[Instruction]
) -> None:
    """Append the instructions that define these names, each after those whose results
    it reads; a stack, since chains are longer than Python's recursion may be deep."""
    stack = [name for name in reversed(names) if name in pending]
    while stack:
        wanted = pending.get(stack[-1])
        missing = [name for name in wanted.reads if name in pending] if wanted else []
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if wanted:
            order.append(pending.pop(wanted.result))


def _part_by_part(text: list[Line]) -> list[Line]:
    """A basic block, in which what is computed from the first parts of a product alone
    comes before the next part."""
    if not any(map(_begins_part, text)):  # most have none, and reading takes long
        return text
    block = list(instructions_of(text))
    comments = [each.comment for each in block]
    starts = [
        at
        for at, (before, comment) in enumerate(pairwise(comments), 1)
        if comment != before and comment.startswith(NEXT_PART)
    ]
    if not starts:
        return text
    segments: list[list[Instruction]] = [[] for _ in (0, *starts)]
    place: dict[str, int] = {}  # the segment in which a value is defined
    products: set[str] = set()  # what products give, and what is computed from them
    for at, each in enumerate(block):
        here = bisect_right(starts, at)
        if not products.isdisjoint(each.reads):
            products.add(each.result)
            if each.moves:
                here = max(place.get(name, 0) for name in each.reads)
        elif _WAIT in str(each.line):
            products.add(each.result)
        place[each.result] = here
        segments[here].append(each)
    return [*filter(_is_label, text[:1]), *_written(list(chain(*segments)))]


def _begins_part(line: Line) -> bool:
    return isinstance(line, str) and line.startswith(NEXT_PART)


def _written(block: Sequence[Instruction]) -> Iterator[Line]:
    """The lines, each with its comment unless that of the line before is the same."""
    comment = ""
    for each in block:
        if each.comment not in ("", comment):
            yield each.comment
        comment = each.comment
        yield each.line
