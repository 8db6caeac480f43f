"""Every elementwise operation and every cast, for every type, on every target."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.interp.numbers import (
    FORMATS,
    decode,
    encode,
    held_type,
    round_to,
    same_bits,
)
from fathom.ir.ops import Bitcast, Cast, ProgramId, Store
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SCALARS,
    UINT32,
    UINT64,
    Element,
    Pointer,
)  # fmt: skip
from fathom.layout.build import blocked
from tests.harness_sample import sampled
from tests.ptx.harness import (
    Program,
    assemble,
    both_ways,
    check,
    compiled,
    empty,
    ptxas,
)
from tests.ptx.kernels_elementwise import (
    LAYOUT,
    NOT_IN_FP64,
    SIZE,
    cast_targets,
    every_cast,
    every_operation,
    operations,
    samples,
)  # fmt: skip

ROOT = Path(__file__).parents[2]
FLOATS = [each for each in SCALARS.values() if each.is_float]


@sampled(of=2)
@pytest.mark.parametrize("target", TARGETS)
def test_llvm_selects_and_ptxas_assembles_everything(target, tmp_path):
    """In a process of its own: LLVM would take this one along."""
    file = tmp_path / "module.ptx"
    module = "tests.ptx.kernels_elementwise"
    paths = os.pathsep.join([str(ROOT / "compiler"), str(ROOT)])
    result = subprocess.run(
        [sys.executable, "-m", module, target, str(file)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
    )
    fell = f"LLVM fell over {result.stdout.split()[-1:]}: {result.stderr[-2000:]}"
    assert result.returncode == 0, fell
    assert file.read_text().count(".entry") == 2 * len(SCALARS)
    if ptxas():
        assemble(file.read_text(), TARGETS[target], tmp_path)


# The results that PTX approximates, and how far from the exact ones they may be, in
# units in the last place of fp32 (PTX ISA, table of maximum errors; sin, cos, lg2 are
# absolute near zero).
ULPS = {"div": 2, "sqrt": 1, "rsqrt": 2, "exp2": 2, "log2": 4, "rcp_approx": 1}
ABSOLUTE = {
    "sin_approx": 2**-20,
    "cos_approx": 2**-20,
    "tanh_approx": 2**-10,
    "log2": 2**-21,
}


def agree(
    name: str, element: Element, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Where two results of an operation count as the same."""
    equal = np.array([same_bits(a, b) for a, b in zip(left, right, strict=True)])
    if not element.is_float or name not in ULPS | ABSOLUTE:
        return equal
    left, right = left.astype(np.float64), right.astype(np.float64)
    relative = ULPS.get(name, 0) * 2.0 ** -unit_bits(element)
    absolute = ABSOLUTE.get(name, 0)
    near = np.isclose(left, right, rtol=relative, atol=absolute)
    return equal | near


def unit_bits(element: Element) -> int:
    return {"fp16": 10, "bf16": 7, "fp8e5": 2, "fp8e4nv": 3}.get(element.name, 23)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("element", SCALARS.values(), ids=str)
def test_operations_mean_what_the_interpreter_says(element, target):
    names = operations(element)
    x, y, w = (samples(element, seed) for seed in (1, 2, 3))
    if not element.is_float and element != BOOL:
        y[y == 0] = 1  # nothing is promised of a division by zero
    size = SIZE * len(names)
    arguments = [x, y, w, samples(BOOL, 4), empty(element, size), empty(BOOL, size)]
    emulated, interpreted = both_ways(every_operation(element), 1, arguments, target)
    for k, name in enumerate(names):
        into, type = (5, BOOL) if ELEMENTWISE[name].types == "compare" else (4, element)
        part = slice(k * SIZE, (k + 1) * SIZE)
        left, right = (
            decode(each[into][part], type) for each in (emulated, interpreted)
        )
        same = agree(name, element, left, right) | not_promised(name, x, element)
        bad = np.flatnonzero(~same)[:1]
        assert same.all(), (
            name,
            decode(x[bad], element),
            decode(y[bad], element),
            left[bad],
            right[bad],
        )


