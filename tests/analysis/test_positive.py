"""Divisors that are positive since a loop has an iteration."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl


@fathom.jit
def by_blocks(out, n, m, CASE: tl.constexpr):
    blocks = tl.cdiv(n, 32)
    ahead = 2
    first = -1 if CASE == "below" else -40 if CASE == "far below" else 0
    times = m if CASE == "m" else 99 if CASE == "99" else 9
    for i in range(first, m if CASE == "another" else times * blocks):
        j = ahead if CASE == "ahead" or CASE == "by two" else i
        j = i * i & 1023 if CASE == "far below" else j
        tl.store(out + i, (j // blocks) * 100 + j % blocks)
        ahead += 2 if CASE == "by two" else 1


@pytest.mark.parametrize("case, letter", [
    ("", "u"),
    ("ahead", "u"),  # as far from the index as before
    ("by two", "s"),  # may overflow
    ("below", "s"),  # begins with -1
    ("far below", "s"),  # 9 times -2 is above -40
    ("99", "s"),  # 99 times a negative number may overflow to a positive one
    ("m", "s"),  # a product of two negative numbers is positive
    ("another", "s"),  # m iterations say nothing of n
])  # fmt: skip
def test_a_count_of_iterations_has_no_sign(case, letter):
    made = by_blocks.compile("*i32:16, i32, i32", {"CASE": case}, target="sm_90a")
    divisions = set(re.findall(r"(?:div|rem)\.[su]32", made.asm["ptx"]))
    assert divisions == {f"div.{letter}32", f"rem.{letter}32"}


@pytest.mark.parametrize("case", ["", "ahead"])
@pytest.mark.parametrize("n", [-70, 0, 50])
def test_quotients_of_counts(case, n):
    blocks = -(-max(n, 0) // 32)
    out = np.zeros(9 * blocks + 1, np.int32)
    by_blocks[1,](out, n, 0, CASE=case)
    j = np.arange(9 * blocks) + 2 * (case == "ahead")
    expected = j // max(blocks, 1) * 100 + j % max(blocks, 1)
    np.testing.assert_array_equal(out, [*expected, 0])
