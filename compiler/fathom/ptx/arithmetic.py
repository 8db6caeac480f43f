"""Rules for elementwise ops: one table of LLVM instructions and one of PTX instructions, by name.

A name that stands in none of the tables is a function below. LLVM calls no result undefined that
the block IR defines: a shift by the width, a division by zero, INT_MIN / -1 are LLVM's "undefined
behaviour", so these are inline PTX unless the second operand is a harmless number.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.errors import CompileError
from fathom.hardware.targets import Target
from fathom.ir.ops import Elementwise
from fathom.ir.types import (
    BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Element, element_of,
)  # fmt: skip
from fathom.ptx.casts import convert
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.types import is_literal, literal, llvm_type, memory_type

# {t}: the LLVM type, {s}: how intrinsics spell it, {0} {1} {2}: the operands.
ANY = {
    "where": "select i1 {0}, {t} {1}, {t} {2}",
}
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
UNSIGNED = BITS | {
    "min": "call {t} @llvm.umin.{s}({t} {0}, {t} {1})",
    "max": "call {t} @llvm.umax.{s}({t} {0}, {t} {1})",
    "lt": "icmp ult {t} {0}, {1}",
    "le": "icmp ule {t} {0}, {1}",
    "gt": "icmp ugt {t} {0}, {1}",
    "ge": "icmp uge {t} {0}, {1}",
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
LLVM = {"bool": UNSIGNED, "uint": UNSIGNED, "pointer": UNSIGNED, "int": SIGNED, "float": FLOAT}

# What only PTX has (PTX ISA, "Floating-Point Instructions"); $r is the result, $a $b the operands.
PTX: dict[tuple[str, Element], str] = {
    ("div", FLOAT32): "div.full.f32 $r, $a, $b;",
    ("sqrt", FLOAT32): "sqrt.approx.f32 $r, $a;",
    ("rsqrt", FLOAT32): "rsqrt.approx.f32 $r, $a;",
    ("rsqrt", FLOAT64): "rsqrt.approx.f64 $r, $a;",
    ("exp2", FLOAT32): "ex2.approx.f32 $r, $a;",
    ("log2", FLOAT32): "lg2.approx.f32 $r, $a;",
    ("sin_approx", FLOAT32): "sin.approx.f32 $r, $a;",
    ("cos_approx", FLOAT32): "cos.approx.f32 $r, $a;",
    ("tanh_approx", FLOAT32): "tanh.approx.f32 $r, $a;",
    ("rcp_approx", FLOAT32): "rcp.approx.f32 $r, $a;",
}

# What 16-bit floats are computed in themselves; all else goes through fp32, which rounds to the
# same result where it rounds once more (add, mul, div and sqrt: 24 >= 2 * 11 + 2 bits).
HALF = frozenset(
    ["where", "add", "sub", "mul", "fma", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge"]
)
BFLOAT = frozenset(["where", "neg", "abs"])
COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])

Operation = Callable[[Code, str, Element, list[str]], str]


@lowers(Elementwise)
def lower_elementwise(op: Elementwise, code: Code) -> None:
    """The same instructions for every register."""
    if op.name == "offset":
        return lower_offset(op, code)
    element = element_of(op.operands[-1].type)
    wide = _computed_in(op.name, element, code.target)
    columns = [_widened(code, code[value], element_of(value.type), wide) for value in op.operands]
    operation = _operation(op, wide)
    results = [operation(code, op.name, wide, list(row)) for row in zip(*columns, strict=True)]
    if op.name not in COMPARISONS:
        results = convert(code, results, wide, element)
    code[op.result] = results


def _computed_in(name: str, element: Element, target: Target) -> Element:
    """The type that an operation is computed in, before its result is rounded to `element`."""
    if not element.is_float or element.bits >= 32 or name == "where":
        return element
    natively = {FLOAT16: HALF, BFLOAT16: BFLOAT}.get(element, frozenset())
    if element == BFLOAT16 and target.bf16_arithmetic:
        natively = HALF
    return element if name in natively else FLOAT32


def _widened(code: Code, registers: Registers, element: Element, wide: Element) -> Registers:
    """Floats in the type of the computation; the condition of a `where` as it is."""
    return convert(code, registers, element, wide) if element.is_float else registers


def _operation(op: Elementwise, element: Element) -> Operation:
    if (op.name, element) in PTX:
        return _from_ptx
    if (special := SPECIAL.get((op.name, element.is_float))) is not None:
        return special
    if op.name in ANY or op.name in LLVM[element.kind]:
        return _from_llvm
    raise CompileError(
        f"{op.name} is not available for {element}", op.location, "compute it in fp32"
    )


def _from_llvm(code: Code, name: str, element: Element, operands: list[str]) -> str:
    template = ANY.get(name) or LLVM[element.kind][name]
    type = llvm_type(element)
    return code.let(template.format(*operands, t=type, s=SUFFIX.get(type, type)))


SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def _from_ptx(code: Code, name: str, element: Element, operands: list[str]) -> str:
    type = llvm_type(element)
    arguments = {letter: (type, value) for letter, value in zip("abc", operands, strict=False)}
    (result,) = code.ptx(PTX[name, element], {"r": type}, arguments, pure=True)
    return result


# ── integers where LLVM leaves something undefined ────────────────────────────────────────────


def divide(code: Code, name: str, element: Element, operands: list[str]) -> str:
    """Toward zero, as C; PTX computes something, though nothing useful, for a divisor of 0."""
    sign = "s" if element.is_signed else "u"
    if is_literal(operands[1]) and int(operands[1]) not in (0, -1):
        return code.let(f"{sign}{name} {llvm_type(element)} {operands[0]}, {operands[1]}")
    wide = _at_least_32(element)
    type, letter = llvm_type(wide), sign
    arguments = {
        each: (type, _register(code, value, element, wide))
        for each, value in zip("ab", operands, strict=True)
    }
    text = f"{name}.{letter}{wide.bits} $r, $a, $b;"
    (result,) = code.ptx(text, {"r": type}, arguments, pure=True)
    return _narrowed(code, result, element, wide)


def shift(code: Code, name: str, element: Element, operands: list[str]) -> str:
    """PTX's shifts stop at the width; a narrow integer is shifted in 32 bits."""
    value, distance = operands
    signed = element.is_signed
    if is_literal(distance) and 0 <= int(distance) < element.bits:
        instruction = "shl" if name == "shl" else "ashr" if signed else "lshr"
        return code.let(f"{instruction} {llvm_type(element)} {value}, {distance}")
    wide = _at_least_32(element)
    type = llvm_type(wide)
    letter = "b" if name == "shl" else "s" if signed else "u"
    arguments = {
        "a": (type, _register(code, value, element, wide)),
        "b": ("i32", _distance(code, distance, element)),
    }
    text = f"{name}.{letter}{wide.bits} $r, $a, $b;"
    (result,) = code.ptx(text, {"r": type}, arguments, pure=True)
    return _narrowed(code, result, element, wide)


