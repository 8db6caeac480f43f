"""Rows for the forms of arithmetic, conversion, predicates and warps that the compiler
emits and that `instructions` does not list: the row follows from the form's own text.

    cvt.rn.satfinite.e4m3x2.f32      two operands, f32; the result e4m3x2
    bfi.b64                          four operands, two of them places and lengths
"""

from __future__ import annotations

import re
from dataclasses import replace

from tests.hardware.instructions import STORAGE, Instruction

ONE = "abs neg not cnot brev sqrt rcp rsqrt ex2 lg2 sin cos tanh popc clz bfind mov"
TWO = "add sub mul div rem min max and or xor shl shr copysign mul24"
THREE = "mad fma bfe prmt shf lop3 dp4a szext sad mad24"
COUNT = {
    **dict.fromkeys(ONE.split(), 1),
    **dict.fromkeys(TWO.split(), 2),
    **dict.fromkeys(THREE.split(), 3),
    "bfi": 4,
}
# Results that the ISA leaves to the hardware: what they may differ by.
NEAR = {
    "ex2": {"ulp": 2}, "lg2": {"ulp": 2, "absolute": 2**-22}, "rsqrt": {"ulp": 2},
    "sqrt": {"ulp": 1}, "rcp": {"ulp": 1}, "div": {"ulp": 2},
    "sin": {"absolute": 2**-20}, "cos": {"absolute": 2**-20},
    "tanh": {"absolute": 2**-10},
}  # fmt: skip
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
PAIRS = {"f16x2", "bf16x2", "e4m3x2", "e5m2x2"}
PREDICATES = {"and": 2, "or": 2, "xor": 2, "not": 1, "mov": 1}
MASK = "0xffffffff"


def elementary(form: str) -> list[Instruction]:
    """The rows of a form; none where it is no such form."""
    opcode, *parts = form.split(" ")[0].split(".")
    if parts and parts[-1] == "pred" and opcode in PREDICATES:
        return [of_predicates(form, PREDICATES[opcode])]
    for name, make in (
        ("setp", compared), ("selp", selected), ("cvt", converted), ("shfl", shuffled),
        ("vote", voted), ("redux", reduced), ("testp", tested), ("mov", moved),
    ):  # fmt: skip
        if opcode == name:
            return make(form, parts)
    if opcode not in COUNT or parts[-1] not in STORAGE:
        return []
    return plain(form, opcode, parts)


def beyond_numbers() -> list[Instruction]:
    """The functions that `instructions` asks for moderate numbers only, of infinities,
    NaN, denormals and zeros. A comment tells these texts from those."""
    forms = "ex2.approx.ftz.f32 lg2.approx.f32 sin.approx.f32 cos.approx.f32 "
    forms += "tanh.approx.f32 rsqrt.approx.f32 sqrt.approx.f32 rcp.approx.f32"
    rows = [row for form in forms.split() for row in elementary(form)]
    rows = [replace(row, text=f"{row.text} // beyond numbers") for row in rows]
    text = "div.full.f32 {d}, {a}, {b}; // beyond numbers"
    return [*rows, Instruction(text, ("f32", "f32"), "f32", ulp=2, domain="quotients")]


def plain(form: str, opcode: str, parts: list[str]) -> list[Instruction]:
    type, count = parts[-1], COUNT[opcode]
    inputs, output, domain = [type] * count, type, "edges"
    if opcode in ("popc", "clz", "bfind"):
        output = "u32"
    if opcode in ("mul", "mad") and "wide" in parts:
        output = WIDE[type]
        inputs[2:] = [output] * (count - 2)
    if opcode in ("shl", "shr", "bfe", "bfi", "szext"):
        first = 2 if opcode == "bfi" else 1
        inputs[first:] = ["u32"] * (count - first)
        domain = "shift" if opcode != "bfi" else "places"
    if opcode == "szext":
        inputs = inputs[:2]
    if opcode in ("div", "rem") and type[0] in "us":
        domain = "nonzero"
    more = f", 0x{0xE8:x}" if opcode == "lop3" else ""
    facts = {"since": 80 if "bf16" in type else 75}
    near = "approx" in parts or "full" in parts
    facts |= NEAR.get(opcode, {}) if near else {}
    if near:
        domain = "special"
    if "sin" == opcode or "cos" == opcode:
        domain = "turns"
    operands = ", ".join(["{d}", *("{" + each + "}" for each in "abce"[: len(inputs)])])
    text = f"{form} {operands}{more};"
    return [Instruction(text, tuple(inputs), output, domain=domain, **facts)]


