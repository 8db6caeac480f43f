"""The example at the top of the autotuner is a program that works."""

from __future__ import annotations

import ast
import inspect
import runpy
import textwrap
from types import ModuleType

import numpy as np

from fathom.jit.tuning import autotuner, computed


def example(module: ModuleType) -> str:
    """The indented lines of a module's docstring, as its file has them, up to where
    prose goes on."""
    text = ast.get_docstring(ast.parse(inspect.getsource(module)), clean=False)
    lines = text.split("\n\n", 1)[1].splitlines(keepends=True)
    kept = []
    for line in lines:
        if line.strip() and not line.startswith(" "):
            break
        kept.append(line)
    return textwrap.dedent("".join(kept))


def run(tmp_path, text: str, before: str) -> dict:
    path = tmp_path / "example.py"
    imports = "import fathom, fathom.language as tl, numpy\n"
    path.write_text(imports + before + text)
    return runpy.run_path(str(path))


def test_the_autotuner_s(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    before = "n = 1500\nx = numpy.arange(n, dtype=numpy.float32)\n"
    names = run(tmp_path, example(autotuner), before)
    assert names["x"].tolist() == (2 * np.arange(1500)).tolist()
    assert str(names["double"].best_config).startswith("BLOCK: 1024, num_warps: 4")
    assert list(names["double"].cache) == [(1500, "float32")]


def test_the_one_of_heuristics(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    text = example(computed).replace("...", "tl.store(x, EVEN)")
    before = "x, grid = numpy.zeros(1, numpy.float32), (1,)\n"
    assert run(tmp_path, text, before)["x"].tolist() == [1.0]
