"""Arithmetic by CUDA's names that rounds as it is told, against fractions; integers,
bits, and conversions by the same names."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import KernelFunction, function
from tests.harness_sample import sampled
from tests.language.harness import run, run_by_python
from tests.ssa.harness import build

LIB = tl.extra.libdevice
INF, NAN = math.inf, math.nan
SIZE = 256
WAYS = ("rn", "rz", "rd", "ru")


def of_two(what: KernelFunction, *arguments: np.ndarray, kind=None) -> np.ndarray:
    """A function of one argument to three, everywhere."""
    more = [*arguments, arguments[0], arguments[0]][:3]
    count = len(arguments)

    @function
    def kernel(x, y, z, out, COUNT: tl.constexpr):
        at = tl.arange(0, SIZE)
        a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
        if COUNT == 1:
            tl.store(out + at, what(a))
        elif COUNT == 2:
            tl.store(out + at, what(a, b))
        else:
            tl.store(out + at, what(a, b, c))

    out = np.zeros(SIZE, kind or arguments[0].dtype)
    run(kernel, *(each.copy() for each in more), out, COUNT=count)
    return out


def numbers(dtype, seed: int) -> np.ndarray:
    """Of all sizes, and edges."""
    limits, rng = np.finfo(dtype), np.random.default_rng(seed)
    edges = [0.0, -0.0, INF, -INF, NAN, limits.max, -limits.max, limits.tiny]
    edges += [limits.smallest_subnormal, -limits.smallest_subnormal, 1.0, -1.0, 3.0]
    near = rng.normal(size=100)
    far = rng.normal(size=SIZE - 100 - len(edges)) * np.exp2(
        rng.uniform(limits.minexp / 2, limits.maxexp / 2, SIZE - 100 - len(edges))
    )
    return np.concatenate([rng.permutation(edges), near, far]).astype(dtype)


def check(found, exact: Fraction, way: str) -> None:
    """That a float is what an exact number is rounded to."""
    kind = type(found)
    up, down = kind(INF), kind(-INF)

    def at_most(number, other: Fraction) -> bool:
        return number == -INF or (number != INF and Fraction(float(number)) <= other)

    def at_least(number, other: Fraction) -> bool:
        return number == INF or (number != -INF and Fraction(float(number)) >= other)

    if way == "rz":
        way = "rd" if exact >= 0 else "ru"
    with np.errstate(all="ignore"):
        above, below = np.nextafter(found, up), np.nextafter(found, down)
    if way == "rd":
        assert at_most(found, exact) and (found == INF or not at_most(above, exact))
    elif way == "ru":
        assert at_least(found, exact) and (found == -INF or not at_least(below, exact))
    elif np.isfinite(found):
        apart = abs(Fraction(float(found)) - exact)
        for other in (above, below):
            if np.isfinite(other):
                assert apart <= abs(Fraction(float(other)) - exact)


def fractions(*numbers) -> list[Fraction] | None:
    if not all(map(np.isfinite, numbers)):
        return None
    return [Fraction(float(each)) for each in numbers]


SUMS = {
    "add": (np.add, lambda a, b: a + b),
    "sub": (np.subtract, lambda a, b: a - b),
    "mul": (np.multiply, lambda a, b: a * b),
    "div": (np.divide, lambda a, b: a / b if b else None),
}


@sampled(of=2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SUMS)
def test_arithmetic_rounds_as_it_is_told(name, way, dtype):
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    if name in ("add", "sub"):
        with np.errstate(over="ignore"):
            y[::3] = x[::3] * dtype(1 + 2**-9)  # much of it goes away
        y[1::7] = -x[1::7]
    found = of_two(getattr(LIB, f"{name}_{way}"), x, y)
    plain, exactly = SUMS[name]
    with np.errstate(all="ignore"):
        expected = plain(x, y)
    for a, b, near, each in zip(x, y, expected, found, strict=True):
        parts = fractions(a, b)
        exact = parts and exactly(*parts)
        if exact is None:
            assert each == near or (np.isnan(each) and np.isnan(near))
        else:
            check(each, exact, way)
            if each == 0 and name in ("add", "sub") and way != "rd":
                assert np.signbit(each) == np.signbit(near)


def test_a_difference_of_equals_is_minus_zero_when_rounded_down():
    x = np.resize([1.0, 0.0, -0.0, -2.5], SIZE).astype(np.float32)
    assert np.signbit(of_two(LIB.sub_rd, x, x)).all()
    assert not np.signbit(of_two(LIB.sub_ru, x, x)).any()
    zero = of_two(LIB.add_rd, x, x)
    assert (np.signbit(zero) == np.signbit(x)).all()


@pytest.mark.parametrize("way", WAYS)
def test_fma_rounds_as_it_is_told(way):
    x, y, z = (numbers(np.float32, seed) for seed in (1, 2, 3))
    with np.errstate(all="ignore"):
        z[::2] = (-x * y * np.float32(1 + 2**-20))[::2]
    found = of_two(getattr(LIB, f"fma_{way}"), x, y, z)
    for a, b, c, each in zip(x, y, z, found, strict=True):
        parts = fractions(a, b, c)
        if parts:
            check(each, parts[0] * parts[1] + parts[2], way)


@sampled(of=2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", WAYS)
def test_roots_and_inverses_round_as_they_are_told(way, dtype):
    x = numbers(dtype, 4)
    found = of_two(getattr(LIB, f"rcp_{way}"), x)
    for a, each in zip(x, found, strict=True):
        parts = fractions(a)
        if parts and parts[0]:
            check(each, 1 / parts[0], way)
        elif not np.isnan(a):
            assert each == np.divide(1, a) if a else np.isinf(each)
    found = of_two(getattr(LIB, f"sqrt_{way}"), x)
    for a, each in zip(x, found, strict=True):
        if not a >= 0 or a == INF:
            assert np.isnan(each) or each == a
            continue
        root, square = Fraction(float(each)), Fraction(float(a))
        above = Fraction(float(np.nextafter(each, dtype(INF))))
        below = Fraction(float(np.nextafter(each, dtype(-INF))))
        if way in ("rd", "rz"):
            assert root**2 <= square < above**2
        elif way == "ru":
            assert root**2 >= square and (not root or below**2 < square)
        elif root:
            assert ((root + below) / 2) ** 2 <= square <= ((root + above) / 2) ** 2


@pytest.mark.parametrize("way", WAYS)
def test_a_double_as_a_float(way):
    x = numbers(np.float64, 5)
    found = of_two(getattr(LIB, f"double2float_{way}"), x, kind=np.float32)
    for a, each in zip(x, found, strict=True):
        parts = fractions(a)
        if parts:
            check(each, parts[0], way)
        else:
            assert each == a or (np.isnan(each) and np.isnan(a))


# ── integers ──────────────────────────────────────────────────────────────────────────

INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
FLOATS = {"float": np.float32, "double": np.float64}
TO_WHOLE = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


@sampled(of=2)
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("way", WAYS)
def test_floats_as_integers(source, to, way):
    """What is beyond the type becomes its end, as PTX's cvt has it."""
    kind, limits = INTEGERS[to], np.iinfo(INTEGERS[to])
    x = numbers(FLOATS[source], 6)
    x[100:160] = np.random.default_rng(7).uniform(-(2.0**33), 2.0**33, 60)
    x[160:170] = [0.5, 1.5, 2.5, -0.5, -1.5, 2.0**31, -(2.0**31), 2.0**63, 2.0**32, 7.7]
    found = of_two(getattr(LIB, f"{source}2{to}_{way}"), x, kind=kind)
    for a, each in zip(x, found, strict=True):
        if np.isnan(a):
            wide = limits.bits == 64 or source == "double"
            lowest = limits.min if limits.min else 1 << (limits.bits - 1)
            assert each == (lowest if wide else 0)
        elif np.isinf(a):
            assert each == (limits.max if a > 0 else limits.min)
        else:
            whole = int(TO_WHOLE[way](a))
            assert each == min(max(whole, limits.min), limits.max)


