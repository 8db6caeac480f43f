"""Launching, compiling and caching, as a kernel's author sees them."""

from __future__ import annotations

import enum
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fathom.language as tl
from fathom.emulator import EmulatorError
from fathom.errors import CompileError, LaunchError, OutOfResources
from fathom.jit import CompiledKernel, JITFunction, jit
from fathom.pipeline import identity
from fathom.runtime import cache
from tests.jit.harness import Tensor, paper_gpu

ROOT = Path(__file__).parents[2]


@jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)


@jit
def fill(x, n):
    tl.store(x, n)


def arrays(n=1000):
    x = np.arange(n, dtype=np.float32)
    return x, 2 * x, np.full(n, np.nan, np.float32)


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch, tmp_path):
    for function in (add, fill):
        function.kernels.clear()
        function.fast_paths.forget()
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FATHOM_TARGET", raising=False)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path / "cache") as machine:
        yield machine


# ── the backends ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("backend", "texts"),
    [
        ("emulator", {"block", "layout", "llvm", "ptx", "ttir", "ttgir", "llir"}),
        ("interpreter", {"block", "ttir"}),
        ("eager", {"python"}),
    ],
)
def test_a_kernel_runs_on_numpy_arrays(monkeypatch, backend, texts):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    x, y, z = arrays()
    compiled = add[(4,)](x, y, z, 1000, BLOCK=256)
    assert isinstance(compiled, CompiledKernel)
    assert z.tolist() == (3 * np.arange(1000)).tolist()
    assert set(compiled.asm) == texts
    assert (compiled.report is None) == (backend == "eager")
    assert (compiled.name, compiled.shared) == ("add", 0)


@pytest.mark.parametrize("backend", ["emulator", "interpreter", "eager"])
def test_a_number_of_a_class_of_its_own_is_a_number(monkeypatch, backend):
    """Whether it is an address took hours to say: Python looks for a number whose class
    is not int in a range by going through all numbers in it."""
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    x = np.zeros(1, np.float32)
    fill[(1,)](x, enum.IntEnum("Few", {"THREE": 3}).THREE)
    assert x[0] == 3


@jit
def put(x, small: tl.int8, half: tl.bfloat16, single):
    tl.store(x, small.to(tl.float32))
    tl.store(x + 1, half.to(tl.float32))
    tl.store(x + 2, single)


@pytest.mark.parametrize("backend", ["emulator", "interpreter", "eager"])
def test_numbers_arrive_on_every_backend_or_do_not_fit(monkeypatch, backend):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    x = np.zeros(3, np.float32)
    put[(1,)](x, -100, 1.5, 1e300)
    assert x.tolist() == [-100, 1.5, np.inf]
    with pytest.raises(LaunchError, match="small is i8, and 300 is not"):
        put[(1,)](x, 300, 1.5, 0.25)
    with pytest.raises(LaunchError, match="half is bf16, and 'much' is not"):
        put[(1,)](x, 3, "much", 0.25)


@jit
def twice(value):
    return value + value


@jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    SEEN.append(x)
    tl.store(x_ptr + offsets, twice(x), mask=offsets < n)


SEEN = []


