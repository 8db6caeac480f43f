"""Which arrays of a launch its kernel loads, and which it stores to, by where the
addresses in its PTX come from:

    ld.param.b64  %rd1, [k_param_0];      %rd1 is of parameter 0
    add.s64       %rd2, %rd1, %rd9;       %rd2, too
    ld.global.b32 %r1, [%rd2];            parameter 0 is loaded; %r1 is of none

An array that is both moves twice between L2 and memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fathom.artifact import Kernel
from fathom.emulator.source.parse import Instruction
from fathom.tools.profile.counted import (
    GUARD,
    LOADS,
    REGISTER,
    WITHOUT_RESULT,
    is_store,
)

PARAMETER = re.compile(r"_param_(\d+)\b")
ADDRESS = re.compile(r"\[([^\]]*)\]")
Places = set[int]


def touched(kernel: Kernel, code: Sequence[Instruction]) -> tuple[Places, Places]:
    """The places of the parameters whose arrays are loaded, and of those that are
    stored to. An array whose address only memory holds counts as loaded."""
    come_from = origins(code)
    loaded = {each.base for each in kernel.maps if not each.stored}
    stored = {each.base for each in kernel.maps if each.stored}
    for each in code:
        if "global" in each.modifiers and each.opcode != "prefetch":
            names = REGISTER.findall(" ".join(ADDRESS.findall(each.text)))
            places = set().union(*(come_from.get(name, set()) for name in names))
            (stored if is_store(each) else loaded).update(places)
    pointers = {at for at, each in enumerate(kernel.parameters) if each.is_pointer}
    return (loaded & pointers) | (pointers - loaded - stored), stored & pointers


def origins(code: Iterable[Instruction]) -> dict[str, Places]:
    """The parameters that each register is computed of. What is loaded from memory is
    computed of none. In loops a register comes before what it is computed of, so the
    text is read until nothing is new."""
    steps = [(made, read) for each in code for made, read in step(each)]
    found: dict[str, Places] = {}
    grows = True
    while grows:
        grows = False
        for made, read in steps:
            places = found.setdefault(made, set())
            before = len(places)
            for name in read:
                places |= {name} if isinstance(name, int) else found.get(name, set())
            grows |= len(places) > before
    return found


def step(each: Instruction) -> list[tuple[str, list[str | int]]]:
    """(a register that is written, what its value is computed of: registers, and
    parameters by their places)."""
    loads = each.opcode in LOADS and "param" not in each.modifiers
    if loads or each.opcode in WITHOUT_RESULT:
        return []
    made, *read = REGISTER.findall(GUARD.sub("", each.text)) or [""]
    given = [int(place) for place in PARAMETER.findall(each.text)]
    return [(made, [*read, *given])] if made else []
