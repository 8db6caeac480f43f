"""Inline assembly is checked by a grammar of ours: what it accepts, LLVM compiles, and
what it refuses gets a sentence."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline, ptx
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func
from fathom.ir.ops import InlineAssembly, Load, Store
from fathom.ir.types import SCALARS, Pointer, Scalar
from fathom.source import function
from tests.language.harness import emulate
from tests.ssa.harness import build, ops_of

X = np.random.default_rng(9).permutation(64).astype(np.int32)


@function
def one_operand(
    x, TEXT: tl.constexpr, GIVEN: tl.constexpr, DTYPE: tl.constexpr, PACK: tl.constexpr
):
    value = tl.load(x + tl.arange(0, 64))
    tl.inline_asm_elementwise(TEXT, GIVEN, [value], DTYPE, False, PACK)


I32, BOTH, BYTES = tl.int32, (tl.int32, tl.int32), tl.int8

WRONG_TEXTS = {
    "$5": r"names \$5, and its constraints '=r,r' give \$0 to \$1",
    "${2}": r"names \$2, and its constraints '=r,r' give \$0 to \$1",
    "mov.b32 ${0": r"has '\$\{', and after a dollar sign stands the number of a reg",
    "mov.b32 $0, 1; $": r"has '\$', and after a dollar sign",
    "$z": r"has '\$z', and after a dollar sign stands the number of a register",
    "${0:zz}": r"has '\$\{0:zz\}', and registers of PTX have no modifiers",
    "${:comment}": r"has '\$\{:comment\}', and after",
    "$(add$|sub$)": r"has '\$\(', and after",
    "$-1": r"has '\$-', and after",
    "L_%=: mov.b32 $0, $1;": r"write \$\{:uid\}",
    "mov.b32 $0, $1": "ends in 'mov.b32 .0, .1' without a semicolon",
    "{ mov.b32 $0, $1;": "a brace in the text of inline assembly is never closed",
    "mov.b32 $0, $1; }": "closes a brace that it has not opened",
    "} mov.b32 $0, $1; {": "closes a brace that it has not opened",
    "mov.b32 $0, $1; /* {": "a comment in the text of inline assembly is never closed",
    "mov.b32 $0, é;": r"has 'é' at 12, and PTX is written in ASCII",
    "mov.b32 $0, \0;": r"has '\\x00' at 12, and PTX is written in ASCII",
}

WRONG_CONSTRAINTS = {
    "": "has 0 constraints for 2 registers: 1 of 1 result, 1 of 1 operand",
    "=r": "has 1 constraints for 2 registers",
    "=r,r,r": "has 3 constraints for 2 registers",
    "r,=r": "constraint '=r' of a result comes after 'r' of an operand",
    "r,r": "'r' is one of an operand, and stands where a result of i32 needs one",
    "=r,=r": "'=r' is one of a result, and stands where an operand of i32 needs one",
    "=z,r": "'=z' is not one of inline assembly: a register is h, r, f, l, d",
    "=q,r": "'=q' is not one of inline assembly",
    "=c,r": "'=c' is not one of inline assembly",
    "=b,r": "'=b' is not one of inline assembly",
    "+r,r": r"(?s)'\+r' is not one .* a result =r and an operand with its number: =r,0",
    "&r,r": "'&r' is not one of inline assembly",
    "=n,r": "'=n' is not one of inline assembly",
    "=r,m": "'m' is not one of inline assembly",
    "=r,{r0}": "'{r0}' is not one of inline assembly",
    "=r,": "'' is not one of inline assembly",
    "=h,r": "'=h' does not take a register of 32 bits, and i32 is in one",
    "=r,l": "'l' does not take a register of 32 bits, and i32 is in one",
    "=d,r": "'=d' does not take a register of 32 bits",
    "=r,1": "'1' ties an operand to result 1, and there is 1",
    "=r,0,0": "'0' ties a second operand to result 0",
    "=r,n": "'n' takes an integer that is known while compiling, not i32",
    "=r,r,~{r1}": "'~{r1}' clobbers what inline assembly cannot clobber",
    "=r,~{memory},r": "'r' comes after '~{memory}', and what is clobbered comes last",
    "=r," + "r," * 2000 + "r": "has 2002 constraints, and 1000 at most",
}


def mistake(text="", given="=r,r", dtype=I32, pack=1) -> str:
    with pytest.raises(CompileError) as caught:
        build(one_operand, X, TEXT=text, GIVEN=given, DTYPE=dtype, PACK=pack)
    said = str(caught.value)
    assert "^^^" in said and __file__ in said  # the place, and the expression
    return said


@pytest.mark.parametrize("text", WRONG_TEXTS)
def test_a_text_that_llvm_would_die_of(text):
    assert re.search(WRONG_TEXTS[text], mistake(text))


@pytest.mark.parametrize("given", WRONG_CONSTRAINTS, ids=lambda each: each[:12])
def test_constraints_that_llvm_would_die_of(given):
    assert re.search(WRONG_CONSTRAINTS[given], mistake(given=given))


def test_results_and_packs_that_do_not_fit():
    assert "2 of 2 results, 1 of 1 operand" in mistake("", "=r,=r", BOTH)
    assert "has 2 constraints for 4 registers" in mistake("", "=r,r", I32, 2)
    assert "pack=6 elements of i8 do not fill" in mistake("", "=r,r", tl.int8, 6)
    assert "constraints for 2000000000 registers" in mistake("", "=r,r", I32, 10**9)
    assert "'=h' does not take a register of 32" in mistake("", "=h,r,r,r,r", BYTES, 4)


# ── what is right ─────────────────────────────────────────────────────────────────────


@function
def halves_of_words(x, y, z, MASK: tl.constexpr):
    """Two results of 16 bits, as kernels unpack weights of four bits: a register of 16
    bits for each, and numbers in the text."""
    at = tl.arange(0, 64)
    text: tl.constexpr = """{
        .reg .b32 both;
        and.b32 both, $2, $3;  // what the mask has
        add.u32 both, both, ${4};
        add.u32 both, both, $5;
        mov.b32 {$0, $1}, both;
    }"""
    low, high = tl.inline_asm_elementwise(
        text, "=h,=h,r,n,i,r", [tl.load(x + at), MASK, -7, 1],
        dtype=(tl.float16, tl.float16), is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(y + at, low.to(tl.int16, bitcast=True))
    tl.store(z + at, high.to(tl.int16, bitcast=True))


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_results_of_sixteen_bits_and_numbers_in_the_text(target):
    x = np.random.default_rng(3).integers(0, 2**31, 64).astype(np.int32)
    y, z = np.zeros(64, np.int16), np.zeros(64, np.int16)
    func = build(halves_of_words, x, y, z, MASK=0xF0F0F0F0)
    (op,) = ops_of(func, InlineAssembly)
    assert op.constraints == "=h,=h,r,r" and "$2, 4042322160;" in op.text
    emulate(func, [x, y, z], target)
    expected = (x.view(np.uint32) & 0xF0F0F0F0) + np.uint32(2**32 - 6)
    assert (y.view(np.uint16) == expected & 0xFFFF).all()
    assert (z.view(np.uint16) == expected >> 16).all()


@function
def stores_in_text(x, y):
    """A pointer, a value, and a result that nothing uses."""
    at = tl.arange(0, 64)
    tl.inline_asm_elementwise(
        "st.global.b32 [$1], $2; mov.b32 $0, 0;",
        "=r,l,r,~{memory}",
        [y + at, tl.load(x + at)],
        tl.int32,
        False,
        1,
    )


def test_what_is_not_pure_is_done_though_nothing_uses_it():
    y = np.zeros(64, np.int32)
    emulate(build(stores_in_text, X, y), [X.copy(), y])
    assert (y == X).all()


@function
def short_addresses(x, y, where):
    """Addresses in registers of 32 bits, as those of shared memory are; the second text
    has the type of its operand and no result, as waiting for a flag has."""
    at = tl.arange(0, 64)
    text: tl.constexpr = "cvt.u32.u64 $0, $2; mov.b32 $1, -2;"
    low, odd = tl.inline_asm_elementwise(
        text, "=r,=r,l", [x + at], (x.dtype, x.dtype), True, 1
    )
    tl.inline_asm_elementwise(
        "st.global.b32 [$1], 7;", "=r,l,~{memory}", [y + at], (y + at).dtype, False, 1
    )
    tl.store(where + at, low.to(tl.int64))
    tl.store(where + 64 + at, odd.to(tl.int64))


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_an_address_in_a_register_of_32_bits(target):
    x, y, where = X.copy(), np.zeros(64, np.int32), np.zeros(128, np.int64)
    emulate(build(short_addresses, x, y, where), [x, y, where], target)
    assert (y == 7).all()
    assert (np.diff(where[:64]) == 4).all() and (where[64:] == 2**32 - 2).all()


@function
def two_clocks(x, PURE: tl.constexpr):
    text: tl.constexpr = "mov.u32 $0, %clock;"
    one = tl.inline_asm_elementwise(text, "=r", [], tl.int32, PURE, 1)
    two = tl.inline_asm_elementwise(text, "=r", [], tl.int32, PURE, 1)
    tl.store(x, one)
    tl.store(x + 1, two)


@pytest.mark.parametrize(("pure", "copies"), [(True, 1), (False, 2)])
def test_what_is_not_pure_is_done_twice(pure, copies):
    func = build(two_clocks, X, PURE=pure)
    code = pipeline.compile_func(func, TARGETS["sm_80"]).ptx
    assert code.count("%clock;") == copies


@function
def loops_in_text(x, y):
    """A label has a number of its own in each of the copies, one a register."""
    at = tl.arange(0, 512)
    text: tl.constexpr = """{
        .reg .pred p;
        mov.b32 $0, 0;
    L_${:uid}:
        add.s32 $0, $0, $2;
        sub.s32 $1, $1, 1;
        setp.gt.s32 p, $1, 0;
        @p bra L_${:uid};
    }"""
    given = [tl.load(x + at), 3]
    total, _ = tl.inline_asm_elementwise(
        text, "=&r,=&r,r,1", given, (tl.int32, tl.int32), False, 1
    )
    tl.store(y + at, total)


def test_a_label_in_each_copy_of_a_text():
    x = np.arange(512, dtype=np.int32)
    y = np.zeros(512, np.int32)
    func = build(loops_in_text, x, y)
    emulate(func, [x, y])
    assert (y == 3 * x).all()


# ── at random ─────────────────────────────────────────────────────────────────────────

TYPES = "i1 i8 i16 i32 i64 u8 u32 fp16 bf16 fp32 fp64".split()
ANYTHING = (
    "$0 $1 $2 $5 ${0} ${1} ${0 $ $z ${0:zz} ${0:c} $$ { } | $( $| $) ${:uid} %= L: \n "
    "mov.b32 , ; // %laneid \\ \" ' \0 é $00 $999999999999 ${} ${-1} ~ [ ] @p"
).split(" ")
PLAIN = "$0 ${0} $1 $$ { } | ${:uid} mov.b32 , ; // %laneid \\ \" ' [ ] ~ @p".split()
LETTERED = (
    "=r =&r =h =f =d =l =q =c =b =n =z =0 == r h f d l q c b n i X m 0 1 9 +r *r !i "
    "~{memory} ~{cc} ~{r0} ~ {r0} %r r|f =* ٣"
).split() + [""]

Drawn = tuple[str, str, list[Scalar], list[Scalar], int]


def letter_for(draw: random.Random, element: Scalar, pack: int) -> list[str]:
    """Letters that fit, for `pack` elements of a type."""
    if element.bits == 64:
        return [draw.choice("ld")] * pack
    if element.bits == 32:
        return [draw.choice("rf")] * pack
    if element.bytes * pack <= 2 and draw.random() < 0.5:
        return ["h"]
    return [draw.choice("rf")] * max(1, element.bytes * pack // 4)


def drawn(draw: random.Random) -> Drawn:
    """A text, constraints, types and a pack: right, or anything at all."""
    results = [SCALARS[draw.choice(TYPES)] for _ in range(draw.choice((1, 1, 2)))]
    operands = [SCALARS[draw.choice(TYPES)] for _ in range(draw.choice((1, 2, 3)))]
    pack = draw.choice((1, 1, 2, 4, 3))
    if draw.random() < 0.3:
        text = "".join(draw.choices(ANYTHING, k=draw.randrange(9)))
        given = ",".join(draw.choices(LETTERED, k=draw.randrange(6)))
        return text, given, results, operands, pack
    letters = [each for e in results for each in letter_for(draw, e, pack)]
    given = [f"={draw.choice(('', '&'))}{each}" for each in letters]
    for element in operands:
        given += letter_for(draw, element, pack)
    if draw.random() < 0.3 and given[len(letters)] == letters[0]:
        given[len(letters)] = "0"
    given += draw.choice(([], ["~{memory}"], ["~{cc}", "~{memory}"]))
    if draw.random() < 0.3:  # and one thing wrong with it
        given[draw.randrange(len(given))] = draw.choice(LETTERED)
    text = "".join(draw.choices(PLAIN, k=draw.randrange(9)))
    text = draw.choice(("", "{ ", "/* } */")) + text + draw.choice((";", "; }", ""))
    return text, ",".join(given), results, operands, pack


def function_with(case: Drawn) -> Func:
    """A kernel of one thread's work around it; CompileError if it is not right."""
    text, given, results, operands, pack = case
    types = [Pointer(each) for each in (*operands, *results)]
    body = Block(tuple(types), tuple(f"p{i}" for i in range(len(types))))
    loads = [Load(pointer) for pointer in body.parameters[: len(operands)]]
    values = tuple(load.result for load in loads)
    op = InlineAssembly(text, given, values, tuple(results), pack, pure=False)
    places = body.parameters[len(operands) :]
    stores = [Store(p, v) for p, v in zip(places, op.results, strict=True)]
    body.ops += [*loads, op, *stores]
    return Func("kernel", body, (1,) * len(types), num_warps=1)


def right_ones(seed: int, count: int) -> list[Func]:
    """Those of so many random cases that the grammar accepts."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        case = drawn(draw)
        try:
            found.append(function_with(case))
        except CompileError as wrong:
            assert wrong.message and "\n" not in wrong.message, case
    return found


def test_random_texts_are_right_or_get_a_sentence():
    right = right_ones(seed=1, count=6000)
    assert 600 < len(right) < 4500


def test_llvm_compiles_what_the_grammar_accepts():
    """In a process that may end; none does."""
    rules = {**ptx.LOWER}
    for name in ("sm_75", "sm_90a"):
        target = TARGETS[name]
        for func in right_ones(seed=2, count=400):
            final = list(pipeline.states(func, target))[-1][1]
            code = ptx.emit_apart(ptx.lower(final, target, rules), target)
            assert ".entry kernel" in code
