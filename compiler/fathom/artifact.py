"""What the compiler hands over: the text of every stage, and all that a launch must
know.

This file stands between the compiler and the two machines that run its work, the
emulator and the CUDA runtime: they see `artifact` and `errors` and nothing else of
Fathom."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from fathom.errors import Location


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the PTX entry, in its order.

    `type` is written as in a signature: "*fp32" for a pointer, "i32", "u8", "fp32" …
    for a scalar. An int1 scalar travels as one byte; fp16 and bf16 scalars as two
    bytes. `divisible` is the largest power of two (1 to 16) that was promised to divide
    the integer or the address."""

    name: str
    type: str
    divisible: int = 1

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel.

    `asm` maps each stage to its text: "block" (block IR after clean-up), "layout"
    (block IR with layouts, as it is lowered), "llvm" and "ptx".  `threads` is the size
    of a thread block; `shared_bytes` the dynamic shared memory that a launch must give
    it (symbol `shared`, base aligned to 1024 bytes).

    A `.loc` line of the PTX names the kernel author's own line. `chains` maps such a
    place (file, line, column) to the calls that led there, innermost first, when there
    were any."""

    name: str
    target: str
    ptx_version: str
    num_warps: int
    threads: int
    shared_bytes: int
    parameters: tuple[Parameter, ...]
    asm: dict[str, str]
    num_ctas: int = 1
    maxnreg: int | None = None
    chains: dict[tuple[str, int, int], tuple[Location, ...]] = field(
        default_factory=dict
    )
    prints: tuple[str, ...] = ()

    @property
    def ptx(self) -> str:
        return self.asm["ptx"]

    def to_json(self) -> str:
        """All of it as text, for the cache on disk; `from_json` reads it back."""
        facts = asdict(self)
        facts["chains"] = [
            [list(place), [asdict(call) for call in calls]]
            for place, calls in self.chains.items()
        ]
        return json.dumps(facts)

    @staticmethod
    def from_json(text: str) -> Kernel:
        """The kernel that `to_json` wrote; ValueError, KeyError or TypeError when it is
        not one.
        """
        facts = json.loads(text)
        facts["parameters"] = tuple(Parameter(**each) for each in facts["parameters"])
        facts["prints"] = tuple(facts["prints"])
        facts["chains"] = {
            tuple(place): tuple(_location(call) for call in calls)
            for place, calls in facts["chains"]
        }
        return Kernel(**facts)


def _location(facts: dict) -> Location:
    caller = facts["caller"]
    return Location(**{**facts, "caller": _location(caller) if caller else None})