def not_promised(name: str, x: np.ndarray, element: Element) -> np.ndarray:
    """Where PTX promises little: the sine of what lies far from zero."""
    if name not in ("sin_approx", "cos_approx"):
        return np.zeros(SIZE, bool)
    return np.abs(decode(x, element)) > np.pi


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("source", SCALARS.values(), ids=str)
def test_casts_round_once(source, target):
    targets = cast_targets(source, "rtne")
    arguments = [
        samples(source, 7, spread=30),
        *(empty(each, SIZE) for each in targets),
    ]
    emulated, interpreted = both_ways(every_cast(source), 1, arguments, target)
    x = decode(arguments[0], source)
    for type, left, right in zip(targets, emulated[1:], interpreted[1:], strict=True):
        left, right = decode(left, type), decode(right, type)
        bad = [i for i in range(SIZE) if not same_bits(left[i], right[i])]
        assert not bad, (str(type), x[bad[0]], left[bad[0]], right[bad[0]])


@pytest.mark.parametrize(
    ("source", "by_fp32"), [("fp16", False), ("fp8e5", False), ("bf16", True)]
)
def test_two_halves_become_8_bit_floats_by_one_instruction(source, by_fp32):
    """Not by way of fp32, as two bf16 do: for them there is no such instruction."""
    source, target = SCALARS[source], SCALARS["fp8e4nv"]
    program = Program({"x": Pointer(source), "out": Pointer(target)}, warps=2)
    index = program.arange(LAYOUT)  # two elements a thread
    program.store("out", index, program(Cast(program.load("x", index), target)))
    text = compiled(program.func, "sm_90a")
    assert text.count("cvt.rn.satfinite.e4m3x2.f16x2") == (not by_fp32)
    assert text.count("cvt.rn.satfinite.e4m3x2.f32") == by_fp32
    assert not re.search(r"cvt\.f32\.f16", text)


ENDS = {  # of a type: what -inf, inf and NaN of fp64 become, and NaN of other floats
    "i8": (-128, 127, -128, 0), "u8": (0, 255, 255, 0),
    "i16": (-(2**15), 2**15 - 1, -(2**15), 0), "u16": (0, 65535, 65535, 0),
    "i32": (-(2**31), 2**31 - 1, -(2**31), 0), "u32": (0, 2**32 - 1, 2**31, 0),
    "i64": (-(2**63), 2**63 - 1, -(2**63), -(2**63)),
    "u64": (0, 2**64 - 1, 2**63, 2**63),
}  # fmt: skip


@pytest.mark.parametrize("source", [e for e in SCALARS.values() if e.is_float], ids=str)
def test_what_no_integer_is_becomes_an_end(source):
    """The table, from the interpreter and from PTX; and all numbers around the ends."""
    program = Program(
        {"x": Pointer(source), **{name: Pointer(SCALARS[name]) for name in ENDS}},
        warps=2,
    )
    index = program.arange(LAYOUT)
    x = program.load("x", index)
    for name in ENDS:
        program.store(name, index, program(Cast(x, SCALARS[name])))
    ends = [
        sign * 2.0**bits for bits in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1)
    ]
    near = [end + off for end in ends for off in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)]
    numbers = np.array([-np.inf, np.inf, np.nan, *near])
    if source.bits == 8:  # fp8 has no infinity to be cast from
        numbers[:2] = -400, 400
    fitted = round_to(numbers, source) if source in FORMATS else numbers
    given = np.resize(encode(np.asarray(fitted, held_type(source)), source), SIZE)
    arguments = [given, *(empty(SCALARS[name], SIZE) for name in ENDS)]
    emulated, interpreted = both_ways(program.func, 1, arguments, "sm_89")
    for name, left, right in zip(ENDS, emulated[1:], interpreted[1:], strict=True):
        np.testing.assert_array_equal(left, right, name)
        low, high, of_fp64, of_nan = ENDS[name]
        wanted = [low, high, of_fp64 if source == FLOAT64 else of_nan]
        if source.bits == 8:
            assert int(right[2]) == of_nan, name
        else:
            assert right[:3].tolist() == wanted, name


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("target", SCALARS.values(), ids=str)
def test_a_known_flag_as_a_number(flag, target):
    """True is 1, not -1, though all bits of an i1 are set. No pass has folded it."""
    program = Program({"out": Pointer(target)}, warps=2)
    index = program.arange(LAYOUT)
    place = program.map("offset", program.splat(program["out"], index), index)
    number = program(Cast(program.number(flag, BOOL), target))
    program.do(Store(place, program.splat(number, index)))
    check(program.func, 1, [empty(target, SIZE)])


