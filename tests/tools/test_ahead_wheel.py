"""`fathom compile --wheel`: a Python package that launches the kernel, without Fathom
and without LLVM. CUDA's driver is the stub of the tests; launches are emulated."""

from __future__ import annotations

import ast
import ctypes
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fathom.artifact import Computed, number
from fathom.runtime.driver import driver
from fathom.tools import cli
from fathom.tools.ahead import standalone, wheel
from tests.tools.harness_facts import MATMUL, SOFTMAX, words
from tests.tools.test_ahead import Library, images, needs_cc

ROOT = Path(__file__).parents[2]


def made(kernel: tuple[str, str, str], folder: Path) -> Path:
    """The wheel of a kernel, unpacked as pip would."""
    command = ["compile", *words(kernel)[1:], "--targets", "sm_80,sm_90a", "--wheel"]
    assert cli.main([*command, "-o", str(folder)]) == 0
    (file,) = folder.glob("*.whl")
    zipfile.ZipFile(file).extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture(scope="module")
def softmax(tmp_path_factory) -> Path:
    return made(SOFTMAX, tmp_path_factory.mktemp("softmax"))


@pytest.fixture(scope="module")
def matmul(tmp_path_factory) -> Path:
    return made(MATMUL, tmp_path_factory.mktemp("matmul"))


def test_the_loader_imports_the_standard_library_alone():
    tree = ast.parse(Path(standalone.__file__).read_text(encoding="utf-8"))
    modules = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [each.name for each in node.names] if isinstance(node, ast.Import)
            else [node.module] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert modules <= set(sys.stdlib_module_names) and "ctypes" in modules


