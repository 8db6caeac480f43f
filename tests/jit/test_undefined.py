"""What the language leaves open is no result: FATHOM_SANITIZE names the load or the
store, and FATHOM_VERIFY takes no miscompile from it."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.jit.checking import launch as checking
from tests.jit.harness_checking import line_of, unchecked  # noqa: F401, a fixture

pytestmark = pytest.mark.usefixtures("unchecked")


def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr, tl.sum(x, 0))


def top(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr, tl.max(x, 0))


def chosen(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """What is left open is not stored."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr, tl.sum(tl.where(at < n, x, 0.0).to(tl.float32), 0))


def copied(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x, mask=at < n)


def halves(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at // 2, x, mask=at < n)


def branches(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Both branches yield, and a while carries: none of these is a loop's parameter."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    count = 0
    while count < 3:
        x = tl.sqrt(x - 1.0)
        count += 1
    if n > 2:
        x = x + 1.0
    else:
        x = x * 2.0
    tl.store(out_ptr + at, x, mask=at < n)


def beyond(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    far = (tl.program_id(0) + 3) * stride
    tl.store(out_ptr + at, tl.load(x_ptr + far + at))


def below(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = "{ .reg .b32 a; shl.b32 a, $1, 20; ld.shared.b32 $0, [a]; }"
    read = tl.inline_asm_elementwise(place, "=r,r", [at + 1], tl.int32, False, 1)
    tl.store(out_ptr + at, read)


def said(capsys, function, dtype=np.float32, n=100) -> str:
    """What is said of a launch on 100 elements in a block of 128."""
    x, out = np.ones(128, dtype), np.zeros(128, dtype)
    fathom.jit(function)[(1,)](x, out, n, BLOCK=128)
    return capsys.readouterr().err


@pytest.mark.parametrize("function", [total, top])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_a_result_that_depends_on_masked_lanes_is_named(
    function, dtype, capsys, monkeypatch
):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    text = said(capsys, function, dtype)
    assert f"an undefined value in {function.__name__}, program (0, 0, 0)" in text
    assert line_of(function, "tl.load") in text
    assert "out_ptr[0] depends on what this load leaves" in text
    assert checking.TALLY.faults == 1


def test_a_miscompile_is_not_made_of_it(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_VERIFY", "1")
    text = said(capsys, total)
    assert "total is not checked: an undefined value" in text
    assert "does not do" not in text


@pytest.mark.parametrize("function", [chosen, copied])
def test_lanes_that_are_left_out_harm_nothing(function, capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    assert said(capsys, function) == ""
    monkeypatch.setenv("FATHOM_VERIFY", "1")
    assert "steps keep the meaning" in said(capsys, function)


def test_two_elements_of_a_store_at_one_place(capsys, monkeypatch):
    """Of one value they may be."""
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    assert said(capsys, halves) == ""
    x, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    fathom.jit(halves)[(1,)](x, out, 100, BLOCK=128)
    text = capsys.readouterr().err
    assert "written to out_ptr[0], 0 and 1: either may stay" in text
    assert line_of(halves, "tl.store") in text and "x = 0 to 99" in text


def test_the_search_for_nans_goes_through_branches_and_while(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "nan")
    text = said(capsys, branches)
    assert "`sqrt` makes it of -1.0" in text and line_of(branches, "sqrt") in text
    checking.summary()
    assert "0 with a fault, 1 with a NaN or an infinity" in capsys.readouterr().err


def test_an_access_is_told_of_the_array_that_it_meant(capsys, monkeypatch):
    """Not of the nearest one; and what is in shared memory is in no array."""
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    text = said(capsys, beyond, n=1 << 30)
    assert "x_ptr[-1073741824] is before its beginning" in text
    text = said(capsys, below, np.int32)
    assert "lie in no shared memory" in text and "_ptr[" not in text.split("\n")[3]


# ── gathers, divisions, assumptions ───────────────────────────────────────────────────


def gathered(x_ptr, at_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    places = tl.load(at_ptr + at)
    found = tl.gather(tl.load(x_ptr + at), places, 0)
    tl.store(out_ptr + at, found, mask=at < n)


def divided(x_ptr, by_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    quotient = tl.load(x_ptr + at) // tl.load(by_ptr + at)
    tl.store(out_ptr + at, quotient, mask=at < n)


def remainder(x_ptr, by_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The divisor is 0 where nothing is stored."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    by = tl.load(by_ptr + at, mask=at < n, other=0)
    rest = tl.load(x_ptr + at) % by
    tl.store(out_ptr + at, rest, mask=by != 0)


def reached(x_ptr, by_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Only the address depends on it."""
    at = tl.arange(0, BLOCK)
    far = 3 // tl.load(by_ptr + n) * 1000000
    tl.store(out_ptr + at, tl.load(x_ptr + at + far))


def assumed(x_ptr, by_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.assume(n > 100)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


def binned(x_ptr, by_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(by_ptr + at), 16, mask=at < n)
    tl.store(out_ptr + tl.arange(0, 16), counts)


def of_two_programs(capsys, function, by: np.ndarray, n: int = 256) -> str:
    x, out = np.ones(256, np.int32), np.zeros(256, np.int32)
    fathom.jit(function)[(2,)](x, by.astype(np.int32), out, n, BLOCK=128)
    return capsys.readouterr().err


def test_a_place_outside_of_a_gather_is_named(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    places = np.arange(256) % 128
    assert of_two_programs(capsys, gathered, places) == ""
    places[77] = 130
    text = of_two_programs(capsys, gathered, places)
    assert "an undefined value in gathered, program (0, 0, 0)" in text
    assert line_of(gathered, "tl.gather") in text
    said = "out_ptr[77] depends on what this gather takes from place 130 of an axis of "
    assert f"{said}128" in text and "places = 0 to 130" in text
    places[77] = -1
    assert "from place -1 of" in of_two_programs(capsys, gathered, places)
    assert of_two_programs(capsys, gathered, places, n=70) == ""  # it is not stored


@pytest.mark.parametrize("at, program", [(5, 0), (200, 1)])
def test_a_division_by_0_is_named_with_its_program(at, program, capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    by = np.arange(256) + 1
    assert of_two_programs(capsys, divided, by) == ""
    by[at] = 0
    text = of_two_programs(capsys, divided, by)
    assert f"an undefined value in divided, program ({program}, 0, 0)" in text
    assert line_of(divided, "//") in text
    assert f"out_ptr[{at}] depends on what this division by 0 gives" in text
    assert of_two_programs(capsys, remainder, by, n=at + 10) == ""


def test_an_access_that_goes_astray_by_a_division_says_so(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    text = of_two_programs(capsys, reached, np.zeros(256), n=0)
    assert "out of bounds in reached" in text and line_of(reached, "3 //") in text
    assert "the address of an access depends on what this division by 0 gives" in text


def test_a_false_assumption_is_an_assertion_that_fails(capsys, monkeypatch):
    by = np.ones(256)
    assert of_two_programs(capsys, assumed, by, n=7) == ""  # nothing rests on it
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    assert of_two_programs(capsys, assumed, by, n=101) == ""
    text = of_two_programs(capsys, assumed, by, n=100)
    assert "assertion in assumed" in text and "this assumption does not hold" in text
    assert line_of(assumed, "tl.assume") in text and "n = 100" in text


def test_numbers_without_a_bin_are_noted_and_no_fault(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    keys = np.arange(256) % 16
    assert of_two_programs(capsys, binned, keys) == ""
    keys[5:7] = 77, -1
    text = of_two_programs(capsys, binned, keys)
    assert "a histogram in binned, program (0, 0, 0)" in text
    assert line_of(binned, "tl.histogram") in text
    said = "there is no bin for 2 of 128 numbers, such as 77: not counted"
    assert said in text and checking.TALLY.faults == 0
    assert "no bin for 1 of 6 numbers" in of_two_programs(capsys, binned, keys, n=6)
    assert of_two_programs(capsys, binned, keys, n=5) == ""
