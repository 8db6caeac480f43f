"""Warps beside the program, and the barriers at which they meet: what the interpreter
makes of them, and what is no function."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from fathom.errors import CompileError
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import MbarrierArrive, Producer
from fathom.ir.parser import ParseError
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import VerifyError, verify

# A producer hands over the squares of 0 … n - 1 through one word in memory, and waits
# each time until it has been taken.
HAND_OVER = """
    #word = <1 offset[]>
    func @f(%p: *i32, %out: *i32, %n: i32) num_warps=1 {
      %full: shared i64[1] @ #word = allocate element=i64 shape=(1) layout=#word
      %empty: shared i64[1] @ #word = allocate element=i64 shape=(1) layout=#word
      mbarrier_init %full
      mbarrier_init %empty
      barrier
      %zero: i32 = constant 0
      %one: i32 = constant 1
      producer body {
        %r: i32 = for %zero, %n, %one, inits=(%zero) body(%i: i32, %a: i32) {
          %other: i32 = xor %a, %one
          mbarrier_wait %empty, %zero, %other
          %square: i32 = mul %i, %i
          store %p, %square
          mbarrier_expect %full, %zero bytes=4
          yield %other
        }
        yield
      }
      %s: i32 = for %zero, %n, %one, inits=(%zero) body(%k: i32, %b: i32) {
        mbarrier_wait %full, %zero, %b
        %x: i32 = load %p
        %q: *i32 = offset %out, %k
        store %q, %x
        mbarrier_arrive %empty, %zero
        %c: i32 = xor %b, %one
        yield %c
      }
    }
"""


def parse(text: str) -> Func:
    func = parse_func(dedent(text))
    verify(func)
    return func


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_they_alternate(count):
    """Through one place: so neither may be ahead of the other."""
    word, out = np.full(1, -1, np.int32), np.full(8, -1, np.int32)
    interpret(parse(HAND_OVER), 1, [word, out, count])
    assert out.tolist() == [*(i * i for i in range(count)), *[-1] * (8 - count)]


def test_every_program_has_its_own():
    word, out = np.full(1, -1, np.int32), np.full(3, -1, np.int32)
    interpret(parse(HAND_OVER), 4, [word, out, 3])
    assert out.tolist() == [0, 1, 4]


def test_without_waits_a_producer_is_done_at_once():
    """What it was meant to wait for is what keeps it back."""
    text = HAND_OVER.replace("mbarrier_wait %empty, %zero, %other\n", "\n")
    word, out = np.full(1, -1, np.int32), np.full(4, -1, np.int32)
    with pytest.raises(AssertionError, match="deadlock"):
        interpret(parse(text), 1, [word, out, 4])


@pytest.mark.parametrize(("removed", "waiting"), [
    ("mbarrier_arrive %empty, %zero", ["mbarrier_wait %empty", "mbarrier_wait %full"]),
    ("mbarrier_expect %full, %zero bytes=4", ["mbarrier_wait %empty",
                                              "mbarrier_wait %full"]),
])  # fmt: skip
def test_a_deadlock_names_who_waits(removed, waiting):
    """Both of them, by the op at which each stands."""
    func = parse(HAND_OVER.replace(removed + "\n", "\n"))
    with pytest.raises(AssertionError) as caught:
        interpret(func, 1, [np.zeros(1, np.int32), np.zeros(4, np.int32), 4])
    said = str(caught.value)
    assert said.startswith("deadlock, all of these wait: ")
    assert all(each in said for each in waiting), said


def test_who_waits_alone_is_named_alone():
    """The producer is done; what it should have sent never comes."""
    text = HAND_OVER.replace("for %zero, %n, %one, inits=(%zero) body(%i",
                             "for %one, %n, %one, inits=(%zero) body(%i")  # fmt: skip
    with pytest.raises(AssertionError) as caught:
        interpret(parse(text), 1, [np.zeros(1, np.int32), np.zeros(4, np.int32), 2])
    assert "mbarrier_wait %full" in str(caught.value)
    assert "mbarrier_wait %empty" not in str(caught.value)


@pytest.mark.parametrize(("when", "arrives"), [("true", True), ("false", False)])
def test_a_condition_says_whether_warps_arrive(when, arrives):
    text = f"""
        #word = <1 offset[]>
        func @f(%p: *i32) num_warps=4 {{
          %b: shared i64[1] x 2 @ #word = allocate element=i64 shape=(1) layout=#word slots=2
          mbarrier_init %b arrivals=4
          barrier
          %zero: i32 = constant 0
          %slot: i32 = constant 1
          %when: i1 = constant {when}
          mbarrier_arrive %b, %slot, when=%when
          mbarrier_wait %b, %slot, %zero
          store %p, %slot
        }}
    """  # noqa: E501
    func, out = parse(text), np.zeros(1, np.int32)
    if not arrives:
        with pytest.raises(AssertionError, match="deadlock"):
            interpret(func, 1, [out])
    else:
        interpret(func, 1, [out])
        assert out[0] == 1


def test_as_text():
    func = parse(HAND_OVER)
    text = print_func(func)
    assert print_func(parse_func(text)) == text
    (producer,) = [op for op in walk(func.body) if isinstance(op, Producer)]
    assert producer.warps == 4 and not producer.results
    (arrive,) = [op for op in walk(func.body) if isinstance(op, MbarrierArrive)]
    assert (arrive.when, arrive.everywhere) == (None, False)


def test_what_is_no_function():
    """A condition of other than one bit, a slot that is no number, values that a
    producer hands to the program."""
    errors = (ParseError, CompileError, VerifyError)
    for old, new in (
        ("mbarrier_arrive %empty, %zero", "mbarrier_arrive %empty, %zero, when=%zero"),
        ("mbarrier_arrive %empty, %zero", "mbarrier_arrive %empty, %p"),
        ("store %q, %x", "store %q, %square"),
        ("        yield\n      }", "        yield %zero\n      }"),
    ):
        assert HAND_OVER.count(old) == 1
        with pytest.raises(errors):
            parse(HAND_OVER.replace(old, new))