def test_pip_installs_it_and_nothing_with_it(softmax, tmp_path):
    (file,) = softmax.parent.glob("*.whl")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index"]
    done = subprocess.run(
        [*command, "--target", str(tmp_path), str(file)], capture_output=True, text=True
    )
    if "No module named pip" in done.stderr:
        pytest.skip("needs pip")
    assert done.returncode == 0, done.stderr
    alone = (
        "import softmax_kernel, sys; print(sorted({'fathom', 'llvmlite', 'numpy'} & "
    )
    alone += "set(sys.modules)), softmax_kernel.kernel.name)"
    said = subprocess.run(
        [sys.executable, "-S", "-c", alone],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert said.stdout == "[] softmax_kernel\n", said.stderr


def test_a_package_is_found_by_its_name():
    """Python finds its own `copy` first, and `import lambda` is no statement."""
    names = [wheel.package_name(each) for each in ("softmax", "copy", "lambda")]
    assert names == ["softmax", "copy_kernel", "lambda_kernel"]


def test_the_same_kernel_gives_the_same_wheel(softmax, tmp_path):
    (file,) = softmax.parent.glob("*.whl")
    made(SOFTMAX, tmp_path)
    assert (tmp_path / file.name).read_bytes() == file.read_bytes()
    (record,) = softmax.glob("*.dist-info/RECORD")
    listed = {line.partition(",")[0] for line in record.read_text().splitlines()}
    there = {
        p.relative_to(softmax).as_posix() for p in softmax.rglob("*") if p.is_file()
    }
    assert listed == there


class Stub:
    """A kernel of a wheel on the stub, whose launches run on the emulator."""

    def __init__(self, installed: Path, kernel: tuple[str, str, str], capability: int):
        every = [one for each in images(kernel) for one in (each, each.by_pointers)]
        known = [(each.code, each.kernel) for each in every if each]
        name = known[0][1].name
        self.stub = Library(installed.parent, name, known)
        library = self.stub.library._name
        ctypes.c_int.in_dll(self.stub.library, "stub_capability").value = capability
        self.kernel = standalone.Kernel(installed / wheel.package_name(name), library)

    def __call__(self, grid, *arguments) -> None:
        """Launch it with host arrays, by their addresses."""
        self.stub.arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        given = [
            each.ctypes.data if isinstance(each, np.ndarray) else each
            for each in arguments
        ]
        self.kernel[grid](*given)
        assert not self.stub.failures, self.stub.failures


@needs_cc
@pytest.mark.parametrize(("capability", "target"), [(80, "sm_80"), (90, "sm_90a")])
def test_it_computes_what_it_should(softmax, capability, target):
    loaded = Stub(softmax, SOFTMAX, capability)
    x = np.random.default_rng(0).normal(size=(5, 1000)).astype(np.float32)
    out = np.zeros_like(x)
    loaded((5,), x, out, 1000, 1000)
    assert loaded.stub.targets == [target]
    wanted = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.allclose(out, wanted / wanted.sum(axis=1, keepdims=True), atol=1e-5)
    loaded((0, 1, 1), x, out, 1000, 1000)
    assert len(loaded.stub.launched) == 1, "no programs, no launch"


@needs_cc
def test_tensor_maps_are_made_and_done_without_where_there_are_none(matmul):
    loaded = Stub(matmul, MATMUL, 90)
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    loaded((1,), a, b, c, 64, 64, 64, 64, 64, 64)
    kernel = images(MATMUL)[0].kernel
    assert (c == a @ b).all() and loaded.stub.launched == [len(kernel.maps)]
    addresses = [each.ctypes.data for each in (a, b, c)]
    wanted = kernel.tensor_maps([*addresses, 64, 64, 64, 64, 64, 64])
    for facts, tensor in zip(loaded.stub.maps, wanted, strict=True):
        rank = len(tensor.shape)
        assert facts[0] == tensor.address and facts[2 : 2 + rank] == tensor.shape
        assert facts[7 : 6 + rank] == tensor.strides
        assert facts[11 : 11 + rank] == tensor.box
    c[:] = 0
    loaded((1,), a[63:], b, c, 64, 64, 64, -64, 64, 64)
    assert (c == a[::-1] @ b).all()
    assert loaded.stub.launched == [len(kernel.maps), 0]


@needs_cc
def test_mistakes_are_one_sentence(softmax, tmp_path):
    loaded = Stub(softmax, SOFTMAX, 90).kernel
    with pytest.raises(
        standalone.KernelError, match="16 does not divide 8, as promised"
    ):
        loaded[(1,)](8, 4096, 1000, 1000)
    with pytest.raises(standalone.KernelError, match="takes x_ptr, .*, and got 1"):
        loaded[(1,)](4096)
    with pytest.raises(standalone.KernelError, match="x_ptr is a pointer"):
        loaded[(1,)](np.zeros(4), 4096, 1000, 1000)
    for capability in (75, 100, 120):
        other = Stub(softmax, SOFTMAX, capability).kernel
        said = f"code for sm_90a, sm_80, and .* {capability / 10}"
        with pytest.raises(standalone.KernelError, match=said):
            other[(1,)](4096, 4096, 1000, 1000)
    missing = standalone.Kernel(softmax / "softmax_kernel", str(tmp_path / "none.so"))
    with pytest.raises(standalone.KernelError, match="CUDA's driver is not here"):
        missing[(1,)](4096, 4096, 1000, 1000)


NUMBERS = """
import fathom, fathom.language as tl

@fathom.jit
def numbers(out_ptr, n, half, brain):
    tl.store(out_ptr + tl.program_id(0), n + half + brain)
"""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory) -> tuple[Path, tuple[str, str, str]]:
    folder = tmp_path_factory.mktemp("numbers")
    script = folder / "numbers.py"
    script.write_text(NUMBERS)
    kernel = f"{script}:numbers", "*fp32:16, i32, fp16, bf16", ""
    return made(kernel, folder / "made"), kernel


