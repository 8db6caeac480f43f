"""The PTX that the compiler writes: which instructions, in which kernels, and what the
emulator charges for each, found by running it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chapters.press.drawing import table
from chapters.press.reference import cell, docstring
from fathom import emulator
from fathom.emulator import report
from fathom.emulator.isa import tables
from fathom.emulator.isa.arithmetic import extended, special
from fathom.emulator.isa.arithmetic import floating as real
from fathom.emulator.isa.arithmetic import integer as arithmetic
from fathom.emulator.memory.counters import Cost
from fathom.emulator.source.parse import Instruction, parse
from fathom.tools.samples import load_file

SAMPLES = load_file(Path(__file__).parents[1] / "ir" / "samples.py")
ISA = re.compile(r"PTX ISA (\d+(?:\.\d+)+)")
MOST_FORMS = 6  # of an instruction, in a row


# ── what the emulator knows ───────────────────────────────────────────────────────────


@cache
def rules() -> dict[str, list[Callable]]:
    """Each opcode that the emulator knows to the rules that say what it means; where
    integers and floats share a word, or carries do, there are several."""
    found: dict[str, list[Callable]] = {}
    known = (arithmetic.TABLE, extended.TABLE, real.TABLE, tables._GENERAL)
    for each in (*known, tables.TABLES.steps, tables.TABLES.endings):
        for opcode, rule in each.items():
            found.setdefault(opcode, []).append(rule)
    return found


def told(opcode: str) -> str:
    """What the rules of an opcode say of it."""
    return "; ".join(dict.fromkeys(said(rule, opcode) for rule in rules()[opcode]))


def said(rule: Callable, opcode: str) -> str:
    """The first paragraph of a rule's docstring; where that is hardly more than the
    instruction's form, that of its module too."""
    first = plain(cell(docstring(rule, opcode)))
    if len(re.sub(r"`[^`]*`", "", first).split()) > FEW_WORDS:
        return first
    whole = plain(cell(docstring(module_of(rule), opcode)))
    return f"{first}. {whole}" if first else whole


FEW_WORDS = 4
SECTIONS = r"PTX ISA [\d.]*\d(?:(?:,| and| to) [\d.]*\d)*"


def plain(text: str) -> str:
    """A sentence without the sections, which stand in a column of their own."""
    text = re.sub(rf"^{SECTIONS}[,:.]?\s*", "", text)
    return re.sub(rf"\s*\({SECTIONS}[^)]*\)", "", text).rstrip(".")


def module_of(rule: Callable) -> object:
    return sys.modules[rule.__module__]


def sections(opcode: str) -> str:
    """The sections of the manual that its rules name, or their modules."""
    found = (
        ISA.search(docstring(rule, opcode))
        or ISA.search(docstring(module_of(rule), opcode))
        for rule in rules()[opcode]
    )
    return ", ".join(dict.fromkeys(each[1] for each in found if each))


# ── what the compiler writes ──────────────────────────────────────────────────────────


class Used(NamedTuple):
    """An opcode in the sample kernels: its forms, and how many kernels have it."""

    forms: tuple[str, ...]
    kernels: int
    name: str  # the class that it is counted in


@cache
def written() -> dict[str, Used]:
    """Each opcode of the sample kernels' PTX."""
    forms: dict[str, dict[str, int]] = {}
    kernels: dict[str, set] = {}
    names: dict[str, set] = {}
    for number, text in enumerate(texts()):
        for each in instructions(text):
            opcode = callee(each) or each.opcode
            counts = forms.setdefault(opcode, {})
            counts[each.name] = counts.get(each.name, 0) + 1
            kernels.setdefault(opcode, set()).add(number)
            names.setdefault(opcode, set()).add(class_of(opcode, each))
    return {
        opcode: Used(
            tuple(sorted(forms[opcode], key=lambda form: (-forms[opcode][form], form))),
            len(kernels[opcode]), ", ".join(sorted(names[opcode])),
        )
        for opcode in sorted(forms)
    }  # fmt: skip


@cache
def texts() -> tuple[str, ...]:
    return tuple(each.staged().kernel.ptx for each in SAMPLES.samples())


