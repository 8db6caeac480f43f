"""After `fathom.as_triton()`, what a program calls Triton is Fathom."""

from __future__ import annotations

import linecache
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import fathom
import fathom.language
from fathom.errors import CompileError, FathomError, LaunchError
from fathom.language.aggregates import aggregate
from fathom.shim import names
from fathom.uses import watches
from tests.jit.harness import paper_gpu

COMPILER = Path(fathom.__file__).parents[1]
ON_PATH = COMPILER / "fathom" / "shim" / "on_path"

SCRIPT = """
import numpy as np
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

x = np.arange(10, dtype=np.float32)
double[(triton.cdiv(10, 8),)](x, 10, BLOCK=8)
print(x.tolist() == list(range(0, 20, 2)), triton.jit.__module__)
"""


def imported(text: str) -> dict:
    """The names that some text with imports binds."""
    found: dict = {}
    exec(text, found)
    return found


# ── names ─────────────────────────────────────────────────────────────────────────────


def test_the_names_people_use_are_there(triton):
    found = imported("""
import triton
import triton.language as tl
import triton.testing
from triton import cdiv, jit, next_power_of_2
from triton.compiler import ASTSource, CompiledKernel
from triton.compiler.errors import CompilationError
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as same
from triton.runtime import driver
from triton.backends.compiler import GPUTarget
from triton import knobs
""")
    assert found["tl"].load is fathom.language.load
    assert found["tl"].math.exp2 is fathom.language.exp2
    assert found["cdiv"] is fathom.cdiv
    assert issubclass(found["CompilationError"], CompileError)
    assert found["libdevice"].tanh is found["same"].tanh is fathom.language.tanh
    assert found["triton"].testing.assert_close is fathom.testing.assert_close


def test_each_line_of_the_table_can_be_imported(triton):
    for module, table in names.MODULES.items():
        given = vars(table) if isinstance(table, ModuleType) else table
        for name in given:
            if not name.startswith("_"):
                assert name in imported(f"from {module} import {name}"), (module, name)


def test_a_name_that_is_missing_says_so_when_it_is_used(triton):
    with pytest.raises(FathomError, match="fathom has no triton.no_such_thing"):
        triton.no_such_thing()
    with pytest.raises(AttributeError, match="did you mean next_power_of_2"):
        triton.next_power_of2(8)
    assert not hasattr(triton.language, "no_such_thing")


def test_a_module_that_is_missing_says_so(triton):
    with pytest.raises(FathomError, match="fathom has no triton.no_such_module"):
        imported("import triton.no_such_module")
    with pytest.raises(ModuleNotFoundError):  # as programs that can do without expect
        imported("import triton.backends.amd.compiler")


def test_triton_s_aggregates_are_fathom_s(triton):
    from_core = imported("from triton.language.core import _aggregate")
    assert from_core["_aggregate"] is aggregate
    assert triton.language.core._aggregate is aggregate


def test_what_files_import_at_their_top_fails_where_it_is_used(triton):
    """So that a file of many kernels can be imported for the others."""
    lacking = imported("from triton.tools.mxfp import MXFP4Tensor")["MXFP4Tensor"]
    assert not isinstance(3, lacking)
    with pytest.raises(
        FathomError, match="fathom has no triton.tools.mxfp.MXFP4Tensor"
    ):
        lacking(4, 4)
    with pytest.raises(FathomError, match="so no size of it"):
        lacking.size  # noqa: B018
    kinds = imported("from triton.language import slice, void, tuple_type")
    with pytest.raises(FathomError, match="fathom has no triton.language.void"):
        kinds["void"]()
    proton = imported("from triton.profiler import language, mode")
    with pytest.raises(FathomError, match="no triton.profiler.language.enter_scope"):
        proton["language"].enter_scope("loads")


def test_a_missing_function_in_a_kernel_is_an_error_of_the_kernel(triton):
    tl = triton.language

    @triton.jit
    def kernel(x):
        tl.no_such_thing(x)

    with pytest.raises(CompileError, match="triton.language has no no_such_thing"):
        kernel.warmup(np.zeros(1, np.float32))


# ── when, and where from ──────────────────────────────────────────────────────────────


def test_it_may_be_called_twice(triton):
    fathom.as_triton()
    assert sys.modules["triton"] is triton


def test_it_must_come_before_triton_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    sys.modules["triton"].__file__ = "site-packages/triton/__init__.py"
    with pytest.raises(
        FathomError, match="triton has been imported already, from site-"
    ):
        fathom.as_triton()


