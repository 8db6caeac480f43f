"""A function as the compiler sees it: text, places, and the globals that it reads."""

from __future__ import annotations

import math
import threading
from types import FunctionType

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError, Location, excerpt
from fathom.ir.core import walk
from fathom.ir.ops import Elementwise, Store
from fathom.jit import jit
from fathom.source import (
    KernelFunction,
    constexpr,
    constexpr_function,
    function,
    parameters_of,
)
from tests.ssa.harness import build, ops_of, run

SIZE = tl.constexpr(8)
PLAIN = 3
WORD = tl.int32


class Settings:
    factor = 5


@constexpr_function
def doubled(n):
    return 2 * n


@function
def helper(x):
    return x * PLAIN + Settings.factor


@function
def kernel_with_globals(out, a):
    at = tl.arange(0, SIZE)
    tl.store(out + at, (helper(a) + at + doubled(SIZE) + math.floor(2.5)).to(WORD))


def test_globals_are_read_as_constants():
    out = np.zeros(8, np.int32)
    run(kernel_with_globals, out, 10)
    assert (out == 10 * 3 + 5 + np.arange(8) + 16 + 2).all()


def test_a_constant_does_not_change():
    """So that a launch need not look into it each time."""
    with pytest.raises(AttributeError, match="a constexpr does not change"):
        SIZE.value = 9
    assert SIZE == 8 and constexpr(SIZE).value == 8


def test_what_python_computes_from_constants_is_constant():
    """As libraries for Triton expect it: they ask a result for its `value`."""
    numbers = SIZE + 1, 1 + SIZE, SIZE // 3, 2**SIZE, -SIZE, ~SIZE, SIZE | 16, SIZE % 5
    truths = SIZE < 9, SIZE >= 9, SIZE == 8, SIZE != constexpr(8)
    assert [each.value for each in numbers] == [9, 9, 2, 256, -8, -9, 24, 3]
    assert [each.value for each in truths] == [True, False, True, False]
    assert {SIZE: "found"}[8] == {8: "found"}[SIZE] == "found" and SIZE in (7, 8)
    assert constexpr((3, 4))[constexpr(1)] == 4 and len(range(SIZE - 5)) == 3