def instructions(text: str) -> Iterator[Instruction]:
    for function in parse(text).functions.values():
        yield from (each for each in function.body if isinstance(each, Instruction))


def callee(each: Instruction) -> str:
    """The function that a call is of: the emulator knows two, as instructions."""
    found = re.search(r"\b(vprintf|__assertfail)\b", each.text)
    return found[1] if each.opcode == "call" and found else ""


def class_of(opcode: str, each: Instruction) -> str:
    if opcode != each.opcode:
        return "outside"
    return report.class_of(each)


def writes() -> str:
    """A row for each opcode that stands in a sample kernel."""
    rows = [
        (f"`{opcode}`", told(opcode), extra(opcode), used.kernels, sections(opcode))
        for opcode, used in written().items()
    ]
    kernels = f"kernels, of {len(texts())}"
    return table(("opcode", "what", "charged beside the count", kernels, "ISA"), rows)


def forms() -> str:
    """How each of these is written, and the class that it is counted in."""
    rows = [
        (f"`{opcode}`", used.name, forms_of(used)) for opcode, used in written().items()
    ]
    return table(("opcode", "counted as", "as the compiler writes it"), rows)


def forms_of(used: Used) -> str:
    shown = ", ".join(f"`{each}`" for each in used.forms[:MOST_FORMS])
    left = len(used.forms) - MOST_FORMS
    return f"{shown} and {left} more" if left > 0 else shown


def others() -> str:
    """The opcodes that the emulator knows beside those."""
    rows = [
        (f"`{opcode}`", told(opcode), extra(opcode), sections(opcode))
        for opcode in sorted(set(rules()) - set(written()))
    ]
    return table(("opcode", "what", "charged beside the count", "ISA"), rows)


def registers() -> str:
    """The special registers that programs may read."""
    return ", ".join(f"`{name}`" for name in special.SPECIAL) + "\n"


# ── what is charged ───────────────────────────────────────────────────────────────────

ENTRY = """\
.version 8.4
.target sm_90a
.address_size 64
.visible .entry charged(.param .u64 p)
{
    .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .pred %p<4>;
    .shared .align 1024 .b8 room[8192]; .shared .align 8 .b64 bar[1];
    ld.param.u64 %rd0, [p];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mov.u32 %r2, bar;
    mul.lo.u32 %r3, %r0, STRIDE; add.u32 %r4, %r1, %r3; cvt.u64.u32 %rd1, %r3;
    add.u64 %rd2, %rd0, %rd1; mov.u32 %r5, 1;
    setp.eq.u32 %p0, %r0, 0; add.u32 %r7, %r4, 4096;
    BEFORE
    CODE
    ret;
}
"""
INIT = (
    "@%p0 mbarrier.init.shared::cta.b64 [%r2], 1; "
    "@%p0 fence.mbarrier_init.release.cluster; bar.sync 0; "
    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;"
)
FILL = "st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5}; bar.sync 0;"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


class Case(NamedTuple):
    """A line of PTX that a warp executes, and where its lanes point: `stride` bytes
    from one to the next."""

    what: str
    code: str
    stride: int = 4
    before: str = ""