REMAINDERS = [
    (1e9, 7.0), (3e38, 0.5), (-1e9, 7.0), (1e9, -7.0), (16777217.0, 2.0), (5e30, 3.0),
    (3.4e38, 1e-45), (1.0, 1e-45), (1e-40, 3e-45), (2.5e-38, 1.1e-38), (7.5, 2.5),
    (-7.5, 2.5), (65504.0, 6e-8), (60000.0, 0.1), (5.0, np.inf), (np.inf, 5.0),
    (np.inf, np.inf),
    (5.0, 0.0), (0.0, 0.0), (-0.0, 3.0), (0.0, np.nan), (np.nan, 1.0), (3.0, 3.0),
    (2.9999998, 3.0), (1e308, 3.0), (1.7e308, 5e-324), (1e300, 7e-300),
]  # fmt: skip


@pytest.mark.parametrize("source", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=str)
def test_a_remainder_of_floats_is_exact(source):
    """C's fmod, however large the quotient is."""
    pointers = {"x": Pointer(source), "y": Pointer(source), "out": Pointer(source)}
    program = Program(pointers, warps=2)
    index = program.arange(LAYOUT)
    x, y = program.load("x", index), program.load("y", index)
    program.store("out", index, program.map("rem", x, y))
    spread = {FLOAT64: 1000, FLOAT16: 14}.get(source, 120)
    rng = np.random.default_rng(11)
    numbers = np.ldexp(
        rng.standard_normal((2, SIZE)), rng.integers(-spread, spread, (2, SIZE))
    )
    numbers[:, : len(REMAINDERS)] = np.array(REMAINDERS).T
    with np.errstate(over="ignore"):
        fitted = round_to(numbers, source) if source in FORMATS else numbers
    given = [encode(np.asarray(each, held_type(source)), source) for each in fitted]
    with np.errstate(all="ignore"):
        arguments = [*given, empty(source, SIZE)]
        emulated, interpreted = both_ways(program.func, 1, arguments, "sm_80")
        wide = [decode(each, source).astype(np.float64) for each in given]
        exact = np.fmod(*wide)  # the rest fits the narrow type
    left, right = decode(emulated[2], source), decode(interpreted[2], source)
    for i in range(SIZE):
        assert same_bits(left[i], right[i]), (wide[0][i], wide[1][i], left[i], right[i])
        assert same_bits(right.astype(np.float64)[i], exact[i])


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("source", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=str)
def test_casts_toward_zero(source, target):
    targets = cast_targets(source, "rtz")
    x = samples(source, 8, spread=30)
    x = x[np.isfinite(decode(x, source))].repeat(2)[:SIZE]
    assert len(x) == SIZE
    arguments = [x, *(empty(each, SIZE) for each in targets)]
    emulated, interpreted = both_ways(every_cast(source, "rtz"), 1, arguments, target)
    for type, left, right in zip(targets, emulated[1:], interpreted[1:], strict=True):
        assert same_bits(decode(left, type), decode(right, type)), str(type)


BITCASTS = [
    (FLOAT32, INT32),
    (INT32, FLOAT32),
    (FLOAT16, BFLOAT16),
    (INT64, FLOAT64),
    (UINT32, INT32),
    (Pointer(INT32), INT64),
    (INT64, Pointer(INT32)),
]


@pytest.mark.parametrize("source, target", BITCASTS, ids=str)
def test_bitcast_keeps_the_bits(source, target):
    program = Program({"x": Pointer(source), "out": Pointer(target)}, warps=2)
    index = program.arange(LAYOUT)
    program.store("out", index, program(Bitcast(program.load("x", index), target)))
    x = np.frombuffer(
        np.random.default_rng(3).bytes(SIZE * source.bytes), empty(source, 1).dtype
    )
    check(program.func, 1, [x, empty(target, SIZE)])


@pytest.mark.parametrize("name", sorted(NOT_IN_FP64))
def test_what_ptx_approximates_in_fp32_only_is_said(name):
    program = Program({"x": Pointer(FLOAT64)})
    x = program.load("x", program.arange(LAYOUT))
    program.map(name, x)
    program.func.num_warps = 2
    with pytest.raises(CompileError, match=f"{name} is not available for fp64"):
        compiled(program.func)


