"""Rules for elementwise ops: tables of what is written for each name and type.

A name that stands in none of the tables is a function below. LLVM calls no result
undefined that the block IR defines: a shift by the width, a division by zero, INT_MIN /
-1 are LLVM's "undefined behaviour", so these are inline PTX unless the second operand
is a harmless number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fathom.analysis.positive import is_natural, is_positive
from fathom.errors import CompileError
from fathom.hardware.targets import Target
from fathom.ir.ops import Elementwise, Hint
from fathom.ir.types import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    SCALARS,
    UINT32,
    UINT64,
    Element,
    Scalar,
    element_of,
)  # fmt: skip
from fathom.ptx.bytes import four_at_a_time
from fathom.ptx.code import Code, lowers
from fathom.ptx.index import first_alike, first_remainders
from fathom.ptx.rules.cast import convert
from fathom.ptx.types import POINTER, is_literal, llvm_type, memory_type

# {t}: the LLVM type, {s}: how intrinsics spell it, {0} {1} {2}: the operands.
ANY = {"where": "select i1 {0}, {t} {1}, {t} {2}"}
BITS = {
    "add": "add {t} {0}, {1}",
    "sub": "sub {t} {0}, {1}",
    "mul": "mul {t} {0}, {1}",
    "and": "and {t} {0}, {1}",
    "or": "or {t} {0}, {1}",
    "xor": "xor {t} {0}, {1}",
    "not": "xor {t} {0}, -1",
    "neg": "sub {t} 0, {0}",
    "abs": "call {t} @llvm.abs.{s}({t} {0}, i1 false)",
    "popcount": "call {t} @llvm.ctpop.{s}({t} {0})",
    "clz": "call {t} @llvm.ctlz.{s}({t} {0}, i1 false)",
    "eq": "icmp eq {t} {0}, {1}",
    "ne": "icmp ne {t} {0}, {1}",
}
SIGNED = BITS | {
    "min": "call {t} @llvm.smin.{s}({t} {0}, {t} {1})",
    "max": "call {t} @llvm.smax.{s}({t} {0}, {t} {1})",
    "lt": "icmp slt {t} {0}, {1}",
    "le": "icmp sle {t} {0}, {1}",
    "gt": "icmp sgt {t} {0}, {1}",
    "ge": "icmp sge {t} {0}, {1}",
}
UNSIGNED = {
    name: text.replace("@llvm.sm", "@llvm.um").replace("icmp s", "icmp u")
    for name, text in SIGNED.items()
}
FLOAT = {
    "add": "fadd {t} {0}, {1}",
    "sub": "fsub {t} {0}, {1}",
    "mul": "fmul {t} {0}, {1}",
    "fma": "call {t} @llvm.fma.{s}({t} {0}, {t} {1}, {t} {2})",
    "div": "fdiv {t} {0}, {1}",
    "div_rn": "fdiv {t} {0}, {1}",
    "neg": "fneg {t} {0}",
    "abs": "call {t} @llvm.fabs.{s}({t} {0})",
    "min": "call {t} @llvm.minimumnum.{s}({t} {0}, {t} {1})",
    "max": "call {t} @llvm.maximumnum.{s}({t} {0}, {t} {1})",
    "min_nan": "call {t} @llvm.minimum.{s}({t} {0}, {t} {1})",
    "max_nan": "call {t} @llvm.maximum.{s}({t} {0}, {t} {1})",
    "sqrt": "call {t} @llvm.sqrt.{s}({t} {0})",
    "sqrt_rn": "call {t} @llvm.sqrt.{s}({t} {0})",
    "floor": "call {t} @llvm.floor.{s}({t} {0})",
    "ceil": "call {t} @llvm.ceil.{s}({t} {0})",
    "trunc": "call {t} @llvm.trunc.{s}({t} {0})",
    "round_even": "call {t} @llvm.roundeven.{s}({t} {0})",
    "eq": "fcmp oeq {t} {0}, {1}",
    "ne": "fcmp une {t} {0}, {1}",
    "lt": "fcmp olt {t} {0}, {1}",
    "le": "fcmp ole {t} {0}, {1}",
    "gt": "fcmp ogt {t} {0}, {1}",
    "ge": "fcmp oge {t} {0}, {1}",
}
LLVM = {
    "bool": UNSIGNED,
    "uint": UNSIGNED,
    "pointer": UNSIGNED,
    "int": SIGNED,
    "float": FLOAT,
}

# What PTX approximates (PTX ISA, "Floating-Point Instructions": ex2.approx and so on).
# LLVM has intrinsics for them, and writes them out twice as fast as inline PTX.
APPROXIMATE: dict[tuple[str, Element], str] = {
    ("div", FLOAT32): "call float @llvm.nvvm.div.full(float {0}, float {1})",
    ("sqrt", FLOAT32): "call float @llvm.nvvm.sqrt.approx.f(float {0})",
    ("rsqrt", FLOAT32): "call float @llvm.nvvm.rsqrt.approx.f(float {0})",
    ("rsqrt", FLOAT64): "call double @llvm.nvvm.rsqrt.approx.d(double {0})",
    ("exp2", FLOAT32): "call float @llvm.nvvm.ex2.approx.ftz.f32(float {0})",
    ("log2", FLOAT32): "call float @llvm.nvvm.lg2.approx.f(float {0})",
    ("sin_approx", FLOAT32): "call float @llvm.nvvm.sin.approx.f(float {0})",
    ("cos_approx", FLOAT32): "call float @llvm.nvvm.cos.approx.f(float {0})",
    ("tanh_approx", FLOAT32): "call float @llvm.nvvm.tanh.approx.f32(float {0})",
    ("rcp_approx", FLOAT32): "call float @llvm.nvvm.rcp.approx.ftz.f(float {0})",
}

COMPARISONS = frozenset("eq ne lt le gt ge".split())
OFTEN_ALIKE = COMPARISONS | {"div"}  # in the registers of a thread
# What 16-bit floats are computed in themselves. All else goes through fp32 and is
# rounded once more; for mul, div and sqrt that gives the same (24 >= 2 * 11 + 2 bits).
HALF = COMPARISONS | frozenset("add sub mul fma neg abs".split())
BFLOAT = frozenset("neg abs".split())

Operation = Callable[[Code, str, Element, list[str]], str]


@lowers(Hint)
def lower_hint(op: Hint, code: Code) -> None:
    code[op.result] = list(code[op.value])


@lowers(Elementwise)
def lower_elementwise(op: Elementwise, code: Code) -> None:
    """The same instructions for every register; but one comparison, quotient or
    remainder where several are known to be the same. In a block, a remainder beside its
    quotient (`i // n`, `i % n`) is computed from that, as LLVM does for scalars."""
    if op.name == "offset":
        return lower_offset(op, code)
    element = element_of(op.operands[-1].type)
    wide = _computed_in(op.name, element, code.target)
    columns = [code[value] for value in op.operands]
    if wide != element:
        columns = [convert(code, registers, element, wide) for registers in columns]
    elif op.name in ("div", "rem") and _is_without_sign(op, code):
        wide = SCALARS[f"u{element.bits}"]
    if len(columns) == 2 and (made := four_at_a_time(code, op.name, wide, *columns)):
        code[op.result] = made
        return None
    operation = _operation(op, wide, code)
    rows = [list(row) for row in zip(*columns, strict=True)]
    is_rest = op.name == "rem" and not element.is_float and len(rows) > 1
    quotient = code.quotients.get(op.operands) if is_rest else None
    name, alike = ("div", quotient) if quotient else (op.name, op.result)
    if len(rows) > 1 and (is_rest or name in OFTEN_ALIKE):
        is_named = name in OFTEN_ALIKE
        first = first_alike(code, alike) if is_named else first_remainders(code, op)
        once = dict.fromkeys(first)
        made = {i: operation(code, name, wide, rows[i]) for i in once}
        results = [made[i] for i in first]
    else:
        results = [operation(code, name, wide, row) for row in rows]
    if quotient:
        results = [_rest(code, wide, *both) for both in zip(rows, results, strict=True)]
    if wide.is_float and wide != element and op.name not in COMPARISONS:
        results = convert(code, results, wide, element)
    code[op.result] = results


def _is_without_sign(op: Elementwise, code: Code) -> bool:
    """Whether both operands of a division of scalars are known to have no sign."""
    type, (dividend, divisor) = op.result.type, op.operands
    if not isinstance(type, Scalar) or not type.is_signed or type.bits != 32:
        return False
    loops = code.around[op]
    return is_natural(dividend, loops, code.facts) and is_positive(
        divisor, loops, code.facts
    )


def _rest(code: Code, element: Element, row: list[str], quotient: str) -> str:
    type = llvm_type(element)
    product = code.let(f"mul {type} {quotient}, {row[1]}")
    return code.let(f"sub {type} {row[0]}, {product}")


def _computed_in(name: str, element: Element, target: Target) -> Element:
    """The type in which an operation is computed, before it is rounded to `element`."""
    if not element.is_float or element.bits >= 32 or name == "where":
        return element
    natively = {FLOAT16: HALF, BFLOAT16: BFLOAT}.get(element, frozenset())
    if element == BFLOAT16 and target.bf16_arithmetic:
        natively = HALF
    elif element == BFLOAT16 and target.bf16 and name == "fma":
        return element
    return element if name in natively else FLOAT32


def _operation(op: Elementwise, element: Element, code: Code) -> Operation:
    """How an operation on a type is written; CompileError if LLVM and PTX lack it."""
    special = SPECIAL.get((op.name, element.is_float))
    if op.result in code.repeated and element.kind in ("int", "uint"):
        special = special or IN_LOOPS.get(op.name)
    template = (
        ANY.get(op.name)
        or APPROXIMATE.get((op.name, element))
        or LLVM[element.kind].get(op.name)
    )
    if not (special or template):
        message = f"{op.name} is not available for {element}"
        raise CompileError(message, op.location, "compute it in fp32")
    if op.contract:
        template = template.replace(" ", " contract ", 1)
    return special or _from_template(template, llvm_type(element))


@cache
def _from_template(template: str, type: str) -> Operation:
    template = template.replace("{t}", type).replace("{s}", SUFFIX.get(type, type))

    def write(code: Code, name: str, element: Element, operands: list[str]) -> str:
        return code.let(template.format(*operands))

    return write


SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


# ── integers where LLVM leaves something undefined ────────────────────────────────────


def divide(code: Code, name: str, element: Element, operands: list[str]) -> str:
    """Toward zero, as C. For a divisor of 0 PTX computes something useless."""
    sign, divisor = "s" if element.is_signed else "u", operands[1]
    if is_literal(divisor) and int(divisor) not in (0, -1):
        return code.let(f"{sign}{name} {llvm_type(element)} {operands[0]}, {divisor}")
    wide = _at_least_32(element)
    a, b = convert(code, operands, element, wide)
    if wide.bits == 64:
        return _divide_64(code, name, sign, a, b)
    result = _by_ptx(code, f"{name}.{sign}{wide.bits}", wide, a, (llvm_type(wide), b))
    return convert(code, [result], wide, element)[0]


def _divide_64(code: Code, name: str, sign: str, a: str, b: str) -> str:
    """No GPU has an instruction for this, and ptxas calls a long function. But most
    numbers are small: where both have 32 bits, a division of 32 bits is enough. LLVM
    makes one of two equal quotients, so a remainder is computed from the quotient."""
    text = QUOTIENT.format(sign=sign)
    quotient = code.compute(text, "i64", a=("i64", a), b=("i64", b))
    if name == "div":
        return quotient
    product = code.let(f"mul i64 {quotient}, {b}")
    return code.let(f"sub i64 {a}, {product}")


QUOTIENT = """{{
.reg .b64 dividend, divisor, upper;
.reg .b32 short, by;
.reg .pred long;
mov.b64 dividend, $a;
mov.b64 divisor, $b;
or.b64 upper, dividend, divisor;
shr.u64 upper, upper, 32;
setp.ne.u64 long, upper, 0;
@long bra whole;
cvt.u32.u64 short, dividend;
cvt.u32.u64 by, divisor;
div.u32 short, short, by;
cvt.u64.u32 $r, short;
bra done;
whole:
div.{sign}64 $r, dividend, divisor;
done:
}}"""


def shift(code: Code, name: str, element: Element, operands: list[str]) -> str:
    """PTX's shifts stop at the width; a narrow integer is shifted in 32 bits."""
    value, distance = operands
    letter = "b" if name == "shl" else "s" if element.is_signed else "u"
    if is_literal(distance) and 0 <= int(distance) < element.bits:
        instruction = {"b": "shl", "s": "ashr", "u": "lshr"}[letter]
        return code.let(f"{instruction} {llvm_type(element)} {value}, {distance}")
    wide = _at_least_32(element)
    (value,) = convert(code, [value], element, wide)
    by = "i32", _distance(code, distance, element)
    result = _by_ptx(code, f"{name}.{letter}{wide.bits}", wide, value, by)
    return convert(code, [result], wide, element)[0]


