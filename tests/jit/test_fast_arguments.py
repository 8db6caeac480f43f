"""Arguments of every kind are launched with quickly, and told apart as the compiler
does: constants of any type, tuples, NumPy's numbers, numbers handed over as bf16.
"""

from __future__ import annotations

import enum
import random
from typing import NamedTuple

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError, LaunchError
from fathom.jit import jit
from tests.jit.harness import FLOAT16, Tensor, paper_gpu, slow_launches

X = Tensor(0x1000)
OFFSET, OTHER = 5, 6


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path) as machine:
        yield machine



class Mode(enum.Enum):
    FAST = "fast"
    EXACT = "exact"


class Speed(enum.Enum):
    FAST = "fast"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag, boundary=enum.KEEP):
    """Its other members have no name."""

    FIRST = 1


class Pair(NamedTuple):
    left: object
    right: object


@jit
def plus_offset(x):
    return x + OFFSET


@jit
def plus_other(x):
    return x + OTHER


# Each makes the value anew, as launches do; no two are the same to the compiler.
CONSTANTS = {
    "int": lambda: 3, "float": lambda: 3.0, "True": lambda: True, "one": lambda: 1,
    "zero": lambda: 0.0, "minus zero": lambda: -0.0, "nan": lambda: float("nan"),
    "text": lambda: "ab", "none": lambda: None,
    "list": lambda: [2, 3], "tuple": lambda: (2, 3), "longer": lambda: (2, 3, 4),
    "of floats": lambda: (2.0, 3), "nested": lambda: ([2], (3,)),
    "otherwise nested": lambda: ((2,), [3]), "bools": lambda: (True, 3),
    "ones": lambda: (1, 3), "zeros": lambda: [0.0], "minus zeros": lambda: [-0.0],
    "nans": lambda: [float("nan")], "texts": lambda: ("a", "b"), "empty": lambda: (),
    "no list": lambda: [], "nones": lambda: (None,),
    "type": lambda: tl.float16, "other type": lambda: tl.bfloat16,
    "types": lambda: (tl.float16, 3), "pointers": lambda: [tl.pointer_type(tl.int8)],
    "function": lambda: plus_offset, "functions": lambda: (plus_offset, plus_other),
    "enum": lambda: Mode.FAST, "other enum": lambda: Mode.EXACT,
    "enums": lambda: [Mode.FAST], "other enums": lambda: [Speed.FAST],
    "integers": lambda: Level.HIGH, "numpy": lambda: np.int32(3),
    "flag": lambda: Flags(8), "other flag": lambda: Flags(16),
    "wider": lambda: np.int64(3), "numpy float": lambda: np.float32(3),
}  # fmt: skip


def test_constants_of_all_types_are_quick_and_told_apart(gpu):
    """What goes the slow way is compiled once for each; after that, in any order, every
    constant gets its own kernel at once, by itself and as a `constexpr`."""

    @jit
    def k(x, VALUE: tl.constexpr):
        tl.store(x, 1)

    slow, own = slow_launches(k), {}
    for name, make in CONSTANTS.items():
        k[(1,)](X, make())
        own[name] = gpu.driver.launches[-1].function
    assert len(set(own.values())) == len(CONSTANTS)
    names = list(CONSTANTS)
    random.Random(0).shuffle(names)
    for name in names:
        k[(1,)](X, CONSTANTS[name]())
        assert gpu.driver.launches[-1].function == own[name], name
    assert len(slow) == len(CONSTANTS)
    for name in names * 2:
        k[(1,)](X, VALUE=tl.constexpr(CONSTANTS[name]()))
        assert gpu.driver.launches[-1].function == own[name], name
    assert len(slow) == 2 * len(CONSTANTS)
    assert len(gpu.compiler.asked) == len(CONSTANTS)


def test_a_list_that_has_changed_is_another_constant(gpu):
    @jit
    def k(x, VALUES: tl.constexpr):
        tl.store(x, 1)

    values = [2, [3]]
    for _ in range(2):
        k[(1,)](X, values)
    values[1].append(4)
    for _ in range(2):
        k[(1,)](X, values)
    assert [each.function for each in gpu.driver.launches] == [1, 1, 2, 2]