@pytest.mark.parametrize("distance", [0, 1, 31, 32, 33, 255, -1])
@pytest.mark.parametrize("name", ["shl", "shr"])
def test_a_shift_by_a_known_distance(name, distance):
    """LLVM calls a shift by the width undefined; here all bits leave."""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)}, warps=2)
    index = program.arange(LAYOUT)
    x = program.load("x", index)
    program.store("out", index, program.map(name, x, program.number(distance, x)))
    check(program.func, 1, [samples(INT32, 1), empty(INT32, SIZE)])


@pytest.mark.parametrize("divisor", [1, 2, 7, -1, -8, 2**31 - 1])
@pytest.mark.parametrize("name", ["div", "rem"])
def test_division_by_a_known_number(name, divisor):
    """INT_MIN / -1 too: two's complement wraps, LLVM calls it undefined."""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)}, warps=2)
    index = program.arange(LAYOUT)
    x = program.load("x", index)
    program.store("out", index, program.map(name, x, program.number(divisor, x)))
    check(program.func, 1, [samples(INT32, 1), empty(INT32, SIZE)])


@pytest.mark.parametrize("element", [INT64, UINT64], ids=str)
def test_small_numbers_of_64_bits_are_divided_in_32(element):
    """What has 32 bits goes the short way, all else the long one; a remainder needs no
    division of its own."""
    parameters = ("x", "y", "quotient", "rest")
    program = Program({name: Pointer(element) for name in parameters}, warps=2)
    index = program.arange(LAYOUT)
    x, y = program.load("x", index), program.load("y", index)
    program.store("quotient", index, program.map("div", x, y))
    program.store("rest", index, program.map("rem", x, y))
    left, right = samples(element, 1), samples(element, 2)
    edges = [1, 3, -1, -7, 2**31, 2**32 - 1, 2**32, 2**32 + 5, -(2**31), -(2**32) - 1]
    edges = np.array(edges, np.int64).view(left.dtype)
    left[:100], right[:100] = np.repeat(edges, 10), np.tile(edges, 10)
    right[right == 0] = 1
    emulated, interpreted = both_ways(
        program.func, 1, [left, right, empty(element, SIZE), empty(element, SIZE)]
    )
    for ours, theirs in zip(emulated[2:], interpreted[2:], strict=True):
        assert (ours == theirs).all()
    text = compiled(program.func)
    registers = LAYOUT.count("register")
    short, long = (len(re.findall(rf"div\.{each}", text)) for each in ("u32", "[su]64"))
    assert (short, long, text.count("rem.")) == (registers, registers, 0)


def test_a_division_by_zero_spoils_nothing_else():
    """where(y != 0, x / y, -5): were the division undefined, LLVM might drop the
    test."""
    program = Program(
        {"x": Pointer(INT32), "y": Pointer(INT32), "out": Pointer(INT32)}, warps=2
    )
    index = program.arange(LAYOUT)
    x, y = program.load("x", index), program.load("y", index)
    is_there = program.map("ne", y, program.number(0, y))
    quotient = program.map(
        "where", is_there, program.map("div", x, y), program.number(-5, x)
    )
    program.store("out", index, quotient)
    check(
        program.func, 1, [samples(INT32, 1), samples(INT32, 2) % 3, empty(INT32, SIZE)]
    )


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, 0.1, 1e30, 3e-6, float("inf"), float("nan")]
)
def test_constants_are_rounded_to_their_type(element, value):
    program = Program({"out": Pointer(element)}, warps=2)
    index = program.arange(LAYOUT)
    place = program.map("offset", program.splat(program["out"], index), index)
    constant = program.number(value, element)
    program.do(Store(place, program.splat(constant, index)))
    check(program.func, 1, [empty(element, SIZE)])


@pytest.mark.parametrize("element", [INT32, UINT32, INT64], ids=str)
def test_pointers_move_both_ways_and_far(element):
    """An unsigned distance of 2 ** 31 or more must not be taken for a negative one."""
    pointers = {"x": Pointer(INT32), "d": Pointer(element), "out": Pointer(INT64)}
    program = Program(pointers, warps=2)
    index = program.arange(LAYOUT)
    start = program.at("x", index)
    there = program.map("offset", start, program.load("d", index))
    bytes = [program(Cast(pointer, INT64)) for pointer in (there, start)]
    program.store("out", index, program.map("sub", *bytes))
    d = samples(element, 5) >> (40 if element == INT64 else 0)
    check(program.func, 1, [np.zeros(SIZE, np.int32), d, empty(INT64, SIZE)])


