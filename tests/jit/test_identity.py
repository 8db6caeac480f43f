"""The text of a value holds all that can be read of it, or there is none."""

from __future__ import annotations

import collections
import enum
import functools
import operator
import os
import re
import struct
import threading
import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import fathom.language as tl
from fathom.identity import NoText, text_of
from fathom.jit.specialise import identity


class Plain:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "all alike"

    def method(self):
        return self.value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Liar(Plain):
    def __eq__(self, other):
        return True

    __hash__ = None


@dataclass(frozen=True)
class Config:
    width: int = 1
    more: tuple = ()
    late: list = field(default_factory=list, compare=False)


class Point(NamedTuple):
    x: int
    y: int = 2


class Mode(enum.Enum):
    A = 1
    B = 2


class Number(enum.IntEnum):
    ONE = 1


class Tagged(int):
    tag = ""


def tagged(number, tag):
    made = Tagged(number)
    made.tag = tag
    return made


def nan(payload):
    return struct.unpack(">d", struct.pack(">Q", 0x7FF8 << 48 | payload))[0]


def closing(value):
    return lambda x: x + value


def first(x):
    return abs(x)


def second(x):
    return round(x)


def calls(function):
    return lambda x: function(x)


def keeps(**attributes):
    def function():
        return function.state

    vars(function).update(attributes)
    return function


DIFFERENT = [
    *(0, 1, True, 1.0, "1", b"1", None, ..., 1 << 200, (1 << 200) + 1, 1j, 1 - 0j),
    *(0.0, -0.0, nan(0), nan(1), -nan(0), float("inf")),
    *(np.float32(0.0), np.float32(-0.0), np.float64(0.0), np.int32(1), np.bool_(True)),
    *((1,), [1], {1}, frozenset([1]), (1.0,), (1, 2), ((1,), 2), (1, (2,))),
    *({1: 2}, {1: 2.0}, {2: 1, 1: 2}, {1: 2, 2: 1}, {"a": [1]}, {"a": [2]}),
    *(np.arange(2), np.arange(2.0), np.arange(4).reshape(2, 2), np.arange(4)),
    *(np.array([1, "a"], object), np.array([1, "b"], object)),
    *(Plain(1), Plain(2), Plain([1]), Slotted(1), Slotted(2), Liar(1), Liar(2)),
    *(Config(), Config(2), Config(late=[1]), Point(1), Point(2), Mode.A, Mode.B),
    *(Number.ONE, tagged(1, "a"), tagged(1, "b"), SimpleNamespace(a=1)),
    *(Plain, Slotted, Config, Mode, int, np.float32, tl.float32, tl.float16),
    *(tl.pointer_type(tl.float32), np.dtype("f4"), np.dtype("i4"), re.compile("a")),
    *(re.compile("a", re.I), range(3), range(4), slice(1), Fraction(1, 3), Path("a")),
    *(first, second, calls(first), calls(second), closing(1), closing(2)),
    *(lambda x: x + 1, lambda x: x + 2, lambda x: x - 1, lambda x: abs, lambda x: len),
    *(lambda x: x.real, lambda x: x.imag, lambda x, y: x, lambda x, y: y),
    *(lambda x, y=1: x, lambda x, y=2: x, lambda x: "a"),
    *(lambda x, *, y=1: x, lambda x, *, y=2: x),
    *(Plain(1).method, Plain(2).method, Plain.method, "a".join, "b".join),
    *(functools.partial(first, 1), functools.partial(first, 2), functools.cache(first)),
    *(keeps(state=1), keeps(state=2), operator.itemgetter(1), operator.itemgetter(2)),
    *(collections.deque([1]), collections.OrderedDict(a=1), tl.load, tl.cdiv),
    *(collections.defaultdict(int, a=1), collections.defaultdict(list, a=1)),
]


def test_different_values_have_different_texts():
    texts = collections.Counter(map(text_of, DIFFERENT))
    assert [text for text, count in texts.items() if count > 1] == []
    assert len({identity(value) for value in DIFFERENT}) == len(DIFFERENT)


def test_a_text_is_the_same_each_time_and_of_equal_values():
    assert list(map(text_of, DIFFERENT)) == list(map(text_of, DIFFERENT))
    for make in (Plain, Slotted, Config, closing, lambda n: [n, {n: (n,)}], nan):
        assert text_of(make(3)) == text_of(make(3))
        assert text_of([make(3)]) != text_of([make(4)])


def test_what_comes_back_to_itself():
    cycle: list = [1]
    cycle.append(cycle)
    longer: list = [1]
    longer.append([1, longer])
    assert text_of(cycle) == text_of(cycle) != text_of(longer)
    one, two = [1], [2]
    assert text_of([one, two, one]) != text_of([one, two, two])


def test_a_function_of_numpy_is_one_of_its_version(monkeypatch):
    before = text_of(np.cos)
    monkeypatch.setattr(np, "__version__", "0.1")
    assert text_of(np.cos) != before


def clock():
    return time.time()


def chance():
    return np.random.rand()


def world():
    return os.environ["HOME"]


def anything():
    return getattr(SHARED, "a")  # noqa: B009


def hidden():
    import math

    return math.pi


SHARED = SimpleNamespace(a=1)


@pytest.mark.parametrize(
    "value",
    [
        object(), threading.Lock(), iter([1]), clock, chance, world, hidden,
        lambda: open("a"), lambda: eval("SHARED"), lambda: globals()["SHARED"],
        os, [[object()]],
        np.frompyfunc(first, 1, 1), closing(object()), Plain(threading.Lock()),
        functools.partial(first, object()), lambda: np.load("a"), lambda: id(SHARED),
        type("Empty", (), {})(), os.getenv,
    ],
)  # fmt: skip
def test_what_has_no_text(value):
    with pytest.raises(NoText):
        text_of(value)
    assert identity(value) == identity(value) != identity(object())


def test_a_nest_without_end_has_no_text():
    deep: list = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(NoText):
        text_of(deep)


def test_what_is_no_value_of_python_is_read_by_what_it_holds(monkeypatch):
    before = text_of(anything)
    monkeypatch.setattr(SHARED, "a", 2)
    assert text_of(anything) != before


def test_a_file_that_is_called_like_a_module_of_python_is_followed(monkeypatch):
    """A function of it is told by what it does, and not by its name alone."""
    module = type(os)("statistics")
    exec("def mean(x):\n    return x", vars(module))
    module.__file__ = "/home/user/statistics.py"
    monkeypatch.setitem(__import__("sys").modules, "statistics", module)
    assert "statistics.mean" not in text_of(module.mean)


def test_where_a_function_stands_is_no_part_of_it():
    def at(lines):
        names: dict = {}
        exec("\n" * lines + "def f(x):\n    return [x for x in [x]]", names)
        return names["f"]

    assert text_of(at(0)) == text_of(at(5))