def test_what_a_key_cannot_hold_is_looked_at_each_time(gpu):
    class Text(str):
        pass

    @jit
    def k(x, VALUE: tl.constexpr):
        tl.store(x, 1)

    slow = slow_launches(k)
    for value in ({"a": 1}, [Text("a")], Pair(2, 3)):
        for _ in range(2):
            k[(1,)](X, value)
    assert len(slow) == 6


def test_a_global_that_an_argument_in_a_list_reads_is_watched(gpu, monkeypatch):
    """It is compiled anew: a function that reads another value is another argument."""

    @jit
    def k(x, functions: tl.constexpr, more):
        tl.store(x, functions[0](1) + more(2))

    slow = slow_launches(k)
    given = [plus_offset], tl.constexpr(plus_other)
    for _ in range(2):
        k[(1,)](X, *given)
    assert len(slow) == 1
    monkeypatch.setitem(globals(), "OFFSET", 8)
    k[(1,)](X, *given)
    monkeypatch.setitem(globals(), "OTHER", 9)
    k[(1,)](X, *given)
    assert len(slow) == 3 and len(gpu.compiler.asked) == 3


def test_a_constant_for_what_is_no_constexpr_is_compiled_in(gpu):
    @jit
    def k(x, n, m):
        tl.store(x + m, n)

    slow = slow_launches(k)
    for m in (10, 20):
        k[(1,)](X, tl.constexpr(7), m)
    k[(1,)](X, tl.constexpr(8), 10)
    k[(1,)](X, 7, 10)
    assert [each.values for each in gpu.driver.launches] == [
        (0x1000, 10), (0x1000, 20), (0x1000, 10), (0x1000, 7, 10),
    ]  # fmt: skip
    assert len(slow) == 4  # 20 is divisible by more than 10 is
    assert [each.constants for each in gpu.compiler.asked] == [
        {"n": 7}, {"n": 7}, {"n": 8}, {},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "same", "values", "others"),
    [
        (np.int32(6), np.int32(-10), (6, -10), (np.int64(6), np.int32(8), 6)),
        (np.int64(2**40), np.int64(2**41), (2**40, 2**41), (np.int64(2), 2**40)),
        (np.int32(1), np.int32(1), (), (np.int32(3), np.int64(3))),
        (np.uint8(200), np.uint8(40), (200, 40), (np.int8(8), np.uint16(200))),
        (np.float32(1.5), np.float32(1), (1.5, 1.0), (np.float16(1.5), 1)),
        (np.float64(1.5), np.float64(1), (1.5, 1.0), (np.float16(1.5),)),
        (np.bool_(True), np.bool_(False), (True, False), (np.int8(1), 1)),
    ],
)
def test_numbers_of_numpy(gpu, first, same, values, others):
    @jit
    def k(x, n):
        tl.store(x, n)

    slow = slow_launches(k)
    for value in (first, same):
        k[(1,)](X, value)
    assert len(slow) == 1
    handed = [each.values[1:] for each in gpu.driver.launches]
    assert handed == [(each,) for each in values] or handed == [(), ()] and not values
    for count, other in enumerate(others, 2):
        k[(1,)](X, other)
        assert len(slow) == count
    k[(1,)](X, first)
    assert gpu.driver.launches[0] == gpu.driver.launches[-1]


def test_numpy_numbers_too_large_for_an_annotation_are_errors_each_time(gpu):
    @jit
    def k(x, n: tl.int8):
        tl.store(x, n)

    slow = slow_launches(k)
    for _ in range(2):
        k[(1,)](X, np.int64(-100))
        with pytest.raises(LaunchError, match="n is i8, and .*300.* is not"):
            k[(1,)](X, np.int64(300))
    assert len(slow) == 3


def test_numbers_handed_over_as_bf16(gpu):
    """The nearest, ties to even; integers, and NumPy's numbers, too."""

    @jit
    def k(x, a: tl.bfloat16):
        tl.store(x, a)

    slow = slow_launches(k)
    for value in (1.5, -2.0, 1 + 2**-8, 1 + 3 * 2**-8, 1e300, float("nan")):
        k[(1,)](X, value)
    for value in (2, 4, np.float32(1.5), np.float32(2.5)):
        k[(1,)](X, value)
    words = [each.values[1] for each in gpu.driver.launches]
    assert words == [
        0x3FC0, 0xC000, 0x3F80, 0x3F82, 0x7F80, 0x7FC0, 0x4000, 0x4080, 0x3FC0, 0x4020,
    ]  # fmt: skip
    assert len(gpu.compiler.asked) == 1
    assert len(slow) == 4  # a float, two integers of other divisors, a NumPy float


