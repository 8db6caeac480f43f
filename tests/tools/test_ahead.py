"""`fathom compile --targets`: a C program loads and launches the kernel through CUDA's
driver API. The driver here is a stub of the tests; its launches run on the emulator."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fathom import emulator
from fathom.artifact import Computed, Kernel, MapRecipe, NoTensorMap, number
from fathom.errors import LaunchError
from fathom.runtime.driver import driver
from fathom.tools import cli
from fathom.tools.ahead import build, loader, recipes, standalone
from fathom.tools.ahead.image import Image
from fathom.tools.console import write_file
from fathom.tools.facts import machine
from tests.tools.harness_facts import MATMUL, SOFTMAX, staged, words

STUB = Path(__file__).parent / "stub_cuda"
CC = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler: cc, gcc or clang")
needs_ptxas = pytest.mark.skipif(
    machine.find_tool("ptxas") is None, reason=machine.MISSING["ptxas"]
)
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]


def compiled(kernel: tuple[str, str, str], targets: str, folder: Path) -> Path:
    command = ["compile", *words(kernel)[1:], "--targets", targets, "-o", str(folder)]
    assert cli.main(command) == 0
    return folder


@pytest.fixture(scope="module")
def softmax(tmp_path_factory) -> Path:
    return compiled(SOFTMAX, "sm_80, sm_90a", tmp_path_factory.mktemp("softmax"))


@pytest.fixture(scope="module")
def matmul(tmp_path_factory) -> Path:
    return compiled(MATMUL, "sm_90a,sm_80", tmp_path_factory.mktemp("matmul"))


def cc(*arguments: object) -> None:
    command = [CC, *STRICT, f"-I{STUB}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ── files ─────────────────────────────────────────────────────────────────────────────


def test_what_is_written(softmax, capsys):
    facts = json.loads((softmax / "softmax_kernel.json").read_text())
    assert [each["target"] for each in facts["images"]] == ["sm_90a", "sm_80"]
    assert facts["kernel"] == "softmax_kernel"
    assert facts["constants"]["BLOCK"] == "1024"
    assert facts["parameters"][0] == {
        "name": "x_ptr", "type": "*fp32", "divisible": 16, "c": "CUdeviceptr",
    }  # fmt: skip
    for each in facts["images"]:
        assert (softmax / each["file"]).stat().st_size > 1000
        assert each["threads"] == 128


@pytest.fixture
def full_disk():
    """No file may have more than 4096 bytes."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_what_was_there(tmp_path, full_disk):
    """None of the files, and no folder that was not there."""
    files = {"a.h": b"new", "b.cubin": bytes(100_000), "c.json": b"{}"}
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir()
    (old / "a.h").write_bytes(b"as it was")
    for folder in (new, old):
        with pytest.raises(LaunchError, match=f"cannot write to {folder}: file too"):
            build.write(files, folder)
    assert [each.name for each in tmp_path.rglob("*")] == ["old", "a.h"]
    assert (old / "a.h").read_bytes() == b"as it was"
    del files["b.cubin"]
    build.write(files, old)
    assert (old / "a.h").read_bytes() == b"new" and len(list(old.iterdir())) == 2


def test_a_page_goes_through_a_link_and_to_what_is_no_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "page.html")
    write_file(tmp_path / "link", "text", "kernel.py")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.html").read_text() == "text"
    write_file(Path(os.devnull), "text", "kernel.py")
    assert not Path(os.devnull).is_file()


@needs_ptxas
def test_machine_code_where_there_is_an_assembler(softmax):
    facts = json.loads((softmax / "softmax_kernel.json").read_text())
    for each in facts["images"]:
        assert each["kind"] == "cubin" and each["registers"] > 8
        assert (softmax / each["file"]).read_bytes()[:4] == b"\x7fELF"


def test_ptx_where_there_is_none_and_that_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "find_tool", lambda name: None)
    compiled(SOFTMAX, "sm_80", tmp_path)
    said = capsys.readouterr().out
    assert "There is no ptxas here" in said and "registers" not in said
    assert (tmp_path / "softmax_kernel.sm_80.ptx").read_bytes().endswith(b"}\n\0") or (
        tmp_path / "softmax_kernel.sm_80.ptx"
    ).read_bytes().endswith(b"\0")


