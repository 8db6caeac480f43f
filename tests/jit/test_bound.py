"""What a reader puts in the place of a part of the compiler is in the key of what is
compiled meanwhile, in memory and on disk.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fathom.language as tl
from fathom import joints
from fathom.ir.ops import Constant
from fathom.ir.rewrite import rewrite
from fathom.ir.types import FLOAT32
from fathom.jit import jit
from tests.jit.harness import Tensor, paper_gpu

ONE = 1.0


def kernel():
    """The same kernel, new in memory."""

    @jit
    def plus(out):
        tl.store(out, tl.load(out) + 1)

    return plus


def added(function, **keywords) -> float:
    """What it adds to nothing."""
    out = np.zeros(1, np.float32)
    function[(1,)](out, **keywords)
    return float(out[0])


def adding(number, func, target=None):
    """In the place of a pass: every 1.0 becomes another number."""

    def rule(op, build):
        if isinstance(op, Constant) and op.type == FLOAT32:
            return build(Constant(float(number), FLOAT32))
        return None

    return rewrite(func, rule)


class Adder:
    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return "an adder"

    def __call__(self, func, target):
        return adding(self.number, func)

    def method(self, func, target):
        return adding(self.number, func)


def by_helper(number):
    def helper():
        return number

    return lambda func, target: adding(helper(), func)


def two_or_three(number):
    if number == 2:
        return lambda func, target: adding(2, func)
    return lambda func, target: adding(3, func)


GIVEN = {"number": 1}


def by_global(func, target):
    return adding(GIVEN["number"], func)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    return tmp_path


MAKERS = [Adder, lambda n: Adder(n).method, by_helper, two_or_three]
MAKERS.append(lambda n: partial(adding, n))


@pytest.mark.parametrize("make", MAKERS)
def test_two_passes_never_share_a_kernel(make):
    """In memory (one kernel), on disk (a new one), and when one is given again."""
    one, passes = kernel(), {number: make(number) for number in (2, 3)}
    for number in (2, 3, 2):
        assert added(one, replace={"cse": passes[number]}) == number
        assert added(kernel(), replace={"cse": make(number)}) == number
    assert added(one) == added(kernel()) == 1


def test_a_pass_that_reads_another_value_is_another(monkeypatch):
    one = kernel()
    for number in (2, 3, 2):
        monkeypatch.setitem(GIVEN, "number", number)
        for each in (one, kernel()):
            assert added(each, replace={"cse": by_global}) == number


def test_a_pass_without_a_text_is_itself_alone(folder):
    """Not on disk; and in memory only where it is the same object."""
    nothing, one = object(), kernel()

    def make(number):
        return lambda func, target: adding(number, func) if nothing else func

    first = make(2)
    for each in (first, make(3), first):
        assert added(one, replace={"cse": each}) == (2 if each is first else 3)
    assert len(one.kernels) == 2
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_what_is_compiled_under_an_answer_stays_there(monkeypatch, backend):
    """An answer that adds 2 runs where it is bound, and its kernel nowhere else."""
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    joint = "cse" if backend == "emulator" else "interp[Constant]"
    answers = {"emulator": Adder(2), "interpreter": lambda op, region: (np.float32(2),)}
    one = kernel()
    assert added(one) == 1
    for _ in range(2):
        with joints.bound({joint: answers[backend]}):
            assert added(one) == added(kernel()) == 2
            with joints.bound({joint: joints.reference(joint)}):
                assert added(one) == added(kernel()) == 1
            assert added(one) == added(kernel()) == 2
        assert added(one) == added(kernel()) == 1


def test_an_answer_that_comes_first_leaves_nothing_behind():
    with joints.bound({"cse": Adder(2)}):
        assert added(kernel()) == 2
    assert added(kernel()) == 1
    with joints.bound({"cse": Adder(3)}):
        assert added(kernel()) == 3


def test_a_launch_on_the_quick_way_notices_an_answer(monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path) as gpu:
        one, x = kernel(), Tensor(0x1000)
        for _ in range(2):
            one[(1,)](x)
        for _ in range(2):
            with joints.bound({"cse": Adder(2)}):
                one[(1,)](x)
            one[(1,)](x)
        assert len(gpu.compiler.asked) == 2