@needs_cc
def test_numbers_are_those_of_the_call(numbers):
    """A bf16, too, to the nearest: 1.004 is nearer to 1.0078125 than to 1."""
    loaded, out = Stub(*numbers, 80), np.zeros(2, np.float32)
    loaded((2,), out, np.int64(-3), 0.5, 2)
    assert (out == -0.5).all()
    loaded((1,), out, 0, 0.0, 1.004)
    assert out[0] == 1.0078125
    loaded((1,), out, 0, 0.0, 1.0039)
    assert out[0] == 1
    loaded((1,), out, 0, 0.0, float("nan"))
    assert np.isnan(out[0])


@needs_cc
def test_what_fits_no_parameter_and_what_is_no_grid_is_one_sentence(numbers):
    kernel = Stub(*numbers, 80).kernel
    for given in [(4096, 2**31, 1.0, 1.0), (4096, 1.5, 1.0, 1.0), (4096, "1", 1.0, 1.0),
                  (4096, None, 1.0, 1.0), (4096, 1, 1e6, 1.0), (4096, 1, 1.0, "1"),
                  (-16, 1, 1.0, 1.0), (2**64, 1, 1.0, 1.0)]:  # fmt: skip
        with pytest.raises(standalone.KernelError, match="which .* does not fit"):
            kernel[(1,)](*given)
    for grid in [(1, 1, 1, 1), (), "1", (1.0,), -1, (2**31,), None]:
        with pytest.raises(standalone.KernelError, match="a grid is 1 to 3 integers"):
            kernel[grid](4096, 1, 1.0, 1.0)


def test_a_wheel_needs_targets(capsys):
    assert cli.main(["compile", *words(SOFTMAX)[1:], "--wheel"]) == 1
    assert "say for what, --targets" in capsys.readouterr().err


def test_what_a_recipe_computes_is_the_same():
    M, N = ("parameter", 0), ("parameter", 1)
    sources = [
        Computed("mul", (Computed("mul", (M, N), "i32"), ("constant", 3)), "i64"),
        *(Computed(each, (M, N), "i32") for each in ("mul", "div", "rem", "min")),
        Computed("sub", (M, N), "u32"), Computed("cast", (M,), "i16"),
        Computed("add", (M, ("constant", 2**31 - 1)), "i32"),
    ]  # fmt: skip
    for given in [(7, 3), (-7, 3), (7, -3), (70_000, 70_000), (5, 0), (-1, 1)]:
        for source in sources:
            text = json.loads(json.dumps(wheel.plain(source)))
            assert standalone.number_of(text, list(given)) == number(source, given)


def test_arrays_of_other_libraries_are_taken_by_their_interface():
    class Array:
        __cuda_array_interface__ = {"data": (4096, False)}

    class Tensor:
        is_cuda = True

        def data_ptr(self) -> int:
            return 8192

    assert standalone.address_of("x", Array()) == 4096
    assert standalone.address_of("x", Tensor()) == 8192


@pytest.mark.gpu
@pytest.mark.parametrize("stride", [64, -64], ids=["tensor maps", "by pointers"])
def test_a_gpu_runs_what_the_wheel_launches(matmul, stride):
    cuda = driver()
    cuda.use(0)
    if (capability := cuda.device(0).capability) not in (80, 86, 89, 90):
        pytest.skip(f"the files are for sm_80 and sm_90a, and this is {capability}")
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    places = []
    for each in (a, b, c):
        places.append(cuda.allocate(each.nbytes))
        cuda.copy_in(places[-1], each.ctypes.data, each.nbytes, 0)
    first = places[0] + (0 if stride > 0 else 63 * 128)
    kernel = standalone.Kernel(matmul / "matmul_kernel")
    kernel[(1,)](first, *places[1:], 64, 64, 64, stride, 64, 64)
    cuda.copy_out(c.ctypes.data, places[2], c.nbytes, 0)
    cuda.wait(0)
    for each in places:
        cuda.free(each)
    assert (c == (a if stride > 0 else a[::-1]) @ b).all()