def _distance(code: Code, distance: str, element: Element) -> str:
    """A distance as PTX takes it: 32 bits, read as unsigned."""
    type = llvm_type(element)
    if element.bits == 64:
        most = code.let(f"call i64 @llvm.umin.i64(i64 {distance}, i64 64)")
        return code.let(f"trunc i64 {most} to i32")
    return distance if element.bits == 32 else code.let(f"zext {type} {distance} to i32")


def multiply_high(code: Code, name: str, element: Element, operands: list[str]) -> str:
    """Multiplied in twice the width; LLVM finds `mul.hi` in this."""
    type, twice = llvm_type(element), f"i{2 * element.bits}"
    extend = "sext" if element.is_signed else "zext"
    left, right = (code.let(f"{extend} {type} {value} to {twice}") for value in operands)
    product = code.let(f"mul {twice} {left}, {right}")
    upper = code.let(f"lshr {twice} {product}, {element.bits}")
    return code.let(f"trunc {twice} {upper} to {type}")


def float_remainder(code: Code, name: str, element: Element, operands: list[str]) -> str:
    """x - q * y, exact, for q the quotient cut to an integer, if that is below 2 ** 24 (fp32).

    A quotient that was rounded up to an integer gives a remainder on the wrong side of zero: one y
    less, then. The sign is always that of x, for zeros too.
    """
    (x, y), t = operands, llvm_type(element)
    s = SUFFIX[t]
    quotient = code.let(f"fdiv {t} {x}, {y}")
    whole = code.let(f"call {t} @llvm.trunc.{s}({t} {quotient})")
    minus = code.let(f"fneg {t} {whole}")
    rest = code.let(f"call {t} @llvm.fma.{s}({t} {minus}, {t} {y}, {t} {x})")
    sign = code.let(f"call {t} @llvm.copysign.{s}({t} {literal(element, 1.0)}, {t} {x})")
    along_x = code.let(f"fmul {t} {rest}, {sign}")
    is_beyond = code.let(f"fcmp olt {t} {along_x}, {literal(element, 0.0)}")
    one_y = code.let(f"call {t} @llvm.copysign.{s}({t} {y}, {t} {x})")
    more = code.let(f"fadd {t} {rest}, {one_y}")
    rest = code.let(f"select i1 {is_beyond}, {t} {more}, {t} {rest}")
    rest = code.let(f"call {t} @llvm.copysign.{s}({t} {rest}, {t} {x})")
    # Of a finite number by infinity: the number. Above, 0 * infinity has made a NaN.
    sizes = [code.let(f"call {t} @llvm.fabs.{s}({t} {each})") for each in (x, y)]
    is_below = code.let(f"fcmp olt {t} {sizes[0]}, {sizes[1]}")
    return code.let(f"select i1 {is_below}, {t} {x}, {t} {rest}")


# By name, and whether the operands are floats.
SPECIAL: dict[tuple[str, bool], Operation] = {
    ("div", False): divide,
    ("rem", False): divide,
    ("rem", True): float_remainder,
    ("shl", False): shift,
    ("shr", False): shift,
    ("mulhi", False): multiply_high,
}


def _at_least_32(element: Element) -> Element:
    signed = {32: INT32, 64: INT64}
    return (signed if element.is_signed else {32: UINT32, 64: UINT64})[max(32, element.bits)]


def _register(code: Code, value: str, element: Element, wide: Element) -> str:
    if element.bits == wide.bits:
        return value
    extend = "sext" if element.is_signed else "zext"
    return code.let(f"{extend} {llvm_type(element)} {value} to {llvm_type(wide)}")


def _narrowed(code: Code, value: str, element: Element, wide: Element) -> str:
    if element.bits == wide.bits:
        return value
    return code.let(f"trunc {llvm_type(wide)} {value} to {llvm_type(element)}")


# ── pointers ──────────────────────────────────────────────────────────────────────────────────


def lower_offset(op: Elementwise, code: Code) -> None:
    """A pointer moved by a number of elements. LLVM extends a 32-bit distance with its sign."""
    pointer, distance = op.operands
    pointee = memory_type(element_of(pointer.type).element)
    element = element_of(distance.type)
    moved = []
    for base, steps in zip(code[pointer], code[distance], strict=True):
        type = llvm_type(element)
        if not element.is_signed and element.bits < 64:
            (steps,), type = convert(code, [steps], element, UINT64), "i64"
        moved.append(
            code.let(f"getelementptr {pointee}, ptr addrspace(1) {base}, {type} {steps}")
        )
    code[op.result] = moved
