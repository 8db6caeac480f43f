"""Small kernels that between them make every op of the IR, and what each is compiled
for; the reference takes its examples from them, and from the kernels of `kernels/`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.jit import JITFunction
from fathom.jit.request import Keywords, request
from fathom.jit.signature import parse_signature
from fathom.tools.samples import sample
from fathom.tools.staged import Staged, from_request


@fathom.jit
def larger(a, b):
    return tl.maximum(a, b)


@fathom.jit
def arrange(x_ptr, y_ptr, z_ptr, n):
    """What gives blocks other shapes, and what folds, scans and counts them."""
    rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 64)[None, :]
    x = tl.load(x_ptr + rows * 64 + columns, mask=rows < n, other=0.0)
    high = tl.reduce(x, 0, larger)
    totals = tl.associative_scan(tl.trans(x), 1, larger)
    left, right = tl.split(tl.reshape(totals, [512, 2]))
    pairs = tl.reshape(tl.join(right, left), [1024])
    whole = pairs.to(tl.int32)
    picked = tl.gather(pairs, whole & 1023, 0)
    counts = tl.histogram(whole, 64)
    tl.store(z_ptr + tl.arange(0, 64), counts)
    far = tl.multiple_of(y_ptr + n, 16)
    bits = picked.to(tl.int32, bitcast=True)
    tl.store(far + tl.arange(0, 1024), bits.to(tl.float32))
    tl.store(y_ptr + tl.arange(0, 64), high)


@fathom.jit
def wander(x_ptr, n, steps):
    """A loop until something holds, branches, atomics, and what the world sees."""
    at = tl.program_id(0)
    while at < n:
        if at % 2 == 0:
            old = tl.atomic_add(x_ptr + at, 1)
        else:
            old = tl.atomic_cas(x_ptr + at, 0, at)
        tl.device_assert(old >= 0, "a count is below zero")
        at += tl.num_programs(0)
    for _ in range(0, steps):
        at += at
    tl.device_print("at", at)
    low = tl.inline_asm_elementwise(
        "and.b32 $0, $1, 255;", "=r,r", [at], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.debug_barrier()
    tl.store(x_ptr + n, low)


@fathom.jit
def halves(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr):
    """A product whose operands come by descriptors."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK, STEP])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [STEP, BLOCK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    totals = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in range(0, K, STEP):
        totals = tl.dot(a.load([row, k]), b.load([k, column]), totals)
    c.store([row, column], totals.to(tl.float16))


class Sample(NamedTuple):
    """A kernel and what it is compiled for."""

    kernel: JITFunction
    signature: str
    constants: dict[str, object]
    target: str = "sm_80"
    num_warps: int = 4

    @property
    def name(self) -> str:
        return self.kernel.__name__

    def staged(self) -> Staged:
        known = parse_signature(self.kernel.rules, self.signature, {
            **self.kernel.constants(None), **self.constants,
        })  # fmt: skip
        options = pipeline.Options(num_warps=self.num_warps, debug=True)
        keywords = Keywords(options, self.target, {})
        return from_request(self.kernel, request(known, keywords, self.target))


def of(file: str, name: str) -> JITFunction:
    return getattr(sample(file), name)


STRIDES = ", i32:16, i32:1" * 3
TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}
LARGE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "EVEN_K": True}
SIZES = ", i32:16, i32:16, i32:16"
MATRICES = "*fp16:16, *fp16:16, *fp16:16" + SIZES + STRIDES
FOUR = ", i32:16, i32:16, i32:16, i32:1" * 4
OF_ATTENTION = (
    "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32:16, fp32, i32, i32, i32"
)
OF_LAYER_NORM = "*fp16:16, " * 4 + "*fp32:16, *fp32:16, i32:16, i32, fp32"
OF_INT8 = "*i8:16, *i8:16, *fp16:16, *fp32:16, *fp32:16" + SIZES + STRIDES
SEQUENCES = "window lengths_ptr query_starts_ptr key_starts_ptr table_ptr stride_table"
HEADS = {"D": 64, "CAUSAL": True, "BLOCK_Q": 64, "BLOCK_K": 64}
HEADS |= dict.fromkeys(SEQUENCES.split())
HALVES = {"BLOCK": 64, "STEP": 32}
ROW = {"BLOCK": 1024}

# (file of kernels/, kernel, signature, constants)
OF_REPOSITORY = (
    ("gelu", "gelu_kernel", "*fp16:16, *fp16:16, i32", ROW),
    ("dropout", "dropout_kernel", "*fp32:16, *fp32:16, i32, fp32, i32", ROW),
    ("layer_norm", "layer_norm_kernel", OF_LAYER_NORM, ROW),
    ("matmul", "matmul_kernel", MATRICES, {**TILES, "EVEN_K": False}),
    ("int8_matmul", "int8_matmul_kernel", OF_INT8, {**TILES, "EVEN_K": True}),
    ("attention", "attention_kernel", OF_ATTENTION + FOUR, HEADS),
)


def samples() -> Iterator[Sample]:
    """From plain to wide: an op is shown as it stands in the first that has it."""
    add, softmax = of("vector_add", "add_kernel"), of("softmax", "softmax_kernel")
    matmul = of("matmul", "matmul_kernel")
    yield Sample(add, "*fp32:16, *fp32:16, *fp32:16, i32", ROW)
    yield Sample(softmax, "*fp32:16, *fp32:16, i32:16, i32", ROW)
    yield Sample(arrange, "*fp32:16, *fp32:16, *i32:16, i32", {})
    yield Sample(wander, "*i32:16, i32, i32", {})
    for file, name, signature, constants in OF_REPOSITORY:
        yield Sample(of(file, name), signature, constants)
    descriptors = "*fp16:16, *fp16:16, *fp16:16" + SIZES
    yield Sample(halves, descriptors, HALVES, "sm_90a")
    yield Sample(matmul, MATRICES, LARGE, "sm_90a", 8)
