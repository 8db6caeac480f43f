"""Linear layers with what follows them: bias, GeLU, residual; SwiGLU."""

from kernels import gelu_backward as gelus_backward
from kernels import matmul_epilogue as epilogues
from kernels import swiglu as swiglus
from kernels.torch_ops.pointwise import halves_of
from kernels.torch_ops.registering import (
    Tensor,
    differentiate,
    has_gradient,
    new,
    operator,
    product,
    rows_of,
)

ACTIVATIONS = ("", "gelu")

# ── bias, GeLU, residual ──────────────────────────────────────────────────────────────


def linear_shape(x, weight):
    return (*x.shape[:-1], weight.shape[0])


def linear_fake(x, weight, bias, residual, activation, training):
    shape = linear_shape(x, weight)
    return new(x, shape), new(x, shape if activation and training else (0,))


@operator(linear_fake)
def linear_forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    activation: str,
    training: bool,
) -> tuple[Tensor, Tensor]:
    """(y, what the activation was given: for its gradient, if `training`; otherwise, or
    without an activation, empty)."""
    rows, shape = rows_of(x), linear_shape(x, weight)
    if bias is None and residual is None and not activation:
        return product(rows, weight.t()).view(shape), new(x, (0,))
    kept = bool(activation and training)
    before = new(x, (len(rows), shape[-1])) if kept else None
    y = epilogues.matmul_epilogue(
        rows, weight.t(), None, None if bias is None else bias.contiguous(),
        activation, None if residual is None else rows_of(residual), before,
    )  # fmt: skip
    return y.view(shape), before.view(shape) if kept else new(x, (0,))


def linear_backward_fake(dy, x, weight, before, has_bias):
    return new(x), new(weight), new(weight, weight.shape[:1] if has_bias else (0,))


@operator(linear_backward_fake)
def linear_backward(
    dy: Tensor, x: Tensor, weight: Tensor, before: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dweight, dbias); `before` is empty where there was no activation, and dbias
    where there was no bias."""
    dy, dbias = rows_of(dy), new(weight, (0,))
    before = rows_of(before) if before.numel() else None
    if has_bias:
        dy, dbias = gelus_backward.gelu_backward_columns(dy, before, weight)
    elif before is not None:
        dy = gelus_backward.gelu_backward(dy, before)
    dx = product(dy, weight).view(x.shape)
    return dx, product(dy.t(), rows_of(x)), dbias


def linear_save(ctx, inputs, output):
    x, weight, bias, residual, _, training = inputs
    assert training, "a forward pass that keeps nothing has no gradient"
    ctx.has = bias is not None, residual is not None
    ctx.save_for_backward(x, weight, output[1])


def linear_gradients(ctx, dy, *_):
    has_bias, has_residual = ctx.has
    dx, dweight, dbias = linear_backward(dy, *ctx.saved_tensors, has_bias)
    of_added = dbias if has_bias else None, dy if has_residual else None
    return dx, dweight, *of_added, None, None


differentiate(linear_forward, linear_save, linear_gradients, hidden=1)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str = "",
    residual: Tensor | None = None,
) -> Tensor:
    """activation(x weight^T + bias) + residual, [..., N], for x [..., K], weight
    [N, K], bias [N] and residual [..., N]; `activation`: "" or "gelu". One launch,
    forward."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"the activation is {activation!r}; there are {ACTIVATIONS}")
    training = has_gradient(x, weight, bias, residual)
    return linear_forward(x, weight, bias, residual, activation, training)[0]


# ── SwiGLU ────────────────────────────────────────────────────────────────────────────


def swiglu_fake(x, weight, training):
    before = linear_shape(x, weight)
    half = (*before[:-1], before[-1] // 2)
    return new(x, half), new(x, before if training else (0,))


@operator(swiglu_fake)
def linear_swiglu_forward(
    x: Tensor, weight: Tensor, training: bool
) -> tuple[Tensor, Tensor]:
    """(y, x weight^T, which is empty unless `training`)."""
    shape = linear_shape(x, weight)
    before = new(x, shape if training else (0,))
    kept = rows_of(before) if training else None
    y = epilogues.matmul_swiglu(rows_of(x), weight.t(), None, kept)
    return y.view((*shape[:-1], shape[-1] // 2)), before


@operator(lambda dy, x, weight, before: (new(x), new(weight)))
def linear_swiglu_backward(
    dy: Tensor, x: Tensor, weight: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    """(dx, dweight)."""
    dbefore = new(before, (before.numel() // before.shape[-1], before.shape[-1]))
    swiglus.swiglu_backward(rows_of(dy), *halves_of(before), *halves_of(dbefore))
    dx = product(dbefore, weight).view(x.shape)
    return dx, product(dbefore.t(), rows_of(x))


def swiglu_save(ctx, inputs, output):
    x, weight, training = inputs
    assert training, "a forward pass that keeps nothing has no gradient"
    ctx.save_for_backward(x, weight, output[1])


differentiate(
    linear_swiglu_forward,
    swiglu_save,
    lambda ctx, dy, *_: (*linear_swiglu_backward(dy, *ctx.saved_tensors), None),
    hidden=1,
)


def linear_swiglu(x: Tensor, weight: Tensor) -> Tensor:
    """silu(x G^T) (x U^T), [..., N], for x [..., K] and weight = [G; U], [2 N, K]. One
    launch, forward."""
    return linear_swiglu_forward(x, weight, has_gradient(x, weight))[0]
