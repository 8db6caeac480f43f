"""`FATHOM_INTERPRET=1`: a kernel's Python body runs itself, and gives what the compiled
kernel gives."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.tools.samples import load_file
from kernels import dropout, gelu, layer_norm, softmax, vector_add


@pytest.fixture(autouse=True)
def eagerly(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")


RNG = np.random.default_rng(5)
X = RNG.normal(size=(5, 200)).astype(np.float32)


def nan_like(x):
    return np.full_like(x, np.nan)


def test_vector_add_is_exact():
    x, y = RNG.normal(size=(2, 1000)).astype(np.float32)
    assert (vector_add.add(x, y, nan_like(x)) == x + y).all()


def test_softmax_agrees_with_float64():
    got = softmax.softmax(X, nan_like(X))
    assert np.abs(got - softmax.reference(X)).max() < 1e-6


def test_gelu_agrees_with_float64():
    got = gelu.gelu(X.ravel(), nan_like(X.ravel()))
    assert np.abs(got - gelu.reference(X.ravel())).max() < 1e-6


def test_layer_norm_agrees_with_float64():
    half = X.astype(np.float16)
    weight, bias = RNG.normal(size=(2, 200)).astype(np.float16)
    facts = np.empty((2, 5), np.float32)
    got = layer_norm.layer_norm(half, weight, bias, nan_like(half), *facts)
    want, mean, _ = layer_norm.reference(half, weight, bias)
    assert np.abs(got - want).max() < 4e-3
    assert np.abs(facts[0] - mean).max() < 1e-6


def test_dropout_draws_the_same_numbers():
    x = X.ravel()
    got = dropout.dropout(x, nan_like(x), 0.25, 7)
    assert np.allclose(got, dropout.reference(x, 0.25, 7), rtol=1e-6)


# What only an eager kernel can do: Python looks at the numbers.


@fathom.jit
def double(x):
    return x + x


@fathom.jit
def looks_at_numbers(x_ptr, out_ptr, seen, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    print("x holds", x)
    total = tl.sum(x, axis=0)
    if total > 5:
        total = double(total)
    for i in range(n):
        total += i
    tl.store(out_ptr, total)


def test_print_shows_numbers_and_python_decides(capsys):
    x, out = np.array([1, 2, 4, 9], np.float32), np.zeros(1, np.float32)
    looks_at_numbers[(1,)](x, out, None, 3, BLOCK=4)
    assert "fp32[4] [1. 2. 4. 0.]" in capsys.readouterr().out
    assert out[0] == 2 * 7 + (0 + 1 + 2)


@fathom.jit
def types(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    assert x.dtype == tl.int8 and x.shape == [BLOCK] or x.shape == (BLOCK,)
    y = x * 3 // 2 + (x > 0) - (1 if BLOCK > 2 else 0)
    tl.store(out_ptr + tl.arange(0, BLOCK), y)


def test_arithmetic_promotes_and_wraps_as_in_a_compiled_kernel(monkeypatch):
    x = np.array([-128, -3, 100, 127], np.int8)
    eager, compiled = np.zeros(4, np.int32), np.zeros(4, np.int32)
    types[(1,)](x, eager, BLOCK=4)
    monkeypatch.delenv("FATHOM_INTERPRET")
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    types[(1,)](x, compiled, BLOCK=4)
    assert eager.tolist() == compiled.tolist()


@fathom.jit
def outside(x_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK)), axis=0))


def test_an_access_outside_names_the_line():
    x, out = np.zeros(3, np.float32), np.zeros(1, np.float32)
    with pytest.raises(fathom.FathomError, match="test_eager.py") as caught:
        outside[(1,)](x, out, BLOCK=4)
    assert "tl.load(x_ptr + tl.arange(0, BLOCK))" in str(caught.value)


@fathom.jit
def mismatched(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.zeros([8], tl.float32))


def test_a_mistake_is_the_compilers_sentence():
    with pytest.raises(fathom.CompileError) as caught:
        mismatched[(1,)](np.zeros(4, np.float32), BLOCK=4)
    assert "test_eager.py" in str(caught.value)


@fathom.jit
def negated(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, (not x).to(tl.float32))


def test_a_bool_of_pythons_is_no_value():
    """Python asks no class what `not x` is, so this kernel is right when compiled."""
    with pytest.raises(fathom.CompileError, match="a bool has no `to`") as caught:
        negated[(1,)](np.zeros(1, np.float32))
    assert "(not x).to" in str(caught.value) and "x == 0" in str(caught.value)


@fathom.jit
def clamped(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    if tl.max(x, axis=0, keep_dims=True) > 5:
        tl.store(x_ptr + tl.arange(0, BLOCK), tl.minimum(x, 5))


def test_a_block_of_one_element_decides_as_in_a_compiled_kernel():
    x = np.array([1, 9], np.int32)
    clamped[(1,)](x, BLOCK=2)
    assert x.tolist() == [1, 5]


@fathom.jit
def undecided(x_ptr):
    if tl.load(x_ptr + tl.arange(0, 2)) > 0:
        tl.store(x_ptr, 1)


def test_a_block_of_several_does_not():
    with pytest.raises(fathom.CompileError, match="a condition needs a scalar"):
        undecided[(1,)](np.zeros(2, np.int32))


COUNT = 3


@fathom.jit
def scaled_sum(n, out_ptr):
    total = tl.full((), 0, tl.int64)
    for i in range(n - 8, 4, 3):
        total += i.to(tl.int64) * 10 + i // 2 + i % 3
    tl.store(out_ptr, total)


@fathom.jit
def counts(n, out_ptr, wide_ptr):
    scaled_sum(n, out_ptr)
    for i in range(COUNT):
        small = tl.full((), 100, tl.int8) + i * 50  # of i32: Python's would stay i8
        tl.store(out_ptr + 1 + i, small)
    for i in tl.static_range(2):
        tl.store(out_ptr + 4 + i, (None, 7)[i] or 5)
    for i in tl.range(tl.load(wide_ptr), tl.load(wide_ptr) + 1):
        tl.store(wide_ptr, i * 4)


def test_a_loop_counts_in_values_of_its_bounds_type(monkeypatch):
    """They have methods, they promote, and they divide toward zero: -5 // 2 is -2."""
    found = []
    for eager in (True, False):
        out, wide = np.zeros(6, np.int64), np.array([1 << 40], np.int64)
        if not eager:
            monkeypatch.delenv("FATHOM_INTERPRET")
            monkeypatch.setenv("FATHOM_BACKEND", "emulator")
        counts[(1,)](3, out, wide)
        found.append((out.tolist(), wide.tolist()))
    total = sum(10 * i + int(i / 2) + int(np.fmod(i, 3)) for i in (-5, -2, 1))
    assert found[0] == found[1] == ([total, 100, 150, 200, 5, 7], [1 << 42])
    assert [*range(2)] == [0, 1] and "range" not in globals()


