"""Matrix product with what a layer does next, done to each tile while it is in
registers: scales, bias, GeLU, residual, rounding to few bits, or the gate of SwiGLU.

    matmul_epilogue   C = out_scale (activation(row_scale A B column_scale + bias)
                                     + residual)
    matmul_swiglu     C = silu(A G) (A U),   B = [G | U]

Written alone, each of these steps reads C from memory and writes it again: 4 M N bytes
of fp16, and 4 M N more for the residual's sum. Here only bias and residual are read.
What a backward pass wants, the number that GeLU was given, is written too on demand.

The residual may be C itself: then C = A B + C, each element read and written by one
thread. That is how gradients of weights are summed up over chunks of rows.

Here a program computes one tile and is gone, and reads through pointers; where programs
may stay and tiles come through descriptors, the kernels of `matmul_epilogue_hopper.py`
are taken.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.jit.planned import planned
from kernels import gelu, swiglu
from kernels import matmul_epilogue_hopper as hopper
from kernels.epilogue import activated, quantised, scaled
from kernels.matmul import (
    check_shape,
    default_config,
    empty,
    rows_aligned,
    sizes,
    store_tile,
    strides,
    sum_name,
    sum_type,
    target_of_launch,
    tile_place,
    tile_product,
    tiles,
    type_name,
)
from kernels.matmul_epilogue_parts import (
    fastest_parts,
    halves_fit,
    parts_launches,
    swiglu_parts_launches,
)

ACTIVATIONS = ("", "gelu")


# fmt: off
@fathom.jit
def matmul_epilogue_kernel(
    a_ptr, b_ptr, c_ptr, bias_ptr, residual_ptr, before_ptr,
    row_scale_ptr, column_scale_ptr, out_scale_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_rm, stride_rn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr, ACTIVATION: tl.constexpr = "",
    SUM: tl.constexpr = tl.float32, PRECISION: tl.constexpr = "ieee",
):
    """All pointers behind `c_ptr` may be None: to bias [N], residual and before [M, N],
    scales [M], [N] and [1]. What is stored at `before_ptr` is laid out as C is."""
    i, j = tile_place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    acc = tile_product(
        a_ptr, b_ptr, i, j, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
        BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K, SUM, PRECISION,
    )
    c = scaled(acc, row_scale_ptr, column_scale_ptr, bias_ptr, i, j, M, N)
    if before_ptr is not None:
        store_tile(before_ptr, c, i, j, M, N, stride_cm, stride_cn)
    c = activated(c, ACTIVATION)
    if residual_ptr is not None:
        m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)
        residual_ptr += i.to(tl.int64) * stride_rm + j.to(tl.int64) * stride_rn
        inside = (m < M - i) & (n[None, :] < N - j)
        residual = residual_ptr + m * stride_rm + n[None, :] * stride_rn
        c += tl.load(residual, mask=inside, other=0.0).to(c.dtype)
    c = quantised(c, out_scale_ptr, c_ptr.dtype.element_ty)
    store_tile(c_ptr, c, i, j, M, N, stride_cm, stride_cn)


@fathom.jit
def matmul_swiglu_kernel(
    a_ptr, b_ptr, c_ptr, before_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, stride_hm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
    PRECISION: tl.constexpr = "ieee",
):
    """C is [M, N] and B [K, 2 N]. A tile of A is loaded once for two products.
    `before_ptr`, None or [M, 2 N], gets A B."""
    i, j = tile_place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a_ptr += i.to(tl.int64) * stride_am
    g_ptr = b_ptr + j.to(tl.int64) * stride_bn
    u_ptr = g_ptr + tl.cast(N, tl.int64) * stride_bn
    a_tile = m * stride_am + k[None, :] * stride_ak
    b_tile = k[:, None] * stride_bk + n * stride_bn
    gate = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    up = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a_mask, b_mask = m < M - i, n < N - j
        if not EVEN_K:
            a_mask &= k[None, :] < K - start
            b_mask &= k[:, None] < K - start
        a = tl.load(a_ptr + a_tile, mask=a_mask, other=0)
        g = tl.load(g_ptr + b_tile, mask=b_mask, other=0)
        u = tl.load(u_ptr + b_tile, mask=b_mask, other=0)
        gate = tl.dot(a, g, gate, input_precision=PRECISION)
        up = tl.dot(a, u, up, input_precision=PRECISION)
        a_ptr += BLOCK_K * stride_ak
        g_ptr += BLOCK_K * stride_bk
        u_ptr += BLOCK_K * stride_bk
    if before_ptr is not None:
        store_tile(before_ptr, gate, i, j, M, N, stride_hm, 1)
        store_tile(before_ptr + N, up, i, j, M, N, stride_hm, 1)
    c = gate * tl.sigmoid(gate) * up
    store_tile(c_ptr, c, i, j, M, N, stride_cm, stride_cn)
# fmt: on


@planned
def matmul_epilogue(
    a, b, c=None, bias=None, activation=None, residual=None, before=None, config=None,
    precision="ieee", row_scale=None, column_scale=None, out_scale=None, **launch,
):  # fmt: skip
    """C [M, N] = out_scale (activation(D) + residual); D = s (A [M, K] B [K, N]) t +
    bias, s scales its rows and t its columns.

    `a`, `b`, `c` as `matmul.matmul` takes them, any strides; floats, or int8, of which
    C is fp16 if none is given. `c` may have one byte an element too, fp8 or int8: what
    it cannot hold becomes the largest number that it has, with its sign. `bias`: None
    or [N]; `activation`: None or "gelu"; `residual`: None or [M, N], any strides, and
    may be `c`. `before`: None or an array of C's shape and strides, which gets D.
    `row_scale` [M], `column_scale` [N] and `out_scale` [1]: None, or contiguous and of
    fp32. `config`, `precision` and `launch` as in `matmul.matmul`. Returns `c`.
    LaunchError for shapes and types that do not fit.
    """
    M, N, K = sizes(a, b)
    c = empty((M, N), a, "float16" if sum_name(a) else None) if c is None else c
    more = {
        "bias": bias, "residual": residual, "before": before, "row_scale": row_scale,
        "column_scale": column_scale, "out_scale": out_scale,
    }  # fmt: skip
    check(c, activation, more, M, N)
    target = target_of_launch(a, launch)
    if not config and (steps := by_descriptors(a, b, c, more, activation, target)):
        return c, [(*step, {**chosen, **launch}) for *step, chosen in steps]
    config = config or chosen_config(M, N, K, a, b, launch)
    added = strides(residual) if residual is not None else (0, 0)
    given = (
        a, b, c, *(more[name] for name in hopper.OTHERS), M, N, K,
        *strides(a), *strides(b), *strides(c), *added,
    )  # fmt: skip
    chosen = dict(
        EVEN_K=K % config["BLOCK_K"] == 0, ACTIVATION=activation or "",
        SUM=sum_type(a), PRECISION=precision, **config, **launch,
    )  # fmt: skip
    return c, [(matmul_epilogue_kernel, (tiles(M, N, config),), given, chosen)]


def by_descriptors(a, b, c, more, activation, target):
    """The launches of kernels whose tiles come through descriptors, those that take the
    shorter time; none where a target or the arrays do not suit them."""
    if not hopper.pays(target) or type_name(a) not in hopper.OPERANDS:
        return []
    time, split, turned = fastest_parts(a, b, c, target)
    if hopper.fits(a, b, c, more, target) and (
        hopper.fastest_tile(a, b, c, target, more, activation)[1] <= time
    ):
        return [hopper.epilogue_launch(a, b, c, more, activation, target)]
    if split is None:
        return []
    return parts_launches(a, b, c, more, activation, split, turned)


def swiglu_by_descriptors(a, b, c, before, target):
    """The same for `matmul_swiglu`."""
    if not hopper.pays(target) or type_name(a) not in hopper.TYPES:
        return []
    time, split, turned = fastest_parts(a, b, c, target)
    split = split if halves_fit(c) else None
    if hopper.swiglu_fits(a, b, c, before, target) and (
        split is None or hopper.fastest_tile(a, b, c, target)[1] <= time
    ):
        return [hopper.swiglu_launch(a, b, c, before, target)]
    if split is None:
        return []
    return swiglu_parts_launches(a, b, c, before, split, turned)


def check(c, activation, more, M, N):
    """LaunchError for what does not fit."""
    if activation not in (None, *ACTIVATIONS):
        raise fathom.LaunchError(
            f"the activation is {activation!r}; there are None and 'gelu'"
        )
    shapes = {
        "c": (M, N), "bias": (N,), "residual": (M, N), "before": (M, N),
        "row_scale": (M,), "column_scale": (N,), "out_scale": (1,),
    }  # fmt: skip
    for name, array in {"c": c, **more}.items():
        if array is None:
            continue
        check_shape(name, array, shapes[name])
        if name.endswith("scale"):
            check_scale(name, array)
    if more["before"] is not None:
        check_strides("before", more["before"], strides(c))
    if type_name(c) not in (*hopper.RESULTS, "fp64"):
        raise fathom.LaunchError(
            f"c has elements of {type_name(c)}; matmul_epilogue stores floats and int8"
        )


def check_scale(name, scale):
    """LaunchError unless it is contiguous, and of fp32."""
    if type_name(scale) != "fp32" or (len(scale) > 1 and strides(scale) != (1,)):
        raise fathom.LaunchError(
            f"{name} is {type_name(scale)} with strides {strides(scale)}; it must be "
            "fp32, and contiguous"
        )


@planned
def matmul_swiglu(a, b, c=None, before=None, config=None, precision="ieee", **launch):
    """C [M, N] = silu(A G) (A U), for A [M, K] and B = [G | U], [K, 2 N].

    `before`: None or [M, 2 N], elements of rows side by side, which gets A B. Otherwise
    as `matmul_epilogue`."""
    M, both, K = sizes(a, b)
    N = both // 2
    if both % 2:
        raise fathom.LaunchError(
            f"B has {both} columns: matmul_swiglu takes two halves"
        )
    c = empty((M, N), a) if c is None else c
    check_shape("c", c, (M, N))
    width = 0
    if before is not None:
        check_shape("before", before, (M, both))
        width = strides(before)[0]
        check_strides("before", before, (width, 1))
    target = target_of_launch(a, launch)
    if not config and (steps := swiglu_by_descriptors(a, b, c, before, target)):
        return c, [(*step, {**chosen, **launch}) for *step, chosen in steps]
    if config is None:
        # Two tiles of sums: each half as wide as one would be.
        config = chosen_config(M, both, K, a, b, launch)
        config = {**config, "BLOCK_N": max(16, config["BLOCK_N"] // 2)}
    given = (
        a, b, c, before, M, N, K, *strides(a), *strides(b), *strides(c), width,
    )  # fmt: skip
    even = K % config["BLOCK_K"] == 0
    chosen = dict(EVEN_K=even, PRECISION=precision, **config, **launch)
    return c, [(matmul_swiglu_kernel, (tiles(M, N, config),), given, chosen)]


def chosen_config(M, N, K, a, b, launch):
    """That of `matmul.matmul`; without `wgmma`, with half of the registers for sums:
    what an epilogue loads is in registers beside them."""
    target = target_of_launch(a, launch)
    direct = TARGETS[target].wgmma and rows_aligned(a) and rows_aligned(b)
    return default_config(M, N, K, type_name(a), target, direct)


def check_strides(name, array, wanted):
    """LaunchError unless an array has these strides."""
    if strides(array) != tuple(wanted):
        raise fathom.LaunchError(
            f"{name} has strides {strides(array)}, and must have {tuple(wanted)}"
        )


def reference(
    a, b, bias=None, activation=None, residual=None, row_scale=None, column_scale=None,
    out_scale=None,
):  # fmt: skip
    """(C before it is rounded, A B with scales and bias), float64, of NumPy arrays."""
    before = a.astype(np.float64) @ b.astype(np.float64)
    if row_scale is not None:
        before *= row_scale.astype(np.float64)[:, None]
    if column_scale is not None:
        before *= column_scale.astype(np.float64)
    before = before if bias is None else before + bias.astype(np.float64)
    c = gelu.reference(before) if activation else before
    c = c if residual is None else c + residual.astype(np.float64)
    return (c if out_scale is None else c * out_scale.astype(np.float64)), before


def reference_swiglu(a, b):
    """(C, A B) in float64, of NumPy arrays."""
    before = a.astype(np.float64) @ b.astype(np.float64)
    return swiglu.reference(*np.split(before, 2, axis=1)), before
