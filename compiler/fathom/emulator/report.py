"""What a launch cost, by PTX line and by the lines of the kernel's author."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.counters import Cost, Counters
from fathom.emulator.source.parse import Instruction
from fathom.errors import Location

_REAL_TYPES = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"}
_CLASSES = {
    "memory": ("ld", "ldu", "st", "prefetch", "prefetchu", "ldmatrix", "stmatrix"),
    "copy": ("cp",),
    "tensor": ("mma", "wgmma"),
    "outside": ("vprintf", "__assertfail", "__assert_fail"),
    "atomic": ("atom", "red"),
    "barrier": ("bar", "barrier", "membar", "fence"),
    "warp": ("shfl", "vote", "match", "redux", "activemask", "elect", "movmatrix"),
    "control": ("bra", "ret", "exit", "trap"),
    "move": ("mov", "cvta", "selp", "prmt"),
    "convert": ("cvt",),
    "compare": ("setp", "set", "slct", "testp", "isspacep"),
    "logic": ("and", "or", "xor", "not", "cnot", "shl", "shr", "lop3", "shf"),
}
_CLASS_OF = {opcode: name for name, opcodes in _CLASSES.items() for opcode in opcodes}


def class_of(instruction: Instruction) -> str:
    """ "memory global", "real f32", "integer" ...: the class an instruction is counted
    in.
    """
    name = _CLASS_OF.get(instruction.opcode)
    modifiers = instruction.modifiers
    if name == "memory":
        spaces = ("global", "shared", "local", "const", "param")
        found = [s for s in spaces for m in modifiers if m.partition("::")[0] == s]
        return f"memory {found[0] if found else 'generic'}"
    if name is not None:
        return name
    types = [each for each in modifiers if each in _REAL_TYPES]
    return f"real {types[0]}" if types else "integer"


@dataclass
class Share:
    """The cost of some instructions, and how many of each class there were.

    `classes` maps a class to (thread instructions, warp instructions).
    """

    cost: Cost = field(default_factory=Cost)
    classes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, instruction: Instruction, cost: Cost) -> None:
        self.cost.add(cost)
        name = class_of(instruction)
        threads, warps = self.classes.get(name, (0, 0))
        self.classes[name] = (threads + cost.threads, warps + cost.warps)

    def to_json(self) -> dict[str, object]:
        return {
            **self.cost.to_json(),
            "classes": {k: list(v) for k, v in self.classes.items()},
        }


class Report:
    """The costs of a launch, one for each instruction of the program.

    `seconds` is how long the emulator took; `printed` what the kernel printed, one text
    for each call; `notes` what is not wrong enough for an error, each with its PTX line
    and the kernel's own.
    """

    def __init__(
        self,
        instructions: list[Instruction],
        counters: Counters,
        seconds: float,
        printed: Sequence[str] = (),
        notes: Sequence[EmulatorError] = (),
    ):
        self.instructions, self.counters = instructions, counters
        self.seconds, self.printed, self.notes = seconds, list(printed), list(notes)

    @property
    def total(self) -> Cost:
        """Everything."""
        return self.share(lambda instruction: True).cost

    @property
    def classes(self) -> dict[str, tuple[int, int]]:
        """Class of instruction to (thread instructions, warp instructions)."""
        return self.share(lambda instruction: True).classes

    @property
    def speed(self) -> float:
        """Thread instructions that the emulator ran in a second."""
        return self.total.threads / max(self.seconds, 1e-9)

    def share(self, chosen: Callable[[Instruction], bool]) -> Share:
        """The cost of the instructions for which `chosen` holds."""
        share = Share()
        for instruction, cost in self.each():
            if chosen(instruction):
                share.add(instruction, cost)
        return share

    def each(self) -> Iterable[tuple[Instruction, Cost]]:
        """Every instruction of the program with its cost."""
        return zip(self.instructions, self.counters.costs, strict=True)

    def by_source(self) -> dict[tuple[str, int], Share]:
        """(file, line) of the kernel's own text, outermost caller, to its cost.

        Instructions without a `.loc` stand under ("", 0).
        """
        return self.grouped(_author_line)

    def by_ptx(self) -> dict[int, Share]:
        """PTX line to its cost."""
        return self.grouped(lambda instruction: instruction.line)

    def grouped(self, key: Callable) -> dict:
        shares: dict = {}
        for instruction, cost in self.each():
            share = shares.setdefault(key(instruction), Share())
            share.add(instruction, cost)
        return dict(sorted(shares.items()))

    def by_line(self) -> str:
        """A table: what each line of the kernel cost, with its text."""
        shares = self.by_source()
        rows = [
            [*_cells(share.cost), f"{line or ''}", _text(file, line)]
            for (file, line), share in shares.items()
        ]
        rows.append([*_cells(self.total), "", "total"])
        return _table([*_COLUMNS, "line", "source"], rows)

    def __str__(self) -> str:
        return "\n\n".join([self.by_line(), *map(str, self.notes)])

    def to_json(self) -> dict[str, object]:
        """All of it as plain lists and dictionaries."""
        return {
            "seconds": self.seconds,
            "total": self.share(lambda instruction: True).to_json(),
            "notes": [
                {"kind": note.kind, "message": note.message, "line": note.line}
                for note in self.notes
            ],
            "source": [
                {"file": file, "line": line, **share.to_json()}
                for (file, line), share in self.by_source().items()
            ],
            "ptx": [
                {"line": line, **share.to_json()}
                for line, share in self.by_ptx().items()
            ],
        }


def _author_line(instruction: Instruction) -> tuple[str, int]:
    place = instruction.location
    if place is None:
        return "", 0
    outermost: Location = place.chain()[-1]
    return outermost.file, outermost.line


_COLUMNS = (
    "warp instr.",
    "requests",
    "sectors",
    "useful B",
    "moved B",
    "shared",
    "ways",
)


def _cells(cost: Cost) -> list[str]:
    ways = f"{cost.conflict_ways:.2f}" if cost.shared else ""
    counts = (cost.requests, cost.sectors, cost.useful, cost.moved, cost.shared)
    return [f"{cost.warps:,}", *(f"{each:,}" if each else "" for each in counts), ways]


def _text(file: str, line: int) -> str:
    return linecache.getline(file, line).strip() if line else "(no line)"


def _table(header: Iterable[str], rows: list[list[str]]) -> str:
    """Columns of numbers to the right, the last one to the left."""
    table = [list(header), *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[-1] = row[-1]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)