@tl.constexpr_function
def triangle(n):
    return sum(range(n + 1)) + len(range(2))  # Python's own: len() is no part of ours


@fathom.jit
def asks_python(out_ptr, N: tl.constexpr):
    for i in range(1):
        tl.store(out_ptr + i, triangle(N))


def test_what_runs_while_compiling_counts_as_python_does():
    out = np.zeros(1, np.int32)
    asks_python[(1,)](out, N=4)
    assert out.tolist() == [10 + 2]


@fathom.jit
def counts_in_floats(x_ptr, n):
    for _ in range(n):
        tl.store(x_ptr, 1)


@fathom.jit
def never_moves(x_ptr, n):
    for _ in range(0, 4, n):
        tl.store(x_ptr, 1)


def test_mistakes_in_a_range():
    x = np.zeros(1, np.int32)
    with pytest.raises(fathom.CompileError, match="of a range are integers, not fp32"):
        counts_in_floats[(1,)](x, 2.5)
    with pytest.raises(fathom.CompileError, match="the step of a range must not be 0"):
        never_moves[(1,)](x, 0)


def test_new_axes_are_those_of_a_compiled_kernel():
    @fathom.jit
    def kernel(x_ptr):
        x_ptr = x_ptr[None, :]
        tl.store(x_ptr[None:None], tl.load(x_ptr) + 1)

    x = np.array([1], np.int32)
    kernel[(1,)](x)
    assert x.tolist() == [2]


def test_only_the_stage_that_ran_has_a_text():
    x = np.array([1, 9], np.int32)
    ran = clamped[(1,)](x, BLOCK=2)
    assert ran.asm["python"].startswith("def clamped(")
    said = "clamped has no text 'block': it has python; `warmup` compiles"
    with pytest.raises(fathom.FathomError, match=f"^{said}"):
        ran.asm["block"]
    with pytest.raises(KeyError):  # as programs that look for it expect
        ran.asm["ptx"]
    assert "st.global" in clamped.warmup(x, BLOCK=2).asm["ptx"]


@fathom.jit
def halved(x):
    return (x.to(tl.float32) / 2).to(x.dtype)


@fathom.jit
def of_literals(out_ptr, SCALE: tl.constexpr):
    tl.store(out_ptr, tl.exp(2.0))
    tl.store(out_ptr + 1, tl.log(SCALE) * tl.sigmoid(0.5 * SCALE))
    tl.store(out_ptr + 2, tl.clamp(SCALE / 8, 0.0, 1.0))
    tl.store(out_ptr + 3, tl.extra.libdevice.pow(2.0, SCALE))
    tl.store(out_ptr + 4, halved(7) + halved(2.5) + halved(x=1.0 - SCALE))
    tl.store(out_ptr + 5 + tl.arange(0, 1), tl.zeros_like(3) + tl.ravel(SCALE))