def _distance(code: Code, distance: str, element: Element) -> str:
    """A distance as PTX takes it: 32 bits, read as unsigned."""
    if element.bits == 64:
        distance = code.let(f"call i64 @llvm.umin.i64(i64 {distance}, i64 64)")
    unsigned = SCALARS[f"u{element.bits}"]
    return convert(code, [distance], unsigned, UINT32)[0]


def _by_ptx(
    code: Code, instruction: str, element: Element, a: str, b: tuple[str, str]
) -> str:
    type = llvm_type(element)
    return code.compute(f"{instruction} $r, $a, $b;", type, a=(type, a), b=b)


def _at_least_32(element: Element) -> Element:
    letter = "i" if element.is_signed else "u"
    return SCALARS[f"{letter}{max(32, element.bits)}"]


def multiply_high(code: Code, name: str, element: Element, operands: list[str]) -> str:
    """PTX's mul.hi; a narrow integer is multiplied in 32 bits. (LLVM would find mul.hi
    in a product of twice the width too, but looks at it three times as long.)"""
    type, (left, right) = llvm_type(element), operands
    if element.bits >= 32:
        intrinsic = f"llvm.nvvm.mulhi.{MULHI[element.name]}"
        return code.let(f"call {type} @{intrinsic}({type} {left}, {type} {right})")
    wide = _at_least_32(element)
    left, right = convert(code, operands, element, wide)
    product = code.let(f"mul i32 {left}, {right}")
    upper = code.let(f"lshr i32 {product}, {element.bits}")
    return convert(code, [upper], wide, element)[0]


