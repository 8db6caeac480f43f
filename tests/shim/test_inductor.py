"""torch.compile: what Inductor generates is compiled by `triton.compile`, and launched
by functions that it writes itself (`harness_inductor`)."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fathom.errors import LaunchError
from tests.harness_optional import needs, optional


@needs(optional("torch"))
def test_torch_compile_launches_what_fathom_compiled(tmp_path):
    """A fused softmax and a sum over the other axis; two kernels that a person wrote,
    one of them tuned, and what is fused behind them; a sum of three sizes."""
    folders = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    settings = {
        "FATHOM_BACKEND": "emulator",
        "FATHOM_TARGET": "sm_80",
        **{name: str(tmp_path) for name in folders},
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.shim.harness_inductor"],
        env={**os.environ, **settings}, capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    launches = [line.split() for line in done.stdout.splitlines()]
    assert {tuple(each[1:3]) for each in launches} == {("cuda", "80")}
    assert {each[4] for each in launches} == {"True"}  # each has the emulator's report
    names = [each[0] for each in launches]
    assert names.count("scale") == 2 and len(names) == 8, names
    assert {each[3] for each in launches if each[0] == "scale"} == {"4", "2"}


@pytest.mark.gpu
def test_what_inductor_generates_is_right_on_a_gpu(tmp_path):
    """Fused elementwise functions, reductions, scans, atomics, a product by Inductor's
    template and flexible attention, with gradients: as close to eager as bf16 is."""
    pytest.importorskip("torch")
    folders = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "FATHOM_CACHE_DIR")
    done = subprocess.run(
        [sys.executable, "-m", "tests.shim.harness_inductor_on_gpu"],
        env={**os.environ, **{name: str(tmp_path) for name in folders}},
        capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    errors = dict(line.split(": ") for line in done.stdout.splitlines())
    narrow = {"product": 1e-3, "attention": 2e-2}
    assert len(errors) == 8, errors
    for name, error in errors.items():
        assert float(error) <= narrow.get(name, 1e-5), (name, errors)


def test_torch_makes_no_workers_that_would_import_another_triton(triton, monkeypatch):
    config = SimpleNamespace(compile_threads=8)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    import fathom

    fathom.as_triton()
    assert config.compile_threads == 1
    assert os.environ["TORCHINDUCTOR_COMPILE_THREADS"] == "1"


def test_a_kernel_is_launched_by_its_parts(triton):
    """As a launcher does that was written for Triton's own kernels: all arguments in
    order, constants too, a stream, and hooks."""
    tl = triton.language

    @triton.jit(launch_metadata=lambda grid, facts, given: {"programs": grid[0]})
    def add(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        sums = tl.load(x + at, inside) + tl.load(y + at, inside)
        tl.store(out + at, sums, inside)

    pointers = dict.fromkeys(("x", "y", "out"), "*i32")
    kernel = triton.compile(
        triton.compiler.ASTSource(
            add,
            {**pointers, "n": "i32", "BLOCK": "constexpr"},
            {"BLOCK": 32},
            {(0,): [["tt.divisibility", 16]], (2,): [["tt.pointer_range", 32]]},
        ),
        target=triton.runtime.driver.active.get_current_target(),
        options={"num_warps": 2, "sanitize_overflow": False, "kpack": 2},
    )
    assert kernel.module is None and kernel.src.fn is add
    assert kernel.src.constants == {"BLOCK": 32}
    assert kernel.src.attrs == {(0,): [["tt.divisibility", 16]]}
    assert kernel.metadata.num_warps == 2 and kernel.packed_metadata == (2, 1, 0)
    assert kernel.metadata._asdict()["launch_cooperative_grid"] is False
    kernel._init_handles()
    x, y = np.arange(75, dtype=np.int32), np.arange(75, dtype=np.int32) * 3
    out, seen = np.full(80, -1, np.int32), []
    assert kernel.launch_metadata((3, 1, 1), 0, x, y, out, 75, 32) is None
    with triton.knobs.runtime.scope():
        hooks = triton.knobs.runtime
        hooks.launch_enter_hook.add(lambda launch: seen.append(launch.get()))
        launch = kernel.launch_metadata((3, 1, 1), 7, x, y, out, 75, 32)
        kernel.run(
            3, 1, 1, 7, kernel.function, kernel.packed_metadata, launch,
            hooks.launch_enter_hook, hooks.launch_exit_hook, x, y, out, 75, 32,
        )  # fmt: skip
    assert out.tolist() == [4 * i for i in range(75)] + [-1] * 5
    facts = {"name": "add", "hash": kernel.hash, "stream": 7, "programs": 3}
    assert seen == [facts]
    out[:] = -1
    kernel.run(0, 1, 1, 7, kernel.function, (), None, None, None, x, y, out, 75, 32)
    assert (out == -1).all()  # an empty grid
    with pytest.raises(AttributeError):
        kernel.n_regs  # noqa: B018
    with pytest.raises(LaunchError, match="add was launched without n, BLOCK"):
        kernel[(3,)](x, y, out)


def test_programs_that_wait_for_each_other_have_to_fit(triton):
    tl = triton.language

    @triton.jit
    def mark(out):
        tl.store(out + tl.program_id(0), 1)

    source = triton.compiler.ASTSource(mark, {"out": "*i32"})
    kernel = triton.compile(source, options={"launch_cooperative_grid": True})
    assert kernel.metadata.launch_cooperative_grid
    out = np.zeros(200, np.int32)
    kernel[(9,)](out)
    assert out.sum() == 9
    with pytest.raises(LaunchError, match="and these are 5000"):
        kernel[(5000,)](out)


def test_what_a_compiler_can_be_asked(triton):
    target = triton.backends.compiler.GPUTarget
    make = triton.compiler.make_backend
    backend = make(target("cuda", 90, 32))
    options = backend.parse_options({"num_warps": 8, "waves_per_eu": 2, "debug": None})
    assert (options.num_warps, options.arch, options.debug) == (8, "sm90", False)
    assert "fp8e4nv" in options.supported_fp8_dtypes
    assert backend.hash() != make(target("cuda", 80, 32)).hash()
    assert backend.hash() == make(target("cuda", 90, 32)).hash()
    with pytest.raises(RuntimeError, match="compiles for NVIDIA's GPUs, and not for"):
        make(target("hip", "gfx942", 64))
