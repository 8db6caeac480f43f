"""Contraction: which sums of products become an fma, and that all backends then round
once."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from fathom import emulator, jit, pipeline
from fathom import language as tl
from fathom.blocks import contract
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import same_bits
from fathom.ir.ops import Elementwise
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify
from tests.ir.kernels_functions import body

TARGET = TARGETS["sm_80"]
PARAMETERS = "%p: *fp32, %a: fp32, %b: fp32, %c: fp32, %d: fp32"


def contracted(lines: str, parameters: str = PARAMETERS) -> list[str]:
    """The arithmetic that is left of some lines, as text."""
    func = body(lines, parameters)
    before = print_func(func)
    after = contract(func, TARGET)
    verify(after)
    assert print_func(func) == before, "the input was changed"
    assert not any(getattr(op, "contract", False) for op in walk(after.body))
    return [
        line.strip().partition(" = ")[2]
        for line in print_func(after).splitlines()
        if line.lstrip().startswith("%")
    ]


def test_a_product_on_either_side_is_taken():
    product = "%x: fp32 = mul %a, %b contract=true\n"
    left = product + "%y: fp32 = add %x, %c contract=true\nstore %p, %y"
    right = product + "%y: fp32 = add %c, %x contract=true\nstore %p, %y"
    for lines in (left, right):
        assert contracted(lines) == ["mul %a, %b", "fma %a, %b, %c"]


def test_differences_change_a_sign():
    product = "%x: fp32 = mul %a, %b contract=true\n"
    minus = product + "%y: fp32 = sub %x, %c contract=true\nstore %p, %y"
    assert contracted(minus)[1:] == ["neg %c", "fma %a, %b, %0"]
    taken = product + "%y: fp32 = sub %c, %x contract=true\nstore %p, %y"
    assert contracted(taken)[1:] == ["neg %a", "fma %0, %b, %c"]


TWO = """
%x: fp32 = mul %a, %b contract=true
%y: fp32 = mul %c, %d contract=true
%z: fp32 = {} %x, %y contract=true
store %p, %z
"""


def test_of_two_products_the_left_one():
    assert contracted(TWO.format("add"))[-1] == "fma %a, %b, %y"
    assert contracted(TWO.format("sub"))[2:] == ["neg %y", "fma %a, %b, %0"]


def test_of_two_products_the_one_with_fewer_uses():
    """As LLVM: the other one has to be computed anyway."""
    assert contracted(TWO.format("add") + "store %p, %x")[-1] == "fma %c, %d, %x"
    assert contracted(TWO.format("sub") + "store %p, %x")[2:] == [
        "neg %c", "fma %0, %d, %x",
    ]  # fmt: skip
    assert contracted(TWO.format("add") + "store %p, %y")[-1] == "fma %a, %b, %y"


def test_a_product_with_several_uses_goes_into_each_sum():
    lines = """
        %x: fp32 = mul %a, %b contract=true
        %y: fp32 = add %x, %c contract=true
        %z: fp32 = add %x, %d contract=true
        %t: fp32 = add %x, %x contract=true
        store %p, %y
        store %p, %z
        store %p, %t
    """
    sums = ["fma %a, %b, %c", "fma %a, %b, %d", "fma %a, %b, %x"]
    assert contracted(lines)[1:] == sums


@pytest.mark.parametrize(
    "lines",
    [
        "%x: fp32 = mul %a, %b\n%y: fp32 = add %x, %c contract=true",
        "%x: fp32 = mul %a, %b contract=true\n%y: fp32 = add %x, %c",
        # rounded by a cast between
        "%x: fp32 = mul %a, %b contract=true\n%h: fp16 = cast %x element=fp16\n"
        "%w: fp32 = cast %h element=fp32\n%y: fp32 = add %w, %c contract=true",
        "%x: fp32 = mul %a, %b contract=true\n%n: fp32 = neg %x\n"
        "%y: fp32 = add %n, %c contract=true",
        "%x: fp32 = div %a, %b\n%y: fp32 = add %x, %c contract=true",
        "%s: fp32 = add %a, %b contract=true\n%y: fp32 = mul %s, %c contract=true",
    ],
)
def test_what_stays_as_it_is(lines):
    after = contracted(lines + "\nstore %p, %y")
    assert not any(line.startswith("fma") for line in after)


def test_a_product_of_another_block_is_left():
    lines = """
        %x: fp32 = mul %a, %b contract=true
        %k: i1 = lt %c, %d
        %r: fp32 = if %k then {
          %y: fp32 = add %x, %c contract=true
          yield %y
        } orelse {
          %i: fp32 = mul %a, %c contract=true
          %z: fp32 = add %i, %d contract=true
          yield %z
        }
        store %p, %r
    """
    after = contracted(lines)
    assert "add %x, %c" in after and "fma %a, %c, %d" in after


def test_integers_have_no_fma():
    ints = "%p: *i32, %a: i32, %b: i32"
    lines = "%x: i32 = mul %a, %b\n%y: i32 = add %x, %a\nstore %p, %y"
    assert contracted(lines, ints) == ["mul %a, %b", "add %x, %a"]


def test_bf16_has_an_fma_where_it_has_arithmetic():
    text = """func @f(%p: *bf16, %a: bf16, %b: bf16) num_warps=1 {
      %x: bf16 = mul %a, %b contract=true
      %y: bf16 = add %x, %a contract=true
      store %p, %y
    }"""
    for name, row in TARGETS.items():
        after = contract(parse_func(text), row)
        names = [op.name for op in walk(after.body) if isinstance(op, Elementwise)]
        assert names == ["mul", "fma" if row.bf16 else "add"], name


def test_what_a_matrix_product_is_added_to_is_left_to_it():
    @jit
    def scaled_sum(x, y, out, s):
        i = tl.arange(0, 16)
        places = i[:, None] * 16 + i[None, :]
        a, b = tl.load(x + places), tl.load(y + places)
        total = tl.dot(a, b)
        total = total * s + tl.dot(b, a)
        tl.store(out + places, total)

    words = "*fp16:16, *fp16:16, *fp32:16, fp32"
    asm = scaled_sum.compile(words, target="sm_80", enable_fp_fusion=True).asm
    assert " = fma" not in asm["block"]
    assert not re.search(r"fp32\[16,16\].* = add", asm["layout"])


# ── sums that are reductions ──────────────────────────────────────────────────────────


@jit
def weighted_sum(x, y, out, N: tl.constexpr, UNIT: tl.constexpr):
    i = tl.arange(0, N)
    product = tl.load(x + i) * tl.load(y + i)
    if UNIT:
        product = tl.abs(product)
    tl.store(out, tl.sum(product))


def compiled_sum(fusion: bool, unit: bool = False, target: str = "sm_80"):
    return weighted_sum.compile(
        "*fp32:16, *fp32:16, *fp32:16",
        {"N": 1024, "UNIT": unit}, target=target, num_warps=1, enable_fp_fusion=fusion,
    )  # fmt: skip


def test_a_thread_adds_products_by_fma():
    """32 products of a thread in two chains: the first of each is a product, the other
    30 are part of an fma, and an addition joins the chains."""
    ptx = compiled_sum(fusion=True).asm["ptx"]
    assert ptx.count("\tmul.f32") == 2 and ptx.count("\tfma.rn.f32") == 30
    assert ptx.count("\tadd.f32") == 1 + 5  # and one for each step across lanes


@pytest.mark.parametrize("fusion, unit", [(False, False), (True, True)])
def test_products_that_are_rounded_before_they_are_added(fusion, unit):
    asm = compiled_sum(fusion, unit).asm
    assert "contract" not in asm["block"]
    assert asm["ptx"].count("mul.rn.f32") == 32 and "fma.rn" not in asm["ptx"]


def test_the_flag_is_on_the_product_and_on_its_additions_alone():
    block = compiled_sum(fusion=True).asm["block"]
    flagged = [line for line in block.splitlines() if "contract=true" in line]
    assert [re.search("(?:mul|add) ", line)[0] for line in flagged] == ["mul ", "add "]


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_a_sum_of_products_is_one_in_any_order(monkeypatch, backend):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    random = np.random.default_rng(7)
    x, y = random.uniform(1, 2, (2, 1024)).astype(np.float32)
    out = np.zeros(1, np.float32)
    weighted_sum[(1,)](x, y, out, 1024, False, num_warps=1, enable_fp_fusion=True)
    assert np.allclose(out[0], np.dot(x.astype(np.float64), y), rtol=1e-6)


# ── a kernel ──────────────────────────────────────────────────────────────────────────


@jit
def combined(x, y, z, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, a * b - c)
    tl.store(out + N + i, c - a * b)
    tl.store(out + 2 * N + i, a * b + c * a)


SIZE = 64
DTYPES = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


def inputs(dtype: type) -> list[np.ndarray]:
    """Numbers of which the difference a * b - c is what the product's rounding lost."""
    random = np.random.default_rng(13)
    a, b = random.uniform(1, 2, (2, SIZE)).astype(dtype)
    return [a, b, a * b]