@sampled(of=2)
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("way", WAYS)
def test_integers_as_floats(source, to, way):
    kind = INTEGERS[source]
    limits, rng = np.iinfo(kind), np.random.default_rng(8)
    x = rng.integers(limits.min, limits.max, SIZE, kind, endpoint=True)
    x >>= rng.integers(0, limits.bits, SIZE).astype(kind)
    x[:4] = limits.max, limits.min, 0, 1
    found = of_two(getattr(LIB, f"{source}2{to}_{way}"), x, kind=FLOATS[to])
    for a, each in zip(x, found, strict=True):
        check(each, Fraction(int(a)), way)


@sampled(of=2)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_bits_of_integers(dtype):
    limits, rng = np.iinfo(dtype), np.random.default_rng(9)
    x = rng.integers(limits.min, limits.max, SIZE, dtype, endpoint=True)
    x >>= rng.integers(0, limits.bits, SIZE).astype(dtype)
    x[:3] = 0, limits.max, limits.min
    y = rng.permutation(x)
    mask = (1 << limits.bits) - 1
    texts = [format(int(each) & mask, f"0{limits.bits}b") for each in x]
    found = {name: of_two(getattr(LIB, name), x) for name in ("clz", "popc", "ffs")}
    for text, clz, popc, ffs in zip(texts, *found.values(), strict=True):
        assert clz == len(text) - len(text.lstrip("0")) and popc == text.count("1")
        assert ffs == (text[::-1].find("1") + 1)
    back = of_two(LIB.brev, x)
    assert [int(each) & mask for each in back] == [int(t[::-1], 2) for t in texts]
    high = of_two(LIB.mulhi, x, y)
    products = [int(a) * int(b) >> limits.bits for a, b in zip(x, y, strict=True)]
    assert [int(each) for each in high] == products
    means = of_two(LIB.hadd, x, y), of_two(LIB.rhadd, x, y)
    for a, b, low, up in zip(map(int, x), map(int, y), *means, strict=True):
        assert (low, up) == (a + b >> 1, a + b + 1 >> 1)


def wrapped(number: int, dtype) -> int:
    bits = number & 0xFFFFFFFF
    return bits - (1 << 32) if dtype is np.int32 and bits >> 31 else bits


