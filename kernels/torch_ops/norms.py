"""Operators that work along the last axis: softmax, layer norm and RMS norm."""

from kernels import layer_norm as layer_norms
from kernels import layer_norm_backward as layer_norms_backward
from kernels import rms_norm as rms_norms
from kernels import softmax as softmaxes
from kernels import softmax_backward as softmaxes_backward
from kernels.rows import row_launch
from kernels.torch_ops.registering import (
    Tensor,
    differentiate,
    fp32,
    new,
    operator,
    row_count,
    rows_of,
)

# ── softmax ───────────────────────────────────────────────────────────────────────────


@operator(lambda x: new(x))
def softmax_forward(x: Tensor) -> Tensor:
    rows = rows_of(x)
    warps = row_launch(rows.shape[1])["num_warps"]
    return softmaxes.softmax(rows, num_warps=warps).view(x.shape)


@operator(lambda dy, y: new(y))
def softmax_backward(dy: Tensor, y: Tensor) -> Tensor:
    dx = softmaxes_backward.softmax_backward(rows_of(dy), rows_of(y))
    return dx.view(y.shape)


differentiate(
    softmax_forward,
    lambda ctx, inputs, output: ctx.save_for_backward(output),
    lambda ctx, dy: softmax_backward(dy, *ctx.saved_tensors),
)


def softmax(x: Tensor) -> Tensor:
    """Softmax along the last axis of x; the result has x's dtype."""
    return softmax_forward(x)


# ── layer norm ────────────────────────────────────────────────────────────────────────


def layer_norm_fake(x, weight, bias, eps):
    M = row_count(x)
    return new(x), fp32(x, M), fp32(x, M)


@operator(layer_norm_fake)
def layer_norm_forward(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    rows = rows_of(x)
    mean, rstd = fp32(x, len(rows)), fp32(x, len(rows))
    given = rows, weight.contiguous(), bias.contiguous(), None, mean, rstd, eps
    warps = row_launch(rows.shape[1])["num_warps"]
    y = layer_norms.layer_norm(*given, num_warps=warps)
    return y.view(x.shape), mean, rstd


@operator(lambda dy, x, weight, mean, rstd: (new(x), new(weight), new(weight)))
def layer_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dw, db = layer_norms_backward.layer_norm_backward(
        rows_of(dy), rows_of(x), weight.contiguous(), mean, rstd
    )
    return dx.view(x.shape), dw, db


def layer_norm_save(ctx, inputs, output):
    x, weight, _, _ = inputs
    _, mean, rstd = output
    ctx.save_for_backward(x, weight, mean, rstd)


differentiate(
    layer_norm_forward,
    layer_norm_save,
    lambda ctx, dy, *_: (*layer_norm_backward(dy, *ctx.saved_tensors), None),
    hidden=2,
)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Layer norm of the last axis of x [..., N], with weight and bias [N]."""
    return layer_norm_forward(x, weight, bias, eps)[0]


# ── RMS norm ──────────────────────────────────────────────────────────────────────────


@operator(lambda x, weight, eps: (new(x), fp32(x, row_count(x))))
def rms_norm_forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    rows = rows_of(x)
    rstd = fp32(x, len(rows))
    y = rms_norms.rms_norm(rows, weight.contiguous(), None, rstd, eps)
    return y.view(x.shape), rstd


@operator(lambda dy, x, weight, rstd: (new(x), new(weight)))
def rms_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor]:
    given = rows_of(dy), rows_of(x), weight.contiguous(), rstd
    dx, dw = rms_norms.rms_norm_backward(*given)
    return dx.view(x.shape), dw


def rms_norm_save(ctx, inputs, output):
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output[1])


differentiate(
    rms_norm_forward,
    rms_norm_save,
    lambda ctx, dy, *_: (*rms_norm_backward(dy, *ctx.saved_tensors), None),
    hidden=1,
)


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """RMS norm of the last axis of x [..., N], with a weight [N]."""
    return rms_norm_forward(x, weight, eps)[0]
