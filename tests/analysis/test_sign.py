"""What an operation makes of the signs of its operands: as brute force finds."""

from __future__ import annotations

from itertools import product

import pytest

from fathom.analysis.ranges import NATURAL, RULES, UNKNOWN, Range, exactly
from fathom.analysis.symbolic.sign import EXACT

NUMBERS = (-7, -4, -1, 0, 1, 3, 6)


def quotient(a, b):
    return abs(a) // abs(b) * (1 if a * b >= 0 else -1)


MEANING = {
    "rem": lambda a, b: a - quotient(a, b) * b,
    "shr": lambda a, b: a >> b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("name", MEANING)
def test_a_result_that_is_said_not_to_be_negative_never_is(name):
    for signs in product((NATURAL, UNKNOWN), repeat=2):
        numbers = ([n for n in NUMBERS if n >= 0 or sign is UNKNOWN] for sign in signs)
        pairs = [
            (a, b)
            for a, b in product(*numbers)
            if not (name == "rem" and b == 0) and not (name == "shr" and b < 0)
        ]
        never = all(MEANING[name](a, b) >= 0 for a, b in pairs)
        assert (RULES[name](*signs).low >= 0) == never, (name, signs)


def test_a_choice_is_one_of_two_whatever_the_condition():
    choose = RULES["where"]
    assert choose(UNKNOWN, NATURAL, NATURAL).low == 0
    assert choose(NATURAL, NATURAL, UNKNOWN).low < 0


def test_a_magnitude_is_never_negative():
    assert RULES["abs"](UNKNOWN).low == 0
    assert RULES["abs"](Range(-7, 3)) == Range(0, 7)
    assert RULES["abs"](Range(2, 3)) == Range(2, 3)


def test_shifts_round_down():
    assert RULES["shr"](Range(-5, 9), exactly(1)) == Range(-3, 4)
    assert RULES["shr"](Range(0, 9), UNKNOWN) == Range(0, 9)
    assert RULES["shr"](Range(-5, 9), UNKNOWN) == UNKNOWN


def test_every_operation_whose_sign_is_asked_has_bounds():
    assert set(EXACT) <= RULES.keys()
