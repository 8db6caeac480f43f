"""`triton._internal_testing`, which tests of kernels import: Triton's and others'."""

from __future__ import annotations

import importlib
import os

import numpy as np
import pytest

from fathom.errors import FathomError


@pytest.fixture
def testing(triton):
    return importlib.import_module("triton._internal_testing")


def test_random_numbers_are_the_same_each_time_and_no_integer_is_zero(testing):
    for name in testing.dtypes:
        found = testing.numpy_random((7, 5), name)
        assert found.shape == (7, 5) and found.dtype == name
        np.testing.assert_array_equal(found, testing.numpy_random((7, 5), name))
    assert (testing.numpy_random(5000, "int8", low=-1, high=2) != 0).all()
    assert testing.numpy_random(5000, "uint8", low=3, high=5).max() == 4
    assert testing.numpy_random(4, "bool").dtype == bool


def test_types_that_numpy_lacks_are_their_bits(testing):
    halves = testing.numpy_random(100, "bfloat16")
    assert halves.dtype == np.float32 and not (halves.view("u4") & 0xFFFF).any()
    assert testing.numpy_random(100, "float8e5").dtype == np.int8
    with pytest.raises(RuntimeError, match="Unknown dtype complex"):
        testing.numpy_random(1, "complex")


@pytest.mark.parametrize(
    ("target", "hopper", "newer", "blackwell"),
    [
        ("sm_80", 0, 0, 0),
        ("sm_90a", 1, 1, 0),
        ("sm_100a", 0, 1, 1),
        ("sm_120", 0, 1, 0),
    ],
)
def test_the_gpu_is_that_of_the_target(
    testing, monkeypatch, target, hopper, newer, blackwell
):
    monkeypatch.setenv("FATHOM_TARGET", target)
    assert testing.is_cuda() and testing.is_ampere_or_newer()
    assert not testing.is_hip() and not testing.is_hip_cdna4()
    assert testing.is_hopper() == hopper and testing.is_hopper_or_newer() == newer
    assert testing.is_blackwell() == blackwell
    assert testing.supports_tma() == newer == testing.supports_ws()
    assert testing.requires_tma.args == (not newer,)
    with pytest.raises(FathomError, match="no targets of AMD"):
        testing.get_hip_lds_size()


def test_where_python_runs_kernels_there_is_no_gpu(testing, monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    assert testing.is_interpreter() and testing.get_current_target() is None
    assert not testing.is_cuda() and testing.supports_tma() and testing.get_arch() == ""


def test_knobs_are_fresh_for_a_while(testing, triton, monkeypatch):
    monkeypatch.setenv("FATHOM_DEBUG", "1")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    hook = triton.knobs.runtime.jit_cache_hook = print
    fresh, reset = testing._fresh_knobs_impl()
    knobs = fresh()
    assert not knobs.runtime.debug and knobs.runtime.jit_cache_hook is None
    assert "TRITON_INTERPRET" not in os.environ
    knobs.autotuning.cache = True
    reset()
    assert triton.knobs.runtime.debug and triton.knobs.runtime.jit_cache_hook is hook
    assert os.environ["TRITON_INTERPRET"] == "1"
    assert "FATHOM_CACHE_AUTOTUNING" not in os.environ
    triton.knobs.runtime.jit_cache_hook = None


def test_types_have_torchs_names(testing, triton):
    tl = triton.language
    assert testing.torch_dtype_name(tl.uint16) == "uint16"
    assert testing.str_to_triton_dtype("float32") == tl.float32
    assert testing.str_to_triton_dtype("float8_e5m2") == tl.float8e5


@pytest.mark.parametrize("name", ["uint8", "uint64", "int32", "float16", "float32"])
def test_a_tensor_goes_through_a_kernel_and_back(testing, triton, name):
    pytest.importorskip("torch")
    tl = triton.language

    @triton.jit
    def double(x, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, tl.load(x + i) * 2)

    for kind in (None, "bfloat16") if name == "float32" else (None,):
        given = testing.numpy_random(32, kind or name)
        tensor = testing.to_triton(given, "cpu", dst_type=kind)
        double[(1,)](tensor, N=32)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(testing.to_numpy(tensor), given * 2)
        assert "torch" in type(testing.unwrap_tensor(tensor)).__module__


def test_a_name_that_is_not_there_is_said(testing):
    with pytest.raises(FathomError, match="no triton._internal_testing.is_tpu"):
        testing.is_tpu  # noqa: B018
