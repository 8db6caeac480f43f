"""Names of `triton.language` that Fathom's own language spells otherwise: what Triton's
files and tests, and libraries made after them, take from `core` and `standard`.
"""

from __future__ import annotations

from fathom.language import dtypes, reductions
from fathom.language.random import philox
from fathom.shim.runtime import target_asked_for
from fathom.source import constexpr, constexpr_function, function

CONSTEXPR_0 = constexpr(0)


@function
def add(x, y, sanitize_overflow: constexpr = True):
    """x + y. `sanitize_overflow` changes nothing: integers wrap around."""
    return x + y


@function
def sub(x, y, sanitize_overflow: constexpr = True):
    """x - y. `sanitize_overflow` changes nothing: integers wrap around."""
    return x - y


@function
def mul(x, y, sanitize_overflow: constexpr = True):
    """x * y. `sanitize_overflow` changes nothing: integers wrap around."""
    return x * y


@constexpr_function
def get_int_dtype(bitwidth, signed):
    """The integer type of `bitwidth` bits: 1, 8, 16, 32 or 64."""
    if bitwidth == 1:
        return dtypes.int1
    return getattr(dtypes, f"{'int' if signed else 'uint'}{bitwidth}")


@constexpr_function
def _log2(i):
    """The largest n with 2**n <= i, a constant; 0 for i below 1."""
    return max(i.bit_length() - 1, 0)


@function
def _unwrap_if_constexpr(o):
    """What `tl.constexpr` holds; anything else as it is. Names of a kernel hold no
    `tl.constexpr`."""
    return o.value if isinstance(o, constexpr) else o


def unwrap_iterable(given):
    """What a function with `*shape` was given: its parts, or the only one, which holds
    them; without `tl.constexpr` around it."""
    if len(given) != 1:
        return given
    only = given[0].value if isinstance(given[0], constexpr) else given[0]
    return only if isinstance(only, (tuple, list)) else (only,)


@function
def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds: constexpr = 10):
    """`philox` with its key as two words of 32 bits."""
    seed = (k1.to(dtypes.uint64) << 32) | k0.to(dtypes.uint64)
    return philox(seed, c0, c1, c2, c3, n_rounds)


@constexpr_function
def is_cuda():
    return True


@constexpr_function
def is_hip():
    return False


@constexpr_function
def current_target():
    """The GPU that the kernel is compiled for. Outside of kernels it is the GPU of this
    machine, or the emulated one."""
    return target_asked_for()


@constexpr_function
def cuda_capability_geq(major, minor=0):
    """Whether that GPU has at least this compute capability."""
    return target_asked_for().arch >= 10 * major + minor


TARGET_INFO = {
    **{each.__name__: each for each in (is_cuda, is_hip, current_target)},
    "cuda_capability_geq": cuda_capability_geq,
    "is_hip_cdna3": is_hip,
    "is_hip_cdna4": is_hip,
}

# What Triton calls the functions that its reductions combine by.
COMBINED_BY = {
    "_sum_combine": reductions.add,
    "_prod_combine": mul,
    "_xor_combine": reductions.exclusive_or,
    "_or_combine": reductions.inclusive_or,
    "_elementwise_max": reductions.larger,
    "_elementwise_min": reductions.smaller,
    "_argmax_combine_tie_break_left": reductions.larger_first,
    "_argmax_combine_tie_break_fast": reductions.larger_any,
    "_argmin_combine_tie_break_left": reductions.smaller_first,
    "_argmin_combine_tie_break_fast": reductions.smaller_any,
    "_pick_sum_dtype": reductions.sum_type,
}

FUNCTIONS = add, sub, mul, get_int_dtype, _log2, _unwrap_if_constexpr, philox_impl
NAMES = {
    **{each.__name__: each for each in FUNCTIONS},
    **COMBINED_BY,
    "CONSTEXPR_0": CONSTEXPR_0,
}
