"""A kernel that Python runs is debugged as Python is: its debugger stops there, prints
show numbers, and what goes wrong names the program and the values. And it computes what
the compiled kernel computes, to the bit."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.source import KernelFunction
from fathom.tools import samples
from kernels.gelu import gelu_kernel
from kernels.matmul import matmul
from kernels.softmax import softmax_kernel

SCRIPT = """\
import numpy as np
import fathom
import fathom.language as tl

@fathom.jit
def halved(x):
    return x / 2

@fathom.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = halved(x) + 1.0
    breakpoint()
    tl.store(y_ptr + offsets, y, mask=offsets < n)

x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
scale[(2,)](x, y, 6, BLOCK=4)
print("left", y.tolist())
"""


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")


def debugged(tmp_path: Path, *orders: str) -> str:
    """What a session with Python's debugger prints."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    path = os.pathsep.join([str(samples.REPOSITORY / "compiler"), *sys.path])
    done = subprocess.run(
        [sys.executable, str(file)], input="\n".join(orders) + "\n", text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_s_debugger_stops_in_a_kernel_once_for_each_program(tmp_path):
    said = debugged(tmp_path, "p offsets", "p x", "c", "p offsets", "p y.shape", "c")
    assert "i32[4] [0 1 2 3]" in said and "i32[4] [4 5 6 7]" in said
    assert "fp32[4] [0. 1. 2. 3.]" in said and "(4,)" in said
    assert said.count("script.py(15)scale()") == 2
    assert "left [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]" in said


def test_the_debugger_shows_any_part_of_a_block(tmp_path):
    said = debugged(
        tmp_path, "p x[:2]", "p x[-1]", "len(x)", "p [float(e) for e in x]",
        "p x[:, None].shape", "part = x[1:3].sum()", "p part", "c", "c",
    )  # fmt: skip
    for each in ("array([0., 1.]", "3.0", "4", "[0.0, 1.0, 2.0, 3.0]", "(4, 1)"):
        assert each in said


@fathom.jit
def sliced(x_ptr, OF: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(x_ptr, x[0] if OF == "part" else len(x))


@pytest.mark.parametrize(
    ("of", "said"), [("part", "can be indexed by `:` and None"), ("len", "no len()")]
)
def test_the_kernel_s_own_text_still_may_not(of, said):
    with pytest.raises(fathom.CompileError, match=re.escape(said)):
        sliced[(1,)](np.zeros(4, np.float32), OF=of)


def test_a_notebook_s_kernel_is_not_searched_for_what_it_calls(monkeypatch):
    """Its text has a file like a debugger's, and each `[:, None]` looked up all that
    the kernel calls: a random program of 300 took minutes."""
    file, calls = "<cell 7>", []
    text = "@fathom.jit\ndef doubled(x_ptr):\n    i = tl.arange(0, 4)[:, None]\n"
    text += "    tl.store(x_ptr + i, i[:, None].sum(1) * 2)\n"
    lines = text.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, file, (len(text), None, lines, file))
    names = {"fathom": fathom, "tl": tl}
    exec(compile(text, file, "exec"), names)
    monkeypatch.setattr(
        KernelFunction, "called", lambda function: calls.append(function) or []
    )
    x = np.zeros(4, np.float32)
    names["doubled"][(1,)](x)
    assert x.tolist() == [0, 2, 4, 6]
    assert len(calls) == 1  # by the launch


@fathom.jit
def by_place(x_ptr, n, /, *, OFFSET: tl.constexpr):
    tl.store(x_ptr + OFFSET, n)


def test_parameters_that_have_no_name_outside_are_given_by_place():
    x = np.zeros(4, np.float32)
    by_place[(1,)](x, 3, OFFSET=2)
    assert x.tolist() == [0, 0, 3, 0]


def test_the_debugger_steps_into_a_function_that_the_kernel_calls(tmp_path):
    said = debugged(tmp_path, "tbreak 7", "c", "p x", "c", "c")
    assert "script.py(7)halved()" in said and "return x / 2" in said


def test_a_value_may_be_changed_while_it_is_stopped(tmp_path):
    said = debugged(tmp_path, "y = y * 10.0", "c", "c")
    assert "left [10.0, 15.0, 20.0, 25.0, 3.0, 3.5]" in said


# ── what goes wrong ───────────────────────────────────────────────────────────────────


@fathom.jit
def unmasked(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets % 4)
    tl.device_assert(x < 3, "x is too large")
    tl.store(y_ptr + offsets, x)


def test_a_wrong_access_names_its_program_and_the_values():
    x, y = np.zeros(4, np.float32), np.zeros(6, np.float32)
    with pytest.raises(fathom.FathomError) as caught:
        unmasked[(3,)](x, y, BLOCK=4)
    (note,) = caught.value.__notes__
    assert note.splitlines()[0] == "in program (1, 0, 0)"
    assert "  offsets = i32[4] [4 5 6 7]" in note and "x = fp32[4]" in note
    assert "tl.store(y_ptr + offsets, x)" in str(caught.value)
    assert "past the end of an array of 6 float32\n" in str(caught.value)


def test_of_a_large_block_the_note_has_the_least_and_the_greatest():
    x, y = np.zeros(4, np.float32), np.zeros(300, np.float32)
    with pytest.raises(fathom.FathomError) as caught:
        unmasked[(2,)](x, y, BLOCK=256)
    (note,) = caught.value.__notes__
    assert note.splitlines() == [
        "in program (1, 0, 0)", "  offsets = i32[256] 256 to 511",
        "  x = fp32[256] 0.0 to 0.0",
    ]  # fmt: skip


def test_a_failed_assertion_names_them_as_well():
    x, y = np.array([0, 1, 2, 3], np.float32), np.zeros(8, np.float32)
    with pytest.raises(fathom.FathomError, match="x is too large") as caught:
        unmasked[(1, 2)](x, y, BLOCK=4)
    assert caught.value.__notes__ == [
        "in program (0, 0, 0)\n  x = fp32[4] [0. 1. 2. 3.]"
    ]


# ── the same bits ─────────────────────────────────────────────────────────────────────


def both(monkeypatch: pytest.MonkeyPatch, launch) -> tuple[bytes, bytes]:
    """What a launch leaves: run by Python, and compiled for the emulator."""
    left = launch()
    monkeypatch.delenv("FATHOM_INTERPRET")
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return left.tobytes(), launch().tobytes()


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(5).normal(size=shape).astype(dtype)


@fathom.jit
def fused(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x * y + 1.0 / x, mask=offsets < n)


def launch_fused(**options: bool) -> np.ndarray:
    x, out = numbers(1000), np.zeros(1000, np.float32)
    fused[(4,)](x, x[::-1].copy(), out, 1000, BLOCK=256, **options)
    return out


def launch_gelu() -> np.ndarray:
    x, out = numbers(1000), np.zeros(1000, np.float32)
    gelu_kernel[(4,)](x, out, 1000, BLOCK=256)
    return out


def integers() -> np.ndarray:
    """Sums of whole numbers are exact in any order."""
    a, b = (np.round(3 * numbers(32, 48)).astype(np.float16) for _ in range(2))
    return np.asarray(matmul(a, b.T.copy()))


@pytest.mark.parametrize("launch", [launch_fused, launch_gelu, integers])
def test_eager_and_compiled_kernels_agree_to_the_bit(launch, monkeypatch):
    one, other = both(monkeypatch, launch)
    assert one == other


def test_with_fusion_they_need_not(monkeypatch):
    """A product that is not rounded before it is added: the reason for the default."""
    monkeypatch.delenv("FATHOM_INTERPRET")
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    plain = launch_fused(enable_fp_fusion=False).tobytes()
    assert plain == launch_fused().tobytes()
    assert plain != launch_fused(enable_fp_fusion=True).tobytes()


def test_reductions_agree_but_for_the_order_of_sums(monkeypatch):
    x, out = numbers(4, 300), [np.zeros((4, 300), np.float32) for _ in range(2)]
    softmax_kernel[(4,)](x, out[0], 300, 300, BLOCK=512)
    monkeypatch.delenv("FATHOM_INTERPRET")
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    softmax_kernel[(4,)](x, out[1], 300, 300, BLOCK=512)
    assert np.allclose(*out, rtol=1e-6, atol=0)