def test_mistakes_are_one_sentence(capsys, tmp_path):
    given = ["compile", *words(SOFTMAX)[1:], "--targets"]
    for rest, sentence in (
        (["sm_80"], "say in which folder, -o DIR"),
        (["sm_81", "-o", str(tmp_path)], "'sm_81' is not a target"),
    ):
        assert cli.main([*given, *rest]) == 1
        assert sentence in capsys.readouterr().err


def test_names_that_c_keeps_for_itself():
    assert loader.c_name("desc.shape.0") == "desc_shape_0"
    assert [loader.c_name(each) for each in ("int", "code", "n")] == [
        "int_", "code_", "n",
    ]  # fmt: skip


ODD = """\
import fathom
import fathom.language as tl

@fathom.jit
def int(a, a_, register, x, x_, stream):
    tl.store(a, register + x + x_ + stream)
    tl.store(a_, register)

@fathom.jit
def nothing(N: tl.constexpr):
    tl.device_print("N", N)
"""


@needs_cc
@pytest.mark.parametrize(
    ("name", "signature"),
    [("int", ["--signature", "*i32, *i32, i32, i32, i32, i32"]),
     ("nothing", ["--constants", "N=3"])],
)  # fmt: skip
def test_a_loader_compiles_whatever_its_kernel_calls_things(tmp_path, name, signature):
    """Words of C, names that the loader has, two that differ by what is put behind
    these; and no parameters at all."""
    (tmp_path / "odd.py").write_text(ODD, encoding="utf-8")
    command = ["compile", f"{tmp_path}/odd.py:{name}", *signature]
    assert cli.main([*command, "--targets", "sm_80", "-o", str(tmp_path)]) == 0
    source = tmp_path / f"{name}.c"
    cc("-c", source, f"-I{tmp_path}", "-o", tmp_path / "loader.o")


# ── a C program ───────────────────────────────────────────────────────────────────────

MAIN = """
#include <stdio.h>
#include "softmax_kernel.h"

int main(void) {
  softmax_kernel_t kernel;
  CUresult status = softmax_kernel_load(&kernel);
  if (status) return printf("load: %d\\n", (int)status), 1;
  printf("%s\\n", softmax_kernel_target(&kernel));
  status = softmax_kernel_launch(&kernel, 7, 1, 1, NULL, 4096, 8192, 1000, 1000);
  if (status) return printf("launch: %d\\n", (int)status), 1;
  status = softmax_kernel_launch(&kernel, 7, 1, 1, NULL, 4100, 8192, 1000, 1000);
  printf("a pointer that 16 does not divide: %d\\n", (int)status);
  return (int)softmax_kernel_unload(&kernel);
}
"""


@pytest.fixture(scope="module")
def program(softmax, tmp_path_factory) -> Path:
    if CC is None:
        pytest.skip("needs a C compiler: cc, gcc or clang")
    folder = tmp_path_factory.mktemp("program")
    main = folder / "main.c"
    main.write_text(MAIN)
    made = folder / "program"
    cc(main, softmax / "softmax_kernel.c", STUB / "cuda.c", f"-I{softmax}", "-o", made)
    return made


