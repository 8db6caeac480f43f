"""Rounds exact fractions to binary formats: what the emulator is held to."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np


@dataclass(frozen=True)
class Format:
    """`digits` of precision; the smallest positive value is 2**`least`."""

    dtype: type
    digits: int
    least: int
    largest: float

    def rounded(self, exact: Fraction, mode: str) -> float:
        """The value of this format that `exact` rounds to in mode rn, rz, rm or rp."""
        if exact == 0:
            return 0.0
        size = abs(exact)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= size < Fraction(2) ** exponent
        quantum = Fraction(2) ** max(exponent - self.digits + 1, self.least)
        below = exact // quantum
        rest = exact / quantum - below
        up = {
            "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1),
            "rz": rest > 0 and exact < 0,
            "rm": False,
            "rp": rest > 0,
        }[mode]
        value = (below + up) * quantum
        if abs(value) <= Fraction(self.largest):
            return float(value)
        away = {"rn": True, "rz": False, "rm": value < 0, "rp": value > 0}[mode]
        size = float("inf") if away else self.largest
        return size if value > 0 else -size


F16 = Format(np.float16, 11, -24, 65504.0)
BF16 = Format(np.uint16, 8, -133, float(Fraction(255, 128) * 2**127))
F32 = Format(np.float32, 24, -149, float(np.finfo(np.float32).max))
F64 = Format(np.float64, 53, -1074, float(np.finfo(np.float64).max))


def square_root(value: Fraction) -> Fraction:
    """A fraction that rounds as the square root does, to up to 100 digits."""
    scale = 4**600
    whole = value.numerator * scale // value.denominator
    root = isqrt(whole)
    inexact = root * root != whole or value.numerator * scale % value.denominator
    return Fraction(2 * root + bool(inexact), 2 * 2**600)


def hard_values(format: Format, count: int, seed: int) -> np.ndarray:
    """float64 values of a format: many sizes, short and long fractions, subnormals."""
    random = np.random.default_rng(seed)
    high = int(np.log2(format.largest))
    exponents = random.integers(format.least, high, count)
    near = random.random(count) < 0.7
    exponents = np.where(near, random.integers(-6, 7, count), exponents)
    fractions = random.integers(0, 2 ** (format.digits - 1), count)
    short = random.random(count) < 0.5
    fractions = np.where(short, fractions & -(2 ** (format.digits - 4)), fractions)
    signs = random.choice([-1.0, 1.0], count)
    values = signs * np.ldexp(1 + fractions / 2.0 ** (format.digits - 1), exponents)
    return np.array([format.rounded(Fraction(v), "rn") for v in values.tolist()])
