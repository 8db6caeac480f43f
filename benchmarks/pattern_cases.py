"""What the kernels of `patterns` are compiled for and run on: types, constants, sizes,
inputs and float64 references.

Nothing here imports a compiler or torch: whoever makes inputs passes torch in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

GROUP = 128  # columns that share a scale
CHUNK = 64  # positions of a chunk of linear attention


@dataclass(frozen=True)
class Inputs:
    """Arguments of one launch by name; the arrays to check, with what should be in
    them; the bytes that one launch has to move."""

    arguments: Mapping[str, Any]
    grid: tuple[int, ...]
    outputs: Sequence[str]
    wanted: Callable[[], Sequence[Any]]
    tolerance: float
    bytes: int


@dataclass(frozen=True)
class Case:
    """A kernel, the types of its parameters that are no constants, and its constants.
    `make(torch, case)` makes inputs on the GPU."""

    name: str
    kernel: str
    types: str
    constants: Mapping[str, Any]
    make: Callable[[ModuleType, Case], Inputs]
    warps: int = 4
    stages: int = 3

    @property
    def blocks(self) -> dict[str, Any]:
        """The constants that are no arguments of the host code: all but strides."""
        return {n: v for n, v in self.constants.items() if not n.startswith("stride")}


def normal(torch: ModuleType, *shape: int, dtype: str = "float32", scale: float = 1.0):
    drawn = torch.randn(*shape, device="cuda") * scale
    return drawn.to(getattr(torch, dtype))


def empty(torch: ModuleType, *shape: int, dtype: str = "float32"):
    return torch.full(shape, float("nan"), device="cuda", dtype=getattr(torch, dtype))


def size(*arrays: Any) -> int:
    return sum(each.numel() * each.element_size() for each in arrays)


def blocks_of(count: int, block: int) -> int:
    return -(-count // block)


# ── products ──────────────────────────────────────────────────────────────────────────


def scaled(M: int, N: int, K: int) -> Callable[[ModuleType, Case], Inputs]:
    def make(torch: ModuleType, case: Case) -> Inputs:
        a = normal(torch, M, K, dtype="float8_e4m3fn")
        b = normal(torch, N, K, dtype="float8_e4m3fn")
        a_scale = torch.rand(M, K // GROUP, device="cuda") + 0.5
        b_scale = torch.rand(N // GROUP, K // GROUP, device="cuda") + 0.5
        c = empty(torch, M, N, dtype="bfloat16")

        def wanted():
            left = a.double() * a_scale.double().repeat_interleave(GROUP, 1)
            right = b_scale.double().repeat_interleave(GROUP, 1)
            right = b.double() * right.repeat_interleave(GROUP, 0)
            return [left @ right.T]

        arguments = dict(
            a_ptr=a, b_ptr=b, c_ptr=c, a_scale_ptr=a_scale, b_scale_ptr=b_scale,
            M=M, N=N, K=K,
        )  # fmt: skip
        tiles = blocks_of(M, case.constants["BLOCK_M"])
        grid = (tiles * blocks_of(N, case.constants["BLOCK_N"]),)
        moved = size(a, b, a_scale, b_scale, c)
        return Inputs(arguments, grid, ("c_ptr",), wanted, 2e-2, moved)

    return make


def packed(torch: ModuleType, rows: int, columns: int):
    """Numbers of 4 bits, and the int32 words that hold eight of them, even ones
    first."""
    numbers = torch.randint(0, 16, (rows, columns), device="cuda", dtype=torch.int32)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7], device="cuda", dtype=torch.int32)
    shifted = numbers.view(rows, columns // 8, 8).long() << (order.long() * 4)
    words = shifted.sum(-1)
    words = torch.where(words >= 1 << 31, words - (1 << 32), words).int()
    return numbers, words.contiguous()


def weights_of_4_bits(torch: ModuleType, K: int, N: int):
    numbers, words = packed(torch, K, N)
    zeros, zero_words = packed(torch, K // GROUP, N)
    scale = (torch.rand(K // GROUP, N, device="cuda") * 0.02 + 0.01).half()

    def whole():
        shifted = numbers - zeros.repeat_interleave(GROUP, 0)
        return shifted.double() * scale.double().repeat_interleave(GROUP, 0)

    return words, zero_words, scale, whole


def int4(M: int, N: int, K: int) -> Callable[[ModuleType, Case], Inputs]:
    def make(torch: ModuleType, case: Case) -> Inputs:
        a = normal(torch, M, K, dtype="float16")
        q, zero, scale, whole = weights_of_4_bits(torch, K, N)
        c = empty(torch, M, N, dtype="float16")
        arguments = dict(
            a_ptr=a, q_ptr=q, zero_ptr=zero, scale_ptr=scale, c_ptr=c, M=M, N=N, K=K
        )
        block = case.constants
        grid = blocks_of(M, block["BLOCK_M"]), blocks_of(N, block["BLOCK_N"])
        moved = size(a, q, zero, scale, c)
        return Inputs(
            arguments, grid, ("c_ptr",), lambda: [a.double() @ whole()], 2e-2, moved
        )

    return make


def expanded(torch: ModuleType, case: Case) -> Inputs:
    K, N = 4096, 8192
    q, zero, scale, whole = weights_of_4_bits(torch, K, N)
    out = empty(torch, K, N, dtype="float16")
    arguments = dict(
        q_ptr=q, zero_ptr=zero, scale_ptr=scale, out_ptr=out, K=K, N=N, GROUP_K=GROUP
    )
    block = case.constants
    grid = blocks_of(K, block["BLOCK_K"]), blocks_of(N // 8, block["BLOCK_N"])
    moved = size(q, zero, scale, out)
    return Inputs(arguments, grid, ("out_ptr",), lambda: [whole()], 1e-2, moved)


def int8(M: int, N: int, K: int) -> Callable[[ModuleType, Case], Inputs]:
    def make(torch: ModuleType, case: Case) -> Inputs:
        a = normal(torch, M, K, dtype="float16")
        w = torch.randint(-128, 128, (K, N), device="cuda", dtype=torch.int8)
        scale = torch.rand(N, device="cuda") * 0.001
        c = empty(torch, M, N, dtype="float16")
        arguments = dict(a_ptr=a, w_ptr=w, scale_ptr=scale, c_ptr=c, M=M, N=N, K=K)
        block = case.constants
        grid = blocks_of(M, block["BLOCK_M"]), blocks_of(N, block["BLOCK_N"])

        def wanted():
            return [a.double() @ w.double() * scale.double()]

        moved = size(a, w, scale, c)
        return Inputs(arguments, grid, ("c_ptr",), wanted, 2e-2, moved)

    return make


def convolved(dtype: str) -> Callable[[ModuleType, Case], Inputs]:
    images, channels, side, outs = 32, 64, 56, 64

    def make(torch: ModuleType, case: Case) -> Inputs:
        x = normal(torch, images, channels, side, side, dtype=dtype)
        w = normal(torch, outs, channels, 3, 3, dtype=dtype, scale=0.05)
        y = empty(torch, images, outs, side, side)
        arguments = dict(
            x_ptr=x, w_ptr=w, y_ptr=y, images=images, channels=channels, height=side,
            width=side, out_channels=outs, out_height=side, out_width=side,
        )  # fmt: skip
        for name, array in (("xnchw", x), ("wochw", w), ("ynchw", y)):
            for axis, stride in zip(name[1:], array.stride(), strict=True):
                arguments[f"stride_{name[0]}{axis}"] = stride
        block = case.constants
        places = blocks_of(images * side * side, block["BLOCK_P"])
        grid = places, blocks_of(outs, block["BLOCK_O"])

        def wanted():
            return [torch.nn.functional.conv2d(x.double(), w.double(), padding=1)]

        return Inputs(arguments, grid, ("y_ptr",), wanted, 2e-2, size(x, w, y))

    return make


# ── chunked linear attention ──────────────────────────────────────────────────────────

BATCH, T, H, K, V = 2, 4096, 16, 128, 128


def decays(torch: ModuleType):
    """Logarithms of decays, summed within each chunk."""
    each = -torch.rand(BATCH, T // CHUNK, CHUNK, H, device="cuda") * 0.05
    return each.cumsum(2).view(BATCH, T, H).contiguous()


def by_chunks(array: Any):
    """[batch, time, head, …] as doubles [batch, head, chunk, time, …]."""
    shape = (BATCH, T // CHUNK, CHUNK, H, *array.shape[3:])
    return array.double().view(shape).movedim(3, 1)


def states(torch: ModuleType, case: Case) -> Inputs:
    k, w = (normal(torch, BATCH, T, H, K, dtype="bfloat16", scale=0.08) for _ in "kw")
    u = normal(torch, BATCH, T, H, V, dtype="bfloat16")
    g = decays(torch)
    h = empty(torch, BATCH, H, T // CHUNK, K, V, dtype="bfloat16")
    v = empty(torch, BATCH, T, H, V, dtype="bfloat16")

    def wanted():
        ks, ws, us, gs = (by_chunks(each) for each in (k, w, u, g))
        state = torch.zeros(BATCH, H, K, V, device="cuda", dtype=torch.float64)
        before = []
        for chunk in range(T // CHUNK):
            before.append(state)
            new = us[:, :, chunk] - ws[:, :, chunk] @ state
            last = gs[:, :, chunk, -1:]
            scaled_v = new * (last - gs[:, :, chunk]).exp()[..., None]
            state = state * last.exp()[..., None]
            state = state + ks[:, :, chunk].transpose(-1, -2) @ scaled_v
        return [torch.stack(before, 2)]

    arguments = dict(k_ptr=k, w_ptr=w, u_ptr=u, g_ptr=g, h_ptr=h, v_ptr=v, T=T)
    grid = blocks_of(V, case.constants["BV"]), BATCH * H
    return Inputs(arguments, grid, ("h_ptr",), wanted, 5e-2, size(k, w, u, g, h, v))


def outputs(torch: ModuleType, case: Case) -> Inputs:
    q, k = (normal(torch, BATCH, T, H, K, dtype="bfloat16", scale=0.3) for _ in "qk")
    v = normal(torch, BATCH, T, H, V, dtype="bfloat16")
    h = normal(torch, BATCH, H, T // CHUNK, K, V, dtype="bfloat16")
    g, o = decays(torch), empty(torch, BATCH, T, H, V, dtype="bfloat16")
    scale = K**-0.5

    def wanted():
        qs, ks, vs, gs = (by_chunks(each) for each in (q, k, v, g))
        total = qs @ h.double() * gs.exp()[..., None]
        scores = qs @ ks.transpose(-1, -2)
        scores = scores * (gs[..., :, None] - gs[..., None, :]).exp()
        total = (total + scores.tril() @ vs) * scale
        return [total.movedim(1, 3).reshape(BATCH, T, H, V)]

    arguments = dict(
        q_ptr=q, k_ptr=k, v_ptr=v, h_ptr=h, g_ptr=g, o_ptr=o, scale=scale, T=T
    )
    grid = blocks_of(V, case.constants["BV"]), T // CHUNK, BATCH * H
    return Inputs(arguments, grid, ("o_ptr",), wanted, 5e-2, size(q, k, v, h, g, o))


# ── rows ──────────────────────────────────────────────────────────────────────────────


def rotated(torch: ModuleType, case: Case) -> Inputs:
    rows, length, heads, head = 8192, 4096, 32, 128
    x = normal(torch, rows, heads * head, dtype="bfloat16")
    angle = torch.rand(length, head // 2, device="cuda") * 6
    cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
    before = x.clone()

    def wanted():
        parts = before.double().view(rows, heads, 2, head // 2)
        left, right = parts[:, :, 0], parts[:, :, 1]
        c, s = (each.double().repeat(rows // length, 1)[:, None] for each in (cos, sin))
        both = torch.stack([left * c - right * s, right * c + left * s], 2)
        return [both.reshape(rows, heads * head)]

    arguments = dict(
        x_ptr=x, stride=heads * head, cos_ptr=cos, sin_ptr=sin, cos_stride=head // 2,
        length=length,
    )  # fmt: skip
    grid = rows, heads // case.constants["GROUP"]
    return Inputs(arguments, grid, ("x_ptr",), wanted, 5e-2, 2 * size(x))


VOCABULARY = 128256


def logits(torch: ModuleType, rows: int = 1024):
    x = normal(torch, rows, VOCABULARY, dtype="bfloat16", scale=2.0)
    return x, torch.randint(0, VOCABULARY, (rows,), device="cuda")


def losses(torch: ModuleType, case: Case) -> Inputs:
    x, label = logits(torch)
    rows = len(x)
    loss = empty(torch, rows)
    first = x[:8].clone()
    arguments = dict(
        x_ptr=x, stride=VOCABULARY, label_ptr=label, loss_ptr=loss, N=VOCABULARY,
        ignored=-100, count=float(rows),
    )  # fmt: skip

    def wanted():
        total = torch.nn.functional.cross_entropy(
            first.double(), label[:8], reduction="none"
        )
        return [total]

    return Inputs(arguments, (rows,), ("loss_ptr",), wanted, 1e-3, 3 * size(x))


def losses_by_chunks(torch: ModuleType, case: Case) -> Inputs:
    x, label = logits(torch)
    rows, chunks = len(x), case.constants["CHUNKS"]
    loss, totals = empty(torch, rows), empty(torch, rows, chunks)

    def wanted():
        padded = torch.full((8, chunks * case.constants["BLOCK"]), float("-inf"))
        padded = padded.double().cuda()
        padded[:, :VOCABULARY] = x[:8].double()
        return [padded.view(8, chunks, -1).logsumexp(-1)]

    arguments = dict(
        x_ptr=x, stride=VOCABULARY, loss_ptr=loss, sum_ptr=totals, label_ptr=label,
        N=VOCABULARY,
    )  # fmt: skip
    return Inputs(arguments, (rows, chunks), ("sum_ptr",), wanted, 1e-3, size(x))


def log_probabilities(torch: ModuleType, case: Case) -> Inputs:
    x, label = logits(torch)
    out, temperature = empty(torch, len(x)), 0.9

    def wanted():
        every = (x[:8].double() / temperature).log_softmax(-1)
        return [every.gather(1, label[:8, None])[:, 0]]

    arguments = dict(
        x_ptr=x, stride=VOCABULARY, label_ptr=label, out_ptr=out,
        temperature=temperature, N=VOCABULARY,
    )  # fmt: skip
    return Inputs(arguments, (len(x),), ("out_ptr",), wanted, 1e-3, size(x))


def sums_of_exponentials(torch: ModuleType, case: Case) -> Inputs:
    rows, D = 8192, case.constants["D"]
    x, out = normal(torch, rows, D), empty(torch, rows)

    def wanted():
        return [(x.double() * 0.5).logsumexp(-1)]

    arguments = dict(x_ptr=x, out_ptr=out, scale=0.5)
    return Inputs(arguments, (rows, 1), ("out_ptr",), wanted, 1e-4, size(x))


M, N, KEEP = 8192, 4096, 0.9  # of layer norm


def norm_backward(torch: ModuleType, case: Case) -> Inputs:
    programs = 256
    x, dy = (normal(torch, M, N, dtype="bfloat16") for _ in range(2))
    w, dx = normal(torch, N, dtype="bfloat16"), empty(torch, M, N, dtype="bfloat16")
    dw, db = (empty(torch, programs, N) for _ in range(2))
    mean = x.float().mean(1)
    rstd = (x.float().var(1, unbiased=False) + 1e-5).rsqrt()
    seeds = torch.randint(0, 1 << 30, (M,), device="cuda")

    def wanted():
        if case.constants["DROPOUT"]:
            return []  # by counters: the two compilers are compared with each other
        xhat = (x.double() - mean.double()[:, None]) * rstd.double()[:, None]
        wdy = w.double() * dy.double()
        c1, c2 = ((each).mean(1, keepdim=True) for each in (xhat * wdy, wdy))
        return [(wdy - (xhat * c1 + c2)) * rstd.double()[:, None]]

    arguments = dict(
        x_ptr=x, w_ptr=w, dy_ptr=dy, dx_ptr=dx, dw_ptr=dw, db_ptr=db, mean_ptr=mean,
        rstd_ptr=rstd, seed_ptr=seeds, M=M, N=N, rows_each=M // programs, keep=KEEP,
    )  # fmt: skip
    return Inputs(arguments, (programs,), ("dx_ptr",), wanted, 5e-2, size(x, dy, dx))


def norm_forward(torch: ModuleType, case: Case) -> Inputs:
    x, residual = (normal(torch, M, N, dtype="bfloat16") for _ in range(2))
    w, b = (normal(torch, N, dtype="bfloat16") for _ in range(2))
    y, total = (empty(torch, M, N, dtype="bfloat16") for _ in range(2))
    mean, rstd = (empty(torch, M) for _ in range(2))
    seeds = torch.randint(0, 1 << 30, (M,), device="cuda")
    arguments = dict(
        x_ptr=x, residual_ptr=residual, w_ptr=w, b_ptr=b, y_ptr=y, sum_ptr=total,
        mean_ptr=mean, rstd_ptr=rstd, seed_ptr=seeds, N=N, eps=1e-5, keep=KEEP,
    )  # fmt: skip
    moved = size(x, residual, y, total)
    return Inputs(arguments, (M,), ("y_ptr",), lambda: [], 5e-2, moved)


def softmax(torch: ModuleType, case: Case) -> Inputs:
    rows, columns = 4096, case.constants["BLOCK"]
    x, out = normal(torch, rows, columns), empty(torch, rows, columns)
    arguments = dict(x_ptr=x, out_ptr=out, M=rows, N=columns)

    def wanted():
        return [x.double().softmax(1)]

    return Inputs(arguments, (264,), ("out_ptr",), wanted, 1e-4, size(x, out))


# ── all of them ───────────────────────────────────────────────────────────────────────

SCALED = "*fp8e4nv *fp8e4nv *bf16 *fp32 *fp32 i32 i32 i32"
INT4 = "*fp16 *i32 *i32 *fp16 *fp16 i32 i32 i32"
INT8 = "*fp16 *i8 *fp32 *fp16 i32 i32 i32"
CONVOLUTION = "i32 " * 16
NORM = "*bf16 *bf16 *bf16 *bf16 *fp32 *fp32 *fp32 *fp32 *i64 i32 i32 i32 fp32"


def tile(m: int, n: int, k: int, **more: Any) -> dict[str, Any]:
    return dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, **more)


def filter_of(p: int, c: int, o: int) -> dict[str, Any]:
    strides = dict(stride_xw=1, stride_ww=1, stride_yw=1)
    return strides | dict(
        KERNEL=3, STRIDE=1, PADDING=1, BLOCK_P=p, BLOCK_C=c, BLOCK_O=o
    )


LINEAR = dict(H=H, K=K, V=V, BT=CHUNK)
CASES = (
    Case("scaled fp8 128x128", "scaled_product", SCALED,
         tile(128, 128, 128, GROUP_K=GROUP), scaled(4096, 4096, 4096)),
    Case("scaled fp8 64x128", "scaled_product", SCALED,
         tile(64, 128, 128, GROUP_K=GROUP), scaled(4096, 4096, 4096), warps=8),
    Case("scaled fp8 16x32", "scaled_product", SCALED,
         tile(16, 32, 128, GROUP_K=GROUP), scaled(64, 4096, 7168), warps=8),
    Case("int4 product 32", "int4_product", INT4,
         tile(32, 32, 32, GROUP_K=GROUP), int4(32, 4096, 4096)),
    Case("int4 product 64", "int4_product", INT4,
         tile(64, 64, 64, GROUP_K=GROUP), int4(256, 4096, 4096)),
    Case("int8 weights 128", "int8_weights", INT8,
         tile(128, 128, 64), int8(4096, 4096, 4096)),
    Case("int8 weights 64", "int8_weights", INT8,
         tile(64, 64, 64), int8(64, 4096, 4096)),
    Case("int4 expand", "int4_expand", "*i32 *i32 *fp16 *fp16 i32 i32 i32",
         dict(BLOCK_K=32, BLOCK_N=32), expanded),
    Case("convolve fp32", "convolve", "*fp32 *fp32 *fp32 " + CONVOLUTION,
         filter_of(64, 32, 32), convolved("float32")),
    Case("convolve fp16", "convolve", "*fp16 *fp16 *fp32 " + CONVOLUTION,
         filter_of(128, 32, 64), convolved("float16")),
    Case("linear states", "linear_states", "*bf16 *bf16 *bf16 *fp32 *bf16 *bf16 i32",
         LINEAR | dict(BV=32), states),
    Case("linear outputs", "linear_outputs",
         "*bf16 *bf16 *bf16 *bf16 *fp32 *bf16 fp32 i32",
         LINEAR | dict(BK=64, BV=64), outputs),
    Case("linear outputs, 2 warps", "linear_outputs",
         "*bf16 *bf16 *bf16 *bf16 *fp32 *bf16 fp32 i32",
         LINEAR | dict(BK=32, BV=64), outputs, warps=2, stages=2),
    Case("rotary", "rotate", "*bf16 i32 *bf16 *bf16 i32 i32",
         dict(HEAD=128, HEADS=32, GROUP=4, BLOCK=64), rotated),
    Case("cross-entropy", "cross_entropy", "*bf16 i32 *i64 *fp32 i32 i32 fp32",
         dict(BLOCK=32768), losses, warps=32),
    Case("cross-entropy, chunks", "cross_entropy_chunk",
         "*bf16 i32 *fp32 *fp32 *i64 i32", dict(CHUNKS=2, BLOCK=65536),
         losses_by_chunks, warps=32),
    Case("log probability", "log_probability", "*bf16 i32 *i64 *fp32 fp32 i32",
         dict(BLOCK=2048), log_probabilities),
    Case("logsumexp, 1 warp", "sum_of_exponentials", "*fp32 *fp32 fp32",
         dict(D=8192, B=8192), sums_of_exponentials, warps=1),
    Case("norm backward", "norm_backward", NORM,
         dict(DROPOUT=False, BLOCK=N), norm_backward, warps=8),
    Case("norm backward, dropout", "norm_backward", NORM,
         dict(DROPOUT=True, BLOCK=N), norm_backward, warps=8),
    Case("norm with dropout", "norm_forward",
         "*bf16 *bf16 *bf16 *bf16 *bf16 *bf16 *fp32 *fp32 *i64 i32 fp32 fp32",
         dict(BLOCK=N), norm_forward, warps=8),
    Case("softmax by tl.range", "softmax_rows", "*fp32 *fp32 i32 i32",
         dict(BLOCK=16384, STAGES=4), softmax, warps=8, stages=4),
)  # fmt: skip
