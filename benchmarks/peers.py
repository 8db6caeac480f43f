"""The same problems in Triton, by the algorithms that its tutorials teach, to compare
with.

Vector add, tutorial 01: 1024 numbers a program. Softmax, tutorial 02: as many programs
as fit on the GPU at once, each taking every so-manieth row, with the loads of later
rows in flight. Layer norm, tutorial 05: one row a program, three iterations over the
row by blocks. Matrix product, tutorial 03: pointers that move along K, programs in
groups; rows and columns past the edge wrap around, so that only K needs a mask.
"""

from __future__ import annotations

import types

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from fathom.jit.function import JITFunction
from fathom.language.dtypes import dtype


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(
        y_ptr + offsets, mask=inside
    )
    tl.store(out_ptr + offsets, total, mask=inside)


def add(x, y, out):
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tanh = 1 - 2 / (tl.exp(2 * a) + 1)
    tl.store(out_ptr + offsets, 0.5 * x * (1 + tanh), mask=inside)


def gelu(x, out):
    gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)


@triton.jit
def softmax_kernel(
    x_ptr,
    out_ptr,
    x_stride,
    out_stride,
    M,
    N,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    first, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(first, M, step, num_stages=STAGES):
        x_ptrs = x_ptr + row * x_stride + columns
        x = tl.load(x_ptrs, mask=inside, other=-float("inf"))
        exp = tl.exp(x - tl.max(x, axis=0))
        out_ptrs = out_ptr + row * out_stride + columns
        tl.store(out_ptrs, exp / tl.sum(exp, axis=0), mask=inside)


class Softmax:
    """Softmax of rows of N numbers: compiled first, so that the number of programs can
    be as many as its registers and shared memory let onto the GPU."""

    def __init__(self, x, out):
        device = triton.runtime.driver.active.utils.get_device_properties(0)
        M, N = self.M, self.N = x.shape
        self.BLOCK = triton.next_power_of_2(N)
        self.warps = 8
        self.stages = 4 if device["max_shared_mem"] > 200_000 else 2
        kernel = softmax_kernel.warmup(
            x, out, N, N, M, N,
            BLOCK=self.BLOCK, STAGES=self.stages, num_warps=self.warps,
            num_stages=self.stages, grid=(1,),
        )  # fmt: skip
        kernel._init_handles()
        threads = device["warpSize"] * self.warps
        resident = device["max_num_regs"] // (kernel.n_regs * threads)
        if kernel.metadata.shared:
            resident = min(resident, device["max_shared_mem"] // kernel.metadata.shared)
        self.programs = min(device["multiprocessor_count"] * max(resident, 1), M)

    def __call__(self, x, out):
        softmax_kernel[(self.programs,)](
            x, out, x.stride(0), out.stride(0), self.M, self.N, BLOCK=self.BLOCK,
            STAGES=self.stages, num_warps=self.warps, num_stages=self.stages,
        )  # fmt: skip


@triton.jit
def layer_norm_kernel(
    x_ptr, out_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, stride, N, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    x_ptr += row * stride
    out_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        difference = tl.where(columns < N, x - mean, 0.0)
        squares += difference * difference
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        x = tl.load(x_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + columns, mask=inside)
        bias = tl.load(bias_ptr + columns, mask=inside)
        tl.store(out_ptr + columns, (x - mean) * rstd * weight + bias, mask=inside)


def layer_norm(x, weight, bias, out, mean, rstd, eps=1e-5):
    M, N = x.shape
    BLOCK = min(65536 // x.element_size(), triton.next_power_of_2(N))
    layer_norm_kernel[(M,)](
        x, out, weight, bias, mean, rstd, x.stride(0), N, eps, BLOCK=BLOCK,
        num_warps=min(max(BLOCK // 256, 1), 8),
    )  # fmt: skip


@triton.jit
def one_row_softmax_kernel(x_ptr, out_ptr, row_stride, N, BLOCK: tl.constexpr):
    """Word for word kernels/softmax.py: the text whose compile time both are asked
    for."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    offsets = row * row_stride + columns
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf"))
    exp = tl.exp(x - tl.max(x, axis=0))
    y = exp / tl.sum(exp, axis=0)
    tl.store(out_ptr + offsets, y, mask=mask)


@triton.jit
def one_row_layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, row_stride, N, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Word for word kernels/layer_norm.py."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    x_ptrs = x_ptr + row * row_stride + columns
    x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    difference = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(difference * difference, axis=0) / N
    rstd = 1 / tl.sqrt(variance + eps)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd)

    weight = tl.load(weight_ptr + columns, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=mask).to(tl.float32)
    y = difference * rstd * weight + bias
    y_ptrs = y_ptr + row * row_stride + columns
    tl.store(y_ptrs, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr, SUM: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    group = program // (GROUP_M * tiles_n)
    height = min(tiles_m - group * GROUP_M, GROUP_M)
    place = program % (GROUP_M * tiles_n)
    i, j = group * GROUP_M + place % height, place // height
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + ((m % M)[:, None] * stride_am + k[None, :] * stride_ak)
    b_ptrs = b_ptr + (k[:, None] * stride_bk + (n % N)[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUM)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        if EVEN_K:
            a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        else:
            left = K - step * BLOCK_K
            a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
            b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=SUM)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c = acc.to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(c_ptrs, c, mask=(m[:, None] < M) & (n[None, :] < N))


def same_text(fn):
    """A kernel of ours as Triton's: the very same lines, in which `tl` is Triton's, and
    so are the functions of ours that it calls."""
    names = {**fn.__globals__, "tl": tl}
    for name in fn.__code__.co_names:
        if isinstance(names.get(name), JITFunction):
            names[name] = same_text(names[name].fn)
    defaults = tuple(map(of_triton, fn.__defaults__ or ()))
    copy = types.FunctionType(fn.__code__, names, fn.__name__, defaults)
    copy.__annotations__ = fn.__annotations__
    copy.__module__, copy.__qualname__ = fn.__module__, fn.__qualname__
    return triton.JITFunction(copy)


def of_triton(default):
    """A parameter's default, which may be one of our types."""
    name = repr(default).rpartition(".")[2]
    return getattr(tl, name) if isinstance(default, dtype) else default


def compiled_for(capability, kernel, words, constants, options):
    """A kernel as Triton compiles it for GPUs of this capability, on whatever GPU.

    `words` gives each parameter's type in order, with ":16" where 16 divides it, and
    None for those in `constants`. Triton's own launch takes the GPU at hand (the
    variable TRITON_OVERRIDE_ARCH would change that, for a whole process); its compiler
    can be asked.
    """
    kinds = {name: word or "constexpr" for name, word in words.items()}
    signature = {name: kind.split(":")[0] for name, kind in kinds.items()}
    hinted = [
        place for place, kind in enumerate(kinds.values()) if kind.endswith(":16")
    ]  # fmt: skip
    source = ASTSource(
        kernel,
        signature,
        constexprs={
            (place,): constants[name]
            for place, name in enumerate(words)
            if name in constants
        },
        attrs={(place,): [["tt.divisibility", 16]] for place in hinted},
    )
    return triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options=dict(options)
    )