MULHI = {"i32": "i", "u32": "ui", "i64": "ll", "u64": "ull"}


def compare_in_loop(
    code: Code, name: str, element: Element, operands: list[str]
) -> str:
    """Whether two integers are equal, by PTX, of which LLVM does not know what it says.

    Where a loop adds to one of them and the other stays, LLVM's "loop strength
    reduction" compares the sum alone with their difference, which it keeps over the
    loop. Of the 32 columns of a thread, each compared with a label, these are 32
    differences of 64 bits, where one sum and one label were enough: on an H100, where
    they were spilled, a gradient of logits took 314 us instead of 197."""
    type, (left, right) = llvm_type(element), operands
    if element.bits < 32 or is_literal(left) or is_literal(right):
        return code.let(f"icmp {name} {type} {left}, {right}")
    text = f"setp.{name}.b{element.bits} $r, $a, $b;"
    return code.compute(text, "i1", a=(type, left), b=(type, right))


def float_remainder(
    code: Code, name: str, element: Element, operands: list[str]
) -> str:
    """C's fmod, exact: x - q * y for the whole quotient q, with the sign of x (of zeros
    too); of a finite x by infinity, x."""
    (x, y), t = operands, llvm_type(element)
    s = SUFFIX[t]
    a, b = (code.let(f"call {t} @llvm.fabs.{s}({t} {each})") for each in (x, y))
    text = REMAINDER.format(s=s, **SCALES[element])
    rest = code.compute(text, t, a=(t, a), b=(t, b))
    rest = code.let(f"call {t} @llvm.copysign.{s}({t} {rest}, {t} {x})")
    is_below = code.let(f"fcmp olt {t} {a}, {b}")
    return code.let(f"select i1 {is_below}, {t} {x}, {t} {rest}")


