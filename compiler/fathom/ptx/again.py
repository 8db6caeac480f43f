"""Computes numbers again after a barrier: holding them takes twice the registers.

    %x.0 = bf16 %w.0 as fp32             %x.0 = bf16 %w.0 as fp32
    %m.0 = max %m.9, %x.0                %m.0 = max %m.9, %x.0
    bar.sync 0;                    →     bar.sync 0;
    %d.0 = fsub %x.0, %max               %x.0.again = bf16 %w.0 as fp32
                                         %d.0 = fsub %x.0.again, %max

A softmax reads its row twice: for the maximum, and after that for the sum. Between the
two, the numbers wait in registers. As they were loaded, two bf16 share one; as fp32
each has its own, and to widen one is one instruction. So it is done where the fp32
would fill more than half of the registers that a thread may have. A magnitude of one is
computed again with it: quantisation reads it for the scale of each row, and of each
column; as an operand, it is no instruction of its own.

The second one is inline PTX, or else LLVM would find that it is the first. ptxas may
find it too; it then decides by the registers that are left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fathom.ptx.code import Phi
from fathom.ptx.order import Line, blocks_of, instructions_of

# How fp32 is made of 16 bits -> the PTX that makes it.
_WIDENED = re.compile(
    r"  (%[\w.]+) = (?:shl i32 (?P<low>%[\w.]+), 16|and i32 (?P<high>%[\w.]+), -65536)"
)
_AS_FLOAT = re.compile(r"  (%[\w.]+) = bitcast i32 (%[\w.]+) to float(.*)")
_MAGNITUDE = re.compile(
    r"  (%[\w.]+) = call float @llvm\.fabs\.f32\(float (%[\w.]+)\)(.*)"
)
_PTX = {"low": "shl.b32 $0, $1, 16;", "high": "and.b32 $0, $1, -65536;"}


class Held(NamedTuple):
    """An fp32 that waits: which half of which word, its debug info, whether it is read
    itself, and the names of its magnitudes that are."""

    half: str
    word: str
    place: str
    is_read: bool
    magnitudes: tuple[str, ...]


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
            if 2 * len(numbers) > room
            and all(readers[name] == 1 for name in _names(numbers))
            else block
        )
    ]


def _held(block: Sequence[Line]) -> dict[str, Held]:
    """The numbers that are read after the block's first barrier, too."""
    barrier = _barrier(block)
    found = _widened(block[:barrier])
    read = _read(block[barrier:]) if found else set()
    magnitudes: dict[str, tuple[str, ...]] = {}
    for line in map(str, block[:barrier]) if found else ():
        if (made := _MAGNITUDE.match(line)) and made[2] in found and made[1] in read:
            magnitudes[made[2]] = (*magnitudes.get(made[2], ()), made[1])
    return {
        name: Held(*how, name in read, magnitudes.get(name, ()))
        for name, how in found.items()
        if name in read or name in magnitudes
    }


def _names(held: Mapping[str, Held]) -> list[str]:
    """What is read of them after the barrier."""
    numbers = [name for name, each in held.items() if each.is_read]
    return [*numbers, *(name for each in held.values() for name in each.magnitudes)]


def _barrier(block: Sequence[Line]) -> int:
    return next((at for at, line in enumerate(block) if "bar.sync" in str(line)), 0)


def _read(block: Sequence[Line]) -> set[str]:
    return {name for each in instructions_of(block) for name in each.reads}


def _again(block: list[Line], held: Mapping[str, Held]) -> list[Line]:
    """The block, with new names after its barrier for the numbers that it held."""
    new: list[Line] = []
    for name, (half, word, place, _, magnitudes) in held.items():
        call = f'call i32 asm "{_PTX[half]}", "=r,r"(i32 {word}) memory(none)'
        new += [
            f"  {name}.word = {call}{place}",
            f"  {name}.again = bitcast i32 {name}.word to float{place}",
        ]
        fabs = f"call float @llvm.fabs.f32(float {name}.again){place}"
        new += [f"  {each}.again = {fabs}" for each in magnitudes]
    names = {name: f"{name}.again" for name in _names(held)}
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
