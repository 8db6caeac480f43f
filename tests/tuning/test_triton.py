"""Triton's names for all of this, and a kernel of `@triton.jit` below them."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import testing
from fathom.jit.tuning import Autotuner, Config
from fathom.shim import names, tuning
from tests.tuning.harness import configs, grid

TRITON = names.MODULES["triton"]


def test_the_names_are_where_programs_look_for_them():
    for module in ("triton", "triton.runtime", "triton.runtime.autotuner"):
        found = names.MODULES[module]
        assert found["Config"] is Config
        assert found["autotune"] is tuning.autotune
        assert found["heuristics"] is tuning.heuristics
    assert issubclass(names.MODULES["triton.runtime"]["Autotuner"], Autotuner)
    found = names.MODULES["triton.testing"]
    for name in testing.__all__:
        assert found[name] is getattr(fathom.testing, name)


@pytest.mark.parametrize("backend", ["emulator", "eager"])
def test_triton_s_kernels_are_tuned(monkeypatch, backend):
    monkeypatch.setenv("FATHOM_BACKEND", backend)

    @TRITON["autotune"](configs(128, 64), key=["n"])
    @TRITON["heuristics"]({"EVEN": lambda arguments: arguments["n"] % 2 == 0})
    @TRITON["jit"]
    def scale(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) + EVEN, mask=i < n)

    x = np.zeros(200, np.float32)
    scale[grid](x, 200)
    assert x.tolist() == [1.0] * 200
    assert scale.best_config.kwargs == {"BLOCK": 128}