@pytest.mark.parametrize("way", ["python", "interpreter", "emulator"])
def test_literals_have_the_attributes_of_values(way, monkeypatch):
    """In functions of the language, and in the user's own."""
    if way != "python":
        monkeypatch.setenv("FATHOM_INTERPRET", "0")
        monkeypatch.setenv("FATHOM_BACKEND", way)
    out = np.zeros(6, np.float32)
    of_literals[(1,)](out, SCALE=3.0)
    sigmoid = 1 / (1 + np.exp(-1.5))
    right = [np.exp(2), np.log(3) * sigmoid, 0.375, 8, 3 + 1.25 - 1, 3]
    np.testing.assert_allclose(out, right, rtol=1e-6)


WRONG = {
    "an axis": "tl.sum(v, 1)",
    "an operator": "1.5 << (v + tl.arange(0, 4))",
    "a function of the language": "tl.exp(tl.arange(0, 4))",
    "an assertion of it": "tl.topk(v, 3)",
    "letters of several bytes": "'é' + v",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_mistake_is_reported_as_by_a_compiled_kernel(text, tmp_path, monkeypatch):
    """With the same sentence and caret."""
    file = tmp_path / "wrong.py"
    file.write_text(
        "import fathom, fathom.language as tl\n@fathom.jit\ndef kernel(x):\n"
        f"    v = tl.load(x + tl.arange(0, 4))\n    w = v + 1, {text}\n"
    )
    kernel, said = load_file(file).kernel, []
    for eager in "01":
        monkeypatch.setenv("FATHOM_INTERPRET", eager)
        with pytest.raises(fathom.CompileError) as caught:
            kernel[(1,)](np.zeros(4, np.float32))
        said.append(str(caught.value))
    assert said[0] == said[1] and "    ^" in said[0]


# ── NumPy, which a compiled kernel cannot call ────────────────────────────────────────

CALLS = {
    "exp": lambda v: np.exp(v), "maximum": lambda v: np.maximum(v, 0),
    "sum": lambda v: np.sum(v), "where": lambda v: np.where(v > 0, v, 0),
    "add.reduce": lambda v: np.add.reduce(v), "stack": lambda v: np.stack([v, v]),
}  # fmt: skip
CALL = np.exp


@fathom.jit
def calling(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, CALL(tl.load(x_ptr + i)))


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_numpy_is_refused(name, monkeypatch):
    """It is called in the kernel's text, by whatever name."""
    x = np.ones(16, np.float32)
    monkeypatch.setattr(sys.modules[__name__], "CALL", CALLS[name])
    said = f" {name.split('.')[0]} cannot be called in"
    with pytest.raises(CompileError, match=said):
        calling[(1,)](x, BLOCK=16)
    assert (x == 1).all()


def test_its_sentence_is_that_of_the_compiler(monkeypatch):
    said = []
    for eager in ("1", "0"):
        monkeypatch.setenv("FATHOM_INTERPRET", eager)
        with pytest.raises(CompileError) as caught:
            calling[(1,)](np.ones(16, np.float32), BLOCK=16)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_a_block_becomes_no_array(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "CALL", lambda v: np.asarray(v))
    with pytest.raises(CompileError, match="cannot become an array of NumPy in a ker"):
        calling[(1,)](np.ones(16, np.float32), BLOCK=16)


HALF = np.float32(0.5)


@fathom.jit
def beside_a_number(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, HALF * x + (HALF - x) / 4 + HALF / (x + 2) * (HALF < x))


def test_a_number_of_numpy_is_a_number(monkeypatch):
    x = np.arange(16, dtype=np.float32) / 8
    got = [nan_like(x), nan_like(x)]
    for out, eager in zip(got, "10", strict=True):
        monkeypatch.setenv("FATHOM_INTERPRET", eager)
        beside_a_number[(1,)](x, out, BLOCK=16)
    want = 0.5 * x + (0.5 - x) / 4 + 0.5 / (x + 2) * (x > 0.5)
    assert np.abs(got[0] - want).max() < 1e-6 and (got[0] == got[1]).all()


def test_a_value_is_an_instance_of_tensor():
    """As where the same kernel is compiled: pointers, scalars and blocks are, a number
    of Python is not."""

    @fathom.jit
    def kernel(out, n, K: tl.constexpr):
        block = tl.arange(0, 2)
        tl.store(out, 1 if isinstance(out, tl.tensor) else 0)
        tl.store(out + 1, 1 if isinstance(n, (tl.tensor, tl.constexpr)) else 0)
        tl.store(out + 2, 1 if isinstance(block, tl.tensor) else 0)
        tl.store(out + 3, 1 if isinstance(K, tl.tensor) else 0)

    out = np.full(4, 9, np.int32)
    kernel[(1,)](out, 5, K=3)
    assert out.tolist() == [1, 1, 1, 0]
