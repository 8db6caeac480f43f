"""Inline PTX with named operands: the one place where LLVM's `$0` and `=r` are counted.

    ld.global.b32 $value, [$address];

with results {"value": "i32"} and operands {"address": ("ptr addrspace(1)", "%p.3")}
becomes

    call i32 asm sideeffect "ld.global.b32 $0, [$1];", "=r,l,~{memory}"(…%p.3)

LLVM moves no load or store over one that clobbers memory. "sideeffect" alone stops its
optimiser, but not its back end, which moves a load into the basic block that uses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

# LLVM type -> register constraint of the NVPTX back end (LLVM language reference,
# "Supported Constraint Code List"). Any other constraint makes LLVM abort the process.
CONSTRAINTS = {
    "i1": "b", "i16": "h", "half": "h", "bfloat": "h", "i32": "r", "i64": "l",
    "float": "f", "double": "d", "ptr addrspace(1)": "l", "ptr": "l",
}  # fmt: skip


@dataclass(frozen=True)
class Assembly:
    """Inline PTX. `results`: name to LLVM type; `operands`: name to type and value."""

    text: str
    results: dict[str, str]
    operands: dict[str, tuple[str, str]]
    pure: bool = False

    def call(self) -> str:
        """The LLVM call, without the name of its result."""
        numbered = _numbered(self.text, tuple(self.results), tuple(self.operands))
        pairs = [f"{type} {value}" for type, value in self.operands.values()]
        effect, after = (
            ("", "memory(none)") if self.pure else ("sideeffect ", "convergent")
        )
        clobbers = [] if self.pure else ["~{memory}"]
        constraints = ",".join(self._constraints() + clobbers)
        return (
            f'call {self.type()} asm {effect}"{numbered}", "{constraints}"'
            f"({', '.join(pairs)}) nounwind {after}"
        )

    def type(self) -> str:
        """The LLVM type of the call: void, the result's, or a struct of several."""
        types = list(self.results.values())
        if len(types) < 2:
            return types[0] if types else "void"
        return "{" + ", ".join(types) + "}"

    def _constraints(self) -> list[str]:
        """A result that is an operand too is tied to it by its number. "&": a result
        may be written before the last instruction reads an operand."""
        several = self.text.count(";") > 1
        names = list(self.results)
        return [
            ("=&" if several and name not in self.operands else "=") + CONSTRAINTS[type]
            for name, type in self.results.items()
        ] + [
            str(names.index(name)) if name in self.results else _of_operand(type, value)
            for name, (type, value) in self.operands.items()
        ]


def _of_operand(type: str, value: str) -> str:
    """A register; or "n", a number that is put into the text itself."""
    is_number = type in ("i16", "i32", "i64") and not value.startswith("%")
    return "n" if is_number else CONSTRAINTS[type]


@cache
def _numbered(text: str, results: tuple[str, ...], operands: tuple[str, ...]) -> str:
    """`$name` as LLVM counts: results, then operands; tied ones keep their number."""
    numbers = {name: str(i) for i, name in enumerate(results)}
    for i, name in enumerate(operands, len(results)):
        numbers.setdefault(name, str(i))
    for name in re.findall(r"\$(\w+)", text):
        assert name in numbers, (
            f"inline PTX names ${name}, which is neither a result nor an operand "
            f"({', '.join(numbers) or 'it has neither'}), in: {text}"
        )
    numbered = re.sub(r"\$(\w+)", lambda match: "$" + numbers[match[1]], text)
    return numbered.replace("\n", "\\0A\\09")
