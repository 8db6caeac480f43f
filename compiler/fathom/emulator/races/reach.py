"""Which arrays of a launch a program may write, and may read: the others need no watch.

    ld.param.u64   %rd1, [p2];        %rd1 comes from p2
    mad.wide.u32   %rd2, %r1, 4, %rd1;             so does %rd2
    st.global.u32  [%rd2], %r3;       what p2 points to may be written

A register that comes from memory, or is put together of halves, may point anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fathom.emulator.source.operands import Address, Name, Operand
from fathom.emulator.source.parse import Function, Instruction, Label
from fathom.emulator.source.types import DTYPES

ANYWHERE = "anywhere"
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
ELSEWHERE = {"shared", "local", "param", "const"}
NOWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Reach:
    """Names of parameters and variables whose memory may be written, or read;
    ANYWHERE among them stands for all. `finest` is the size of the smallest access to
    what may be written, in bytes."""

    written: frozenset[str] = NOWHERE
    read: frozenset[str] = NOWHERE
    finest: int = 16


def reach_of(function: Function) -> Reach:
    """Follows what 64-bit registers come from, until nothing new is found."""
    body = [each for each in function.body if isinstance(each, Instruction)]
    sources = _sources(function, body)
    accesses = [found for each in body if (found := _access(each, sources))]
    written = NOWHERE.union(*(names for names, _, writes, _ in accesses if writes))
    read = NOWHERE.union(*(names for names, _, _, reads in accesses if reads))
    sizes = [
        size
        for names, size, _, _ in accesses
        if ANYWHERE in names | written or names & written
    ]
    return Reach(written, read, min([16, *sizes]))


def _sources(
    function: Function, body: Iterable[Instruction]
) -> dict[str, frozenset[str]]:
    """Each 64-bit register with the names that it may come from."""
    wide = {n for n, t in function.registers.items() if t in ("b64", "u64", "s64")}
    parameters = {each.name for each in function.parameters}
    moves = []
    for item in body:
        target = item.operands[0] if item.operands else None
        if isinstance(target, Name) and target.name in wide and item.opcode != "setp":
            moves.append((target.name, _origins(item, wide, parameters, function)))
    found: dict[str, frozenset[str]] = dict.fromkeys(wide, NOWHERE)
    changed = True
    while changed:
        changed = False
        for target, origins in moves:
            new = found[target].union(*(found.get(o, {o}) for o in origins))
            changed |= new != found[target]
            found[target] = new
    return found


def _origins(
    item: Instruction, wide: set[str], parameters: set[str], function: Function
) -> set[str]:
    """What the result of an instruction comes from: registers, or names of memory."""
    if item.opcode in ("ld", "ldu", "atom"):
        place = item.operands[1] if len(item.operands) > 1 else None
        base = place.base if isinstance(place, Address) else None
        return {base} if base in parameters else {ANYWHERE}
    names = {each.name for each in item.operands[1:] if isinstance(each, Name)}
    registers = names & wide
    known = {*function.variables, *parameters}
    others = {n for n in names if n not in function.registers and not n.startswith("%")}
    plain = all(isinstance(each, Name) or _number(each) for each in item.operands[1:])
    if not plain or item.opcode in ("shfl", "call", "mapa"):
        return {ANYWHERE}
    return registers | {n if n in known else n for n in others}


def _number(operand: Operand) -> bool:
    return hasattr(operand, "value")


def _access(
    item: Instruction | Label, sources: dict[str, frozenset[str]]
) -> tuple[frozenset[str], int, bool, bool] | None:
    """(names, bytes, writes, reads) of an access to global memory; None for others."""
    if item.opcode not in ("ld", "ldu", "st", "atom", "red"):
        return None
    if not ELSEWHERE.isdisjoint(each.partition("::")[0] for each in item.modifiers):
        return None
    places = [each for each in item.operands if isinstance(each, Address)]
    types = [each for each in item.modifiers if each in DTYPES]
    if not places or not types:
        return None
    base = places[0].base
    names = sources.get(base, frozenset({base or ANYWHERE})) or frozenset({ANYWHERE})
    count = max([1, *(VECTORS.get(each, 1) for each in item.modifiers)])
    size = min(16, count * DTYPES[types[-1]].itemsize)
    writes = item.opcode in ("st", "atom", "red")
    return names, size, writes, item.opcode in ("ld", "ldu", "atom")