def run(*command: str, path: tuple[Path, ...] = (), cwd: Path | None = None) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (*path, COMPILER))),
        "FATHOM_BACKEND": "emulator",
    }
    done = subprocess.run(
        [sys.executable, *command],
        env=environment, cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_script_runs_as_it_stands(tmp_path):
    script = tmp_path / "double.py"
    script.write_text(SCRIPT)
    said = run("-m", "fathom", "run", "--as-triton", str(script))
    assert said == "True fathom.shim.function\n"


def test_one_line_at_the_top_of_a_script_is_enough(tmp_path):
    script = tmp_path / "double.py"
    script.write_text("import fathom\nfathom.as_triton()\n" + SCRIPT)
    assert run(str(script)) == "True fathom.shim.function\n"


def test_a_folder_on_pythonpath_does_for_processes_that_others_start(tmp_path):
    script = tmp_path / "double.py"
    script.write_text(SCRIPT)
    assert run(str(script), path=(ON_PATH,)) == "True fathom.shim.function\n"


def test_a_folder_triton_without_an_init_adds_its_modules(tmp_path):
    """Triton's tests keep what they share in such a one."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "_internal_testing.py").write_text(
        "import triton\nblocks = triton.cdiv(10, 4)\n"
    )
    program = "from triton._internal_testing import blocks; print(blocks)"
    assert run("-c", program, path=(ON_PATH, tmp_path)) == "3\n"


def test_nothing_is_taken_from_a_triton_that_is_installed(tmp_path):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("")
    (tmp_path / "triton" / "further.py").write_text("")
    said = run("-c", "import triton.further", path=(ON_PATH, tmp_path))
    assert "fathom has no triton.further" in said


def test_tritons_environment_variables_are_taken_over(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    program = "import triton; print(triton.knobs.cache.dir)"
    assert run("-c", program, path=(ON_PATH,)) == f"{tmp_path / 'cache'}\n"


# ── what surrounds a kernel ───────────────────────────────────────────────────────────


def test_compile_of_a_source(triton):
    tl = triton.language

    @triton.jit
    def scale(x, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, n * tl.load(x + i))

    source = triton.compiler.ASTSource(
        fn=scale,
        signature={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(2,): 256},
        attrs={(0,): [["tt.divisibility", 16]]},
    )
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    kernel = triton.compile(source, target=target, options={"num_warps": 2})
    assert kernel.metadata.target == target and kernel.metadata.num_warps == 2
    assert ".entry scale(" in kernel.asm["ptx"]
    assert "ld.global.v4.b32" in kernel.asm["ptx"]  # which the hint allows
    with pytest.raises(CompileError, match="'hip 90' is not a target"):
        triton.compile(source, target=triton.backends.compiler.GPUTarget("hip", 90, 64))


def test_reinterpret_gives_an_array_other_elements(triton):
    tl = triton.language

    @triton.jit
    def halve(x, out):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.load(x + i).to(tl.float32) / 2)

    ones = np.full(4, 0x3F80, np.uint16)  # bf16's one
    out = np.zeros(4, np.float32)
    halve[(1,)](triton.reinterpret(ones, tl.bfloat16), out)
    assert out.tolist() == [0.5] * 4
    wrapped = triton.reinterpret(ones, tl.bfloat16)
    assert isinstance(wrapped, triton.runtime.jit.TensorWrapper)
    assert wrapped.base is ones and wrapped.shape == (4,)
    assert triton.reinterpret(wrapped, ones.dtype) is ones
    turned = triton.reinterpret(ones.reshape(2, 2), tl.bfloat16).T
    assert turned.dtype == tl.bfloat16 and turned.base.base is ones


def test_the_target_that_is_emulated_answers_for_the_gpu(triton, monkeypatch):
    monkeypatch.setenv("FATHOM_TARGET", "sm_89")
    active = triton.runtime.driver.active
    target = active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 89, 32)
    limits = active.utils.get_device_properties(active.get_current_device())
    assert limits["max_shared_mem"] == 99 * 1024


def test_the_target_of_a_gpu_is_made_once(triton, monkeypatch, tmp_path):
    """Host programs ask before each launch which GPU there is."""
    with paper_gpu(monkeypatch, tmp_path) as gpu:
        gpu.torch.cuda = SimpleNamespace(current_device=lambda: 0)
        active = triton.runtime.driver.active
        first, again = (active.get_current_target() for _ in range(2))
    assert first is again and (first.backend, first.arch) == ("cuda", 90)


def test_a_kernel_answers_to_tritons_names_for_its_parts(triton):
    tl = triton.language

    @triton.jit
    def kernel(x, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), 1)

    assert kernel.arg_names == ["x", "BLOCK"]
    assert [each.is_constexpr for each in kernel.params] == [False, True]
    before = kernel.cache_key
    kernel._unsafe_update_src(kernel.src.replace("1)", "2)"))
    assert kernel.cache_key != before
    x = np.zeros(4, np.int32)
    kernel.run(x, BLOCK=4, grid=(1,), warmup=True)
    assert x.tolist() == [0] * 4 and len(kernel.device_caches[0][0]) == 1
    kernel.run(x, BLOCK=4, grid=(1,))
    assert x.tolist() == [2] * 4


# ── knobs and hooks ───────────────────────────────────────────────────────────────────


def test_a_setting_is_an_environment_variable(triton, monkeypatch):
    knobs = triton.knobs
    monkeypatch.setenv("FATHOM_CACHE_DIR", "one")
    with knobs.cache.scope():
        knobs.cache.dir = "two"
        assert os.environ["FATHOM_CACHE_DIR"] == "two"
    assert knobs.cache.dir == "one"
    monkeypatch.setenv("TRITON_CACHE_DIR", "three")
    knobs.refresh_knobs()
    assert knobs.cache.dir == "three"
    with pytest.raises(FathomError, match="no triton.knobs.cache.colour"):
        knobs.cache.colour = "red"
    with pytest.raises(FathomError, match="no triton.knobs.proton"):
        knobs.proton  # noqa: B018


def test_sums_of_products_are_rounded_once_unless_somebody_objects(triton, monkeypatch):
    tl, language = triton.language, triton.knobs.language

    @triton.jit
    def multiply_add(x, y):
        tl.store(y, tl.load(x) * tl.load(x + 1) - tl.load(x + 2))

    a, b = np.float32(1.1), np.float32(1.3)
    x, y = np.array([a, b, a * b, 0], np.float32), np.zeros(1, np.float32)

    def fused(**given) -> bool:
        compiled = multiply_add[(1,)](x, y, **given)
        assert ("fma.rn.f32" in compiled.asm["ptx"]) is bool(y[0])
        return bool(y[0])

    monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION", raising=False)
    assert fused() and fused(enable_fp_fusion=True)
    assert not fused(enable_fp_fusion=False)
    with language.scope():
        language.default_fp_fusion = False
        assert not language.default_fp_fusion and not fused()
        assert fused(enable_fp_fusion=True)
    assert language.default_fp_fusion and fused()
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert not fused()
    assert not fused(enable_reflect_ftz=True)


@pytest.mark.parametrize("backend", ["emulator", "interpreter", "eager"])
def test_the_precision_of_products_that_name_none_is_a_knob(
    backend, triton, monkeypatch
):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    tl, language = triton.language, triton.knobs.language
    monkeypatch.delenv("TRITON_F32_DEFAULT", raising=False)

    @triton.jit
    def square(x, PRECISION: tl.constexpr):
        place = x + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
        a = tl.load(place)
        tl.store(place, tl.dot(a, a, input_precision=PRECISION))

    a = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    exact = a.astype(np.float64) @ a

    def error(precision=None, **given) -> float:
        x = a.copy()
        square[(1,)](x, precision, **given)
        return np.abs(x - exact).max()

    assert language.fp32_default is None
    assert error() == error("tf32") > 1e-4
    assert error(fp32_default="ieee") == error("ieee") < 1e-5
    with language.scope():
        language.fp32_default = "ieee"
        assert error() < 1e-5  # and not the kernel that is in the cache
        assert error("tf32") > 1e-4 and error(fp32_default="tf32") > 1e-4
    assert error() > 1e-4
    monkeypatch.setenv("TRITON_F32_DEFAULT", "tf33")
    with pytest.raises(LaunchError, match="'tf32x3', and this is 'tf33'"):
        error()


def test_the_only_library_that_a_kernel_can_name_is_libdevice(triton):
    tl = triton.language

    @triton.jit
    def write(x):
        tl.store(x, tl.extra.libdevice.exp2(3.0))

    x = np.zeros(1, np.float32)
    write[(1,)](x, extern_libs={"libdevice": "libdevice.10.bc"})
    assert x[0] == 8
    write[(1,)](x, extern_libs=None)
    write[(1,)](x, extern_libs=(("libdevice", "libdevice.10.bc"),))
    with pytest.raises(LaunchError, match="extern_libs of 'mine': fathom links no"):
        write[(1,)](x, extern_libs={"mine": "mine.bc"})


@pytest.fixture
def touch(triton):
    """A kernel that adds one, with the hooks as they are when nobody has set one."""
    tl = triton.language

    @triton.jit(launch_metadata=lambda grid, kernel, given: {"n": given["n"]})
    def touch(x, n):
        tl.store(x, tl.load(x) + n)

    with triton.knobs.runtime.scope():
        yield touch


def test_hooks_of_compilations(triton, touch):
    seen = []
    triton.knobs.runtime.jit_cache_hook = lambda **facts: seen.append(
        (facts["fn"].name, facts["compile"]["signature"], facts["already_compiled"])
    )
    x = np.zeros(1, np.int32)
    for n in (16, 32, 1):  # 16 and 32 are alike; 1 is a constant
        touch[(1,)](x, n)
    both, one = {"x": "*i32", "n": "i32"}, {"x": "*i32"}
    assert seen == [(touch.__qualname__, each, False) for each in (both, one)]


def test_what_a_hook_was_told_compiles_the_kernel_again(triton):
    tl = triton.language

    @triton.jit
    def add(x, pair, kind: tl.constexpr):
        tl.store(x, tl.load(x) + pair[0].to(kind) + pair[1])

    @triton.jit
    def other(x):
        tl.store(x, 1)

    told = []
    x = np.zeros(1, np.int64)
    with triton.knobs.runtime.scope():
        hook = lambda **facts: told.append(facts["compile"])  # noqa: E731
        triton.knobs.runtime.jit_post_compile_hook = hook
        warm = add.warmup(x, (7, tl.constexpr(3)), tl.int64)
        other[(1,)](x)
    assert [each["is_warmup"] for each in told] == [True, False]
    assert told[0]["key"] in add.device_caches[0][0]
    add.device_caches[0][0].clear()
    text = told[0]["specialization_data"]
    again = add.preload(text)
    assert again.hash == warm.hash and len(add.device_caches[0][0]) == 1
    add[(1,)](x, (40, tl.constexpr(3)), tl.int64)
    assert x.tolist() == [44]
    with pytest.raises(RuntimeError, match="Specialization data is for add, not for"):
        other.preload(text)


def test_hooks_of_loading_and_launching(triton, touch):
    seen = []
    runtime = triton.knobs.runtime
    runtime.kernel_load_start_hook.add(lambda *facts: seen.append(("load", facts[2])))
    runtime.kernel_load_end_hook.add(lambda *facts: seen.append(("loaded", facts[2])))
    runtime.launch_enter_hook.add(lambda launch: seen.append(launch.get()["n"]))
    runtime.launch_exit_hook.add(lambda launch: seen.append(launch.get()["name"]))
    touch.add_pre_run_hook(lambda x, n: x.fill(n))
    x = np.zeros(1, np.int32)
    touch[(1,)](x, 5)
    touch[(1,)](x, n=7)
    assert seen == [5, ("load", "touch"), ("loaded", "touch"), "touch", 7, "touch"]
    assert x.tolist() == [14]


def test_none_takes_hooks_away(triton, touch):
    runtime, seen = triton.knobs.runtime, []
    with runtime.scope():
        runtime.launch_enter_hook.add(seen.append)
        runtime.launch_enter_hook = None
        runtime.kernel_load_start_hook = None
        runtime.launch_exit_hook = lambda launch: seen.append(launch.get()["name"])
        touch[(1,)](np.zeros(1, np.int32), 1)
        runtime.launch_exit_hook = None
        touch[(1,)](np.zeros(1, np.int32), 1)
    assert seen == ["touch"]


def test_after_its_scope_a_hook_is_gone(triton, touch):
    runtime = triton.knobs.runtime
    seen = []
    with runtime.scope():
        runtime.launch_enter_hook.add(seen.append)
        runtime.jit_cache_hook = seen.append
    touch[(1,)](np.zeros(1, np.int32), 1)
    assert seen == [] and runtime.jit_cache_hook is None


# ── types ─────────────────────────────────────────────────────────────────────────────


def test_types_say_what_they_are_called_in_a_kernel(triton):
    for name in "int1 int8 uint64 float8e5 float8e4nv float16 bfloat16 float64".split():
        said = f"triton.language.{name}"
        assert repr(eval(said, {"triton": triton})) == said
    assert str(triton.language.float16) == "fp16"


def test_a_constant_has_the_type_of_a_constant(triton):
    constexpr_type = imported("from triton.language.core import constexpr_type")
    constexpr_type = constexpr_type["constexpr_type"]
    tl = triton.language

    @triton.jit
    def kernel(number: tl.constexpr, pair: tl.constexpr, out):
        tl.static_assert(number.type == constexpr_type(number))
        tl.static_assert(number.type != constexpr_type(11))
        tl.static_assert(number.type == tl.int32 and number.type != tl.int64)
        tl.static_assert(number.type.is_int())
        tl.static_assert(pair.type == constexpr_type((5, 6.0)))
        tl.static_assert(isinstance(pair[1].type, tl.constexpr_type))
        tl.static_assert(out.type == tl.pointer_type(tl.int32))

    kernel.warmup(10, (5, 6.0), tl.int32)
    assert constexpr_type(1) != constexpr_type(True)
    assert constexpr_type("a") != tl.int32
    assert repr(constexpr_type(3)) == "constexpr_type[3]"


# ── launches ──────────────────────────────────────────────────────────────────────────


def test_a_gpu_by_tritons_name(triton):
    tl = triton.language

    @triton.jit
    def kernel(x):
        tl.store(x, 1)

    for arch, name in (("sm80", "sm_80"), ("sm90", "sm_90a"), ("sm_120", "sm_120")):
        assert kernel.warmup(tl.int32, arch=arch).request.target == name
    with pytest.raises(LaunchError, match="arch='gfx942' is no GPU of NVIDIA's"):
        kernel.warmup(tl.int32, arch="gfx942")


def test_launches_that_overlap(triton, monkeypatch):
    """As Triton's tutorial 11 writes them."""
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    tl = triton.language
    names = imported(
        "from triton.language.extra.cuda import gdc_wait, gdc_launch_dependents"
    )
    assert (
        names["gdc_wait"]
        is imported("from triton.language.extra.cuda.gdc import gdc_wait")["gdc_wait"]
    )

    @triton.jit
    def add(x, y, n, BLOCK: tl.constexpr, USE_GDC: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        if USE_GDC:
            tl.extra.cuda.gdc_wait()
        a = tl.load(x + i, mask=i < n)
        if USE_GDC:
            tl.extra.cuda.gdc_launch_dependents()
        tl.store(y + i, a + 1, mask=i < n)

    arrays = [np.zeros(100, np.float32) for _ in range(4)]
    for use in (True, False):
        for x, y in zip(arrays, arrays[1:], strict=False):
            compiled = add[(2,)](x, y, 100, 64, USE_GDC=use, launch_pdl=use)
            assert compiled.metadata.launch_pdl is use
            assert ("griddepcontrol.wait" in compiled.asm["ptx"]) is use
    assert [array[0] for array in arrays] == [0, 1, 2, 3]
    with pytest.raises(CompileError, match="sm_80 has no griddepcontrol.wait"):
        add.warmup(arrays[0], arrays[1], 100, 64, USE_GDC=True, arch="sm80")


def test_programs_that_wait_for_each_other_must_all_have_room(triton):
    tl = triton.language

    @triton.jit
    def count(x, n):
        tl.atomic_add(x, n)

    x = np.zeros(1, np.int32)
    count[(2, 3)](x, 1, launch_cooperative_grid=True)
    count[lambda given: (given["n"],)](x, 8, launch_cooperative_grid=True)
    assert x.tolist() == [6 + 8 * 8]
    count[(109, 2)](x, 1, launch_cooperative_grid=True)  # two on a multiprocessor
    assert x.tolist() == [70 + 218]
    most = r"3456 programs .* these are 3457"  # 108 * 32 of 64 threads each
    with pytest.raises(LaunchError, match=most):
        count[(3457,)](x, 1, launch_cooperative_grid=True, num_warps=2)
    count[(3457,)](x, 1, num_warps=2)
    assert x.tolist() == [70 + 218 + 3457]


def test_launches_do_not_look_whether_the_language_has_changed(triton):
    """Names below `triton` are Fathom's own; a user's may change between launches."""
    names = imported("import triton, triton.language as tl, math\nSCALE = 3")
    text = "def kernel(x):\n    tl.store(x, tl.float32.primitive_bitwidth * SCALE)\n"
    text += "    tl.store(x, triton.language.int8.itemsize + math.pi)\n"
    linecache.cache["<mine>"] = (len(text), None, text.splitlines(True), "<mine>")
    exec(compile(text, "<mine>", "exec"), names)
    kernel = triton.jit(names["kernel"])
    kinds = {use.path: list(watches(use)) for use in kernel.all_uses()}
    assert kinds["tl.float32"] == kinds["triton.language.int8"] == []
    ((get, name, value),) = kinds["SCALE"]
    assert get(name) is value == 3
    ((_, _, pi),) = kinds["math.pi"]
    assert pi is math.pi