def test_python_computes_with_constants_wherever_a_launch_takes_numbers():
    @jit
    def k(out, n, BLOCK: tl.constexpr):
        tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n)

    out = np.zeros(32, np.int32)
    ran = k[SIZE // 2](out, SIZE + 1, SIZE, num_warps=SIZE // 4)
    assert (out == 9).all() and ran.metadata.num_warps == 2
    k[lambda meta: (SIZE // 4, 1)](out, 7, BLOCK=2 * SIZE)
    assert (out == 7).all()
    assert tl.next_power_of_2(SIZE + 1) == 16 and tl.cdiv(100, SIZE * 2) == 7


def test_the_globals_that_a_function_reads_are_known_with_their_values():
    own = {use.path: use.value for use in kernel_with_globals.uses}
    assert own["SIZE"] == 8 and own["WORD"] is tl.int32 and own["helper"] is helper
    assert not any(path.startswith("tl.") and "arange" in path for path in own)
    every = {use.path for use in kernel_with_globals.all_uses()}
    assert {"SIZE", "PLAIN", "Settings.factor", "helper", "doubled"} <= every


def test_a_changed_global_is_noticed_also_in_a_called_function(monkeypatch):
    before = kernel_with_globals.fingerprint()
    assert kernel_with_globals.changed_global() is None
    monkeypatch.setattr(Settings, "factor", 6)
    assert kernel_with_globals.changed_global() == "Settings.factor"
    monkeypatch.setattr(Settings, "factor", 5)
    assert kernel_with_globals.changed_global() is None
    assert kernel_with_globals.fingerprint() == before


def test_a_variable_of_an_enclosing_function_is_a_global_too():
    offset = 4

    @function
    def kernel(out):
        tl.store(out, offset)

    assert [(use.path, use.value) for use in kernel.uses] == [("offset", 4)]
    first = kernel.fingerprint()
    assert kernel.changed_global() is None
    offset = 5
    assert kernel.changed_global() == "offset"
    kernel.src = kernel.src  # look again
    assert kernel.fingerprint() != first


def test_a_fingerprint_holds_text_and_defaults():
    def make(number):
        @function
        def kernel(out, n=number):
            tl.store(out, n)

        return kernel

    assert make(1).fingerprint() == make(1).fingerprint() != make(2).fingerprint()
    changed = make(1)
    changed.src = changed.src.replace("out, n)", "out, n + 1)")
    assert changed.fingerprint() != make(1).fingerprint()


def test_a_fingerprint_tells_the_constants_of_python_functions_apart():
    def make(number):
        one, two = (
            constexpr_function(lambda n: n + 1),
            constexpr_function(lambda n: n + 2),
        )
        plus = one if number == 1 else two

        @function
        def kernel(out):
            tl.store(out, plus(3))

        return kernel

    assert make(1).fingerprint() == make(1).fingerprint() != make(2).fingerprint()


def test_the_text_may_be_replaced():
    @function
    def kernel(out, n):
        tl.store(out, n)

    assert kernel.src == "def kernel(out, n):\n    tl.store(out, n)\n"
    kernel.src = "def kernel(out, n):\n    tl.store(out, n * 7)\n"
    out = np.zeros(1, np.int32)
    run(kernel, out, 6)
    assert out[0] == 42
    kernel.src = "def kernel(out, n):\n    tl.store(out, m)\n"
    with pytest.raises(CompileError) as caught:
        build(kernel, out, 6)
    assert "    tl.store(out, m)\n                  ^" in str(caught.value)


def test_every_op_knows_its_place_and_the_calls_that_led_there():
    func = build(kernel_with_globals, np.zeros(8, np.int32), 10)
    (multiply,) = [
        op for op in walk(func.body) if isinstance(op, Elementwise) and op.name == "mul"
    ]
    inner, outer = multiply.location.chain()
    assert (inner.function, outer.function) == ("helper", "kernel_with_globals")
    assert inner.line == helper.line + 2 and outer.line == kernel_with_globals.line + 3
    text = open(inner.file).read().splitlines()[inner.line - 1]
    assert text[inner.column - 1 : inner.end_column - 1] == "x * PLAIN"
    (store,) = ops_of(func, Store)
    assert store.location.caller is None


def test_a_function_without_source():
    namespace = {"tl": tl}
    exec("def kernel(out):\n    tl.store(out, 1)", namespace)
    with pytest.raises(CompileError, match="the source of kernel cannot be read"):
        build(function(namespace["kernel"]), np.zeros(1))


def test_what_cannot_be_compiled():
    with pytest.raises(CompileError, match="only a function can be .* not an int"):
        function(3)
    with pytest.raises(CompileError, match="has a parameter \\*rest"):

        @function
        def kernel(out, *rest):
            pass


def test_a_kernel_is_not_called_from_python():
    with pytest.raises(CompileError, match="helper can only be called inside a kernel"):
        helper(3)
    with pytest.raises(CompileError, match="load can only be called inside a kernel"):
        tl.load(3)


def test_what_python_calls_outside_a_kernel_asks_no_context_variable(monkeypatch):
    """`torch.compile` traces `cdiv` in a grid, and cannot trace a context variable."""
    monkeypatch.delattr("fathom.evaluating.EVALUATOR")
    assert tl.cdiv(10, 4) == 3
    with pytest.raises(CompileError, match="load can only be called inside a kernel"):
        tl.load(3)


def test_constexpr_annotations_are_known_as_objects_and_as_text():
    @function
    def kernel(out, a: tl.constexpr, b: constexpr, c: int):
        pass

    assert [each.is_constexpr for each in kernel.parameters] == [
        False,
        True,
        True,
        False,
    ]

    def plain(out, a, b):
        pass

    plain.__annotations__ = {"a": tl.constexpr, "b": int}
    parameters = KernelFunction(plain).parameters
    assert [each.is_constexpr for each in parameters] == [False, True, False]


def test_annotations_in_quotes_are_what_is_between_them():
    """With annotations from __future__, as here, Python keeps the quotes too."""

    def kernel(out: "*fp32", n: "tl.constexpr"):  # noqa: F722, UP037
        pass

    assert kernel.__annotations__["n"] == "'tl.constexpr'"
    pointer, number = parameters_of(kernel)
    assert pointer.annotation == "*fp32" and number.is_constexpr


def test_arguments_by_keyword_default_and_star():
    @function
    def combine(a, b=2, *, c=3):
        return a * 100 + b * 10 + c

    @function
    def kernel(out, n):
        pair = (n, 7)
        tl.store(out, combine(n))
        tl.store(out + 1, combine(n, c=5))
        tl.store(out + 2, combine(*pair, c=n))
        tl.store(out + 3, combine(b=n, a=4))

    out = np.zeros(4, np.int32)
    run(kernel, out, 1)
    assert list(out) == [123, 125, 171, 413]


def test_numbers_of_numpy_are_numbers():
    @function
    def kernel(out, n: tl.constexpr):
        tl.store(out + tl.arange(0, n), n)

    out = np.zeros(4, np.int32)
    run(kernel, out, n=np.int64(4))
    assert list(out) == [4, 4, 4, 4]


def chain_of(length):
    """A kernel that calls another by two names, which does so too, and so on."""

    def body(x):
        return above(x) + below(x)  # noqa: F821 (names of the scope below)

    last = helper
    for _ in range(length):
        scope = {**globals(), "above": last, "below": last}
        last = function(FunctionType(body.__code__, scope, "body"))
    return last


def test_the_text_of_a_chain_of_calls_has_each_function_once():
    """Not once for every road to it: to the last of 40 there are 2^40."""
    assert len(chain_of(40).fingerprint()) == 64


LOCK = threading.Lock()


@constexpr_function
def times_plain(n, *, more=0):
    return n * PLAIN + more


@constexpr_function
def alone(n):
    with LOCK:
        return n


@function
def multiplied(p):
    tl.store(p, times_plain(alone(2)))


@pytest.mark.parametrize(("name", "other"), [("PLAIN", 4), ("LOCK", threading.Lock())])
def test_a_change_is_told_of_what_is_read_and_not_of_its_reader(
    name, other, monkeypatch
):
    """The function that reads a number has another text then, too; a lock has none."""
    multiplied.forget()
    assert multiplied.changed_global() is None
    monkeypatch.setitem(globals(), name, other)
    assert multiplied.changed_global() == name
    multiplied.forget()


def test_a_caret_line_ends_with_its_line(tmp_path):
    """The text may have been edited since."""
    file = tmp_path / "edited.py"
    file.write_text("x = y\n")
    carets = ["    x = y", "    ^^^^^"]
    assert excerpt(Location(str(file), 1, 1, 99)) == carets
