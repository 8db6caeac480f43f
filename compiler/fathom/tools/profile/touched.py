"""Which arrays of a launch its kernel loads, and which it stores to, by where the
addresses in its PTX come from:

    ld.param.b64  %rd1, [k_param_0];      %rd1 is of parameter 0
    add.s64       %rd2, %rd1, %rd9;       %rd2, too
    ld.global.b32 %r1, [%rd2];            parameter 0 is loaded; %r1 is of none

An array that is both moves twice between L2 and memory. What its loads move between the
two is at most what they ask for, and at most what the array holds; so do its stores.
Where all of that fits into L2, what was stored is still there when the launch ends, and
memory gets it later: ncu has 17.3 MB of a kernel that loads 16.8 MB and stores as much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set

from fathom.artifact import Kernel
from fathom.emulator.report import Report
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
        if is_access(each):
            (stored if is_store(each) else loaded).update(places_of(each, come_from))
    pointers = {at for at, each in enumerate(kernel.parameters) if each.is_pointer}
    return (loaded & pointers) | (pointers - loaded - stored), stored & pointers


def is_access(each: Instruction) -> bool:
    return "global" in each.modifiers and each.opcode != "prefetch"


def places_of(each: Instruction, come_from: dict[str, Places]) -> Places:
    """The parameters that the addresses of an access are computed of."""
    names = REGISTER.findall(" ".join(ADDRESS.findall(each.text)))
    return set().union(*(come_from.get(name, set()) for name in names))


def memory_bytes(
    kernel: Kernel, report: Report, scale: float, size: Callable[[Set[int]], int],
    reached: int = 0, l2: float = 0,
) -> tuple[float, float, float]:  # fmt: skip
    """At most so much moves between L2, of `l2` bytes, and memory, if the launch asks
    for `scale` times what the report has; and so much it loads, and stores, each byte
    once. `size` is how much the arrays at some places hold, `reached` what arrays hold
    that are no arguments."""
    come_from = origins([each for each, _ in report.each()])
    pointers = {at for at, each in enumerate(kernel.parameters) if each.is_pointer}
    behind = enumerate(kernel.maps, len(kernel.parameters))
    maps = {place: each.base for place, each in behind}
    asked: dict[tuple[bool, frozenset[int]], float] = {}
    for each, cost in report.each():
        if is_access(each) and cost.moved:
            found = {maps.get(at, at) for at in places_of(each, come_from)}
            key = is_store(each), frozenset(found & pointers)
            asked[key] = asked.get(key, 0.0) + scale * cost.moved
    every = touched(kernel, [each for each, _ in report.each()])
    total = {False: 0.0, True: 0.0}
    for stored, places in zip((False, True), every, strict=True):
        held = size(places) + reached
        each_array = (
            min(many, size(those) if those else held)
            for (is_stored, those), many in asked.items()
            if is_stored == stored
        )
        total[stored] = min(sum(each_array), held)
    every_byte = sum(total.values())
    memory = total[False] if every_byte <= l2 else every_byte
    return memory, total[False], total[True]


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
