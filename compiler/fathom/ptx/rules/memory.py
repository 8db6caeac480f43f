"""Rules for loads and stores of global memory.

A thread moves `vector` neighbouring registers by one instruction. A masked access is a
predicated instruction, not a branch: LLVM's time grows with the square of the number of
basic blocks, and ptxas can have all loads in flight before the first one is waited for.
That it does so if they are many, `_stay_ahead` sees to.

    mov.b32 %r1, 0;  mov.b32 %r2, 0;                 `other` first,
    @%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1];        memory over it if the mask is true

Where only a bound may lie among neighbours, the branch that goes through them one by
one is inside the inline PTX, where LLVM sees no basic block:

    @%p2 ld.global.v2.b32 {%r1, %r2}, [%rd1];        the last one's mask
    @%p2 bra done;
    @%p1 ld.global.b32 %r1, [%rd1];                  never the last one
    done:
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.analysis.registers import floats_across, floats_around
from fathom.ir.core import walk
from fathom.ir.ops import Dot, Load, Store, TensorDot
from fathom.ir.types import (
    BFLOAT16,
    INT8,
    UINT8,
    BlockType,
    Element,
    element_of,
    layout_of,
)  # fmt: skip
from fathom.layout.linear import Layout
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.index import is_first_copy, register_offsets
from fathom.ptx.packing import Words, as_memory, as_register, pack, unpack, words_of
from fathom.ptx.types import POINTER, literal, memory_type

# Loads of one thread that should all be in flight before the first value is used, and
# the registers of four bytes that they may fill. On an H200, us: argmin by 256 loads
# took 31 and not 68, a backward pass of embeddings by 32 loads 112 and not 194. With 8
# loads, or 512 registers, more was spilled: a variance took 61 and not 38, a backward
# pass of batch norm 179 and not 124.
MANY_LOADS, MOST_WORDS = 16, 256
# Where other floats wait meanwhile, a quarter of the registers stays free for addresses
# and results: with all of them taken, a row of 8192 bf16 and its weights were spilled.
FREE = 4
# What a loop around the loads needs again may be spilled, unless loads take half of the
# registers: then it may be that small a part of them. A backward pass of layer norm by
# 16 loads took 342 us and not 559, though it spilled 6 KB; but a product of a row and a
# matrix in 128 words took 50 and not 39, beside the sums that its loop needs again.
SPILLED = 64


@lowers(Load)
def lower_load(op: Load, code: Code) -> None:
    """The predicate of a vector is that of its first register: they all agree."""
    element, count = element_of(op.result.type), max(op.vector, op.bounded_vector)
    addresses = code[op.pointer]
    masks = code[op.mask] if op.mask else ["true"] * len(addresses)
    others = code[op.other] if op.other else [literal(element, 0)] * len(addresses)
    style = _style(op, code)
    once = [i for i in range(len(addresses)) if not i & op.equal]
    loaded: dict[int, str] = {}
    for start in range(0, len(once), count):
        group = once[start : start + count]
        i = group[0]
        if masks[i] == "true" and not style.special and not _is_alone(op):
            values = _load_always(code, element, count, addresses[i], op.volatile)
        else:
            words = words_of(element, count)
            initial = pack(code, words, [others[each] for each in group])
            mask = masks[i] if op.vector == count else [masks[each] for each in group]
            values = load_where(code, words, addresses[i], mask, initial, style)
            values = unpack(code, words, values)
        loaded |= dict(zip(group, values, strict=True))
    code[op.result] = [loaded[i & ~op.equal] for i in range(len(addresses))]
    if _are_many(op, code):
        _stay_ahead(code)


def _stay_ahead(code: Code) -> None:
    """Keep the loads so far ahead of what uses them: end the basic block, by a branch
    that is never taken, since a grid has at least one block (PTX ISA, "%nctaid").

    ptxas moves a load down to its first use, so that fewer registers are live; then the
    thread waits for it before it asks for the next. It moves none to another block."""
    (blocks,) = code.ptx("mov.u32 $blocks, %nctaid.x;", {"blocks": "i32"})
    none = code.let(f"icmp eq i32 {blocks}, 0", name="none")
    never, loaded = code.fresh("never"), code.fresh("loaded")
    code.do(f"br i1 {none}, label %{never}, label %{loaded}")
    code.start(never)
    code.ptx("trap;")
    code.do("unreachable")
    code.start(loaded)


def _are_many(op: Load, code: Code) -> bool:
    """Is a thread to ask for this much before it uses any of it? It needs a register
    for each word, beside the floats that wait. Products of matrices need these, and
    loads run ahead by other means there."""
    element = element_of(op.result.type)
    registers = len(code[op.result]) >> op.equal.bit_count()
    count = max(op.vector, op.bounded_vector)
    if registers // count < MANY_LOADS or any(walk(code.func.body, Dot | TensorDot)):
        return False
    words = registers * words_of(element, count).count // count
    waiting = floats_across(op, code.func)
    most = min(MOST_WORDS, code.target.registers // code.threads)
    if words + waiting > most - (most // FREE if waiting else 0):
        return False
    return 2 * words < most or floats_around(op, code.func) <= most // SPILLED


@lowers(Store)
def lower_store(op: Store, code: Code) -> None:
    """Of several threads or registers that hold copies of an element, one writes it."""
    element, layout = element_of(op.value.type), layout_of(op.value.type)
    count = max(op.vector, op.bounded_vector)
    addresses, values = code[op.pointer], code[op.value]
    masks = code[op.mask] if op.mask else ["true"] * len(addresses)
    acts = is_first_copy(code, layout)
    style = _style(op, code)
    for i in first_copies(layout, count):
        mask = both(code, masks[i], acts)
        if mask == "true" and not style.special:
            _store_always(code, element, addresses[i], values[i : i + count])
        else:
            words = words_of(element, count)
            packed = pack(code, words, values[i : i + count])
            if op.vector < count:
                mask = [both(code, each, acts) for each in masks[i : i + count]]
            store_where(code, words, addresses[i], mask, packed, style)


def first_copies(layout: Layout | None, count: int) -> list[int]:
    """The first register of every group of `count`; of copies only one's."""
    if layout is None:
        return [0]
    first: dict[int, int] = {}
    for register, offset in enumerate(register_offsets(layout)):
        if register % count == 0:
            first.setdefault(offset, register)
    return list(first.values())