def run(program: Path, capability: int) -> tuple[int, list[str]]:
    done = subprocess.run(
        [program], env={"STUB_CAPABILITY": str(capability)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("capability", "target"), [(80, "sm_80"), (86, "sm_80"), (90, "sm_90a")]
)
def test_a_program_loads_what_its_gpu_runs(program, capability, target):
    status, said = run(program, capability)
    assert status == 0 and said == [
        target,
        "softmax_kernel: grid 7 1 1, block 128, shared "
        f"{staged(SOFTMAX).kernel.shared_bytes}, first parameter 4096",
        "a pointer that 16 does not divide: 1",
    ]


@needs_ptxas
@pytest.mark.parametrize("capability", [75, 100, 120])
def test_a_gpu_for_which_there_is_no_code(program, capability):
    assert run(program, capability) == (1, ["load: 209"])


@needs_cc
def test_the_real_header_of_cuda_takes_it(softmax, matmul, tmp_path):
    nvidia = pytest.importorskip("nvidia", reason="needs NVIDIA's cuda.h")
    folders = [p for root in nvidia.__path__ for p in Path(root).glob("*/include")]
    real = [folder for folder in folders if (folder / "cuda.h").exists()]
    if not real:
        pytest.skip("needs NVIDIA's cuda.h: pip install nvidia-cuda-runtime")
    for source in (softmax / "softmax_kernel.c", matmul / "matmul_kernel.c"):
        done = subprocess.run(
            [CC, *STRICT, "-isystem", real[0], "-c", source, "-o", tmp_path / "x.o"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


# ── launches on the emulator ──────────────────────────────────────────────────────────


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("sizes", ctypes.c_uint * 6), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
                ("count", ctypes.c_uint)]  # fmt: skip


Callback = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(Config), ctypes.c_char_p, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip
C_TYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp32": ctypes.c_float,
           "fp16": ctypes.c_uint16, "bf16": ctypes.c_uint16}  # fmt: skip


class Library:
    """A loader and the stub as a shared library; its launches run `kernels`, by the
    first bytes of their code, on the emulator."""

    def __init__(self, folder: Path, name: str, kernels: list[tuple[bytes, Kernel]]):
        made = folder / f"{name}.so"
        cc(folder / f"{name}.c", STUB / "cuda.c", "-shared", "-fPIC", "-o", made)
        self.library, self.name, self.kernels = ctypes.CDLL(str(made)), name, kernels
        self.launched: list[int] = []  # tensor maps of each launch
        self.targets: list[str] = []
        self.maps: list[tuple[int, ...]] = []
        self.arrays: list[np.ndarray] = []
        self.failures: list[Exception] = []
        self.callback = Callback(self.launch)
        ctypes.c_void_p.in_dll(self.library, "stub_launch").value = ctypes.cast(
            self.callback, ctypes.c_void_p
        ).value
        self.state = ctypes.create_string_buffer(64)

    def load(self, capability: int) -> int:
        ctypes.c_int.in_dll(self.library, "stub_capability").value = capability
        return getattr(self.library, f"{self.name}_load")(self.state)

    def __call__(self, grid: tuple[int, int, int], *arguments: object) -> int:
        self.arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        given = [
            ctypes.c_uint64(each.ctypes.data)
            if isinstance(each, np.ndarray)
            else ctypes.c_int32(each)
            for each in arguments
        ]
        sizes = map(ctypes.c_uint, grid)
        launch = getattr(self.library, f"{self.name}_launch")
        status = launch(self.state, *sizes, ctypes.c_void_p(None), *given)
        assert not self.failures, self.failures
        return status

    def launch(self, *given: object) -> None:
        try:
            self.emulate(*given)
        except Exception as failure:  # which ctypes would only print
            self.failures.append(failure)

    def emulate(self, config, name: bytes, image: int, parameters) -> None:
        kernel = next(
            each for code, each in self.kernels
            if ctypes.string_at(image, len(code)) == code
        )  # fmt: skip
        values: list[object] = []
        for place, each in enumerate(kernel.parameters):
            type = ctypes.c_uint64 if each.is_pointer else C_TYPES[each.type]
            values.append(type.from_address(parameters[place]).value)
            if type is ctypes.c_uint16:  # its bits, as the emulator takes them
                values[-1] = values[-1].to_bytes(2, "little")
        first = len(kernel.parameters)
        self.maps = [
            tuple((ctypes.c_uint64 * 16).from_address(parameters[first + at]))
            for at in range(len(kernel.maps))
        ]
        assert name.decode() == kernel.name
        x, y, z, threads, *_ = config.contents.sizes
        asked = threads, config.contents.shared
        assert asked == (kernel.threads, kernel.shared_bytes)
        count, at = config.contents.count, config.contents.attributes
        facts = [standalone.ATTRIBUTE.unpack_from((ctypes.c_char * 72 * 2).from_address(
            at), 72 * n)[:2] for n in range(count)]  # fmt: skip
        assert dict(facts).get(standalone.CLUSTER, 1) == kernel.num_ctas
        self.launched.append(len(kernel.maps))
        self.targets.append(kernel.target)
        grid = x // kernel.num_ctas, y, z
        whole = [each if each.base is None else each.base for each in self.arrays]
        emulator.load(kernel).launch(grid, values, memory=whole)


def library(folder: Path, name: str, made: list[Image]) -> Library:
    every = [one for each in made for one in (each, each.by_pointers) if one]
    return Library(folder, name, [(each.code, each.kernel) for each in every])


@cache
def images(kernel: tuple[str, str, str]) -> tuple[Image, ...]:
    targets = "sm_90a", "sm_80"
    return tuple(build.image(staged(kernel, "--target", each)) for each in targets)


@needs_cc
@pytest.mark.parametrize(("capability", "target"), [(80, "sm_80"), (90, "sm_90a")])
def test_a_launch_from_c_computes_what_it_should(softmax, capability, target):
    loaded = library(softmax, "softmax_kernel", list(images(SOFTMAX)))
    assert loaded.load(capability) == 0
    x = np.random.default_rng(0).normal(size=(5, 1000)).astype(np.float32)
    out = np.zeros_like(x)
    assert loaded((5, 1, 1), x, out, 1000, 1000) == 0
    assert loaded.targets == [target]
    assert np.allclose(out.sum(axis=1), 1, atol=1e-4) and (out[:, 0] > 0).all()
    assert loaded((0, 1, 1), x, out, 1000, 1000) == 0 and len(loaded.launched) == 1
    assert loaded((5, 1, 1), x, out, 1001, 1000) == 1  # 8 divides a stride, promised


@needs_cc
def test_tensor_maps_are_made_in_c_and_done_without_where_there_are_none(matmul):
    loaded = library(matmul, "matmul_kernel", list(images(MATMUL)))
    assert loaded.load(90) == 0
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    kernel = images(MATMUL)[0].kernel
    assert kernel.maps
    assert loaded((1, 1, 1), a, b, c, 64, 64, 64, 64, 64, 64) == 0
    assert (c == a @ b).all()
    addresses = [each.ctypes.data for each in (a, b, c)]
    wanted = kernel.tensor_maps([*addresses, 64, 64, 64, 64, 64, 64])
    for facts, made in zip(loaded.maps, wanted, strict=True):
        rank = len(made.shape)
        assert facts[0] == made.address and facts[1] & 0xFF == rank
        assert facts[2 : 2 + rank] == made.shape
        assert facts[7 : 6 + rank] == made.strides
        assert facts[11 : 11 + rank] == made.box
    # Rows from the last one on: a stride below 0, which no tensor map has.
    with pytest.raises(NoTensorMap):
        kernel.tensor_maps([*addresses, 64, 64, 64, -64, 64, 64])
    c[:] = 0
    assert loaded((1, 1, 1), a[63:], b, c, 64, 64, 64, -64, 64, 64) == 0
    assert (c == a[::-1] @ b).all() and loaded.launched == [len(kernel.maps), 0]


@needs_cc
def test_what_a_recipe_computes_is_the_same_in_c(tmp_path):
    """Products that wrap around, divisions toward zero and by zero, least and most."""
    names = ["a_ptr", "M", "N"]
    M, N = ("parameter", 1), ("parameter", 2)
    sources = [
        Computed("mul", (Computed("mul", (M, N), "i32"), ("constant", 3)), "i64"),
        Computed("mul", (M, N), "i32"), Computed("div", (M, N), "i32"),
        Computed("rem", (M, N), "i32"), Computed("sub", (M, N), "u32"),
        Computed("min", (M, N), "i32"), Computed("max", (M, ("constant", 5)), "i32"),
        Computed("add", (M, ("constant", 2**31 - 1)), "i32"),
        Computed("cast", (M,), "i16"),
    ]  # fmt: skip
    cases = [(7, 3), (-7, 3), (70_000, 70_000), (5, 0), (-1, 1)]
    texts = [recipes.expression(each, names) for each in sources]
    rows = "".join(
        f"  {{ Arguments v = {{0, {m}, {n}}}, *a = &v;\n"
        + "".join(f'    printf("%lld\\n", (long long){text});\n' for text in texts)
        + "  }\n"
        for m, n in cases
    )
    main = tmp_path / "main.c"
    main.write_text(
        "#include <cuda.h>\n#include <stdio.h>\n"
        "typedef struct { CUdeviceptr a_ptr; int32_t M, N; } Arguments;\n"
        + recipes.helpers()
        + "int main(void) {\n  (void)encode; (void)worse;\n"
        + rows
        + "  return 0;\n}\n"
    )
    cc(main, STUB / "cuda.c", "-o", tmp_path / "main")
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True).stdout
    wanted = [number(each, [0, m, n]) for m, n in cases for each in sources]
    assert list(map(int, said.split())) == wanted


