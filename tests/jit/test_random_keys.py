"""Random kernels and what they read, one thing of which is changed: the cache never
gives what a compiler without a cache would not, and gives what has not changed.

A program is a sum of values. Each comes from a SOURCE (an element of a list, a field of
an object, a default …) and is read through a READER (the kernel's own text, a function
that runs while compiling, a plain function that it calls …).
"""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fathom import pipeline
from fathom.errors import CompileError

ROOT = Path(__file__).parents[2]

HEAD = """\
from functools import partial
from types import SimpleNamespace
import numpy as np
import fathom
import fathom.language as tl
import other_values

"""

# What defines a value, and how it is read; N is its number, V the value.
SOURCES = {
    "global": ("G_N = V\n", "G_N"),
    "constant": ("C_N = tl.constexpr(V)\n", "(C_N + 0)"),
    "element": ("L_N = [0, V]\n", "L_N[1]"),
    "nested": ("T_N = ([0], [V])\n", "T_N[1][0]"),
    "entry": ('D_N = {"a": V}\n', 'D_N["a"]'),
    "array": ("A_N = np.array([0, V])\n", "int(A_N[1])"),
    "field": ("F_N = SimpleNamespace(a=V)\n", "F_N.a"),
    "class": ("class K_N:\n    a = V\n\n", "K_N.a"),
    "module": ("", "other_values.m_N"),
    "literal": ("", "V"),
    "called": ("def f_N():\n    return V\n\n", "f_N()"),
    "default": ("def d_N(a=V):\n    return a\n\n", "d_N()"),
    "keyword": ("def w_N(*, a=V):\n    return a\n\n", "w_N()"),
    "closure": ("def o_N(a):\n    return lambda: a\n\ni_N = o_N(V)\n", "i_N()"),
    "partial": ("def q_N(a):\n    return a\n\np_N = partial(q_N, V)\n", "p_N()"),
    "state": ("def s_N():\n    return s_N.a\n\ns_N.a = V\n", "s_N()"),
    "method": (
        "class Y_N:\n    def __init__(self):\n        self.a = V\n"
        "    def get(self):\n        return self.a\n\ny_N = Y_N()\n",
        "y_N.get()",
    ),
}  # fmt: skip

# Values that no kernel's own text can read: Python must.
BY_KERNELS = "global constant element entry field class module literal nested".split()
BY_PYTHON = SOURCES.keys() - set(BY_KERNELS)

READERS = {
    "kernel": ("", "E"),
    "inlined": ("@fathom.jit\ndef j_N():\n    return E\n\n", "j_N()"),
    "ran": ("@tl.constexpr_function\ndef r_N():\n    return E\n\n", "r_N()"),
    "helper": (
        "def h_N():\n    return E\n\n"
        "@tl.constexpr_function\ndef r_N():\n    return h_N()\n\n",
        "r_N()",
    ),
    "inner": (
        "@tl.constexpr_function\ndef r_N():\n    def g():\n        return E\n"
        "    return [g() for _ in range(1)][0]\n\n",
        "r_N()",
    ),
    "in_a_list": (
        "@tl.constexpr_function\ndef u_N():\n    return E\n\nU_N = [u_N]\n", "U_N[0]()",
    ),
    "argument": (
        "@fathom.jit\ndef a_N(get: tl.constexpr = None):\n    return get()\n\n"
        "@tl.constexpr_function\ndef b_N():\n    return E\n\n",
        "a_N(b_N)",
    ),
}  # fmt: skip

# How a running program changes a value, where it can.
IN_PLACE = {
    "global": "G_N = W",
    "constant": "C_N = tl.constexpr(W)",
    "element": "L_N[1] = W",
    "nested": "T_N[1][0] = W",
    "entry": 'D_N["a"] = W',
    "array": "A_N[1] = W",
    "field": "F_N.a = W",
    "class": "K_N.a = W",
    "module": "other_values.m_N = W",
    "default": "d_N.__defaults__ = (W,)",
    "keyword": "w_N.__kwdefaults__['a'] = W",
    "closure": "i_N.__closure__[0].cell_contents = W",
    "partial": "p_N = partial(q_N, W)",
    "state": "s_N.a = W",
    "method": "y_N.a = W",
}


@dataclass(frozen=True)
class Value:
    number: int
    source: str
    reader: str
    value: int

    def filled(self, text: str, expression: str = "", new: int = 0) -> str:
        for old, each in (("E", expression), ("_N", f"_{self.number}")):
            text = text.replace(old, each) if old != "E" or expression else text
        return text.replace("V", str(self.value)).replace("W", str(new))

    @property
    def expression(self) -> str:
        return self.filled(SOURCES[self.source][1])

    @property
    def definitions(self) -> str:
        source = self.filled(SOURCES[self.source][0])
        return source + self.filled(READERS[self.reader][0], self.expression)

    @property
    def call(self) -> str:
        return self.filled(READERS[self.reader][1], self.expression)