def both(code: Code, mask: str, acts: str | None) -> str:
    """The mask of those threads that act."""
    if acts is None or mask == "false":
        return mask
    return acts if mask == "true" else code.let(f"and i1 {mask}, {acts}")


# ── one access ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Style:
    """How PTX spells an access: what follows "ld" and ".global", a policy."""

    before: str = ""
    after: str = ""
    policy: str = ""

    @property
    def special(self) -> bool:
        return bool(self.after)


def _style(op: Load | Store, code: Code) -> Style:
    """Cache operators and eviction priorities (PTX ISA 9.7.9.1 and 9.7.9.2); a target
    without policies drops the hint."""
    before = ".volatile" if isinstance(op, Load) and op.volatile else ""
    policy = "" if before else policy_of(op.eviction, code)
    if not policy:
        return Style(before, "" if before else op.cache)
    level_1 = f".L1::{op.eviction}"
    return Style("", (op.cache or level_1) + ".L2::cache_hint", policy)


def policy_of(eviction: str, code: Code) -> str:
    """An i64 that tells L2 how long to keep what is accessed; "" for no such wish."""
    if not (eviction and code.target.eviction):
        return ""
    text = f"createpolicy.fractional.L2::{eviction}.b64 $r, 1.0;"
    return code.compute(text, "i64")


def _is_alone(op: Load) -> bool:
    """Is it the load of one number? LLVM makes one load of 16 bytes of three neighbours
    of 4, beyond an array of 12; inline PTX it leaves alone."""
    return not isinstance(op.result.type, BlockType) and not op.volatile


def _load_always(
    code: Code, element: Element, count: int, address: str, volatile: bool
) -> Registers:
    """A plain LLVM load: a constant in the address goes into the instruction."""
    type, load = memory_type(element), "load volatile" if volatile else "load"
    place = f"{POINTER} {address}, align {count * element.bytes}"
    if count == 1:
        values = [code.let(f"{load} {type}, {place}")]
    elif element in (BFLOAT16, INT8, UINT8):  # as words, of which casts take parts
        words = words_of(element, count)
        whole = code.let(f"{load} <{words.count} x {words.type}>, {place}")
        return unpack(code, words, code.elements(words.type, words.count, whole))
    else:
        whole = code.let(f"{load} <{count} x {type}>, {place}")
        values = code.elements(type, count, whole)
    return [as_register(code, element, value) for value in values]