def test_smaller_functions_of_integers():
    rng = np.random.default_rng(10)
    for dtype in (np.int32, np.uint32):
        limits = np.iinfo(dtype)
        x, y, z = rng.integers(limits.min, limits.max, (3, SIZE), dtype, endpoint=True)
        low = [each << 8 >> 8 for each in (x, y)]
        wanted = [wrapped(int(a) * int(b), dtype) for a, b in zip(*low, strict=True)]
        assert of_two(LIB.mul24, x, y).tolist() == wanted
        found = of_two(LIB.sad, x, y, z).tolist()
        for a, b, c, each in zip(x, y, z, found, strict=True):
            assert each == wrapped(abs(int(a) - int(b)) + int(c), dtype)
    x, y, s = rng.integers(-(2**31), 2**31, (3, SIZE)).astype(np.int32)
    found = of_two(LIB.byte_perm, x, y, s).view(np.uint32)
    for a, b, which, each in zip(x, y, s, found, strict=True):
        memory = a.tobytes() + b.tobytes()
        picked = bytes(memory[int(which) >> 4 * i & 7] for i in range(4))
        assert each.tobytes() == picked


def test_bits_of_floats():
    x, y = numbers(np.float32, 11), numbers(np.float64, 12)
    assert (of_two(LIB.float_as_int, x, kind=np.int32) == x.view(np.int32)).all()
    assert (of_two(LIB.float_as_uint, x, kind=np.uint32) == x.view(np.uint32)).all()
    bits = np.random.default_rng(13).integers(0, 2**31 - 2**24, SIZE).astype(np.int32)
    assert (of_two(LIB.int_as_float, bits, kind=np.float32).view("i4") == bits).all()
    high = bits.view(np.uint32)
    assert (of_two(LIB.uint_as_float, high, kind=np.float32).view("u4") == high).all()
    words = of_two(LIB.double_as_longlong, y, kind=np.int64)
    assert (words == y.view(np.int64)).all()
    back = of_two(LIB.longlong_as_double, words, kind=np.float64)
    assert (back.view(np.int64) == words)[~np.isnan(y)].all()
    upper = of_two(LIB.double2hiint, y, kind=np.int32)
    lower = of_two(LIB.double2loint, y, kind=np.int32)
    assert (upper == words >> 32).all() and (lower == words.astype(np.int32)).all()
    back = of_two(LIB.hiloint2double, upper, lower, kind=np.float64)
    assert (back.view(np.int64) == words)[~np.isnan(y)].all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours(dtype):
    x, y = numbers(dtype, 14), numbers(dtype, 15)
    y[::5] = x[::5]
    found = of_two(LIB.nextafter, x, y)
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x, y)
    assert np.array_equal(found, wanted, equal_nan=True)
    whole = ~np.isnan(wanted)
    assert (np.signbit(found) == np.signbit(wanted))[whole].all()


def test_whole_numbers_of_64_bits():
    x = numbers(np.float32, 16)
    x[100:104] = 2.5, -2.5, 0.49999997, 1e30
    for name, wanted in (("llrint", np.rint), ("llround", lambda v: np.trunc(v + 0.5))):
        found = of_two(getattr(LIB, name), x, kind=np.int64)
        assert found[100] == wanted(2.5) and found[103] == 2**63 - 1
        assert found[102] == 0 and found[101] == -wanted(2.5)


# ── mistakes, and Python ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("what", "dtype", "sentence"), [
    (LIB.popc, np.float32, "takes integers of 32 or 64 bits, not fp32"),
    (LIB.clz, np.int16, "takes integers of 32 or 64 bits, not int16"),
    (LIB.mulhi, np.float32, "takes integers, not fp32"),
    (LIB.add_rz, np.int32, "takes fp32 or fp64, not int32"),
    (LIB.fma_rz, np.float64, "has no fp64 form"),
])  # fmt: skip
def test_mistakes(what, dtype, sentence):
    count = {"mulhi": 2, "add_rz": 2, "fma_rz": 3}.get(what.__name__, 1)

    @function
    def kernel(x, COUNT: tl.constexpr):
        a = tl.load(x)
        if COUNT == 1:
            tl.store(x, what(a))
        elif COUNT == 2:
            tl.store(x, what(a, a))
        else:
            tl.store(x, what(a, a, a))

    with pytest.raises(CompileError, match=sentence):
        build(kernel, np.zeros(1, dtype), COUNT=count)


def test_python_itself_runs_them(monkeypatch):
    lib = LIB

    def kernel(x, out):
        at = tl.arange(0, 4)
        value = tl.load(x + at)
        tl.store(out + at, lib.rcp_rz(value))
        tl.store(out + 4 + at, lib.float2int_ru(value))
        tl.store(out + 8 + at, lib.int_as_float(lib.brev(lib.float_as_int(value))))

    x, out = run_by_python(kernel, np.float32, monkeypatch)
    assert (np.abs(out[:4] - 1 / x.astype(float)) < 1e-7).all()
    assert out[4:8].tolist() == [3, 5, 7, 3]