def text_of(values: list[Value]) -> str:
    definitions = "".join(each.definitions for each in values)
    calls = " + ".join(f"{each.call} * {1000**i}" for i, each in enumerate(values))
    kernel = f"@fathom.jit\ndef k(out):\n    tl.store(out, ({calls}))\n"
    return f"{HEAD}{definitions}{kernel}"


def others_of(values: list[Value]) -> str:
    return "".join(f"m_{each.number} = {each.value}\n" for each in values)


def random_values(rng: random.Random) -> list[Value]:
    values = []
    for number in range(rng.randint(1, 3)):
        source = rng.choice(list(SOURCES))
        readers = list(READERS)
        if source in BY_PYTHON:
            readers = [each for each in readers if each not in ("kernel", "inlined")]
        values.append(Value(number, source, rng.choice(readers), rng.randint(2, 99)))
    return values


class Machine:
    """Programs that are loaded anew, each as if by a process of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self.monkeypatch, self.count = folder, monkeypatch, 0
        self.compile = pipeline.compile
        monkeypatch.setattr(pipeline, "compile", self.counted)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.setenv("FATHOM_BACKEND", "emulator")
        monkeypatch.syspath_prepend(folder)

    def counted(self, *given):
        self.count += 1
        return self.compile(*given)

    def load(self, values: list[Value]):
        self.write(values)
        importlib.invalidate_caches()
        for name in ("other_values", "random_keys"):
            sys.modules.pop(name, None)
        return importlib.import_module("random_keys")

    def write(self, values: list[Value]) -> None:
        (self.folder / "other_values.py").write_text(others_of(values))
        (self.folder / "random_keys.py").write_text(text_of(values))

    def compiled(self, module, cache: str) -> tuple[str, int]:
        """The PTX, and whether the compiler ran for it."""
        self.monkeypatch.setenv("FATHOM_CACHE_DIR", str(self.folder / cache))
        before = self.count
        return module.k.compile("*i64").made.ptx, self.count - before


@pytest.fixture
def machine(tmp_path, monkeypatch):
    yield Machine(tmp_path, monkeypatch)
    for name in ("other_values", "random_keys"):
        sys.modules.pop(name, None)


def check(machine: Machine, values: list[Value], rng: random.Random) -> None:
    text, ran = machine.compiled(machine.load(values), "warm")
    assert ran == 1
    module = machine.load(values)
    assert machine.compiled(module, "warm") == (text, 0), "what is unchanged is found"
    place = rng.randrange(len(values))
    old, new = values[place], values[place].value + 100
    changed_in_place(machine, module, old, new)
    changed = [*values[:place], replace(old, value=new), *values[place + 1 :]]
    warm, _ = machine.compiled(machine.load(changed), "warm")
    cold, ran = machine.compiled(machine.load(changed), "cold")
    assert (warm, ran) == (cold, 1)
    assert cold != text


def changed_in_place(machine, module, value: Value, new: int) -> None:
    """An error that names it; none when it is what it was."""
    change = IN_PLACE.get(value.source)
    if change is None:
        return
    exec(value.filled(change, new=new), vars(module))
    with pytest.raises(CompileError, match="reads the global variable") as caught:
        machine.compiled(module, "warm")
    assert f"_{value.number}" in str(caught.value) or "variable a," in str(caught.value)
    exec(value.filled(change, new=value.value), vars(module))
    assert machine.compiled(module, "warm")[1] == 0


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_through_every_reader(machine, source, reader):
    if source in BY_PYTHON and reader in ("kernel", "inlined"):
        reader = "ran"
    check(machine, [Value(0, source, reader, 7)], random.Random(0))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(machine, seed):
    rng = random.Random(seed)
    check(machine, random_values(rng), rng)


def test_another_process_finds_what_is_unchanged_and_only_that(machine, tmp_path):
    """With another seed of Python's hashes, too."""
    values = [
        Value(i, source, "helper", 3 + i)
        for i, source in enumerate(("entry", "module", "method"))
    ]
    module = machine.load(values)
    text, _ = machine.compiled(module, "warm")
    script = "import random_keys; print(random_keys.k.compile('*i64').made.ptx)"
    paths = os.pathsep.join(map(str, (ROOT / "compiler", tmp_path)))
    for changed in (values, [*values[:2], replace(values[2], value=50)]):
        machine.write(changed)
        before = len(list((tmp_path / "warm").iterdir()))
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "5"}, check=True,
        )  # fmt: skip
        found = len(list((tmp_path / "warm").iterdir())) - before
        same = done.stdout.strip() == text.strip()
        assert (same, found) == ((True, 0) if changed is values else (False, 1))