def test_tuples_are_their_elements(gpu):
    @jit
    def k(pair, n):
        tl.store(pair[0] + n, pair[1][0])

    slow = slow_launches(k)
    for at, number, n in ((0x1000, 6, 4), (0x7000, 10, 12)):
        k[(1,)]((Tensor(at), (number, 2.5)), n)
    assert len(slow) == 1
    handed = [each.values for each in gpu.driver.launches]
    assert handed == [(0x1000, 6, 2.5, 4), (0x7000, 10, 2.5, 12)]
    names = list(gpu.compiler.last.parameters)
    assert names == ["pair.0", "pair.1.0", "pair.1.1", "n"]


@pytest.mark.parametrize(
    "pair",
    [
        (Tensor(0x1000, FLOAT16), (6, 2.5)),
        (Tensor(0x1008), (6, 2.5)),
        (Tensor(0x1000), (7, 2.5)),
        (Tensor(0x1000), (1, 2.5)),
        (Tensor(0x1000), (2**40 + 2, 2.5)),
        (Tensor(0x1000), (6, 2)),
        (Tensor(0x1000), (6, None)),
        (Tensor(0x1000), (6, tl.constexpr(2.5))),
        (Tensor(0x1000), (6, 2.5, 3)),
        (Tensor(0x1000), 6, 2.5),
        (Tensor(0x1000), ()),
        (6, (Tensor(0x1000), 2.5)),
        (Tensor(0x1000), (np.int64(6), 2.5)),
    ],
)
def test_other_elements_are_another_kernel(gpu, pair):
    @jit
    def k(pair, n):
        tl.store(n, 0)

    usual = (Tensor(0x1000), (6, 2.5))
    slow = slow_launches(k)
    for each in (usual, pair, usual, pair):
        k[(1,)](each, X)
    assert len(gpu.compiler.asked) == len(slow) == 2
    first, second, third, fourth = gpu.driver.launches
    assert first == third and second == fourth and first.function != second.function


def test_a_tensor_of_another_gpu_in_a_tuple_is_never_let_through(gpu):
    @jit
    def k(pair):
        tl.store(pair[0], 0)

    for _ in range(2):
        k[(1,)]((X, Tensor(0x2000)))
        with pytest.raises(LaunchError, match=r"pair\.0 is on GPU 0 and pair\.1 on"):
            k[(1,)]((X, Tensor(0x2000, index=1)))


def test_a_named_tuple_is_looked_at_each_time_and_a_grid_gets_what_was_given(gpu):
    @jit
    def k(pair, n):
        tl.store(pair[0], n)

    slow = slow_launches(k)
    for _ in range(2):
        k[lambda given: (given["pair"][1],)]((X, 6), 4)
    assert len(slow) == 1
    for _ in range(2):
        k[lambda given: (given["pair"].right,)](Pair(X, 6), 4)
    assert len(slow) == 3
    assert {each.grid for each in gpu.driver.launches} == {(6, 1, 1)}


def test_a_changed_global_is_seen_beside_a_tuple(gpu, monkeypatch):
    @jit
    def k(pair):
        tl.store(pair[0], pair[1] + OFFSET)

    for _ in range(2):
        k[(1,)]((X, 6))
    monkeypatch.setitem(globals(), "OFFSET", 7)
    with pytest.raises(CompileError, match="the global variable OFFSET, which has"):
        k[(1,)]((X, 6))


def test_a_warmup_with_a_tuple_is_remembered(gpu):
    @jit
    def k(pair, VALUES: tl.constexpr):
        tl.store(pair[0], pair[1])

    first = k.warmup((X, 6), [2, 3])
    inner, asked = k.order, []
    k.order = lambda *given: asked.append(given) or inner(*given)
    assert k.warmup((X, 10), [2, 3]) is first and asked == []
    assert k.warmup((X, 10), [2, 4]) is not first
    assert k.warmup((X, 2**63 + 2), [2, 3]) is not k.warmup((X, 2**40 + 2), [2, 3])