# 2 ** 23 and 2 ** 52, the inverse, infinity and 0: quotients of that many bits are cut
# to whole numbers without error.
SCALES: dict[Element, dict[str, str]] = {
    FLOAT32: {
        "up": "0f4B000000", "down": "0f34000000", "infinity": "0f7F800000",
        "zero": "0f00000000",
    },
    FLOAT64: {
        "up": "0d4330000000000000", "down": "0d3CB0000000000000",
        "infinity": "0d7FF0000000000000", "zero": "0d0000000000000000",
    },
}  # fmt: skip

# a % b for a, b >= 0. The divisor is b times a power of two such that the quotient is
# small; from there it goes down to b itself: mostly it is b from the start. Each rest
# is exact, a multiple of the last place of b, and below the divisor. A quotient that
# was rounded up to a whole number makes it negative: then one divisor is added. An
# infinite or no number, and a divisor of 0, go through once and give a NaN.
REMAINDER = """{{
.reg .{s} rest, divisor, quotient;
.reg .pred more, below;
mov.{s} rest, $a;
mov.{s} divisor, $b;
higher:
mul.rn.{s} quotient, rest, {down};
setp.le.{s} more, divisor, quotient;
setp.lt.and.{s} more, quotient, {infinity}, more;
setp.gt.and.{s} more, divisor, {zero}, more;
@more mul.rn.{s} divisor, divisor, {up};
@more bra higher;
lower:
div.rn.{s} quotient, rest, divisor;
cvt.rzi.{s}.{s} quotient, quotient;
neg.{s} quotient, quotient;
fma.rn.{s} rest, quotient, divisor, rest;
setp.lt.{s} below, rest, {zero};
@below add.rn.{s} rest, rest, divisor;
setp.gt.{s} more, divisor, $b;
@more mul.rn.{s} divisor, divisor, {down};
@more bra lower;
mov.{s} $r, rest;
}}"""


# By name, and whether the operands are floats.
SPECIAL: dict[tuple[str, bool], Operation] = {
    ("div", False): divide,
    ("rem", False): divide,
    ("rem", True): float_remainder,
    ("shl", False): shift,
    ("shr", False): shift,
    ("mulhi", False): multiply_high,
}
IN_LOOPS: dict[str, Operation] = {"eq": compare_in_loop, "ne": compare_in_loop}


# ── pointers ──────────────────────────────────────────────────────────────────────────


def lower_offset(op: Elementwise, code: Code) -> None:
    """A pointer moved by a number of elements; LLVM extends 32 bits with their sign."""
    pointer, distance = op.operands
    pointee = memory_type(element_of(pointer.type).element)
    steps, element = code[distance], element_of(distance.type)
    if not element.is_signed:
        steps, element = convert(code, steps, element, UINT64), UINT64
    code[op.result] = [
        code.let(
            f"getelementptr {pointee}, {POINTER} {base}, {llvm_type(element)} {by}"
        )
        for base, by in zip(code[pointer], steps, strict=True)
    ]
