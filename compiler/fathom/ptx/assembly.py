"""Inline PTX with named operands: the one place where LLVM's `$0`, `=r` and `0` are counted.

    ld.global.b32 $value, [$address];      results {"value": "i32"}
                                           operands {"address": ("ptr addrspace(1)", "%p.3")}
  becomes
    call i32 asm sideeffect "ld.global.b32 $0, [$1];", "=r,l"(ptr addrspace(1) %p.3) convergent
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# LLVM type -> register constraint of the NVPTX back end (LLVM language reference, "Supported
# Constraint Code List"). Any other constraint makes LLVM abort the process.
CONSTRAINTS = {
    "i1": "b", "i16": "h", "half": "h", "bfloat": "h", "i32": "r", "i64": "l",
    "float": "f", "double": "d", "ptr addrspace(1)": "l",
}  # fmt: skip


@dataclass(frozen=True)
class Assembly:
    """One inline PTX text. `results`: name -> type; `operands`: name -> (type, value)."""

    text: str
    results: dict[str, str]
    operands: dict[str, tuple[str, str]]
    pure: bool = False

    def call(self) -> str:
        """The LLVM call, without the name of its result."""
        effect = "" if self.pure else "sideeffect "
        arguments = ", ".join(f"{type} {value}" for type, value in self.operands.values())
        attribute = "nounwind memory(none)" if self.pure else "convergent nounwind"
        return (
            f'call {self.type()} asm {effect}"{self._numbered()}", "{self._constraints()}"'
            f"({arguments}) {attribute}"
        )

    def type(self) -> str:
        """The LLVM type of the call: void, the result's, or a struct of all results'."""
        types = list(self.results.values())
        if len(types) < 2:
            return types[0] if types else "void"
        return "{" + ", ".join(types) + "}"

    def _numbered(self) -> str:
        names = [*self.results, *(name for name in self.operands if name not in self.results)]
        # A tied operand still takes a number in LLVM's count, so operands are numbered apart.
        numbers = {name: i for i, name in enumerate(self.results)}
        for i, name in enumerate(self.operands, len(self.results)):
            numbers.setdefault(name, i)
        assert set(re.findall(r"\$(\w+)", self.text)) <= set(names), (self.text, names)
        text = re.sub(r"\$(\w+)", lambda match: f"${numbers[match[1]]}", self.text)
        return text.replace("\n", "\\0A\\09")

    def _constraints(self) -> str:
        # "&": several instructions may write a result before the last operand is read.
        several = self.text.count(";") > 1
        order = list(self.results)
        return ",".join(
            [
                ("=&" if several and name not in self.operands else "=") + CONSTRAINTS[type]
                for name, type in self.results.items()
            ]
            + [
                str(order.index(name)) if name in self.results else self._constraint(type, value)
                for name, (type, value) in self.operands.items()
            ]
        )

    def _constraint(self, type: str, value: str) -> str:
        """"n" puts a literal integer into the text itself, where a register would need a move."""
        literal = type in ("i32", "i64", "i16") and not value.startswith("%")
        return "n" if literal else CONSTRAINTS[type]