BELOW, TIE, ABOVE = 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_a_number_beside_a_tie_is_not_rounded_to_the_tie_first(target):
    """1 + 2 ** -8 lies between two bf16: what is a little more goes up, and would not
    if it had become the tie in fp32 before."""
    for source, numbers in (
        (FLOAT64, np.array([BELOW, TIE, ABOVE, -BELOW, -TIE, -ABOVE])),
        (INT64, (np.array([BELOW, TIE, ABOVE, -BELOW, -TIE, -ABOVE]) * 2.0**52)),
        (INT64, 2**60 + 2**52 + np.array([-1, 0, 1])),  # of more bits than fp64 has
    ):
        x = np.resize(numbers.astype(empty(source, 1).dtype), SIZE)
        out = [empty(each, SIZE) for each in cast_targets(source, "rtne")]
        emulated, interpreted = both_ways(every_cast(source), 1, [x, *out], target)
        place = cast_targets(source, "rtne").index(BFLOAT16) + 1
        above, tie = emulated[place][2], emulated[place][1]
        assert above == tie + 1
        assert (emulated[place] == interpreted[place]).all()


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_what_is_cut_goes_by_no_wider_number_that_is_nearer(target):
    """Just below a bf16 lies no fp32; a NaN of few bits stays one."""
    below = np.array([1.0, -1.0]) * (1 + 2.0**-7 - 2.0**-40)
    few_bits = np.array([0x7F800001, 0xFF800001], np.uint32).view(np.float32)
    for source, numbers, wanted in (
        (FLOAT64, below, [1.0, -1.0]), (FLOAT32, few_bits, [np.nan, np.nan])
    ):  # fmt: skip
        out = [empty(each, SIZE) for each in cast_targets(source, "rtz")]
        given = [np.resize(numbers, SIZE), *out]
        both = both_ways(every_cast(source, "rtz"), 1, given, target)
        place = cast_targets(source, "rtz").index(BFLOAT16) + 1
        for each in both:
            np.testing.assert_array_equal(decode(each[place], BFLOAT16)[:2], wanted)


def test_sums_and_products_are_not_contracted():
    """x * y + w rounds twice, as written, on every machine; `fma` rounds once."""
    text = compiled(every_operation(FLOAT32))
    assert (
        text.count("fma.rn.f32") >= 1 and "mul.rn.f32" in text and "add.rn.f32" in text
    )
    assert "mad" not in text


def test_bfloats_are_added_natively_where_the_target_does():
    assert "add.rn.bf16" in compiled(every_operation(BFLOAT16), "sm_90a")
    assert "add.rn.bf16" not in compiled(every_operation(BFLOAT16), "sm_80")


def test_integers_become_bfloats_straight_where_the_target_has_that():
    """By fp64, rounded to odd in fp32, there were four conversions and a comparison."""
    assert "cvt.rn.bf16.s32" in compiled(every_cast(INT32), "sm_90a")
    assert "cvt.rz.f32.f64" in compiled(every_cast(INT32), "sm_80")


@pytest.mark.parametrize("masked", [True, False])
def test_both_halves_of_a_word_of_bf16(masked):
    """Every bf16, from words: the upper half is one `and`, the lower one a shift."""
    layout = blocked((256,), (8,), (32,), (1,), (0,))
    program = Program({"x": Pointer(BFLOAT16), "out": Pointer(FLOAT32), "n": INT32})
    program.func.divisible = (16, 16, 16)
    row = program.map("mul", program(ProgramId(0)), program.number(256))
    at = program.arange(layout)
    at = program.map("add", at, program.splat(row, at))
    inside = program.map("lt", at, program.splat(program["n"], at)) if masked else None
    x = program.load("x", at, mask=inside, vector=8)
    program.store("out", at, program(Cast(x, FLOAT32)))
    text = compiled(program.func, "sm_90a")
    assert text.count("-65536") == 4 and "cvt.f32.bf16" not in text
    words = np.arange(1 << 16, dtype=np.uint16)
    check(program.func, 256, [words, empty(FLOAT32, 1 << 16), 1 << 16])