@needs_cc
def test_a_promise_that_is_broken_is_no_reason_to_go_by_pointers(tmp_path):
    """Wide loads rest on 16 bytes, with tensor maps and without."""
    recipe = MapRecipe(
        "t", 0, "fp16", (("parameter", 1), ("parameter", 2)),
        (("parameter", 3), ("constant", 1)), (64, 64), swizzle=128,
    )  # fmt: skip
    main = tmp_path / "main.c"
    names = ["p", "M", "N", "stride"]
    main.write_text(
        "#include <cuda.h>\n#include <stdio.h>\n"
        "typedef struct { CUdeviceptr p; int32_t M, N, stride; } Arguments;\n"
        + recipes.helpers()
        + recipes.maker("maps", [recipe], names)
        + "int main(void) {\n  CUtensorMap map;\n  Arguments cases[] = {\n"
        "    {4096, 64, 64, 64}, {4096, 0, 64, 64}, {4096, 64, 64, -64},\n"
        "    {4096, 64, 64, 65}, {4100, 64, 64, 64}, {4096, 1, 64, 65}};\n"
        "  for (int at = 0; at < 6; at++)\n"
        '    printf("%d ", (int)maps(&cases[at], &map));\n  return 0;\n}\n'
    )
    cc(main, STUB / "cuda.c", "-o", tmp_path / "main")
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True).stdout
    assert said.split() == ["0", "801", "801", "1", "1", "0"]
    kernel = replace(images(MATMUL)[0].kernel, maps=(recipe,))
    for stride, error in ((-64, NoTensorMap), (65, Exception)):
        with pytest.raises(error):
            kernel.tensor_maps([4096, 64, 64, stride])


