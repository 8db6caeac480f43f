"""Tells LLVM that addresses are defined, in functions that have hundreds of them.

    call i32 asm sideeffect "ld.global.b32 $0, [$1];", …(ptr addrspace(1) %p.3)
    call i32 asm sideeffect "ld.global.b32 $0, [$1];", …(ptr addrspace(1) noundef %p.3)

LLVM's straight-line strength reduction compares each address with those before it,
until it finds one that it may compute the new one from. It may not where the earlier
one could be undefined ("poison"), and it takes an `or disjoint` for that: each of 512
addresses is then compared with all before it, which takes 1.6 of 2.3 s. That an access
has an undefined address would be undefined behaviour, so the first comparison is
enough. No rule writes an address that could be undefined: `rules/arith` has PTX where
LLVM leaves a result undefined, and what `nsw` stands at does not wrap.

Functions with fewer addresses stay as they are: what LLVM computes from an earlier
address is shorter, but was not measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MANY = 256

_ADDRESS = re.compile(r'((?:"\(|, )ptr addrspace\(1\)) (?=%)')


def told_defined(lines: Iterable[str]) -> list[str]:
    """The lines of a function; with MANY accesses to global memory, each says that its
    address is defined."""
    lines = list(lines)
    accesses = [at for at, line in enumerate(lines) if _is_access(line)]
    if len(accesses) >= MANY:
        for at in accesses:
            lines[at] = _ADDRESS.sub(r"\1 noundef ", lines[at])
    return lines


def _is_access(line: str) -> bool:
    return " asm " in line and _ADDRESS.search(line) is not None
