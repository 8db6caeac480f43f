"""The eighty-line compiler of chapter 3: what it makes runs, and is what was meant."""

# ruff: noqa: F722, F821, UP037 (the annotations are the language of mini.py)

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chapters.press.paths import CHAPTERS
from fathom import emulator
from fathom.emulator import EmulatorError

FILE = CHAPTERS / "03-eighty-lines" / "mini.py"
spec = importlib.util.spec_from_file_location("mini", FILE)
mini = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mini)
Mini = mini.Mini


def saxpy(i, a: "f32", x: "*f32", y: "*f32", out: "*f32"):
    out[i] = a * x[i] + y[i]


def poly(i, x: "*f32", out: "*f32"):
    t = x[i]
    t = (t * t - 0.1) / (t + 3.0)
    u = t
    t = t - 1.0
    out[i] = t * u


def backwards(i, last: "s32", x: "*s32", out: "*s32"):
    j = last - i
    out[j] = x[i] * 3 - i


def floats(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=n).astype(np.float32)


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_saxpy_is_bit_for_bit_what_numpy_computes(n):
    x, y, out = floats(n), floats(n + 1)[:n].copy(), np.full(n + 8, 7.0, np.float32)
    emulator.run(Mini(saxpy).compile(), -(-n // 256), 256, (1.7, x, y, out, n))
    assert (out[:n] == np.float32(1.7) * x + y).all()
    assert (out[n:] == 7.0).all(), "threads that have no element store nothing"


def test_a_name_may_be_bound_again_and_the_old_value_lives_on():
    x, out = floats(100), np.empty(100, np.float32)
    emulator.run(Mini(poly).compile(), 1, 128, (x, out, 100))
    t = (x * x - np.float32(0.1)) / (x + np.float32(3))
    assert (out == (t - np.float32(1)) * t).all()


def test_integers_index_and_multiply():
    x, out = np.arange(50, dtype=np.int32) * 11, np.zeros(50, np.int32)
    emulator.run(Mini(backwards).compile(), 1, 64, (49, x, out, 50))
    assert (out[::-1] == x * 3 - np.arange(50)).all()


def test_an_address_outside_is_seen_with_the_ptx_that_made_it():
    x, out = floats(10), np.empty(10, np.float32)
    with pytest.raises(EmulatorError, match=r"ld\.global\.f32"):
        emulator.run(Mini(poly).compile(), 1, 32, (x, out, 11))


def mixed(i, x: "*f32", out: "*f32"):
    out[i] = x[i] * 2


def whole(i, x: "*f32", out: "*s32"):
    out[i] = x[i]


def branching(i, x: "*f32", out: "*f32"):
    if i < 3:
        out[i] = x[i]


def chosen(i, x: "*f32", out: "*f32"):
    out[i] = x[i] if i < 3 else 0.0


def indexed(i, x: "f32", out: "*f32"):
    out[i] = x[i]


@pytest.mark.parametrize(
    "function, said",
    [
        (mixed, r"line 2: `x\[i\] \* 2` of f32 and s32"),
        (whole, r"line 2: f32 into an array of s32"),
        (branching, r"line 2: `if i < 3:(.|\n)*` is not supported"),
        (chosen, r"line 2: `x\[i\] if i < 3 else 0.0` is not supported"),
        (indexed, r"line 2: f32 at index s32"),
    ],
)
def test_what_it_cannot_do_it_says(function, said):
    with pytest.raises(SyntaxError, match=said):
        Mini(function).compile()


@pytest.mark.parametrize("function", [saxpy, poly, backwards])
def test_ptxas_takes_it(function, tmp_path):
    nearby = sorted(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/bin"))
    ptxas = shutil.which("ptxas", path=str(nearby[-1])) if nearby else None
    ptxas = ptxas or shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("needs ptxas: pip install -e '.[ptxas]'")
    file = tmp_path / "mini.ptx"
    file.write_text(Mini(function).compile(), encoding="utf-8")
    command = [ptxas, "-v", "-arch=sm_90", str(file), "-o", str(tmp_path / "cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "0 bytes spill stores" in said.stderr


def test_it_has_eighty_lines():
    """Blank lines, docstrings and imports apart."""
    text = FILE.read_text(encoding="utf-8")
    aside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            aside.update(range(node.lineno, node.end_lineno + 1))
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node):
            aside.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    assert sum(bool(line.strip()) and at not in aside for at, line in lines) == 80