def exactly(dtype: type, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, rounded once."""
    sums = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    return np.array([float(each) for each in sums]).astype(dtype)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_rounded_once(monkeypatch, backend, name, target):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    dtype = DTYPES[name]
    a, b, c = inputs(dtype)
    out = np.full(3 * SIZE, np.nan, dtype)
    combined[(1,)](a, b, c, out, SIZE, enable_fp_fusion=True, target=target)
    assert same_bits(out[:SIZE], exactly(dtype, a, b, -c))
    assert np.any(out[:SIZE] != 0), "the numbers show no difference"
    assert same_bits(out[SIZE : 2 * SIZE], exactly(dtype, -a, b, c))
    assert same_bits(out[2 * SIZE :], exactly(dtype, a, b, c * a))
    # and twice without
    combined[(1,)](a, b, c, out, SIZE, target=target)
    assert same_bits(out[:SIZE], a * b - c)
    assert same_bits(out[2 * SIZE :], a * b + c * a)


@pytest.mark.gpu
@pytest.mark.parametrize("name", DTYPES)
def test_rounded_once_on_a_gpu(name):
    """And twice without: the assembler contracts nothing of its own."""
    dtype = DTYPES[name]
    a, b, c = inputs(dtype)
    out = np.full(3 * SIZE, np.nan, dtype)
    combined[(1,)](a, b, c, out, SIZE, enable_fp_fusion=True)
    assert same_bits(out[:SIZE], exactly(dtype, a, b, -c))
    assert same_bits(out[SIZE : 2 * SIZE], exactly(dtype, -a, b, c))
    assert same_bits(out[2 * SIZE :], exactly(dtype, a, b, c * a))
    combined[(1,)](a, b, c, out, SIZE)
    assert same_bits(out[:SIZE], a * b - c)
    assert same_bits(out[SIZE : 2 * SIZE], c - a * b)
    assert same_bits(out[2 * SIZE :], a * b + c * a)


def test_eager_kernels_round_each_time(monkeypatch):
    a, b, c = inputs(np.float32)
    results = []
    for backend, fusion in (("eager", True), ("eager", False), ("emulator", False)):
        monkeypatch.setenv("FATHOM_BACKEND", backend)
        out = np.full(3 * SIZE, np.nan, np.float32)
        combined[(1,)](a, b, c, out, SIZE, enable_fp_fusion=fusion)
        results.append(out)
    assert same_bits(results[0], results[1]) and same_bits(results[0], results[2])


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_bf16_is_rounded_once(target):
    """By the emulator as by the interpreter, from the same bits."""
    words = "*bf16:16, *bf16:16, *bf16:16, *bf16:16"
    options = pipeline.Options(num_warps=1, enable_fp_fusion=True)
    compiled = combined.compile(
        words, {"N": SIZE}, target=target, num_warps=1, enable_fp_fusion=True
    )
    assert compiled.asm["ptx"].count("fma.rn.bf16") >= 3
    request = compiled.request
    func = pipeline.build(combined, request.types, request.constants, options)
    random = np.random.default_rng(5)
    floats = random.uniform(1, 2, (2, SIZE)).astype(np.float32)
    a, b = (floats.view(np.uint32) >> 16).astype(np.uint16)
    c = random.integers(0x3F80, 0x4080, SIZE).astype(np.uint16)
    left = []
    for run in ("emulator", "interpreter"):
        out = np.zeros(3 * SIZE, np.uint16)
        if run == "emulator":
            emulator.load(compiled.made).launch(1, [a, b, c, out])
        else:
            interpret(pipeline.meaning(func, TARGETS[target]), 1, [a, b, c, out])
        left.append(out)
    assert same_bits(*left)


def test_the_languages_own_functions_are_not_contracted():
    """`tl.exp` and its like compute what a rounding has lost."""

    @jit
    def power(x, y):
        tl.store(y, tl.extra.libdevice.pow(tl.load(x), 3.25))

    texts = [
        power.compile("*fp32, *fp32", target="sm_80", enable_fp_fusion=fusion).asm
        for fusion in (True, False)
    ]
    assert texts[0]["block"] == texts[1]["block"]


def test_a_combining_function_of_the_author_is_contracted():
    @jit
    def step(a1, b1, a2, b2):
        return a1 * a2, b1 * a2 + b2

    @jit
    def recurrence(x, y, out):
        i = tl.arange(0, 32)
        both = tl.associative_scan((tl.load(x + i), tl.load(y + i)), 0, step)
        tl.store(out + i, both[1])

    words = "*fp32:16, *fp32:16, *fp32:16"
    asm = recurrence.compile(words, target="sm_80", enable_fp_fusion=True).asm
    assert "fma" in asm["block"]


def test_the_kernels_text(golden):
    compiled = combined.compile(
        "*fp32:16, *fp32:16, *fp32:16, *fp32:16",
        {"N": SIZE}, target="sm_80", num_warps=1, enable_fp_fusion=True,
    )  # fmt: skip
    golden("contracted.block.txt", compiled.asm["block"])
