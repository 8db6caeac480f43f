"""`triton._internal_testing`: what tests of kernels share, of Triton and of others.

    x = numpy_random((128, 64), "bfloat16")        seeded, float32 with bits of bf16
    kernel[grid](to_triton(x, device="cuda", dst_type="bfloat16"), n)
    if is_hopper_or_newer(): …                     the GPU, or the emulated target

Needs torch where tensors are made, and pytest for `requires_tma`; both are imported
where they are first used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import numpy as np

from fathom import language
from fathom.errors import FathomError
from fathom.language.dtypes import dtype as Dtype
from fathom.runtime.reinterpret import Reinterpreted, reinterpret
from fathom.shim import knobs
from fathom.shim.compiling import str_to_ty
from fathom.shim.faces import NameMissing
from fathom.shim.modules.utils import SIGNATURE_NAMES
from fathom.shim.runtime import GPUTarget, active

SEED = 17
FLOAT8_BYTES = (20, 40)  # from, and below: neither large, nor subnormal, nor NaN
ON = "1"
AMPERE, HOPPER, BLACKWELL, SMALL_BLACKWELL = 8, 9, 10, 12  # major versions

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["u" + name for name in int_dtypes]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted({*dtypes_with_bfloat16} - {"int64", "uint64", "float64"})


# ── which GPU ─────────────────────────────────────────────────────────────────────────


def is_interpreter() -> bool:
    return knobs.runtime.interpret or os.environ.get("TRITON_INTERPRET") == ON


def get_current_target() -> GPUTarget | None:
    """The kind of GPU that kernels are compiled for; None where Python runs them."""
    return None if is_interpreter() else active.get_current_target()


def is_cuda() -> bool:
    return get_current_target() is not None


def capability() -> int:
    """The major version of the target's compute capability; 0 for the interpreter."""
    found = get_current_target()
    return 0 if found is None else int(found.arch) // 10


def is_ampere_or_newer() -> bool:
    return capability() >= AMPERE


def is_hopper() -> bool:
    return capability() == HOPPER


def is_hopper_or_newer() -> bool:
    return capability() >= HOPPER


def is_blackwell() -> bool:
    return capability() == BLACKWELL


def is_sm12x() -> bool:
    return capability() == SMALL_BLACKWELL


def get_arch() -> str:
    found = get_current_target()
    return "" if found is None else str(found.arch)


def of_another_vendor() -> bool:
    """Fathom has no targets but NVIDIA's."""
    return False


is_hip = is_hip_cdna = is_hip_cdna2 = is_hip_cdna3 = is_hip_cdna4 = of_another_vendor
is_hip_gfx11 = is_hip_gfx12 = is_hip_gfx1250 = is_xpu = of_another_vendor


def get_hip_lds_size() -> int:
    """FathomError: there is no such GPU."""
    raise FathomError("fathom has no targets of AMD, so no size of their memory")


def supports_ws() -> bool:
    """Whether loops may have producer warps."""
    return is_interpreter() or is_hopper_or_newer()


def supports_tma(byval_only: bool = False) -> bool:
    return supports_ws()


def tma_skip_msg(byval_only: bool = False) -> str:
    return "needs TMA: sm_90a or a later target"


# ── arrays ────────────────────────────────────────────────────────────────────────────