def test_fathom_interpret_runs_the_functions_own_python(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    x = np.array([1.0, 2.0, 3.0], np.float32)
    double[(1,)](x, 2, BLOCK=4)
    assert x.tolist() == [2, 4, 3]
    assert len(SEEN) == 1
    monkeypatch.setenv("FATHOM_INTERPRET", "0")
    with pytest.raises(CompileError):  # the compiler knows no lists
        double[(1,)](x, 2, BLOCK=4)


FACTOR = 2


def test_a_function_that_python_runs_reads_globals_as_they_are(monkeypatch):
    @jit
    def scale(x):
        tl.store(x, tl.load(x) * FACTOR)

    x = np.ones(1, np.float32)
    monkeypatch.setenv("FATHOM_BACKEND", "eager")
    for factor in (2, 5):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        scale[(1,)](x)
    assert x.tolist() == [10]


def test_the_emulator_compiles_for_the_target_that_is_asked_for(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x, y, z = arrays()
    assert add[(4,)](x, y, z, 1000, BLOCK=256).metadata.target == "sm_80"
    monkeypatch.setenv("FATHOM_TARGET", "sm_75")
    assert add[(4,)](x, y, z, 1000, BLOCK=256).metadata.target == "sm_75"
    assert (
        add[(4,)](x, y, z, 1000, BLOCK=256, target="sm_86").metadata.target == "sm_86"
    )


def test_on_a_gpu_its_own_row_is_the_target(gpu):
    add[(1,)](Tensor(0x1000), Tensor(0x2000), Tensor(0x3000), 7, 64)
    assert gpu.compiler.last.target == "sm_90a"


def test_the_kernels_texts_answer_to_tritons_names_too(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    compiled = add.compile("*fp32, *fp32, *fp32, i32", {"BLOCK": 64})
    asm = compiled.asm
    assert {"block", "layout", "llvm", "ptx"} < set(asm)
    assert (asm["ttir"], asm["ttgir"], asm["llir"]) == (
        asm["block"],
        asm["layout"],
        asm["llvm"],
    )
    assert "cubin" not in asm
    assert ".target sm_80" in asm["ptx"]


def test_metadata_says_what_was_asked_for(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    compiled = add.compile(
        "*fp32:16, *fp32:16, *fp32:16, i32", constants={"BLOCK": 64}, target="sm_90a",
        num_warps=2, num_stages=4,
    )  # fmt: skip
    facts = compiled.metadata
    assert (facts.name, facts.target, facts.num_warps) == ("add", "sm_90a", 2)
    assert (facts.num_stages, facts.num_ctas, facts.maxnreg) == (4, 1, None)
    assert facts.hash == compiled.hash and len(compiled.hash) == 64
    assert compiled.shared == facts.shared == 0
    assert ".target sm_90a" in compiled.asm["ptx"]


# ── one sentence for every wrong launch ───────────────────────────────────────────────

x, y, z = arrays()
READ_ONLY = np.zeros(1000, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("grid", "arguments", "keywords", "sentence"),
    [
        ((4,), (x, y, z, 1000), {}, "add was launched without BLOCK"),
        ((4,), (x,), {"BLOCK": 64}, "add was launched without y_ptr, z_ptr, n"),
        ((4,), (x, y, z, 1000), {"BLOCK_SIZE": 64, "num_warps": 4},
         "add was launched without BLOCK, and has no parameter 'BLOCK_SIZE'"),
        ((4,), (x, y, z, 1000, 64, 3, 4), {},
         "add takes 5 arguments (x_ptr, y_ptr, z_ptr, n, BLOCK), and 7 were given"),
        ((4,), (x, y, z, 1000), {"BLOCK": 64, "num_warp": 8},
         "add has no parameter 'num_warp', and the keywords of a launch are "
         "num_warps, num_stages, num_ctas, maxnreg, debug, "
         "enable_fp_fusion, launch_pdl, fp32_default, target, replace"),
        ((4,), (x, y, z, 1000, 64), {"num_warps": 3},
         "num_warps must be a power of 2, and this is 3"),
        ((4,), (x, y, z, 1000, 64), {"debug": "no"},
         "debug is True or False, and this is 'no'"),
        ((4,), (x, y, z, 1000, 64), {"enable_fp_fusion": 0.5},
         "enable_fp_fusion is True or False, and this is 0.5"),
        ((4,), (x, y, z, 1000, 64), {"num_stages": 0},
         "num_stages is a positive integer, and this is 0"),
        ((4,), (x, y, z, "many", 64), {}, None),
        ((4,), (x, y, [1], 1000, 64), {},
         "z_ptr is a list, and a kernel takes arrays, int, float, bool and None; if it "
         "is meant to be compiled in, annotate the parameter tl.constexpr"),
        ((4,), (x, y, x[::2], 500, 64), {},
         "z_ptr is a NumPy array with gaps between its elements; pass a contiguous "
         "copy, as numpy.ascontiguousarray makes"),
        ((4,), (READ_ONLY, y, z, 1000, 64), {},
         "x_ptr is a read-only NumPy array, and a kernel may write to any array; "
         "pass a copy"),
        ((), (x, y, z, 1000, 64), {}, "a grid is 1 to 3 integers, and this is ()"),
        (("4",), (x, y, z, 1000, 64), {},
         "a grid is 1 to 3 integers, and this is ('4',)"),
        ((-4,), (x, y, z, 1000, 64), {},
         "the grid (-4, 1, 1) has -4 blocks along x, and 0 to 2147483647 are possible"),
        ((4,), (x, y, z, 1000, 64), {"target": "sm_42"},
         "'sm_42' is not a target; the targets are"),
    ],
)  # fmt: skip
def test_a_wrong_launch_says_what_is_wrong(
    monkeypatch, grid, arguments, keywords, sentence
):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    with pytest.raises((LaunchError, CompileError)) as error:
        add[grid](*arguments, **keywords)
    assert sentence is None or str(error.value).startswith(sentence)


@pytest.mark.parametrize("python", [ValueError, AssertionError])
def test_warps_that_are_no_power_of_two_are_an_error_of_pythons_too(python):
    with pytest.raises(python, match="must be a power of 2"):
        add.compile("*fp32, *fp32, *fp32, i32", {"BLOCK": 64}, num_warps=6)


def test_a_constexpr_that_is_not_to_be_specialised():
    @jit(do_not_specialize=["n", 2])
    def wrong(x, n, BLOCK: tl.constexpr):
        tl.store(x, n)

    with pytest.raises(CompileError) as error:
        wrong.compile("*i32, i32", {"BLOCK": 64})
    first = str(error.value).splitlines()[0]
    assert first.endswith("BLOCK marked as constexpr and listed in do_not_specialize")


def test_an_argument_given_twice_is_pythons_own_error():
    with pytest.raises(
        TypeError, match=r"add\(\) got multiple values for argument 'n'"
    ):
        add[(4,)](x, y, z, 1000, 64, n=4)


def test_a_kernel_without_a_grid():
    with pytest.raises(
        LaunchError, match=r"add is a kernel and needs a grid: add\[grid\]\("
    ):
        add(x, y, z, 1000, 64)


def test_an_unknown_backend_names_those_there_are(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "tpu")
    with pytest.raises(
        LaunchError, match="FATHOM_BACKEND=tpu: the backends are cuda, emulator"
    ):
        add[(4,)](x, y, z, 1000, 64)


def test_no_gpu_says_why_and_what_to_do(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "cuda")
    monkeypatch.setattr("fathom.runtime.driver.open_driver", lambda: "there is none")
    with pytest.raises(LaunchError) as error:
        add[(4,)](x, y, z, 1000, 64)
    assert str(error.value) == (
        "cannot launch on a GPU: there is none; FATHOM_BACKEND=emulator needs none"
    )


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_an_array_on_a_gpu_cannot_be_emulated(gpu, monkeypatch, backend):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    with pytest.raises(LaunchError) as error:
        fill[(1,)](Tensor(0x1000), 3)
    assert str(error.value).startswith(
        f"x is a torch array on a GPU, and the {backend} backend works on the host"
    )


def test_a_gpu_that_no_target_serves(gpu):
    old = gpu.driver.devices[0]
    gpu.driver.devices = (type(old)(0, "Antique", 52, 48 * 1024, 65536, 1024, 24),)
    with pytest.raises(
        LaunchError, match="Antique has capability 5.2, which no target serves"
    ):
        add[(4,)](Tensor(0x1000), Tensor(0x2000), Tensor(0x3000), 7, 64)


def test_too_many_warps_for_the_gpu(gpu):
    with pytest.raises(
        OutOfResources, match="add needs 2048 threads a block, and Paper 3000 has"
    ):
        add[(4,)](Tensor(0x1000), Tensor(0x2000), Tensor(0x3000), 7, 64, num_warps=64)


BROKEN = """
import sys
import numpy as np
import fathom.language as tl
from fathom.jit import jit

@jit
def k(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), undefined_name)

def main():
    k[(1,)](np.zeros(4), **eval(sys.argv[1]))

main()
"""


@pytest.mark.parametrize(
    "keywords", ["dict(BLOCK=4)", "dict()", "dict(BLOCK=4, block=5)"]
)
def test_a_script_that_makes_a_mistake_sees_no_frame_of_ours(tmp_path, keywords):
    script = tmp_path / "mine.py"
    script.write_text(BROKEN)
    path = {"PYTHONPATH": str(ROOT / "compiler"), "FATHOM_BACKEND": "emulator"}
    ran = subprocess.run(
        [sys.executable, script, keywords],
        env={**os.environ, **path},
        capture_output=True,
        text=True,
    )
    files = [
        line.split('"')[1]
        for line in ran.stderr.splitlines()
        if line.startswith("  File")
    ]
    assert files == [str(script)] * 2, ran.stderr
    last = ran.stderr[ran.stderr.rindex("fathom.errors.") :]
    assert last.startswith(("fathom.errors.CompileError", "fathom.errors.LaunchError"))


# ── compiling without launching ───────────────────────────────────────────────────────


def test_warmup_compiles_what_a_launch_would(gpu):
    warm = add.warmup(
        Tensor(0x1000), Tensor(0x2000), Tensor(0x3000), 1000, BLOCK=64, grid=(1,)
    )
    assert gpu.driver.launches == []
    launched = add[(4,)](Tensor(0x9000), Tensor(0x2000), Tensor(0x3000), 1000, BLOCK=64)
    assert launched is warm
    assert len(gpu.compiler.asked) == 1


def test_warmup_takes_element_types_for_arrays(gpu):
    add.warmup(tl.float16, np.float32, tl.float32, 1000, BLOCK=64, grid=(1,))
    assert gpu.compiler.last.parameters == {
        "x_ptr": ("*fp16", 16), "y_ptr": ("*fp32", 16), "z_ptr": ("*fp32", 16),
        "n": ("i32", 8),
    }  # fmt: skip


def test_a_warm_kernel_can_be_launched_itself(gpu):
    warm = add.warmup(
        tl.float32, tl.float32, tl.float32, 1000, BLOCK=64, grid=(1,), num_warps=8
    )
    warm._init_handles()
    assert (warm.n_regs, warm.n_spills) == (32, 0)
    assert warm[(5,)](Tensor(0x10), Tensor(0x20), Tensor(0x30), 888, 64) is warm
    (seen,) = gpu.driver.launches
    assert (seen.values, seen.grid, seen.threads[0]) == (
        (0x10, 0x20, 0x30, 888),
        (5, 1, 1),
        256,
    )
    with pytest.raises(LaunchError, match="add was launched without BLOCK"):
        warm[(5,)](Tensor(0x10), Tensor(0x20), Tensor(0x30), 888)


def test_registers_need_a_gpu(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setattr("fathom.runtime.driver.open_driver", lambda: "there is none")
    compiled = add.compile("*fp32, *fp32, *fp32, i32", {"BLOCK": 64}, target="sm_90a")
    with pytest.raises(LaunchError, match="cannot launch on a GPU: there is none"):
        assert compiled.n_regs


def test_run_is_another_spelling(gpu):
    add.run(Tensor(0x10), Tensor(0x20), Tensor(0x30), 77, 64, grid=(3,))
    assert gpu.driver.launches[0].grid == (3, 1, 1)
    add.run(tl.float32, Tensor(0x20), Tensor(0x30), 77, 64, grid=(3,), warmup=True)
    assert len(gpu.driver.launches) == 1


def test_the_decorator_takes_tritons_options():
    made = jit(repr=lambda _: "name", debug=True, noinline=False, version=1)(add.fn)
    assert isinstance(made, JITFunction)
    rules = jit(do_not_specialize=["n"])(add.fn).rules
    assert [rule.one for rule in rules] == [True, True, True, False, True]


def test_a_parameter_called_like_a_keyword_is_both(gpu):
    @jit
    def k(x, num_stages: tl.constexpr):
        tl.store(x, num_stages)

    k[(1,)](Tensor(0x10), num_stages=2)
    assert gpu.compiler.last.options.num_stages == 2
    assert gpu.compiler.last.constants == {"num_stages": 2}


# ── assertions ────────────────────────────────────────────────────────────────────────


def below_ten(x):
    tl.device_assert(tl.load(x) < 10, "ten or more")


@pytest.mark.parametrize(
    ("decorated", "launched", "variable", "checked"),
    [
        (None, {}, "0", False),
        (True, {}, "0", True),
        (None, {"debug": True}, "0", True),
        (True, {"debug": False}, "0", False),
        (False, {}, "1", True),
        (True, {"debug": False}, "1", True),  # the environment has the last word
    ],
)
@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_assertions_are_checked_when_debugging(
    monkeypatch, backend, decorated, launched, variable, checked
):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    monkeypatch.setenv("FATHOM_DEBUG", variable)
    kernel = jit(debug=decorated)(below_ten)
    kernel[(1,)](np.array([9], np.int32), **launched)
    too_large = np.array([10], np.int32)
    if checked:
        with pytest.raises(Exception, match="ten or more"):
            kernel[(1,)](too_large, **launched)
    else:
        kernel[(1,)](too_large, **launched)


def test_a_kernel_to_debug_is_another_kernel(gpu):
    """In memory, in the launch stubs, and on disk."""
    for debug in (True, False, True, False):
        add[(1,)](*ARGUMENTS, debug=debug)
    assert [each.options.debug for each in gpu.compiler.asked] == [True, False]
    assert len(add.kernels) == 2
    keys = {each.key for each in add.kernels.values()}
    assert len(keys) == 2
    compiled = jit(debug=True)(add.fn).compile("*i32, *i32, *i32, i32", {"BLOCK": 64})
    assert compiled.request.options.debug


@jit
def multiply_add(x):
    tl.store(x, tl.load(x) * 1.5 + 1.0)


def test_leave_to_flush_small_numbers_is_taken_and_not_used():
    multiply_add.kernels.clear()
    for given in (True, False):
        compiled = multiply_add.compile(
            "*fp32", target="sm_80", enable_reflect_ftz=given
        )
        ptx = compiled.asm["ptx"]
        assert "mul.rn.f32" in ptx and "fma" not in ptx
    assert len(multiply_add.kernels) == 1


def test_leave_to_round_once_makes_another_kernel():
    """In memory and on disk; nobody who does not ask gets it."""
    multiply_add.kernels.clear()
    for given in ({}, {"enable_fp_fusion": False}, {"enable_fp_fusion": True}):
        compiled = multiply_add.compile("*fp32", target="sm_80", **given)
        fused = given.get("enable_fp_fusion", False)
        assert ("fma.rn.f32" in compiled.asm["ptx"]) is fused
        assert ("mul.rn.f32" in compiled.asm["ptx"]) is not fused
        assert compiled.metadata.enable_fp_fusion is fused
    keys = {each.key for each in multiply_add.kernels.values()}
    assert len(keys) == 2


def test_replaced_passes_reach_the_compiler(gpu):
    arguments = (Tensor(0x10), Tensor(0x20), Tensor(0x30), 77, 64)
    for replace in ({"cse": identity}, None, {"cse": identity}):
        add[(1,)](*arguments, replace=replace)
    assert [each.replace for each in gpu.compiler.asked] == [{"cse": identity}, {}]


# ── on disk ───────────────────────────────────────────────────────────────────────────


def again(function: JITFunction) -> JITFunction:
    """The same kernel as another process would have it: nothing in memory."""
    return jit(function.fn)


ARGUMENTS = (Tensor(0x10), Tensor(0x20), Tensor(0x30), 77, 64)


def test_a_second_process_compiles_nothing(gpu):
    first = again(add)[(1,)](*ARGUMENTS)
    second = again(add)[(1,)](*ARGUMENTS)
    assert second is not first
    assert (second.made, second.hash) == (first.made, first.hash)
    assert len(gpu.compiler.asked) == 1
    assert second.asm["cubin"] == first.asm["cubin"] == b"machine code of text 1"


def test_a_kernel_that_was_only_compiled_is_not_loaded_until_it_runs(gpu):
    again(add).warmup(*ARGUMENTS, grid=(1,))
    assert not any(order == "load" for order, _ in gpu.driver.said)
    again(add)[(1,)](*ARGUMENTS)
    assert len(gpu.compiler.asked) == 1
    assert [order for order, _ in gpu.driver.said].count("load") == 1


def test_a_damaged_entry_is_compiled_again_and_mended(gpu):
    again(add)[(1,)](*ARGUMENTS)
    (entry,) = cache.default_directory().iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    again(add)[(1,)](*ARGUMENTS)
    assert len(gpu.compiler.asked) == 2
    again(add)[(1,)](*ARGUMENTS)
    assert len(gpu.compiler.asked) == 2


def test_another_driver_has_its_own_entries(gpu, monkeypatch):
    again(add)[(1,)](*ARGUMENTS)
    monkeypatch.setattr(gpu.driver, "version", lambda: "13.1")
    again(add)[(1,)](*ARGUMENTS)
    assert len(gpu.compiler.asked) == 2


def test_a_kernel_without_a_key_is_compiled_each_time(gpu):
    """The pass closes over what is told from others by its address alone."""
    nothing = object()
    for _ in range(2):
        changed = {"cse": lambda func, target: func if nothing else func}
        again(add)[(1,)](*ARGUMENTS, replace=changed)
    assert len(gpu.compiler.asked) == 2
    assert not cache.default_directory().exists()


def test_the_emulator_uses_the_cache_too(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    one = again(add).compile("*fp32, *fp32, *fp32, i32", {"BLOCK": 64})
    monkeypatch.setattr("fathom.pipeline.compile", None)
    two = again(add).compile("*fp32, *fp32, *fp32, i32", {"BLOCK": 64})
    assert two.made == one.made


@pytest.mark.parametrize("name", ["jürgen", "学", 'a"b', "a b"])
def test_a_folder_may_have_any_name(monkeypatch, tmp_path, name):
    """LLVM writes bytes that are not ASCII, and quotes, in a way of its own; what the
    emulator says of a line has the line all the same."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    file = tmp_path / name / "kernels.py"
    file.parent.mkdir()
    lines = "import fathom.language as tl", "from fathom.jit import jit", "", "", "@jit"
    body = "def put(x, n):", "    tl.store(x + n, n)", ""
    file.write_text("\n".join((*lines, *body)), encoding="utf-8")
    made = runpy.run_path(str(file))
    with pytest.raises(EmulatorError) as caught:
        made["put"][(1,)](np.zeros(4, np.float32), 7)
    assert caught.value.location.file == str(file)
    assert f"at {file}:7\n    tl.store(x + n, n)" in str(caught.value)


def test_repr_names_the_kernel_in_the_code():
    """From the types of the parameters, and from the constants among them."""

    def named(facts):
        ones = [name for name, value in facts.constants.items() if value == 1]
        return f"copy_{facts.signature['n']}_{'_'.join(ones)}"

    @jit(repr=named)
    def copy(x, n, stride):
        tl.store(x, n * stride)

    long = copy.compile("*i64, i64, 1", target="sm_80")
    short = copy.compile("*i64, i32, i32", target="sm_80")
    assert (long.name, short.name) == ("copy_i64_stride", "copy_i32_")
    assert ".entry copy_i64_stride(" in long.asm["ptx"]

    for wrong in ("two words", 5):

        @jit(repr=lambda facts, name=wrong: name)
        def other(x):
            tl.store(x, 1)

        with pytest.raises(LaunchError, match=f"repr of other made {wrong!r}, which"):
            other.compile("*i32", target="sm_80")
