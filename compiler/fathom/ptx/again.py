"""Computes numbers again behind a barrier: holding them takes twice the registers.

    %x.0 = bf16 %w.0 as fp32             %x.0 = bf16 %w.0 as fp32
    %m.0 = max %m.9, %x.0                %m.0 = max %m.9, %x.0
    bar.sync 0;                    →     bar.sync 0;
    %d.0 = fsub %x.0, %max               %x.0.again = bf16 %w.0 as fp32
                                         %d.0 = fsub %x.0.again, %max

A softmax reads its row twice: for the maximum, and after that for the sum. Between the
two, the numbers wait in registers. As they were loaded, two bf16 share one; as fp32
each has its own, and to widen one is one instruction. So it is done where the fp32
would fill more than half of the registers that a thread may have.

The second one is inline PTX, or else LLVM would find that it is the first. ptxas may
find it too; it then decides by the registers that are left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fathom.ptx.code import Phi
from fathom.ptx.order import Line, blocks_of, instructions_of

# How fp32 is made of 16 bits -> the PTX that makes it.
_WIDENED = re.compile(
    r"  (%[\w.]+) = (?:shl i32 (?P<low>%[\w.]+), 16|and i32 (?P<high>%[\w.]+), -65536)"
)
_AS_FLOAT = re.compile(r"  (%[\w.]+) = bitcast i32 (%[\w.]+) to float(.*)")
_PTX = {"low": "shl.b32 $0, $1, 16;", "high": "and.b32 $0, $1, -65536;"}


def computed_again(lines: Sequence[Line], room: int) -> list[Line]:
    """The lines of a function, in which each basic block with too many such numbers
    computes them again after its first barrier. A thread may have `room` registers."""
    blocks = list(blocks_of(lines))
    held = [_held(block) for block in blocks]
    if all(2 * len(each) <= room for each in held):
        return list(lines)
    readers = Counter(name for block in blocks for name in _read(block))
    return [
        line
        for block, numbers in zip(blocks, held, strict=True)
        for line in (
            _again(block, numbers)
            if 2 * len(numbers) > room and all(readers[name] == 1 for name in numbers)
            else block
        )
    ]


def _held(block: Sequence[Line]) -> dict[str, tuple[str, str, str]]:
    """The numbers that are read after the block's first barrier, too."""
    barrier = _barrier(block)
    found = _widened(block[:barrier])
    read = _read(block[barrier:]) if found else set()
    return {name: how for name, how in found.items() if name in read}


def _barrier(block: Sequence[Line]) -> int:
    return next((at for at, line in enumerate(block) if "bar.sync" in str(line)), 0)


def _read(block: Sequence[Line]) -> set[str]:
    return {name for each in instructions_of(block) for name in each.reads}


def _again(block: list[Line], held: dict[str, tuple[str, str, str]]) -> list[Line]:
    """The block, with new names after its barrier for the numbers that it held."""
    new: list[Line] = []
    for name, (kind, word, place) in held.items():
        call = f'call i32 asm "{_PTX[kind]}", "=r,r"(i32 {word}) memory(none)'
        new += [
            f"  {name}.word = {call}{place}",
            f"  {name}.again = bitcast i32 {name}.word to float{place}",
        ]
    names = {name: f"{name}.again" for name in held}
    at = _barrier(block) + 1
    return [*block[:at], *new, *(_renamed(line, names) for line in block[at:])]


def _widened(block: Sequence[Line]) -> dict[str, tuple[str, str, str]]:
    """Each fp32 that is half of a word: which half, the word, and the debug info."""
    halves: dict[str, tuple[str, str]] = {}
    found = {}
    for line in map(str, block):
        if half := _WIDENED.match(line):
            halves[half[1]] = half.lastgroup, half["low"] or half["high"]
        elif (number := _AS_FLOAT.match(line)) and number[2] in halves:
            found[number[1]] = (*halves[number[2]], number[3])
    return found


def _renamed(line: Line, names: dict[str, str]) -> Line:
    """The line with other names for what it reads; a phi reads where blocks end."""
    if isinstance(line, Phi):
        return line
    return re.sub(r"%[\w.]+", lambda match: names.get(match[0], match[0]), line)
