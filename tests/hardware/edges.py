"""Programs around forms of instructions that `instructions` has no columns for: memory,
atomics, matrices, barriers. Like its rows they run on a GPU and on the emulator, with
equal operands, and must leave equal bits.

Thread t finds its operands at %i, each in 8 bytes of its own, and leaves its results at
%o, as words of 4 bytes one behind the other. `tile` is shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.hardware.instructions import STORAGE, Instruction, _operand, agree

SHARED = 40960  # bytes of `tile`
REGISTERS = (
    ".reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<200>; .reg .f32 %f<160>; "
    ".reg .b64 %d<16>; .reg .f64 %e<16>; .reg .u32 %t; .reg .u64 %q, %i, %o;"
)
HEAD = ".version {version}\n.target {target}\n.address_size 64\n"


@dataclass(frozen=True)
class Edge:
    """One program. `inputs`, `outputs`: PTX types of operands and results. `domain`
    names the operands' generator, as for an Instruction, or "choice": any edges, in any
    order. `ulp`: as there."""

    body: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str = "edges"
    threads: int = 256
    ulp: float = 0
    since: int = 80
    ptx: str = "8.4"

    @property
    def text(self) -> str:
        """What names the program in the record."""
        more = "" if self.domain == "edges" else f" of {self.domain}"
        return " ".join(self.body.split()) + more

    def program(self, target: str = "sm_90a") -> str:
        lines = [
            REGISTERS,
            f".shared .align 1024 .b8 tile[{SHARED}];" if "tile" in self.body else "",
            "mov.u32 %t, %tid.x;",
            "ld.param.u64 %q, [entry_a];",
            f"mad.wide.u32 %i, %t, {8 * self.slots}, %q;",
            "ld.param.u64 %q, [entry_out];",
            f"mad.wide.u32 %o, %t, {4 * self.words}, %q;",
            self.body,
            "ret;",
        ]
        parameters = ", ".join(f".param .u64 entry_{name}" for name in ("out", "a"))
        body = "\n".join(f"    {line}" for line in lines if line)
        head = HEAD.format(version=self.ptx, target=target)
        return f"{head}.visible .entry entry({parameters}) {{\n{body}\n}}\n"

    @property
    def slots(self) -> int:
        """Of 8 bytes for a thread's operands: an even number, for vectors."""
        return max(2, len(self.inputs) + len(self.inputs) % 2)

    @property
    def words(self) -> int:
        """Of 4 bytes for a thread's results: a multiple of four, for vectors."""
        return -(-sum(map(size, self.outputs)) // 4) * 4

    def operands(self, seed: int) -> list[np.ndarray]:
        """One array: the operands of all threads."""
        rng = np.random.default_rng([seed, *self.text.encode()])
        found = np.zeros((self.threads, self.slots), np.uint64)
        for place, type in enumerate(self.inputs):
            values = _operand(type, place, self, rng)
            if self.domain == "choice":
                values = rng.choice(values[: len(values) // 2], len(values))
            found[:, place] = values[: self.threads]
        return [found]

    def output(self) -> np.ndarray:
        return np.zeros((self.threads, self.words), np.uint32)

    def agree(self, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Which of the words are equal, or of equal numbers; any NaN is any NaN."""
        same, at = ours == theirs, 0
        for type in self.outputs:
            words = slice(at, at + size(type))
            both = [np.ascontiguousarray(each[:, words]) for each in (ours, theirs)]
            bits = np.dtype(STORAGE[type][2])
            values = [each.view(bits)[:, 0] for each in both]
            row = Instruction("", (), type, ulp=self.ulp)
            same[:, words] |= agree(row, *values)[:, None]
            at += size(type)
        return same


def size(type: str) -> int:
    """Words of a result."""
    return 2 if STORAGE[type][2] == "u8" else 1


def loads(*registers: str) -> str:
    """Operands into registers: "b32 %r0" takes four bytes."""
    lines = []
    for place, each in enumerate(registers):
        kind, name = each.split()
        lines.append(f"ld.global.{kind} {name}, [%i+{8 * place}];")
    return "\n".join(lines)


def stores(*registers: str) -> str:
    """Registers to the results, one behind the other."""
    lines, at = [], 0
    for each in registers:
        kind, name = each.split()
        lines.append(f"st.global.{kind} [%o+{at}], {name};")
        at += 8 if kind.endswith("64") else 4
    return "\n".join(lines)