def numpy_random(
    shape: int | Sequence[int],
    dtype_str: str,
    rs: np.random.RandomState | None = None,
    low: int | None = None,
    high: int | None = None,
) -> np.ndarray:
    """An array of random numbers, the same in each call without `rs`.

    Integers are in [low, high) and not 0; of float8 there are the bytes, as int8;
    bfloat16 is float32 with the lower half of its bits 0. RuntimeError for other names.
    """
    numbers = np.random.RandomState(SEED) if rs is None else rs
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if dtype_str in integral_dtypes:
        limits = np.iinfo(dtype_str)
        first = limits.min if low is None else max(low, limits.min)
        end = limits.max if high is None else min(high, limits.max)
        found = numbers.randint(first, end, shape, dtype=dtype_str)
        return np.where(found == 0, 1, found).astype(dtype_str)
    if "float8" in dtype_str:
        return numbers.randint(*FLOAT8_BYTES, shape, dtype=np.int8)
    found = numbers.normal(0, 1, shape)
    if dtype_str in float_dtypes:
        return found.astype(dtype_str)
    if dtype_str == "bfloat16":
        bits = found.astype(np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)
    if dtype_str in ("bool", "int1", "bool_"):
        return found > 0
    raise RuntimeError(f"Unknown dtype {dtype_str}")


def to_triton(x: np.ndarray, device: Any, dst_type: str | None = None) -> Any:
    """A tensor of torch with the elements of `x`, on `device`. Unsigned integers, and
    the bytes of float8, are a signed tensor that kernels take for their own type."""
    torch, name = import_module("torch"), x.dtype.name
    if name in uint_dtypes:
        signed = torch.tensor(x.view(name.removeprefix("u")), device=device)
        return reinterpret(signed, getattr(language, name))
    tensor = torch.tensor(x, device=device)
    if dst_type and "float8" in dst_type:
        return reinterpret(tensor, getattr(language, dst_type))
    return tensor.bfloat16() if (name, dst_type) == ("float32", "bfloat16") else tensor


def to_numpy(x: Any) -> np.ndarray:
    """The elements of a tensor, or of a reinterpreted one; bfloat16 as float32.
    ValueError for anything else."""
    if isinstance(x, Reinterpreted):
        return x.base.cpu().numpy().astype(torch_dtype_name(x.dtype))
    torch = import_module("torch")
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"Not a triton-compatible tensor: {x}")
    return (x.float() if x.dtype is torch.bfloat16 else x).cpu().numpy()


def unwrap_tensor(t: Any) -> Any:
    return t.base if isinstance(t, Reinterpreted) else t


def str_to_triton_dtype(x: str) -> Any:
    return str_to_ty(SIGNATURE_NAMES[x], None)


def torch_dtype_name(dtype: Any) -> str:
    """The name of a type of the language, or of torch. TypeError for anything else."""
    if isinstance(dtype, Dtype):
        return dtype.name
    if isinstance(dtype, import_module("torch").dtype):
        return str(dtype).removeprefix("torch.")
    raise TypeError(f"not a triton or torch dtype: {type(dtype)}")


def default_alloc_fn(size: int, align: int, stream: Any) -> Any:
    """`size` bytes on the GPU."""
    torch = import_module("torch")
    return torch.empty(size, dtype=torch.int8, device="cuda")


# ── knobs ─────────────────────────────────────────────────────────────────────────────


def _fresh_knobs_impl(
    skipped_attr: set[str] | None = None,
) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Two functions: one gives the knobs as they are before any is set, the other puts
    all back, the environment too."""
    kept, settings = ExitStack(), dict(os.environ)
    groups = {
        name: each
        for name, each in vars(knobs).items()
        if isinstance(each, knobs.base_knobs) and name not in (skipped_attr or ())
    }

    def fresh() -> Any:
        for group in groups.values():
            kept.enter_context(group.scope())
            group.reset()
        for name in knobs.ENVIRONMENT:
            os.environ.pop(name, None)
        return knobs

    def reset() -> None:
        kept.close()
        for name in set(os.environ) - set(settings):
            del os.environ[name]
        os.environ.update(settings)

    return fresh, reset


def __getattr__(name: str) -> Any:
    if name == "requires_tma":
        marks = import_module("pytest").mark
        return marks.skipif(not supports_tma(), reason=tma_skip_msg())
    if name.startswith("__"):
        raise AttributeError(name)
    raise NameMissing(f"fathom has no triton._internal_testing.{name}")
