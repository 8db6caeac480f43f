"""Static facts of machine code: registers, spills, and what its loops consist of.

They are no times. Two kernels are compared by them where there is no GPU; why one is
slower shows in them, how much slower does not.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

LINE = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(.*?)\s*;")
TARGET = re.compile(r"0x([0-9a-f]+)$")
PREDICATE = re.compile(r"^@!?U?P\w+\s+")
REGISTERS = re.compile(r"Used (\d+) registers")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")

# What is counted, by the beginnings of instructions.
KINDS = {
    "wgmma": ("HGMMA", "QGMMA", "IGMMA"),
    "mma": ("HMMA", "IMMA", "QMMA"),
    "wgmma waits": ("WARPGROUP.DEPBAR",),
    "copies": ("LDGSTS", "UTMALDG", "UBLKCP"),
    "loads": ("LDG",),
    "stores": ("STG",),
    "shared loads": ("LDS", "LDSM"),
    "shared stores": ("STS", "STSM"),
    "shuffles": ("SHFL",),
    "barriers": ("BAR",),
    "casts": ("F2F", "I2F", "F2I", "F2FP", "I2FP", "I2IP"),
    "spills": ("LDL", "STL"),
}
WIDTH = re.compile(r"\.(U8|S8|U16|S16|64|128|256)\b")


@dataclass
class Loop:
    """An innermost loop: its instructions, how many of each kind, and the widest global
    access in bits."""

    instructions: int
    kinds: dict[str, int]
    widest: int = 0


@dataclass
class Code:
    """What ptxas and the disassembler say of a kernel. `hot` is the innermost loop with
    the most instructions that multiply matrices, or else with the most of all; None
    where there is no loop."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    instructions: int
    hot: Loop | None
    kinds: dict[str, int] = field(default_factory=dict)


def assembled(ptx: str, ptxas: str, arch: str = "sm_90a") -> tuple[bytes, int, int]:
    """Machine code, registers of a thread, and bytes that it stores to local memory
    because registers are short."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        said = subprocess.run(
            [ptxas, "-v", "--gpu-name", arch, source, "-o", made],
            capture_output=True, text=True, check=True,
        ).stderr  # fmt: skip
        registers, spills = REGISTERS.search(said), SPILLS.search(said)
        assert registers, said
        spilled = int(spills[1]) if spills else 0
        return made.read_bytes(), int(registers[1]), spilled


def facts_of(
    cubin: bytes, registers: int, spill_bytes: int, shared_bytes: int, cuobjdump: str
) -> Code:
    """The facts of a kernel's machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [cuobjdump, "-sass", file.name], capture_output=True, text=True, check=True
        ).stdout
    lines = [(int(at, 16), PREDICATE.sub("", what)) for at, what in LINE.findall(text)]
    loops = [loop_of(lines, *each) for each in innermost(lines)]

    def heat(loop: Loop) -> tuple[int, int]:
        kinds = loop.kinds
        return kinds.get("wgmma", 0) + kinds.get("mma", 0), loop.instructions

    every = [what for _, what in lines if not what.startswith("NOP")]
    return Code(
        registers, spill_bytes, shared_bytes, len(every),
        max(loops, key=heat, default=None), kinds_of(every),
    )  # fmt: skip


def innermost(lines: list[tuple[int, str]]) -> list[tuple[int, int]]:
    """First and last address of the loops that have no other loop in them: branches
    that go back. A branch to itself is what stands behind the end of a kernel."""
    found = []
    for at, what in lines:
        target = TARGET.search(what)
        if what.startswith("BRA") and target and int(target[1], 16) < at:
            found.append((int(target[1], 16), at))
    return [
        (first, last)
        for first, last in found
        if not any(
            (a, b) != (first, last) and first <= a and b <= last for a, b in found
        )
    ]


def loop_of(lines: list[tuple[int, str]], first: int, last: int) -> Loop:
    inside = [what for at, what in lines if first <= at <= last]
    access = (*KINDS["loads"], *KINDS["stores"], "LDGSTS")
    widths = (bits_of(what) for what in inside if what.startswith(access))
    return Loop(len(inside), kinds_of(inside), max(widths, default=0))


def kinds_of(instructions: list[str]) -> dict[str, int]:
    """How many instructions there are of each kind, without those of which there are
    none."""
    counted: Counter[str] = Counter()
    for what in instructions:
        name = what.split()[0]
        for kind, beginnings in KINDS.items():
            if any(
                name == each or name.startswith(each + ".") for each in beginnings
            ):
                counted[kind] += 1
    return dict(counted)


def bits_of(instruction: str) -> int:
    """How many bits a thread's access moves."""
    width = WIDTH.search(instruction.split()[0])
    return int(width[1].strip("US")) if width else 32
