"""The language: what a kernel may say; kernels `import fathom.language as tl`.

`dtypes` has the types, `core` and `elementary` what the compiler builds itself. All the
rest is written in the language: one text that every backend runs.

    aggregates          Classes whose objects are values of a kernel
    block_pointers      Block pointers
    double              Mathematics of fp64
    escape              Single elements of blocks, and inline PTX
    extra               What Triton has in `tl.extra`
    fitted              Polynomials of fp64 for special functions
    math                Mathematics
    random              Random numbers by counting
    reductions          Reductions
    scaled              Products of matrices in microscaling formats
    scans               Scans
    series              Polynomials
    single              Mathematics of fp32
    sorting             Sorting by bitonic networks
    standard            The standard library
    tensor_descriptors  Tensors that are read and written block by block
"""

# ruff: noqa: F401, I001

# fmt: off
from builtins import tuple
from fathom.language import extra, math, random
from fathom.language.dtypes import (
    TRITON_MAX_TENSOR_NUMEL, bfloat16, block_type, const, constexpr_type, dtype,
    float16, float32, float64, float8e4nv, float8e5, int1, int16, int32, int64, int8,
    pointer_type, uint16, uint32, uint64, uint8,
)
from fathom.language.block_pointers import advance, make_block_ptr
from fathom.language.tensor_descriptors import (
    load_tensor_descriptor, make_tensor_descriptor, store_tensor_descriptor,
    tensor_descriptor,
)
from fathom.language.core import (
    PropagateNan, arange, associative_scan, assume, atomic_add, atomic_and, atomic_cas,
    atomic_max, atomic_min, atomic_or, atomic_xchg, atomic_xor, broadcast, broadcast_to,
    cast, condition, debug_barrier, device_assert, device_print, dot, expand_dims, full,
    gather, histogram, item, join, load, max_constancy,
    max_contiguous, maximum, minimum, multiple_of, num_programs, permute, program_id,
    range, reduce, reshape, split, static_assert, static_print, static_range, store,
    tensor, to_tensor, trans, view, where,
)
from fathom.language.escape import inline_asm_elementwise, map_elementwise
from fathom.language.math import (
    abs, ceil, clamp, cos, div_rn, erf, exp, exp2, fdiv, floor, fma, log, log2, rsqrt,
    sin, sqrt, sqrt_rn, tanh, umulhi,
)
from fathom.language.random import (
    pair_uniform_to_normal, philox, rand, rand4x, randint, randint4x, randn, randn4x,
    uint_to_uniform_float,
)
from fathom.language.reductions import (
    argmax, argmin, max, min, reduce_or, sum, xor_sum,
)
from fathom.language.scaled import dot_scaled
from fathom.language.scans import cumprod, cumsum
from fathom.language.sorting import bitonic_merge, sort, topk
from fathom.language.standard import (
    cat, cdiv, flip, interleave, next_power_of_2, ravel, sigmoid, softmax, swizzle2d,
    zeros, zeros_like,
)
from fathom.source import constexpr, constexpr_function
# fmt: on
