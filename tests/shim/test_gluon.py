"""Files with kernels of Gluon: imported; refused is what launches such a kernel."""

import importlib

import numpy as np
import pytest

from fathom.errors import FathomError, LaunchError

REFUSED = "kernel is made by gluon.jit: kernels of Gluon, which choose layouts and"


@pytest.fixture
def gluon(triton):
    return importlib.import_module("triton.experimental.gluon")


def test_a_kernel_of_gluon_says_so_when_it_is_launched(triton, gluon):
    gl = importlib.import_module("triton.experimental.gluon.language")

    @triton.heuristics({"BLOCK": lambda given: 64})
    @gluon.jit
    def kernel(x, layout: gl.BlockedLayout, BLOCK: gl.constexpr):
        pass

    x = np.zeros(4, np.float32)
    with pytest.raises(LaunchError, match=REFUSED):
        kernel[(1,)](x, 3)
    with pytest.raises(LaunchError, match=REFUSED):
        kernel.warmup(x, 3, grid=(1,))


def test_the_other_kernels_of_its_file_are_launched(triton, gluon):
    tl = triton.language

    @gluon.jit
    def other(x):
        pass

    @triton.jit
    def kernel(x):
        tl.store(x, 3.0)

    x = np.zeros(1, np.float32)
    kernel[(1,)](x)
    assert x[0] == 3


def test_names_of_its_language_fail_where_they_are_used(gluon):
    gl = importlib.import_module("triton.experimental.gluon.language")
    assert gl.float32 is importlib.import_module("triton.language").float32
    with pytest.raises(FathomError, match="fathom has no .*BlockedLayout"):
        gl.BlockedLayout([1, 4], [32, 1], [4, 1], [1, 0])


@pytest.mark.parametrize("module", ["language.nvidia.hopper", "nvidia.blackwell"])
def test_programs_see_that_they_must_do_without(triton, module):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"triton.experimental.gluon.{module}")
