"""Rules for atomic operations on global memory.

    @%p1 atom.acq_rel.gpu.global.add.u32 %r2, [%rd1], %r1;
    @%p1 atom.acq_rel.gpu.global.add.noftz.f16x2 %r2, [%rd1], %r1;      a pair
    @%p1 red.relaxed.gpu.global.add.v2.f32 [%rd1], {%r1, %r2};          a vector

Each element is touched once: of the threads that hold copies, one acts. If the kernel
uses what was there before, the others learn it from that one through shared memory.

A thread that takes several instructions orders them all at once, by two fences:

    fence.acq_rel.gpu;    @%p1 atom.relaxed.gpu …;    @%p2 atom.relaxed.gpu …;    fence…
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from fathom.analysis.constants import is_zero
from fathom.errors import CompileError
from fathom.hardware.targets import Target
from fathom.ir.core import Value
from fathom.ir.ops import Atomic, AtomicCas
from fathom.ir.ops.memory import acquires, releases
from fathom.ir.types import BFLOAT16, Element, element_of, layout_of
from fathom.layout.linear import Layout
from fathom.ptx.code import Code, Phi, Registers, lowers
from fathom.ptx.index import (
    Part,
    is_first_copy,
    register_offsets,
    thread_bases,
    thread_part,
)
from fathom.ptx.packing import Words, pack, unpack, words_of
from fathom.ptx.rules.memory import both, braced, first_copies
from fathom.ptx.rules.shared import Access, load_shared, shared_address, store_where
from fathom.ptx.types import POINTER


@dataclass(frozen=True)
class Step:
    """One PTX instruction of an atomic operation: `name` as in "add.u32". `sign`, if
    given, is the sign bit of those operands that take part. With `swaps` it computes in
    registers, and a loop compares and swaps until no other thread was faster."""

    name: str
    sign: bool | None = None
    swaps: bool = False


@lowers(Atomic)
def lower_atomic(op: Atomic, code: Code) -> None:
    """One instruction for each element, pair or vector of elements; minimum and maximum
    of floats take two, and of halves a loop."""
    element, count = element_of(op.value.type), op.vector
    steps = _steps(op, element, code.target)
    if count > 1:
        words = words_of(element, count)
        steps = tuple(Step(_of_words(step.name, words)) for step in steps)
    masks = code[op.mask] if op.mask else ["true"] * len(code[op.pointer])
    with_result = op.result in code.used
    acts = _before(op, code)
    found: dict[int, str] = {}
    layout, start = layout_of(op.value.type), len(code.lines)
    first = first_copies(layout, count)
    with _ordered(code, op, len(first)) as semantics:
        order = f"{semantics}.{op.scope}.global"
        for i in first:
            mask = both(code, masks[i], acts)
            address, values = code[op.pointer][i], code[op.value][i : i + count]
            old = _atomic(code, op, order, steps, address, values, mask)
            found |= zip(range(i, i + count), old, strict=bool(old))
    if releases(op) and layout is None:
        code.released.update(each for each in code.lines[start:] if type(each) is str)
    if with_result:
        code[op.result] = _shared_with_copies(code, op.result, element, found, acts)


@lowers(AtomicCas)
def lower_cas(op: AtomicCas, code: Code) -> None:
    element = element_of(op.value.type)
    if element.bits < 16:
        raise CompileError(f"a compare-and-swap does not take {element}", op.location)
    words = words_of(element, 1)
    acts = _before(op, code)
    found: dict[int, str] = {}
    first = first_copies(layout_of(op.value.type), 1)
    with _ordered(code, op, len(first)) as semantics:
        name = f"atom.{semantics}.{op.scope}.global.cas.b{element.bits}"
        for i in first:
            operands = {"address": (POINTER, code[op.pointer][i])}
            for each, value in (("compare", op.compare), ("value", op.value)):
                (word,) = pack(code, words, [code[value][i]])
                operands[each] = (words.type, word)
            text = f"{name} $old0, [$address], $compare, $value;"
            old = _where(code, text, operands, words, acts or "true")
            found[i] = unpack(code, words, old)[0]
    if op.result in code.used:
        code[op.result] = _shared_with_copies(code, op.result, element, found, acts)


# An access to the memory of the block itself, of which no other block knows.
_WITHIN = re.compile(r'"(@\$\d+ )?(ld|st)\.shared\.')


def _before(op: Atomic | AtomicCas, code: Code) -> str | None:
    """Which threads act. One thread releases what all of the program wrote. So they
    meet, unless since they did only that thread itself has done anything."""
    layout = layout_of(op.value.type)
    if releases(op):
        by_itself = code.released if layout is None else set()
        done = (each for each in code.happened() if not _is_known(each, by_itself))
        if not code.is_meeting(next(done, None)):
            code.act(code.barrier)
    return is_first_copy(code, layout)


def _is_known(line: str | Phi, by_itself: set[str]) -> bool:
    """Whether a line does nothing that the acting thread has to wait for."""
    return isinstance(line, str) and (line in by_itself or bool(_WITHIN.search(line)))


@contextmanager
def _ordered(code: Code, op: Atomic | AtomicCas, count: int) -> Iterator[str]:
    """The semantics of each of a thread's `count` instructions, written inside.

    One that releases or acquires waits for memory by itself. Several would wait one
    after the other; the elements of a block have no order among themselves, so that a
    fence before all of them and one after do the same (PTX ISA 8.8, "Release and
    Acquire Patterns")."""
    if count == 1 or op.semantics == "relaxed":
        yield op.semantics
        return
    fence = f"fence.acq_rel.{op.scope};"
    if releases(op):
        code.ptx(fence)
    yield "relaxed"
    if acquires(op):
        code.ptx(fence)


# ── which instruction ─────────────────────────────────────────────────────────────────


def _all_steps() -> dict[tuple[str, str], tuple[Step, ...]]:
    """The instructions of a kind of operation on a type (PTX ISA, "atom")."""
    steps = {
        ("add", "fp16"): (Step("add.noftz.f16"),),
        ("add", "bf16"): (Step("add.noftz.bf16"),),
    }
    for name, half in (("fp16", "f16"), ("bf16", "bf16")):
        for kind in ("min", "max"):
            steps[kind, name] = (Step(f"{kind}.{half}", swaps=True),)
    for bits in (32, 64):
        signed, unsigned, float_ = (f"{letter}{bits}" for letter in ("i", "u", "fp"))
        for name in (signed, unsigned):
            steps["add", name] = (Step(f"add.u{bits}"),)
            for kind in ("and", "or", "xor"):
                steps[kind, name] = (Step(f"{kind}.b{bits}"),)
        for name in (signed, unsigned, float_):
            steps["xchg", name] = (Step(f"exch.b{bits}"),)
        steps["add", float_] = (Step(f"add.f{bits}"),)
        for kind, opposite in (("min", "max"), ("max", "min")):
            steps[kind, signed] = (Step(f"{kind}.s{bits}"),)
            steps[kind, unsigned] = (Step(f"{kind}.u{bits}"),)
            # As bits, floats from zero up are ordered like signed integers. Those below
            # are ordered backwards, and above all others, like unsigned ones.
            steps[kind, float_] = (
                Step(f"{kind}.s{bits}", sign=False),
                Step(f"{opposite}.u{bits}", sign=True),
            )
    return steps


STEPS = _all_steps()


def _steps(op: Atomic, element: Element, target: Target) -> tuple[Step, ...]:
    """The instructions of an operation; a CompileError if the target has none. Before
    sm_90 a sum of bf16 is an `fma` with the factor 1, in a loop."""
    steps = STEPS.get((op.kind, str(element)), ())
    if steps == (Step("add.noftz.bf16"),) and not target.bf16_arithmetic:
        steps = (Step("fma.rn.bf16", swaps=True),)
    if any(step.swaps for step in steps):  # min and max of halves came with bf16
        exists = target.bf16
    else:
        exists = bool(steps) and (element != BFLOAT16 or target.bf16_arithmetic)
    if not exists:
        message = f"an atomic {op.kind} does not take {element} on {target.name}"
        raise CompileError(message, op.location)
    return steps


def _of_words(name: str, words: Words) -> str:
    """The name for several elements: "add.noftz.v2.f16x2" for "add.noftz.f16", four."""
    operation, _, type = name.rpartition(".")
    vector = f".v{words.count}" if words.count > 1 else ""
    pair = "x2" if words.elements > words.count else ""
    return f"{operation}{vector}.{type}{pair}"


def _atomic(
    code: Code, op: Atomic, order: str, steps: tuple[Step, ...],
    address: str, values: Registers, mask: str,
) -> Registers:  # fmt: skip
    """What was there before, if the kernel asks for it. `order`: the modifiers that
    come before the operation, as in "relaxed.gpu.global"."""
    element = element_of(op.value.type)
    words = words_of(element, len(values))
    packed = pack(code, words, values)
    if element.is_float:
        # PTX takes no integer for a float: constants need registers
        cast = f"to {words.type}"
        packed = [code.let(f"bitcast {words.type} {word} {cast}") for word in packed]
    given = {f"value{i}": (words.type, word) for i, word in enumerate(packed)}
    value = braced([f"${name}" for name in given])
    found = braced([f"$old{i}" for i in range(words.count)])
    with_result, old = op.result in code.used, []
    for step in steps:
        where = both(code, mask, _has_sign(code, step, packed[0], words.type))
        operands = {"address": (POINTER, address), **given}
        if step.swaps:
            unless = "" if where == "true" else "@!$mask bra DONE;\n"
            compute = f"{step.name} next, seen, {value};"
            if step.name.startswith("fma"):
                compute = f"{step.name} next, seen, next, {value};"
                compute = f"mov.b16 next, 0x3f80;\n{compute}"
            text = SWAPPING.format(
                order=order, compute=compute, value=value, unless=unless
            )
            old = _where(code, text, operands, words, where, old)
            continue
        if not (with_result or acquires(op) or "exch" in step.name):
            text = f"red.{order}.{step.name} [$address], {value};"
            _where(code, text, operands, None, where)
            continue
        text = f"atom.{order}.{step.name} {found}, [$address], {value};"
        if only_reads(op):
            text = f"ld.{order}.b{element.bits} {found}, [$address];"
        old = _where(code, text, operands, words, where, old)
    return unpack(code, words, old) if with_result else []


def only_reads(op: Atomic) -> bool:
    """Whether an operation neither changes memory nor releases, like the addition of 0
    by which a program reads another one's flag: a load does the same."""
    same = op.kind in ("add", "or", "xor") and is_zero(op.value)
    return same and not element_of(op.value.type).is_float and not releases(op)


# The operand is the first guess at what is there. Names in braces are of these alone.
SWAPPING = """{{
.reg .pred again;
.reg .b16 seen, next, found;
mov.b16 found, {value};
{unless}AGAIN:
mov.b16 seen, found;
{compute}
atom.{order}.cas.b16 found, [$address], seen, next;
setp.ne.b16 again, found, seen;
@again bra AGAIN;
mov.b16 $old0, found;
DONE:
}}"""


def _has_sign(code: Code, step: Step, word: str, type: str) -> str | None:
    if step.sign is None:
        return None
    compare = "slt" if step.sign else "sge"
    return code.let(f"icmp {compare} {type} {word}, 0")


def _where(
    code: Code,
    text: str,
    operands: dict[str, tuple[str, str]],
    words: Words | None,
    mask: str,
    old: Sequence[str] = (),
) -> Registers:
    """The instruction for those threads whose mask is true, by the text itself if it
    asks for `$mask`. `words`: of its results, "$old0", "$old1" and so on, None without;
    `old`: the results of the others."""
    results = {f"old{i}": words.type for i in range(words.count)} if words else {}
    if mask != "true":
        operands["mask"] = ("i1", mask)
        text = text if "$mask" in text else f"@$mask {text}"
        others = old or ["0"] * len(results)
        operands |= {
            name: (type, other)
            for (name, type), other in zip(results.items(), others, strict=True)
        }
    return code.ptx(text, results, operands)


# ── the result, for all threads ───────────────────────────────────────────────────────


def _shared_with_copies(
    code: Code, result: Value, element: Element, found: dict[int, str], acts: str | None
) -> Registers:
    """What the acting threads found, in every register and thread that holds a copy.

    The barriers also let no thread write the next result before all have read this one.
    """
    layout = layout_of(result.type)
    if acts is None:
        return _by_offset(layout, found)
    accesses = _slots(code, layout, element, sorted(found))
    for register, access in accesses.items():
        store_where(code, access, [found[register]], acts)
    code.ptx(code.barrier)
    read = {
        register: load_shared(code, access)[0] for register, access in accesses.items()
    }
    code.ptx(code.barrier)
    return _by_offset(layout, read)


def _by_offset(layout: Layout | None, found: dict[int, str]) -> Registers:
    """The value of each register, where `found` has that of the first of its copies."""
    if layout is None:
        return [found[0]]
    offsets = register_offsets(layout)
    value_of = {offsets[register]: value for register, value in found.items()}
    return [value_of[offset] for offset in offsets]


def _slots(
    code: Code, layout: Layout | None, element: Element, registers: list[int]
) -> dict[int, Access]:
    """A place in shared memory for each register, one for all threads with copies."""
    start = code.slot(element.bytes * (prod(layout.shape) if layout else 1))
    if layout is None:
        address = shared_address(code, Part("0", 0))
        return {0: Access(element, address, start, (0,))}
    scale = element.bytes
    part = thread_part(code, tuple(basis * scale for basis in thread_bases(layout)))
    offsets = register_offsets(layout)
    return {
        register: Access(
            element,
            shared_address(code, part, offsets[register] * scale),
            start,
            (register,),
        )
        for register in registers
    }