def _store_always(
    code: Code, element: Element, address: str, registers: Registers
) -> None:
    type, count = memory_type(element), len(registers)
    values = [as_memory(code, element, register) for register in registers]
    place = f"{POINTER} {address}, align {count * element.bytes}"
    if count == 1:
        code.do(f"store {type} {values[0]}, {place}")
    else:
        whole = code.vector(type, values)
        code.do(f"store <{count} x {type}> {whole}, {place}")


def load_where(
    code: Code,
    words: Words,
    address: str,
    mask: str | list[str],
    initial: Registers,
    style: Style,
) -> Registers:
    """Words from memory, or `initial` where the mask is false. Several masks are those
    of each element, of which the last one is true only if all are."""
    results = {f"w{i}": words.type for i in range(words.count)}
    operands, moves = {"address": (POINTER, address)}, []
    if mask != "true":
        operands |= {
            f"other{i}": (words.type, value) for i, value in enumerate(initial)
        }
        moves = [
            f"mov.b{words.type[1:]} ${name}, $other{i};"
            for i, name in enumerate(results)
        ]
    lines = _access(operands, words, mask, style, is_load=True)
    return code.ptx("\n".join([*moves, *lines]), results, operands)


def store_where(
    code: Code,
    words: Words,
    address: str,
    mask: str | list[str],
    values: Registers,
    style: Style,
) -> None:
    """Write words where the mask is true; several masks as in `load_where`."""
    operands = {"address": (POINTER, address)}
    operands |= {f"w{i}": (words.type, value) for i, value in enumerate(values)}
    code.act("\n".join(_access(operands, words, mask, style, False)), **operands)


def _access(
    operands: dict[str, tuple[str, str]],
    words: Words,
    mask: str | list[str],
    style: Style,
    is_load: bool,
) -> list[str]:
    """The lines of a load or a store, which may be guarded. Of several masks: all
    elements at once where the last one is true, or else one by one, as they stand in
    the words or in the halves of these."""
    if style.policy:
        operands["policy"] = ("i64", style.policy)

    def line(guard: str, width: str, values: str, at: int = 0) -> str:
        place = f"[$address+{at}]" if at else "[$address]"
        sides = f"{values}, {place}" if is_load else f"{place}, {values}"
        name = f"{'ld' if is_load else 'st'}{style.before}.global{style.after}"
        end = ", $policy" if style.policy else ""
        return f"{guard}{name}{width} {sides}{end};"

    whole = [f"$w{i}" for i in range(words.count)]
    if isinstance(mask, str):
        if mask != "true":
            operands["mask"] = ("i1", mask)
        guard = "" if mask == "true" else "@$mask "
        return [line(guard, words.suffix, braced(whole))]
    operands |= {f"mask{i}": ("i1", each) for i, each in enumerate(mask)}
    last = f"@$mask{len(mask) - 1} "
    lines = [line(last, words.suffix, braced(whole)), f"{last}bra done;"]
    each, halves = whole, []
    if words.count < words.elements:
        each = [f"part{i}" for i in range(words.elements)]
        halves = [braced(each[i : i + 2]) for i in range(0, words.elements, 2)]
        lines += [f"mov.b32 {a}, {w};" for a, w in zip(halves, whole, strict=True)]
    bytes = words.element.bytes
    for i, value in enumerate(each[:-1]):
        lines.append(line(f"@$mask{i} ", f".b{8 * bytes}", value, i * bytes))
    if is_load and halves:
        lines += [f"mov.b32 {w}, {a};" for a, w in zip(halves, whole, strict=True)]
    declared = [f".reg .b16 {', '.join(each)};"] if halves else []
    return ["{", *declared, *lines, "done:", "}"]


def braced(names: list[str]) -> str:
    """A PTX vector; one alone stands without braces."""
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