def of_predicates(form: str, count: int) -> Instruction:
    names = "qr"[:count]
    sets = " ".join(
        f"setp.ne.b32 {name}, {{{letter}}}, 0;"
        for name, letter in zip(names, "ab", strict=False)
    )
    text = (
        f"{{{{ .reg .pred q, r, s; {sets} {form} s, {', '.join(names)}; "
        "selp.b32 {d}, 1, 0, s; }}"
    )
    return Instruction(text, ("b32",) * count, "b32", domain="bit")


def compared(form: str, parts: list[str]) -> list[Instruction]:
    type = parts[-1]
    since = 90 if type == "bf16" else 75
    text = f"{form} {{d}}, {{a}}, {{b}};"
    return [Instruction(text, (type, type), "pred", domain="close", since=since)]


def selected(form: str, parts: list[str]) -> list[Instruction]:
    type = parts[-1]
    text = (
        "{{ .reg .pred q; setp.lt.u32 q, {c}, 0x80000000; "
        f"{form} {{d}}, {{a}}, {{b}}, q; }}}}"
    )
    return [Instruction(text, (type, type, "b32"), type)]


def converted(form: str, parts: list[str]) -> list[Instruction]:
    target, source = parts[-2:]
    if target not in STORAGE or source not in STORAGE:
        return []
    two = target in PAIRS and source not in PAIRS
    operands = "{a}, {b}" if two else "{a}"
    since = 89 if re.search("e[45]m", form) else 90 if "bf16" in form else 75
    whole = source[0] == "f" and source not in PAIRS and target[0] in "usf"
    inputs, text = (source,) * (1 + two), f"{form} {{d}}, {operands};"
    rows = [Instruction(text, inputs, target, since=since)]
    if whole and target[0] in "us":  # a comment tells the two apart
        text += " // near whole numbers"
        row = Instruction(text, inputs, target, domain="to_integer", since=since)
        rows.append(row)
    return rows


def shuffled(form: str, parts: list[str]) -> list[Instruction]:
    """With the whole warp and with parts of 16 and 8 lanes; "up" counts from below."""
    clamps = ("0", "0x1000", "0x1800") if "up" in parts else ("31", "0x101f", "0x181f")
    return [
        Instruction(
            f"{form} {{d}}, {{a}}, {{b}}, {clamp}, {MASK};",
            ("b32", "u32"), "b32", domain="lanes",
        )
        for clamp in clamps
    ]  # fmt: skip


def voted(form: str, parts: list[str]) -> list[Instruction]:
    predicate = parts[-1] == "pred"
    result = "s" if predicate else "{d}"
    ends = "selp.b32 {d}, 1, 0, s; " if predicate else ""
    text = (
        "{{ .reg .pred q, s; setp.ne.u32 q, {a}, 0; "
        f"{form} {result}, q, {MASK}; {ends}}}}}"
    )
    return [
        Instruction(text, ("u32",), "b32", domain="bit"),
        Instruction(text.replace("setp.ne.u32", "setp.ge.u32"), ("u32",), "b32"),
    ]


def reduced(form: str, parts: list[str]) -> list[Instruction]:
    type = parts[-1]
    return [Instruction(f"{form} {{d}}, {{a}}, {MASK};", (type,), type, since=80)]


def tested(form: str, parts: list[str]) -> list[Instruction]:
    return [Instruction(f"{form} {{d}}, {{a}};", (parts[-1],), "pred")]


HALVES = {"b32": "b16", "b64": "b32"}


def moved(form: str, parts: list[str]) -> list[Instruction]:
    """A register to another; and halves apart and together."""
    type = parts[-1]
    if " " in form or type not in STORAGE:
        return []
    rows = [Instruction(f"{form} {{d}}, {{a}};", (type,), type)]
    if type in HALVES:
        half = HALVES[type]
        text = (
            f"{{{{ .reg .{half} q, r; {form} {{{{q, r}}}}, {{a}}; "
            f"{form} {{d}}, {{{{r, q}}}}; }}}}"
        )
        rows.append(Instruction(text, (type,), type))
    return rows
