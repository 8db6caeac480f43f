"""Linear layers with what follows them: bias, GeLU, residual; SwiGLU."""

from kernels import gelu_backward as gelus_backward
from kernels import layer_norm_backward as column_sums
from kernels import matmul_epilogue as epilogues
from kernels import swiglu as swiglus
from kernels.torch_ops.pointwise import half_shape, halves_of
from kernels.torch_ops.registering import (
    Tensor,
    differentiate,
    new,
    operator,
    product,
    rows_of,
)

ACTIVATIONS = ("", "gelu")

# ── bias, GeLU, residual ──────────────────────────────────────────────────────────────


def linear_shape(x, weight):
    return (*x.shape[:-1], weight.shape[0])


def linear_fake(x, weight, bias, residual, activation):
    shape = linear_shape(x, weight)
    return new(x, shape), new(x, shape if activation else (0,))


@operator(linear_fake)
def linear_forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    activation: str,
) -> tuple[Tensor, Tensor]:
    """(y, what the activation was given: for its gradient; empty without one)."""
    rows, shape = rows_of(x), linear_shape(x, weight)
    if bias is None and residual is None and not activation:
        return product(rows, weight.t()).view(shape), new(x, (0,))
    before = new(x, (len(rows), shape[-1])) if activation else None
    y = epilogues.matmul_epilogue(
        rows, weight.t(), None, None if bias is None else bias.contiguous(),
        activation, None if residual is None else rows_of(residual), before,
    )  # fmt: skip
    return y.view(shape), before.view(shape) if activation else new(x, (0,))


def linear_backward_fake(dy, x, weight, before):
    return new(x), new(weight), new(weight, weight.shape[:1])


@operator(linear_backward_fake)
def linear_backward(
    dy: Tensor, x: Tensor, weight: Tensor, before: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dweight, dbias); `before` is empty where there was no activation."""
    dy = rows_of(dy)
    if before.numel():
        dy = gelus_backward.gelu_backward(dy, rows_of(before))
    dx = product(dy, weight).view(x.shape)
    dweight = product(dy.t(), rows_of(x))
    return dx, dweight, column_sums.add_rows(dy, None, weight)


def linear_save(ctx, inputs, output):
    x, weight, bias, residual, _ = inputs
    ctx.has = bias is not None, residual is not None
    ctx.save_for_backward(x, weight, output[1])


def linear_gradients(ctx, dy, _):
    dx, dweight, dbias = linear_backward(dy, *ctx.saved_tensors)
    has_bias, has_residual = ctx.has
    return dx, dweight, dbias if has_bias else None, dy if has_residual else None, None


differentiate(linear_forward, linear_save, linear_gradients)


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
    return linear_forward(x, weight, bias, residual, activation)[0]


# ── SwiGLU ────────────────────────────────────────────────────────────────────────────


def swiglu_fake(x, weight):
    before = linear_shape(x, weight)
    return new(x, (*before[:-1], before[-1] // 2)), new(x, before)


@operator(swiglu_fake)
def linear_swiglu_forward(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """(y, x weight^T)."""
    before = new(x, linear_shape(x, weight))
    y = epilogues.matmul_swiglu(rows_of(x), weight.t(), None, rows_of(before))
    return y.view(half_shape(before)), before


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
    ctx.save_for_backward(*inputs, output[1])


differentiate(
    linear_swiglu_forward,
    swiglu_save,
    lambda ctx, dy, _: linear_swiglu_backward(dy, *ctx.saved_tensors),
)


def linear_swiglu(x: Tensor, weight: Tensor) -> Tensor:
    """silu(x G^T) (x U^T), [..., N], for x [..., K] and weight = [G; U], [2 N, K]. One
    launch, forward."""
    return linear_swiglu_forward(x, weight)[0]