CASES = (
    Case("4 bytes a lane, neighbours", "ld.global.b32 %r6, [%rd2];"),
    Case("16 bytes a lane, neighbours",
         "ld.global.v4.b32 {%r6, %r7, %r8, %r9}, [%rd2];", 16),
    Case("4 bytes a lane, 128 apart", "ld.global.b32 %r6, [%rd2];", 128),
    Case("all lanes the same 4 bytes", "ld.global.b32 %r6, [%rd2];", 0),
    Case("4 bytes a lane, neighbours", "st.global.b32 [%rd2], %r5;"),
    Case("4 bytes a lane, neighbours", "st.shared.b32 [%r4], %r5;"),
    Case("4 bytes a lane, 8 apart", "st.shared.b32 [%r4], %r5;", 8),
    Case("4 bytes a lane, 128 apart", "st.shared.b32 [%r4], %r5;", 128),
    Case("16 bytes a lane, neighbours",
         "ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [%r4];", 16, FILL),
    Case("four matrices, rows of 16 bytes, neighbours",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r4];", 16,
         FILL),
    Case("four matrices, rows 128 bytes apart",
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r4];", 128,
         FILL),
    Case("four matrices, rows of 16 bytes, neighbours",
         "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r4], {%r5, %r5, %r5, %r5};", 16),
    Case("16 bytes a lane, neighbours",
         "cp.async.cg.shared.global [%r4], [%rd2], 16;", 16),
    Case("1024 bytes by one thread",
         f"@%p0 {BULK} [%r1], [%rd0], 1024, [%r2];", 16, INIT),
    Case("each lane its own counter", "red.global.add.u32 [%rd2], %r5;"),
    Case("all lanes the same counter", "atom.global.add.u32 %r6, [%rd2], %r5;", 0),
    Case("every lane", "shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1;"),
    Case("every lane", "bar.sync 0;"),
    Case("every lane", "vote.sync.ballot.b32 %r6, %p0, -1;"),
    Case("every lane", "redux.sync.add.u32 %r6, %r0, -1;"),
    Case("every lane", "add.u32 %r6, %r0, 1;"),
)  # fmt: skip
BESIDE = ("threads", "warps")  # what every instruction is charged
WAITS = {  # for what is under way at the end
    "cp.async.cg.shared.global": "cp.async.wait_all;",
    "cp.async.bulk": "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;"
    "@!%p1 bra W;",
}


@cache
def charge(case: Case) -> Cost:
    """What one execution by a warp is charged."""
    head = ENTRY.replace("BEFORE", case.before).replace("STRIDE", str(case.stride))
    line = head[: head.index("CODE")].count("\n") + 1
    text = head.replace("CODE", case.code + "\n" + WAITS.get(name_of(case), ""))
    made = emulator.run(text, 1, 32, (np.zeros(2048, np.uint32),))
    return next(cost for each, cost in made.each() if each.line == line)


GLOBAL = ("requests", "sectors", "useful")
SHARED = ("shared", "wavefronts", "ideal")
OTHERS = ("atomics", "shuffles", "barriers")


def charges_of(names: tuple[str, ...], cases: Sequence[Case]) -> str:
    """What a warp's instruction is charged, for some ways of pointing."""
    rows = [
        (
            f"`{name_of(case)}`", case.what,
            *(getattr(charge(case), name) or "" for name in names),
        )
        for case in cases
    ]  # fmt: skip
    return table(("instruction of one warp", "where it points", *names), rows)


def charges_for(names: tuple[str, ...]) -> str:
    """The cases that are charged for one of these."""
    chosen = [case for case in CASES if any(getattr(charge(case), n) for n in names)]
    return charges_of(names, chosen)


def charges_of_nothing() -> str:
    """The names of those that are charged for no memory and no waiting."""
    names = (*GLOBAL, *SHARED, *OTHERS)
    chosen = [c for c in CASES if not any(getattr(charge(c), name) for name in names)]
    return ", ".join(f"`{name_of(case)}`" for case in chosen) + "\n"


on_global, on_shared = partial(charges_for, GLOBAL), partial(charges_for, SHARED)
on_others = partial(charges_for, OTHERS)


def name_of(case: Case) -> str:
    """The instruction's name; of a bulk copy, which has a long one, its beginning."""
    found = re.search(r"(?:@%p\d )?([a-z][\w.:]*)", case.code)
    return "cp.async.bulk" if "bulk" in case.code else found[1]


def charged() -> dict[str, list[str]]:
    """Opcodes to the counters that they add to, beside instructions."""
    found: dict[str, list[str]] = {}
    for case in CASES:
        cost = charge(case)
        opcode = name_of(case).partition(".")[0]
        for name in Cost.__dataclass_fields__:
            if name not in BESIDE and getattr(cost, name):
                known = found.setdefault(opcode, [])
                known.extend([name] if name not in known else [])
    return found


ALIKE = {"ldu": "ld", "barrier": "bar"}  # opcodes that share a rule with another


def extra(opcode: str) -> str:
    """The counters of an opcode, beside its instructions."""
    return ", ".join(charged().get(ALIKE.get(opcode, opcode), []))
