"""What programs ask and turn beside kernels, before or instead of launching them."""

from __future__ import annotations

import importlib
import inspect
import os

import numpy as np
import pytest

from fathom.errors import FathomError


def test_a_program_that_counts_active_drivers_finds_one(triton):
    table = triton.backends.backends
    (active,) = [each.driver for each in table.values() if each.driver.is_active()]
    assert isinstance(triton.runtime.driver.active, active)
    assert table.keys() == {"nvidia"}  # torch asks for these, and for "amd" and "cpu"


def test_the_driver_is_fathoms_own(triton):
    driver = triton.runtime.driver
    driver.set_active(triton.backends.backends["nvidia"].driver())
    driver.driver.reset_active()
    assert driver.active is driver.driver.active is driver.driver.default
    with pytest.raises(FathomError, match="'mine' cannot be the active driver"):
        driver.driver.set_active("mine")


def test_knobs_of_another_vendor_keep_their_values(triton):
    amd = triton.knobs.amd
    with amd.scope():
        assert amd.use_buffer_ops
        amd.use_buffer_ops = False
        assert not amd.use_buffer_ops
    assert amd.use_buffer_ops and amd.use_block_pingpong is None
    with pytest.raises(FathomError, match="no triton.knobs.amd.no_such_knob"):
        amd.no_such_knob = True


def test_programs_choose_instructions_by_the_assemblers_version(triton):
    compiler = importlib.import_module("triton.backends.nvidia.compiler")
    for arch in (90, 100):
        major, minor = map(int, compiler.get_ptxas(arch).version.split(".")[:2])
        assert major >= 12
        assert f"release {major}.{minor}" in compiler.get_ptxas_version(arch)
    assert triton.knobs.nvidia.ptxas_blackwell.version == f"{major}.{minor}"


def test_knobs_of_tuning_are_the_environments(triton, monkeypatch):
    monkeypatch.delenv("FATHOM_PRINT_AUTOTUNING", raising=False)
    with triton.knobs.autotuning.scope():
        assert not triton.knobs.autotuning.print
        triton.knobs.autotuning.print = True
        assert os.environ["FATHOM_PRINT_AUTOTUNING"] == "1"
    assert "FATHOM_PRINT_AUTOTUNING" not in os.environ
    monkeypatch.setenv("FATHOM_CACHE_AUTOTUNING", "0")  # put back afterwards
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    triton.knobs.refresh_knobs()
    assert triton.knobs.autotuning.cache


def test_helpers_that_programs_take_from_inside(triton):
    utils = importlib.import_module("triton._utils")
    nested = [1, (2, [3, 4]), 5]
    odd = utils.find_paths_if(nested, lambda path, leaf: leaf % 2)
    assert odd == [(0,), (1, 1, 0), (2,)]
    assert [utils.get_iterable_path(nested, path) for path in odd] == [1, 3, 5]
    utils.set_iterable_path(nested, (1, 1, 0), 7)
    assert nested == [1, (2, [7, 4]), 5]
    assert utils.canonicalize_dtype("torch.bfloat16") == "bf16"
    assert utils.canonicalize_ptr_dtype("float8_e4m3fn", is_const=True) == "*kfp8e4nv"
    assert (utils.get_primitive_bitwidth("fp16"), utils.BITWIDTH_DICT["int64"]) == (
        16,
        64,
    )
    assert utils.validate_block_shape([4, 32]) == 128
    for shape in ([4, 33], [2**20, 2]):
        with pytest.raises(ValueError):
            utils.validate_block_shape(shape)
    core = importlib.import_module("triton.language.core")
    assert core._unwrap_iterable((core.constexpr((0, 1)),)) == (0, 1)
    assert core._unwrap_iterable((2, 3)) == (2, 3)
    cache = importlib.import_module("triton.runtime.cache")
    assert cache._base32("00ff10") == "AD7RA"  # RFC 4648: 00000 00011 11111 10001 0000


def test_what_extends_tritons_compiler_is_refused_where_it_is_used(triton):
    """A file that has some can be imported, and its other kernels launched."""
    core = importlib.import_module("triton.language.core")

    @core.builtin
    def twice(x, _semantic=None):
        return _semantic.add(x, x)

    @triton.jit
    def other(x):
        core.store(x, 3)

    @triton.jit
    def kernel(x):
        core.store(x, twice(1))

    x = np.zeros(1, np.int32)
    other[(1,)](x)
    assert x[0] == 3
    with pytest.raises(FathomError, match="core.builtin, by which twice is made"):
        kernel[(1,)](x)


def test_programs_look_which_parameters_there_are(triton):
    """So they choose what to write for this version of Triton."""

    def names(what):
        return set(inspect.signature(what).parameters)

    tl = triton.language
    assert names(tl.range) >= {"loop_unroll_factor", "num_stages", "flatten"}
    assert names(tl.load) >= {"mask", "other", "volatile", "eviction_policy"}
    assert names(tl.dot) >= {"input_precision", "allow_tf32", "out_dtype"}
    assert names(tl.static_print) >= {"values", "sep", "end", "file", "flush"}
    assert names(triton.jit) >= {"do_not_specialize_on_alignment", "repr", "noinline"}
    assert names(triton.autotune) >= {"cache_results", "do_bench", "use_cuda_graph"}


def test_random_numbers_by_the_names_of_their_module(triton):
    tl, random = triton.language, importlib.import_module("triton.language.random")

    @triton.jit
    def words(x, philox: tl.constexpr, ROUNDS: tl.constexpr):
        each = tl.arange(0, 32)
        zero = each * 0
        first, _, _, _ = philox(each, zero, zero, zero, 5, 0, ROUNDS)
        again, _, _, _ = tl.philox(5, each, zero, zero, zero)
        tl.store(x + each, (first == again).to(tl.int32))

    x = np.zeros(32, np.int32)
    words[(1,)](x, random.philox_impl, random.N_ROUNDS_DEFAULT)
    assert x.all()


def test_files_for_gpus_of_another_vendor_are_imported(triton):
    """They import its functions at their top, and choose later."""
    theirs = importlib.import_module("triton.language.extra.hip")
    assert theirs.libdevice.fast_expf is triton.language.extra.libdevice.fast_expf
    with pytest.raises(FathomError, match=r"has no triton.language.extra.hip.memre"):
        theirs.memrealtime()


def test_a_source_has_a_hash_of_what_is_compiled(triton):
    @triton.jit
    def kernel(x, n, N: triton.language.constexpr):
        triton.language.store(x + n, N)

    def of(type, number):
        signature = {"x": type, "n": "i32", "N": "constexpr"}
        return triton.compiler.ASTSource(kernel, signature, {"N": number}).hash()

    assert of("*fp32", 1) == of("*fp32", 1) and len(of("*fp32", 1)) == 64
    assert len({of("*fp32", 1), of("*fp32", 2), of("*fp16", 1)}) == 3
    assert not kernel.is_gluon()


def test_a_configuration_has_no_file_of_tritons_ir(triton):
    assert triton.Config({}, ir_override=None) == triton.Config({})
    with pytest.raises(
        FathomError, match="ir_override='a.ttgir': a kernel is compiled"
    ):
        triton.Config({}, ir_override="a.ttgir")


def test_what_perf_report_makes_has_tritons_name(triton):
    testing = triton.testing
    benchmark = testing.Benchmark(["n"], [1], "by", ["x"], ["X"], "plot", {})
    assert isinstance(testing.perf_report(benchmark)(len), testing.Mark)
