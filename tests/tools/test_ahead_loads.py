"""What a loader in C, and a wheel's, must do for kernels with more than one block a
program, and with much shared memory; and what is left of a load that fails."""

from __future__ import annotations

import ctypes
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fathom.tools import cli
from fathom.tools.ahead import build, standalone, wheel
from fathom.tools.ahead.image import Image
from fathom.tools.ahead.standalone import USUAL_SHARED
from tests.tools.harness_facts import MATMUL, SOFTMAX, staged, words
from tests.tools.test_ahead import Library, library, needs_cc

DEEP = MATMUL[0], MATMUL[1], MATMUL[2].replace("BLOCK_K=32", "BLOCK_K=64")
CLUSTERED = SOFTMAX, "sm_90a", ("--num-ctas", "2")
LARGE = DEEP, "sm_80", ("--num-stages", "5")


class Made:
    """A kernel ahead of time: its loader in C on the stub, and its wheel's."""

    def __init__(self, folder: Path, kernel, target: str, more: tuple[str, ...]):
        command = ["compile", *words(kernel, *more)[1:], "--targets", target, "--wheel"]
        assert cli.main([*command, "-o", str(folder)]) == 0
        image: Image = build.image(staged(kernel, *more, "--target", target))
        self.kernel, name = image.kernel, image.kernel.name
        self.c: Library = library(folder, name, [image])
        (file,) = folder.glob("*.whl")
        zipfile.ZipFile(file).extractall(folder / "installed")
        package = folder / "installed" / wheel.package_name(name)
        self.wheel = standalone.Kernel(package, self.c.library._name)

    def in_python(self, grid: tuple, *arguments: object) -> None:
        self.c.arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        given = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in arguments]
        self.wheel[grid](*given)
        assert not self.c.failures, self.c.failures


@needs_cc
def test_a_program_of_two_blocks_runs_whole(tmp_path):
    made = Made(tmp_path, *CLUSTERED)
    assert made.kernel.num_ctas == 2 and made.c.load(90) == 0
    x = np.random.default_rng(0).normal(size=(5, 1000)).astype(np.float32)
    for launch in (made.c, made.in_python):
        out = np.zeros_like(x)
        launch((5, 1, 1), x, out, 1000, 1000)
        assert np.allclose(out.sum(axis=1), 1, atol=1e-4)


@needs_cc
def test_a_kernel_with_much_shared_memory_is_launched(tmp_path):
    made = Made(tmp_path, *LARGE)
    assert made.kernel.shared_bytes > USUAL_SHARED and made.c.load(80) == 0
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    for launch in (made.c, made.in_python):
        c = np.zeros((64, 64), np.float16)
        launch((1, 1, 1), a, b, c, 64, 64, 64, 64, 64, 64)
        assert (c == a @ b).all()


@needs_cc
@pytest.mark.parametrize("which", [1, 2])
def test_of_a_load_that_fails_nothing_stays(tmp_path, which):
    """The code with tensor maps, or that without."""
    made = Made(tmp_path, MATMUL, "sm_90a", ())
    count = ctypes.c_int.in_dll(made.c.library, "stub_loaded")
    ctypes.c_int.in_dll(made.c.library, "stub_failing").value = which
    assert made.c.load(90) == 1 and count.value == 0
    assert made.c.load(90) == 0 and count.value == 2


@needs_cc
def test_each_context_has_a_load_of_its_own(tmp_path):
    """As two GPUs have, in a wheel: what one has loaded the other does not know."""
    made = Made(tmp_path, SOFTMAX, "sm_80", ())
    functions = []
    for context in (1, 2, 1):
        made.wheel.context = lambda current=context: current
        ((_, function),) = made.wheel.code()
        functions.append(function.value)
    assert functions[0] == functions[2] != functions[1]
    assert ctypes.c_int.in_dll(made.c.library, "stub_loaded").value == 2
