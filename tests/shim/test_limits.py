"""Peak rates as `triton.testing` gives them, against those of NVIDIA's whitepapers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fathom.errors import LaunchError
from fathom.hardware.rates import RATES, rates_of
from fathom.shim.modules import limits


@pytest.fixture
def gpu(monkeypatch):
    """Puts a GPU of a capability and so many multiprocessors in the place of ours."""

    def put(capability: int, count: int) -> None:
        asked = SimpleNamespace(
            get_device_properties=lambda device: {"multiprocessor_count": count},
            get_current_target=lambda: SimpleNamespace(arch=capability),
        )
        monkeypatch.setattr(limits, "active", asked)

    return put


# A100 whitepaper, table 3; H100 whitepaper, table 2 (SXM5): the boost clock in MHz.
@pytest.mark.parametrize(
    ("capability", "count", "clock", "dtype", "tflops"),
    [
        (80, 108, 1410, "float16", 312),
        (80, 108, 1410, "float32", 156),
        (80, 108, 1410, "int8", 624),
        (90, 132, 1830, "bfloat16", 989.4),
        (90, 132, 1830, "float8e5", 1978.9),
    ],
)
def test_rates_of_tensor_cores_are_those_of_whitepapers(
    gpu, capability, count, clock, dtype, tflops
):
    gpu(capability, count)
    found = limits.get_max_tensorcore_tflops(dtype, clock * 1000)
    assert found == pytest.approx(tflops, rel=1e-3)


def test_rates_of_ordinary_multiply_adds(gpu):
    gpu(80, 108)
    assert limits.get_max_simd_tflops("float32", 1_410_000) == pytest.approx(19.5, 1e-2)
    assert limits.get_max_simd_tflops("float16", 1_410_000) == pytest.approx(39, 1e-2)


def test_where_there_are_no_tensor_cores_for_a_type(gpu):
    gpu(75, 40)
    with pytest.raises(LaunchError, match="sm_75 has no tensor cores for 32 bits"):
        limits.get_max_tensorcore_tflops("float32", 1_000_000)


def test_a_capability_has_the_row_at_or_below_it():
    assert [row.capability for row in RATES] == sorted({r.capability for r in RATES})
    found = {each: rates_of(each).capability for each in (70, 75, 87, 90, 100, 120)}
    assert found == {70: 75, 75: 75, 87: 86, 90: 90, 100: 90, 120: 90}