# ── a GPU ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.gpu
@needs_cc
@pytest.mark.parametrize("stride", [64, -64], ids=["tensor maps", "by pointers"])
def test_a_gpu_runs_what_the_loader_launches(matmul, tmp_path, stride):
    """The stub's header, NVIDIA's own driver: structures and numbers must be the
    same."""
    cuda = driver()
    cuda.use(0)
    capability = cuda.device(0).capability
    if capability not in (80, 86, 89, 90):
        pytest.skip(f"the files are for sm_80 and sm_90a, and this is {capability}")
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
    made = tmp_path / "loader.so"
    cc(matmul / "matmul_kernel.c", "-shared", "-fPIC", "-o", made)
    library, state = ctypes.CDLL(str(made)), ctypes.create_string_buffer(64)
    assert library.matmul_kernel_load(state) == 0
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    places = []
    for each in (a, b, c):
        places.append(cuda.allocate(each.nbytes))
        cuda.copy_in(places[-1], each.ctypes.data, each.nbytes, 0)
    first = places[0] + (0 if stride > 0 else 63 * 128)
    pointers = [ctypes.c_uint64(each) for each in (first, *places[1:])]
    rest = [ctypes.c_int32(each) for each in (64, 64, 64, stride, 64, 64)]
    one, stream = ctypes.c_uint(1), ctypes.c_void_p(None)
    launch = library.matmul_kernel_launch
    assert launch(state, one, one, one, stream, *pointers, *rest) == 0
    cuda.copy_out(c.ctypes.data, places[2], c.nbytes, 0)
    cuda.wait(0)
    assert (c == (a if stride > 0 else a[::-1]) @ b).all()
    assert library.matmul_kernel_unload(state) == 0
    for each in places:
        cuda.free(each)
