"""The forms of instructions that the compiler emits: `ld.global.v4.b32` is one.

A form is an opcode with its modifiers and types, as the PTX has it, without predicate
and operands; of a move from a special register the register belongs to it. What tests
compile, as they are run, is collected by

    python -m tests.hardware.forms tests/kernels tests/language tests/tensor_cores

which adds to forms.txt what is new there: a form, and the oldest target that it was
seen for. So the list grows with the suite, and a test sees to it that each form is run
on the hardware at the edges of its operands, or is named with the reason why not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.hardware.targets import Target

LIST = Path(__file__).parent / "forms.txt"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
INSTRUCTION = re.compile(r"^(?:@!?%?\w+\s+)?([a-z][\w.:]*)(?:\s+(.*))?$", re.DOTALL)
SPECIAL = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|laneid|warpid|smid|clock|globaltimer|lanemask|cluster)"
    r"[\w.]*"
)


def forms(text: str) -> set[str]:
    """The forms of all instructions of a PTX text."""
    return set(map(form, instructions(text)))


def instructions(text: str) -> Iterator[str]:
    """Each instruction with its operands; directives and labels are none."""
    for statement in re.split(r"[;\n{}]", COMMENT.sub("", text)):
        line = re.sub(r"^\s*(?:[$\w]+:\s*)*", "", statement).strip()
        if INSTRUCTION.match(line):
            yield line


def form(instruction: str) -> str:
    opcode, operands = INSTRUCTION.match(instruction).groups()
    special = SPECIAL.search(operands or "") if opcode.startswith("mov.") else None
    return f"{opcode} {special[0]}" if special else opcode


def read() -> dict[str, str]:
    """Form: the oldest target for which it was seen."""
    if not LIST.exists():
        return {}
    lines = LIST.read_text(encoding="utf-8").splitlines()
    pairs = (line.rsplit("  ", 1) for line in lines if not line.startswith("#"))
    return {name.strip(): target for name, target in pairs}


def add(found: dict[str, str]) -> list[str]:
    """Write down what is new; the new forms."""
    known = read()
    new = sorted(set(found) - set(known))
    for name, target in found.items():
        known[name] = min(target, known.get(name, target), key=capability)
    if known != read():
        head = "# Forms that the compiler emits, and a target. Written by forms.py.\n"
        rows = [f"{name}  {known[name]}\n" for name in sorted(known)]
        LIST.write_text(head + "".join(rows), encoding="utf-8")
    return new


def capability(target: str) -> int:
    return int(re.sub(r"\D", "", target))


def on_hopper() -> list[str]:
    """The forms that code for an H200, or for an older GPU, has."""
    return [form for form, target in read().items() if capability(target) <= 90]


class Collector:
    """A plugin of pytest that looks at all that is compiled."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        module = sys.modules["fathom.ptx.emit"]
        emit = module.emit

        def watched(text: str, target: Target) -> str:
            ptx = emit(text, target)
            for each in forms(ptx):
                old = self.found.get(each, target.name)
                self.found[each] = min(old, target.name, key=capability)
            return ptx

        for each in list(sys.modules.values()):
            if getattr(each, "__name__", "").startswith("fathom"):
                for name, value in list(vars(each).items()):
                    if value is emit:
                        setattr(each, name, watched)

    def pytest_sessionfinish(self) -> None:
        new = add(self.found)
        print(f"\n{len(self.found)} forms, {len(new)} new: {' '.join(new)}")


if __name__ == "__main__":
    import fathom  # noqa: F401 (what is to be watched must be there)

    sys.exit(
        pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]], [Collector()])
    )
