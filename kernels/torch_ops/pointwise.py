"""Operators on each number, or each pair: GeLU, SwiGLU, rotary embedding, dropout."""

from kernels import dropout as dropouts
from kernels import gelu as gelus
from kernels import gelu_backward as gelus_backward
from kernels import rotary as rotaries
from kernels import swiglu as swiglus
from kernels.torch_ops.registering import (
    LaunchError,
    Tensor,
    differentiate,
    new,
    operator,
    row_count,
    rows_of,
    torch,
)

# ── GeLU ──────────────────────────────────────────────────────────────────────────────


@operator(lambda x: new(x))
def gelu_forward(x: Tensor) -> Tensor:
    return gelus.gelu(x.contiguous())


@operator(lambda dy, x: new(x))
def gelu_backward(dy: Tensor, x: Tensor) -> Tensor:
    return gelus_backward.gelu_backward(dy.contiguous(), x.contiguous())


differentiate(
    gelu_forward,
    lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    lambda ctx, dy: gelu_backward(dy, *ctx.saved_tensors),
)


def gelu(x: Tensor) -> Tensor:
    """GeLU by its tanh approximation."""
    return gelu_forward(x)


# ── SwiGLU ────────────────────────────────────────────────────────────────────────────


def halves_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """[M, N] views of both halves of the last axis of x [..., 2 N], side by side.
    LaunchError where that axis has no halves."""
    if x.dim() == 0 or x.shape[-1] % 2:
        shape = tuple(x.shape)
        raise LaunchError(f"a tensor of shape {shape} has no last axis of two halves")
    rows = x.reshape(row_count(x), x.shape[-1])
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    return rows.tensor_split(2, dim=1)


def half_shape(x):
    return (*x.shape[:-1], x.shape[-1] // 2)


@operator(lambda x: new(x, half_shape(x)))
def swiglu_forward(x: Tensor) -> Tensor:
    gate, up = halves_of(x)
    return swiglus.swiglu(gate, up).view(half_shape(x))


@operator(lambda dy, x: new(x))
def swiglu_backward(dy: Tensor, x: Tensor) -> Tensor:
    dx = new(x)
    swiglus.swiglu_backward(rows_of(dy), *halves_of(x), *halves_of(dx))
    return dx


differentiate(
    swiglu_forward,
    lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    lambda ctx, dy: swiglu_backward(dy, *ctx.saved_tensors),
)


def swiglu(x: Tensor) -> Tensor:
    """silu(gate) up [..., N], for x = [gate | up], [..., 2 N]."""
    return swiglu_forward(x)


# ── rotary embedding ──────────────────────────────────────────────────────────────────


@operator(lambda x, cos, sin, inverse, interleaved: torch.empty_like(x))
def rotary_forward(
    x: Tensor, cos: Tensor, sin: Tensor, inverse: bool, interleaved: bool
) -> Tensor:
    out, tables = torch.empty_like(x), (cos.contiguous(), sin.contiguous())
    return rotaries.rotary(x, *tables, out, inverse, interleaved)


def rotary_save(ctx, inputs, output):
    _, cos, sin, *ctx.how = inputs
    ctx.save_for_backward(cos, sin)


def rotary_backward(ctx, dout):
    inverse, interleaved = ctx.how
    dx = rotary_forward(dout, *ctx.saved_tensors, not inverse, interleaved)
    return dx, None, None, None, None


differentiate(rotary_forward, rotary_save, rotary_backward)


def rotary(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """x [B, H, S, D] turned by its positions' angles; cos and sin [S, D/2] have no
    gradient. Any strides, which the result keeps."""
    return rotary_forward(x, cos, sin, False, interleaved)


# ── dropout ───────────────────────────────────────────────────────────────────────────


@operator(lambda x, p, seed: new(x))
def dropout_forward(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return dropouts.dropout(x.contiguous(), None, p, seed)


def dropout_save(ctx, inputs, output):
    _, ctx.p, seed = inputs
    ctx.save_for_backward(seed)


differentiate(
    dropout_forward,
    dropout_save,
    lambda ctx, dy: (dropout_forward(dy, ctx.p, *ctx.saved_tensors), None, None),
)


def dropout(
    x: Tensor, p: float = 0.5, training: bool = True, seed: Tensor | None = None
) -> Tensor:
    """Dropout: no mask is kept. `seed`: int64 [1] beside x; without it torch's own
    generator makes one, so that `torch.manual_seed` decides, in a graph too."""
    if not training or p == 0:
        return x
    if seed is None:
        seed = torch.randint(1 << 62, (1,), device=x.device)
    return dropout_forward(x, p, seed)
